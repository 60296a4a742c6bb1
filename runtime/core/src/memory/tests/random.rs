//! Random jobs, arrivals in any order.

use proptest::prelude::*;

use super::driver::{Asides, Driver, Host, Job, What};
use super::run::run;
use super::*;

fn what(devices: usize) -> impl Strategy<Value = What> {
    prop_oneof![
        8 => Just(What::Task),
        1 => Just(What::Turns),
        2 => (0usize..12, 0..=devices).prop_map(|(steps, node)| What::Retried(steps, node)),
        1 => (0usize..12).prop_map(What::Skipped),
        1 => any::<bool>().prop_map(What::Renewed),
        1 => Just(What::Replaced),
        1 => Just(What::Invalidated),
        1 => Just(What::Called),
        1 => Just(What::Patient),
    ]
}

fn asides(devices: usize, data: u32) -> impl Strategy<Value = Asides> {
    let pin = (1usize..60, 0..data, 0..=devices, 1usize..30);
    (
        // The node after the devices is the disk.
        prop::option::of((1usize..60, 1..=devices + 1)),
        prop::option::weighted(0.2, 1usize..60),
        prop::collection::vec((1usize..60, 0..data), 0..2),
        prop::collection::vec((1usize..60, 0..data), 0..4),
        prop::collection::vec(pin, 0..4),
    )
        .prop_map(|(loss, shut, kept, unused, pins)| Asides { loss, shut, kept, unused, pins })
}

/// Generates the host's capacity beyond the largest working set, if it is limited, and tells if
/// there is a disk.
fn host() -> impl Strategy<Value = (Option<u64>, bool)> {
    let slack = prop_oneof![Just(0u64), 0u64..200];
    prop_oneof![1 => Just((None, false)), 3 => (slack.prop_map(Some), prop::bool::weighted(0.8))]
}

fn jobs(devices: usize, data: usize) -> impl Strategy<Value = Vec<Job>> {
    let access = prop_oneof![3 => Just(Access::Read), 2 => Just(Access::Update), 1 => Just(Access::Write)];
    let format = prop_oneof![2 => Just(WIDE), 1 => Just(NARROW)];
    let needs = prop::collection::vec((0..data as u32, format, access), 1..4).prop_map(|mut needs| {
        needs.sort_by_key(|need| need.0);
        needs.dedup_by_key(|need| need.0);
        needs
    });
    let job = (0..=devices, needs, any::<bool>(), any::<bool>(), what(devices)).prop_map(
        |(node, needs, prefetched, announced, what)| {
            Job { node, needs, prefetched, announced, what }.settled()
        },
    );
    prop::collection::vec(job, 1..60)
}

proptest! {
    #![proptest_config(zellige_tests::cases(2000))]

    /// For any order of arrivals: tasks see the value of the last writer, nodes never exceed their
    /// capacity, nothing is lost, and memory for exactly one working set is enough (starpu#38,
    /// parsec#742), on the host too.
    #[test]
    fn tasks_see_what_was_written_and_all_of_them_run(
        jobs in jobs(3, 6),
        sizes in prop::collection::vec(1u64..50, 6),
        peers in any::<bool>(),
        slack in prop_oneof![Just(0u64), 0u64..200],
        staging in 0u32..2,
        asides in asides(3, 6),
        (more, disk) in host(),
        order in prop::collection::vec(0usize..100, 1..30),
    ) {
        let sizes: Vec<u64> = sizes.iter().map(|s| s * 2).collect();
        let largest = jobs.iter().map(|job| {
            job.needs.iter().map(|&(d, f, _)| bytes_as(sizes[d as usize], f)).sum::<u64>()
        }).max().unwrap();
        let host = Host { capacity: more.map(|more| largest + more), disk };
        let mut driver = Driver::with_host(host, 3, peers, largest + slack, staging, &sizes);
        run(&mut driver, &jobs, &order, &asides);
    }
}

/// The scenarios above reach the events that they test.
#[test]
fn random_scenarios_reach_what_they_are_about() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut evicting, mut converting, mut abandoning, mut losing, mut writing) = (0, 0, 0, 0, 0);
    let asides = Asides { loss: Some((20, 2)), ..Asides::default() };
    for _ in 0..100 {
        let jobs = jobs(3, 6).new_tree(&mut runner).unwrap().current();
        let host = Host { capacity: Some(60), disk: true };
        let mut driver = Driver::with_host(host, 3, true, 60, 1, &[20; 6]);
        run(&mut driver, &jobs, &[0, 3, 1, 4], &asides);
        writing += u32::from(driver.disk_writes > 0);
        losing += u32::from(driver.lost.is_some());
        evicting += u32::from(driver.evictions > 0);
        converting += u32::from(driver.conversions > 0);
        abandoning += u32::from(driver.abandoned > 0);
    }
    assert!(evicting >= 30 && converting >= 30, "{evicting} runs evict, {converting} convert");
    assert!(abandoning >= 30, "{abandoning} runs abandon");
    assert!(losing >= 30, "{losing} runs lose a node");
    assert!(writing >= 30, "{writing} runs write to the disk");
}
