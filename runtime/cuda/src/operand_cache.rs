//! Forms of operands that bodies make for themselves and that others find again: they lie beside
//! the values for as long as there is room.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use zellige_gpu::{Address, Event, GpuError};

use zellige_runtime::device::Stream as _;

use super::memory::{GpuMemory, GpuStream};

/// What lies beside the values of one device.
pub(super) struct OperandCache {
    /// Bytes that it may take.
    limit: u64,
    state: Mutex<State>,
    /// Counts uses.
    clock: AtomicU64,
}

#[derive(Default)]
struct State {
    used: u64,
    /// By the address of a part of the value, and what it is of it.
    forms: BTreeMap<(Address, u32), Arc<Form>>,
}

/// One of them. Whoever uses it on a stream keeps it until that has ended.
struct Form {
    at: Address,
    bytes: u64,
    /// At the end of what makes it.
    made: Event,
    last_used: AtomicU64,
    memory: Weak<GpuMemory>,
}

impl Drop for Form {
    fn drop(&mut self) {
        // Where the device is gone it has taken care of what it had.
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

    /// The value with a part there is written, or gone.
    pub(super) fn forget(&self, at: Address) {
        let gone = {
            let mut state = self.state.lock();
            let keys: Vec<_> = state.forms.range((at, 0)..=(at, u32::MAX)).map(|(key, _)| *key).collect();
            keys.into_iter().filter_map(|key| state.remove(key)).collect::<Vec<_>>()
        };
        drop(gone);
    }

    /// Gives up all that nobody uses; true if that was anything.
    pub(super) fn give_up(&self) -> bool {
        let gone = self.state.lock().make_room(self.limit, self.limit);
        !gone.is_empty()
    }

    /// Gives up what nobody uses, the longest unused first, where that makes room for so many bytes
    /// more; true if there is room then.
    fn has_room(&self, bytes: u64) -> bool {
        let (gone, has_room) = {
            let mut state = self.state.lock();
            let gone = state.make_room(bytes, self.limit);
            (gone, state.fits(bytes, self.limit))
        };
        drop(gone);
        has_room
    }

    /// Ends with the device: whatever is left is handed out as memory and event.
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
        // Another stream may have made the same meanwhile: its own stays, and this one goes with
        // its user.
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

    /// Takes out what nobody uses, the longest unused first, until so many bytes fit or nothing is
    /// left to be taken.
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
    /// Form `what` of the value with a part at `of`, to be read by what follows on the stream: one
    /// that is there, or a new one that `make` fills by operations on this stream. `None` where
    /// there is no room for it, and while the stream records.
    ///
    /// # Errors
    /// The driver's, and what `make` returns.
    pub(super) fn cached_operand(
        &self,
        (of, what): (Address, u32),
        bytes: u64,
        make: impl FnOnce(Address) -> Result<(), GpuError>,
    ) -> Result<Option<Address>, GpuError> {
        // What is recorded is launched again when the form may be gone, or that of another value.
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
        // Kept in any case: what has been queued may use it.
        self.keep(Box::new(Arc::clone(&form)));
        make(at)?;
        self.driver().record(form.made, self.stream)?;
        operand_cache.add((of, what), &form);
        Ok(Some(at))
    }
}
