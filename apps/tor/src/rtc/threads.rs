//! Threads that multiply, and the memory through which they and the thread of the frames speak.
//!
//! The thread of the frames stores slopes and steps (groups of columns that are complete), then
//! `published`: the frame and the number of its steps. A helper that sees this number sees what
//! was stored before. It multiplies its rows, stores commands, then the frame in `done`. The next
//! frame begins when all helpers are done, so that nothing is overwritten that is still read.

use super::gpu::Placed;
use super::packed::FrameSlopes;
use super::swap::Store;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::hint::spin_loop;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::thread::{Thread, park, yield_now};
use zellige_gpu::GpuError;
use zellige_kernels::few_bits::{GpuProduct, ROWS};

/// Value of `published` that ends helpers; no frame has so many steps.
const END: u64 = u64::MAX;

/// Rounds of waiting with the core kept, about 0.1 ms.
const SPINS: u32 = 2000;

/// Rounds after which a helper sleeps, about 1 ms where nothing else runs on its core.
const ROUNDS: u32 = 4000;

/// A value with cache lines of its own, so that threads that write others do not slow its readers.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Apart<T>(T);

/// State of a helper, which other threads read.
#[derive(Debug, Default)]
pub(super) struct HelperState {
    /// Frame whose commands it has stored last.
    done: AtomicU32,
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

/// Memory that the threads share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Frame in the upper half, number of its steps in the lower one; or `END`.
    published: Apart<AtomicU64>,
    /// Groups of columns in the order in which they became complete: the first one in the upper
    /// half, the end in the lower one.
    steps: Vec<AtomicU64>,
    /// Bits of the slopes.
    slopes: Vec<AtomicU32>,
    /// Bits of the commands.
    commands: Vec<AtomicU32>,
    states: Vec<Apart<HelperState>>,
    /// Reconstructors in use and on offer.
    pub(super) store: Arc<Store>,
}

impl Shared {
    pub(super) fn new((rows, cols): (usize, usize), helpers: usize, store: Arc<Store>) -> Self {
        let words = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        Shared {
            published: Apart::default(),
            steps: (0..cols).map(|_| AtomicU64::new(0)).collect(),
            slopes: words(cols),
            commands: words(rows),
            states: (0..helpers).map(|_| Apart::default()).collect(),
            store,
        }
    }

    pub(super) fn helpers(&self) -> usize {
        self.states.len()
    }

    // Slopes, steps and commands are Relaxed: `published` and `done` order them.

    pub(super) fn put_slope(&self, at: usize, slope: f32) {
        self.slopes[at].store(slope.to_bits(), Relaxed);
    }

    pub(super) fn put_step(&self, at: usize, groups: &Range<usize>) {
        self.steps[at].store((groups.start as u64) << 32 | groups.end as u64, Relaxed);
    }

    fn step(&self, at: usize) -> Range<usize> {
        let step = self.steps[at].load(Relaxed);
        (step >> 32) as usize..(step & 0xffff_ffff) as usize
    }

    /// Takes the next run of at most `most` groups of the first `steps` steps, from step `at.0`,
    /// group `at.1` of it on, and moves `at` behind it. Runs go on over steps: the longer they are,
    /// the longer the parts of memory that are read in a row.
    pub(super) fn next(&self, at: &mut (usize, usize), steps: usize, most: usize) -> Option<Range<usize>> {
        let mut run: Option<Range<usize>> = None;
        while at.0 < steps {
            let groups = self.step(at.0);
            let (start, done) = (groups.start + at.1, run.as_ref().map_or(0, ExactSizeIterator::len));
            if done == most || run.as_ref().is_some_and(|run| run.end != start) {
                break;
            }
            let end = groups.end.min(start + most - done);
            run = Some(run.map_or(start, |run| run.start)..end);
            *at = if end == groups.end { (at.0 + 1, 0) } else { (at.0, end - groups.start) };
        }
        run
    }

    /// Shows helpers the first `steps` steps of a frame.
    pub(super) fn publish(&self, frame: u32, steps: usize) {
        self.announce(u64::from(frame) << 32 | steps as u64);
    }

    /// Ends the helpers.
    pub(super) fn end(&self) {
        self.announce(END);
    }

    fn announce(&self, value: u64) {
        // SeqCst here and in `wait`: either the helper sees the value, or this sees it asleep.
        self.published.0.store(value, SeqCst);
        for Apart(state) in &self.states {
            if state.asleep.load(SeqCst) && state.asleep.swap(false, SeqCst) {
                state.thread.get().into_iter().for_each(Thread::unpark);
            }
        }
    }

    /// Waits until `published` differs from `known`.
    fn wait(&self, state: &HelperState, known: u64) -> u64 {
        let mut round = 0u32;
        loop {
            let value = self.published.0.load(Acquire);
            if value != known {
                return value;
            }
            match round {
                0..SPINS => spin_loop(),
                SPINS..ROUNDS => yield_now(),
                _ => {
                    state.asleep.store(true, SeqCst);
                    if self.published.0.load(SeqCst) == known {
                        park();
                    }
                    state.asleep.store(false, SeqCst);
                }
            }
            round = round.saturating_add(1);
        }
    }

    /// Returns whether a helper has stored the commands of a frame.
    pub(super) fn is_done(&self, helper: usize, frame: u32) -> bool {
        self.states[helper].0.done.load(Acquire) == frame
    }

    /// Copies the commands of rows that are done.
    pub(super) fn commands(&self, rows: Range<usize>, to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(&self.commands[rows]) {
            *to = f32::from_bits(from.load(Relaxed));
        }
    }
}

/// Waits a little, without the core after a while.
pub(super) fn pause(round: &mut u32) {
    *round = round.saturating_add(1);
    if *round < SPINS { spin_loop() } else { yield_now() }
}

/// Blocks of rows of one thread, with its copies of the slopes and its sums.
#[derive(Debug)]
pub(super) struct RowPart {
    pub(super) matrix: Arc<Placed>,
    pub(super) slopes: FrameSlopes,
    blocks: Range<usize>,
    sums: Vec<[f32; ROWS]>,
    gpu: Option<GpuProduct>,
}

impl RowPart {
    /// Takes part `part` of `parts` of the blocks.
    pub(super) fn new(matrix: Arc<Placed>, part: usize, parts: usize) -> Self {
        let edge = |part: usize| part * matrix.blocks() / parts;
        let blocks = edge(part)..edge(part + 1);
        RowPart {
            slopes: FrameSlopes::new(matrix.shape().1),
            sums: vec![[0.0; ROWS]; blocks.len()],
            blocks,
            matrix,
            gpu: None,
        }
    }

    /// Makes a GPU multiply, which has the matrix.
    pub(super) fn use_gpu(&mut self, product: GpuProduct) {
        self.gpu = Some(product);
    }

    /// Returns the rows.
    pub(super) fn rows(&self) -> Range<usize> {
        self.blocks.start * ROWS..self.matrix.shape().0.min(self.blocks.end * ROWS)
    }

    pub(super) fn begin(&mut self) {
        if self.gpu.is_none() {
            self.sums.fill([0.0; ROWS]);
        }
    }

    pub(super) fn add(&mut self, groups: Range<usize>) {
        self.matrix.prepare(groups.clone(), &mut self.slopes);
        if let (Some(product), Some(matrix)) = (&mut self.gpu, &self.matrix.on_gpu) {
            // `end` returns the error, too.
            let _ = product.add(matrix, groups, &self.slopes.digits);
            return;
        }
        self.matrix.multiply(self.blocks.clone(), groups, &self.slopes, &mut self.sums);
    }

    /// Returns the number of groups that are multiplied at a time: a 16th of a frame, so that
    /// packets that have come are read soon. A GPU multiplies without this thread.
    pub(super) fn most(&self) -> usize {
        if self.gpu.is_some() { self.matrix.groups() } else { self.matrix.run() }
    }

    /// Waits for the GPU, if one multiplies.
    ///
    /// # Errors
    /// The GPU has failed in this frame.
    pub(super) fn end(&mut self) -> Result<(), GpuError> {
        let rows = self.rows().len();
        let Some(product) = &mut self.gpu else { return Ok(()) };
        product.finish(&mut self.sums.as_flattened_mut()[..rows])
    }

    /// Returns the sums, row by row.
    pub(super) fn sums(&self) -> &[f32] {
        &self.sums.as_flattened()[..self.rows().len()]
    }
}

/// Multiplies the rows of a part in every frame, until the end.
pub(super) fn help(shared: &Shared, helper: usize, mut part: RowPart) {
    let Apart(state) = &shared.states[helper];
    state.thread.get_or_init(std::thread::current);
    let (mut known, mut left, mut version, mut at) = (0, 0, 0, (0, 0));
    loop {
        let value = shared.wait(state, known);
        if value == END {
            return;
        }
        let (frame, count) = ((value >> 32) as u32, (value & 0xffff_ffff) as usize);
        if frame != (known >> 32) as u32 {
            shared.store.follow(&mut version, &mut part.matrix);
            part.begin();
            (at, left) = ((0, 0), part.matrix.groups());
        }
        while let Some(groups) = shared.next(&mut at, count, part.most()) {
            let edges = part.matrix.edges();
            let columns = edges[groups.start]..edges[groups.end];
            for j in columns {
                part.slopes.values[j] = f32::from_bits(shared.slopes[j].load(Relaxed));
            }
            left -= groups.len();
            part.add(groups);
        }
        known = value;
        if left == 0 {
            for (to, sum) in shared.commands[part.rows()].iter().zip(part.sums()) {
                to.store(sum.to_bits(), Relaxed);
            }
            state.done.store(frame, Release);
        }
    }
}

/// Binds the calling thread to the `index`-th of the CPUs that it may use, if there are so many
/// and the system allows it. Returns whether it did.
pub(super) fn pin(index: usize) -> bool {
    let Ok(allowed) = sched_getaffinity(None) else { return false };
    let cpu = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).nth(index);
    cpu.is_some_and(|cpu| {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).is_ok()
    })
}
