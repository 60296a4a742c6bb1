//! Random sparse complex systems.

use faer::Mat;
use num_complex::Complex;
use zellige_krylov::method::{Setting, Steps, times};
use zellige_krylov::{
    BiCgStab, Cg, Error, Gmres, History, Logger, Method, Minres, MultiVector, Operator, Orthogonalisation,
    Packed, Reason, RelaxedGmres, Solution, Solve, Space, Stop, StoppingCriterion, from_fn, solve,
    solve_columns, solve_shifted,
};
use zellige_runtime::Runtime;

type C = Complex<f64>;

/// Unknowns of systems.
const ROWS: usize = 170;

/// A sparse matrix as a list of rows.
#[derive(Clone)]
struct Sparse(Vec<Vec<(usize, C)>>);

/// Symmetry class of a matrix.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Positive,
    Hermitian,
    General,
}

fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

impl Sparse {
    /// Returns a matrix with about six nonzeros in a row besides the diagonal.
    fn new(n: usize, kind: Kind, seed: u64) -> Sparse {
        let mut state = seed;
        let mut rows = vec![Vec::new(); n];
        for i in 0..n {
            for _ in 0..3 {
                let j = ((random(&mut state) + 0.5) * n as f64) as usize % n;
                let value = C::new(random(&mut state), random(&mut state));
                if i != j {
                    rows[i].push((j, value));
                    rows[j].push((i, if kind == Kind::General { -value } else { value.conj() }));
                }
            }
        }
        for (i, row) in rows.iter_mut().enumerate() {
            let sum: f64 = row.iter().map(|(_, value)| value.norm()).sum();
            let diagonal = match kind {
                Kind::Positive => C::new(0.1 + sum, 0.0),
                Kind::Hermitian => C::new(if i % 3 == 0 { -1.2 } else { 1.2 } * (0.1 + sum), 0.0),
                Kind::General => C::new(0.5 * sum, 1.0 + 0.5 * sum),
            };
            row.push((i, diagonal));
        }
        Sparse(rows)
    }

    fn multiply(&self, x: &[C], y: &mut [C]) {
        for (y, row) in y.iter_mut().zip(&self.0) {
            *y = row.iter().map(|(j, value)| value * x[*j]).sum();
        }
    }

    /// Returns `(A + shift I)^-1 b` by elimination with pivoting, of the real system of twice the
    /// size.
    fn eliminated(&self, shift: f64, b: &[C]) -> Vec<C> {
        let n = self.0.len();
        let mut dense = Mat::<f64>::zeros(2 * n, 2 * n);
        for (i, row) in self.0.iter().enumerate() {
            for &(j, value) in row {
                let value = if i == j { value + shift } else { value };
                (dense[(i, j)], dense[(n + i, n + j)]) =
                    (dense[(i, j)] + value.re, dense[(n + i, n + j)] + value.re);
                (dense[(n + i, j)], dense[(i, n + j)]) =
                    (dense[(n + i, j)] + value.im, dense[(i, n + j)] - value.im);
            }
        }
        let b = Mat::from_fn(2 * n, 1, |i, _| if i < n { b[i].re } else { b[i - n].im });
        let x = zellige_faer::solve(dense.as_ref(), b.as_ref());
        (0..n).map(|i| C::new(x[(i, 0)], x[(n + i, 0)])).collect()
    }
}

fn rhs(n: usize, seed: u64) -> Vec<C> {
    let mut state = seed;
    (0..n).map(|_| C::new(random(&mut state), random(&mut state))).collect()
}

fn distance(x: &[C], y: &[C]) -> f64 {
    let norm = |v: &mut dyn Iterator<Item = C>| v.map(|v| v.norm_sqr()).sum::<f64>().sqrt();
    norm(&mut x.iter().zip(y).map(|(x, y)| x - y)) / norm(&mut y.iter().copied())
}

/// Returns a space of several parts, so that sums go over all of them.
fn space(n: usize) -> Result<Space, Error> {
    Space::cut_at(&[0, 48, 96, 144], n)
}

/// The inverse of the diagonal, as an operator.
struct Diagonal {
    space: Space,
    inverse: MultiVector<C>,
}

impl Diagonal {
    fn new(rt: &Runtime, space: &Space, a: &Sparse, positive: bool) -> Diagonal {
        let of_row = |(i, row): (usize, &Vec<(usize, C)>)| {
            let diagonal = row.iter().find(|(j, _)| *j == i).expect("every row has one").1;
            1.0 / if positive { C::new(diagonal.norm(), 0.0) } else { diagonal }
        };
        let inverse: Vec<C> = a.0.iter().enumerate().map(of_row).collect();
        Diagonal { space: space.clone(), inverse: MultiVector::from_column(rt, space, &inverse) }
    }
}

impl Operator<C> for Diagonal {
    fn domain(&self) -> &Space {
        &self.space
    }

    fn bytes(&self) -> u64 {
        16 * self.space.len() as u64
    }

    fn apply(&self, steps: &Steps<'_, C>, x: &MultiVector<C>, y: &MultiVector<C>) -> Result<(), Error> {
        steps.task("diagonal").assign(y, [times(1.0, x).scaled_by(&self.inverse)]).submit()
    }
}

/// Solutions for several right-hand sides.
type Solved = (Vec<Solution>, Vec<Vec<C>>);

const STOP: [Stop; 2] = [Stop::RelativeToRhs(1e-11), Stop::Steps(2000)];

/// Solves with and without the diagonal as preconditioner, and compares with elimination.
fn agrees(method: &dyn Method<C>, kind: Kind) -> Result<(), Error> {
    let (rt, n) = (Runtime::builder().workers(2).build()?, ROWS);
    let (a, space) = (Sparse::new(n, kind, 7), space(n)?);
    let (b, operator) = (rhs(n, 3), a.clone());
    let expected = a.eliminated(0.0, &b);
    let operator = from_fn(&space, move |x: &[C], y: &mut [C]| operator.multiply(x, y));
    let diagonal = Diagonal::new(&rt, &space, &a, kind != Kind::General);
    for preconditioner in [None, Some(&diagonal as &dyn Operator<C>)] {
        let problem = Solve { preconditioner, ..Solve::new(&rt, &operator) };
        let (mut x, mut history) = (vec![C::default(); n], History::default());
        let solution = solve(&problem, method, &b, &mut x, &STOP[..], &mut history)?;
        assert!(solution.reason.is_converged(), "{}: {solution:?}", method.name());
        let error = distance(&x, &expected);
        assert!(error < 1e-9, "{}: {error:e}", method.name());
        assert_eq!(history.steps.len(), solution.steps);
    }
    Ok(())
}

#[test]
fn hermitian_definite_systems() -> Result<(), Error> {
    agrees(&Cg::default(), Kind::Positive)?;
    agrees(&Cg { flexible: true }, Kind::Positive)?;
    agrees(&Minres, Kind::Positive)
}

#[test]
fn hermitian_indefinite_systems() -> Result<(), Error> {
    agrees(&Minres, Kind::Hermitian)
}

#[test]
fn general_systems() -> Result<(), Error> {
    for l in [1, 2, 4] {
        agrees(&BiCgStab { l }, Kind::General)?;
    }
    let gmres = Gmres { restart: 40, ..Gmres::default() };
    let modified = Gmres { orthogonalisation: Orthogonalisation::Modified, ..gmres };
    for method in [gmres, modified, Gmres { flexible: true, ..gmres }] {
        agrees(&method, Kind::General)?;
    }
    agrees(&RelaxedGmres { gmres, narrower: &[], slack: 0.01 }, Kind::General)
}

#[test]
fn shifts_share_a_space() -> Result<(), Error> {
    let (rt, n, shifts) = (Runtime::builder().workers(2).build()?, ROWS, [0.0, 0.4, 3.0]);
    let (a, space, b) = (Sparse::new(n, Kind::Positive, 11), space(n)?, rhs(n, 5));
    let operator = a.clone();
    let operator = from_fn(&space, move |x: &[C], y: &mut [C]| operator.multiply(x, y));
    let found = solve_shifted(&Solve::new(&rt, &operator), &shifts, &b, &STOP[..], &mut [(); 3])?;
    for (shift, (solution, x)) in shifts.iter().zip(&found.each) {
        assert!(solution.reason.is_converged() && solution.steps == 0, "{shift}: {solution:?}");
        assert!(distance(x, &a.eliminated(*shift, &b)) < 1e-9, "{shift}");
    }
    Ok(())
}

#[test]
fn columns_have_the_bits_that_they_have_alone_and_on_any_number_of_workers() -> Result<(), Error> {
    let (n, count) = (ROWS, 3);
    let (a, space) = (Sparse::new(n, Kind::Positive, 13), space(n)?);
    let operator = a.clone();
    let operator = from_fn(&space, move |x: &[C], y: &mut [C]| operator.multiply(x, y));
    let b: Vec<Vec<C>> = (0..count).map(|k| rhs(n, 17 + k)).collect();
    let b: Vec<&[C]> = b.iter().map(|b| &b[..]).collect();
    let solved = |method: &dyn Method<C>, workers: usize, b: &[&[C]]| -> Result<Solved, Error> {
        let rt = Runtime::builder().workers(workers).build()?;
        let mut x = vec![vec![C::default(); n]; b.len()];
        let mut columns: Vec<&mut [C]> = x.iter_mut().map(|x| &mut x[..]).collect();
        let stops: Vec<&[Stop]> = vec![&STOP[..]; b.len()];
        let stops: Vec<&dyn StoppingCriterion> = stops.iter().map(|stop| stop as _).collect();
        let mut logs = vec![(); b.len()];
        let mut logs: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as _).collect();
        let problem = Solve::new(&rt, &operator);
        Ok((solve_columns(&problem, method, b, &mut columns, &stops, &mut logs)?, x))
    };
    let gmres = Gmres { restart: 9, ..Gmres::default() };
    let modified = Gmres { orthogonalisation: Orthogonalisation::Modified, restart: 40, ..gmres };
    let narrow = Gmres { basis: Packed::SINGLE, flexible: true, ..gmres };
    let methods: [&dyn Method<C>; 4] = [&BiCgStab { l: 2 }, &gmres, &modified, &narrow];
    for method in methods {
        let together = solved(method, 4, &b)?;
        for k in 0..b.len() {
            let alone = solved(method, 1, &b[k..=k])?;
            let is_same = together.0[k] == alone.0[0] && together.1[k] == alone.1[0];
            assert!(is_same && alone.0[0].reason.is_converged(), "{}, column {k}", method.name());
        }
    }
    Ok(())
}

#[test]
fn what_is_not_positive_is_told() -> Result<(), Error> {
    let (rt, n) = (Runtime::builder().workers(1).build()?, ROWS);
    let space = space(n)?;
    let operator = from_fn(&space, |x: &[C], y: &mut [C]| {
        y.iter_mut().zip(x).enumerate().for_each(|(i, (y, x))| *y = if i % 2 == 0 { *x } else { -x });
    });
    let mut x = vec![C::default(); n];
    let solution =
        solve(&Solve::new(&rt, &operator), &Cg::default(), &vec![C::i(); n], &mut x, &STOP[..], &mut ())?;
    assert_eq!(solution.reason, Reason::BrokenDown);
    // With two columns no single residual defines the required accuracy of products.
    let refused = RelaxedGmres { gmres: Gmres::default(), narrower: &[&operator], slack: 0.01 };
    let refused = refused.prepare(Setting { rt: &rt, a: &operator, m: None, columns: 2 });
    assert!(refused.is_err());
    Ok(())
}
