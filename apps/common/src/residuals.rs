//! Chart of a solver's residual history.

use crate::svg::{Chart, Scale, positive, range, short};

/// Maximum number of points of a line: more than the picture has pixels would only enlarge the
/// file.
const POINTS: usize = 800;

/// Number of lines with different colours.
const LINES: usize = 5;

/// Residuals of one run (2-norms).
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Residual of the method's recurrence after each step, drawn as a line.
    pub steps: &'a [f64],
    /// Numbers of steps with the recomputed residuals, drawn as points.
    pub checks: &'a [(usize, f64)],
}

/// Draws the residuals of several runs by step; `step` is the name of a step: "step", "iteration".
pub fn residuals(runs: &[Run<'_>], step: &str) -> String {
    let mut chart = Chart::new(900.0, 420.0, [24.0, 14.0, 42.0, 64.0], &format!("residuals by {step}"));
    let of_run = |run: &Run<'_>| {
        let norms = run.steps.iter().copied().chain(run.checks.iter().map(|check| check.1));
        norms.filter(|&norm| positive(norm)).collect::<Vec<_>>()
    };
    let (least, most) = range(runs.iter().flat_map(of_run));
    let steps = runs.iter().map(|run| run.steps.len()).max().unwrap_or(0).max(1);
    let y = Scale::log(least, most, chart.bottom, chart.top);
    let x = Scale::linear(0.0, steps as f64, chart.left, chart.right);
    chart.y_axis(&y, "residual (2-norm)");
    chart.x_axis(&x, step, false);
    let every = steps.div_ceil(POINTS).max(1);
    for (colour, run) in runs.iter().enumerate() {
        let own = run.steps.iter().enumerate().map(|(at, &norm)| (at + 1, norm));
        let shown = own.filter(|(at, norm)| at % every == 0 && positive(*norm));
        let points: Vec<_> = shown.map(|(at, norm)| (x.at(at as f64), y.at(norm))).collect();
        chart.line(&points, &format!("c{}", colour % LINES));
        for &(at, norm) in run.checks.iter().filter(|check| positive(check.1)) {
            let (cx, cy) = (x.at(at as f64), y.at(norm));
            chart.put(format_args!(
                r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="3.5" class="dot mark"><title>{step} {at}: {}</title></circle>"#,
                short(norm)
            ));
        }
    }
    chart.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_line_and_a_point_for_each_check() {
        let run = Run { steps: &[0.5, 0.25], checks: &[(0, 1.0), (2, 0.26)] };
        let picture = residuals(&[run, run], "iteration");
        assert_eq!((picture.matches("class=\"line").count(), picture.matches("<circle").count()), (2, 4));
        assert!(picture.contains("<title>iteration 2: 0.260</title>"));
    }

    #[test]
    fn pictures_survive_what_has_no_scale() {
        for runs in [&[][..], &[Run { steps: &[0.0, f64::NAN], checks: &[(0, 0.0)] }]] {
            let picture = residuals(runs, "step");
            assert!(picture.starts_with("<svg") && !picture.contains("NaN"), "{picture}");
        }
    }
}
