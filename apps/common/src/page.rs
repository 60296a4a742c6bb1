//! An HTML page: a single file without scripts or foreign parts, light and dark.

use std::fmt::Write;

use crate::json::Provenance;
use crate::svg::escape;
use crate::tables;

/// A page as it grows.
#[derive(Debug)]
pub struct Page(String);

impl Page {
    /// A page with this title and nothing on it.
    pub fn new(title: &str) -> Page {
        let mut out = String::with_capacity(1 << 18);
        // The empty icon keeps browsers from asking a server for one.
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

    /// Where markup goes.
    pub fn markup(&mut self) -> &mut String {
        &mut self.0
    }

    /// Facts in one row, each a name and a value.
    pub fn facts(&mut self, facts: &[(&str, String)]) {
        self.0.push_str("<div class=\"facts\">");
        for (name, value) in facts {
            let _ = write!(self.0, "<div><b>{}</b><span>{}</span></div>", escape(value), escape(name));
        }
        self.0.push_str("</div>\n");
    }

    /// A section with a title, words that say what to see, and markup.
    pub fn section(&mut self, title: &str, words: &str, markup: &str) {
        let (title, words) = (escape(title), escape(words));
        let _ = writeln!(self.0, "<section><h2>{title}</h2><p class=\"soft\">{words}</p>{markup}</section>");
    }

    /// The title as the first line of the page.
    pub fn heading(&mut self, title: &str) {
        let _ = writeln!(self.0, "<h1>{}</h1>", escape(title));
    }

    /// A summary of a trace, and the address of the page that shows every task.
    pub fn trace(&mut self, words: &str, summary: &str, link: Option<&str>) {
        let link = link.map_or(String::new(), |address| {
            format!("<p><a href=\"{}\">Open the trace: every task on its worker</a></p>", escape(address))
        });
        let lines: Vec<String> = summary.lines().map(escape).collect();
        self.section("Trace", words, &format!("{link}<pre>{}</pre>", lines.join("\n")));
    }

    /// The section at the end of every report: the command line, the version, the machine and the
    /// date.
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

    /// Results as tables, as they stand in the JSON: one table for each list of records, long lists
    /// of numbers by their extent.
    pub fn results(&mut self, results: &serde_json::Value) {
        tables::write(&mut self.0, results);
    }

    /// The whole page.
    pub fn finish(mut self) -> String {
        self.0.push_str("</main></body></html>\n");
        self.0
    }
}

/// A picture with a caption, as markup; the caption is markup, too.
pub fn figure(picture: &str, caption: &str) -> String {
    format!("<figure>{picture}<figcaption>{caption}</figcaption></figure>\n")
}
