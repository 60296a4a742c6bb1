//! How much memory may be used.

use zellige_runtime::topology::available_memory;

/// What may be used: no more than `wish`, no more than there is.
pub(super) fn limit(wish: Option<u64>) -> Option<u64> {
    match (wish, available_memory()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
