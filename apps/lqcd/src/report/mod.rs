//! Pages of results, and results as text.

pub mod text;

use zellige_app::page::{Page, figure};
use zellige_app::residuals::Run;
use zellige_app::svg::{Chart, Scale, positive, range, short};
use zellige_krylov::History;

use crate::observables::Plaquettes;
use crate::pipeline::results::{EigenResult, GenerateResult, InvertResult, MultishiftResult};

/// Margins of a chart.
const MARGINS: [f64; 4] = [24.0, 14.0, 42.0, 64.0];

/// Returns the page of a generated field.
pub fn of_generated(result: &GenerateResult) -> Page {
    let mut page = Page::new(&format!("gauge field, beta {}", result.beta));
    page.section("Gauge field", "A field without quarks, by heatbath and over-relaxation.", "");
    page.facts(&[
        ("lattice", extents(result.field.lattice)),
        ("beta", result.beta.to_string()),
        ("trajectories", result.history.len().to_string()),
        ("plaquette in space", plaquette(result.field.plaquette.ss)),
        ("plaquette in time", plaquette(result.field.plaquette.st)),
        ("link trace", plaquette(result.field.link_trace)),
        ("time (s)", short(result.seconds)),
    ]);
    let words =
        "The mean plaquette after each trajectory: the field is in equilibrium where it no longer drifts.";
    page.section("Plaquette", words, &figure(&plaquettes(&result.history), "mean plaquette by trajectory"));
    page
}

/// Returns the page of a propagator; `histories` are those of the colours.
pub fn of_inverted(lattice: &str, result: &InvertResult, histories: &[History]) -> Page {
    let mut page = Page::new(&format!("{lattice}: propagator"));
    let quark = if result.kappa.is_some() { "Wilson" } else { "staggered" };
    page.section(lattice, &format!("The propagator of a {quark} quark."), "");
    let Plaquettes { ss, st } = result.plaquette;
    let kappa = result.kappa.map_or(String::new(), |kappa| format!(" (kappa {kappa:.9})"));
    let mass = format!("{}{kappa}", result.mass);
    page.facts(&[
        ("lattice", extents(result.lattice)),
        ("plaquettes", format!("{} in space, {} in time", plaquette(ss), plaquette(st))),
        ("action", result.action.clone()),
        ("mass", mass),
        ("boundary in time", result.boundary.clone()),
        ("source", result.source.clone()),
        ("method", format!("{}, {}", result.method, result.precision)),
        ("requested tolerance", short(result.tolerance)),
        ("converged", if result.converged { "yes" } else { "no" }.to_owned()),
        ("iterations", listed(&result.iterations, ToString::to_string)),
        ("recomputed residuals", listed(&result.true_residual, |residual| short(*residual))),
        ("smearing (s)", short(result.seconds.smear)),
        ("solving (s)", short(result.seconds.solve)),
    ]);
    let words = "A line for each right-hand side: the residual that the method keeps. Points are recomputed residuals of the system that it solves.";
    page.section("Residuals", words, &figure(&residuals(histories), "residuals relative to the source"));
    let words = "The sum of the squares of the propagator's elements in each time slice, from that of a point source on.";
    page.section("Correlator", words, &figure(&correlator(&result.correlator), "C(t)"));
    page
}

/// Returns the page of eigenvalues.
pub fn of_eigen(lattice: &str, result: &EigenResult) -> Page {
    let mut page = Page::new(&format!("{lattice}: eigenvalues"));
    page.section(lattice, "The lowest eigenvalues of the staggered operator on the sites of a parity.", "");
    page.facts(&[
        ("lattice", extents(result.lattice)),
        ("action", result.action.clone()),
        ("mass", result.mass.to_string()),
        ("boundary in time", result.boundary.clone()),
        ("eigenvalues", listed(&result.eigenvalues, |value| short(*value))),
        ("residuals", listed(&result.residuals, |residual| short(*residual))),
        ("largest eigenvalue, at most", short(result.largest)),
        ("format of vectors", result.format.to_owned()),
        ("applications", result.applications.to_string()),
        ("smearing (s)", short(result.seconds.smear)),
        ("solving (s)", short(result.seconds.solve)),
    ]);
    page
}

/// Returns the page of several shifts; `histories` are those of the shifts.
pub fn of_shifts(lattice: &str, result: &MultishiftResult, histories: &[History]) -> Page {
    let mut page = Page::new(&format!("{lattice}: {} shifts", result.shifts.len()));
    page.section(lattice, "Systems with several shifts, solved in one Krylov space.", "");
    page.facts(&[
        ("lattice", extents(result.lattice)),
        ("action", result.action.clone()),
        ("mass", result.mass.to_string()),
        ("formats of the shared steps", result.precision.clone()),
        ("formats of those after them", result.refinement.clone()),
        ("shared iterations", result.iterations.to_string()),
        ("applications", result.applications.to_string()),
        ("shifts", listed(&result.shifts, |one| one.shift.to_string())),
        ("residuals after the shared steps", listed(&result.shifts, |one| short(one.shared_residual))),
        ("iterations after them", listed(&result.shifts, |one| one.iterations.to_string())),
        ("recomputed residuals", listed(&result.shifts, |one| short(one.true_residual))),
        ("smearing (s)", short(result.seconds.smear)),
        ("solving (s)", short(result.seconds.solve)),
    ]);
    let words =
        "A line for each shift: the residual that the method keeps. Points are recomputed residuals b - A x.";
    page.section("Residuals", words, &figure(&residuals(histories), "residuals relative to the source"));
    page
}

fn listed<T>(list: &[T], text: impl Fn(&T) -> String) -> String {
    list.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn extents(extents: [usize; 4]) -> String {
    extents.map(|extent| extent.to_string()).join(" x ")
}

fn plaquette(value: f64) -> String {
    format!("{value:.6}")
}

fn plaquettes(history: &[f64]) -> String {
    let mut chart = Chart::new(900.0, 320.0, MARGINS, "plaquette by trajectory");
    let (least, most) = range(history.iter().copied().filter(|value| value.is_finite()));
    let margin = 0.05 * (most - least).max(1e-6);
    let y = Scale::linear(least - margin, most + margin, chart.bottom, chart.top);
    let x = Scale::linear(0.0, history.len().max(1) as f64, chart.left, chart.right);
    chart.y_axis(&y, "mean plaquette");
    chart.x_axis(&x, "trajectory", false);
    let points = history.iter().enumerate().map(|(at, &value)| (x.at((at + 1) as f64), y.at(value)));
    chart.line(&points.collect::<Vec<_>>(), "c0");
    chart.finish()
}

/// Draws residual histories. Sources have the norm 1, so that residuals are relative to them.
fn residuals(histories: &[History]) -> String {
    let runs: Vec<_> =
        histories.iter().map(|history| Run { steps: &history.steps, checks: &history.checks }).collect();
    zellige_app::residuals::residuals(&runs, "iteration")
}

fn correlator(values: &[f64]) -> String {
    let mut chart = Chart::new(900.0, 320.0, MARGINS, "correlator by time");
    let (least, most) = range(values.iter().copied().filter(|&value| positive(value)));
    let y = Scale::log(least, most, chart.bottom, chart.top);
    let x = Scale::linear(0.0, values.len().saturating_sub(1).max(1) as f64, chart.left, chart.right);
    chart.y_axis(&y, "C(t)");
    chart.x_axis(&x, "t", false);
    let points = values.iter().enumerate().filter(|(_, value)| positive(**value));
    chart.line(&points.map(|(t, &value)| (x.at(t as f64), y.at(value))).collect::<Vec<_>>(), "c0");
    chart.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_survive_what_has_no_scale() {
        for picture in [
            plaquettes(&[]),
            plaquettes(&[1.0]),
            residuals(&[]),
            residuals(&[History { steps: vec![0.0, f64::NAN], checks: vec![(0, 1.0)] }]),
            correlator(&[]),
            correlator(&[0.0, f64::INFINITY]),
        ] {
            assert!(picture.starts_with("<svg") && !picture.contains("NaN"), "{picture}");
        }
    }
}
