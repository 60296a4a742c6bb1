//! Signals. Ctrl-C: cancels the tasks and lets the main thread return; a second one, or most of a
//! second, ends the process without it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use parking_lot::Mutex;
use zellige_runtime::Canceller;

use crate::exit::{self, CommandError};
use crate::{out, progress};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static TASKS: Mutex<Option<Canceller>> = Mutex::new(None);

/// How long the main thread may take to return before the process ends without it.
const GRACE: Duration = Duration::from_millis(700);

/// How long the last line may take to be written.
const LAST_WORD: Duration = Duration::from_millis(200);

/// Has a write beyond the limit on sizes of files (`ulimit -f`) fail as one to a full disk does:
/// the signal that would end the process without a word is blocked in this thread and in those that
/// it starts. Processes that it starts do not inherit that.
pub fn block_file_size_signal() {
    // If it cannot be blocked, everything else still works.
    let _ = SigSet::from(Signal::SIGXFSZ).thread_block();
}

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
    let late = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(GRACE);
        leave();
    });
    // Without memory for a thread nobody would end a main thread that does not return.
    if late.is_err() {
        leave();
    }
    if let Some(tasks) = &*TASKS.lock() {
        tasks.cancel_all();
    }
    progress::aside(|| out::note("zellige: interrupted, cancelling tasks (once more to end at once)"));
}

/// Ends the process. A file that is being written goes; one that is complete stays.
fn leave() -> ! {
    zellige_files::abandon();
    // Where nobody reads standard error, whoever writes to it waits: not this thread.
    let (said, heard) = std::sync::mpsc::channel();
    let speaker = std::thread::Builder::new().spawn(move || {
        progress::clear();
        out::error(&CommandError::Interrupted.to_string());
        let _ = said.send(());
    });
    if speaker.is_ok() {
        let _ = heard.recv_timeout(LAST_WORD);
    }
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

/// The same for libraries, which make runtimes themselves.
pub fn watch(tasks: Canceller) -> Box<dyn std::any::Any> {
    Box::new(cancels(tasks))
}

/// See [`cancels`].
#[derive(Debug)]
pub struct Armed;

impl Drop for Armed {
    fn drop(&mut self) {
        *TASKS.lock() = None;
    }
}
