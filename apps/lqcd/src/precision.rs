//! Storage formats of links and quark fields, and the arithmetic of products.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use zellige_kernels::sites::{
    COMPONENTS, MatrixFormat, MatrixNumber, SiteFormat, decode_numbers, decode_sites, encode_numbers,
    encode_sites,
};
use zellige_krylov::Storage;

use crate::geometry::COLOURS;
use crate::su3::C64;

/// Number format of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// Float32.
    Single,
    /// Float64.
    Double,
}

impl Compute {
    /// Returns the name of the format.
    pub const fn name(self) -> &'static str {
        if self as u8 == Compute::Single as u8 { "fp32" } else { "fp64" }
    }
}

/// Formats of links, quark fields and products: `fixed16/int20/fp32`, or a name.
///
/// | name | links | quarks | products |
/// | --- | --- | --- | --- |
/// | `double` | `fp64` | `double` | `fp64` |
/// | `single` | `fp32` | `single` | `fp32` |
/// | `half` | `fixed16` | `half` | `fp32` |
/// | `int20` | `fixed16` | `int20` | `fp32` |
/// | `int30` | `fixed32` | `int30` | `fp64` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Precision {
    /// Storage format of links.
    pub gauge: MatrixFormat,
    /// Storage format of quark fields.
    pub fermion: SiteFormat,
    /// Number format of products.
    pub compute: Compute,
}

impl Precision {
    /// Float64 for links, quark fields and products.
    pub const DOUBLE: Precision = Precision::new(MatrixNumber::Fp64, SiteFormat::Fp64, Compute::Double);
    /// Float32 for links, quark fields and products.
    pub const SINGLE: Precision = Precision::new(MatrixNumber::Fp32, SiteFormat::Fp32, Compute::Single);
    /// Integers of 16 bits for links and quark fields.
    pub const HALF: Precision = Precision::new(MatrixNumber::Fixed16, SiteFormat::Half, Compute::Single);
    /// Quark fields of 20-bit integers and links of 16 bits.
    pub const INT20: Precision = Precision::new(MatrixNumber::Fixed16, SiteFormat::Int20, Compute::Single);
    /// Quark fields of 30-bit integers and links of 32 bits.
    pub const INT30: Precision = Precision::new(MatrixNumber::Fixed32, SiteFormat::Int30, Compute::Double);

    const NAMED: [(&'static str, Precision); 5] = [
        ("double", Precision::DOUBLE),
        ("single", Precision::SINGLE),
        ("half", Precision::HALF),
        ("int20", Precision::INT20),
        ("int30", Precision::INT30),
    ];

    /// Returns whether GPUs have kernels for it, which need uncompressed links, and have those of
    /// [`SiteFormat::WITH_KERNELS`] only.
    pub fn has_gpu_kernels(&self) -> bool {
        self.gauge == MatrixFormat::full(self.gauge.number) && self.fermion.has_kernels()
    }

    const fn new(number: MatrixNumber, fermion: SiteFormat, compute: Compute) -> Precision {
        Precision { gauge: MatrixFormat::full(number), fermion, compute }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Precision::NAMED.iter().find(|(_, precision)| precision == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}/{}/{}", self.gauge, self.fermion, self.compute.name()),
        }
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Precision, String> {
        if let Some((_, precision)) = Precision::NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(*precision);
        }
        let words: Vec<&str> = text.split('/').collect();
        let [gauge, fermion, compute] = words[..] else {
            return Err("not one of double, single, half, int20, int30, LINKS/QUARKS/PRODUCTS".into());
        };
        let compute = match compute {
            "fp32" => Compute::Single,
            "fp64" => Compute::Double,
            _ => return Err(format!("{compute}: products are computed in fp32 or fp64")),
        };
        Ok(Precision { gauge: gauge.parse()?, fermion: fermion.parse()?, compute })
    }
}

/// Storage of quark fields as records, one for each site and column: `[site][column]`. In float64
/// they are [`Plain`](zellige_krylov::Plain).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sites {
    format: SiteFormat,
    columns: usize,
}

impl Sites {
    /// Makes the storage for `columns` columns in a format.
    pub fn new(format: SiteFormat, columns: usize) -> Sites {
        Sites { format, columns }
    }

    /// Returns the format of a storage that is of this type, or plain.
    pub(crate) fn format_of(storage: &dyn Storage<C64>) -> Option<SiteFormat> {
        if storage.is_plain() { Some(SiteFormat::Fp64) } else { storage.name().parse().ok() }
    }

    /// Number of sites that are decoded at a time.
    const AT_ONCE: usize = 64;

    /// Iterates over blocks of sites, with the range of their numbers.
    fn each(&self, first: usize, count: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<> {
        let width = COLOURS * self.columns;
        let (begin, end) = (first / width, (first + count) / width);
        (begin..end).step_by(Sites::AT_ONCE).map(move |site| {
            let sites = site..end.min(site + Sites::AT_ONCE);
            let numbers = (sites.start - begin) * width..(sites.end - begin) * width;
            (sites, numbers)
        })
    }
}

impl Storage<C64> for Sites {
    fn name(&self) -> &str {
        self.format.name()
    }

    fn words(&self, numbers: usize) -> usize {
        self.format.words(numbers / COLOURS)
    }

    fn is_plain(&self) -> bool {
        self.format == SiteFormat::Fp64
    }

    fn roundoff(&self) -> f64 {
        self.format.unit_roundoff()
    }

    fn decode(&self, words: &[f64], first: usize, numbers: &mut [C64]) {
        if self.columns == 1 {
            let sites = first / COLOURS..(first + numbers.len()) / COLOURS;
            return decode_numbers(self.format, words, sites, bytemuck::cast_slice_mut(numbers));
        }
        let mut rows = [0.0; COMPONENTS * Sites::AT_ONCE];
        for (sites, own) in self.each(first, numbers.len()) {
            for column in 0..self.columns {
                let pitch = sites.len();
                decode_sites(self.format, words, (self.columns, column), sites.clone(), &mut rows, pitch);
                let plain = bytemuck::cast_slice_mut(&mut numbers[own.clone()]);
                encode_sites(SiteFormat::Fp64, &rows, pitch, plain, (self.columns, column), 0..pitch);
            }
        }
    }

    fn encode(&self, numbers: &[C64], first: usize, words: &mut [f64]) {
        if self.columns == 1 {
            let sites = first / COLOURS..(first + numbers.len()) / COLOURS;
            return encode_numbers(self.format, bytemuck::cast_slice(numbers), words, sites);
        }
        let mut rows = [0.0; COMPONENTS * Sites::AT_ONCE];
        for (sites, own) in self.each(first, numbers.len()) {
            for column in 0..self.columns {
                let pitch = sites.len();
                let plain = bytemuck::cast_slice(&numbers[own.clone()]);
                decode_sites(SiteFormat::Fp64, plain, (self.columns, column), 0..pitch, &mut rows, pitch);
                encode_sites(self.format, &rows, pitch, words, (self.columns, column), sites.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_are_written_as_they_are_read() {
        for text in [
            "double",
            "single",
            "half",
            "int20",
            "int30",
            "fp32/int20/fp32",
            "fp32/int12/fp32",
            "fixed24-13/half/fp64",
        ] {
            assert_eq!(text.parse::<Precision>().map(|precision| precision.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("fixed16/int20/fp32".parse(), Ok(Precision::INT20));
        for text in [
            "",
            "fp16",
            "fp32/int20",
            "fp32/int20/fp16",
            "fp32/int7/fp32",
            "fp32/int32/fp64",
            "fp16/int20/fp32",
        ] {
            assert!(text.parse::<Precision>().is_err(), "{text}");
        }
    }

    /// Numbers are restored for any start row of a group, and for several columns.
    #[test]
    fn numbers_come_back() {
        for format in SiteFormat::ALL {
            for columns in [1, 3] {
                let storage = Sites::new(format, columns);
                let count = 200 * COLOURS * columns;
                let numbers: Vec<C64> =
                    (0..count).map(|i| C64::new((i % 17) as f64 - 8.0, (i % 23) as f64 / 8.0)).collect();
                let mut words = vec![0.0; storage.words(count)];
                let split = 96 * COLOURS * columns;
                storage.encode(&numbers[split..], split, &mut words);
                storage.encode(&numbers[..split], 0, &mut words);
                let mut found = vec![C64::default(); count];
                storage.decode(&words, 0, &mut found);
                let apart = found.iter().zip(&numbers).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
                assert!(apart <= 12.0 * format.unit_roundoff(), "{format}: {apart:e}");
                let mut part = vec![C64::default(); 30 * columns];
                storage.decode(&words, split, &mut part);
                assert_eq!(part, found[split..split + 30 * columns]);
            }
        }
    }
}
