//! The vectors that options name.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_solve::files::read_vectors;

use crate::args::VectorSource;
use crate::exit::CommandError;

/// All columns of a source; those that are made have so many elements.
///
/// # Errors
/// A file that cannot be read.
pub fn all(from: &VectorSource, elements: usize) -> anyhow::Result<Vec<Vec<f64>>> {
    Ok(match from {
        VectorSource::Ones => vec![vec![1.0; elements]],
        VectorSource::Random(seed) => {
            let mut random = ChaCha8Rng::seed_from_u64(*seed);
            vec![(0..elements).map(|_| random.random_range(-1.0..1.0)).collect()]
        }
        VectorSource::File(path) => read_vectors(path, Some(elements))?,
    })
}

/// The one column of an option's source.
///
/// # Errors
/// A file that cannot be read, and [`CommandError::Option`] for one with several columns.
pub fn one(option: &'static str, from: &VectorSource, elements: usize) -> anyhow::Result<Vec<f64>> {
    let mut all = all(from, elements)?;
    match all.pop() {
        Some(vector) if all.is_empty() => Ok(vector),
        _ => Err(CommandError::option(option, "a file with one column is needed").into()),
    }
}
