//! State of the thread: the random bits of the next operation, and the instabilities so far.

use core::cell::{Cell, RefCell};
use core::panic::Location;

use crate::instability::{Categories, Category, Occurrence};
use crate::perturbation::Perturbation;
use crate::random::{first, key, next};
use crate::wide::Token;

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
    /// The thread runs code that is compiled for AVX-512.
    static COMPILED: Cell<Option<Token>> = const { Cell::new(None) };
    /// The same, if the perturbation is that of random rounding.
    static WIDE: Cell<Option<Token>> = const { Cell::new(None) };
    /// Replay and task.
    static PLACE: Cell<[u64; 2]> = const { Cell::new([0, 0]) };
    static ELEMENT: Cell<u64> = const { Cell::new(0) };
    /// State of the generator within the element.
    static STATE: Cell<u64> = const { Cell::new(0) };
    static KEY: Cell<u64> = const { Cell::new(0) };
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

/// Proof that operations may use AVX-512: random rounding in code that is compiled for it.
#[inline(always)]
pub(crate) fn wide() -> Option<Token> {
    WIDE.get()
}

/// Runs `f`, which is compiled for AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn compiled_for<R>(token: Token, f: impl FnOnce() -> R) -> R {
    struct Restored(Option<Token>);
    impl Drop for Restored {
        fn drop(&mut self) {
            set_compiled(self.0);
        }
    }
    let _restored = Restored(COMPILED.get());
    set_compiled(Some(token));
    f()
}

fn set_compiled(token: Option<Token>) {
    COMPILED.set(token);
    WIDE.set(token.filter(|_| is_random()));
}

pub(crate) fn mode() -> Mode {
    MODE.get()
}

#[inline(always)]
pub(crate) fn counts(category: Category) -> bool {
    MODE.get().categories.has(category)
}

/// Random bits of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Bits {
    pub word: u64,
    state: u64,
}

impl Bits {
    /// Says that the state of the generator is still the one after these bits, as it is after every
    /// function that operations call: the compiler then keeps it in a register.
    #[inline(always)]
    pub fn are_last(self) {
        STATE.set(self.state);
    }
}

/// Random bits of the next operation.
#[inline(always)]
pub(crate) fn bits() -> Bits {
    let (state, word) = next(STATE.get());
    STATE.set(state);
    Bits { word, state }
}

/// Begins element `number` of the task: its random bits depend on nothing that was computed before.
///
/// Kernels call it for each element of their result, so that the bits are the same however the
/// elements are divided among tasks and threads.
#[inline(always)]
pub fn element(number: u64) {
    ELEMENT.set(number);
    STATE.set(first(KEY.get(), number));
}

/// Counts an instability at the place of the operation.
#[cold]
#[inline(never)]
pub(crate) fn record(category: Category, place: &'static Location<'static>) {
    if !counts(category) {
        return;
    }
    let [replay, task] = PLACE.get();
    let first = Occurrence { replay, task, element: ELEMENT.get() };
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
    place: [u64; 2],
    element: u64,
    state: u64,
    key: u64,
    records: Vec<Record>,
}

/// Enters a task of a scope; what was there is returned.
pub(crate) fn enter(mode: Mode, task: u64, replay: u64) -> Saved {
    let saved = Saved {
        mode: MODE.get(),
        place: PLACE.get(),
        element: ELEMENT.get(),
        state: STATE.get(),
        key: KEY.get(),
        records: RECORDS.take(),
    };
    set_mode(mode);
    PLACE.set([replay, task]);
    KEY.set(key(mode.seed, task, replay));
    element(0);
    saved
}

/// Leaves the task: the former state is there again, and the instabilities since are returned.
pub(crate) fn leave(saved: Saved) -> Vec<Record> {
    set_mode(saved.mode);
    PLACE.set(saved.place);
    ELEMENT.set(saved.element);
    STATE.set(saved.state);
    KEY.set(saved.key);
    RECORDS.replace(saved.records)
}

fn set_mode(mode: Mode) {
    MODE.set(mode);
    RANDOM.set(matches!(mode.perturbation, Perturbation::Random));
    GRADUAL.set(mode.categories.has(Category::GradualLoss));
    set_compiled(COMPILED.get());
}
