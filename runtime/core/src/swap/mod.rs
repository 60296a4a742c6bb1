//! Swap space on a disk for values that do not fit in host memory: one file, which disappears with
//! its process.
//!
//! The file has no name from the moment it is open: nothing remains, however the process ends. It
//! bypasses the page cache if the file system supports that: pages in the cache would take the
//! memory that swapping frees.

mod extents;
#[cfg(test)]
mod faulty;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use self::extents::Extents;
#[cfg(test)]
pub(crate) use self::faulty::{Faults, Faulty};
use crate::buffer::Buffer;
use crate::error::DeviceError;
use crate::error::Error;

/// Block size of reads and writes (bytes), the alignment that direct I/O requires of offsets,
/// lengths and addresses.
const BLOCK: usize = 4096;

/// Bytes per write to the file.
const CHUNK: usize = 1 << 20;

/// Backing storage of the file.
pub(crate) trait Storage: Send + Sync {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Storage for File {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }
}

/// A swap file.
pub(crate) struct Swap {
    folder: PathBuf,
    storage: Box<dyn Storage>,
    extents: Mutex<Extents>,
}

impl Swap {
    /// Creates a new file in `folder`.
    ///
    /// # Errors
    /// [`Error::Os`] if no file can be made there.
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let file = tempfile::tempfile_in(folder).map_err(|error| Error::Os {
            what: format!("making a swap file in {}", folder.display()),
            cause: error.to_string(),
        })?;
        if !bypass_cache(&file) {
            tracing::info!("the swap file in {} goes through the page cache", folder.display());
        }
        Ok(Self::on(folder, Box::new(file)))
    }

    /// Creates a swap file in `storage`.
    pub(crate) fn on(folder: &Path, storage: Box<dyn Storage>) -> Self {
        Swap { folder: folder.into(), storage, extents: Mutex::default() }
    }

    /// Writes the parts consecutively.
    ///
    /// # Errors
    /// The error of the system, with the folder and the bytes.
    pub(crate) fn store(self: &Arc<Self>, parts: &[&[u8]]) -> Result<Extent, DeviceError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let size = bytes.next_multiple_of(BLOCK) as u64;
        let extent = Extent { offset: self.extents.lock().take(size), swap: Arc::clone(self), bytes, size };
        self.write(parts, extent.offset, &mut bounce()).map_err(|error| {
            let remedy = "free space there, or name a larger folder (RuntimeBuilder::swap)";
            self.failure(&format!("writing {bytes} bytes to"), &error, remedy)
        })?;
        Ok(extent)
    }

    fn write(&self, parts: &[&[u8]], mut offset: u64, bounce: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(CHUNK - filled));
                bounce[filled..][..now.len()].copy_from_slice(now);
                (filled, rest) = (filled + now.len(), later);
                if filled == CHUNK {
                    self.storage.write(bounce, offset)?;
                    (filled, offset) = (0, offset + CHUNK as u64);
                }
            }
        }
        let whole = filled.next_multiple_of(BLOCK);
        bounce[filled..whole].fill(0);
        if whole > 0 { self.storage.write(&bounce[..whole], offset) } else { Ok(()) }
    }

    fn read(&self, parts: &mut [&mut [u8]], extent: &Extent, bounce: &mut [u8]) -> io::Result<()> {
        // Read position in the file, bytes in `bounce`, and bytes of those that have been handed
        // out.
        let (mut read, mut there, mut used) = (0, 0, 0);
        for part in parts {
            let mut rest = &mut **part;
            while !rest.is_empty() {
                if used == there {
                    (there, used) = (CHUNK.min(extent.size as usize - read), 0);
                    self.storage.read(&mut bounce[..there], extent.offset + read as u64)?;
                    read += there;
                }
                let (now, later) = rest.split_at_mut((there - used).min(rest.len()));
                now.copy_from_slice(&bounce[used..][..now.len()]);
                used += now.len();
                rest = later;
            }
        }
        Ok(())
    }

    fn failure(&self, what: &str, cause: &io::Error, remedy: &str) -> DeviceError {
        let folder = self.folder.display();
        let reason = format!("{what} the swap file in {folder}: {cause}; {remedy}");
        DeviceError { device: "disk".into(), reason }
    }
}

/// Returns an aligned bounce buffer.
fn bounce() -> Buffer<u8> {
    Buffer::unfilled(CHUNK)
}

/// An extent of the file, in use until this is dropped.
pub(crate) struct Extent {
    swap: Arc<Swap>,
    offset: u64,
    /// Size of the stored value.
    bytes: usize,
    /// Size in whole blocks.
    size: u64,
}

impl Extent {
    /// Reads it into parts, consecutively.
    ///
    /// # Errors
    /// The error of the system, with the folder and the bytes.
    ///
    /// # Panics
    /// If the total length of the parts differs from that of the written ones.
    pub(crate) fn load(&self, parts: &mut [&mut [u8]]) -> Result<(), DeviceError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert_eq!(bytes, self.bytes, "a blank value has other parts than the one that it was made from");
        self.swap.read(parts, self, &mut bounce()).map_err(|error| {
            let what = format!("reading {bytes} bytes back from");
            self.swap.failure(&what, &error, "check that disk, or name another folder (RuntimeBuilder::swap)")
        })
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.swap.extents.lock().give(self.offset, self.size);
    }
}

/// Makes reads and writes bypass the page cache; returns false if the file system cannot do that.
fn bypass_cache(file: &File) -> bool {
    let Ok(flags) = fcntl_getfl(file) else { return false };
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return false;
    }
    // Some file systems refuse only at the first write.
    let works = file.write_all_at(&Buffer::<u8>::zeroed(BLOCK), 0).is_ok();
    if !works {
        // If the flag cannot be cleared, every write fails, and the caller handles that.
        let _ = fcntl_setfl(file, flags);
    }
    works
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, seed: usize) -> Vec<u8> {
        (0..len).map(|i| ((i * 31 + seed * 17) ^ (i >> 8)) as u8).collect()
    }

    #[test]
    fn parts_of_any_length_come_back_and_their_room_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let swap = Arc::new(Swap::open(folder.path()).unwrap());
        let lengths: [&[usize]; 7] =
            [&[], &[0], &[1], &[4096, 1, 4095], &[CHUNK - 1, 2], &[3 * CHUNK + 5, 7], &[CHUNK, CHUNK]];
        for round in 0..2 {
            let stored: Vec<(Vec<Vec<u8>>, Extent)> = lengths
                .iter()
                .enumerate()
                .map(|(seed, lengths)| {
                    let parts: Vec<Vec<u8>> = lengths.iter().map(|&len| numbers(len, seed + round)).collect();
                    let slices: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
                    let extent = swap.store(&slices).unwrap();
                    (parts, extent)
                })
                .collect();
            for (parts, extent) in &stored {
                let mut blank: Vec<Vec<u8>> = parts.iter().map(|part| vec![0; part.len()]).collect();
                let mut slices: Vec<&mut [u8]> = blank.iter_mut().map(|part| &mut part[..]).collect();
                extent.load(&mut slices).unwrap();
                assert!(&blank == parts);
            }
            drop(stored);
            assert_eq!(swap.extents.lock().end(), 0);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    }

    #[test]
    fn failures_name_folder_bytes_and_remedy() {
        let missing = Path::new("no such folder");
        let error = Swap::open(missing).err().unwrap().to_string();
        assert!(error.starts_with("making a swap file in no such folder: "), "{error}");
        let (storage, faults) = Faulty::new();
        let swap = Arc::new(Swap::on(Path::new("here"), storage));
        let extent = swap.store(&[&[1, 2, 3]]).unwrap();
        faults.refuse_writes();
        let error = swap.store(&[&[0; 5000]]).err().unwrap().to_string();
        assert!(error.contains("disk failed: writing 5000 bytes to the swap file in here: "), "{error}");
        assert!(error.contains("larger folder (RuntimeBuilder::swap)"), "{error}");
        let mut bytes = [0; 3];
        extent.load(&mut [&mut bytes]).unwrap();
        assert_eq!(bytes, [1, 2, 3]);
        faults.refuse_reads();
        let error = extent.load(&mut [&mut bytes]).err().unwrap().to_string();
        assert!(error.contains("reading 3 bytes back from the swap file in here: "), "{error}");
    }
}
