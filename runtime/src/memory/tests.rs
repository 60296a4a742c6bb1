//! The state machine under random tasks, against a driver that moves real values.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;

use super::*;

const WIDE: Format = Format(2);
const NARROW: Format = Format(3);

fn bytes_as(size: u64, format: Format) -> u64 {
    if format == WIDE { size } else { size / 2 }
}

/// A task: on which node, and what it does to which data in which format.
#[derive(Clone, Debug)]
struct Job {
    node: NodeId,
    needs: Vec<(u32, Format, Access)>,
    prefetched: bool,
}

/// Carries out actions on real values and checks every promise of [`Memory`].
struct Driver {
    memory: Memory,
    capacity: u64,
    sizes: Vec<u64>,
    /// The value of each replica that a transfer or a task has filled.
    values: HashMap<BufferId, u64>,
    /// Transfers under way and the values they took along.
    flying: VecDeque<(Transfer, u64)>,
    staged: VecDeque<Ticket>,
    evictions: u64,
    write_backs: u64,
    conversions: u64,
}

impl Driver {
    fn new(devices: usize, peers: bool, capacity: u64, staging: u32, sizes: &[u64]) -> Self {
        let spec = LinkSpec { bandwidth: 1e9, latency_ns: 10 };
        let nodes: Vec<NodeSpec> =
            (0..=devices).map(|n| NodeSpec { capacity: (n > 0).then_some(capacity), staging }).collect();
        let links: Vec<Vec<Option<LinkSpec>>> = (0..=devices)
            .map(|a| (0..=devices).map(|b| (peers || a == b || a * b == 0).then_some(spec)).collect())
            .collect();
        let mut memory = Memory::new(&nodes, &links);
        let mut values = HashMap::new();
        for (i, &size) in sizes.iter().enumerate() {
            let datum = memory.add(WIDE, size, Some(HOST));
            values.insert(memory.buffer(datum, HOST, WIDE).unwrap(), i as u64);
        }
        Driver {
            memory,
            capacity,
            sizes: sizes.to_vec(),
            values,
            flying: VecDeque::new(),
            staged: VecDeque::new(),
            evictions: 0,
            write_backs: 0,
            conversions: 0,
        }
    }

    fn needs(&self, job: &Job) -> Vec<Need> {
        let need = |&(datum, format, access): &(u32, Format, Access)| Need {
            datum: Datum(datum),
            format,
            bytes: bytes_as(self.sizes[datum as usize], format),
            access,
        };
        job.needs.iter().map(need).collect()
    }

    fn obey(&mut self) {
        for action in self.memory.take_actions() {
            match action {
                Action::Begin(transfer) => {
                    let value = self.values[&transfer.source];
                    self.conversions += u64::from(transfer.format != transfer.source_format);
                    let same_link =
                        |(other, _): &(Transfer, u64)| (other.from, other.to) == (transfer.from, transfer.to);
                    assert!(!self.flying.iter().any(same_link), "one transfer at a time on a link");
                    self.flying.push_back((transfer, value));
                }
                Action::Staged(ticket) => self.staged.push_back(ticket),
                Action::Evicted { written_back, .. } => {
                    self.evictions += 1;
                    self.write_backs += u64::from(written_back);
                }
                Action::Freed(buffer) => {
                    self.values.remove(&buffer);
                }
            }
        }
        for node in 1..self.memory.stats_len() {
            assert!(self.memory.used(node) <= self.capacity, "node {node} holds more than it can");
        }
    }

    /// Lets the transfer at place `which` arrive.
    fn arrive(&mut self, which: usize) {
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
}

/// Runs the jobs in order of submission per datum (readers side by side), several staged at a time.
fn run(driver: &mut Driver, jobs: &[Job], order: &[usize]) {
    let mut truth: Vec<u64> = (0..driver.sizes.len() as u64).collect();
    let mut choice = order.iter().copied().cycle();
    let mut state = vec![0u8; jobs.len()]; // 0 waiting, 1 asked for, 2 done
    let blocked = |state: &[u8], at: usize| {
        (0..at).any(|before| {
            state[before] != 2
                && jobs[before]
                    .needs
                    .iter()
                    .any(|a| jobs[at].needs.iter().any(|b| a.0 == b.0 && (a.2.writes() || b.2.writes())))
        })
    };
    let mut steps = 0;
    while state.iter().any(|&s| s != 2) {
        steps += 1;
        assert!(steps < 100_000, "livelock");
        for at in 0..jobs.len() {
            if state[at] == 0 && !blocked(&state, at) {
                let needs = driver.needs(&jobs[at]);
                if jobs[at].prefetched {
                    driver.memory.want(jobs[at].node, &needs);
                    driver.memory.prefetch(jobs[at].node, &needs);
                    driver.memory.unwant(jobs[at].node, &needs);
                }
                driver.memory.stage(Ticket(at as u64), jobs[at].node, &needs);
                state[at] = 1;
                driver.obey();
            }
        }
        let step = choice.next().unwrap();
        if !driver.flying.is_empty() && (step % 2 == 0 || driver.staged.is_empty()) {
            let which = step % driver.flying.len();
            driver.arrive(which);
        } else if let Some(ticket) = driver.staged.pop_front() {
            let at = ticket.0 as usize;
            for need in driver.needs(&jobs[at]) {
                let key = driver.memory.buffer(need.datum, jobs[at].node, need.format).unwrap();
                if need.access != Access::Write {
                    let (have, want) = (driver.values.get(&key), &truth[need.datum.0 as usize]);
                    assert_eq!(have, Some(want), "job {at} does not see datum {} as it is", need.datum.0);
                }
                if need.access.writes() {
                    truth[need.datum.0 as usize] = 1000 + at as u64;
                    driver.values.insert(key, 1000 + at as u64);
                }
            }
            driver.memory.finish(ticket);
            state[at] = 2;
            driver.obey();
        } else {
            panic!("deadlock: nothing flies and nothing is staged, {state:?}");
        }
    }
    while !driver.flying.is_empty() {
        driver.arrive(0);
    }
    driver.memory.check();
    // Every value can still be had.
    for datum in 0..driver.sizes.len() as u32 {
        let (format, bytes) = driver.memory.current(Datum(datum));
        let need = Need { datum: Datum(datum), format, bytes, access: Access::Read };
        driver.memory.stage(Ticket(1 << 40 | u64::from(datum)), HOST, &[need]);
        driver.obey();
        while !driver.flying.is_empty() {
            driver.arrive(0);
        }
        let buffer = driver.memory.buffer(Datum(datum), HOST, format).unwrap();
        assert_eq!(driver.values.get(&buffer), Some(&truth[datum as usize]), "{datum}");
        driver.memory.finish(Ticket(1 << 40 | u64::from(datum)));
        driver.obey();
    }
}

fn jobs(devices: usize, data: usize) -> impl Strategy<Value = Vec<Job>> {
    let access = prop_oneof![3 => Just(Access::Read), 2 => Just(Access::Update), 1 => Just(Access::Write)];
    let format = prop_oneof![2 => Just(WIDE), 1 => Just(NARROW)];
    let needs = prop::collection::vec((0..data as u32, format, access), 1..4).prop_map(|mut needs| {
        needs.sort_by_key(|need| need.0);
        needs.dedup_by_key(|need| need.0);
        needs
    });
    let job = (0..=devices, needs, any::<bool>()).prop_map(|(node, needs, prefetched)| Job {
        node,
        needs,
        prefetched,
    });
    prop::collection::vec(job, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    /// Whatever the order of arrivals: tasks see what the last writer wrote, nodes never hold more than they can, nothing is
    /// lost, and memory for exactly one working set is enough (starpu#38, parsec#742).
    #[test]
    fn tasks_see_what_was_written_and_all_of_them_run(
        jobs in jobs(3, 6),
        sizes in prop::collection::vec(1u64..50, 6),
        peers in any::<bool>(),
        slack in prop_oneof![Just(0u64), 0u64..200],
        staging in 0u32..2,
        order in prop::collection::vec(0usize..100, 1..30),
    ) {
        let sizes: Vec<u64> = sizes.iter().map(|s| s * 2).collect();
        let largest = jobs.iter().map(|job| {
            job.needs.iter().map(|&(d, f, _)| bytes_as(sizes[d as usize], f)).sum::<u64>()
        }).max().unwrap();
        let mut driver = Driver::new(3, peers, largest + slack, staging, &sizes);
        run(&mut driver, &jobs, &order);
    }
}

/// The scenarios above do reach what they are about.
#[test]
fn random_scenarios_evict_and_convert() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut evicting, mut converting) = (0, 0);
    for _ in 0..100 {
        let jobs = jobs(3, 6).new_tree(&mut runner).unwrap().current();
        let mut driver = Driver::new(3, true, 60, 1, &[20; 6]);
        run(&mut driver, &jobs, &[0, 3, 1, 4]);
        evicting += u32::from(driver.evictions > 0);
        converting += u32::from(driver.conversions > 0);
    }
    assert!(evicting >= 30 && converting >= 30, "{evicting} runs evict, {converting} convert");
}

/// A narrow form travels instead of the wide one; without room to convert at the sender the wide one does.
#[test]
fn the_narrowest_form_travels() {
    for (staging, moved) in [(1, 50), (0, 100)] {
        let mut driver = Driver::new(1, true, 1000, staging, &[100]);
        let job = Job { node: 1, needs: vec![(0, NARROW, Access::Read)], prefetched: false };
        let needs = driver.needs(&job);
        driver.memory.stage(Ticket(0), 1, &needs);
        driver.obey();
        assert_eq!(driver.flying[0].0.bytes, moved);
        run(&mut Driver::new(1, true, 1000, staging, &[100]), &[job], &[0]);
    }
}

/// What no queued task wants goes first, then what was used longest ago; a sole copy is written back.
#[test]
fn the_victim_is_unwanted_and_old() {
    let mut driver = Driver::new(1, true, 30, 1, &[10, 10, 10, 10]);
    let read = |datum| Job { node: 1, needs: vec![(datum, WIDE, Access::Read)], prefetched: false };
    let go = |driver: &mut Driver, datum: u32, ticket: u64| {
        let needs = driver.needs(&read(datum));
        driver.memory.stage(Ticket(ticket), 1, &needs);
        driver.obey();
        while !driver.flying.is_empty() {
            driver.arrive(0);
        }
        driver.memory.finish(Ticket(ticket));
        driver.obey();
    };
    for datum in 0..3 {
        go(&mut driver, datum, u64::from(datum));
    }
    let wanted = driver.needs(&read(0));
    driver.memory.want(1, &wanted);
    go(&mut driver, 3, 3);
    assert!(driver.memory.buffer(Datum(0), 1, WIDE).is_some(), "0 is the oldest, but wanted");
    assert!(driver.memory.buffer(Datum(1), 1, WIDE).is_none());
    assert_eq!((driver.evictions, driver.write_backs), (1, 0), "the host has them all");
    // The sole copy of what was written here goes back to the host before it is given up.
    let job = Job { node: 1, needs: vec![(2, WIDE, Access::Update)], prefetched: false };
    let needs = driver.needs(&job);
    driver.memory.stage(Ticket(4), 1, &needs);
    driver.obey();
    let buffer = driver.memory.buffer(Datum(2), 1, WIDE).unwrap();
    driver.values.insert(buffer, 77);
    driver.memory.finish(Ticket(4));
    driver.obey();
    let all = Job {
        node: 1,
        needs: vec![(0, WIDE, Access::Read), (1, WIDE, Access::Read), (3, WIDE, Access::Read)],
        prefetched: false,
    };
    let needs = driver.needs(&all);
    driver.memory.stage(Ticket(5), 1, &needs);
    driver.obey();
    while !driver.flying.is_empty() {
        driver.arrive(0);
    }
    let home = driver.memory.buffer(Datum(2), HOST, WIDE).unwrap();
    assert_eq!(driver.values[&home], 77);
    assert!(driver.memory.buffer(Datum(2), 1, WIDE).is_none());
}
