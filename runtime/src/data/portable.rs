//! How values travel between memory nodes: flat bytes and a small header.

use std::any::{Any, TypeId};

use super::{Buffer, Data, Element};

/// A value that can lie on any memory node: a header, and parts that are nothing but bytes.
///
/// A transfer makes a [`blank`](Portable::blank) value from the header and copies the bytes part by part. A type says that its
/// values travel by answering [`Data::portability`] with `Some(Portability::of())`; other values stay on the host.
pub trait Portable: Data {
    /// What is left of a value without its bytes: shape, format, scale, norm.
    type Header: Clone + Send + Sync + 'static;

    /// The header.
    fn header(&self) -> Self::Header;

    /// A value of this header, its bytes to be filled in.
    fn blank(header: &Self::Header) -> Self;

    /// The bytes, in as many parts as the type has arrays.
    fn parts(&self) -> Vec<&[u8]>;

    /// The places of the same parts, of the same sizes.
    fn parts_mut(&mut self) -> Vec<&mut [u8]>;
}

/// The functions with which the runtime moves values of a [`Portable`] type.
pub struct Portability<D> {
    pub(crate) duplicate: fn(&D) -> D,
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
        Portability { duplicate: duplicate::<D> }
    }
}

/// The same value in memory of its own.
fn duplicate<D: Portable>(value: &D) -> D {
    let mut copy = D::blank(&value.header());
    for (to, from) in copy.parts_mut().into_iter().zip(value.parts()) {
        to.copy_from_slice(from);
    }
    copy
}

impl<T: Element> Portable for Buffer<T> {
    type Header = usize;

    fn header(&self) -> usize {
        self.len()
    }

    fn blank(&len: &usize) -> Self {
        Buffer::zeroed(len)
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

    fn parts(&self) -> Vec<&[u8]> {
        vec![bytemuck::cast_slice(self)]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![bytemuck::cast_slice_mut(self)]
    }
}

/// A `Vec` of any copyable type is data; it travels if it is one of plain numbers.
pub(super) fn of_vec<T: Copy + Send + Sync + 'static>() -> Option<Portability<Vec<T>>> {
    macro_rules! plain {
        ($($t:ty),*) => {$(
            if TypeId::of::<T>() == TypeId::of::<$t>() {
                let functions: &dyn Any = &Portability::<Vec<$t>>::of();
                return functions.downcast_ref().copied();
            }
        )*};
    }
    plain!(f32, f64, u8, u16, u32, u64, usize, i8, i16, i32, i64);
    None
}

macro_rules! scalar_portable {
    ($($t:ty),*) => {$(
        impl Portable for $t {
            type Header = ();

            fn header(&self) {}

            fn blank(_header: &()) -> Self {
                <$t>::default()
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
    fn what_is_more_than_bytes_stays() {
        assert!(Vec::<&'static str>::portability().is_none());
        assert!(Vec::<(u8, u32)>::portability().is_none());
    }
}
