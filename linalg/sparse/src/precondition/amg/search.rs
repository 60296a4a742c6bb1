//! Search for the near null space of a matrix.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_krylov::{Cg, Error, Executor, Logger, Solve, Stop, StoppingCriterion, solve_columns};

use super::Amg;
use crate::csr::Csr;
use crate::stored::Stored;

/// Number of test vectors, solved for at once, and of steps for them.
const VECTORS: usize = 8;
const STEPS: usize = 8;

/// Returns the number of directions that the found vectors get on each aggregate: as many as there
/// are rotations for this number of displacements.
pub fn directions(block: usize) -> usize {
    (block * (block.max(1) - 1) / 2).max(1)
}

/// Returns vectors of little energy, each of energy 1: approximate solutions `x` of `A x = D^1/2 g`
/// with random `g`, by some steps of conjugate gradients with the levels that there are. What these
/// damp slowly is what is left in them, as in adaptive smoothed aggregation (Brezina and others
/// 2005), where it is found one vector after the other.
pub fn vectors(rt: &dyn Executor, amg: &Amg, stored: &Stored, a: &Csr) -> Result<Vec<Vec<f64>>, Error> {
    let root: Vec<f64> = (0..a.rows()).map(|i| a.get(i, i).abs().sqrt()).collect();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut noise = || root.iter().map(|root| root * random.random_range(-1.0..1.0)).collect::<Vec<f64>>();
    let b: Vec<Vec<f64>> = (0..VECTORS).map(|_| noise()).collect();
    let mut x = vec![vec![0.0; a.rows()]; VECTORS];
    let stop = Stop::Steps(STEPS);
    let problem = Solve { preconditioner: Some(amg), ..Solve::new(rt, stored) };
    solve_columns(
        &problem,
        &Cg::default(),
        &b.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        &mut x.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(),
        &[&stop as &dyn StoppingCriterion; VECTORS],
        &mut [(); VECTORS].each_mut().map(|log| log as &mut dyn Logger),
    )?;
    // A step of conjugate gradients from zero leaves `x A x = x b`. A matrix that is not positive
    // definite may have no vector of little energy.
    for (x, b) in x.iter_mut().zip(&b) {
        let energy: f64 = x.iter().zip(b).map(|(x, b)| x * b).sum();
        match energy.is_finite() && energy > 0.0 {
            true => x.iter_mut().for_each(|x| *x /= energy.sqrt()),
            false => x.fill(0.0),
        }
    }
    Ok(x)
}
