//! Data of handles: the [`Data`] trait, the runtime's aligned [`Buffer`](crate::Buffer), handles
//! and in-place guards.

pub use crate::buffer::Element;
pub use crate::engine::{Offer, ReadGuard, WriteGuard};
pub use crate::value::{
    Arrival, BorrowedSlice, Chunk, ChunkRef, Conversion, ConversionTable, Data, Elsewhere, Handle, Meta,
    Portability, Portable, SliceMut, SliceRef,
};
