//! Ranges of tags of data.

use parking_lot::Mutex;

use crate::instance::complain;

/// Ranges that are in use, by their first tag: first tag and number of tags.
static RANGES: Mutex<Vec<(i64, i64)>> = Mutex::new(Vec::new());

/// The first tag: 0 says that there is none.
const FIRST: i64 = 1;

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_tags_allocate(count: i64) -> i64 {
    if count <= 0 {
        complain(format_args!("starpu_mpi_tags_allocate: {count} is no number of tags"));
        return -1;
    }
    let mut ranges = RANGES.lock();
    let (mut first, mut at) = (FIRST, 0);
    // The first gap that is large enough.
    while at < ranges.len() && ranges[at].0 - first < count {
        first = ranges[at].0 + ranges[at].1;
        at += 1;
    }
    ranges.insert(at, (first, count));
    first
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_tags_free(first: i64) {
    let mut ranges = RANGES.lock();
    match ranges.iter().position(|range| range.0 == first) {
        Some(at) => {
            ranges.remove(at);
        }
        None => complain(format_args!("starpu_mpi_tags_free: no range of tags begins with {first}")),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_tags_get_next_value() -> i64 {
    RANGES.lock().last().map_or(FIRST, |range| range.0 + range.1)
}
