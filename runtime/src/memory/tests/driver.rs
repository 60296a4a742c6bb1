//! Carries out actions on real values, and runs jobs.

use std::collections::{HashMap, VecDeque};

use super::*;

/// What a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum What {
    /// A task.
    #[default]
    Task,
    /// A task whose written data turn out to be in the other format.
    Turns,
    /// A task that is abandoned once after so many more steps, then tried again on another node.
    Retried(usize, NodeId),
    /// A task that is abandoned after so many more steps and never run.
    Skipped(usize),
    /// The handle of its first operand goes and another one comes, with a value or without.
    Renewed(bool),
    /// Its first operand gets a new value on the host.
    Replaced,
    /// Its first operand has no value any more.
    Invalidated,
}

/// What happens aside of jobs, after how many steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Asides {
    /// A node's memory goes.
    pub(super) loss: Option<(usize, NodeId)>,
    /// A datum will not be used for now.
    pub(super) unused: Vec<(usize, u32)>,
    /// A datum is pinned to a node for so many more steps.
    pub(super) pins: Vec<(usize, u32, NodeId, usize)>,
}

/// A task: on which node, and what it does to which data in which format.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub(super) node: NodeId,
    pub(super) needs: Vec<(u32, Format, Access)>,
    pub(super) prefetched: bool,
    /// Its uses are expected from the beginning.
    pub(super) announced: bool,
    pub(super) what: What,
}

impl Job {
    fn is_announced(&self) -> bool {
        self.announced && !matches!(self.what, What::Renewed(_) | What::Replaced | What::Invalidated)
    }

    /// As it is to be for a job that gives its only operand a value outside of tasks.
    pub(super) fn settled(mut self) -> Self {
        if let What::Renewed(_) | What::Replaced | What::Invalidated = self.what {
            self.needs.truncate(1);
            self.needs[0].2 = Access::Write;
        }
        self
    }
}

/// Carries out actions on real values and checks every promise of [`Memory`].
pub(super) struct Driver {
    pub(super) memory: Memory,
    capacity: u64,
    sizes: Vec<u64>,
    /// The handle of each datum.
    data: Vec<Datum>,
    /// The value of each replica that a transfer or a task has filled.
    pub(super) values: HashMap<BufferId, u64>,
    /// What each buffer is for.
    places: HashMap<BufferId, (Datum, NodeId, Format)>,
    /// The node whose memory is gone.
    pub(super) lost: Option<NodeId>,
    /// Transfers under way and the values they took along.
    pub(super) flying: VecDeque<(Transfer, u64)>,
    staged: VecDeque<Ticket>,
    /// Tasks that were asked for and have neither ended nor been abandoned.
    asked: Vec<Ticket>,
    /// Which datum is pinned to which node until which step.
    pinned: Vec<(u32, NodeId, usize)>,
    /// By how much tasks wrote more than they said.
    grown: u64,
    pub(super) evictions: u64,
    pub(super) write_backs: u64,
    pub(super) conversions: u64,
    pub(super) abandoned: u64,
}

impl Driver {
    pub(super) fn new(devices: usize, peers: bool, capacity: u64, staging: u32, sizes: &[u64]) -> Self {
        let spec = LinkSpec { bandwidth: 1e9, latency_ns: 10 };
        let nodes: Vec<NodeSpec> =
            (0..=devices).map(|n| NodeSpec { capacity: (n > 0).then_some(capacity), staging }).collect();
        let links: Vec<Vec<Option<LinkSpec>>> = (0..=devices)
            .map(|a| (0..=devices).map(|b| (peers || a == b || a * b == 0).then_some(spec)).collect())
            .collect();
        let mut driver = Driver {
            memory: Memory::new(&nodes, &links),
            capacity,
            sizes: sizes.to_vec(),
            data: Vec::new(),
            values: HashMap::new(),
            places: HashMap::new(),
            lost: None,
            flying: VecDeque::new(),
            staged: VecDeque::new(),
            asked: Vec::new(),
            pinned: Vec::new(),
            grown: 0,
            evictions: 0,
            write_backs: 0,
            conversions: 0,
            abandoned: 0,
        };
        for (i, &size) in sizes.iter().enumerate() {
            let datum = driver.memory.add(WIDE, size, Some(HOST));
            driver.data.push(datum);
            driver.put(datum, HOST, WIDE, i as u64);
        }
        driver
    }

    /// The current version in this place is now `value`.
    pub(super) fn put(&mut self, datum: Datum, node: NodeId, format: Format, value: u64) {
        let buffer = self.memory.buffer(datum, node, format).unwrap();
        self.values.insert(buffer, value);
        self.places.insert(buffer, (datum, node, format));
    }

    pub(super) fn needs(&self, job: &Job) -> Vec<Need> {
        let need = |&(datum, format, access): &(u32, Format, Access)| Need {
            datum: self.data[datum as usize],
            format,
            bytes: bytes_as(self.sizes[datum as usize], format),
            access,
        };
        job.needs.iter().map(need).collect()
    }

    pub(super) fn stage(&mut self, ticket: Ticket, node: NodeId, needs: &[Need]) {
        self.asked.push(ticket);
        self.memory.stage(ticket, node, needs);
        self.obey();
    }

    pub(super) fn abandon(&mut self, ticket: Ticket) {
        self.forget(ticket);
        self.abandoned += 1;
        self.memory.abandon(ticket);
        self.obey();
    }

    pub(super) fn finish(&mut self, ticket: Ticket, actual: &[(Datum, Format, u64)]) {
        self.forget(ticket);
        self.memory.finish_as(ticket, actual);
        self.obey();
    }

    /// The memory of a node goes; transfers that touch it are reported as if they had ended.
    pub(super) fn lose(&mut self, node: NodeId) -> Lost {
        self.lost = Some(node);
        let lost = self.memory.lose(node);
        let (gone, left): (VecDeque<_>, _) =
            self.flying.drain(..).partition(|(t, _)| t.from == node || t.to == node);
        self.flying = left;
        for &ticket in lost.tickets.iter().chain(&lost.stranded) {
            self.forget(ticket);
        }
        self.obey();
        for (transfer, _) in gone {
            self.memory.arrived(transfer.id);
            assert!(self.memory.take_actions().is_empty(), "an arrival that was dropped does something");
        }
        lost
    }

    fn pin(&mut self, place: u32, node: NodeId, until: usize) {
        self.pinned.push((place, node, until));
        self.memory.pin(self.data[place as usize], node);
        self.obey();
    }

    fn unpin(&mut self, is_due: impl Fn(u32, usize) -> bool) {
        let (due, kept): (Vec<_>, Vec<_>) =
            self.pinned.iter().partition(|&&(place, _, until)| is_due(place, until));
        self.pinned = kept;
        for (place, node, _) in due {
            self.memory.unpin(self.data[place as usize], node);
        }
        self.obey();
    }

    /// True if `value` of the datum is in its own format on a node that is left.
    fn survives(&self, place: usize, value: u64) -> bool {
        let datum = self.data[place];
        let (format, _) = self.memory.current(datum);
        let mut buffers = self.values.iter().filter(|(_, other)| **other == value);
        buffers.any(|(buffer, _)| {
            let (of, node, form) = self.places[buffer];
            (of, form) == (datum, format) && Some(node) != self.lost
        })
    }

    fn forget(&mut self, ticket: Ticket) {
        self.asked.retain(|other| *other != ticket);
        self.staged.retain(|other| *other != ticket);
    }

    pub(super) fn obey(&mut self) {
        for action in self.memory.take_actions() {
            match action {
                Action::Begin(transfer) => {
                    let value = self.values[&transfer.source];
                    self.conversions += u64::from(transfer.format != transfer.source_format);
                    let same_link =
                        |(other, _): &(Transfer, u64)| (other.from, other.to) == (transfer.from, transfer.to);
                    assert!(!self.flying.iter().any(same_link), "one transfer at a time on a link");
                    assert!(self.lost.is_none_or(|node| transfer.from != node && transfer.to != node));
                    let place = (transfer.datum, transfer.to, transfer.format);
                    self.places.insert(transfer.target, place);
                    self.flying.push_back((transfer, value));
                }
                Action::Staged(ticket) => {
                    assert!(self.asked.contains(&ticket), "{ticket:?} is staged and was abandoned");
                    self.staged.push_back(ticket);
                }
                Action::Evicted { written_back, node, datum, .. } => {
                    let holds = |&(place, n, _): &(u32, NodeId, usize)| {
                        (self.data[place as usize], n) == (datum, node)
                    };
                    assert!(!self.pinned.iter().any(holds), "{datum:?} is pinned to node {node}");
                    self.evictions += 1;
                    self.write_backs += u64::from(written_back);
                }
                Action::Freed(_, buffer) => {
                    let used = |(t, _): &(Transfer, u64)| t.source == buffer || t.target == buffer;
                    assert!(!self.flying.iter().any(used), "{buffer:?} is freed under a transfer");
                    self.values.remove(&buffer);
                }
            }
        }
        for node in 1..self.memory.stats_len() {
            assert!(
                self.memory.used(node) <= self.capacity + self.grown,
                "node {node} holds more than it can"
            );
        }
    }

    /// Lets the transfer at place `which` arrive.
    pub(super) fn arrive(&mut self, which: usize) {
        let (transfer, value) = self.flying.remove(which).unwrap();
        assert_eq!(
            self.values.get(&transfer.source),
            Some(&value),
            "the source changed under a transfer: {transfer:?}"
        );
        self.values.insert(transfer.target, value);
        self.memory.arrived(transfer.id);
        self.obey();
    }

    pub(super) fn arrive_all(&mut self) {
        while !self.flying.is_empty() {
            self.arrive(0);
        }
    }

    /// The value of a datum as it can be had on the host.
    fn fetch(&mut self, datum: usize) -> Option<u64> {
        let datum = self.data[datum];
        let (format, bytes) = self.memory.current(datum);
        let ticket = Ticket(1 << 40);
        self.stage(ticket, HOST, &[Need { datum, format, bytes, access: Access::Read }]);
        self.arrive_all();
        let buffer = self.memory.buffer(datum, HOST, format).unwrap();
        let value = self.values.get(&buffer).copied();
        self.finish(ticket, &[]);
        value
    }

    /// Gives `datum` a new value on the host, or another handle.
    fn give(&mut self, datum: u32, what: What, value: u64) -> Option<u64> {
        if what == What::Invalidated {
            self.memory.invalidate(self.data[datum as usize]);
            self.obey();
            assert!(!self.memory.has_value(self.data[datum as usize]));
            return None;
        }
        let (place, size) = (datum as usize, self.sizes[datum as usize]);
        let format = if let What::Renewed(valued) = what {
            self.memory.remove(self.data[place]);
            self.obey();
            self.data[place] = self.memory.add(NARROW, size / 2, valued.then_some(HOST));
            valued.then_some(NARROW)
        } else {
            let buffer = self.memory.replace(self.data[place], WIDE, size);
            assert_eq!(self.memory.buffer(self.data[place], HOST, WIDE), Some(buffer));
            Some(WIDE)
        };
        self.obey();
        self.put(self.data[place], HOST, format?, value);
        Some(value)
    }
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waiting,
    Asked,
    Done,
}

/// Jobs under way.
struct Run<'a> {
    driver: &'a mut Driver,
    jobs: Vec<Job>,
    state: Vec<State>,
    /// What each datum is, as far as it has a value.
    truth: Vec<Option<u64>>,
    /// Those that were lost and not written since.
    gone: Vec<bool>,
}

impl Run<'_> {
    /// Half of the tasks are announced: `tell` says so of their uses of these data, or takes it back.
    fn announce(&mut self, places: std::ops::Range<u32>, tell: fn(&mut Memory, Datum, u64)) {
        for (at, job) in self.jobs.iter().enumerate() {
            if !job.is_announced() || self.state[at] == State::Done {
                continue;
            }
            for need in job.needs.iter().filter(|need| places.contains(&need.0)) {
                tell(&mut self.driver.memory, self.driver.data[need.0 as usize], at as u64);
            }
        }
    }

    /// The task has ended or never runs.
    fn unexpect(&mut self, at: usize) {
        self.state[at] = State::Done;
        if self.jobs[at].is_announced() {
            for need in self.driver.needs(&self.jobs[at]) {
                self.driver.memory.unexpect(need.datum, at as u64);
            }
        }
    }

    /// True if an earlier job has to end first: per datum they run in order of submission, readers side by side.
    fn is_blocked(&self, at: usize) -> bool {
        let clash = |a: &Job, b: &Job| {
            a.needs.iter().any(|a| b.needs.iter().any(|b| a.0 == b.0 && (a.2.writes() || b.2.writes())))
        };
        (0..at).any(|before| self.state[before] != State::Done && clash(&self.jobs[before], &self.jobs[at]))
    }

    fn begin(&mut self, at: usize) {
        if Some(self.jobs[at].node) == self.driver.lost {
            self.jobs[at].node = HOST;
        }
        let job = self.jobs[at].clone();
        if let What::Renewed(_) | What::Replaced | What::Invalidated = job.what {
            let datum = job.needs[0].0;
            self.driver.unpin(|place, _| place == datum);
            self.announce(datum..datum + 1, Memory::unexpect);
            self.truth[datum as usize] = self.driver.give(datum, job.what, 1000 + at as u64);
            self.announce(datum..datum + 1, Memory::expect);
            self.gone[datum as usize] = false;
            self.state[at] = State::Done;
            return;
        }
        let reads_nothing = |need: &(u32, Format, Access)| need.2 != Access::Write && !self.has_value(need.0);
        if job.needs.iter().any(reads_nothing) {
            self.skip(at);
            return;
        }
        let needs = self.driver.needs(&job);
        if job.prefetched {
            self.driver.memory.want(job.node, &needs);
            self.driver.memory.prefetch(job.node, &needs);
            self.driver.memory.unwant(job.node, &needs);
        }
        self.driver.stage(Ticket(at as u64), job.node, &needs);
        self.state[at] = State::Asked;
    }

    fn has_value(&self, datum: u32) -> bool {
        self.truth[datum as usize].is_some() && !self.gone[datum as usize]
    }

    /// A node's memory goes: what is lost is what was nowhere else.
    fn lose(&mut self, node: NodeId) {
        let lost = self.driver.lose(node);
        for &Ticket(at) in lost.tickets.iter().chain(&lost.stranded) {
            assert_eq!(self.jobs[at as usize].node == node, lost.tickets.contains(&Ticket(at)));
            self.state[at as usize] = State::Waiting;
        }
        for place in 0..self.truth.len() {
            let Some(value) = self.truth[place].filter(|_| !self.gone[place]) else { continue };
            let reported = lost.data.contains(&self.driver.data[place]);
            if self.driver.survives(place, value) {
                assert!(!reported, "datum {place} is still somewhere");
            } else {
                let writes = |job: &Job| job.needs.iter().any(|n| n.0 as usize == place && n.2.writes());
                let mut asked = (0..self.jobs.len()).filter(|&at| self.state[at] == State::Asked);
                let about_to_be_written = asked.any(|at| writes(&self.jobs[at]));
                assert!(reported || about_to_be_written || self.is_blank(place), "datum {place} is lost");
                self.gone[place] = true;
            }
        }
    }

    fn do_aside(&mut self, asides: &Asides, now: usize) {
        if let Some((_, node)) = asides.loss.filter(|&(step, _)| step == now) {
            self.lose(node);
        }
        for &(_, place) in asides.unused.iter().filter(|(step, ..)| *step == now) {
            self.driver.memory.wont_use(self.driver.data[place as usize]);
            self.driver.obey();
        }
        for &(_, place, node, steps) in asides.pins.iter().filter(|(step, ..)| *step == now) {
            self.driver.pin(place, node, now + steps);
        }
        self.driver.unpin(|_, until| until <= now);
    }

    /// True if the earlier version was worthless already: a task that writes it without reading had been asked for.
    fn is_blank(&self, place: usize) -> bool {
        let writes = |job: &Job| job.needs.iter().any(|n| n.0 as usize == place && n.2 == Access::Write);
        (0..self.jobs.len()).any(|at| self.state[at] == State::Waiting && writes(&self.jobs[at]))
    }

    /// The job never runs: nobody may read what it was to write.
    fn skip(&mut self, at: usize) {
        for need in self.jobs[at].needs.iter().filter(|need| need.2.writes()) {
            self.truth[need.0 as usize] = None;
        }
        self.unexpect(at);
    }

    /// Abandons what is due to be.
    fn abandon_due(&mut self) {
        for at in 0..self.jobs.len() {
            if self.state[at] != State::Asked {
                continue;
            }
            match &mut self.jobs[at].what {
                What::Retried(0, node) => {
                    self.jobs[at].node = *node;
                    self.jobs[at].what = What::Task;
                    self.driver.abandon(Ticket(at as u64));
                    self.state[at] = State::Waiting;
                }
                What::Skipped(0) => {
                    self.driver.abandon(Ticket(at as u64));
                    self.skip(at);
                }
                What::Retried(left, _) | What::Skipped(left) => *left -= 1,
                _ => {}
            }
        }
    }

    /// Runs a task that is staged: checks what it sees, writes, ends.
    fn end(&mut self, ticket: Ticket) {
        let at = ticket.0 as usize;
        let job = self.jobs[at].clone();
        let mut actual = Vec::new();
        for (need, &(place, ..)) in self.driver.needs(&job).iter().zip(&job.needs) {
            let truth = &mut self.truth[place as usize];
            let key = self.driver.memory.buffer(need.datum, job.node, need.format).unwrap();
            if need.access != Access::Write {
                let have = self.driver.values.get(&key).copied();
                assert_eq!(have, *truth, "job {at} does not see datum {place} as it is");
            }
            if need.access.writes() {
                *truth = Some(1000 + at as u64);
                self.gone[place as usize] = false;
                self.driver.put(need.datum, job.node, need.format, 1000 + at as u64);
                if job.what == What::Turns {
                    let other = if need.format == WIDE { NARROW } else { WIDE };
                    let bytes = bytes_as(self.driver.sizes[place as usize], other);
                    self.driver.grown += bytes.saturating_sub(need.bytes);
                    self.driver.places.insert(key, (need.datum, job.node, other));
                    actual.push((need.datum, other, bytes));
                }
            }
        }
        self.unexpect(at);
        self.driver.finish(ticket, &actual);
    }

    /// All is over: memory is as full as it may be, and every value can still be had.
    fn check(&mut self) {
        self.driver.unpin(|_, _| true);
        self.driver.arrive_all();
        self.driver.grown = 0;
        self.driver.obey();
        self.driver.memory.check();
        for datum in 0..self.truth.len() {
            if self.has_value(datum as u32) {
                assert!(self.driver.memory.has_value(self.driver.data[datum]));
                assert_eq!(self.driver.fetch(datum), self.truth[datum], "{datum}");
            }
        }
        for &datum in &self.driver.data {
            self.driver.memory.remove(datum);
        }
        self.driver.obey();
        assert!((0..self.driver.memory.stats_len()).all(|node| self.driver.memory.used(node) == 0));
        assert!(self.driver.values.is_empty(), "everything was freed");
    }
}

/// Runs the jobs in order of submission per datum (readers side by side), several staged at a time.
pub(super) fn run(driver: &mut Driver, jobs: &[Job], order: &[usize], asides: &Asides) {
    let truth = (0..driver.sizes.len() as u64).map(Some).collect();
    let gone = vec![false; driver.sizes.len()];
    let mut run = Run { driver, jobs: jobs.to_vec(), state: vec![State::Waiting; jobs.len()], truth, gone };
    run.announce(0..run.truth.len() as u32, Memory::expect);
    let mut choice = order.iter().copied().cycle();
    let mut steps = 0;
    while run.state.iter().any(|&s| s != State::Done) {
        steps += 1;
        assert!(steps < 100_000, "livelock");
        for at in 0..jobs.len() {
            if run.state[at] == State::Waiting && !run.is_blocked(at) {
                run.begin(at);
            }
        }
        let step = choice.next().unwrap();
        let driver = &mut *run.driver;
        if !driver.flying.is_empty() && (step % 2 == 0 || driver.staged.is_empty()) {
            let which = step % driver.flying.len();
            driver.arrive(which);
        } else if let Some(ticket) = driver.staged.pop_front() {
            run.end(ticket);
        } else if !driver.pinned.is_empty() {
            // What is pinned may be too much for a working set.
            driver.unpin(|_, _| true);
        } else {
            let waits = |s: &State| *s == State::Asked;
            assert!(
                !run.state.iter().any(waits),
                "deadlock: nothing flies, nothing is staged: {:?}",
                run.state
            );
        }
        run.abandon_due();
        run.do_aside(asides, steps);
    }
    run.check();
}
