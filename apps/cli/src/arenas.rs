//! Address space of the C library's allocator, where a limit (`ulimit -v`) makes it scarce.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, getrlimit};

/// What the C library reads when a process starts (`mallopt(3)`).
const VARIABLE: &str = "MALLOC_ARENA_MAX";

/// Bytes of address space that glibc takes for the arena of a thread, whatever it allocates.
const ARENA: u64 = 64 << 20;

/// The part of a limit that arenas may take.
const SHARE: u64 = 16;

/// Begins this process anew with as many arenas as a limit of address space allows. By default
/// there are eight for each core: they would take what is planned for matrices, and which
/// allocation fails would depend on which thread came first.
pub fn limit() {
    let Some(bytes) = getrlimit(Resource::As).current else { return };
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    let arenas = (bytes / SHARE / ARENA).max(1);
    let mut words = std::env::args_os();
    let Some(name) = words.next() else { return };
    // It returns only where it failed: then everything goes on as it is.
    let _ = Command::new("/proc/self/exe").arg0(name).args(words).env(VARIABLE, arenas.to_string()).exec();
}
