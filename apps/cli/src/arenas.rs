//! Limits the address space of the C library's allocator if a limit (`ulimit -v`) makes it scarce.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, getrlimit};

/// Environment variable that the C library reads when a process starts (`mallopt(3)`).
const VARIABLE: &str = "MALLOC_ARENA_MAX";

/// Bytes of address space that glibc reserves for the arena of a thread, independent of its
/// allocations.
const ARENA: u64 = 64 << 20;

/// Fraction of the limit that arenas may take, as a divisor.
const SHARE: u64 = 16;

/// Restarts this process with the number of arenas that a limit of address space allows. By default
/// glibc makes eight arenas for each core. They would take the address space that is planned for
/// matrices, and the allocation that fails would depend on the order of the threads.
pub fn limit() {
    let Some(bytes) = getrlimit(Resource::As).current else { return };
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    let arenas = (bytes / SHARE / ARENA).max(1);
    let mut words = std::env::args_os();
    let Some(name) = words.next() else { return };
    // `exec` returns only if it failed. Then the process continues unchanged.
    let _ = Command::new("/proc/self/exe").arg0(name).args(words).env(VARIABLE, arenas.to_string()).exec();
}
