//! Storage formats of vectors.

use std::fmt::Debug;
use std::str::FromStr;

use zellige_kernels::packed::block::{BlockFormat, blocks_bytes, pack_blocks, unpack_blocks};
use zellige_kernels::packed::{PackedFormat, Rounding, pack, unpack};

use crate::error::Error;
use crate::scalar::Scalar;

/// Storage format of the numbers of a vector: 64-bit words, in any encoding. Tasks decode some rows
/// at a time into buffers that stay in the nearest cache, compute in float64, and encode the
/// result.
///
/// Ranges of rows that are decoded and encoded begin at multiples of 32, and are whole groups of
/// the [space](crate::Space::grouped).
///
/// ```
/// use std::sync::Arc;
/// use zellige_krylov::{MultiVector, Packed, Space, Storage};
/// use zellige_runtime::Runtime;
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let storage: Arc<dyn Storage<f64>> = Arc::new(Packed::SINGLE);
/// let x = MultiVector::stored(&rt, &Space::new(100, 0), 1, Arc::clone(&storage));
/// assert_eq!((storage.words(100), x.storage().name()), (50, "fp32")); // two numbers in a word
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
pub trait Storage<E: Scalar>: Debug + Send + Sync {
    /// Returns the name of the format.
    fn name(&self) -> &str;

    /// Returns the number of words of this many numbers.
    fn words(&self, numbers: usize) -> usize;

    /// Returns true if numbers are stored in the format of the arithmetic: tasks borrow them then.
    fn is_plain(&self) -> bool {
        false
    }

    /// Returns the maximum relative error of one number.
    fn roundoff(&self) -> f64;

    /// Decodes numbers from `first` on.
    fn decode(&self, words: &[f64], first: usize, numbers: &mut [E]);

    /// Stores numbers from `first` on.
    fn encode(&self, numbers: &[E], first: usize, words: &mut [f64]);
}

/// Storage in the format of the arithmetic: float64, real or complex.
///
/// ```
/// use zellige_krylov::{Plain, Storage};
///
/// let storage: &dyn Storage<f64> = &Plain;
/// assert!(storage.is_plain() && storage.words(10) == 10);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain;

impl<E: Scalar> Storage<E> for Plain {
    fn name(&self) -> &str {
        "fp64"
    }

    fn words(&self, numbers: usize) -> usize {
        numbers * E::WORDS
    }

    fn is_plain(&self) -> bool {
        true
    }

    fn roundoff(&self) -> f64 {
        f64::EPSILON / 2.0
    }

    fn decode(&self, words: &[f64], first: usize, numbers: &mut [E]) {
        numbers.copy_from_slice(&E::of_words(words)[first..first + numbers.len()]);
    }

    fn encode(&self, numbers: &[E], first: usize, words: &mut [f64]) {
        E::of_words_mut(words)[first..first + numbers.len()].copy_from_slice(numbers);
    }
}

/// Storage in a narrow format: number by number, or in blocks of eight that share an exponent. The
/// parts of a complex number are stored one after the other.
///
/// ```
/// use zellige_krylov::{Packed, Storage};
///
/// let format: Packed = "rp24".parse()?;
/// let storage: &dyn Storage<f64> = &format;
/// let (mut words, mut back) = (vec![0.0; storage.words(32)], vec![0.0; 32]);
/// storage.encode(&[1.0 / 3.0; 32], 0, &mut words);
/// storage.decode(&words, 0, &mut back);
/// assert!((back[0] - 1.0 / 3.0).abs() <= storage.roundoff() / 3.0);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// Each number is stored independently.
    Each(PackedFormat),
    /// Numbers are stored in blocks.
    Blocks(BlockFormat),
}

impl Default for Packed {
    /// Returns float64.
    fn default() -> Self {
        Packed::Each(PackedFormat::Fp64)
    }
}

impl FromStr for Packed {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let each = name.parse().map(Packed::Each).ok();
        let format = each.or_else(|| name.parse().map(Packed::Blocks).ok());
        let unknown = || {
            let problem = format!(
                "{name:?} is not one of fp64, rp56, rp48, rp40, fp32, rp24, rp16, block24, block16, block12, block8"
            );
            Error::parameter("basis", problem)
        };
        let format = format.ok_or_else(unknown)?;
        format.check("basis").map(|()| format)
    }
}

impl Packed {
    /// Storage in float32.
    pub const SINGLE: Packed = Packed::Each(PackedFormat::Fp32);

    /// Refuses the formats that have no numbers outside `[1, 2^8)`.
    ///
    /// # Errors
    /// [`Error::Parameter`] named `name`.
    pub fn check(self, name: &'static str) -> Result<(), Error> {
        match self {
            Packed::Each(format) if format.is_scaled() => Err(Error::parameter(
                name,
                format!(
                    "{format} stores multiples of a scale, and vectors have none: use fp64 to rp16, or blocks"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Returns the name of the format.
    pub const fn name(self) -> &'static str {
        match self {
            Packed::Each(format) => format.name(),
            Packed::Blocks(format) => format.name(),
        }
    }

    /// Returns the bytes of this many real numbers.
    pub fn bytes(self, numbers: usize) -> usize {
        match self {
            Packed::Each(format) => numbers * format.bytes(),
            Packed::Blocks(format) => blocks_bytes(format, numbers),
        }
    }

    /// Returns true for float64.
    pub fn is_plain(self) -> bool {
        self == Packed::default()
    }

    /// Decodes real numbers from `first` on; `words` are the codes.
    pub(crate) fn decode(self, words: &[f64], first: usize, numbers: &mut [f64]) {
        let codes = &bytemuck::cast_slice(words)[self.bytes(first)..self.bytes(first + numbers.len())];
        match self {
            Packed::Each(format) => unpack(codes, format, numbers),
            Packed::Blocks(format) => unpack_blocks(codes, format, numbers),
        }
        .expect("as many codes as numbers");
    }

    /// Encodes real numbers from `first` on.
    pub(crate) fn encode(self, numbers: &[f64], first: usize, words: &mut [f64]) {
        let codes = self.bytes(first)..self.bytes(first + numbers.len());
        let codes = &mut bytemuck::cast_slice_mut(words)[codes];
        match self {
            Packed::Each(format) => pack(numbers, format, Rounding::Nearest, codes),
            Packed::Blocks(format) => pack_blocks(numbers, format, codes),
        }
        .expect("as many codes as numbers");
    }
}

impl<E: Scalar> Storage<E> for Packed {
    fn name(&self) -> &str {
        Packed::name(*self)
    }

    fn words(&self, numbers: usize) -> usize {
        self.bytes(numbers * E::WORDS).div_ceil(size_of::<f64>())
    }

    fn is_plain(&self) -> bool {
        Packed::is_plain(*self)
    }

    fn roundoff(&self) -> f64 {
        match self {
            Packed::Each(format) => format.unit_roundoff(),
            Packed::Blocks(format) => format.unit_roundoff(),
        }
    }

    fn decode(&self, words: &[f64], first: usize, numbers: &mut [E]) {
        Packed::decode(*self, words, first * E::WORDS, E::words_mut(numbers));
    }

    fn encode(&self, numbers: &[E], first: usize, words: &mut [f64]) {
        Packed::encode(*self, E::words(numbers), first * E::WORDS, words);
    }
}
