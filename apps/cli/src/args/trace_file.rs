//! Trace files of a run, with the format in the name's ending.

use std::path::Path;
use std::str::FromStr;

use zellige_runtime::Trace;

use super::paths::Output;

/// Format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Format of `zellige trace`.
    Native,
    /// JSON for Perfetto and chrome://tracing.
    Chrome,
    /// Paje, for ViTE.
    Paje,
    /// Page for a browser.
    Html,
}

impl TraceFormat {
    /// Returns the usual ending of files in this format.
    pub fn ending(self) -> &'static str {
        match self {
            TraceFormat::Native => "zt",
            TraceFormat::Chrome => "json",
            TraceFormat::Paje => "paje",
            TraceFormat::Html => "html",
        }
    }
}

/// A trace file to write.
#[derive(Clone, Debug)]
pub struct TraceFile {
    output: Output,
    format: TraceFormat,
}

impl FromStr for TraceFile {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<TraceFile, &'static str> {
        let format = match Path::new(name).extension().and_then(|e| e.to_str()) {
            Some("zt") => TraceFormat::Native,
            Some("json") => TraceFormat::Chrome,
            Some("paje" | "trace") => TraceFormat::Paje,
            Some("html" | "htm") => TraceFormat::Html,
            _ => {
                return Err(
                    "the ending of the name determines the format: use .zt (zellige trace), .json (Perfetto, chrome://tracing), \
                            .paje or .trace (ViTE), .html (any browser)",
                );
            }
        };
        Ok(TraceFile { output: Output::from(std::ffi::OsString::from(name)), format })
    }
}

impl TraceFile {
    /// Names a trace file with its format.
    pub fn new(output: Output, format: TraceFormat) -> Self {
        TraceFile { output, format }
    }

    /// Returns the output of the trace.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Returns the address of a trace page as seen from a page at `report`; `None` for other
    /// formats.
    pub fn page_for(&self, report: &Path) -> Option<String> {
        let page: &Path = &self.output;
        let address = if page.parent() == report.parent() { Path::new(page.file_name()?) } else { page };
        (self.format == TraceFormat::Html).then(|| address.display().to_string())
    }

    /// Writes the trace.
    ///
    /// # Errors
    /// The disk is full, ...
    pub fn write(&self, trace: &Trace, title: &str) -> anyhow::Result<()> {
        self.output.write(|mut out| match self.format {
            TraceFormat::Native => trace.write_native(&mut out),
            TraceFormat::Chrome => trace.write_chrome(&mut out),
            TraceFormat::Paje => trace.write_paje(&mut out),
            TraceFormat::Html => trace.write_html(title, &mut out),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_choose_formats() {
        let format = |name: &str| name.parse::<TraceFile>().map(|file| file.format);
        assert_eq!(format("t.zt"), Ok(TraceFormat::Native));
        assert_eq!(format("t.json"), Ok(TraceFormat::Chrome));
        assert_eq!(format("t.paje"), Ok(TraceFormat::Paje));
        assert_eq!(format("t.trace"), Ok(TraceFormat::Paje));
        assert_eq!(format("t.html"), Ok(TraceFormat::Html));
        let html: TraceFile = "a/t.html".parse().unwrap();
        assert_eq!(html.page_for(Path::new("a/r.html")).as_deref(), Some("t.html"));
        assert!(format("t.txt").unwrap_err().contains("Perfetto"));
    }
}
