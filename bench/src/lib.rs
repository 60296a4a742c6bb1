//! Criterion benches that cross crates (`benches/`) and programs that measure packaged peers (`peers/`); what these share is here.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

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

/// The middle one of some times; the larger of two.
///
/// # Panics
/// If there are none.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}
