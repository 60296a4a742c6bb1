//! A run of a verb: processes, devices, runtime, progress, Ctrl-C and outputs.

use serde::Serialize;
use zellige_app::page::Page;
use zellige_runtime::{Runtime, RuntimeBuilder, Trace};

use crate::args::{ExecutionArgs, RunOutputs};
use crate::devices::{Devices, Needs};
use crate::exit::CommandError;
use crate::interrupt::{self, Armed};
use crate::processes::{Processes, Session};
use crate::progress::Progress;

/// Default number of trace records for each worker, if the number of tasks is unknown.
const TRACE_RECORDS: usize = 1 << 16;

/// Processes and devices of a run whose runtime has not started.
pub struct Setup<'a> {
    /// Processes of the run.
    pub processes: Processes,
    /// Devices of this process.
    pub devices: Devices,
    execution: ExecutionArgs,
    outputs: &'a RunOutputs,
}

impl<'a> Setup<'a> {
    /// Opens the devices of a run in this process.
    ///
    /// # Errors
    /// The errors of [`Devices::open`].
    pub fn new(
        execution: &ExecutionArgs,
        needs: &Needs,
        outputs: &'a RunOutputs,
    ) -> Result<Self, CommandError> {
        Setup::of(Processes::single(), execution, needs, outputs)
    }

    /// Opens the devices of a run in all processes that were started together.
    ///
    /// # Errors
    /// The errors of [`Processes::find`] and of [`Devices::open`].
    pub fn on_ranks(
        execution: &ExecutionArgs,
        needs: &Needs,
        outputs: &'a RunOutputs,
    ) -> Result<Self, CommandError> {
        Setup::of(Processes::find()?, execution, needs, outputs)
    }

    fn of(
        processes: Processes,
        execution: &ExecutionArgs,
        needs: &Needs,
        outputs: &'a RunOutputs,
    ) -> Result<Self, CommandError> {
        let devices = Devices::open(execution, needs)?;
        Ok(Setup { processes, devices, execution: execution.clone(), outputs })
    }

    /// Returns whether a trace is recorded.
    pub fn is_traced(&self) -> bool {
        self.outputs.is_traced()
    }

    /// Starts the runtime. Ctrl-C cancels its tasks from here on.
    ///
    /// # Errors
    /// The errors of [`Processes::session`].
    pub fn start(self) -> anyhow::Result<Run<'a>> {
        self.start_with(|builder| builder)
    }

    /// Starts the runtime of a changed builder, like [`Setup::start`].
    ///
    /// # Errors
    /// The errors of [`Processes::session`].
    pub fn start_with(
        self,
        change: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
    ) -> anyhow::Result<Run<'a>> {
        let Setup { processes, devices, execution, outputs } = self;
        let builder = devices.runtime(&execution);
        let builder = if outputs.is_traced() { builder.trace_capacity(TRACE_RECORDS) } else { builder };
        let session = processes.session(change(builder))?;
        let armed = interrupt::cancels(session.runtime().canceller());
        Ok(Run { _armed: armed, session, devices, execution, outputs, processes })
    }
}

/// A run with its runtime. The fields are dropped in this order.
pub struct Run<'a> {
    _armed: Armed,
    session: Session,
    devices: Devices,
    execution: ExecutionArgs,
    outputs: &'a RunOutputs,
    processes: Processes,
}

impl<'a> Run<'a> {
    /// Starts a run on CPU workers, by default one per core.
    ///
    /// # Errors
    /// The errors of building a runtime.
    pub fn on_cpu(workers: Option<u16>, outputs: &'a RunOutputs) -> anyhow::Result<Self> {
        Setup::new(&ExecutionArgs::on_cpu(workers), &Needs::default(), outputs)?.start()
    }

    /// Returns the processes of the run.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Returns the runtime of this process, or its rank.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the runtime of this process.
    pub fn runtime(&self) -> &Runtime {
        self.session.runtime()
    }

    /// Does the work of the run, and shows its progress meanwhile.
    ///
    /// # Errors
    /// The errors of the work; Ctrl-C.
    pub fn work<T, E: Into<anyhow::Error>>(
        &self,
        work: impl FnOnce(&Progress<'_>) -> Result<T, E>,
    ) -> anyhow::Result<T> {
        let done = work(&Progress::of(self.runtime())).map_err(Into::into)?;
        interrupt::check()?;
        Ok(done)
    }

    /// Waits for all tasks, on every process, and ends the runtime. Only the first process gets the
    /// outputs.
    ///
    /// # Errors
    /// A failed task that was not reported yet; a process that has ended.
    pub fn finish(self) -> anyhow::Result<Option<Finished<'a>>> {
        let trace = self.session.recorded(self.outputs.is_traced())?;
        if !self.processes.is_first() {
            return Ok(None);
        }
        self.devices.done(&self.execution, self.runtime());
        Ok(Some(Finished { outputs: self.outputs, trace }))
    }

    /// Finishes the run and writes its outputs; see [`Finished::write`].
    ///
    /// # Errors
    /// The errors of [`Run::finish`] and of [`Finished::write`].
    pub fn write<R: Serialize>(
        self,
        title: &str,
        results: &[R],
        page: impl FnOnce() -> anyhow::Result<Page>,
        text: impl FnOnce(bool) -> String,
    ) -> anyhow::Result<()> {
        match self.finish()? {
            Some(finished) => finished.write(title, results, page, text),
            None => Ok(()),
        }
    }
}

/// Outputs of a run whose tasks have ended.
pub struct Finished<'a> {
    outputs: &'a RunOutputs,
    trace: Option<Trace>,
}

impl Finished<'_> {
    /// Writes the trace, the report and the JSON if they are requested, and prints the text. The
    /// argument of `text` tells whether it may have colours.
    ///
    /// # Errors
    /// An output that cannot be written; after Ctrl-C, an interruption before anything is written,
    /// unless the work keeps what it has done.
    pub fn write<R: Serialize>(
        &self,
        title: &str,
        results: &[R],
        page: impl FnOnce() -> anyhow::Result<Page>,
        text: impl FnOnce(bool) -> String,
    ) -> anyhow::Result<()> {
        self.outputs.write(title, self.trace.as_ref(), results, page, text)
    }
}
