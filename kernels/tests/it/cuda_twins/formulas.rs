//! Programs of scalars against this crate's interpreter, bit by bit.

use rand::RngExt;
use zellige_gpu::Address;
use zellige_kernels::cuda::{EncodedFormulas, FormulasAt, formulas_task};
use zellige_kernels::formulas::{Formulas, Op, REMEMBERED, word};

use super::run;
use super::tile::{assert_same, rng, same_f64};

const OWN: usize = 4;
const WIDTH: usize = 3;
const STRIDE: usize = word::OWN + OWN;

/// Returns a program of every operation, then the end of a step.
fn program() -> Formulas {
    let mut program = Formulas::default();
    let [a, b] = [0, 1].map(|own| program.push(Op::Word(word::OWN + own)));
    let [s, t] = [0, 2].map(|sum| program.push(Op::Sum(sum)));
    let constant = program.push(Op::Constant(-0.75));
    let sum = program.push(Op::Add(a, s));
    let difference = program.push(Op::Subtract(sum, b));
    let product = program.push(Op::Multiply(difference, constant));
    let ratio = program.push(Op::Divide(product, t));
    let negative = program.push(Op::Negate(ratio));
    let magnitude = program.push(Op::Magnitude(negative));
    let root = program.push(Op::Root(magnitude));
    let is_less = program.push(Op::AtMost(a, b));
    let chosen = program.push(Op::Select(is_less, root, negative));
    program.push(Op::Set(word::OWN + 2, chosen));
    program.push(Op::EndUnlessPositive(s));
    program.push(Op::Step(root));
    program.push(Op::Set(word::OWN + 3, is_less));
    program
}

/// Words of columns: the first goes on, others are done, reach their goal, make their last step,
/// and so on.
fn words(columns: usize, seed: u64) -> Vec<f64> {
    let mut rng = rng(seed);
    let mut words: Vec<f64> = (0..columns * STRIDE).map(|_| rng.random_range(-2.0..2.0)).collect();
    for (column, words) in words.chunks_exact_mut(STRIDE).enumerate() {
        let (goal, limit) = ([0.0, 0.0, 1e9, 0.0][column % 4], [1e9, 1e9, 1e9, 70.0][column % 4]);
        words[word::STATE] = if column % 4 == 1 { 2.0 } else { 0.0 };
        (words[word::STEPS], words[word::GOAL], words[word::LIMIT]) = (69.0, goal, limit);
    }
    words
}

#[test]
fn bits_are_those_of_the_cpu() {
    let program = program();
    for (seed, (columns, grains)) in
        (1..).zip([(1, vec![1]), (2, vec![3, 0, 2]), (8, vec![1; 64]), (130, vec![2, 1])])
    {
        let mut rng = rng(seed);
        let mut sums: Vec<Vec<f64>> = grains
            .iter()
            .map(|grains| (0..grains * columns * WIDTH).map(|_| rng.random_range(-1.0..1.5)).collect())
            .collect();
        let mut words = words(columns, seed);
        let mut expected = words.clone();
        for (column, words) in expected.chunks_exact_mut(STRIDE).enumerate() {
            let of_column = |sum: usize| {
                let partial = sums.iter().flat_map(|part| part.chunks_exact(columns * WIDTH));
                partial.fold(0.0, |total, grain| total + grain[column * WIDTH + sum])
            };
            if words[word::STATE] == 0.0 {
                program.run(&[0, 1, 2].map(of_column), words);
            }
        }
        let encoded = EncodedFormulas::new(&program, columns * WIDTH).unwrap();
        let at = |v: &mut Vec<f64>| (Address(v.as_mut_ptr().expose_provenance() as u64), 8 * v.len() as u64);
        let sums: Vec<_> = sums.iter_mut().map(at).collect();
        let launch = FormulasAt { columns, numbers: at(&mut words), width: WIDTH, sums: &sums };
        if !run(&formulas_task(&encoded, &launch).unwrap(), seed) {
            return;
        }
        assert_same(&words, &expected, same_f64, &format!("{columns} columns"));
        assert!(
            columns < 100 || words.iter().step_by(STRIDE).any(|state| *state == 3.0),
            "none has broken down"
        );
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (numbers, sums) = ((Address(64), 8 * STRIDE as u64), [(Address(64), 24)]);
    let encoded = EncodedFormulas::new(&program(), WIDTH).unwrap();
    let refused = |at: FormulasAt<'_>| formulas_task(&encoded, &at).unwrap_err().to_string();
    let fits = FormulasAt { columns: 1, numbers, width: WIDTH, sums: &sums };
    assert!(formulas_task(&encoded, &fits).is_ok());
    assert!(refused(FormulasAt { width: 2, ..fits }).contains("number of sums"));
    assert!(refused(FormulasAt { columns: 2, ..fits }).contains("words of a column"));
    assert!(refused(FormulasAt { sums: &[sums[0]; 65], ..fits }).contains("number of parts"));
    let mut long = Formulas::default();
    (0..17).for_each(|k| {
        long.push(Op::Constant(k as f64));
    });
    assert!(EncodedFormulas::new(&long, WIDTH).is_none());
    let mut long = Formulas::default();
    (0..=256).for_each(|_| {
        long.push(Op::Word(REMEMBERED));
    });
    assert!(EncodedFormulas::new(&long, WIDTH).is_none());
}
