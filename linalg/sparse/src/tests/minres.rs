use super::*;
use crate::generate::{Biot, Elements, Stokes, biot, stokes};
use crate::precondition::Jacobi;

/// The magnitudes of the diagonal: positive definite, whatever the matrix is.
struct Magnitudes(Jacobi);

impl Magnitudes {
    fn new(rt: &Runtime, space: &Space, a: &Csr) -> Result<Magnitudes, Error> {
        let magnitudes: Vec<f64> = (0..a.rows()).map(|i| a.get(i, i).abs()).collect();
        Ok(Magnitudes(Jacobi::new(rt, space, &diagonal(&magnitudes))?))
    }
}

impl Operator for Magnitudes {
    fn domain(&self) -> &Space {
        self.0.domain()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn apply(&self, steps: &Steps<'_>, r: &MultiVector, z: &MultiVector) -> Result<(), Error> {
        self.0.apply(steps, r, z)
    }
}

/// Returns an indefinite matrix with entries of similar magnitudes: its rows and columns are
/// multiplied by powers of two.
fn balanced(a: &Csr) -> Csr {
    let scales: Vec<i32> = (0..a.rows()).map(|i| -(a.get(i, i).abs().log2() / 2.0).round() as i32).collect();
    let triplets: Vec<_> = (0..a.rows())
        .flat_map(|i| {
            let (columns, values) = a.row(i);
            let scale = |j: u32| 2f64.powi(scales[i] + scales[j as usize]);
            columns.iter().zip(values).map(|(&j, a)| (i, j as usize, a * scale(j))).collect::<Vec<_>>()
        })
        .collect();
    small(a.rows(), &triplets)
}

#[test]
fn indefinite_systems_are_answered() -> Result<(), Error> {
    let elements = Elements([4; 3]);
    let stokes = balanced(&stokes(&Stokes { elements, spread: 0.3, ..Stokes::default() })?);
    let biot = balanced(&biot(&Biot { elements, step: 1e6, ..Biot::default() })?);
    for a in [stokes, biot] {
        let b = rhs(a.rows());
        answers(&Minres, &a, &b, Ask { tolerance: 1e-8, steps: 5000, ..PLAIN })?;
        let rt = Runtime::builder().workers(2).build()?;
        let space = Space::new(a.rows(), a.bytes());
        let exact = Stored::exact(&rt, &space, &a)?;
        let m = Magnitudes::new(&rt, &space, &a)?;
        let problem =
            Solve { rt: &rt, exact: &exact, inner: &exact, preconditioner: Some(&m), reduction: 0.0 };
        let (mut x, mut history) = (vec![0.0; a.rows()], History::default());
        let stop = [Stop::RelativeToRhs(1e-8), Stop::Steps(5000)];
        let solution = solve(&problem, &Minres, &b, &mut x, &stop[..], &mut history)?;
        println!("preconditioned: {solution:?}");
        assert!(solution.reason.is_converged() && residual(&a, &b, &x)? <= 1.01e-8, "{solution:?}");
        // The residual of the method is the recomputed one in the 2-norm.
        let (steps, first) = history.checks[1];
        assert!((history.steps[steps - 1] - first).abs() <= 1e-2 * first, "{:?}", history.checks);
    }
    Ok(())
}

#[test]
fn answers_are_those_of_elimination() -> Result<(), Error> {
    let few = flow(&Flow { cells: [3, 3, 2], spread: 0.3, ..Flow::default() })?;
    let triplets: Vec<_> = (0..few.rows())
        .flat_map(|i| (0..few.rows()).map(move |j| (i, j)))
        .map(|(i, j)| (i, j, few.get(i, j) - if i == j { few.get(0, 0) } else { 0.0 }))
        .collect();
    agrees_with_elimination(&Minres, &small(few.rows(), &triplets))?;
    is_honest(&Minres)
}

#[test]
fn three_eigenvalues_are_three_steps() -> Result<(), Error> {
    let elements: Vec<f64> = (0..30).map(|i| [1.0, -2.0, 5.0][i % 3]).collect();
    assert_eq!(answers(&Minres, &diagonal(&elements), &rhs(30), PLAIN)?.steps, 3);
    Ok(())
}

#[test]
fn a_preconditioner_that_is_not_definite_is_found() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = diagonal(&[1.0, -3.0]);
    let (solution, _) = solved(&rt, &Minres, &a, &[1.0, 2.0], JACOBI, &mut ())?;
    assert_eq!(solution.reason, Reason::BrokenDown);
    Ok(())
}

#[test]
fn bits_do_not_depend_on_workers_or_devices() -> Result<(), Error> {
    let (a, b) = flowing()?;
    has_the_same_bits_everywhere(&Minres, &a, &b, Ask { steps: 30, ..PLAIN })?;
    has_the_same_bits_everywhere(&Minres, &a, &b, Ask { steps: 30, ..JACOBI })
}
