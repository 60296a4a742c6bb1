//! State of the thread: the random bits of the next operation, and the instabilities so far.

use core::cell::{Cell, RefCell};
use core::panic::Location;

use crate::instability::{Categories, Category, Occurrence};
use crate::perturbation::Perturbation;
use crate::random::{key, next, philox};

/// Instabilities of one place on this thread.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub category: Category,
    pub place: &'static Location<'static>,
    pub count: u64,
    pub first: Occurrence,
}

/// Settings of a scope, as operations need them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub seed: u64,
    pub perturbation: Perturbation,
    pub categories: Categories,
}

const DEFAULT: Mode = Mode { seed: 0, perturbation: Perturbation::Random, categories: Categories::NONE };

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(DEFAULT) };
    /// The perturbation is that of random rounding: what the fast path asks.
    static RANDOM: Cell<bool> = const { Cell::new(true) };
    static GRADUAL: Cell<bool> = const { Cell::new(false) };
    static PLACE: Cell<Occurrence> = const { Cell::new(Occurrence { replay: 0, task: 0, element: 0 }) };
    /// State of the generator within the element.
    static STATE: Cell<u64> = const { Cell::new(0) };
    static KEY: Cell<[u32; 2]> = const { Cell::new([0, 0]) };
    static RECORDS: RefCell<Vec<Record>> = const { RefCell::new(Vec::new()) };
}

#[inline(always)]
pub(crate) fn is_random() -> bool {
    RANDOM.get()
}

#[inline(always)]
pub(crate) fn watches_gradual_loss() -> bool {
    GRADUAL.get()
}

pub(crate) fn mode() -> Mode {
    MODE.get()
}

#[inline(always)]
pub(crate) fn counts(category: Category) -> bool {
    MODE.get().categories.has(category)
}

/// Random bits of the next operation.
#[inline(always)]
pub(crate) fn bits() -> u64 {
    let (state, word) = next(STATE.get());
    STATE.set(state);
    word
}

/// Begins element `number` of the task: its random bits depend on nothing that was computed before.
///
/// Kernels call it for each element of their result, so that the bits are the same however the
/// elements are divided among tasks and threads.
#[inline(always)]
pub fn element(number: u64) {
    let place = PLACE.get();
    PLACE.set(Occurrence { element: number, ..place });
    STATE.set(philox(KEY.get(), number, 0)[0]);
}

/// Counts an instability at the place of the operation.
#[cold]
#[inline(never)]
pub(crate) fn record(category: Category, place: &'static Location<'static>) {
    if !counts(category) {
        return;
    }
    let first = PLACE.get();
    RECORDS.with_borrow_mut(|records| {
        let same = |r: &&mut Record| r.category == category && core::ptr::eq(r.place, place);
        match records.iter_mut().find(same) {
            Some(record) => {
                record.count += 1;
                record.first = record.first.min(first);
            }
            None => records.push(Record { category, place, count: 1, first }),
        }
    });
}

/// All of the thread's state, put aside while an inner scope runs.
pub(crate) struct Saved {
    mode: Mode,
    place: Occurrence,
    state: u64,
    key: [u32; 2],
    records: Vec<Record>,
}

/// Enters a task of a scope; what was there is returned.
pub(crate) fn enter(mode: Mode, task: u64, replay: u64) -> Saved {
    let saved = Saved {
        mode: MODE.get(),
        place: PLACE.get(),
        state: STATE.get(),
        key: KEY.get(),
        records: RECORDS.take(),
    };
    set_mode(mode);
    PLACE.set(Occurrence { replay, task, element: 0 });
    KEY.set(key(mode.seed, task, replay));
    element(0);
    saved
}

/// Leaves the task: the former state is there again, and the instabilities since are returned.
pub(crate) fn leave(saved: Saved) -> Vec<Record> {
    set_mode(saved.mode);
    PLACE.set(saved.place);
    STATE.set(saved.state);
    KEY.set(saved.key);
    RECORDS.replace(saved.records)
}

fn set_mode(mode: Mode) {
    MODE.set(mode);
    RANDOM.set(matches!(mode.perturbation, Perturbation::Random));
    GRADUAL.set(mode.categories.has(Category::GradualLoss));
}
