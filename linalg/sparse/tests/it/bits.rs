//! Bits of answers: no machine, number of workers or later change of the code changes them without
//! being noticed.

use zellige_runtime::Runtime;
use zellige_sparse::generate::{
    Biot, Elasticity, Elements, Flow, Transport, biot, elasticity, flow, transport,
};
use zellige_sparse::krylov::{History, Stop};
use zellige_sparse::system::{Options, System};
use zellige_sparse::{Csr, Error};

/// Returns the FNV-1a hash.
fn hash(words: impl Iterator<Item = u64>) -> u64 {
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
    words.fold(0xcbf2_9ce4_8422_2325, step)
}

fn bits(numbers: &[f64]) -> u64 {
    hash(numbers.iter().map(|x| x.to_bits()))
}

fn rhs(rows: usize, k: usize) -> Vec<f64> {
    (0..rows).map(|i| ((i * (37 + k) % 101) as f64 - 50.0) / 50.0).collect()
}

/// Solved case: method, preconditioner, products, scaling; right-hand sides at once; steps, and the
/// bits of answers and of residuals.
type Case = (&'static str, [&'static str; 4], usize, usize, u64);

const CASES: &[Case] = &[
    ("flow", ["cg", "none", "fp64", "none"], 1, 60, 0xde95_e3bd_a55d_d63c),
    ("flow", ["cg", "ilu0", "fp64", "none"], 1, 38, 0x9c95_e866_8b1e_9608),
    ("flow", ["cg", "amg", "fp64", "none"], 2, 16, 0xe1dc_170c_e7b2_6e21),
    ("flow", ["cg", "chebyshev:4", "fp64", "none"], 1, 40, 0x984f_a818_c332_6b50),
    ("flow", ["fcg", "jacobi", "ap7:cw:2^-24", "both"], 1, 60, 0x5a41_2fab_e994_6b2d),
    ("solid", ["cg", "ilu0", "ap4:nw:2^-37", "both"], 4, 177, 0x2503_afcb_1c92_2529),
    ("solid", ["cg", "block:8", "fp64", "none"], 8, 480, 0x93a2_381b_e3ad_9d6b),
    ("solid", ["minres", "jacobi", "fp64", "none"], 1, 60, 0x528e_aa86_44ba_e8ff),
    ("porous", ["minres", "jacobi", "fp64", "auto"], 1, 60, 0x7842_14cf_7e26_8e24),
    ("porous", ["gmres:60", "ilu0", "fp64", "auto"], 1, 60, 0x0666_f3c7_9c47_7c88),
    ("stream", ["bicgstab", "jacobi", "fp64", "none"], 1, 53, 0x4ddc_5b03_366d_bac8),
    ("stream", ["bicgstabl:2", "ilu0", "ap7:cw:2^-37", "rows"], 1, 6, 0xc0e6_9f81_1858_7390),
    ("stream", ["fgmres:30", "jacobi", "fp32", "rows"], 1, 60, 0x58fb_2a27_e6fe_7e4e),
];

#[test]
fn answers_have_the_bits_that_they_had() -> Result<(), Error> {
    let fluid = Flow { cells: [14; 3], spread: 0.5, ..Flow::default() };
    let matrices: [(&str, Csr); 4] = [
        ("flow", flow(&fluid)?),
        ("solid", elasticity(&Elasticity { elements: Elements([6; 3]), ..Elasticity::default() })?),
        ("porous", biot(&Biot { elements: Elements([4; 3]), ..Biot::default() })?),
        ("stream", transport(&Transport { flow: fluid, step: 10.0, ..Transport::default() })?),
    ];
    let mut found = Vec::new();
    for &(name, [method, preconditioner, inner, scaling], count, ..) in CASES {
        let a = &matrices.iter().find(|(one, _)| *one == name).expect("one of the four").1;
        let options = Options {
            method: method.parse()?,
            preconditioner: preconditioner.parse()?,
            inner: inner.parse()?,
            scaling: scaling.parse()?,
            stop: vec![Stop::RelativeToRhs(1e-8), Stop::Steps(60)],
            ..Options::default()
        };
        let rt = Runtime::builder().workers(1 + found.len() % 2).build()?;
        let b: Vec<_> = (0..count).map(|k| rhs(a.rows(), k)).collect();
        let (mut x, mut logs) = (vec![vec![0.0; a.rows()]; count], vec![History::default(); count]);
        let answers = System::new(&rt, a, &options)?.solve_each(&b, &mut x, &mut logs)?;
        let of_each = x.iter().zip(&logs).flat_map(|(x, log)| [bits(x), bits(&log.steps)]);
        let steps: usize = answers.iter().map(|answer| answer.solution.steps).sum();
        println!(
            "{name} {method} {preconditioner} {inner} {scaling}: {steps} {:#018x}",
            hash(of_each.clone())
        );
        found.push((steps, hash(of_each)));
    }
    let expected: Vec<(usize, u64)> = CASES.iter().map(|case| (case.3, case.4)).collect();
    assert_eq!(found, expected);
    Ok(())
}
