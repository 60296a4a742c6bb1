//! Counted views of values: a wrong grant is an error that names the participants, and not
//! undefined behaviour.
//!
//! The dependency engine and the memory manager grant accesses; tasks, guards and transfers turn a
//! grant into views for the time in which they may touch the value. Views are counted, not grants:
//! a launch in stream order shares its place with an earlier one legally, since the host touches
//! the place only while it queues operations.
//!
//! Without the feature `check-borrows`, except in tests, nothing here takes space or time.

#[cfg(any(test, feature = "check-borrows"))]
pub(crate) use counted::{Version, View, Views, WrongGrant};
#[cfg(not(any(test, feature = "check-borrows")))]
pub(crate) use uncounted::{Version, View, Views, WrongGrant};

/// Kind of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Shared,
    Exclusive,
}

/// Owner of a view: a task, a guard of a caller, or the runtime itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Viewer {
    pub(crate) name: &'static str,
    pub(crate) coords: Option<[u32; 3]>,
    /// Number of the task.
    pub(crate) task: Option<u64>,
}

impl Viewer {
    /// Creates a viewer for an operation of the runtime outside of any task.
    pub(crate) fn runtime(name: &'static str) -> Self {
        Viewer { name, coords: None, task: None }
    }
}

/// Returns the view that was granted to the runtime itself; panics for a wrong grant.
#[inline]
pub(crate) fn granted(view: Result<View, WrongGrant>) -> View {
    view.unwrap_or_else(|wrong| panic!("{wrong}"))
}

#[cfg(any(test, feature = "check-borrows"))]
mod counted {
    use std::fmt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use parking_lot::Mutex;
    use smallvec::SmallVec;

    use super::{Kind, Viewer};
    use crate::error::format_coords;

    /// Number of exclusive views of a handle's values so far, by tasks and guards: a transfer does
    /// not make a new version.
    #[derive(Debug, Default)]
    pub(crate) struct Version(AtomicU64);

    /// Live views of a value, each with its kind and viewer.
    type Live = SmallVec<[(Kind, Viewer); 4]>;

    /// The live views of one value.
    #[derive(Clone, Default)]
    pub(crate) struct Views(Arc<Mutex<Live>>);

    /// A live view.
    pub(crate) struct View {
        views: Views,
        kind: Kind,
        by: Viewer,
    }

    /// Error for views that must not coexist: a message with the viewers and the value.
    #[derive(Debug)]
    pub(crate) struct WrongGrant(String);

    impl Views {
        pub(crate) fn begin(
            &self,
            kind: Kind,
            (version, name): (&Version, impl FnOnce() -> String),
            by: Viewer,
        ) -> Result<View, WrongGrant> {
            let mut live = self.0.lock();
            let beside = live.iter().find(|(other, _)| kind == Kind::Exclusive || *other == Kind::Exclusive);
            if let Some(&(other_kind, other)) = beside {
                let version = version.0.load(Ordering::Relaxed);
                return Err(WrongGrant(format!(
                    "{by} was granted {kind} view of {}, version {version}, while {other} has {other_kind} one: the runtime ordered \
                     them wrongly, which is a bug in zellige-runtime",
                    name()
                )));
            }
            if kind == Kind::Exclusive && by.task.is_some() {
                version.0.fetch_add(1, Ordering::Relaxed);
            }
            live.push((kind, by));
            Ok(View { views: self.clone(), kind, by })
        }
    }

    impl View {
        /// True: views are counted.
        pub(crate) const COUNTS: bool = true;

        /// Ends the view.
        pub(crate) fn end(self) {}
    }

    impl Drop for View {
        fn drop(&mut self) {
            let mut live = self.views.0.lock();
            let mine = live.iter().position(|view| *view == (self.kind, self.by));
            live.swap_remove(mine.expect("counted when it began"));
        }
    }

    impl fmt::Display for Kind {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(match self {
                Kind::Shared => "a shared",
                Kind::Exclusive => "an exclusive",
            })
        }
    }

    impl fmt::Display for Viewer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}", self.name)?;
            if let Some(coords) = self.coords {
                write!(f, "[{}]", format_coords(coords))?;
            }
            if let Some(task) = self.task {
                write!(f, " (task {task})")?;
            }
            Ok(())
        }
    }

    impl fmt::Display for WrongGrant {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }
}

#[cfg(not(any(test, feature = "check-borrows")))]
mod uncounted {
    use std::fmt;

    use super::{Kind, Viewer};

    /// Empty, since views are not counted.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Version {}

    /// Empty, since views are not counted.
    #[derive(Default)]
    pub(crate) struct Views {}

    /// Empty, since views are not counted.
    pub(crate) struct View;

    /// Uninhabited: wrong grants are not detected.
    #[derive(Debug)]
    pub(crate) enum WrongGrant {}

    impl Views {
        #[inline]
        pub(crate) fn begin(
            &self,
            _: Kind,
            (Version {}, _): (&Version, impl FnOnce() -> String),
            _: Viewer,
        ) -> Result<View, WrongGrant> {
            Ok(View)
        }
    }

    impl View {
        /// False: views are not counted.
        pub(crate) const COUNTS: bool = false;

        /// Ends the view.
        #[inline]
        pub(crate) fn end(self) {}
    }

    impl fmt::Display for WrongGrant {
        fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{AnyHandle, Handle};
    use crate::{Emulated, Error, Runtime, Submit, read, update};

    fn by(name: &'static str, task: u64) -> Viewer {
        Viewer { name, coords: Some([1, 2, u32::MAX]), task: Some(task) }
    }

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let handle = Handle::new(Some(vec![1.0f64])).named("A[1, 2]");
        let (cell, base) = (&handle.core().cell, handle.core().base());
        let view = |kind, name, task| cell.view(kind, base, by(name, task));
        {
            let _readers = [1, 2, 3].map(|task| view(Kind::Shared, "gemm", task).expect("readers share"));
            let wrong = view(Kind::Exclusive, "trsm", 4).err().expect("beside readers").to_string();
            assert!(
                wrong.starts_with("trsm[1, 2] (task 4) was granted an exclusive view of A[1, 2], version 0"),
                "{wrong}"
            );
            assert!(wrong.contains("while gemm[1, 2] (task 1) has a shared one"), "{wrong}");
        }
        {
            let _writer = view(Kind::Exclusive, "trsm", 4).expect("the readers have gone");
            for kind in [Kind::Shared, Kind::Exclusive] {
                let wrong = view(kind, "syrk", 5).err().expect("beside a writer").to_string();
                assert!(
                    wrong.contains("version 1, while trsm[1, 2] (task 4) has an exclusive one"),
                    "{wrong}"
                );
            }
        }
        assert!(view(Kind::Shared, "gemm", 6).is_ok());
    }

    /// Creates a view that the runtime does not know of, as a wrong grant would: the task that
    /// conflicts with it is named.
    fn run_into(rt: &Runtime, kind: Kind, submit: impl FnOnce(&Handle<Vec<f64>>)) -> String {
        let handle = rt.register(vec![1.0f64; 4]).named("x");
        // With devices, the first task hands the value over to the memory manager.
        rt.task("first").operands((update(&handle),)).cpu(|_| ()).on_worker(0).submit().unwrap();
        rt.wait_all().unwrap();
        let core = handle.core();
        let cells = core.cells_on_host();
        let cells =
            if cells.is_empty() { vec![&core.cell] } else { cells.iter().map(|cell| &**cell).collect() };
        let _wrong: Vec<View> =
            cells.iter().map(|cell| granted(cell.view(kind, core.base(), by("other", 77)))).collect();
        submit(&handle);
        match rt.wait_all() {
            Err(Error::Broken { cause }) => cause,
            other => panic!("a wrong grant that nobody saw: {other:?}"),
        }
    }

    #[test]
    fn a_task_that_meets_a_wrong_grant_is_named_with_handle_and_version() {
        let runtimes = || {
            [
                Runtime::builder().workers(1).build().unwrap(),
                Runtime::builder().workers(1).device(Emulated::new(1 << 20)).build().unwrap(),
            ]
        };
        for rt in runtimes() {
            let cause = run_into(&rt, Kind::Shared, |x| {
                rt.task("writer").operands((update(x),)).cpu(|_| ()).on_worker(0).submit().unwrap();
            });
            let said = "writer (task";
            assert!(
                cause.starts_with(said) && cause.contains("an exclusive view of x, version 1"),
                "{cause}"
            );
            assert!(cause.contains("other[1, 2] (task 77) has a shared one"), "{cause}");
        }
        for rt in runtimes() {
            let cause = run_into(&rt, Kind::Exclusive, |x| {
                rt.task("reader").operands((read(x),)).cpu(|_| ()).on_worker(0).submit().unwrap();
            });
            assert!(
                cause.starts_with("reader (task") && cause.contains("a shared view of x, version 2"),
                "{cause}"
            );
        }
    }

    #[test]
    fn a_transfer_that_meets_a_wrong_grant_ends_the_runtime_with_the_handles_name() {
        let rt = Runtime::builder().workers(1).device(Emulated::new(1 << 20)).build().unwrap();
        let cause = run_into(&rt, Kind::Exclusive, |x| {
            rt.task("reader").operands((read(x),)).cpu(|_| ()).on_worker(1).submit().unwrap();
        });
        assert!(cause.starts_with("a transfer was granted a shared view of x, version 2"), "{cause}");
    }

    #[test]
    fn a_caller_who_meets_a_wrong_grant_is_told() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let handle = rt.register(vec![1.0f64; 4]).named("x");
        let _wrong = granted(handle.core().cell.view(Kind::Exclusive, handle.core().base(), by("other", 77)));
        let read = crate::error::caught(|| rt.read(&handle).map(drop));
        let said = read.expect_err("a wrong grant that nobody saw");
        assert!(said.contains("a shared view of x, version 1, while other[1, 2] (task 77)"), "{said}");
    }
}
