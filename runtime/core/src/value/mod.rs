//! Values of handles: the [`Data`] trait, values on the host and on devices, and their views.

mod borrows;
mod buffer;
mod carrier;
mod cell;
mod chunk;
mod device_context;
mod device_value;
mod device_views;
mod portable;
mod slice;

pub(crate) use borrows::{Kind, Version, View, Viewer, WrongGrant, granted};
pub(crate) use carrier::Carrier;
pub(crate) use cell::ValueCell;
pub use chunk::{Chunk, ChunkRef};
pub use device_context::DeviceContext;
pub(crate) use device_context::{MemorySource, Pending};
pub(crate) use device_value::{DeviceValue, Known, Seen};
pub use device_views::{DeviceList, DeviceMut, DeviceRef, DeviceSlot, NewValue};
pub(crate) use portable::AnyHeader;
pub use portable::{Conversion, ConversionTable, Portability, Portable};
pub use slice::{BorrowedSlice, SliceMut, SliceRef};

use crate::format::Format;

/// Metadata of one version of a value: small enough to be sent before the bytes.
///
/// ```
/// use zellige_runtime::{Data, Meta};
///
/// let meta: Meta = vec![1.0f32; 1000].meta();
/// assert_eq!(meta.bytes, 4000);
/// assert!(meta.norm.is_nan()); // nobody has computed one
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meta {
    /// Storage format of this version.
    pub format: Format,
    /// A norm that its writer computed (the data type defines which one); NaN when unknown.
    pub norm: f64,
    /// Size of this version (bytes).
    pub bytes: usize,
}

impl Default for Meta {
    fn default() -> Self {
        Meta { format: Format::NATIVE, norm: f64::NAN, bytes: 0 }
    }
}

/// A value that a handle can hold.
///
/// A body never sees the value itself but its view: for a `Vec<T>` a slice, so that a body cannot
/// resize data that other tasks rely on. A type whose header may change (a tile that changes its
/// format) uses `&Self` and `&mut Self`.
///
/// ```
/// use zellige_runtime::{Data, Meta, Runtime, Submit, update};
///
/// /// Samples whose number never changes.
/// struct Signal(Vec<f32>);
///
/// impl Data for Signal {
///     type Ref<'v> = &'v [f32];
///     type Mut<'v> = &'v mut [f32];
///
///     fn view(&self) -> &[f32] {
///         &self.0
///     }
///
///     fn view_mut(&mut self) -> &mut [f32] {
///         &mut self.0
///     }
///
///     fn meta(&self) -> Meta {
///         Meta { bytes: size_of_val(&*self.0), ..Meta::default() }
///     }
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let signal = rt.register(Signal(vec![1.0, 3.0]));
/// rt.task("offset").operands((update(&signal),)).cpu(|(x,)| x.iter_mut().for_each(|x| *x -= 1.0)).submit()?;
/// assert_eq!(rt.take(signal)?.0, [0.0, 2.0]);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub trait Data: Send + Sync + Sized + 'static {
    /// True for values that refer to memory of another owner and must not leave their handle.
    #[doc(hidden)]
    const BORROWED: bool = false;

    /// Reading view for CPU bodies.
    type Ref<'v>;
    /// Writing view for CPU bodies.
    type Mut<'v>;

    /// Returns the reading view.
    fn view(&self) -> Self::Ref<'_>;

    /// Returns the writing view.
    fn view_mut(&mut self) -> Self::Mut<'_>;

    /// Returns format, norm and size of this version.
    fn meta(&self) -> Meta;

    /// Returns the size in bytes of a version with this meta after conversion to format `to`, or
    /// `None` if the type has no such conversion. A transfer in that format moves this many bytes.
    fn size_as(meta: &Meta, to: Format) -> Option<usize> {
        (to == Format::NATIVE || to == meta.format).then_some(meta.bytes)
    }

    /// Returns a short name of a format of this type, for traces; empty if it has none.
    fn format_name(format: Format) -> &'static str {
        let _ = format;
        ""
    }

    /// Converts this version to another format, or returns `None` if the type has no such
    /// conversion.
    fn convert(&self, to: Format) -> Option<Self> {
        let _ = to;
        None
    }

    /// Returns the functions that move values to the memory of a device; `None`: the values stay on
    /// the host, and so do the tasks on them. A [`Portable`] type returns
    /// `Some(Portability::of())`.
    fn portability() -> Option<Portability<Self>> {
        None
    }
}

impl<T: Copy + Send + Sync + 'static> Data for Vec<T> {
    type Ref<'v> = &'v [T];
    type Mut<'v> = &'v mut [T];

    fn view(&self) -> &[T] {
        self
    }

    fn view_mut(&mut self) -> &mut [T] {
        self
    }

    fn meta(&self) -> Meta {
        Meta { bytes: size_of_val(self.as_slice()), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        portable::of_vec()
    }
}

impl<T: Copy + Send + Sync + 'static, const N: usize> Data for [T; N] {
    type Ref<'v> = &'v [T; N];
    type Mut<'v> = &'v mut [T; N];

    fn view(&self) -> &[T; N] {
        self
    }

    fn view_mut(&mut self) -> &mut [T; N] {
        self
    }

    fn meta(&self) -> Meta {
        Meta { bytes: size_of::<Self>(), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        portable::of_array()
    }
}

macro_rules! scalar_data {
    ($($t:ty => $portability:expr),*) => {$(
        impl Data for $t {
            type Ref<'v> = &'v $t;
            type Mut<'v> = &'v mut $t;

            fn view(&self) -> &$t {
                self
            }

            fn view_mut(&mut self) -> &mut $t {
                self
            }

            fn meta(&self) -> Meta {
                Meta { bytes: size_of::<$t>(), ..Meta::default() }
            }

            fn portability() -> Option<Portability<$t>> {
                $portability
            }
        }
    )*};
}
scalar_data!(
    f32 => Some(Portability::of()),
    f64 => Some(Portability::of()),
    u8 => Some(Portability::of()),
    u16 => Some(Portability::of()),
    u32 => Some(Portability::of()),
    u64 => Some(Portability::of()),
    usize => Some(Portability::of()),
    i8 => Some(Portability::of()),
    i16 => Some(Portability::of()),
    i32 => Some(Portability::of()),
    i64 => Some(Portability::of()),
    // Not every byte is a valid bool.
    bool => None
);
