//! The native trace file: every record of a [`Trace`], from which the other forms are made. `docs/traces.md` describes it.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{
    EvictionEvent, GivenTime, IdleEvent, IdleState, MemoryEvent, TaskEvent, Trace, TraceNode, TraceWorker,
    TransferEvent, TransferReason,
};

/// What a native trace file begins with.
pub const MAGIC: [u8; 8] = *b"zltrace\n";

/// The version that is written, and read. A change of any section is a new version.
pub const VERSION: u32 = 1;

/// Why a file is no native trace.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It begins with something else.
    #[error("not a native trace file: it does not begin with \"zltrace\"; `--trace FILE.zt` writes one")]
    Magic,
    /// Another version of this program has written it.
    #[error(
        "a native trace file of version {0}; this program reads version {VERSION}: record the trace anew"
    )]
    Version(u32),
    /// It ends too early.
    #[error("the trace file ends within section {0}: it was cut off")]
    Truncated(&'static str),
    /// Another section stands there, or nothing should.
    #[error("the trace file has {found} where section {expected} should be")]
    Section {
        /// What should be there.
        expected: &'static str,
        /// What is.
        found: String,
    },
    /// A section that does not hold what it should.
    #[error("section {section} of the trace file: {problem}")]
    Content {
        /// Which.
        section: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// One section: a name, and a value that serde knows.
macro_rules! sections {
    ($($field:ident: $type:ty = $name:literal),* $(,)?) => {
        /// The sections, in the order in which they stand in a file.
        #[derive(Default)]
        struct Sections { $($field: $type,)* }

        impl Sections {
            fn write(&self, out: &mut impl Write) -> io::Result<()> {
                $(write_section(out, $name, &self.$field)?;)*
                Ok(())
            }

            fn read(bytes: &mut &[u8]) -> Result<Self, ReadError> {
                Ok(Sections { $($field: read_section(bytes, $name)?,)* })
            }
        }
    };
}

sections! {
    strings: Vec<String> = "strs",
    run: Run = "run ",
    tasks: Tasks = "task",
    edges: Edges = "edge",
    idle: Idle = "idle",
    transfers: Transfers = "xfer",
    memory: Memory = "memo",
    evictions: Evictions = "evic",
    given: Given = "time",
}

/// The last section: nothing follows.
const END: &str = "end ";

#[derive(Default, Serialize, Deserialize)]
struct Run {
    policy: String,
    lost: u64,
    workers: Vec<Worker>,
    nodes: Vec<Node>,
}

#[derive(Serialize, Deserialize)]
struct Worker(String, String, u32);

/// Name, capacity, hits, misses, prefetches used and unused.
#[derive(Serialize, Deserialize)]
struct Node(String, Option<u64>, u64, u64, u64, u64);

/// Columns of numbers, all of one length.
macro_rules! columns {
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        #[derive(Default, Serialize, Deserialize)]
        struct $name { $($field: Vec<$type>,)* }

        impl $name {
            /// How many rows there are, if all columns have as many.
            fn rows(&self, section: &'static str) -> Result<usize, ReadError> {
                let lengths = [$(self.$field.len(),)*];
                match lengths.iter().all(|&length| length == lengths[0]) {
                    true => Ok(lengths[0]),
                    false => Err(ReadError::Content { section, problem: "columns of different lengths".into() }),
                }
            }
        }
    };
}

// Times, and the numbers of tasks, are differences to the row before: small numbers take few bytes.
columns!(Tasks {
    worker: u32,
    id: i64,
    name: u32,
    label: u32,
    implementation: u32,
    batch: u32,
    coords: Option<Vec<u32>>,
    priority: i32,
    flops: f64,
    bytes: u64,
    start_ns: i64,
    took_ns: i64,
    predicted_ns: u64,
    ready: u32,
    failed: bool,
});
columns!(Edges { to: i64, back: i64 });
columns!(Idle { worker: u32, start_ns: i64, took_ns: i64, state: u8 });
columns!(Transfers {
    from: u32,
    to: u32,
    data: u64,
    label: u32,
    bytes: u64,
    start_ns: i64,
    took_ns: i64,
    reason: u8,
    converted: bool,
});
columns!(Memory { node: u32, at_ns: i64, used: u64 });
columns!(Evictions { node: u32, data: u64, bytes: u64, at_ns: i64, written_back: bool });
columns!(Given { name: u32, label: u32, kind: u32, time_ns: u64 });

/// Numbers as differences to the one before.
#[derive(Default)]
struct Delta(u64);

impl Delta {
    fn of(&mut self, value: u64) -> i64 {
        let before = std::mem::replace(&mut self.0, value);
        value.wrapping_sub(before) as i64
    }

    fn back(&mut self, difference: i64) -> u64 {
        self.0 = self.0.wrapping_add(difference as u64);
        self.0
    }
}

/// The distinct strings, each with its place.
#[derive(Default)]
struct Strings<'t> {
    place: HashMap<&'t str, u32>,
    list: Vec<String>,
}

impl<'t> Strings<'t> {
    fn place(&mut self, text: &'t str) -> u32 {
        *self.place.entry(text).or_insert_with(|| {
            self.list.push(text.into());
            self.list.len() as u32 - 1
        })
    }
}

/// The text for as long as the process lives: records name codelets by what a program has compiled in. A process that reads traces keeps
/// each distinct name once.
fn kept(text: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    // Whoever panicked has not left it half changed.
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.get(text).copied().unwrap_or_else(|| {
        let text: &'static str = text.to_owned().leak();
        names.insert(text);
        text
    })
}

fn write_section(out: &mut impl Write, name: &str, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).map_err(io::Error::other)?;
    out.write_all(name.as_bytes())?;
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(&bytes)
}

/// Takes the next bytes off; `None` if there are fewer.
fn take<'b>(bytes: &mut &'b [u8], count: u64) -> Option<&'b [u8]> {
    let (head, tail) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = tail;
    Some(head)
}

fn take_number<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    take(bytes, N as u64)?.try_into().ok()
}

/// The content of the section that has to come next.
fn take_section<'b>(bytes: &mut &'b [u8], section: &'static str) -> Result<&'b [u8], ReadError> {
    let cut = ReadError::Truncated(section.trim_end());
    let Some(name) = take_number::<4>(bytes) else { return Err(cut) };
    if name != section.as_bytes() {
        let found = String::from_utf8_lossy(&name).trim_end().escape_debug().to_string();
        return Err(ReadError::Section { expected: section.trim_end(), found: format!("{found:?}") });
    }
    let length = take_number(bytes).map(u64::from_le_bytes);
    length.and_then(|length| take(bytes, length)).ok_or(cut)
}

fn read_section<T: DeserializeOwned>(bytes: &mut &[u8], section: &'static str) -> Result<T, ReadError> {
    let mut content = take_section(bytes, section)?;
    let wrong = |problem: String| ReadError::Content { section: section.trim_end(), problem };
    let value = ciborium::from_reader(&mut content).map_err(|error| wrong(error.to_string()))?;
    match content.len() {
        0 => Ok(value),
        left => Err(wrong(format!("{left} bytes too many"))),
    }
}

impl Trace {
    /// Writes every record in the native form, from which [`Trace::read_native`] makes the same trace.
    ///
    /// # Errors
    /// What `out` answers.
    pub fn write_native(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        self.to_sections().write(out)?;
        out.write_all(END.as_bytes())?;
        out.write_all(&0u64.to_le_bytes())
    }

    /// Reads what [`Trace::write_native`] has written.
    ///
    /// # Errors
    /// [`ReadError`] for anything else, whatever it is.
    pub fn read_native(mut bytes: &[u8]) -> Result<Trace, ReadError> {
        let bytes = &mut bytes;
        if take_number(bytes) != Some(MAGIC) {
            return Err(ReadError::Magic);
        }
        let version = take_number(bytes).map(u32::from_le_bytes).ok_or(ReadError::Truncated("version"))?;
        if version != VERSION {
            return Err(ReadError::Version(version));
        }
        let sections = Sections::read(bytes)?;
        take_section(bytes, END)?;
        match bytes.len() {
            0 => sections.into_trace(),
            left => Err(ReadError::Section { expected: "nothing", found: format!("{left} bytes") }),
        }
    }

    fn to_sections(&self) -> Sections {
        let mut sections = Sections::default();
        let mut strings = Strings::default();
        sections.run = Run {
            policy: self.policy.clone(),
            lost: self.lost,
            workers: self.workers.iter().map(Worker::from).collect(),
            nodes: self.nodes.iter().map(Node::from).collect(),
        };
        let (to, mut id, mut start) = (&mut sections.tasks, Delta::default(), Delta::default());
        for task in &self.tasks {
            to.worker.push(task.worker);
            to.id.push(id.of(task.id));
            to.name.push(strings.place(task.name));
            to.label.push(strings.place(task.label));
            to.implementation.push(strings.place(task.implementation));
            to.batch.push(task.batch);
            to.coords.push(task.coords.map(without_unused));
            to.priority.push(task.priority);
            to.flops.push(task.flops);
            to.bytes.push(task.bytes);
            to.start_ns.push(start.of(task.start_ns));
            to.took_ns.push(Delta(task.start_ns).of(task.end_ns));
            to.predicted_ns.push(task.predicted_ns);
            to.ready.push(task.ready);
            to.failed.push(task.failed);
        }
        let (to, mut after) = (&mut sections.edges, Delta::default());
        for &(first, second) in &self.edges {
            to.to.push(after.of(second));
            to.back.push(Delta(first).of(second));
        }
        let (to, mut start) = (&mut sections.idle, Delta::default());
        for idle in &self.idle {
            to.worker.push(idle.worker);
            to.start_ns.push(start.of(idle.start_ns));
            to.took_ns.push(Delta(idle.start_ns).of(idle.end_ns));
            to.state.push(idle.state as u8);
        }
        let (to, mut start) = (&mut sections.transfers, Delta::default());
        for transfer in &self.transfers {
            to.from.push(transfer.from);
            to.to.push(transfer.to);
            to.data.push(transfer.data);
            to.label.push(strings.place(transfer.label));
            to.bytes.push(transfer.bytes);
            to.start_ns.push(start.of(transfer.start_ns));
            to.took_ns.push(Delta(transfer.start_ns).of(transfer.end_ns));
            to.reason.push(transfer.reason as u8);
            to.converted.push(transfer.converted);
        }
        let (to, mut at) = (&mut sections.memory, Delta::default());
        for memory in &self.memory {
            to.node.push(memory.node);
            to.at_ns.push(at.of(memory.at_ns));
            to.used.push(memory.used);
        }
        let (to, mut at) = (&mut sections.evictions, Delta::default());
        for eviction in &self.evictions {
            to.node.push(eviction.node);
            to.data.push(eviction.data);
            to.bytes.push(eviction.bytes);
            to.at_ns.push(at.of(eviction.at_ns));
            to.written_back.push(eviction.written_back);
        }
        let to = &mut sections.given;
        for given in &self.given {
            to.name.push(strings.place(given.name));
            to.label.push(strings.place(given.label));
            to.kind.push(strings.place(&given.kind));
            to.time_ns.push(given.time_ns);
        }
        sections.strings = strings.list;
        sections
    }
}

impl Sections {
    fn into_trace(self) -> Result<Trace, ReadError> {
        let strings: Vec<&'static str> = self.strings.iter().map(|text| kept(text)).collect();
        let string = |section, place: u32| {
            let problem = || format!("no string has the number {place}");
            let found = strings.get(place as usize).copied();
            found.ok_or_else(|| ReadError::Content { section, problem: problem() })
        };
        let Run { policy, lost, workers, nodes } = self.run;
        Ok(Trace {
            workers: workers.into_iter().map(TraceWorker::from).collect(),
            nodes: nodes.into_iter().map(TraceNode::from).collect(),
            policy,
            tasks: self.tasks.read(&string)?,
            edges: self.edges.read()?,
            idle: self.idle.read()?,
            transfers: self.transfers.read(&string)?,
            memory: self.memory.read()?,
            evictions: self.evictions.read()?,
            given: self.given.read(&string)?,
            lost,
        })
    }
}

type StringOf<'s> = dyn Fn(&'static str, u32) -> Result<&'static str, ReadError> + 's;

impl Tasks {
    fn read(&self, string: &StringOf<'_>) -> Result<Vec<TaskEvent>, ReadError> {
        const SECTION: &str = "task";
        let (mut id, mut start) = (Delta::default(), Delta::default());
        let task = |i: usize| {
            let start_ns = start.back(self.start_ns[i]);
            Ok(TaskEvent {
                worker: self.worker[i],
                id: id.back(self.id[i]),
                name: string(SECTION, self.name[i])?,
                label: string(SECTION, self.label[i])?,
                implementation: string(SECTION, self.implementation[i])?,
                batch: self.batch[i],
                coords: self.coords[i].as_deref().map(with_unused).transpose()?,
                priority: self.priority[i],
                flops: self.flops[i],
                bytes: self.bytes[i],
                start_ns,
                end_ns: Delta(start_ns).back(self.took_ns[i]),
                predicted_ns: self.predicted_ns[i],
                ready: self.ready[i],
                failed: self.failed[i],
            })
        };
        (0..self.rows(SECTION)?).map(task).collect()
    }
}

impl Edges {
    fn read(&self) -> Result<Vec<(u64, u64)>, ReadError> {
        let mut to = Delta::default();
        let edge = |i: usize| {
            let to = to.back(self.to[i]);
            (to.wrapping_sub(self.back[i] as u64), to)
        };
        Ok((0..self.rows("edge")?).map(edge).collect())
    }
}

impl Idle {
    fn read(&self) -> Result<Vec<IdleEvent>, ReadError> {
        let mut start = Delta::default();
        let idle = |i: usize| {
            let start_ns = start.back(self.start_ns[i]);
            let state = one_of(&IdleState::ALL, "idle", self.state[i])?;
            Ok(IdleEvent {
                worker: self.worker[i],
                start_ns,
                end_ns: Delta(start_ns).back(self.took_ns[i]),
                state,
            })
        };
        (0..self.rows("idle")?).map(idle).collect()
    }
}

impl Transfers {
    fn read(&self, string: &StringOf<'_>) -> Result<Vec<TransferEvent>, ReadError> {
        const SECTION: &str = "xfer";
        let mut start = Delta::default();
        let transfer = |i: usize| {
            let start_ns = start.back(self.start_ns[i]);
            Ok(TransferEvent {
                from: self.from[i],
                to: self.to[i],
                data: self.data[i],
                label: string(SECTION, self.label[i])?,
                bytes: self.bytes[i],
                start_ns,
                end_ns: Delta(start_ns).back(self.took_ns[i]),
                reason: one_of(&TransferReason::ALL, SECTION, self.reason[i])?,
                converted: self.converted[i],
            })
        };
        (0..self.rows(SECTION)?).map(transfer).collect()
    }
}

impl Memory {
    fn read(&self) -> Result<Vec<MemoryEvent>, ReadError> {
        let mut at = Delta::default();
        let memory =
            |i: usize| MemoryEvent { node: self.node[i], at_ns: at.back(self.at_ns[i]), used: self.used[i] };
        Ok((0..self.rows("memo")?).map(memory).collect())
    }
}

impl Evictions {
    fn read(&self) -> Result<Vec<EvictionEvent>, ReadError> {
        let mut at = Delta::default();
        let eviction = |i: usize| EvictionEvent {
            node: self.node[i],
            data: self.data[i],
            bytes: self.bytes[i],
            at_ns: at.back(self.at_ns[i]),
            written_back: self.written_back[i],
        };
        Ok((0..self.rows("evic")?).map(eviction).collect())
    }
}

impl Given {
    fn read(&self, string: &StringOf<'_>) -> Result<Vec<GivenTime>, ReadError> {
        const SECTION: &str = "time";
        let given = |i: usize| {
            Ok(GivenTime {
                name: string(SECTION, self.name[i])?,
                label: string(SECTION, self.label[i])?,
                kind: string(SECTION, self.kind[i])?.into(),
                time_ns: self.time_ns[i],
            })
        };
        (0..self.rows(SECTION)?).map(given).collect()
    }
}

/// The coordinates up to the last one in use.
fn without_unused(coords: [u32; 3]) -> Vec<u32> {
    let used = coords.iter().rposition(|&coord| coord != u32::MAX).map_or(0, |last| last + 1);
    coords[..used].into()
}

fn with_unused(used: &[u32]) -> Result<[u32; 3], ReadError> {
    let problem = || format!("{} coordinates; a task has three at most", used.len());
    let mut coords = [u32::MAX; 3];
    let places = coords.get_mut(..used.len());
    places.ok_or_else(|| ReadError::Content { section: "task", problem: problem() })?.copy_from_slice(used);
    Ok(coords)
}

fn one_of<T: Copy>(all: &[T], section: &'static str, number: u8) -> Result<T, ReadError> {
    let problem = || format!("{number} where there are numbers below {}", all.len());
    all.get(usize::from(number)).copied().ok_or_else(|| ReadError::Content { section, problem: problem() })
}

impl From<&TraceWorker> for Worker {
    fn from(worker: &TraceWorker) -> Self {
        Worker(worker.name.clone(), worker.kind.clone(), worker.node)
    }
}

impl From<Worker> for TraceWorker {
    fn from(Worker(name, kind, node): Worker) -> Self {
        TraceWorker { name, kind, node }
    }
}

impl From<&TraceNode> for Node {
    fn from(node: &TraceNode) -> Self {
        Node(
            node.name.clone(),
            node.capacity,
            node.hits,
            node.misses,
            node.prefetch_used,
            node.prefetch_unused,
        )
    }
}

impl From<Node> for TraceNode {
    fn from(Node(name, capacity, hits, misses, prefetch_used, prefetch_unused): Node) -> Self {
        TraceNode { name, capacity, hits, misses, prefetch_used, prefetch_unused }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::{gpu, traces};

    fn native(trace: &Trace) -> Vec<u8> {
        let mut bytes = Vec::new();
        trace.write_native(&mut bytes).unwrap();
        bytes
    }

    fn problem(bytes: &[u8]) -> String {
        Trace::read_native(bytes).unwrap_err().to_string()
    }

    proptest! {
        #![proptest_config(zellige_test_scale::cases(256))]

        #[test]
        fn what_is_written_is_read(trace in traces()) {
            let bytes = native(&trace);
            let read = Trace::read_native(&bytes).unwrap();
            // As text, since numbers may be NaN.
            prop_assert_eq!(format!("{read:?}"), format!("{trace:?}"));
            prop_assert_eq!(native(&read), bytes);
        }

        #[test]
        fn what_is_cut_or_changed_is_refused_or_read(
            trace in traces(),
            cut in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = native(&trace);
            let end = cut.index(bytes.len());
            prop_assert!(Trace::read_native(&bytes[..end]).is_err());
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            // Whatever it says, it does not panic, and neither does what is made of it.
            if let Ok(trace) = Trace::read_native(&bytes) {
                trace.write_native(&mut std::io::sink()).unwrap();
            }
        }
    }

    #[test]
    fn problems_have_names() {
        let bytes = native(&gpu());
        assert!(problem(b"{\"traceEvents\":[]}").contains("--trace FILE.zt"));
        assert!(problem(b"").contains("not a native trace file"));
        assert_eq!(problem(&bytes[..10]), "the trace file ends within section version: it was cut off");
        assert_eq!(problem(&bytes[..40]), "the trace file ends within section strs: it was cut off");
        assert!(problem(&bytes[..bytes.len() - 1]).contains("section end"));
        let mut later = bytes.clone();
        later[8] = 7;
        assert!(problem(&later).contains("of version 7"), "{}", problem(&later));
        let more = [&bytes[..], b"more"].concat();
        assert_eq!(problem(&more), "the trace file has 4 bytes where section nothing should be");
        let mut other = bytes.clone();
        other[12..16].copy_from_slice(b"abc\n");
        assert!(problem(&other).contains("where section strs should be"), "{}", problem(&other));
        let mut long = bytes;
        long[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(problem(&long).contains("strs"));
    }

    #[test]
    fn sections_that_contradict_themselves_are_refused() {
        let written = |change: fn(&mut Sections)| {
            let mut sections = gpu().to_sections();
            change(&mut sections);
            let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
            sections.write(&mut bytes).unwrap();
            bytes.extend(b"end \0\0\0\0\0\0\0\0");
            problem(&bytes)
        };
        assert_eq!(
            written(|s| s.tasks.ready.clear()),
            "section task of the trace file: columns of different lengths"
        );
        assert!(written(|s| s.tasks.name[0] = 99).contains("no string has the number 99"));
        assert!(written(|s| s.tasks.coords[0] = Some(vec![0; 4])).contains("4 coordinates"));
        assert!(written(|s| s.idle.state[0] = 3).contains("section idle"));
        assert!(written(|s| s.transfers.reason[0] = 5).contains("numbers below 5"));
    }

    #[test]
    fn a_task_takes_few_bytes() {
        let mut trace = gpu();
        let tasks = 10_000;
        let task = trace.tasks[0];
        trace.tasks = (0..tasks)
            .map(|i| TaskEvent {
                id: 500 + i,
                worker: (i % 8) as u32,
                coords: Some([(i % 40) as u32, (i / 40) as u32, u32::MAX]),
                flops: 2.0 * 512.0 * 512.0 * 512.0,
                bytes: 3 << 20,
                start_ns: 1_000_000_000 + 700 * i,
                end_ns: 1_000_000_000 + 700 * i + 5_000_000,
                ..task
            })
            .collect();
        trace.edges = (0..2 * tasks).map(|i| (500 + i / 2, 500 + i / 2 + 40)).collect();
        let mut chrome = Vec::new();
        trace.write_chrome(&mut chrome).unwrap();
        let native = native(&trace).len();
        assert!(
            native < 50 * tasks as usize && 5 * native < chrome.len(),
            "{native} beside {}",
            chrome.len()
        );
    }
}
