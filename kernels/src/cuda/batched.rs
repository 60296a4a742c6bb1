//! Many products of small tiles in one launch.

use zellige_gpu::{Address, Arg, Element, Matrix};

use super::Launch;
use super::launch::{Checked, LaunchError, read_int};

/// Most rows and columns of `C` of a small product: one block computes it.
pub const SMALL: u32 = 64;
/// Most products of one launch: their operands are its arguments.
pub const SMALL_BATCH: usize = 32;
/// Threads of that block: `SMALL_THREADS` of the source.
const THREADS: u32 = 256;

/// Products `C = beta C + alpha 2^(a + b) A op(B)` of one shape. With `beta` 0, `C` is not read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmallProducts {
    /// Rows and columns of `C`, at most [`SMALL`], and the inner length.
    pub shape: (u32, u32, u32),
    /// Factor of the product, besides the operands' scales `2^a` and `2^b`.
    pub alpha: f32,
    /// Leading dimensions of A, B, C.
    pub ld: [u32; 3],
    /// Element type of A and B: `F32`, `F16` or `BF16`. C is `F32`.
    pub element: Element,
    /// True if `op(B) = B^T`.
    pub transposed: bool,
    /// Factor of C.
    pub beta: f32,
}

/// Addresses of the operands of one small product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallProduct {
    /// A, B, C.
    pub tiles: [Address; 3],
    /// The exponents of the scales of A and B, an `int` each; not read for `F32`.
    pub scales: [Address; 2],
}

/// The launch of at most [`SMALL_BATCH`] products.
///
/// Per entry one chain of fused multiply-adds, `k` ascending: `s = fma(a, b, s)` from 0, then `C =
/// fma(alpha, s 2^(a + b), beta C)`: the same bits however many products there are.
///
/// # Errors
/// [`LaunchError`] for a shape that is too large, other numbers, overlapping columns, too many
/// products.
pub fn small_products(products: &SmallProducts, all: &[SmallProduct]) -> Result<Launch, LaunchError> {
    let &SmallProducts { shape: (m, n, k), alpha, ld, element, transposed, beta } = products;
    let place = |at, ld, element| Matrix { at, ld, element };
    let kernel = match element {
        Element::F32 => "zellige_small_products_f32",
        Element::F16 => "zellige_small_products_f16",
        Element::BF16 => "zellige_small_products_bf16",
        _ => {
            let a = place(Address(0), ld[0], element);
            return Err(Checked("small_products").unknown("a", a, "F32, F16 or BF16"));
        }
    };
    let check = Checked(kernel);
    let count = all.len() as u64;
    let limits = [
        ("m", m.into(), SMALL.into()),
        ("n", n.into(), SMALL.into()),
        ("the batch", count, SMALL_BATCH as u64),
    ];
    for (what, got, most) in limits {
        if got > most {
            return Err(LaunchError::TooLarge { kernel, what, got, most });
        }
    }
    let shape_b = if transposed { (n, k) } else { (k, n) };
    let mut args = vec![
        Arg::U32(m),
        Arg::U32(n),
        Arg::U32(k),
        Arg::F32(alpha),
        Arg::U32(ld[0]),
        Arg::U32(ld[1]),
        Arg::U32(transposed.into()),
        Arg::F32(beta),
        Arg::U32(ld[2]),
        Arg::U32(count as u32),
    ];
    for &SmallProduct { tiles: [a, b, c], scales } in all {
        args.push(check.read("a", (m, k), place(a, ld[0], element))?);
        args.push(check.read("b", shape_b, place(b, ld[1], element))?);
        let c = place(c, ld[2], Element::F32);
        args.push(if beta == 0.0 { check.write("c", (m, n), c)? } else { check.update("c", (m, n), c)? });
        if element != Element::F32 {
            args.extend(scales.map(read_int));
        }
    }
    // The fillers of missing products are not read.
    let each = if element == Element::F32 { 3 } else { 5 };
    args.resize(10 + each * SMALL_BATCH, Arg::Read(Address::default(), 0));
    Ok(Launch { kernel, grid: [(count as u32).max(1), 1, 1], block: [THREADS, 1, 1], args })
}
