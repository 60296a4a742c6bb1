//! Effects of formats on products and on solvers.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_files::observe::Silent;
use zellige_krylov::MultiVector;
use zellige_krylov::method::{NumbersHandle, Steps};
use zellige_lqcd::dslash::Dslash;
use zellige_lqcd::generate::{Quenched, generate};
use zellige_lqcd::pipeline::results::{InvertResult, MultishiftResult};
use zellige_lqcd::pipeline::{Method, Options, Shift, Solver, invert, multishift};
use zellige_lqcd::precision::{Precision, Sites};
use zellige_lqcd::smear::{Smeared, smear};
use zellige_lqcd::su3::C64;
use zellige_lqcd::{Action, Boundary, Error, Gauge, Geometry, Parity};
use zellige_runtime::{Bindings, Emulated, Runtime};
use zellige_tests::every;

use crate::reference::lattice;

/// Returns a field at beta 5.7 that is not yet in equilibrium.
fn field(rt: &Runtime, extents: [usize; 4]) -> Gauge {
    let geometry = Geometry::new(extents).expect("a lattice");
    let options = Quenched { beta: 5.7, trajectories: 8, ..Quenched::default() };
    generate(rt, geometry, &options, &Silent).expect("a field").gauge
}

/// Returns normally distributed numbers on the sites of a parity.
fn gaussian(geometry: Geometry, seed: u64) -> Vec<C64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut next = || {
        let (radius, angle) =
            ((-2.0 * random.random_range(1e-300f64..1.0).ln()).sqrt(), random.random_range(0.0..6.25));
        C64::from_polar(radius, angle)
    };
    (0..geometry.half() * 3).map(|_| next()).collect()
}

/// Returns the product for some columns, stored in the format of the precision.
fn product(rt: &Runtime, smeared: &Smeared, precision: Precision, x: &[&[C64]]) -> Vec<Vec<C64>> {
    let d = Dslash::new(rt, smeared, Parity::Even, Boundary::Antiperiodic, precision);
    let stored =
        || MultiVector::stored(rt, d.space(), x.len(), Arc::new(Sites::new(precision.fermion, x.len())));
    let (from, to) = (stored(), stored());
    for (c, x) in x.iter().enumerate() {
        from.set_column(rt, c, x).expect("a column");
    }
    let numbers = NumbersHandle::new(rt, x.len(), 0);
    let graph = rt
        .record(|graph| d.apply(&Steps::new(rt, graph, d.space(), &numbers), &from, &to, 1.0, None))
        .expect("a graph");
    rt.replay(&Bindings::recorded(&graph)).expect("a replay");
    (0..x.len()).map(|c| to.column(rt, c).expect("a column")).collect()
}

fn apart(a: &[C64], b: &[C64]) -> f64 {
    let (difference, norm) = a.iter().zip(b).fold((0.0, 0.0), |(difference, norm), (a, b)| {
        (difference + (a - b).norm_sqr(), norm + b.norm_sqr())
    });
    (difference / norm).sqrt()
}

/// Deviations from float64 are within 20 % of those of another program on a lattice of 12^4 sites.
/// If products in float32 are the limit, zellige's are smaller: each sum consists of two sums, the
/// other program's of one.
#[test]
fn deviations_of_products() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let u = field(&rt, [8, 8, 8, 8]);
    let smeared = smear(&rt, &u, Action::HISQ)?;
    let x = gaussian(u.geometry(), 3);
    let exact = product(&rt, &smeared, Precision::DOUBLE, &[&x]);
    let mut wrong = Vec::new();
    for (precision, published) in [
        ("fixed16/half/fp32", 3.2e-5),
        ("fixed16/int20/fp32", 2.5e-5),
        ("fp32/half/fp32", 2.0e-5),
        ("fp32/int20/fp32", 2.0e-6),
        ("fp32/single/fp32", 1.4e-7),
        ("fixed32/int30/fp32", 1.4e-7),
        ("fixed32/int30/fp64", 2.0e-9),
        // The remaining values are zellige's own.
        ("fixed16-13/int20/fp32", 2.5e-5),
        ("fixed16-9/int20/fp32", 2.4e-5),
    ] {
        let found = product(&rt, &smeared, precision.parse().expect("a precision"), &[&x]);
        let deviation = apart(&found[0], &exact[0]);
        let least = if published == 1.4e-7 { 0.6 } else { 0.8 };
        if !(least..=1.2).contains(&(deviation / published)) {
            wrong.push(format!("{precision}: {deviation:.2e}, not {published:.2e}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}

/// Links with two rows and a phase occur as long links of an improved action, and as all links of
/// the naive action.
#[test]
fn compressed_links_are_those_of_all_numbers() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let u = field(&rt, [4, 6, 8, 14]);
    let x = gaussian(u.geometry(), 3);
    for action in [Action::Naive, Action::HISQ] {
        let smeared = smear(&rt, &u, action)?;
        let exact = product(&rt, &smeared, Precision::DOUBLE, &[&x]);
        for (gauge, bound) in
            [("fp64", 1e-14), ("fp32", 1e-6), ("fixed32", 1e-8), ("fixed24", 1e-6), ("fixed16", 2e-4)]
        {
            for suffix in ["", "-13", "-9"] {
                let precision = format!("{gauge}{suffix}/double/fp64").parse().expect("a precision");
                let deviation = apart(&product(&rt, &smeared, precision, &[&x])[0], &exact[0]);
                assert!(deviation < bound, "{precision}: {deviation:e}");
            }
        }
    }
    Ok(())
}

/// The bits are equal on one worker and two, on emulated devices, and for a single column and
/// several.
#[test]
fn products_have_the_same_bits_everywhere() -> Result<(), Error> {
    let one = Runtime::builder().workers(1).build()?;
    let u = field(&one, [4, 6, 8, 14]);
    let (x, y) = (gaussian(u.geometry(), 3), gaussian(u.geometry(), 4));
    let device = || Emulated::new(1 << 30);
    let others = [
        Runtime::builder().workers(2).build()?,
        Runtime::builder().workers(1).device(device()).device(device()).build()?,
    ];
    let smeared = smear(&one, &u, Action::HISQ)?;
    for precision in
        ["double", "single", "half", "int20", "int30", "fixed24-13/int20/fp32", "fixed16-9/int20/fp32"]
    {
        let precision: Precision = precision.parse().expect("a precision");
        let first = product(&one, &smeared, precision, &[&x, &y]);
        assert_eq!(product(&one, &smeared, precision, &[&y])[0], first[1], "{precision}");
        for rt in &others {
            assert_eq!(product(rt, &smeared, precision, &[&x, &y]), first, "{precision}");
        }
    }
    Ok(())
}

/// There are eight interleaved columns and three more, and more planes in z than are kept decoded.
#[test]
fn many_columns_have_the_bits_of_each() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let u = field(&rt, [12, 4, 10, 4]);
    let x: Vec<_> = (0..11).map(|seed| gaussian(u.geometry(), seed)).collect();
    for action in [Action::Naive, Action::HISQ] {
        let smeared = smear(&rt, &u, action)?;
        for precision in ["double", "single", "half", "int20", "fixed24-13/int30/fp64"] {
            let precision: Precision = precision.parse().expect("a precision");
            let all = product(&rt, &smeared, precision, &x.iter().map(|x| &**x).collect::<Vec<_>>());
            for (x, y) in x.iter().zip(&all).step_by(5) {
                assert_eq!(product(&rt, &smeared, precision, &[x])[0], *y, "{precision}");
            }
        }
    }
    Ok(())
}

fn solved(rt: &Runtime, u: &Gauge, options: &Options, precision: &str, solver: Solver) -> InvertResult {
    let solver = Solver { precision: precision.parse().expect("formats"), ..solver };
    let (result, _) = invert(rt, u, &Options { solver, ..*options }, &Silent).expect("a result");
    // The check uses recomputed residuals only.
    let is_within = result.true_residual.iter().all(|residual| *residual <= options.tolerance);
    assert_eq!(result.converged, is_within, "{result:?}");
    result
}

/// All formats and methods give the same propagator, and a solver has the same bits on one worker
/// and two.
#[test]
fn solvers_of_all_formats() -> Result<(), Error> {
    let (one, two) = (Runtime::builder().workers(1).build()?, Runtime::builder().workers(2).build()?);
    let u = field(&two, [4, 4, 4, 8]);
    let options = Options { mass: 0.1, tolerance: 1e-9, most_steps: 2000, ..Options::default() };
    let exact = solved(&two, &u, &options, "double", Solver::default());
    for method in [Method::Cg, Method::BiCgStab { l: 4 }] {
        let solver = Solver { method, ..Solver::default() };
        for precision in ["double", "double-single", "double-half", "double-int20", "double-int30"] {
            let found = solved(&two, &u, &options, precision, solver);
            assert!(found.converged, "{method} {precision}: {:?}", found.true_residual);
            let near =
                found.correlator.iter().zip(&exact.correlator).all(|(a, b)| (a / b - 1.0).abs() < 1e-7);
            assert!(
                near && (precision == "double") == (found.reliable_updates == [0; 3]),
                "{method} {precision}"
            );
            if method != Method::Cg && !precision.ends_with("int20") && every(2) > 1 {
                continue;
            }
            let again = solved(&one, &u, &options, precision, solver);
            assert_eq!(
                (again.correlator, again.iterations),
                (found.correlator, found.iterations),
                "{precision}"
            );
        }
    }
    for (method, name) in
        [("bicgstabl:1", "bicgstab"), ("bicgstabl:2", "bicgstab(2)"), ("gmres:60", "gmres(60)")]
    {
        let solver = Solver { method: method.parse().expect("a method"), ..Solver::default() };
        let found = solved(&two, &u, &options, "double", solver);
        assert!(found.converged && found.method == name, "{found:?}");
        let near = found.correlator.iter().zip(&exact.correlator).all(|(a, b)| (a / b - 1.0).abs() < 1e-7);
        assert!(near, "{method}: {:?}", found.correlator);
    }
    let plain = solved(&two, &u, &options, "double-half", Solver::default());
    let kept = solved(&two, &u, &options, "double-half", Solver { buffer: 5, ..Solver::default() });
    assert_eq!((kept.correlator, kept.iterations), (plain.correlator, plain.iterations));
    let devices = Runtime::builder().workers(1).device(Emulated::new(1 << 30)).build()?;
    let [here, there] =
        [&one, &devices].map(|rt| solved(rt, &u, &options, "double-int20", Solver::default()));
    assert_eq!((here.correlator, here.true_residual), (there.correlator, there.true_residual));
    let alternative = Solver { estimate: true, ..Solver::default() };
    assert!(solved(&two, &u, &options, "double-half", alternative).converged);
    // The tolerance is above the precision of float32, and the residual is not replaced before it
    // seems small enough.
    let single = solved(&two, &u, &Options { tolerance: 1e-5, ..options }, "single", Solver::default());
    assert!(single.converged, "{:?}", single.true_residual);
    Ok(())
}

/// Solves for a light quark with the naive action on the field of the data, by conjugate gradients
/// for one colour.
fn light_quark(tolerance: f64, runs: &[(&str, Solver, usize)]) -> Option<Vec<InvertResult>> {
    let read = lattice("own.b57.l8888.milc")?;
    let rt = Runtime::builder().workers(1).build().expect("a runtime");
    let run = |(precision, solver, most_steps): &(&str, Solver, usize)| {
        let options = Options {
            action: Action::Naive,
            mass: 0.001,
            tolerance,
            most_steps: *most_steps,
            source: "point:0,0,0,0:0".parse().expect("a source"),
            ..Options::default()
        };
        solved(&rt, &read.gauge, &options, precision, *solver)
    };
    Some(runs.iter().map(run).collect())
}

/// 16-bit numbers converge with all three refinements. Without any, they are far from it after as
/// many steps.
#[test]
fn refinements_are_needed_for_a_light_quark() {
    let all = Solver::default();
    let none = Solver { wide_solution: false, projection: false, polak_ribiere: false, ..all };
    let Some(with) = light_quark(1e-6, &[("double-half", all, 6000)]) else { return };
    assert!(with[0].converged, "{with:?}");
    // This run has the same number of steps.
    let without = light_quark(1e-6, &[("double-half", none, with[0].iterations[0])]).expect("the same field");
    assert!(!without[0].converged && without[0].true_residual[0] > 1e-3, "{without:?}");
}

/// 20 bits with links in float32 need as many steps as float32, within 15 %.
#[test]
fn twenty_bits_are_as_good_as_float32_for_a_light_quark() {
    let all = Solver::default();
    let runs = [("double-single", all, 4000), ("double-fp32/int20/fp32", all, 4000)];
    let Some(found) = light_quark(1e-10, &runs) else { return };
    assert!(found.iter().all(|one| one.converged), "{found:?}");
    let [single, int20] = [0, 1].map(|i| found[i].iterations[0] as f64);
    assert!(int20 <= 1.15 * single, "{int20} {single}");
}

/// Shifts are also solved without low-precision formats, and invalid shifts are refused.
#[test]
fn shifts_in_float64() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let u = field(&rt, [4, 4, 4, 8]);
    let options = Options { mass: 0.1, ..Options::default() };
    let shift = |shift, tolerance| Shift { shift, tolerance };
    for shifts in [[shift(0.0, 1e-8), shift(0.5, 1e-8)], [shift(0.5, 1e-10), shift(0.0, 1e-6)]] {
        let (result, _) = multishift(&rt, &u, &options, &shifts, &Solver::default(), &Silent)?;
        assert!(result.converged && result.shifts.iter().all(|one| one.true_residual <= one.tolerance));
    }
    for wrong in [shift(-0.1, 1e-8), shift(f64::NAN, 1e-8), shift(0.1, 0.0), shift(0.1, f64::INFINITY)] {
        let error =
            multishift(&rt, &u, &options, &[wrong], &Solver::default(), &Silent).expect_err("refused");
        assert!(error.to_string().starts_with("shifts: "), "{error}");
    }
    assert!(multishift(&rt, &u, &options, &[], &Solver::default(), &Silent).is_err());
    Ok(())
}

/// Shared steps in 30 bits leave fewer steps for each shift than those in float32.
#[test]
fn shifts_in_30_and_20_bits() -> Result<(), Error> {
    let Some(read) = lattice("own.b57.l8888.milc") else { return Ok(()) };
    let rt = Runtime::builder().workers(1).build()?;
    let shifts = [0.0, 1.3e-5, 5e-5, 2e-4, 8e-4, 3.2e-3, 1.3e-2, 5e-2, 0.2, 0.9, 5.0];
    let tolerances =
        [1e-5, 1.75e-5, 3.86e-5, 8.85e-5, 2.05e-8, 4.81e-9, 1.15e-9, 2.5e-10, 4.64e-11, 1.3e-11, 6.85e-12];
    let shifts: Vec<Shift> =
        shifts.into_iter().zip(tolerances).map(|(shift, tolerance)| Shift { shift, tolerance }).collect();
    let solver =
        |precision: &str| Solver { precision: precision.parse().expect("formats"), ..Solver::default() };
    let run_with = |removal: bool, shared: &str, refinement: &str| {
        let options = Options { solver: Solver { removal, ..solver(shared) }, ..Options::default() };
        let (result, histories) =
            multishift(&rt, &read.gauge, &options, &shifts, &solver(refinement), &Silent).expect("a result");
        assert!(result.converged && histories.len() == shifts.len());
        assert!(result.shifts.iter().all(|one| one.true_residual <= one.tolerance));
        result
    };
    let run = |shared: &str, refinement: &str| run_with(true, shared, refinement);
    let (old, new) = (run("double-single", "double-half"), run("double-int30", "double-int20"));
    let residuals =
        |result: &MultishiftResult| result.shifts.iter().map(|one| one.shared_residual).collect::<Vec<_>>();
    let (before, after) = (residuals(&old), residuals(&new));
    assert!(new.applications < old.applications, "{} {}", new.applications, old.applications);
    // Shifts that are removed at the resolution of the formats take part in fewer steps. The number
    // of applications grows by at most 2 %.
    for (removed, stayed) in [
        (&old, run_with(false, "double-single", "double-half")),
        (&new, run_with(false, "double-int30", "double-int20")),
    ] {
        let taken = |result: &MultishiftResult| -> Vec<usize> {
            result.shifts.iter().map(|one| one.shared_iterations).collect()
        };
        println!("{}: {:?}, {} applications", removed.precision, taken(removed), removed.applications);
        println!("without removal: {:?}, {} applications", taken(&stayed), stayed.applications);
        println!("{:?} {:?}", residuals(removed), residuals(&stayed));
        assert!(taken(removed).iter().sum::<usize>() < taken(&stayed).iter().sum());
        assert!(removed.applications * 50 <= stayed.applications * 51);
    }
    for k in 5..11 {
        assert!(after[k] * 10.0 <= before[k], "shift {k}: {:e} {:e}", after[k], before[k]);
    }
    Ok(())
}
