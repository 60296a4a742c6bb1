//! Tests that each check of the mock finds a wrong program, and accepts the right one.

use crate::common::{Bench, assert_caught};
use zellige_gpu::mock::Mock;
use zellige_gpu::{
    Address, Compute, Driver, Element, Event, Factors, Gemm, GpuError, Matrix, Place, Stream, Syrk, Transpose,
};

const BYTES: u64 = 1000;

/// Two streams and a buffer that both may use.
fn two_streams(bench: &Bench) -> (Stream, Stream, Address, Address) {
    let (one, two) = (bench.stream(), bench.stream());
    let [x, y] = [(); 2].map(|()| bench.mock.allocate(one, BYTES).unwrap());
    bench.zero(one, x, BYTES).unwrap();
    bench.zero(one, y, BYTES).unwrap();
    bench.mock.synchronize(one).unwrap();
    (one, two, x, y)
}

fn is_clean(bench: &Bench) {
    assert_eq!(bench.mock.violations(), Vec::<String>::new());
}

#[test]
fn writes_on_two_streams_need_an_event() {
    for seed in 0..20 {
        let bench = Bench::new(seed);
        let (one, two, x, y) = two_streams(&bench);
        bench.mix(one, x, y, BYTES).unwrap();
        let error = bench.zero(two, x.offset(999), 1).unwrap_err();
        assert_caught(
            &bench,
            error,
            &["kernel mix on stream 1", "zero on stream 2", "writes", "nothing orders"],
        );

        let bench = Bench::new(seed);
        let (one, two, x, y) = two_streams(&bench);
        bench.mix(one, x, y, BYTES).unwrap();
        bench.order(one, two).unwrap();
        bench.zero(two, x, BYTES).unwrap();
        assert_eq!(bench.read(two, x, 1000).unwrap(), [0; 1000]);
        is_clean(&bench);
    }
}

#[test]
fn a_read_beside_a_write_is_found_and_reads_beside_reads_are_not() {
    let bench = Bench::new(1);
    let (one, two, x, y) = two_streams(&bench);
    let z = bench.mock.allocate(two, BYTES).unwrap();
    bench.zero(two, z, BYTES).unwrap();
    bench.mix(one, x, y, BYTES).unwrap(); // reads y
    bench.mix(two, z, y, BYTES).unwrap(); // reads y too
    is_clean(&bench);
    let error = bench.zero(two, y, BYTES).unwrap_err(); // its own read is before it, that on `one` is not
    assert_caught(&bench, error, &["kernel mix on stream 1", "reads", "zero on stream 2"]);
}

#[test]
fn parts_of_one_allocation_can_be_used_side_by_side() {
    let bench = Bench::new(2);
    let (one, two, x, y) = two_streams(&bench);
    bench.mix(one, x, y, 500).unwrap();
    bench.mix(two, x.offset(500), y, 500).unwrap();
    bench.order(two, one).unwrap();
    assert_eq!(bench.read(one, x, 1000).unwrap(), [1; 1000]);
    is_clean(&bench);
}

#[test]
fn order_goes_through_a_chain_of_events() {
    let bench = Bench::new(3);
    let (one, two, x, y) = two_streams(&bench);
    let three = bench.stream();
    bench.mix(one, x, y, BYTES).unwrap();
    bench.order(one, three).unwrap();
    bench.order(three, two).unwrap();
    bench.mix(two, x, y, BYTES).unwrap();
    is_clean(&bench);

    // Recorded too early: what came after it on `one` is not ordered.
    let early = bench.mock.create_event(0, false).unwrap();
    bench.mock.record(early, one).unwrap();
    bench.zero(one, y, 1).unwrap_err();
}

#[test]
fn an_event_recorded_again_orders_only_what_waits_for_it_later() {
    let bench = Bench::new(4);
    let (one, two, x, y) = two_streams(&bench);
    let event = bench.mock.create_event(0, false).unwrap();
    bench.mock.record(event, one).unwrap();
    bench.mock.wait_event(two, event).unwrap();
    bench.mix(one, x, y, BYTES).unwrap();
    bench.mock.record(event, one).unwrap();
    let error = bench.zero(two, x, BYTES).unwrap_err();
    assert_caught(&bench, error, &["kernel mix", "zero"]);
}

#[test]
fn what_the_host_saw_to_end_is_ordered() {
    for seed in 0..20 {
        let bench = Bench::new(seed);
        let (one, two, x, y) = two_streams(&bench);
        let event = bench.mock.create_event(0, false).unwrap();
        bench.mix(one, x, y, BYTES).unwrap();
        bench.mock.record(event, one).unwrap();
        match seed % 3 {
            0 => bench.mock.wait(event).unwrap(),
            1 => while !bench.mock.is_done(event).unwrap() {},
            _ => bench.mock.synchronize(one).unwrap(),
        }
        bench.zero(two, x, BYTES).unwrap();
        is_clean(&bench);
    }
}

#[test]
fn an_event_that_is_not_done_orders_nothing() {
    let (open, gate) = std::sync::mpsc::channel();
    let gate = std::sync::Mutex::new(gate);
    let bench = Bench::of(
        Mock::builder().kernel("stop", move |_, _, _| gate.lock().unwrap().recv().map_err(|e| e.to_string())),
    );
    let (one, two, x, _) = two_streams(&bench);
    let stop = bench.mock.load(0, b"").and_then(|module| bench.mock.kernel(module, "stop")).unwrap();
    let event = bench.mock.create_event(0, false).unwrap();
    // SAFETY: it has no arguments.
    unsafe { bench.mock.launch(one, stop, [1; 3], [1; 3], 0, &[]).unwrap() };
    bench.zero(one, x, BYTES).unwrap();
    bench.mock.record(event, one).unwrap();
    assert_eq!(bench.mock.is_done(event), Ok(false));
    open.send(()).unwrap(); // who is told of a lost GPU waits for what it executes
    let error = bench.zero(two, x, BYTES).unwrap_err();
    assert_caught(&bench, error, &["zero on stream 1", "zero on stream 2"]);
}

/// A product of single numbers in `x`, C in `y`, its factors at `factors`.
fn product(bench: &Bench, stream: Stream, x: Address, y: Address, factors: Address) -> Result<(), GpuError> {
    let [a, b, c] = [x, x.offset(4), y].map(|at| Matrix { at, ld: 1, element: Element::F32 });
    let (op_a, op_b, factors) = (Transpose::No, Transpose::No, Factors::Device(factors));
    let gemm = Gemm { op_a, op_b, m: 1, n: 1, k: 1, factors, a, b, c, compute: Compute::F32 };
    // SAFETY: the mock checks addresses; only device memory is named.
    unsafe { bench.mock.gemm(stream, &gemm) }
}

#[test]
fn factors_in_device_memory_are_read_by_their_product() {
    let start = || {
        let bench = Bench::new(14);
        let (one, two, x, y) = two_streams(&bench);
        (bench, one, two, x, y)
    };
    let (bench, one, two, x, y) = start();
    bench.zero(one, x.offset(500), 8).unwrap(); // who writes them
    let error = product(&bench, two, x, y, x.offset(500)).unwrap_err();
    assert_caught(&bench, error, &["zero on stream 1", "gemm on stream 2", "reads", "nothing orders"]);

    let (bench, one, two, x, y) = start();
    product(&bench, one, x, y, x.offset(500)).unwrap();
    let error = bench.zero(two, x.offset(504), 4).unwrap_err(); // beta's
    assert_caught(&bench, error, &["gemm on stream 1", "reads", "zero on stream 2"]);

    let (bench, one, two, x, y) = start();
    bench.zero(one, x.offset(500), 8).unwrap();
    bench.order(one, two).unwrap();
    product(&bench, two, x, y, x.offset(500)).unwrap();
    bench.zero(one, x.offset(496), 4).unwrap(); // beside them
    is_clean(&bench);

    let (bench, one, _, x, y) = start();
    let error = product(&bench, one, x, y, x.offset(996)).unwrap_err();
    assert_caught(&bench, error, &["gemm on stream 1", "out of bounds"]);

    let (bench, one, _, x, y) = start();
    let factors = bench.mock.allocate(one, 8).unwrap();
    bench.free(one, factors).unwrap();
    let error = product(&bench, one, x, y, factors).unwrap_err();
    assert_caught(&bench, error, &["gemm on stream 1", "use after free"]);

    let (bench, one, _, x, y) = start();
    let error = product(&bench, one, x, y.offset(4), y).unwrap_err(); // C in place of beta
    assert_caught(&bench, error, &["two operands share bytes"]);
}

#[test]
fn memory_is_given_back_behind_its_last_use() {
    let bench = Bench::new(5);
    let (one, two, x, y) = two_streams(&bench);
    bench.mix(one, x, y, BYTES).unwrap();
    let error = bench.free(two, y).unwrap_err(); // only read, and still
    assert_caught(&bench, error, &["kernel mix", "reads", "free on stream 2", "frees"]);

    let bench = Bench::new(5);
    let (one, two, x, y) = two_streams(&bench);
    bench.mix(one, x, y, BYTES).unwrap();
    bench.order(one, two).unwrap();
    bench.free(two, y).unwrap();
    is_clean(&bench);
}

#[test]
fn new_memory_is_used_behind_its_allocation() {
    let bench = Bench::new(6);
    let (one, two) = (bench.stream(), bench.stream());
    let x = bench.mock.allocate(one, BYTES).unwrap();
    let error = bench.zero(two, x, BYTES).unwrap_err();
    assert_caught(&bench, error, &["allocation of 1000 bytes on stream 1", "zero on stream 2"]);

    let bench = Bench::new(6);
    let (one, two) = (bench.stream(), bench.stream());
    let x = bench.mock.allocate(one, BYTES).unwrap();
    bench.order(one, two).unwrap();
    bench.zero(two, x, BYTES).unwrap();
    is_clean(&bench);
}

#[test]
fn freed_memory_is_not_used() {
    let after_free = |wrong: fn(&Bench, Stream, Address) -> GpuError, words: &[&str]| {
        let bench = Bench::new(7);
        let one = bench.stream();
        let x = bench.mock.allocate(one, BYTES).unwrap();
        bench.free(one, x).unwrap();
        let error = wrong(&bench, one, x);
        assert_caught(&bench, error, words);
    };
    let words = ["use after free", "1000 bytes", "given back by free on stream 1"];
    after_free(|bench, one, x| bench.zero(one, x.offset(10), 10).unwrap_err(), &words);
    after_free(|bench, one, x| bench.free(one, x).unwrap_err(), &words);
    // The memory is reused, the address is not.
    let again = |bench: &Bench, one, x: Address| {
        let y = bench.mock.allocate(one, BYTES).unwrap();
        assert_ne!(x, y);
        bench.zero(one, x, 1).unwrap_err()
    };
    after_free(again, &words);
}

#[test]
fn memory_ends_where_it_ends() {
    let wrong = |at: u64, bytes: u64, words: &[&str]| {
        let bench = Bench::new(8);
        let one = bench.stream();
        let x = bench.mock.allocate(one, BYTES).unwrap();
        bench.zero(one, x, BYTES).unwrap();
        bench.zero(one, x.offset(999), 1).unwrap();
        let error = bench.zero(one, x.offset(at), bytes).unwrap_err();
        assert_caught(&bench, error, words);
    };
    wrong(0, 1001, &["out of bounds", "1000 bytes were allocated"]);
    wrong(999, 2, &["out of bounds"]);
    wrong(1, u64::MAX, &["out of bounds"]);
    wrong(1000, 1, &["nobody allocated"]);

    let bench = Bench::new(8);
    let one = bench.stream();
    let error = bench.free(one, Address(12)).unwrap_err();
    assert_caught(&bench, error, &["free on stream 1", "0xc", "nobody allocated"]);
    let bench = Bench::new(8);
    let one = bench.stream();
    let x = bench.mock.allocate(one, BYTES).unwrap();
    let error = bench.free(one, x.offset(256)).unwrap_err();
    assert_caught(&bench, error, &["inside the allocation"]);
}

#[test]
fn memory_belongs_to_its_gpu() {
    let bench = Bench::new(9);
    let (here, there) = (bench.stream(), bench.mock.create_stream(1, false).unwrap());
    let x = bench.mock.allocate(there, BYTES).unwrap();
    let error = bench.zero(here, x, BYTES).unwrap_err();
    assert_caught(&bench, error, &["is memory of GPU 1"]);
    bench.zero(there, x, BYTES).unwrap(); // the other GPU goes on
}

#[test]
fn events_are_not_lost() {
    let event = |bench: &Bench| bench.mock.create_event(0, false).unwrap();
    let bench = Bench::new(10);
    let (one, e) = (bench.stream(), event(&bench));
    assert_eq!(bench.mock.is_done(e), Ok(true));
    let error = bench.mock.wait_event(one, e).unwrap_err();
    assert_caught(&bench, error, &["never recorded", "stream 1", "event 2"]);

    type Wrong = fn(&Bench, Stream, Event) -> Result<(), GpuError>;
    let used_after: [Wrong; 4] = [
        |bench, one, e| bench.mock.wait_event(one, e),
        |bench, one, e| bench.mock.record(e, one),
        |bench, _, e| bench.mock.is_done(e).map(drop),
        |bench, _, e| bench.mock.wait(e),
    ];
    for wrong in used_after {
        let bench = Bench::new(10);
        let (one, e) = (bench.stream(), event(&bench));
        bench.mock.record(e, one).unwrap();
        bench.mock.destroy_event(e);
        is_clean(&bench);
        let error = wrong(&bench, one, e).unwrap_err();
        assert_caught(&bench, error, &["event 2", "was destroyed"]);
    }
}

#[test]
fn an_event_outlives_the_waits_for_it() {
    let start = |seed| {
        let bench = Bench::new(seed);
        let (one, two) = (bench.stream(), bench.stream());
        let e = bench.mock.create_event(0, false).unwrap();
        bench.mock.record(e, one).unwrap();
        bench.mock.wait_event(two, e).unwrap();
        (bench, one, two, e)
    };
    for seed in 0..10 {
        let (bench, one, _, e) = start(seed);
        bench.mock.synchronize(one).unwrap(); // the record has ended; whether the wait has, nobody knows
        bench.mock.destroy_event(e);
        let error = bench.mock.synchronize(one).unwrap_err();
        assert_caught(&bench, error, &["event 3", "destroyed", "stream 2 of GPU 0 waits"]);

        let (bench, _, two, e) = start(seed);
        bench.mock.synchronize(two).unwrap();
        bench.mock.destroy_event(e);
        is_clean(&bench);
    }
}

#[test]
fn destroyed_streams_are_not_used() {
    let bench = Bench::new(11);
    let one = bench.stream();
    let x = bench.mock.allocate(one, BYTES).unwrap();
    bench.zero(one, x, BYTES).unwrap();
    bench.mock.destroy_stream(one); // what is queued still runs
    is_clean(&bench);
    let error = bench.zero(one, x, BYTES).unwrap_err();
    assert_caught(&bench, error, &["stream 1", "was destroyed"]);

    let bench = Bench::new(11);
    let one = bench.stream();
    bench.mock.destroy_stream(one);
    bench.mock.destroy_stream(one);
    let error = bench.mock.create_stream(0, false).unwrap_err();
    assert_caught(&bench, error, &["stream 1", "was destroyed"]);
}

#[test]
fn copies_do_not_share_host_memory() {
    let start = |seed| {
        let bench = Bench::new(seed);
        let (one, two, x, y) = two_streams(&bench);
        let host = bench.mock.allocate_pinned(BYTES as usize).unwrap();
        (bench, one, two, x, y, host)
    };
    // SAFETY: for all copies here: the host memory stays until the mock goes.
    let copy = |bench: &Bench, stream, to, from| unsafe { bench.mock.copy(stream, to, from, BYTES) };
    let (bench, one, two, x, y, host) = start(1);
    copy(&bench, one, Place::Host(host), Place::Gpu(0, x)).unwrap();
    let error = copy(&bench, two, Place::Gpu(0, y), Place::Host(host)).unwrap_err();
    assert_caught(&bench, error, &["copy on stream 1", "copy on stream 2", "writes", "reads"]);

    let (bench, one, two, x, y, host) = start(2);
    copy(&bench, one, Place::Host(host), Place::Gpu(0, x)).unwrap();
    bench.order(one, two).unwrap();
    copy(&bench, two, Place::Gpu(0, y), Place::Host(host)).unwrap();
    copy(&bench, one, Place::Gpu(0, x), Place::Host(host)).unwrap(); // both read
    is_clean(&bench);

    // Given back while a copy may use it.
    let error = |bench: &Bench| bench.mock.create_stream(0, false).unwrap_err();
    let (bench, one, _, x, _, host) = start(3);
    copy(&bench, one, Place::Host(host), Place::Gpu(0, x)).unwrap();
    // SAFETY: wrong on purpose; the mock keeps the bytes then.
    unsafe { bench.mock.free_pinned(host, BYTES as usize) };
    assert_caught(&bench, error(&bench), &["nothing tells that copy on stream 1", "has ended"]);

    let (bench, one, _, x, _, host) = start(4);
    copy(&bench, one, Place::Host(host), Place::Gpu(0, x)).unwrap();
    bench.mock.synchronize(one).unwrap();
    // SAFETY: no copy uses it any more.
    unsafe { bench.mock.free_pinned(host, BYTES as usize) };
    is_clean(&bench);
    // SAFETY: wrong on purpose; the mock knows that it is gone.
    unsafe { bench.mock.free_pinned(host, BYTES as usize) };
    assert_caught(&bench, error(&bench), &["not known", "was given back"]);

    let (bench, _, _, _, _, host) = start(5);
    // SAFETY: wrong on purpose; the mock frees nothing.
    unsafe { bench.mock.free_pinned(host, 999) };
    assert_caught(&bench, error(&bench), &["has another size"]);
}

#[test]
fn locked_host_memory_ends_where_it_ends() {
    let bench = Bench::new(6);
    let (one, _, x, _) = two_streams(&bench);
    let mut own = [0u8; 100];
    // SAFETY: the memory is unpinned below, and what goes beyond it is refused.
    unsafe {
        bench.mock.pin(own.as_mut_ptr(), 100).unwrap();
        assert!(bench.mock.pin(own.as_mut_ptr().add(99), 1).is_err());
        bench.mock.copy(one, Place::Host(own.as_mut_ptr().add(50)), Place::Gpu(0, x), 50).unwrap();
        bench.mock.synchronize(one).unwrap();
        bench.mock.unpin(own.as_mut_ptr());
        assert_eq!(bench.mock.pageable_copies(0), 0);
        bench.mock.copy(one, Place::Gpu(0, x), Place::Host(own.as_mut_ptr()), 50).unwrap();
        bench.mock.synchronize(one).unwrap();
        assert_eq!([50, 51].map(|least| bench.mock.pageable_copies(least)), [1, 0]);
        is_clean(&bench);
        bench.mock.pin(own.as_mut_ptr(), 100).unwrap();
        let beyond = Place::Host(own.as_mut_ptr().wrapping_add(50));
        let error = bench.mock.copy(one, beyond, Place::Gpu(0, x), 51).unwrap_err();
        assert_caught(&bench, error, &["copy on stream 1", "out of bounds", "100 bytes are locked"]);
    }
}

#[test]
fn operands_of_one_operation_do_not_share_what_it_writes() {
    let bench = Bench::new(12);
    let (one, _, x, _) = two_streams(&bench);
    bench.mix(one, x, x.offset(500), 500).unwrap();
    is_clean(&bench);
    let error = bench.mix(one, x, x.offset(499), 500).unwrap_err();
    assert_caught(&bench, error, &["two operands share bytes"]);
}

#[test]
fn what_is_not_given_back_is_listed() {
    let bench = Bench::new(13);
    assert_eq!(bench.mock.leaks(), Vec::<String>::new());
    let one = bench.stream();
    let x = bench.mock.allocate(one, BYTES).unwrap();
    let event = bench.mock.create_event(0, false).unwrap();
    let host = bench.mock.allocate_pinned(7).unwrap();
    let leaks = bench.mock.leaks().join("; ");
    for word in ["1000 bytes of GPU 0", "stream 1", "event 2", "7 bytes of locked host memory"] {
        assert!(leaks.contains(word), "{word} is not in {leaks}");
    }
    bench.free(one, x).unwrap();
    bench.mock.destroy_event(event);
    bench.mock.destroy_stream(one);
    // SAFETY: allocated above, used by no copy.
    unsafe { bench.mock.free_pinned(host, 7) };
    assert_eq!(bench.mock.leaks(), Vec::<String>::new());
    is_clean(&bench);
}

#[test]
fn room_is_limited() {
    let bench = Bench::of(Mock::builder().memory(4096));
    let one = bench.stream();
    assert_eq!(bench.mock.memory(0), Ok((4096, 4096)));
    let x = bench.mock.allocate(one, 2000).unwrap();
    assert_eq!(x.0 % 256, 0);
    assert_eq!(bench.mock.memory(0), Ok((2048, 4096)));
    assert_eq!(bench.mock.allocate(one, 2049), Err(GpuError::OutOfMemory { gpu: 0, bytes: 2049 }));
    assert_eq!(bench.mock.allocate(one, u64::MAX), Err(GpuError::OutOfMemory { gpu: 0, bytes: u64::MAX }));
    bench.free(one, x).unwrap();
    bench.mock.allocate(one, 4096).unwrap();
    is_clean(&bench);
}

/// Each stream's workspace takes memory from the first routine to the stream's end, but is no
/// listed allocation.
#[test]
fn workspaces_take_room() {
    let bench = Bench::of(Mock::builder().memory(4096).workspace(1024));
    assert_eq!([0, 1].map(|gpu| bench.mock.stream_workspace(gpu)), [1024, 0]);
    let (one, two) = (bench.stream(), bench.stream());
    let x = bench.mock.allocate(one, 2048).unwrap();
    let matrix = Matrix { at: x, ld: 1, element: Element::F32 };
    let syrk = Syrk { n: 1, k: 1, alpha: 0.0, a: matrix, beta: 1.0, c: Matrix { at: x.offset(4), ..matrix } };
    let free = |bench: &Bench| bench.mock.memory(0).unwrap().0;
    bench.zero(one, x, 2048).unwrap();
    assert_eq!(free(&bench), 2048, "no routine has run");
    for _ in 0..2 {
        // SAFETY: the memory is there, and used by this stream alone.
        unsafe { bench.mock.syrk(one, &syrk).unwrap() };
        assert_eq!(free(&bench), 1024);
    }
    let y = bench.mock.allocate(one, 256).unwrap();
    bench.order(one, two).unwrap();
    // SAFETY: the memory is there; it is refused.
    let refused = unsafe { bench.mock.syrk(two, &syrk) };
    assert_eq!(refused, Err(GpuError::OutOfMemory { gpu: 0, bytes: 1024 }));
    bench.free(one, y).unwrap();
    bench.free(one, x).unwrap();
    bench.mock.synchronize(one).unwrap();
    bench.mock.destroy_stream(one);
    assert_eq!(free(&bench), 4096);
    is_clean(&bench);
}

#[test]
fn ranges_nest_and_end() {
    let mock = Mock::builder().ranges().build();
    assert!(mock.has_ranges());
    mock.begin_range("outer");
    mock.begin_range("inner");
    // Each thread has its own.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            mock.begin_range("elsewhere");
            mock.end_range();
        });
    });
    mock.end_range();
    assert_eq!(
        (mock.ranges(), mock.leaks()),
        (vec!["elsewhere".into(), "outer / inner".into()], vec!["range outer".into()])
    );
    mock.end_range();
    assert_eq!((mock.leaks(), mock.violations()), (vec![], vec![]));
    mock.end_range();
    assert_eq!(mock.violations(), ["a range is ended that was never begun"]);

    let unseen = Mock::builder().build();
    unseen.end_range();
    assert!(!unseen.has_ranges() && unseen.violations().is_empty());
}
