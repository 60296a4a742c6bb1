//! Runs of the user's computation, one by one or several at once.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use zellige_runtime::{Runtime, Submit};

use crate::error::Error;
use crate::measures::Measures;
use crate::space::Assignment;

/// Data that a trial computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// Data that the search sees.
    Search,
    /// Data that the search does not see, for the final check.
    Verify,
}

type Own<'t> = dyn FnMut(&Assignment, Data) -> Result<Measures, String> + 't;
type Shared = dyn Fn(&Assignment, Data) -> Result<Measures, String> + Send + Sync;

/// The user's computation: a function of formats and data, which returns measures or the reason of
/// its failure.
pub struct Trials<'t> {
    mode: Mode<'t>,
}

enum Mode<'t> {
    InTurn(Box<Own<'t>>),
    Tasks { runtime: &'t Runtime, at_once: usize, trial: Arc<Shared> },
}

/// Result of one run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub result: Result<Measures, String>,
    pub seconds: f64,
}

impl<'t> Trials<'t> {
    /// Runs one trial at a time on the calling thread. It may use a runtime itself.
    pub fn in_turn(trial: impl FnMut(&Assignment, Data) -> Result<Measures, String> + 't) -> Self {
        Trials { mode: Mode::InTurn(Box::new(trial)) }
    }

    /// Runs up to `at_once` trials at once, each as a task of a runtime, for which it must not wait
    /// itself. Further trials run ahead, as if those before them were rejected. The outcome is that
    /// of trials in turn.
    pub fn in_tasks(
        runtime: &'t Runtime,
        at_once: usize,
        trial: impl Fn(&Assignment, Data) -> Result<Measures, String> + Send + Sync + 'static,
    ) -> Self {
        Trials { mode: Mode::Tasks { runtime, at_once: at_once.max(1), trial: Arc::new(trial) } }
    }

    /// Number of trials that run at once.
    pub(crate) fn at_once(&self) -> usize {
        match self.mode {
            Mode::InTurn(_) => 1,
            Mode::Tasks { at_once, .. } => at_once,
        }
    }

    /// Runs trials, and calls `ended` with the index of each as it ends.
    pub(crate) fn run(
        &mut self,
        wave: &[Assignment],
        data: Data,
        mut ended: impl FnMut(usize, Run) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match &mut self.mode {
            Mode::InTurn(trial) => wave
                .iter()
                .enumerate()
                .try_for_each(|(at, formats)| ended(at, timed(|| trial(formats, data)))),
            Mode::Tasks { runtime, trial, .. } => {
                let group = runtime.group();
                let (sender, receiver) = mpsc::channel();
                for (at, formats) in wave.iter().enumerate() {
                    let (formats, trial, sender) = (formats.clone(), Arc::clone(trial), sender.clone());
                    let body = move |()| {
                        // Nobody listens after an error of the log.
                        let _ = sender.send((at, timed(|| trial(&formats, data))));
                    };
                    group.task("trial").operands(()).cpu(body).submit()?;
                }
                drop(sender);
                let logged = receiver.iter().try_for_each(|(at, run)| ended(at, run));
                group.wait()?;
                logged
            }
        }
    }
}

fn timed(trial: impl FnOnce() -> Result<Measures, String>) -> Run {
    let begin = Instant::now();
    let result = trial();
    Run { result, seconds: begin.elapsed().as_secs_f64() }
}
