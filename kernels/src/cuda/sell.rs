//! Products with panels of sparse matrices.

use std::ops::Range;

use zellige_gpu::{Address, Arg};

use super::Launch;
use super::launch::LaunchError;
use crate::sell::Outline;

/// Most parts of a vector: they are arguments.
pub const PARTS: usize = 64;

/// A panel on a GPU: its bytes, and those of its guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanelAt {
    /// What the guide is about.
    pub outline: Outline,
    /// Where the panel's bytes are; at a multiple of 4.
    pub bytes: Address,
    /// Where the guide's words are.
    pub guide: Address,
}

/// Where the `x` of a product lies: parts of columns, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorParts<'a> {
    /// The column that the first one begins with.
    pub first: usize,
    /// Where they are, and their bytes: the same for each, but for the last, which may have less.
    pub at: &'a [(Address, u64)],
}

impl VectorParts<'_> {
    /// The columns, of `count` vectors.
    fn columns(&self, count: usize) -> Range<usize> {
        let numbers: u64 = self.at.iter().map(|at| at.1 / (8 * count as u64)).sum();
        self.first..self.first + numbers as usize
    }
}

/// The launch of `Y = A X` for the rows of a panel and 1 to 8 vectors, whose `count` numbers of a row lie beside each other, as
/// [`Panel::multiply_part`](crate::sell::Panel::multiply_part), with its bits. `y` are the panel's rows; where a number `done` is given and is not 0,
/// they stay as they are.
///
/// # Errors
/// [`LaunchError`] for another number of vectors, for more than [`PARTS`] or ones that differ, and for an `x` without a column that is read.
pub fn sell_product(
    panel: &PanelAt,
    count: usize,
    x: &VectorParts<'_>,
    y: Address,
    done: Option<Address>,
) -> Result<Launch, LaunchError> {
    let outline = &panel.outline;
    let (kernel, at_once) = kernel(outline.edge, count)?;
    let each = check(kernel, outline, count, x)?;
    let y_bytes = 8 * outline.rows as u64 * count as u64;
    let mut args = vec![
        Arg::Read(panel.bytes, outline.bytes as u64),
        Arg::Read(panel.guide, 4 * outline.words() as u64),
        Arg::U32(outline.tiles as u32),
        Arg::U32(outline.sections as u32),
        Arg::I32(outline.exponent),
        Arg::U64(x.first as u64),
        Arg::U64(each),
        Arg::U32(count as u32),
        Arg::U32(done.is_some().into()),
        done.map_or(NOTHING, |done| Arg::Read(done, 8)),
        if done.is_some() { Arg::Update(y, y_bytes) } else { Arg::Write(y, y_bytes) },
    ];
    args.extend(x.at.iter().map(|&(at, bytes)| Arg::Read(at, bytes)));
    args.resize(args.len() + PARTS - x.at.len(), NOTHING);
    let block = [if outline.edge == 3 { 288 } else { 256 }, 1, 1];
    let grid = [(outline.tiles as u32).max(1), (count / at_once) as u32, 1];
    Ok(Launch { kernel, grid, block, args })
}

/// An array that nobody looks at.
const NOTHING: Arg = Arg::Read(Address(0), 0);

/// The kernel for so many vectors, and how many it takes at once.
fn kernel(edge: usize, count: usize) -> Result<(&'static str, usize), LaunchError> {
    const KERNELS: [[&str; 3]; 4] = [
        ["zellige_sell_1_1", "zellige_sell_1_2", "zellige_sell_1_4"],
        ["zellige_sell_2_1", "zellige_sell_2_2", "zellige_sell_2_4"],
        ["zellige_sell_3_1", "zellige_sell_3_2", "zellige_sell_3_4"],
        ["zellige_sell_4_1", "zellige_sell_4_2", "zellige_sell_4_4"],
    ];
    let (kernel, what) = ("zellige_sell", "the number of vectors");
    match count {
        0 => Err(LaunchError::TooSmall { kernel, what, got: 0, least: 1 }),
        4 | 8 => Ok((KERNELS[edge - 1][2], 4)),
        2 | 6 => Ok((KERNELS[edge - 1][1], 2)),
        1..8 => Ok((KERNELS[edge - 1][0], 1)),
        _ => Err(LaunchError::TooLarge { kernel, what, got: count as u64, most: 8 }),
    }
}

/// Numbers of a vector in each part.
fn check(
    kernel: &'static str,
    outline: &Outline,
    count: usize,
    x: &VectorParts<'_>,
) -> Result<u64, LaunchError> {
    let small = |what, got: usize, least: usize| {
        Err(LaunchError::TooSmall { kernel, what, got: got as u64, least: least as u64 })
    };
    if x.at.len() > PARTS {
        let (got, most) = (x.at.len() as u64, PARTS as u64);
        return Err(LaunchError::TooLarge { kernel, what: "the number of parts", got, most });
    }
    let each = x.at.first().map_or(0, |first| first.1);
    let (last, others) = x.at.split_last().map_or((0, x.at), |(last, others)| (last.1, others));
    if let Some(other) = others.iter().map(|at| at.1).find(|&bytes| bytes != each) {
        return small("a part, beside the first (bytes)", other as usize, each as usize);
    }
    if last > each {
        let what = "the last part, beside the first (bytes)";
        return Err(LaunchError::TooLarge { kernel, what, got: last, most: each });
    }
    // An element is to be in one part.
    let (numbers, edge) = ((each / (8 * count as u64)) as usize, outline.edge);
    if x.at.len() > 1 && !(numbers.is_multiple_of(edge) && x.first.is_multiple_of(edge)) {
        return small("a part of columns, cut within an element,", numbers, numbers.next_multiple_of(edge));
    }
    let (needed, here) = (outline.columns, x.columns(count));
    if needed.0 < needed.1 && needed.0 < here.start {
        return small("the first column that is read", needed.0, here.start);
    }
    if needed.0 < needed.1 && needed.1 > here.end {
        return small("the end of the columns of x", here.end, needed.1);
    }
    Ok(numbers.max(1) as u64)
}
