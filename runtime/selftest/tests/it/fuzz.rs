//! Random graphs on random machines: a quick, seeded set. `zellige selftest` runs any number of
//! them.

use std::sync::Arc;

use zellige_gpu::Driver;
use zellige_gpu::source::Source;
use zellige_selftest::{Fuzz, FuzzReport, SOURCE};
use zellige_tests::amount;
use zellige_twins::mock;

fn passes(fuzz: Fuzz) -> FuzzReport {
    let report = fuzz.run(|_, _| true);
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    report
}

#[test]
fn a_quick_set_comes_to_what_it_should() {
    let report = passes(Fuzz {
        graphs: amount(200) as u64,
        seed: 1_000_000,
        jobs: 2,
        deaths: false,
        ..Fuzz::default()
    });
    assert_eq!(report.counts.graphs, amount(200) as u64);
    assert!(report.eviction_share() >= 0.3 && report.conversion_share() >= 0.3, "{report:?}");
    let counts = report.counts;
    assert!(counts.write_backs > 0 && counts.prefetch_hits > 0 && counts.bytes_moved > 0, "{counts:?}");
    assert!(counts.graphs_with_disk_writes > 20, "{counts:?}");
    assert!(counts.graphs_with_gpus > 40 && counts.launched_in_stream_order > 20, "{counts:?}");
    assert!(counts.graphs_launched > 20, "{counts:?}");
    assert!(counts.graphs_with_parts > 33, "{counts:?}");
    assert!(counts.device_deaths == 0 && report.by_policy.len() > 6);
}

#[test]
fn dying_devices_take_only_what_was_nowhere_else() {
    let report =
        passes(Fuzz { graphs: amount(100) as u64, seed: 0, jobs: 2, deaths: true, ..Fuzz::default() });
    assert!(report.counts.device_deaths > 3, "{report:?}");
}

/// The same cases in orders that threads rarely take, and that a seed reproduces.
#[test]
fn on_one_thread_any_order_comes_to_the_same() {
    for deaths in [false, true] {
        let fuzz = Fuzz { graphs: amount(200) as u64, seed: 3_000_000, jobs: 2, deaths, ..Fuzz::default() };
        let report = passes(Fuzz { single_threaded: true, ..fuzz });
        let counts = report.counts;
        assert!(counts.graphs_with_disk_writes > 20 && counts.graphs_with_gpus == 0, "{counts:?}");
        assert_eq!(counts.device_deaths > 3, deaths, "{counts:?}");
    }
}

/// Tasks that requested narrow forms and an operand of unknown size were counted with their stored
/// sizes, and refused.
#[test]
fn what_is_not_known_does_not_widen_the_rest() {
    for seed in [5_005_232, 5_031_267, 5_093_475] {
        passes(Fuzz { graphs: 1, seed, deaths: true, ..Fuzz::default() });
    }
}

/// Two custom GPUs, whose kernels are the CUDA source compiled for the host. As on real ones, many
/// cases share one driver, and bodies are independent of those on CPUs.
#[test]
fn gpus_from_outside_come_to_the_same() {
    let Some(mock) = mock([&SOURCE]) else { return };
    let driver = Arc::new(mock.gpus(2).seed(4).build());
    let gpus: Option<Arc<dyn Driver>> = Some(Arc::clone(&driver) as _);
    let fuzz =
        Fuzz { graphs: amount(40) as u64, seed: 2_000_000, jobs: 2, deaths: true, gpus, ..Fuzz::default() };
    let report = passes(fuzz);
    assert!(report.counts.graphs_with_gpus > 26 && report.counts.device_deaths > 0, "{report:?}");
    assert_eq!(driver.violations(), Vec::<String>::new());
    assert_eq!(driver.leaks(), Vec::<String>::new());
}

/// A kernel with a wrong result is detected.
#[test]
fn gpus_from_outside_are_judged() {
    let wrong = SOURCE.text.replace("+ blend(seed, i)", "+ blend(seed, i) + 1");
    assert_ne!(wrong, SOURCE.text);
    let Some(mock) = mock([&Source { text: wrong.leak(), ..SOURCE }]) else { return };
    let gpus: Option<Arc<dyn Driver>> = Some(Arc::new(mock.build()));
    let report = Fuzz { graphs: 12, gpus, ..Fuzz::default() }.run(|_, _| true);
    assert!(!report.failures.is_empty());
}

#[test]
fn a_run_can_be_stopped() {
    let report = Fuzz { graphs: 1000, seed: 5, ..Fuzz::default() }.run(|done, _| done < 3);
    assert_eq!(report.counts.graphs, 3);
}
