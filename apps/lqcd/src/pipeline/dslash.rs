//! Rate of the operator, compared with the memory bandwidth.

use std::hint::black_box;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_krylov::MultiVector;
use zellige_krylov::method::{NumbersHandle, Steps};
use zellige_runtime::{Bindings, Runtime};

use super::results::DslashResult;
use crate::dslash::{Boundary, Dslash};
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, DIRECTIONS, Geometry, Parity};
use crate::precision::{Precision, Sites};
use crate::smear::Smeared;
use crate::su3::{C64, Matrix, from_numbers};

/// Number of random matrices, which the links reuse cyclically. Drawing one for each link would
/// take longer than the measurement.
const DRAWN: usize = 4099;

/// Returns random links of SU(3) for one hop and, for an improved action, for three. They are for
/// measurements of speed.
pub fn random_links(geometry: Geometry, improved: bool, seed: u64) -> Smeared {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let drawn: Vec<Matrix> = (0..DRAWN).map(|_| from_numbers(|| random.random_range(-1.0..1.0))).collect();
    let field = |shift: usize| {
        Gauge::from_fn(geometry, |site, mu| drawn[(site as usize * DIRECTIONS + mu + shift) % DRAWN])
    };
    Smeared { fat: field(0), long: improved.then(|| field(DRAWN / 2)), unitarised: None, by_svd: 0 }
}

/// Measures the memory bandwidth of `threads` concurrent threads that read (GB/s): sums of arrays
/// larger than the caches, the best of five. Threads that the system does not start are left out.
pub fn read_bandwidth(threads: usize) -> f64 {
    const WORDS: usize = 1 << 24;
    let arrays: Vec<Vec<f64>> = (0..threads.max(1)).map(|_| vec![1.0; WORDS]).collect();
    let once = || {
        let begun = Instant::now();
        let add = |array: &[f64]| {
            let mut sums = [0.0; 32];
            for block in array.chunks_exact(32) {
                sums.iter_mut().zip(block).for_each(|(sum, x)| *sum += x);
            }
            black_box(sums);
        };
        let threads = std::thread::scope(|scope| {
            let (first, others) = arrays.split_first().expect("one thread or more");
            let start = |array| Builder::new().spawn_scoped(scope, move || add(array));
            let started = others.iter().map_while(|array| start(array).ok()).count();
            add(first);
            started + 1
        });
        (threads * WORDS * size_of::<f64>()) as f64 / begun.elapsed().as_secs_f64() / 1e9
    };
    (0..5).map(|_| once()).fold(0.0, f64::max)
}

/// Number of consecutive applications on GPUs without synchronisation; one application takes some
/// hundred microseconds there.
const IN_A_ROW: usize = 20;
/// Number of warm-up replays on GPUs, in which the runtime finds out whether tasks or a single
/// graph launch are faster.
const BEFORE_GPUS_COUNT: usize = 12;

/// Applies the operator from odd to even sites to random fields, `repeats` times. `bandwidth` is
/// the memory bandwidth for comparison (GB/s), by default that of [`read_bandwidth`]. On GPUs each
/// repeat is 20 consecutive applications, and links and fields stay there.
///
/// # Errors
/// The errors of tasks.
pub fn dslash(
    rt: &Runtime,
    smeared: &Smeared,
    precision: Precision,
    columns: usize,
    repeats: usize,
    bandwidth: Option<f64>,
) -> Result<DslashResult, Error> {
    let d = Dslash::new(rt, smeared, Parity::Even, Boundary::Antiperiodic, precision);
    rate(rt, &d, columns, repeats, bandwidth)
}

/// Measures the hopping term of Wilson quarks like [`dslash`].
///
/// # Errors
/// The errors of tasks.
pub fn dslash_of_wilson(
    rt: &Runtime,
    u: &Gauge,
    precision: Precision,
    columns: usize,
    repeats: usize,
    bandwidth: Option<f64>,
) -> Result<DslashResult, Error> {
    let d = Dslash::wilson(rt, u, Parity::Even, Boundary::Antiperiodic, precision);
    rate(rt, &d, columns, repeats, bandwidth)
}

fn rate(
    rt: &Runtime,
    d: &Dslash,
    columns: usize,
    repeats: usize,
    bandwidth: Option<f64>,
) -> Result<DslashResult, Error> {
    let (geometry, precision) = (d.geometry(), d.precision());
    let devices: Vec<String> = rt.memory().into_iter().filter_map(|node| node.device).collect();
    let is_on_gpus = !devices.is_empty() && precision.has_gpu_kernels() && d.has_kernels();
    let (in_a_row, before) = if is_on_gpus { (IN_A_ROW, BEFORE_GPUS_COUNT) } else { (1, 1) };
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let stored =
        || MultiVector::stored(rt, d.space(), columns, Arc::new(Sites::new(precision.fermion, columns)));
    let (x, y) = (stored(), stored());
    let column: Vec<C64> = (0..d.space().len())
        .map(|_| C64::new(random.random_range(-1.0..1.0), random.random_range(-1.0..1.0)))
        .collect();
    for c in 0..columns {
        x.set_column(rt, c, &column)?;
    }
    let numbers = NumbersHandle::new(rt, columns, 0);
    let graph = rt.record(|graph| {
        let steps = Steps::new(rt, graph, d.space(), &numbers);
        (0..in_a_row).try_for_each(|_| d.apply(&steps, &x, &y, 1.0, None))
    })?;
    let mut times = Vec::with_capacity(repeats);
    for repeat in 0..before + repeats.max(1) {
        let begun = Instant::now();
        rt.replay(&Bindings::recorded(&graph))?;
        rt.wait_all()?;
        // The first application allocates working space, and copies everything to GPUs.
        if repeat >= before {
            times.push(begun.elapsed().as_secs_f64() / in_a_row as f64);
        }
    }
    let sites = geometry.half() as f64;
    let nanoseconds = times.into_iter().fold(f64::INFINITY, f64::min) / sites * 1e9;
    let vectors = 2 * columns * d.space().len() / (COLOURS * geometry.half());
    let bytes = d.bytes() as f64 / sites + (vectors * precision.fermion.bytes()) as f64;
    let flops = d.flops() * columns as f64;
    let workers = rt.workers();
    Ok(DslashResult {
        lattice: geometry.extents(),
        precision: precision.to_string(),
        columns,
        device: if is_on_gpus { devices.join(", ") } else { "cpu".to_owned() },
        workers,
        nanoseconds,
        bytes,
        rate: bytes / nanoseconds,
        bandwidth: bandwidth.unwrap_or_else(|| read_bandwidth(workers)),
        gflops: flops / nanoseconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_formats() -> Result<(), Error> {
        let (rt, geometry) = (Runtime::builder().workers(1).build()?, Geometry::new([16, 4, 4, 4])?);
        let smeared = random_links(geometry, true, 1);
        for (precision, bytes) in [
            (Precision::DOUBLE, 2400.0),
            (Precision::SINGLE, 1200.0),
            (Precision::HALF, 608.0),
            (Precision::INT20, 608.0),
            (Precision::INT30, 1200.0),
        ] {
            let result = dslash(&rt, &smeared, precision, 1, 1, None)?;
            assert_eq!((result.bytes, result.workers, &*result.device), (bytes, 1, "cpu"), "{precision}");
            // Half the links, and four spins.
            let result = dslash_of_wilson(&rt, &smeared.fat, precision, 1, 1, None)?;
            let fermion = precision.fermion.bytes() as f64;
            assert_eq!(result.bytes, (bytes - 2.0 * fermion) / 2.0 + 8.0 * fermion, "{precision}");
        }
        Ok(())
    }
}
