//! Descriptions of launches. All matrices are column-major and in the memory of the stream's GPU.

use crate::driver::Address;

/// Argument of a kernel. Arrays declare their access mode, so that a driver can check the order of
/// streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// An array that is only read: where, and its bytes.
    Read(Address, u64),
    /// An array that is overwritten completely.
    Write(Address, u64),
    /// An array that is read and written.
    Update(Address, u64),
    /// `int`.
    I32(i32),
    /// `unsigned`.
    U32(u32),
    /// `unsigned long long`.
    U64(u64),
    /// `float`.
    F32(f32),
    /// `double`.
    F64(f64),
}

/// Number type of the entries of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// 64 bits.
    F64,
    /// 32 bits.
    F32,
    /// IEEE 16 bits.
    F16,
    /// bfloat16.
    BF16,
    /// 8 bits: 4 of exponent, 3 of mantissa.
    F8E4M3,
}

impl Element {
    /// Bytes of one.
    pub const fn bytes(self) -> u64 {
        match self {
            Element::F64 => 8,
            Element::F32 => 4,
            Element::F16 | Element::BF16 => 2,
            Element::F8E4M3 => 1,
        }
    }
}

/// A matrix in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Address of the first entry.
    pub at: Address,
    /// Entries from one column to the next.
    pub ld: u32,
    /// Number type of its entries.
    pub element: Element,
}

/// Transposition of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transpose {
    /// Not transposed.
    No,
    /// Transposed.
    Yes,
}

/// Precision of the sums of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// f64.
    F64,
    /// f32, products of f32 operands exactly.
    F32,
    /// f32, f32 operands rounded to 11 bits first, on tensor cores.
    Tf32,
    /// f16.
    F16,
}

/// Factors of a product. If beta is 0, C is not read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factors {
    /// Known on the host.
    Host {
        /// Factor of the product.
        alpha: f64,
        /// Factor of C.
        beta: f64,
    },
    /// In device memory: alpha, then beta, two `f32`, read when the product runs. Supported only
    /// for sums in f32 ([`Compute::F32`], [`Compute::Tf32`]).
    Device(Address),
}

impl Factors {
    /// Bytes of two that are in device memory.
    pub const BYTES: u64 = 8;
}

/// `C = alpha op(A) op(B) + beta C`, `C` of `m x n`, inner length `k`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// op of A.
    pub op_a: Transpose,
    /// op of B.
    pub op_b: Transpose,
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Inner length.
    pub k: u32,
    /// alpha and beta.
    pub factors: Factors,
    /// A.
    pub a: Matrix,
    /// B.
    pub b: Matrix,
    /// C.
    pub c: Matrix,
    /// Precision of the sums.
    pub compute: Compute,
}

/// Several products of one shape with the same factors, one for each entry of `at`. The addresses
/// of `a`, `b`, `c` in `shape` are those of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchedGemm<'a> {
    /// Shape, factors and precision of all products.
    pub shape: Gemm,
    /// Addresses of A, B and C of each product.
    pub at: &'a [[Address; 3]],
}

/// The side on which a triangular matrix stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// `op(L) X = B`.
    Left,
    /// `X op(L) = B`.
    Right,
}

/// Solves with a lower triangular `L`, its diagonal not unit: `B` of `m x n` becomes `X`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trsm {
    /// Side of L.
    pub side: Side,
    /// op of L.
    pub op: Transpose,
    /// Rows of B.
    pub m: u32,
    /// Columns of B.
    pub n: u32,
    /// L.
    pub l: Matrix,
    /// B, then X.
    pub b: Matrix,
}

/// `C = alpha A A^T + beta C`, lower triangle, `C` of `n x n`, `A` of `n x k`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Syrk {
    /// Order of C.
    pub n: u32,
    /// Columns of A.
    pub k: u32,
    /// Factor of the product.
    pub alpha: f64,
    /// A.
    pub a: Matrix,
    /// Factor of C.
    pub beta: f64,
    /// C.
    pub c: Matrix,
}

/// `L L^T = A` in place, lower triangle, order `n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Potrf {
    /// Order.
    pub n: u32,
    /// A, then L.
    pub a: Matrix,
    /// Working space, at least as large as
    /// [`Driver::potrf_workspace`](crate::Driver::potrf_workspace) returns.
    pub workspace: Address,
    /// Bytes of the working space.
    pub workspace_bytes: u64,
    /// An `int` in device memory: 0, or one more than the number of the column whose pivot is not
    /// positive.
    pub info: Address,
}
