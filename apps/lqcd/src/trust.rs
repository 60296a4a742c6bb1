//! Exact digits of propagators, by stochastic arithmetic.
//!
//! The system is solved with numbers of several samples, each operation rounded up or down at
//! random ([`zellige_stochastic`]); residual, propagator on the other sites and correlator follow
//! from its solution. Random bits depend on the operation and the site alone, so digits are the
//! same on any number of workers.

use std::collections::BTreeMap;
use std::time::Instant;

use zellige_files::observe::Silent;
use zellige_krylov::method::{NumbersHandle, Steps, Workspace};
use zellige_krylov::{Method, MultiVector, Operator, Solution, Solve, Space, Stop, coefficients, solve};
use zellige_runtime::Runtime;
use zellige_stochastic::{DigitMap, Samples, Scope, Stochastic, Trust, TrustOptions, WithSamples};

use crate::dslash::StochasticComplex;
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, Geometry, T};
use crate::normal::Normal;
use crate::pipeline::propagator::add_squares;
use crate::pipeline::solver::residual;
use crate::pipeline::{Mixed, Options, System};

/// Digits of float64.
const ALL: u8 = 15;

/// Computes the propagator as [`pipeline::invert`](crate::pipeline::invert()) does, and judges its
/// digits. Maps have a row for each time slice, and a column for each site of a parity in it; those
/// of coefficients have a row for each step. Of several colours they have the fewest digits.
///
/// # Errors
/// Those of [`pipeline::invert`](crate::pipeline::invert()); [`Error::Parameter`] for other samples
/// than 3, 8 or 16, and for options that stochastic numbers are not solved with.
pub fn invert(rt: &Runtime, u: &Gauge, options: &Options, trust: &TrustOptions) -> Result<Trust, Error> {
    options.check(u.geometry())?;
    check(options, trust)?;
    let system = System::new(rt, u, options)?;
    let (geometry, first) = (u.geometry(), options.source.at[T]);
    let begun = Instant::now();
    let (z, ..) = system.solve(rt, options, &Silent)?;
    system.correlator(rt, &z, geometry, first)?;
    let plain = begun.elapsed().as_secs_f64();
    let scope = Scope::new(trust.seed);
    let begun = Instant::now();
    let found = trust.dispatch(Work { rt, system: &system, options, geometry, scope: &scope })?;
    let seconds = begun.elapsed().as_secs_f64();
    let shape = [geometry.extents()[T], geometry.slice()];
    let map = |name: &str, digits: Vec<u8>| DigitMap::new(name, "site", shape, digits, ALL);
    let of_correlator = found.correlator.iter().map(|of_slice| of_slice.1).collect();
    let mut maps = vec![
        map("x", found.of_x),
        map("the residual b - A x", found.of_residual),
        map("D x", found.of_other_sites),
        DigitMap::new("the correlator", "slice", [shape[0], 1], of_correlator, ALL),
    ];
    let mut conclusions = conclusions(&maps, &found.solutions);
    let (of_method, lost) = coefficients(&found.coefficients, &options.solver.name(&system.a));
    maps.extend(of_method);
    conclusions.extend(lost);
    Ok(Trust {
        samples: trust.samples,
        seed: trust.seed,
        maps,
        converged: Some(found.solutions.iter().all(|solution| solution.reason.is_converged())),
        instabilities: scope.report(),
        conclusions,
        plain_seconds: Some(plain),
        seconds,
    })
}

fn check(options: &Options, trust: &TrustOptions) -> Result<(), Error> {
    options.action.check_staggered()?;
    if !matches!(trust.samples, 3 | 8 | 16) {
        return Err(Error::parameter("samples", format!("{}: 3, 8 or 16 are possible", trust.samples)));
    }
    if options.solver.precision != Mixed::Double {
        return Err(Error::parameter("precision", "stochastic numbers are solved with in double alone"));
    }
    if options.heavy_quark.is_some() {
        return Err(Error::parameter("heavy-quark-tol", "one solution is judged, without corrections"));
    }
    Ok(())
}

/// The operator on stochastic numbers.
struct StochasticNormal<'a, S: Samples> {
    a: &'a Normal,
    between: Workspace<MultiVector<StochasticComplex<S>>>,
}

impl<S: Samples> Operator<StochasticComplex<S>> for StochasticNormal<'_, S> {
    fn domain(&self) -> &Space {
        self.a.domain()
    }

    fn bytes(&self) -> u64 {
        self.a.bytes()
    }

    fn apply(
        &self,
        steps: &Steps<'_, StochasticComplex<S>>,
        x: &MultiVector<StochasticComplex<S>>,
        y: &MultiVector<StochasticComplex<S>>,
    ) -> Result<(), zellige_krylov::Error> {
        let zeros = || MultiVector::zeros(steps.executor(), self.domain(), steps.columns());
        let between = self.between.of(steps.columns(), zeros);
        self.a.to_other_parity().apply_stochastic(steps, x, &between, 1.0, None)?;
        let diagonal = Some((Normal::mass_term(self.a.mass()), x));
        self.a.back_to_parity().apply_stochastic(steps, &between, y, -1.0, diagonal)
    }
}

/// Results in stochastic arithmetic.
struct Evaluated {
    solutions: Vec<Solution>,
    /// Fewest digits of each site.
    of_x: Vec<u8>,
    of_residual: Vec<u8>,
    of_other_sites: Vec<u8>,
    /// Fewest digits of each coefficient by step.
    coefficients: BTreeMap<&'static str, Vec<u8>>,
    /// Mean and digits of the correlator.
    correlator: Vec<(f64, u8)>,
}

/// Solution for all colours.
struct Work<'a> {
    rt: &'a Runtime,
    system: &'a System,
    options: &'a Options,
    geometry: Geometry,
    scope: &'a Scope,
}

impl WithSamples for Work<'_> {
    type Output = Result<Evaluated, Error>;

    fn run<S: Samples>(self) -> Self::Output {
        let everywhere = || vec![ALL; self.geometry.half()];
        let mut sums = vec![Stochastic::<f64, S>::default(); self.geometry.extents()[T]];
        let mut found = Evaluated {
            solutions: Vec::new(),
            of_x: everywhere(),
            of_residual: everywhere(),
            of_other_sites: everywhere(),
            coefficients: BTreeMap::new(),
            correlator: Vec::new(),
        };
        for (colour, b) in self.system.b.iter().enumerate() {
            let number = |part| Stochastic::new(part);
            let b: Vec<StochasticComplex<S>> =
                b.iter().map(|b| StochasticComplex::new(number(b.re), number(b.im))).collect();
            self.scope.task(0, colour as u64, || self.judge(&b, &mut sums, &mut found))?;
        }
        found.correlator = sums.iter().map(|sum| (sum.mean(), sum.digits() as u8)).collect();
        Ok(found)
    }
}

impl Work<'_> {
    /// Solves for a colour, and adds its results to those of the others.
    fn judge<S: Samples>(
        &self,
        b: &[StochasticComplex<S>],
        sums: &mut [Stochastic<f64, S>],
        found: &mut Evaluated,
    ) -> Result<(), Error> {
        let Work { rt, options, geometry, .. } = *self;
        let a = StochasticNormal { a: &self.system.a, between: Workspace::default() };
        let (x, solution) = self.solve(&a, b)?;
        for (name, digits) in self.scope.take_followed() {
            fewest(found.coefficients.entry(name).or_default(), digits);
        }
        let there = on_other_parity(rt, &self.system.a, &x)?;
        add_squares(sums, [&x, &there], 2.0 * self.system.a.mass(), geometry, options.source.at[T]);
        fewest(&mut found.of_x, by_site(&x));
        fewest(&mut found.of_other_sites, by_site(&there));
        fewest(&mut found.of_residual, by_site(&residual(rt, &a, b, &x)?));
        found.solutions.push(solution);
        Ok(())
    }

    fn solve<S: Samples>(
        &self,
        a: &StochasticNormal<'_, S>,
        b: &[StochasticComplex<S>],
    ) -> Result<(Vec<StochasticComplex<S>>, Solution), Error> {
        let Options { solver, tolerance, most_steps, .. } = self.options;
        let method: Box<dyn Method<StochasticComplex<S>>> = solver.in_double();
        let stop = [Stop::RelativeToRhs(*tolerance), Stop::Steps(most_steps.div_ceil(solver.steps()))];
        let mut x = vec![StochasticComplex::default(); b.len()];
        let solution = solve(&Solve::new(self.rt, a), &*method, b, &mut x, &stop[..], &mut ())?;
        Ok((x, solution))
    }
}

/// Computes `-D x`.
fn on_other_parity<S: Samples>(
    rt: &Runtime,
    a: &Normal,
    x: &[StochasticComplex<S>],
) -> Result<Vec<StochasticComplex<S>>, zellige_krylov::Error> {
    let d = a.to_other_parity();
    let (x, y) = (MultiVector::from_column(rt, d.space(), x), MultiVector::zeros(rt, d.space(), 1));
    let numbers = NumbersHandle::new(rt, 1, 0);
    let rt: &dyn zellige_krylov::Executor = rt;
    rt.record(|graph| d.apply_stochastic(&Steps::new(rt, graph, d.space(), &numbers), &x, &y, -1.0, None))?
        .run()?;
    y.column(rt, 0)
}

/// Lowers digits to others; those that were longer keep theirs.
fn fewest(digits: &mut Vec<u8>, others: Vec<u8>) {
    digits.iter_mut().zip(&others).for_each(|(digits, other)| *digits = (*digits).min(*other));
    digits.extend(others.iter().skip(digits.len()));
}

/// Returns the digits of each site.
fn by_site<S: Samples>(vector: &[StochasticComplex<S>]) -> Vec<u8> {
    vector.chunks_exact(COLOURS).map(digits_of).collect()
}

/// Returns the exact digits of a site: as [`Stochastic::digits`], with the norms of the means and
/// of the deviations. So a component that is small by chance does not count.
fn digits_of<S: Samples>(site: &[StochasticComplex<S>]) -> u8 {
    let numbers = || site.iter().flat_map(|z| [z.re, z.im]);
    let of = |x: &Stochastic<f64, S>| {
        x.samples().iter().fold(
            0.0,
            |most: f64, x| {
                if x.is_nan() { f64::INFINITY } else { most.max(x.abs()) }
            },
        )
    };
    let largest = numbers().map(|x| of(&x)).fold(0.0, f64::max);
    if largest == 0.0 || largest == f64::INFINITY {
        return if largest == 0.0 { ALL } else { 0 };
    }
    let (mut size, mut variance) = (0.0, 0.0);
    for x in numbers() {
        let mean = x.mean();
        size += (mean / largest).powi(2);
        let squares = x.samples().iter().map(|sample| ((sample - mean) / largest).powi(2));
        variance += squares.sum::<f64>() / (S::COUNT - 1) as f64;
    }
    if variance == 0.0 {
        return ALL;
    }
    ((size / variance).sqrt() / S::DEVIATIONS).log10().clamp(0.0, f64::from(ALL)) as u8
}

fn conclusions(maps: &[DigitMap], solutions: &[Solution]) -> Vec<String> {
    let mut all = Vec::new();
    for map in maps {
        let (Some((least, [t, site])), Some(median)) = (map.worst(), map.median()) else { continue };
        let DigitMap { name, unit, all: of, .. } = map;
        let at = if map.shape[1] == 1 { format!("slice {t}") } else { format!("site {site} of slice {t}") };
        all.push(format!(
            "{median} of {of} digits of {name} are exact in half of the {unit}s, {least} at least ({at})"
        ));
    }
    let residual = &maps[1];
    let without = residual.digits.iter().filter(|digits| **digits == 0).count();
    all.push(match without {
        0 => "the residual has an exact digit at every site: the tolerance limits x, not rounding".to_owned(),
        _ => format!(
            "the residual has no exact digit at {without} of {} sites: rounding limits x there, and a smaller \
             tolerance gives no more digits",
            residual.digits.len()
        ),
    });
    let relative = |solution: &&Solution| solution.true_residual / solution.rhs;
    let worst = solutions.iter().max_by(|a, b| relative(a).total_cmp(&relative(b)));
    // Digits of what is no solution come after that.
    let at = if solutions.iter().all(|solution| solution.reason.is_converged()) { all.len() } else { 0 };
    all.splice(at..at, worst.map(Solution::beside_digits));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dslash::{Boundary, Dslash};
    use crate::geometry::Parity;
    use crate::pipeline::{Method as SolverMethod, Solver};
    use crate::precision::Precision;
    use crate::smear::{Action, smear};
    use crate::su3::C64;
    use crate::testing::random_gauge;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use zellige_krylov::Executor;
    use zellige_stochastic::{Categories, Eight, Perturbation, Three};

    fn unperturbed() -> Scope {
        Scope::with(0, Perturbation::None, Categories::NONE)
    }

    fn field(geometry: Geometry, seed: u64) -> Vec<C64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut next = || random.random_range(-1.0..1.0);
        (0..geometry.half() * COLOURS).map(|_| C64::new(next(), next())).collect()
    }

    fn have_bits<S: Samples>(found: &[StochasticComplex<S>], expected: &[C64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            for (found, expected) in [(found.re, expected.re), (found.im, expected.im)] {
                let same = found.samples().iter().all(|x| x.to_bits() == expected.to_bits());
                assert!(same, "{:?} {expected:e}", found.samples());
            }
        }
    }

    /// Compares `y = -0.7 D x + diagonal z` with the bits of the operator.
    fn check_bits<S: Samples>(
        rt: &Runtime,
        d: &Dslash,
        geometry: Geometry,
        diagonal: Option<f64>,
    ) -> Result<(), Error> {
        let (x, z) = (field(geometry, 2), field(geometry, 3));
        let executor: &dyn Executor = rt;
        let [of_x, of_z] = [&x, &z].map(|v| MultiVector::from_column(rt, d.space(), v));
        let y = MultiVector::zeros(rt, d.space(), 1);
        let numbers = NumbersHandle::new(rt, 1, 0);
        let graph = executor.record(|graph| {
            let steps = Steps::new(rt, graph, d.space(), &numbers);
            d.apply(&steps, &of_x, &y, -0.7, diagonal.map(|diagonal| (diagonal, &of_z)))
        })?;
        graph.run()?;
        let number = |z: &C64| StochasticComplex::<S>::new(Stochastic::new(z.re), Stochastic::new(z.im));
        let many = |v: &[C64]| v.iter().map(number).collect::<Vec<_>>();
        let [of_x, of_z] = [&x, &z].map(|v| MultiVector::from_column(rt, d.space(), &many(v)));
        let found = MultiVector::zeros(rt, d.space(), 1);
        let numbers = NumbersHandle::new(rt, 1, 0);
        let graph = unperturbed().run(|| {
            executor.record(|graph| {
                let steps = Steps::new(rt, graph, d.space(), &numbers);
                let diagonal = diagonal.map(|diagonal| (diagonal, &of_z));
                d.apply_stochastic(&steps, &of_x, &found, -0.7, diagonal)
            })
        })?;
        graph.run()?;
        have_bits(&found.column(rt, 0)?, &y.column(rt, 0)?);
        Ok(())
    }

    #[test]
    fn products_without_perturbation_have_the_bits_of_the_operator() -> Result<(), Error> {
        let rt = Runtime::builder().workers(2).build()?;
        for geometry in [[4, 6, 8, 14], [18, 4, 10, 4]] {
            let geometry = Geometry::new(geometry)?;
            for action in [Action::Naive, Action::HISQ] {
                let smeared = smear(&rt, &random_gauge(geometry, 1), action)?;
                for (to, diagonal) in Parity::BOTH.into_iter().zip([None, Some(0.3)]) {
                    let d = Dslash::new(&rt, &smeared, to, Boundary::Antiperiodic, Precision::DOUBLE);
                    check_bits::<Eight>(&rt, &d, geometry, diagonal)?;
                    check_bits::<Three>(&rt, &d, geometry, diagonal)?;
                }
            }
        }
        Ok(())
    }

    fn heavy() -> Options {
        let source = "point:0,0,0,1:2".parse().expect("a source");
        Options { mass: 0.3, tolerance: 1e-12, source, ..Options::default() }
    }

    #[test]
    fn solutions_without_perturbation_have_the_bits_of_the_pipeline() -> Result<(), Error> {
        let (rt, geometry) = (Runtime::builder().workers(2).build()?, Geometry::new([4, 4, 4, 4])?);
        let u = random_gauge(geometry, 1);
        for method in [SolverMethod::Cg, SolverMethod::BiCgStab { l: 4 }] {
            let mut options = Options { tolerance: 1e-3, ..heavy() };
            options.solver.method = method;
            let system = System::new(&rt, &u, &options)?;
            let (z, (solutions, _), _) = system.solve(&rt, &options, &Silent)?;
            let expected = system.correlator(&rt, &z, geometry, options.source.at[T])?;
            let scope = unperturbed();
            let work = Work { rt: &rt, system: &system, options: &options, geometry, scope: &scope };
            let a = StochasticNormal::<Eight> { a: &system.a, between: Workspace::default() };
            let number = |z: &C64| StochasticComplex::new(Stochastic::new(z.re), Stochastic::new(z.im));
            let b: Vec<_> = system.b[0].iter().map(number).collect();
            let (x, solution) = scope.run(|| work.solve(&a, &b))?;
            have_bits(&x, &z[0]);
            assert!(solution.steps > 3 && solution.reason.is_converged(), "{solution:?}");
            assert_eq!(Solution { memory: solutions[0].memory, ..solution }, solutions[0]);
            let r = scope.run(|| residual(&rt, &a, &b, &x))?;
            have_bits(&r, &residual(&rt, &system.a, &system.b[0], &z[0])?);
            let found = work.run::<Three>()?;
            let means: Vec<f64> = found.correlator.iter().map(|of_slice| of_slice.0).collect();
            assert_eq!(means, expected);
        }
        Ok(())
    }

    #[test]
    fn digits_are_those_of_one_worker_and_few_are_lost() -> Result<(), Error> {
        let u = random_gauge(Geometry::new([4, 4, 4, 4])?, 1);
        let run = |workers, seed| -> Result<Trust, Error> {
            let rt = Runtime::builder().workers(workers).build()?;
            let trust = invert(&rt, &u, &heavy(), &TrustOptions { samples: 8, seed })?;
            Ok(Trust { plain_seconds: None, seconds: 0.0, ..trust })
        };
        let (one, two) = (run(1, 5)?, run(2, 5)?);
        assert_eq!(one, two);
        let names: Vec<&str> = one.maps[4..].iter().map(|map| &*map.name).collect();
        assert_eq!((names, one.converged), (vec!["alpha of CG", "beta of CG"], Some(true)));
        let least = |map: usize| one.maps[map].worst().expect("sites").0;
        assert!(least(0) >= 8 && least(2) >= 8 && least(3) >= 13, "{:?}", one.conclusions);
        assert!(one.maps[1].median() < Some(6), "{:?}", one.conclusions);
        assert!(one.maps[4].digits[0] >= 13, "{:?}", one.maps[4].digits);
        let other = run(2, 6)?;
        assert_ne!(one.maps[0].digits, other.maps[0].digits);
        Ok(())
    }

    /// Steps beyond the attainable residual are made of rounding errors.
    #[test]
    fn coefficients_without_digits_are_named() -> Result<(), Error> {
        let rt = Runtime::builder().workers(2).build()?;
        let u = random_gauge(Geometry::new([4, 4, 4, 4])?, 1);
        let options = Options { tolerance: 1e-30, most_steps: 400, ..heavy() };
        let trust = invert(&rt, &u, &options, &TrustOptions { samples: 3, seed: 1 })?;
        assert!(trust.maps[4].digits.contains(&0), "{:?}", trust.maps[4].digits);
        for map in &trust.maps[4..] {
            let lost = format!("{} has no exact digit from step ", map.name);
            let is_lost = trust.conclusions.iter().any(|said| said.starts_with(&lost));
            assert_eq!(is_lost, map.digits.last() == Some(&0), "{:?}", trust.conclusions);
        }
        assert!(trust.conclusions[0].ends_with("the tolerance was not reached"), "{:?}", trust.conclusions);
        assert_eq!(trust.converged, Some(false));
        Ok(())
    }

    #[test]
    fn options_without_meaning_are_refused() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(1).build()?, Gauge::cold(Geometry::new([4, 4, 4, 4])?));
        let options = Options::default();
        let single = Solver { precision: "single".parse().expect("a precision"), ..options.solver };
        for (options, samples, said) in [
            (options, 4, "samples: 4: "),
            (Options { mass: 0.0, ..options }, 8, "mass: "),
            (Options { heavy_quark: Some(1e-6), ..options }, 8, "heavy-quark-tol: "),
            (Options { solver: single, ..options }, 8, "precision: "),
        ] {
            let error = invert(&rt, &u, &options, &TrustOptions { samples, seed: 0 }).expect_err(said);
            assert!(error.to_string().starts_with(said), "{error}");
        }
        Ok(())
    }
}
