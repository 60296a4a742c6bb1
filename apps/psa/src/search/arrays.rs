//! Arrays of numbers in npy files.

use std::io::Cursor;
use std::path::Path;

use npyz::{DType, NpyFile, Order, TypeChar};

use crate::Error;

/// What an `int16` of a basis is multiplied by: 16384 is the whole charge.
const FIXED: f32 = 1.0 / 16_384.0;

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
    let bytes = std::fs::read(path).map_err(|source| Error::File {
        path: path.to_owned(),
        problem: "cannot read the array",
        source,
    })?;
    parse(&bytes, dimensions).map_err(|(offset, problem)| Error::Format {
        path: path.to_owned(),
        offset: Some(offset as u64),
        problem,
    })
}

/// The array, or what is wrong from which byte on.
fn parse(bytes: &[u8], dimensions: usize) -> Result<Array, (usize, String)> {
    let mut at = Cursor::new(bytes);
    let header = NpyFile::new(&mut at).map(|npy| (npy.shape().to_vec(), npy.dtype(), npy.order()));
    let begin = usize::try_from(at.position()).unwrap_or(bytes.len());
    let (shape, dtype, order) =
        header.map_err(|e| (begin, format!("this is no header of an npy file: {e}")))?;
    if shape.len() != dimensions {
        return Err((0, format!("an array of shape {shape:?}; one with {dimensions} dimensions is needed")));
    }
    if order == Order::Fortran && dimensions > 1 {
        return Err((0, "an array in Fortran order; save numpy.ascontiguousarray of it".into()));
    }
    let (kind, width) = match &dtype {
        DType::Plain(plain) => (plain.type_char(), plain.size_field()),
        _ => (TypeChar::RawData, 0),
    };
    if !matches!((kind, width), (TypeChar::Float, 4 | 8) | (TypeChar::Int, 2)) {
        let problem =
            format!("elements of type {}; convert them to float32, float64 or int16", dtype.descr());
        return Err((0, problem));
    }
    // The header is not to be trusted with an allocation: there must be so many bytes first.
    let wanted = shape.iter().try_fold(width, |bytes, &side| bytes.checked_mul(side));
    let there = (bytes.len() - begin) as u64;
    if wanted != Some(there) {
        let problem = format!(
            "{there} bytes for an array of shape {shape:?} with {width} bytes an element: {}",
            if wanted.is_some_and(|wanted| wanted < there) {
                "there is more than an array"
            } else {
                "it is cut off"
            }
        );
        return Err((bytes.len(), problem));
    }
    let unreadable = |e: std::io::Error| (begin, format!("elements cannot be read: {e}"));
    let npy = NpyFile::new(bytes).map_err(unreadable)?;
    let numbers = match width {
        2 => npy
            .into_vec::<i16>()
            .map_err(unreadable)?
            .into_iter()
            .map(|x| f64::from(f32::from(x) * FIXED))
            .collect(),
        4 => npy.into_vec::<f32>().map_err(unreadable)?.into_iter().map(f64::from).collect(),
        _ => npy.into_vec::<f64>().map_err(unreadable)?,
    };
    // Sides whose product is the size of what is there are no larger than that, unless one of them is 0.
    let shape = shape.into_iter().map(|side| side.try_into().unwrap_or(usize::MAX)).collect();
    Ok(Array { shape, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use npyz::WriterBuilder;
    use proptest::prelude::*;

    fn npy(shape: &[u64], values: &[f32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut npy = npyz::WriteOptions::new()
            .default_dtype()
            .shape(shape)
            .writer(&mut bytes)
            .begin_nd()
            .expect("memory");
        npy.extend(values.iter().copied()).expect("memory");
        npy.finish().expect("memory");
        bytes
    }

    #[test]
    fn arrays_come_back() {
        let bytes = npy(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.5]);
        let array = parse(&bytes, 2).expect("an array");
        assert_eq!((array.shape, array.numbers[5]), (vec![2, 3], 6.5));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let bytes = npy(&[2, 3], &[0.0; 6]);
        let (at, problem) = parse(&bytes[..bytes.len() - 4], 2).expect_err("cut off");
        assert!(at == bytes.len() - 4 && problem.contains("cut off"), "{at}: {problem}");
        let (_, problem) = parse(&bytes, 3).expect_err("two dimensions");
        assert!(problem.contains("3 dimensions"), "{problem}");
        assert!(parse(b"not an array", 1).is_err());
    }

    proptest! {
        /// A file that was cut, or of which bytes were changed, is refused or read; nothing panics.
        #[test]
        fn no_file_is_too_broken(cut in 0usize..400, changes in prop::collection::vec((0usize..160, any::<u8>()), 0..4)) {
            let mut bytes = npy(&[4, 3], &[1.0; 12]);
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            if let Ok(array) = parse(&bytes, 2) {
                prop_assert_eq!(array.shape.iter().product::<usize>(), array.numbers.len());
            }
        }
    }
}
