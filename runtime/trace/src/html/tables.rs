//! The page's tables.

use std::io::{self, Write};

use super::{Engineering, Escaped, Grouped};
use crate::TransferReason;
use crate::report::Report;
use crate::summary::{Bytes, Short};

/// Writes one row per codelet.
pub(super) fn codelets(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let all: f64 = report.codelets.iter().map(|codelet| codelet.total.as_secs_f64()).sum();
    for (place, codelet) in report.codelets.iter().enumerate() {
        let share = 100.0 * codelet.total.as_secs_f64() / all.max(f64::MIN_POSITIVE);
        write!(
            out,
            "<tr><th scope=\"row\"><i class=\"swatch\" data-codelet=\"{place}\"></i>{}</th>",
            Escaped(codelet.name)
        )?;
        write!(out, "<td>{}</td><td>{}</td>", Grouped(codelet.count as u64), Short(codelet.total))?;
        write!(
            out,
            "<td class=\"share\"><i><b data-codelet=\"{place}\" style=\"width:{share:.2}%\"></b></i><span>{share:.1} %</span></td>"
        )?;
        for time in [codelet.mean, codelet.median, codelet.min, codelet.max, codelet.stdev] {
            write!(out, "<td>{}</td>", Short(time))?;
        }
        if codelet.flops > 0.0 {
            write!(out, "<td>{}flop</td>", Engineering(codelet.flops))?;
            write!(out, "<td>{:.1}</td>", codelet.gflops())?;
        } else {
            write!(out, "<td>–</td><td>–</td>")?;
        }
        match codelet.measured_over_predicted() {
            Some(ratio) => writeln!(out, "<td>{ratio:.3}</td></tr>")?,
            None => writeln!(out, "<td>–</td></tr>")?,
        }
    }
    Ok(())
}

/// Writes a panel with a row per link and one per memory node; nothing if the run used only the
/// host's memory.
pub(super) fn moved(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if report.nodes.is_empty() {
        return Ok(());
    }
    head(out, "Transfers per link", &["link", "transfers", "bytes"])?;
    for reason in TransferReason::ALL {
        write!(out, "<th scope=\"col\">{}</th>", reason.name())?;
    }
    writeln!(out, "<th scope=\"col\">converted</th><th scope=\"col\">busy</th></tr></thead><tbody>")?;
    for link in &report.links {
        write!(out, "<tr><th scope=\"row\">{}", Escaped(&link.from))?;
        match link.within {
            true => write!(out, ", conversions</th>")?,
            false => write!(out, " → {}</th>", Escaped(&link.to))?,
        }
        write!(out, "<td>{}</td><td>{}</td>", Grouped(link.transfers as u64), Bytes(link.bytes))?;
        link.by_reason.iter().try_for_each(|&bytes| write!(out, "<td>{}</td>", Bytes(bytes)))?;
        writeln!(out, "<td>{}</td><td>{}</td></tr>", Grouped(link.converted as u64), Short(link.busy))?;
    }
    writeln!(out, "</tbody></table></div></section>")?;
    let columns = [
        "node",
        "capacity",
        "most held",
        "hits",
        "misses",
        "evictions",
        "evicted",
        "written back",
        "prefetches used",
        "in vain",
    ];
    head(out, "Memory nodes", &columns)?;
    writeln!(out, "</tr></thead><tbody>")?;
    for node in &report.nodes {
        write!(out, "<tr><th scope=\"row\">{}</th>", Escaped(&node.name))?;
        match node.capacity {
            Some(capacity) => write!(out, "<td>{}</td>", Bytes(capacity))?,
            None => write!(out, "<td>–</td>")?,
        }
        write!(out, "<td>{}</td><td>{}</td>", Bytes(node.peak), Grouped(node.hits))?;
        write!(out, "<td>{}</td><td>{}</td>", Grouped(node.misses), Grouped(node.evictions as u64))?;
        write!(out, "<td>{}</td><td>{}</td>", Bytes(node.evicted_bytes), Grouped(node.written_back as u64))?;
        writeln!(
            out,
            "<td>{}</td><td>{}</td></tr>",
            Grouped(node.prefetch_used),
            Grouped(node.prefetch_unused)
        )?;
    }
    writeln!(out, "</tbody></table></div></section>")
}

/// Writes a panel up to its table's last heading; `title` and `columns` are this module's own text.
fn head(out: &mut impl Write, title: &str, columns: &[&str]) -> io::Result<()> {
    write!(out, "<section class=\"panel\">\n<h2>{title}</h2>\n<div class=\"scroll\"><table>\n<thead><tr>")?;
    columns.iter().try_for_each(|name| write!(out, "<th scope=\"col\">{name}</th>"))
}
