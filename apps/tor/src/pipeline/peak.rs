//! Peak rate of the machine: that of one tile product.

use super::PipelineError;
use std::time::{Duration, Instant};
use zellige_dense::TileScalar;
use zellige_kernels::{MatMut, MatRef, Op, gemm};
use zellige_runtime::{Runtime, Submit, write};

/// Minimum duration of a burst, in which each worker multiplies: short, since every rule pays for
/// it.
const BURST: Duration = Duration::from_millis(5);
/// Number of bursts; the median is used.
const BURSTS: usize = 3;
/// Number of operand sets that a worker cycles through, like the tiles of a factorisation.
const SETS: usize = 4;

/// Returns the number of tiles for the measurement: two operands and a result in each set.
pub(super) fn tiles(workers: usize) -> usize {
    at_once(workers) * 3 * SETS
}

/// Returns the number of workers that multiply concurrently, at most one for each core.
fn at_once(workers: usize) -> usize {
    std::thread::available_parallelism().map_or(workers, |cores| workers.min(cores.into()))
}

/// Measures the rate of `C -= A B^T` with square tiles of size `nb` and type `T` on all cores of
/// the workers, in Gflop/s. It is measured again for every rule, close to its run, because the rate
/// of a machine changes with its temperature and its other load.
pub(super) fn gemm_rate<T: TileScalar>(rt: &Runtime, nb: usize) -> Result<f64, PipelineError> {
    let mut rates = Vec::with_capacity(BURSTS);
    for _ in 0..BURSTS {
        rates.push(burst::<T>(rt, nb)?);
    }
    rates.sort_by(f64::total_cmp);
    Ok(rates[BURSTS / 2])
}

fn burst<T: TileScalar>(rt: &Runtime, nb: usize) -> Result<f64, PipelineError> {
    let mut rates = Vec::new();
    for _ in 0..at_once(rt.workers()) {
        let rate = rt.register_empty::<f64>();
        rt.task("gemm_peak")
            .operands((write(&rate),))
            .cpu(move |(mut rate,)| {
                rate.put(multiply::<T>(nb)?);
                Ok::<(), zellige_kernels::KernelError>(())
            })
            .submit()?;
        rates.push(rate);
    }
    let mut sum = 0.0;
    for rate in rates {
        sum += rt.take(rate)?;
    }
    Ok(sum)
}

fn multiply<T: TileScalar>(nb: usize) -> Result<f64, zellige_kernels::KernelError> {
    let area = nb * nb;
    let operand: Vec<T> = (0..2 * SETS * area).map(|k| T::from_f64((k % 17) as f64 / 17.0 - 0.5)).collect();
    let mut results = vec![T::from_f64(0.0); SETS * area];
    let mut products = 0u32;
    let start = Instant::now();
    while start.elapsed() < BURST {
        for set in 0..SETS {
            let a = MatRef::new(&operand[2 * set * area..][..area], nb, nb, nb)?;
            let b = MatRef::new(&operand[(2 * set + 1) * area..][..area], nb, nb, nb)?;
            let c = MatMut::new(&mut results[set * area..][..area], nb, nb, nb)?;
            gemm(T::from_f64(-1.0), a, Op::None, b, Op::Trans, T::from_f64(1.0), c)?;
            products += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    std::hint::black_box(&results);
    Ok(2.0 * (nb as f64).powi(3) * f64::from(products) / seconds / 1e9)
}
