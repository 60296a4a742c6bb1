//! Tasks whose operands are known only at run time, on values that the runtime does not hold: the
//! interface for other languages.

use crate::body::UntypedBody;
use crate::engine::Job;
use crate::error::Error;
use crate::runtime::Runtime;
use crate::sched::ReadyTask;
use crate::submit::Submit;
use crate::task::{Handle, Only, Options, Spec, TaskRef};
use zellige_model::TaskInfo;

pub use crate::body::{Token, TokenAccess, Untyped};
pub use crate::engine::Hold;

/// Options of an untyped task.
#[derive(Default)]
pub struct UntypedOptions<'a> {
    /// Name of the kind of task, for traces and models.
    pub name: &'static str,
    /// Priority: among ready tasks, a higher one runs first.
    pub priority: i32,
    /// Tasks that have to complete first.
    pub after: &'a [TaskRef],
    /// True if [`Untyped::can_execute`] restricts it to some workers.
    pub restricted: bool,
    /// Number of floating-point operations.
    pub flops: f64,
}

/// Submits an untyped task.
///
/// # Errors
/// [`Error::Config`] if no worker may run it.
pub fn submit<T: Untyped>(rt: &Runtime, options: UntypedOptions<'_>, task: T) -> Result<TaskRef, Error> {
    let UntypedOptions { name, priority, after, restricted, flops } = options;
    let only = restricted.then(|| Box::new(Only { constrained: true, ..Only::default() }));
    let info = TaskInfo { flops, ..TaskInfo::default() };
    let options = Options { info, priority, only, after: after.to_vec(), ..Options::named(name) };
    rt.submit_spec(Spec { body: UntypedBody::new(task), options })
}

/// Returns the untyped task behind a ready one, if it is of this type.
pub fn untyped<T: Untyped>(task: &ReadyTask) -> Option<&T> {
    task.work().body().as_any()?.downcast_ref::<UntypedBody<T>>()?.task()
}

/// Opens a hold on a runtime's handles: `opened` is called when its turn comes, on the thread that
/// completes its last predecessor.
///
/// # Errors
/// Those of [`Submit::submit`].
pub fn hold(
    rt: &Runtime,
    accesses: Vec<TokenAccess>,
    after: &[TaskRef],
    opened: impl FnOnce() + Send + 'static,
) -> Result<Hold, Error> {
    Hold::new(rt.engine(), accesses, after, opened)
}

/// Ends a turn on a handle that a task has [kept](Untyped::keeps_turns).
pub fn end_turn(rt: &Runtime, handle: &Handle<Token>) {
    for task in handle.core().base.end_commute() {
        rt.engine().push_ready(task, None);
    }
    rouse(rt);
}

/// Makes workers look for tasks at once: a thread is about to wait for one.
pub fn rouse(rt: &Runtime) {
    rt.engine().workers.sleep.rouse_all();
}

/// Wakes all workers: a policy has got tasks past its `push`, or hands out tasks again.
pub fn wake(rt: &Runtime) {
    rt.engine().workers.sleep.notify_all();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;
    use crate::deps::Mode;
    use crate::error::TaskError;
    use crate::internal::handle;

    struct Task {
        accesses: Vec<TokenAccess>,
        keeps: bool,
        only: Option<usize>,
        body: Box<dyn Fn(usize) + Send + Sync>,
    }

    impl Untyped for Task {
        fn accesses(&self) -> &[TokenAccess] {
            &self.accesses
        }

        fn keeps_turns(&self) -> bool {
            self.keeps
        }

        fn can_execute(&self, worker: usize) -> bool {
            self.only.is_none_or(|only| only == worker)
        }

        fn run(&self, worker: usize) -> Result<(), TaskError> {
            (self.body)(worker);
            Ok(())
        }
    }

    fn access(handle: &Handle<Token>, mode: Mode, ordered: bool) -> TokenAccess {
        TokenAccess { handle: handle.clone(), mode, ordered }
    }

    fn task(accesses: Vec<TokenAccess>, body: impl Fn(usize) + Send + Sync + 'static) -> Task {
        Task { accesses, keeps: false, only: None, body: Box::new(body) }
    }

    fn put(rt: &Runtime, task: Task) -> TaskRef {
        let restricted = task.only.is_some();
        submit(rt, UntypedOptions { name: "task", restricted, ..UntypedOptions::default() }, task).unwrap()
    }

    #[test]
    fn writers_run_in_the_order_of_submission() {
        let rt = Runtime::builder().workers(3).build().unwrap();
        let token = handle(Some(Token));
        let seen = Arc::new(Mutex::new(Vec::new()));
        for i in 0..200 {
            let seen = Arc::clone(&seen);
            put(&rt, task(vec![access(&token, Mode::Update, true)], move |_| seen.lock().push(i)));
        }
        rt.wait_all().unwrap();
        assert_eq!(*seen.lock(), (0..200).collect::<Vec<_>>());
    }

    /// Neither commuting nor unordered tasks ever run at the same time, and an unordered one does
    /// not wait for one that came before it and is not ready.
    #[test]
    fn turns_exclude_and_do_not_order() {
        let rt = Runtime::builder().workers(3).build().unwrap();
        let token = handle(Some(Token));
        let (inside, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let body = || {
            let (inside, done) = (Arc::clone(&inside), Arc::clone(&done));
            move |_| {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
            }
        };
        let closed = hold(&rt, vec![], &[], || ()).unwrap();
        let late = task(vec![access(&token, Mode::Commute, false)], body());
        let options = UntypedOptions { name: "late", after: &[closed.task().clone()], ..Default::default() };
        submit(&rt, options, late).unwrap();
        let last = (0..300).map(|i| put(&rt, task(vec![access(&token, Mode::Commute, i % 2 == 0)], body())));
        last.collect::<Vec<_>>().iter().for_each(|task| rt.wait(task).unwrap());
        assert_eq!(done.load(Ordering::SeqCst), 300);
        drop(closed);
        rt.wait_all().unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 301);
    }

    #[test]
    fn a_kept_turn_ends_when_that_is_said() {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let token = handle(Some(Token));
        let taken = task(vec![access(&token, Mode::Commute, false)], |_| ());
        rt.wait(&put(&rt, Task { keeps: true, ..taken })).unwrap();
        let other = put(&rt, task(vec![access(&token, Mode::Commute, false)], |_| ()));
        std::thread::sleep(Duration::from_millis(5));
        assert!(!other.is_done());
        end_turn(&rt, &token);
        rt.wait(&other).unwrap();
    }

    #[test]
    fn holds_open_in_order_and_close_when_they_are_dropped() {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let token = handle(Some(Token));
        let (tell, told) = channel();
        let update = || vec![access(&token, Mode::Update, true)];
        let first = hold(&rt, update(), &[], || ()).unwrap();
        // One that is dropped before its turn opens and closes at its turn.
        let opened = tell.clone();
        drop(hold(&rt, update(), &[], move || opened.send("hold").unwrap()).unwrap());
        put(&rt, task(update(), move |_| tell.send("task").unwrap()));
        assert!(told.recv_timeout(Duration::from_millis(5)).is_err());
        drop(first);
        rt.wait_all().unwrap();
        assert_eq!(told.iter().collect::<Vec<_>>(), ["hold", "task"]);
    }

    /// The last owner of a hold may end it within the call that says that it is open.
    #[test]
    fn a_hold_may_end_while_it_opens() {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let token = handle(Some(Token));
        for _ in 0..100 {
            let kept = Arc::new(Mutex::new(None::<Hold>));
            let inside = Arc::clone(&kept);
            let made = hold(&rt, vec![access(&token, Mode::Update, true)], &[], move || {
                drop(inside.lock().take());
            });
            *kept.lock() = Some(made.unwrap());
            put(&rt, task(vec![access(&token, Mode::Update, true)], |_| ()));
            drop(kept.lock().take());
        }
        rt.wait_all().unwrap();
    }

    #[test]
    fn restricted_tasks_run_where_they_may() {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for i in 0..50 {
            let seen = Arc::clone(&seen);
            let body = task(vec![], move |worker| seen.lock().push((i % 2, worker)));
            put(&rt, Task { only: Some(i % 2), ..body });
        }
        let nowhere = Task { only: Some(2), ..task(vec![], |_| ()) };
        let refused = submit(&rt, UntypedOptions { restricted: true, ..Default::default() }, nowhere);
        assert!(matches!(refused, Err(Error::Config(_))));
        rt.wait_all().unwrap();
        assert!(seen.lock().len() == 50 && seen.lock().iter().all(|(wanted, worker)| wanted == worker));
    }
}
