//! Products with panels of sparse matrices.

use std::ops::Range;

use zellige_gpu::{Address, Arg};

use super::Launch;
use super::launch::LaunchError;
use crate::sell::Outline;

/// Most parts of a vector, and most panels of a launch: they are arguments.
/// [`gather`](super::gather()) brings more parts together.
pub const PARTS: usize = 64;

/// A panel on a GPU: addresses of its bytes, of its index, and of its rows of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanelAt {
    /// Sizes of the panel and of its index.
    pub outline: Outline,
    /// Address of the panel's bytes, a multiple of 4.
    pub bytes: Address,
    /// Address of the words of the index.
    pub index: Address,
    /// Address of the panel's rows of the product.
    pub y: Address,
}

/// Parts of the vector `x` of a product: ranges of columns, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorParts<'a> {
    /// The column that the first one begins with.
    pub first: usize,
    /// Addresses and sizes in bytes. All parts have the same size except the last, which may be
    /// smaller.
    pub at: &'a [(Address, u64)],
}

impl VectorParts<'_> {
    /// Returns true if the kernels accept these parts directly, for `count` vectors and this panel.
    pub fn fit(&self, count: usize, panel: &Outline) -> bool {
        let edge = panel.edge;
        let Some((last, others)) = self.at.split_last() else { return true };
        let is_even = others.iter().all(|at| at.1 == self.at[0].1) && last.1 <= self.at[0].1;
        let is_whole =
            self.first.is_multiple_of(edge) && self.at[0].1.is_multiple_of(8 * (count * edge) as u64);
        self.at.len() == 1 || self.at.len() <= PARTS && is_even && is_whole
    }

    /// The columns, of `count` vectors.
    fn columns(&self, count: usize) -> Range<usize> {
        let numbers: u64 = self.at.iter().map(|at| at.1 / (8 * count as u64)).sum();
        self.first..self.first + numbers as usize
    }
}

/// Returns the launch of `Y = A X` for the rows of some panels and 1 to 8 vectors, whose `count`
/// numbers of a row are contiguous. The result is bitwise equal to
/// [`Panel::multiply_part`](crate::sell::Panel::multiply_part) of each. If a number `done` is given
/// and is not 0, nothing is written.
///
/// # Errors
/// [`LaunchError`] for another number of vectors, for no panel, more than [`PARTS`] panels or
/// parts, or ones that differ, and for an `x` without a column that is read.
pub fn sell_product(
    panels: &[PanelAt],
    count: usize,
    x: &VectorParts<'_>,
    done: Option<Address>,
) -> Result<Launch, LaunchError> {
    let edge = panels.first().map_or(1, |panel| panel.outline.edge);
    let (kernel, at_once) = kernel(edge, count)?;
    check_panels(kernel, edge, panels)?;
    let mut each = 1;
    for panel in panels {
        each = check(kernel, &panel.outline, count, x)?;
    }
    let mut args = vec![
        Arg::U64(x.first as u64),
        Arg::U64(each),
        Arg::U32(count as u32),
        Arg::U32(done.is_some().into()),
        done.map_or(NOTHING, |done| Arg::Read(done, 8)),
    ];
    let mut of_each = |nothing: Arg, arg: &dyn Fn(&PanelAt) -> Arg| {
        args.extend(panels.iter().map(arg));
        args.resize(args.len() + PARTS - panels.len(), nothing);
    };
    of_each(Arg::U32(0), &|panel| Arg::U32(panel.outline.tiles as u32));
    of_each(Arg::I32(0), &|panel| Arg::I32(panel.outline.exponent));
    of_each(NOTHING, &|panel| Arg::Read(panel.bytes, panel.outline.bytes as u64));
    of_each(NOTHING, &|panel| Arg::Read(panel.index, 4 * panel.outline.words() as u64));
    of_each(NOTHING, &|panel| {
        let bytes = 8 * (panel.outline.rows * count) as u64;
        if done.is_some() { Arg::Update(panel.y, bytes) } else { Arg::Write(panel.y, bytes) }
    });
    args.extend(x.at.iter().map(|&(at, bytes)| Arg::Read(at, bytes)));
    args.resize(args.len() + PARTS - x.at.len(), NOTHING);
    let block = [if edge == 3 { 288 } else { 256 }, 1, 1];
    let tiles = panels.iter().map(|panel| panel.outline.tiles as u32).max().unwrap_or(0);
    let grid = [tiles.max(1), (count / at_once) as u32, panels.len() as u32];
    Ok(Launch { kernel, grid, block, args })
}

/// An array that is not read.
const NOTHING: Arg = Arg::Read(Address(0), 0);

/// Returns the kernel for `count` vectors, and the number of vectors that it takes at once.
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

/// Checks that there is a panel, that there are not too many, and that all have the block size of
/// the first.
fn check_panels(kernel: &'static str, edge: usize, panels: &[PanelAt]) -> Result<(), LaunchError> {
    let what = "the number of panels";
    if panels.is_empty() {
        return Err(LaunchError::TooSmall { kernel, what, got: 0, least: 1 });
    }
    if panels.len() > PARTS {
        return Err(LaunchError::TooLarge { kernel, what, got: panels.len() as u64, most: PARTS as u64 });
    }
    let what = "the edge of a panel, beside the first's,";
    match panels.iter().map(|panel| panel.outline.edge).find(|&other| other != edge) {
        Some(got) if got < edge => {
            Err(LaunchError::TooSmall { kernel, what, got: got as u64, least: edge as u64 })
        }
        Some(got) => Err(LaunchError::TooLarge { kernel, what, got: got as u64, most: edge as u64 }),
        None => Ok(()),
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
