//! HTML page: a single file without scripts or external parts, light and dark.

use std::fmt::Write;

use crate::json::Provenance;
use crate::svg::escape;
use crate::tables;

/// A page under construction.
#[derive(Debug)]
pub struct Page(String);

impl Page {
    /// Returns an empty page with this title.
    pub fn new(title: &str) -> Page {
        let mut out = String::with_capacity(1 << 18);
        // The empty icon prevents browsers from requesting one from a server.
        out.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
        out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        out.push_str(
            "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n",
        );
        let _ = write!(out, "<title>{}</title>\n<style>\n", escape(title));
        out.push_str(include_str!("page.css"));
        out.push_str("</style></head><body><main>\n");
        Page(out)
    }

    /// Returns the buffer for additional markup.
    pub fn markup(&mut self) -> &mut String {
        &mut self.0
    }

    /// Adds a row of facts, each a name and a value.
    pub fn facts(&mut self, facts: &[(&str, String)]) {
        self.0.push_str("<div class=\"facts\">");
        for (name, value) in facts {
            let _ = write!(self.0, "<div><b>{}</b><span>{}</span></div>", escape(value), escape(name));
        }
        self.0.push_str("</div>\n");
    }

    /// Adds a section with a title, an explanation, and markup.
    pub fn section(&mut self, title: &str, words: &str, markup: &str) {
        let (title, words) = (escape(title), escape(words));
        let _ = writeln!(self.0, "<section><h2>{title}</h2><p class=\"soft\">{words}</p>{markup}</section>");
    }

    /// Adds the title as the first line of the page.
    pub fn heading(&mut self, title: &str) {
        let _ = writeln!(self.0, "<h1>{}</h1>", escape(title));
    }

    /// Adds the summary of a trace, and a link to the page that shows every task.
    pub fn trace(&mut self, words: &str, summary: &str, link: Option<&str>) {
        let link = link.map_or(String::new(), |address| {
            format!("<p><a href=\"{}\">Open the trace: every task on its worker</a></p>", escape(address))
        });
        let lines: Vec<String> = summary.lines().map(escape).collect();
        self.section("Trace", words, &format!("{link}<pre>{}</pre>", lines.join("\n")));
    }

    /// Adds the section at the end of every report: the command line, the version, the machine and
    /// the date.
    pub fn provenance(&mut self, run: &Provenance) {
        let zellige = &run.zellige;
        let commit = zellige.commit.as_ref().map_or(String::new(), |commit| format!(" ({commit})"));
        let processor = run.host.processor.as_ref().map_or(String::new(), |name| format!(", {name}"));
        let markup = format!(
            "<pre>zellige {}</pre><p class=\"soft\">zellige {}{}, {} on {}{}, {} cores</p>",
            escape(&run.args.join(" ")),
            escape(&zellige.version),
            escape(&commit),
            escape(&run.date),
            escape(&run.host.name),
            escape(&processor),
            run.host.cores,
        );
        self.section("Run", "", &markup);
    }

    /// Adds results as tables, in the order of the JSON: one table for each list of records. Long
    /// lists of numbers are shown by their length.
    pub fn results(&mut self, results: &serde_json::Value) {
        tables::write(&mut self.0, results);
    }

    /// Returns the complete page.
    pub fn finish(mut self) -> String {
        self.0.push_str("</main></body></html>\n");
        self.0
    }
}

/// Returns a picture with a caption, as markup; the caption is markup, too.
pub fn figure(picture: &str, caption: &str) -> String {
    format!("<figure>{picture}<figcaption>{caption}</figcaption></figure>\n")
}
