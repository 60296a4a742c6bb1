//! Waiting for tasks while somebody watches.

use super::{Error, Observer};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use zellige_runtime::Runtime;

/// How often the observer hears of progress and is asked whether to stop.
const BEAT: Duration = Duration::from_millis(100);

/// Runs `body` on this thread, reports `done` meanwhile, and cancels what is in flight if the
/// observer wants to stop.
///
/// # Errors
/// What `body` returns; [`Error::Cancelled`] if the observer wanted to stop.
pub(super) fn watch<R>(
    rt: &Runtime,
    observer: &dyn Observer,
    done: impl Fn() -> u64 + Send,
    body: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    let result = std::thread::scope(|s| {
        let (alive, ended) = mpsc::channel::<()>();
        // Without memory for a thread nobody watches.
        let _ = std::thread::Builder::new().spawn_scoped(s, move || {
            while ended.recv_timeout(BEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                observer.advance(done());
                if observer.cancelled() {
                    rt.cancel_all();
                }
            }
            observer.advance(done());
        });
        // Dropped at the end or by a panic: either way the other thread ends.
        let _alive = alive;
        body()
    });
    if observer.cancelled() { Err(Error::Cancelled) } else { result }
}

/// Counts finished tasks.
#[derive(Debug, Clone, Default)]
pub(super) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(super) fn bump(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use zellige_runtime::Submit;

    #[derive(Default)]
    struct Notes(Mutex<Vec<u64>>, bool);

    impl Observer for Notes {
        fn stage(&self, _: &str, _: u64) {}
        fn advance(&self, done: u64) {
            self.0.lock().unwrap().push(done);
        }
        fn warn(&self, _: &str) {}
        fn cancelled(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn the_last_word_is_the_final_count() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let (notes, counter) = (Notes::default(), Counter::default());
        let shared = counter.clone();
        watch(
            &rt,
            &notes,
            move || shared.get(),
            || {
                counter.bump();
                counter.bump();
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(notes.0.lock().unwrap().last(), Some(&2));
    }

    #[test]
    fn a_wish_to_stop_cancels_what_waits() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let notes = Notes(Mutex::default(), true);
        let result = watch(
            &rt,
            &notes,
            || 0,
            || {
                for _ in 0..1000 {
                    rt.task("nap")
                        .operands(())
                        .cpu(|()| std::thread::sleep(Duration::from_millis(5)))
                        .submit()?;
                }
                Ok(rt.wait_all()?)
            },
        );
        assert!(matches!(result, Err(Error::Cancelled)));
    }
}
