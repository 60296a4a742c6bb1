//! Replacement of a reconstructor between two frames.

use super::Packed;
use super::gpu::{GpuPlace, Placed};
use crate::Error;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

/// Reconstructors in use, on offer and out of use.
#[derive(Debug)]
pub(super) struct Store {
    /// Version that is offered, to be looked at without the lock.
    offered: AtomicU64,
    /// Version in use.
    used: AtomicU64,
    all: Mutex<All>,
    /// GPU to which reconstructors are copied when they are offered.
    gpu: Option<GpuPlace>,
}

#[derive(Debug)]
struct All {
    current: Arc<Placed>,
    offer: Option<Arc<Placed>>,
    /// Freed by the next offer, not within a frame.
    old: Option<Arc<Placed>>,
}

impl Store {
    pub(super) fn new(current: Arc<Placed>, gpu: Option<GpuPlace>) -> Self {
        let all = Mutex::new(All { current, offer: None, old: None });
        Store { offered: AtomicU64::new(0), used: AtomicU64::new(0), all, gpu }
    }

    /// Takes the offered matrix, between two frames. If the lock is held by an offer at this
    /// moment, the next frame takes it.
    pub(super) fn take(&self, matrix: &mut Arc<Placed>) {
        // Relaxed: the lock orders the matrix.
        if self.offered.load(Relaxed) == self.used.load(Relaxed) {
            return;
        }
        let Ok(mut all) = self.all.try_lock() else { return };
        if let Some(new) = all.offer.take() {
            all.current = Arc::clone(&new);
            all.old = Some(std::mem::replace(matrix, new));
            // Helpers see it with the first step of the frame, which is published later.
            self.used.store(self.offered.load(Relaxed), Release);
        }
    }

    /// Replaces a helper's matrix at the beginning of a frame if another is used.
    pub(super) fn follow(&self, version: &mut u64, matrix: &mut Arc<Placed>) {
        let used = self.used.load(Acquire);
        if *version != used {
            let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            *matrix = Arc::clone(&all.current);
            *version = used;
        }
    }

    /// Returns the version in use.
    pub(super) fn version(&self) -> u64 {
        self.used.load(Acquire)
    }
}

/// Offers reconstructors to an [`Rtc`](super::Rtc), from any thread.
#[derive(Debug, Clone)]
pub struct Swapper(pub(super) Arc<Store>);

impl Swapper {
    /// Offers a reconstructor, which the next frame to begin uses. An offer that no frame has used
    /// yet is replaced. Versions begin at 1 and rise; `checksum` is what
    /// [`Packed::checksum`] was where the matrix was made.
    ///
    /// # Errors
    /// The shape differs from that in use, the version does not rise, the checksum differs, or
    /// a GPU multiplies whose memory is full, or the matrix is in float32. The frames then go on as
    /// before.
    pub fn offer(&self, matrix: Packed, version: u64, checksum: u64) -> Result<(), Error> {
        let found = matrix.checksum();
        if found != checksum {
            let problem = format!("its checksum is {found:016x}, not {checksum:016x}: send it again");
            return Err(Error::numeric(format!("reconstructor {version}"), problem));
        }
        let all = || self.0.all.lock().unwrap_or_else(PoisonError::into_inner);
        let ((rows, cols), (r, c)) = (all().current.shape(), matrix.shape());
        if (rows, cols) != (r, c) {
            let problem = format!("{r} x {c} instead of {rows} x {cols}");
            return Err(Error::shape(format!("reconstructor {version}"), problem));
        }
        self.check_version(version)?;
        // The matrix that is out of use is freed first, without the lock: a GPU's memory may not
        // hold three.
        let old = all().old.take();
        drop(old);
        let matrix = Arc::new(Placed::new(matrix, self.0.gpu.as_ref())?);
        let mut all = all();
        // Another thread may have offered one meanwhile.
        self.check_version(version)?;
        let replaced = (all.offer.replace(matrix), all.old.take());
        self.0.offered.store(version, Release);
        // Memory is freed without the lock.
        drop(all);
        drop(replaced);
        Ok(())
    }

    /// Refuses a version that is not above all that were offered.
    fn check_version(&self, version: u64) -> Result<(), Error> {
        let last = self.0.offered.load(Relaxed);
        if version > last {
            return Ok(());
        }
        let problem = format!("version {last} was offered before: give a larger number");
        Err(Error::numeric(format!("reconstructor {version}"), problem))
    }
}
