//! Recycled memory of messages: fresh memory costs a page fault for each of its pages, which took
//! more time than the copies into it and out of it.

use parking_lot::Mutex;

/// Minimum size of a message whose memory is kept.
const LEAST: usize = 1 << 12;
/// Maximum number of bytes that are kept.
const MOST: usize = 1 << 26;

/// Recycled buffers of all ranks in this process.
pub(crate) static BUFFERS: Buffers = Buffers(Mutex::new(Vec::new()));

/// Returns an empty vector with room for a message of `capacity` bytes, in memory that a message
/// before had if there is some. The memory of sent messages is kept.
pub fn message_buffer(capacity: usize) -> Vec<u8> {
    BUFFERS.with_capacity(capacity)
}

/// Keeps the memory of a message that was received, for further ones.
pub fn recycle(message: Vec<u8>) {
    BUFFERS.keep(message);
}

/// Recycled vectors with their old contents.
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Returns a vector of `len` bytes, with any content.
    #[cfg(any(feature = "mpi", test))]
    pub(crate) fn of_length(&self, len: usize) -> Vec<u8> {
        let mut bytes = self.kept(len);
        bytes.resize(len, 0);
        bytes
    }

    /// Returns an empty vector with room for `capacity` bytes.
    pub(crate) fn with_capacity(&self, capacity: usize) -> Vec<u8> {
        let mut bytes = self.kept(capacity);
        bytes.clear();
        bytes.reserve(capacity);
        bytes
    }

    /// Keeps the memory of a message.
    pub(crate) fn keep(&self, bytes: Vec<u8>) {
        let mut all = self.0.lock();
        let kept: usize = all.iter().map(Vec::capacity).sum();
        if bytes.capacity() >= LEAST && kept + bytes.capacity() <= MOST {
            all.push(bytes);
        }
    }

    /// Returns the smallest vector that is large enough, if it is not much too large; otherwise an
    /// empty one.
    fn kept(&self, len: usize) -> Vec<u8> {
        let mut all = self.0.lock();
        let fits = |bytes: &Vec<u8>| (len..=2 * len).contains(&bytes.capacity());
        let fitting = all.iter().enumerate().filter(|(_, bytes)| fits(bytes));
        let best = fitting.min_by_key(|(_, bytes)| bytes.capacity()).map(|(at, _)| at);
        best.map_or_else(Vec::new, |at| all.swap_remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_where_it_fits() {
        let (buffers, len) = (Buffers(Mutex::default()), 3 << 20);
        let bytes = buffers.of_length(len);
        assert_eq!(bytes, vec![0; len]);
        let (address, filled) = (bytes.as_ptr(), vec![7; len]);
        let mut again = bytes;
        again.copy_from_slice(&filled);
        buffers.keep(again);
        let small = buffers.of_length(len / 4);
        assert_ne!(small.as_ptr(), address, "much too large");
        let other = buffers.with_capacity(len - 1);
        assert!(other.is_empty() && other.as_ptr() == address);
        buffers.keep(other);
        let longer = buffers.of_length(len);
        assert!(longer.as_ptr() == address && longer.len() == len);
        buffers.keep(vec![0; LEAST / 2]);
        buffers.keep(vec![0; MOST + 1]);
        assert!(buffers.0.lock().iter().all(|bytes| (LEAST..=MOST).contains(&bytes.capacity())));
    }
}
