//! Faults that were asked for, missing libraries, and graphs.

use crate::common::{Bench, assert_caught, within};
use zellige_gpu::fake::{Fake, Fault};
use zellige_gpu::{Driver, GpuError, Library, LibraryState, Place};

const BYTES: u64 = 64;

#[test]
fn the_nth_operation_is_refused_and_the_gpu_is_lost() {
    let bench = Bench::new(1);
    let one = bench.stream();
    let x = bench.fake.allocate(one, BYTES).unwrap();
    bench.fake.inject(0, Fault::Operation(3)).unwrap();
    bench.zero(one, x, BYTES).unwrap();
    bench.zero(one, x, BYTES).unwrap();
    let error = bench.zero(one, x, BYTES).unwrap_err();
    assert!(error.is_sticky());
    assert_eq!(bench.zero(one, x, BYTES), Err(error.clone()));
    assert_eq!(bench.fake.synchronize(one), Err(error.clone()));
    assert_eq!(bench.fake.allocate(one, 1), Err(error.clone()));
    assert_eq!(bench.free(one, x), Err(error));
    bench.fake.destroy_stream(one);
    // That was asked for, and what was on the GPU is gone.
    assert_eq!((bench.fake.violations(), bench.fake.leaks()), (Vec::new(), Vec::new()));
}

#[test]
fn the_nth_allocation_finds_no_room_once() {
    let bench = Bench::new(2);
    let one = bench.stream();
    bench.fake.inject(0, Fault::Allocation(2)).unwrap();
    bench.fake.allocate(one, BYTES).unwrap();
    assert_eq!(bench.fake.allocate(one, BYTES), Err(GpuError::OutOfMemory { gpu: 0, bytes: BYTES }));
    bench.fake.allocate(one, BYTES).unwrap();
}

#[test]
fn the_nth_launch_is_queued_and_told_of_later() {
    for seed in 0..20 {
        within(20, move || {
            let bench = Bench::new(seed);
            let one = bench.stream();
            let [x, y] = [(); 2].map(|()| bench.fake.allocate(one, BYTES).unwrap());
            let event = bench.fake.create_event(0, false).unwrap();
            bench.zero(one, x, BYTES).unwrap();
            bench.zero(one, y, BYTES).unwrap();
            bench.fake.inject(0, Fault::Launch(1)).unwrap();
            bench.mix(one, x, y, BYTES).unwrap();
            // The GPU may be lost by now or not.
            let told = match bench.fake.record(event, one).and_then(|()| bench.fake.wait(event)) {
                Err(error) => error,
                Ok(()) => panic!("the launch before it failed"),
            };
            assert!(told.is_sticky() && told.to_string().contains("kernel mix on stream 1"), "{told}");
            assert_eq!(bench.fake.is_done(event), Err(told.clone()));
            assert_eq!(bench.zero(one, x, BYTES), Err(told));
            // The other GPU goes on.
            let other = bench.fake.create_stream(1, false).unwrap();
            let z = bench.fake.allocate(other, BYTES).unwrap();
            bench.zero(other, z, BYTES).unwrap();
            bench.fake.synchronize(other).unwrap();
            assert_eq!(bench.fake.violations(), Vec::<String>::new());
        });
    }
}

#[test]
fn a_copy_from_a_gpu_that_is_lost_meanwhile_is_told_of_once() {
    for seed in 0..20 {
        within(20, move || {
            let bench = Bench::new(seed);
            let (one, other) = (bench.stream(), bench.fake.create_stream(1, false).unwrap());
            let x = bench.fake.allocate(one, BYTES).unwrap();
            let y = bench.fake.allocate(other, BYTES).unwrap();
            let z = bench.fake.allocate(one, BYTES).unwrap();
            bench.zero(one, x, BYTES).unwrap();
            bench.zero(one, z, BYTES).unwrap();
            bench.fake.inject(0, Fault::Launch(1)).unwrap();
            bench.mix(one, x, z, BYTES).unwrap();
            let (ready, end) =
                (bench.fake.create_event(0, false), bench.fake.create_event(1, false).unwrap());
            let through = ready.and_then(|ready| {
                bench.fake.record(ready, one)?;
                bench.fake.wait_event(other, ready)?;
                // SAFETY: device memory.
                unsafe { bench.fake.copy(other, Place::Gpu(1, y), Place::Gpu(0, x), BYTES) }
            });
            bench.fake.record(end, other).unwrap();
            let told = bench.fake.wait(end).and(through);
            assert!(told.unwrap_err().to_string().contains("kernel mix on stream"));
            bench.zero(other, y, BYTES).unwrap();
            bench.fake.synchronize(other).unwrap();
        });
    }
}

#[test]
fn what_a_lost_gpu_had_to_do_is_over() {
    for seed in 0..20 {
        within(20, move || {
            let bench = Bench::new(seed);
            let fake = &bench.fake;
            let (one, gone, other) = (bench.stream(), bench.stream(), fake.create_stream(1, false).unwrap());
            let x = fake.allocate(one, BYTES).unwrap();
            let y = fake.allocate(other, BYTES).unwrap();
            let (host, own) =
                (fake.allocate_pinned(BYTES as usize).unwrap(), fake.allocate_pinned(1).unwrap());
            let ready = fake.create_event(1, false).unwrap();
            fake.record(ready, other).unwrap();
            fake.wait_event(one, ready).unwrap();
            bench.order(one, gone).unwrap();
            // SAFETY: host memory stays until the GPU is lost.
            unsafe {
                fake.copy(gone, Place::Host(own), Place::Gpu(0, x), 1).unwrap();
                fake.copy(one, Place::Host(host), Place::Gpu(0, x), BYTES).unwrap();
                fake.copy(one, Place::Gpu(1, y), Place::Gpu(0, x), BYTES).unwrap();
            }
            fake.destroy_stream(gone);
            fake.inject(0, Fault::Operation(1)).unwrap();
            bench.zero(one, x, BYTES).unwrap_err();
            // Nothing of this can be ordered behind the copies any more, and need not be.
            fake.destroy_event(ready);
            // SAFETY: nothing uses the memory any more.
            unsafe {
                fake.copy(other, Place::Gpu(1, y), Place::Host(host), BYTES).unwrap();
                fake.free(other, y).unwrap();
                fake.synchronize(other).unwrap();
                fake.free_pinned(host, BYTES as usize);
                fake.free_pinned(own, 1);
                fake.free_pinned(fake.allocate_pinned(1).unwrap(), 1);
            }
            fake.destroy_stream(other);
            assert_eq!((fake.violations(), fake.leaks()), (Vec::new(), Vec::new()));
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
            let builder = Fake::builder().gpus(2).kernel("slow", move |_, _, _| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                set.store(true, Ordering::SeqCst);
                Ok(())
            });
            let bench = Bench::of(builder.kernel("fast", move |_, _, _| match look.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err("too early".into()),
            }));
            let fake = &bench.fake;
            let module = fake.load(1, b"").unwrap();
            let [slow, fast] = ["slow", "fast"].map(|name| fake.kernel(module, name).unwrap());
            let [first, last] = [(); 2].map(|()| fake.create_stream(1, false).unwrap());
            let between = bench.stream();
            let x = fake.allocate(between, BYTES).unwrap();
            let (one, two) = (fake.create_event(1, false).unwrap(), fake.create_event(0, false).unwrap());
            // SAFETY: for all launches here: no arguments.
            unsafe { fake.launch(first, slow, [1; 3], [1; 3], 0, &[]).unwrap() };
            fake.record(one, first).unwrap();
            fake.wait_event(between, one).unwrap();
            fake.record(two, between).unwrap();
            if !late {
                fake.wait_event(last, two).unwrap();
            }
            fake.inject(0, Fault::Operation(1)).unwrap();
            bench.zero(between, x, BYTES).unwrap_err();
            if late {
                fake.wait_event(last, two).unwrap();
            }
            // SAFETY: as above.
            unsafe { fake.launch(last, fast, [1; 3], [1; 3], 0, &[]).unwrap() };
            fake.synchronize(last).unwrap();
        });
    }
}

#[test]
fn a_kernel_that_panics_or_fails_loses_the_gpu() {
    let fail = |f: fn() -> Result<(), String>, word: &str| {
        let bench = Bench::of(Fake::builder().kernel("bad", move |_, _, _| f()));
        let bad = bench.fake.load(0, b"").and_then(|module| bench.fake.kernel(module, "bad")).unwrap();
        let one = bench.stream();
        // SAFETY: no arguments.
        unsafe { bench.fake.launch(one, bad, [1; 3], [1; 3], 0, &[]).unwrap() };
        let error = bench.fake.synchronize(one).unwrap_err();
        assert!(error.is_sticky() && error.to_string().contains(word), "{error}");
    };
    fail(|| panic!("division by zero"), "division by zero");
    fail(|| Err("misaligned address".into()), "misaligned address");
}

#[test]
fn what_cannot_be_done_is_refused_and_harms_nothing() {
    let bench = Bench::of(Fake::builder().gpus(2).peers(false).without(Library::Cusolver));
    let fake = &bench.fake;
    let one = bench.stream();
    let x = fake.allocate(one, BYTES).unwrap();
    assert_eq!(fake.create_stream(2, false), Err(GpuError::NoGpu { gpu: 2, there: 2 }));
    assert!(matches!(fake.library(Library::Cusolver), LibraryState::Missing(_)));
    let missing = fake.potrf_workspace(one, 4, zellige_gpu::Element::F32).unwrap_err();
    assert!(matches!(missing, GpuError::Missing { library: Library::Cusolver, .. }), "{missing}");

    let module = fake.load(0, b"").unwrap();
    let mut errors = vec![fake.kernel(module, "unheard").unwrap_err()];
    // SAFETY: for all below: none of it is executed.
    unsafe {
        errors.push(fake.launch(one, bench.mix, [0, 1, 1], [32, 1, 1], 0, &[]).unwrap_err());
        errors.push(fake.launch(one, bench.mix, [1, 1, 1], [1025, 1, 1], 0, &[]).unwrap_err());
        let other = fake.create_stream(1, false).unwrap();
        let y = fake.allocate(other, BYTES).unwrap();
        errors.push(fake.launch(other, bench.mix, [1; 3], [1; 3], 0, &[]).unwrap_err());
        errors.push(fake.copy(one, Place::Gpu(0, x), Place::Gpu(1, y), BYTES).unwrap_err());
        errors.push(fake.copy(one, Place::Gpu(1, y), Place::Gpu(1, y), BYTES).unwrap_err());
        errors.push(fake.copy(one, Place::Gpu(0, x), Place::Host(std::ptr::null_mut()), BYTES).unwrap_err());
    }
    let event = fake.create_event(0, false).unwrap();
    errors.push(fake.elapsed(event, event).unwrap_err());
    for error in errors {
        assert!(!error.is_sticky(), "{error}");
    }
    assert_eq!(fake.violations(), Vec::<String>::new());
    bench.zero(one, x, BYTES).unwrap();
}

#[test]
fn timed_events_tell_seconds() {
    let bench = Bench::of(Fake::builder().kernel("nap", |_, _, _| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        Ok(())
    }));
    let nap = bench.fake.load(0, b"").and_then(|module| bench.fake.kernel(module, "nap")).unwrap();
    let one = bench.stream();
    let [from, to] = [(); 2].map(|()| bench.fake.create_event(0, true).unwrap());
    bench.fake.record(from, one).unwrap();
    // SAFETY: no arguments.
    unsafe { bench.fake.launch(one, nap, [1; 3], [1; 3], 0, &[]).unwrap() };
    bench.fake.record(to, one).unwrap();
    bench.fake.wait(to).unwrap();
    let seconds = bench.fake.elapsed(from, to).unwrap();
    assert!(seconds >= 0.02, "{seconds}");
    assert!(bench.fake.elapsed(to, from).unwrap() < 0.0);
}

#[test]
fn a_graph_runs_again_with_what_is_in_memory_then() {
    for seed in 0..10 {
        within(20, move || {
            let bench = Bench::new(seed);
            let (one, two) = (bench.stream(), bench.stream());
            let [x, y, z] = [(); 3].map(|()| bench.fake.allocate(one, BYTES).unwrap());
            let [fork, join] = [(); 2].map(|()| bench.fake.create_event(0, false).unwrap());
            bench.write(one, x, &[3; BYTES as usize]).unwrap();
            bench.write(one, y, &[5; BYTES as usize]).unwrap();
            bench.write(one, z, &[7; BYTES as usize]).unwrap();
            bench.fake.begin_capture(one).unwrap();
            bench.mix(one, x, y, BYTES).unwrap();
            bench.fake.record(fork, one).unwrap();
            bench.fake.wait_event(two, fork).unwrap();
            bench.mix(two, z, x, BYTES).unwrap();
            bench.mix(one, y, x, BYTES).unwrap();
            bench.fake.record(join, two).unwrap();
            bench.fake.wait_event(one, join).unwrap();
            let graph = bench.fake.end_capture(one).unwrap();
            assert_eq!(bench.read(one, x, 1).unwrap(), [3]); // nothing ran
            let (mut a, mut b, mut c) = (3u8, 5u8, 7u8);
            for stream in [one, two, one] {
                // SAFETY: the memory is there, and used in the order of streams.
                unsafe { bench.fake.launch_graph(stream, graph).unwrap() };
                let mix = |x: u8, y: u8| x.wrapping_mul(31).wrapping_add(y).wrapping_add(1);
                a = mix(a, b);
                (b, c) = (mix(b, a), mix(c, a));
            }
            let all = [x, y, z].map(|at| bench.read(one, at, 64).unwrap());
            assert_eq!(all, [a, b, c].map(|byte| vec![byte; 64]));
            bench.fake.destroy_graph(graph);
            assert_eq!(bench.fake.violations(), Vec::<String>::new());
        });
    }
}

#[test]
fn what_a_graph_does_is_checked_at_its_launch() {
    let bench = Bench::new(3);
    let (one, two) = (bench.stream(), bench.stream());
    let [x, y] = [(); 2].map(|()| bench.fake.allocate(one, BYTES).unwrap());
    bench.zero(one, x, BYTES).unwrap();
    bench.zero(one, y, BYTES).unwrap();
    bench.fake.begin_capture(one).unwrap();
    bench.mix(one, x, y, BYTES).unwrap();
    let graph = bench.fake.end_capture(one).unwrap();
    // SAFETY: wrong on purpose; the fake finds out and runs nothing.
    let error = unsafe { bench.fake.launch_graph(two, graph).unwrap_err() };
    assert_caught(&bench, error, &["zero on stream", "kernel mix on stream", "nothing orders"]);
}

#[test]
fn captures_that_cannot_be_are_refused() {
    let bench = Bench::new(4);
    let (one, two) = (bench.stream(), bench.stream());
    let x = bench.fake.allocate(one, BYTES).unwrap();
    let [fork, outside] = [(); 2].map(|()| bench.fake.create_event(0, false).unwrap());
    bench.fake.record(outside, two).unwrap();
    assert!(bench.fake.end_capture(one).is_err());
    bench.fake.begin_capture(one).unwrap();
    assert!(bench.fake.begin_capture(one).is_err());
    assert!(bench.fake.synchronize(one).is_err());
    assert!(bench.fake.allocate(one, 1).is_err());
    assert!(bench.free(one, x).is_err());
    assert!(bench.fake.wait_event(one, outside).is_err());
    bench.fake.record(fork, one).unwrap();
    assert!(bench.fake.is_done(fork).is_err());
    bench.fake.wait_event(two, fork).unwrap();
    assert!(bench.fake.end_capture(two).is_err());
    let error = bench.fake.end_capture(one).unwrap_err(); // `two` is not joined
    assert!(error.to_string().contains("took part in the capture"), "{error}");
    // Both can be used again.
    bench.zero(one, x, BYTES).unwrap();
    bench.fake.synchronize(two).unwrap();
    assert_eq!(bench.fake.violations(), Vec::<String>::new());
}
