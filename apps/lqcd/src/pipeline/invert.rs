//! Propagators from a point source.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

use num_complex::Complex;
use zellige_files::observe::Observer;
use zellige_kernels::RealNumber;
use zellige_kernels::sites::SiteFormat;
use zellige_krylov::{
    Deflated, EigenPairs, History, Logger, MultiVector, Operator, Solution, Solve, Stop, StoppingCriterion,
    solve, solve_columns,
};
use zellige_runtime::Runtime;

use super::eigen::EigenOptions;
use super::history::ObservedHistory;
use super::results::{DeflationResult, InvertResult, Seconds};
use super::solver::{Solver, heavy_quark_residual, norm, residual};
use crate::dslash::{Boundary, dslash_now};
use crate::error::Error;
use crate::files;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, DIRECTIONS, Geometry, T};
use crate::modes::{LowModes, ModesOf};
use crate::normal::Normal;
use crate::observables::{link_trace, plaquettes};
use crate::precision::Precision;
use crate::smear::{Action, Smeared, smear};
use crate::su3::C64;

/// Point source of a propagator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Source {
    /// Coordinates x, y, z and t.
    pub at: [usize; DIRECTIONS],
    /// Colour of the source; by default each colour in turn.
    pub colour: Option<usize>,
}

impl Source {
    /// Returns the colours of the source.
    fn colours(self) -> Vec<usize> {
        self.colour.map_or_else(|| (0..COLOURS).collect(), |colour| vec![colour])
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z, t] = self.at;
        write!(f, "point:{x},{y},{z},{t}")?;
        self.colour.map_or(Ok(()), |colour| write!(f, ":{colour}"))
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let refused = || "not point:X,Y,Z,T or point:X,Y,Z,T:COLOUR with a colour from 0 to 2".to_owned();
        let mut words = text.split(':');
        let (kind, place, colour) = (words.next(), words.next(), words.next());
        let at = place.map(|place| place.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>());
        let Some(Ok(Ok(at))) = at.map(|at| at.map(<[usize; DIRECTIONS]>::try_from)) else {
            return Err(refused());
        };
        let colour = match colour.map(str::parse) {
            None => None,
            Some(Ok(colour)) if colour < COLOURS => Some(colour),
            Some(_) => return Err(refused()),
        };
        if kind == Some("point") && words.next().is_none() {
            Ok(Source { at, colour })
        } else {
            Err(refused())
        }
    }
}

/// Options of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Action.
    pub action: Action,
    /// Quark mass, above 0.
    pub mass: f64,
    /// Boundary condition in time.
    pub boundary: Boundary,
    /// Point source.
    pub source: Source,
    /// Tolerance: norm of the residual relative to that of the source.
    pub tolerance: f64,
    /// Additional tolerance for the heavy-quark residual; used by [`invert`] only.
    pub heavy_quark: Option<f64>,
    /// Maximum number of steps for each colour.
    pub most_steps: usize,
    /// Method and formats.
    pub solver: Solver,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            action: Action::HISQ,
            mass: 0.01,
            boundary: Boundary::default(),
            source: Source::default(),
            tolerance: 1e-10,
            heavy_quark: None,
            most_steps: 100_000,
            solver: Solver::default(),
        }
    }
}

impl Options {
    /// Returns whether a solution meets the tolerances.
    fn are_met(&self, solution: &Solution, heavy: f64) -> bool {
        solution.true_residual <= self.tolerance * solution.rhs
            && self.heavy_quark.is_none_or(|goal| heavy <= goal)
    }

    pub(crate) fn check(&self, geometry: Geometry) -> Result<(), Error> {
        if !(self.mass > 0.0 && self.mass.is_finite()) {
            return Err(Error::parameter("mass", format!("{}: a number above 0 is needed", self.mass)));
        }
        self.solver.check_formats()?;
        self.solver.check_range("mass", self.mass, Normal::mass_term(self.mass))?;
        if !(self.tolerance > 0.0 && self.tolerance.is_finite()) {
            return Err(Error::parameter("tol", format!("{}: a number above 0 is needed", self.tolerance)));
        }
        if let Some(goal) = self.heavy_quark.filter(|goal| !(*goal > 0.0 && goal.is_finite())) {
            return Err(Error::parameter("heavy-quark-tol", format!("{goal}: a number above 0 is needed")));
        }
        let extents = geometry.extents();
        if self.source.at.iter().zip(extents).any(|(&at, extent)| at >= extent) {
            let problem = format!("{}: the lattice has {extents:?} sites, counted from 0", self.source);
            return Err(Error::parameter("source", problem));
        }
        Ok(())
    }
}

/// Tolerance of eigenvectors that are computed for deflation, relative to the largest eigenvalue.
const TOLERANCE: f64 = 1e-8;
/// Maximum ratio of the heavy-quark residuals after and before a useful correction, unless the
/// correction reaches new sites.
const GAIN: f64 = 0.99;
/// Stagnation limit: number of consecutive useless corrections before the run ends.
const PATIENCE: usize = 3;

/// Computes the propagator `M^-1 b` of `M = 2 m + D` from a point, for each colour, with its
/// correlator and the residual histories.
///
/// `u` is the field as stored in its file. Its links are first made exactly unitary. For a source
/// on sites of one parity, `z = (4 m^2 - D D)^-1 b` on these sites. The propagator is `2 m z` on
/// these sites and `-D z` on the others, without a division by a small mass.
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
    invert_with(rt, u, options, None, observer)
}

/// Eigenvectors that begin the solves of a propagator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deflation<'d> {
    /// This number of eigenvectors, which are computed first, and how they are stored.
    Compute(usize, SiteFormat),
    /// Eigenvectors of a file.
    Read(&'d Path),
}

impl Deflation<'_> {
    /// Computes or reads the eigenvectors of an operator.
    fn modes(
        self,
        rt: &Runtime,
        smeared: &Smeared,
        of: ModesOf,
        options: &Options,
        observer: &dyn Observer,
    ) -> Result<LowModes, Error> {
        match self {
            Deflation::Read(path) => {
                let modes = files::modes::read(rt, path)?;
                modes.check(&of).map(|()| modes)
            }
            Deflation::Compute(count, format) => {
                let Options { action, boundary, mass, .. } = *options;
                let options = EigenOptions { action, boundary, mass, count, tolerance: TOLERANCE, format };
                LowModes::compute(rt, of, smeared, &options.lanczos(), format, observer)
            }
        }
    }
}

/// Computes a propagator like [`invert`], with conjugate gradients or `BiCGStab` on what
/// eigenvectors leave of it.
///
/// # Errors
/// Those of [`invert`], of computing eigenvectors and of reading them.
pub fn invert_with(
    rt: &Runtime,
    u: &Gauge,
    options: &Options,
    deflation: Option<Deflation<'_>>,
    observer: &dyn Observer,
) -> Result<(InvertResult, Vec<History>), Error> {
    let geometry = u.geometry();
    options.check(geometry)?;
    let begun = Instant::now();
    let (plaquette, trace) = (plaquettes(u), link_trace(u));
    let (system, smeared) = System::with_links(rt, u, options)?;
    let smear_seconds = begun.elapsed().as_secs_f64();

    let begun = Instant::now();
    let a = &system.a;
    let modes = deflation.map(|deflation| {
        let of = ModesOf::new(u, options.action, options.boundary);
        deflation.modes(rt, &smeared, of, options, observer)
    });
    let modes = modes.transpose()?;
    drop(smeared);
    let pairs = modes.as_ref().map(|modes| modes.on(rt, a)).transpose()?;
    let deflation = modes.as_ref().map(|modes| DeflationResult {
        vectors: modes.pairs.values.len(),
        format: modes.format.name(),
        bytes: modes.pairs.vectors.bytes(),
        applications: modes.pairs.applications,
        seconds: begun.elapsed().as_secs_f64(),
    });
    drop(modes);

    let begun = Instant::now();
    let (z, (solutions, of_heavy), histories) = system.solve_with(rt, options, pairs.as_ref(), observer)?;
    let correlator = correlator(rt, a, &z, geometry, options.source.at[T])?;
    let solve_seconds = begun.elapsed().as_secs_f64();
    let steps = options.solver.steps();
    let products = options.solver.products();
    let result = InvertResult {
        lattice: geometry.extents(),
        plaquette,
        link_trace: trace,
        action: options.action.to_string(),
        mass: options.mass,
        boundary: options.boundary.to_string(),
        source: options.source.to_string(),
        tolerance: options.tolerance,
        heavy_quark_tolerance: options.heavy_quark,
        method: options.solver.name(a),
        precision: options.solver.precision.to_string(),
        deflation,
        converged: solutions.iter().zip(&of_heavy).all(|(solution, heavy)| options.are_met(solution, *heavy)),
        links_by_svd: system.links_by_svd,
        iterations: solutions.iter().map(|solution| steps * solution.steps).collect(),
        iterated_residual: solutions
            .iter()
            .map(|solution| solution.iterated_residual / solution.rhs)
            .collect(),
        true_residual: solutions.iter().map(|solution| solution.true_residual / solution.rhs).collect(),
        heavy_quark_residual: of_heavy,
        reliable_updates: solutions.iter().map(|solution| solution.updates).collect(),
        // The applications are those of steps, for replaced residuals, for the initial residual of
        // the first run, for the final residual of each run, and for what deflation leaves of it.
        applications: solutions
            .iter()
            .map(|solution| {
                let deflated = if pairs.is_some() { solution.runs } else { 0 };
                products * steps * solution.steps + solution.updates + solution.runs + 1 + deflated
            })
            .collect(),
        correlator,
        seconds: Seconds { smear: smear_seconds, solve: solve_seconds },
    };
    Ok((result, histories))
}

/// The systems of a propagator, one for each colour of its source.
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
    /// Smears the links of `u`, which are first made exactly unitary, and builds the operators.
    pub fn new(rt: &Runtime, u: &Gauge, options: &Options) -> Result<System, Error> {
        System::with_links(rt, u, options).map(|(system, _)| system)
    }

    /// Returns the systems and the smeared links.
    fn with_links(rt: &Runtime, u: &Gauge, options: &Options) -> Result<(System, Smeared), Error> {
        let geometry = u.geometry();
        let mut links = u.clone();
        links.reunitarise();
        let smeared = smear(rt, &links, options.action)?;
        drop(links);
        let site = geometry.site(options.source.at);
        let (parity, double) = (geometry.parity(site), Precision::DOUBLE);
        let a = Normal::new(rt, &smeared, options.mass, parity, options.boundary, double);
        let narrow = options.solver.narrow(rt, &smeared, options.mass, parity, options.boundary);
        let place = (site as usize % geometry.half()) * COLOURS;
        let colours = options.source.colours();
        let b = colours.iter().map(|colour| unit(a.domain().len(), place + colour)).collect();
        Ok((System { a, narrow, links_by_svd: smeared.by_svd, b }, smeared))
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
        let inner: &dyn Operator<C64> = self.narrow.as_ref().unwrap_or(&self.a);
        let known = solved(rt, [&self.a, inner], (options, pairs), &self.b, &mut z, &mut histories)?;
        Ok((z, known, histories.into_iter().map(|watched| watched.history).collect()))
    }
}

/// Solutions, what is known of them with their heavy-quark residuals, and histories.
type Solved = (Vec<Vec<C64>>, (Vec<Solution>, Vec<f64>), Vec<History>);

/// Solves for each right-hand side, and then for corrections until the heavy-quark residuals are
/// also small enough. Returns the solutions and these residuals.
fn solved(
    rt: &Runtime,
    [exact, inner]: [&dyn Operator<C64>; 2],
    (options, pairs): (&Options, Option<&EigenPairs<C64>>),
    b: &[Vec<C64>],
    z: &mut [Vec<C64>],
    histories: &mut [ObservedHistory<'_>],
) -> Result<(Vec<Solution>, Vec<f64>), Error> {
    let plain = Solve { inner, ..Solve::new(rt, exact) };
    let most_steps = options.most_steps.div_ceil(options.solver.steps());
    let method = options.solver.method(exact, b.len());
    let shift = Normal::mass_term(options.mass);
    let deflated = pairs.map(|pairs| Deflated { method: &*method, exact, pairs, shift });
    let reduction = deflated.as_ref().map_or(0.0, Deflated::reduction);
    let problem = Solve { reduction, ..plain };
    let method: &dyn zellige_krylov::Method<C64> = match &deflated {
        Some(deflated) => deflated,
        None => &*method,
    };
    let stop = [Stop::RelativeToRhs(options.tolerance), Stop::Steps(most_steps)];
    let stops = vec![&stop as &[Stop]; b.len()];
    let stops: Vec<&dyn StoppingCriterion> = stops.iter().map(|stop| stop as _).collect();
    let sides: Vec<&[C64]> = b.iter().map(Vec::as_slice).collect();
    let mut x: Vec<&mut [C64]> = z.iter_mut().map(Vec::as_mut_slice).collect();
    let mut logs: Vec<&mut dyn Logger> = histories.iter_mut().map(|log| log as &mut dyn Logger).collect();
    let mut solutions = solve_columns(&problem, method, &sides, &mut x, &stops, &mut logs)?;
    let mut of_heavy = Vec::with_capacity(b.len());
    for (((b, z), solution), history) in b.iter().zip(z).zip(&mut solutions).zip(histories) {
        let mut r = residual(rt, exact, b, z)?;
        let mut heavy = heavy_quark_residual(&r, z);
        let (mut least, mut in_vain) = (heavy, 0);
        while let Some(goal) = options.heavy_quark
            && solution.reason.is_converged()
            && heavy > goal
            && solution.steps < most_steps
            && in_vain < PATIENCE
        {
            // The norm of the residual is dominated by sites near the source. There it may have
            // reached its minimum while distant sites are not solved for yet. Relative to its own
            // residual, a correction is as accurate as before.
            history.go_on();
            let steps = Stop::Steps(most_steps - solution.steps);
            let stop = [Stop::RelativeToRhs((0.5 * goal / heavy).min(0.1)), steps];
            let mut next = vec![C64::default(); r.len()];
            let new = solve(&plain, &*options.solver.method(exact, 1), &r, &mut next, &stop[..], history)?;
            next.iter_mut().zip(&*z).for_each(|(next, z)| *next += z);
            let left = residual(rt, exact, b, &next)?;
            if new.steps == 0 || norm(&left) > options.tolerance * solution.rhs {
                break;
            }
            r = left;
            heavy = heavy_quark_residual(&r, &next);
            // A site that is reached for the first time may have a larger residual than with a zero
            // solution.
            let has_gained = heavy <= GAIN * least || zeros(&next) < zeros(z);
            in_vain = if has_gained { 0 } else { in_vain + 1 };
            least = least.min(heavy);
            z.copy_from_slice(&next);
            solution.steps += new.steps;
            solution.updates += new.updates;
            solution.runs += new.runs;
            solution.iterated_residual = new.iterated_residual;
            solution.true_residual = norm(&r);
        }
        of_heavy.push(heavy);
    }
    Ok((solutions, of_heavy))
}

/// Returns the number of sites on which a vector is zero.
fn zeros(z: &[C64]) -> usize {
    z.chunks_exact(COLOURS).filter(|site| site.iter().all(|z| *z == C64::default())).count()
}

/// Returns a vector of zeros with a single one.
pub(super) fn unit(length: usize, at: usize) -> Vec<C64> {
    let mut unit = vec![C64::default(); length];
    unit[at] = C64::new(1.0, 0.0);
    unit
}

/// Returns the sums of the squares of `2 m z` and of `D z` in each time slice, counted from
/// `first`.
pub(crate) fn correlator(
    rt: &Runtime,
    a: &Normal,
    z: &[Vec<C64>],
    geometry: Geometry,
    first: usize,
) -> Result<Vec<f64>, Error> {
    let columns: Vec<&[C64]> = z.iter().map(Vec::as_slice).collect();
    let here = MultiVector::from_columns(rt, a.domain(), &columns);
    let there = MultiVector::zeros(rt, a.domain(), z.len());
    dslash_now(rt, a.to_other_parity(), &here, &there, -1.0)?;
    let mut sums = vec![0.0; geometry.extents()[T]];
    for (column, z) in z.iter().enumerate() {
        add_squares(&mut sums, [z, &there.column(rt, column)?], 2.0 * a.mass(), geometry, first);
    }
    Ok(sums)
}

/// Adds the squares of `factor z` and of `there` in each time slice, counted from `first`.
pub(crate) fn add_squares<R: RealNumber>(
    sums: &mut [R],
    [z, there]: [&[Complex<R>]; 2],
    factor: f64,
    geometry: Geometry,
    first: usize,
) {
    let (slice, nt, factor) = (geometry.slice() * COLOURS, geometry.extents()[T], R::from(factor));
    let square = |[re, im]: [R; 2]| re * re + im * im;
    for t in 0..nt {
        R::begin(t as u64);
        let range = t * slice..(t + 1) * slice;
        // The square of a heavy quark's `z` could underflow even if that of the propagator does
        // not.
        let own: R = z[range.clone()].iter().map(|z| square([z.re * factor, z.im * factor])).sum();
        let other: R = there[range].iter().map(|z| square([z.re, z.im])).sum();
        let sum = &mut sums[(t + nt - first) % nt];
        *sum = *sum + (own + other);
    }
}

#[cfg(test)]
mod tests {
    use zellige_files::observe::Silent;

    use super::super::solver::{Method, Mixed};
    use super::*;
    use crate::testing::random_gauge;

    #[test]
    fn sources_are_written_as_they_are_read() {
        for text in ["point:0,0,0,0", "point:1,2,3,4:2"] {
            assert_eq!(text.parse::<Source>().map(|source| source.to_string()), Ok(text.to_owned()));
        }
        for text in
            ["point", "point:1,2,3", "wall:0,0,0,0", "point:0,0,0,0:3", "point:0,0,0,-1", "point:0,0,0,0:1:1"]
        {
            assert!(text.parse::<Source>().is_err(), "{text}");
        }
    }

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
