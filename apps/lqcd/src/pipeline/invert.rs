//! Propagators, and the systems of staggered quarks.

use std::borrow::Cow;
use std::time::Instant;

use zellige_files::observe::Observer;
use zellige_krylov::{EigenPairs, History, Solution};
use zellige_runtime::Runtime;

use super::history::ObservedHistory;
use super::options::Options;
use super::problem::{LinkField, Problem};
pub(super) use super::propagator::unit;
use super::propagator::{Found, Side, SolvedSide, correlator, fields, solve_sides};
use super::results::{DeflationResult, InvertResult, Seconds};
use super::solving::Equations;
use super::wilson;
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, Geometry, T};
use crate::modes::ModesOf;
use crate::normal::Normal;
use crate::observables::{link_trace, plaquettes};
use crate::precision::Precision;
use crate::smear::{Action, Smeared, smear};
use crate::su3::C64;
use crate::wilson::Wilson;

/// Computes the propagator `M^-1 b` of `M = 2 m + D` from a point, for each colour, with its
/// correlator and the residual histories.
///
/// `u` is the field as stored in its file. Its links are first made exactly unitary. For a source
/// on sites of one parity, `z = (4 m^2 - D D)^-1 b` on these sites. The propagator is `2 m z` on
/// these sites and `-D z` on the others, without a division by a small mass. That of Wilson quarks
/// is described in [`wilson`](crate::wilson); it is computed for each spin and colour.
///
/// The observer is notified of the iterations of the first colour.
///
/// # Errors
/// [`Error::Parameter`] for invalid options; the errors of tasks. A residual above the tolerance is
/// no error: the result reports it.
pub fn invert(
    rt: &Runtime,
    u: &Gauge,
    options: &Options,
    observer: &dyn Observer,
) -> Result<(InvertResult, Vec<History>), Error> {
    propagator(rt, &Problem::new(u), options, observer).map(|found| (found.result, found.histories))
}

/// A computed propagator.
#[derive(Clone, Debug)]
pub struct Propagator {
    /// Results.
    pub result: InvertResult,
    /// Residual history of each source.
    pub histories: Vec<History>,
    /// Field of each source, in the order of the lattice's sites.
    pub fields: Vec<Vec<C64>>,
}

/// Computes a propagator like [`invert`], from other links, sources and eigenvectors.
///
/// # Errors
/// Those of [`invert`], of computing eigenvectors and of reading them; [`Error::Parameter`] for
/// source fields of another lattice or kind of quark.
pub fn propagator(
    rt: &Runtime,
    problem: &Problem<'_>,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Propagator, Error> {
    let geometry = problem.geometry();
    options.check(geometry)?;
    problem.check(options)?;
    let sides = problem.sides(options)?;
    let begun = Instant::now();
    let links = problem.links.of_one_hop();
    let (plaquette, trace) = (plaquettes(links), link_trace(links));
    let parities = sides.len();
    let found = match options.action {
        Action::Wilson => wilson::propagator(rt, links, options, &sides, begun, observer)?,
        _ => staggered(rt, problem, options, sides, begun, observer)?,
    };
    let SolvedSide { solutions, of_heavy, histories, fields } = found.solved;
    let first = if problem.sources.is_some() { 0 } else { options.source.at[T] };
    let steps = options.solver.steps();
    let products = options.solver.products();
    let deflation = found.deflation;
    let result = InvertResult {
        lattice: geometry.extents(),
        plaquette,
        link_trace: trace,
        action: problem.action(options),
        mass: options.mass,
        kappa: (options.action == Action::Wilson).then(|| Wilson::kappa(options.mass)),
        boundary: options.boundary.to_string(),
        source: problem.source(options),
        tolerance: options.tolerance,
        heavy_quark_tolerance: options.heavy_quark,
        method: found.method,
        precision: options.solver.precision.to_string(),
        converged: solutions.iter().zip(&of_heavy).all(|(solution, heavy)| options.are_met(solution, *heavy)),
        links_by_svd: found.links_by_svd,
        iterations: solutions.iter().map(|solution| steps * solution.steps).collect(),
        iterated_residual: solutions
            .iter()
            .map(|solution| solution.iterated_residual / solution.rhs)
            .collect(),
        true_residual: solutions.iter().map(|solution| solution.true_residual / solution.rhs).collect(),
        reliable_updates: solutions.iter().map(|solution| solution.updates).collect(),
        // The applications are those of steps, for replaced residuals, for the initial residual of
        // the first run, for the final residual of each run, and for what deflation leaves of it.
        // Normal equations need two more for each run: right-hand side and residual of the system.
        applications: solutions
            .iter()
            .map(|solution| {
                let deflated = if deflation.is_some() { solution.runs } else { 0 };
                let own = products * steps * solution.steps + solution.updates + solution.runs + parities;
                let of_system = if found.products == 2 { 2 * solution.runs } else { 0 };
                found.products * (own + deflated) + of_system
            })
            .collect(),
        deflation,
        heavy_quark_residual: of_heavy,
        correlator: correlator(&fields, geometry, first),
        written: None,
        seconds: found.seconds,
    };
    Ok(Propagator { result, histories, fields })
}

/// Returns the links of a staggered action.
fn smeared<'a>(rt: &Runtime, links: LinkField<'a>, action: Action) -> Result<Cow<'a, Smeared>, Error> {
    match links {
        LinkField::Smeared(smeared) => Ok(Cow::Borrowed(smeared)),
        LinkField::Gauge(u) => {
            let mut links = u.clone();
            links.reunitarise();
            smear(rt, &links, action).map(Cow::Owned)
        }
    }
}

/// Computes the propagator of a staggered quark.
fn staggered(
    rt: &Runtime,
    problem: &Problem<'_>,
    options: &Options,
    sides: Vec<Side>,
    begun: Instant,
    observer: &dyn Observer,
) -> Result<Found, Error> {
    let links = smeared(rt, problem.links, options.action)?;
    let systems: Vec<System> = sides.into_iter().map(|side| System::of(rt, &links, options, side)).collect();
    let smear_seconds = begun.elapsed().as_secs_f64();

    let begun = Instant::now();
    let modes = problem.deflation.map(|deflation| {
        let of = ModesOf::new(problem.links.of_one_hop(), options.action, options.boundary);
        deflation.modes(rt, &links, of, options, observer)
    });
    let modes = modes.transpose()?;
    drop(links);
    let on = |system: &System| modes.as_ref().map(|modes| modes.on(rt, &system.a)).transpose();
    let pairs = systems.iter().map(on).collect::<Result<Vec<_>, _>>()?;
    let deflation = modes.as_ref().map(|modes| DeflationResult {
        vectors: modes.pairs.values.len(),
        format: modes.format.name(),
        bytes: modes.pairs.vectors.bytes(),
        applications: modes.pairs.applications,
        seconds: begun.elapsed().as_secs_f64(),
    });
    drop(modes);

    let begun = Instant::now();
    let solved = solve_sides(systems.len(), |at| {
        let system = &systems[at];
        let (z, (solutions, of_heavy), histories) =
            system.solve_with(rt, options, pairs[at].as_ref(), observer)?;
        Ok(SolvedSide { solutions, of_heavy, histories, fields: system.fields(rt, &z)? })
    })?;
    let seconds = Seconds { smear: smear_seconds, solve: begun.elapsed().as_secs_f64() };
    let (method, links_by_svd) = (options.solver.name(&systems[0].a), systems[0].links_by_svd);
    Ok(Found { method, solved, products: 1, links_by_svd, deflation, seconds })
}

/// The systems of a propagator for sources on sites of one parity.
pub(crate) struct System {
    /// The operator in float64.
    pub a: Normal,
    /// The operator in the formats of the solver, if they are others.
    narrow: Option<Normal>,
    /// Links that were projected by a singular value decomposition.
    links_by_svd: usize,
    /// Right-hand sides.
    pub b: Vec<Vec<C64>>,
}

impl System {
    /// Smears the links of `u`, which are first made exactly unitary, and builds the operators for
    /// the point source of the options.
    pub fn new(rt: &Runtime, u: &Gauge, options: &Options) -> Result<System, Error> {
        let problem = Problem::new(u);
        let links = smeared(rt, problem.links, options.action)?;
        let mut sides = problem.sides(options)?;
        Ok(System::of(rt, &links, options, sides.remove(0)))
    }

    fn of(rt: &Runtime, links: &Smeared, options: &Options, Side { parity, b }: Side) -> System {
        let a = Normal::new(rt, links, options.mass, parity, options.boundary, Precision::DOUBLE);
        let narrow = options.solver.narrow(rt, links, options.mass, parity, options.boundary);
        System { a, narrow, links_by_svd: links.by_svd, b }
    }

    /// Solves the systems. Returns the solutions, what is known of them, and the histories.
    pub fn solve(&self, rt: &Runtime, options: &Options, observer: &dyn Observer) -> Result<Solved, Error> {
        self.solve_with(rt, options, None, observer)
    }

    /// Solves the systems from the solutions in the space of eigenvectors.
    fn solve_with(
        &self,
        rt: &Runtime,
        options: &Options,
        pairs: Option<&EigenPairs<C64>>,
        observer: &dyn Observer,
    ) -> Result<Solved, Error> {
        let mut z: Vec<Vec<C64>> = self.b.iter().map(|b| vec![C64::default(); b.len()]).collect();
        let mut histories = ObservedHistory::each(z.len(), options.most_steps, observer);
        let equations = Equations {
            operator: &self.a,
            solved: [&self.a, self.narrow.as_ref().unwrap_or(&self.a)],
            is_normal: false,
            of_site: COLOURS,
            deflation: pairs.map(|pairs| (pairs, Normal::mass_term(options.mass))),
        };
        let known = equations.solve(rt, options, &self.b, &mut z, &mut histories)?;
        Ok((z, known, histories.into_iter().map(|watched| watched.history).collect()))
    }

    /// Returns the propagator on all sites: `2 m z` and `-D z`.
    fn fields(&self, rt: &Runtime, z: &[Vec<C64>]) -> Result<Vec<Vec<C64>>, Error> {
        fields(rt, self.a.to_other_parity(), z, [2.0 * self.a.mass(), -1.0])
    }

    /// Returns the correlator of the propagator.
    pub fn correlator(
        &self,
        rt: &Runtime,
        z: &[Vec<C64>],
        geometry: Geometry,
        first: usize,
    ) -> Result<Vec<f64>, Error> {
        Ok(correlator(&self.fields(rt, z)?, geometry, first))
    }
}

/// Solutions, what is known of them with their heavy-quark residuals, and histories.
type Solved = (Vec<Vec<C64>>, (Vec<Solution>, Vec<f64>), Vec<History>);

#[cfg(test)]
mod tests {
    use zellige_files::observe::Silent;

    use super::super::solver::{Method, Mixed, Solver};
    use super::*;
    use crate::testing::random_gauge;

    #[test]
    fn correlators_do_not_depend_on_place_gauge_or_workers() -> Result<(), Error> {
        let geometry = Geometry::new([4, 4, 4, 8])?;
        let u = random_gauge(geometry, 1);
        let g = crate::testing::random_matrices(geometry.sites(), 2);
        let options = Options { mass: 0.3, tolerance: 1e-12, ..Options::default() };
        let rt = Runtime::builder().workers(2).build()?;
        let (first, histories) = invert(&rt, &u, &options, &Silent)?;
        assert!(first.converged && first.correlator.len() == 8 && histories.len() == 3);
        assert_eq!(histories[1].steps.len(), first.iterations[1]);
        let one = Runtime::builder().workers(1).build()?;
        let (same, _) = invert(&one, &u, &options, &Silent)?;
        assert_eq!((same.correlator, same.iterations), (first.correlator.clone(), first.iterations));
        let near = |other: &[f64]| first.correlator.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-9 * a);
        assert!(near(&invert(&rt, &u.transformed(&g), &options, &Silent)?.0.correlator));
        // The field and the source are shifted by one site in time, so that the source is on odd
        // sites.
        let moved = Gauge::from_fn(geometry, |site, mu| *u.link(geometry.neighbour(site, T, -1), mu));
        let options = Options { source: "point:0,0,0,1".parse().expect("a source"), ..options };
        let (moved, _) = invert(&rt, &moved, &options, &Silent)?;
        assert!(near(&moved.correlator), "{:?} {:?}", first.correlator, moved.correlator);
        Ok(())
    }

    /// The quark is so heavy that its propagator is tiny on most sites. A residual relative to the
    /// source is insensitive to these.
    #[test]
    fn heavy_quarks_are_solved_for_until_every_site_is() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(2).build()?, random_gauge(Geometry::new([4, 4, 4, 8])?, 1));
        let plain = Options { action: Action::Naive, mass: 2.0, tolerance: 1e-3, ..Options::default() };
        let (before, _) = invert(&rt, &u, &plain, &Silent)?;
        assert!(before.converged && before.heavy_quark_residual.iter().all(|heavy| *heavy > 1e-3));
        let (after, histories) = invert(&rt, &u, &Options { heavy_quark: Some(1e-6), ..plain }, &Silent)?;
        assert!(
            after.converged && after.heavy_quark_residual.iter().all(|heavy| *heavy <= 1e-6),
            "{after:?}"
        );
        for (k, history) in histories.iter().enumerate() {
            assert!(
                after.iterations[k] > before.iterations[k]
                    && after.true_residual[k] < before.true_residual[k]
            );
            assert_eq!(history.steps.len(), after.iterations[k]);
            assert!(history.checks.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{:?}", history.checks);
            assert_eq!(history.checks.last().map(|check| check.0), Some(after.iterations[k]));
        }
        // The quark is even heavier: the residual at the source is below its rounding errors long
        // before every site is reached. Products are 4 m^2 times as large as the propagator, and
        // their rounding errors limit the residual.
        for (mass, goal) in [(3.0, 1e-10), (30.0, 1e-10), (1e3, 1e-7)] {
            let heavy = Options { mass, tolerance: 1e-12, heavy_quark: Some(goal), ..plain };
            let (found, _) = invert(&rt, &u, &heavy, &Silent)?;
            assert!(found.converged, "{mass}: {found:?}");
            assert!(found.heavy_quark_residual.iter().all(|heavy| *heavy <= goal), "{mass}: {found:?}");
            assert!(found.true_residual.iter().all(|residual| *residual <= 1e-12), "{mass}: {found:?}");
        }
        for mass in [1e10, 1e40, 5e76] {
            let beyond = Options { mass, tolerance: 1e-12, heavy_quark: Some(1e-8), ..plain };
            assert!(!invert(&rt, &u, &beyond, &Silent)?.0.converged, "{mass}");
        }
        // These tolerances are unreachable in float64, or need more steps than permitted.
        let never = Options { heavy_quark: Some(1e-30), ..plain };
        assert!(!invert(&rt, &u, &never, &Silent)?.0.converged);
        let (few, _) = invert(&rt, &u, &Options { most_steps: before.iterations[0], ..never }, &Silent)?;
        assert!(!few.converged && few.iterations[0] == before.iterations[0]);
        Ok(())
    }

    /// For a very large mass, `D` is negligible. The propagator is then `b / 2 m` to rounding, and
    /// the first time slice has its square.
    #[test]
    fn propagators_of_any_mass_are_in_range() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(2).build()?, random_gauge(Geometry::new([4, 4, 4, 4])?, 1));
        let plain = Options { action: Action::Naive, ..Options::default() };
        let of = |mass: f64, solver: Solver| invert(&rt, &u, &Options { mass, solver, ..plain }, &Silent);
        // The polynomials contain powers of the operator, whose range permits only smaller masses.
        for (method, masses) in [(Method::Cg, &[1e10, 1e40, 5e76][..]), (Method::BiCgStab { l: 4 }, &[1e10])]
        {
            for &mass in masses {
                let (found, _) = of(mass, Solver { method, ..Solver::default() })?;
                assert!(found.converged, "{method} {mass}: {found:?}");
                let own = 3.0 / mass / mass / 4.0;
                assert!((found.correlator[0] - own).abs() < 1e-12 * own, "{method} {mass}: {found:?}");
            }
        }
        for precision in ["double-half", "double-int20", "double-int30", "double-single"] {
            let precision: Mixed = precision.parse().expect("formats");
            let solver = Solver { precision, ..Solver::default() };
            assert!(of(4e18, solver)?.0.converged, "{precision}");
            let error = of(1e19, solver).expect_err("mass").to_string();
            assert!(error.starts_with("mass: 1e19: ") && error.contains("float32"), "{error}");
        }
        let (tiny, small) = (of(1e-200, Solver::default())?.0, of(1e-10, Solver::default())?.0);
        assert!(tiny.converged && small.converged);
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6 * b;
        assert!(tiny.correlator.iter().zip(&small.correlator).all(near), "{tiny:?} {small:?}");
        Ok(())
    }

    #[test]
    fn options_without_meaning_are_refused() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(1).build()?, Gauge::cold(Geometry::new([4, 4, 4, 4])?));
        let options = Options::default();
        let beyond = "point:0,0,4,0".parse().expect("a source");
        for (options, name) in [
            (Options { mass: 0.0, ..options }, "mass"),
            (Options { mass: -0.1, ..options }, "mass"),
            (Options { mass: 1e77, ..options }, "mass"),
            (Options { mass: 1e200, ..options }, "mass"),
            (Options { tolerance: f64::NAN, ..options }, "tol"),
            (Options { heavy_quark: Some(0.0), ..options }, "heavy-quark-tol"),
            (Options { source: beyond, ..options }, "source"),
        ] {
            let error = invert(&rt, &u, &options, &Silent).expect_err(name).to_string();
            assert!(error.starts_with(&format!("{name}: ")), "{error}");
        }
        let options = Options { most_steps: 2, ..options };
        let (result, _) = invert(&rt, &u, &options, &Silent)?;
        assert!(!result.converged && result.iterations == [2, 2, 2]);
        Ok(())
    }
}
