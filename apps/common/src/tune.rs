//! Text and page of a search for formats.

use std::collections::BTreeMap;
use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_tune::{Assignment, Data, Ended, Item, Outcome, Space, Trial, Verdict};

use crate::page::{Page, figure};
use crate::svg::{Chart, Scale, escape, range};
use crate::table::{Side, Table};
use crate::text::digits;

/// Most items that the text lists one by one.
const ITEMS: usize = 40;
/// Side of the cell of an item in the map, in pixels.
const CELL: f64 = 18.0;
/// Most cells in a row of the map.
const CELLS: usize = 40;

/// Result of `zellige tune`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TuneResult {
    /// Acceptance, as an expression over measures.
    pub accept: String,
    /// Unit or expression of the cost.
    pub cost: String,
    /// Items with their candidate formats and predicted costs.
    pub items: Vec<Item>,
    /// Predicted cost of the cheapest format of every item, in the unit of the cost: the predicted
    /// share of the reference times the cost that the reference had.
    pub bound: f64,
    /// Result of the search.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Command that repeats the chosen trial; none if there is no such command.
    pub repeat: Option<String>,
}

impl TuneResult {
    /// Describes the outcome of a search.
    pub fn new(
        space: &Space,
        accept: impl Into<String>,
        cost: impl Into<String>,
        outcome: Outcome,
        repeat: Option<String>,
    ) -> Self {
        let items = space.items().to_vec();
        let (cheapest, dearest) = (space.cheapest().cost(), space.reference().cost());
        // Predictions may have another unit than measured costs.
        let unit = outcome.reference().cost.filter(|_| dearest > 0.0).map_or(1.0, |cost| cost / dearest);
        let bound = cheapest * unit;
        TuneResult { accept: accept.into(), cost: cost.into(), items, bound, outcome, repeat }
    }

    /// Trials of the search, and those of the verification, by their number.
    fn numbered(&self, data: Data) -> impl Iterator<Item = (usize, &Trial)> {
        self.outcome.trials.iter().enumerate().filter(move |(_, trial)| trial.data == data)
    }
}

/// Returns the chosen formats, the front and the number of trials as text. The headings of tables
/// are bold with `colour`.
pub fn text(result: &TuneResult, colour: bool) -> String {
    let TuneResult { cost, outcome, .. } = result;
    let (best, reference) = (outcome.best(), outcome.reference());
    let mut text = String::new();
    let _ = writeln!(text, "accept     {}", result.accept);
    let _ = writeln!(text, "reference  {} {cost}", number(reference.cost));
    let _ = writeln!(
        text,
        "best       {} {cost}{}: {}",
        number(best.cost),
        gained(result),
        ending(outcome.ended)
    );
    let _ = writeln!(
        text,
        "bound      {} {cost} predicted with the cheapest format everywhere",
        digits(result.bound)
    );
    if let Some(line) = verification(outcome) {
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    text += &formats(result).render(colour);
    text.push('\n');
    text += &front(result).render(colour);
    text.push('\n');
    let _ = writeln!(text, "{}", counts(outcome));
    if let Some(repeat) = &result.repeat {
        let _ = writeln!(text, "repeat with: {repeat}");
    }
    text
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), digits)
}

/// Share of the reference's cost: `, 42.0 % of the reference`.
fn gained(result: &TuneResult) -> String {
    match (result.outcome.best().cost, result.outcome.reference().cost) {
        (Some(best), Some(reference)) if reference != 0.0 => {
            format!(", {:.1} % of the reference", 100.0 * best / reference)
        }
        _ => String::new(),
    }
}

fn ending(ended: Ended) -> &'static str {
    match ended {
        Ended::Minimal => "no single item can be lowered",
        Ended::Complete => "a baseline, items may be left that can be lowered",
        Ended::Trials => "the trials are spent, items may be left that can be lowered",
        Ended::Seconds => "the time is spent, items may be left that can be lowered",
    }
}

fn verification(outcome: &Outcome) -> Option<String> {
    let verified = &outcome.trials[outcome.verified?];
    let refused = outcome.trials.iter().filter(|trial| trial.data == Data::Verify && !trial.is_accepted());
    let refused = match refused.count() {
        0 => String::new(),
        count => format!(" after {count} cheaper ones were rejected there"),
    };
    let quality = verified.quality.map_or(String::new(), |quality| format!(" (quality {})", digits(quality)));
    Some(format!("verified   accepted on data that the search has not seen{quality}{refused}"))
}

/// Formats of the items, or their numbers by group if there are many items.
fn formats(result: &TuneResult) -> Table {
    let best = &result.outcome.best().formats;
    if result.items.len() <= ITEMS {
        let columns =
            [("item", Side::Left), ("group", Side::Left), ("format", Side::Left), ("of", Side::Left)];
        let mut table = Table::new(&columns);
        for (item, format) in best.iter() {
            let names: Vec<&str> = item.formats.iter().map(|format| &*format.name).collect();
            table.row([item.name.clone(), item.group.clone(), format.name.clone(), names.join(" ")]);
        }
        return table;
    }
    let mut table = Table::new(&[("group", Side::Left), ("format", Side::Left), ("items", Side::Right)]);
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (item, format) in best.iter() {
        *counts.entry((&*item.group, &*format.name)).or_default() += 1;
    }
    for ((group, format), count) in counts {
        table.row([group.to_owned(), format.to_owned(), count.to_string()]);
    }
    table
}

fn front(result: &TuneResult) -> Table {
    let columns = [
        ("trial", Side::Right),
        (&*result.cost, Side::Right),
        ("quality", Side::Right),
        ("front of cost and quality", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for &at in &result.outcome.front {
        let trial = &result.outcome.trials[at];
        table.row([at.to_string(), number(trial.cost), number(trial.quality), verdict(&trial.verdict)]);
    }
    table
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accepted => "accepted".into(),
        Verdict::Rejected(reason) => format!("rejected: {reason}"),
        Verdict::Failed(reason) => format!("failed: {reason}"),
    }
}

/// Numbers of trials: `25 trials in 3.1 s: 12 accepted, 13 rejected, 4 of them failed`.
fn counts(outcome: &Outcome) -> String {
    let count = |is: fn(&Trial) -> bool| outcome.trials.iter().filter(|trial| is(trial)).count();
    let seconds: f64 = outcome.trials.iter().map(|trial| trial.seconds).sum();
    let (accepted, logged) = (count(Trial::is_accepted), count(|trial| trial.logged));
    let all = outcome.trials.len();
    let mut text =
        format!("{all} trials in {} s: {accepted} accepted, {} rejected", digits(seconds), all - accepted);
    let failed = count(|trial| matches!(trial.verdict, Verdict::Failed(_)));
    for (count, words) in [(failed, "of them failed"), (logged, "read from the log")] {
        if count > 0 {
            let _ = write!(text, ", {count} {words}");
        }
    }
    if outcome.unused > 0 {
        let _ = write!(text, "; {} more ran ahead and were not needed", outcome.unused);
    }
    text
}

/// Returns the page of a search: the map of formats, the front, and each trial with its verdict.
pub fn page(title: &str, result: &TuneResult) -> Page {
    let outcome = &result.outcome;
    let mut page = Page::new(title);
    page.heading(title);
    let cost = |trial: &Trial| format!("{} {}", number(trial.cost), result.cost);
    page.facts(&[
        ("cost of the reference", cost(outcome.reference())),
        ("cost of the result", cost(outcome.best())),
        ("predicted with the cheapest format everywhere", digits(result.bound)),
        ("trials", outcome.trials.len().to_string()),
        ("end", ending(outcome.ended).into()),
    ]);
    let said = verification(outcome).map_or(String::new(), |line| format!("<p>{}</p>", escape(&line)));
    let repeat = match &result.repeat {
        Some(command) => format!("<p class=\"soft\">Repeat it with</p><pre>{}</pre>", escape(command)),
        None => String::new(),
    };
    let words =
        format!("Accepted if {}.{}", result.accept, gained(result).replacen(", ", " The result costs ", 1));
    page.section("Formats", &words, &format!("{}{said}{repeat}", map(&outcome.best().formats)));
    let words = "Quality is the distance from the limit of the acceptance: 1 for the reference, 0 at the limit, \
                 negative beyond. No trial has both a lower cost and a higher quality than one of the front.";
    page.section("Front", words, &format!("{}{}", picture(result), html(result, &outcome.front)));
    let all: Vec<usize> = result.numbered(Data::Search).map(|(at, _)| at).collect();
    page.section("Trials", &counts(outcome), &html(result, &all));
    let verified: Vec<usize> = result.numbered(Data::Verify).map(|(at, _)| at).collect();
    if !verified.is_empty() {
        page.section(
            "Verification",
            "Trials on data that the search has not seen.",
            &html(result, &verified),
        );
    }
    page
}

/// Draws a cell for each item, in rows by group: the lower its format, the darker.
fn map(best: &Assignment) -> String {
    let mut groups: BTreeMap<&str, Vec<(String, f64)>> = BTreeMap::new();
    for (item, format) in best.iter() {
        let at = item.formats.iter().position(|other| other == format).unwrap_or(0);
        let lowered = match item.formats.len() {
            1 => 0.0,
            count => 1.0 - at as f64 / (count - 1) as f64,
        };
        groups.entry(&item.group).or_default().push((format!("{}: {}", item.name, format.name), lowered));
    }
    let rows: Vec<(&str, &[(String, f64)])> =
        groups.iter().flat_map(|(group, items)| items.chunks(CELLS).map(move |row| (*group, row))).collect();
    let widest = rows.iter().map(|(_, row)| row.len()).max().unwrap_or(1) as f64;
    let (left, height) = (160.0, 4.0 + CELL * rows.len() as f64);
    let mut chart = Chart::new(left + 4.0 + CELL * widest, height, [2.0; 4], "map of formats");
    for (line, (group, row)) in rows.iter().enumerate() {
        let y = 2.0 + CELL * line as f64;
        chart.text(left - 8.0, y + 0.7 * CELL, "end", "tick", group);
        for (at, (name, lowered)) in row.iter().enumerate() {
            let (x, opacity, name) = (left + CELL * at as f64, 0.08 + 0.92 * lowered, escape(name));
            chart.put(format_args!(
                r#"<rect x="{x:.1}" y="{y:.1}" width="{CELL}" height="{CELL}" fill="var(--accent)" fill-opacity="{opacity:.2}" stroke="var(--card)"><title>{name}</title></rect>"#
            ));
        }
    }
    figure(&chart.finish(), "a cell for each item, by group; the lower its format, the darker")
}

/// Draws all trials by cost and quality, and the front as a line.
fn picture(result: &TuneResult) -> String {
    let trials: Vec<(usize, &Trial, f64, f64)> = result
        .numbered(Data::Search)
        // Far beyond the limit, trials would hide what happens near it.
        .filter_map(|(at, trial)| Some((at, trial, trial.cost?, trial.quality?.max(-2.0))))
        .collect();
    if trials.is_empty() {
        return String::new();
    }
    let mut chart = Chart::new(620.0, 320.0, [24.0, 14.0, 42.0, 64.0], "cost and quality of the trials");
    let (low, high) = range(trials.iter().map(|point| point.2));
    let (worst, best) = range(trials.iter().map(|point| point.3).chain([0.0]));
    let x = Scale::linear(low, high, chart.left, chart.right);
    let y = Scale::linear(worst, best, chart.bottom, chart.top);
    chart.x_axis(&x, &result.cost, false);
    chart.y_axis(&y, "quality");
    chart.line(&[(chart.left, y.at(0.0)), (chart.right, y.at(0.0))], "c1");
    let on_front = trials.iter().filter(|point| result.outcome.front.contains(&point.0));
    let mut front: Vec<(f64, f64)> = on_front.map(|point| (x.at(point.2), y.at(point.3))).collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    chart.line(&front, "c0");
    for (at, trial, cost, quality) in trials {
        let (cx, cy) = (x.at(cost), y.at(quality));
        let class = if trial.is_accepted() { "f-c0" } else { "f-c1" };
        chart.put(format_args!(
            r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="3.5" class="{class}"><title>trial {at}</title></circle>"#
        ));
    }
    figure(
        &chart.finish(),
        "all trials; accepted ones lie above the limit, qualities below -2 are drawn at -2",
    )
}

/// Table of some trials: cost, quality, the items that are not in their last format, verdict.
fn html(result: &TuneResult, list: &[usize]) -> String {
    let mut table = String::from(
        "<div class=\"wide\"><table><tr><th>trial</th><th>cost</th><th>quality</th><th>seconds</th><th>lowered</th><th>verdict</th></tr>",
    );
    for &at in list {
        let trial = &result.outcome.trials[at];
        let _ = write!(
            table,
            "<tr><td>{at}{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"left\">{}</td><td class=\"left\">{}</td></tr>",
            if at == result.outcome.best { " (result)" } else { "" },
            number(trial.cost),
            number(trial.quality),
            digits(trial.seconds),
            escape(&lowered(&trial.formats)),
            escape(&verdict(&trial.verdict)),
        );
    }
    table + "</table></div>"
}

/// Items below their last format, by name if there are few.
fn lowered(formats: &Assignment) -> String {
    let is_lowered =
        |(item, format): &(&Item, &zellige_tune::Candidate)| item.formats.last() != Some(*format);
    let lowered: Vec<String> = formats
        .iter()
        .filter(is_lowered)
        .map(|(item, format)| format!("{} {}", item.name, format.name))
        .collect();
    match lowered.len() {
        0 => "none".into(),
        1..=8 => lowered.join(", "),
        count => format!("{count} of {} items", formats.iter().len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_tune::{Acceptance, Measures, Options, Search, Trials};

    fn sample(items: usize) -> TuneResult {
        let item =
            |at: usize| Item::new(format!("<{at}>"), format!("g{}", at % 2), [("fp16", 2.0), ("fp32", 4.0)]);
        let space = Space::new((0..items).map(item).collect()).expect("items");
        let trials = Trials::in_turn(|formats, _| {
            let wide = formats.iter().filter(|(_, format)| format.name == "fp32").count();
            match wide {
                0 => Err("no memory".into()),
                wide => Ok(Measures::from([("wide", wide as f64)])),
            }
        });
        let acceptance = Acceptance::parse("wide >= 2").expect("a condition");
        let options = Options { verify: true, ..Options::default() };
        let outcome = Search::new(&space, trials, &acceptance).run(&options).expect("an outcome");
        TuneResult::new(&space, acceptance.text(), "bytes", outcome, Some("run formats.json".into()))
    }

    #[test]
    fn bounds_have_the_unit_of_the_cost() {
        let space = Space::new(vec![Item::new("x", "", [("low", 300.0), ("high", 600.0)])]).expect("items");
        let trials = Trials::in_turn(|_, _| Ok(Measures::from([("seconds", 0.5)])));
        let accept = Acceptance::parse("seconds > 0").expect("a condition");
        let search = Search::new(&space, trials, &accept)
            .cost(|_, measures| measures.get("seconds").map_or(0.0, |s| s.value));
        let outcome = search.run(&Options::default()).expect("an outcome");
        assert_eq!(TuneResult::new(&space, "", "seconds", outcome, None).bound, 0.25);
    }

    #[test]
    fn the_text_tells_formats_front_and_trials() {
        let text = text(&sample(4), false);
        for words in [
            "accept     wide >= 2\n",
            "reference  16.0 bytes\n",
            "best       12.0 bytes, 75.0 % of the reference: no single item can be lowered\n",
            "bound      8.00 bytes predicted",
            "verified   accepted on data that the search has not seen",
            "<0>   g0     fp16    fp16 fp32\n",
            "accepted\n",
            "rejected: not wide >= 2: 1 beside 2\n",
            "1 of them failed",
            "repeat with: run formats.json\n",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        assert!(super::text(&sample(50), false).contains("g1     fp16       2"));
    }

    #[test]
    fn the_page_shows_every_trial() {
        let result = sample(4);
        let page = page("tune", &result).finish();
        for words in
            ["<h2>Formats</h2>", "<h2>Front</h2>", "<h2>Trials</h2>", "&lt;0&gt;: fp16", "failed: no memory"]
        {
            assert!(page.contains(words), "{words}");
        }
        assert_eq!(page.matches("<title>trial ").count() + 1, result.numbered(Data::Search).count());
    }
}
