//! How values travel between memory nodes: flat bytes and a small header.

use std::any::{Any, TypeId};

use super::{Data, Meta};
use crate::buffer::{Buffer, Element};
use crate::data::{DeviceValue, Seen};
use crate::device::Arch;
use crate::error::TaskError;
use crate::format::Format;
use crate::operand::{DeviceContext, DeviceRef, NewValue};

/// A value that can lie on any memory node: a header, and parts that are nothing but bytes.
///
/// A transfer makes a [`blank`](Portable::blank) value from the header and copies the bytes part by
/// part. A type says that its values travel by answering [`Data::portability`] with
/// `Some(Portability::of())`; other values stay on the host.
pub trait Portable: Data {
    /// What is left of a value without its bytes: shape, format, scale, norm.
    type Header: Clone + PartialEq + Send + Sync + 'static;

    /// The header.
    fn header(&self) -> Self::Header;

    /// A value of this header, its bytes to be filled in.
    fn blank(header: &Self::Header) -> Self;

    /// Sizes (bytes) of the parts of a value with this header. The default makes one to see.
    fn part_sizes(header: &Self::Header) -> Vec<usize> {
        Self::blank(header).parts().iter().map(|part| part.len()).collect()
    }

    /// What is known of a value with this header. The default makes one to see.
    fn header_meta(header: &Self::Header) -> Meta {
        Self::blank(header).meta()
    }

    /// The bytes, in as many parts as the type has arrays.
    fn parts(&self) -> Vec<&[u8]>;

    /// The places of the same parts, of the same sizes.
    fn parts_mut(&mut self) -> Vec<&mut [u8]>;

    /// The header as bytes, with which values go to other processes; `None`: they stay in this one.
    fn encode_header(header: &Self::Header) -> Option<Vec<u8>> {
        let _ = header;
        None
    }

    /// The header that [`encode_header`](Portable::encode_header) made these bytes of; `None` for
    /// others.
    fn decode_header(bytes: &[u8]) -> Option<Self::Header> {
        let _ = bytes;
        None
    }

    /// Names the functions that convert a value in the memory of a device, one for each [`Arch`]
    /// for which there is one. Where there is none the value passes through the host, where
    /// [`Data::convert`] knows it.
    fn conversions(table: &mut ConversionTable<Self>) {
        let _ = table;
    }
}

/// Makes a value in another format on its device: operations on the stream of the context fill the
/// parts of a new one ([`DeviceContext::value`]). `None`: not in this format, which the host may
/// know. With an error the device is given up.
pub type Conversion<D> =
    for<'v, 'c> fn(DeviceRef<'v, D>, Format, &DeviceContext<'c>) -> Result<Option<NewValue<D>>, TaskError>;

/// The conversions of a [`Portable`] type, by [`Arch`].
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

/// A value's header, whose type only its `Portability` knows.
pub(crate) type AnyHeader = Box<dyn Any + Send + Sync>;

/// The functions with which the runtime moves values of a [`Portable`] type.
pub struct Portability<D> {
    /// The same value in memory of its own.
    pub(crate) duplicate: fn(&D) -> D,
    pub(crate) header: fn(&D) -> AnyHeader,
    /// `None` for another type's header.
    pub(crate) blank: fn(&AnyHeader) -> Option<D>,
    pub(crate) clone_header: fn(&AnyHeader) -> AnyHeader,
    pub(crate) is_same_header: fn(&AnyHeader, &AnyHeader) -> bool,
    pub(crate) pack: fn(&D, &mut Vec<u8>) -> Option<usize>,
    pub(crate) unpack: fn(&[u8]) -> Option<D>,
    pub(crate) parts: for<'d> fn(&'d D) -> Vec<&'d [u8]>,
    pub(crate) parts_mut: for<'d> fn(&'d mut D) -> Vec<&'d mut [u8]>,
    /// True if there is a conversion on devices of this architecture.
    pub(crate) converts: fn(Arch) -> bool,
    /// `None`: only on the host.
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
    /// Those of `D`.
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

/// What another process makes a value of: the length of its header, the header, its parts.
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

/// A number of elements of so many bytes each that can be in memory.
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
    /// Appends to `out` what [`unpack`](Portability::unpack) makes the same value of, in another
    /// process of the same kind of machine; its bytes, as its meta has them. `None`: values of the
    /// type stay in their process.
    #[doc(hidden)]
    pub fn pack(&self, value: &D, out: &mut Vec<u8>) -> Option<usize> {
        (self.pack)(value, out)
    }

    /// The value that was packed; `None` for other bytes.
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

/// `Vec`s and arrays of any copyable type are data; they travel if they are of plain numbers.
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
        // Cut short, too long, and a length that no memory holds.
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
