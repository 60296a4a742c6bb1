use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zellige_mpi::{Cluster, ClusterError, Local, RemoteError, Transport, TransportError, Waker, run_local};
use zellige_runtime::{Cause, Error, Failure, Handle, Runtime, Slot, Submit, read, update, write};

/// Longer than any of these takes.
const HANG: Duration = Duration::from_secs(60);

/// Runs a program on a thread for each transport; what each has returned. A hang is a failed test.
fn run<T: Transport, R: Send + 'static>(
    transports: impl IntoIterator<Item = T>,
    timeout: Duration,
    program: impl Fn(Cluster) -> R + Send + Sync + 'static,
) -> Vec<R> {
    let program = Arc::new(program);
    let begin = |transport: T| {
        let (program, (done, end)) = (Arc::clone(&program), std::sync::mpsc::channel());
        std::thread::spawn(move || {
            let runtime = Runtime::builder().workers(1).bind(false).build().unwrap();
            let cluster = Cluster::with_timeout(runtime, transport, timeout).unwrap();
            done.send(program(cluster)).unwrap();
        });
        end
    };
    let ends: Vec<_> = transports.into_iter().map(begin).collect();
    ends.into_iter().map(|end| end.recv_timeout(HANG).expect("it ends, and does not panic")).collect()
}

#[derive(Debug, thiserror::Error)]
#[error("no pivot in row {0}")]
struct NoPivot(usize);

/// A chain of tasks on data of all ranks in turn, one of which fails.
fn chain(cluster: &Cluster, fails: usize) -> Result<Vec<Handle<u64>>, Error> {
    let data: Vec<Handle<u64>> = (0..cluster.ranks())
        .map(|rank| cluster.register_on(rank, || 1).map(|handle| handle.named(format!("x{rank}"))))
        .collect::<Result<_, _>>()?;
    for step in 0..2 * data.len() {
        let (from, to) = (&data[step % data.len()], &data[(step + 1) % data.len()]);
        let body = move |(from, to): (&u64, &mut u64)| {
            if step == fails {
                return Err(NoPivot(step));
            }
            *to += from;
            Ok(())
        };
        cluster.task("link").operands((read(from), update(to))).cpu(body).coords([step as u32]).submit()?;
    }
    Ok(data)
}

fn check_failure(failure: &Failure, rank: usize, of: usize) {
    assert_eq!(
        (failure.task.as_str(), &failure.operands[..]),
        ("link[1]", &["x1".to_string(), "x2".into()][..])
    );
    if rank == of {
        assert!(matches!(failure.downcast_ref(), Some(NoPivot(1))), "{failure}");
    } else {
        let remote: &RemoteError = failure.downcast_ref().expect("of another rank");
        assert_eq!((remote.rank, remote.message.as_str()), (of, "no pivot in row 1"));
    }
}

#[test]
fn a_failure_reaches_every_rank_that_needs_the_result() {
    run_local(3, 1, |cluster| {
        let data = chain(cluster, 1).unwrap();
        // All that comes after has no value, on whatever rank.
        let Err(Error::Failed(failure)) = cluster.wait_all() else { panic!("a task has failed") };
        check_failure(&failure, cluster.rank(), 2);
        for datum in [&data[0], &data[1], &data[2]] {
            let Err(Error::Poisoned { failure, .. }) = cluster.read(datum).map(drop) else {
                panic!("poisoned")
            };
            check_failure(&failure, cluster.rank(), 2);
        }
        // It was reported once.
        cluster.wait_all().unwrap();
        // What is written whole has a value again, everywhere.
        for datum in &data {
            let anew = |(mut slot,): (Slot<'_, u64>,)| slot.put(7);
            cluster.task("anew").operands((write(datum),)).cpu(anew).submit().unwrap();
        }
        for datum in &data {
            assert_eq!(*cluster.read(datum).unwrap(), 7);
        }
    })
    .unwrap();
}

#[test]
fn a_panic_in_a_body_is_a_failure_too() {
    run_local(2, 1, |cluster| {
        let (x, y) = (cluster.register(1u64), cluster.register_on(1, || 0u64).unwrap());
        cluster.task("bad").operands((update(&x),)).cpu(|(_,)| panic!("seven")).submit().unwrap();
        let add = |(x, y): (&u64, &mut u64)| *y += x;
        cluster.task("add").operands((read(&x), update(&y))).cpu(add).submit().unwrap();
        let Err(Error::Poisoned { failure, .. }) = cluster.read_on(1, &y).map(drop) else {
            return assert_eq!(cluster.rank(), 0);
        };
        assert_eq!(
            failure.to_string(),
            format!("task bad on ({}): panicked: seven (on rank 0)", failure.operands[0])
        );
    })
    .unwrap();
}

#[test]
fn cancellation_is_everybodys() {
    run_local(3, 1, |cluster| {
        let gate = cluster.register(0u64);
        // On rank 0 nothing begins until this is dropped.
        let held = (cluster.rank() == 0).then(|| cluster.runtime().write(&gate).unwrap());
        let data: Vec<_> = (0..3).map(|rank| cluster.register_on(rank, || 0u64).unwrap()).collect();
        for datum in &data {
            let add = |(x, y): (&u64, &mut u64)| *y += x;
            cluster.task("add").operands((read(&gate), update(datum))).cpu(add).submit().unwrap();
        }
        if cluster.rank() == 0 {
            cluster.cancel_all();
        }
        drop(held);
        // What was cancelled is no failure, and nobody waits for it.
        cluster.wait_all().unwrap();
        let Err(Error::Poisoned { failure, .. }) = cluster.read(&data[0]).map(drop) else {
            panic!("cancelled")
        };
        assert!(matches!(failure.cause, Cause::Cancelled), "{failure}");
    })
    .unwrap();
}

#[test]
fn different_submissions_are_found_and_named() {
    for odd in 0..3 {
        let errors = run_local(3, 1, |cluster| {
            let program = || {
                let data = chain(cluster, usize::MAX)?;
                let body = |(x,): (&mut u64,)| *x += 1;
                let at = if cluster.rank() == odd { 2 } else { 0 };
                cluster.task("odd").operands((update(&data[at]),)).cpu(body).coords([5]).submit()?;
                cluster.wait_all()
            };
            program().unwrap_err().to_string()
        });
        // Registrations, links, then this.
        let step = 3 + 6;
        for error in errors.unwrap() {
            assert!(error.contains(&format!("differ from step {step} on")), "{error}");
            assert!(error.contains("odd[5] (datum 0)") && error.contains("odd[5] (datum 2)"), "{error}");
        }
    }
}

#[test]
fn a_task_that_only_one_rank_submits_is_found() {
    let errors = run_local(2, 1, |cluster| {
        let data = chain(cluster, usize::MAX).unwrap();
        if cluster.rank() == 1 {
            let body = |(x,): (&mut u64,)| *x += 1;
            cluster.task("extra").operands((update(&data[0]),)).cpu(body).submit().unwrap();
        }
        cluster.wait_all().unwrap_err().to_string()
    });
    for error in errors.unwrap() {
        assert!(error.contains("extra (datum 0)") && error.contains("wait_all"), "{error}");
    }
}

#[test]
fn a_rank_that_ends_is_named() {
    let begin = Instant::now();
    let errors = run(Local::ranks(3), HANG, |cluster| {
        if cluster.rank() == 2 {
            return None;
        }
        chain(&cluster, usize::MAX).unwrap();
        Some(cluster.wait_all().unwrap_err().to_string())
    });
    assert!(begin.elapsed() < HANG, "no time-out was needed");
    for error in errors.into_iter().flatten() {
        assert!(error.contains("rank 2 has ended, after 0 steps"), "{error}");
    }
}

#[test]
fn a_program_that_panics_is_named() {
    let ends = std::panic::catch_unwind(|| {
        run_local(2, 1, |cluster| {
            chain(cluster, usize::MAX).unwrap();
            assert_eq!(cluster.rank(), 0, "on purpose");
            let error = cluster.wait_all().unwrap_err();
            assert!(error.to_string().contains("rank 1 could not go on: its program panicked"), "{error}");
        })
    });
    assert!(ends.unwrap_err().downcast_ref::<String>().is_some_and(|message| message.contains("on purpose")));
}

/// A transport that sends as it is told to.
struct Sending<F>(Local, F);

impl<F: FnMut(&mut Local, usize, Vec<u8>) -> Result<(), TransportError> + Send + 'static> Transport
    for Sending<F>
{
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn ranks(&self) -> usize {
        self.0.ranks()
    }

    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), TransportError> {
        (self.1)(&mut self.0, to, message)
    }

    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError> {
        self.0.receive()
    }

    fn wait(&mut self, at_most: Duration) {
        self.0.wait(at_most);
    }

    fn waker(&self) -> Waker {
        self.0.waker()
    }
}

#[test]
fn a_rank_that_is_silent_is_named_within_the_time() {
    let severed = Arc::new(AtomicBool::new(false));
    let ranks = Local::ranks(3).into_iter().map(|local| {
        let severed = Arc::clone(&severed);
        Sending(local, move |local: &mut Local, to, message| {
            if local.rank() == 2 && severed.load(Ordering::SeqCst) { Ok(()) } else { local.send(to, message) }
        })
    });
    let errors = run(ranks.collect::<Vec<_>>(), Duration::from_millis(400), move |cluster| {
        let x = cluster.register_on(2, || 1u64).unwrap();
        cluster.wait_all().unwrap();
        if cluster.rank() == 2 {
            severed.store(true, Ordering::SeqCst);
        }
        let result = cluster.read_on(0, &x).map(|value| value.map(|value| *value));
        let all = cluster.wait_all();
        match (cluster.rank(), result) {
            (0, Err(error)) => Some(error.to_string()),
            (1, _) => Some(all.unwrap_err().to_string()),
            _ => None,
        }
    });
    // Rank 0 may have had the value before the line was cut, which only the second call sees.
    for error in errors.into_iter().flatten() {
        assert!(error.contains("nothing has come from rank 2 for"), "{error}");
    }
}

#[test]
fn a_transport_that_fails_is_an_error() {
    let fails = |_: &mut Local, _, _| Err(TransportError("the cable is out".into()));
    let ranks = Local::ranks(2).into_iter().map(|local| Sending(local, fails));
    let errors = run(ranks.collect::<Vec<_>>(), HANG, |cluster| {
        chain(&cluster, usize::MAX).unwrap_or_default();
        cluster.wait_all().unwrap_err()
    });
    for error in errors {
        let Error::Cluster(cause) = &error else { panic!("{error}") };
        let cause: Option<&ClusterError> = cause.downcast_ref();
        assert!(matches!(cause, Some(ClusterError::Transport { .. })), "{error}");
        assert!(error.to_string().contains("the cable is out"), "{error}");
    }
}
