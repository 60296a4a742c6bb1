//! Output of results: JSON in its envelope, the report, the trace, text on the terminal.

use anyhow::Context;
use serde::Serialize;
use zellige_app::json::Envelope;
use zellige_app::page::Page;
use zellige_runtime::{Runtime, RuntimeBuilder, Trace};

use crate::args::{Output, OutputFile, RunOutputs};
use crate::{devices, out, provenance};

/// Default number of trace records for each worker, if the number of tasks is unknown.
const TRACE_ROOM: usize = 1 << 16;

/// Writes results as JSON; does nothing if `target` is `None`.
///
/// # Errors
/// The output cannot be written.
pub fn write_json<T: Serialize>(target: Option<&Output>, results: &[T]) -> anyhow::Result<()> {
    let Some(target) = target else { return Ok(()) };
    target.write_json(&Envelope { run: provenance::run(), results })
}

/// Returns whether JSON goes to standard output, which then must not contain other text.
pub fn is_stdout(target: Option<&Output>) -> bool {
    target.is_some_and(Output::is_stdout)
}

/// Writes a page, with a section on the provenance of the results.
///
/// # Errors
/// The output cannot be written.
pub fn write_page(target: &OutputFile, mut page: Page) -> anyhow::Result<()> {
    page.provenance(provenance::run());
    let text = page.finish();
    target.write(|to| to.write_all(text.as_bytes()))
}

/// Returns a page that shows results as tables.
///
/// # Errors
/// Results that cannot be converted to JSON.
pub fn page_of<T: Serialize>(title: &str, results: &[T]) -> anyhow::Result<Page> {
    let mut page = Page::new(title);
    page.heading(title);
    page.results(&serde_json::to_value(results).context("cannot write the results as JSON")?);
    Ok(page)
}

impl RunOutputs {
    /// Enables the trace if it is requested or shown in the report, with the default capacity.
    pub fn traced(&self, builder: RuntimeBuilder) -> RuntimeBuilder {
        self.traced_with(builder, TRACE_ROOM)
    }

    /// Returns whether a report is requested.
    pub fn has_report(&self) -> bool {
        self.report.is_some()
    }

    /// Enables the trace if it is requested or shown in the report, with a capacity of `records`
    /// for each worker.
    pub fn traced_with(&self, builder: RuntimeBuilder, records: usize) -> RuntimeBuilder {
        if self.is_traced() { builder.trace_capacity(records) } else { builder }
    }

    /// Builds a runtime with so many CPU workers, by default one per core, and with a trace if one
    /// is needed.
    ///
    /// # Errors
    /// The errors of [`RuntimeBuilder::build`].
    pub fn runtime(&self, workers: Option<u16>) -> anyhow::Result<Runtime> {
        let mut rt = self.traced(devices::builder());
        if let Some(workers) = workers {
            rt = rt.workers(workers.into());
        }
        Ok(rt.build()?)
    }

    /// Returns whether a trace is needed, for its own file or for the report.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some() || self.report.is_some()
    }

    /// Waits for all tasks and transfers, and returns the trace.
    ///
    /// # Errors
    /// A failed task that was not reported yet.
    pub fn recorded(&self, rt: &Runtime) -> anyhow::Result<Option<Trace>> {
        rt.wait_all()?;
        rt.wait_transfers()?;
        Ok(rt.take_trace())
    }

    /// Returns whether standard output is reserved for JSON.
    pub fn is_quiet(&self) -> bool {
        is_stdout(self.json.as_ref())
    }

    /// Writes the trace, the report and the JSON if they are requested, and prints the text.
    ///
    /// # Errors
    /// An output that cannot be written; after Ctrl-C, an interruption before anything is written.
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
