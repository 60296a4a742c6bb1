//! Text and page of a run that judges the digits of its results.

use std::fmt::Write;

use zellige_stochastic::{DigitMap, Report, Trust};

use crate::page::{Page, figure};
use crate::svg::{Chart, Scale, escape};
use crate::table::{Side, Table};
use crate::text::digits;

/// Width of the longest bar of a histogram of text, in characters.
const BAR: usize = 40;
/// Maximum number of cells of a map per side; larger maps show the fewest digits of each cell.
const CELLS: usize = 96;
/// Maximum number of points of a line.
const POINTS: usize = 400;

/// Returns the digits of each result, the instabilities and the conclusions as text. The headings
/// of tables are bold with `colour`.
pub fn text(trust: &Trust, colour: bool) -> String {
    let mut text = String::new();
    for map in &trust.maps {
        let _ = writeln!(text, "{}", summary(map));
        let histogram = map.histogram();
        if histogram.len() > 1 {
            let most = histogram.values().copied().max().unwrap_or(1);
            let units = format!("{}s", map.unit);
            let mut table = Table::new(&[("digits", Side::Right), (&units, Side::Right), ("", Side::Left)]);
            for (&digits, &count) in histogram.iter().rev() {
                let bar = "#".repeat((count * BAR).div_ceil(most));
                table.row([digits.to_string(), count.to_string(), bar]);
            }
            text += &table.render(colour);
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{}", trust.instabilities);
    trust.conclusions.iter().for_each(|conclusion| text += &format!("{conclusion}\n"));
    text + &cost(trust) + "\n"
}

/// Returns one line on a result: `x: 6 to 15 of 15 digits, median 14, fewest in row 312`.
fn summary(map: &DigitMap) -> String {
    let DigitMap { name, all, .. } = map;
    let (Some((least, at)), Some(median)) = (map.worst(), map.median()) else {
        return format!("{name}: no numbers");
    };
    let most = map.digits.iter().copied().max().unwrap_or(least);
    if least == most {
        let everywhere = if map.digits.len() > 1 { format!(" in every {}", map.unit) } else { String::new() };
        return format!("{name}: {least} of {all} digits{everywhere}");
    }
    let without = match map.histogram().get(&0) {
        Some(count) => format!(", {count} of {} without an exact digit", map.digits.len()),
        None => String::new(),
    };
    let place = place(map, at);
    format!("{name}: {least} to {most} of {all} digits, median {median}, fewest in {place}{without}")
}

/// Returns the words for a number of a map: `row 312`, `tile (3, 5)`.
fn place(map: &DigitMap, [row, column]: [usize; 2]) -> String {
    match map.shape[1] {
        1 => format!("{} {row}", map.unit),
        _ => format!("{} ({row}, {column})", map.unit),
    }
}

fn cost(trust: &Trust) -> String {
    let Trust { samples, seed, seconds, .. } = trust;
    let beside = match trust.plain_seconds {
        Some(plain) if plain > 0.0 => {
            format!(", {} times the plain run of {} s", digits(seconds / plain), digits(plain))
        }
        _ => String::new(),
    };
    format!("{samples} samples, seed {seed}: {} s{beside}", digits(*seconds))
}

/// Returns the page of a run: conclusions, a histogram and a map for each result, instabilities.
pub fn page(title: &str, trust: &Trust) -> Page {
    let mut page = Page::new(title);
    page.heading(title);
    let counted: u64 = trust.instabilities.sites.iter().map(|site| site.count).sum();
    let mut facts = vec![
        ("samples", trust.samples.to_string()),
        ("seed", trust.seed.to_string()),
        ("instabilities", counted.to_string()),
        ("seconds", digits(trust.seconds)),
    ];
    if let Some(plain) = trust.plain_seconds {
        facts.push(("seconds of the plain run", digits(plain)));
    }
    page.facts(&facts);
    let conclusions: String =
        trust.conclusions.iter().map(|said| format!("<p>{}</p>", escape(said))).collect();
    page.section("Conclusions", "", &conclusions);
    for map in &trust.maps {
        let pictures = format!(
            "<div class=\"row\">{}{}</div>",
            figure(&histogram(map), &format!("{}s by their exact digits", escape(&map.unit))),
            picture(map),
        );
        page.section(&map.name, &summary(map), &pictures);
    }
    let words = match trust.instabilities.is_valid() {
        true => "Operations whose result has fewer digits than its operands, or depends on rounding.",
        false => {
            "Numbers without an exact digit were multiplied, divided by or raised to a power: the digits of results \
             may be overestimated."
        }
    };
    page.section("Instabilities", words, &instabilities(&trust.instabilities));
    page
}

fn histogram(map: &DigitMap) -> String {
    let mut chart = Chart::new(520.0, 260.0, [24.0, 14.0, 42.0, 64.0], &format!("digits of {}", map.name));
    let counts = map.histogram();
    let most = counts.values().copied().max().unwrap_or(1) as f64;
    let x = Scale::linear(-0.5, f64::from(map.all) + 0.5, chart.left, chart.right);
    let y = Scale::linear(0.0, most, chart.bottom, chart.top);
    chart.y_axis(&y, &format!("{}s", map.unit));
    chart.x_axis(&x, "exact digits", false);
    for (digits, count) in counts {
        let (left, right) = (x.at(f64::from(digits) - 0.4), x.at(f64::from(digits) + 0.4));
        let (top, width) = (y.at(count as f64), right - left);
        let height = chart.bottom - top;
        chart.put(format_args!(
            r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" class="cell"><title>{digits} digits: {count}</title></rect>"#
        ));
    }
    chart.finish()
}

/// Draws the digits of a vector as lines, and those of a matrix as cells.
fn picture(map: &DigitMap) -> String {
    match map.shape {
        [0, _] | [_, 0] | [1, 1] => String::new(),
        [_, 1] => lines(map),
        _ => cells(map),
    }
}

fn lines(map: &DigitMap) -> String {
    let mut chart = Chart::new(
        520.0,
        260.0,
        [24.0, 14.0, 42.0, 64.0],
        &format!("digits of {} by {}", map.name, map.unit),
    );
    let x = Scale::linear(0.0, map.digits.len() as f64 - 1.0, chart.left, chart.right);
    let y = Scale::linear(0.0, f64::from(map.all), chart.bottom, chart.top);
    chart.y_axis(&y, "exact digits");
    chart.x_axis(&x, &map.unit, false);
    let each = map.digits.len().div_ceil(POINTS);
    let line = |of: fn(&[u8]) -> u8| -> Vec<(f64, f64)> {
        let pieces = map.digits.chunks(each).enumerate();
        pieces.map(|(at, digits)| (x.at((at * each) as f64), y.at(f64::from(of(digits))))).collect()
    };
    if each > 1 {
        chart.line(&line(|digits| digits.iter().copied().max().unwrap_or(0)), "c0");
    }
    chart.line(&line(|digits| digits.iter().copied().min().unwrap_or(0)), "c1");
    let caption = match each {
        1 => format!("digits of each {}", escape(&map.unit)),
        _ => format!("fewest (second line) and most digits of every {each} {}s", escape(&map.unit)),
    };
    figure(&chart.finish(), &caption)
}

fn cells(map: &DigitMap) -> String {
    let [rows, columns] = map.shape;
    let each = [rows.div_ceil(CELLS), columns.div_ceil(CELLS)];
    let [down, across] = [rows.div_ceil(each[0]), columns.div_ceil(each[1])];
    let size = 420.0 / down.max(across) as f64;
    let (width, height) = (4.0 + size * across as f64, 4.0 + size * down as f64);
    let mut chart = Chart::new(width, height, [2.0; 4], &format!("map of the digits of {}", map.name));
    for (i, j) in (0..down).flat_map(|i| (0..across).map(move |j| (i, j))) {
        let (first, last) =
            ([i * each[0], j * each[1]], [rows.min((i + 1) * each[0]), columns.min((j + 1) * each[1])]);
        let inside =
            (first[0]..last[0]).flat_map(|row| map.digits[row * columns..][first[1]..last[1]].iter());
        let digits = inside.copied().min().unwrap_or(0);
        let (x, y, place) = (2.0 + size * j as f64, 2.0 + size * i as f64, escape(&place(map, first)));
        // Few digits are dark, and noise is red.
        let (colour, opacity) = match digits {
            0 => ("bad", 1.0),
            _ => ("accent", 1.0 - 0.9 * f64::from(digits) / f64::from(map.all.max(1))),
        };
        chart.put(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{size:.2}" height="{size:.2}" fill="var(--{colour})" fill-opacity="{opacity:.2}"><title>{place}: {digits} digits</title></rect>"#
        ));
    }
    let of = if each == [1, 1] { String::new() } else { format!("; a cell is {} x {}", each[0], each[1]) };
    let caption = format!("the fewer digits, the darker; red where none is exact{of}");
    figure(&chart.finish(), &caption)
}

fn instabilities(report: &Report) -> String {
    if report.is_empty() {
        return "<p>No instability was detected.</p>".to_owned();
    }
    let mut table = String::from(
        "<div class=\"wide\"><table><tr><th>place</th><th>kind</th><th>operations</th><th>first in step</th><th>task</th><th>element</th></tr>",
    );
    for site in &report.sites {
        let (place, kind) = (escape(&site.place.to_string()), site.category.name());
        let (count, first) = (site.count, site.first);
        let _ = write!(
            table,
            "<tr><td>{place}</td><td class=\"left\">{kind}</td><td>{count}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            first.replay, first.task, first.element
        );
    }
    table + "</table></div>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_stochastic::{Scope, Stochastic};

    /// A vector, a matrix with noise in a corner, a single number, and a cancellation.
    fn sample() -> Trust {
        let scope = Scope::new(1);
        let number = scope.run(|| Stochastic::<f64>::new(1.0) / 3.0 - 0.333_333_33);
        let mut rows = vec![15; 500];
        rows[312] = 6;
        let mut tiles = vec![12; 40_000];
        tiles[39_999] = 0;
        Trust {
            samples: 8,
            seed: 3,
            maps: vec![
                DigitMap::new("x", "row", [500, 1], rows, 15),
                DigitMap::new("<factor>", "tile", [200, 200], tiles, 15),
                DigitMap::of_vector("residual", "norm", &[number]),
                DigitMap::new("nothing", "row", [0, 1], vec![], 15),
            ],
            converged: None,
            instabilities: scope.report(),
            conclusions: vec!["6 of 15 digits of x are exact & 9 are lost.".into()],
            plain_seconds: Some(0.5),
            seconds: 4.0,
        }
    }

    #[test]
    fn the_text_names_digits_places_and_conclusions() {
        let text = text(&sample(), false);
        for words in [
            "x: 6 to 15 of 15 digits, median 15, fewest in row 312\n",
            "    15   499  ########################################\n",
            "     6     1  #\n",
            "<factor>: 0 to 12 of 15 digits, median 12, fewest in tile (199, 199), 1 of 40000 without an exact digit\n",
            "nothing: no numbers\n",
            "1 losses of accuracy by cancellation\n",
            "apps/common/src/trust.rs:",
            "6 of 15 digits of x are exact & 9 are lost.\n",
            "8 samples, seed 3: 4.00 s, 8.00 times the plain run of 0.50 s\n",
        ] {
            assert!(text.contains(words), "{words:?} is missing in:\n{text}");
        }
    }

    #[test]
    fn the_page_has_a_picture_for_each_result() {
        let page = page("zellige trust solve A.mtx", &sample()).finish();
        // A histogram each, lines of the vector, cells of the matrix.
        assert_eq!(page.matches("<svg").count(), 6);
        assert!(page.contains("tile (198, 198): 0 digits") && page.contains("a cell is 3 x 3"), "{page}");
        assert!(page.contains("are exact &amp; 9") && page.contains("&lt;factor&gt;"));
        assert!(page.contains("losses of accuracy by cancellation") && !page.contains("NaN"));
    }
}
