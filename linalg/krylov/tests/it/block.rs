//! One Krylov space for several right-hand sides, against elimination in a dense library.

use std::sync::Arc;

use faer::Mat;
use faer::prelude::Solve as _;
use num_complex::Complex;
use zellige_krylov::{
    BlockCg, Cg, Error, History, Logger, Method, Reason, Solution, Solve, Space, Stop, StoppingCriterion,
    from_fn, solve_columns,
};
use zellige_runtime::Runtime;

type C = Complex<f64>;

const ROWS: usize = 210;

fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

/// Returns a positive definite matrix with a few small eigenvalues.
fn matrix() -> Mat<C> {
    let mut state = 5;
    let half = Mat::from_fn(ROWS, ROWS, |i, _| {
        let size = if i < 8 { 1.0 } else { 0.05 };
        C::new(random(&mut state), random(&mut state)) * size
    });
    let mut matrix = half.adjoint() * &half;
    (0..ROWS).for_each(|i| matrix[(i, i)] += C::new(0.02, 0.0));
    matrix
}

fn sides(count: usize) -> Vec<Vec<C>> {
    let mut state = 77;
    (0..count).map(|_| (0..ROWS).map(|_| C::new(random(&mut state), random(&mut state))).collect()).collect()
}

/// Solutions, what is known of them, and the residuals of the steps.
type Found = (Vec<Vec<C>>, Vec<Solution>, Vec<History>);

fn solved(workers: usize, method: &dyn Method<C>, b: &[Vec<C>], tolerances: &[f64]) -> Result<Found, Error> {
    let rt = Runtime::builder().workers(workers).build()?;
    let matrix = Arc::new(matrix());
    let a = from_fn(&Space::cut_at(&[0, 96], ROWS)?, move |x: &[C], y: &mut [C]| {
        for (i, y) in y.iter_mut().enumerate() {
            *y = (0..ROWS).map(|j| matrix[(i, j)] * x[j]).sum();
        }
    });
    let stops: Vec<[Stop; 2]> =
        tolerances.iter().map(|t| [Stop::RelativeToRhs(*t), Stop::Steps(2000)]).collect();
    let stops: Vec<&[Stop]> = stops.iter().map(|stop| &stop[..]).collect();
    let stops: Vec<&dyn StoppingCriterion> = stops.iter().map(|stop| stop as _).collect();
    let mut x = vec![vec![C::default(); ROWS]; b.len()];
    let mut logs = vec![History::default(); b.len()];
    let solutions = {
        let b: Vec<&[C]> = b.iter().map(Vec::as_slice).collect();
        let mut x: Vec<&mut [C]> = x.iter_mut().map(Vec::as_mut_slice).collect();
        let mut logs: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as _).collect();
        solve_columns(&Solve::new(&rt, &a), method, &b, &mut x, &stops, &mut logs)?
    };
    Ok((x, solutions, logs))
}

fn distance(x: &[C], y: &[C]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (x - y).norm()).fold(0.0, f64::max)
}

/// Dependent, equal and zero columns are solved like others, in fewer steps than alone, with the
/// same bits on any number of workers and whenever it is repeated.
#[test]
fn columns_of_any_kind_are_solved_in_one_space() -> Result<(), Error> {
    let mut b = sides(4);
    b.push(b[1].clone());
    b.push(b[0].iter().zip(&b[2]).map(|(x, y)| x * C::new(0.0, 3.0) - y * 1e-5).collect());
    b.push(vec![C::default(); ROWS]);
    b.push(b[3].iter().map(|x| x * 1e-12).collect());
    let tolerances = vec![1e-11; b.len()];
    let (x, solutions, logs) = solved(2, &BlockCg, &b, &tolerances)?;
    let matrix = matrix();
    let factor = matrix.partial_piv_lu();
    for (c, (x, b)) in x.iter().zip(&b).enumerate() {
        let exact = factor.solve(Mat::from_fn(ROWS, 1, |i, _| b[i]));
        let exact: Vec<C> = (0..ROWS).map(|i| exact[(i, 0)]).collect();
        let size = distance(&exact, &vec![C::default(); ROWS]);
        assert!(distance(x, &exact) <= 1e-8 * size, "{c}: {:e} of {size:e}", distance(x, &exact));
        assert_eq!(solutions[c].reason, Reason::Converged);
        assert_eq!(logs[c].steps.len(), solutions[c].steps);
    }
    let (_, alone, _) = solved(2, &Cg::default(), &b[..4], &tolerances[..4])?;
    for (alone, together) in alone.iter().zip(&solutions) {
        assert!(3 * together.steps < 2 * alone.steps, "{} {}", together.steps, alone.steps);
    }
    assert_eq!((x.clone(), solutions.clone()), {
        let found = solved(1, &BlockCg, &b, &tolerances)?;
        (found.0, found.1)
    });
    assert_eq!((x, solutions), {
        let found = solved(2, &BlockCg, &b, &tolerances)?;
        (found.0, found.1)
    });
    Ok(())
}

#[test]
fn columns_end_by_their_own_criteria() -> Result<(), Error> {
    let b = sides(3);
    let (_, solutions, _) = solved(2, &BlockCg, &b, &[1e-3, 1e-10, 1e-6])?;
    assert!(solutions.iter().all(|one| one.reason.is_converged()));
    assert!(
        solutions[0].steps < solutions[2].steps && solutions[2].steps < solutions[1].steps,
        "{solutions:?}"
    );
    let (_, alone, _) = solved(1, &BlockCg, &b[..1], &[1e-10])?;
    let (_, plain, _) = solved(1, &Cg::default(), &b[..1], &[1e-10])?;
    assert!(alone[0].steps.abs_diff(plain[0].steps) <= 2, "{} {}", alone[0].steps, plain[0].steps);
    Ok(())
}
