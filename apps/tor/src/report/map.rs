//! Precision maps: the precision of the products on each tile.

use crate::pipeline::PrecisionMap;
use std::cmp::Reverse;
use std::fmt::Write;
use zellige_app::svg::{Chart, escape};
use zellige_dense::GemmPrecision;

/// Maximum number of tiles per side for which each tile shows its mixture and its numbers. Above
/// it, runs of equal tiles share one mark.
const DETAILED: usize = 64;

/// Draws a map: the lower triangle, true to the widths of the tiles. Lines are where another sensor
/// begins; `sub_apertures` are those of each sensor.
pub(super) fn map(map: &PrecisionMap, edges: &[usize], sub_apertures: &[usize], label: &str) -> String {
    let tiles = map.tiles;
    let n = edges.last().copied().unwrap_or(0).max(1) as f64;
    let size = 340.0;
    let mut chart = Chart::new(size, size, [2.0; 4], &format!("precision map of {label}"));
    let at = |edge: usize| 2.0 + (size - 4.0) * edges[edge] as f64 / n;
    let gap = if tiles <= DETAILED { 0.8 } else { 0.0 };
    for i in 0..tiles {
        let (y, height) = (at(i), at(i + 1) - at(i));
        if tiles > DETAILED {
            coarse(&mut chart, map, i, y, height, &at);
            continue;
        }
        for j in 0..=i {
            let (x, width) = (at(j), at(j + 1) - at(j));
            let (w, h) = ((width - gap).max(0.2), (height - gap).max(0.2));
            let counts = map.at(i, j);
            let total: u32 = counts.iter().sum();
            let title = escape(&title(i, j, &counts));
            if total == 0 {
                chart.put(format_args!(
                    r#"<rect x="{x:.2}" y="{y:.2}" width="{w:.2}" height="{h:.2}" class="none"><title>{title}</title></rect>"#
                ));
                continue;
            }
            chart.put(format_args!("<g><title>{title}</title>"));
            let mut from = x;
            for (p, count) in GemmPrecision::ALL.iter().zip(counts) {
                if count > 0 {
                    let part = w * f64::from(count) / f64::from(total);
                    let name = p.name();
                    chart.put(format_args!(
                        r#"<rect x="{from:.2}" y="{y:.2}" width="{part:.2}" height="{h:.2}" class="p-{name}"/>"#
                    ));
                    from += part;
                }
            }
            chart.put(format_args!("</g>"));
        }
    }
    let pixels = |row: usize| 2.0 + (size - 4.0) * row as f64 / n;
    for row in sensors(sub_apertures) {
        let (at, end) = (pixels(row), size - 2.0);
        chart.put(format_args!(r#"<path d="M2 {at:.2}H{at:.2}V{end:.2}" class="edge"/>"#));
    }
    chart.finish()
}

/// Returns the first measurement of each sensor except the first one.
fn sensors(sub_apertures: &[usize]) -> impl Iterator<Item = usize> + '_ {
    let slopes = sub_apertures.iter().map(|sub_apertures| 2 * sub_apertures);
    let before = slopes.scan(0, |before, slopes| {
        *before += slopes;
        Some(*before)
    });
    before.take(sub_apertures.len().saturating_sub(1))
}

/// Draws a row of tiles by their most frequent precision, with neighbours of one kind merged.
fn coarse(chart: &mut Chart, map: &PrecisionMap, i: usize, y: f64, height: f64, at: &dyn Fn(usize) -> f64) {
    let kind = |j: usize| {
        let counts = map.at(i, j);
        let most = counts.iter().enumerate().max_by_key(|(k, c)| (**c, Reverse(*k)));
        most.filter(|(_, c)| **c > 0).map(|(k, _)| GemmPrecision::ALL[k].name())
    };
    let mut first = 0;
    while first <= i {
        let this = kind(first);
        let mut next = first + 1;
        while next <= i && kind(next) == this {
            next += 1;
        }
        let (x, width) = (at(first), at(next) - at(first));
        let class = this.map_or("none".to_owned(), |name| format!("p-{name}"));
        chart.put(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" class="{class}"/>"#
        ));
        first = next;
    }
}

fn title(i: usize, j: usize, counts: &[u32]) -> String {
    let total: u32 = counts.iter().sum();
    let mut text = format!("tile ({i}, {j}): ");
    if total == 0 {
        text.push_str("no products, only kernels in the tile's own precision");
        return text;
    }
    let _ = write!(text, "{total} product{}", if total == 1 { "" } else { "s" });
    for (p, &count) in GemmPrecision::ALL.iter().zip(counts) {
        if count > 0 {
            let _ = write!(text, ", {} {:.0} %", p.name(), 100.0 * f64::from(count) / f64::from(total));
        }
    }
    text
}

/// Returns the precisions that occur in any map, with their colours.
pub(super) fn legend<'m>(maps: impl Iterator<Item = &'m PrecisionMap> + Clone) -> String {
    let mut out = String::from(r#"<p class="legend">"#);
    for (k, p) in GemmPrecision::ALL.iter().enumerate() {
        if maps.clone().any(|map| map.counts.iter().any(|counts| counts[k] > 0)) {
            let _ = write!(out, r#"<span><i class="b-{0}"></i>{0}</span>"#, p.name());
        }
    }
    out.push_str(r#"<span><i class="b-none"></i>no products (diagonal, first column)</span></p>"#);
    out
}
