//! Measures of a tile.

use zellige_gpu::{Address, Arg, Element, Matrix};

use super::Launch;
use super::launch::{Checked, LaunchError};

/// Result of [`measure`] in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measure {
    /// Frobenius norm.
    pub norm: f64,
    /// Largest magnitude; NaN if there is a NaN.
    pub max: f64,
    /// [`scale_exponent`](crate::formats::scale_exponent) of it.
    pub exponent: i32,
    /// Value of `exponent` if `max > 2^15`, else 0: the increase of the scale exponent of a 16-bit
    /// tile, see [`store`](super::store).
    pub raise: i32,
}

impl Measure {
    /// Bytes of one in device memory.
    pub const BYTES: u64 = 24;

    /// Reads a measure from its bytes in device memory.
    pub fn from_bytes(bytes: [u8; 24]) -> Self {
        let [norm, max, rest] = bytemuck::cast::<_, [u64; 3]>(bytes);
        let [exponent, raise] = bytemuck::cast::<_, [i32; 2]>(rest);
        Measure { norm: f64::from_bits(norm), max: f64::from_bits(max), exponent, raise }
    }

    /// Returns the bytes of the measure in device memory.
    pub fn to_bytes(self) -> [u8; 24] {
        let rest = bytemuck::cast([self.exponent, self.raise]);
        bytemuck::cast([self.norm.to_bits(), self.max.to_bits(), rest])
    }
}

/// Most blocks that measure one tile: `NORM_BLOCKS` of the source.
const BLOCKS: u32 = 128;

/// Threads of each for columns of `m` rows, at most `NORM_THREADS` of the source: eight rows for
/// each.
fn threads(m: u32) -> u32 {
    m.div_ceil(8).clamp(32, 256).next_power_of_two()
}

/// Bytes of working space that [`measure`] needs.
pub const PARTIALS_BYTES: u64 = 16 * BLOCKS as u64;

/// Norm, largest magnitude and scale of an `f32` or `f64` tile: the launches, in order.
///
/// `partials`: [`PARTIALS_BYTES`] of working space, for one tile at a time. The norm's additions
/// have an order fixed by the shape, not the CPU's; relative error at most `(max(8, ceil(rows /
/// 256)) ceil(cols / 128) + 19) 2^-53`.
///
/// # Errors
/// [`LaunchError`] for a tile of other numbers or with overlapping columns.
pub fn measure(
    (m, n): (u32, u32),
    a: Matrix,
    partials: Address,
    to: Address,
) -> Result<Vec<Launch>, LaunchError> {
    let check = Checked("measure");
    let blocks = n.clamp(1, BLOCKS);
    let tile = check.read("a", (m, n), a)?;
    let sizes = [Arg::U32(m), Arg::U32(n), tile, Arg::U32(a.ld)];
    let partials_bytes = 16 * u64::from(blocks);
    let over_columns = |kernel, rest: &[Arg]| Launch {
        kernel,
        grid: [blocks, 1, 1],
        block: [threads(m), 1, 1],
        args: sizes.iter().chain(rest).copied().collect(),
    };
    let collect = |scaled| Launch {
        kernel: "zellige_measured",
        grid: [1; 3],
        block: [blocks.next_power_of_two(), 1, 1],
        args: vec![
            Arg::U32(blocks),
            Arg::Read(partials, partials_bytes),
            Arg::U32(scaled),
            Arg::Write(to, Measure::BYTES),
        ],
    };
    let wrote = Arg::Write(partials, partials_bytes);
    match a.element {
        Element::F32 => Ok(vec![over_columns("zellige_measure_f32", &[wrote]), collect(0)]),
        // The squares need the scale, which needs the largest magnitude.
        Element::F64 => Ok(vec![
            over_columns("zellige_max_f64", &[wrote]),
            collect(1),
            over_columns("zellige_squares_f64", &[Arg::Read(to, Measure::BYTES), wrote]),
            collect(1),
        ]),
        _ => Err(check.unknown("a", a, "F32 or F64")),
    }
}
