//! Random task graphs, and their submission to anything that accepts tasks.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_runtime::{
    Data, Error, Format, Handle, Meta, Submit, TaskError, TaskRef, commute, read, reads, reduce, scratch,
    update, write,
};

/// A number that can be stored in several formats; each stores it differently, so that a wrong
/// format shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Stored bits.
    pub bits: u64,
    /// Format, 1 to 3.
    pub format: u16,
}

impl Number {
    /// A number in the first format.
    pub fn new(value: u64) -> Number {
        Number { bits: value, format: 1 }
    }

    /// Returns the stored number for a request in `format`.
    #[must_use]
    pub fn stored(self, format: u16) -> Number {
        // Rotations by the format: exact in both directions.
        let value = self.bits.rotate_right(7 * u32::from(self.format));
        Number { bits: value.rotate_left(7 * u32::from(format)), format }
    }
}

impl Data for Number {
    type Ref<'v> = &'v Number;
    type Mut<'v> = &'v mut Number;

    fn view(&self) -> &Number {
        self
    }

    fn view_mut(&mut self) -> &mut Number {
        self
    }

    fn meta(&self) -> Meta {
        Meta { format: Format(self.format), norm: f64::NAN, bytes: 8 }
    }

    fn convert(&self, to: Format) -> Option<Number> {
        (1..=3).contains(&to.0).then(|| self.stored(to.0))
    }
}

/// Change of a handle by a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Writes a new value.
    Write,
    /// Changes the value; with a format, after conversion in place.
    Update(Option<u16>),
    /// Adds, in any order.
    Commute,
    /// Adds to a partial result.
    Reduce,
}

/// End of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The task succeeds.
    Succeeds,
    /// The task returns an error.
    Fails,
    /// The task panics.
    Panics,
}

/// Task of a random graph.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Number that is mixed into all results of the task.
    pub salt: u64,
    /// Handles read one by one, with the requested format.
    pub read: Option<(usize, Option<u16>)>,
    /// Handles read as a list.
    pub list: Vec<usize>,
    /// Handles changed: one or two.
    pub change: Vec<(usize, Change)>,
    /// An earlier task that it follows.
    pub after: Option<usize>,
    /// Priority of the task.
    pub priority: i32,
    /// End of the task.
    pub outcome: Outcome,
}

impl TaskSpec {
    /// Handles read, in the order of [`mix`].
    pub fn inputs(&self) -> impl Iterator<Item = (usize, Option<u16>)> {
        self.read.into_iter().chain(self.list.iter().map(|&h| (h, None)))
    }
}

/// A random graph: initial values of its handles, and its tasks in the order of submission.
#[derive(Clone, Debug)]
pub struct GraphSpec {
    /// Start value of every handle; `None`: unwritten.
    pub start: Vec<Option<u64>>,
    /// The tasks.
    pub tasks: Vec<TaskSpec>,
}

/// Limits of random graphs.
#[derive(Clone, Copy, Debug)]
pub struct Menu {
    /// Tasks, at most.
    pub tasks: usize,
    /// Handles, at most.
    pub handles: usize,
    /// Tasks that commute or reduce.
    pub unordered: bool,
    /// Share of tasks that fail or panic.
    pub failures: f64,
    /// Handles without a first value.
    pub unwritten: bool,
}

impl Menu {
    /// All features except failures.
    pub const FULL: Menu = Menu { tasks: 120, handles: 9, unordered: true, failures: 0.0, unwritten: true };
}

/// Returns the graph of this seed.
pub fn random(seed: u64, menu: Menu) -> GraphSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let handles = rng.random_range(2..=menu.handles);
    let start: Vec<Option<u64>> =
        (0..handles).map(|_| (!menu.unwritten || rng.random_bool(0.8)).then(|| rng.random())).collect();
    let mut written: Vec<bool> = start.iter().map(Option::is_some).collect();
    // Each graph has its own taste, so that long chains, wide groups and mixtures all occur.
    let taste =
        [rng.random_range(0..4), rng.random_range(0..6), rng.random_range(0..6), rng.random_range(0..6)];
    let count = rng.random_range(1..=menu.tasks);
    let mut tasks = Vec::with_capacity(count);
    for index in 0..count {
        let mut free: Vec<usize> = (0..handles).collect();
        let pick = |rng: &mut ChaCha8Rng, free: &mut Vec<usize>, written: &[bool], any: bool| {
            let fit: Vec<usize> = (0..free.len()).filter(|&i| any || written[free[i]]).collect();
            (!fit.is_empty()).then(|| free.swap_remove(fit[rng.random_range(0..fit.len())]))
        };
        let mut change = Vec::new();
        for _ in 0..if rng.random_bool(0.3) { 2 } else { 1 } {
            let kinds = [
                (Change::Write, taste[0]),
                (Change::Update(rng.random_bool(0.3).then(|| rng.random_range(1..=3))), 1 + taste[1]),
                (Change::Commute, if menu.unordered { taste[2] } else { 0 }),
                (Change::Reduce, if menu.unordered { taste[3] } else { 0 }),
            ];
            let mut at: i32 = rng.random_range(0..kinds.iter().map(|k| k.1).sum());
            let kind = kinds.iter().find(|k| {
                let here = at < k.1;
                at -= k.1;
                here
            });
            let kind = kind.map_or(Change::Update(None), |k| k.0);
            if let Some(handle) = pick(&mut rng, &mut free, &written, kind == Change::Write) {
                change.push((handle, kind));
            }
        }
        let read = if rng.random_bool(0.5) { pick(&mut rng, &mut free, &written, false) } else { None };
        let read = read.map(|h| (h, rng.random_bool(0.4).then(|| rng.random_range(1..=3))));
        let length = if rng.random_bool(0.4) { rng.random_range(0..4) } else { 0 };
        let list: Vec<usize> =
            (0..length).map_while(|_| pick(&mut rng, &mut free, &written, false)).collect();
        for (handle, kind) in &change {
            written[*handle] |= *kind == Change::Write;
        }
        let outcome = match rng.random_bool(menu.failures) {
            false => Outcome::Succeeds,
            true => [Outcome::Fails, Outcome::Panics][rng.random_range(0..2)],
        };
        tasks.push(TaskSpec {
            salt: rng.random(),
            read,
            list,
            change,
            after: (index > 0 && rng.random_bool(0.1)).then(|| rng.random_range(0..index)),
            priority: rng.random_range(-2..=2),
            outcome,
        });
    }
    GraphSpec { start, tasks }
}

/// Combines the stored bits of a task's inputs, in order.
pub fn mix(salt: u64, inputs: impl Iterator<Item = u64>) -> u64 {
    inputs.fold(salt, |sum, bits| (sum ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23))
}

/// The new content of a changed handle.
pub fn changed(old: Number, kind: Change, input: u64) -> Number {
    let bits = match kind {
        Change::Write => input,
        Change::Update(_) => old.bits.wrapping_mul(3) ^ input,
        Change::Commute | Change::Reduce => old.bits.wrapping_add(input),
    };
    match kind {
        Change::Write => Number::new(bits),
        _ => Number { bits, ..old },
    }
}

/// Registers the handles of a graph.
pub fn register(s: &impl Submit, graph: &GraphSpec) -> Vec<Handle<Number>> {
    let handle = |(i, start): (usize, &Option<u64>)| {
        let handle = match start {
            Some(value) => s.register(Number::new(*value)),
            None => s.register_empty(),
        };
        handle.named(format!("h{i}")).with_reduction(
            |value: &Number| Number { bits: 0, format: value.format },
            |sum, part| sum.bits = sum.bits.wrapping_add(part.bits),
        )
    };
    graph.start.iter().enumerate().map(handle).collect()
}

/// Application of a change to a handle's view, of any kind.
trait Target {
    fn apply(self, kind: Change, input: u64);
}

impl Target for &mut Number {
    fn apply(self, kind: Change, input: u64) {
        *self = changed(*self, kind, input);
    }
}

impl Target for zellige_runtime::Slot<'_, Number> {
    fn apply(mut self, kind: Change, input: u64) {
        self.put(changed(Number::new(0), kind, input));
    }
}

fn end(outcome: Outcome) -> Result<(), TaskError> {
    match outcome {
        Outcome::Succeeds => Ok(()),
        Outcome::Fails => Err("meant to fail".into()),
        Outcome::Panics => panic!("meant to panic"),
    }
}

/// Submits the tasks of a graph, in order.
///
/// # Errors
/// The first refusal.
pub fn submit<S: Submit>(
    s: &S,
    graph: &GraphSpec,
    handles: &[Handle<Number>],
) -> Result<Vec<TaskRef>, Error> {
    let mut tasks: Vec<TaskRef> = Vec::with_capacity(graph.tasks.len());
    for task in &graph.tasks {
        let after = task.after.map(|index| tasks[index].clone());
        tasks.push(submit_one(s, task, handles, after)?);
    }
    Ok(tasks)
}

fn submit_one<S: Submit>(
    s: &S,
    task: &TaskSpec,
    handles: &[Handle<Number>],
    after: Option<TaskRef>,
) -> Result<TaskRef, Error> {
    let (salt, outcome, priority) = (task.salt, task.outcome, task.priority);
    let list = || reads(task.list.iter().map(|&h| &handles[h]));
    let kind = |at: usize| task.change.get(at).map(|c| c.1);
    // One tuple type per combination of accesses.
    macro_rules! go {
        ($name:literal; $($operand:expr),*; |$($view:ident),*| $inputs:expr; $($target:ident $at:tt),*) => {{
            #[allow(unused_variables)]
            let kinds = [kind(0), kind(1)];
            let builder = s.task($name).operands(($($operand,)*)).cpu(move |($($view,)*)| {
                #[allow(unused_variables)]
                let input = mix(salt, $inputs);
                // Half of the work is done before a task fails: nobody may see it.
                $($target.apply(kinds[$at].expect("one kind per target"), input);)*
                end(outcome)
            });
            let builder = builder.priority(priority);
            match &after { Some(earlier) => builder.after(earlier).submit(), None => builder.submit() }
        }};
    }
    macro_rules! with_read {
        ($name:literal; $($operand:expr),*; $($target:ident $at:tt),*) => {
            match task.read {
                Some((h, format)) => {
                    let one = read(&handles[h]);
                    let one = match format { Some(f) => one.as_format(Format(f)), None => one };
                    go!($name; one, list() $(, $operand)*; |one, many $(, $target)*|
                        std::iter::once(one.bits).chain(many.iter().map(|n| n.bits)); $($target $at),*)
                }
                None => go!($name; scratch::<u64>(3), list() $(, $operand)*; |work, many $(, $target)*| {
                        // Scratch memory holds anything: written before it is read.
                        work.fill(salt);
                        many.iter().map(|n| n.bits)
                    }; $($target $at),*),
            }
        };
    }
    let handle = |at: usize| &handles[task.change[at].0];
    let updated = |at: usize, format: Option<u16>| match format {
        Some(f) => update(handle(at)).as_format(Format(f)),
        None => update(handle(at)),
    };
    use Change::{Commute, Reduce, Update, Write};
    match (kind(0), kind(1)) {
        (None, _) => with_read!("look"; ; ),
        (Some(Write), None) => with_read!("w"; write(handle(0)); a 0),
        (Some(Update(f)), None) => with_read!("u"; updated(0, f); a 0),
        (Some(Commute), None) => with_read!("c"; commute(handle(0)); a 0),
        (Some(Reduce), None) => with_read!("r"; reduce(handle(0)); a 0),
        (Some(Write), Some(Write)) => with_read!("ww"; write(handle(0)), write(handle(1)); a 0, b 1),
        (Some(Write), Some(Update(g))) => with_read!("wu"; write(handle(0)), updated(1, g); a 0, b 1),
        (Some(Write), Some(Commute)) => with_read!("wc"; write(handle(0)), commute(handle(1)); a 0, b 1),
        (Some(Write), Some(Reduce)) => with_read!("wr"; write(handle(0)), reduce(handle(1)); a 0, b 1),
        (Some(Update(f)), Some(Write)) => with_read!("uw"; updated(0, f), write(handle(1)); a 0, b 1),
        (Some(Update(f)), Some(Update(g))) => with_read!("uu"; updated(0, f), updated(1, g); a 0, b 1),
        (Some(Update(f)), Some(Commute)) => with_read!("uc"; updated(0, f), commute(handle(1)); a 0, b 1),
        (Some(Update(f)), Some(Reduce)) => with_read!("ur"; updated(0, f), reduce(handle(1)); a 0, b 1),
        (Some(Commute), Some(Write)) => with_read!("cw"; commute(handle(0)), write(handle(1)); a 0, b 1),
        (Some(Commute), Some(Update(g))) => with_read!("cu"; commute(handle(0)), updated(1, g); a 0, b 1),
        (Some(Commute), Some(Commute)) => with_read!("cc"; commute(handle(0)), commute(handle(1)); a 0, b 1),
        (Some(Commute), Some(Reduce)) => with_read!("cr"; commute(handle(0)), reduce(handle(1)); a 0, b 1),
        (Some(Reduce), Some(Write)) => with_read!("rw"; reduce(handle(0)), write(handle(1)); a 0, b 1),
        (Some(Reduce), Some(Update(g))) => with_read!("ru"; reduce(handle(0)), updated(1, g); a 0, b 1),
        (Some(Reduce), Some(Commute)) => with_read!("rc"; reduce(handle(0)), commute(handle(1)); a 0, b 1),
        (Some(Reduce), Some(Reduce)) => with_read!("rr"; reduce(handle(0)), reduce(handle(1)); a 0, b 1),
    }
}
