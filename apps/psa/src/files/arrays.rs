//! Arrays of numbers of any type in files. Integers keep their values. Units that an HDF5 file
//! states are converted.

use std::path::Path;

use zellige_files::array::{Array as File, hdf5};

use crate::Error;
use crate::basis::FIXED;

/// An array in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberArray {
    /// Extents of the dimensions.
    pub shape: Vec<usize>,
    /// Values of the array.
    pub numbers: Vec<f64>,
}

/// Physical quantity of the numbers, which determines their unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Fractions of the whole charge, or any quantity without a unit.
    Number,
    /// Lengths in mm.
    Length,
    /// Times in ns.
    Time,
    /// Energies in keV.
    Energy,
}

impl Quantity {
    /// Returns the factor that converts numbers from a unit.
    fn factor(self, unit: &str) -> Option<f64> {
        let known: &[(&str, f64)] = match self {
            Quantity::Number => return Some(1.0),
            Quantity::Length => &[("mm", 1.0), ("cm", 10.0), ("m", 1e3), ("um", 1e-3)],
            Quantity::Time => &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("ps", 1e-3)],
            Quantity::Energy => &[("keV", 1.0), ("MeV", 1e3), ("GeV", 1e6), ("eV", 1e-3)],
        };
        let unit = unit.trim().replace(['\u{b5}', '\u{3bc}'], "u");
        let is_known = |&&(name, _): &&(&str, f64)| name == unit;
        let factor = known.iter().find(is_known).map(|&(_, factor)| factor);
        factor.or_else(|| unit.is_empty().then_some(1.0))
    }

    /// Returns the conversion factor of the unit that a file states for an array.
    ///
    /// # Errors
    /// [`Error::File`] for a unit of another quantity.
    fn factor_of(self, path: &Path) -> Result<f64, Error> {
        let Some(unit) = hdf5::unit(path) else { return Ok(1.0) };
        self.factor(&unit).ok_or_else(|| {
            let wanted = match self {
                Quantity::Energy => "keV are needed, calibrate them (eV, MeV and GeV are converted)",
                Quantity::Time => "ns are needed (ps, us, ms and s are converted)",
                _ => "mm are needed (um, cm and m are converted)",
            };
            Error::content(path, None, format!("units {unit:?}: {wanted}"))
        })
    }
}

/// Reads an array of numbers of any type with `dimensions` dimensions.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, or with the byte for other
/// content.
pub fn read(path: &Path, dimensions: usize, quantity: Quantity) -> Result<NumberArray, Error> {
    let array = open(path, dimensions)?;
    let shape = array.sides().to_vec();
    Ok(NumberArray { shape, numbers: reals(array, quantity)? })
}

/// Opens an array of numbers of any type with `dimensions` dimensions.
pub(crate) fn open(path: &Path, dimensions: usize) -> Result<File, Error> {
    let array = File::open(path)?;
    let kind = array.kind().to_owned();
    Ok(array.of(&[&kind], dimensions)?)
}

/// Opens an array of numbers of any type with these extents.
pub(crate) fn sized(path: &Path, sides: &[usize]) -> Result<File, Error> {
    let array = File::open(path)?;
    let kind = array.kind().to_owned();
    Ok(array.sized(&[&kind], sides)?)
}

/// Returns the numbers of an array in the unit of the quantity.
pub(crate) fn reals(array: File, quantity: Quantity) -> Result<Vec<f64>, Error> {
    let factor = quantity.factor_of(array.path())?;
    let mut numbers = array.reals()?;
    if factor != 1.0 {
        numbers.iter_mut().for_each(|number| *number *= factor);
    }
    Ok(numbers)
}

/// Returns the numbers of an array in the unit of the quantity as `f32`; floating-point numbers
/// must be finite.
pub(crate) fn finite(array: File, quantity: Quantity) -> Result<Vec<f32>, Error> {
    if !matches!(array.kind(), "f4" | "f8") {
        return Ok(reals(array, quantity)?.into_iter().map(|number| number as f32).collect());
    }
    let factor = quantity.factor_of(array.path())?;
    let mut numbers = array.finite()?;
    if factor != 1.0 {
        numbers.iter_mut().for_each(|number| *number = (f64::from(*number) * factor) as f32);
    }
    Ok(numbers)
}

/// Reads the signals of a basis as fractions of the whole charge. Signals in `int16` are in fixed
/// point, the format that this program writes for two bytes a sample.
pub(crate) fn charges(array: File) -> Result<Vec<f32>, Error> {
    let whole = if array.kind() == "i2" { FIXED } else { 1.0 };
    let mut charges = finite(array, Quantity::Number)?;
    if whole != 1.0 {
        charges.iter_mut().for_each(|charge| *charge /= whole);
    }
    Ok(charges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::write_array;

    #[test]
    fn arrays_of_each_type_come_back() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.npy");
        let read = |dimensions| read(&path, dimensions, Quantity::Length);
        write_array(&path, &[2, 3], [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.5])?;
        let array = read(2)?;
        assert_eq!((array.shape, array.numbers[5]), (vec![2, 3], 6.5));
        // Only a basis is in fixed point.
        write_array(&path, &[2], [16_384i16, -8192])?;
        assert_eq!(read(1)?.numbers, [16_384.0, -8192.0]);
        assert_eq!(charges(open(&path, 1)?)?, [1.0, -0.5]);
        write_array(&path, &[2], [-12i8, 127])?;
        assert_eq!(read(1)?.numbers, [-12.0, 127.0]);
        write_array(&path, &[2], [0u16, 65_535])?;
        assert_eq!((read(1)?.numbers, charges(open(&path, 1)?)?), (vec![0.0, 65_535.0], vec![0.0, 65_535.0]));
        write_array(&path, &[2], [-70_000i64, 70_000])?;
        assert_eq!(finite(open(&path, 1)?, Quantity::Energy)?, [-70_000.0, 70_000.0]);
        write_array(&path, &[1], [1e-300f64])?;
        assert_eq!(read(1)?.numbers, [1e-300]);
        let problem = super::read(folder.path(), 1, Quantity::Number).expect_err("a folder").to_string();
        assert!(problem.contains("signals.npy"), "{problem}");
        let problem = read(3).expect_err("one dimension").to_string();
        assert!(problem.contains("three dimensions"), "{problem}");
        Ok(())
    }

    #[test]
    fn units_are_those_of_the_quantity() {
        for (quantity, unit, factor) in [
            (Quantity::Length, "mm", Some(1.0)),
            (Quantity::Length, "m", Some(1000.0)),
            (Quantity::Length, "ns", None),
            (Quantity::Time, "\u{b5}s", Some(1000.0)),
            (Quantity::Energy, "MeV", Some(1000.0)),
            (Quantity::Energy, "ADC", None),
            (Quantity::Energy, "", Some(1.0)),
            (Quantity::Number, "ADC", Some(1.0)),
        ] {
            assert_eq!(quantity.factor(unit), factor, "{quantity:?} {unit}");
        }
    }
}
