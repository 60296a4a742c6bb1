//! Output of results: JSON in its envelope, the report, the trace, text on the terminal.

use anyhow::Context;
use serde::Serialize;
use zellige_app::json::Envelope;
use zellige_app::page::Page;
use zellige_runtime::Trace;

use crate::args::{Output, OutputFile, RunOutputs};
use crate::{interrupt, out, provenance};

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
    /// Returns whether a report is requested.
    pub fn has_report(&self) -> bool {
        self.report.is_some()
    }

    /// Returns whether a trace is needed, for its own file or for the report.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some() || self.report.is_some()
    }

    /// Returns whether standard output is reserved for JSON.
    pub fn is_quiet(&self) -> bool {
        is_stdout(self.json.as_ref())
    }

    /// Writes the trace, the report and the JSON if they are requested, and prints the text. The
    /// argument of `text` tells whether it may have colours.
    ///
    /// # Errors
    /// An output that cannot be written; after Ctrl-C, an interruption before anything is written,
    /// unless the work keeps what it has done.
    pub fn write<T: Serialize>(
        &self,
        title: &str,
        trace: Option<&Trace>,
        results: &[T],
        page: impl FnOnce() -> anyhow::Result<Page>,
        text: impl FnOnce(bool) -> String,
    ) -> anyhow::Result<()> {
        if !interrupt::is_kept() {
            interrupt::check()?;
        }
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
            false => out::print(&text(out::colours(&std::io::stdout()))),
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
