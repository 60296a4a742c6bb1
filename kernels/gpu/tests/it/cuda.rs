//! The CUDA driver on libraries that stand in for NVIDIA's (`mock/mock.c`): every call is made, and each gets what it documents.
//!
//! What a GPU does with a call this cannot show. Libraries are found when a process first needs them, so each test runs itself again in
//! a process of its own whose `LD_LIBRARY_PATH` names the stand-ins. Without a C compiler a line is printed instead.

use std::path::Path;
use std::process::Command;

use zellige_gpu::cuda::{Cuda, libraries, loaded_from, look_in, skipped};
use zellige_gpu::twin::encode;
use zellige_gpu::{
    Address, Arg, BatchedGemm, Compute, Driver, Element, Factors, Gauges, Gemm, GpuError, Library,
    LibraryState, Matrix, Place, Potrf, Side, Stream, Syrk, Transpose, Trsm,
};

/// Tells the process that it is the second one.
const SECOND: &str = "ZELLIGE_TEST_SECOND_PROCESS";
const ALL: [&str; 6] = ["cuda", "cublas", "cublasLt", "cusolver", "nvToolsExt", "nvidia-ml"];

/// Runs `check` in a process that finds these libraries and this environment. Gives what that process wrote.
fn with(test: &str, there: &[&str], variables: &[(&str, &str)], check: fn()) -> String {
    if std::env::var_os(SECOND).is_some() {
        check();
        return String::new();
    }
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mock/mock.c");
    for library in there {
        let out = folder.path().join(format!("lib{library}.so"));
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", &format!("-DMOCK_{}", library.replace('-', "_")), "-o"])
            .arg(out)
            .arg(&source)
            .arg("-lm");
        match compiler.status() {
            Ok(status) => assert!(status.success(), "{compiler:?}"),
            Err(error) => {
                println!("skipped: no C compiler: {error}");
                return String::new();
            }
        }
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again
        .args([&format!("cuda::{test}"), "--exact", "--nocapture"])
        .env(SECOND, "1")
        .env("LD_LIBRARY_PATH", folder.path());
    let output = again.envs(variables.iter().copied()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    text
}

fn missing(result: Result<Cuda, GpuError>) -> String {
    match result {
        Err(GpuError::Missing { library: Library::Driver, reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn libraries_tell_their_versions_without_a_gpu() {
    with("libraries_tell_their_versions_without_a_gpu", &ALL, &[("CUDA_VISIBLE_DEVICES", "")], || {
        let version =
            |library| libraries().into_iter().find(|(l, _)| *l == library).map(|(_, state)| state).unwrap();
        let there = |text: &str| LibraryState::There(text.into());
        assert_eq!(version(Library::Driver), there("CUDA 12.9, driver 575.51.03"));
        assert_eq!(version(Library::Cublas), there("12.9.1"));
        assert_eq!(version(Library::CublasLt), there("12.9.1"));
        assert_eq!(version(Library::Cusolver), there("11.7.5"));
        assert_eq!(version(Library::Nvtx), there(""));
        assert_eq!(version(Library::Nvml), there("12.575.51"));
        // The driver hides every GPU.
        assert!(missing(Cuda::open()).contains("CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"));
    });
}

#[test]
fn a_gpu_that_does_not_open_hides_no_other() {
    for (broken, other) in [("0", 1), ("1", 0)] {
        let text =
            with("a_gpu_that_does_not_open_hides_no_other", &["cuda"], &[("MOCK_BROKEN", broken)], || {
                let (bad, good) = if std::env::var("MOCK_BROKEN").unwrap() == "0" { (0, 1) } else { (1, 0) };
                let cuda = Cuda::open().unwrap();
                // Numbers, names and places stay; nobody is a peer.
                assert_eq!(cuda.gpus().len(), 2);
                assert_eq!(cuda.gpus()[bad as usize].name, format!("Mock {bad}"));
                assert!(cuda.gpus().iter().all(|gpu| gpu.peers.is_empty()));
                assert_eq!(cuda.working(), [good]);
                for error in [cuda.memory(bad).unwrap_err(), cuda.create_stream(bad, false).unwrap_err()] {
                    let text = error.to_string();
                    assert!(text.starts_with(&format!("GPU {bad}: cuDevicePrimaryCtxRetain: ")), "{text}");
                    assert!(text.contains("CUDA_ERROR_DEVICE_UNAVAILABLE"), "{text}");
                }
                let stream = cuda.create_stream(good, false).unwrap();
                let at = cuda.allocate(stream, 64).unwrap();
                // SAFETY: the memory is there, and the stand-ins do all at once.
                unsafe {
                    cuda.zero(stream, at, 64).unwrap();
                    cuda.free(stream, at).unwrap();
                }
                cuda.synchronize(stream).unwrap();
                println!("gpu {good} went on");
            });
        assert!(text.is_empty() || text.contains(&format!("gpu {other} went on")), "{text}");
    }
}

#[test]
fn where_no_gpu_opens_the_first_says_why() {
    with("where_no_gpu_opens_the_first_says_why", &["cuda"], &[("MOCK_BROKEN", "*")], || {
        let error = Cuda::open().unwrap_err();
        assert!(matches!(error, GpuError::Failed { gpu: 0, .. }), "{error}");
        assert!(error.to_string().contains("CUDA_ERROR_DEVICE_UNAVAILABLE"), "{error}");
    });
}

#[test]
fn an_old_driver_is_refused() {
    with("an_old_driver_is_refused", &["cuda"], &[("MOCK_DRIVER", "11020")], || {
        let reason = missing(Cuda::open());
        assert!(reason.contains("CUDA 11.2") && reason.contains("11.4 is needed"), "{reason}");
    });
}

#[test]
fn a_missing_library_switches_off_what_needs_it() {
    with("a_missing_library_switches_off_what_needs_it", &["cuda"], &[], || {
        let cuda = Cuda::open().unwrap();
        let stream = cuda.create_stream(0, false).unwrap();
        let matrix = Matrix { at: Address(256), ld: 1, element: Element::F32 };
        let syrk = Syrk { n: 1, k: 1, alpha: 1.0, a: matrix, beta: 0.0, c: matrix };
        // SAFETY: refused.
        let error = unsafe { cuda.syrk(stream, &syrk) }.unwrap_err();
        assert!(matches!(error, GpuError::Missing { library: Library::Cublas, .. }), "{error}");
        let error = cuda.potrf_workspace(stream, 4, Element::F32).unwrap_err();
        assert!(matches!(error, GpuError::Missing { library: Library::Cusolver, .. }), "{error}");
        assert!(!cuda.has_ranges());
        cuda.begin_range("nothing happens");
        cuda.end_range();
        // What needs no library goes on, captures too.
        cuda.begin_capture(stream).unwrap();
        cuda.end_capture(stream).unwrap();
        cuda.synchronize(stream).unwrap();
    });
}

#[test]
fn a_gpu_tells_its_clock_and_its_power() {
    with("a_gpu_tells_its_clock_and_its_power", &["cuda", "nvidia-ml"], &[], || {
        let cuda = Cuda::open().unwrap();
        let all = Gauges { sm_clock_mhz: Some(1980.0), power_w: Some(612.5), energy_j: Some(7.25) };
        assert_eq!(cuda.gauges(1), Ok(all));
        // What a GPU does not tell is missing, and the rest is there.
        assert_eq!(cuda.gauges(0), Ok(Gauges { sm_clock_mhz: Some(1980.0), ..Gauges::default() }));
        assert_eq!(cuda.gauges(2), Err(GpuError::NoGpu { gpu: 2, there: 2 }));
    });
}

#[test]
fn without_a_clock_everything_else_goes_on() {
    for (there, variables) in
        [(&["cuda"][..], &[][..]), (&["cuda", "nvidia-ml"], &[("MOCK_NVML_BROKEN", "1")])]
    {
        with("without_a_clock_everything_else_goes_on", there, variables, || {
            let cuda = Cuda::open().unwrap();
            let driver = libraries().into_iter().find(|(library, _)| *library == Library::Driver);
            assert_eq!(driver, Some((Library::Driver, LibraryState::There("CUDA 12.9".into()))));
            let error = cuda.gauges(0).unwrap_err();
            assert!(matches!(error, GpuError::Missing { library: Library::Nvml, .. }), "{error}");
            assert!(error.to_string().contains("libnvidia-ml.so.1"), "{error}");
            let stream = cuda.create_stream(0, false).unwrap();
            cuda.synchronize(stream).unwrap();
        });
    }
}

/// A GPU, a stream, and matrices on it.
struct Gpu {
    cuda: Cuda,
    stream: Stream,
}

impl Gpu {
    fn new() -> Gpu {
        let cuda = Cuda::open().unwrap();
        let stream = cuda.create_stream(0, true).unwrap();
        Gpu { cuda, stream }
    }

    fn write(&self, bytes: &[u8]) -> Address {
        let at = self.cuda.allocate(self.stream, bytes.len() as u64).unwrap();
        let from = Place::Host(bytes.as_ptr().cast_mut());
        // SAFETY: as many bytes are at both ends; the stand-ins copy at once.
        unsafe { self.cuda.copy(self.stream, Place::Gpu(0, at), from, bytes.len() as u64).unwrap() };
        at
    }

    fn read<const N: usize>(&self, at: Address, size: usize) -> [f32; N] {
        let mut bytes = vec![0u8; N * size];
        // SAFETY: the memory that is named is there, and the stand-ins do all at once.
        unsafe {
            self.cuda.copy(
                self.stream,
                Place::Host(bytes.as_mut_ptr()),
                Place::Gpu(0, at),
                bytes.len() as u64,
            )
        }
        .unwrap();
        std::array::from_fn(|i| match size {
            8 => f64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap()) as f32,
            _ => f32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap()),
        })
    }

    /// Numbers in columns of `ld`.
    fn matrix(&self, element: Element, ld: u32, numbers: &[f64]) -> Matrix {
        let size = element.bytes() as usize;
        let mut bytes = vec![0; numbers.len() * size];
        for (x, bytes) in numbers.iter().zip(bytes.chunks_mut(size)) {
            encode(element, *x, bytes);
        }
        Matrix { at: self.write(&bytes), ld, element }
    }
}

/// As profilers say that they listen.
const HEARD: [(&str, &str); 1] = [("NVTX_INJECTION64_PATH", "/opt/profiler/libinjection.so")];

/// CUDA 13 has NVTX in a library of another name; one that lacks the functions is none, and without any a range is nothing. Nor are there any
/// where no profiler listens: their names need not be made.
#[test]
fn ranges_go_to_the_library_that_is_there() {
    for (there, heard, told) in [
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
            text.is_empty() || (said == told && text.contains(&format!("ranges: {told}"))),
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
        // What the pool keeps counts as free.
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
        // SAFETY: sizes are those of the allocations, and the stand-ins do all at once.
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

/// More than the GPU has is out of memory, whatever the driver says of such sizes; and what its pool keeps is given back before anybody is told
/// that there is no room.
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

/// Room for the libraries' working space.
const LARGE: [(&str, &str); 1] = [("MOCK_MEMORY", "268435456")];

fn gemm(ops: (Transpose, Transpose), [m, n, k]: [u32; 3], [a, b, c]: [Matrix; 3], compute: Compute) -> Gemm {
    let factors = Factors::Host { alpha: 2.0, beta: -1.0 };
    Gemm { op_a: ops.0, op_b: ops.1, m, n, k, factors, a, b, c, compute }
}

#[test]
fn products_get_what_they_document() {
    use Transpose::{No, Yes};
    with("products_get_what_they_document", &["cuda", "cublas"], &LARGE, || {
        let gpu = Gpu::new();
        // A = [1 2 3; 4 5 6] and B = [1 0; 0 1; 1 1], so A B = [4 5; 10 11]; as they lie and transposed, with 9 between columns.
        let (a, a_t) =
            ((2, vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]), (4, vec![1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0, 9.0]));
        let (b, b_t) =
            ((4, vec![1.0, 0.0, 1.0, 9.0, 0.0, 1.0, 1.0, 9.0]), (2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0]));
        for (compute, element, out) in [
            (Compute::F64, Element::F64, Element::F64),
            (Compute::F32, Element::F32, Element::F32),
            (Compute::Tf32, Element::F32, Element::F32),
            (Compute::F32, Element::F16, Element::F32),
        ] {
            for (ops, a, b) in [((No, No), &a, &b), ((Yes, No), &a_t, &b), ((No, Yes), &a, &b_t)] {
                let [a, b] = [a, b].map(|(ld, numbers)| gpu.matrix(element, *ld, numbers));
                let c = gpu.matrix(out, 3, &[1.0, 0.0, 9.0, 0.0, 1.0, 9.0]);
                // SAFETY: the matrices are there, and the stand-ins do all at once.
                unsafe { gpu.cuda.gemm(gpu.stream, &gemm(ops, [2, 2, 3], [a, b, c], compute)).unwrap() };
                let found: [f32; 6] = gpu.read(c.at, out.bytes() as usize);
                assert_eq!(found, [7.0, 20.0, 9.0, 10.0, 21.0, 9.0], "{compute:?} {element:?} {ops:?}");
            }
        }
    });
}

/// Destroying a handle waits for the whole GPU, and may end a recording on another thread: those of streams that go are the next ones', and all
/// are destroyed with their GPU.
#[test]
fn handles_live_as_long_as_their_gpu() {
    let text = with("handles_live_as_long_as_their_gpu", &["cuda", "cublas", "cusolver"], &LARGE, || {
        let gpu = Gpu::new();
        let Gpu { cuda, .. } = &gpu;
        let free = cuda.memory(0).unwrap().0;
        cuda.load_libraries(0).unwrap();
        cuda.load_libraries(0).unwrap();
        // Their working space was given back with the stream that they were made on.
        assert_eq!(cuda.memory(0).unwrap().0, free);
        let [a, b, c] = [(); 3].map(|()| gpu.matrix(Element::F32, 1, &[3.0]));
        let product = gemm((Transpose::No, Transpose::No), [1, 1, 1], [a, b, c], Compute::F32);
        let other = cuda.create_stream(0, false).unwrap();
        cuda.begin_capture(other).unwrap();
        for _ in 0..3 {
            let stream = cuda.create_stream(0, false).unwrap();
            // SAFETY: the matrices are there, and the stand-ins do all at once.
            unsafe { cuda.gemm(stream, &product).unwrap() };
            cuda.destroy_stream(stream);
        }
        cuda.end_capture(other).unwrap();
        eprintln!("the driver goes");
    });
    if !text.is_empty() {
        let (before, after) = text.split_once("the driver goes").unwrap();
        // One that all streams but the recorded one have had, and that one's.
        assert_eq!(before.matches("mock: a cublas handle is made").count(), 2, "{text}");
        assert!(!before.contains("handle is destroyed"), "{text}");
        let end = after.find("mock: contexts are released").unwrap();
        assert_eq!(after[..end].matches("mock: a cublas handle is destroyed").count(), 2, "{text}");
    }
}

#[test]
fn batches_are_told_by_strides_or_by_addresses() {
    with("batches_are_told_by_strides_or_by_addresses", &["cuda", "cublas"], &LARGE, || {
        let gpu = Gpu::new();
        let numbers: Vec<f64> = (0..64).map(f64::from).collect();
        let [a, b, c] = [(); 3].map(|()| gpu.matrix(Element::F32, 1, &numbers));
        let shape = gemm((Transpose::No, Transpose::No), [1, 1, 1], [a, b, c], Compute::F32);
        let at = |i: u64, j: u64, k: u64| [a.at.offset(4 * i), b.at.offset(4 * j), c.at.offset(4 * k)];
        let before = gpu.cuda.memory(0).unwrap();
        for places in [[[0, 2, 3], [1, 4, 6], [2, 6, 9]], [[3, 20, 30], [2, 30, 20], [9, 40, 63]]] {
            let list = places.map(|[i, j, k]| at(i, j, k));
            // SAFETY: the matrices are there, and the stand-ins do all at once.
            unsafe { gpu.cuda.gemm_batched(gpu.stream, &BatchedGemm { shape, at: &list }).unwrap() };
            let found: [f32; 64] = gpu.read(c.at, 4);
            for [i, j, k] in places {
                assert_eq!(found[k as usize], (2 * i * j) as f32 - k as f32);
            }
        }
        // The workspace stays, the lists of addresses do not.
        assert_eq!([0, 2].map(|number| gpu.cuda.stream_workspace(number)), [32 << 20, 0]);
        assert_eq!(gpu.cuda.memory(0).unwrap().0, before.0 - gpu.cuda.stream_workspace(0));
        // SAFETY: nothing is done, or refused.
        unsafe {
            gpu.cuda.gemm_batched(gpu.stream, &BatchedGemm { shape, at: &[] }).unwrap();
            gpu.cuda.begin_capture(gpu.stream).unwrap();
            let uneven = [at(3, 0, 0), at(2, 0, 1)];
            let error = gpu.cuda.gemm_batched(gpu.stream, &BatchedGemm { shape, at: &uneven }).unwrap_err();
            assert!(error.to_string().contains("being captured"), "{error}");
        }
    });
}

#[test]
fn factors_in_device_memory_are_told_by_the_pointer_mode() {
    let name = "factors_in_device_memory_are_told_by_the_pointer_mode";
    with(name, &["cuda", "cublas"], &LARGE, || {
        let gpu = Gpu::new();
        let host = Factors::Host { alpha: 2.0, beta: -1.0 };
        let device = Factors::Device(gpu.write(&[3f32, 0.5].map(f32::to_le_bytes).concat()));
        let [a, b] = [5.0, 7.0].map(|x| gpu.matrix(Element::F32, 1, &[x, x]));
        let ops = (Transpose::No, Transpose::No);
        for compute in [Compute::F32, Compute::Tf32] {
            let c = gpu.matrix(Element::F32, 1, &[10.0, 20.0]);
            let at = |i: u64| [a, b, c].map(|matrix| matrix.at.offset(4 * i));
            let shape = gemm(ops, [1, 1, 1], [a, b, c], compute);
            // The stand-in refuses factors that do not lie where its mode says. The host's work after each of the others.
            // SAFETY: here and below: the matrices are there, and the stand-ins do all at once.
            let product = |factors| unsafe { gpu.cuda.gemm(gpu.stream, &Gemm { factors, ..shape }) };
            product(device).unwrap();
            assert_eq!(gpu.read(c.at, 4), [105.0 + 5.0, 20.0]);
            product(host).unwrap();
            assert_eq!(gpu.read(c.at, 4), [70.0 - 110.0, 20.0]);
            let mut expected = [-40.0, 20.0];
            for list in [[at(0), at(1)], [at(1), at(0)]] {
                for (factors, [alpha, beta]) in [(device, [3.0, 0.5]), (host, [2.0, -1.0])] {
                    let shape = Gemm { factors, ..shape };
                    let batch = BatchedGemm { shape, at: &list };
                    // SAFETY: the memory that is named is there, and the stand-ins do all at once.
                    unsafe { gpu.cuda.gemm_batched(gpu.stream, &batch).unwrap() };
                    expected = expected.map(|c| alpha * 35.0 + beta * c);
                    assert_eq!(gpu.read(c.at, 4), expected);
                }
            }
            let syrk = Syrk { n: 1, k: 1, alpha: 1.0, a, beta: 0.0, c };
            product(device).unwrap();
            // SAFETY: the memory that is named is there, and the stand-ins do all at once.
            unsafe { gpu.cuda.syrk(gpu.stream, &syrk).unwrap() };
            assert_eq!(gpu.read(c.at, 4), [25.0, expected[1]]);
        }
        // Also where the product fails: the stand-in has none with a 16-bit C.
        let [a, b, c] = [(); 3].map(|()| gpu.matrix(Element::F16, 1, &[1.0]));
        let half = gemm(ops, [1, 1, 1], [a, b, c], Compute::F32);
        // SAFETY: the memory that is named is there, and the stand-ins do all at once.
        let error = unsafe { gpu.cuda.gemm(gpu.stream, &Gemm { factors: device, ..half }).unwrap_err() };
        assert!(error.to_string().contains("cublasGemmEx"), "{error}");
        let c = gpu.matrix(Element::F32, 1, &[1.0]);
        // SAFETY: the memory that is named is there, and the stand-ins do all at once.
        unsafe { gpu.cuda.gemm(gpu.stream, &Gemm { c, ..half }).unwrap() };
        assert_eq!(gpu.read(c.at, 4), [1.0]);
    });
}

#[test]
fn eight_bit_products_get_what_they_document() {
    with("eight_bit_products_get_what_they_document", &["cuda", "cublasLt"], &LARGE, || {
        let gpu = Gpu::new();
        let entry = |i: usize, l: usize| ((i + 2 * l) % 3) as f64 - 1.0;
        let numbers: Vec<f64> = (0..16 * 16).map(|p| entry(p / 16, p % 16)).collect();
        let [a, b] = [(); 2].map(|()| gpu.matrix(Element::F8E4M3, 16, &numbers));
        let c = gpu.matrix(Element::F32, 16, &numbers);
        let ops = (Transpose::Yes, Transpose::No);
        let product = gemm(ops, [16, 16, 16], [a, b, c], Compute::F32);
        let mut expected = numbers;
        let device = Factors::Device(gpu.write(&[3f32, 0.5].map(f32::to_le_bytes).concat()));
        let (host, device) = ((product.factors, [2.0, -1.0]), (device, [3.0, 0.5]));
        for (factors, [alpha, beta]) in [host, device, host, device] {
            // The second time with the kernel that was chosen the first time: the stand-in chooses once for each place of factors,
            // and refuses factors that lie elsewhere.
            // SAFETY: the matrices are there, and the stand-ins do all at once.
            unsafe { gpu.cuda.gemm(gpu.stream, &Gemm { factors, ..product }).unwrap() };
            for (p, x) in expected.iter_mut().enumerate() {
                let sum: f64 = (0..16).map(|l| entry(p % 16, l) * entry(p / 16, l)).sum();
                *x = alpha * sum + beta * *x;
            }
            assert_eq!(gpu.read::<256>(c.at, 4).map(f64::from).to_vec(), expected);
        }
        let wrong = Gemm { op_b: Transpose::Yes, ..product };
        // SAFETY: refused.
        assert!(unsafe { gpu.cuda.gemm(gpu.stream, &wrong).is_err() });
    });
}

/// A shape for which the library has no kernel: whoever wants the product makes it in another way.
#[test]
fn an_eight_bit_product_without_a_kernel_is_told_apart() {
    // As many as none, or a status that says so.
    for status in ["0", "15"] {
        let variables = [LARGE[0], ("MOCK_NO_HEURISTIC", status)];
        with(
            "an_eight_bit_product_without_a_kernel_is_told_apart",
            &["cuda", "cublasLt"],
            &variables,
            || {
                let gpu = Gpu::new();
                let [a, b] = [(); 2].map(|()| gpu.matrix(Element::F8E4M3, 16, &[1.0; 256]));
                let c = gpu.matrix(Element::F32, 16, &[2.0; 256]);
                let product = gemm((Transpose::Yes, Transpose::No), [16, 16, 16], [a, b, c], Compute::F32);
                for _ in 0..2 {
                    // SAFETY: refused.
                    let refused = unsafe { gpu.cuda.gemm(gpu.stream, &product) };
                    assert_eq!(refused, Err(GpuError::NoKernel { gpu: 0, call: "cublasLtMatmul" }));
                }
            },
        );
    }
}

/// Libraries that are where a Python wheel has them, and a folder that is named: the loader finds none of them.
#[test]
fn libraries_are_found_in_wheels_and_in_a_folder_that_is_named() {
    const NAME: &str = "libraries_are_found_in_wheels_and_in_a_folder_that_is_named";
    fn check() {
        if let Some(folder) = std::env::var_os("MOCK_FOLDER") {
            look_in(Path::new(&folder)).unwrap();
            assert!(look_in(Path::new("/")).is_err(), "one folder is named once");
        }
        let cuda = Cuda::open().unwrap();
        assert_eq!(cuda.library(Library::Cublas), LibraryState::There("12.9.1".into()));
        let stream = cuda.create_stream(0, false).unwrap();
        cuda.potrf_workspace(stream, 4, Element::F32).unwrap();
        for library in [Library::Cublas, Library::Cusolver] {
            println!("from {}", loaded_from(library)[0].display());
        }
        println!("skipped {:?}", skipped());
    }
    if std::env::var_os(SECOND).is_some() {
        return check();
    }
    let root = tempfile::tempdir().unwrap();
    let wheels = root.path().join("lib/python3.12/site-packages/nvidia");
    let build = |library: &str, version: &str, folder: &Path| {
        std::fs::create_dir_all(folder).unwrap();
        let file = format!("lib{library}.so.{version}");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mock/mock.c");
        let mut compiler = Command::new("cc");
        compiler.args([
            "-shared",
            "-fPIC",
            &format!("-DMOCK_{library}"),
            &format!("-Wl,-soname,{file}"),
            "-o",
        ]);
        compiler.arg(folder.join(&file)).arg(source).arg("-lm");
        compiler.status().is_ok_and(|status| status.success())
    };
    let ours = wheels.join("cu12/lib");
    if !build("cublas", "12", &ours) {
        println!("skipped: no C compiler");
        return;
    }
    // One of a version that the driver, which knows 12.9, cannot have; cuSOLVER counts one less.
    let too_new = wheels.join("cu13/lib");
    std::fs::create_dir_all(&too_new).unwrap();
    std::fs::write(too_new.join("libcublas.so.13"), "").unwrap();
    std::fs::write(ours.join("libcusolver.so.11.7.5"), "the file behind a link").unwrap();
    assert!(build("cusolver", "11", &ours));
    let python = root.path().join("bin");
    std::fs::create_dir_all(&python).unwrap();
    std::fs::write(python.join("python3"), "").unwrap();
    for named in [false, true] {
        let place = if named { ours.to_str().unwrap() } else { "" };
        let path = if named { "" } else { python.to_str().unwrap() };
        let mut variables = vec![("MOCK_MEMORY", "268435456"), ("PATH", path), ("HOME", "/nowhere")];
        variables.extend(named.then_some(("MOCK_FOLDER", place)));
        let text = with(NAME, &["cuda"], &variables, check);
        for file in ["libcublas.so.12", "libcusolver.so.11"] {
            assert!(text.contains(&format!("from {}", ours.join(file).display())), "{text}");
        }
        let said = "libcublas.so.13: of CUDA 13, and those of CUDA 11 to 12 work with this driver";
        assert_eq!(text.contains(said), !named, "{text}");
    }
}

#[test]
fn tile_routines_get_what_they_document() {
    with("tile_routines_get_what_they_document", &["cuda", "cublas", "cusolver"], &LARGE, || {
        let gpu = Gpu::new();
        let Gpu { cuda, stream } = &gpu;
        let stream = *stream;
        for element in [Element::F32, Element::F64] {
            let size = element.bytes() as usize;
            // L = [2 .; 1 3]; A = L L^T = [4 2; 2 10]; X L^T = [2 10] for X = [1 3].
            let a = gpu.matrix(element, 3, &[4.0, 2.0, 9.0, 7.0, 10.0, 9.0]);
            let workspace_bytes = cuda.potrf_workspace(stream, 2, element).unwrap();
            assert_eq!(workspace_bytes, 20 * element.bytes()); // it counts numbers
            let workspace = cuda.allocate(stream, workspace_bytes).unwrap();
            let info = cuda.allocate(stream, 4).unwrap();
            let potrf = Potrf { n: 2, a, workspace, workspace_bytes, info };
            // SAFETY: here and below: the matrices are there, and the stand-ins do all at once.
            unsafe { cuda.potrf(stream, &potrf).unwrap() };
            assert_eq!(gpu.read::<6>(a.at, size), [2.0, 1.0, 9.0, 7.0, 3.0, 9.0]);

            let b = gpu.matrix(element, 2, &[2.0, 9.0, 10.0, 9.0]);
            let trsm = Trsm { side: Side::Right, op: Transpose::Yes, m: 1, n: 2, l: a, b };
            // SAFETY: the memory that is named is there, and the stand-ins do all at once.
            unsafe { cuda.trsm(stream, &trsm).unwrap() };
            assert_eq!(gpu.read::<4>(b.at, size), [1.0, 9.0, 3.0, 9.0]);

            let x = gpu.matrix(element, 3, &[1.0, 2.0, 9.0, 3.0, 4.0, 9.0]);
            let c = gpu.matrix(element, 2, &[1.0, 2.0, 7.0, 4.0]);
            // SAFETY: the memory that is named is there, and the stand-ins do all at once.
            unsafe { cuda.syrk(stream, &Syrk { n: 2, k: 2, alpha: -1.0, a: x, beta: 3.0, c }).unwrap() };
            assert_eq!(gpu.read::<4>(c.at, size), [3.0 - 10.0, 6.0 - 14.0, 7.0, 12.0 - 20.0]);

            // A pivot that is not positive is told, and an empty matrix is factorised.
            let bits = || gpu.read::<1>(info, 4)[0].to_bits();
            let bad = gpu.matrix(element, 2, &[1.0, 2.0, 0.0, 4.0]);
            // SAFETY: the memory that is named is there, and the stand-ins do all at once.
            unsafe { cuda.potrf(stream, &Potrf { a: bad, ..potrf }).unwrap() };
            assert_eq!(bits(), 2);
            // SAFETY: the memory that is named is there, and the stand-ins do all at once.
            unsafe { cuda.potrf(stream, &Potrf { n: 0, ..potrf }).unwrap() };
            assert_eq!(bits(), 0);
        }
    });
}

#[test]
fn matrices_that_ints_cannot_count_take_the_64_bit_calls() {
    let name = "matrices_that_ints_cannot_count_take_the_64_bit_calls";
    for on_host in ["0", "1000001"] {
        let variables = [LARGE[0], ("MOCK_HOST_SPACE", on_host)];
        let text = with(name, &["cuda", "cusolver"], &variables, || {
            let gpu = Gpu::new();
            let Gpu { cuda, stream } = &gpu;
            let stream = *stream;
            let info = gpu.write(&[9; 4]);
            for element in [Element::F32, Element::F64] {
                let size = element.bytes();
                // 46 340 squared fits an int, 46 341 does not; each stand-in refuses what is the other's.
                assert_eq!(cuda.potrf_workspace(stream, 46_340, element), Ok(463_400 * size));
                for n in [46_341, 100_352] {
                    let workspace_bytes = cuda.potrf_workspace(stream, n, element).unwrap();
                    assert_eq!(workspace_bytes, u64::from(n) * size + 3); // bytes
                    let workspace = cuda.allocate(stream, workspace_bytes).unwrap();
                    let a = Matrix { ld: n + 3, ..gpu.matrix(element, 1, &[4.0]) };
                    let potrf = Potrf { n, a, workspace, workspace_bytes, info };
                    // SAFETY: here and below: the stand-ins look at the first number of the matrix only, and do all at once.
                    unsafe { cuda.potrf(stream, &potrf).unwrap() };
                    assert_eq!(gpu.read(a.at, size as usize), [2.0]);
                    assert_eq!(gpu.read::<1>(info, 4)[0].to_bits(), 0);
                    let a = Matrix { ld: n + 3, ..gpu.matrix(element, 1, &[-4.0]) };
                    // SAFETY: the memory that is named is there, and the stand-ins do all at once.
                    unsafe { cuda.potrf(stream, &Potrf { a, ..potrf }).unwrap() };
                    assert_eq!(gpu.read::<1>(info, 4)[0].to_bits(), 1);
                    let small = Potrf { workspace_bytes: workspace_bytes - 1, ..potrf };
                    // SAFETY: refused.
                    let error = unsafe { cuda.potrf(stream, &small).unwrap_err() };
                    assert!(error.to_string().contains("bytes of working space"), "{error}");
                    // SAFETY: the memory that is named is there, and the stand-ins do all at once.
                    unsafe { cuda.free(stream, workspace).unwrap() };
                }
            }
            // While it is recorded nobody can wait, so that space on the host could go too early.
            let n = 46_342;
            let workspace_bytes = cuda.potrf_workspace(stream, n, Element::F32).unwrap();
            let workspace = cuda.allocate(stream, workspace_bytes).unwrap();
            let a = Matrix { ld: n, ..gpu.matrix(Element::F32, 1, &[4.0]) };
            let potrf = Potrf { n, a, workspace, workspace_bytes, info };
            cuda.begin_capture(stream).unwrap();
            // SAFETY: the memory that is named is there, and the stand-ins do all at once.
            let recorded = unsafe { cuda.potrf(stream, &potrf) };
            assert_eq!(recorded.is_ok(), std::env::var("MOCK_HOST_SPACE").unwrap() == "0", "{recorded:?}");
        });
        assert!(!text.contains("params are left"), "{text}");
    }
}
