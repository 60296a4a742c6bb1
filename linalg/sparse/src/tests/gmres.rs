use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zellige_kernels::packed::PackedFormat;
use zellige_kernels::packed::block::BlockFormat;

use super::*;
use crate::adaptive::{Adaptation, Criterion, FormatSet};

fn variants() -> Vec<Gmres> {
    let plain = Gmres { restart: 30, ..Gmres::default() };
    vec![
        plain,
        Gmres { flexible: true, ..plain },
        Gmres { orthogonalisation: Orthogonalisation::Modified, ..plain },
        Gmres { basis: Packed::Each(PackedFormat::Rp40), ..plain },
        Gmres { basis: Packed::Each(PackedFormat::Rp16), ..plain },
        Gmres { basis: Packed::Blocks(BlockFormat::B16), flexible: true, ..plain },
    ]
}

#[test]
fn every_variant_answers() -> Result<(), Error> {
    let (a, b) = streaming(14)?;
    let (few, _) = streaming(3)?;
    for method in variants() {
        answers(&method, &a, &b, JACOBI)?;
        agrees_with_elimination(&method, &few)?;
        is_honest(&method)?;
    }
    answers(&variants()[0], &a, &b, Ask { tolerance: 1e-4, ..PLAIN })?;
    Ok(())
}

#[test]
fn bits_do_not_depend_on_workers_or_devices() -> Result<(), Error> {
    let (a, b) = streaming(24)?;
    for method in variants() {
        has_the_same_bits_everywhere(&method, &a, &b, Ask { steps: 40, ..JACOBI })?;
    }
    Ok(())
}

#[test]
fn three_eigenvalues_are_three_steps() -> Result<(), Error> {
    let elements: Vec<f64> = (0..30).map(|i| [1.0, -2.0, 5.0][i % 3]).collect();
    for method in variants().into_iter().take(3) {
        let solution = answers(&method, &diagonal(&elements), &rhs(30), PLAIN)?;
        assert_eq!((solution.steps, solution.runs), (3, 1), "{}", Method::<f64>::name(&method));
    }
    Ok(())
}

#[test]
fn residuals_of_steps_are_true_ones() -> Result<(), Error> {
    let (a, b) = streaming(12)?;
    let rt = Runtime::builder().workers(2).build()?;
    let mut history = History::default();
    let ask = Ask { tolerance: 1e-9, ..JACOBI };
    let (solution, _) = solved(&rt, &Gmres { restart: 10, ..Gmres::default() }, &a, &b, ask, &mut history)?;
    assert_eq!(history.steps.len(), solution.steps);
    assert!(history.checks.len() > 2, "{solution:?}");
    for &(steps, check) in &history.checks[1..] {
        let said = history.steps[steps - 1];
        assert!((said - check).abs() <= 1e-6 * check + 1e-14 * solution.rhs, "{said:e} for {check:e}");
    }
    Ok(())
}

#[test]
fn a_compressed_basis_takes_a_few_more_steps_at_most() -> Result<(), Error> {
    let (a, b) = streaming(14)?;
    let steps = |basis| Ok::<_, Error>(answers(&Gmres { basis, ..Gmres::default() }, &a, &b, JACOBI)?.steps);
    let wide = steps(Packed::default())?;
    for format in [PackedFormat::Rp48, PackedFormat::Fp32] {
        let narrow = steps(Packed::Each(format))?;
        assert!(narrow <= wide + wide / 10 + 2, "{format}: {narrow} steps for {wide}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_is_refused() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = diagonal(&[1.0, 2.0]);
    let refused =
        |method: Gmres| solved(&rt, &method, &a, &[1.0; 2], PLAIN, &mut ()).unwrap_err().to_string();
    let scaled = Gmres { basis: Packed::Each(PackedFormat::Rpre16), ..Gmres::default() };
    assert!(refused(scaled).starts_with("basis: rpre16"));
    assert!(refused(Gmres { restart: 0, ..Gmres::default() }).starts_with("restart: "));
    Ok(())
}

/// A copy of a matrix with relative errors of `2^-24` in its nonzeros, and the number of steps that
/// multiply with it.
struct Narrow(Stored, Arc<AtomicUsize>);

impl Operator for Narrow {
    fn domain(&self) -> &Space {
        self.0.domain()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes() / 2
    }

    fn accuracy(&self) -> f64 {
        2f64.powi(-24)
    }

    fn apply(&self, steps: &Steps<'_>, x: &MultiVector, y: &MultiVector) -> Result<(), Error> {
        let count = Arc::clone(&self.1);
        steps.one("count", 0, (x.read(0),), move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        })?;
        self.0.apply(steps, x, y)
    }
}

#[test]
fn relaxed_products_are_enough() -> Result<(), Error> {
    let (a, b) = streaming(12)?;
    let rt = Runtime::builder().workers(2).build()?;
    let space = Space::new(a.rows(), a.bytes());
    let exact = Stored::exact(&rt, &space, &a)?;
    let jacobi = Jacobi::new(&rt, &space, &a)?;
    let triplets: Vec<_> = (0..a.rows())
        .flat_map(|i| {
            let (columns, values) = a.row(i);
            columns
                .iter()
                .zip(values)
                .map(move |(&j, &a)| (i as u32, j, f64::from(a as f32)))
                .collect::<Vec<_>>()
        })
        .collect();
    let rounded = Csr::from_triplets(a.rows(), a.rows(), &triplets)?;
    let narrow = Narrow(Stored::exact(&rt, &space, &rounded)?, Arc::default());
    let problem =
        Solve { rt: &rt, exact: &exact, inner: &exact, preconditioner: Some(&jacobi), reduction: 0.0 };
    let solved = |method: &dyn Method, problem: &Solve<'_>| {
        let mut x = vec![0.0; a.rows()];
        solve(problem, method, &b, &mut x, &[Stop::RelativeToRhs(1e-10), Stop::Steps(500)][..], &mut ())
    };
    let gmres = Gmres { restart: 200, ..Gmres::default() };
    let plain = solved(&gmres, &problem)?;
    let relaxed = RelaxedGmres { gmres, narrower: &[&narrow], slack: 0.01 };
    let relaxed = solved(&relaxed, &problem)?;
    assert!(relaxed.reason.is_converged() && relaxed.runs == 1, "{relaxed:?}");
    assert!(relaxed.steps <= plain.steps + 2, "{relaxed:?} {plain:?}");
    let steps = narrow.1.load(Ordering::Relaxed);
    println!("{relaxed:?}, {steps} of them narrow; plain {plain:?}");
    assert!(steps >= relaxed.steps / 4, "{steps} narrow steps of {relaxed:?}");
    // Narrow products alone need another cycle.
    let narrow = solved(&gmres, &Solve { inner: &narrow, ..problem })?;
    assert!(narrow.runs > 1, "{narrow:?}");
    Ok(())
}

#[test]
fn relaxed_bits_do_not_depend_on_workers_or_devices() -> Result<(), Error> {
    let (a, b) = streaming(24)?;
    let adaptation = Adaptation::new(FormatSet::Ap2, Criterion::Componentwise, "2^-24".parse()?);
    same_bits_everywhere(|rt| {
        let space = Space::new(a.rows(), 64 * a.bytes());
        let (exact, narrow) = (Stored::exact(rt, &space, &a)?, Stored::new(rt, &space, &a, 1, &adaptation)?);
        let jacobi = Jacobi::new(rt, &space, &a)?;
        let preconditioner: Option<&dyn Operator> = Some(&jacobi);
        let problem = Solve { rt, exact: &exact, inner: &exact, preconditioner, reduction: 0.0 };
        let gmres = Gmres { restart: 40, ..Gmres::default() };
        let method = RelaxedGmres { gmres, narrower: &[&narrow], slack: 0.01 };
        let (mut x, stop) = (vec![0.0; a.rows()], [Stop::RelativeToRhs(1e-6), Stop::Steps(40)]);
        solve(&problem, &method, &b, &mut x, &stop[..], &mut ())?;
        Ok(x)
    })
}

/// A restart after five steps gains less than a hundredth here, and many of them are enough.
#[test]
fn short_cycles_may_take_many_steps_to_gain_something() -> Result<(), Error> {
    let chain =
        (0..120).flat_map(|i| [(i, i, 2.0), (i, (i + 1).min(119), -1.0), ((i + 1).min(119), i, -1.0)]);
    let a = small(120, &chain.collect::<Vec<_>>());
    let gmres = Gmres { restart: 5, ..Gmres::default() };
    answers(&gmres, &a, &rhs(120), Ask { tolerance: 1e-6, steps: 20_000, ..PLAIN })?;
    // Without any gain it ends soon.
    let turn: Vec<_> = (0..120).map(|i| (i, (i + 1) % 120, 1.0)).collect();
    let rt = Runtime::builder().workers(1).build()?;
    let mut b = vec![0.0; 120];
    b[7] = 1.0;
    let (solution, _) = solved(&rt, &gmres, &small(120, &turn), &b, Ask { steps: 20_000, ..PLAIN }, &mut ())?;
    assert!(solution.reason == Reason::Stagnated && solution.steps <= 120, "{solution:?}");
    Ok(())
}
