//! Lowest eigenvectors, in files and in solves.

use std::fs;

use num_complex::Complex;
use zellige_files::observe::Silent;
use zellige_kernels::sites::SiteFormat;
use zellige_krylov::Lanczos;
use zellige_lqcd::generate::{Quenched, generate};
use zellige_lqcd::modes::LowModes;
use zellige_lqcd::normal::Normal;
use zellige_lqcd::pipeline::{
    Deflation, EigenOptions, Method, Options, Problem, Propagator, Solver, eigen, invert, propagator,
};
use zellige_lqcd::smear::smear;
use zellige_lqcd::{Action, Boundary, Error, Gauge, Geometry, Parity, Precision, files};
use zellige_runtime::Runtime;

const OPTIONS: EigenOptions = EigenOptions {
    action: Action::HISQ,
    boundary: Boundary::Antiperiodic,
    mass: 0.0,
    count: 12,
    tolerance: 1e-10,
    format: SiteFormat::Int20,
};

fn workers(count: usize) -> Result<Runtime, Error> {
    Ok(Runtime::builder().workers(count).build()?)
}

fn field(rt: &Runtime, seed: u64) -> Result<Gauge, Error> {
    let options = Quenched { beta: 5.7, trajectories: 6, seed, ..Quenched::default() };
    Ok(generate(rt, Geometry::new([4, 4, 4, 8])?, &options, &Silent)?.gauge)
}

/// Without a gauge field the eigenvalues are `4 sum sin^2 p`. Double hops leave the parity, so that
/// each set of `sin^2` belongs to 8 combinations of sites and 3 colours.
#[test]
fn free_eigenvalues_are_those_of_the_closed_form() -> Result<(), Error> {
    let (rt, geometry) = (workers(2)?, Geometry::new([4, 4, 4, 8])?);
    let smeared = smear(&rt, &Gauge::cold(geometry), Action::Naive)?;
    let a = Normal::new(&rt, &smeared, 0.0, Parity::Even, Boundary::Antiperiodic, Precision::DOUBLE);
    let mut exact = Vec::new();
    for n in 0..8 {
        let space = [n & 1, n >> 1 & 1, n >> 2 & 1].iter().sum::<i32>();
        for t in 0..4 {
            let p = f64::from(2 * t + 1) * std::f64::consts::PI / 8.0;
            exact.extend([4.0 * (f64::from(space) + p.sin().powi(2)); 24]);
        }
    }
    exact.sort_by(f64::total_cmp);
    let count = 56;
    let pairs = Lanczos::new(count).lowest(&rt, &a, &Silent)?;
    for (k, (value, exact)) in pairs.values.iter().zip(&exact).enumerate() {
        assert!((value - exact).abs() < 1e-8, "{k}: {value} {exact}");
    }
    assert!(exact[count - 1] > 2.0 * exact[0] && exact.len() == geometry.half() * 3);
    Ok(())
}

fn deflated(
    rt: &Runtime,
    u: &Gauge,
    options: &Options,
    deflation: Deflation<'_>,
) -> Result<Propagator, Error> {
    propagator(rt, &Problem { deflation: Some(deflation), ..Problem::new(u) }, options, &Silent)
}

/// A propagator with eigenvectors is that without, for sources on both parities and for vectors in
/// any format; it has the same bits on any number of workers.
#[test]
fn eigenvectors_of_a_file_begin_the_solves_of_every_source_and_mass() -> Result<(), Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("modes");
    let mut bits = Vec::new();
    for count in [1, 2] {
        let rt = workers(count)?;
        let u = field(&rt, 1)?;
        let (result, modes) = eigen(&rt, &u, &OPTIONS, &Silent)?;
        assert!(result.residuals.iter().all(|residual| *residual <= 1e-10 * result.largest));
        assert!(result.eigenvalues.is_sorted() && result.eigenvalues.len() == 12);
        files::modes::write(&rt, &path, &modes)?;
        let read = files::modes::read(&rt, &path)?;
        assert_eq!(
            (read.of.clone(), read.format, read.parity),
            (modes.of.clone(), modes.format, modes.parity)
        );
        assert_eq!(columns(&rt, &read)?, columns(&rt, &modes)?);
        bits.push((fs::read(&path).expect("a file"), result.eigenvalues.clone()));
        for (mass, source) in [(0.02, "point:0,0,0,0"), (0.001, "point:1,0,0,2:1")] {
            let options = Options { mass, source: source.parse().expect("a source"), ..Options::default() };
            let (plain, _) = invert(&rt, &u, &options, &Silent)?;
            let found = deflated(&rt, &u, &options, Deflation::Read(&path))?.result;
            assert!(found.converged && found.true_residual.iter().all(|residual| *residual <= 1e-10));
            assert!(
                found.iterations[0] < plain.iterations[0],
                "{:?} {:?}",
                found.iterations,
                plain.iterations
            );
            for (found, plain) in found.correlator.iter().zip(&plain.correlator) {
                assert!((found - plain).abs() < 1e-7 * plain, "{source}: {found} {plain}");
            }
            let compute = Deflation::Compute(12, SiteFormat::Fp32);
            let computed = deflated(&rt, &u, &options, compute)?.result;
            assert!(computed.converged && computed.deflation.is_some_and(|one| one.applications > 0));
        }
    }
    assert_eq!(bits[0], bits[1]);
    Ok(())
}

/// The colours of a source share a Krylov space: fewer steps, and the same propagator.
#[test]
fn colours_are_solved_for_in_one_krylov_space() -> Result<(), Error> {
    let mut bits = Vec::new();
    for count in [1, 2] {
        let rt = workers(count)?;
        let u = field(&rt, 1)?;
        let options = Options { mass: 0.01, ..Options::default() };
        let of = |method| Options { solver: Solver { method, ..options.solver }, ..options };
        let (plain, _) = invert(&rt, &u, &options, &Silent)?;
        let (block, histories) = invert(&rt, &u, &of(Method::BlockCg), &Silent)?;
        assert!(block.converged && block.method == "block-cg" && histories.len() == 3);
        assert!(block.iterations.iter().zip(&plain.iterations).all(|(block, plain)| block < plain));
        for (block, plain) in block.correlator.iter().zip(&plain.correlator) {
            assert!((block - plain).abs() < 1e-7 * plain, "{block} {plain}");
        }
        let precision = "double-int20".parse().expect("formats");
        let narrow = Options { solver: Solver { precision, ..of(Method::BlockCg).solver }, ..options };
        let error = invert(&rt, &u, &narrow, &Silent).expect_err("formats").to_string();
        assert!(error.starts_with("method: block-cg"), "{error}");
        bits.push((block.correlator, block.iterations));
    }
    assert_eq!(bits[0], bits[1]);
    Ok(())
}

fn columns(rt: &Runtime, modes: &LowModes) -> Result<Vec<Vec<Complex<f64>>>, Error> {
    let each = modes.pairs.vectors.vectors().iter().map(|v| Ok(v.column(rt, 0)?));
    each.collect()
}

#[test]
fn files_that_are_damaged_or_of_another_field_are_refused() -> Result<(), Error> {
    let (rt, folder) = (workers(2)?, tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("modes");
    let u = field(&rt, 1)?;
    let (_, modes) = eigen(&rt, &u, &EigenOptions { count: 3, ..OPTIONS }, &Silent)?;
    files::modes::write(&rt, &path, &modes)?;
    let deflated = |u: &Gauge, options: &Options| {
        deflated(&rt, u, options, Deflation::Read(&path)).map(|_| ()).map_err(|error| error.to_string())
    };
    let options = Options { mass: 0.3, ..Options::default() };
    assert_eq!(deflated(&u, &options), Ok(()));
    for (u, options, difference) in [
        (&field(&rt, 2)?, options, "other links"),
        (&u, Options { action: Action::Naive, ..options }, "action hisq, not naive"),
        (&u, Options { boundary: Boundary::Periodic, ..options }, "antiperiodic in time, not periodic"),
        (&Gauge::cold(Geometry::new([4, 4, 4, 4])?), options, "sites"),
    ] {
        let error = deflated(u, &options).expect_err(difference);
        assert!(error.starts_with("deflate: ") && error.contains(difference), "{error}");
    }
    let whole = fs::read(&path).expect("a file");
    let length = whole.len();
    for (at, word) in [
        (0, "not a file of eigenvectors"),
        (9, "version"),
        (37, "impossible"),
        (104, "header"),
        (length - 99, "checksum"),
        (120, "checksum"),
    ] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        fs::write(&path, &damaged).expect("a file");
        let error = deflated(&u, &options).expect_err(word);
        assert!(error.contains(word), "{at}: {error}");
    }
    for length in [0, 3, 50, 200, length - 1] {
        fs::write(&path, &whole[..length]).expect("a file");
        let error = deflated(&u, &options).expect_err("a truncated file");
        assert!(error.contains("truncated"), "{length}: {error}");
    }
    Ok(())
}
