//! Signals. Ctrl-C cancels the tasks, and the main thread then returns. A second Ctrl-C, or 700 ms
//! without a return, ends the process directly. Work that keeps what it has done ([`keeps`]) ends
//! by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use parking_lot::Mutex;
use zellige_runtime::Canceller;

use crate::exit::{self, CommandError};
use crate::{bar, out};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static TASKS: Mutex<Option<Canceller>> = Mutex::new(None);
/// Whether the work at hand ends by itself after Ctrl-C, and keeps what it has done.
static KEEPS: AtomicBool = AtomicBool::new(false);

/// Time limit for the main thread to return, before the process ends without it.
const GRACE: Duration = Duration::from_millis(700);

/// Time limit for the output of the last line.
const LAST_WORD: Duration = Duration::from_millis(200);

/// Makes a write beyond the limit on file sizes (`ulimit -f`) fail like one to a full disk. The
/// signal that would end the process silently is blocked in this thread and in the threads that it
/// starts. Child processes do not inherit this.
pub fn block_file_size_signal() {
    // If the signal cannot be blocked, everything else still works.
    let _ = SigSet::from(Signal::SIGXFSZ).thread_block();
}

/// Installs the handler of Ctrl-C.
///
/// # Errors
/// The system refuses the handler.
pub fn install() -> anyhow::Result<()> {
    Ok(ctrlc::set_handler(on_signal)?)
}

fn on_signal() {
    if INTERRUPTED.swap(true, Ordering::SeqCst) {
        leave();
    }
    if is_kept() {
        return out::note("zellige: interrupted, keeping what is done (press Ctrl-C again to end at once)");
    }
    let late = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(GRACE);
        leave();
    });
    // Without memory for this thread, nothing would end a main thread that does not return.
    if late.is_err() {
        leave();
    }
    if let Some(tasks) = &*TASKS.lock() {
        tasks.cancel_all();
    }
    out::note("zellige: interrupted, cancelling tasks (press Ctrl-C again to end at once)");
}

/// Ends the process. A file that is being written is removed; a complete one stays.
fn leave() -> ! {
    zellige_files::abandon();
    // A write to standard error blocks if nobody reads it, so another thread does it.
    let (said, heard) = std::sync::mpsc::channel();
    let speaker = std::thread::Builder::new().spawn(move || {
        bar::end();
        out::error(&CommandError::Interrupted.to_string());
        let _ = said.send(());
    });
    if speaker.is_ok() {
        let _ = heard.recv_timeout(LAST_WORD);
    }
    std::process::exit(i32::from(exit::INTERRUPTED));
}

/// Returns whether Ctrl-C was pressed.
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

/// Makes the first Ctrl-C from here on cancel nothing, and end nothing after a time: the work at
/// hand looks at [`seen`], ends soon, and keeps what it has done.
pub fn keeps() {
    KEEPS.store(true, Ordering::SeqCst);
}

/// Returns whether the work at hand keeps what it has done ([`keeps`]).
pub fn is_kept() -> bool {
    KEEPS.load(Ordering::SeqCst)
}

/// Makes Ctrl-C cancel these tasks until the guard is dropped.
pub fn cancels(tasks: Canceller) -> Armed {
    if seen() {
        tasks.cancel_all();
    }
    *TASKS.lock() = Some(tasks);
    Armed
}

/// Makes Ctrl-C cancel these tasks: [`cancels`] with a boxed guard, for libraries that make
/// runtimes themselves.
pub fn watch(tasks: Canceller) -> Box<dyn std::any::Any> {
    Box::new(cancels(tasks))
}

/// Guard of the tasks that Ctrl-C cancels; see [`cancels`].
#[derive(Debug)]
pub struct Armed;

impl Drop for Armed {
    fn drop(&mut self) {
        *TASKS.lock() = None;
    }
}
