//! Trace files: the ending of the name says the format.

use std::path::Path;
use std::str::FromStr;

use zellige_runtime::Trace;

use crate::args::Output;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
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
            Some("json") => Format::Chrome,
            Some("paje" | "trace") => Format::Paje,
            Some("html" | "htm") => Format::Html,
            _ => {
                return Err(
                    "the ending of the name says the format: .json (Perfetto, chrome://tracing), .paje or .trace (ViTE), \
                            .html (any browser)",
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
        assert_eq!(format("t.json"), Ok(Format::Chrome));
        assert_eq!(format("t.paje"), Ok(Format::Paje));
        assert_eq!(format("t.trace"), Ok(Format::Paje));
        assert_eq!(format("t.html"), Ok(Format::Html));
        let html: TraceFile = "a/t.html".parse().unwrap();
        assert_eq!(html.page_for(Path::new("a/r.html")).as_deref(), Some("t.html"));
        assert!(format("t.txt").unwrap_err().contains("Perfetto"));
    }
}
