//! Systems whose factors are made while the matrix is stored: with more than one worker.

use zellige_runtime::Runtime;
use zellige_sparse::generate::{Flow, flow};
use zellige_sparse::system::{Options, PreconditionerChoice, ScalingChoice, System};
use zellige_sparse::{Csr, Error};

fn answer(system: &System<'_>, rows: usize) -> Result<(Vec<f64>, Vec<String>), Error> {
    let b: Vec<f64> = (0..rows).map(|i| (i * 7 % 11) as f64 - 5.0).collect();
    let mut x = [vec![0.0; rows]];
    let answers = system.solve_each(&[b], &mut x, &mut [()])?;
    assert!(answers[0].solution.reason.is_converged());
    let [x] = x;
    Ok((x, answers[0].attempts.iter().map(|attempt| attempt.method.clone()).collect()))
}

#[test]
fn answers_are_the_same_whenever_factors_are_made() -> Result<(), Error> {
    for a in [flow(&Flow { cells: [20, 14, 12], ..Flow::default() })?, without(|_| false)?] {
        let mut answers = Vec::new();
        for workers in [1, 2] {
            let rt = Runtime::builder().workers(workers).build()?;
            answers.push(answer(&System::new(&rt, &a, &Options::default())?, a.rows())?);
        }
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
    }
    Ok(())
}

/// Returns a symmetric indefinite matrix without the diagonal entries of some rows.
fn without(rows: impl Fn(u32) -> bool) -> Result<Csr, Error> {
    let n = 500;
    let beside = (1..n).flat_map(|i| [(i, i - 1, 1.0), (i - 1, i, 1.0)]);
    let diagonal = (0..n).filter(|&i| !rows(i)).map(|i| (i, i, if i % 2 == 0 { 4.0 } else { -4.0 }));
    Csr::from_triplets(n as usize, n as usize, &beside.chain(diagonal).collect::<Vec<_>>())
}

#[test]
fn missing_factors_are_reported_by_the_attempt_that_needs_them() -> Result<(), Error> {
    let a = without(|i| i == 7)?;
    // Otherwise rows would be put where none is without a diagonal.
    let options = Options {
        preconditioner: PreconditionerChoice::Ilu0,
        scaling: ScalingChoice::None,
        ..Options::default()
    };
    let error = |workers| -> Result<String, Error> {
        let rt = Runtime::builder().workers(workers).build()?;
        let system = System::new(&rt, &a, &options)?;
        Ok(answer(&system, a.rows()).expect_err("row 8").to_string())
    };
    let (alone, concurrent) = (error(1)?, error(2)?);
    assert!(alone.contains("row 8 has no diagonal entry"), "{alone}");
    assert_eq!(alone, concurrent);
    Ok(())
}
