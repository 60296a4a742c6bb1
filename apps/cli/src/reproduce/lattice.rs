//! Items of Clark et al. 2022.

use zellige_lqcd::generate::{Quenched, generate};
use zellige_lqcd::pipeline::dslash::{dslash, random_links};
use zellige_lqcd::pipeline::results::{MultishiftResult, ReproduceResult};
use zellige_lqcd::pipeline::{Method, Mixed, Options, Published, Solver, Source, invert, reproduce};
use zellige_lqcd::{Action, Gauge, Geometry, Precision};

use super::Context;
use super::found::Found;
use crate::formats::all;

/// Extents of generated fields, and those of the paper's Figure 1.
const SMALL: [usize; 4] = [6, 6, 6, 8];
const LARGE: [usize; 4] = [16, 16, 16, 16];
/// Extents of the fields whose operator is timed.
const TIMED: [usize; 4] = [8, 8, 8, 8];

/// Coupling, action and mass of an item, unless others are given.
struct Setting {
    beta: f64,
    action: Action,
    mass: f64,
}

/// Setting of the items on HISQ: a heavier quark than the paper's, as the fields are small.
const HISQ: Setting = Setting { beta: 5.7, action: Action::HISQ, mass: 0.02 };

/// Compares the formats of IEEE 754.
pub fn ieee(_: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let formats = all();
    for (row, name) in [("half", "fp16"), ("single", "fp32"), ("double", "fp64")] {
        if let Some(format) = formats.iter().find(|format| format.name == name) {
            found.value(row, "exponent width", format.exponent.into());
            found.value(row, "mantissa width", (format.significand - 1).into());
            found.value(row, "epsilon", format.unit_roundoff);
            found.value(row, "smallest number", format.smallest_normal.unwrap_or(f64::NAN));
            found.value(row, "largest number", format.largest.unwrap_or(f64::NAN));
        }
    }
    let half =
        formats.iter().find(|format| format.name == "half").map_or(f64::NAN, |half| half.unit_roundoff);
    found.value("half of QUDA", "epsilon", half);
    found.judge(
        "QUDA's half has an epsilon of 2^-15, since it stores signed integers",
        (half.log2() + 16.0).abs() < 0.01,
        format!("steps of 2^-15 of the largest component round to nearest with errors of half a step, {half:.1e}; the row of IEEE half uses 2^-11 in this sense"),
    );
    found.leave("quad", "nothing in the project stores numbers in it");
    found.command("zellige formats");
    Ok(found)
}

/// Returns the gauge field of an item with the words that make it.
fn field(context: &Context<'_>, beta: f64) -> anyhow::Result<(String, Gauge)> {
    let choice = context.lattice.as_ref();
    if let Some((name, gauge)) = choice.and_then(|choice| choice.field.as_ref()) {
        return Ok((name.clone(), gauge.clone()));
    }
    let made = choice.and_then(|choice| choice.made.borrow().clone());
    if let Some((of_beta, words, gauge)) = made
        && of_beta == beta
    {
        return Ok((words, gauge));
    }
    let (extents, trajectories) = if context.full { (LARGE, 100) } else { (SMALL, 30) };
    let options = Quenched { beta, trajectories, seed: 7, ..Quenched::default() };
    let gauge = generate(context.runtime, Geometry::new(extents)?, &options, context.observer)?.gauge;
    let size = extents.map(|extent| extent.to_string()).join("x");
    let words = format!(
        "zellige lqcd generate --size {size} --beta {beta} --trajectories {trajectories} --seed 7 -o f.lat"
    );
    if let Some(choice) = choice {
        *choice.made.borrow_mut() = Some((beta, words.clone(), gauge.clone()));
    }
    Ok((words, gauge))
}

/// Repeats an item on its field.
fn repeat(
    context: &Context<'_>,
    what: Published,
    setting: &Setting,
) -> anyhow::Result<(Found, ReproduceResult)> {
    let (words, gauge) = field(context, setting.beta)?;
    let choice = context.lattice.as_ref();
    let given = choice.map_or_else(Options::default, |choice| choice.options);
    let options = Options {
        action: choice.and_then(|choice| choice.action).unwrap_or(setting.action),
        mass: choice.and_then(|choice| choice.mass).unwrap_or(setting.mass),
        source: Source { colour: Some(0), ..Source::default() },
        ..given
    };
    let (result, histories) = reproduce(context.runtime, &gauge, what, &options, context.observer)?;
    let mut found = Found::default();
    if words.starts_with("zellige") {
        found.command(words);
    }
    found.command(format!(
        "zellige lqcd invert f.lat --action {} --mass {} --tol {} --precision double-half",
        options.action, options.mass, options.tolerance
    ));
    for (solve, history) in result.solves.iter().zip(&histories) {
        // The source is a point of one colour, whose norm is 1.
        found.curve(
            solve.name.clone(),
            history.steps.iter().enumerate().map(|(at, &residual)| (at as f64 + 1.0, residual)),
        );
        found.value(solve.name.clone(), "iterations", solve.found.iterations[0] as f64);
        found.value(solve.name.clone(), "residual", solve.found.true_residual[0]);
        found.value(solve.name.clone(), "seconds here", solve.found.seconds.solve);
    }
    Ok((found, result))
}

/// Iterations of each solve; none for one that did not converge.
fn iterations(result: &ReproduceResult) -> Vec<Option<usize>> {
    result.solves.iter().map(|one| one.found.converged.then(|| one.found.iterations[0])).collect()
}

/// Compares CG in double with CG in half, bare and stabilised.
pub fn stabilised(context: &Context<'_>) -> anyhow::Result<Found> {
    let setting = Setting { beta: 5.6, action: Action::Naive, mass: if context.full { 0.001 } else { 0.01 } };
    let (mut found, result) = repeat(context, Published::Fig1, &setting)?;
    let counts = iterations(&result);
    let residuals: Vec<f64> = result.solves.iter().map(|one| one.found.true_residual[0]).collect();
    let agrees = match (&counts[..], &residuals[..]) {
        ([_, None, None], [_, bare, stable]) => stable * AHEAD <= *bare,
        ([Some(_), bare, Some(stable)], _) => bare.is_none_or(|bare| bare > *stable),
        _ => false,
    };
    let words = result.solves.iter().zip(&counts).map(|(one, count)| match count {
        Some(count) => format!("{}: {count}", one.name),
        None => {
            let (residual, most) = (one.found.true_residual[0], one.found.iterations[0]);
            format!("{}: a residual of {residual:.1e} after {most}", one.name)
        }
    });
    found.judge(
        "the three refinements make double-half converge dramatically better than reliable updates alone",
        agrees,
        format!("iterations of {}", words.collect::<Vec<_>>().join(", ")),
    );
    Ok(found)
}

/// The residual of the better of two solves that end at the limit of steps is smaller by this
/// factor.
const AHEAD: f64 = 10.0;

/// Masses of [`conditions`], from the heaviest quark on.
const MASSES: [f64; 4] = [0.5, 0.1, 0.02, 0.005];

/// Solves with smaller and smaller masses in three formats.
pub fn conditions(context: &Context<'_>) -> anyhow::Result<Found> {
    let (words, gauge) = field(context, HISQ.beta)?;
    let mut found = Found::default();
    if words.starts_with("zellige") {
        found.command(words);
    }
    let mut counts = Vec::new();
    for name in ["double", "double-single", "double-half"] {
        let precision: Mixed = name.parse().map_err(anyhow::Error::msg)?;
        let mut own = Vec::new();
        for mass in MASSES {
            let options = Options {
                mass,
                source: Source { colour: Some(0), ..Source::default() },
                tolerance: 1e-10,
                most_steps: 20_000,
                solver: Solver { method: Method::Cg, precision, ..Solver::default() },
                ..Options::default()
            };
            let (result, _) = invert(context.runtime, &gauge, &options, context.observer)?;
            found.value(format!("mass {mass}"), format!("{name}, iterations"), result.iterations[0] as f64);
            own.push(result.iterations[0] as f64);
        }
        found.curve(name, MASSES.iter().zip(&own).map(|(mass, &count)| (-mass.log10(), count)));
        counts.push(own);
    }
    let beside = |at: usize| counts[2][at] / counts[0][at];
    let (heavy, light) = (beside(0), beside(MASSES.len() - 1));
    found.judge(
        "solvers struggle where 1 / condition nears the epsilon of the format",
        light > heavy && light > 1.5,
        format!(
            "double-half takes {heavy:.1} times the iterations of double at mass {}, {light:.1} times at {}",
            MASSES[0], MASSES[3]
        ),
    );
    found.command("zellige lqcd invert f.lat --precision double-half --mass 0.005 --tol 1e-10");
    Ok(found)
}

/// Compares deviations of the operator.
pub fn deviations(context: &Context<'_>) -> anyhow::Result<Found> {
    let (mut found, result) = repeat(context, Published::Fig2, &HISQ)?;
    let mut medians = Vec::new();
    for one in &result.deviations {
        found.value(one.precision.clone(), "median deviation", one.quantiles[49]);
        found.value(one.precision.clone(), "largest deviation", one.quantiles[99]);
        found.curve(
            one.precision.clone(),
            one.quantiles.iter().enumerate().map(|(at, &deviation)| (deviation, at as f64 + 1.0)),
        );
        medians.push(one.quantiles[49]);
    }
    let [half, int20, single, narrow, int30] = medians[..] else { return Ok(found) };
    found.judge(
        "20 bits are a modest improvement on half, as the links have 16 bits",
        half > int20 && half < 4.0 * int20,
        format!("{:.1} times", half / int20),
    );
    found.judge(
        "30 bits with products in FP32 are no better than FP32",
        narrow > 0.3 * single,
        format!("{:.1} times", single / narrow),
    );
    found.judge(
        "30 bits with products in FP64 are about two orders better than FP32",
        single > 30.0 * int30,
        format!("{:.0} times", single / int30),
    );
    Ok(found)
}

/// Measures the rate of the operator.
pub fn rates(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let extents = if context.full { [32; 4] } else { TIMED };
    let links = random_links(Geometry::new(extents)?, true, 1);
    let names = ["half", "int20", "single", "fixed32/int30/fp32", "int30"];
    let mut all = Vec::new();
    for name in names {
        let precision: Precision = name.parse().map_err(anyhow::Error::msg)?;
        let one = dslash(context.runtime, &links, precision, 1, 10, Some(f64::NAN))?;
        found.value(name, "Gflop/s", one.gflops);
        found.value(name, "bytes a site", one.bytes);
        all.push(one.gflops);
    }
    found.judge(
        "20 bits are as fast as half",
        all[1] > 0.8 * all[0],
        format!("{:.2} of its rate on this CPU", all[1] / all[0]),
    );
    found.judge(
        "30 bits with FP64 products are as fast as FP32",
        all[4] > 0.8 * all[2],
        format!(
            "{:.2} of its rate on this CPU, whose vectors have half as many numbers in FP64",
            all[4] / all[2]
        ),
    );
    found.command(format!("zellige lqcd dslash --size {} --precision {}", extents[0], names.join(",")));
    Ok(found)
}

/// Compares the histories of BiCGStab(4).
pub fn bicgstab_histories(context: &Context<'_>) -> anyhow::Result<Found> {
    let (mut found, result) = repeat(context, Published::Fig4, &HISQ)?;
    judge_solves(&mut found, &result);
    Ok(found)
}

/// Compares iterations and times of BiCGStab(4).
pub fn bicgstab(context: &Context<'_>) -> anyhow::Result<Found> {
    let (mut found, result) = repeat(context, Published::Table2, &HISQ)?;
    judge_solves(&mut found, &result);
    let quickest =
        result.solves.iter().min_by(|a, b| a.found.seconds.solve.total_cmp(&b.found.seconds.solve));
    let name = quickest.map_or("", |one| one.name.as_str());
    found.judge(
        "double-int20 is the fastest",
        name == "double-int20",
        format!("{name} on this CPU and field"),
    );
    Ok(found)
}

fn judge_solves(found: &mut Found, result: &ReproduceResult) {
    let counts: Vec<usize> =
        iterations(result).into_iter().map(|count| count.unwrap_or(usize::MAX)).collect();
    let [_, single, int30, int20, half] = counts[..] else { return };
    found.judge(
        "30 bits take fewer iterations than single",
        int30 <= single,
        format!("{int30} and {single}"),
    );
    found.judge("20 bits take far fewer iterations than half", int20 < half, format!("{int20} and {half}"));
}

/// Compares two pairs of formats for several shifts.
pub fn shifts(context: &Context<'_>) -> anyhow::Result<Found> {
    let (mut found, result) = repeat(context, Published::Table3, &HISQ)?;
    let columns = ["double-single-half", "double-int30-int20"];
    let (mut totals, mut smaller) = (Vec::new(), 0);
    for (column, one) in columns.into_iter().zip(&result.shifts) {
        let shared = one.iterations;
        found.value("(multi-shift)", format!("{column} iter"), shared as f64);
        for (at, shift) in one.shifts.iter().enumerate() {
            found.value(at.to_string(), format!("{column} iter"), shift.iterations as f64);
            found.value(at.to_string(), format!("{column} residual"), shift.shared_residual);
        }
        let total = shared + one.shifts.iter().map(|shift| shift.iterations).sum::<usize>();
        found.value("total", format!("{column} iter"), total as f64);
        totals.push(total);
    }
    if let [single, int30] = &result.shifts[..] {
        let pairs = single.shifts.iter().zip(&int30.shifts);
        smaller = pairs.filter(|(single, int30)| int30.shared_residual <= single.shared_residual).count();
    }
    found.judge(
        "30 and 20 bits need about 13 % fewer steps in all",
        totals[1] < totals[0],
        format!("{} and {}", totals[1], totals[0]),
    );
    found.judge(
        "residuals of the shifted systems after the shared steps are smaller with 30 bits",
        smaller > 5,
        format!("{smaller} of 11 shifts"),
    );
    let statement = "the shared steps end when all shifted systems have left, and the unshifted one goes on";
    let alone = result.shifts.iter().map(|one| one.shifts[0].iterations).min().unwrap_or_default();
    // The last of the others took part to the end.
    let leave = |one: &MultishiftResult| {
        one.shifts[1..].iter().map(|shift| shift.shared_iterations).max() == Some(one.iterations)
    };
    match alone {
        0 => found.leave(statement, "on this field it has reached its own tolerance before the others leave"),
        _ => found.judge(
            statement,
            result.shifts.iter().all(leave),
            format!("{alone} steps at least, with its direction"),
        ),
    }
    Ok(found)
}
