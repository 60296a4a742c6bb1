//! Executors: storage of vectors and execution of steps in one process, or in several.

use std::fmt;
use std::time::Duration;

use zellige_runtime::data::Chunk;
use zellige_runtime::internal::ranks::number_of;
use zellige_runtime::{Data, Handle, Recorder, Runtime, Session, Submit, update};

use crate::error::Error;

/// A function that changes numbers in place.
pub type Change = Box<dyn Fn(&mut [f64]) + Send + Sync>;

/// Executor of solvers, like those of Ginkgo: a [`Runtime`], or any other [`Session`]. Every
/// session is an executor, so a `&Runtime` can be passed wherever a `&dyn Executor` is required.
///
/// On several ranks (`zellige_mpi::Cluster`) all ranks make the same calls. Part `i` of every
/// vector is stored on [rank](crate::Space::rank_of) `i * ranks / parts`, tasks run on the rank
/// that owns their output, and each rank sees the same numbers in the same order. Results are
/// bitwise identical for any number of ranks.
///
/// ```
/// use zellige_krylov::{Executor, Space, cg, from_fn};
/// use zellige_runtime::Runtime;
///
/// fn tenth(executor: &dyn Executor) -> Result<f64, zellige_krylov::Error> {
///     let a = from_fn(&Space::new(1, 0), |x: &[f64], y: &mut [f64]| y[0] = 10.0 * x[0]);
///     Ok(cg(executor, &a, &[1.0], 1e-12)?[0])
/// }
/// assert!((tenth(&Runtime::new()?)? - 0.1).abs() < 1e-12);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
pub trait Executor: Sync {
    /// Returns the runtime of this rank.
    fn runtime(&self) -> &Runtime;

    /// Returns this rank's number, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn ranks(&self) -> usize;

    /// Returns the first rank's value, on all ranks: for decisions that depend on time.
    ///
    /// # Errors
    /// A rank that is not reachable any more.
    fn agree(&self, value: u64) -> Result<u64, Error>;

    /// Registers words on every rank; see [`Session::register_replicated`].
    #[doc(hidden)]
    fn words(&self, words: Vec<f64>) -> Handle<Vec<f64>>;

    /// Registers numbers that `rank` keeps.
    #[doc(hidden)]
    fn words_on(&self, rank: usize, words: Vec<f64>) -> Handle<Vec<f64>>;

    /// Registers a part of a vector that `rank` keeps.
    #[doc(hidden)]
    fn part_on(&self, rank: usize, part: Chunk<f64>) -> Handle<Chunk<f64>>;

    /// Keeps a handle local; see [`Session::register_local`].
    #[doc(hidden)]
    fn keep_local(&self, handle: u64);

    /// Records a graph; see `record`, which takes any function.
    #[doc(hidden)]
    fn record_with<'s>(
        &'s self,
        build: &mut dyn FnMut(&Recorder) -> Result<(), Error>,
    ) -> Result<Replay<'s>, Error>;

    /// Changes numbers in place, after all submitted tasks on them.
    #[doc(hidden)]
    fn change(&self, words: &Handle<Vec<f64>>, change: Change) -> Result<(), Error>;

    /// Changes a part of a vector.
    #[doc(hidden)]
    fn change_part(&self, part: &Handle<Chunk<f64>>, change: Change) -> Result<(), Error>;

    /// Looks at numbers, after all tasks on them that have been submitted.
    #[doc(hidden)]
    fn look(&self, words: &Handle<Vec<f64>>, at: &mut dyn FnMut(&[f64])) -> Result<(), Error>;

    /// Reads a part of a vector.
    #[doc(hidden)]
    fn look_at_part(&self, part: &Handle<Chunk<f64>>, at: &mut dyn FnMut(&[f64])) -> Result<(), Error>;
}

impl dyn Executor + '_ {
    /// Records a graph; this rank replays its part of it.
    ///
    /// # Errors
    /// Those of `build`.
    pub fn record<'s>(
        &'s self,
        build: impl FnOnce(&Recorder) -> Result<(), Error>,
    ) -> Result<Replay<'s>, Error> {
        let mut build = Some(build);
        self.record_with(&mut |recorder| build.take().map_or(Ok(()), |build| build(recorder)))
    }

    /// Returns true if a single device works on vectors: all parts together occupy it, and one of
    /// them does not. This number of bytes has to fit its memory twice.
    #[doc(hidden)]
    pub fn goes_at_once(&self, bytes: u64) -> bool {
        if self.ranks() > 1 {
            return false;
        }
        let nodes = self.runtime().memory();
        let mut devices = nodes.iter().filter(|node| node.device.is_some());
        let (Some(device), None) = (devices.next(), devices.next()) else { return false };
        device.capacity.is_none_or(|capacity| bytes <= capacity / 2)
    }

    /// Returns the first rank's time, on all ranks.
    ///
    /// # Errors
    /// Those of [`agree`](Executor::agree).
    pub fn agree_on(&self, time: Duration) -> Result<Duration, Error> {
        Ok(Duration::from_nanos(self.agree(time.as_nanos() as u64)?))
    }

    /// Gives a value that every rank has a handle: see [`Session::register_local`].
    pub fn register_local<D: Data>(&self, value: D) -> Handle<D> {
        let handle = self.runtime().register(value);
        self.keep_local(number_of(&handle));
        handle
    }

    /// Gives a value that only the tasks of `rank` use a handle. Other ranks do not make it.
    pub fn register_local_on<D: Data>(&self, rank: usize, make: impl FnOnce() -> D) -> Handle<D> {
        if rank == self.rank() {
            return self.register_local(make());
        }
        let handle = self.runtime().register_empty();
        self.keep_local(number_of(&handle));
        handle
    }
}

/// A recorded graph on the handles of its recording.
///
/// ```
/// use zellige_krylov::{Error, Executor, Replay};
/// use zellige_runtime::{Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(1.0f64);
/// let executor: &dyn Executor = &rt;
/// let double: Replay<'_> = executor.record(|graph| {
///     graph.task("double").operands((update(&x),)).cpu(|(x,)| *x *= 2.0).submit()?;
///     Ok(())
/// })?;
/// (0..3).try_for_each(|_| double.run())?;
/// assert_eq!(rt.take(x)?, 8.0);
/// # Ok::<(), Error>(())
/// ```
pub struct Replay<'s>(Box<dyn Fn() -> Result<(), Error> + 's>);

impl Replay<'_> {
    /// Runs it, as if its tasks were submitted here.
    ///
    /// # Errors
    /// Those of submission.
    pub fn run(&self) -> Result<(), Error> {
        (self.0)()
    }
}

impl fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replay")
    }
}

/// Ranks of a space's parts are those that there are.
const THERE: &str = "a rank that there is";

impl<S: Session + Sync> Executor for S {
    fn runtime(&self) -> &Runtime {
        Session::runtime(self)
    }

    fn rank(&self) -> usize {
        Session::rank(self)
    }

    fn ranks(&self) -> usize {
        Session::ranks(self)
    }

    fn agree(&self, value: u64) -> Result<u64, Error> {
        Ok(Session::agree(self, value)?)
    }

    fn words(&self, words: Vec<f64>) -> Handle<Vec<f64>> {
        self.register_replicated(words)
    }

    fn words_on(&self, rank: usize, words: Vec<f64>) -> Handle<Vec<f64>> {
        self.register_on(rank, || words).expect(THERE)
    }

    fn part_on(&self, rank: usize, part: Chunk<f64>) -> Handle<Chunk<f64>> {
        self.register_on(rank, || part).expect(THERE)
    }

    fn keep_local(&self, handle: u64) {
        Session::keep_local(self, handle);
    }

    fn record_with<'s>(
        &'s self,
        build: &mut dyn FnMut(&Recorder) -> Result<(), Error>,
    ) -> Result<Replay<'s>, Error> {
        let recording = Session::record(self, |recorder| build(recorder))?;
        Ok(Replay(Box::new(move || Ok(Session::replay(self, &recording)?))))
    }

    fn change(&self, words: &Handle<Vec<f64>>, change: Change) -> Result<(), Error> {
        if Session::ranks(self) == 1 {
            change(&mut Session::runtime(self).write(words)?);
            return Ok(());
        }
        self.task("change").operands((update(words),)).cpu(move |(words,)| change(words)).submit()?;
        Ok(())
    }

    fn change_part(&self, part: &Handle<Chunk<f64>>, change: Change) -> Result<(), Error> {
        if Session::ranks(self) == 1 {
            change(Session::runtime(self).write(part)?.view_mut());
            return Ok(());
        }
        self.task("change").operands((update(part),)).cpu(move |(part,)| change(part)).submit()?;
        Ok(())
    }

    fn look(&self, words: &Handle<Vec<f64>>, at: &mut dyn FnMut(&[f64])) -> Result<(), Error> {
        at(&self.read(words)?);
        Ok(())
    }

    fn look_at_part(&self, part: &Handle<Chunk<f64>>, at: &mut dyn FnMut(&[f64])) -> Result<(), Error> {
        at(&self.read(part)?.view());
        Ok(())
    }
}
