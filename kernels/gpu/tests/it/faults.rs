//! Tests of injected faults, missing libraries, and graphs.

use crate::common::{Bench, assert_caught, within};
use zellige_gpu::mock::{Fault, Mock};
use zellige_gpu::{Driver, GpuError, Library, LibraryState, Place};

const BYTES: u64 = 64;

#[test]
fn the_nth_operation_is_refused_and_the_gpu_is_lost() {
    let bench = Bench::new(1);
    let one = bench.stream();
    let x = bench.mock.allocate(one, BYTES).unwrap();
    bench.mock.inject(0, Fault::Operation(3)).unwrap();
    bench.zero(one, x, BYTES).unwrap();
    bench.zero(one, x, BYTES).unwrap();
    let error = bench.zero(one, x, BYTES).unwrap_err();
    assert!(error.is_sticky());
    assert_eq!(bench.zero(one, x, BYTES), Err(error.clone()));
    assert_eq!(bench.mock.synchronize(one), Err(error.clone()));
    assert_eq!(bench.mock.allocate(one, 1), Err(error.clone()));
    assert_eq!(bench.free(one, x), Err(error));
    bench.mock.destroy_stream(one);
    // The fault was injected, and the memory of the GPU is lost.
    assert_eq!((bench.mock.violations(), bench.mock.leaks()), (Vec::new(), Vec::new()));
}

#[test]
fn the_nth_allocation_finds_no_room_once() {
    let bench = Bench::new(2);
    let one = bench.stream();
    bench.mock.inject(0, Fault::Allocation(2)).unwrap();
    bench.mock.allocate(one, BYTES).unwrap();
    assert_eq!(bench.mock.allocate(one, BYTES), Err(GpuError::OutOfMemory { gpu: 0, bytes: BYTES }));
    bench.mock.allocate(one, BYTES).unwrap();
}

#[test]
fn the_nth_launch_is_queued_and_told_of_later() {
    for seed in 0..20 {
        within(20, move || {
            let bench = Bench::new(seed);
            let one = bench.stream();
            let [x, y] = [(); 2].map(|()| bench.mock.allocate(one, BYTES).unwrap());
            let event = bench.mock.create_event(0, false).unwrap();
            bench.zero(one, x, BYTES).unwrap();
            bench.zero(one, y, BYTES).unwrap();
            bench.mock.inject(0, Fault::Launch(1)).unwrap();
            bench.mix(one, x, y, BYTES).unwrap();
            // The GPU may be lost by now or not.
            let error = match bench.mock.record(event, one).and_then(|()| bench.mock.wait(event)) {
                Err(error) => error,
                Ok(()) => panic!("the launch before it failed"),
            };
            assert!(error.is_sticky() && error.to_string().contains("kernel mix on stream 1"), "{error}");
            assert_eq!(bench.mock.is_done(event), Err(error.clone()));
            assert_eq!(bench.zero(one, x, BYTES), Err(error));
            // The other GPU goes on.
            let other = bench.mock.create_stream(1, false).unwrap();
            let z = bench.mock.allocate(other, BYTES).unwrap();
            bench.zero(other, z, BYTES).unwrap();
            bench.mock.synchronize(other).unwrap();
            assert_eq!(bench.mock.violations(), Vec::<String>::new());
        });
    }
}

#[test]
fn a_copy_from_a_gpu_that_is_lost_meanwhile_is_told_of_once() {
    for seed in 0..20 {
        within(20, move || {
            let bench = Bench::new(seed);
            let (one, other) = (bench.stream(), bench.mock.create_stream(1, false).unwrap());
            let x = bench.mock.allocate(one, BYTES).unwrap();
            let y = bench.mock.allocate(other, BYTES).unwrap();
            let z = bench.mock.allocate(one, BYTES).unwrap();
            bench.zero(one, x, BYTES).unwrap();
            bench.zero(one, z, BYTES).unwrap();
            bench.mock.inject(0, Fault::Launch(1)).unwrap();
            bench.mix(one, x, z, BYTES).unwrap();
            let (ready, end) =
                (bench.mock.create_event(0, false), bench.mock.create_event(1, false).unwrap());
            let through = ready.and_then(|ready| {
                bench.mock.record(ready, one)?;
                bench.mock.wait_event(other, ready)?;
                // SAFETY: device memory.
                unsafe { bench.mock.copy(other, Place::Gpu(1, y), Place::Gpu(0, x), BYTES) }
            });
            bench.mock.record(end, other).unwrap();
            let error = bench.mock.wait(end).and(through);
            assert!(error.unwrap_err().to_string().contains("kernel mix on stream"));
            bench.zero(other, y, BYTES).unwrap();
            bench.mock.synchronize(other).unwrap();
        });
    }
}

#[test]
fn what_a_lost_gpu_had_to_do_is_over() {
    for seed in 0..20 {
        within(20, move || {
            let bench = Bench::new(seed);
            let mock = &bench.mock;
            let (one, gone, other) = (bench.stream(), bench.stream(), mock.create_stream(1, false).unwrap());
            let x = mock.allocate(one, BYTES).unwrap();
            let y = mock.allocate(other, BYTES).unwrap();
            let (host, own) =
                (mock.allocate_pinned(BYTES as usize).unwrap(), mock.allocate_pinned(1).unwrap());
            let ready = mock.create_event(1, false).unwrap();
            mock.record(ready, other).unwrap();
            mock.wait_event(one, ready).unwrap();
            bench.order(one, gone).unwrap();
            // SAFETY: host memory stays until the GPU is lost.
            unsafe {
                mock.copy(gone, Place::Host(own), Place::Gpu(0, x), 1).unwrap();
                mock.copy(one, Place::Host(host), Place::Gpu(0, x), BYTES).unwrap();
                mock.copy(one, Place::Gpu(1, y), Place::Gpu(0, x), BYTES).unwrap();
            }
            mock.destroy_stream(gone);
            mock.inject(0, Fault::Operation(1)).unwrap();
            bench.zero(one, x, BYTES).unwrap_err();
            // These calls cannot be ordered after the copies any more, and need not be.
            mock.destroy_event(ready);
            // SAFETY: nothing uses the memory any more.
            unsafe {
                mock.copy(other, Place::Gpu(1, y), Place::Host(host), BYTES).unwrap();
                mock.free(other, y).unwrap();
                mock.synchronize(other).unwrap();
                mock.free_pinned(host, BYTES as usize);
                mock.free_pinned(own, 1);
                mock.free_pinned(mock.allocate_pinned(1).unwrap(), 1);
            }
            mock.destroy_stream(other);
            assert_eq!((mock.violations(), mock.leaks()), (Vec::new(), Vec::new()));
        });
    }
}

#[test]
fn what_is_ordered_by_way_of_a_lost_gpu_stays_ordered() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    for late in [false, true] {
        within(20, move || {
            let over = Arc::new(AtomicBool::new(false));
            let (set, look) = (over.clone(), over.clone());
            let builder = Mock::builder().gpus(2).kernel("slow", move |_, _, _| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                set.store(true, Ordering::SeqCst);
                Ok(())
            });
            let bench = Bench::of(builder.kernel("fast", move |_, _, _| match look.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err("too early".into()),
            }));
            let mock = &bench.mock;
            let module = mock.load(1, b"").unwrap();
            let [slow, fast] = ["slow", "fast"].map(|name| mock.kernel(module, name).unwrap());
            let [first, last] = [(); 2].map(|()| mock.create_stream(1, false).unwrap());
            let between = bench.stream();
            let x = mock.allocate(between, BYTES).unwrap();
            let (one, two) = (mock.create_event(1, false).unwrap(), mock.create_event(0, false).unwrap());
            // SAFETY: for all launches here: no arguments.
            unsafe { mock.launch(first, slow, [1; 3], [1; 3], 0, &[]).unwrap() };
            mock.record(one, first).unwrap();
            mock.wait_event(between, one).unwrap();
            mock.record(two, between).unwrap();
            if !late {
                mock.wait_event(last, two).unwrap();
            }
            mock.inject(0, Fault::Operation(1)).unwrap();
            bench.zero(between, x, BYTES).unwrap_err();
            if late {
                mock.wait_event(last, two).unwrap();
            }
            // SAFETY: no arguments.
            unsafe { mock.launch(last, fast, [1; 3], [1; 3], 0, &[]).unwrap() };
            mock.synchronize(last).unwrap();
        });
    }
}

#[test]
fn a_kernel_that_panics_or_fails_loses_the_gpu() {
    let fail = |f: fn() -> Result<(), String>, word: &str| {
        let bench = Bench::of(Mock::builder().kernel("bad", move |_, _, _| f()));
        let bad = bench.mock.load(0, b"").and_then(|module| bench.mock.kernel(module, "bad")).unwrap();
        let one = bench.stream();
        // SAFETY: no arguments.
        unsafe { bench.mock.launch(one, bad, [1; 3], [1; 3], 0, &[]).unwrap() };
        let error = bench.mock.synchronize(one).unwrap_err();
        assert!(error.is_sticky() && error.to_string().contains(word), "{error}");
    };
    fail(|| panic!("division by zero"), "division by zero");
    fail(|| Err("misaligned address".into()), "misaligned address");
}

#[test]
fn what_cannot_be_done_is_refused_and_harms_nothing() {
    let bench = Bench::of(Mock::builder().gpus(2).peers(false).without(Library::Cusolver));
    let mock = &bench.mock;
    let one = bench.stream();
    let x = mock.allocate(one, BYTES).unwrap();
    assert_eq!(mock.create_stream(2, false), Err(GpuError::NoGpu { gpu: 2, there: 2 }));
    assert!(matches!(mock.library(Library::Cusolver), LibraryState::Missing(_)));
    let missing = mock.potrf_workspace(one, 4, zellige_gpu::Element::F32).unwrap_err();
    assert!(matches!(missing, GpuError::Missing { library: Library::Cusolver, .. }), "{missing}");

    let module = mock.load(0, b"").unwrap();
    let mut errors = vec![mock.kernel(module, "unheard").unwrap_err()];
    // SAFETY: for all below: none of it is executed.
    unsafe {
        errors.push(mock.launch(one, bench.mix, [0, 1, 1], [32, 1, 1], 0, &[]).unwrap_err());
        errors.push(mock.launch(one, bench.mix, [1, 1, 1], [1025, 1, 1], 0, &[]).unwrap_err());
        let other = mock.create_stream(1, false).unwrap();
        let y = mock.allocate(other, BYTES).unwrap();
        errors.push(mock.launch(other, bench.mix, [1; 3], [1; 3], 0, &[]).unwrap_err());
        errors.push(mock.copy(one, Place::Gpu(0, x), Place::Gpu(1, y), BYTES).unwrap_err());
        errors.push(mock.copy(one, Place::Gpu(1, y), Place::Gpu(1, y), BYTES).unwrap_err());
        errors.push(mock.copy(one, Place::Gpu(0, x), Place::Host(std::ptr::null_mut()), BYTES).unwrap_err());
    }
    let event = mock.create_event(0, false).unwrap();
    errors.push(mock.elapsed(event, event).unwrap_err());
    for error in errors {
        assert!(!error.is_sticky(), "{error}");
    }
    assert_eq!(mock.violations(), Vec::<String>::new());
    bench.zero(one, x, BYTES).unwrap();
}

#[test]
fn timed_events_tell_seconds() {
    let bench = Bench::of(Mock::builder().kernel("nap", |_, _, _| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        Ok(())
    }));
    let nap = bench.mock.load(0, b"").and_then(|module| bench.mock.kernel(module, "nap")).unwrap();
    let one = bench.stream();
    let [from, to] = [(); 2].map(|()| bench.mock.create_event(0, true).unwrap());
    bench.mock.record(from, one).unwrap();
    // SAFETY: no arguments.
    unsafe { bench.mock.launch(one, nap, [1; 3], [1; 3], 0, &[]).unwrap() };
    bench.mock.record(to, one).unwrap();
    bench.mock.wait(to).unwrap();
    let seconds = bench.mock.elapsed(from, to).unwrap();
    assert!(seconds >= 0.02, "{seconds}");
    assert!(bench.mock.elapsed(to, from).unwrap() < 0.0);
}

#[test]
fn a_graph_runs_again_with_what_is_in_memory_then() {
    for seed in 0..10 {
        within(20, move || {
            let bench = Bench::new(seed);
            let (one, two) = (bench.stream(), bench.stream());
            let [x, y, z] = [(); 3].map(|()| bench.mock.allocate(one, BYTES).unwrap());
            let [fork, join] = [(); 2].map(|()| bench.mock.create_event(0, false).unwrap());
            bench.write(one, x, &[3; BYTES as usize]).unwrap();
            bench.write(one, y, &[5; BYTES as usize]).unwrap();
            bench.write(one, z, &[7; BYTES as usize]).unwrap();
            bench.mock.begin_capture(one).unwrap();
            bench.mix(one, x, y, BYTES).unwrap();
            bench.mock.record(fork, one).unwrap();
            bench.mock.wait_event(two, fork).unwrap();
            bench.mix(two, z, x, BYTES).unwrap();
            bench.mix(one, y, x, BYTES).unwrap();
            bench.mock.record(join, two).unwrap();
            bench.mock.wait_event(one, join).unwrap();
            let graph = bench.mock.end_capture(one).unwrap();
            assert_eq!(bench.read(one, x, 1).unwrap(), [3]); // nothing ran
            let (mut a, mut b, mut c) = (3u8, 5u8, 7u8);
            for stream in [one, two, one] {
                // SAFETY: the memory is there, and used in the order of streams.
                unsafe { bench.mock.launch_graph(stream, graph).unwrap() };
                let mix = |x: u8, y: u8| x.wrapping_mul(31).wrapping_add(y).wrapping_add(1);
                a = mix(a, b);
                (b, c) = (mix(b, a), mix(c, a));
            }
            let all = [x, y, z].map(|at| bench.read(one, at, 64).unwrap());
            assert_eq!(all, [a, b, c].map(|byte| vec![byte; 64]));
            bench.mock.destroy_graph(graph);
            assert_eq!(bench.mock.violations(), Vec::<String>::new());
        });
    }
}

#[test]
fn what_a_graph_does_is_checked_at_its_launch() {
    let bench = Bench::new(3);
    let (one, two) = (bench.stream(), bench.stream());
    let [x, y] = [(); 2].map(|()| bench.mock.allocate(one, BYTES).unwrap());
    bench.zero(one, x, BYTES).unwrap();
    bench.zero(one, y, BYTES).unwrap();
    bench.mock.begin_capture(one).unwrap();
    bench.mix(one, x, y, BYTES).unwrap();
    let graph = bench.mock.end_capture(one).unwrap();
    // SAFETY: wrong on purpose; the mock finds out and runs nothing.
    let error = unsafe { bench.mock.launch_graph(two, graph).unwrap_err() };
    assert_caught(&bench, error, &["zero on stream", "kernel mix on stream", "nothing orders"]);
}

/// On a real GPU the process crashes, possibly later.
#[test]
fn host_memory_outlasts_the_graph_that_names_it() {
    for (captured, launched) in [(false, false), (true, false), (true, true)] {
        let bench = Bench::new(5);
        let (mock, one) = (&bench.mock, bench.stream());
        let x = mock.allocate(one, BYTES).unwrap();
        bench.zero(one, x, BYTES).unwrap();
        let host = mock.allocate_pinned(BYTES as usize).unwrap();
        mock.begin_capture(one).unwrap();
        // SAFETY: the memory stays until the copy has ended, or it never runs.
        unsafe { mock.copy(one, Place::Host(host), Place::Gpu(0, x), BYTES).unwrap() };
        let graph = captured.then(|| mock.end_capture(one).unwrap());
        if let (Some(graph), true) = (graph, launched) {
            // SAFETY: as above.
            unsafe { mock.launch_graph(one, graph).unwrap() };
            mock.synchronize(one).unwrap();
            mock.destroy_graph(graph);
        }
        // SAFETY: wrong on purpose, but for the last; nothing runs any more.
        unsafe { mock.free_pinned(host, BYTES as usize) };
        let error = mock.violations().join("; ");
        assert_eq!(error.contains("belongs to a copy that was captured"), !launched, "{error}");
    }
}

#[test]
fn captures_that_cannot_be_are_refused() {
    let bench = Bench::new(4);
    let (one, two) = (bench.stream(), bench.stream());
    let x = bench.mock.allocate(one, BYTES).unwrap();
    let [fork, outside] = [(); 2].map(|()| bench.mock.create_event(0, false).unwrap());
    bench.mock.record(outside, two).unwrap();
    assert!(bench.mock.end_capture(one).is_err());
    bench.mock.begin_capture(one).unwrap();
    assert!(bench.mock.begin_capture(one).is_err());
    assert!(bench.mock.synchronize(one).is_err());
    assert!(bench.mock.allocate(one, 1).is_err());
    assert!(bench.free(one, x).is_err());
    assert!(bench.mock.wait_event(one, outside).is_err());
    bench.mock.record(fork, one).unwrap();
    assert!(bench.mock.is_done(fork).is_err());
    bench.mock.wait_event(two, fork).unwrap();
    assert!(bench.mock.end_capture(two).is_err());
    let error = bench.mock.end_capture(one).unwrap_err(); // `two` is not joined
    assert!(error.to_string().contains("took part in the capture"), "{error}");
    // Both can be used again.
    bench.zero(one, x, BYTES).unwrap();
    bench.mock.synchronize(two).unwrap();
    assert_eq!(bench.mock.violations(), Vec::<String>::new());
}
