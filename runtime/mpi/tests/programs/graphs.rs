//! Random graphs against the same tasks one after the other on plain values; and the bytes that go between ranks
//! against what follows from the owners of the data alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use zellige_mpi::{Cluster, Traffic};
use zellige_runtime::codelet::Apart;
use zellige_runtime::data::{Portability, Portable};
use zellige_runtime::internal::{STEP, scramble};
use zellige_runtime::{
    Choice, Codelet, Commute, Data, Error, Format, Handle, Meta, Read, Slot, Submit, TaskContext, TaskError,
    Update, Write, commute, read, update, write,
};

pub const WIDE: Format = Format(1);
pub const NARROW: Format = Format(2);

/// Words that lose their upper halves in the narrow format.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    format: Format,
    bytes: Vec<u8>,
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

    fn as_format(&self, format: Format) -> Words {
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

/// How a datum begins.
#[derive(Clone, Debug)]
enum Start {
    /// With a value on a rank, modulo how many there are.
    Value(usize, Words),
    /// With a copy of a value on every rank.
    Replicated(Words),
    /// With an expected format, on a rank or where it is first written.
    Expected(Option<usize>),
    Empty(Option<usize>),
}

impl Start {
    fn is_replicated(&self) -> bool {
        matches!(self, Start::Replicated(_))
    }
}

#[derive(Clone, Debug, Default)]
struct Job {
    seed: u64,
    reads: Vec<(usize, Format)>,
    updates: Vec<usize>,
    writes: Vec<(usize, Format, usize)>,
    commutes: Vec<usize>,
    fails: bool,
    /// Chooses the formats of what it reads when it runs.
    late: bool,
}

impl Job {
    /// The data that it reads, and the format in which it wants them.
    fn seen(&self) -> impl Iterator<Item = (usize, Format)> {
        let whole = |&datum: &usize| (datum, Format::NATIVE);
        self.reads
            .iter()
            .copied()
            .chain(self.updates.iter().map(whole))
            .chain(self.commutes.iter().map(whole))
    }

    /// The data that it writes, in the order of its operands.
    fn written(&self) -> impl Iterator<Item = usize> {
        let writes = self.writes.iter().map(|&(datum, ..)| datum);
        self.updates.iter().copied().chain(writes).chain(self.commutes.iter().copied())
    }

    fn hash(&self, seen: impl Iterator<Item = u64>) -> u64 {
        seen.fold(self.seed, |hash, value| scramble(hash ^ value))
    }

    /// The formats that it chooses, by the metas of what it reads: one for most, another for some.
    fn choice(&self, metas: impl Iterator<Item = Meta>) -> (Format, Apart) {
        let hash = self.hash(metas.map(|meta| meta.bytes as u64 ^ u64::from(meta.format.0) << 32));
        let format = |hash: u64| [Format::NATIVE, WIDE, NARROW][(hash % 3) as usize];
        // Those apart are so in every list: what is updated keeps its format.
        let reads_alone = self.updates.is_empty() && self.commutes.is_empty();
        let elements = if reads_alone { (hash >> 8) as u32 & 0xff } else { 0 };
        (format(hash), Apart { elements, format: format(hash >> 16) })
    }

    /// The data that it reads, in the formats that they are read in; `None`: something is poisoned.
    fn chosen(&self, now: &[Content]) -> Option<Vec<(usize, Format)>> {
        let values: Option<Vec<&Words>> = self.seen().map(|(datum, _)| now[datum].value()).collect();
        let values = values?;
        if !self.late {
            return Some(self.reads.clone());
        }
        let (most, some) = self.choice(values[..self.reads.len()].iter().map(|words| words.meta()));
        let at = |at: usize| if some.elements >> at & 1 == 1 { some.format } else { most };
        Some(self.reads.iter().enumerate().map(|(i, &(datum, _))| (datum, at(i))).collect())
    }
}

fn made(hash: u64, format: Format, length: usize) -> Words {
    Words::new(format, (0..length as u64).map(|i| scramble(hash ^ i) as u32))
}

#[derive(Clone, Debug)]
enum Step {
    Submit(Arc<Job>),
    ReadOn(usize, usize),
    Read(usize),
    Wait,
}

/// A random graph, with the contents that its data have after each step.
#[derive(Debug)]
pub struct Case {
    seed: u64,
    starts: Vec<Start>,
    steps: Vec<Step>,
    /// Steps that are a graph and its replays: the first of them, how many the graph has, and how often it
    /// runs.
    graphs: Vec<(usize, usize, usize)>,
    contents: Vec<Vec<Content>>,
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
    // In any order among others that commute, one that fails may come before one that does not: nothing else
    // may hang on that.
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

/// What a datum holds: nothing yet, nothing because a task failed, or a value.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    Unwritten,
    Poisoned,
    Value(Words),
}

impl Content {
    fn value(&self) -> Option<&Words> {
        match self {
            Content::Value(words) => Some(words),
            _ => None,
        }
    }
}

/// The contents after each step.
fn oracle(starts: &[Start], steps: &[Step]) -> Vec<Vec<Content>> {
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

/// What a rank has been sent of one version of a datum that is elsewhere, and what it may request.
#[derive(Default)]
struct Moved {
    /// Sent without a request.
    sent: HashSet<Format>,
    /// It knows the meta, and requests forms.
    late: bool,
    /// Tasks request these.
    requested: HashSet<Format>,
    /// Tasks that fail may have requested these.
    perhaps: HashSet<Format>,
}

impl Moved {
    fn forms(&mut self, fails: bool) -> &mut HashSet<Format> {
        if fails { &mut self.perhaps } else { &mut self.requested }
    }

    /// The fewest and the most bytes that are requested: from the whole value narrow forms are made, if it comes
    /// first.
    fn bytes_requested(&self, words: &Words) -> (u64, u64) {
        let bytes = |format: &Format| words.as_format(*format).bytes.len() as u64;
        let requested: u64 = self.requested.iter().map(bytes).sum();
        let perhaps: u64 = self.perhaps.difference(&self.requested).map(bytes).sum();
        let whole = bytes(&Format::NATIVE);
        let least = match (self.requested.contains(&Format::NATIVE), self.perhaps.contains(&Format::NATIVE)) {
            (true, _) => whole,
            (false, true) => requested.min(whole),
            (false, false) => requested,
        };
        (least, requested + perhaps)
    }
}

/// The forms that have moved between so many ranks.
struct Moves<'c> {
    case: &'c Case,
    ranks: usize,
    /// Their runtimes have memory nodes: they request the whole of what is announced.
    on_devices: bool,
    usual: Vec<Format>,
    owner: Vec<Option<usize>>,
    location: Vec<usize>,
    version: Vec<usize>,
    moved: HashMap<(usize, usize, usize), (Moved, Content)>,
    bytes: u64,
}

impl Moves<'_> {
    /// A rank needs the newest version of a datum, in a format or (`None`) in those that a task chooses; `picks`: these, if it
    /// does. `fails`: the task that needs it may fail before it is read.
    fn need(
        &mut self,
        datum: usize,
        wanted: Option<Format>,
        rank: usize,
        now: &[Content],
        picks: &[Format],
        fails: bool,
    ) {
        if self.location[datum] == rank || self.case.starts[datum].is_replicated() {
            return;
        }
        let wanted = self.form(datum, wanted);
        let key = (datum, self.version[datum], rank);
        let (moved, _) = self.moved.entry(key).or_insert_with(|| (Moved::default(), now[datum].clone()));
        let of_form = |form| now[datum].value().map_or(0, |words| words.as_format(form).bytes.len() as u64);
        // The format in which it is stored is the whole.
        let stored = now[datum].value().map(|words| words.format);
        let form = |format| if Some(format) == stored { Format::NATIVE } else { format };
        if moved.sent.contains(&Format::NATIVE) || wanted.is_some_and(|wanted| moved.sent.contains(&wanted)) {
            return;
        }

        match wanted {
            None => {
                moved.sent.clear();
                if self.on_devices {
                    self.bytes += if moved.late { 0 } else { of_form(Format::NATIVE) };
                } else {
                    moved.forms(fails).extend(picks.iter().map(|&pick| form(pick)));
                }
                moved.late = true;
            }
            Some(wanted) if moved.late && wanted != Format::NATIVE => {
                if !self.on_devices {
                    moved.forms(fails).insert(form(wanted));
                }
            }
            Some(wanted) => {
                let form = if moved.sent.is_empty() && !moved.late { wanted } else { Format::NATIVE };
                moved.sent.insert(form);
                self.bytes += of_form(form);
            }
        }
    }
}

/// The fewest and the most bytes of values that move between so many ranks: each version that a rank needs and that lies
/// elsewhere moves once in each form; nothing narrow once the whole has moved. Where tasks choose formats when they run,
/// their order decides which comes first.
pub fn bytes_of(case: &Case, ranks: usize, on_devices: bool) -> RangeInclusive<u64> {
    let contents = &case.contents;
    let place = |start: &Start| match start {
        Start::Value(rank, _) => (Some(*rank), Format::NATIVE),
        Start::Replicated(_) => (None, Format::NATIVE),
        Start::Expected(rank) => (*rank, WIDE),
        Start::Empty(rank) => (*rank, Format::NATIVE),
    };
    let (owner, usual): (Vec<_>, Vec<_>) = case.starts.iter().map(place).unzip();
    let owner: Vec<Option<usize>> = owner.into_iter().map(|owner| owner.map(|rank| rank % ranks)).collect();
    let location = owner.iter().map(|owner| owner.unwrap_or(0)).collect();
    let (version, moved) = (vec![0; owner.len()], HashMap::new());
    let mut moves = Moves { case, ranks, on_devices, usual, owner, location, version, moved, bytes: 0 };
    let begin: Vec<Content> = oracle(&case.starts, &[Step::Wait]).remove(0);
    for (number, step) in case.steps.iter().enumerate() {
        let before = number.checked_sub(1).map_or(&begin, |before| &contents[before]);
        let begins = |&&(first, length, times): &&(usize, usize, usize)| {
            (0..times).any(|time| number == first + time * length)
        };
        if let Some(&(_, length, _)) = case.graphs.iter().find(begins) {
            moves.begin_replay(&case.steps[number..number + length], before);
        }
        match step {
            Step::Wait => {}
            Step::ReadOn(rank, datum) => moves.read(*datum, rank % ranks..rank % ranks + 1, before),
            Step::Read(datum) => moves.read(*datum, 0..ranks, before),
            Step::Submit(job) => moves.submit(job, before),
        }
    }
    // Every datum is taken on all ranks in the end.
    let now = contents.last().unwrap_or(&begin);
    for (datum, content) in now.iter().enumerate() {
        if *content != Content::Unwritten {
            moves.read(datum, 0..ranks, now);
        }
    }
    let requested =
        moves.moved.values().filter_map(|(moved, content)| Some(moved.bytes_requested(content.value()?)));
    let (least, most) = requested.fold((0, 0), |sum, bytes| (sum.0 + bytes.0, sum.1 + bytes.1));
    moves.bytes + least..=moves.bytes + most
}

impl Moves<'_> {
    /// The form that is sent to a task which wants this; `None`: what it requests.
    fn form(&self, datum: usize, wanted: Option<Format>) -> Option<Format> {
        match wanted {
            None if self.usual[datum] == Format::NATIVE => Some(Format::NATIVE),
            Some(wanted) if wanted == self.usual[datum] => Some(Format::NATIVE),
            wanted => wanted,
        }
    }

    fn rank_of(&self, job: &Job, owner: &[Option<usize>]) -> usize {
        let of_reads = || job.reads.iter().find_map(|&(datum, _)| owner[datum]);
        job.written().find_map(|datum| owner[datum]).or_else(of_reads).unwrap_or(0)
    }

    /// The ranks on which it runs.
    fn ranks_of(&self, job: &Job, rank: usize) -> Range<usize> {
        let everywhere = job.written().any(|datum| self.case.starts[datum].is_replicated());
        if everywhere { 0..self.ranks } else { rank..rank + 1 }
    }

    /// A replay begins: what its tasks read that they have not written is brought, once for all of them.
    fn begin_replay(&mut self, jobs: &[Step], now: &[Content]) {
        let (mut owner, mut written) = (self.owner.clone(), HashSet::new());
        let mut needs: BTreeMap<(usize, usize), Option<Format>> = BTreeMap::new();
        for step in jobs {
            let Step::Submit(job) = step else { panic!("{step:?} is no task") };
            let rank = self.rank_of(job, &owner);
            for rank in self.ranks_of(job, rank) {
                for (at, (datum, format)) in job.seen().enumerate() {
                    let is_late = job.late && at < job.reads.len();
                    let form = self.form(datum, (!is_late).then_some(format));
                    if written.contains(&datum) {
                        continue;
                    }
                    let joined = |has: Option<Format>| match (has, form) {
                        (has, form) if has == form => has,
                        (Some(Format::NATIVE), _) | (_, Some(Format::NATIVE)) => Some(Format::NATIVE),
                        (None, _) | (_, None) => None,
                        _ => Some(Format::NATIVE),
                    };
                    needs.entry((datum, rank)).and_modify(|has| *has = joined(*has)).or_insert(form);
                }
            }
            for datum in job.written().filter(|&datum| !self.case.starts[datum].is_replicated()) {
                owner[datum].get_or_insert(rank);
                written.insert(datum);
            }
        }
        for ((datum, rank), form) in needs {
            self.need(datum, form, rank, now, &[], false);
        }
    }

    fn read(&mut self, datum: usize, ranks: Range<usize>, now: &[Content]) {
        ranks.for_each(|rank| self.need(datum, Some(Format::NATIVE), rank, now, &[], false));
    }

    fn submit(&mut self, job: &Job, now: &[Content]) {
        let rank = self.rank_of(job, &self.owner);
        let chosen = job.chosen(now);
        // Another that commutes may come first and poison what this one needs, too.
        let may_fail = chosen.is_none() || !job.commutes.is_empty();
        for rank in self.ranks_of(job, rank) {
            for (at, &(datum, format)) in job.reads.iter().enumerate() {
                let picks: Vec<Format> = chosen.iter().map(|chosen| chosen[at].1).collect();
                let wanted = (!job.late).then_some(format);
                self.need(datum, wanted, rank, now, &picks, may_fail);
            }
            for (datum, _) in job.seen().skip(job.reads.len()) {
                self.need(datum, Some(Format::NATIVE), rank, now, &[], false);
            }
        }
        for datum in job.written().filter(|&datum| !self.case.starts[datum].is_replicated()) {
            self.owner[datum].get_or_insert(rank);
            (self.location[datum], self.version[datum]) = (rank, self.version[datum] + 1);
        }
    }
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

/// A job that chooses formats when it runs.
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

/// Records some steps, and runs them so often.
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

/// Runs a graph and checks what is read on the way and in the end; what this rank has sent and received.
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
