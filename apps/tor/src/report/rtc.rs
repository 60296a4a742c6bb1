//! Frames in real time as text and as a page.

use crate::rtc::{BIN, Latencies, Losses, RtcResult};
use std::fmt::Write;
use zellige_app::page::{Page, figure};
use zellige_app::svg::{Chart, Scale};
use zellige_app::table::{Side, Table};
use zellige_app::text::{bytes, digits};

/// Describes a run of frames.
pub fn text(result: &RtcResult, colours: bool) -> String {
    let mut table = Table::new(&[
        ("us", Side::Left),
        ("p50", Side::Right),
        ("p99", Side::Right),
        ("p99.9", Side::Right),
        ("max", Side::Right),
        ("mean", Side::Right),
        ("jitter", Side::Right),
    ]);
    for (name, times) in rows(result) {
        table.row([name.to_owned()].into_iter().chain(figures(times)));
    }
    let mut out = format!(
        "{} frames in {} s: {}\n{}{} a frame, {} GB/s\n",
        result.frames,
        digits(result.seconds),
        words(result),
        table.render(colours),
        bytes(result.bytes_per_frame),
        digits(result.gigabytes_per_second),
    );
    for (name, count) in counts(&result.losses).into_iter().filter(|(_, count)| *count > 0) {
        let _ = writeln!(out, "{name}: {count}");
    }
    let first = &result.losses.incomplete;
    if !first.is_empty() {
        let named: Vec<String> =
            first.iter().map(|f| format!("{} ({} slopes)", f.frame, f.missing_slopes)).collect();
        let _ = writeln!(out, "the first incomplete frames: {}", named.join(", "));
    }
    out
}

/// Returns the page of a run of frames.
pub fn page(title: &str, result: &RtcResult) -> Page {
    let mut page = Page::new(title);
    page.heading(title);
    page.facts(&[
        ("frames", result.frames.to_string()),
        ("a frame", bytes(result.bytes_per_frame)),
        ("GB/s", digits(result.gigabytes_per_second)),
        ("median latency, us", digits(result.latency.p50_us)),
        ("99.9 % of the latencies, us", digits(result.latency.p999_us)),
        ("longest latency, us", digits(result.latency.max_us)),
    ]);
    let mut markup =
        figure(&histogram(&result.latency), "From the last packet of slopes to the last command.");
    markup += "<table><thead><tr><th class=\"left\">us</th><th>p50</th><th>p99</th><th>p99.9</th><th>max</th>\
               <th>mean</th><th>jitter</th></tr></thead><tbody>";
    for (name, times) in rows(result) {
        let cells = figures(times).map(|cell| format!("<td>{cell}</td>")).concat();
        let _ = write!(markup, "<tr><td class=\"left\">{name}</td>{cells}</tr>");
    }
    markup += "</tbody></table>";
    page.section("Latency", &format!("Of complete frames. {}.", words(result)), &markup);
    let lines = counts(&result.losses)
        .map(|(name, count)| format!("<tr><td class=\"left\">{name}</td><td>{count}</td></tr>"));
    let losses = format!("<table><tbody>{}</tbody></table>", lines.concat());
    page.section("Losses", "Packets and frames, the first ones that do not count included.", &losses);
    page
}

fn words(result: &RtcResult) -> String {
    let setting = &result.setting;
    let bits = if result.bits == 32.0 { "float32".into() } else { format!("{} bits", digits(result.bits)) };
    let pace = setting.rate_hz.map_or("one after the other".into(), |rate| format!("at {} Hz", digits(rate)));
    format!(
        "{} x {} in {bits}, {}, {pace}, {}",
        result.rows,
        result.columns,
        result.gpu.map_or(format!("{} worker(s)", setting.workers), |gpu| format!("GPU {gpu}")),
        setting.udp_port.map_or("rings in memory", |_| "UDP on this machine"),
    )
}

fn rows(result: &RtcResult) -> [(&'static str, &Latencies); 2] {
    [("last packet to last command", &result.latency), ("first packet to last command", &result.whole)]
}

fn figures(times: &Latencies) -> [String; 6] {
    [times.p50_us, times.p99_us, times.p999_us, times.max_us, times.mean_us, times.jitter_us].map(digits)
}

fn counts(losses: &Losses) -> [(&'static str, u64); 9] {
    [
        ("lost frames", losses.lost_frames),
        ("incomplete frames", losses.incomplete_frames),
        ("of them late", losses.late_frames),
        ("missing slopes", losses.missing_slopes),
        ("late packets", losses.late_packets),
        ("repeated packets", losses.repeated_packets),
        ("malformed packets", losses.malformed_packets),
        ("new starts of the sender", losses.restarts),
        ("dropped packets of commands", losses.unsent_packets),
    ]
}

/// Draws the frames of each bin; both axes are logarithmic.
fn histogram(times: &Latencies) -> String {
    let mut chart = Chart::new(760.0, 300.0, [30.0, 14.0, 42.0, 64.0], "frames by latency");
    let (Some(first), Some(last)) = (times.histogram.first(), times.histogram.last()) else {
        return chart.finish();
    };
    let most = times.histogram.iter().map(|bin| bin.frames).max().unwrap_or(1) as f64;
    let x = Scale::log(first.up_to_us / BIN / 1.5, last.up_to_us * 1.5, chart.left, chart.right);
    let y = Scale::log(0.5, 2.0 * most, chart.bottom, chart.top);
    chart.y_axis(&y, "frames");
    chart.x_axis(&x, "latency (us)", true);
    for bin in &times.histogram {
        let (left, top) = (x.at(bin.up_to_us / BIN), y.at(bin.frames as f64));
        let (width, height) = (x.at(bin.up_to_us) - left, chart.bottom - top);
        chart.put(format_args!(
            r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" class="f-c0"><title>{} frames up to {:.2} us</title></rect>"#,
            bin.frames, bin.up_to_us
        ));
    }
    chart.finish()
}
