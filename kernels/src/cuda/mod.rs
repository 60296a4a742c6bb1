//! Kernels for NVIDIA GPUs: their sources, and descriptions of their launches.
//!
//! The sources in `kernels/cuda/` include no NVIDIA header. They are embedded here as text, for
//! NVRTC; for machines without it there is an [archive](zellige_gpu::source::ARCHIVE) of their PTX.
//! `kernels/cuda/README.md` describes the rules by which they are written and the tests that prove
//! them. Nothing here needs a GPU: a function such as [`pack`] checks its operands and describes
//! the launch, [`Loaded`] launches it.
//!
//! | functions | what |
//! |---|---|
//! | [`measure`] | norm, largest magnitude and scale of a tile, left in device memory as a [`Measure`] |
//! | [`narrow`], [`widen`], [`pack`], [`unpack`], [`split`], [`join`] | formats |
//! | [`triple`] | operands of X3 as one product |
//! | [`factors`], [`accumulate`], [`sum`], [`store`], [`rescale`], [`product_hp3`] | around products whose scales only the device knows |
//! | [`copy`], [`fill`], [`zero_upper`], [`mirror`], [`transpose`] | blocks |
//! | [`small_products`] | many products of small tiles in one launch |
//! | [`sell_product`] | products with panels of sparse matrices |
//! | [`dslash`] | products of the staggered Dirac operator |
//! | [`vector_task`] | linear combinations and sums of products of vectors, fused |
//! | [`formulas_task`] | scalars of iterative methods, by small programs |
//! | [`gather`] | arrays copied to contiguous memory, for kernels that cannot take all of them as arguments |
//! | [`distance_events`], [`distance_sums`], [`distance_best`], [`distance_again`], [`distance_answers`] | searches of a basis, sum by sum and from sums to answers |
//! | [`few_bits_product`] | products with matrices of few bits |
//! | [`distance_matrix`], [`distance_products`], [`distance_nearest`] | sums of squares by the library's product, and direct sums of the points that it cannot separate |
//!
//! Conversions give the bits of this crate's CPU functions, except in the bits of NaNs. Sums have
//! an order of their own, fixed by the shape; the source names each order that differs from the
//! CPU's.

mod batched;
mod blocks;
mod convert;
mod distance;
mod dslash;
mod few_bits;
mod formulas;
mod gather;
mod launch;
mod norms;
mod sell;
mod source;
mod update;
mod vectors;

pub use batched::{SMALL, SMALL_BATCH, SmallProduct, SmallProducts, small_products};
pub use blocks::{INVERTED, copy, fill, invert_blocks, mirror, transpose, zero_upper};
pub use convert::{SPLIT_HEADROOM, Third, headroom, join, narrow, pack, split, triple, unpack, widen};
pub use distance::{
    ANSWER_NUMBERS, Compared, PointsAt, Stored, distance_again, distance_answers, distance_best,
    distance_events, distance_matrix, distance_nearest, distance_products, distance_sums,
};
pub use dslash::{SlabsAt, Staggered, dslash, has_dslash};
pub use few_bits::{FewBitsAt, few_bits_product};
pub use formulas::{EncodedFormulas, FormulasAt, formulas_task};
pub use gather::gather;
pub use launch::LaunchError;
pub use norms::{Measure, PARTIALS_BYTES, measure};
pub use sell::{PARTS, PanelAt, VectorParts, sell_product};
pub use source::{
    DISTANCE_SOURCES, FEW_BITS_SOURCES, SELL_SOURCES, SITE_SOURCES, SOURCES, SPARSE_SOURCES, all_sources,
    source_with,
};
pub use update::{Scales, accumulate, factors, product_hp3, rescale, store, sum};
pub use vectors::{Factor, VectorPart, VectorProgram, VectorsAt, vector_task};
pub use zellige_gpu::source::{Launch, Loaded, OPTIONS, Source};
