//! Tags: numbers that stand for tasks or events, and their dependencies.

use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr;
use std::slice;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use zellige_runtime::internal::scramble;

use crate::gate::{Edge, Gate, Parked, Passage};
use crate::instance::{Signal, errno, must_not_wait, needed};
use crate::types::{starpu_tag_t, starpu_task};

/// One tag.
struct Tag {
    /// True once its task has ended or the application has notified it.
    fired: bool,
    /// Predecessors that it waits for before each of its tasks.
    gate: Gate,
    /// Declarations that name it.
    successors: SmallVec<[Edge<starpu_tag_t>; 1]>,
    /// Threads that wait for it.
    waiting: Vec<Arc<Signal>>,
    /// The task that has it.
    task: *mut starpu_task,
}

// SAFETY: the task is only handed back to the application.
unsafe impl Send for Tag {}

impl Default for Tag {
    fn default() -> Self {
        Tag {
            fired: false,
            successors: SmallVec::new(),
            gate: Gate::default(),
            waiting: Vec::new(),
            task: ptr::null_mut(),
        }
    }
}

/// Hash function for tags, which are often consecutive numbers.
#[derive(Default)]
pub struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = scramble(number);
    }
}

type Shard = HashMap<starpu_tag_t, Tag, BuildHasherDefault<TagHasher>>;

/// Number of parts into which tags are divided, each with its own lock.
const SHARDS: usize = 16;

/// All tags of an instance.
#[derive(Default)]
pub struct Tags([CachePadded<Mutex<Shard>>; SHARDS]);

impl Tags {
    /// Locks the part that has the tag. A thread locks one part at a time.
    fn part(&self, id: starpu_tag_t) -> MutexGuard<'_, Shard> {
        // Not the bits that choose a place in the part.
        self.0[(id ^ id >> 4) as usize % SHARDS].lock()
    }

    /// Gives the tag to a task that is being submitted. If the tag waits for others, it keeps what
    /// `park` makes until they have fired.
    pub fn give<F: FnOnce() -> Option<Parked>>(
        &self,
        id: starpu_tag_t,
        task: *mut starpu_task,
        park: F,
    ) -> Passage<F> {
        let mut tags = self.part(id);
        let tag = tags.entry(id).or_default();
        tag.task = task;
        tag.fired = false;
        tag.gate.arrive(park)
    }

    /// Notes that the tag's task has ended, or that the application says so.
    pub fn fire(&self, id: starpu_tag_t, restart: bool) {
        let (waiting, successors) = {
            let mut tags = self.part(id);
            let tag = tags.entry(id).or_default();
            if tag.fired {
                return;
            }
            tag.fired = !restart;
            (std::mem::take(&mut tag.waiting), tag.successors.clone())
        };
        for edge in successors {
            self.fire_at(edge);
        }
        waiting.iter().for_each(|signal| signal.set());
    }

    fn fire_at(&self, edge: Edge<starpu_tag_t>) {
        let parked = self.part(edge.of).get_mut(&edge.of).and_then(|tag| tag.gate.fire(edge.at));
        parked.into_iter().for_each(Parked::release);
    }

    fn declare(&self, id: starpu_tag_t, before: &[starpu_tag_t]) {
        for &earlier in before {
            let at = self.part(id).entry(id).or_default().gate.declare(false);
            let edge = Edge { of: id, at };
            let fired = {
                let mut tags = self.part(earlier);
                let earlier = tags.entry(earlier).or_default();
                earlier.successors.push(edge.clone());
                earlier.fired
            };
            if fired {
                self.fire_at(edge);
            }
        }
    }

    /// Returns the signal that is set when the tag fires; `None`: it has.
    fn listen(&self, id: starpu_tag_t) -> Option<Arc<Signal>> {
        let mut tags = self.part(id);
        let tag = tags.entry(id).or_default();
        if tag.fired {
            return None;
        }
        let signal = Arc::new(Signal::default());
        tag.waiting.push(Arc::clone(&signal));
        Some(signal)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_tag_declare_deps_array(
    id: starpu_tag_t,
    count: u32,
    array: *mut starpu_tag_t,
) {
    let Some(instance) = needed("starpu_tag_declare_deps") else { return };
    if count > 0 {
        instance.tags.declare(id, slice::from_raw_parts(array, count as usize));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_tag_wait_array(count: u32, ids: *mut starpu_tag_t) -> c_int {
    let Some(instance) = needed("starpu_tag_wait") else { return -errno::EINVAL };
    if must_not_wait("starpu_tag_wait") {
        return -errno::EDEADLK;
    }
    if count > 0 {
        let signals: Vec<_> = slice::from_raw_parts(ids, count as usize)
            .iter()
            .filter_map(|&id| instance.tags.listen(id))
            .collect();
        signals.iter().for_each(|signal| signal.wait(instance));
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_tag_wait(mut id: starpu_tag_t) -> c_int {
    starpu_tag_wait_array(1, &raw mut id)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_tag_notify_from_apps(id: starpu_tag_t) {
    if let Some(instance) = needed("starpu_tag_notify_from_apps") {
        instance.tags.fire(id, false);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_tag_notify_restart_from_apps(id: starpu_tag_t) {
    if let Some(instance) = needed("starpu_tag_notify_restart_from_apps") {
        instance.tags.fire(id, true);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_tag_restart(id: starpu_tag_t) {
    if let Some(instance) = needed("starpu_tag_restart")
        && let Some(tag) = instance.tags.part(id).get_mut(&id)
    {
        tag.fired = false;
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_tag_remove(id: starpu_tag_t) {
    if let Some(instance) = needed("starpu_tag_remove") {
        let removed = instance.tags.part(id).remove(&id);
        drop(removed);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_tag_clear() {
    if let Some(instance) = needed("starpu_tag_clear") {
        for part in &instance.tags.0 {
            let all = std::mem::take(&mut *part.lock());
            drop(all);
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_tag_get_task(id: starpu_tag_t) -> *mut starpu_task {
    let found = needed("starpu_tag_get_task").and_then(|i| i.tags.part(id).get(&id).map(|tag| tag.task));
    found.unwrap_or(ptr::null_mut())
}
