//! The progress bar on standard error, and lines beside it.

use indicatif::ProgressBar;
use parking_lot::Mutex;

/// The visible bar, shared by all that write to standard error.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Runs `say`, which writes to standard error, with the bar out of the way.
pub fn aside<R>(say: impl FnOnce() -> R) -> R {
    // The lock is not held during the write, which may block.
    let bar = SHOWN.lock().clone();
    match bar {
        Some(bar) => bar.suspend(say),
        None => say(),
    }
}

/// Removes the bar permanently.
pub fn clear() {
    if let Some(bar) = SHOWN.lock().take() {
        bar.finish_and_clear();
    }
}

/// Changes the bar, if it is visible.
pub fn change(change: impl FnOnce(&ProgressBar)) {
    if let Some(bar) = &*SHOWN.lock() {
        change(bar);
    }
}

/// Shows the bar at a position. `new` makes it if it is not visible yet.
pub fn show(new: impl FnOnce() -> ProgressBar, position: u64) {
    SHOWN.lock().get_or_insert_with(new).set_position(position);
}
