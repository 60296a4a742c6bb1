//! The vectors that options name.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_sparse::files::{Vectors, read_vectors};

use crate::args::VectorSource;
use crate::exit::CommandError;

/// Returns all columns of a source. Generated columns have `elements` entries, which are complex if
/// `complex` is set.
///
/// # Errors
/// A file that cannot be read.
pub fn all(from: &VectorSource, elements: usize, complex: bool) -> anyhow::Result<Vectors> {
    let each = if complex { 2 } else { 1 };
    let columns = match from {
        VectorSource::Ones => {
            vec![(0..elements).flat_map(|_| [1.0, 0.0].into_iter().take(each)).collect()]
        }
        VectorSource::Random(seed) => {
            let mut random = ChaCha8Rng::seed_from_u64(*seed);
            vec![(0..each * elements).map(|_| random.random_range(-1.0..1.0)).collect()]
        }
        VectorSource::File(path) => return Ok(read_vectors(path, Some(elements))?),
    };
    Ok(Vectors { columns, complex })
}

/// Returns the single column of an option's source.
///
/// # Errors
/// A file that cannot be read, and [`CommandError::Option`] for one with several columns.
pub fn one(option: &'static str, from: &VectorSource, elements: usize) -> anyhow::Result<Vec<f64>> {
    let Vectors { columns: mut all, complex } = all(from, elements, false)?;
    if complex {
        return Err(CommandError::option(option, "the vector is complex, but real numbers are needed").into());
    }
    match all.pop() {
        Some(vector) if all.is_empty() => Ok(vector),
        _ => Err(CommandError::option(option, "the file must have one column").into()),
    }
}
