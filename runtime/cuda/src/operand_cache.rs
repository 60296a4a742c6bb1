//! Cache of operand layouts that bodies make and that other bodies reuse: they are kept with the
//! values while there is room.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use zellige_gpu::{Address, Event, GpuError};

use zellige_runtime::device::Stream as _;

use super::memory::{GpuMemory, GpuStream};

/// The cached operand layouts of one device.
pub(super) struct OperandCache {
    /// Capacity in bytes.
    limit: u64,
    state: Mutex<State>,
    /// Counts uses.
    clock: AtomicU64,
}

#[derive(Default)]
struct State {
    used: u64,
    /// Layouts by the address of a part of the value and the number of the layout.
    forms: BTreeMap<(Address, u32), Arc<Form>>,
}

/// One layout. An operation that uses it on a stream keeps it until the operation has ended.
struct Form {
    at: Address,
    bytes: u64,
    /// Event at the end of the operations that make it.
    made: Event,
    last_used: AtomicU64,
    memory: Weak<GpuMemory>,
}

impl Drop for Form {
    fn drop(&mut self) {
        // A lost device has freed its resources itself.
        if let Some(memory) = self.memory.upgrade() {
            memory.driver.destroy_event(self.made);
            memory.free(self.at);
        }
    }
}

impl OperandCache {
    pub(super) fn new(limit: u64) -> Self {
        OperandCache { limit, state: Mutex::default(), clock: AtomicU64::new(0) }
    }

    /// Drops the layouts of a value, by the address of a part, when it is written or freed.
    pub(super) fn forget(&self, at: Address) {
        let gone = {
            let mut state = self.state.lock();
            let keys: Vec<_> = state.forms.range((at, 0)..=(at, u32::MAX)).map(|(key, _)| *key).collect();
            keys.into_iter().filter_map(|key| state.remove(key)).collect::<Vec<_>>()
        };
        drop(gone);
    }

    /// Drops all unused layouts; true if there were any.
    pub(super) fn give_up(&self) -> bool {
        let gone = self.state.lock().make_room(self.limit, self.limit);
        !gone.is_empty()
    }

    /// Drops unused layouts, the least recently used first, if that makes room for this many more
    /// bytes; true if there is room then.
    fn has_room(&self, bytes: u64) -> bool {
        let (gone, has_room) = {
            let mut state = self.state.lock();
            let gone = state.make_room(bytes, self.limit);
            (gone, state.fits(bytes, self.limit))
        };
        drop(gone);
        has_room
    }

    /// Closes the cache with the device: the remaining layouts are returned as memory and event.
    pub(super) fn close(&mut self) -> Vec<(Address, Event)> {
        let forms = std::mem::take(&mut self.state.get_mut().forms);
        forms.into_values().map(|form| (form.at, form.made)).collect()
    }

    fn find(&self, key: (Address, u32)) -> Option<Arc<Form>> {
        let form = Arc::clone(self.state.lock().forms.get(&key)?);
        form.last_used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(form)
    }

    fn add(&self, key: (Address, u32), form: &Arc<Form>) {
        form.last_used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let mut state = self.state.lock();
        // Another stream may have made the same layout meanwhile: its own stays, and this one is
        // dropped by its user.
        if let Entry::Vacant(place) = state.forms.entry(key) {
            place.insert(Arc::clone(form));
            state.used += form.bytes;
        }
    }
}

impl State {
    fn fits(&self, bytes: u64, limit: u64) -> bool {
        self.used.saturating_add(bytes) <= limit
    }

    /// Takes out unused layouts, the least recently used first, until this many bytes fit or none
    /// is left.
    fn make_room(&mut self, bytes: u64, limit: u64) -> Vec<Arc<Form>> {
        if self.fits(bytes, limit) {
            return Vec::new();
        }
        let mut idle: Vec<_> = self.forms.iter().filter(|(_, form)| Arc::strong_count(form) == 1).collect();
        idle.sort_unstable_by_key(|(_, form)| form.last_used.load(Ordering::Relaxed));
        let keys: Vec<_> = idle.into_iter().map(|(key, _)| *key).collect();
        let mut gone = Vec::new();
        for key in keys {
            if self.fits(bytes, limit) {
                break;
            }
            gone.extend(self.remove(key));
        }
        gone
    }

    fn remove(&mut self, key: (Address, u32)) -> Option<Arc<Form>> {
        let form = self.forms.remove(&key)?;
        self.used -= form.bytes;
        Some(form)
    }
}

impl GpuStream {
    /// Returns layout `what` of the value with a part at `of`, to be read by the following
    /// operations on the stream: a cached one, or a new one that `make` fills by operations on this
    /// stream. `None` if there is no room for it, and while the stream records.
    ///
    /// # Errors
    /// Errors of the driver, and those of `make`.
    pub(super) fn cached_operand(
        &self,
        (of, what): (Address, u32),
        bytes: u64,
        make: impl FnOnce(Address) -> Result<(), GpuError>,
    ) -> Result<Option<Address>, GpuError> {
        // A recording is launched again when the layout may be dropped, or belong to another value.
        if self.records.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let operand_cache = &self.memory.operand_cache;
        if let Some(form) = operand_cache.find((of, what)) {
            self.driver().wait_event(self.stream, form.made)?;
            let at = form.at;
            self.keep(Box::new(form));
            return Ok(Some(at));
        }
        if !operand_cache.has_room(bytes) {
            return Ok(None);
        }
        let made = self.driver().create_event(self.memory.gpu, false)?;
        let at = match self.driver().allocate(self.stream, bytes) {
            Ok(at) => at,
            Err(error) => {
                self.driver().destroy_event(made);
                let full = matches!(error, GpuError::OutOfMemory { .. });
                return if full { Ok(None) } else { Err(error) };
            }
        };
        let memory = Arc::downgrade(&self.memory);
        let form = Arc::new(Form { at, bytes, made, last_used: AtomicU64::new(0), memory });
        // Kept in any case: queued operations may use it.
        self.keep(Box::new(Arc::clone(&form)));
        make(at)?;
        self.driver().record(form.made, self.stream)?;
        operand_cache.add((of, what), &form);
        Ok(Some(at))
    }
}
