//! Tasks that a scope's thread submits and other threads run, and numbers that are followed.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;

use crate::Stochastic;
use crate::sample::Sample;
use crate::samples::Samples;
use crate::scope::{Scope, current};

/// A task that is submitted in a scope, and runs on any thread, once or several times.
///
/// Its number is that of its submission in the scope; the replay number counts its runs. So its
/// random bits depend on neither workers nor time, if one thread submits and runs follow one
/// another.
///
/// ```
/// use zellige_stochastic::{Scope, Stochastic, SubmittedTask};
///
/// let third = || Stochastic::<f64>::new(1.0) / 3.0;
/// let run = || {
///     let task = Scope::new(5).run(|| SubmittedTask::next().expect("in a scope"));
///     std::thread::scope(|s| s.spawn(|| [task.run(third), task.run(third)]).join()).expect("no panic")
/// };
/// let (first, second) = (run(), run());
/// assert_eq!(first[0].samples(), second[0].samples());
/// assert_ne!(first[0].samples(), first[1].samples());
/// ```
#[derive(Debug)]
pub struct SubmittedTask {
    scope: Scope,
    number: u64,
    runs: AtomicU64,
    is_repeated: bool,
}

impl SubmittedTask {
    /// The next task of this thread's scope; `None` outside of all scopes.
    pub fn next() -> Option<SubmittedTask> {
        let scope = current()?;
        let number = 1 + scope.shared.submitted.fetch_add(1, Ordering::Relaxed);
        Some(SubmittedTask { scope, number, runs: AtomicU64::new(0), is_repeated: false })
    }

    /// The task, if all ranks run it: the first of them [counts](Scope::on_rank).
    #[must_use]
    pub fn on_all_ranks(self) -> SubmittedTask {
        SubmittedTask { is_repeated: true, ..self }
    }

    /// Runs `f` as the task.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        if self.is_repeated {
            self.scope.repeated(self.number, run, f)
        } else {
            self.scope.task(self.number, run, f)
        }
    }
}

/// Notes the digits of a number that is computed again and again under this name, in the scope of
/// this thread.
pub fn follow<T: Sample, S: Samples>(name: &'static str, number: Stochastic<T, S>) {
    if let Some(scope) = current() {
        scope.shared.followed.lock().entry(name).or_default().push(number.digits() as u8);
    }
}

impl Scope {
    /// Removes the digits of the numbers that were [followed](follow). Returns them by name, in the
    /// order of their computation.
    pub fn take_followed(&self) -> BTreeMap<&'static str, Vec<u8>> {
        core::mem::take(&mut *self.shared.followed.lock())
    }
}
