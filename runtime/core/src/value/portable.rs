//! Serialization of values for transfers between memory nodes: flat bytes and a small header.

use std::any::{Any, TypeId};

use super::{Data, DeviceContext, DeviceRef, Meta, NewValue};
use crate::buffer::{Buffer, Element};
use crate::device::Arch;
use crate::error::TaskError;
use crate::format::Format;
use crate::value::{DeviceValue, Seen};

/// A value that can be stored on any memory node: a header, and parts that consist of plain bytes.
///
/// A transfer makes a [`blank`](Portable::blank) value from the header and copies the bytes part by
/// part. A type declares that its values can be transferred by returning `Some(Portability::of())`
/// from [`Data::portability`]; other values stay on the host.
pub trait Portable: Data {
    /// Description of a value without its bytes: shape, format, scale, norm.
    type Header: Clone + PartialEq + Send + Sync + 'static;

    /// Returns the header.
    fn header(&self) -> Self::Header;

    /// Creates a value with this header and uninitialized content, to be filled in.
    fn blank(header: &Self::Header) -> Self;

    /// Returns the sizes (bytes) of the parts of a value with this header. The default creates such
    /// a value.
    fn part_sizes(header: &Self::Header) -> Vec<usize> {
        Self::blank(header).parts().iter().map(|part| part.len()).collect()
    }

    /// Returns the meta of a value with this header. The default creates such a value.
    fn header_meta(header: &Self::Header) -> Meta {
        Self::blank(header).meta()
    }

    /// Returns the bytes, in one part per array of the type.
    fn parts(&self) -> Vec<&[u8]>;

    /// Returns the same parts for writing, with the same sizes.
    fn parts_mut(&mut self) -> Vec<&mut [u8]>;

    /// Returns the header as bytes, with which values go to other processes; `None`: they stay in
    /// this one.
    fn encode_header(header: &Self::Header) -> Option<Vec<u8>> {
        let _ = header;
        None
    }

    /// Returns the header that [`encode_header`](Portable::encode_header) encoded in these bytes;
    /// `None` for other bytes.
    fn decode_header(bytes: &[u8]) -> Option<Self::Header> {
        let _ = bytes;
        None
    }

    /// Adds the functions that convert a value in the memory of a device, at most one per [`Arch`].
    /// Without such a function the value passes through the host, if [`Data::convert`] supports the
    /// conversion.
    fn conversions(table: &mut ConversionTable<Self>) {
        let _ = table;
    }
}

/// Converts a value to another format on its device: operations on the stream of the context fill
/// the parts of a new value ([`DeviceContext::value`]). `None`: the format is not supported here,
/// but the host may support it. An error means that the device has failed.
pub type Conversion<D> =
    for<'v, 'c> fn(DeviceRef<'v, D>, Format, &DeviceContext<'c>) -> Result<Option<NewValue<D>>, TaskError>;

/// Conversions of a [`Portable`] type, by [`Arch`].
pub struct ConversionTable<D: Portable> {
    wanted: Arch,
    found: Option<Conversion<D>>,
}

impl<D: Portable> ConversionTable<D> {
    /// Adds the function for an architecture.
    pub fn add(&mut self, arch: Arch, conversion: Conversion<D>) {
        if arch == self.wanted {
            self.found = Some(conversion);
        }
    }

    fn find(arch: Arch) -> Option<Conversion<D>> {
        let mut table = ConversionTable { wanted: arch, found: None };
        D::conversions(&mut table);
        table.found
    }
}

impl<D: Portable> std::fmt::Debug for ConversionTable<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConversionTable({:?})", self.wanted)
    }
}

/// Type-erased header of a value; its `Portability` knows the type.
pub(crate) type AnyHeader = Box<dyn Any + Send + Sync>;

/// Functions with which the runtime moves values of a [`Portable`] type.
pub struct Portability<D> {
    /// Copies a value to newly allocated memory.
    pub(crate) duplicate: fn(&D) -> D,
    pub(crate) header: fn(&D) -> AnyHeader,
    /// Creates a blank value; returns `None` for another type's header.
    pub(crate) blank: fn(&AnyHeader) -> Option<D>,
    pub(crate) clone_header: fn(&AnyHeader) -> AnyHeader,
    pub(crate) is_same_header: fn(&AnyHeader, &AnyHeader) -> bool,
    pub(crate) pack: fn(&D, &mut Vec<u8>) -> Option<usize>,
    pub(crate) unpack: fn(&[u8]) -> Option<D>,
    pub(crate) parts: for<'d> fn(&'d D) -> Vec<&'d [u8]>,
    pub(crate) parts_mut: for<'d> fn(&'d mut D) -> Vec<&'d mut [u8]>,
    /// Returns true if there is a conversion on devices of this architecture.
    pub(crate) converts: fn(Arch) -> bool,
    /// Converts on a device; returns `None` if only the host can.
    pub(crate) convert_on_device:
        fn(&DeviceValue, Format, &DeviceContext<'_>) -> Result<Option<DeviceValue>, TaskError>,
}

impl<D> Clone for Portability<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Portability<D> {}

impl<D> std::fmt::Debug for Portability<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Portability")
    }
}

impl<D: Portable> Portability<D> {
    /// Returns the functions of `D`.
    pub fn of() -> Self {
        Portability {
            duplicate: duplicate::<D>,
            header: |value| Box::new(value.header()),
            blank: |header| header.downcast_ref().map(D::blank),
            clone_header: |header| {
                let known: Option<&D::Header> = header.downcast_ref();
                Box::new(known.expect("it was made by the same functions").clone())
            },
            is_same_header: |one, other| {
                let one: Option<&D::Header> = one.downcast_ref();
                one.is_some_and(|one| other.downcast_ref() == Some(one))
            },
            pack: pack::<D>,
            unpack: unpack::<D>,
            parts: D::parts,
            parts_mut: D::parts_mut,
            converts: |arch| ConversionTable::<D>::find(arch).is_some(),
            convert_on_device: |value, to, cx| {
                let seen = Seen::of(value);
                let conversion = ConversionTable::<D>::find(cx.stream().memory().arch());
                let Some(conversion) = conversion else { return Ok(None) };
                let Some(made) = conversion(DeviceRef::new(&seen), to, cx)? else { return Ok(None) };
                let made = cx.take(&made);
                // A conversion keeps the norm.
                Ok(made.map(|mut made| {
                    made.set_norm(seen.known.meta.norm);
                    made
                }))
            },
        }
    }
}

/// Serializes a value for another process: the length of its header, the header, its parts.
fn pack<D: Portable>(value: &D, out: &mut Vec<u8>) -> Option<usize> {
    let header = D::encode_header(&value.header())?;
    let parts = value.parts();
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    out.reserve(size_of::<u32>() + header.len() + bytes);
    out.extend(u32::try_from(header.len()).ok()?.to_le_bytes());
    out.extend(header);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    Some(value.meta().bytes)
}

fn unpack<D: Portable>(bytes: &[u8]) -> Option<D> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (header, mut rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let header = D::decode_header(header)?;
    let sizes = D::part_sizes(&header);
    let total = sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
    if total != Some(rest.len()) {
        return None;
    }
    let mut value = D::blank(&header);
    for part in value.parts_mut() {
        let (from, after) = rest.split_at_checked(part.len())?;
        part.copy_from_slice(from);
        rest = after;
    }
    rest.is_empty().then_some(value)
}

/// Decodes a number of elements of `each` bytes; `None` if they exceed the address space.
pub(super) fn decode_length(bytes: &[u8], each: usize) -> Option<usize> {
    let length = usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()?;
    let bytes = length.checked_mul(each)?;
    isize::try_from(bytes).ok().map(|_| length)
}

pub(super) fn encode_length(length: usize) -> Option<Vec<u8>> {
    Some((length as u64).to_le_bytes().to_vec())
}

fn duplicate<D: Portable>(value: &D) -> D {
    let mut copy = D::blank(&value.header());
    for (to, from) in copy.parts_mut().into_iter().zip(value.parts()) {
        to.copy_from_slice(from);
    }
    copy
}

impl<D> Portability<D> {
    /// Appends a serialized value to `out`, from which [`unpack`](Portability::unpack) makes an
    /// equal value in another process on the same kind of machine. Returns the size in the
    /// meta of the value (bytes). `None`: values of the type stay in their process.
    #[doc(hidden)]
    pub fn pack(&self, value: &D, out: &mut Vec<u8>) -> Option<usize> {
        (self.pack)(value, out)
    }

    /// Returns the value that was packed; `None` for other bytes.
    #[doc(hidden)]
    pub fn unpack(&self, bytes: &[u8]) -> Option<D> {
        (self.unpack)(bytes)
    }
}

impl<T: Element> Portable for Buffer<T> {
    type Header = usize;

    fn header(&self) -> usize {
        self.len()
    }

    fn blank(&len: &usize) -> Self {
        Buffer::unfilled(len)
    }

    fn part_sizes(&len: &usize) -> Vec<usize> {
        vec![len * size_of::<T>()]
    }

    fn header_meta(&len: &usize) -> Meta {
        Meta { bytes: len * size_of::<T>(), ..Meta::default() }
    }

    fn encode_header(&len: &usize) -> Option<Vec<u8>> {
        encode_length(len)
    }

    fn decode_header(bytes: &[u8]) -> Option<usize> {
        decode_length(bytes, size_of::<T>())
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![self.as_bytes()]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![self.as_bytes_mut()]
    }
}

impl<T: Element> Portable for Vec<T> {
    type Header = usize;

    fn header(&self) -> usize {
        self.len()
    }

    fn blank(&len: &usize) -> Self {
        vec![T::zeroed(); len]
    }

    fn part_sizes(&len: &usize) -> Vec<usize> {
        vec![len * size_of::<T>()]
    }

    fn header_meta(&len: &usize) -> Meta {
        Meta { bytes: len * size_of::<T>(), ..Meta::default() }
    }

    fn encode_header(&len: &usize) -> Option<Vec<u8>> {
        encode_length(len)
    }

    fn decode_header(bytes: &[u8]) -> Option<usize> {
        decode_length(bytes, size_of::<T>())
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![bytemuck::cast_slice(self)]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![bytemuck::cast_slice_mut(self)]
    }
}

/// `Vec`s and arrays of any copyable type are data; they are portable if they consist of plain
/// numbers.
macro_rules! of_numbers {
    ($($t:ty),*) => {
        pub(super) fn of_vec<T: Copy + Send + Sync + 'static>() -> Option<Portability<Vec<T>>> {
            $(if TypeId::of::<T>() == TypeId::of::<$t>() {
                let functions: &dyn Any = &Portability::<Vec<$t>>::of();
                return functions.downcast_ref().copied();
            })*
            None
        }

        pub(super) fn of_array<T: Copy + Send + Sync + 'static, const N: usize>() -> Option<Portability<[T; N]>> {
            $(if TypeId::of::<T>() == TypeId::of::<$t>() {
                let functions: &dyn Any = &Portability::<[$t; N]>::of();
                return functions.downcast_ref().copied();
            })*
            None
        }
    };
}
of_numbers!(f32, f64, u8, u16, u32, u64, usize, i8, i16, i32, i64);

impl<T: Element, const N: usize> Portable for [T; N] {
    type Header = ();

    fn header(&self) {}

    fn blank(_header: &()) -> Self {
        [T::zeroed(); N]
    }

    fn encode_header(_header: &()) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    fn decode_header(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![bytemuck::cast_slice(self)]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![bytemuck::cast_slice_mut(self)]
    }
}

macro_rules! scalar_portable {
    ($($t:ty),*) => {$(
        impl Portable for $t {
            type Header = ();

            fn header(&self) {}

            fn blank(_header: &()) -> Self {
                <$t>::default()
            }

            fn encode_header(_header: &()) -> Option<Vec<u8>> {
                Some(Vec::new())
            }

            fn decode_header(bytes: &[u8]) -> Option<()> {
                bytes.is_empty().then_some(())
            }

            fn parts(&self) -> Vec<&[u8]> {
                vec![bytemuck::bytes_of(self)]
            }

            fn parts_mut(&mut self) -> Vec<&mut [u8]> {
                vec![bytemuck::bytes_of_mut(self)]
            }
        }
    )*};
}
scalar_portable!(f32, f64, u8, u16, u32, u64, usize, i8, i16, i32, i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_travels_arrives_bit_by_bit() {
        fn travels<D: Data>(value: &D) -> D {
            (D::portability().expect("portable").duplicate)(value)
        }
        assert_eq!(travels(&vec![1.5f32, -0.0, f32::MIN_POSITIVE]), [1.5, -0.0, f32::MIN_POSITIVE]);
        assert_eq!(&*travels(&Buffer::from_slice(&[1u16, 2, 65535])), &[1, 2, 65535]);
        assert_eq!(travels(&-7i64), -7);
        assert!(travels(&Vec::<u8>::new()).is_empty());
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        fn packed<D: Data>(value: &D) -> (Portability<D>, Vec<u8>) {
            let (travel, mut bytes) = (D::portability().expect("portable"), Vec::new());
            travel.pack(value, &mut bytes).expect("it has a wire encoding");
            (travel, bytes)
        }
        let (travel, bytes) = packed(&vec![1.5f32, -0.0]);
        assert_eq!(travel.unpack(&bytes), Some(vec![1.5, -0.0]));
        // Truncated, too long, and a length that exceeds any memory.
        assert!((0..bytes.len()).all(|len| travel.unpack(&bytes[..len]).is_none()));
        assert_eq!(travel.unpack(&[&bytes[..], &[0]].concat()), None);
        let mut huge = bytes.clone();
        huge[4..12].fill(0xff);
        assert_eq!(travel.unpack(&huge), None);
        let (travel, bytes) = packed(&[7u16, 8]);
        assert_eq!(travel.unpack(&bytes), Some([7, 8]));
        let (travel, bytes) = packed(&Buffer::from_slice(&[9i64]));
        assert_eq!(travel.unpack(&bytes).as_deref(), Some(&[9i64][..]));
        let (travel, bytes) = packed(&0.25f64);
        assert_eq!(travel.unpack(&bytes), Some(0.25));
    }

    #[test]
    fn what_is_more_than_bytes_stays() {
        assert!(Vec::<&'static str>::portability().is_none());
        assert!(Vec::<(u8, u32)>::portability().is_none());
    }
}
