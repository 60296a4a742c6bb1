//! The native trace file: every record of a [`Trace`], from which the other formats are made.
//! `docs/how-to/traces.md` describes it.

mod columns;
mod frame;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use self::columns::{Delta, Edges, Evictions, Given, Idle, Memory, Phases, Tasks, Transfers, without_unused};
use self::frame::{read_section, take_number, take_section, write_section};
use super::{Trace, TraceNode, TraceWorker};

/// The first bytes of a native trace file.
pub const MAGIC: [u8; 8] = *b"zltrace\n";

/// Version of the format that is written and read. A change of any section requires a new version.
pub const VERSION: u32 = 2;

/// Error of reading a native trace.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file begins with other bytes.
    #[error("not a native trace file: it does not begin with \"zltrace\"; `--trace FILE.zt` writes one")]
    Magic,
    /// The file was written by another version of this program.
    #[error(
        "a native trace file of version {0}; this program reads version {VERSION}: record the trace anew"
    )]
    Version(u32),
    /// The file ends too early.
    #[error("the trace file ends within section {0}: it was cut off")]
    Truncated(&'static str),
    /// Another section was found, or a section where none is expected.
    #[error("the trace file has {found} where section {expected} should be")]
    Section {
        /// The expected section.
        expected: &'static str,
        /// The section found.
        found: String,
    },
    /// A section with invalid contents.
    #[error("section {section} of the trace file: {problem}")]
    Content {
        /// Name of the section.
        section: &'static str,
        /// Description of the problem.
        problem: String,
    },
}

/// Declares the sections, each with a name and a value that serde supports.
macro_rules! sections {
    ($($field:ident: $type:ty = $name:literal),* $(,)?) => {
        /// The sections, in the order of the file.
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
    phases: Phases = "phas",
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
    nodes: Vec<NodeRow>,
}

#[derive(Serialize, Deserialize)]
struct Worker(String, String, u32);

/// Name, capacity, hits, misses, prefetches used and unused.
#[derive(Serialize, Deserialize)]
struct NodeRow(String, Option<u64>, u64, u64, u64, u64);

/// The distinct strings, each with its position.
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

/// Returns the text with the lifetime of the process: records refer to codelets by names compiled
/// into a program. A process that reads traces keeps each distinct name once.
fn kept(text: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    // A thread that panicked has not left it half changed.
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.get(text).copied().unwrap_or_else(|| {
        let text: &'static str = text.to_owned().leak();
        names.insert(text);
        text
    })
}

impl Trace {
    /// Writes every record in the native format, from which [`Trace::read_native`] restores the
    /// same trace.
    ///
    /// # Errors
    /// Any error of `out`.
    pub fn write_native(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        self.to_sections().write(out)?;
        out.write_all(END.as_bytes())?;
        out.write_all(&0u64.to_le_bytes())
    }

    /// Reads a file written by [`Trace::write_native`].
    ///
    /// # Errors
    /// [`ReadError`] for any other contents.
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
            nodes: self.nodes.iter().map(NodeRow::from).collect(),
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
        let (to, mut start) = (&mut sections.phases, Delta::default());
        for phase in &self.phases {
            to.name.push(strings.place(&phase.name));
            to.start_ns.push(start.of(phase.start_ns));
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
            phases: self.phases.read(&string)?,
            transfers: self.transfers.read(&string)?,
            memory: self.memory.read()?,
            evictions: self.evictions.read()?,
            given: self.given.read(&string)?,
            lost,
        })
    }
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

impl From<&TraceNode> for NodeRow {
    fn from(node: &TraceNode) -> Self {
        NodeRow(
            node.name.clone(),
            node.capacity,
            node.hits,
            node.misses,
            node.prefetch_used,
            node.prefetch_unused,
        )
    }
}

impl From<NodeRow> for TraceNode {
    fn from(NodeRow(name, capacity, hits, misses, prefetch_used, prefetch_unused): NodeRow) -> Self {
        TraceNode { name, capacity, hits, misses, prefetch_used, prefetch_unused }
    }
}
