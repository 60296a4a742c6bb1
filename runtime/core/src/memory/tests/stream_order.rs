//! Tasks that are launched in stream order after others, on a device with room for three.

use super::driver::{Driver, Job};
use super::*;

/// Creates three data of 10 bytes, some of them on node 1 (`there`), and a task that updates the
/// first of them there and has not ended.
fn with_writer(there: &[u32]) -> Driver {
    let mut driver = Driver::new(1, true, 30, 1, &[10, 10, 10]);
    let needs: Vec<_> = there.iter().map(|&datum| (datum, WIDE, Access::Read)).collect();
    let read = driver.needs(&Job { node: 1, needs, ..Job::default() });
    driver.stage(Ticket(100), 1, &read);
    driver.arrive_all();
    driver.finish(Ticket(100), &[]);
    let update = need(&driver, 0, WIDE, Access::Update);
    driver.stage(Ticket(0), 1, &[update]);
    driver.arrive_all();
    driver
}

fn need(driver: &Driver, datum: u32, format: Format, access: Access) -> Need {
    driver.needs(&Job { node: 1, needs: vec![(datum, format, access)], ..Job::default() })[0]
}

#[test]
fn what_follows_a_writer_has_what_the_writer_leaves() {
    let mut driver = with_writer(&[0, 1]);
    let place = driver.memory.buffer(Datum(0), 1, WIDE).unwrap();
    // The writer will leave it narrow; the next one makes it wide again, the last one reads that.
    let narrow = need(&driver, 0, NARROW, Access::Update);
    let beside = need(&driver, 1, WIDE, Access::Read);
    let wide = need(&driver, 0, WIDE, Access::Read);
    assert_eq!(driver.memory.stage_in_stream_order(Ticket(1), 1, &[narrow, beside]).unwrap()[0], place);
    assert_eq!(driver.memory.stage_in_stream_order(Ticket(2), 1, &[wide]).unwrap()[..], [place]);
    // Other tasks that need its memory wait, also once the first has ended.
    let all: Vec<Need> = (1..3).map(|datum| need(&driver, datum, WIDE, Access::Read)).collect();
    driver.finish(Ticket(0), &[(Datum(0), NARROW, 5)]);
    assert_eq!(driver.memory.current(Datum(0)), (NARROW, 5));
    let blank = Need { bytes: 20, ..need(&driver, 2, WIDE, Access::Write) };
    driver.stage(Ticket(3), 1, &[blank]);
    assert!(driver.memory.buffer(Datum(2), 1, WIDE).is_none(), "there are 15 bytes");
    driver.finish(Ticket(1), &[(Datum(0), WIDE, 10)]);
    assert_eq!(driver.memory.current(Datum(0)), (WIDE, 10));
    assert_eq!(driver.memory.buffer(Datum(0), 1, WIDE), Some(place));
    driver.finish(Ticket(2), &[]);
    driver.arrive_all();
    driver.put(Datum(2), 1, WIDE, 7);
    driver.finish(Ticket(3), &[]);
    driver.arrive_all();
    driver.stage(Ticket(4), 1, &all);
    driver.arrive_all();
    driver.finish(Ticket(4), &[]);
    driver.arrive_all();
    driver.memory.check();
}

#[test]
fn nobody_reads_elsewhere_what_others_are_to_write_behind() {
    let mut driver = with_writer(&[0]);
    let update = need(&driver, 0, WIDE, Access::Update);
    driver.memory.stage_in_stream_order(Ticket(1), 1, &[update]).unwrap();
    driver.finish(Ticket(0), &[]);
    // The only copy of the version is being overwritten: the host has to wait for the next one.
    assert!(driver.memory.buffer(Datum(0), HOST, WIDE).is_none());
    driver.memory.prefetch(HOST, &[update], Reason::TaskPrefetch);
    assert_eq!(driver.memory.transfers(), 0);
    driver.obey();
    driver.finish(Ticket(1), &[]);
    driver.put(Datum(0), 1, WIDE, 7);
    assert_eq!(driver.fetch(0), Some(7));
}

#[test]
fn a_lost_device_takes_both_and_the_version_before_stays() {
    let mut driver = with_writer(&[0, 1]);
    let needs = [need(&driver, 0, NARROW, Access::Update), need(&driver, 1, WIDE, Access::Update)];
    driver.memory.stage_in_stream_order(Ticket(1), 1, &needs).unwrap();
    let lost = driver.lose(1);
    assert_eq!(lost, Lost { data: vec![], tickets: vec![Ticket(0), Ticket(1)], stranded: vec![] });
    assert_eq!(driver.memory.current(Datum(0)), (WIDE, 10));
    assert!((0..2).all(|datum| driver.memory.has_value(Datum(datum))), "the host has them");
    driver.memory.check();
}

/// The version before is lost with another device while one task writes the datum anew and another
/// one updates it behind that.
#[test]
fn who_follows_a_new_version_does_not_need_the_one_before() {
    let mut driver = Driver::new(2, true, 30, 1, &[10]);
    let (anew, update) = (need(&driver, 0, WIDE, Access::Write), need(&driver, 0, WIDE, Access::Update));
    driver.stage(Ticket(0), 2, &[update]);
    driver.arrive_all();
    driver.put(Datum(0), 2, WIDE, 5);
    driver.finish(Ticket(0), &[]);
    driver.stage(Ticket(1), 1, &[anew]);
    driver.arrive_all();
    let place = driver.memory.buffer(Datum(0), 1, WIDE).unwrap();
    assert_eq!(driver.memory.stage_in_stream_order(Ticket(2), 1, &[update]).unwrap()[..], [place]);
    assert_eq!(driver.lose(2), Lost { data: vec![], tickets: vec![], stranded: vec![] });
    assert!(driver.memory.holds(Ticket(2)), "it has been launched");
    driver.finish(Ticket(1), &[]);
    driver.finish(Ticket(2), &[]);
    driver.put(Datum(0), 1, WIDE, 7);
    assert_eq!(driver.fetch(0), Some(7));
}

#[test]
fn what_is_not_there_is_waited_for() {
    let mut driver = with_writer(&[0, 1]);
    let absent = need(&driver, 2, WIDE, Access::Read);
    let looked = need(&driver, 1, WIDE, Access::Look);
    let narrow = need(&driver, 1, NARROW, Access::Read);
    let large = Need { bytes: 11, ..need(&driver, 2, WIDE, Access::Write) };
    for refused in [absent, looked, narrow, large] {
        let there = need(&driver, 0, WIDE, Access::Read);
        assert_eq!(driver.memory.stage_in_stream_order(Ticket(1), 1, &[there, refused]), None, "{refused:?}");
        assert!(!driver.memory.holds(Ticket(1)));
    }
    // In flight, and then present.
    driver.memory.prefetch(1, &[absent], Reason::TaskPrefetch);
    assert_eq!(driver.memory.stage_in_stream_order(Ticket(1), 1, &[absent]), None);
    driver.obey();
    driver.arrive_all();
    assert!(driver.memory.stage_in_stream_order(Ticket(1), 1, &[absent]).is_some());
    driver.memory.abandon(Ticket(1));
    driver.finish(Ticket(0), &[]);
    driver.arrive_all();
    driver.memory.check();
}
