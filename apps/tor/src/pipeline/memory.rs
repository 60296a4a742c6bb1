//! Limit on the memory of a run.

use zellige_runtime::topology::available_memory;

/// Returns the usable memory in bytes: at most `wish` and at most the available memory.
pub(super) fn limit(wish: Option<u64>) -> Option<u64> {
    match (wish, available_memory()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
