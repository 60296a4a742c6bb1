//! What runs inside a task.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod blas;
mod error;
pub mod formats;
#[allow(unsafe_code)]
mod mat;
mod scalar;

pub use blas::{Op, gemm, potrf_lower, syrk_lower, trsm_left_lower, trsm_right_lower};
pub use error::KernelError;
pub use formats::StorageFormat;
pub use mat::{MatMut, MatRef};
pub use scalar::Scalar;
