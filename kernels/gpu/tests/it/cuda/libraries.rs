//! Tests of the search for libraries and GPUs, and of the messages for missing ones.

use super::*;

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
                // SAFETY: the memory exists, and the stand-ins run calls synchronously.
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
        // Calls that need no library still work, captures too.
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
        // A value that the GPU does not report is missing, and the rest is present.
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

/// Tests libraries in the folders of Python wheels and in a named folder: the loader finds none of
/// them.
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
    // A version that the driver, which supports 12.9, does not support; cuSOLVER's number is one
    // less.
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
