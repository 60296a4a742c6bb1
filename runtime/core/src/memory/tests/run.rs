//! Runs jobs in an order that respects the dependencies, and checks the values that they see.

use super::driver::{Asides, Driver, Job, What};
use super::*;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waiting,
    Asked,
    Done,
}

/// Jobs in flight.
struct Run<'a> {
    driver: &'a mut Driver,
    jobs: Vec<Job>,
    state: Vec<State>,
    /// Value of each datum, if it has one.
    truth: Vec<Option<u64>>,
    /// Data that were lost and not written since.
    gone: Vec<bool>,
    /// Tasks whose bodies wait, the innermost last.
    patient: Vec<Ticket>,
}

impl Run<'_> {
    /// Announces the uses of these data by half of the tasks with `tell`, or withdraws them.
    fn announce(&mut self, places: std::ops::Range<u32>, tell: fn(&mut Memory, Datum, u32)) {
        for (at, job) in self.jobs.iter().enumerate() {
            if !job.is_announced() || self.state[at] == State::Done {
                continue;
            }
            for need in job.needs.iter().filter(|need| places.contains(&need.0)) {
                tell(&mut self.driver.memory, self.driver.data[need.0 as usize], 1);
            }
        }
    }

    /// Withdraws the uses of a task that has ended or never runs.
    fn unexpect(&mut self, at: usize) {
        self.state[at] = State::Done;
        if self.jobs[at].is_announced() {
            for need in self.driver.needs(&self.jobs[at]) {
                self.driver.memory.unexpect(need.datum, 1);
            }
        }
    }

    /// Returns true if an earlier job has to end first: per datum they run in order of submission,
    /// readers concurrently.
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
            if at.is_multiple_of(2) {
                self.driver.memory.prefetch(job.node, &needs, Reason::Prefetch);
            }
            self.driver.memory.prefetch(job.node, &needs, Reason::TaskPrefetch);
            self.driver.memory.unwant(job.node, &needs);
        }
        let ticket = Ticket(at as u64);
        if job.what == What::Called {
            self.driver.stage_for_caller(ticket, &needs);
        } else {
            self.driver.stage(ticket, job.node, &needs);
        }
        self.state[at] = State::Asked;
    }

    fn has_value(&self, datum: u32) -> bool {
        self.truth[datum as usize].is_some() && !self.gone[datum as usize]
    }

    /// Loses a node's memory: the lost data are those that existed nowhere else.
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
        if asides.shut == Some(now) {
            self.driver.shut();
        }
        for &(_, place) in asides.kept.iter().filter(|(step, _)| *step == now) {
            self.keep(self.driver.data[place as usize]);
        }
        if let Some((_, node)) = asides.loss.filter(|&(step, node)| step == now && self.can_be_lost(node)) {
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

    /// Returns true if there is such a node.
    fn can_be_lost(&self, node: NodeId) -> bool {
        node < self.driver.memory.stats_len()
    }

    /// Keeps a datum on the host, unless it is already in flight to the disk.
    fn keep(&mut self, datum: Datum) {
        let on_its_way = |(t, _): &(Transfer, u64)| t.datum == datum && Some(t.to) == self.driver.disk();
        if self.driver.flying.iter().any(on_its_way) || self.driver.memory.transfers() > 0 {
            return;
        }
        self.driver.kept.push(datum);
        self.driver.memory.keep(datum);
    }

    /// Decides if a complete task goes on now, or its body waits until nothing else can run.
    fn waits(&mut self, ticket: Ticket) -> bool {
        let job = &mut self.jobs[ticket.0 as usize];
        if job.what != What::Patient || job.node != HOST {
            return false;
        }
        job.what = What::Task;
        self.patient.push(ticket);
        self.driver.memory.pause(ticket);
        self.driver.obey();
        true
    }

    /// Resumes the last waiting body: no task on the host could have run without it.
    fn end_wait(&mut self) {
        let ticket = self.patient.pop().expect("seen before");
        let stuck = |(at, job): (usize, &Job)| {
            let asked = self.state[at] == State::Asked && job.node == HOST;
            asked && !self.patient.contains(&Ticket(at as u64)) && at as u64 != ticket.0
        };
        assert!(
            !self.jobs.iter().enumerate().any(stuck),
            "deadlock: a body waits for tasks that wait for memory"
        );
        self.driver.memory.resume(ticket);
        self.driver.obey();
        self.end(ticket);
    }

    /// Returns true if the earlier version was worthless already: a task that writes it without
    /// reading had been requested.
    fn is_blank(&self, place: usize) -> bool {
        let writes = |job: &Job| job.needs.iter().any(|n| n.0 as usize == place && n.2 == Access::Write);
        (0..self.jobs.len()).any(|at| self.state[at] == State::Waiting && writes(&self.jobs[at]))
    }

    /// Skips the job: nobody may read the data that it was to write.
    fn skip(&mut self, at: usize) {
        for need in self.jobs[at].needs.iter().filter(|need| need.2.writes()) {
            self.truth[need.0 as usize] = None;
        }
        self.unexpect(at);
    }

    /// Abandons the tasks that are due for it.
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

    /// Runs a staged task: checks the values that it sees, writes, ends.
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

    /// Checks the end state: memory is within its limits, and every value is available.
    fn check(&mut self) {
        self.driver.unpin(|_, _| true);
        self.driver.arrive_all();
        self.driver.grown = 0;
        self.driver.obey();
        self.driver.memory.check();
        let holds = |&capacity: &u64| self.driver.memory.used(HOST) <= capacity;
        let (host, kept) = (self.driver.host, self.driver.kept.is_empty());
        assert!(
            !host.disk || !kept || host.capacity.as_ref().is_none_or(holds),
            "what is too much is on the disk"
        );
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

/// Runs the jobs in order of submission per datum (readers concurrently), several staged at a time.
pub(super) fn run(driver: &mut Driver, jobs: &[Job], order: &[usize], asides: &Asides) {
    let truth = (0..driver.sizes.len() as u64).map(Some).collect();
    let gone = vec![false; driver.sizes.len()];
    let (state, patient) = (vec![State::Waiting; jobs.len()], Vec::new());
    let mut run = Run { driver, jobs: jobs.to_vec(), state, truth, gone, patient };
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
            if !run.waits(ticket) {
                run.end(ticket);
            }
        } else if !run.patient.is_empty() {
            run.end_wait();
        } else if !driver.pinned.is_empty() {
            // Pinned data may leave too little for a working set.
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
