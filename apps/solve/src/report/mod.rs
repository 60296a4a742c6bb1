//! Report of a solve, as a page or as text.

pub mod text;

use zellige_app::page::{Page, figure};
use zellige_app::residuals::{Run, residuals};
use zellige_app::svg::short;
use zellige_app::text::bytes;
use zellige_sparse::Csr;
use zellige_sparse::system::Answer;

use crate::pipeline::least_squares::Fitted;
use crate::pipeline::results::Solved;

/// Returns the page of solutions with a matrix of this name.
pub fn of_solved(matrix: &str, solved: &[Solved]) -> Page {
    let all = match &solved {
        [one] => one.answer.solution.reason.name().to_owned(),
        several => format!("{} answers", several.len()),
    };
    let mut page = Page::new(&format!("{matrix}: {all}"));
    page.section(matrix, "A linear system, and how it was solved.", "");
    let is_several = solved.len() > 1;
    for solved in solved {
        facts(&mut page, &solved.answer);
        let words = "The line is the residual of the method's recurrence, points are recomputed residuals b - A x. If the line falls below the points, the recurrence has lost accuracy, and the method restarts from the recomputed residual.";
        let title =
            solved.name(is_several).map_or("Residuals".to_owned(), |name| format!("Residuals of {name}"));
        let run = Run { steps: &solved.history.steps, checks: &solved.history.checks };
        page.section(&title, words, &figure(&residuals(&[run], "step"), "2-norms, step by step"));
    }
    page
}

/// Returns the page of least-squares solutions with a matrix of this name.
pub fn of_fitted(name: &str, a: &Csr, damping: f64, fitted: &[Fitted]) -> Page {
    let mut page = Page::new(&format!("{name}: least squares"));
    page.section(name, "A least-squares problem, and how it was solved.", "");
    for fitted in fitted {
        let solution = &fitted.solution;
        page.facts(&[
            ("method", "lsmr".to_owned()),
            ("rows and columns", format!("{} x {}", a.rows(), a.columns())),
            ("damping", short(damping)),
            ("reason to stop", solution.reason.name().to_owned()),
            ("steps", solution.steps.to_string()),
            ("|b - A x|", short(solution.residual)),
            ("|b|", short(solution.rhs)),
            ("|A^T r - damping^2 x|", short(solution.gradient)),
            ("|x|", short(solution.answer)),
            ("set up (s)", short(fitted.setup.as_secs_f64())),
            ("solve (s)", short(fitted.solve.as_secs_f64())),
            ("matrix and transpose", bytes(fitted.bytes)),
        ]);
        let words = "The smaller of two ratios, which the tolerance is compared with: the residual to |b| + |A| |x|, 0 for a system that is compatible, and \
                     its gradient to |A| |r|, 0 where nothing better is found.";
        let run = Run { steps: &fitted.history.steps, checks: &[] };
        let title = if fitted.rhs > 1 {
            format!("Right-hand side {}", fitted.rhs)
        } else {
            "Measure by step".to_owned()
        };
        page.section(
            &title,
            words,
            &figure(&residuals(&[run], "step"), "the smaller of the two ratios, step by step"),
        );
    }
    page
}

fn facts(page: &mut Page, answer: &Answer) {
    let solution = &answer.solution;
    let last = answer.attempts.last();
    page.facts(&[
        ("method", last.map_or(String::new(), |attempt| attempt.method.clone())),
        ("preconditioner", last.map_or(String::new(), |attempt| attempt.preconditioner.to_string())),
        ("reason to stop", solution.reason.name().to_owned()),
        ("steps", solution.steps.to_string()),
        ("recomputed residual relative to the right-hand side", short(solution.true_residual / solution.rhs)),
        ("backward error", short(answer.backward_error)),
        ("set up (s)", short(answer.setup.as_secs_f64())),
        ("solve (s)", short(answer.solve.as_secs_f64())),
        ("in products (s)", short(answer.products.as_secs_f64())),
        ("matrix", bytes(answer.bytes.matrix)),
        ("low-precision copy", bytes(answer.bytes.inner)),
        ("preconditioner in memory", bytes(answer.bytes.preconditioner)),
        ("basis", bytes(answer.bytes.basis)),
        ("in memory, all in all", bytes(answer.bytes.total())),
    ]);
}
