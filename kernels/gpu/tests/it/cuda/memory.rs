//! Ranges, memory, streams and events.

use super::*;

/// CUDA 13 has NVTX in a library of another name. A library without the functions is not used, and
/// without any a range has no effect. There are also no ranges without a profiler: their names need
/// not be built.
#[test]
fn ranges_go_to_the_library_that_is_there() {
    for (there, heard, report) in [
        ("nvtx3interop", &HEARD[..], true),
        ("nvToolsExt", &HEARD, true),
        ("cublas", &HEARD, false),
        ("nvToolsExt", &[("NVTX_INJECTION64_PATH", "")], false),
    ] {
        let text = with("ranges_go_to_the_library_that_is_there", &["cuda", there], heard, || {
            let Gpu { cuda, .. } = Gpu::new();
            println!("ranges: {}", cuda.has_ranges());
            if cuda.has_ranges() {
                cuda.begin_range("gemm hp1 (3, 2, 1)\0 and more");
                cuda.end_range();
            }
            let all = libraries();
            let (_, state) = all.iter().find(|(library, _)| *library == Library::Nvtx).unwrap();
            match state {
                LibraryState::There(version) => assert!(version.is_empty()),
                LibraryState::Missing(why) => {
                    assert!(why.contains("libnvToolsExt.so or, with CUDA 13, libnvtx3interop.so"), "{why}");
                }
            }
        });
        let said = text.contains("mock: range gemm hp1 (3, 2, 1)\n") && text.contains("mock: range ends");
        assert!(
            text.is_empty() || (said == report && text.contains(&format!("ranges: {report}"))),
            "{there}: {text}"
        );
    }
}

#[test]
fn memory_streams_events_and_kernels() {
    let text = with("memory_streams_events_and_kernels", &["cuda", "nvToolsExt"], &HEARD, || {
        let Gpu { cuda, stream } = Gpu::new();
        let info = &cuda.gpus()[1];
        assert_eq!(
            (info.name.as_str(), info.bus.as_str(), info.arch().as_str()),
            ("Mock 1", "0000:3b:00.0", "sm_90")
        );
        assert_eq!(info.uuid, "GPU-01020304-0506-0708-090a-0b0c0d0e0f10");
        assert_eq!(
            (info.memory, info.multiprocessors, info.peers.as_slice()),
            (1 << 20, 132, [0].as_slice())
        );
        assert_eq!(cuda.create_stream(2, false), Err(GpuError::NoGpu { gpu: 2, there: 2 }));

        let x = cuda.allocate(stream, 12).unwrap();
        let big = cuda.allocate(stream, 1 << 20);
        assert_eq!(big, Err(GpuError::OutOfMemory { gpu: 0, bytes: 1 << 20 }));
        let y = cuda.allocate(stream, 1 << 19).unwrap();
        // SAFETY: allocated above, used by nothing.
        unsafe { cuda.free(stream, y).unwrap() };
        // Memory that the pool retains counts as free.
        assert_eq!(cuda.memory(0), Ok(((1 << 20) - 12, 1 << 20)));

        let module = cuda.load(0, b"mock image").unwrap();
        assert!(cuda.load(0, b"nothing").unwrap_err().to_string().contains("CUDA_ERROR_INVALID_IMAGE"));
        assert!(cuda.kernel(module, "unheard").unwrap_err().to_string().contains("no kernel unheard"));
        let axpy = cuda.kernel(module, "axpy").unwrap();
        let host = cuda.allocate_pinned(12).unwrap();
        let numbers = host.cast::<[f32; 3]>();
        let there = cuda.create_stream(1, false).unwrap();
        let z = cuda.allocate(there, 12).unwrap();
        let [from, to] = [(); 2].map(|()| cuda.create_event(0, true).unwrap());
        assert_eq!(cuda.is_done(from), Ok(true));
        let args = [Arg::Update(x, 12), Arg::Read(x, 12), Arg::F32(0.5), Arg::I32(3)];
        // SAFETY: sizes are those of the allocations, and the stand-ins run calls synchronously.
        unsafe {
            numbers.write([1.0, 2.0, 3.0]);
            cuda.record(from, stream).unwrap();
            cuda.copy(stream, Place::Gpu(0, x), Place::Host(host), 12).unwrap();
            cuda.launch(stream, axpy, [2, 3, 4], [5, 6, 7], 100 << 10, &args).unwrap();
            cuda.record(to, stream).unwrap();
            cuda.wait_event(there, to).unwrap();
            cuda.copy(there, Place::Gpu(1, z), Place::Gpu(0, x), 12).unwrap();
            cuda.zero(stream, x, 4).unwrap();
            cuda.copy(there, Place::Gpu(0, x.offset(8)), Place::Gpu(1, z), 4).unwrap();
            cuda.copy(stream, Place::Gpu(0, x), Place::Gpu(0, x.offset(4)), 4).unwrap();
            cuda.copy(stream, Place::Host(host), Place::Gpu(0, x), 12).unwrap();
            assert_eq!(numbers.read(), [3.0, 3.0, 1.5]);
            assert!(cuda.copy(stream, Place::Host(host), Place::Gpu(1, z), 12).is_err());
            assert!(cuda.launch(there, axpy, [1; 3], [1; 3], 0, &args).is_err());
            assert!(cuda.launch(stream, axpy, [1, 1, 0], [1; 3], 0, &args).is_err());
        }
        assert_eq!(cuda.elapsed(from, to), Ok(0.002));
        let plain = cuda.create_event(0, false).unwrap();
        assert!(cuda.elapsed(plain, to).unwrap_err().to_string().contains("without a clock"));
        cuda.wait(to).unwrap();

        cuda.begin_capture(stream).unwrap();
        assert!(cuda.allocate(stream, 1).unwrap_err().to_string().contains("being captured"));
        let graph = cuda.end_capture(stream).unwrap();
        // SAFETY: the graph is empty; what is given back is not used any more.
        unsafe {
            cuda.launch_graph(stream, graph).unwrap();
            assert!(cuda.launch_graph(there, graph).is_err());
            cuda.destroy_graph(graph);
            assert!(cuda.launch_graph(stream, graph).is_err());
            let mut own = [0u8; 64];
            cuda.pin(own.as_mut_ptr(), 64).unwrap();
            cuda.unpin(own.as_mut_ptr());
            cuda.free_pinned(host, 12);
        }
        assert!(cuda.has_ranges());
        cuda.begin_range("gemm (1, 2, 3)\0rest");
        cuda.end_range();

        // A token that is out of date is an error.
        cuda.destroy_stream(stream);
        cuda.destroy_event(to);
        assert!(
            cuda.synchronize(stream).is_err()
                && cuda.is_done(to).is_err()
                && cuda.wait_event(there, to).is_err()
        );
    });
    if !text.is_empty() {
        for line in ["mock: range gemm (1, 2, 3)\n", "mock: range ends", "mock: contexts are released"] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}

#[test]
fn memory_comes_without_pools_too() {
    with("memory_comes_without_pools_too", &["cuda"], &[("MOCK_POOLS", "0")], || {
        let Gpu { cuda, stream } = Gpu::new();
        let x = cuda.allocate(stream, 0).unwrap();
        // SAFETY: allocated above, used by nothing.
        unsafe { cuda.free(stream, x).unwrap() };
        assert_eq!(cuda.memory(0), Ok((1 << 20, 1 << 20)));
    });
}

#[test]
fn a_fault_is_sticky_and_the_other_gpu_goes_on() {
    with("a_fault_is_sticky_and_the_other_gpu_goes_on", &["cuda"], &[], || {
        let Gpu { cuda, stream } = Gpu::new();
        let event = cuda.create_event(0, false).unwrap();
        let fault = cuda.load(0, b"mock").and_then(|module| cuda.kernel(module, "fault")).unwrap();
        // SAFETY: it takes nothing.
        unsafe { cuda.launch(stream, fault, [1; 3], [1; 3], 0, &[]).unwrap() };
        let error = cuda.is_done(event).unwrap_err();
        assert!(error.is_sticky() && error.to_string().contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
        for again in [
            cuda.synchronize(stream),
            cuda.wait(event),
            cuda.memory(0).map(drop),
            cuda.allocate(stream, 4).map(drop),
            cuda.create_event(0, false).map(drop),
        ] {
            assert_eq!(again, Err(error.clone()));
        }
        let other = cuda.create_stream(1, false).unwrap();
        cuda.wait_event(other, event).unwrap(); // does not hold it up
        cuda.synchronize(other).unwrap();
        cuda.allocate_pinned(1).unwrap();
    });
}

/// An allocation larger than the GPU is out of memory, independently of the driver's result for
/// such sizes. Memory that the pool retains is returned before an out-of-memory error.
#[test]
fn memory_that_the_pool_keeps_is_given_back() {
    let text =
        with("memory_that_the_pool_keeps_is_given_back", &["cuda"], &[("MOCK_IN_PIECES", "1")], || {
            let Gpu { cuda, stream } = Gpu::new();
            let full = |bytes| Err(GpuError::OutOfMemory { gpu: 0, bytes });
            assert_eq!(cuda.allocate(stream, 1 << 46), full(1 << 46));
            eprintln!("nothing was asked for");
            let other = cuda.create_stream(0, false).unwrap();
            for records in [false, true] {
                let piece = cuda.allocate(stream, 700 << 10).unwrap();
                // SAFETY: allocated above, used by nothing; so below.
                unsafe { cuda.free(stream, piece).unwrap() };
                // A recording on another stream lives through it.
                if records {
                    cuda.begin_capture(other).unwrap();
                }
                let large = cuda.allocate(stream, 800 << 10).unwrap();
                assert_eq!(cuda.allocate(stream, 900 << 10), full(900 << 10));
                // SAFETY: as above.
                unsafe { cuda.free(stream, large).unwrap() };
                if records {
                    cuda.end_capture(other).unwrap();
                }
            }
        });
    let before = text.split("nothing was asked for").next().unwrap();
    assert!(
        text.is_empty() || (!before.contains("trimmed") && text.contains("mock: the pool is trimmed")),
        "{text}"
    );
}
