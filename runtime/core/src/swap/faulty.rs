//! A disk that fails on demand, for tests.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::Storage;

/// Memory that simulates a disk.
#[derive(Default)]
pub(crate) struct Faulty {
    bytes: Mutex<Vec<u8>>,
    faults: Arc<Faults>,
}

/// Operations that the disk refuses.
#[derive(Default)]
pub(crate) struct Faults {
    writes: AtomicBool,
    reads: AtomicBool,
}

impl Faulty {
    /// Creates a disk, and the means to make it fail.
    pub(crate) fn new() -> (Box<Self>, Arc<Faults>) {
        let disk = Box::<Faulty>::default();
        let faults = Arc::clone(&disk.faults);
        (disk, faults)
    }
}

impl Faults {
    pub(crate) fn refuse_writes(&self) {
        self.writes.store(true, Ordering::SeqCst);
    }

    pub(crate) fn refuse_reads(&self) {
        self.reads.store(true, Ordering::SeqCst);
    }
}

impl Storage for Faulty {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.faults.writes.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut all = self.bytes.lock();
        let (begin, end) = (offset as usize, offset as usize + bytes.len());
        if all.len() < end {
            all.resize(end, 0);
        }
        all[begin..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        if self.faults.reads.load(Ordering::SeqCst) {
            return Err(io::Error::other("a bad sector"));
        }
        bytes.copy_from_slice(&self.bytes.lock()[offset as usize..][..bytes.len()]);
        Ok(())
    }
}
