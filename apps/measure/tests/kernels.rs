//! Checks of kernels on GPUs that are not there: the kernels' own sources on the host, and a driver
//! that checks the order of streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zellige_cuda::Gpu;
use zellige_gpu::Gemm;
use zellige_gpu::mock::Mock;
use zellige_kernels::cuda::SOURCES;
use zellige_measure::selftest::kernels::{Extent, KernelCheck, kernels};
use zellige_measure::selftest::{faulty_kernel, too_much_memory};
use zellige_runtime::Runtime;
use zellige_twins::mock_with_wrong_products;

fn mock(seed: u64) -> Option<Arc<Mock>> {
    Some(Arc::new(zellige_twins::mock(SOURCES)?.seed(seed).build()))
}

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Without CPU workers, tasks without a GPU implementation are refused.
fn only_gpu(mock: &Arc<Mock>) -> Runtime {
    let builder = Runtime::builder().workers(0).policy("lws");
    builder.device(Gpu::new(mock.clone(), 0).memory(1 << 28)).build().unwrap()
}

/// Checks that there are no leaks and no violations.
fn check(mock: &Mock) {
    assert_eq!(mock.violations(), [] as [String; 0]);
    assert_eq!(mock.leaks(), [] as [String; 0]);
}

fn verified(rt: &Runtime, extent: Extent) -> Vec<KernelCheck> {
    kernels(rt, &runtime(1), &extent, (9, 0), &|_| {})
}

/// Checks every kernel in every precision against its bounds, and that no bound is so wide that it
/// is useless.
#[test]
fn every_kernel_is_within_its_bounds() {
    let Some(mock) = mock(12) else { return };
    let rt = only_gpu(&mock);
    let checks = verified(&rt, Extent { tiles: 40, largest: 80, seed: 1 });
    assert_eq!(checks.len(), 4 + 9 + 2 * 4 + 2);
    for check in &checks {
        println!("{check:?}");
        assert!(check.passed(), "{check:?}");
        // The mock sums in f64 as the reference does.
        let exact = check.kernel == "convert" || check.precision == "fp64"
            // Solved in f32, where the bound is that of halves in TF32.
            || check.kernel == "trsm" && check.precision == "tf32";
        assert!(exact || check.error > 1e-3, "{check:?}: a bound that is never near");
    }
    // Each narrow tile of the conversions was made on the device, and each wide one from it.
    let converted = rt.memory().iter().find(|node| node.name != "host").map_or(0, |node| node.conversions);
    assert!(converted >= 4 * 8 * 2, "{converted} conversions");
    drop((checks, rt));
    // The CPU's own kernels are no distance from themselves.
    for check in verified(&runtime(2), Extent { tiles: 10, largest: 80, seed: 2 }) {
        assert!(check.passed() && check.apart == 0.0, "{check:?}");
    }
}

#[test]
fn a_device_that_is_wrong_once_in_a_while_is_found_out() {
    let products = AtomicU64::new(0);
    // The sign of one entry.
    let change = move |_: &Gemm, _: [&[u8]; 2], c: &mut [u8]| {
        let last = c.len() - 1;
        c[last] ^= if products.fetch_add(1, Ordering::Relaxed).is_multiple_of(7) { 0x80 } else { 0 };
    };
    let Some(mock) = mock_with_wrong_products(SOURCES, change) else { return };
    let mock = Arc::new(mock.build());
    let rt = only_gpu(&mock);
    // Beyond tiles of 64, which a kernel multiplies.
    for check in verified(&rt, Extent { tiles: 40, largest: 100, seed: 3 }) {
        // Updates and solves are products too, but in their own precision.
        let products = ["tf32", "x3"].contains(&check.precision) && check.kernel != "convert";
        assert!(check.passed() != (check.kernel == "gemm") || products, "{check:?}");
    }
}

#[test]
fn a_faulting_kernel_costs_the_device_and_no_value() {
    let Some(mock) = mock(13) else { return };
    let rt = Runtime::builder().workers(1).device(Gpu::new(mock.clone(), 0)).build().unwrap();
    let failure = faulty_kernel(&rt).unwrap().expect("a GPU that writes nowhere is retired");
    assert!(failure.contains("cuLaunchKernel") || failure.contains("0x200"), "{failure}");
    drop(rt);
    assert_eq!(mock.violations().len(), 1, "{:?}", mock.violations());
}

#[test]
fn a_body_that_wants_too_much_is_told_so_and_the_device_goes_on() {
    let Some(mock) = mock(14) else { return };
    let rt = only_gpu(&mock);
    let message = too_much_memory(&rt).unwrap().expect("there is no such memory");
    assert!(message.contains("GPU 0"), "{message}");
    drop(rt);
    check(&mock);
}
