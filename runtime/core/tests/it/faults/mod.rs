//! Wrong use and failures: each is an error that names the object, and the runtime stays usable.

mod failures;
mod lifetimes;
mod misuse;
mod policies;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use zellige_runtime::*;

/// Runs `test` in a thread of its own: a hang fails instead of blocking the other tests.
fn within_seconds(seconds: u64, test: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    if let Err(mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(Duration::from_secs(seconds)) {
        panic!("hangs: not done after {seconds} s");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn rt() -> Runtime {
    Runtime::builder().workers(2).build().unwrap()
}

/// A value that counts its drops, and panics on conversion.
struct Counted(u64, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

impl Data for Counted {
    type Ref<'v> = &'v u64;
    type Mut<'v> = &'v mut u64;

    fn view(&self) -> &u64 {
        &self.0
    }

    fn view_mut(&mut self) -> &mut u64 {
        &mut self.0
    }

    fn meta(&self) -> Meta {
        Meta { bytes: 8, ..Meta::default() }
    }

    fn convert(&self, _to: Format) -> Option<Self> {
        panic!("no such number")
    }
}
