//! Report page of a search: positions of the hits, their signals, and the fit of the basis.

use zellige_app::page::{Page, figure};
use zellige_app::svg::{Chart, Scale, escape, positive, range, short};

use super::pictures::legend;
use crate::basis::Basis;
use crate::channels::{CHANNELS, Channel, Segment};
use crate::pipeline::results::{EventResult, Results};

/// An event with its signals, which the page shows.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Number of the event.
    pub number: usize,
    /// Signals (keV) by channel and sample.
    pub signals: Vec<f32>,
}

/// Limit of the hits that a projection shows. If there are more, it shows every second, third, ...
/// hit.
const MOST_HITS: usize = 4000;

/// Returns the page of a search for hits of a whole crystal with `basis`, with the signals of the
/// events `shown`.
pub fn of_search(title: &str, basis: &Basis, results: &Results, shown: &[Shown]) -> Page {
    let mut page = Page::new(title);
    let hits = &results.events;
    let words =
        format!("{} hits, found among {} points of known signals.", hits.len(), basis.positions().len());
    page.section(title, &words, "");
    let every = hits.len().div_ceil(MOST_HITS).max(1);
    let mut projections = String::from("<div class=\"row small\">");
    for (axes, names) in [([0, 1], ["x", "y"]), ([0, 2], ["x", "z"]), ([1, 2], ["y", "z"])] {
        let caption = format!("{} and {}", names[0], names[1]);
        projections += &figure(&projection(basis, hits, every, axes, names), &caption);
    }
    projections += "</div>";
    let left_out = if every > 1 { format!(" One hit of {every} is shown.") } else { String::new() };
    let words = format!(
        "Three projections of the crystal; the outline is that of the basis. The larger the dot, the larger the energy.{left_out}"
    );
    page.section("Hits in the crystal", &words, &projections);
    page.section(
        "Figures of merit",
        "How many hits have which figure of merit, for a charge of 1000: 0 is a perfect fit.",
        &merits(hits),
    );
    if !shown.is_empty() {
        let mut all = legend(&["event", "basis, of the hits together"]);
        for event in shown {
            let mut of_event = hits.iter().filter(|hit| hit.event == event.number).peekable();
            if of_event.peek().is_none() {
                continue;
            }
            let own: Vec<&EventResult> = of_event.collect();
            let hit = |hit: &&EventResult| {
                format!(
                    "{} keV in segment {} (figure of merit {})",
                    short(hit.energy),
                    hit.segment,
                    short(hit.fom)
                )
            };
            let hits: Vec<String> = own.iter().map(hit).collect();
            all += &figure(
                &signals(basis, event, &own),
                &escape(&format!("event {}: {}", event.number, hits.join(", "))),
            );
        }
        let words = "Signals of some events (--show), side by side: segments that were hit, the core, and those of the others that moved most. The basis is scaled by the energies that were found.";
        page.section("Signals", words, &all);
    }
    page
}

/// Draws one of the three views along an axis, at equal scales.
fn projection(
    basis: &Basis,
    hits: &[EventResult],
    every: usize,
    axes: [usize; 2],
    names: [&str; 2],
) -> String {
    let flat = |p: &[f32; 3]| axes.map(|axis| f64::from(p[axis]));
    let points: Vec<[f64; 2]> = basis.positions().iter().map(flat).collect();
    let outline = hull(points);
    let ends = |axis: usize| {
        range(outline.iter().map(|p| p[axis]).chain(hits.iter().map(|hit| flat(&hit.position)[axis])))
    };
    let ([left, right], [low, high]) = ([ends(0).0, ends(0).1], [ends(1).0, ends(1).1]);
    let (wide, tall) = ((right - left).max(1.0), (high - low).max(1.0));
    // The scale (pixels per mm) is the same along both axes.
    let size = 3.4;
    let margins = [24.0, 14.0, 42.0, 44.0];
    let (width, height) = (wide * size + margins[1] + margins[3], tall * size + margins[0] + margins[2]);
    let label = format!("hits in the crystal, {} against {}", names[1], names[0]);
    let mut chart = Chart::new(width, height, margins, &label);
    let x = Scale::linear(left, left + wide, chart.left, chart.right);
    let y = Scale::linear(low, low + tall, chart.bottom, chart.top);
    chart.x_axis(&x, &format!("{} (mm)", names[0]), true);
    chart.y_axis(&y, &format!("{} (mm)", names[1]));
    let corners: Vec<String> =
        outline.iter().map(|p| format!("{:.1} {:.1}", x.at(p[0]), y.at(p[1]))).collect();
    chart.put(format_args!(r#"<path d="M{}Z" class="line base"/>"#, corners.join("L")));
    for hit in hits.iter().step_by(every) {
        let [a, b] = flat(&hit.position);
        let radius = (1.2 + hit.energy.max(1.0).log10() * 0.5).min(4.0);
        chart.put(format_args!(
            r#"<circle cx="{:.1}" cy="{:.1}" r="{radius:.1}" class="f-c0" fill-opacity="0.45"><title>event {}: {} keV</title></circle>"#,
            x.at(a),
            y.at(b),
            hit.event,
            short(hit.energy)
        ));
    }
    chart.finish()
}

/// Returns the convex hull, anticlockwise (Andrew 1979).
fn hull(mut points: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    points.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    points.dedup();
    let half = |points: &mut dyn Iterator<Item = [f64; 2]>| {
        let mut half: Vec<[f64; 2]> = Vec::new();
        for p in points {
            while let [.., a, b] = half[..] {
                if (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 0.0 {
                    break;
                }
                half.pop();
            }
            half.push(p);
        }
        half.pop();
        half
    };
    let lower = half(&mut points.iter().copied());
    let upper = half(&mut points.iter().rev().copied());
    if lower.is_empty() { points } else { [lower, upper].concat() }
}

/// Draws a histogram of the figures of merit of the hits.
fn merits(hits: &[EventResult]) -> String {
    const BARS: usize = 40;
    let all: Vec<f64> = hits.iter().map(|hit| hit.fom).filter(|&fom| positive(fom)).collect();
    if all.is_empty() {
        return "<p class=\"soft\">No hit has a figure of merit above 0.</p>".into();
    }
    let (least, most) = range(all.iter().copied());
    let mut chart = Chart::new(620.0, 260.0, [26.0, 14.0, 42.0, 52.0], "figures of merit of the hits");
    let x = Scale::log(least, most, chart.left, chart.right);
    let mut counts = [0usize; BARS];
    for fom in &all {
        let share = (x.at(*fom) - chart.left) / (chart.right - chart.left);
        counts[((share * BARS as f64) as usize).min(BARS - 1)] += 1;
    }
    let top = counts.iter().copied().max().unwrap_or(1);
    let y = Scale::linear(0.0, top as f64, chart.bottom, chart.top);
    chart.y_axis(&y, "hits");
    let width = (chart.right - chart.left) / BARS as f64;
    for (k, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (left, high) = (chart.left + k as f64 * width, y.at(count as f64));
        chart.put(format_args!(
            r#"<rect x="{left:.1}" y="{high:.1}" width="{:.1}" height="{:.1}" class="f-c0"><title>{count} hits</title></rect>"#,
            width - 1.0,
            chart.bottom - high
        ));
    }
    chart.x_axis(&x, "figure of merit", false);
    figure(&chart.finish(), "figures of merit of all hits")
}

/// Number of channels that are shown in addition to those of the hits and the core.
const OTHERS: usize = 3;

/// Draws the channels of an event next to each other, with the sum of the basis signals of its
/// hits.
fn signals(basis: &Basis, event: &Shown, hits: &[&EventResult]) -> String {
    let samples = (event.signals.len() / CHANNELS).min(basis.sampling().samples);
    let length = event.signals.len() / CHANNELS;
    let fitted = fitted(basis, hits, samples);
    let own = |channel: usize| &event.signals[channel * length..][..samples];
    let of_fit = |channel: usize| &fitted[channel * samples..][..samples];
    let mut channels: Vec<usize> = Vec::new();
    for hit in hits {
        if !channels.contains(&hit.segment) && hit.segment < CHANNELS {
            channels.push(hit.segment);
        }
    }
    channels.push(Channel::CORE.index());
    let moved = |channel: usize| of_fit(channel).iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let mut others: Vec<usize> = (0..CHANNELS).filter(|channel| !channels.contains(channel)).collect();
    others.sort_by(|&a, &b| moved(b).total_cmp(&moved(a)));
    channels.extend(others.into_iter().take(OTHERS));

    let mut chart =
        Chart::new(900.0, 220.0, [40.0, 14.0, 42.0, 56.0], &format!("signals of event {}", event.number));
    let shown = || {
        channels
            .iter()
            .flat_map(|&c| own(c).iter().chain(of_fit(c)))
            .map(|&x| f64::from(x))
            .filter(|x| x.is_finite())
    };
    let (low, high) = range(shown().chain([0.0]));
    let y = Scale::linear(low, high, chart.bottom, chart.top);
    chart.y_axis(&y, "keV");
    let width = (chart.right - chart.left) / channels.len() as f64;
    for (k, &channel) in channels.iter().enumerate() {
        let left = chart.left + k as f64 * width;
        let right = left + 0.94 * width;
        let x = |sample: usize| left + (right - left) * sample as f64 / (samples - 1).max(1) as f64;
        let name =
            if channel == Channel::CORE.index() { "core".to_owned() } else { format!("segment {channel}") };
        chart.text((left + right) / 2.0, chart.top - 8.0, "middle", "tick", &name);
        for (values, class) in [(own(channel), "c0"), (of_fit(channel), "c1")] {
            let points: Vec<(f64, f64)> =
                values.iter().enumerate().map(|(t, &v)| (x(t), y.at(f64::from(v)))).collect();
            chart.line(&points, class);
        }
    }
    let ns = basis.sampling().step * samples as f64;
    chart.text(
        (chart.left + chart.right) / 2.0,
        chart.bottom + 24.0,
        "middle",
        "axis",
        &format!("{} ns each", short(ns)),
    );
    chart.finish()
}

/// Returns the sum of the basis signals of the hits, scaled by their energies.
fn fitted(basis: &Basis, hits: &[&EventResult], samples: usize) -> Vec<f32> {
    let mut out = vec![0.0; CHANNELS * samples];
    for hit in hits {
        let Some(segment) = Segment::from_index(hit.segment) else { continue };
        let away = |p: &[f32; 3]| p.iter().zip(&hit.position).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
        let places = basis.positions().iter().zip(basis.segments()).enumerate();
        let of_segment = places.filter(|(_, (_, other))| **other == segment);
        let nearest = of_segment.min_by(|(_, (a, _)), (_, (b, _))| away(a).total_cmp(&away(b)));
        let Some((point, _)) = nearest else { continue };
        for channel in Channel::all() {
            let signal = basis.signal(point, channel);
            let to = &mut out[channel.index() * samples..][..samples];
            to.iter_mut().zip(signal).for_each(|(to, &from)| *to += hit.energy as f32 * from);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hulls_go_around() {
        let square = [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]];
        let inside = [[1.0, 1.0], [0.5, 1.5], [1.0, 0.0]];
        assert_eq!(hull([&inside[..], &square[..]].concat()), square);
        assert_eq!(hull(vec![[1.0, 1.0]]), [[1.0, 1.0]]);
    }
}
