//! Matrix Market files: sparse and dense matrices as text, also compressed with gzip.
//!
//! The format is that of Boisvert, Pozo and Remington, "The Matrix Market exchange formats: initial
//! design", NISTIR 5935 (1996): a line `%%MatrixMarket matrix FORMAT FIELD SYMMETRY`, comments, a
//! line with sizes, and a line for each entry, numbered from 1.
//!
//! | read | |
//! |---|---|
//! | format | `coordinate`, `array` (all entries, column-major) |
//! | field | `real`, `double`, `integer`, `unsigned-integer`, `pattern` (each entry is 1), `complex` |
//! | symmetry | `general`, `symmetric`, `hermitian`, `skew-symmetric`: the other half is filled in |
//!
//! A complex matrix is read as the real one of twice the size in which the block `[a, -b; b, a]`
//! stands for `a + ib`, and a complex vector as its real and imaginary parts in turn. Products,
//! norms and solutions are the same numbers, a Hermitian matrix is a symmetric one, and a positive
//! definite matrix stays positive definite.
//!
//! A `vector` (`%%MatrixMarket vector FORMAT FIELD`) is a matrix of one column whose sizes and
//! positions omit the column number. Duplicates are added; zeros of an array are not stored. Blank
//! lines and comments may be anywhere, lines may be of any length, keywords in any case.

mod header;
mod read;
mod write;

pub use header::{Field, Format, Symmetry};
pub use read::{Market, read_from};
pub(crate) use read::{NOT_REAL, read_source};
pub use write::write_to;
