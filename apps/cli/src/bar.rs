//! The progress bar on standard error, and lines beside it.

use indicatif::ProgressBar;
use parking_lot::Mutex;

/// The visible bar, shared by all that write to standard error.
static LINE: Mutex<Line> = Mutex::new(Line { bar: None, has_ended: false });

struct Line {
    bar: Option<ProgressBar>,
    /// The process ends: other threads may still work, but no bar appears again.
    has_ended: bool,
}

/// Runs `say`, which writes to standard error, with the bar out of the way.
pub fn aside<R>(say: impl FnOnce() -> R) -> R {
    // The lock is not held during the write, which may block.
    let bar = LINE.lock().bar.clone();
    match bar {
        Some(bar) => bar.suspend(say),
        None => say(),
    }
}

/// Removes the bar.
pub fn clear() {
    if let Some(bar) = LINE.lock().bar.take() {
        bar.finish_and_clear();
    }
}

/// Removes the bar permanently.
pub fn end() {
    LINE.lock().has_ended = true;
    clear();
}

/// Changes the bar, if it is visible.
pub fn change(change: impl FnOnce(&ProgressBar)) {
    if let Some(bar) = &LINE.lock().bar {
        change(bar);
    }
}

/// Shows the bar at a position. `new` makes it if it is not visible yet.
pub fn show(new: impl FnOnce() -> ProgressBar, position: u64) {
    let mut line = LINE.lock();
    if !line.has_ended {
        line.bar.get_or_insert_with(new).set_position(position);
    }
}
