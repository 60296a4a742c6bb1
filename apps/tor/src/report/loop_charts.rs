//! Charts of simulated loops: Strehl ratios by reconstructor and by frame, and slopes.

use super::charts::name_width;
use crate::end_to_end::LoopRun;
use crate::geometry::SubApertures;
use std::fmt::Write;
use zellige_app::svg::{Chart, Scale, range, short};

/// Draws the Strehl ratio of the first target at its first wavelength for each reconstructor: a bar
/// in the proportions of the precisions of its tile products, and its standard error.
pub(super) fn strehls(runs: &[LoopRun]) -> String {
    let row = 34.0;
    let names = runs.iter().map(|run| run.reconstructor.as_str());
    let height = 70.0 + row * runs.len() as f64;
    let margins = [16.0, 140.0, 46.0, name_width(names)];
    let mut chart = Chart::new(680.0, height, margins, "Strehl ratio per reconstructor");
    let first = |run: &LoopRun| {
        let target = run.result.as_ref()?.targets.first()?;
        Some((target.bands.first()?.strehl, target.strehl_error))
    };
    let ends = runs.iter().filter_map(first).map(|(strehl, error)| strehl + error.unwrap_or(0.0));
    let x = Scale::linear(0.0, ends.fold(1e-3, f64::max), chart.left, chart.right);
    chart.x_axis(&x, "Strehl ratio", true);
    for (k, run) in runs.iter().enumerate() {
        let y = chart.top + row * (k as f64 + 0.5);
        chart.text(chart.left - 10.0, y + 4.0, "end", "name", &run.reconstructor);
        let Some((strehl, error)) = first(run) else {
            let words = if run.not_spd.is_some() { "not positive definite" } else { "no exposure" };
            chart.text(chart.left + 8.0, y + 4.0, "start", "note", words);
            continue;
        };
        bar(&mut chart, run, &x, y, strehl);
        let end = strehl + error.unwrap_or(0.0);
        let mut words = format!("{strehl:.4}");
        if let Some(error) = error {
            let (a, b) = (x.at(strehl - error), x.at(strehl + error));
            let (top, bottom) = (y - 6.0, y + 6.0);
            chart.put(format_args!(
                r#"<path d="M{a:.1} {y:.1}H{b:.1}M{a:.1} {top:.1}V{bottom:.1}M{b:.1} {top:.1}V{bottom:.1}" class="target"/>"#
            ));
            let _ = write!(words, " ± {error:.4}");
        }
        chart.text(x.at(end) + 9.0, y + 4.0, "start", "value", &words);
    }
    chart.finish()
}

/// Draws the bar of a run, divided by precision if the run has a rule.
fn bar(chart: &mut Chart, run: &LoopRun, x: &Scale, y: f64, strehl: f64) {
    let (start, width) = (x.at(0.0), x.at(strehl) - x.at(0.0));
    let (top, height) = (y - 10.0, 20.0);
    let shares = run.shares.map_or(Vec::new(), |shares| shares.list().to_vec());
    let used: Vec<_> = shares.into_iter().filter(|(_, share)| *share > 0.0).collect();
    if used.is_empty() {
        chart.put(format_args!(
            r#"<rect x="{start:.1}" y="{top:.1}" width="{width:.1}" height="{height}" class="f-c0"/>"#
        ));
    }
    let mut from = start;
    for (name, share) in used {
        let part = width * share;
        let percent = 100.0 * share;
        chart.put(format_args!(
            r#"<rect x="{from:.1}" y="{top:.1}" width="{part:.1}" height="{height}" class="p-{name}"><title>{name}: {percent:.1} % of the products</title></rect>"#
        ));
        from += part;
    }
}

/// Maximum number of points of one line.
const POINTS: usize = 400;

/// Draws the Strehl ratio of each frame, one line for each named history; at most 400 points of a
/// line, each the mean of as many frames.
pub(super) fn history(lines: &[(&str, &[f32])], wavelength: f64) -> String {
    let mut chart = Chart::new(760.0, 300.0, [30.0, 14.0, 42.0, 56.0], "Strehl ratio against frame");
    let means = |history: &[f32]| -> Vec<(f64, f64)> {
        let step = history.len().div_ceil(POINTS).max(1);
        let mean = |part: &[f32]| part.iter().map(|v| f64::from(*v)).sum::<f64>() / part.len() as f64;
        let middle = |k: usize, part: &[f32]| (k * step) as f64 + 0.5 * (part.len() as f64 + 1.0);
        history.chunks(step).enumerate().map(|(k, part)| (middle(k, part), mean(part))).collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = lines.iter().map(|(_, history)| means(history)).collect();
    let (low, high) = range(lines.iter().flatten().map(|point| point.1));
    let beside = (0.1 * (high - low)).max(1e-3);
    let last = lines.iter().flatten().map(|point| point.0).fold(1.0, f64::max);
    let y = Scale::linear(low - beside, high + beside, chart.bottom, chart.top);
    let x = Scale::linear(0.0, last, chart.left, chart.right);
    chart.y_axis(&y, &format!("Strehl ratio at {} µm", short(1e6 * wavelength)));
    chart.x_axis(&x, "frame of the exposure", false);
    for (k, line) in lines.iter().enumerate() {
        let points: Vec<(f64, f64)> = line.iter().map(|(at, strehl)| (x.at(*at), y.at(*strehl))).collect();
        chart.line(&points, &format!("c{}", k % 5));
    }
    chart.finish()
}

/// Maximum number of arrows of a sensor.
const ARROWS: usize = 2500;

/// Draws the slopes \[arcsec\] of a sensor as arrows from the centres of its sub-apertures; returns
/// the picture and the longest slope in arcsec.
pub(super) fn slopes(sensor: &SubApertures, slopes: &[f64], diameter: f64) -> (String, f64) {
    let half = diameter / 2.0;
    let mut chart = Chart::new(420.0, 440.0, [18.0, 14.0, 42.0, 46.0], "slopes of the first sensor");
    let x = Scale::linear(-half * 1.1, half * 1.1, chart.left, chart.right);
    let y = Scale::linear(-half * 1.1, half * 1.1, chart.bottom, chart.top);
    chart.y_axis(&y, "y (m)");
    chart.x_axis(&x, "x (m)", false);
    let count = sensor.len();
    let slope = |i: usize| [slopes[i], slopes[count + i]];
    let longest = (0..count).map(|i| slope(i)[0].hypot(slope(i)[1])).fold(0.0, f64::max);
    let scale = 1.5 * (x.at(sensor.pitch) - x.at(0.0)) / longest.max(1e-12);
    let mut arrows = String::new();
    for i in (0..count).step_by(count.div_ceil(ARROWS).max(1)) {
        let [cx, cy] = sensor.centre(i);
        let [sx, sy] = slope(i).map(|s| s * scale);
        let (px, py) = (x.at(cx), y.at(cy));
        chart.put(format_args!(r#"<circle cx="{px:.1}" cy="{py:.1}" r="1.6" class="moao"/>"#));
        let _ = write!(arrows, "M{px:.1} {py:.1}l{sx:.1} {:.1}", -sy);
    }
    chart.put(format_args!(r#"<path d="{arrows}" class="line c0"/>"#));
    (chart.finish(), longest)
}
