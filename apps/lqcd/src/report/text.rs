//! Results as text for a terminal, and advice for solves that missed their tolerance.

use zellige_app::table::{Side, Table};
use zellige_app::text::digits;

use crate::pipeline::results::{
    DslashResult, EigenResult, GenerateResult, InfoResult, InvertResult, MultishiftResult, SmearResult,
};
use crate::pipeline::{Method, Options};

/// Describes a generated field.
pub fn of_generated(result: &GenerateResult) -> String {
    let field = &result.field;
    format!(
        "{} trajectories in {} s\nplaquette {:.6} in space, {:.6} in time; link trace {:.6}\nwritten: {}\n",
        result.history.len(),
        digits(result.seconds),
        field.plaquette.ss,
        field.plaquette.st,
        field.link_trace,
        result.written
    )
}

/// Describes the field of a file.
pub fn of_field(result: &InfoResult) -> String {
    let [x, y, z, t] = result.field.lattice;
    let checksum = match &result.checksum {
        Some(sum) => format!("checksum {sum}, correct"),
        None => "no checksum".to_owned(),
    };
    let numbers = result.packed.clone().unwrap_or_else(|| format!("float{}", result.precision));
    let mut text = format!(
        "{} file, {} endian, {numbers}, {checksum}\nlattice {x} x {y} x {z} x {t}\n",
        result.format, result.byte_order
    );
    text += &format!(
        "plaquette {:.9} in space, {:.9} in time\nlink trace {:.9}\nPolyakov loop {:.6} {:+.6} i\n",
        result.field.plaquette.ss,
        result.field.plaquette.st,
        result.field.link_trace,
        result.field.polyakov_loop[0],
        result.field.polyakov_loop[1]
    );
    if !result.description.is_empty() {
        text += &format!("comment of the file: {}\n", result.description);
    }
    text
}

/// Describes smeared links.
pub fn of_smeared(result: &SmearResult) -> String {
    let mut lines = vec![format!(
        "{}: mean Re tr / 3 of links of one hop {:.9} ({:.9} before)",
        result.action, result.fat_trace, result.field.link_trace
    )];
    lines.extend(result.long_trace.map(|trace| format!("of links of three hops {trace:.9e}")));
    lines.extend(result.unitarised_plaquette.map(|plaquette| {
        format!("plaquette of the unitary links {:.9} in space, {:.9} in time", plaquette.ss, plaquette.st)
    }));
    if result.links_by_svd > 0 {
        lines.push(format!("{} links were projected by singular values", result.links_by_svd));
    }
    lines.push(format!("{} s", digits(result.seconds)));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Describes a propagator and lists its correlator.
pub fn of_inverted(result: &InvertResult) -> String {
    let mut text = format!("{}, {}\n", result.method, result.precision);
    text += &result.kappa.map_or(String::new(), |kappa| format!("kappa {kappa:.9}\n"));
    text += &result.deflation.as_ref().map_or(String::new(), |deflation| {
        format!(
            "{} eigenvectors in {}, {} s to compute or read\n",
            deflation.vectors,
            deflation.format,
            digits(deflation.seconds)
        )
    });
    for (at, (iterations, residual)) in result.iterations.iter().zip(&result.true_residual).enumerate() {
        text +=
            &format!("right-hand side {at}: {iterations} iterations, recomputed residual {residual:.2e}\n");
    }
    text += &format!(
        "{} s to smear, {} s to solve\n t  C(t)\n",
        digits(result.seconds.smear),
        digits(result.seconds.solve)
    );
    for (t, value) in result.correlator.iter().enumerate() {
        text += &format!("{t:2}  {value:.9e}\n");
    }
    result.written.iter().for_each(|written| text += &format!("written: {written}\n"));
    text
}

/// Lists the lowest eigenvalues.
pub fn of_eigen(result: &EigenResult) -> String {
    let mut text = format!(
        "{} vectors in {}, {} MB; {} applications, {} restarts; {} s to smear, {} s to solve\n",
        result.eigenvalues.len(),
        result.format,
        digits(result.bytes as f64 / 1e6),
        result.applications,
        result.restarts,
        digits(result.seconds.smear),
        digits(result.seconds.solve)
    );
    text += "  k  eigenvalue of 4 m^2 - D D  residual\n";
    for (k, (value, residual)) in result.eigenvalues.iter().zip(&result.residuals).enumerate() {
        text += &format!("{k:3}  {value:25.12e}  {residual:.1e}\n");
    }
    result.written.iter().for_each(|written| text += &format!("written: {written}\n"));
    text
}

/// Explains why a propagator misses its tolerance, and names a remedy.
pub fn advice(result: &InvertResult, options: &Options) -> String {
    // NaN counts as worse than any number.
    let worse = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
    let worst_of = |residuals: &[f64]| residuals.iter().copied().fold(0.0, worse);
    let worst = worst_of(&result.true_residual);
    let most_made = result.iterations.iter().max().copied().unwrap_or(0);
    // More iterations help only if the limit was reached.
    let more = |option: &str| match (most_made >= options.most_steps, options.solver.method) {
        (true, _) => format!("use a larger --max-steps or a larger {option}"),
        (false, Method::Cg | Method::BlockCg) => {
            format!("it does not decrease further: use a larger {option}")
        }
        (false, Method::BiCgStab { .. } | Method::Gmres { .. }) => {
            format!("it does not decrease further: use --method cg or a larger {option}")
        }
    };
    if let Some(goal) = result.heavy_quark_tolerance.filter(|_| worst <= result.tolerance) {
        return format!(
            "the heavy-quark residual is {:.2e} after {most_made} iterations, above the tolerance {goal:.0e}: {}",
            worst_of(&result.heavy_quark_residual),
            more("--heavy-quark-tol"),
        );
    }
    // These formats have no steps in higher precision that continue at their resolution limit.
    let is_narrow = ["half", "int20"].contains(&&*result.precision);
    let remedy = match is_narrow {
        true => format!("use --precision double-{}", result.precision),
        false => more("--tol"),
    };
    format!(
        "the relative residual is {worst:.2e} after {most_made} iterations, above the tolerance {:.0e}: {remedy}",
        result.tolerance
    )
}

/// Lists the solutions for several shifts.
pub fn of_shifts(result: &MultishiftResult, colours: bool) -> String {
    let names = ["shift", "shared", "after shared", "iterations", "residual", "tolerance"];
    let mut table = Table::new(&names.map(|name| (name, Side::Right)));
    for one in &result.shifts {
        table.row([
            one.shift.to_string(),
            one.shared_iterations.to_string(),
            format!("{:.2e}", one.shared_residual),
            one.iterations.to_string(),
            format!("{:.2e}", one.true_residual),
            format!("{:.0e}", one.tolerance),
        ]);
    }
    format!(
        "{} shared iterations in {}, then {}; {} applications in all\n{}{} s to smear, {} s to solve\n",
        result.iterations,
        result.precision,
        result.refinement,
        result.applications,
        table.render(colours),
        digits(result.seconds.smear),
        digits(result.seconds.solve)
    )
}

/// Explains why the first shift that did so misses its tolerance, and names a remedy. Returns
/// `None` if all shifts converged.
pub fn advice_on_shifts(result: &MultishiftResult, options: &Options) -> Option<String> {
    let shift = result.shifts.iter().find(|shift| !shift.converged)?;
    let remedy = match result.iterations + shift.iterations >= options.most_steps {
        true => "use a larger --max-steps or a larger tolerance",
        false => "it does not decrease further: use a larger tolerance",
    };
    Some(format!(
        "shift {}: the relative residual is {:.2e} after {} shared iterations and {} separate ones, above the tolerance {:.0e}: {remedy}",
        shift.shift, shift.true_residual, result.iterations, shift.iterations, shift.tolerance
    ))
}

/// Lists the rates of the operator.
pub fn of_rates(results: &[DslashResult], colours: bool) -> String {
    let names = ["precision", "columns", "device", "ns/site", "bytes/site", "GB/s", "of GB/s", "Gflop/s"];
    let side = |name| if [names[0], names[2]].contains(&name) { Side::Left } else { Side::Right };
    let mut table = Table::new(&names.map(|name| (name, side(name))));
    for result in results {
        table.row([
            result.precision.clone(),
            result.columns.to_string(),
            result.device.clone(),
            format!("{:.3}", result.nanoseconds),
            format!("{:.0}", result.bytes),
            format!("{:.2}", result.rate),
            format!("{:.2}", result.bandwidth),
            format!("{:.2}", result.gflops),
        ]);
    }
    table.render(colours)
}
