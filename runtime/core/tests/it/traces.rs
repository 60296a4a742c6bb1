//! Traces of real runs.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use zellige_runtime::trace::IdleState;
use zellige_runtime::{Runtime, Submit, read, update};

/// Returns a runtime with two workers that have both run a body.
fn awake(trace: bool) -> Runtime {
    let rt = Runtime::builder().workers(2).bind(false).trace(trace).build().unwrap();
    let both = Arc::new(Barrier::new(2));
    for _ in 0..2 {
        let both = Arc::clone(&both);
        rt.task("meet")
            .operands(())
            .cpu(move |()| {
                both.wait();
            })
            .submit()
            .unwrap();
    }
    rt.wait_all().unwrap();
    rt
}

#[test]
fn a_worker_without_work_is_accounted_for() {
    let rt = awake(true);
    let first = rt.take_trace().unwrap();
    assert_eq!((first.tasks.len(), first.lost), (2, 0));

    let x = rt.register(1.0f64);
    for _ in 0..3 {
        let body = |(x,): (&mut f64,)| {
            *x *= 2.0;
            std::thread::sleep(Duration::from_millis(20));
        };
        rt.task("alone").operands((update(&x),)).cpu(body).submit().unwrap();
    }
    rt.wait_all().unwrap();
    let trace = rt.take_trace().unwrap();
    let report = trace.report();
    assert_eq!((report.tasks, report.lost), (3, 0));

    // Only host memory.
    assert!(trace.nodes.is_empty() && trace.transfers.is_empty() && trace.memory.is_empty());
    let [kind] = &report.kinds[..] else { panic!("{:?}", report.kinds) };
    assert_eq!((&*kind.kind, kind.workers), ("cpu", 2));
    // One of the two workers had nothing to do while the other's bodies slept.
    assert!(kind.idle.iter().sum::<Duration>() > Duration::ZERO, "{trace:?}");
    assert_eq!(kind.idle[IdleState::WaitingForData as usize], Duration::ZERO);
    // The records of a worker follow one another, with its bodies between them, also if taking the
    // first trace cut one in two.
    let idle = first.idle.iter().chain(&trace.idle).map(|event| (event.worker, event.start_ns, event.end_ns));
    let bodies = first.tasks.iter().chain(&trace.tasks).map(|task| (task.worker, task.start_ns, task.end_ns));
    let mut times: Vec<(u32, u64, u64)> = idle.chain(bodies).collect();
    times.sort_unstable();
    assert!(times.windows(2).all(|pair| pair[0].0 < pair[1].0 || pair[0].2 <= pair[1].1), "{times:?}");
    assert!(trace.idle.iter().all(|event| event.start_ns < event.end_ns));
    // At some time both workers sleep.
    let asleep = || rt.take_trace().unwrap().idle.iter().any(|event| event.state == IdleState::Sleeping);
    let slept = trace.idle.iter().any(|event| event.state == IdleState::Sleeping);
    assert!(
        slept
            || (0..5000).any(|_| {
                std::thread::sleep(Duration::from_millis(2));
                asleep()
            })
    );
    assert_eq!(rt.take(x).unwrap(), 8.0);
}

#[test]
fn a_tiny_trace_loses_records_and_says_so() {
    let rt = Runtime::builder().workers(1).bind(false).trace_capacity(2).build().unwrap();
    let x = rt.register(1.0f64);
    for _ in 0..20 {
        rt.task("read").operands((read(&x),)).cpu(|_| ()).submit().unwrap();
        // The worker runs out of work each time: more idle intervals than there is room for.
        rt.wait_all().unwrap();
    }
    let trace = rt.take_trace().unwrap();
    assert_eq!(trace.tasks.len(), 2);
    // Two that fit, and the open one.
    assert!(trace.idle.len() <= 2 * 2 + 1, "{}", trace.idle.len());
    assert!(trace.lost >= 18, "{}", trace.lost);
}

#[test]
fn without_a_trace_there_is_none() {
    assert!(awake(false).take_trace().is_none());
}
