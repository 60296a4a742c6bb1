//! Matrix Market files: sparse and dense matrices as text, also compressed with gzip.
//!
//! The format is that of Boisvert, Pozo and Remington, "The Matrix Market exchange formats: initial design", NISTIR 5935 (1996): a line
//! `%%MatrixMarket matrix FORMAT FIELD SYMMETRY`, comments, a line with sizes, and a line for each element, numbered from 1.
//!
//! | read | |
//! |---|---|
//! | format | `coordinate`, `array` (all elements, by columns) |
//! | field | `real`, `double`, `integer`, `pattern` (each element is 1) |
//! | symmetry | `general`, `symmetric`, `hermitian`, `skew-symmetric`: the other half is filled in |
//!
//! Elements at one place are added. Blank lines and comments may be anywhere, lines may be of any length, keywords in any case.

mod header;
mod read;
mod write;

pub use header::{Field, Format, Symmetry};
pub use read::{Market, read, read_from, read_vectors};
pub use write::write_to;
