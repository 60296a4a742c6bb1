//! Mapping of names to small numbers: an insert-only hash table that readers traverse without a
//! lock.
//!
//! Everything is a [`OnceLock`] that is set once: a bucket holds the number of its first entry, an
//! entry the number of the next one in its bucket. A reader only loads; a writer that loses the
//! race for a link goes on with the winner's entry.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::family::Family;
use super::history::Cell;
use super::{KindId, ModelId, TaskInfo};

const BUCKETS: usize = 1024;
const CHUNK: usize = 256;
const CHUNKS: usize = 256;
/// Capacity of a table in footprints.
pub(super) const CAPACITY: u32 = (CHUNK * CHUNKS) as u32;
/// Value of a link: the table was full when a thread wanted to add an entry here.
const FULL: u32 = u32::MAX;

/// The key of a task in a model, apart from the kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footprint<'a> {
    pub(super) codelet: &'a str,
    /// Empty if the codelet has only one.
    pub(super) implementation: &'a str,
    pub(super) label: &'a str,
    pub(super) shape: [u32; 3],
    /// Class of the flop count, if there is no shape; see [`work_class`].
    pub(super) class: u16,
}

impl<'a> Footprint<'a> {
    pub(super) fn new(codelet: &'a str, implementation: &'a str, info: &TaskInfo) -> Self {
        Footprint::of(codelet, implementation, info.label, info.shape, info.flops)
    }

    pub(super) fn of(
        codelet: &'a str,
        implementation: &'a str,
        label: &'a str,
        shape: [u32; 3],
        flops: f64,
    ) -> Self {
        let class = if shape == [0; 3] { work_class(flops) } else { 0 };
        Footprint { codelet, implementation, label, shape, class }
    }

    /// Computes FNV-1a over bytes and words: the strings are a few letters.
    fn hash(&self) -> u64 {
        const PRIME: u64 = 0x0000_0100_0000_01B3;
        let step = |hash: u64, x: u64| (hash ^ x).wrapping_mul(PRIME);
        let text = |hash, text: &str| text.bytes().fold(step(hash, 0xFF), |hash, b| step(hash, b.into()));
        let hash = text(text(0xCBF2_9CE4_8422_2325, self.codelet), self.label);
        let hash = if self.implementation.is_empty() { hash } else { text(hash, self.implementation) };
        let hash = self.shape.iter().fold(step(hash, self.class.into()), |hash, &x| step(hash, x.into()));
        hash ^ (hash >> 32)
    }
}

/// Returns one of sixteen classes for each power of two: counts in one class differ by less than 7
/// %. 0 for no work and for an invalid count.
fn work_class(flops: f64) -> u16 {
    if flops.is_finite() && flops >= 1.0 { (flops.to_bits() >> 48) as u16 } else { 0 }
}

/// A value per kind of device: a short list that only grows.
#[derive(Debug)]
pub(super) struct PerKind<T>(OnceLock<Box<Node<T>>>);

#[derive(Debug)]
struct Node<T> {
    kind: KindId,
    value: T,
    next: PerKind<T>,
}

impl<T> Default for PerKind<T> {
    fn default() -> Self {
        PerKind(OnceLock::new())
    }
}

impl<T: Default> PerKind<T> {
    pub(super) fn get(&self, kind: KindId) -> Option<&T> {
        let mut link = self;
        while let Some(node) = link.0.get() {
            if node.kind == kind {
                return Some(&node.value);
            }
            link = &node.next;
        }
        None
    }

    pub(super) fn get_or_insert(&self, kind: KindId) -> &T {
        let mut link = self;
        loop {
            let new = || Box::new(Node { kind, value: T::default(), next: PerKind::default() });
            let node = link.0.get_or_init(new);
            if node.kind == kind {
                return &node.value;
            }
            link = &node.next;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (KindId, &T)> {
        std::iter::successors(self.0.get(), |node| node.next.0.get()).map(|node| (node.kind, &node.value))
    }
}

/// A footprint and its data, per kind of device.
#[derive(Debug)]
pub(super) struct Entry {
    number: u32,
    codelet: Box<str>,
    implementation: Box<str>,
    label: Box<str>,
    shape: [u32; 3],
    class: u16,
    pub(super) family: Arc<Family>,
    pub(super) cells: PerKind<Cell>,
    next: OnceLock<u32>,
}

impl Entry {
    pub(super) fn id(&self) -> ModelId {
        ModelId(self.number)
    }

    pub(super) fn footprint(&self) -> Footprint<'_> {
        Footprint {
            codelet: &self.codelet,
            implementation: &self.implementation,
            label: &self.label,
            shape: self.shape,
            class: self.class,
        }
    }
}

/// Entries that are created on demand.
type Chunk = Box<[OnceLock<Entry>]>;
type Families = BTreeMap<[Box<str>; 3], Arc<Family>>;

/// All footprints, by number.
#[derive(Debug)]
pub(super) struct Table {
    buckets: Box<[OnceLock<u32>]>,
    chunks: Box<[OnceLock<Chunk>]>,
    len: AtomicU32,
    /// Data by codelet, implementation and label.
    families: Mutex<Families>,
}

fn unset<T>(count: usize) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}

impl Table {
    pub(super) fn new() -> Self {
        Table {
            buckets: unset(BUCKETS),
            chunks: unset(CHUNKS),
            len: AtomicU32::new(0),
            families: Mutex::default(),
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&Entry> {
        let number = number as usize;
        self.chunks.get(number / CHUNK)?.get()?[number % CHUNK].get()
    }

    /// Returns the footprint's number; `None` if it is new and the table is full.
    pub(super) fn number(&self, footprint: Footprint<'_>) -> Option<u32> {
        let mut link = &self.buckets[footprint.hash() as usize % BUCKETS];
        loop {
            let number = *link.get_or_init(|| self.add(footprint));
            let entry = self.get(number)?;
            if entry.footprint() == footprint {
                return Some(number);
            }
            link = &entry.next;
        }
    }

    fn add(&self, footprint: Footprint<'_>) -> u32 {
        let claimed = self
            .len
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| (len < CAPACITY).then_some(len + 1));
        let Ok(number) = claimed else {
            return FULL;
        };
        let at = number as usize;
        let chunk = self.chunks[at / CHUNK].get_or_init(|| unset(CHUNK));
        let family = self.family(footprint);
        family.join(number);
        chunk[at % CHUNK].get_or_init(|| Entry {
            number,
            codelet: footprint.codelet.into(),
            implementation: footprint.implementation.into(),
            label: footprint.label.into(),
            shape: footprint.shape,
            class: footprint.class,
            family,
            cells: PerKind::default(),
            next: OnceLock::new(),
        });
        number
    }

    fn family(&self, footprint: Footprint<'_>) -> Arc<Family> {
        let name = [footprint.codelet, footprint.implementation, footprint.label].map(Box::from);
        Arc::clone(self.families.lock().entry(name).or_default())
    }

    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        (0..self.len()).filter_map(|number| self.get(number))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn footprint(codelet: &str, m: u32) -> Footprint<'_> {
        Footprint::of(codelet, "", "f32", [m, m, 1], 0.0)
    }

    #[test]
    fn threads_agree_on_numbers() {
        let (table, start) = (Table::new(), Barrier::new(4));
        let numbers: Vec<Vec<u32>> = thread::scope(|scope| {
            let intern = |t: u32| {
                start.wait();
                // Each thread begins elsewhere, so each footprint is a race.
                (0..3000).map(|i| (i + t * 17) % 3000).map(|m| (m, table.number(footprint("a", m)))).collect()
            };
            let threads: Vec<_> = (0..4).map(|t| scope.spawn(move || intern(t))).collect();
            let all = threads.into_iter().map(|t| t.join().unwrap());
            let sorted = all.map(|mut seen: Vec<(u32, Option<u32>)>| {
                seen.sort_unstable();
                seen.into_iter().map(|(_, number)| number.unwrap()).collect()
            });
            sorted.collect()
        });
        assert!(numbers.iter().all(|n| *n == numbers[0]));
        let mut distinct = numbers[0].clone();
        distinct.sort_unstable();
        assert_eq!(distinct, (0..3000).collect::<Vec<_>>());
        assert_eq!(table.entries().count(), 3000);
        assert_eq!(table.get(numbers[0][5]).unwrap().footprint(), footprint("a", 5));
    }

    #[test]
    fn a_full_table_says_so_and_keeps_what_it_has() {
        let table = Table::new();
        for m in 0..CAPACITY {
            assert!(table.number(footprint("a", m)).is_some());
        }
        assert_eq!(table.number(footprint("b", 0)), None);
        assert_eq!(table.number(footprint("b", 0)), None);
        assert!(table.number(footprint("a", 7)).is_some());
    }

    #[test]
    fn without_a_shape_the_work_is_the_size() {
        let shapeless = |flops| Footprint::of("spmv", "", "", [0; 3], flops);
        assert_eq!(shapeless(1000.0), shapeless(1010.0));
        assert_ne!(shapeless(1000.0), shapeless(1100.0));
        assert_eq!(shapeless(f64::NAN), shapeless(0.0));
        assert_eq!(shapeless(-1e9), shapeless(0.0));
        assert_eq!(Footprint::of("gemm", "", "", [1; 3], 2.0), Footprint::of("gemm", "", "", [1; 3], 4.0));
    }

    #[test]
    fn kinds_are_kept_apart() {
        let list: PerKind<AtomicU32> = PerKind::default();
        list.get_or_insert(KindId(3)).store(30, Ordering::Relaxed);
        list.get_or_insert(KindId(1)).store(10, Ordering::Relaxed);
        assert_eq!(list.get_or_insert(KindId(3)).load(Ordering::Relaxed), 30);
        assert_eq!(list.get(KindId(1)).unwrap().load(Ordering::Relaxed), 10);
        assert!(list.get(KindId(2)).is_none());
        assert_eq!(list.iter().count(), 2);
    }
}
