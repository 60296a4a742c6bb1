//! Arrays of numbers in files, whatever their type.

use std::path::Path;

use zellige_files::array::Array as File;

use crate::Error;
use crate::basis::FIXED;

/// An array in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its sides.
    pub shape: Vec<usize>,
    /// Its numbers; `int16` as fractions of 16384.
    pub numbers: Vec<f64>,
}

/// Reads an array of `int16`, `float32` or `float64` with so many dimensions. An `int16` is a fraction of 16384.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, [`Error::Format`] for one that holds something else, with the byte where it begins.
pub fn read(path: &Path, dimensions: usize) -> Result<Array, Error> {
    let array = File::open(path)?.of(&["i2", "f4", "f8"], dimensions)?;
    let shape = array.sides().to_vec();
    let numbers = match array.kind() {
        "i2" => array.values::<i16>()?.into_iter().map(|x| f64::from(f32::from(x) / FIXED)).collect(),
        _ => array.reals()?,
    };
    Ok(Array { shape, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::write_array;

    #[test]
    fn arrays_of_each_type_come_back() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.npy");
        write_array(&path, &[2, 3], [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.5])?;
        let array = read(&path, 2)?;
        assert_eq!((array.shape, array.numbers[5]), (vec![2, 3], 6.5));
        write_array(&path, &[2], [16_384i16, -8192])?;
        assert_eq!(read(&path, 1)?.numbers, [1.0, -0.5]);
        write_array(&path, &[1], [1e-300f64])?;
        assert_eq!(read(&path, 1)?.numbers, [1e-300]);
        let problem = read(folder.path(), 1).expect_err("a folder").to_string();
        assert!(problem.contains("signals.npy"), "{problem}");
        let problem = read(&path, 3).expect_err("one dimension").to_string();
        assert!(problem.contains("three dimensions"), "{problem}");
        write_array(&path, &[1], [1u8])?;
        let problem = read(&path, 1).expect_err("no bytes").to_string();
        assert!(problem.contains("float32"), "{problem}");
        Ok(())
    }
}
