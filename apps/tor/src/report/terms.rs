//! Error budgets of simulated loops, and the times of their stages, as text for a terminal.

use crate::budget::ErrorBudget;
use crate::end_to_end::{BudgetTerm, LoopRun};
use zellige_app::table::{Side, Table};
use zellige_app::text::digits;

/// A row of a table of error budgets in nm: its name, and the terms in the order of [`COLUMNS`].
pub(super) struct BudgetRow {
    /// Reconstructor and target, or the theory.
    pub(super) name: String,
    /// Terms; absent where theory has none.
    pub(super) terms: [Option<BudgetTerm>; 6],
}

/// Terms of an error budget, as in [`crate::end_to_end::LoopBudget::list`].
pub(super) const COLUMNS: [&str; 6] = ["tomographic", "fitting", "aliasing", "delay", "noise", "all"];

/// Returns the error budgets of the runs, and those of theory.
pub(super) fn rows(runs: &[LoopRun]) -> Vec<BudgetRow> {
    let mut rows = Vec::new();
    for run in runs {
        for budget in &run.budget {
            let name = format!("{}, ({}, {})", run.reconstructor, budget.x, budget.y);
            rows.push(BudgetRow { name, terms: budget.list().map(|(_, term)| Some(term)) });
        }
    }
    let of_theory = |name: &str, b: ErrorBudget| {
        let nm = [None, Some(b.fitting), Some(b.aliasing), Some(b.delay), Some(b.noise), Some(b.total)];
        let term = |nm: f64| BudgetTerm { nm, error_nm: None };
        BudgetRow { name: name.into(), terms: nm.map(|nm| nm.map(term)) }
    };
    if let Some(theory) = runs.iter().find_map(|run| run.theory) {
        rows.push(of_theory("integrals", theory.integral));
        rows.push(of_theory("textbook", theory.textbook));
    }
    rows
}

/// Formats a term with its standard error.
pub(super) fn cell(term: Option<BudgetTerm>, between: &str) -> String {
    match term {
        None => "-".into(),
        Some(BudgetTerm { nm, error_nm: None }) => format!("{nm:.1}"),
        Some(BudgetTerm { nm, error_nm: Some(error) }) => format!("{nm:.1}{between}{error:.1}"),
    }
}

/// Lists error budgets, in nm; nothing if there are none.
pub(super) fn of_budgets(runs: &[LoopRun], colours: bool) -> String {
    let rows = rows(runs);
    if rows.is_empty() {
        return String::new();
    }
    let columns = COLUMNS.map(|name| (name, Side::Right));
    let mut table = Table::new(&[&[("error budget, nm rms", Side::Left)][..], &columns].concat());
    for row in rows {
        table.row([row.name].into_iter().chain(row.terms.map(|term| cell(term, " +- "))));
    }
    format!("\n{}", table.render(colours))
}

/// Lists the times of the stages of a frame for the first run that has some.
pub(super) fn of_stages(runs: &[LoopRun]) -> String {
    let Some(stages) = runs.iter().find_map(|run| run.stages) else { return String::new() };
    let list = stages.list().map(|(name, seconds)| format!("{name} {} ms", digits(1e3 * seconds)));
    format!("\ntask time per frame: {}\n", list.join(", "))
}
