//! One rule at a time.

use super::driver::{Asides, Driver, Host, Job};
use super::run::run;
use super::*;

/// A narrow format is transferred instead of the wide one; without room to convert at the sender
/// the wide one is.
#[test]
fn the_narrowest_form_travels() {
    for (staging, moved) in [(1, 50), (0, 100)] {
        let mut driver = Driver::new(1, true, 1000, staging, &[100]);
        let write = Job { node: 1, needs: vec![(0, WIDE, Access::Update)], ..Job::default() };
        let needs = driver.needs(&write);
        driver.stage(Ticket(0), 1, &needs);
        driver.arrive_all();
        driver.finish(Ticket(0), &[]);
        let read = Job { node: HOST, needs: vec![(0, NARROW, Access::Read)], ..Job::default() };
        let needs = driver.needs(&read);
        driver.stage(Ticket(1), HOST, &needs);
        assert_eq!(driver.flying[0].0.bytes, moved);
        run(&mut Driver::new(1, true, 1000, staging, &[100]), &[write, read], &[0, 1], &Asides::default());
    }
}

/// The host keeps the results of conversions for others: the next request needs no conversion.
#[test]
fn the_host_keeps_the_narrow_form() {
    let mut driver = Driver::new(2, false, 1000, 0, &[100]);
    for (device, conversions) in [(1, 1), (2, 0)] {
        let read = Job { node: device, needs: vec![(0, NARROW, Access::Read)], ..Job::default() };
        let needs = driver.needs(&read);
        driver.stage(Ticket(device as u64), device, &needs);
        if conversions == 1 {
            assert_eq!((driver.flying[0].0.from, driver.flying[0].0.to), (HOST, HOST));
        } else {
            assert_eq!((driver.flying[0].0.to, driver.flying[0].0.bytes), (device, 50));
            assert!(driver.flying[0].0.converts.is_none());
        }
        driver.arrive_all();
        driver.finish(Ticket(device as u64), &[]);
        assert!(driver.memory.buffer(Datum(0), HOST, NARROW).is_some());
    }
}

/// If the version's own format is wanted as well, only it is transferred, and the narrow one is
/// converted from it.
#[test]
fn the_wide_form_travels_alone_where_both_are_wanted() {
    for certain in [false, true] {
        let mut driver = Driver::new(1, true, 1000, 1, &[100]);
        if certain {
            driver.memory.expect_wide(Datum(0), 1);
        }
        let read = Job { node: 1, needs: vec![(0, NARROW, Access::Read)], ..Job::default() };
        let needs = driver.needs(&read);
        driver.stage(Ticket(0), 1, &needs);
        driver.arrive_all();
        driver.finish(Ticket(0), &[]);
        assert_eq!(driver.memory.buffer(Datum(0), 1, WIDE).is_some(), certain);
        assert!(driver.memory.buffer(Datum(0), 1, NARROW).is_some());
        if certain {
            driver.memory.unexpect_wide(Datum(0), 1);
        }
    }
}

/// Replicas that no queued task wants are evicted first, then the least recently used; a sole copy
/// is written back.
#[test]
fn the_victim_is_unwanted_and_old() {
    let mut driver = Driver::new(1, true, 30, 1, &[10, 10, 10, 10]);
    let read = |datum| Job { node: 1, needs: vec![(datum, WIDE, Access::Read)], ..Job::default() };
    let go = |driver: &mut Driver, datum: u32, ticket: u64| {
        let needs = driver.needs(&read(datum));
        driver.stage(Ticket(ticket), 1, &needs);
        driver.arrive_all();
        driver.finish(Ticket(ticket), &[]);
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
    // The sole copy of a value written here goes back to the host before its eviction.
    let job = Job { node: 1, needs: vec![(2, WIDE, Access::Update)], ..Job::default() };
    let needs = driver.needs(&job);
    driver.stage(Ticket(4), 1, &needs);
    let buffer = driver.memory.buffer(Datum(2), 1, WIDE).unwrap();
    driver.values.insert(buffer, 77);
    driver.finish(Ticket(4), &[]);
    let all = Job {
        node: 1,
        needs: vec![(0, WIDE, Access::Read), (1, WIDE, Access::Read), (3, WIDE, Access::Read)],
        ..Job::default()
    };
    let needs = driver.needs(&all);
    driver.stage(Ticket(5), 1, &needs);
    driver.arrive_all();
    let home = driver.memory.buffer(Datum(2), HOST, WIDE).unwrap();
    assert_eq!(driver.values[&home], 77);
    assert!(driver.memory.buffer(Datum(2), 1, WIDE).is_none());
}

/// Data that a task was writing on a lost device keep their previous value, as far as the host has
/// it; completed writes are lost.
#[test]
fn a_lost_device_takes_only_what_was_nowhere_else() {
    let mut driver = Driver::new(2, true, 100, 1, &[10, 10]);
    let update = |datum| Job { node: 1, needs: vec![(datum, WIDE, Access::Update)], ..Job::default() };
    for datum in 0..2 {
        let needs = driver.needs(&update(datum));
        driver.stage(Ticket(u64::from(datum)), 1, &needs);
        driver.arrive_all();
    }
    driver.put(Datum(1), 1, WIDE, 77);
    driver.finish(Ticket(1), &[]);
    let lost = driver.lose(1);
    assert_eq!(
        lost,
        Lost { data: vec![Datum(1)], tickets: vec![Ticket(0)], stranded: vec![] },
        "0 was being written there, and the host has what it was"
    );
    assert!(driver.memory.has_value(Datum(0)) && !driver.memory.has_value(Datum(1)));
    let needs = driver.needs(&update(0));
    assert!(!driver.memory.fits(1, &needs) && driver.memory.fits(2, &needs));
}

/// Runs a task with one operand on node 1 from beginning to end; it writes 77.
fn touch(driver: &mut Driver, ticket: u64, datum: u32, access: Access) {
    let job = Job { node: 1, needs: vec![(datum, WIDE, access)], ..Job::default() };
    let needs = driver.needs(&job);
    driver.stage(Ticket(ticket), 1, &needs);
    driver.arrive_all();
    if access.writes() {
        driver.put(Datum(datum), 1, WIDE, 77);
    }
    driver.finish(Ticket(ticket), &[]);
}

/// Data that are never used again are evicted first, before the least recently used; the number of
/// further uses does not matter.
#[test]
fn what_is_never_used_again_goes_first() {
    let mut driver = Driver::new(1, true, 30, 1, &[10; 6]);
    let there = |driver: &Driver| -> Vec<u32> {
        (0..6).filter(|&datum| driver.memory.buffer(Datum(datum), 1, WIDE).is_some()).collect()
    };
    let read = |driver: &mut Driver, datum: u32| touch(driver, datum.into(), datum, Access::Read);
    for (datum, uses) in [(0, 3), (1, 1), (3, 2), (4, 1), (5, 0)] {
        driver.memory.expect(Datum(datum), uses);
    }
    (0..4).for_each(|datum| read(&mut driver, datum));
    assert_eq!(there(&driver), [0, 1, 3], "2 was not the oldest, and is never used again");
    driver.memory.unexpect(Datum(3), 1);
    driver.memory.unexpect(Datum(1), 1);
    read(&mut driver, 4);
    assert_eq!(there(&driver), [0, 3, 4], "3 has one use left, 1 has none");
    read(&mut driver, 5);
    assert_eq!(there(&driver), [3, 4, 5], "0 is the oldest of three that are used again");
}

/// After a change of link speeds, sources are chosen by the new speeds.
#[test]
fn a_link_can_turn_out_slower() {
    for (slow, from) in [(HOST, 1), (1, HOST)] {
        let mut driver = Driver::new(2, true, 100, 1, &[10]);
        touch(&mut driver, 0, 0, Access::Read);
        let needs = driver.needs(&Job { node: 2, needs: vec![(0, WIDE, Access::Read)], ..Job::default() });
        let before = driver.memory.transfer_times(&needs)[2];
        driver.memory.set_link(slow, 2, LinkSpec { bandwidth: 1e6, latency_ns: 10 });
        assert_eq!(driver.memory.transfer_times(&needs)[2], before, "the other source is as near");
        driver.memory.stage(Ticket(1), 2, &needs);
        let begun = driver.memory.take_actions();
        assert!(matches!(begun[..], [Action::Begin(Transfer { from: f, .. })] if f == from), "{begun:?}");
    }
}

/// Data that the program declares unused are evicted before the least recently used, and have been
/// written back by then; a task that needs them undoes the declaration.
#[test]
fn what_will_not_be_used_goes_first() {
    let mut driver = Driver::new(1, true, 30, 1, &[10; 5]);
    let is_there = |driver: &Driver, datum| driver.memory.buffer(Datum(datum), 1, WIDE).is_some();
    for datum in 0..3 {
        touch(&mut driver, u64::from(datum), datum, Access::Update);
    }
    driver.arrive_all();
    driver.memory.wont_use(Datum(1));
    driver.memory.wont_use(Datum(2));
    driver.obey();
    driver.arrive_all();
    let home = driver.memory.buffer(Datum(2), HOST, WIDE).expect("copied ahead of need");
    assert_eq!(driver.values[&home], 77);
    touch(&mut driver, 3, 1, Access::Read);
    touch(&mut driver, 4, 3, Access::Read);
    assert!(is_there(&driver, 0) && is_there(&driver, 1) && !is_there(&driver, 2), "1 was used after all");
}

/// Replicas in flight to the disk stay on the host once its limit is lifted.
#[test]
fn nothing_leaves_a_host_whose_limit_is_lifted() {
    let host = Host { capacity: Some(20), disk: true };
    let mut driver = Driver::with_host(host, 0, false, 0, 0, &[10; 4]);
    assert_eq!(driver.flying.len(), 1, "two of four are too much, and go one after the other");
    driver.memory.lift_capacity();
    driver.arrive_all();
    assert!((0..4).all(|datum| driver.memory.buffer(Datum(datum), HOST, WIDE).is_some()));
    assert_eq!((driver.evictions, driver.disk_writes), (0, 2));
    driver.memory.check();
}

/// A pinned replica stays, though it is the oldest; a hook chooses among the others, and invalid
/// answers are ignored.
#[test]
fn pins_hold_and_a_hook_chooses() {
    for (answer, gone) in [(Some(1), 2), (Some(9), 1), (None, 1)] {
        let mut driver = Driver::new(1, true, 30, 1, &[10; 4]);
        driver.memory.expect(Datum(1), 1);
        driver.memory.expect(Datum(2), 1);
        (0..3).for_each(|datum| touch(&mut driver, datum.into(), datum, Access::Read));
        driver.memory.pin(Datum(0), 1);
        driver.memory.set_victim_hook(Box::new(move |node, shown| {
            let first = EvictionCandidate {
                datum: Datum(1),
                bytes: 10,
                wanted: false,
                has_uses: true,
                last_use: 2,
                sole: false,
            };
            assert_eq!((node, shown.len(), shown[0]), (1, 2, first));
            answer
        }));
        touch(&mut driver, 3, 3, Access::Read);
        assert!(driver.memory.buffer(Datum(0), 1, WIDE).is_some(), "it is pinned");
        assert!(driver.memory.buffer(Datum(gone), 1, WIDE).is_none(), "{answer:?}");
    }
}

/// Returns the numbers of the data that arrive on the link from `from` to `to`, in order.
fn arrivals(driver: &mut Driver, from: NodeId, to: NodeId) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some(at) = driver.flying.iter().position(|(t, _)| (t.from, t.to) == (from, to)) {
        order.push(driver.flying[at].0.datum.0);
        driver.arrive(at);
    }
    order
}

/// Data that a task waits for come first, then needs of queued tasks, then requests of the user,
/// then copies ahead of need. A request of the user that a queued task needs counts as the task's.
#[test]
fn urgent_transfers_go_first() {
    let mut driver = Driver::new(1, true, 1000, 1, &[10; 5]);
    let needs: Vec<Vec<Need>> = (0..5u32)
        .map(|datum| {
            driver.needs(&Job { node: 1, needs: vec![(datum, WIDE, Access::Read)], ..Job::default() })
        })
        .collect();
    for (datum, reason) in
        [(0, Reason::Prefetch), (1, Reason::Prefetch), (4, Reason::Prefetch), (2, Reason::TaskPrefetch)]
    {
        driver.memory.prefetch(1, &needs[datum], reason);
    }
    driver.stage(Ticket(0), 1, &needs[3]);
    driver.memory.prefetch(1, &needs[4], Reason::TaskPrefetch);
    driver.obey();
    assert_eq!(arrivals(&mut driver, HOST, 1), [0, 3, 4, 2, 1], "0 was under way");
    driver.finish(Ticket(0), &[]);
    (0..3).for_each(|datum| touch(&mut driver, 1 + u64::from(datum), datum, Access::Update));
    driver.memory.wont_use(Datum(0));
    driver.memory.wont_use(Datum(1));
    let home = driver.needs(&Job { node: HOST, needs: vec![(2, WIDE, Access::Read)], ..Job::default() });
    driver.memory.prefetch(HOST, &home, Reason::Prefetch);
    driver.obey();
    assert_eq!(arrivals(&mut driver, 1, HOST), [0, 2, 1], "0 was under way");
}

/// The transfer time of operands includes their conversion, which reads one format and writes the
/// other.
#[test]
fn conversions_take_time_too() {
    let mut driver = Driver::new(2, true, 1000, 1, &[100]);
    let need = |driver: &Driver, format| {
        driver.needs(&Job { node: 1, needs: vec![(0, format, Access::Read)], ..Job::default() })
    };
    let (wide, narrow) = (need(&driver, WIDE), need(&driver, NARROW));
    // One nanosecond per byte, and ten of latency.
    assert_eq!(driver.memory.transfer_times(&wide)[1], 110);
    assert_eq!(driver.memory.transfer_times(&narrow)[1], (10 + 100 + 50) + (10 + 50));
    driver.stage(Ticket(0), 2, &narrow);
    driver.arrive_all();
    driver.finish(Ticket(0), &[]);
    assert_eq!(driver.memory.transfer_times(&narrow)[1], 60, "it is there in that form");
    assert_eq!(driver.memory.transfer_times(&wide)[1], 110, "which nothing is made of");
    driver.stage(Ticket(1), 1, &wide);
    driver.arrive_all();
    driver.finish(Ticket(1), &[]);
    driver.memory.invalidate(Datum(0));
    assert_eq!(driver.memory.transfer_times(&narrow)[1], 0, "nobody has it");
}

/// Data on a node in another format are not transferred.
#[test]
fn a_conversion_on_the_spot_is_no_transfer() {
    let mut driver = Driver::new(1, true, 1000, 1, &[100]);
    touch(&mut driver, 0, 0, Access::Update);
    let needs = driver.needs(&Job { node: 1, needs: vec![(0, NARROW, Access::Read)], ..Job::default() });
    assert_eq!(driver.memory.transfer_times(&needs)[1], 10 + 100 + 50);
}

/// An access to the metadata neither waits for the bytes nor prefetches them.
#[test]
fn who_looks_brings_nothing() {
    let mut driver = Driver::new(1, true, 1000, 1, &[100]);
    let needs = driver.needs(&Job { node: 1, needs: vec![(0, WIDE, Access::Look)], ..Job::default() });
    assert_eq!(driver.memory.missing(1, &needs), 0);
    assert_eq!(driver.memory.transfer_times(&needs)[1], 0);
    driver.memory.prefetch(1, &needs, Reason::TaskPrefetch);
    assert_eq!(driver.memory.take_actions(), []);
    let read = driver.needs(&Job { node: 1, needs: vec![(0, WIDE, Access::Read)], ..Job::default() });
    driver.memory.prefetch(1, &read, Reason::TaskPrefetch);
    assert!(matches!(driver.memory.take_actions()[..], [Action::Begin(_)]));
}
