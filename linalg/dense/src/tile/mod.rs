//! Tiles: small dense matrices with their storage format and their norm.

use zellige_kernels::formats::{
    Fp8Mut, Fp8Ref, HalfKind, HalfMut, HalfRef, SplitRef, fp8_scale_exponent, frobenius_norm, max_abs,
    pack_fp8, pack_half, pack_split, scale_exponent, split_scale_exponent, unpack_fp8, unpack_half,
    unpack_split,
};
use zellige_kernels::{KernelError, MatMut, MatRef, StorageFormat};
use zellige_runtime::data::{Portability, Portable};
use zellige_runtime::{Buffer, Data, Format, Meta};

mod portable;

pub use portable::TileHeader;

use crate::error::Error;
use crate::format::{format_of, storage_of};
use crate::scalar::TileScalar;

/// Stored numbers of a tile: column-major without gaps.
#[derive(Clone, Debug)]
enum Payload<T: TileScalar> {
    /// Numbers of type `T`, the master form.
    Native(Buffer<T>),
    /// Numbers of 16 bits, in units of `2^scale_exp`.
    Half { bits: Buffer<u16>, kind: HalfKind, scale_exp: i32 },
    /// Sums of two `f16`, in units of `2^scale_exp`.
    Split { hi: Buffer<u16>, lo: Buffer<u16>, scale_exp: i32 },
    /// Numbers in E4M3, in units of `2^scale_exp`.
    Fp8 { bits: Buffer<u8>, scale_exp: i32 },
}

/// A `rows x cols` tile of a matrix of `T`, in any [`StorageFormat`] but the other native one.
///
/// The norm is the one that the tile's last *named* writer computed: generation and triangular
/// solves do, products do not. So the tile `(i, j)` of a factorisation under way carries
/// `||A_ij||_F` until its triangular solve, and `||L_ij||_F` after.
#[derive(Clone, Debug)]
pub struct Tile<T: TileScalar> {
    rows: usize,
    cols: usize,
    payload: Payload<T>,
    norm: f64,
}

impl<T: TileScalar> Tile<T> {
    /// Creates a native tile of zeros, of norm 0.
    ///
    /// # Panics
    /// If `rows cols` entries do not fit the address space.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        let len = rows.checked_mul(cols).expect("a tile's size fits the address space");
        Tile { rows, cols, payload: Payload::Native(Buffer::zeroed(len)), norm: 0.0 }
    }

    /// Creates a native tile with the entries of `values`, column-major, and their norm.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are `rows cols` of them.
    pub fn from_slice(rows: usize, cols: usize, values: &[T]) -> Result<Self, Error> {
        if rows.checked_mul(cols) != Some(values.len()) {
            return Err(Error::Shape {
                what: "a tile from a slice",
                got: format!("{} elements", values.len()),
                want: format!("{rows} x {cols}"),
            });
        }
        let mut tile =
            Tile { rows, cols, payload: Payload::Native(Buffer::from_slice(values)), norm: f64::NAN };
        tile.measure()?;
        Ok(tile)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns `(rows, cols)`.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Returns the storage format of the numbers.
    pub fn storage(&self) -> StorageFormat {
        match &self.payload {
            Payload::Native(_) => T::FORMAT,
            Payload::Half { kind, .. } => kind.format(),
            Payload::Split { .. } => StorageFormat::F16x2,
            Payload::Fp8 { .. } => StorageFormat::E4M3,
        }
    }

    /// Returns the size of the stored numbers, in bytes.
    pub fn bytes(&self) -> usize {
        self.rows * self.cols * self.storage().bytes()
    }

    /// Returns the Frobenius norm that the last writer left; NaN if it left none.
    pub fn norm(&self) -> f64 {
        self.norm
    }

    /// Computes the norm of a native tile and keeps it.
    ///
    /// # Errors
    /// [`Error::Format`] for a tile that is not native.
    pub fn measure(&mut self) -> Result<f64, Error> {
        self.norm = frobenius_norm(self.mat()?);
        Ok(self.norm)
    }

    /// Keeps `norm` as the tile's norm.
    pub fn set_norm(&mut self, norm: f64) {
        self.norm = norm;
    }

    fn wrong_format(&self, want: StorageFormat) -> Error {
        Error::Format { got: self.storage(), want }
    }

    /// Returns a native tile's entries, column-major.
    ///
    /// # Errors
    /// [`Error::Format`] for a tile that is not native.
    pub fn as_slice(&self) -> Result<&[T], Error> {
        match &self.payload {
            Payload::Native(buffer) => Ok(buffer),
            _ => Err(self.wrong_format(T::FORMAT)),
        }
    }

    /// Returns a native tile's mutable entries, column-major.
    ///
    /// # Errors
    /// [`Error::Format`] for a tile that is not native.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        if !matches!(self.payload, Payload::Native(_)) {
            return Err(self.wrong_format(T::FORMAT));
        }
        match &mut self.payload {
            Payload::Native(buffer) => Ok(buffer),
            _ => Ok(&mut []),
        }
    }

    /// Returns a native tile as a matrix view.
    ///
    /// # Errors
    /// [`Error::Format`] for a tile that is not native.
    pub fn mat(&self) -> Result<MatRef<'_, T>, Error> {
        Ok(MatRef::new(self.as_slice()?, self.rows, self.cols, self.rows)?)
    }

    /// Returns a native tile as a mutable matrix view.
    ///
    /// # Errors
    /// [`Error::Format`] for a tile that is not native.
    pub fn mat_mut(&mut self) -> Result<MatMut<'_, T>, Error> {
        let (rows, cols) = self.shape();
        Ok(MatMut::new(self.as_mut_slice()?, rows, cols, rows)?)
    }

    /// Returns a 16-bit tile as a matrix view.
    ///
    /// # Errors
    /// [`Error::Format`] for a tile in another format.
    pub fn half(&self) -> Result<HalfRef<'_>, Error> {
        match &self.payload {
            Payload::Half { bits, kind, scale_exp } => {
                Ok(HalfRef::new(bits, self.rows, self.cols, self.rows, *kind, *scale_exp)?)
            }
            _ => Err(self.wrong_format(StorageFormat::F16)),
        }
    }

    /// Applies `body` to a 16-bit tile, including its scale.
    ///
    /// # Errors
    /// [`Error::Format`] for a tile in another format, and the errors of `body`.
    pub fn with_half_mut(
        &mut self,
        body: impl FnOnce(&mut HalfMut<'_>) -> Result<(), KernelError>,
    ) -> Result<(), Error> {
        let storage = self.storage();
        let Payload::Half { bits, kind, scale_exp } = &mut self.payload else {
            return Err(Error::Format { got: storage, want: StorageFormat::F16 });
        };
        let mut view = HalfMut::new(bits, self.rows, self.cols, self.rows, *kind, *scale_exp)?;
        let result = body(&mut view);
        *scale_exp = view.scale_exp;
        Ok(result?)
    }

    /// Returns a tile of two halves as a matrix view.
    ///
    /// # Errors
    /// [`Error::Format`] for a tile in another format.
    pub fn split(&self) -> Result<SplitRef<'_>, Error> {
        match &self.payload {
            Payload::Split { hi, lo, scale_exp } => {
                let view = |half| MatRef::new(half, self.rows, self.cols, self.rows);
                Ok(SplitRef::new(view(hi)?, view(lo)?, *scale_exp)?)
            }
            _ => Err(self.wrong_format(StorageFormat::F16x2)),
        }
    }

    /// Returns a tile in E4M3 as a matrix view.
    ///
    /// # Errors
    /// [`Error::Format`] for a tile in another format.
    pub fn fp8(&self) -> Result<Fp8Ref<'_>, Error> {
        match &self.payload {
            Payload::Fp8 { bits, scale_exp } => {
                Ok(Fp8Ref::new(bits, self.rows, self.cols, self.rows, *scale_exp)?)
            }
            _ => Err(self.wrong_format(StorageFormat::E4M3)),
        }
    }

    /// Converts the tile to another format, rounded once; `None` for the other native type. The
    /// norm is kept.
    ///
    /// A form of 16 or 8 bits uses the power-of-two scale that suits its largest magnitude, so that
    /// units do not matter.
    pub fn to_storage(&self, to: StorageFormat) -> Option<Self> {
        if to == self.storage() {
            return Some(self.clone());
        }
        let payload = if to == T::FORMAT {
            self.widened().ok()?
        } else if let Payload::Native(_) = self.payload {
            self.packed(to).ok()??
        } else {
            // Between two such forms the values pass through the native one: exact, so still one
            // rounding.
            let native = Tile { payload: self.widened().ok()?, ..*self };
            native.packed(to).ok()??
        };
        Some(Tile { payload, ..*self })
    }

    fn widened(&self) -> Result<Payload<T>, Error> {
        let mut out = Buffer::zeroed(self.rows * self.cols);
        let view = MatMut::new(&mut out, self.rows, self.cols, self.rows)?;
        match &self.payload {
            Payload::Native(buffer) => out.copy_from_slice(buffer),
            Payload::Half { .. } => unpack_half(self.half()?, view)?,
            Payload::Split { .. } => unpack_split(self.split()?, view)?,
            Payload::Fp8 { .. } => unpack_fp8(self.fp8()?, view)?,
        }
        Ok(Payload::Native(out))
    }

    fn packed(&self, to: StorageFormat) -> Result<Option<Payload<T>>, Error> {
        let (rows, cols) = self.shape();
        let source = self.mat()?;
        let half = |kind| -> Result<_, Error> {
            let scale_exp = scale_exponent(max_abs(source));
            let mut bits = Buffer::zeroed(rows * cols);
            pack_half(source, HalfMut::new(&mut bits, rows, cols, rows, kind, scale_exp)?)?;
            Ok(Some(Payload::Half { bits, kind, scale_exp }))
        };
        match to {
            StorageFormat::F16 => half(HalfKind::F16),
            StorageFormat::BF16 => half(HalfKind::BF16),
            StorageFormat::F16x2 => {
                let scale_exp = split_scale_exponent(max_abs(source));
                let (mut hi, mut lo) = (Buffer::zeroed(rows * cols), Buffer::zeroed(rows * cols));
                pack_split(
                    source,
                    scale_exp,
                    MatMut::new(&mut hi, rows, cols, rows)?,
                    MatMut::new(&mut lo, rows, cols, rows)?,
                )?;
                Ok(Some(Payload::Split { hi, lo, scale_exp }))
            }
            StorageFormat::E4M3 => {
                let scale_exp = fp8_scale_exponent(max_abs(source));
                let mut bits = Buffer::zeroed(rows * cols);
                pack_fp8(source, Fp8Mut::new(&mut bits, rows, cols, rows, scale_exp)?)?;
                Ok(Some(Payload::Fp8 { bits, scale_exp }))
            }
            StorageFormat::F32 | StorageFormat::F64 => Ok(None),
        }
    }
}

impl<T: TileScalar> Data for Tile<T> {
    type Ref<'v> = &'v Tile<T>;
    type Mut<'v> = &'v mut Tile<T>;

    fn view(&self) -> &Tile<T> {
        self
    }

    fn view_mut(&mut self) -> &mut Tile<T> {
        self
    }

    fn meta(&self) -> Meta {
        Meta { format: format_of(self.storage()), norm: self.norm, bytes: self.bytes() }
    }

    fn convert(&self, to: Format) -> Option<Self> {
        self.to_storage(storage_of(to)?)
    }

    fn format_name(format: Format) -> &'static str {
        storage_of(format).map_or("", StorageFormat::name)
    }

    fn size_as(meta: &Meta, to: Format) -> Option<usize> {
        let (from, storage) = (storage_of(meta.format)?, storage_of(to)?);
        // Like `to_storage`: any form that a tile has, but no other native one.
        let other_native = matches!(storage, StorageFormat::F32 | StorageFormat::F64) && storage != T::FORMAT;
        (!other_native || from == storage).then_some(meta.bytes / from.bytes() * storage.bytes())
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

/// The norm of a whole matrix, as a separate value that tasks can read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixNorm(pub f64);

impl Data for MatrixNorm {
    type Ref<'v> = &'v MatrixNorm;
    type Mut<'v> = &'v mut MatrixNorm;

    fn view(&self) -> &MatrixNorm {
        self
    }

    fn view_mut(&mut self) -> &mut MatrixNorm {
        self
    }

    fn meta(&self) -> Meta {
        Meta { norm: self.0, bytes: size_of::<f64>(), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

/// The header contains everything: a GPU's body reads it without waiting for the GPU.
impl Portable for MatrixNorm {
    type Header = f64;

    fn header(&self) -> f64 {
        self.0
    }

    fn blank(&norm: &f64) -> Self {
        MatrixNorm(norm)
    }

    fn encode_header(norm: &f64) -> Option<Vec<u8>> {
        Some(norm.to_le_bytes().to_vec())
    }

    fn decode_header(bytes: &[u8]) -> Option<f64> {
        bytes.try_into().ok().map(f64::from_le_bytes)
    }

    fn parts(&self) -> Vec<&[u8]> {
        Vec::new()
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        Vec::new()
    }
}

/// Returns the root of the sum of squares in the given order, without overflow or underflow of the
/// squares.
pub(crate) fn root_sum_squares(norms: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = norms.clone().fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) });
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    let unit = 2.0f64.powi(scale_exponent(largest));
    unit * norms.map(|x| (x / unit).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{BF16, E4M3, F16, F16X2, F32, F64};

    fn sample(rows: usize, cols: usize, unit: f32) -> Tile<f32> {
        let values: Vec<f32> =
            (0..rows * cols).map(|i| (((i * 37 + 11) % 101) as f32 - 50.0) / 17.0 * unit).collect();
        Tile::from_slice(rows, cols, &values).unwrap()
    }

    #[test]
    fn every_format_keeps_the_values_to_its_roundoff_in_any_unit() {
        for unit in [1.0, 2.35e-11, 3e20] {
            let tile = sample(7, 5, unit);
            for storage in
                [StorageFormat::F16, StorageFormat::BF16, StorageFormat::F16x2, StorageFormat::E4M3]
            {
                let low = tile.to_storage(storage).unwrap();
                assert_eq!(low.storage(), storage);
                assert_eq!(low.norm(), tile.norm());
                assert_eq!(low.bytes(), 35 * storage.bytes());
                let back = low.to_storage(StorageFormat::F32).unwrap();
                for (a, b) in tile.as_slice().unwrap().iter().zip(back.as_slice().unwrap()) {
                    let bound = storage.unit_roundoff() * f64::from(a.abs());
                    assert!(f64::from((a - b).abs()) <= bound, "{storage}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn conversions_between_16_bit_forms_round_once() {
        let tile = sample(4, 4, 1.0);
        let half = tile.to_storage(StorageFormat::F16).unwrap();
        let split = half.to_storage(StorageFormat::F16x2).unwrap();
        let again = split.to_storage(StorageFormat::F16).unwrap();
        let (a, b) = (half.half().unwrap(), again.half().unwrap());
        assert_eq!(a.scale_exp, b.scale_exp);
        for j in 0..4 {
            assert_eq!(a.mat.col(j), b.mat.col(j));
        }
    }

    #[test]
    fn meta_and_convert_speak_the_runtimes_numbers() {
        let tile = sample(3, 2, 1.0);
        assert_eq!(tile.meta(), Meta { format: F32, norm: tile.norm(), bytes: 24 });
        assert_eq!(tile.convert(F16).unwrap().meta().format, F16);
        assert!(tile.convert(F64).is_none());
        assert!(tile.convert(Format(99)).is_none());
        for format in [F16, F32, F64, BF16, F16X2, E4M3, Format(99)] {
            let made = tile.convert(format).map(|made| made.meta().bytes);
            assert_eq!(Tile::<f32>::size_as(&tile.meta(), format), made, "{format:?}");
        }
        assert_eq!([F16, Format::NATIVE].map(Tile::<f32>::format_name), ["fp16", ""]);
    }

    #[test]
    fn the_wrong_format_is_an_error_that_names_both() {
        let mut half = sample(2, 2, 1.0).to_storage(StorageFormat::F16).unwrap();
        let text = half.mat().unwrap_err().to_string();
        assert!(text.contains("fp16") && text.contains("fp32"), "{text}");
        assert!(half.as_mut_slice().is_err());
        assert!(half.split().is_err() && half.fp8().is_err());
        assert!(sample(2, 2, 1.0).half().is_err());
        assert!(Tile::<f32>::from_slice(2, 2, &[0.0; 3]).is_err());
    }

    #[test]
    fn empty_tiles_are_tiles() {
        let tile = Tile::<f32>::zeros(0, 3);
        let half = tile.to_storage(StorageFormat::F16).unwrap();
        assert_eq!(half.bytes(), 0);
        assert_eq!(half.to_storage(StorageFormat::F32).unwrap().shape(), (0, 3));
    }

    #[test]
    fn norms_add_without_overflow() {
        let sum = |x: &[f64]| root_sum_squares(x.iter().copied());
        assert_eq!(sum(&[3.0, 4.0]), 5.0);
        assert!((sum(&[3e200, 4e200]) / 5e200 - 1.0).abs() < 1e-15);
        assert!((sum(&[3e-200, 4e-200]) / 5e-200 - 1.0).abs() < 1e-15);
        assert_eq!(sum(&[]), 0.0);
        assert!(sum(&[1.0, f64::NAN, 2.0]).is_nan());
    }
}
