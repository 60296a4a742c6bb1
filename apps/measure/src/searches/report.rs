//! Searches compared with the full one as a page: the thesis' Tables 5.1 to 5.3 and Figures 5.1 and
//! 5.2, and how far answers are from the truth.

use zellige_app::page::{Page, figure};
use zellige_app::svg::{Chart, Scale, escape, short};
use zellige_app::text::distinct;
use zellige_psa::channels::ChannelSet;
use zellige_psa::report::pictures::{self, Search};

use super::{Row, Run, Variant};

/// Searches in the pictures of distances and energies.
const DRAWN: [&str; 4] = ["cfgs fp32", "cfgs mixed", "cfgs fp16", "fgs fp16"];

/// The page.
pub fn of_searches(crystal: &str, rows: &[Row], runs: &[Run], variants: &[Variant]) -> Page {
    let mut page = Page::new(&format!("{crystal}: searches compared"));
    let words = "Where in a crystal gamma rays gave their energy: fast searches compared with the one that compares every point in fp32.";
    page.section(crystal, words, "");
    let words = "Events whose point is that of the full search of the same events: bars are means over seeds and noises. Circles are the thesis' of other events: of 5342 measured ones for hit segment and core (Tables 5.2 and 5.3); Table 5.1, beside neighbours, names neither events nor channels.";
    page.section("The same point", words, &by_channels(rows, |row| row.same.mean, |row| row.published[0]));
    let words = "Events whose point lies within 5 mm of the full search's.";
    page.section("Within 5 mm", words, &by_channels(rows, |row| row.near.mean, |row| row.published[1]));
    let words = "How far points that are not those of the full search lie from them (thesis, Figure 5.1).";
    page.section(
        "Distances",
        words,
        &[pictures::legend(&DRAWN), panels(runs, variants, &pictures::distances)].concat(),
    );
    let words =
        "Which energies the events have whose point is not that of the full search (thesis, Figure 5.2).";
    page.section(
        "Energies",
        words,
        &[pictures::legend(&DRAWN), panels(runs, variants, &pictures::energies)].concat(),
    );
    let words = "Half of the events lie nearer to where they happened: the full search, by energy.";
    page.section("Resolution", words, &resolution(runs));
    page
}

/// A picture for each set of channels, a bar for each search.
fn by_channels(rows: &[Row], value: impl Fn(&Row) -> f64, published: impl Fn(&Row) -> Option<f64>) -> String {
    let mut out = String::from("<div class=\"row\">");
    for channels in distinct(rows.iter().map(|row| row.channels.clone())) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.channels == channels).collect();
        out += &figure(&bars(&rows, &value, &published), &escape(&channels));
    }
    out + "</div>"
}

fn bars(rows: &[&Row], value: impl Fn(&Row) -> f64, published: impl Fn(&Row) -> Option<f64>) -> String {
    const LINE: f64 = 18.0;
    let names = distinct(rows.iter().map(|row| row.name.to_owned()));
    // As wide as the longest name is in its letters of one width.
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
    let margins = [6.0, 14.0, 40.0, 7.8 * longest + 14.0];
    let mut chart =
        Chart::new(390.0 + margins[3], 50.0 + LINE * names.len() as f64, margins, "% of the events");
    let x = Scale::linear(0.0, 100.0, chart.left, chart.right);
    for (at, name) in names.iter().enumerate() {
        let y = chart.top + LINE * at as f64;
        let alike: Vec<&&Row> = rows.iter().filter(|row| row.name == *name).collect();
        let mean = alike.iter().map(|row| value(row)).sum::<f64>() / alike.len() as f64;
        chart.text(chart.left - 8.0, y + 12.0, "end", "name", name);
        let (left, width) = (chart.left, x.at(mean) - chart.left);
        chart.put(format_args!(
            r#"<rect x="{left:.1}" y="{y:.1}" width="{width:.1}" height="{:.1}" class="f-c0"><title>{}: {} %</title></rect>"#,
            LINE - 5.0,
            escape(name),
            short(mean)
        ));
        if let Some(percent) = published(alike[0]) {
            chart.put(format_args!(
                r#"<circle cx="{:.1}" cy="{:.1}" r="5" class="f-c1"><title>published: {percent} %</title></circle>"#,
                x.at(percent),
                y + 0.5 * (LINE - 5.0)
            ));
        }
    }
    chart.x_axis(&x, "% of the events", false);
    chart.finish()
}

/// A picture for each set of channels, of the runs of each drawn search.
fn panels(runs: &[Run], variants: &[Variant], draw: &dyn Fn(&[Search<'_>]) -> String) -> String {
    let mut out = String::from("<div class=\"row\">");
    for channels in [ChannelSet::HitCore, ChannelSet::Neighbours, ChannelSet::All] {
        let of = |name: &'static str| {
            let is_it = |run: &&Run| {
                run.channels == channels && run.variant.is_some_and(|variant| variants[variant].name == name)
            };
            Search { name, outcomes: runs.iter().filter(is_it).flat_map(|run| &run.outcomes).collect() }
        };
        let drawn: Vec<Search<'_>> = DRAWN.into_iter().map(of).collect();
        if drawn.iter().any(|search| !search.outcomes.is_empty()) {
            out += &figure(&draw(&drawn), &escape(&channels.to_string()));
        }
    }
    out + "</div>"
}

/// The median distance of the full search from the truth, by energy, a line for each set of
/// channels.
fn resolution(runs: &[Run]) -> String {
    let reference = || runs.iter().filter(|run| run.variant.is_none());
    let line = |set: String| {
        let outcomes =
            reference().filter(|run| run.channels.to_string() == set).flat_map(|run| &run.outcomes);
        let points = outcomes.filter_map(|outcome| Some((outcome.energy, outcome.away()?))).collect();
        (set, points)
    };
    let sets = distinct(reference().map(|run| run.channels.to_string()));
    pictures::resolution(&sets.into_iter().map(line).collect::<Vec<_>>(), "full search in fp32")
}
