//! The table of a run, and the error of a run without a surviving rule.

use zellige_app::table::{Side, Table};
use zellige_app::text::digits;
use zellige_tor::pipeline::{Outcome, RuleResult};

use crate::exit::CommandError;

/// Returns a table with a line for each rule.
pub fn table(outcome: &Outcome) -> Table {
    let mut table = Table::new(&[
        ("rule", Side::Left),
        ("low precision", Side::Right),
        ("backward error", Side::Right),
        ("Strehl", Side::Right),
        ("exact", Side::Right),
        ("GFLOP/s", Side::Right),
        ("of GEMM peak", Side::Right),
        ("seconds", Side::Right),
        ("", Side::Left),
    ]);
    for result in &outcome.results {
        table.row(row(result));
    }
    table
}

fn row(result: &RuleResult) -> [String; 9] {
    let mut note = match &result.rule_asked {
        Some(asked) => format!("after {asked}, which was not positive definite"),
        None => String::new(),
    };
    let dash = || "-".to_string();
    let Some(m) = &result.measured else {
        if let Some(lost) = &result.not_spd {
            note = lost.to_string();
        }
        let rule = result.rule.clone();
        return [rule, dash(), dash(), dash(), dash(), dash(), dash(), dash(), note];
    };
    // Without this note, a rule that has lowered no product would seem to cost nothing.
    if m.gemm_share.low() == 0.0 && !["fp32", "fp64"].iter().any(|full| result.rule.starts_with(full)) {
        let text =
            "no product is in low precision: its condition is never true, or tiles are too few (--tile N)";
        note = if note.is_empty() { text.into() } else { format!("{note}; {text}") };
    }
    let s = &m.seconds;
    let is_judged = !m.targets.is_empty();
    [
        result.rule.clone(),
        format!("{:.1} %", 100.0 * m.gemm_share.low()),
        if is_judged {
            format!("{}{:.1e}", if m.backward_error_estimated { "~" } else { "" }, m.backward_error)
        } else {
            dash()
        },
        if is_judged { format!("{:.6}", m.strehl_moao) } else { dash() },
        m.strehl_exact.map_or_else(dash, |strehl| format!("{strehl:.6}")),
        digits(m.gflops),
        if m.gemm_peak_gflops > 0.0 {
            format!("{:.0} %", 100.0 * m.gflops / m.gemm_peak_gflops)
        } else {
            dash()
        },
        digits(s.cov + s.factor + s.solve + s.eval),
        note,
    ]
}

/// Fails if no rule survived, and names the tile of each failure.
///
/// # Errors
/// [`CommandError::NoRuleSurvived`].
pub fn check_survivors(outcome: &Outcome) -> Result<(), CommandError> {
    if outcome.survived() {
        return Ok(());
    }
    let failures = outcome.results.iter().filter_map(|result| {
        let lost = result.not_spd.as_ref()?;
        Some(format!("{}: {lost}", result.rule))
    });
    let list: Vec<String> = failures.collect();
    let head = if list.len() == 1 { "" } else { "no precision rule survived: " };
    Err(CommandError::NoRuleSurvived(format!("{head}{}", list.join("; "))))
}
