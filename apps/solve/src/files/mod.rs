//! Output of vectors, and of residuals as CSV.

mod vectors;

use std::io::{self, Write};

use zellige_sparse::krylov::History;

use crate::pipeline::results::Solved;

pub use vectors::write_vectors_to;

/// Writes a line for each step, with the number of the right-hand side if there are several.
///
/// # Errors
/// The errors of the stream.
pub fn write_csv(to: &mut dyn Write, solved: &[Solved]) -> io::Result<()> {
    let several = solved.len() > 1;
    let shifts = if solved.iter().any(|solved| solved.shift.is_some()) { "shift," } else { "" };
    writeln!(to, "{}{shifts}step,residual,true_residual", if several { "rhs," } else { "" })?;
    for solved in solved {
        let rhs = if several { format!("{},", solved.rhs) } else { String::new() };
        let rhs = rhs + &*solved.shift.map_or(String::new(), |shift| format!("{shift},"));
        let History { steps, checks } = &solved.history;
        let cell = |residual: Option<f64>| residual.map_or(String::new(), |residual| format!("{residual:e}"));
        for step in 0..=steps.len() {
            let own = step.checked_sub(1).map(|step| steps[step]);
            let checked = checks.iter().rev().find(|(at, _)| *at == step).map(|(_, residual)| *residual);
            writeln!(to, "{rhs}{step},{},{}", cell(own), cell(checked))?;
        }
    }
    Ok(())
}
