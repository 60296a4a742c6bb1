//! The policies dm, dmda, dmdar and dmdas: a ready task goes to the worker on which it is expected
//! to end first, given the load of that worker and, except for dm, the location of the operands.
//!
//! The formulas are StarPU's (its handbook calls the family "performance model policies"). For a
//! task pushed at time `now` and a worker `w` that can run it, `L_w` denotes the expected length of
//! all tasks that were pushed to `w` and have not begun, and `F_w` the expected end of its running
//! tasks:
//!
//! ```text
//! start(w)   = max(F_w, now) + L_w
//! end(w)     = max(start(w), now + T_data(w)) + T_exec(w)          transfers overlap the queue
//! fitness(w) = alpha (end(w) - min end) + beta T_data(w)           the least wins, then the first worker
//! ```
//!
//! `min end` is the same for all workers, so that the search omits it. Beta counts the transfer a
//! second time, on purpose: a bias for locality. The transfer time is that from the nearest source
//! over idle links, plus the conversion if that source has another format. The case that a format
//! is transferred wide because its sender has no room to convert is neglected. dm uses `T_data =
//! 0`. StarPU's third term, gamma times the energy of the task, is omitted: nothing measures energy
//! here. Times are integer nanoseconds, weights thousandths, so that virtual time is the same on
//! every machine.
//!
//! A queue belongs to its worker: there is no stealing. dm and dmda pop in the order of arrival,
//! dmdar the task with the fewest missing bytes among the first [`worker_queue::WINDOW`] queued,
//! dmdas by priority and, among equal priorities, like dmdar.
//!
//! # Tasks that no model knows
//!
//! A missing estimate for one kind of device does not make the schedule greedy. The expected time
//! of such a task there is its time on the fastest known kind (optimistic, so that the unknown kind
//! is tried), or the recent time of tasks without an estimate if nothing is known at all. Then
//!
//! 1. while fewer than [`EXPLORING`] tasks are in flight to a kind for the sake of its model, the
//!    kinds to which the task is unknown get it in turn, on their best worker;
//! 2. beyond that, it is placed by fitness among the kinds that know it: a burst of a thousand new
//!    tasks costs the slow kind a handful of them, not half;
//! 3. if none knows it, it is placed by fitness with the guesses: loads are even until there is
//!    something to learn from.

#[cfg(test)]
mod tests;
mod worker_queue;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use self::worker_queue::{Load, WorkerQueue};
use super::kinds::{self, Expected, Kinds, PerKind, nanos};
use super::{Policy, ReadyTask, SchedView, Wake};

/// Maximum number of tasks in flight to one kind of device for its model: a history is trusted
/// after five samples, and discards the first.
const EXPLORING: usize = 8;

/// Member of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    /// Models only.
    Dm,
    /// Models and data.
    Dmda,
    /// Like dmda; the queued task with the fewest missing bytes comes first.
    Dmdar,
    /// Like dmda; by priority, then like dmdar.
    Dmdas,
}

impl Flavour {
    /// Returns the flavour with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Flavour::Dm, Flavour::Dmda, Flavour::Dmdar, Flavour::Dmdas].into_iter().find(|f| f.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Flavour::Dm => "dm",
            Flavour::Dmda => "dmda",
            Flavour::Dmdar => "dmdar",
            Flavour::Dmdas => "dmdas",
        }
    }
}

/// Weights of an early end and a short transfer, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weights {
    alpha: u64,
    beta: u64,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { alpha: 1000, beta: 1000 }
    }
}

impl Weights {
    /// Parses e.g. `alpha=1,beta=2`: numbers from 0 to 1000.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut weights = Weights::default();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.parse::<f64>().ok().filter(|x| (0.0..=1000.0).contains(x));
            let weight = match name {
                "alpha" => &mut weights.alpha,
                "beta" => &mut weights.beta,
                _ => return Err(format!("{name:?} is no weight: there are alpha and beta")),
            };
            let value = value.ok_or_else(|| format!("{part:?}: write e.g. {name}=2, from 0 to 1000"))?;
            *weight = (value * 1000.0).round() as u64;
        }
        Ok(weights)
    }

    /// Returns the fitness of a worker up to a constant.
    fn score(self, end: u64, transfer: u64) -> u128 {
        u128::from(self.alpha) * u128::from(end) + u128::from(self.beta) * u128::from(transfer)
    }
}

/// A policy of the family; see the module.
#[derive(Debug)]
pub(super) struct Dm {
    flavour: Flavour,
    weights: Weights,
    queues: Vec<CachePadded<WorkerQueue>>,
    machine: OnceLock<MachineKinds>,
    /// Kind that explores next.
    turn: CachePadded<AtomicUsize>,
    /// Recent time of tasks without an estimate, approximately their median (ns); 0 until one has
    /// ended.
    recent: CachePadded<AtomicU64>,
}

#[derive(Debug)]
struct MachineKinds {
    kinds: Kinds,
    /// Number of tasks in flight for a model, per kind.
    exploring: Vec<CachePadded<AtomicUsize>>,
}

impl Dm {
    /// Creates the policy for `workers` workers.
    pub(super) fn new(flavour: Flavour, weights: Weights, workers: usize) -> Self {
        Dm {
            flavour,
            weights,
            queues: (0..workers).map(|_| CachePadded::default()).collect(),
            machine: OnceLock::new(),
            turn: CachePadded::default(),
            recent: CachePadded::default(),
        }
    }

    fn machine(&self, view: &SchedView<'_>) -> &MachineKinds {
        self.machine.get_or_init(|| {
            let kinds = Kinds::new(view);
            let exploring = (0..kinds.len()).map(|_| CachePadded::default()).collect();
            MachineKinds { kinds, exploring }
        })
    }

    fn minds_data(&self) -> bool {
        self.flavour != Flavour::Dm
    }

    /// Returns true if a worker takes the task with the fewest missing bytes first.
    fn goes_by_data(&self) -> bool {
        matches!(self.flavour, Flavour::Dmdar | Flavour::Dmdas)
    }

    /// Returns the worker for the task, and the task's load there; `None` if nobody can run it.
    fn place(&self, view: &SchedView<'_>, task: &ReadyTask, machine: &MachineKinds) -> Option<(usize, Load)> {
        let expected = machine.kinds.expect(view, task);
        let fastest =
            expected.iter().filter_map(|e| if let Expected::Known(t) = e { Some(*t) } else { None }).min();
        let guess = fastest.unwrap_or_else(|| kinds::length(self.recent.load(Ordering::Relaxed)));
        let explored = self.explored(machine, &expected);
        let lengths: PerKind<Option<u64>> = (0..expected.len())
            .map(|kind| match expected[kind] {
                Expected::Never => None,
                _ if explored.is_some_and(|explored| explored != kind) => None,
                Expected::Known(time) => Some(time),
                // A kind with enough tasks to learn from leaves the rest to the kinds that know
                // them; but somebody has to take it.
                Expected::Unknown => (fastest.is_none() || explored.is_some()).then_some(guess),
            })
            .collect();
        let worker = self.best(view, task, &machine.kinds, &lengths)?;
        let kind = machine.kinds.of(worker);
        let length = lengths[kind].unwrap_or(guess);
        Some((
            worker,
            Load { length, guess: expected[kind] == Expected::Unknown, explores: explored.is_some() },
        ))
    }

    /// Returns the kind that is to learn from the task, if there is one.
    fn explored(&self, machine: &MachineKinds, expected: &[Expected]) -> Option<usize> {
        let able = expected.iter().filter(|&&e| e != Expected::Never).count();
        if able < 2 || !expected.contains(&Expected::Unknown) {
            return None;
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..expected.len()).map(|n| (first + n) % expected.len()).find(|&kind| {
            expected[kind] == Expected::Unknown && machine.exploring[kind].load(Ordering::Relaxed) < EXPLORING
        })
    }

    /// Returns the worker of least fitness among the kinds that have a length.
    fn best(
        &self,
        view: &SchedView<'_>,
        task: &ReadyTask,
        kinds: &Kinds,
        lengths: &[Option<u64>],
    ) -> Option<usize> {
        let now = nanos(view.now());
        let transfers = self.minds_data().then(|| view.transfer_times(task));
        let mut able = kinds.able(view, task);
        let mut best: Option<(u128, usize)> = None;
        for group in kinds.groups() {
            let Some(length) = lengths[group.kind] else { continue };
            let transfer = transfers.as_ref().map_or(0, |times| times[group.node]);
            let there = now.saturating_add(transfer);
            // Workers of a group differ by their loads alone: take the first of those that can
            // start soonest.
            let mut soonest: Option<(u64, usize)> = None;
            for &worker in &group.workers {
                let start = self.queues[worker].start(now).max(there);
                if soonest.is_none_or(|(least, _)| start < least)
                    && (!task.is_restricted() || able.includes(worker))
                {
                    soonest = Some((start, worker));
                }
            }
            let Some((start, worker)) = soonest else { continue };
            let end = start.saturating_add(length);
            let score = if self.minds_data() { self.weights.score(end, transfer) } else { end.into() };
            let scored = (score, worker);
            if best.is_none_or(|best| scored < best) && able.includes(worker) {
                best = Some(scored);
            }
        }
        best.map(|(_, worker)| worker)
    }

    /// Records the time of a task that no model knows: a step of an eighth towards it, so that a
    /// single outlier has little effect. (Concurrent updates lose one.)
    fn learn(&self, time: u64) {
        let before = self.recent.load(Ordering::Relaxed);
        let step = before / 8 + 1;
        let now = if before == 0 { time } else { time.clamp(before - step.min(before), before + step) };
        self.recent.store(now, Ordering::Relaxed);
    }
}

impl Policy for Dm {
    fn name(&self) -> &str {
        self.flavour.name()
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        let machine = self.machine(view);
        let Some((worker, load)) = self.place(view, &task, machine) else {
            // No remaining device can run it: it is dropped and fails with its name.
            return Wake::Any;
        };
        if load.explores {
            machine.exploring[machine.kinds.of(worker)].fetch_add(1, Ordering::Relaxed);
        }
        if self.minds_data() {
            view.prefetch(&task, worker);
        }
        self.queues[worker].push(task, load, self.flavour == Flavour::Dmdas);
        Wake::Worker(worker)
    }

    fn sort_again(&self) {
        if self.flavour == Flavour::Dmdas {
            self.queues.iter().for_each(|queue| queue.sort_again());
        }
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        self.queues[worker].pop(view, worker, self.goes_by_data())
    }

    fn pop_like(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        first: &ReadyTask,
        most: usize,
    ) -> Vec<ReadyTask> {
        // Nobody else would take them.
        let next = || self.queues[worker].pop_like(view, worker, self.goes_by_data(), first);
        std::iter::from_fn(next).take(most).collect()
    }

    fn follows(&self) -> bool {
        true
    }

    fn began(&self, view: &SchedView<'_>, worker: usize, task: &ReadyTask) {
        self.queues[worker].began(nanos(view.now()), task.id());
    }

    fn ended(&self, view: &SchedView<'_>, worker: usize, id: u64) {
        let Some(ended) = self.queues[worker].ended(nanos(view.now()), id) else {
            return;
        };
        if let Some(time) = ended.time.filter(|_| ended.load.guess) {
            self.learn(time);
        }
        if ended.load.explores {
            let machine = self.machine(view);
            machine.exploring[machine.kinds.of(worker)].fetch_sub(1, Ordering::Relaxed);
        }
    }
}
