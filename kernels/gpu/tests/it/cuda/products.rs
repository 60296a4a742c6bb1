//! Products and routines of tiles, and the handles that they are called with.

use super::*;

#[test]
fn products_get_what_they_document() {
    use Transpose::{No, Yes};
    with("products_get_what_they_document", &["cuda", "cublas"], &LARGE, || {
        let gpu = Gpu::new();
        // A = [1 2 3; 4 5 6] and B = [1 0; 0 1; 1 1], so A B = [4 5; 10 11]; not transposed and
        // transposed, with 9 between columns.
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
                // SAFETY: the matrices exist, and the stand-ins run calls synchronously.
                unsafe { gpu.cuda.gemm(gpu.stream, &gemm(ops, [2, 2, 3], [a, b, c], compute)).unwrap() };
                let found: [f32; 6] = gpu.read(c.at, out.bytes() as usize);
                assert_eq!(found, [7.0, 20.0, 9.0, 10.0, 21.0, 9.0], "{compute:?} {element:?} {ops:?}");
            }
        }
    });
}

/// Destroying a handle waits for the whole GPU, and may end a recording on another thread: those of
/// streams that go are the next ones', and all are destroyed with their GPU.
#[test]
fn handles_live_as_long_as_their_gpu() {
    let text = with("handles_live_as_long_as_their_gpu", &["cuda", "cublas", "cusolver"], &LARGE, || {
        let gpu = Gpu::new();
        let Gpu { cuda, .. } = &gpu;
        let free = cuda.memory(0).unwrap().0;
        cuda.load_libraries(0).unwrap();
        cuda.load_libraries(0).unwrap();
        // Their working space was freed with the stream on which they were created.
        assert_eq!(cuda.memory(0).unwrap().0, free);
        let [a, b, c] = [(); 3].map(|()| gpu.matrix(Element::F32, 1, &[3.0]));
        let product = gemm((Transpose::No, Transpose::No), [1, 1, 1], [a, b, c], Compute::F32);
        let other = cuda.create_stream(0, false).unwrap();
        cuda.begin_capture(other).unwrap();
        for _ in 0..3 {
            let stream = cuda.create_stream(0, false).unwrap();
            // SAFETY: the matrices exist, and the stand-ins run calls synchronously.
            unsafe { cuda.gemm(stream, &product).unwrap() };
            cuda.destroy_stream(stream);
        }
        cuda.end_capture(other).unwrap();
        eprintln!("the driver goes");
    });
    if !text.is_empty() {
        let (before, after) = text.split_once("the driver goes").unwrap();
        // One handle is shared by all streams except the captured one, the other is that one's.
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
            // SAFETY: the matrices exist, and the stand-ins run calls synchronously.
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
            // The stand-in refuses factors that are not in the memory of its pointer mode. The
            // host's factors work after each of the others.
            // SAFETY: here and below: the matrices exist, and the stand-ins run calls
            // synchronously.
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
                    // SAFETY: the memory that is named exists, and the stand-ins run calls
                    // synchronously.
                    unsafe { gpu.cuda.gemm_batched(gpu.stream, &batch).unwrap() };
                    expected = expected.map(|c| alpha * 35.0 + beta * c);
                    assert_eq!(gpu.read(c.at, 4), expected);
                }
            }
            let syrk = Syrk { n: 1, k: 1, alpha: 1.0, a, beta: 0.0, c };
            product(device).unwrap();
            // SAFETY: the memory that is named exists, and the stand-ins run calls synchronously.
            unsafe { gpu.cuda.syrk(gpu.stream, &syrk).unwrap() };
            assert_eq!(gpu.read(c.at, 4), [25.0, expected[1]]);
        }
        // Also where the product fails: the stand-in has none with a 16-bit C.
        let [a, b, c] = [(); 3].map(|()| gpu.matrix(Element::F16, 1, &[1.0]));
        let half = gemm(ops, [1, 1, 1], [a, b, c], Compute::F32);
        // SAFETY: the memory that is named exists, and the stand-ins run calls synchronously.
        let error = unsafe { gpu.cuda.gemm(gpu.stream, &Gemm { factors: device, ..half }).unwrap_err() };
        assert!(error.to_string().contains("cublasGemmEx"), "{error}");
        let c = gpu.matrix(Element::F32, 1, &[1.0]);
        // SAFETY: the memory that is named exists, and the stand-ins run calls synchronously.
        unsafe { gpu.cuda.gemm(gpu.stream, &Gemm { c, ..half }).unwrap() };
        assert_eq!(gpu.read(c.at, 4), [1.0]);
    });
}

#[test]
fn eight_bit_numbers_are_multiplied_as_documented() {
    with("eight_bit_numbers_are_multiplied_as_documented", &["cuda", "cublasLt"], &LARGE, || {
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
            // The second time uses the kernel that was chosen the first time: the stand-in chooses
            // once for each location of factors, and refuses factors in another one.
            // SAFETY: the matrices exist, and the stand-ins run calls synchronously.
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

/// Tests a shape for which the library has no kernel: the caller computes the product by another
/// method.
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
            // SAFETY: here and below: the matrices exist, and the stand-ins run calls
            // synchronously.
            unsafe { cuda.potrf(stream, &potrf).unwrap() };
            assert_eq!(gpu.read::<6>(a.at, size), [2.0, 1.0, 9.0, 7.0, 3.0, 9.0]);

            let b = gpu.matrix(element, 2, &[2.0, 9.0, 10.0, 9.0]);
            let trsm = Trsm { side: Side::Right, op: Transpose::Yes, m: 1, n: 2, l: a, b };
            // SAFETY: the memory that is named exists, and the stand-ins run calls synchronously.
            unsafe { cuda.trsm(stream, &trsm).unwrap() };
            assert_eq!(gpu.read::<4>(b.at, size), [1.0, 9.0, 3.0, 9.0]);

            let x = gpu.matrix(element, 3, &[1.0, 2.0, 9.0, 3.0, 4.0, 9.0]);
            let c = gpu.matrix(element, 2, &[1.0, 2.0, 7.0, 4.0]);
            // SAFETY: the memory that is named exists, and the stand-ins run calls synchronously.
            unsafe { cuda.syrk(stream, &Syrk { n: 2, k: 2, alpha: -1.0, a: x, beta: 3.0, c }).unwrap() };
            assert_eq!(gpu.read::<4>(c.at, size), [3.0 - 10.0, 6.0 - 14.0, 7.0, 12.0 - 20.0]);

            // A pivot that is not positive is reported, and an empty matrix is factorised.
            let bits = || gpu.read::<1>(info, 4)[0].to_bits();
            let bad = gpu.matrix(element, 2, &[1.0, 2.0, 0.0, 4.0]);
            // SAFETY: the memory that is named exists, and the stand-ins run calls synchronously.
            unsafe { cuda.potrf(stream, &Potrf { a: bad, ..potrf }).unwrap() };
            assert_eq!(bits(), 2);
            // SAFETY: the memory that is named exists, and the stand-ins run calls synchronously.
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
                // 46 340 squared fits an int, 46 341 does not; each stand-in refuses what is the
                // other's.
                assert_eq!(cuda.potrf_workspace(stream, 46_340, element), Ok(463_400 * size));
                for n in [46_341, 100_352] {
                    let workspace_bytes = cuda.potrf_workspace(stream, n, element).unwrap();
                    assert_eq!(workspace_bytes, u64::from(n) * size + 3); // bytes
                    let workspace = cuda.allocate(stream, workspace_bytes).unwrap();
                    let a = Matrix { ld: n + 3, ..gpu.matrix(element, 1, &[4.0]) };
                    let potrf = Potrf { n, a, workspace, workspace_bytes, info };
                    // SAFETY: here and below: the stand-ins read the first number of the matrix
                    // only, and run calls synchronously.
                    unsafe { cuda.potrf(stream, &potrf).unwrap() };
                    assert_eq!(gpu.read(a.at, size as usize), [2.0]);
                    assert_eq!(gpu.read::<1>(info, 4)[0].to_bits(), 0);
                    let a = Matrix { ld: n + 3, ..gpu.matrix(element, 1, &[-4.0]) };
                    // SAFETY: the memory that is named exists, and the stand-ins run calls
                    // synchronously.
                    unsafe { cuda.potrf(stream, &Potrf { a, ..potrf }).unwrap() };
                    assert_eq!(gpu.read::<1>(info, 4)[0].to_bits(), 1);
                    let small = Potrf { workspace_bytes: workspace_bytes - 1, ..potrf };
                    // SAFETY: refused.
                    let error = unsafe { cuda.potrf(stream, &small).unwrap_err() };
                    assert!(error.to_string().contains("bytes of working space"), "{error}");
                    // SAFETY: the memory that is named exists, and the stand-ins run calls
                    // synchronously.
                    unsafe { cuda.free(stream, workspace).unwrap() };
                }
            }
            // No call can wait during a capture, so that space on the host could be freed too
            // early.
            let n = 46_342;
            let workspace_bytes = cuda.potrf_workspace(stream, n, Element::F32).unwrap();
            let workspace = cuda.allocate(stream, workspace_bytes).unwrap();
            let a = Matrix { ld: n, ..gpu.matrix(Element::F32, 1, &[4.0]) };
            let potrf = Potrf { n, a, workspace, workspace_bytes, info };
            cuda.begin_capture(stream).unwrap();
            // SAFETY: the memory that is named exists, and the stand-ins run calls synchronously.
            let recorded = unsafe { cuda.potrf(stream, &potrf) };
            assert_eq!(recorded.is_ok(), std::env::var("MOCK_HOST_SPACE").unwrap() == "0", "{recorded:?}");
        });
        assert!(!text.contains("params are left"), "{text}");
    }
}
