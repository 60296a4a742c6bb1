//! Table of the rules.

use crate::pipeline::{Measured, Outcome, RuleResult};
use std::fmt::Write;
use zellige_app::svg::{escape, short};

/// Returns a table with one line per rule.
pub(super) fn table(outcome: &Outcome) -> String {
    let reference = outcome.reference();
    let base = reference.and_then(|r| r.measured.as_ref()).map(|m| m.strehl_moao).filter(|s| !s.is_nan());
    let mut out = String::from(
        r#"<div class="wide"><table><thead><tr><th>rule</th><th class="left">products by precision</th><th>backward<br>error</th>
<th>Strehl<br>ratio</th><th>exact</th><th>change</th><th>factor<br>(s)</th><th>solve<br>(s)</th><th>Gflop/s</th>
<th>share of<br>GEMM rate</th><th>tiles<br>(MB)</th></tr></thead><tbody>"#,
    );
    for result in &outcome.results {
        let _ = write!(out, "<tr><td>{}{}</td>", escape(&result.rule), history(result));
        match (&result.measured, &result.not_spd) {
            (Some(m), _) => numbers(&mut out, m, base, reference.is_some_and(|r| std::ptr::eq(r, result))),
            (None, Some(lost)) => {
                let _ = write!(out, r#"<td class="failed" colspan="10">{}</td>"#, escape(&lost.to_string()));
            }
            (None, None) => out.push_str(r#"<td colspan="10"></td>"#),
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    for warning in outcome.results.iter().filter_map(|r| r.measured.as_ref()).flat_map(|m| &m.warnings) {
        let _ = write!(out, "<p>Warning: {}</p>", escape(warning));
    }
    out
}

fn history(result: &RuleResult) -> String {
    if result.attempts.is_empty() {
        return String::new();
    }
    let tried: Vec<String> = result.attempts.iter().map(|a| escape(&a.rule)).collect();
    format!("<br><small>after {}</small>", tried.join(", "))
}

fn numbers(out: &mut String, m: &Measured, base: Option<f64>, is_reference: bool) {
    out.push_str(r#"<td class="left"><div class="mix">"#);
    let mut words = Vec::new();
    for (name, share) in m.gemm_share.list() {
        if share > 0.0 {
            let _ = write!(out, r#"<i class="b-{name}" style="width:{:.2}%"></i>"#, 100.0 * share);
            words.push(format!("{name} {:.1} %", 100.0 * share));
        }
    }
    if words.is_empty() {
        words.push("none: at most two tiles".into());
    }
    let _ = write!(out, "</div><small>{}</small></td>", words.join(", "));
    let mark = if m.backward_error_estimated { " ≈" } else { "" };
    // NaN means that nothing was judged.
    let strehl = if m.strehl_moao.is_finite() { format!("{:.5}", m.strehl_moao) } else { "–".into() };
    let _ = write!(out, "<td>{}{mark}</td><td>{strehl}</td>", short(m.backward_error));
    let exact = m.strehl_exact.map_or("–".into(), |s| format!("{s:.5}"));
    let change = match base {
        Some(_) if is_reference => "reference".into(),
        Some(base) => format!("{:+.1e}", m.strehl_moao - base).replace('-', "−"),
        None => "–".into(),
    };
    let share = if m.gemm_peak_gflops > 0.0 {
        format!("{:.0} %", 100.0 * m.gflops / m.gemm_peak_gflops)
    } else {
        "–".into()
    };
    let _ = write!(
        out,
        "<td>{exact}</td><td>{change}</td><td>{}</td><td>{}</td><td>{}</td><td>{share}</td><td>{}</td>",
        short(m.seconds.factor),
        short(m.seconds.solve),
        short(m.gflops),
        short(m.tile_bytes as f64 / 1e6)
    );
}
