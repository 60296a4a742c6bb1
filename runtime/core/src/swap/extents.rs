//! Free and used extents of a file.

use std::collections::{BTreeMap, BTreeSet};

/// Free and used extents of a file, in blocks of one size; freed extents are reused before the file
/// grows.
#[derive(Debug, Default)]
pub(super) struct Extents {
    /// Offset from which on everything is free.
    end: u64,
    /// Free extents before it by their offsets; no two are adjacent.
    free: BTreeMap<u64, u64>,
    /// Free extents as (bytes, offset), to find the smallest one that is large enough.
    by_size: BTreeSet<(u64, u64)>,
}

impl Extents {
    /// Allocates `bytes`; returns their offset.
    pub(super) fn take(&mut self, bytes: u64) -> u64 {
        let found = self.by_size.range((bytes, 0)..).next().copied();
        let Some((size, offset)) = found.filter(|_| bytes > 0) else {
            self.end += bytes;
            return self.end - bytes;
        };
        self.remove(offset, size);
        if size > bytes {
            self.insert(offset + bytes, size - bytes);
        }
        offset
    }

    /// Frees an allocated extent.
    pub(super) fn give(&mut self, mut offset: u64, mut bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some((&before, &size)) = self.free.range(..offset).next_back()
            && before + size == offset
        {
            self.remove(before, size);
            (offset, bytes) = (before, bytes + size);
        }
        if let Some(&size) = self.free.get(&(offset + bytes)) {
            self.remove(offset + bytes, size);
            bytes += size;
        }
        if offset + bytes == self.end {
            self.end = offset;
        } else {
            self.insert(offset, bytes);
        }
    }

    fn insert(&mut self, offset: u64, bytes: u64) {
        self.free.insert(offset, bytes);
        self.by_size.insert((bytes, offset));
    }

    fn remove(&mut self, offset: u64, bytes: u64) {
        self.free.remove(&offset);
        self.by_size.remove(&(bytes, offset));
    }

    /// Returns the end of the used part of the file.
    #[cfg(test)]
    pub(super) fn end(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_free_again_is_used_again_and_neighbours_become_one() {
        let mut extents = Extents::default();
        let at: Vec<u64> = [4, 2, 3, 1].iter().map(|&bytes| extents.take(bytes)).collect();
        assert_eq!((&at[..], extents.end()), (&[0, 4, 6, 9][..], 10));
        extents.give(at[0], 4);
        extents.give(at[2], 3);
        assert_eq!(extents.take(2), 6, "the smallest that is large enough");
        extents.give(6, 2);
        extents.give(at[1], 2);
        assert_eq!(extents.take(9), 0, "three neighbours are one");
        extents.give(0, 9);
        extents.give(9, 1);
        assert_eq!(extents.end(), 0);
    }

    proptest! {
        #[test]
        fn nothing_is_given_out_twice_and_everything_comes_back(
            steps in prop::collection::vec((any::<bool>(), 0u64..20, any::<prop::sample::Index>()), 1..200),
        ) {
            let mut extents = Extents::default();
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (take, bytes, which) in steps {
                if take || taken.is_empty() {
                    let offset = extents.take(bytes);
                    let apart =
                        |&(at, size): &(u64, u64)| size == 0 || at + size <= offset || offset + bytes <= at;
                    prop_assert!(bytes == 0 || taken.iter().all(apart));
                    prop_assert!(offset + bytes <= extents.end());
                    taken.push((offset, bytes));
                } else {
                    let (offset, bytes) = taken.swap_remove(which.index(taken.len()));
                    extents.give(offset, bytes);
                }
            }
            for (offset, bytes) in taken {
                extents.give(offset, bytes);
            }
            prop_assert_eq!(extents.end(), 0);
            prop_assert!(extents.free.is_empty() && extents.by_size.is_empty());
        }
    }
}
