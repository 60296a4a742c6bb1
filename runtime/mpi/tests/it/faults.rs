//! Faults that can only be produced with ranks that are threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zellige_mpi::{Cluster, ClusterError, Local, Transport, TransportError, Waker, run_local};
use zellige_runtime::{Error, Runtime};

use crate::programs::faults::chain;

/// Timeout: longer than any of these tests takes.
const HANG: Duration = Duration::from_secs(60);

/// Runs a program on a thread for each transport and returns the results. A hang fails the test.
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

/// A transport whose sends follow a given function.
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

    fn wait(&mut self, at_most: Duration, is_idle: &dyn Fn() -> bool) {
        self.0.wait(at_most, is_idle);
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
