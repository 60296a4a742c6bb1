//! Results on their way out: JSON in its envelope, the report, the trace, text on the terminal.

use anyhow::Context;
use serde::Serialize;
use zellige_app::json::Envelope;
use zellige_app::page::Page;
use zellige_runtime::{Runtime, RuntimeBuilder, Trace};

use crate::args::{Output, OutputFile, RunOutputs};
use crate::{devices, out, provenance};

/// Records of one worker that a trace has room for, where nothing is known of the number of tasks.
const TRACE_ROOM: usize = 1 << 16;

/// Writes results as JSON; `None`: nobody asked for them.
///
/// # Errors
/// The output cannot be written.
pub fn write_json<T: Serialize>(target: Option<&Output>, results: &[T]) -> anyhow::Result<()> {
    let Some(target) = target else { return Ok(()) };
    target.write_json(&Envelope { run: provenance::run(), results })
}

/// Whether results go to standard output, where no text may stand beside them.
pub fn is_stdout(target: Option<&Output>) -> bool {
    target.is_some_and(Output::is_stdout)
}

/// Writes a page, with the section that says how it came about.
///
/// # Errors
/// The output cannot be written.
pub fn write_page(target: &OutputFile, mut page: Page) -> anyhow::Result<()> {
    page.provenance(provenance::run());
    let text = page.finish();
    target.write(|to| to.write_all(text.as_bytes()))
}

/// A page that shows results as tables.
///
/// # Errors
/// Results that are no JSON.
pub fn page_of<T: Serialize>(title: &str, results: &[T]) -> anyhow::Result<Page> {
    let mut page = Page::new(title);
    page.heading(title);
    page.results(&serde_json::to_value(results).context("cannot write the results as JSON")?);
    Ok(page)
}

impl RunOutputs {
    /// The runtime records a trace if one is requested, or shown in the report.
    pub fn traced(&self, builder: RuntimeBuilder) -> RuntimeBuilder {
        self.traced_with(builder, TRACE_ROOM)
    }

    /// Whether a report is requested.
    pub fn has_report(&self) -> bool {
        self.report.is_some()
    }

    /// The same with room for so many records of each worker.
    pub fn traced_with(&self, builder: RuntimeBuilder, records: usize) -> RuntimeBuilder {
        if self.is_traced() { builder.trace_capacity(records) } else { builder }
    }

    /// A runtime of so many CPU workers, one per core where nothing is said, which records what is
    /// requested.
    ///
    /// # Errors
    /// Those of [`RuntimeBuilder::build`].
    pub fn runtime(&self, workers: Option<u16>) -> anyhow::Result<Runtime> {
        let mut rt = self.traced(devices::builder());
        if let Some(workers) = workers {
            rt = rt.workers(workers.into());
        }
        Ok(rt.build()?)
    }

    /// Whether a trace is wanted, for a file of its own or for the report.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some() || self.report.is_some()
    }

    /// The trace of what has run.
    ///
    /// # Errors
    /// A task that failed, of which nobody has heard yet.
    pub fn recorded(&self, rt: &Runtime) -> anyhow::Result<Option<Trace>> {
        rt.wait_all()?;
        rt.wait_transfers()?;
        Ok(rt.take_trace())
    }

    /// Whether text may stand on standard output.
    pub fn is_quiet(&self) -> bool {
        is_stdout(self.json.as_ref())
    }

    /// Writes trace, report and JSON, as far as they are requested, and prints the text.
    ///
    /// # Errors
    /// An output that cannot be written; once Ctrl-C was pressed, before anything is.
    pub fn write<T: Serialize>(
        &self,
        title: &str,
        trace: Option<&Trace>,
        results: &[T],
        page: impl FnOnce() -> anyhow::Result<Page>,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        crate::interrupt::check()?;
        if let (Some(file), Some(trace)) = (&self.trace, trace) {
            file.write(trace, title)?;
        }
        if let Some(report) = &self.report {
            let mut page = page()?;
            if let Some(trace) = trace {
                let link = self.trace.as_ref().and_then(|file| file.page_for(report));
                page.trace(&trace_words(trace), &trace.report().to_string(), link.as_deref());
            }
            write_page(report, page)?;
        }
        write_json(self.json.as_ref(), results)?;
        match self.is_quiet() {
            true => Ok(()),
            false => out::print(&text()),
        }
    }
}

fn trace_words(trace: &Trace) -> String {
    let report = trace.report();
    format!(
        "{} tasks on {} workers, policy {}. Workers spent {:.1} % of the time between the first and the last task in kernels.",
        report.tasks,
        trace.workers.len(),
        trace.policy,
        100.0 * report.kernels_share()
    )
}
