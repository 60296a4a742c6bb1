//! Arrays brought together.

use zellige_gpu::{Address, Arg};

use super::Launch;
use super::launch::LaunchError;

const KERNEL: &str = "zellige_gather";

/// Most arrays of a launch: they are arguments.
const ARRAYS: usize = 64;
/// Threads of a block, and blocks that share an array at most.
const THREADS: u32 = 256;
const BLOCKS: u64 = 64;
const NUMBER: u64 = 8;

/// Returns the launches that copy arrays of 8-byte numbers contiguously to `to`, one launch for
/// every 64 arrays. `to` and the arrays are addresses and bytes.
///
/// # Errors
/// [`LaunchError`] for an array that ends within a number, and for a `to` that is too small.
pub fn gather(to: (Address, u64), arrays: &[(Address, u64)]) -> Result<Vec<Launch>, LaunchError> {
    let too_small = |what, got, least| Err(LaunchError::TooSmall { kernel: KERNEL, what, got, least });
    if let Some((_, bytes)) = arrays.iter().find(|(_, bytes)| !bytes.is_multiple_of(NUMBER)) {
        return too_small("an array (bytes)", *bytes, bytes.next_multiple_of(NUMBER));
    }
    let all = arrays.iter().map(|(_, bytes)| bytes).sum();
    if to.1 < all {
        return too_small("the room for all arrays (bytes)", to.1, all);
    }
    let mut at = to.0.0;
    let of_chunk = |arrays: &[(Address, u64)]| {
        let launch = of_chunk(Address(at), arrays);
        at += arrays.iter().map(|(_, bytes)| bytes).sum::<u64>();
        launch
    };
    Ok(arrays.chunks(ARRAYS).map(of_chunk).collect())
}

fn of_chunk(to: Address, arrays: &[(Address, u64)]) -> Launch {
    let numbers = || arrays.iter().map(|(_, bytes)| bytes / NUMBER);
    let begins = numbers().scan(0, |end, length| {
        *end += length;
        Some(*end - length)
    });
    let mut args = vec![Arg::Write(to, NUMBER * numbers().sum::<u64>())];
    let mut fill = |of_arrays: &mut dyn Iterator<Item = Arg>, nothing: Arg| {
        args.extend(of_arrays);
        args.resize(args.len() + ARRAYS - arrays.len(), nothing);
    };
    fill(&mut arrays.iter().map(|&(array, bytes)| Arg::Read(array, bytes)), Arg::Read(Address(0), 0));
    fill(&mut begins.map(Arg::U64), Arg::U64(0));
    fill(&mut numbers().map(Arg::U64), Arg::U64(0));
    let blocks = numbers().max().unwrap_or(0).div_ceil(THREADS.into()).clamp(1, BLOCKS);
    Launch { kernel: KERNEL, grid: [blocks as u32, arrays.len() as u32, 1], block: [THREADS, 1, 1], args }
}
