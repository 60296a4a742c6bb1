//! `zellige lqcd reproduce`.

use zellige_app::table::{Side, Table};
use zellige_app::text::digits;
use zellige_lqcd::pipeline::results::{Deviations, ReproduceResult, ReproducedShifts, ReproducedSolve};
use zellige_lqcd::pipeline::{remarks, reproduce};
use zellige_lqcd::{files, report};

use super::{failed, options};
use crate::args::LqcdReproduce;
use crate::progress::Progress;
use crate::{interrupt, out};

/// Repeats the computation of a published figure or table.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options, an output that cannot be
/// written, Ctrl-C. A residual that stays above the tolerance is a result.
pub fn run(args: &LqcdReproduce) -> anyhow::Result<()> {
    let gauge = files::read(&args.system.lattice)?.gauge;
    let rt = args.outputs.runtime(args.workers)?;
    let (armed, progress) = (interrupt::cancels(rt.canceller()), Progress::new());
    let options = options(&args.system);
    let (result, histories) = reproduce(&rt, &gauge, args.what, &options, &progress).map_err(failed)?;
    drop((progress, armed));
    let name = args.system.lattice.display().to_string();
    let (results, trace) = ([result], args.outputs.recorded(&rt)?);
    let page = || Ok(report::of_reproduced(&name, &results[0], &histories));
    args.outputs.write(&name, trace.as_ref(), &results, page, || text(&results[0]))
}

fn text(result: &ReproduceResult) -> String {
    let mut text = String::new();
    if !result.solves.is_empty() {
        text += &solves(&result.solves);
    }
    text.extend(result.shifts.iter().map(shifts));
    if !result.deviations.is_empty() {
        text += &deviations(&result.deviations);
    }
    for remark in remarks(result) {
        text += &format!("{remark}\n");
    }
    text
}

fn solves(solves: &[ReproducedSolve]) -> String {
    let mut names = vec!["solve", "iterations", "residual", "converged", "s"];
    if solves.iter().any(|one| one.published.is_some()) {
        names.extend(["published iterations", "s"]);
    }
    let mut table = Table::new(&names.iter().map(|name| (*name, Side::Right)).collect::<Vec<_>>());
    for one in solves {
        let published =
            one.published.map(|published| [published.iterations.to_string(), digits(published.seconds)]);
        let found = [
            one.name.clone(),
            one.found.iterations[0].to_string(),
            format!("{:.2e}", one.found.true_residual[0]),
            if one.found.converged { "yes" } else { "no" }.to_owned(),
            digits(one.found.seconds.solve),
        ];
        table.row(found.into_iter().chain(published.into_iter().flatten()));
    }
    table.render(out::colours(&std::io::stdout()))
}

fn shifts(one: &ReproducedShifts) -> String {
    let names = ["shift", "residual after shared", "iterations", "published: residual", "iterations"];
    let mut table = Table::new(&names.map(|name| (name, Side::Right)));
    let published = one.published.shared_residuals.iter().zip(&one.published.after);
    for (found, (residual, after)) in one.found.shifts.iter().zip(published) {
        table.row([
            found.shift.to_string(),
            format!("{:.2e}", found.shared_residual),
            found.iterations.to_string(),
            format!("{residual:.2e}"),
            after.to_string(),
        ]);
    }
    format!(
        "{} shared iterations in {} (published: {}), then {}; {} applications in all\n{}",
        one.found.iterations,
        one.found.precision,
        one.published.iterations,
        one.found.refinement,
        one.found.applications,
        table.render(out::colours(&std::io::stdout()))
    )
}

fn deviations(each: &[Deviations]) -> String {
    let names = ["formats", "half below", "9 of 10 below", "largest"];
    let mut table = Table::new(&names.map(|name| (name, Side::Right)));
    for one in each {
        let below = |percent: usize| format!("{:.2e}", one.quantiles[percent - 1]);
        table.row([one.precision.clone(), below(50), below(90), below(100)]);
    }
    table.render(out::colours(&std::io::stdout()))
}
