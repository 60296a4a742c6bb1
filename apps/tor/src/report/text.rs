//! Results as text for a terminal.

use zellige_app::table::{Side, Table};
use zellige_app::text::{bytes, digits};

use super::field;
use super::terms;
use crate::end_to_end::LoopRun;
use crate::learn::LearnResult;
use crate::pipeline::simulate::{RankReport, Report};
use crate::pipeline::{CovarianceResult, GemmShare, Judgement, Outcome, RuleResult, Tiling};

/// Note on the figures that the table of a build omits.
const NOT_JUDGED: &str = "backward error and Strehl ratios: not computed; use zellige tor eval\n";

/// Describes covariance matrices.
pub fn of_covariances(result: &CovarianceResult, seconds: f64) -> String {
    format!(
        "Cmm {0} x {0} ({1} in float64), Ctm {2} x {0} of {3} target(s), Ctt {2} x {2}: computed in {4} s\n",
        result.n,
        bytes(8 * (result.n as u64).pow(2)),
        result.m,
        result.targets,
        digits(seconds)
    )
}

/// Describes tiles in words.
pub fn of_tiling(tiling: &Tiling) -> String {
    format!(
        "tiles            {} x {}, at most {} rows ({} in float32), {} tasks to factorise\nadvice           {}\n",
        tiling.tiles,
        tiling.tiles,
        tiling.largest,
        bytes(4 * (tiling.largest as u64).pow(2)),
        tiling.factor_tasks,
        tiling.advice
    )
}

/// Lists the quality of a reconstructor by target.
pub fn of_judgement(judgement: &Judgement, colours: bool) -> String {
    let made = judgement.rule.as_ref().map_or(String::new(), |rule| format!(", made with {rule}"));
    let mut table = Table::new(&[
        ("target", Side::Left),
        ("trace of Cee", Side::Right),
        ("of Ctt", Side::Right),
        ("Strehl", Side::Right),
        ("exact", Side::Right),
        ("Marechal", Side::Right),
        ("nm rms", Side::Right),
    ]);
    for t in &judgement.targets {
        table.row([
            format!("({}, {})", t.x, t.y),
            format!("{:.6e}", t.trace_cee),
            format!("{:.3} %", 100.0 * t.relative_error),
            format!("{:.6}", t.strehl_moao),
            t.strehl_exact.map_or("-".into(), |s| format!("{s:.6}")),
            format!("{:.6}", t.marechal),
            format!("{:.1}", t.wfe_nm),
        ]);
    }
    let lag = judgement.lag_ms.map_or(String::new(), |ms| format!(", wavefront {ms} ms later"));
    format!(
        "{}: {} x {}, slopes {}{made}{lag}\n{}",
        judgement.reconstructor.display(),
        judgement.m,
        judgement.n,
        judgement.slope_order.name(),
        table.render(colours)
    )
}

/// Returns the text of simulated loops.
pub fn of_loops(runs: &[LoopRun], colours: bool) -> String {
    let mut table = Table::new(&[
        ("reconstructor", Side::Left),
        ("products", Side::Left),
        ("target", Side::Left),
        ("um", Side::Right),
        ("Strehl", Side::Right),
        ("+-", Side::Right),
        ("nm rms", Side::Right),
        ("no tilt", Side::Right),
        ("half energy", Side::Right),
    ]);
    for run in runs {
        let shares = run.shares.map_or("-".into(), |shares| of_shares(&shares));
        for target in run.result.iter().flat_map(|result| &result.targets) {
            for (i, band) in target.bands.iter().enumerate() {
                let error = target.strehl_error.filter(|_| i == 0);
                table.row([
                    run.reconstructor.clone(),
                    shares.clone(),
                    format!("({}, {})", target.x, target.y),
                    format!("{:.3}", 1e6 * band.wavelength),
                    format!("{:.4}", band.strehl),
                    error.map_or("-".into(), |e| format!("{e:.4}")),
                    format!("{:.1}", target.rms_nm),
                    format!("{:.1}", target.rms_nm_tilt_removed),
                    band.half_energy_diameter.map_or("-".into(), |d| format!("{d:.3}\"")),
                ]);
            }
        }
    }
    let head = runs.iter().find_map(loop_head).unwrap_or_default();
    let limited: u64 = runs.iter().filter_map(|run| run.result.as_ref()).map(|r| r.saturated).sum();
    let mut notes = match limited {
        0 => String::new(),
        n => format!("{n} command(s) were limited to the stroke of the actuators\n"),
    };
    for (rule, reason) in runs.iter().filter_map(|run| Some((&run.reconstructor, run.not_spd.as_ref()?))) {
        notes += &format!("{rule}: {reason}\n");
    }
    let rest = [terms::of_budgets(runs, colours), of_fields(runs, colours), terms::of_stages(runs)].concat();
    format!("{head}{}{notes}{rest}", table.render(colours))
}

/// Describes the exposures of a run.
fn loop_head(run: &LoopRun) -> Option<String> {
    let r = run.result.as_ref()?;
    let seeds = match run.seeds.len() {
        0 | 1 => format!("seed {}", r.seed),
        n => format!("{n} seeds from {}", r.seed),
    };
    let interrupted = if run.complete { "" } else { " (interrupted)" };
    Some(format!(
        "{} frames of {} ms after {}{interrupted}, {} loop, gain {}, delay {}, sensors {}, {seeds}\n{} measurements, {} actuators{}; {:.0} frames/s\n",
        r.frames,
        1e3 * r.frame_time,
        r.skipped,
        r.mode.name(),
        r.gain,
        r.delay,
        r.sensor.name(),
        r.measurements,
        r.actuators,
        r.modes.map_or(String::new(), |modes| format!(", {modes} modes")),
        run.frames_per_second
    ))
}

/// Lists the fractions of tile products by precision.
pub(super) fn of_shares(shares: &GemmShare) -> String {
    let used = shares.list().into_iter().filter(|(_, share)| *share > 0.0);
    let list: Vec<String> = used.map(|(name, share)| format!("{name} {:.1} %", 100.0 * share)).collect();
    if list.is_empty() { "none".into() } else { list.join(", ") }
}

/// Lists the Strehl ratios of corrected fields, of the loop and of the covariances.
fn of_fields(runs: &[LoopRun], colours: bool) -> String {
    let mut table = Table::new(&[
        ("reconstructor", Side::Left),
        ("target", Side::Left),
        ("loop", Side::Right),
        ("covariances", Side::Right),
        ("nm rms", Side::Right),
    ]);
    let mut any = false;
    for run in runs {
        for line in field::lines(run) {
            table.row([vec![run.reconstructor.clone()], line.to_vec()].concat());
            any = true;
        }
    }
    match any {
        true => format!(
            "\nField: Strehl ratios; the covariances' have no fitting, aliasing and delay\n{}",
            table.render(colours)
        ),
        false => String::new(),
    }
}

/// Describes a learnt profile.
pub fn of_learnt(result: &LearnResult, colours: bool) -> String {
    let mut table = Table::new(&[
        ("altitude m", Side::Right),
        ("cn2 m^-5/3", Side::Right),
        ("+-", Side::Right),
        ("part", Side::Right),
        ("wind m/s", Side::Right),
        ("+-", Side::Right),
        ("direction", Side::Right),
        ("+-", Side::Right),
    ]);
    let error = |error: Option<f64>| error.map_or("-".into(), |e| format!("{e:.2}"));
    for layer in &result.layers {
        table.row([
            format!("{:.0}", layer.altitude),
            format!("{:.3}", layer.cn2),
            format!("{:.3}", layer.cn2_error),
            format!("{:.1} %", 100.0 * layer.fraction),
            format!("{:.2}", layer.wind_speed),
            error(layer.wind_speed_error),
            format!("{:.1}", layer.wind_direction),
            error(layer.wind_direction_error),
        ]);
    }
    let noise: Vec<String> = result.noise.iter().map(|n| format!("{:.2e} {:.2e}", n[0], n[1])).collect();
    format!(
        "{} frames of {} ms, winds from a lag of {} frames; misfit {:.2} %; {} s\nr0 {:.4} +- {:.4} m, outer scale {:.1} +- {:.1} m (standard errors)\n{}noise x y of each sensor (arcsec^2): {}\n",
        result.frames,
        1e3 * result.frame_time,
        result.lag,
        100.0 * result.misfit,
        digits(result.seconds),
        result.r0,
        result.r0_error,
        result.outer_scale,
        result.outer_scale_error,
        table.render(colours),
        noise.join(", ")
    )
}

/// Lists the rules of a run.
pub fn of_run(outcome: &Outcome, colours: bool) -> String {
    let info = &outcome.info;
    let tiles = outcome.results.first().map_or(0, |r| r.tiles);
    let devices: Vec<String> =
        outcome.devices.iter().map(|d| format!(", {} ({})", d.device, bytes(d.memory_bytes))).collect();
    let lag = outcome.input.system.lag_ms().map_or(String::new(), |ms| format!(", lag {ms} ms"));
    let head = format!(
        "n = {}, m = {}, {} target(s){lag}, {tiles} x {tiles} tiles, {} worker(s){}\n",
        info.measurements,
        info.truth_slopes,
        info.targets,
        outcome.workers,
        devices.concat()
    );
    let note = match info.targets {
        0 | 1 => "",
        _ => "Strehl ratios of the first target; --json FILE has those of all targets\n",
    };
    [head, table(outcome).render(colours), rounded(outcome), note.into()].concat()
}

/// Names the format and the size of reconstructors in few bits.
fn rounded(outcome: &Outcome) -> String {
    let Some(first) = outcome.results.iter().find_map(|result| result.extras.rounded.first()) else {
        return String::new();
    };
    let (m, n) = first.shape();
    let (least, most) = (first.bits().iter().min(), first.bits().iter().max());
    let bits = match (least, most) {
        (Some(least), Some(most)) if least < most => {
            format!("{least} to {most} bits (mean {:.2})", first.mean_bits())
        }
        _ => format!("{} bits", first.mean_bits()),
    };
    format!(
        "reconstructor in {bits}: {}, {:.1} % of float32\n",
        bytes(first.bytes()),
        100.0 * first.bytes() as f64 / (4 * m * n) as f64
    )
}

/// Lists the rule of a build, whose reconstructor was not judged.
pub fn of_build(outcome: &Outcome, colours: bool) -> String {
    let note = if outcome.survived() { NOT_JUDGED } else { "" };
    [table(outcome).render(colours), rounded(outcome), note.into()].concat()
}

/// Names the tile at which each rule of an outcome without survivors failed.
pub fn no_survivor(outcome: &Outcome) -> String {
    let failures = outcome.results.iter().filter_map(|result| {
        let lost = result.not_spd.as_ref()?;
        Some(format!("{}: {lost}", result.rule))
    });
    let list: Vec<String> = failures.collect();
    let head = if list.len() == 1 { "" } else { "no precision rule survived: " };
    format!("{head}{}", list.join("; "))
}

fn table(outcome: &Outcome) -> Table {
    let mut table = Table::new(&[
        ("rule", Side::Left),
        ("low precision", Side::Right),
        ("backward error", Side::Right),
        ("Strehl", Side::Right),
        ("exact", Side::Right),
        ("GFLOP/s", Side::Right),
        ("of GEMM peak", Side::Right),
        ("seconds", Side::Right),
        ("", Side::Left),
    ]);
    for result in &outcome.results {
        table.row(row(result));
    }
    table
}

fn row(result: &RuleResult) -> [String; 9] {
    let mut note = match &result.rule_asked {
        Some(asked) => format!("after {asked}, which was not positive definite"),
        None => String::new(),
    };
    let dash = || "-".to_string();
    let Some(m) = &result.measured else {
        if let Some(lost) = &result.not_spd {
            note = lost.to_string();
        }
        let rule = result.rule.clone();
        return [rule, dash(), dash(), dash(), dash(), dash(), dash(), dash(), note];
    };
    // Without this note, a rule that has lowered no product would seem to cost nothing.
    if m.gemm_share.low() == 0.0 && !["fp32", "fp64"].iter().any(|full| result.rule.starts_with(full)) {
        let text =
            "no product is in low precision: its condition is never true, or tiles are too few (--tile N)";
        note = if note.is_empty() { text.into() } else { format!("{note}; {text}") };
    }
    let s = &m.seconds;
    let is_judged = !m.targets.is_empty();
    [
        result.rule.clone(),
        format!("{:.1} %", 100.0 * m.gemm_share.low()),
        if is_judged {
            format!("{}{:.1e}", if m.backward_error_estimated { "~" } else { "" }, m.backward_error)
        } else {
            dash()
        },
        if is_judged { format!("{:.6}", m.strehl_moao) } else { dash() },
        m.strehl_exact.map_or_else(dash, |strehl| format!("{strehl:.6}")),
        digits(m.gflops),
        if m.gemm_peak_gflops > 0.0 {
            format!("{:.0} %", 100.0 * m.gflops / m.gemm_peak_gflops)
        } else {
            dash()
        },
        digits(s.cov + s.factor + s.solve + s.eval),
        note,
    ]
}

/// Lists the predictions of simulations.
pub fn of_simulations(reports: &[Report], colours: bool) -> String {
    let table = if reports.iter().any(|report| report.nodes > 1) { by_nodes } else { by_rules };
    table(reports).render(colours)
}

/// Returns the table of strong scaling: work, messages and bytes of the ranks.
fn by_nodes(reports: &[Report]) -> Table {
    let right = |title| (title, Side::Right);
    let titles = [
        "nodes",
        "seconds",
        "speedup",
        "efficiency",
        "idle",
        "tasks per rank",
        "messages",
        "sent",
        "most by adapter",
        "its share",
        "host memory",
        "of a device",
    ];
    let lists = lists(reports);
    let titles = [("rule", Side::Left)].into_iter().chain(titles.map(right));
    let titles: Vec<_> = lists.iter().map(|list| right(list.0)).chain(titles).collect();
    let mut table = Table::new(&titles);
    for report in reports {
        let sum = |of: fn(&RankReport) -> u64| report.ranks.iter().map(of).sum::<u64>();
        let most = |of: fn(&RankReport) -> u64| bytes(report.ranks.iter().map(of).max().unwrap_or(0));
        let tasks = || report.ranks.iter().map(|rank| rank.tasks);
        let share = report.ranks.iter().map(|rank| rank.adapter_share).fold(0.0, f64::max);
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let numbers = lists.iter().map(|list| list.1(report).to_string());
        table.row(numbers.chain([
            report.rule.clone(),
            report.nodes.to_string(),
            digits(report.makespan_seconds),
            digits(report.speedup),
            percent(report.efficiency),
            percent(report.idle_share),
            format!("{} to {}", tasks().min().unwrap_or(0), tasks().max().unwrap_or(0)),
            sum(|rank| rank.messages.sent).to_string(),
            bytes(sum(|rank| rank.messages.sent_bytes)),
            most(|rank| rank.messages.sent_bytes.max(rank.messages.received_bytes)),
            percent(share),
            most(|rank| rank.host_peak_bytes),
            most(|rank| rank.device_peak_bytes),
        ]));
    }
    table
}

/// A column of numbers.
type Numbers = (&'static str, fn(&Report) -> usize);

/// Returns the columns of sizes and devices that differ: they stand in front of the others.
fn lists(reports: &[Report]) -> Vec<Numbers> {
    let all: [Numbers; 2] =
        [("devices", |report| report.devices / report.nodes.max(1)), ("n", |report| report.n)];
    all.into_iter().filter(|(_, of)| reports.iter().any(|report| of(report) != of(&reports[0]))).collect()
}

fn by_rules(reports: &[Report]) -> Table {
    let lists = lists(reports);
    let columns = [
        ("rule", Side::Left),
        ("low", Side::Right),
        ("seconds", Side::Right),
        ("Tflop/s", Side::Right),
        ("of fp32 peak", Side::Right),
        ("idle", Side::Right),
        ("x bound", Side::Right),
        ("to devices", Side::Right),
        ("to host", Side::Right),
        ("between", Side::Right),
    ];
    let titles: Vec<_> = lists.iter().map(|list| (list.0, Side::Right)).chain(columns).collect();
    let mut table = Table::new(&titles);
    for report in reports {
        let moved = report.bytes_moved;
        let numbers = lists.iter().map(|list| list.1(report).to_string());
        table.row(numbers.chain([
            report.rule.clone(),
            format!("{:.0} %", 100.0 * report.low_share),
            digits(report.makespan_seconds),
            digits(report.tflops),
            format!("{:.0} %", 100.0 * report.fraction_of_peak),
            format!("{:.0} %", 100.0 * report.idle_share),
            digits(report.makespan_seconds / report.bounds.mixed),
            bytes(moved.h2d),
            bytes(moved.d2h),
            bytes(moved.p2p),
        ]));
    }
    table
}
