//! Waiting for tasks with an observer.

use super::{Observer, PipelineError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use zellige_runtime::Runtime;

/// Interval between reports to the observer, which may then cancel.
const BEAT: Duration = Duration::from_millis(100);

/// Runs `body` on this thread and reports `done` meanwhile. Cancels all tasks if the observer
/// requests cancellation.
///
/// # Errors
/// The error of `body`; [`PipelineError::Cancelled`] if the observer requested cancellation.
pub(super) fn watch<R>(
    rt: &Runtime,
    observer: &dyn Observer,
    done: impl Fn() -> u64 + Send,
    body: impl FnOnce() -> Result<R, PipelineError>,
) -> Result<R, PipelineError> {
    let result = std::thread::scope(|s| {
        let (alive, ended) = mpsc::channel::<()>();
        // Without memory for this thread, the run proceeds without reports.
        let _ = std::thread::Builder::new().spawn_scoped(s, move || {
            while ended.recv_timeout(BEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                observer.advance(done());
                if observer.cancelled() {
                    rt.cancel_all();
                }
            }
            observer.advance(done());
        });
        // The channel closes at the end or in a panic, and the other thread then ends.
        let _alive = alive;
        body()
    });
    if observer.cancelled() { Err(PipelineError::Cancelled) } else { result }
}

/// Counter of finished tasks.
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
        assert!(matches!(result, Err(PipelineError::Cancelled)));
    }
}
