//! What a solver did, as a page.

use zellige_app::page::{Page, figure};
use zellige_app::svg::{Chart, Scale, short};
use zellige_sparse::krylov::History;
use zellige_sparse::system::Answer;

use zellige_app::text::bytes;

use crate::pipeline::results::Solved;

/// Most points of the line: more than the picture has pixels would only make it large.
const POINTS: usize = 800;

/// The page of answers to the systems of a matrix of this name.
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
        let words = "The line is the residual that the method itself keeps, points are true residuals b - A x: where the line goes on below \
                     them, the method has lost touch with the system, and is started again from the true one.";
        let title =
            solved.name(is_several).map_or("Residuals".to_owned(), |name| format!("Residuals of {name}"));
        page.section(&title, words, &figure(&residuals(&solved.history), "2-norms, step by step"));
    }
    page
}

fn facts(page: &mut Page, answer: &Answer) {
    let solution = &answer.solution;
    page.facts(&[
        ("reason to stop", solution.reason.name().to_owned()),
        ("steps", solution.steps.to_string()),
        ("true residual relative to the right-hand side", short(solution.true_residual / solution.rhs)),
        ("backward error", short(answer.backward_error)),
        ("set up (s)", short(answer.setup.as_secs_f64())),
        ("solve (s)", short(answer.solve.as_secs_f64())),
        ("in products (s)", short(answer.products.as_secs_f64())),
        ("matrix", bytes(answer.bytes.matrix)),
        ("low-precision copy", bytes(answer.bytes.inner)),
        ("preconditioner", bytes(answer.bytes.preconditioner)),
        ("basis", bytes(answer.bytes.basis)),
        ("in memory, all in all", bytes(answer.bytes.total())),
    ]);
}

fn residuals(history: &History) -> String {
    let own = history.steps.iter().enumerate().map(|(step, &norm)| (step + 1, norm));
    let all = || {
        own.clone().chain(history.checks.iter().copied()).filter(|point| point.1.is_finite() && point.1 > 0.0)
    };
    let least = all().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let most = all().map(|point| point.1).fold(0.0, f64::max);
    let mut chart = Chart::new(900.0, 420.0, [24.0, 14.0, 42.0, 64.0], "residuals by step");
    let y = Scale::log(least, most, chart.bottom, chart.top);
    let x = Scale::linear(0.0, history.steps.len().max(1) as f64, chart.left, chart.right);
    chart.y_axis(&y, "residual (2-norm)");
    chart.x_axis(&x, "step", false);
    let every = history.steps.len().div_ceil(POINTS).max(1);
    let line = own.clone().filter(|(step, norm)| step % every == 0 && *norm > 0.0 && norm.is_finite());
    chart.line(&line.map(|(step, norm)| (x.at(step as f64), y.at(norm))).collect::<Vec<_>>(), "c0");
    for &(step, norm) in &history.checks {
        let (cx, cy) = (x.at(step as f64), y.at(norm));
        chart.put(format_args!(
            r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="3.5" class="dot mark"><title>step {step}: {}</title></circle>"#,
            short(norm)
        ));
    }
    chart.finish()
}
