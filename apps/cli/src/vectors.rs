//! The vectors that options name.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_solve::files::read_vectors;

use crate::args::VectorSource;
use crate::exit::CommandError;

/// All columns of a source; those that are made have so many elements. Complex ones have real and imaginary parts in turn.
///
/// # Errors
/// A file that cannot be read.
pub fn all(from: &VectorSource, elements: usize, complex: bool) -> anyhow::Result<Vec<Vec<f64>>> {
    let each = if complex { 2 } else { 1 };
    Ok(match from {
        VectorSource::Ones => {
            vec![(0..elements).flat_map(|_| [1.0, 0.0].into_iter().take(each)).collect()]
        }
        VectorSource::Random(seed) => {
            let mut random = ChaCha8Rng::seed_from_u64(*seed);
            vec![(0..each * elements).map(|_| random.random_range(-1.0..1.0)).collect()]
        }
        VectorSource::File(path) => read_vectors(path, Some(elements), complex)?,
    })
}

/// The one column of an option's source.
///
/// # Errors
/// A file that cannot be read, and [`CommandError::Option`] for one with several columns.
pub fn one(option: &'static str, from: &VectorSource, elements: usize) -> anyhow::Result<Vec<f64>> {
    let mut all = all(from, elements, false)?;
    match all.pop() {
        Some(vector) if all.is_empty() => Ok(vector),
        _ => Err(CommandError::option(option, "a file with one column is needed").into()),
    }
}
