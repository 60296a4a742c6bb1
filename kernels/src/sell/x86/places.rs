//! Positions in `x` of the numbers of a step, for each encoding of its columns.

use core::arch::x86_64::*;

use super::GroupStart;
use crate::sell::LANES;
use crate::sell::bytes::{Columns, DIAGONALS};

/// An encoding of columns with a fast traversal. All functions are unsafe because they need a
/// machine with AVX2; they are inlined into a caller that may use it.
pub(super) trait Places: Copy {
    /// The encoding (with any diagonals).
    const COLUMNS: Columns;

    /// Returns the bytes of the columns of `lanes` lanes.
    #[inline(always)]
    fn bytes(lanes: usize) -> usize {
        Self::COLUMNS.bytes(lanes)
    }

    /// Creates the decoder for a tile whose columns are encoded this way.
    unsafe fn of_tile(columns: &Columns) -> Self;

    /// Returns the decoder for the rows of a group.
    ///
    /// # Safety
    /// The group is one of a panel that was checked.
    unsafe fn of_group(self, group: &GroupStart) -> Self;

    /// The column of a run.
    ///
    /// # Safety
    /// A run of the group begins here, of a panel that was checked.
    unsafe fn run(self, run: *const u8) -> usize;

    /// The columns of a step. Those of lanes without an element are 0.
    ///
    /// # Safety
    /// A step of the group, with so many lanes (one at least), of a panel that was checked.
    unsafe fn step(self, step: *const u8, active: usize) -> [u32; LANES];
}

/// Columns of 16 bits.
#[derive(Clone, Copy)]
pub(super) struct Short;

/// Masks of the 16-bit columns of the first lanes, for each number of lanes: one word for the first
/// four lanes and one for the others.
static FIRST: [[u64; 2]; LANES + 1] = {
    let mut masks = [[0; 2]; LANES + 1];
    let mut lanes = 1;
    while lanes <= LANES {
        masks[lanes] = masks[lanes - 1];
        masks[lanes][(lanes - 1) / 4] |= 0xffff << ((lanes - 1) % 4 * 16);
        lanes += 1;
    }
    masks
};

impl Places for Short {
    const COLUMNS: Columns = Columns::Short;

    #[inline(always)]
    unsafe fn of_tile(_: &Columns) -> Self {
        Short
    }

    #[inline(always)]
    unsafe fn of_group(self, _: &GroupStart) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn run(self, run: *const u8) -> usize {
        // SAFETY: the caller's promise.
        unsafe { u16::from_le(run.cast::<u16>().read_unaligned()).into() }
    }

    #[inline(always)]
    unsafe fn step(self, step: *const u8, active: usize) -> [u32; LANES] {
        let mut columns = [0; LANES];
        for (half, &mask) in FIRST[active].iter().enumerate() {
            // SAFETY: so many columns are there, and the panel goes on for 64 bytes. Two reads and
            // shifts: what is short here is reading, since `x` has to be read as well.
            let four = unsafe { u64::from_le(step.cast::<u64>().add(half).read_unaligned()) & mask };
            for lane in 0..4 {
                columns[4 * half + lane] = u32::from((four >> (16 * lane)) as u16);
            }
        }
        columns
    }
}

/// Columns as numbers of diagonals.
#[derive(Clone, Copy)]
pub(super) struct OnDiagonals {
    list: [i32; DIAGONALS],
    /// Rows of the group's lanes.
    rows: __m256i,
    first_row: u8,
}

/// Masks of the first lanes, for each number of lanes.
static LANES_OF: [[i32; LANES]; LANES + 1] = {
    let mut masks = [[0; LANES]; LANES + 1];
    let mut lanes = 1;
    while lanes <= LANES {
        masks[lanes] = masks[lanes - 1];
        masks[lanes][lanes - 1] = -1;
        lanes += 1;
    }
    masks
};

impl Places for OnDiagonals {
    const COLUMNS: Columns = Columns::Diagonals([0; DIAGONALS]);

    #[inline(always)]
    unsafe fn of_tile(columns: &Columns) -> Self {
        let Columns::Diagonals(list) = *columns else { unreachable!("this is the way of diagonals") };
        // SAFETY: the caller's promise.
        OnDiagonals { list, rows: unsafe { _mm256_setzero_si256() }, first_row: 0 }
    }

    #[inline(always)]
    unsafe fn of_group(self, group: &GroupStart) -> Self {
        // SAFETY: the caller's promise; if only the first row's number is stored, the panel
        // continues after it. Both variants are computed, so that there is no branch to predict.
        unsafe {
            let first_row = *group.rows;
            let these = _mm256_cvtepu8_epi32(_mm_loadl_epi64(group.rows.cast()));
            let after = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let follow = _mm256_add_epi32(_mm256_set1_epi32(first_row.into()), after);
            let which = _mm256_set1_epi32(-i32::from(group.follow));
            OnDiagonals { rows: _mm256_blendv_epi8(these, follow, which), first_row, ..self }
        }
    }

    #[inline(always)]
    unsafe fn run(self, run: *const u8) -> usize {
        // SAFETY: the caller's promise: half a byte, the number of a diagonal of the list.
        unsafe {
            (*self.list.get_unchecked(usize::from(*run & 15)) as u32).wrapping_add(self.first_row.into())
                as usize
        }
    }

    #[inline(always)]
    unsafe fn step(self, step: *const u8, active: usize) -> [u32; LANES] {
        let mut columns = [0; LANES];
        // SAFETY: the caller's promise; the panel goes on for 64 bytes. A permutation looks at the
        // lowest three bits of each number.
        unsafe {
            let all = _mm256_set1_epi32(i32::from_le(step.cast::<i32>().read_unaligned()));
            let numbers = _mm256_srlv_epi32(all, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
            let list = _mm256_loadu_si256(self.list.as_ptr().cast());
            let found = _mm256_add_epi32(_mm256_permutevar8x32_epi32(list, numbers), self.rows);
            let is_there = _mm256_loadu_si256(LANES_OF[active].as_ptr().cast());
            _mm256_storeu_si256(columns.as_mut_ptr().cast(), _mm256_and_si256(found, is_there));
        }
        columns
    }
}
