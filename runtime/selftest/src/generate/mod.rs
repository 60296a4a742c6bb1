//! Generation of a random case from one number.

mod parts;

use std::sync::Arc;
use std::time::Duration;

use zellige_runtime::sched::POLICIES;
use zellige_runtime::{Emulated, Format};

use super::case::{Access, Case, Fault, GpuOf, Hint, Job, Kind, Machine, Parts, Start, Step};
use super::oracle::Oracle;
use super::rng::Rng;
use super::words::{FORMATS, NO_FORMAT};

/// Parameters of a case, drawn once so that cases differ by more than noise.
struct Taste {
    cpus: usize,
    /// Percent of jobs that fail on purpose.
    faults: usize,
    /// Percent of reads and updates that request a format.
    formats: usize,
    /// Percent of handles that stay on the host.
    locals: usize,
    /// Percent of handles that are plain vectors.
    plain: usize,
    /// Longest value (words).
    longest: usize,
    /// Maximum number of handles in use at a time.
    handles: usize,
}

/// Relation of a handle to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Own,
    Part,
    View,
}

struct Generator {
    rng: Rng,
    taste: Taste,
    oracle: Oracle,
    data: Vec<Start>,
    /// Role of each handle.
    roles: Vec<Role>,
    steps: Vec<Step>,
    /// Handles in use that are not split.
    live: Vec<usize>,
    /// Split handles; parts that are split themselves come later.
    out: Vec<Parts>,
    tasks: usize,
    /// See [`Machine::as_one`].
    as_one: bool,
    /// True if there are parts, views and hints.
    parts: bool,
}

/// One case in this many is made for replays as one launch on a GPU.
const AS_ONE: u64 = 8;

/// Generates the case of `seed`, with a device that fails in some cases if `deaths` are requested.
/// It is for real GPUs of these numbers, or for any number of mock GPUs. The two differ only in the
/// choice of the devices that are GPUs.
pub(super) fn case(seed: u64, deaths: bool, real: Option<&[u32]>) -> Case {
    let mut rng = Rng::new(seed);
    let mut taste = Taste {
        cpus: rng.pick(&[0, 0, 1, 1, 2]),
        faults: rng.pick(&[0, 0, 1, 4]),
        formats: rng.pick(&[0, 20, 50]),
        locals: rng.pick(&[0, 0, 0, 0, 10]),
        plain: rng.pick(&[0, 20, 50]),
        longest: rng.pick(&[4, 16, 64]),
        handles: rng.within(4, 24),
    };
    let (oracle, data, steps, live) = (Oracle::new(), vec![], vec![], vec![]);
    let as_one = seed % AS_ONE == AS_ONE - 1;
    if as_one && (seed / AS_ONE).is_multiple_of(2) {
        // For other types norms are read back, which cannot be recorded.
        taste.plain = 100;
    }
    let (roles, out, parts) = (vec![], vec![], parts::are_there(seed));
    let mut generator =
        Generator { rng, taste, oracle, data, roles, steps, live, out, tasks: 0, as_one, parts };
    for _ in 0..generator.taste.handles.div_ceil(2).max(2) {
        generator.add_handle();
    }
    let most = generator.rng.within(20, 200);
    let wanted = generator.rng.within(20, most);
    while generator.tasks < wanted {
        generator.add_step();
    }
    while let Some(last) = generator.out.len().checked_sub(1) {
        generator.join(last);
    }
    generator.end_views();
    let machine = generator.machine(deaths, real);
    Case { data: generator.data, steps: generator.steps, machine, tasks: generator.tasks as u64 }
}

impl Generator {
    fn add_handle(&mut self) {
        let rng = &mut self.rng;
        let kind = match rng.below(100) {
            roll if self.taste.cpus > 0 && roll < self.taste.locals => Kind::Local,
            roll if roll >= 100 - self.taste.plain => Kind::Plain,
            _ => Kind::Words,
        };
        let format = if kind == Kind::Plain { Format::NATIVE } else { rng.pick(&FORMATS) };
        let start = Start { kind, format, len: 0, seed: rng.next(), empty: rng.chance(20) };
        let start = Start { len: self.length(), ..start };
        self.add(start, Role::Own);
    }

    fn add(&mut self, start: Start, role: Role) {
        self.oracle.add(&start);
        self.live.push(self.data.len());
        self.data.push(start);
        self.roles.push(role);
    }

    fn is_view(&self, handle: usize) -> bool {
        self.roles[handle] == Role::View
    }

    /// Draws a length: rarely zero, mostly small, sometimes large.
    fn length(&mut self) -> usize {
        let longest = self.taste.longest;
        match self.rng.below(32) {
            0 => 0,
            1..=7 => longest,
            _ => self.rng.within(1, longest),
        }
    }

    fn push(&mut self, step: Step) {
        self.oracle.step(&step);
        self.steps.push(step);
    }

    fn add_step(&mut self) {
        match self.rng.below(100) {
            0..=3 => self.add_replay(),
            roll if self.as_one && roll >= 90 => self.add_replay(),
            4..=6 => {
                let Some(handle) = self.written_handle(true) else { return };
                let across = self.rng.chance(50);
                self.push(Step::Read { handle, across });
                if across {
                    self.add_job(false);
                }
            }
            7..=9 => {
                let Some(handle) = self.written_handle(false) else { return };
                let seed = self.rng.next();
                self.push(Step::Change { handle, seed });
            }
            10..=12 => self.retire_one(),
            13..=16 if self.live.len() < self.taste.handles => self.add_handle(),
            17 => self.push(Step::Wait),
            18..=23 if self.parts => self.add_parts(),
            24..=25 if !self.out.is_empty() => self.join_one(),
            26..=28 if self.parts => {
                let (handle, worker) = (self.rng.pick(&self.live), self.rng.below(8));
                let hint = self.rng.pick(&[Hint::Prefetch, Hint::Prefetch, Hint::WontUse, Hint::Pin]);
                self.push(Step::Hint { handle, worker, hint });
            }
            _ => self.add_job(true),
        }
    }

    fn written_handle(&mut self, views: bool) -> Option<usize> {
        let is_written = |&handle: &usize| self.oracle.is_written(handle) && (views || !self.is_view(handle));
        let written: Vec<usize> = self.live.iter().copied().filter(is_written).collect();
        (!written.is_empty()).then(|| self.rng.pick(&written))
    }

    fn retire_one(&mut self) {
        if self.live.len() < 4 {
            return;
        }
        let at = self.rng.below(self.live.len());
        if self.roles[self.live[at]] == Role::Part {
            return;
        }
        let handle = self.live.swap_remove(at);
        let takes = self.oracle.is_written(handle) && !self.is_view(handle) && self.rng.chance(40);
        self.push(if takes { Step::Take { handle } } else { Step::Drop { handle } });
    }

    fn add_job(&mut self, may_wait: bool) {
        let waits = may_wait && self.rng.chance(3);
        let job = Job { after: self.rng.chance(5), waits, ..self.job(true) };
        self.tasks += 1;
        self.push(Step::Submit(Arc::new(job)));
    }

    fn add_replay(&mut self) {
        let drawn: Vec<Job> = (0..self.rng.within(2, 10)).map(|_| self.job(false)).collect();
        let plain = self.as_one && self.rng.chance(80);
        let times = if self.as_one { self.rng.within(2, 4) } else { 2 };
        let jobs = drawn.into_iter().map(|job| Arc::new(if plain { job.plain() } else { job }));
        let jobs: Vec<Arc<Job>> = jobs.collect();
        self.tasks += times * jobs.len();
        let used: Vec<usize> =
            jobs.iter().flat_map(|job| &job.accesses).flat_map(Access::handles).copied().collect();
        let instead = self.instead(&used);
        self.push(Step::Replay { jobs, times, instead });
    }

    /// Returns a handle of those that a recording names, and another as its replacement. Parts and
    /// views are excluded: parts have no names of ours, and views cannot be written.
    fn instead(&mut self, used: &[usize]) -> Option<(usize, usize)> {
        let was = self.rng.pick(used);
        let others: Vec<usize> = self
            .live
            .iter()
            .copied()
            .filter(|other| !used.contains(other) && self.oracle.is_written(*other))
            .filter(|&other| self.oracle.kind(other) == self.oracle.kind(was))
            .filter(|&other| [was, other].iter().all(|&handle| self.roles[handle] == Role::Own))
            .collect();
        (!others.is_empty() && self.rng.chance(50)).then(|| (was, self.rng.pick(&others)))
    }

    /// Generates a job with a certain result. In a recording, which the oracle has not executed
    /// yet, the result has to be certain at any position.
    fn job(&mut self, submitted: bool) -> Job {
        loop {
            let mut job = self.random_job();
            if job.accesses.is_empty() {
                continue;
            }
            if self.oracle.would_fail(&job) && job.fault.is_none() && self.rng.chance(70) {
                self.heal(&mut job);
            }
            let several = job.commutes() && job.written().count() > 1;
            if if submitted { self.oracle.is_certain(&job) } else { !several } {
                return job;
            }
        }
    }

    /// Makes the job write poisoned handles instead of reading them: otherwise few values would be
    /// left in the end.
    fn heal(&mut self, job: &mut Job) {
        for at in 0..job.accesses.len() {
            let handle = job.accesses[at].handles()[0];
            let once = job.accesses.iter().flat_map(Access::handles).filter(|&&h| h == handle).count() == 1;
            let single = job.accesses[at].handles().len() == 1;
            if single && once && self.oracle.is_poisoned(handle) && !self.is_view(handle) {
                job.accesses[at] = self.write(handle);
            }
        }
    }

    fn random_job(&mut self) -> Job {
        let mut accesses: Vec<Access> = Vec::new();
        let count = self.rng.pick(&[1, 2, 2, 3, 3, 3, 4, 5]);
        for _ in 0..count {
            let handle = self.rng.pick(&self.live);
            let taken = |access: &Access| access.handles().contains(&handle);
            let again = accesses.iter().any(taken);
            // A job may name a handle twice if both accesses read.
            let written = accesses.iter().any(|access| taken(access) && access.writes());
            if written || (again && !self.rng.chance(10)) {
                continue;
            }
            let access = if again { self.reading(handle) } else { self.access(handle, &accesses) };
            accesses.push(access);
        }
        let faulty = self.rng.chance(self.taste.faults);
        let late = self.rng.chance(15);
        let mut job = Job {
            seed: self.rng.next(),
            accesses,
            fault: None,
            late,
            priority: self.rng.pick(&[0, 0, 0, 1, -1]),
            after: false,
            waits: false,
        };
        if faulty {
            self.spoil(&mut job);
        }
        job
    }

    /// Gives the job an intentional failure.
    fn spoil(&mut self, job: &mut Job) {
        let fault = self.rng.pick(&[Fault::Before, Fault::After, Fault::Panic, Fault::Choice, Fault::Format]);
        job.late |= fault == Fault::Choice;
        if fault == Fault::Format {
            job.late = false;
            let asked = job.accesses.iter_mut().find_map(|access| match access {
                Access::Read { format, .. } | Access::List { format, .. } | Access::Update { format, .. } => {
                    Some(format)
                }
                _ => None,
            });
            let Some(format) = asked else { return };
            *format = NO_FORMAT;
        }
        job.fault = Some(fault);
    }

    fn access(&mut self, handle: usize, others: &[Access]) -> Access {
        // Reductions run on the host. A reduction of a value that cannot be transferred is left
        // out: partial results are added to it in place, and earlier conversions of it stay.
        let reduces = self.taste.cpus > 0;
        match self.rng.below(100) {
            _ if !self.oracle.is_written(handle) => self.write(handle),
            40.. if self.is_view(handle) => self.list(handle, others),
            0..=39 => self.reading(handle),
            40..=66 => {
                let becomes = self.format_for(handle);
                let becomes = (becomes != Format::NATIVE && self.rng.chance(50)).then_some(becomes);
                Access::Update { handle, format: self.format_for(handle), becomes }
            }
            67..=78 => self.write(handle),
            79..=86 => Access::Commute { handle },
            // Parts have no operation that adds partial results.
            87..=91 if reduces && self.roles[handle] == Role::Own => Access::Reduce { handle },
            _ => self.list(handle, others),
        }
    }

    fn reading(&mut self, handle: usize) -> Access {
        Access::Read { handle, format: self.format_for(handle) }
    }

    fn write(&mut self, handle: usize) -> Access {
        let plain = self.oracle.kind(handle) == Kind::Plain;
        let format = if plain { Format::NATIVE } else { self.rng.pick(&FORMATS) };
        // A part that changes its length leaves the joined vector without a value.
        let keeps = self.roles[handle] == Role::Part && self.rng.chance(90);
        Access::Write { handle, format, len: if keeps { self.data[handle].len } else { self.length() } }
    }

    fn format_for(&mut self, handle: usize) -> Format {
        let asks = self.oracle.kind(handle) != Kind::Plain && self.rng.chance(self.taste.formats);
        if asks { self.rng.pick(&FORMATS) } else { Format::NATIVE }
    }

    fn list(&mut self, first: usize, others: &[Access]) -> Access {
        let kind = self.oracle.kind(first);
        let mut handles = vec![first];
        for _ in 0..self.rng.below(4) {
            let other = self.rng.pick(&self.live);
            let taken = others.iter().any(|access| access.handles().contains(&other));
            if !taken && self.oracle.kind(other) == kind && self.oracle.is_written(other) {
                handles.push(other);
            }
        }
        Access::List { handles, format: self.format_for(first) }
    }

    fn machine(&mut self, deaths: bool, real: Option<&[u32]>) -> Machine {
        let (largest, everything) = (self.oracle.largest_set().max(1), self.oracle.everything().max(1));
        let rng = &mut self.rng;
        let count = rng.pick(&[1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6]);
        let roomy = rng.below(count);
        let rate = rng.pick(&[1e9, 5e9, 2e10, 1e11]);
        let lateness = rng.pick(&[0, 0, 5, 50]);
        let mut devices = Vec::new();
        for at in 0..count {
            let capacity = match rng.below(20) {
                // All operands of a replay have to fit at once.
                0..=15 if self.as_one && at == 0 => everything.max(largest),
                0..=7 => largest,
                8..=12 => largest + rng.next() % largest,
                13..=15 => largest.max(everything / 2),
                16..=17 => everything.max(largest),
                _ if at != roomy => largest.div_ceil(2),
                _ => largest,
            };
            let device = Emulated::new(capacity).staging(rng.below(3) as u32).bandwidth(rate);
            let device = if rng.chance(20) { device.latency(Duration::from_nanos(2000)) } else { device };
            let late = device.clone().late(rng.next(), Duration::from_micros(lateness));
            devices.push(if lateness > 0 { late } else { device });
        }
        let peers = rng.chance(40).then_some(rate);
        let policy = POLICIES[rng.below(POLICIES.len())].0;
        let window = rng.pick(&[1, 3, 8, 32, 128, 8192]);
        let outlived = rng.chance(12);
        let (victim, operation) = (rng.below(count), rng.next() % 60);
        let dies = (deaths && rng.chance(15)).then_some(victim);
        if let Some(victim) = dies {
            devices[victim] = devices[victim].clone().fails_at(operation);
        }
        let (host, swap) = host_of(rng, largest, everything);
        // Without devices all tasks share the host's memory.
        if host.is_some() && dies.is_none() && self.taste.cpus > 0 && rng.chance(25) {
            devices.clear();
        }
        let gpus = match real {
            None => gpus_of(rng, devices.len(), dies.map(|victim| (victim, operation))),
            Some(there) => real_gpus_of(rng, devices.len(), dies, there),
        };
        let as_one = self.as_one && !devices.is_empty() && real.is_none_or(|there| !there.is_empty());
        let gpus = match (as_one, dies) {
            (false, _) => gpus,
            // Real GPUs are never made to fail.
            (true, Some(0)) if real.is_some() => gpus,
            (true, _) => one_gpu_of(rng, devices.len(), dies.map(|victim| (victim, operation))),
        };
        let gpu_seed = rng.next();
        let cpus = self.taste.cpus;
        let order = None;
        Machine {
            policy,
            cpus,
            window,
            devices,
            gpus,
            as_one,
            gpu_seed,
            accelerator: None,
            peers,
            host,
            swap,
            dies,
            outlived,
            order,
        }
    }
}

/// Selects the devices that are GPUs instead: none, some or all. One that dies has a GPU of its
/// own; others may share one.
fn gpus_of(rng: &mut Rng, devices: usize, dies: Option<(usize, u64)>) -> Vec<Option<GpuOf>> {
    let share = rng.pick(&[0, 0, 0, 50, 100]);
    let mut next = 0;
    let mut gpu = |at: usize| {
        let fails_at = dies.filter(|(victim, _)| *victim == at).map(|(_, operation)| operation);
        let (chosen, shared, streams) = (rng.chance(share), rng.chance(30), 1 + rng.below(3));
        if !chosen {
            return None;
        }
        if shared && next > 0 && dies.is_none() {
            return Some(GpuOf { number: next - 1, streams, fails_at });
        }
        next += 1;
        Some(GpuOf { number: next - 1, streams, fails_at })
    };
    (0..devices).map(&mut gpu).collect()
}

/// Makes the first device a GPU.
fn one_gpu_of(rng: &mut Rng, devices: usize, dies: Option<(usize, u64)>) -> Vec<Option<GpuOf>> {
    let fails_at = dies.filter(|(victim, _)| *victim == 0).map(|(_, operation)| operation);
    let gpu = GpuOf { number: 0, streams: 1 + rng.below(3), fails_at };
    (0..devices).map(|at| (at == 0).then_some(gpu)).collect()
}

/// Selects the devices that are real GPUs: some or all, except one that dies. Several may be on the
/// same GPU.
fn real_gpus_of(rng: &mut Rng, devices: usize, dies: Option<usize>, there: &[u32]) -> Vec<Option<GpuOf>> {
    let share = rng.pick(&[50, 100, 100]);
    let mut gpu = |at: usize| {
        let (chosen, number, streams) = (rng.chance(share), rng.next(), 1 + rng.below(3));
        let which = number.checked_rem(there.len() as u64).filter(|_| chosen && dies != Some(at))?;
        Some(GpuOf { number: there[which as usize], streams, fails_at: None })
    };
    (0..devices).map(&mut gpu).collect()
}

/// Draws the limit of host memory, if there is one, and whether there is a disk.
fn host_of(rng: &mut Rng, largest: u64, everything: u64) -> (Option<u64>, bool) {
    let capacity = match rng.below(20) {
        0..=3 => largest,
        4..=5 => largest + rng.next() % largest,
        6..=7 => largest.max(everything / 2),
        _ => return (None, false),
    };
    (Some(capacity), rng.chance(85))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_case() {
        let text = |seed| format!("{:?}", case(seed, true, None));
        assert_eq!(text(5), text(5));
        assert_ne!(text(5), text(6));
    }

    #[test]
    fn cases_are_of_the_size_asked_for() {
        for seed in 0..300 {
            let case = case(seed, true, None);
            assert!((20..=230).contains(&case.tasks), "{seed}: {}", case.tasks);
            let Machine { devices, host, .. } = &case.machine;
            assert!(devices.len() <= 6 && (host.is_some() || !devices.is_empty()));
            assert!(case.data.len() >= 2);
        }
    }

    #[test]
    fn real_gpus_change_nothing_but_which_devices_are_some() {
        let (mut several, mut dying) = (0, 0);
        for seed in 0..300 {
            let (mock, real) = (case(seed, true, None), case(seed, true, Some(&[0, 3])));
            assert_eq!(format!("{:?}", mock.steps), format!("{:?}", real.steps));
            assert_eq!(format!("{:?}", mock.machine.devices), format!("{:?}", real.machine.devices));
            let gpus: Vec<GpuOf> = real.machine.gpus.iter().copied().flatten().collect();
            assert!(gpus.iter().all(|gpu| [0, 3].contains(&gpu.number) && gpu.fails_at.is_none()));
            several += usize::from(gpus.len() > 2);
            if let Some(victim) = real.machine.dies {
                assert!(real.machine.gpus[victim].is_none());
                dying += usize::from(!gpus.is_empty());
            }
            assert!(case(seed, true, Some(&[])).machine.gpus.iter().all(Option::is_none));
        }
        assert!(several > 50 && dying > 5, "{several} with logical GPUs, {dying} with deaths beside GPUs");
    }
}
