//! Work of the caller's that several threads share.

use std::sync::{Mutex, PoisonError};

/// What `work` makes of each job, in the order of the jobs; at most so many at a time.
pub fn side_by_side<J: Send, R: Send>(
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
            scope.spawn(share);
        }
        share();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        for threads in [0, 1, 3, 100] {
            let squares = side_by_side(threads, 0..50usize, |k| k * k);
            assert!(squares.iter().enumerate().all(|(k, &square)| square == k * k), "{threads} threads");
            assert_eq!(squares.len(), 50);
        }
    }
}
