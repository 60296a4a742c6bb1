//! Products with matrices of few bits.

use std::ops::Range;

use zellige_gpu::{Address, Arg};

use super::Launch;
use super::launch::LaunchError;
use crate::few_bits::{FewBits, ROWS};

const KERNEL: &str = "zellige_few_bits";

/// Rows of a block of threads, and groups that it takes at a time: `PART` and `GROUPS` of the
/// source.
const PART: u32 = 16;
const GROUPS: u32 = 32;

/// A matrix of few bits on a GPU.
#[derive(Clone, Copy, Debug)]
pub struct FewBitsAt {
    /// Address and bytes of [`FewBits::data`].
    pub data: (Address, u64),
    /// First byte of each group of each block of rows, block after block (`u64`).
    pub starts: Address,
    /// Bits of an integer of each group of each block ([`FewBits::bits`]).
    pub bits: Address,
    /// First word of the record of each group, and the end
    /// ([`Records::places`](crate::few_bits::Records::places)).
    pub places: Address,
    /// Number of blocks of rows.
    pub blocks: usize,
    /// Number of groups of columns.
    pub groups: usize,
}

impl FewBitsAt {
    /// Describes a matrix whose arrays lie at these addresses: data, starts, bits, places.
    pub fn new(matrix: &FewBits, [data, starts, bits, places]: [Address; 4]) -> Self {
        let (blocks, groups) = (matrix.blocks(), matrix.groups());
        FewBitsAt { data: (data, matrix.bytes() as u64), starts, bits, places, blocks, groups }
    }
}

/// Returns the launch of the product of a matrix with `groups` of a vector; `records` are those of
/// all groups, address and words. It is added to `sums`, [`ROWS`] `f32` of each block of rows; or,
/// if `is_new`, written there. The bits are those of [`FewBits::multiply_blocks`].
///
/// # Errors
/// [`LaunchError`] for groups that the matrix does not have, and for a matrix without rows or of
/// more blocks than one launch takes.
pub fn few_bits_product(
    matrix: &FewBitsAt,
    records: (Address, u64),
    groups: Range<usize>,
    is_new: bool,
    sums: Address,
) -> Result<Launch, LaunchError> {
    let too_large = |what, got: usize, most: usize| LaunchError::TooLarge {
        kernel: KERNEL,
        what,
        got: got as u64,
        most: most as u64,
    };
    if groups.end > matrix.groups {
        return Err(too_large("the last group", groups.end, matrix.groups));
    }
    if matrix.blocks == 0 {
        return Err(LaunchError::TooSmall { kernel: KERNEL, what: "the number of rows", got: 0, least: 1 });
    }
    let most = i32::MAX as usize / ROWS;
    if matrix.blocks > most || matrix.groups > most {
        return Err(too_large("the number of blocks or groups", matrix.blocks.max(matrix.groups), most));
    }
    let parts = (matrix.blocks * matrix.groups) as u64;
    let sum_bytes = (matrix.blocks * ROWS * size_of::<f32>()) as u64;
    let args = vec![
        Arg::Read(matrix.data.0, matrix.data.1),
        Arg::Read(matrix.starts, 8 * parts),
        Arg::Read(matrix.bits, parts),
        Arg::U32(matrix.groups as u32),
        Arg::U32(groups.start as u32),
        Arg::U32(groups.end as u32),
        Arg::Read(records.0, 4 * records.1),
        Arg::Read(matrix.places, 4 * (matrix.groups as u64 + 1)),
        Arg::U32(is_new.into()),
        if is_new { Arg::Write(sums, sum_bytes) } else { Arg::Update(sums, sum_bytes) },
    ];
    let parts_of_rows = (matrix.blocks * ROWS) as u32 / PART;
    Ok(Launch { kernel: KERNEL, grid: [parts_of_rows, 1, 1], block: [PART * GROUPS, 1, 1], args })
}
