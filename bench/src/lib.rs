//! Criterion benches that cross crates (`benches/`) and programs that measure packaged peers (`peers/`); what these share is here.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use zellige_sparse::Csr;

/// Writes a matrix as the peers read it: rows and elements (`u64`), row starts and columns (`u32`), values (`f64`).
///
/// # Errors
/// Those of the file.
pub fn write_rows(a: &Csr, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for size in [a.rows() as u64, a.elements() as u64] {
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

/// Writes a vector as the peers read it: `f64`, one after the other.
///
/// # Errors
/// Those of the file.
pub fn write_vector(x: &[f64], path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    x.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))?;
    out.flush()
}

/// CPU time of this thread (s) while something runs.
pub fn cpu_seconds(run: impl FnOnce()) -> f64 {
    let begin = seconds(ClockId::ThreadCPUTime);
    run();
    seconds(ClockId::ThreadCPUTime) - begin
}

/// CPU time of all threads of this process so far (s).
pub fn cpu_of_process() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// The middle one of some figures; the larger of two.
///
/// # Panics
/// If there are none.
pub fn median(all: impl IntoIterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.into_iter().collect();
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}
