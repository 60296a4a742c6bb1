//! The start of a thread if a limit of address space (`ulimit -v`) is nearly reached.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

use crate::topology::free_address_space;

/// Stack of a thread that runs no bodies of tasks \[bytes\].
pub const SMALL_STACK: usize = 2 << 20;

/// Address space of a thread beside its stack [bytes]: the stack of its signal handlers, its
/// thread-local values, and what it allocates before it does any work.
const BESIDE_STACK: u64 = 1 << 20;

/// Starts a thread that has `stack` bytes of stack.
///
/// A thread maps the stack of its signal handlers itself, and the standard library aborts the
/// process if that fails. Under a limit of address space, this function therefore checks that there
/// is room for it, and does not return before the thread has it.
///
/// # Errors
/// The system starts no thread, or the limit of address space leaves no room for one.
pub fn start_thread<T: Send + 'static>(
    name: String,
    stack: usize,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let builder = Builder::new().name(name).stack_size(stack);
    let Some(free) = free_address_space() else { return builder.spawn(body) };
    check_room(free, stack)?;
    let (started, wait) = sync_channel(1);
    let thread = builder.spawn(move || {
        let _ = started.send(());
        body()
    })?;
    // It fails only if the thread has ended.
    let _ = wait.recv();
    Ok(thread)
}

fn check_room(free: u64, stack: usize) -> io::Result<()> {
    let needed = stack as u64 + BESIDE_STACK;
    if free >= needed {
        return Ok(());
    }
    let (needed, left) = (needed >> 10, free >> 10);
    let what = format!(
        "not enough memory: {needed} kB needed, and the limit of address space (ulimit -v) leaves {left} kB"
    );
    Err(io::Error::new(io::ErrorKind::OutOfMemory, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_needs_its_stack_and_a_megabyte() {
        assert!(check_room(3 << 20, 2 << 20).is_ok());
        let refused = check_room((3 << 20) - 1, 2 << 20).expect_err("too little room").to_string();
        assert!(refused.contains("3072 kB needed") && refused.contains("leaves 3071 kB"), "{refused}");
    }
}
