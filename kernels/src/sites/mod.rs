//! Vectors and operators on sites: three complex numbers at each, in few bits with a shared scale,
//! and products of 3 x 3 matrices with them.
//!
//! Numbers are stored as records, one for each site, and are computed with as rows, one for each of
//! the six real components ([`decode_sites`], [`encode_sites`]): eight interleaved sites, or eight
//! columns of a site ([`decode_columns`]). [`multiply_line`] and [`multiply_columns`] sum products
//! of stored matrices with rows. Arithmetic is in `f32` or `f64`, by instructions of AVX-512 or
//! AVX2 or one number at a time, with the same bits: products are fused with sums in all of them.
//!
//! ```
//! use zellige_kernels::sites::{SiteFormat, decode_sites, encode_sites};
//!
//! let rows: Vec<f64> = [1.0, -0.5, 0.25, 0.0, 3.0, -3.0].iter().flat_map(|x| [*x; 8]).collect();
//! let mut codes = vec![0.0; SiteFormat::Int20.words(8)];
//! encode_sites(SiteFormat::Int20, &rows, 8, &mut codes, (1, 0), 0..8);
//! let mut again = vec![0.0; 48];
//! decode_sites(SiteFormat::Int20, &codes, (1, 0), 0..8, &mut again, 8);
//! assert_eq!(again, rows);
//! ```

mod format;
mod hermitian;
mod lanes;
mod layouts;
mod matrices;
mod multiply;
mod records;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86;

pub use format::{Bits, SiteFormat};
pub use lanes::{ProductNumber, Real};
pub use matrices::{MatrixFormat, MatrixNumber, MatrixReals};
pub use multiply::{Group, Rows, multiply_columns, multiply_line};
pub use records::{
    decode_columns, decode_numbers, decode_sites, encode_columns, encode_numbers, encode_sites,
};

/// Real numbers of a site: three complex ones, each its real part and its imaginary part.
pub const COMPONENTS: usize = 6;

/// Number of sites that are processed in lanes.
pub const LANES: usize = 8;
