//! Jobs of a caller that several threads run.

use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Runs `work` on each job and returns the results in the order of the jobs; at most `threads` jobs
/// run concurrently.
pub fn concurrent_map<J: Send, R: Send>(
    threads: usize,
    jobs: impl ExactSizeIterator<Item = J> + Send,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    let threads = threads.min(jobs.len());
    if threads <= 1 {
        return jobs.map(work).collect();
    }
    let done = Mutex::new(Vec::with_capacity(jobs.len()));
    let jobs = Mutex::new(jobs.enumerate());
    let share = || {
        // The lock is not held while a job is worked on.
        let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some((at, job)) = next() {
            let result = work(job);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without memory for another thread, those that there are do its work.
            if std::thread::Builder::new().spawn_scoped(scope, share).is_err() {
                break;
            }
        }
        share();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Runs two functions concurrently and returns both results; one after the other if there is no
/// memory for a thread.
pub fn join<A, B: Send>(one: impl FnOnce() -> A, other: impl FnOnce() -> B + Send) -> (A, B) {
    let other = Mutex::new(Some(other));
    let work = || {
        let other = other.lock().unwrap_or_else(PoisonError::into_inner).take();
        other.map(|other| other())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work);
        let one = one();
        let other = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => work(),
        };
        (one, other.expect("each function runs once"))
    })
}

/// Returns the median seconds of several workloads in alternating timings, so that all see equal
/// conditions. Each has a part for every thread. With several threads the time includes their
/// synchronisation (about 10 us). Parts of threads that the system does not start run on the
/// calling one.
pub fn in_turns<const W: usize, F: FnMut() + Send>(repeats: usize, works: [Vec<F>; W]) -> [f64; W] {
    let threads = works[0].len();
    let mut times = [(); W].map(|()| Vec::with_capacity(repeats));
    let mut of_thread: Vec<[Vec<F>; W]> = (0..threads).map(|_| [(); W].map(|()| Vec::new())).collect();
    for (work, parts) in works.into_iter().enumerate() {
        of_thread.iter_mut().zip(parts).for_each(|(mine, part)| mine[work].push(part));
    }
    let rounds =
        |barrier: &Barrier, mut mine: [Vec<F>; W], mut took: Box<dyn FnMut(usize, Duration) + '_>| {
            for _ in 0..repeats.max(1) {
                for (work, parts) in mine.iter_mut().enumerate() {
                    barrier.wait();
                    let begin = Instant::now();
                    parts.iter_mut().for_each(|part| part());
                    barrier.wait();
                    took(work, begin.elapsed());
                }
            }
        };
    let mut mine = of_thread.remove(0);
    let others: Vec<_> = of_thread.into_iter().map(|parts| Mutex::new(Some(parts))).collect();
    let take = |parts: &Mutex<Option<[Vec<F>; W]>>| {
        parts.lock().unwrap_or_else(PoisonError::into_inner).take().expect("each thread's parts run once")
    };
    // Known once all threads that can be started have been.
    let barrier = OnceLock::new();
    std::thread::scope(|scope| {
        let mut started = 1;
        for parts in &others {
            let work = || rounds(barrier.wait(), take(parts), Box::new(|_, _| ()));
            match std::thread::Builder::new().spawn_scoped(scope, work) {
                Ok(_) => started += 1,
                Err(_) => mine.iter_mut().zip(take(parts)).for_each(|(mine, parts)| mine.extend(parts)),
            }
        }
        let barrier = barrier.get_or_init(|| Barrier::new(started));
        rounds(barrier, mine, Box::new(|work, time| times[work].push(time)));
    });
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_work_run_before_those_of_the_next() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        for threads in [1, 3] {
            let done = AtomicUsize::new(0);
            // Each part sees all parts of the works before its own, and none of the works after it.
            let part = |work: usize| {
                let (done, mut round) = (&done, 0);
                move || {
                    let seen = done.fetch_add(1, Ordering::SeqCst);
                    let before = (2 * round + work) * threads;
                    assert!((before..before + threads).contains(&seen), "{seen} of round {round}");
                    round += 1;
                }
            };
            let times = in_turns(5, [0, 1].map(|work| (0..threads).map(|_| part(work)).collect()));
            assert_eq!(done.into_inner(), 10 * threads);
            assert!(times.iter().all(|time| time.is_finite()));
        }
    }

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        for threads in [0, 1, 3, 100] {
            let squares = concurrent_map(threads, 0..50usize, |k| k * k);
            assert!(squares.iter().enumerate().all(|(k, &square)| square == k * k), "{threads} threads");
            assert_eq!(squares.len(), 50);
        }
    }
}
