//! Data of handles: the [`Data`] trait, the runtime's aligned [`Buffer`](crate::Buffer), handles
//! and in-place guards.

pub use crate::buffer::Element;
pub use crate::engine::{Offer, ReadGuard, WriteGuard};
pub use crate::task::{Arrival, Elsewhere, Handle};
pub use crate::value::{
    BorrowedSlice, Chunk, ChunkRef, Conversion, ConversionTable, Data, Meta, Portability, Portable, SliceMut,
    SliceRef,
};
