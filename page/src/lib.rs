//! Pages that show what a run found: a single file without scripts or foreign parts, light and dark.
//!
//! ```
//! use zellige_page::svg::{Chart, Scale};
//! use zellige_page::{Page, figure};
//!
//! let mut chart = Chart::new(520.0, 300.0, [24.0, 14.0, 42.0, 56.0], "a falling line");
//! let (x, y) = (Scale::linear(0.0, 2.0, chart.left, chart.right), Scale::log(0.1, 10.0, chart.bottom, chart.top));
//! chart.x_axis(&x, "step", false);
//! chart.y_axis(&y, "residual");
//! chart.line(&[(x.at(0.0), y.at(10.0)), (x.at(2.0), y.at(0.1))], "c0");
//! let mut page = Page::new("A run");
//! page.section("Residuals", "They fall.", &figure(&chart.finish(), "step by step"));
//! assert!(page.finish().contains("<svg"));
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod svg;

use std::fmt::Write;

use svg::escape;

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
