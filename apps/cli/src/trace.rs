//! Trace files: the ending of the name says the format. And `zellige trace`, which reads the native one.

use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use zellige_runtime::Trace;

use crate::args::{Output, TraceArgs};
use crate::exit::CommandError;
use crate::out;

/// More than any run leaves: hundreds of millions of tasks.
const MOST_BYTES: u64 = 16 << 30;

/// Sums a trace up, and writes it in other forms.
///
/// # Errors
/// A file that is no native trace; an output that cannot be written.
pub fn run(args: &TraceArgs) -> anyhow::Result<()> {
    let name = args.file.display();
    let bytes =
        zellige_files::read_bytes(&args.file, MOST_BYTES).with_context(|| format!("cannot read {name}"))?;
    let trace = Trace::read_native(&bytes).map_err(|problem| CommandError::option(name, problem))?;
    drop(bytes);
    let title = args.file.file_stem().unwrap_or_default().to_string_lossy();
    for file in &args.output {
        file.write(&trace, &title)?;
    }
    match args.output.iter().any(|file| file.output().is_stdout()) {
        true => Ok(()),
        false => out::print(&trace.report().to_string()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Native,
    Chrome,
    Paje,
    Html,
}

/// A trace that will be written.
#[derive(Clone, Debug)]
pub struct TraceFile {
    output: Output,
    format: Format,
}

impl FromStr for TraceFile {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<TraceFile, &'static str> {
        let format = match Path::new(name).extension().and_then(|e| e.to_str()) {
            Some("zt") => Format::Native,
            Some("json") => Format::Chrome,
            Some("paje" | "trace") => Format::Paje,
            Some("html" | "htm") => Format::Html,
            _ => {
                return Err(
                    "the ending of the name says the format: .zt (zellige trace), .json (Perfetto, chrome://tracing), \
                            .paje or .trace (ViTE), .html (any browser)",
                );
            }
        };
        Ok(TraceFile { output: Output::from(std::ffi::OsString::from(name)), format })
    }
}

impl TraceFile {
    /// Where it goes.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// The address that a page at `report` gives to a trace page; `None` for other formats.
    pub fn page_for(&self, report: &Path) -> Option<String> {
        let page: &Path = &self.output;
        let address = if page.parent() == report.parent() { Path::new(page.file_name()?) } else { page };
        (self.format == Format::Html).then(|| address.display().to_string())
    }

    /// Writes the trace.
    ///
    /// # Errors
    /// The disk is full, ...
    pub fn write(&self, trace: &Trace, title: &str) -> anyhow::Result<()> {
        self.output.write(|mut out| match self.format {
            Format::Native => trace.write_native(&mut out),
            Format::Chrome => trace.write_chrome(&mut out),
            Format::Paje => trace.write_paje(&mut out),
            Format::Html => trace.write_html(title, &mut out),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_choose_formats() {
        let format = |name: &str| name.parse::<TraceFile>().map(|file| file.format);
        assert_eq!(format("t.zt"), Ok(Format::Native));
        assert_eq!(format("t.json"), Ok(Format::Chrome));
        assert_eq!(format("t.paje"), Ok(Format::Paje));
        assert_eq!(format("t.trace"), Ok(Format::Paje));
        assert_eq!(format("t.html"), Ok(Format::Html));
        let html: TraceFile = "a/t.html".parse().unwrap();
        assert_eq!(html.page_for(Path::new("a/r.html")).as_deref(), Some("t.html"));
        assert!(format("t.txt").unwrap_err().contains("Perfetto"));
    }
}
