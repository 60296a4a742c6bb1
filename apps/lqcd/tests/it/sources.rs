//! Source fields, smeared links and propagators in files.

use std::fs::File;

use num_complex::Complex;
use zellige_files::observe::Silent;
use zellige_kernels::sites::{MatrixFormat, MatrixNumber, SiteFormat};
use zellige_krylov::MultiVector;
use zellige_krylov::method::{NumbersHandle, Steps};
use zellige_lqcd::dslash::Dslash;
use zellige_lqcd::files::lime;
use zellige_lqcd::files::quarks::{self, QuarkFields};
use zellige_lqcd::generate::{Quenched, generate};
use zellige_lqcd::pipeline::{LinkField, Options, Problem, Propagator, invert, propagator};
use zellige_lqcd::smear::smear;
use zellige_lqcd::wilson::Wilson;
use zellige_lqcd::{Action, Boundary, Error, Gauge, Geometry, Parity, Precision, files};
use zellige_runtime::{Bindings, Runtime};

type C64 = Complex<f64>;

fn gauge(rt: &Runtime, geometry: Geometry, seed: u64) -> Result<Gauge, Error> {
    let options = Quenched { beta: 5.7, trajectories: 3, seed, ..Quenched::default() };
    Ok(generate(rt, geometry, &options, &Silent)?.gauge)
}

fn random(count: usize, seed: u64) -> Vec<C64> {
    let number = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as f64 / 2f64.powi(43) - 1.0;
    (0..count as u64).map(|at| C64::new(number(2 * at + seed), number(2 * at + 1 + seed))).collect()
}

fn from_sources(
    rt: &Runtime,
    links: LinkField<'_>,
    fields: &[Vec<C64>],
    options: &Options,
) -> Result<Propagator, Error> {
    let problem = Problem { links, sources: Some(("fields", fields)), deflation: None };
    propagator(rt, &problem, options, &Silent)
}

/// Returns `D x` on the sites of a parity.
fn hops(rt: &Runtime, d: &Dslash, x: &[C64]) -> Result<Vec<C64>, Error> {
    let (x, y) = (MultiVector::from_column(rt, d.space(), x), MultiVector::zeros(rt, d.space(), 1));
    let numbers = NumbersHandle::new(rt, 1, 0);
    let graph = rt.record(|graph| d.apply(&Steps::new(rt, graph, d.space(), &numbers), &x, &y, 1.0, None))?;
    rt.replay(&Bindings::recorded(&graph))?;
    Ok(y.column(rt, 0)?)
}

/// Returns the largest difference of `a x + b D x`, with `D` between the parities, and a source.
fn error(
    rt: &Runtime,
    to: impl Fn(Parity) -> Dslash,
    [a, b]: [f64; 2],
    x: &[C64],
    source: &[C64],
) -> Result<f64, Error> {
    let half = x.len() / 2;
    let mut most = 0.0f64;
    for (at, parity) in Parity::BOTH.into_iter().enumerate() {
        let (own, other) = (&x[at * half..][..half], &x[(1 - at) * half..][..half]);
        let hopped = hops(rt, &to(parity), other)?;
        let each = own.iter().zip(&hopped).zip(&source[at * half..]);
        most = each.map(|((x, d), s)| (x * a + d * b - s).norm()).fold(most, f64::max);
    }
    Ok(most)
}

/// Solutions for sources on all sites solve the equations of the quark on all sites.
#[test]
fn fields_on_both_parities_are_sources() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let geometry = Geometry::new([4, 4, 6, 4])?;
    let mut u = gauge(&rt, geometry, 3)?;
    let mass = 0.2;
    let options = Options { mass, tolerance: 1e-12, ..Options::default() };
    let sources = [random(3 * geometry.sites(), 1), random(3 * geometry.sites(), 2)];
    let found = from_sources(&rt, LinkField::Gauge(&u), &sources, &options)?;
    assert!(found.result.converged && found.histories.len() == 2, "{:?}", found.result);
    u.reunitarise();
    let smeared = smear(&rt, &u, Action::HISQ)?;
    let staggered = |to| Dslash::new(&rt, &smeared, to, Boundary::Antiperiodic, Precision::DOUBLE);
    for (x, source) in found.fields.iter().zip(&sources) {
        assert!(error(&rt, staggered, [2.0 * mass, 1.0], x, source)? < 1e-9);
    }
    let sources = [random(12 * geometry.sites(), 3)];
    let options = Options { action: Action::Wilson, ..options };
    let found = from_sources(&rt, LinkField::Gauge(&u), &sources, &options)?;
    assert!(found.result.converged, "{:?}", found.result);
    let wilson = |to| Dslash::wilson(&rt, &u, to, Boundary::Antiperiodic, Precision::DOUBLE);
    assert!(error(&rt, wilson, [Wilson::mass_term(mass), -0.5], &found.fields[0], &sources[0])? < 1e-9);
    Ok(())
}

/// Fields with sources on different parities: one is zero where the other is solved for.
#[test]
fn a_field_may_be_zero_on_a_parity() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let geometry = Geometry::new([4, 4, 4, 4])?;
    let u = gauge(&rt, geometry, 3)?;
    for (action, of_site) in [(Action::HISQ, 3), (Action::Wilson, 12)] {
        let mut fields = vec![vec![C64::default(); of_site * geometry.sites()]; 2];
        for (field, at) in fields.iter_mut().zip([[0, 0, 0, 0], [1, 0, 0, 0]]) {
            field[geometry.site(at) as usize * of_site] = C64::new(1.0, 0.0);
        }
        let options = Options { action, mass: 0.4, heavy_quark: Some(1e-8), ..Options::default() };
        let result = from_sources(&rt, LinkField::Gauge(&u), &fields, &options)?.result;
        let all = [&result.iterated_residual, &result.true_residual, &result.heavy_quark_residual];
        assert!(result.converged && all.into_iter().flatten().all(|x| *x < 1e-7), "{result:?}");
    }
    Ok(())
}

/// A point source as a field has the bits of the point; its propagator in a file can be a source.
#[test]
fn propagators_are_written_and_read() -> Result<(), Error> {
    let (rt, folder) = (Runtime::builder().workers(2).build()?, tempfile::tempdir().expect("a folder"));
    let geometry = Geometry::new([4, 4, 4, 6])?;
    let u = gauge(&rt, geometry, 5)?;
    for (action, of_site) in [(Action::HISQ, 3), (Action::Wilson, 12)] {
        let source = "point:1,0,2,0:1".parse().expect("a source");
        let options = Options { action, mass: 0.3, source, ..Options::default() };
        let (point, _) = invert(&rt, &u, &options, &Silent)?;
        let mut fields = vec![vec![C64::default(); of_site * geometry.sites()]; of_site / 3];
        for (spin, field) in fields.iter_mut().enumerate() {
            field[geometry.site([1, 0, 2, 0]) as usize * of_site + 3 * spin + 1] = C64::new(1.0, 0.0);
        }
        let found = from_sources(&rt, LinkField::Gauge(&u), &fields, &options)?;
        assert_eq!(
            (&found.result.correlator, &found.result.iterations),
            (&point.correlator, &point.iterations)
        );
        let path = folder.path().join("prop.lime");
        let titles = vec![String::new(); found.fields.len()];
        let written = QuarkFields { geometry, fields: found.fields, format: SiteFormat::Fp64, titles };
        quarks::write(&path, &written)?;
        assert_eq!(quarks::read(&path)?, written);
        assert!(from_sources(&rt, LinkField::Gauge(&u), &written.fields, &options)?.result.converged);
    }
    let options = Options { mass: 0.3, ..Options::default() };
    for (fields, problem) in [
        (vec![vec![C64::new(1.0, 0.0); 12 * geometry.sites()]], "12 numbers for each site"),
        (vec![vec![C64::new(1.0, 0.0); 7]], "7 numbers"),
        (vec![vec![C64::default(); 3 * geometry.sites()]], "field 0 is zero"),
        (vec![vec![C64::new(f64::NAN, 0.0); 3 * geometry.sites()]], "not finite"),
    ] {
        let refused = from_sources(&rt, LinkField::Gauge(&u), &fields, &options).expect_err("refused");
        assert!(refused.to_string().contains(problem), "{refused}");
    }
    Ok(())
}

/// Links with MILC's phases and boundary are those that the action has without them.
#[test]
fn smeared_links_of_files_are_those_of_the_action() -> Result<(), Error> {
    let (rt, folder) = (Runtime::builder().workers(2).build()?, tempfile::tempdir().expect("a folder"));
    let geometry = Geometry::new([4, 4, 4, 8])?;
    let u = gauge(&rt, geometry, 5)?;
    let mut links = u.clone();
    links.reunitarise();
    let smeared = smear(&rt, &links, Action::HISQ)?;
    let [fat, long] = ["fat.lime", "long.lime"].map(|name| folder.path().join(name));
    for (path, links, hops) in [(&fat, Some(&smeared.fat), 1), (&long, smeared.long.as_ref(), 3)] {
        let links = links.expect("links");
        let with_phases = Gauge::from_fn(geometry, |site, mu| {
            let [x, y, _, t] = geometry.coordinates(site);
            let odd = [t, t + x, t + x + y, usize::from(t + hops >= 8)][mu] % 2 == 1;
            let sign = if odd { -1.0 } else { 1.0 };
            links.link(site, mu).map(|row| row.map(|z| z * sign))
        });
        let format = MatrixFormat::full(MatrixNumber::Fp64);
        lime::put(&mut File::create(path).expect("a file"), &with_phases, "links", format).expect("written");
    }
    let read = files::read_smeared(&fat, &long)?;
    let options = Options { mass: 0.1, ..Options::default() };
    let problem = Problem { links: LinkField::Smeared(&read), sources: None, deflation: None };
    let found = propagator(&rt, &problem, &options, &Silent)?;
    let (expected, _) = invert(&rt, &u, &options, &Silent)?;
    assert_eq!((found.result.correlator, &*found.result.action), (expected.correlator, "smeared"));
    let wilson = Options { action: Action::Wilson, ..options };
    assert!(propagator(&rt, &problem, &wilson, &Silent).is_err());
    assert!(files::read(&fat).is_err() && files::read_smeared(&fat, &fat.join("no")).is_err());
    Ok(())
}
