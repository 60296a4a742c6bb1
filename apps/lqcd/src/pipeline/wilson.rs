//! Propagators of Wilson quarks.

use std::time::Instant;

use zellige_files::observe::Observer;
use zellige_krylov::Operator;
use zellige_runtime::Runtime;

use super::history::ObservedHistory;
use super::options::Options;
use super::propagator::{Found, Side, SolvedSide, fields, solve_sides};
use super::results::Seconds;
use super::solving::Equations;
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, SPINS};
use crate::precision::Precision;
use crate::su3::C64;
use crate::wilson::{Wilson, WilsonNormal};

/// Computes the propagator. `begun` is the start of the work on links.
///
/// Methods for hermitian operators solve the normal equations, and then for corrections until the
/// residual of the system itself is small enough.
pub(super) fn propagator(
    rt: &Runtime,
    u: &Gauge,
    options: &Options,
    sides: &[Side],
    begun: Instant,
    observer: &dyn Observer,
) -> Result<Found, Error> {
    let solver = &options.solver;
    let mut links = u.clone();
    links.reunitarise();
    let operators = sides.iter().map(|side| {
        let of = |precision| {
            let of = Wilson::new(rt, &links, options.mass, side.parity, options.boundary, precision);
            WilsonNormal::new(of)
        };
        (of(Precision::DOUBLE), solver.precision.narrow().map(of))
    });
    let operators: Vec<(WilsonNormal, Option<WilsonNormal>)> = operators.collect();
    drop(links);
    let smear = begun.elapsed().as_secs_f64();

    let begun = Instant::now();
    let (is_normal, mut method) = (solver.is_hermitian_only(), String::new());
    let factors = [1.0, 0.5 / Wilson::mass_term(options.mass)];
    let solved = solve_sides(sides.len(), |at| {
        let (b, (exact, narrow)) = (&sides[at].b, &operators[at]);
        let solved = [exact, narrow.as_ref().unwrap_or(exact)].map(|normal| -> &dyn Operator<C64> {
            if is_normal { normal } else { &normal.of }
        });
        method = solver.name(solved[0]);
        let equations =
            Equations { operator: &exact.of, solved, is_normal, of_site: SPINS * COLOURS, deflation: None };
        let mut z: Vec<Vec<C64>> = b.iter().map(|b| vec![C64::default(); b.len()]).collect();
        let mut histories = ObservedHistory::each(z.len(), options.most_steps, observer);
        let (solutions, of_heavy) = equations.solve(rt, options, b, &mut z, &mut histories)?;
        let histories = histories.into_iter().map(|watched| watched.history).collect();
        let fields = fields(rt, exact.of.to_other_parity(), &z, factors)?;
        Ok(SolvedSide { solutions, of_heavy, histories, fields })
    })?;
    let seconds = Seconds { smear, solve: begun.elapsed().as_secs_f64() };
    let products = if is_normal { 2 } else { 1 };
    Ok(Found { method, solved, products, links_by_svd: 0, deflation: None, seconds })
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use zellige_files::observe::Silent;

    use super::super::{Deflation, Method, Problem, Published, Solver, invert, multishift, reproduce};
    use super::*;
    use crate::dslash::Boundary;
    use crate::geometry::{DIRECTIONS, Geometry, T};
    use crate::smear::{Action, smear};
    use crate::testing::{random_gauge, random_matrices};

    fn wilson(mass: f64) -> Options {
        Options { action: Action::Wilson, mass, tolerance: 1e-11, ..Options::default() }
    }

    fn are_near(found: &[f64], expected: &[f64], relative: f64) -> bool {
        found.len() == expected.len()
            && found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= relative * b.abs())
    }

    /// Without a force the propagator is the sum over momenta of
    /// `1 / (i gamma . sin p + m0 + sum (1 - cos p))`. With `a` its part that is a multiple of 1,
    /// and `b_mu` that of `gamma_mu`, the sum of the squares of its elements is
    /// `4 (|a|^2 + |b|^2)` for each colour.
    fn free(extents: [usize; DIRECTIONS], mass: f64, boundary: Boundary) -> Vec<f64> {
        let sites = || {
            let [nx, ny, nz, nt] = extents;
            (0..nx * ny * nz * nt).map(move |i| [i % nx, i / nx % ny, i / nx / ny % nz, i / nx / ny / nz])
        };
        let shift = if boundary == Boundary::Antiperiodic { 0.5 } else { 0.0 };
        let waves: Vec<([f64; DIRECTIONS], [C64; 5])> = sites()
            .map(|n| {
                let p: [f64; DIRECTIONS] = std::array::from_fn(|mu| {
                    2.0 * PI * (n[mu] as f64 + if mu == T { shift } else { 0.0 }) / extents[mu] as f64
                });
                let own = mass + p.iter().map(|p| 1.0 - p.cos()).sum::<f64>();
                let squares = own * own + p.iter().map(|p| p.sin().powi(2)).sum::<f64>();
                let part = |k: usize| match k {
                    0 => C64::new(own, 0.0),
                    _ => C64::new(0.0, -p[k - 1].sin()),
                };
                (p, std::array::from_fn(|k| part(k) / squares / sites().count() as f64))
            })
            .collect();
        let mut sums = vec![0.0; extents[T]];
        for x in sites() {
            let mut parts = [C64::default(); 5];
            for (p, of_wave) in &waves {
                let phase = C64::cis(p.iter().zip(x).map(|(p, x)| p * x as f64).sum());
                parts.iter_mut().zip(of_wave).for_each(|(part, of_wave)| *part += of_wave * phase);
            }
            sums[x[T]] += (SPINS * COLOURS) as f64 * parts.iter().map(C64::norm_sqr).sum::<f64>();
        }
        sums
    }

    #[test]
    fn free_propagators_are_sums_over_momenta() -> Result<(), Error> {
        let rt = Runtime::builder().workers(2).build()?;
        for (extents, mass, boundary, source) in [
            ([4, 4, 4, 8], 0.2, Boundary::Antiperiodic, "point:0,0,0,0"),
            ([4, 4, 4, 8], 0.5, Boundary::Periodic, "point:1,2,3,5"),
            ([8, 4, 6, 4], -0.02, Boundary::Antiperiodic, "point:3,0,5,2"),
        ] {
            let u = Gauge::cold(Geometry::new(extents)?);
            let source = source.parse().expect("a source");
            let (found, _) = invert(&rt, &u, &Options { boundary, source, ..wilson(mass) }, &Silent)?;
            assert!(found.converged && found.iterations.len() == 12, "{found:?}");
            assert!(found.true_residual.iter().all(|residual| *residual <= 1e-11), "{found:?}");
            let expected = free(extents, mass, boundary);
            assert!(are_near(&found.correlator, &expected, 1e-8), "{:?}, not {expected:?}", found.correlator);
            assert_eq!(found.kappa, Some(1.0 / (2.0 * mass + 8.0)));
        }
        Ok(())
    }

    #[test]
    fn methods_and_formats_agree() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(2).build()?, random_gauge(Geometry::new([4; 4])?, 1));
        let plain = wilson(-0.5);
        let (expected, histories) = invert(&rt, &u, &Options { tolerance: 1e-13, ..plain }, &Silent)?;
        assert!(expected.converged && histories.len() == 12, "{expected:?}");
        assert_eq!(histories[5].steps.len(), expected.iterations[5]);
        let formats = ["double-single", "double-half", "double-int20", "double-int30"];
        let runs =
            ["cg", "bicgstabl:4"].into_iter().flat_map(|method| formats.map(|formats| (method, formats)));
        let in_double = ["cg", "block-cg", "bicgstabl:2", "gmres:30"].map(|method| (method, "double"));
        for (method, precision) in in_double.into_iter().chain(runs) {
            let (named, precision) = (method.parse().expect("a method"), precision.parse().expect("formats"));
            let solver = Solver { method: named, precision, ..Solver::default() };
            let (found, _) = invert(&rt, &u, &Options { solver, ..plain }, &Silent)?;
            assert!(found.converged, "{method} {precision}: {found:?}");
            assert!(found.true_residual.iter().all(|residual| *residual <= 1e-11), "{method} {precision}");
            assert!(
                are_near(&found.correlator, &expected.correlator, 1e-9),
                "{method} {precision}: {found:?}"
            );
        }
        // One colour is a third of the columns.
        let of = |colour| Options {
            source: format!("point:0,0,0,0:{colour}").parse().expect("a source"),
            ..plain
        };
        let mut sums = vec![0.0; 4];
        for colour in 0..COLOURS {
            let (found, _) = invert(&rt, &u, &of(colour), &Silent)?;
            assert_eq!(found.iterations.len(), SPINS);
            sums.iter_mut().zip(found.correlator).for_each(|(sum, value)| *sum += value);
        }
        assert!(are_near(&sums, &expected.correlator, 1e-9));
        Ok(())
    }

    #[test]
    fn correlators_do_not_depend_on_place_gauge_or_workers() -> Result<(), Error> {
        let geometry = Geometry::new([4, 4, 4, 6])?;
        let (u, g) = (random_gauge(geometry, 1), random_matrices(geometry.sites(), 2));
        let (rt, options) = (Runtime::builder().workers(2).build()?, wilson(-0.5));
        let (first, _) = invert(&rt, &u, &options, &Silent)?;
        let (same, _) = invert(&Runtime::builder().workers(1).build()?, &u, &options, &Silent)?;
        assert_eq!((same.correlator, same.iterations), (first.correlator.clone(), first.iterations));
        let (turned, _) = invert(&rt, &u.transformed(&g), &options, &Silent)?;
        assert!(are_near(&turned.correlator, &first.correlator, 1e-8));
        let moved = Gauge::from_fn(geometry, |site, mu| *u.link(geometry.neighbour(site, T, -1), mu));
        let source = "point:0,0,0,1".parse().expect("a source");
        let (moved, _) = invert(&rt, &moved, &Options { source, ..options }, &Silent)?;
        assert!(are_near(&moved.correlator, &first.correlator, 1e-8));
        Ok(())
    }

    /// The residual that is reported is that of the system, though conjugate gradients have that of
    /// the normal equations. Heavy quarks are solved for on every site.
    #[test]
    fn corrections_go_on_until_tolerances_are_met() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(2).build()?, random_gauge(Geometry::new([4; 4])?, 1));
        let light = Options { tolerance: 1e-6, ..wilson(-1.8) };
        let (found, histories) = invert(&rt, &u, &light, &Silent)?;
        assert!(found.converged && found.true_residual.iter().all(|residual| *residual <= 1e-6), "{found:?}");
        // The first run ends with the second check, where the residual of the normal equations is
        // small enough.
        assert!(histories.iter().zip(&found.iterations).all(|(history, steps)| {
            history.steps.len() == *steps && history.checks[1].0 < *steps && history.checks[1].1 <= 1e-6
        }));
        let heavy = Options { heavy_quark: Some(1e-7), tolerance: 1e-3, ..wilson(20.0) };
        let (found, _) = invert(&rt, &u, &heavy, &Silent)?;
        assert!(
            found.converged && found.heavy_quark_residual.iter().all(|heavy| *heavy <= 1e-7),
            "{found:?}"
        );
        let few = Options { most_steps: 3, ..light };
        let (found, _) = invert(&rt, &u, &few, &Silent)?;
        assert!(!found.converged && found.iterations == [3; 12], "{found:?}");
        Ok(())
    }

    #[test]
    fn what_is_not_for_wilson_quarks_is_refused() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(1).build()?, Gauge::cold(Geometry::new([4, 4, 4, 4])?));
        let single = Solver { precision: "double-single".parse().expect("formats"), ..Solver::default() };
        for (mass, solver) in [-4.0, -5.0, f64::NAN, f64::INFINITY, 1e100]
            .map(|mass| (mass, Solver::default()))
            .into_iter()
            .chain([(1e19, single)])
        {
            let refused = invert(&rt, &u, &Options { solver, ..wilson(mass) }, &Silent).expect_err("mass");
            assert!(refused.to_string().starts_with("mass: "), "{mass}: {refused}");
        }
        let plain = wilson(0.1);
        let eigen = super::super::EigenOptions {
            action: Action::Wilson,
            boundary: plain.boundary,
            mass: 0.0,
            count: 1,
            tolerance: 1e-8,
            format: zellige_kernels::sites::SiteFormat::Fp64,
        };
        let trust = zellige_stochastic::TrustOptions::default();
        let deflation = Some(Deflation::Compute(1, eigen.format));
        let refusals = [
            smear(&rt, &u, Action::Wilson).err(),
            super::super::eigen(&rt, &u, &eigen, &Silent).err(),
            multishift(&rt, &u, &plain, &[], &Solver::default(), &Silent).err(),
            super::super::propagator(&rt, &Problem { deflation, ..Problem::new(&u) }, &plain, &Silent).err(),
            crate::trust::invert(&rt, &u, &plain, &trust).err(),
            crate::tune::Tuning::new(&rt, &u, plain).err(),
        ];
        let figures = Published::ALL.map(|what| reproduce(&rt, &u, what, &plain, &Silent).err());
        for error in refusals.into_iter().chain(figures) {
            let error = error.expect("refused").to_string();
            assert!(error.starts_with("action: wilson: ") && error.contains("naive"), "{error}");
        }
        let narrow = Solver {
            method: Method::BlockCg,
            precision: "double-half".parse().expect("formats"),
            ..Solver::default()
        };
        assert!(invert(&rt, &u, &Options { solver: narrow, ..plain }, &Silent).is_err());
        Ok(())
    }
}
