//! A table that maps numbers to handles of CUDA, so that a stale number is an error and no dangling
//! pointer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

/// Things by number; none is given twice.
#[derive(Debug)]
pub(super) struct Table<T> {
    next: AtomicU64,
    rows: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Table<T> {
    pub(super) fn new() -> Table<T> {
        Table { next: AtomicU64::new(1), rows: RwLock::new(HashMap::new()) }
    }

    pub(super) fn add(&self, row: T) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.rows.write().insert(number, Arc::new(row));
        number
    }

    pub(super) fn get(&self, number: u64) -> Option<Arc<T>> {
        self.rows.read().get(&number).cloned()
    }

    pub(super) fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.rows.write().remove(&number)
    }

    pub(super) fn clear(&self) {
        let rows = std::mem::take(&mut *self.rows.write());
        drop(rows); // not under the lock: giving a stream up takes its time
    }
}
