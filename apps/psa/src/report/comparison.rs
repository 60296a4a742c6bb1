//! Report page that compares two runs.

use zellige_app::page::{Page, figure};
use zellige_app::svg::escape;

use super::pictures::{self, Search};
use crate::pipeline::compare::{Comparison, Outcome};

/// Returns the page that compares two runs of these names, with the pictures of a survey for one
/// search.
pub fn of_comparison(names: [&str; 2], comparison: &Comparison) -> Page {
    let [a, b] = names;
    let search = [Search { name: a, outcomes: comparison.outcomes.iter().collect() }];
    let mut page = Page::new(&format!("{a} beside {b}"));
    let words = format!(
        "{} hits that both runs have, {} that only {a} has; the point is the same for {:.2} %.",
        comparison.outcomes.len(),
        comparison.only_first.len(),
        comparison.rows()[0].same_percent
    );
    page.section(&format!("{a} beside {b}"), &words, "");
    let is_identical =
        comparison.outcomes.iter().all(|outcome| outcome.is_same) && comparison.only_first.is_empty();
    if is_identical && !comparison.outcomes.is_empty() {
        let words = format!(
            "Identical: {a} and {b} have the same point for every hit, so that there is nothing to draw of what differs."
        );
        page.section("Differences", &words, "");
    } else {
        let picture = |drawn: String| format!("<div class=\"row\">{}</div>", figure(&drawn, &escape(a)));
        let words = format!("How far points of {a} that are not those of {b} lie from them.");
        page.section("Distances", &words, &picture(pictures::distances(&search)));
        let words = format!("Which energies the hits have whose point is not that of {b}.");
        page.section("Energies", &words, &picture(pictures::energies(&search)));
    }
    let line = |run: usize, name: String| {
        let point = |hit: &Outcome| Some((hit.energy, hit.from_truth?[run]));
        (name, comparison.outcomes.iter().filter_map(point).collect())
    };
    let resolution = pictures::resolution(&[line(0, a.to_owned()), line(1, b.to_owned())], "both runs");
    if !resolution.is_empty() {
        let words = "Half of the hits lie nearer to where they happened, by energy.";
        page.section("Resolution", words, &resolution);
    }
    page
}
