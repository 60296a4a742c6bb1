//! Standard output, which may close at any time.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;

use crate::bar;

/// The number of this rank. Ranks other than 0 print errors only.
static RANK: AtomicUsize = AtomicUsize::new(0);

/// Suppresses all output of this process except errors, for ranks other than the first.
#[cfg(feature = "mpi")]
pub fn only_errors(rank: usize) {
    RANK.store(rank, Ordering::Relaxed);
}

fn is_mute() -> bool {
    RANK.load(Ordering::Relaxed) > 0
}

/// Set once standard output is closed by its reader (`zellige ... | head`).
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Prints to standard output. If the reader has closed it, this is no error: work that writes files
/// continues.
///
/// # Errors
/// Standard output is on a full disk, or fails for another reason.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

/// Prints bytes to standard output, like [`print()`].
///
/// # Errors
/// The errors of [`print()`].
pub fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    if is_mute() || CLOSED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        other => other.context("cannot write to standard output"),
    }
}

/// Prints lines to standard error, with the progress bar out of the way. It is no failure if nobody
/// reads them.
pub fn note(text: &str) {
    if !is_mute() {
        let _ = bar::aside(|| writeln!(io::stderr().lock(), "{text}"));
    }
}

/// Prints an error to standard error.
pub fn error(text: &str) {
    let (red, plain) = if colours(&io::stderr()) { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
    let who = if is_mute() { format!("rank {}: ", RANK.load(Ordering::Relaxed)) } else { String::new() };
    let _ = writeln!(io::stderr().lock(), "{red}error:{plain} {who}{text}");
}

/// Returns whether colours may be used on a stream: only on a terminal, unless `NO_COLOR` is set or
/// the terminal is dumb.
pub fn colours(stream: &impl IsTerminal) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v: std::ffi::OsString| !v.is_empty());
    stream.is_terminal() && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
