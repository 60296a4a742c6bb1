//! Random task graphs on random machines of emulated devices, compared bit by bit with a sequential
//! oracle: the same tasks run one after the other on plain values.
//!
//! A case is generated from one number. It contains handles of three types: words in three formats
//! that lose information when they are narrowed, the same words that cannot leave the host, and
//! plain vectors with their parts and views. Its tasks have every access mode, with formats chosen
//! at submission or by deferred selection, and some fail on purpose. There are replays, reads and
//! writes in place, handles that are released and registered, and hints to the memory manager. The
//! machine has one to six emulated devices that may be just large enough for the largest task. Some
//! are GPUs of [`zellige_gpu::mock`], real ones ([`Fuzz::gpus`]), or custom devices
//! ([`Accelerator`]). `zellige selftest` runs the cases; so does CI.
//!
//! ```
//! use zellige_selftest::Fuzz;
//!
//! let report = Fuzz { graphs: 5, seed: 7, ..Fuzz::default() }.run(|_, _| true);
//! assert!(report.failures.is_empty(), "{:?}", report.failures);
//! ```

#![deny(unsafe_code)]

mod accelerator;
mod case;
mod choice;
mod codelet;
mod generate;
mod gpu;
mod kernels;
mod operand;
mod oracle;
mod panics;
mod report;
mod rng;
mod run;
mod value;
mod words;

pub use accelerator::Accelerator;
pub use kernels::{SOURCE, run_on_host};
pub use report::{FuzzCounts, FuzzFailure, FuzzReport};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use zellige_gpu::Driver;
use zellige_runtime::internal::caught;

use case::Case;
use run::Ran;

/// Number of failures after which no more cases are started: later ones rarely give new
/// information, and a case that hangs keeps its threads.
const ENOUGH: usize = 10;

/// Options of a self-test.
#[derive(Clone, Debug)]
pub struct Fuzz {
    /// Number of cases.
    pub graphs: u64,
    /// Seed of the first case; case i has this plus i, so a single case can be repeated with its
    /// own seed.
    pub seed: u64,
    /// Number of cases that run concurrently.
    pub jobs: usize,
    /// Time after which a case counts as hanging; it usually takes some milliseconds.
    pub patience: Duration,
    /// True if a device fails permanently in some cases; not one of `gpus`.
    pub deaths: bool,
    /// True if each case runs on one thread, in an order drawn from its seed
    /// ([`RuntimeBuilder::single_threaded`](zellige_runtime::RuntimeBuilder::single_threaded)),
    /// with its GPUs as emulated devices; not on `gpus`.
    pub single_threaded: bool,
    /// Real GPUs, which most cases use, each as one device or several with a small part of its
    /// memory; `None`: two in five cases use mock GPUs. With the same seed all else is the same.
    pub gpus: Option<Arc<dyn Driver>>,
    /// Device kind that replaces the mock GPUs.
    pub accelerator: Option<Accelerator>,
}

impl Default for Fuzz {
    fn default() -> Self {
        let patience = Duration::from_secs(20);
        let (deaths, single_threaded) = (false, false);
        Fuzz {
            graphs: 200,
            seed: 0,
            jobs: 1,
            patience,
            deaths,
            single_threaded,
            gpus: None,
            accelerator: None,
        }
    }
}

impl Fuzz {
    /// Runs the cases. `advance` is called after each with the number of finished cases, and its
    /// failure if it failed; it stops the run by returning false.
    pub fn run(&self, advance: impl Fn(u64, Option<&FuzzFailure>) -> bool + Sync) -> FuzzReport {
        let begin = Instant::now();
        panics::listen();
        let report = Mutex::new(FuzzReport { seed: self.seed, ..FuzzReport::default() });
        let (next, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        let worker = || {
            while !stopped.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.graphs {
                    return;
                }
                let seed = self.seed.wrapping_add(number);
                let (case, ran) = self.run_one(seed);
                let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                let done = report.counts.graphs + 1;
                let goes_on = advance(done, report.add(seed, &case, ran));
                if !goes_on || report.failures.len() >= ENOUGH {
                    stopped.store(true, Ordering::Relaxed);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.jobs {
                // Without memory for another thread, those that there are run its cases.
                let _ = thread::Builder::new().spawn_scoped(scope, worker);
            }
            worker();
        });
        let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.failures.sort_by_key(|failure| failure.seed);
        report.seconds = begin.elapsed().as_secs_f64();
        report
    }

    /// Runs the case of one seed on a thread of its own, which is abandoned if it hangs.
    fn run_one(&self, seed: u64) -> (Arc<Case>, Ran) {
        let there = self.gpus.as_ref().map(|driver| driver.working());
        let mut case = generate::case(seed, self.deaths, there.as_deref());
        if self.single_threaded {
            case.machine.runs_on_one_thread(seed);
        }
        case.machine.accelerator = self.accelerator;
        let case = Arc::new(case);
        let before = panics::count();
        let (done, wait) = channel();
        let (stalled, stall) = channel();
        let (mine, gpus, patience) = (Arc::clone(&case), self.gpus.clone(), self.patience);
        let run = move || {
            let ran = caught(|| {
                let expected = oracle::expect(&mine);
                run::run(&mine, &expected, gpus, patience, move |text| {
                    // The receiver is gone once the case has been given up.
                    let _ = stalled.send(text);
                })
            });
            let _ = done.send(ran.unwrap_or_else(|message| Ran::failed(format!("a panic: {message}"))));
        };
        if let Err(error) = thread::Builder::new().name("zellige-fuzz".into()).spawn(run) {
            return (case, Ran::failed(format!("no thread for the case: {error}")));
        }
        let mut ran = wait.recv_timeout(self.patience).unwrap_or_else(|why| {
            let text: Vec<String> = stall.try_iter().collect();
            Ran::failed(match why {
                RecvTimeoutError::Timeout => {
                    format!("it hangs: no end after {} s; {}", self.patience.as_secs_f64(), text.join("; "))
                }
                RecvTimeoutError::Disconnected => "its thread ended without a result".into(),
            })
        });
        ran.differences.extend(panics::since(before));
        (case, ran)
    }
}
