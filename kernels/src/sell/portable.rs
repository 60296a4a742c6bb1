//! Portable traversal of a section.

use super::LANES;
use super::bytes::{Columns, GroupHead, GroupRows, diagonal_of};
use super::product::{CHECKED, SectionArgs};
use crate::RealNumber;
use crate::packed::{PackedFormat, unpack_apart};

/// The columns of the first lanes of a step, `N` bytes each.
#[inline(always)]
fn columns_of<const N: usize>(step: &[u8], active: usize, columns: &mut [u32; LANES]) {
    for (to, column) in columns.iter_mut().zip(&step[..N * active].as_chunks::<N>().0[..active]) {
        let mut whole = [0; 4];
        whole[..N].copy_from_slice(column);
        *to = u32::from_le_bytes(whole);
    }
}

/// Steps that are decoded before they are multiplied.
const CHUNK: usize = 8;

/// Encoding of the steps of a section.
#[derive(Clone, Copy)]
struct Storage {
    columns: Columns,
    format: PackedFormat,
}

impl Storage {
    /// The columns of the first lanes of a step.
    #[inline(always)]
    fn columns(&self, step: &[u8], active: usize, rows: GroupRows, columns: &mut [u32; LANES]) {
        match &self.columns {
            Columns::Short => columns_of::<2>(step, active, columns),
            Columns::Long => columns_of::<4>(step, active, columns),
            Columns::Diagonals(list) => {
                for (lane, column) in columns[..active].iter_mut().enumerate() {
                    // The column is in the window, since the panel was checked.
                    *column = (rows.of(lane) as u32).wrapping_add_signed(list[diagonal_of(step, lane)]);
                }
            }
        }
    }

    /// The columns of a run.
    #[inline(always)]
    fn run(&self, step: &[u8], rows: GroupRows, columns: &mut [u32; LANES]) {
        self.columns(step, 1, rows, columns);
        let first = columns[0];
        columns.iter_mut().zip(first..).for_each(|(to, column)| *to = column);
    }
}

/// Some decoded steps of a group. `B` is the block size of elements.
struct Steps<const B: usize> {
    /// Numbers, ordered by columns of the elements.
    numbers: [[[[f64; LANES]; B]; B]; CHUNK],
    columns: [[u32; LANES]; CHUNK],
}

impl<const B: usize> Steps<B> {
    /// Decodes steps in which all lanes have an element. Returns their number of bytes.
    #[inline(always)]
    fn decode(
        &mut self,
        count: usize,
        bytes: &[u8],
        storage: &Storage,
        rows: GroupRows,
        are_runs: bool,
    ) -> usize {
        let codes = storage.columns.bytes(if are_runs { 1 } else { LANES });
        let stride = codes + LANES * B * B * storage.format.bytes();
        let numbers = self.numbers[..count].as_flattened_mut().as_flattened_mut().as_flattened_mut();
        // One call for all: the lookups for the format cost as much as several steps.
        unpack_apart(&bytes[codes..], storage.format, (LANES * B * B, stride), numbers);
        for (step, columns) in self.columns[..count].iter_mut().enumerate() {
            let bytes = &bytes[step * stride..];
            if are_runs {
                storage.run(bytes, rows, columns);
            } else {
                storage.columns(bytes, LANES, rows, columns);
            }
        }
        count * stride
    }

    /// Decodes a step of the first lanes. Returns its number of bytes.
    #[inline(always)]
    fn decode_first(
        &mut self,
        at: usize,
        active: usize,
        bytes: &[u8],
        storage: &Storage,
        rows: GroupRows,
    ) -> usize {
        let (codes, stride) = (storage.columns.bytes(active), active * storage.format.bytes());
        let numbers = self.numbers[at].as_flattened_mut().as_flattened_mut();
        // One call for all; lanes without an element get the next numbers, which nothing reads.
        unpack_apart(&bytes[codes..], storage.format, (LANES, stride), numbers);
        storage.columns(bytes, active, rows, &mut self.columns[at]);
        codes + B * B * stride
    }

    /// Adds what all lanes have in these steps to their sums of `K` vectors, with registers of `W`
    /// numbers. Meanwhile it prefetches the bytes of the `next` ones.
    #[inline(always)]
    fn add_all<R: RealNumber, const K: usize, const W: usize>(
        &self,
        count: usize,
        x: &[[R; K]],
        sums: &mut [[[R; K]; B]; LANES],
        next: &[u8],
        fetch: impl Fn(&[u8]),
    ) {
        macro_rules! at_once {
            ($l:literal) => {{
                let mut next = next.chunks(next.len().div_ceil(LANES / $l).max(1));
                for (at, sums) in sums.as_chunks_mut::<$l>().0.iter_mut().enumerate() {
                    next.next().into_iter().for_each(&fetch);
                    self.add::<R, K, $l>(count, at * $l, x, sums);
                }
            }};
        }
        // Eight registers hide the latency of an addition, and leave registers for operands.
        match const { 8 / (B * K.div_ceil(W) * R::WORDS) } {
            8.. => at_once!(8),
            4..8 => at_once!(4),
            2..4 => at_once!(2),
            _ => at_once!(1),
        }
    }

    /// Adds the products of `L` lanes, from `first` on. Their sums are independent chains in
    /// registers.
    #[inline(always)]
    fn add<R: RealNumber, const K: usize, const L: usize>(
        &self,
        count: usize,
        first: usize,
        x: &[[R; K]],
        sums: &mut [[[R; K]; B]; L],
    ) {
        let mut local = *sums;
        for step in 0..count {
            for (lane, sums) in local.iter_mut().enumerate() {
                self.add_element(step, first + lane, x, sums);
            }
        }
        *sums = local;
    }

    /// Adds the products of steps of the first lanes, with the number of lanes of each step.
    #[inline(always)]
    fn add_first<R: RealNumber, const K: usize>(
        &self,
        active: &[u8],
        lane: usize,
        x: &[[R; K]],
        sums: &mut [[R; K]; B],
    ) {
        let mut local = *sums;
        for (step, &active) in active.iter().enumerate() {
            if lane < usize::from(active) {
                self.add_element(step, lane, x, &mut local);
            }
        }
        *sums = local;
    }

    #[inline(always)]
    fn add_element<R: RealNumber, const K: usize>(
        &self,
        step: usize,
        lane: usize,
        x: &[[R; K]],
        sums: &mut [[R; K]; B],
    ) {
        let column = self.columns[step][lane] as usize;
        let x = if B == 1 { std::slice::from_ref(&x[column]) } else { &x[column * B..][..B] };
        for j in 0..B {
            for i in 0..B {
                let a = R::from(self.numbers[step][j][i][lane]);
                for k in 0..K {
                    sums[i][k] = a.mul_add(x[j][k], sums[i][k]);
                }
            }
        }
    }
}

/// A section of any kind: steps are decoded once, for all vectors, and multiplied some lanes at a
/// time, whose sums stay in registers of `W` numbers. While they are multiplied, `fetch` prefetches
/// the bytes of the next ones.
#[inline(always)]
pub(super) fn any_section<R: RealNumber, const B: usize, const K: usize, const W: usize>(
    section: &SectionArgs<'_, R>,
    sums: &mut [R],
    fetch: impl Fn(&[u8]),
) -> usize {
    let SectionArgs { bytes, head, tile, element, bucket, x, next: _ } = *section;
    let storage = Storage { columns: tile.columns, format: bucket.format };
    let (scale, x) = (R::from(bucket.scale()), x.as_chunks::<K>().0);
    let mut steps = Steps::<B> { numbers: [[[[0.0; LANES]; B]; B]; CHUNK], columns: [[0; LANES]; CHUNK] };
    let mut at = 0;
    for group in 0..head.groups {
        R::begin(element + group as u64);
        let group = GroupHead::read(bytes, &mut at).expect(CHECKED);
        let mut lanes = [[[R::from(0.0); K]; B]; LANES];
        for (all, are_runs) in [(group.runs, true), (group.full, false)] {
            for first in (0..all).step_by(CHUNK) {
                let count = CHUNK.min(all - first);
                let len = steps.decode(count, &bytes[at..], &storage, group.rows, are_runs);
                at += len;
                let next = &bytes[at..][..len.min(bytes.len() - at)];
                steps.add_all::<R, K, W>(count, x, &mut lanes, next, &fetch);
            }
        }
        for ragged in group.ragged.chunks(CHUNK) {
            for (step, &active) in ragged.iter().enumerate() {
                at += steps.decode_first(step, active.into(), &bytes[at..], &storage, group.rows);
            }
            for (lane, sums) in lanes.iter_mut().enumerate() {
                steps.add_first(ragged, lane, x, sums);
            }
        }
        for (lane, lanes) in lanes.iter().enumerate() {
            let sums = &mut sums[group.rows.of(lane) * B * K..][..B * K];
            for (sum, lane) in sums.iter_mut().zip(lanes.as_flattened()) {
                *sum = *sum + scale * *lane;
            }
        }
    }
    at
}
