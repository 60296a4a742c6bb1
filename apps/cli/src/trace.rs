//! Trace files: the ending of the name says the format.

use std::path::Path;

use zellige_runtime::Trace;

use crate::exit::CommandError;
use crate::out::Target;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Chrome,
    Paje,
    Html,
}

/// A trace that will be written.
#[derive(Debug)]
pub struct TraceFile {
    target: Target,
    format: Format,
}

impl TraceFile {
    /// Checks name and folder.
    ///
    /// # Errors
    /// The ending is none of .json, .paje, .trace, .html; the folder does not serve.
    pub fn new(path: &Path) -> anyhow::Result<TraceFile> {
        let format = match path.extension().and_then(|e| e.to_str()) {
            Some("json") => Format::Chrome,
            Some("paje" | "trace") => Format::Paje,
            Some("html" | "htm") => Format::Html,
            _ => {
                let problem = format!(
                    "{}: the ending of the name says the format: .json (Perfetto, chrome://tracing), .paje or .trace \
                     (ViTE), .html (any browser)",
                    path.display()
                );
                return Err(CommandError::option("--trace", problem).into());
            }
        };
        Ok(TraceFile { target: Target::new("--trace", path)?, format })
    }

    /// The address that a page at `report` gives to a trace page; `None` for other formats.
    pub fn page_for(&self, report: &Path) -> Option<String> {
        let page = self.target.path();
        let address = if page.parent() == report.parent() { Path::new(page.file_name()?) } else { page };
        (self.format == Format::Html).then(|| address.display().to_string())
    }

    /// Writes the trace.
    ///
    /// # Errors
    /// The disk is full, ...
    pub fn write(&self, trace: &Trace, title: &str) -> anyhow::Result<()> {
        self.target.write(|mut out| match self.format {
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
        let folder = tempfile::tempdir().unwrap();
        let format = |name: &str| TraceFile::new(&folder.path().join(name)).map(|f| f.format);
        assert_eq!(format("t.json").unwrap(), Format::Chrome);
        assert_eq!(format("t.paje").unwrap(), Format::Paje);
        assert_eq!(format("t.trace").unwrap(), Format::Paje);
        assert_eq!(format("t.html").unwrap(), Format::Html);
        let html = TraceFile::new(&folder.path().join("t.html")).unwrap();
        assert_eq!(html.page_for(&folder.path().join("r.html")).as_deref(), Some("t.html"));
        assert!(format("t.txt").unwrap_err().to_string().contains("Perfetto"));
    }
}
