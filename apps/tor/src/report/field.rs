//! Maps of a corrected field.

use super::image::colour;
use crate::end_to_end::{FieldMap, LoopRun, LoopTarget};
use std::fmt::Write;
use zellige_app::page::figure;
use zellige_app::svg::{Chart, Scale, escape, range, short};

/// Returns a section with two maps for each loop that corrects a field: Strehl ratios of the loop
/// and of the covariances. Empty if there is none.
pub fn section(runs: &[LoopRun]) -> String {
    let maps: Vec<(&LoopRun, &FieldMap)> =
        runs.iter().filter_map(|run| Some((run, run.field.as_ref()?))).collect();
    let Some((_, first)) = maps.first() else { return String::new() };
    let mut out = format!(
        "<section><h2>Field</h2><p class=\"soft\">Strehl ratios at {} µm. Those of the covariances are of the \
         tomographic error and of what the mirrors leave of it, without fitting, aliasing and delay.</p>\
         <div class=\"row\">",
        short(1e6 * first.wavelength)
    );
    for (run, map) in maps {
        let of_loop = targets(run).filter_map(|target| Some(target.bands.first()?.strehl));
        let of_covariances = map.points.iter().map(|point| point.strehl);
        let name = escape(&run.reconstructor);
        for (kind, values) in
            [("loop", of_loop.collect()), ("covariances", of_covariances.collect::<Vec<f64>>())]
        {
            out.push_str(&figure(&picture(map, &values, kind), &format!("<code>{name}</code>: {kind}")));
        }
    }
    out.push_str("</div></section>\n");
    out
}

fn targets(run: &LoopRun) -> impl Iterator<Item = &LoopTarget> {
    run.result.iter().flat_map(|result| &result.targets)
}

/// Draws a square in the colour of its value at each direction of the field.
fn picture(map: &FieldMap, values: &[f64], kind: &str) -> String {
    let side = spacing(map);
    let reach = map.points.iter().map(|p| p.x.abs().max(p.y.abs())).fold(0.0, f64::max) + 0.75 * side;
    let label = format!("Strehl ratios of the {kind} over the field");
    let mut chart = Chart::new(340.0, 360.0, [18.0, 14.0, 42.0, 46.0], &label);
    let x = Scale::linear(-reach, reach, chart.left, chart.right);
    let y = Scale::linear(-reach, reach, chart.bottom, chart.top);
    chart.y_axis(&y, "y (arcsec)");
    chart.x_axis(&x, "x (arcsec)", false);
    let (low, high) = range(values.iter().copied());
    let width = x.at(side) - x.at(0.0);
    for (point, value) in map.points.iter().zip(values) {
        let share = if high > low { (value - low) / (high - low) } else { 1.0 };
        let [r, g, b] = colour(0.2 + 0.8 * share);
        let (cx, cy) = (x.at(point.x), y.at(point.y));
        chart.put(format_args!(
            r#"<rect x="{:.1}" y="{:.1}" width="{width:.1}" height="{width:.1}" fill="rgb({r} {g} {b})"><title>({}, {}) arcsec: {value:.4}</title></rect>"#,
            cx - width / 2.0,
            cy - width / 2.0,
            point.x,
            point.y
        ));
        if width > 26.0 {
            let ink = if share > 0.5 { "#000" } else { "#fff" };
            chart.put(format_args!(
                r#"<text x="{cx:.1}" y="{:.1}" text-anchor="middle" style="fill:{ink};font-size:10px">{value:.3}</text>"#,
                cy + 3.5
            ));
        }
    }
    chart.finish()
}

/// Returns the smallest distance between two directions along an axis in arcsec, the side of the
/// largest squares that do not overlap.
fn spacing(map: &FieldMap) -> f64 {
    let mut least = f64::INFINITY;
    for (i, a) in map.points.iter().enumerate() {
        for b in &map.points[..i] {
            least = least.min((a.x - b.x).abs().max((a.y - b.y).abs()));
        }
    }
    if least.is_finite() && least > 0.0 { least } else { 1.0 }
}

/// Returns the lines of the field's table: each target, the Strehl ratio of the loop, that of the
/// covariances, and its wavefront error in nm.
pub(super) fn lines(run: &LoopRun) -> Vec<[String; 4]> {
    let points = run.field.iter().flat_map(|map| &map.points);
    let mut out = Vec::new();
    for (target, point) in targets(run).zip(points) {
        let mut place = String::new();
        let _ = write!(place, "({}, {})", short(point.x), short(point.y));
        let of_loop = target.bands.first().map_or("-".into(), |band| format!("{:.4}", band.strehl));
        out.push([place, of_loop, format!("{:.4}", point.strehl), format!("{:.1}", point.wfe_nm)]);
    }
    out
}
