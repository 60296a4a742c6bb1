//! Random graphs, compared with a sequential execution of the same tasks on plain values.

use std::sync::Arc;

use zellige_mpi::{Cluster, Traffic};
use zellige_runtime::codelet::Apart;
use zellige_runtime::data::{Portability, Portable};
use zellige_runtime::internal::splitmix::{STEP, scramble};
use zellige_runtime::{
    Choice, Codelet, Commute, Data, Error, Format, Handle, Meta, Read, Slot, Submit, TaskContext, TaskError,
    Update, Write, commute, read, update, write,
};

pub const WIDE: Format = Format(1);
pub const NARROW: Format = Format(2);

/// Words that lose their upper halves in the narrow format.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    pub format: Format,
    pub bytes: Vec<u8>,
}

fn size(format: Format) -> usize {
    if format == NARROW { 2 } else { 4 }
}

impl Words {
    pub fn new(format: Format, words: impl IntoIterator<Item = u32>) -> Self {
        let bytes = words.into_iter().flat_map(|word| word.to_le_bytes().into_iter().take(size(format)));
        Words { format, bytes: bytes.collect() }
    }

    pub fn words(&self) -> impl Iterator<Item = u32> {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        self.bytes.chunks(size(self.format)).map(word)
    }

    fn change(&mut self, with: impl Fn(u32) -> u32) {
        *self = Words::new(self.format, self.words().map(with));
    }

    pub fn as_format(&self, format: Format) -> Words {
        Words::new(if format == Format::NATIVE { self.format } else { format }, self.words())
    }

    fn hash(&self) -> u64 {
        self.words().fold(self.format.0.into(), |hash, word| scramble(hash ^ u64::from(word)))
    }
}

impl Data for Words {
    type Ref<'v> = &'v Words;
    type Mut<'v> = &'v mut Words;

    fn view(&self) -> &Words {
        self
    }

    fn view_mut(&mut self) -> &mut Words {
        self
    }

    fn meta(&self) -> Meta {
        Meta { format: self.format, bytes: self.bytes.len(), ..Meta::default() }
    }

    fn size_as(meta: &Meta, to: Format) -> Option<usize> {
        let to = if to == Format::NATIVE { meta.format } else { to };
        Some(meta.bytes / size(meta.format) * size(to))
    }

    fn convert(&self, to: Format) -> Option<Words> {
        Some(self.as_format(to))
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

impl Portable for Words {
    type Header = (Format, usize);

    fn header(&self) -> Self::Header {
        (self.format, self.bytes.len())
    }

    fn blank(&(format, length): &Self::Header) -> Self {
        Words { format, bytes: vec![0; length] }
    }

    fn encode_header((format, length): &Self::Header) -> Option<Vec<u8>> {
        Some([u64::from(format.0), *length as u64].iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    fn decode_header(bytes: &[u8]) -> Option<Self::Header> {
        let ([format, length], []) = bytes.as_chunks() else { return None };
        Some((Format(u64::from_le_bytes(*format) as u16), u64::from_le_bytes(*length) as usize))
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![&self.bytes]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![&mut self.bytes]
    }
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(STEP);
        (scramble(self.0) % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// Initial state of a datum.
#[derive(Clone, Debug)]
pub enum Start {
    /// A value on a rank, modulo the number of ranks.
    Value(usize, Words),
    /// A copy of a value on every rank.
    Replicated(Words),
    /// An expected format, on a rank or on the rank of the first write.
    Expected(Option<usize>),
    Empty(Option<usize>),
}

impl Start {
    pub fn is_replicated(&self) -> bool {
        matches!(self, Start::Replicated(_))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Job {
    seed: u64,
    pub reads: Vec<(usize, Format)>,
    updates: Vec<usize>,
    writes: Vec<(usize, Format, usize)>,
    pub commutes: Vec<usize>,
    fails: bool,
    /// True if it selects the formats of its inputs when it runs.
    pub late: bool,
}

impl Job {
    /// Returns the data that it reads, with the requested formats.
    pub fn seen(&self) -> impl Iterator<Item = (usize, Format)> {
        let whole = |&datum: &usize| (datum, Format::NATIVE);
        self.reads
            .iter()
            .copied()
            .chain(self.updates.iter().map(whole))
            .chain(self.commutes.iter().map(whole))
    }

    /// Returns the data that it writes, in the order of its operands.
    pub fn written(&self) -> impl Iterator<Item = usize> {
        let writes = self.writes.iter().map(|&(datum, ..)| datum);
        self.updates.iter().copied().chain(writes).chain(self.commutes.iter().copied())
    }

    fn hash(&self, seen: impl Iterator<Item = u64>) -> u64 {
        seen.fold(self.seed, |hash, value| scramble(hash ^ value))
    }

    /// Returns the formats that it selects, by the metas of its inputs: one for most, another for
    /// some.
    fn choice(&self, metas: impl Iterator<Item = Meta>) -> (Format, Apart) {
        let hash = self.hash(metas.map(|meta| meta.bytes as u64 ^ u64::from(meta.format.0) << 32));
        let format = |hash: u64| [Format::NATIVE, WIDE, NARROW][(hash % 3) as usize];
        // The exceptions are the same in every list: an updated operand keeps its format.
        let reads_alone = self.updates.is_empty() && self.commutes.is_empty();
        let elements = if reads_alone { (hash >> 8) as u32 & 0xff } else { 0 };
        (format(hash), Apart { elements, format: format(hash >> 16) })
    }

    /// Returns the data that it reads, in the formats of the reads; `None`: one of them is
    /// poisoned.
    pub fn formats(&self, now: &[Content]) -> Option<Vec<(usize, Format)>> {
        let values: Option<Vec<&Words>> = self.reads.iter().map(|&(datum, _)| now[datum].value()).collect();
        let values = values?;
        if !self.late {
            return Some(self.reads.clone());
        }
        let (most, some) = self.choice(values.iter().map(|words| words.meta()));
        let at = |at: usize| if some.elements >> at & 1 == 1 { some.format } else { most };
        Some(self.reads.iter().enumerate().map(|(i, &(datum, _))| (datum, at(i))).collect())
    }

    /// Returns the data that it reads with the selected formats; `None`: something that it reads or
    /// changes is poisoned.
    pub fn chosen(&self, now: &[Content]) -> Option<Vec<(usize, Format)>> {
        let has_all = self.seen().all(|(datum, _)| now[datum].value().is_some());
        has_all.then(|| self.formats(now)).flatten()
    }
}

fn made(hash: u64, format: Format, length: usize) -> Words {
    Words::new(format, (0..length as u64).map(|i| scramble(hash ^ i) as u32))
}

#[derive(Clone, Debug)]
pub enum Step {
    Submit(Arc<Job>),
    ReadOn(usize, usize),
    Read(usize),
    Wait,
}

/// A random graph, with the contents that its data have after each step.
#[derive(Debug)]
pub struct Case {
    seed: u64,
    pub starts: Vec<Start>,
    pub steps: Vec<Step>,
    /// Steps that form a graph and its replays: the first step, the number of steps, and the number
    /// of runs.
    pub graphs: Vec<(usize, usize, usize)>,
    pub contents: Vec<Vec<Content>>,
}

impl Case {
    pub fn new(seed: u64) -> Case {
        let (starts, steps, graphs) = random(seed);
        let contents = oracle(&starts, &steps);
        Case { seed, starts, steps, graphs, contents }
    }
}

type Random = (Vec<Start>, Vec<Step>, Vec<(usize, usize, usize)>);

fn random(seed: u64) -> Random {
    let mut rng = Rng(seed);
    let owner = |rng: &mut Rng| (!rng.one_in(3)).then(|| rng.below(12));
    let starts: Vec<Start> = (0..2 + rng.below(6))
        .map(|_| match rng.below(4) {
            0 => Start::Expected(owner(&mut rng)),
            1 => Start::Empty(owner(&mut rng)),
            _ => {
                let (length, seed) = (1 + rng.below(9), rng.below(1 << 20) as u64);
                let words = made(seed, format(&mut rng), length);
                if rng.one_in(4) { Start::Replicated(words) } else { Start::Value(rng.below(12), words) }
            }
        })
        .collect();
    let has = |start: &Start| matches!(start, Start::Value(..) | Start::Replicated(_));
    let mut has_value: Vec<bool> = starts.iter().map(has).collect();
    let job = |rng: &mut Rng, has_value: &mut [bool]| job(rng, &starts, has_value);
    let (mut steps, mut graphs) = (Vec::new(), Vec::new());
    for _ in 0..5 + rng.below(40) {
        let with_value = |rng: &mut Rng, has: &[bool]| {
            let all: Vec<usize> = (0..has.len()).filter(|&datum| has[datum]).collect();
            (!all.is_empty()).then(|| all[rng.below(all.len())])
        };
        match (rng.below(20), with_value(&mut rng, &has_value)) {
            (0, Some(datum)) => steps.push(Step::ReadOn(rng.below(12), datum)),
            (1, Some(datum)) => steps.push(Step::Read(datum)),
            (2, _) => steps.push(Step::Wait),
            (3, _) => {
                let (length, times) = (1 + rng.below(6), 1 + rng.below(3));
                let jobs: Vec<_> =
                    (0..length).map(|_| Step::Submit(Arc::new(job(&mut rng, &mut has_value)))).collect();
                graphs.push((steps.len(), length, times));
                (0..times).for_each(|_| steps.extend(jobs.iter().cloned()));
            }
            _ => steps.push(Step::Submit(Arc::new(job(&mut rng, &mut has_value)))),
        }
    }
    (starts, steps, graphs)
}

fn format(rng: &mut Rng) -> Format {
    [WIDE, NARROW][rng.below(2)]
}

fn job(rng: &mut Rng, starts: &[Start], has_value: &mut [bool]) -> Job {
    let mut free: Vec<usize> = (0..has_value.len()).collect();
    let seed = rng.below(1 << 30) as u64;
    let mut job = Job { seed, fails: rng.one_in(12), late: rng.one_in(3), ..Job::default() };
    for _ in 0..rng.below(5) {
        if free.is_empty() {
            break;
        }
        let datum = free.swap_remove(rng.below(free.len()));
        let wanted = [Format::NATIVE, WIDE, NARROW][rng.below(3)];
        match rng.below(6) {
            0..3 if has_value[datum] => job.reads.push((datum, wanted)),
            3 if has_value[datum] => job.commutes.push(datum),
            4 if has_value[datum] => job.updates.push(datum),
            _ => job.writes.push((datum, format(rng), 1 + rng.below(9))),
        }
    }
    // Commuting tasks have any order, so one that fails may come before one that does not: nothing
    // else may depend on that.
    if !job.commutes.is_empty() {
        job.commutes.truncate(1);
        (job.updates, job.writes) = (Vec::new(), Vec::new());
    }
    // A task runs on all ranks or on one.
    let everywhere = job.written().any(|datum| starts[datum].is_replicated());
    job.updates.retain(|&datum| starts[datum].is_replicated() == everywhere);
    job.writes.retain(|&(datum, ..)| starts[datum].is_replicated() == everywhere);
    job.written().for_each(|datum| has_value[datum] = true);
    job
}

/// Contents of a datum: none yet, none because a task failed, or a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Unwritten,
    Poisoned,
    Value(Words),
}

impl Content {
    pub fn value(&self) -> Option<&Words> {
        match self {
            Content::Value(words) => Some(words),
            _ => None,
        }
    }
}

/// Returns the contents after each step.
pub fn oracle(starts: &[Start], steps: &[Step]) -> Vec<Vec<Content>> {
    let begin = |start: &Start| match start {
        Start::Value(_, words) | Start::Replicated(words) => Content::Value(words.clone()),
        _ => Content::Unwritten,
    };
    let mut now: Vec<Content> = starts.iter().map(begin).collect();
    let mut all = Vec::new();
    for step in steps {
        if let Step::Submit(job) = step {
            let chosen = job.chosen(&now).filter(|_| !job.fails);
            let Some(chosen) = chosen else {
                job.written().for_each(|datum| now[datum] = Content::Poisoned);
                all.push(now.clone());
                continue;
            };
            {
                let hash = job.hash(chosen.iter().map(|&(datum, format)| match &now[datum] {
                    Content::Value(words) => words.as_format(format).hash(),
                    other => panic!("a task reads what is {other:?}"),
                }));
                for &datum in &job.updates {
                    let Content::Value(words) = &mut now[datum] else { unreachable!("it has a value") };
                    words.change(|word| scramble(hash ^ u64::from(word)) as u32);
                }
                for &(datum, format, length) in &job.writes {
                    now[datum] = Content::Value(made(hash, format, length));
                }
                for &datum in &job.commutes {
                    let Content::Value(words) = &mut now[datum] else { unreachable!("it has a value") };
                    words.change(|word| word.wrapping_add(hash as u32));
                }
            }
        }
        all.push(now.clone());
    }
    all
}

type Operands = (Vec<Read<Words>>, Vec<Update<Words>>, Vec<Write<Words>>, Vec<Commute<Words>>);

type Views<'v> = (Vec<&'v Words>, Vec<&'v mut Words>, Vec<Slot<'v, Words>>, Vec<&'v mut Words>);

fn submit(target: &impl Submit, handles: &[Handle<Words>], job: &Arc<Job>) -> Result<(), Error> {
    let operands: Operands = (
        job.reads.iter().map(|&(datum, format)| read(&handles[datum]).as_format(format)).collect(),
        job.updates.iter().map(|&datum| update(&handles[datum])).collect(),
        job.writes.iter().map(|&(datum, ..)| write(&handles[datum])).collect(),
        job.commutes.iter().map(|&datum| commute(&handles[datum])).collect(),
    );
    let job = Arc::clone(job);
    if job.late {
        return target.submit(Late(job), operands).map(drop);
    }
    target.task("job").operands(operands).cpu(move |views: Views<'_>| job.run(views)).submit().map(drop)
}

impl Job {
    fn run(&self, (reads, updates, writes, commutes): Views<'_>) -> Result<(), &'static str> {
        if self.fails {
            return Err("on purpose");
        }
        let hash = self.hash(reads.iter().map(|words| words.hash()));
        for words in updates {
            words.change(|word| scramble(hash ^ u64::from(word)) as u32);
        }
        for (mut slot, &(_, format, length)) in writes.into_iter().zip(&self.writes) {
            slot.put(made(hash, format, length));
        }
        for words in commutes {
            words.change(|word| word.wrapping_add(hash as u32));
        }
        Ok(())
    }
}

/// A job that selects formats when it runs.
struct Late(Arc<Job>);

impl Codelet for Late {
    type Operands = Operands;

    fn name(&self) -> &'static str {
        "job"
    }

    fn selects(&self) -> bool {
        true
    }

    fn select(&self, metas: &[Meta]) -> Choice {
        let (most, some) = self.0.choice(metas[..self.0.reads.len()].iter().copied());
        Choice { formats: [Some(most), None, None, None], apart: Some(some), ..Choice::default() }
    }

    fn cpu(&self, views: Views<'_>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        Ok(self.0.run(views)?)
    }
}

/// Records some steps, and runs them this many times.
fn replay(cluster: &Cluster, handles: &[Handle<Words>], jobs: &[Step], times: usize) -> Result<(), Error> {
    let graph = cluster.record(|recorder| {
        jobs.iter().try_for_each(|step| match step {
            Step::Submit(job) => submit(recorder, handles, job),
            other => panic!("{other:?} is no task"),
        })
    })?;
    (0..times).try_for_each(|_| cluster.replay(&graph))
}

fn check(what: &str, seen: Result<&Words, &Error>, wanted: &Content) {
    match (seen, wanted) {
        (Ok(words), Content::Value(wanted)) => assert_eq!(words, wanted, "{what}"),
        (Err(Error::Poisoned { failure, .. }), Content::Poisoned) => {
            assert!(failure.task == "job" && failure.to_string().contains("on purpose"), "{what}: {failure}");
        }
        (seen, wanted) => panic!("{what}: {seen:?} in place of {wanted:?}"),
    }
}

/// Runs a graph and checks the values read on the way and at the end. Returns the traffic of this
/// rank.
pub fn run(cluster: &Cluster, case: &Case) -> Traffic {
    let (seed, contents, ranks) = (case.seed, &case.contents, cluster.ranks());
    let handles: Vec<Handle<Words>> = case
        .starts
        .iter()
        .map(|start| {
            let (handle, owner) = match start {
                Start::Value(rank, words) => {
                    return cluster.register_on(rank % ranks, || words.clone()).expect("the rank exists");
                }
                Start::Replicated(words) => return cluster.register_replicated(words.clone()),
                Start::Expected(owner) => {
                    (cluster.register_sized(Meta { format: WIDE, bytes: 36, ..Meta::default() }), owner)
                }
                Start::Empty(owner) => (cluster.register_empty(), owner),
            };
            if let Some(owner) = owner {
                cluster.set_owner(&handle, owner % ranks).expect("new, on a rank that exists");
            }
            handle
        })
        .collect();
    let mut replayed = 0;
    for (number, step) in case.steps.iter().enumerate() {
        let what = format!("seed {seed}, {ranks} ranks, rank {}, step {number} {step:?}", cluster.rank());
        if let Some(&(first, length, times)) = case.graphs.iter().find(|(first, ..)| *first == number) {
            let jobs = &case.steps[first..first + length];
            replay(cluster, &handles, jobs, times).unwrap_or_else(|error| panic!("{what}: {error}"));
            replayed = first + length * times;
        }
        if number < replayed {
            continue;
        }
        match step {
            Step::Submit(job) => {
                submit(cluster, &handles, job).unwrap_or_else(|error| panic!("{what}: {error}"))
            }
            Step::ReadOn(rank, datum) => match cluster.read_on(rank % ranks, &handles[*datum]) {
                Ok(None) => assert_ne!(cluster.rank(), rank % ranks, "{what}"),
                Ok(Some(words)) => check(&what, Ok(&words), &contents[number][*datum]),
                Err(error) => check(&what, Err(&error), &contents[number][*datum]),
            },
            Step::Read(datum) => {
                let words = cluster.read(&handles[*datum]);
                check(&what, words.as_deref(), &contents[number][*datum]);
            }
            Step::Wait => match cluster.wait_all() {
                Ok(()) | Err(Error::Failed(_)) => {}
                Err(other) => panic!("{what}: {other}"),
            },
        }
    }
    for (handle, content) in handles.into_iter().zip(contents.last().expect("there are steps")) {
        if *content != Content::Unwritten {
            let what = format!("seed {seed}, {ranks} ranks, rank {}, at the end", cluster.rank());
            check(&what, cluster.take(handle).as_ref(), content);
        }
    }
    let fails = |step: &Step| matches!(step, Step::Submit(job) if job.fails);
    let any = case.steps.iter().any(fails);
    match cluster.wait_all() {
        Ok(()) => {}
        Err(Error::Failed(_)) if any => {}
        Err(other) => panic!("seed {seed}, {ranks} ranks: {other}"),
    }
    cluster.traffic()
}
