//! Measurements and checks of the command: the verbs `bench`, `spmv`, `psa benchmark`, `machine
//! calibrate` and `selftest`, and the common parts of the programs in `bench`.
//!
//! | module | what is measured |
//! |---|---|
//! | [`tasks`] | CPU time of an empty task |
//! | [`cholesky`] | a tiled factorisation compared with the product of one tile |
//! | [`memory`] | what a factorisation moves where memory is short |
//! | [`gpu`] | products, copies, factorisations, sparse products and reconstructors on a GPU |
//! | [`calibrate`] | performance models of a machine, and its platform file |
//! | [`spmv`] | storage, errors and times of sparse products in adaptive precision |
//! | [`searches`] | searches of pulse shapes compared with the full one |
//! | [`selftest`] | kernels, applications and GPUs compared with float64 and the CPU; random graphs |
#![deny(unsafe_code)]

pub mod calibrate;
pub mod cholesky;
mod error;
pub mod gpu;
pub mod memory;
pub mod random;
pub mod searches;
pub mod selftest;
pub mod spmv;
pub mod tasks;

use std::any::Any;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use zellige_cuda::Gpu;
use zellige_dense::{Generator, TileScalar, generator};
use zellige_files::observe::Observer;
use zellige_runtime::{Canceller, Runtime, RuntimeBuilder, Subnormals};
use zellige_sparse::Csr;

pub use error::Error;

/// Function that arranges the cancellation of a runtime's tasks on the user's request, until its
/// result is dropped.
pub type Watch<'w> = &'w dyn Fn(Canceller) -> Box<dyn Any>;

/// Initial rate of links between GPUs (bytes per second). It only declares that there may be a
/// link; links are measured.
pub const PEERS: f64 = 1e10;

/// Returns the builder of every runtime of the command: subnormal numbers are flushed to zero in
/// all bodies. Covariances, signals and residuals end in them, they carry no information there, and
/// they cost up to a hundred times as much as other numbers.
pub fn builder() -> RuntimeBuilder {
    Runtime::builder().subnormals(Subnormals::Flush)
}

/// A runtime on which these GPUs run all that they can, as with `--device cuda`.
pub fn on_gpus(gpus: &[Gpu]) -> RuntimeBuilder {
    with_gpus(builder().policy("dmdas").gpu_only(true), gpus)
}

/// A runtime with these GPUs and the links between them.
pub fn with_gpus(builder: RuntimeBuilder, gpus: &[Gpu]) -> RuntimeBuilder {
    let builder = if gpus.len() > 1 { builder.peers(PEERS) } else { builder };
    gpus.iter().fold(builder, |builder, gpu| builder.device(gpu.clone()))
}

/// Fails if the observer wants to stop.
///
/// # Errors
/// [`Error::Cancelled`].
pub fn check(observer: &dyn Observer) -> Result<(), Error> {
    if observer.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}

/// A symmetric, strictly diagonally dominant matrix from a hash of the position.
pub fn test_matrix<T: TileScalar>(n: usize) -> Generator<T> {
    generator(move |rows, cols, out: &mut [T], ld: usize| {
        for (j, col) in cols.enumerate() {
            for (i, row) in rows.clone().enumerate() {
                let (low, high) = (row.min(col) as u64, row.max(col) as u64);
                let hash = (low * 0x9E37_79B1 + high * 0x85EB_CA77) >> 7 & 0xFFFF;
                let diagonal = if row == col { n as f64 } else { 0.0 };
                out[i + j * ld] = T::from_f64(hash as f64 / 65536.0 - 0.5 + diagonal);
            }
        }
    })
}

/// Writes a matrix in the format of the peers: rows and nonzeros (`u64`), row starts and columns
/// (`u32`), values (`f64`).
///
/// # Errors
/// Errors of the file.
pub fn write_rows(a: &Csr, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for size in [a.rows() as u64, a.nonzeros() as u64] {
        out.write_all(&size.to_le_bytes())?;
    }
    let mut start = 0u32;
    out.write_all(&start.to_le_bytes())?;
    for (column, _) in a.iter() {
        start += column.len() as u32;
        out.write_all(&start.to_le_bytes())?;
    }
    a.iter().flat_map(|row| row.0).try_for_each(|j| out.write_all(&j.to_le_bytes()))?;
    a.iter().flat_map(|row| row.1).try_for_each(|value| out.write_all(&value.to_le_bytes()))?;
    out.flush()
}

/// Writes a vector in the format of the peers: contiguous `f64`.
///
/// # Errors
/// Errors of the file.
pub fn write_vector(x: &[f64], path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    x.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))?;
    out.flush()
}

/// CPU time of this thread (s) while something runs.
pub fn cpu_seconds(run: impl FnOnce()) -> f64 {
    let begin = clock(ClockId::ThreadCPUTime);
    run();
    clock(ClockId::ThreadCPUTime) - begin
}

/// CPU time of all threads of this process so far (s).
pub fn cpu_of_process() -> f64 {
    clock(ClockId::ProcessCPUTime)
}

/// The time of a clock (s).
fn clock(id: ClockId) -> f64 {
    let time = clock_gettime(id);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// Returns the median of some figures; NaN of none.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    zellige_runtime::model::median(&mut figures).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use zellige_app::json::{Host, Program, Provenance, SCHEMA};

    use super::*;

    /// A watch that cancels nothing.
    pub(crate) const NOBODY: Watch<'static> = &|_| Box::new(());

    /// Returns the place and time of a run in tests.
    pub(crate) fn run() -> Provenance {
        Provenance {
            schema: SCHEMA,
            zellige: Program {
                version: env!("CARGO_PKG_VERSION").into(),
                commit: None,
                features: Vec::new(),
            },
            host: Host { name: "here".into(), processor: None, cores: 1 },
            date: "today".into(),
            args: Vec::new(),
        }
    }
}
