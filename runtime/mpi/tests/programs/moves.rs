//! The bytes that random graphs transfer, computed from the owners of their data alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{Range, RangeInclusive};

use zellige_runtime::Format;

use super::graphs::{Case, Content, Job, Start, Step, WIDE, Words, oracle};

/// Forms of one version of a remote datum that a rank has been sent, and those that it may request.
#[derive(Default)]
struct Moved {
    /// Sent without a request.
    sent: HashSet<Format>,
    /// True if it knows the meta, and requests forms.
    late: bool,
    /// Formats that tasks request.
    requested: HashSet<Format>,
    /// Formats that tasks which fail may have requested.
    perhaps: HashSet<Format>,
}

impl Moved {
    fn forms(&mut self, fails: bool) -> &mut HashSet<Format> {
        if fails { &mut self.perhaps } else { &mut self.requested }
    }

    /// Returns the fewest and the most bytes that are requested: narrow forms are made from the
    /// whole value, if it comes first.
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

/// The forms transferred between the ranks.
struct Moves<'c> {
    case: &'c Case,
    ranks: usize,
    /// True if their runtimes have memory nodes: they request the whole of each announced value.
    on_devices: bool,
    usual: Vec<Format>,
    owner: Vec<Option<usize>>,
    location: Vec<usize>,
    version: Vec<usize>,
    moved: HashMap<(usize, usize, usize), (Moved, Content)>,
    bytes: u64,
}

impl Moves<'_> {
    /// Notes that a rank needs the newest version of a datum, in a format or (`None`) in those that
    /// a task selects, which are `picks`. `fails`: the task may fail before the value is read.
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
        // The stored format is the whole value.
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

/// Returns the fewest and the most bytes of values transferred between `ranks` ranks. Each version
/// that a rank needs and that lies elsewhere moves once in each form; nothing narrow once the whole
/// has moved. If tasks select formats when they run, their order decides the first one.
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
    /// Returns the form that is sent to a task with this request; `None`: the form that it
    /// requests.
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

    /// Begins a replay: inputs of its tasks that they have not written are brought, once for all of
    /// them.
    fn begin_replay(&mut self, jobs: &[Step], now: &[Content]) {
        let (mut owner, mut written) = (self.owner.clone(), HashSet::new());
        let mut needs: BTreeMap<(usize, usize), Option<Format>> = BTreeMap::new();
        for step in jobs {
            let Step::Submit(job) = step else { panic!("{step:?} is no task") };
            let rank = self.rank_of(job, &owner);
            for rank in self.ranks_of(job, rank) {
                for (at, (datum, format)) in job.seen().enumerate() {
                    let is_deferred = job.late && at < job.reads.len();
                    let form = self.form(datum, (!is_deferred).then_some(format));
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
        // Announced values are requested by their tasks in turn, if they do not fail before.
        for ((datum, rank), form) in needs {
            self.need(datum, form, rank, now, &[], true);
        }
    }

    fn read(&mut self, datum: usize, ranks: Range<usize>, now: &[Content]) {
        ranks.for_each(|rank| self.need(datum, Some(Format::NATIVE), rank, now, &[], false));
    }

    fn submit(&mut self, job: &Job, now: &[Content]) {
        let rank = self.rank_of(job, &self.owner);
        let chosen = job.chosen(now);
        // Another that commutes may come first and poison what this one needs, or after it.
        let may_fail = chosen.is_none() || !job.commutes.is_empty();
        let chosen = if job.commutes.is_empty() { chosen } else { job.formats(now) };
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
