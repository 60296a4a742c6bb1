//! Products and methods with numbers that carry their rounding errors.

use zellige_kernels::RealNumber;
use zellige_mpi::run_local;
use zellige_stochastic::{
    Categories, Category, Eight, Perturbation, Report, Samples, Scope, Stochastic, Three,
};

use super::*;
use crate::adaptive::{Adaptation, Criterion, FormatSet, ThesisMatrix};

/// A scope that changes no result, so that all samples have the bits of `f64`.
fn unperturbed() -> Scope {
    Scope::with(1, Perturbation::None, Categories::NONE)
}

fn numbers<E: Scalar>(x: &[f64]) -> Vec<E> {
    x.iter().map(|&x| E::from_real(x)).collect()
}

/// Checks that every sample has the bits of the plain number.
fn has_bits<S: Samples>(x: &[Stochastic<f64, S>], plain: &[f64], what: &str) {
    assert_eq!(x.len(), plain.len(), "{what}");
    for (i, (x, plain)) in x.iter().zip(plain).enumerate() {
        let is_same = x.samples().iter().all(|sample| sample.to_bits() == plain.to_bits());
        assert!(is_same, "{what}, row {i}: {:?} {plain:e}", x.samples());
    }
}

fn words<S: Samples>(x: &[Stochastic<f64, S>]) -> Vec<u64> {
    Stochastic::words(x).iter().map(|word| word.to_bits()).collect()
}

/// Formats, criteria and blocks of stored matrices.
fn adaptations() -> impl Iterator<Item = Adaptation<'static>> {
    let sets = [FormatSet::Fp64, FormatSet::Fp32].into_iter().chain(FormatSet::ALL);
    sets.flat_map(|set| {
        [Criterion::Normwise, Criterion::Componentwise]
            .map(|criterion| Adaptation::new(set, criterion, "2^-24".parse().expect("an accuracy")))
    })
}

#[test]
fn unperturbed_products_have_the_bits_of_every_layout() -> Result<(), Error> {
    let a = flow(&Flow { cells: [12, 11, 10], spread: 0.5, ..Flow::default() })?;
    let x = rhs(a.columns());
    let many: Vec<Stochastic> = numbers(&x);
    let (mut y, mut z) = (vec![0.0; a.rows()], vec![Stochastic::default(); a.rows()]);
    a.multiply_rows(0..a.rows(), &x, &mut y);
    unperturbed().run(|| a.multiply_rows(0..a.rows(), &many, &mut z));
    has_bits(&z, &y, "csr");
    for adaptation in adaptations() {
        let what = format!("{:?} {:?}", adaptation.set, adaptation.criterion);
        let thesis = ThesisMatrix::new(&a, &adaptation)?;
        thesis.multiply(&x, &mut y)?;
        unperturbed().run(|| thesis.multiply_rows(0..a.rows(), &many, &mut z));
        has_bits(&z, &y, &what);
    }
    Ok(())
}

#[test]
fn unperturbed_products_of_stored_matrices_have_their_bits() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    for block_size in 1..=4 {
        let a = flow(&Flow { cells: [12, 11, 10], spread: 0.5, ..Flow::default() })?;
        let (space, x) = (Space::new(a.rows(), 64 * a.bytes()), rhs(a.columns()));
        for adaptation in adaptations().filter(|one| block_size == 1 || !one.set.has_scales()) {
            let stored = Stored::new(&rt, &space, &a, block_size, &adaptation)?;
            let y = multiply(&rt, &stored, &x)?;
            let z: Vec<Stochastic> = unperturbed().run(|| multiply(&rt, &stored, &numbers(&x)))?;
            has_bits(&z, &y, &format!("{:?} {block_size}", adaptation.set));
        }
    }
    Ok(())
}

/// Elements of perturbed products depend on their row alone: the parts of a matrix have the bits of
/// the whole.
#[test]
fn perturbed_products_are_those_of_any_parts() -> Result<(), Error> {
    let a = flow(&Flow { cells: [12, 11, 10], spread: 0.5, ..Flow::default() })?;
    let x: Vec<Stochastic> = numbers(&rhs(a.columns()));
    let by_parts = |parts: usize| {
        let mut y = vec![Stochastic::default(); a.rows()];
        Scope::new(3).run(|| {
            for rows in a.even_rows(parts) {
                a.multiply_rows(rows.clone(), &x, &mut y[rows]);
            }
        });
        y
    };
    assert!(words(&by_parts(1)) == words(&by_parts(7)));
    Ok(())
}

/// Returns a symmetric matrix of three parts, and a right-hand side.
fn in_parts() -> Result<(Csr, Vec<f64>), Error> {
    let a = flow(&Flow { cells: [14, 14, 13], spread: 0.5, ..Flow::default() })?;
    let b = rhs(a.rows());
    Ok((a, b))
}

/// Solves a system as [`solved`] does, with any numbers.
fn solved_as<E: Scalar>(
    rt: &dyn Executor,
    method: &dyn Method<E>,
    a: &Csr,
    b: &[f64],
    is_preconditioned: bool,
) -> Result<(Solution, Vec<E>), Error> {
    let space = Space::new(a.rows(), 64 * a.bytes());
    let exact = Stored::exact(rt, &space, a)?;
    let jacobi = if is_preconditioned { Some(Jacobi::new(rt, &space, a)?) } else { None };
    let preconditioner = jacobi.as_ref().map(|jacobi| jacobi as &dyn Operator<E>);
    let problem = Solve { rt, exact: &exact, inner: &exact, preconditioner, reduction: 0.0 };
    let mut x = vec![E::default(); a.rows()];
    let stop = [Stop::RelativeToRhs(1e-7), Stop::Steps(60)];
    let solution = solve(&problem, method, &numbers::<E>(b), &mut x, &stop[..], &mut ())?;
    Ok((solution, x))
}

fn has_bits_of_plain<S: Samples, M>(rt: &Runtime, method: &M, a: &Csr, b: &[f64]) -> Result<(), Error>
where
    M: Method<f64> + Method<Stochastic<f64, S>>,
{
    for is_preconditioned in [false, true] {
        let (plain, x) = solved_as::<f64>(rt, method, a, b, is_preconditioned)?;
        let many = unperturbed().run(|| solved_as::<Stochastic<f64, S>>(rt, method, a, b, is_preconditioned));
        let (solution, many) = many?;
        let what = <M as Method<f64>>::name(method);
        has_bits(&many, &x, &what);
        assert_eq!(Solution { memory: plain.memory, ..solution }, plain, "{what}");
        assert!(plain.steps > 3, "{what}: {plain:?}");
    }
    Ok(())
}

#[test]
fn unperturbed_methods_have_the_bits_of_plain_ones() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let (a, b) = in_parts()?;
    has_bits_of_plain::<Eight, _>(&rt, &Cg::default(), &a, &b)?;
    has_bits_of_plain::<Eight, _>(&rt, &Cg { flexible: true }, &a, &b)?;
    has_bits_of_plain::<Eight, _>(&rt, &Minres, &a, &b)?;
    let (a, b) = streaming(9)?;
    has_bits_of_plain::<Eight, _>(&rt, &BiCgStab::default(), &a, &b)?;
    has_bits_of_plain::<Eight, _>(&rt, &BiCgStab { l: 2 }, &a, &b)?;
    has_bits_of_plain::<Eight, _>(&rt, &Gmres { restart: 10, ..Gmres::default() }, &a, &b)?;
    let gmres = Gmres { orthogonalisation: Orthogonalisation::Modified, ..Gmres::default() };
    has_bits_of_plain::<Three, _>(&rt, &gmres, &a, &b)
}

#[test]
fn unperturbed_least_squares_have_the_bits_of_plain_ones() -> Result<(), Error> {
    fn answer<E: Scalar>(rt: &Runtime, a: &Csr, b: &[f64]) -> Result<Vec<E>, Error> {
        let space = Space::new(a.rows(), 64 * a.bytes());
        let exact = Adaptation::double();
        let stored = Stored::new(rt, &space, a, 1, &exact)?.with_adjoint(rt, a, &exact)?;
        let problem = LeastSquares { rt, a: &stored, damping: 0.0, tolerance: 0.0, steps: 20, time: None };
        Ok(least_squares(&problem, &[&numbers::<E>(b)], &mut [&mut ()])?.0.remove(0))
    }
    let rt = Runtime::builder().workers(2).build()?;
    let (a, b) = streaming(8)?;
    let many = unperturbed().run(|| answer::<Stochastic>(&rt, &a, &b))?;
    has_bits(&many, &answer::<f64>(&rt, &a, &b)?, "lsmr");
    Ok(())
}

fn perturbed<E: Scalar, M: Method<E>>(
    workers: usize,
    seed: u64,
    method: &M,
) -> Result<(Vec<E>, Scope), Error> {
    let rt = Runtime::builder().workers(workers).build()?;
    let (a, b) = if method.name() == "cg" { in_parts()? } else { streaming(9)? };
    let scope = Scope::new(seed);
    let (_, x) = scope.run(|| solved_as(&rt, method, &a, &b, true))?;
    Ok((x, scope))
}

/// Random bits depend on the seed and on the place in the graph.
#[test]
fn perturbed_solutions_are_the_same_on_any_number_of_workers() -> Result<(), Error> {
    let cg = Cg::default();
    let (x, scope) = perturbed::<Stochastic, _>(1, 1, &cg)?;
    let (again, other) = perturbed::<Stochastic, _>(2, 1, &cg)?;
    assert!(words(&x) == words(&again));
    let followed = scope.take_followed();
    assert_eq!((scope.report(), &followed), (other.report(), &other.take_followed()));
    assert!(words(&x) != words(&perturbed::<Stochastic, _>(2, 2, &cg)?.0));
    // The residual is 1e-7 of the right-hand side: rounding errors are far below.
    assert!(x.iter().all(|x| x.digits() >= 6), "{:?}", x.iter().map(|x| x.digits()).min());
    assert!(followed["alpha"].iter().all(|&digits| digits > 5));
    assert_eq!(scope.report().count(Category::Division), 0);

    let gmres = Gmres { restart: 10, ..Gmres::default() };
    let [one, two] = [1, 2].map(|workers| perturbed::<Stochastic<f64, Three>, _>(workers, 1, &gmres));
    let (one, two) = (one?.0, two?.0);
    assert!(words(&one) == words(&two));
    assert!(one.iter().all(|x| x.value().is_finite()));
    Ok(())
}

/// Samples of two replays of a product and of a solution, and the scope of this rank.
fn replayed(rt: &dyn Executor, a: &Csr, b: &[f64]) -> Result<(Vec<Vec<u64>>, Scope), Error> {
    let scope = Scope::new(4).on_rank(rt.rank());
    let found = scope.run(|| -> Result<_, Error> {
        let space = Space::new(a.rows(), 64 * a.bytes());
        let (stored, s) = (Stored::exact(rt, &space, a)?, NumbersHandle::new(rt, 1, 0));
        let x = MultiVector::from_column(rt, &space, &numbers::<Stochastic>(b));
        let y = MultiVector::zeros(rt, &space, 1);
        let product = rt.record(|graph| stored.apply(&Steps::new(rt, graph, &space, &s), &x, &y))?;
        let mut found = Vec::new();
        for _ in 0..2 {
            product.run()?;
            found.push(words(&y.column(rt, 0)?));
        }
        found.push(words(&solved_as::<Stochastic>(rt, &Cg::default(), a, b, true)?.1));
        Ok(found)
    })?;
    Ok((found, scope))
}

#[test]
fn replays_differ_and_are_the_same_on_any_number_of_ranks() -> Result<(), Error> {
    let (a, b) = in_parts()?;
    let (expected, scope) = replayed(&Runtime::builder().workers(2).build()?, &a, &b)?;
    let (report, followed) = (scope.report(), scope.take_followed());
    assert!(expected[0] != expected[1] && !report.is_empty() && followed["alpha"].len() > 3);
    for ranks in [1, 2, 4] {
        let mut merged = Report::default();
        for found in run_local(ranks, 1, |cluster| replayed(cluster, &a, &b))? {
            let (found, scope) = found?;
            assert!(found == expected, "{ranks} ranks");
            assert_eq!(scope.take_followed(), followed, "{ranks} ranks");
            merged.merge(&scope.report());
        }
        assert_eq!(merged, report, "{ranks} ranks");
    }
    Ok(())
}
