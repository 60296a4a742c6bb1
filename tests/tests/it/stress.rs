//! Thousands of random graphs against a sequential oracle: every access, every policy, small
//! windows, failures.

use std::sync::Arc;
use std::time::Duration;

use zellige_runtime::{Bindings, Error, Runtime};
use zellige_tests::amount;

use crate::common::graphs::{self, GraphSpec, Menu, Number};
use crate::common::oracle::{self, Known};
use crate::common::{policies, within};

const LIMIT: Duration = Duration::from_secs(240);

/// Tasks that are meant to panic do not print: their messages would hide those of a test.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&"meant to panic") {
                usual(info);
            }
        }));
    });
}

fn compare(what: &str, rt: &Runtime, handles: Vec<zellige_runtime::Handle<Number>>, expected: &[Known]) {
    for (i, (handle, known)) in handles.into_iter().zip(expected).enumerate() {
        let found = rt.take(handle);
        match (known, &found) {
            (Known::Value(n) | Known::Either(n), Ok(value)) if value == n => {}
            (Known::Poisoned | Known::Either(_), Err(Error::Poisoned { .. })) => {}
            (Known::Unwritten, Err(Error::Unwritten { .. })) => {}
            _ => panic!("{what}: handle {i}: expected {known:?}, found {found:?}"),
        }
    }
}

/// Runs `graphs` graphs on every policy, each on another number of workers and window.
fn stress(name: &'static str, menu: Menu, graphs: usize, run: fn(&str, &Runtime, &GraphSpec)) {
    quiet();
    let graphs = amount(graphs);
    within(name, LIMIT, move || {
        for policy in policies::ALL {
            for (workers, window) in [(1, 8192), (2, 8192), (2, 1), (3, 7), (5, 2)] {
                let rt = policies::runtime(policy, workers, window, workers == 3);
                let base = (workers * 100 + window) as u64 * 1_000_003;
                for seed in base..base + graphs.div_ceil(5) as u64 {
                    let what = format!("{name}, {policy}, {workers} workers, window {window}, seed {seed}");
                    run(&what, &rt, &graphs::random(seed, menu));
                }
            }
        }
    });
}

fn submitted(what: &str, rt: &Runtime, graph: &GraphSpec) {
    let handles = graphs::register(rt, graph);
    graphs::submit(rt, graph, &handles).unwrap_or_else(|e| panic!("{what}: {e}"));
    compare(what, rt, handles, &oracle::run(graph, 1));
}

#[test]
fn ordered_accesses_equal_the_oracle() {
    stress("ordered", Menu { unordered: false, ..Menu::FULL }, 100, submitted);
}

#[test]
fn every_access_equals_the_oracle() {
    stress("every access", Menu::FULL, 100, submitted);
}

#[test]
fn failures_poison_what_the_oracle_says() {
    stress("failures", Menu { failures: 0.03, ..Menu::FULL }, 40, submitted);
    stress("many failures", Menu { failures: 0.3, tasks: 30, ..Menu::FULL }, 40, submitted);
}

#[test]
fn replays_equal_submissions() {
    fn replayed(what: &str, rt: &Runtime, graph: &GraphSpec) {
        let handles = graphs::register(rt, graph);
        let recorded = rt
            .record(|g| graphs::submit(g, graph, &handles).map(drop))
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let bindings = Bindings::recorded(&recorded);
        for _ in 0..3 {
            rt.replay(&bindings).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        compare(what, rt, handles, &oracle::run(graph, 3));
    }
    stress("replays", Menu { unwritten: false, ..Menu::FULL }, 40, replayed);
    stress("failing replays", Menu { unwritten: false, failures: 0.02, ..Menu::FULL }, 40, replayed);
}

#[test]
fn cancelled_graphs_leave_values_or_poison() {
    fn cancelled(what: &str, rt: &Runtime, graph: &GraphSpec) {
        let handles = graphs::register(rt, graph);
        let canceller = rt.canceller();
        let refs = std::thread::scope(|scope| {
            scope.spawn(move || canceller.cancel_all());
            graphs::submit(rt, graph, &handles).unwrap_or_else(|e| panic!("{what}: {e}"))
        });
        rt.cancel_all();
        assert!(matches!(rt.wait_all(), Ok(()) | Err(Error::Failed(_))), "{what}");
        for task in &refs {
            // Each is complete, whatever became of it.
            let _ = rt.wait(task);
        }
        let either = oracle::run(graph, 1).into_iter().map(|known| match known {
            Known::Value(n) => Known::Either(n),
            other => other,
        });
        // A write that was cancelled leaves poison, one that ran before leaves the value of that
        // time: only graphs without writes have one value to expect.
        let writes = graph.tasks.iter().any(|t| t.change.iter().any(|c| c.1 == graphs::Change::Write));
        if writes {
            for handle in handles {
                match rt.take(handle) {
                    Ok(_) | Err(Error::Poisoned { .. } | Error::Unwritten { .. }) => {}
                    Err(e) => panic!("{what}: {e}"),
                }
            }
        } else {
            compare(what, rt, handles, &either.collect::<Vec<_>>());
        }
        // And the runtime goes on.
        let x = zellige_runtime::Submit::register(rt, 1u64);
        zellige_runtime::Submit::task(rt, "after")
            .operands((zellige_runtime::update(&x),))
            .cpu(|(x,)| *x += 1)
            .submit()
            .unwrap();
        assert_eq!(rt.take(x).unwrap(), 2, "{what}");
    }
    stress("cancelled", Menu { unwritten: false, ..Menu::FULL }, 40, cancelled);
}

#[test]
fn many_threads_submit_at_once() {
    quiet();
    let graphs = amount(40);
    within("many threads", LIMIT, move || {
        for policy in policies::ALL {
            let rt = policies::runtime(policy, 2, 16, true);
            let common = zellige_runtime::Submit::register(&rt, 0u64);
            std::thread::scope(|scope| {
                for thread in 0..4u64 {
                    let (rt, common) = (&rt, &common);
                    scope.spawn(move || {
                        for seed in 0..graphs.div_ceil(5) as u64 {
                            let seed = 77_000_000 + thread * 1_000_000 + seed;
                            submitted(
                                &format!("{policy}, seed {seed}"),
                                rt,
                                &graphs::random(seed, Menu { failures: 0.01, ..Menu::FULL }),
                            );
                            zellige_runtime::Submit::task(rt, "count")
                                .operands((zellige_runtime::commute(common),))
                                .cpu(|(count,)| *count += 1)
                                .submit()
                                .unwrap();
                        }
                    });
                }
            });
            assert_eq!(rt.take(common).unwrap(), 4 * graphs.div_ceil(5) as u64);
        }
    });
}

#[test]
fn tasks_submit_and_wait_for_whole_graphs() {
    use zellige_runtime::Submit;
    quiet();
    let graphs = amount(40);
    within("nested", LIMIT, move || {
        for policy in policies::ALL {
            for (workers, window) in [(1, 1), (1, 64), (2, 2), (3, 8192)] {
                let rt = Arc::new(policies::runtime(policy, workers, window, false));
                let sums: Vec<_> = (0..graphs.div_ceil(5)).map(|_| rt.register(0u64)).collect();
                for (i, sum) in sums.iter().enumerate() {
                    let weak = Arc::downgrade(&rt);
                    rt.task("outer")
                        .operands((zellige_runtime::update(sum),))
                        .cpu(move |(sum,)| {
                            let rt = weak.upgrade().expect("the test holds it");
                            let seed = 88_000_000 + i as u64;
                            let menu = Menu { tasks: 40, ..Menu::FULL };
                            let what =
                                format!("nested, {policy}, {workers} workers, window {window}, seed {seed}");
                            submitted(&what, &rt, &graphs::random(seed, menu));
                            *sum += 1;
                        })
                        .submit()
                        .unwrap();
                }
                for sum in sums {
                    assert_eq!(rt.take(sum).unwrap_or_else(|e| panic!("{e}")), 1);
                }
            }
        }
    });
}

/// A worker whose body waits has hundreds of others in its queue that wait, too: none of them is
/// run inside another.
#[test]
fn thousands_of_tasks_that_wait_end_under_every_policy() {
    use zellige_runtime::Submit;
    let count = amount(250);
    within("waiting tasks", LIMIT, move || {
        for policy in policies::ALL {
            for workers in [1, 2] {
                let rt = Arc::new(policies::runtime(policy, workers, 100_000, false));
                let sums: Vec<_> = (0..count).map(|_| rt.register(0u64)).collect();
                for sum in &sums {
                    let weak = Arc::downgrade(&rt);
                    rt.task("outer")
                        .operands((zellige_runtime::update(sum),))
                        .cpu(move |(sum,)| {
                            let rt = weak.upgrade().expect("the test holds it");
                            let x = rt.register(1u64);
                            rt.task("inner")
                                .operands((zellige_runtime::update(&x),))
                                .cpu(|(x,)| *x += 1)
                                .submit()?;
                            *sum += rt.take(x)?;
                            Ok::<(), Error>(())
                        })
                        .submit()
                        .unwrap();
                }
                for sum in sums {
                    assert_eq!(rt.take(sum).unwrap(), 2, "{policy}, {workers} workers");
                }
            }
        }
    });
}
