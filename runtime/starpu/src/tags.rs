//! Tags: numbers that stand for tasks or events, and their dependencies.

use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr;
use std::slice;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use smallvec::SmallVec;
use zellige_runtime::internal::splitmix::scramble;

use crate::data::Carried;
use crate::gate::{Edge, Gate, Parked, Passage};
use crate::instance::{Signal, errno, must_not_wait, needed};
use crate::types::{starpu_tag_t, starpu_task};

/// One tag.
#[derive(Default)]
struct Tag {
    /// True once its task has ended or the application has notified it.
    fired: bool,
    /// Predecessors that it waits for before each of its tasks.
    gate: Gate,
    /// Declarations that name it.
    successors: SmallVec<[Edge<starpu_tag_t>; 1]>,
    /// Threads that wait for it.
    waiting: SmallVec<[Arc<Signal>; 0]>,
    /// The task that has it.
    task: Option<Carried<starpu_task>>,
}

impl Tag {
    fn is_unused(&self) -> bool {
        !self.fired
            && self.gate.is_unused()
            && self.successors.is_empty()
            && self.waiting.is_empty()
            && self.task.is_none()
    }
}

/// Number of neighbouring tags in one piece of memory: programs use consecutive numbers.
const NEIGHBOURS: u64 = 8;

/// Tags whose numbers differ in the last bits alone.
type Page = Box<[Tag; NEIGHBOURS as usize]>;

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

type Shard = HashMap<u64, Page, BuildHasherDefault<TagHasher>>;

/// Number of parts into which tags are divided, each with its own lock.
const SHARDS: usize = 16;

/// All tags of an instance.
#[derive(Default)]
pub struct Tags([CachePadded<Mutex<Shard>>; SHARDS]);

impl Tags {
    /// Returns the part and the page of a tag, and its place there.
    fn place(&self, id: starpu_tag_t) -> (&Mutex<Shard>, u64, usize) {
        let page = id / NEIGHBOURS;
        (&self.0[(page ^ page >> 4) as usize % SHARDS], page, (id % NEIGHBOURS) as usize)
    }

    fn remove(&self, id: starpu_tag_t) {
        let (part, page, place) = self.place(id);
        let mut part = part.lock();
        let Some(tags) = part.get_mut(&page) else { return };
        let removed = std::mem::take(&mut tags[place]);
        let unused = tags.iter().all(Tag::is_unused).then(|| part.remove(&page));
        // A task that is parked there is dropped when nothing is locked.
        drop(part);
        drop((removed, unused));
    }

    /// Calls `f` with a tag, whose part is locked. `f` does not look at other tags.
    #[inline]
    fn with<R>(&self, id: starpu_tag_t, f: impl FnOnce(&mut Tag) -> R) -> R {
        let (part, page, place) = self.place(id);
        f(&mut part.lock().entry(page).or_default()[place])
    }

    /// Gives the tag to a task that is being submitted. If the tag waits for others, it keeps what
    /// `park` makes until they have fired.
    pub fn give<F: FnOnce() -> Option<Parked>>(
        &self,
        id: starpu_tag_t,
        task: *mut starpu_task,
        park: F,
    ) -> Passage<F> {
        self.with(id, |tag| {
            tag.task = Some(Carried(task));
            tag.fired = false;
            tag.gate.arrive(park)
        })
    }

    /// Notes that the tag's task has ended, or that the application says so.
    pub fn fire(&self, id: starpu_tag_t, restart: bool) {
        let fired = self.with(id, |tag| {
            if tag.fired {
                return None;
            }
            tag.fired = !restart;
            Some((std::mem::take(&mut tag.waiting), tag.successors.clone()))
        });
        let Some((waiting, successors)) = fired else { return };
        successors.into_iter().for_each(|edge| self.fire_at(edge));
        waiting.iter().for_each(|signal| signal.set());
    }

    fn fire_at(&self, edge: Edge<starpu_tag_t>) {
        let parked = self.with(edge.of, |tag| tag.gate.fire(edge.at));
        parked.into_iter().for_each(Parked::release);
    }

    fn declare(&self, id: starpu_tag_t, before: &[starpu_tag_t]) {
        for &earlier in before {
            let edge = Edge { of: id, at: self.with(id, |tag| tag.gate.declare()) };
            let fired = self.with(earlier, |tag| {
                tag.successors.push(edge.clone());
                tag.fired
            });
            if fired {
                self.fire_at(edge);
            }
        }
    }

    /// Returns the signal that is set when the tag fires; `None`: it has.
    fn listen(&self, id: starpu_tag_t) -> Option<Arc<Signal>> {
        self.with(id, |tag| {
            if tag.fired {
                return None;
            }
            let signal = Arc::new(Signal::default());
            tag.waiting.push(Arc::clone(&signal));
            Some(signal)
        })
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
    if let Some(instance) = needed("starpu_tag_restart") {
        instance.tags.with(id, |tag| tag.fired = false);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_tag_remove(id: starpu_tag_t) {
    if let Some(instance) = needed("starpu_tag_remove") {
        instance.tags.remove(id);
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
    let found = needed("starpu_tag_get_task").and_then(|i| i.tags.with(id, |tag| tag.task));
    found.map_or(ptr::null_mut(), Carried::get)
}
