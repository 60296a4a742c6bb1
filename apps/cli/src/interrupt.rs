//! Ctrl-C: cancels the tasks and lets the main thread return; a second one, or most of a second, ends the process without it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use zellige_runtime::Canceller;

use crate::exit::{self, CommandError};
use crate::{out, progress};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static TASKS: Mutex<Option<Canceller>> = Mutex::new(None);

/// How long the main thread may take to return before the process ends without it.
const GRACE: Duration = Duration::from_millis(700);

/// Listens for Ctrl-C from now on.
///
/// # Errors
/// The system refuses a handler.
pub fn install() -> anyhow::Result<()> {
    Ok(ctrlc::set_handler(on_signal)?)
}

fn on_signal() {
    if INTERRUPTED.swap(true, Ordering::SeqCst) {
        leave();
    }
    progress::aside(|| out::note("zellige: interrupted, cancelling tasks (once more to end at once)"));
    if let Some(tasks) = &*TASKS.lock() {
        tasks.cancel_all();
    }
    std::thread::spawn(|| {
        std::thread::sleep(GRACE);
        leave();
    });
}

/// Ends the process. A file that is being written goes; one that is complete stays.
fn leave() -> ! {
    zellige_files::abandon();
    progress::clear();
    out::error(&CommandError::Interrupted.to_string());
    std::process::exit(i32::from(exit::INTERRUPTED));
}

/// Whether Ctrl-C was pressed.
pub fn seen() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Fails if Ctrl-C was pressed.
///
/// # Errors
/// [`CommandError::Interrupted`].
pub fn check() -> Result<(), CommandError> {
    if seen() { Err(CommandError::Interrupted) } else { Ok(()) }
}

/// Has Ctrl-C cancel these tasks, until the guard is dropped.
pub fn cancels(tasks: Canceller) -> Armed {
    if seen() {
        tasks.cancel_all();
    }
    *TASKS.lock() = Some(tasks);
    Armed
}

/// See [`cancels`].
#[derive(Debug)]
pub struct Armed;

impl Drop for Armed {
    fn drop(&mut self) {
        *TASKS.lock() = None;
    }
}
