//! Results as text for a terminal, and advice for solves that missed their tolerance.

use zellige_app::text::{bytes, digits};
use zellige_sparse::krylov::Reason;
use zellige_sparse::system::{self, Answer, Options};
use zellige_sparse::{Csr, Description};

use crate::pipeline::least_squares::{self, Fitted};
use crate::pipeline::results::{Attempt, Solved};

/// Describes the solutions of a system.
pub fn of_solved(solved: &[Solved]) -> String {
    let several = solved.len() > 1;
    let heading = |solved: &Solved| solved.name(several).map_or(String::new(), |name| name + "\n");
    solved.iter().map(|solved| heading(solved) + &*text_of(&solved.answer)).collect()
}

fn text_of(answer: &Answer) -> String {
    let mut text = String::new();
    for attempt in answer.attempts.iter().map(Attempt::new) {
        let scale = if answer.solution.rhs > 0.0 { answer.solution.rhs } else { 1.0 };
        let residual = attempt.true_residual.map(|residual| format!(", residual {:.2e}", residual / scale));
        let reason = match &*attempt.reason {
            "steps" => "not converged",
            "time" => "not converged in time",
            reason => reason,
        };
        text += &format!(
            "{} with {}: {reason} after {} steps{}\n",
            attempt.method,
            attempt.preconditioner,
            attempt.iterations,
            residual.unwrap_or_default()
        );
    }
    if answer.removed > 0.0 {
        text += &format!("constant part of the right-hand side, removed: {:.2e}\n", answer.removed);
    }
    let (solution, stored) = (&answer.solution, &answer.bytes);
    let ratio = solution.true_residual / if solution.rhs > 0.0 { solution.rhs } else { 1.0 };
    text += &format!(
        "relative residual {ratio:.2e}, backward error {:.1e}\n\
         {} s to set up, {} s to solve, {} s of it in products\n",
        answer.backward_error,
        digits(answer.setup.as_secs_f64()),
        digits(answer.solve.as_secs_f64()),
        digits(answer.products.as_secs_f64()),
    );
    let narrow = if stored.inner > 0 {
        format!(", {} of {}", bytes(stored.inner), answer.inner)
    } else {
        String::new()
    };
    text + &*format!(
        "memory: {} of matrix{narrow}, {} of preconditioner, {} of basis, {} in all\n",
        bytes(stored.matrix),
        bytes(stored.preconditioner),
        bytes(stored.basis),
        bytes(stored.total())
    )
}

/// Explains why the first solution that did so misses the tolerance, and names a remedy. Returns
/// `None` if all converged.
pub fn advice(options: &Options, tolerance: f64, a: &Csr, solved: &[Solved]) -> Option<String> {
    let failed = solved.iter().find(|solved| !solved.answer.solution.reason.is_converged())?;
    let which = failed.name(solved.len() > 1).map_or(String::new(), |name| name + ": ");
    let solution = &failed.answer.solution;
    let ratio = solution.true_residual / solution.rhs;
    let remedy = remedy(options, tolerance, a, &failed.answer, failed.shift);
    Some(format!(
        "{which}the relative residual is {ratio:.2e} after {} steps, above the tolerance {tolerance:.0e}: {remedy}",
        solution.steps
    ))
}

fn remedy(options: &Options, tolerance: f64, a: &Csr, answer: &Answer, shift: Option<f64>) -> String {
    let solution = &answer.solution;
    if solution.reason == Reason::OutOfRange {
        return "the solution overflows float64, or is so small that subnormal numbers are too coarse; scale the right-hand side, which scales the solution"
            .into();
    }
    if !options.without_constant && shift.is_none() && system::has_constant_null_space(a) {
        return "every row of the matrix adds up to zero, so that it is singular; use --nullspace constant"
            .into();
    }
    if let Some(shift) = shift.filter(|_| solution.reason == Reason::BrokenDown) {
        return format!(
            "the matrix with the shift {shift} is not positive definite, which --shifts needs; omit this shift, or solve for it alone with another --method"
        );
    }
    if options.method.needs_symmetry() && !a.is_symmetric() {
        return "the matrix is not symmetric, but this --method is for symmetric (or Hermitian) ones; use auto, bicgstab or gmres"
            .into();
    }
    let is_singular =
        |attempt: &system::Attempt| attempt.result.as_ref().is_err_and(|why| why.contains("singular"));
    if answer.attempts.iter().any(is_singular) {
        return "the matrix is singular, and the right-hand side is not in its range; least squares (--damping 0) minimises the residual"
            .into();
    }
    let needs_definite = options.method.is_cg();
    if needs_definite && solution.reason == Reason::BrokenDown {
        return "the matrix is not positive definite, or its preconditioner is not, which this --method needs; use auto or minres"
            .into();
    }
    let floor = answer.attainable / solution.rhs;
    if floor > tolerance {
        return format!(
            "rounding the solution to float64 alone leaves a residual of {floor:.1e}; use a larger --tol"
        );
    }
    match solution.reason {
        Reason::Steps => {
            "use a larger --max-steps, another --method or --precond, or a more accurate --operator".into()
        }
        Reason::Time => "use a larger --max-time, or another --method or --precond".into(),
        reason => format!(
            "{}; more steps do not help: use another --method or --precond, or a more accurate --operator",
            reason.name()
        ),
    }
}

/// Describes the solutions of a least-squares problem.
pub fn of_fitted(a: &Csr, fitted: &[Fitted]) -> String {
    fitted.iter().map(|fitted| text_of_fit(a, fitted)).collect()
}

fn text_of_fit(a: &Csr, fitted: &Fitted) -> String {
    let solution = &fitted.solution;
    format!(
        "least squares, {} rows and {} columns: lsmr {} after {} steps\n\
         residual {:.6e} (right-hand side {:.6e}), gradient {:.1e} of |A| |r|, answer {:.6e}\n\
         {} s to set up, {} s to solve; {} of matrix and transpose\n",
        a.rows(),
        a.columns(),
        solution.reason.name(),
        solution.steps,
        solution.residual,
        solution.rhs,
        solution.gradient / (solution.norm * solution.residual).max(f64::MIN_POSITIVE),
        solution.answer,
        digits(fitted.setup.as_secs_f64()),
        digits(fitted.solve.as_secs_f64()),
        bytes(fitted.bytes)
    )
}

/// Explains why the first solution of a least-squares problem that did so misses the tolerance.
/// Returns `None` if all converged.
pub fn advice_on_fit(options: &least_squares::Options, fitted: &[Fitted]) -> Option<String> {
    let failed = fitted.iter().find(|fitted| !fitted.solution.reason.is_converged())?;
    Some(format!(
        "right-hand side {}: neither measure is within {:.0e} after {} steps (the smaller is {:.1e}): use a larger --max-steps, or --damping",
        failed.rhs, options.tolerance, failed.solution.steps, failed.solution.iterated
    ))
}

/// Describes a matrix.
pub fn of_matrix(d: &Description) -> String {
    let mean = d.nonzeros.0 as f64 / d.shape.0.max(1) as f64;
    let kind = if d.complex { "complex, " } else { "" };
    let symmetry = match d.symmetric {
        _ if d.complex && d.hermitian => "Hermitian",
        (_, true) => "symmetric",
        (true, false) => "not symmetric, with a symmetric pattern",
        (false, false) => "not symmetric",
    };
    let doubled = if d.complex { ", as the real matrix of twice the size" } else { "" };
    let text = format!(
        "size          {} x {}, {kind}{symmetry}\n\
         nonzeros      {}, {} of them zero; {} to {} per row, {mean:.1} on average\n\
         bandwidth     {}; {} zeros on the diagonal\n\
         magnitudes    {:.3e} to {:.3e}\n\
         row sums      {:.3e} to {:.3e} of magnitudes\n\
         CSR           {} in fp64{doubled}\n",
        d.shape.0,
        d.shape.1,
        d.nonzeros.0,
        d.nonzeros.1,
        d.row_nonzeros.0,
        d.row_nonzeros.1,
        d.bandwidth,
        d.zero_diagonals,
        d.magnitudes.0,
        d.magnitudes.1,
        d.norm_inf.1,
        d.norm_inf.0,
        bytes(d.bytes),
    );
    text + histogram(&d.decades).as_str()
}

/// Maximum number of lines of the histogram, to fit a screen.
const MOST_LINES: usize = 20;

/// Formats the numbers of nonzeros by magnitude, the largest first. Each line is one decade, or
/// several.
fn histogram(decades: &[(i32, u64)]) -> String {
    let step = decades.len().div_ceil(MOST_LINES).max(1);
    let bins: Vec<(i32, u64)> =
        decades.chunks(step).map(|bin| (bin[0].0, bin.iter().map(|decade| decade.1).sum())).collect();
    let most = bins.iter().map(|bin| bin.1).max().unwrap_or(0);
    let mut text = String::new();
    for &(decade, count) in bins.iter().rev() {
        let bar = "#".repeat((count * 50).div_ceil(most.max(1)) as usize);
        text.push_str(format!("1e{decade:<5} {count:>12}  {bar}").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_fit_a_screen() {
        let decades: Vec<(i32, u64)> = (-300..300).map(|decade| (decade, 1)).collect();
        let text = histogram(&decades);
        assert_eq!(text.lines().count(), 20);
        assert!(text.starts_with("1e270") && text.lines().all(|line| line.contains(" 30 ")), "{text}");
        assert_eq!(histogram(&decades[..2]).lines().count(), 2);
        assert_eq!(histogram(&[]), "");
    }
}
