//! Charts of Strehl ratios per rule, and of the spectra.

use crate::pipeline::{Measured, Outcome, XrayPicture};
use zellige_app::svg::{Chart, Scale, short};

/// Returns the space for the longest rule's name, in a fixed-width font of 12.5 px.
pub(super) fn name_width<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    names.map(|n| n.chars().count()).max().unwrap_or(0).clamp(6, 40) as f64 * 7.6 + 16.0
}

fn measured(outcome: &Outcome) -> Vec<(&str, &Measured)> {
    let list = outcome.results.iter();
    list.filter_map(|r| r.measured.as_ref().map(|m| (r.rule.as_str(), m))).collect()
}

/// Returns axis limits that separate these values, with space for a number on either side.
fn around(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return (0.0, 1.0);
    }
    let beside = (0.5 * (high - low)).max(1e-3);
    (low - beside, high + beside)
}

/// Draws the Strehl ratio of each rule: stationary and, if there is one, exact.
pub(super) fn strehl(outcome: &Outcome) -> String {
    let list = measured(outcome);
    let row = 30.0;
    let height = 70.0 + row * list.len() as f64;
    let mut chart = Chart::new(
        520.0,
        height,
        [16.0, 54.0, 46.0, name_width(list.iter().map(|l| l.0))],
        "Strehl ratio per rule",
    );
    let (low, high) = around(list.iter().flat_map(|(_, m)| [Some(m.strehl_moao), m.strehl_exact]).flatten());
    let x = Scale::linear(low, high, chart.left, chart.right);
    chart.x_axis(&x, &format!("Strehl ratio at {} µm", short(outcome.input.system.wavelength * 1e6)), true);
    for (k, (rule, m)) in list.iter().enumerate() {
        let y = chart.top + row * (k as f64 + 0.5);
        chart.text(chart.left - 10.0, y + 4.0, "end", "name", rule);
        if let Some(exact) = m.strehl_exact {
            let (a, b) = (x.at(m.strehl_moao), x.at(exact));
            chart.put(format_args!(r#"<path d="M{a:.1} {y:.1}H{b:.1}" class="bond"/>"#));
            chart.put(format_args!(
                r#"<circle cx="{b:.1}" cy="{y:.1}" r="5" class="dot exact"><title>exact: {exact:.6}</title></circle>"#
            ));
        }
        let a = x.at(m.strehl_moao);
        chart.put(format_args!(
            r#"<circle cx="{a:.1}" cy="{y:.1}" r="5" class="dot moao"><title>stationary: {:.6}</title></circle>"#,
            m.strehl_moao
        ));
        let exact = m.strehl_exact.unwrap_or(m.strehl_moao);
        let (left, right) = (exact.min(m.strehl_moao), exact.max(m.strehl_moao));
        if m.strehl_exact.is_some() {
            chart.text(x.at(left) - 9.0, y + 4.0, "end", "value", &format!("{left:.5}"));
        }
        chart.text(x.at(right) + 9.0, y + 4.0, "start", "value", &format!("{right:.5}"));
    }
    chart.finish()
}

/// Draws the distance of each rule from the reference, on a logarithmic scale.
pub(super) fn changes(outcome: &Outcome) -> Option<String> {
    let reference = outcome.reference()?;
    let base = reference.measured.as_ref()?.strehl_moao;
    let list: Vec<(&str, f64)> = measured(outcome)
        .into_iter()
        .filter(|(rule, _)| *rule != reference.rule)
        .map(|(rule, m)| (rule, (m.strehl_moao - base).abs()))
        .collect();
    if list.is_empty() {
        return None;
    }
    let row = 30.0;
    let height = 70.0 + row * list.len() as f64;
    let label = format!("distance of the Strehl ratio from {}", reference.rule);
    let mut chart =
        Chart::new(520.0, height, [16.0, 74.0, 46.0, name_width(list.iter().map(|l| l.0))], &label);
    let floor = 1e-9;
    let most = list.iter().map(|l| l.1).fold(1e-3, f64::max);
    let x = Scale::log(floor, most, chart.left, chart.right);
    chart.x_axis(&x, &format!("|Strehl ratio − that of {}|", reference.rule), true);
    for (k, (rule, change)) in list.iter().enumerate() {
        let y = chart.top + row * (k as f64 + 0.5);
        let (from, to) = (chart.left, x.at(change.max(floor)));
        chart.text(chart.left - 10.0, y + 4.0, "end", "name", rule);
        chart.put(format_args!(r#"<path d="M{from:.1} {y:.1}H{to:.1}" class="bond"/>"#));
        chart.put(format_args!(r#"<circle cx="{to:.1}" cy="{y:.1}" r="5" class="dot moao"/>"#));
        let text = if *change < floor { "below 10⁻⁹".into() } else { short(*change) };
        chart.text(to + 9.0, y + 4.0, "start", "value", &text);
    }
    Some(chart.finish())
}

/// Maximum number of points of one curve: more than the picture has pixels would only enlarge the
/// file.
const POINTS: usize = 400;

/// Draws the eigenvalues of the whole matrix, largest first.
pub(super) fn eigenvalues(xray: &XrayPicture) -> Option<String> {
    let values: Vec<f64> = xray.eigenvalues.iter().copied().filter(|v| *v > 0.0).collect();
    let (largest, smallest) = (*values.first()?, *values.last()?);
    let mut chart = Chart::new(520.0, 300.0, [24.0, 14.0, 42.0, 56.0], "eigenvalues of Cmm");
    let y = Scale::log(smallest, largest, chart.bottom, chart.top);
    let x = Scale::linear(0.0, 100.0, chart.left, chart.right);
    chart.y_axis(&y, "eigenvalue (arcsec²)");
    chart.x_axis(&x, "share of the spectrum (%)", false);
    chart.line(&thinned(&values, &x, &y), "c0");
    let condition = format!("condition number {}", short(largest / smallest));
    chart.text(chart.right, chart.top + 14.0, "end", "note", &condition);
    Some(chart.finish())
}

fn thinned(values: &[f64], x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    let last = values.len().saturating_sub(1).max(1) as f64;
    // The first values decrease fastest, so all of them are kept, and then a regular subset.
    let step = values.len().div_ceil(POINTS).max(1);
    let kept = |k: usize| k < 40 || k.is_multiple_of(step) || k + 1 == values.len();
    let points = values.iter().enumerate().filter(|(k, _)| kept(*k));
    points.map(|(k, v)| (x.at(100.0 * k as f64 / last), y.at(*v))).collect()
}

/// Draws the 2-norms of the tiles by distance from the diagonal: median, smallest, largest.
pub(super) fn norms(xray: &XrayPicture) -> Option<String> {
    let positive = |f: fn(f64, f64) -> f64, start| {
        xray.norms.iter().flat_map(|n| [n.min, n.max]).filter(|v| *v > 0.0).fold(start, f)
    };
    let (low, high) = (positive(f64::min, f64::INFINITY), positive(f64::max, 0.0));
    let last = xray.norms.last()?.distance.max(1) as f64;
    let mut chart = Chart::new(520.0, 300.0, [24.0, 14.0, 42.0, 56.0], "2-norms of tiles by distance");
    let y = Scale::log(low, high, chart.bottom, chart.top);
    let x = Scale::linear(0.0, last, chart.left + 8.0, chart.right);
    chart.y_axis(&y, "2-norm (arcsec²)");
    chart.x_axis(&x, "distance from the diagonal (tiles)", false);
    for n in &xray.norms {
        let (at, a, b) = (x.at(n.distance as f64), y.at(n.min), y.at(n.max));
        chart.put(format_args!(
            r#"<path d="M{at:.1} {a:.1}V{b:.1}" class="span"><title>distance {}: {} to {}, median {}</title></path>"#,
            n.distance,
            short(n.min),
            short(n.max),
            short(n.median)
        ));
    }
    let medians: Vec<_> = xray.norms.iter().map(|n| (x.at(n.distance as f64), y.at(n.median))).collect();
    chart.line(&medians, "c0");
    for (cx, cy) in medians {
        chart.put(format_args!(r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="2.5" class="dot moao"/>"#));
    }
    Some(chart.finish())
}

/// Draws the singular values of one tile at a few distances.
pub(super) fn spectra(xray: &XrayPicture) -> Option<(String, Vec<usize>)> {
    let all = xray.spectra.iter().flat_map(|s| s.1.iter().copied());
    let high = all.fold(0.0, f64::max);
    if high <= 0.0 {
        return None;
    }
    let low = high * 1e-10;
    let mut chart = Chart::new(520.0, 300.0, [24.0, 14.0, 42.0, 56.0], "singular values of single tiles");
    let y = Scale::log(low, high, chart.bottom, chart.top);
    let x = Scale::linear(0.0, 100.0, chart.left, chart.right);
    chart.y_axis(&y, "singular value (arcsec²)");
    chart.x_axis(&x, "share of the tile's spectrum (%)", false);
    for (k, (_, values)) in xray.spectra.iter().enumerate() {
        chart.line(&thinned(values, &x, &y), &format!("c{k}"));
    }
    Some((chart.finish(), xray.spectra.iter().map(|s| s.0).collect()))
}
