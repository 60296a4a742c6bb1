//! Results of a search for a precision map: those of every search, the map, and the best rules.

use super::{figure, map};
use crate::pipeline::PrecisionMap;
use crate::pipeline::tune::TunedMap;
use std::fmt::Write;
use zellige_app::page::Page;
use zellige_app::svg::escape;
use zellige_app::table::{Side, Table};
use zellige_app::text::digits;
use zellige_dense::{GemmPrecision, Phase, PrecisionPolicy, TileMap};
use zellige_tune::Trial;

const MAP: &str = "The lower triangle of tiles. In a factorisation a tile has the precision of the products that update it, in \
                   a solve that of the products that read it. Lines are where another sensor begins.";
const RULES: &str = "The tuned map, and the cheapest accepted rule of each pair of formats and condition: band, norm of the \
                     tile, norms of the operands. All have the panel of the map.";

/// Describes a result for a terminal.
pub fn text(result: &TunedMap, colours: bool) -> String {
    let mut table = Table::new(&[
        ("map or rule", Side::Left),
        (&*result.search.cost, Side::Right),
        ("of the reference", Side::Right),
        ("exact Strehl", Side::Right),
        ("stationary", Side::Right),
        ("verification", Side::Left),
    ]);
    for row in compared(result) {
        table.row(row);
    }
    let search = zellige_app::tune::text(&result.search, colours);
    format!("{search}\n{}{}", table.render(colours), gained(result))
}

/// Compares the map with the best rule.
fn gained(result: &TunedMap) -> String {
    let best = result.rules.iter().find(|rule| rule.verified != Some(false));
    let (Some(saving), Some(rule)) = (result.saving, best) else { return String::new() };
    let gap = result.gap_share.map_or(String::new(), |share| {
        format!(", {:.1} % of the gap between that rule and the bound", 100.0 * share)
    });
    format!("the map saves {:.1} % of the cost of {}{gap}\n", 100.0 * saving, rule.rule)
}

/// Maps and rules: name, cost, share of the reference's cost, Strehl ratios exact and stationary,
/// verification.
fn compared(result: &TunedMap) -> Vec<[String; 6]> {
    let outcome = &result.search.outcome;
    let reference = outcome.reference().cost.unwrap_or(f64::NAN);
    let row = |name: &str, cost: f64, strehl: [Option<f64>; 2], verified: Option<bool>| {
        let verified = verified.map_or("", |accepted| if accepted { "accepted" } else { "rejected" });
        let [exact, stationary] = strehl.map(|strehl| strehl.map_or("-".into(), |s| format!("{s:.6}")));
        [
            name.into(),
            digits(cost),
            format!("{:.1} %", 100.0 * cost / reference),
            exact,
            stationary,
            verified.into(),
        ]
    };
    let of_trial = |name: &str, trial: &Trial, verified: Option<bool>| {
        let measure = |name| trial.measures.get(name).map(|measure| measure.value);
        row(name, trial.cost.unwrap_or(f64::NAN), [measure("strehl"), measure("strehl_stationary")], verified)
    };
    let rules = result
        .rules
        .iter()
        .map(|rule| row(&rule.rule, rule.cost, [rule.strehl, rule.strehl_stationary], rule.verified));
    let verified = outcome.verified.map(|at| outcome.trials[at].is_accepted());
    let tuned = of_trial("tuned map", outcome.best(), verified);
    let reference = of_trial("reference", outcome.reference(), None);
    [tuned].into_iter().chain(rules).chain([reference]).collect()
}

/// Returns the page.
pub fn page(title: &str, result: &TunedMap) -> Page {
    let mut page = zellige_app::tune::page(title, &result.search);
    page.section("Map", MAP, &maps(result));
    page.section("Maps and rules", RULES, &rules(result));
    page
}

fn maps(result: &TunedMap) -> String {
    let tiles = &result.map;
    let rows = 2 * result.m as u32;
    let counted = [Phase::Factor, Phase::Solve].map(|phase| counts(tiles, phase, rows));
    let mut out = map::legend(counted.iter());
    out.push_str("<div class=\"row small\">");
    for (counts, name) in counted.iter().zip(["factorisation", "solves"]) {
        let picture = map::map(counts, &result.edges, &result.sub_apertures, name);
        figure(&mut out, &picture, &format!("{name}; panel {}", tiles.panel()));
    }
    out.push_str("</div>");
    out
}

/// Counts the products that each tile of a map stands for, in solves those of each row.
fn counts(tiles: &TileMap, phase: Phase, rows: u32) -> PrecisionMap {
    let of = |i: usize, j: usize| {
        let products = if phase == Phase::Factor { j as u32 } else { rows };
        GemmPrecision::ALL.map(|p| if i > j && tiles.at(phase, i, j) == p { products } else { 0 })
    };
    let cells = (0..tiles.tiles()).flat_map(|i| (0..=i).map(move |j| (i, j)));
    PrecisionMap { tiles: tiles.tiles(), counts: cells.map(|(i, j)| of(i, j)).collect() }
}

fn rules(result: &TunedMap) -> String {
    let mut out = String::from(
        "<div class=\"wide\"><table><thead><tr><th>map or rule</th><th>cost</th><th>of the reference</th>\
         <th>exact Strehl ratio</th><th>stationary</th><th>verification</th></tr></thead><tbody>",
    );
    for row in compared(result) {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = write!(out, "<tr>{cells}</tr>");
    }
    let _ = write!(out, "</tbody></table></div><p>{}</p>", escape(gained(result).trim_end()));
    out
}
