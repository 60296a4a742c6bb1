//! Validation of the bytes of a panel. Products use its columns and rows without bounds checks, so
//! all of them are checked here.

use std::ops::Range;

use super::bytes::{
    Columns, DIAGONALS, GroupHead, GroupRows, Head, SectionHead, TAIL, TileHead, diagonal_of, run_bytes,
    step_bytes, take,
};
use super::{EDGES, LANES, Load, tile_rows};
use crate::KernelError;

/// Most bytes of a tile, and most rows, sections and groups of a panel: their places and numbers
/// have 32 bits in a [`PanelIndex`](super::PanelIndex).
const MOST_TILE: usize = u32::MAX as usize - 2 * TAIL;
const MOST: u64 = u32::MAX as u64;

fn wrong<T>(problem: &'static str, at: usize) -> Result<T, KernelError> {
    Err(KernelError::Panel { problem, at })
}

/// The head, which part of `x` is read, and what there is of each bucket.
pub(super) fn check(bytes: &[u8]) -> Result<(Head, Range<usize>, Vec<Load>), KernelError> {
    let Some(head) = Head::read(bytes) else { return wrong("its head is not that of a panel", 0) };
    if !EDGES.contains(&head.edge) || head.buckets.len() > usize::from(u8::MAX) {
        return wrong("blocks have an edge of 1 to 4", 4);
    }
    if head.edge > 1 && head.buckets.iter().any(|bucket| bucket.format.is_scaled()) {
        return wrong("blocks have formats with their own exponents", head.len());
    }
    let [mut first, mut last, mut rows] = [usize::MAX, 0, 0];
    let mut sections = 0;
    let mut at = head.len();
    let empty = |&bucket| Load { bucket, elements: 0, groups: 0 };
    let mut loads: Vec<Load> = head.buckets.iter().map(empty).collect();
    for _ in 0..head.tiles {
        let tile = check_tile(bytes, &mut at, &head, &mut loads)?;
        rows += tile.rows * head.edge;
        sections += tile.sections as u64;
        if tile.window > 0 {
            first = first.min(tile.base * head.edge);
            last = last.max((tile.base + tile.window) * head.edge);
        }
    }
    let groups = loads.iter().map(|load| load.groups).sum::<u64>();
    if groups.max(sections).max(head.row_count as u64) > MOST {
        return wrong("a panel has too many rows, sections or groups", at);
    }
    if rows != head.row_count {
        return wrong("its tiles have not the rows that its head says", at);
    }
    if bytes.len() != at + TAIL {
        return wrong("64 bytes have to follow the last tile, and nothing more", at);
    }
    Ok((head, first.min(last)..last, loads))
}

fn check_tile(
    bytes: &[u8],
    at: &mut usize,
    head: &Head,
    loads: &mut [Load],
) -> Result<TileHead, KernelError> {
    let begin = *at;
    let Some(tile) = TileHead::read(bytes, at) else { return wrong("a tile is cut off", begin) };
    if tile.rows > tile_rows(head.edge) {
        return wrong("a tile has too many rows", begin);
    }
    if (tile.base + tile.window).saturating_mul(head.edge) > head.matrix_columns {
        return wrong("a tile's window ends beyond the columns of the matrix", begin);
    }
    if tile.has_exponents {
        *at += 2 * tile.rows * head.edge;
    }
    for _ in 0..tile.sections {
        check_section(bytes, at, head.edge, &tile, loads)?;
    }
    if *at - begin > MOST_TILE {
        return wrong("a tile has too many bytes", begin);
    }
    Ok(tile)
}

fn check_section(
    bytes: &[u8],
    at: &mut usize,
    edge: usize,
    tile: &TileHead,
    loads: &mut [Load],
) -> Result<(), KernelError> {
    let begin = *at;
    let Some(section) = SectionHead::read(bytes, at) else { return wrong("a section is cut off", begin) };
    let Some(load) = loads.get_mut(section.bucket) else {
        return wrong("a section's bucket is not in the panel's list", begin);
    };
    load.groups += section.groups as u64;
    let format = load.bucket.format;
    for _ in 0..section.groups {
        let begin = *at;
        let Some(group) = GroupHead::read(bytes, at) else { return wrong("a group is cut off", begin) };
        let last = match group.rows {
            GroupRows::From(row) => row + LANES - 1,
            GroupRows::These(rows) => rows.into_iter().max().unwrap_or(0).into(),
        };
        // Sums are allocated for rows rounded up to a multiple of eight.
        if last >= tile.rows.next_multiple_of(LANES) {
            return wrong("a row is beyond its tile", begin);
        }
        if group.ragged.iter().any(|&lanes| lanes == 0 || usize::from(lanes) > LANES) {
            return wrong("a step has one to eight elements", begin);
        }
        load.elements += group.elements() as u64;
        for _ in 0..group.runs {
            let Some(step) = bytes.get(*at..*at + run_bytes(&tile.columns, edge, format)) else {
                return wrong("a group is cut off", begin);
            };
            // The column of the last lane is seven larger than that of the first.
            let window = (tile.window + 1).saturating_sub(LANES);
            if !are_below(step, 1, group.rows, &tile.columns, window) {
                return wrong("a column is beyond its tile's window", *at);
            }
            *at += step.len();
        }
        let lanes = std::iter::repeat_n(LANES, group.full).chain(group.ragged.iter().map(|&n| n.into()));
        for lanes in lanes {
            let Some(step) = bytes.get(*at..*at + step_bytes(&tile.columns, lanes, edge, format)) else {
                return wrong("a group is cut off", begin);
            };
            if !are_below(step, lanes, group.rows, &tile.columns, tile.window) {
                return wrong("a column is beyond its tile's window", *at);
            }
            *at += step.len();
        }
    }
    Ok(())
}

/// Returns true if the columns of the first `lanes` lanes of a step are in the window.
fn are_below(step: &[u8], lanes: usize, rows: GroupRows, columns: &Columns, window: usize) -> bool {
    match columns {
        Columns::Short => all_below::<2>(step, lanes, window),
        Columns::Long => all_below::<4>(step, lanes, window),
        Columns::Diagonals(list) => {
            (0..lanes).all(|lane| is_on_diagonal(list, diagonal_of(step, lane), rows.of(lane), window))
        }
    }
}

/// Returns true if a row has a column of the window on the diagonal of this index.
#[inline(always)]
fn is_on_diagonal(list: &[i32; DIAGONALS], number: usize, row: usize, window: usize) -> bool {
    let column = |&diagonal: &i32| usize::try_from(i64::from(diagonal) + row as i64);
    list.get(number).is_some_and(|diagonal| column(diagonal).is_ok_and(|column| column < window))
}

/// Returns true if the columns of a step, of `N` bytes each, are in the window.
fn all_below<const N: usize>(step: &[u8], lanes: usize, window: usize) -> bool {
    let (mut at, mut largest) = (0, 0);
    while let Some(column) = take::<N>(&step[..N * lanes], &mut at) {
        let mut whole = [0; 4];
        whole[..N].copy_from_slice(&column);
        largest = u32::from_le_bytes(whole).max(largest);
    }
    (largest as usize) < window
}
