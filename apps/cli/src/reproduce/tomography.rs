//! Items of Doucet et al. 2019.

use std::io::Write;

use zellige_dense::GemmPrecision;
use zellige_sim::platform::Platform;
use zellige_tor::params::{CHECK_SYSTEM, EXAMPLE, Input, LARGE_SYSTEM, Mode, parse};
use zellige_tor::pipeline::simulate::{Report, Request, simulate};
use zellige_tor::pipeline::{self, Options, Outcome, TileChoice, Xray};

use super::Context;
use super::found::Found;

/// Tile size of the small system, 12 along a side.
const TILE: usize = 76;
/// Tile size of simulated machines.
const SIMULATED: usize = 950;
/// Largest size of Figures 6 and 8.
const LARGEST: &str = "with 100 000 measurements";
/// Half-precision rule of Figures 6 and 9: single precision near the diagonal, HP1 elsewhere.
const MIXED: &str = "hp1:band=2";

/// Compares the variants of products.
pub fn variants(_: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let all = [GemmPrecision::Hp3, GemmPrecision::Hp2, GemmPrecision::Hp1, GemmPrecision::Sp];
    for (name, one) in ["HP3", "HP2", "HP1", "SP"].into_iter().zip(all) {
        let bits = |format: zellige_kernels::StorageFormat| 8.0 * format.bytes() as f64;
        found.value(name, "A/B bits", bits(one.operand_format()));
        found.value(name, "C bits", bits(one.output_format()));
        found.value(name, "compute bits", bits(one.accumulator_format()));
    }
    let narrow = found.values.iter().filter(|value| value.0 == "HP3").all(|value| value.2 == 16.0);
    found.judge(
        "HP3 computes in 16 bits, HP2 sums in 32, HP1 also returns 32",
        narrow,
        "formats of the rules",
    );
    found.command("zellige formats");
    Ok(found)
}

/// A system of `--full`: an example of the command with changes and more text, and its tile size.
struct Full<'a> {
    example: &'a str,
    changes: &'a [(&'a str, &'a str)],
    more: &'a str,
    tile: usize,
}

/// The example of the command.
const OF_EXAMPLE: Full<'_> = Full { example: EXAMPLE, changes: &[], more: "", tile: 138 };
/// 13 184 measurements of eight sensors, 96 tiles along a side; the paper has 13 248.
const OF_FIG2: Full<'_> = Full {
    example: EXAMPLE,
    changes: &[("nssp = 16 ", "nssp = 33 "), ("obstruction = 0.14", "obstruction = 0.2")],
    more: "\n[[guide_star]]\nkind = \"ngs\"\nx = 25.0\ny = -40.0\nmagnitude = 13.0\n",
    tile: 138,
};
/// 17 360 measurements, 19 tiles along a side; the paper has 17k, and 18 tiles.
const OF_FIG5: Full<'_> =
    Full { example: EXAMPLE, changes: &[("nssp = 16 ", "nssp = 40 ")], more: "", tile: SIMULATED };

/// 50 616 measurements of a telescope of 39 m, 54 tiles along a side; the paper has 50k, and 40 m.
const OF_FIG5_40M: Full<'_> =
    Full { example: LARGE_SYSTEM, changes: &[("nssp = 86\n", "nssp = 61\n")], more: "", tile: SIMULATED };

fn read(text: &str) -> anyhow::Result<Input> {
    Ok(parse("system.toml".as_ref(), text, None, Mode::Strict)?)
}

impl Full<'_> {
    fn system(&self) -> anyhow::Result<Input> {
        let mut text = self.example.to_owned();
        for (from, to) in self.changes {
            anyhow::ensure!(text.contains(from), "the example system has no {from:?}");
            text = text.replace(from, to);
        }
        read(&(text + self.more))
    }
}

/// Reads the small system, or that of `--full`.
fn system(context: &Context<'_>, full: &Full<'_>) -> anyhow::Result<(Input, usize)> {
    Ok(if context.full { (full.system()?, full.tile) } else { (read(CHECK_SYSTEM)?, TILE) })
}

fn run(context: &Context<'_>, full: &Full<'_>, options: Options) -> anyhow::Result<Outcome> {
    let (input, tile) = system(context, full)?;
    let options = Options { tile: TileChoice::Uniform(tile), ..options };
    Ok(pipeline::run(context.runtime, &input, &options, context.observer)?)
}

/// Computes eigenvalues of the matrix, and norms and singular values of tiles.
pub fn eigenvalues(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let outcome = run(
        context,
        &OF_FIG2,
        Options { xray: Xray::Full, judge: false, exact: false, ..Options::default() },
    )?;
    let picture = outcome.xray.ok_or_else(|| anyhow::anyhow!("the spectra were computed"))?;
    let of = |values: &[f64]| {
        values.iter().enumerate().map(|(at, &value)| (at as f64 + 1.0, value)).collect::<Vec<_>>()
    };
    let all = &picture.eigenvalues;
    found.value("measurements", "number", all.len() as f64);
    for share in [1, 10, 50, 90, 100] {
        let at = (all.len() * share / 100).max(1) - 1;
        found.value(format!("eigenvalue at {share} %"), "beside the largest", all[at] / all[0]);
    }
    found.curve("matrix", of(all));
    for (distance, values) in &picture.spectra {
        found.curve(format!("tile {distance} from the diagonal"), of(values));
    }
    for at in &picture.norms {
        found.value(format!("tiles {} from the diagonal", at.distance), "median norm", at.median);
    }
    // Noise ends the decay of the eigenvalues.
    let tenth = all[all.len() / 10] / all[0];
    found.judge(
        "eigenvalues decay exponentially",
        tenth < 0.05,
        format!("a tenth of them holds all above {tenth:.1e} of the largest"),
    );
    let norms: Vec<f64> = picture.norms.iter().map(|at| at.median).collect();
    let falls = norms.windows(2).filter(|pair| pair[1] <= pair[0]).count();
    found.judge(
        "tiles have smaller eigenvalues the farther they are from the diagonal",
        falls == norms.len() - 1,
        format!("median norms fall in {falls} of {} steps: tiles of two sensors that see the same turbulence are far from the diagonal, too", norms.len() - 1),
    );
    found.command("zellige tor run apps/tor/systems/check.toml --tile 76 --xray full --report tor.html");
    Ok(found)
}

/// Factorises with three zones: single precision, HP1 and HP2 by the distance from the diagonal.
pub fn zones(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let plain = run(context, &OF_EXAMPLE, Options { judge: false, exact: false, ..Options::default() })?;
    let mut file = tempfile::Builder::new().suffix(".json").tempfile()?;
    let map = map_of_zones(&plain.edges);
    file.write_all(serde_json::to_string(&map)?.as_bytes())?;
    let rules = vec!["fp32".to_owned(), format!("map:{}", file.path().display())];
    let outcome = run(context, &OF_EXAMPLE, Options { rules, ..Options::default() })?;
    let mut ratios = Vec::new();
    for (name, result) in ["SP", "SP, HP1, HP2"].into_iter().zip(&outcome.results) {
        let strehl = result.measured.as_ref().and_then(|measured| measured.strehl_exact).unwrap_or(0.0);
        found.value(name, "Strehl ratio", strehl);
        for (precision, share) in result.measured.iter().flat_map(|measured| measured.gemm_share.list()) {
            if share > 0.0 {
                found.value(name, format!("% of products in {precision}"), 100.0 * share);
            }
        }
        ratios.push(strehl);
    }
    found.judge(
        "the three zones lose nothing of the Strehl ratio",
        (ratios[0] - ratios[1]).abs() <= 1e-3,
        format!("{:.6} and {:.6}", ratios[0], ratios[1]),
    );
    found.command(
        "zellige tor run apps/tor/systems/check.toml --tile 76 --precision fp32 --precision map:zones.json",
    );
    Ok(found)
}

/// Returns a map with single precision next to the diagonal, HP1 up to a third of it, HP2 beyond.
fn map_of_zones(edges: &[usize]) -> serde_json::Value {
    let tiles = edges.len() - 1;
    let letter = |distance: usize| match distance {
        0 => '.',
        1 => 's',
        _ if 3 * distance <= tiles => '1',
        _ => '2',
    };
    let rows: Vec<String> = (0..tiles).map(|i| (0..=i).map(|j| letter(i - j)).collect()).collect();
    serde_json::json!({
        "format": "zellige precision map",
        "schema": 1,
        "edges": edges,
        "panel": "fp32",
        "legend": {"s": "fp32", "1": "hp1", "2": "hp2"},
        "factor": rows,
    })
}

/// Rules of Figure 5, from the most accurate on.
const RULES: [&str; 8] =
    ["fp32", "hp1:band=2", "hp1", "hp2:band=8", "hp2:band=2", "hp2", "hp3:band=8", "hp3:band=2"];

/// Rules of the 40 m system, each of which takes minutes. The matrix in half precision outside of a
/// narrow band is not definite, so that a rule by the norms of operands stands beside it.
const FEW_RULES: [&str; 4] = ["fp32", "hp1:operand=1e-2", "hp1:band=2", "hp3:band=2"];

/// Computes the Strehl ratio of several mixes.
pub fn strehl(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let mut systems = vec![("8 m", &OF_FIG5, &RULES[..])];
    if context.full {
        systems.push(("40 m", &OF_FIG5_40M, &FEW_RULES));
    }
    for (telescope, full, rules) in systems {
        let named = rules.iter().map(|rule| (*rule).to_owned()).collect();
        let outcome = run(context, full, Options { rules: named, ..Options::default() })?;
        let mut kept: Vec<(&str, Option<f64>)> = Vec::new();
        for (rule, result) in rules.iter().zip(&outcome.results) {
            let strehl = result.measured.as_ref().and_then(|measured| measured.strehl_exact);
            found.value(
                format!("{telescope}, {rule}"),
                "Strehl ratio, 0 if not definite",
                strehl.unwrap_or(0.0),
            );
            for (precision, share) in result.measured.iter().flat_map(|measured| measured.gemm_share.list()) {
                if share > 0.0 {
                    found.value(
                        format!("{telescope}, {rule}"),
                        format!("% of products in {precision}"),
                        100.0 * share,
                    );
                }
            }
            kept.push((rule, strehl));
        }
        judge_mixes(&mut found, telescope, &kept);
    }
    if !context.full {
        found.leave("40 m, 50k measurements", "18 GB and most of an hour: --full has 50 616");
    }
    found.leave(
        "Strehl ratios of long exposures, by COMPASS",
        "these are the exact ratios of the error covariance; zellige tor loop exposes frame by frame",
    );
    found.command(format!(
        "zellige tor run apps/tor/systems/check.toml --tile 76 {}",
        RULES.map(|rule| format!("--precision {rule}")).join(" ")
    ));
    Ok(found)
}

/// Judges the Strehl ratios of rules, of which the first one is single precision.
fn judge_mixes(found: &mut Found, telescope: &str, kept: &[(&str, Option<f64>)]) {
    let single = kept[0].1.unwrap_or(f64::NAN);
    let of = |name: &str| {
        kept.iter().filter(|one| one.0.starts_with(name)).filter_map(|one| one.1).collect::<Vec<_>>()
    };
    let near = |ratio: &f64| (ratio - single).abs() <= 0.01;
    let mixed = [of("hp1"), of("hp2")].concat();
    let equal = !mixed.is_empty() && mixed.iter().all(near);
    found.judge(
        format!("{telescope}: where the factorisation succeeds with HP1 and HP2, the Strehl ratio is that of single precision"),
        equal,
        format!("single precision has {single:.4}, the others {mixed:.4?}; within 0.01"),
    );
    found.judge(
        format!("{telescope}: mixes with HP3 never have a proper Strehl ratio"),
        !of("hp3").iter().any(near),
        format!("hp3 far from the diagonal: {:?} beside {single:.4}", of("hp3")),
    );
}

/// Simulates a reconstructor of a twentieth as many rows.
fn simulated(platform: &str, devices: usize, n: usize, rule: &str) -> anyhow::Result<Report> {
    let platform = Platform::shipped(platform)?;
    let platform = if devices < platform.devices.len() { platform.with_devices(devices) } else { platform };
    Ok(simulate(&request(n, rule)?, &platform)?.0)
}

fn request(n: usize, rule: &str) -> anyhow::Result<Request<'static>> {
    Ok(Request {
        n,
        m: n / 20,
        products_only: false,
        tile: SIMULATED,
        rule: rule.parse()?,
        norms: None,
        fuse_updates: 1,
        cyclic_block: 1,
        policy: "dmdas".into(),
        ahead: 2,
        nodes: 1,
    })
}

fn sizes(context: &Context<'_>) -> Vec<usize> {
    if context.full { vec![20_000, 40_000, 60_000, 80_000, 100_000] } else { vec![9_500, 19_000, 28_500] }
}

/// Simulates three machines for several numbers of measurements.
pub fn rates(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let curves =
        [("P100 SP", "p100x4", "fp32"), ("V100 SP", "v100x4", "fp32"), ("V100 mixed", "v100x4", MIXED)];
    let mut last = Vec::new();
    for (name, platform, rule) in curves {
        let mut points = Vec::new();
        for n in sizes(context) {
            let report = simulated(platform, 4, n, rule)?;
            found.value(format!("n = {n}"), format!("{name}; Tflop/s"), report.tflops);
            found.value(
                format!("n = {n}"),
                format!("{name}; % of the SP peak"),
                100.0 * report.fraction_of_peak,
            );
            points.push((n as f64, report.tflops));
            last.push((name, report.tflops, report.fraction_of_peak, report.makespan_seconds));
        }
        found.curve(name, points);
    }
    let of = |name: &str| {
        last.iter().rfind(|one| one.0 == name).map_or((f64::NAN, f64::NAN), |one| (one.1, one.2))
    };
    let single = of("V100 SP").1;
    found.judge(
        "single precision reaches about 60 % of the peak",
        (0.4..=0.8).contains(&single),
        format!("{:.0} % at the largest n", 100.0 * single),
    );
    let (mixed, plain) = (of("V100 mixed").0, of("V100 SP").0);
    found.judge(
        "the mix is faster than single precision",
        mixed > plain,
        format!("{mixed:.0} and {plain:.0} Tflop/s"),
    );
    let text = "the mix reaches almost 70 Tflop/s";
    let reason = format!("{mixed:.0} Tflop/s: simulated tensor cores and links have no losses within a task");
    found.judge_full(context.full, text, (50.0..=90.0).contains(&mixed), reason, LARGEST);
    found.command(format!(
        "zellige simulate tor --n 28500 --m 1425 --tile {SIMULATED} --platform v100x4 --precision {MIXED}"
    ));
    Ok(found)
}

/// Simulates several mixes.
pub fn mixes(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let rules = ["hp1", "hp1:band=2", "hp1:band=8", "hp2:band=2"];
    let mut largest = Vec::new();
    for rule in rules {
        let mut points = Vec::new();
        for n in sizes(context) {
            let report = simulated("v100x4", 4, n, rule)?;
            found.value(format!("n = {n}"), format!("{rule}; Tflop/s"), report.tflops);
            points.push((n as f64, report.tflops));
        }
        largest.push(points.last().map_or(0.0, |point| point.1));
        found.curve(rule, points);
    }
    found.judge(
        "HP1 beside a narrow band of single precision is the fastest of the mixes that stay definite",
        largest[1] >= largest[2] && largest[1] >= largest[3],
        format!("{:.0} Tflop/s beside {:.0} (band 8) and {:.0} (HP2)", largest[1], largest[2], largest[3]),
    );
    found.command(format!(
        "zellige simulate tor --n 28500 --m 1425 --tile {SIMULATED} --platform v100x4 --precision {}",
        rules.join(" --precision ")
    ));
    Ok(found)
}

/// Simulates the products of a factorisation alone.
pub fn products(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    for (name, platform, published) in [("P100 SP", "p100x4", 0.7), ("V100 SP", "v100x4", 0.8)] {
        let mut points = Vec::new();
        let mut share = 0.0;
        for n in sizes(context) {
            let request = Request { m: 0, products_only: true, ..request(n, "fp32")? };
            let report = simulate(&request, &Platform::shipped(platform)?)?.0;
            share = report.fraction_of_peak;
            found.value(format!("n = {n}"), format!("{name}; Tflop/s"), report.tflops);
            found.value(format!("n = {n}"), format!("{name}; % of the SP peak"), 100.0 * share);
            points.push((n as f64, report.tflops));
        }
        let text = format!("{name}: about {:.0} % of the peak", 100.0 * published);
        let reason = format!("{:.0} % at the largest n", 100.0 * share);
        found.judge_full(context.full, text, (share - published).abs() <= 0.1, reason, LARGEST);
        found.curve(name, points);
    }
    found.command(format!(
        "zellige simulate cholesky --products-only --n 28500 --tile {SIMULATED} --platform v100x4"
    ));
    Ok(found)
}

/// Simulates one to four GPUs.
pub fn devices(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let n = if context.full { 100_000 } else { 28_500 };
    for (name, rule) in [("SP", "fp32"), ("mixed", MIXED)] {
        let (mut times, mut shares) = (Vec::new(), Vec::new());
        for count in 1..=4usize {
            let report = simulated("v100x4", count, n, rule)?;
            let moved = &report.bytes_moved;
            let host = (moved.h2d + moved.d2h) as f64;
            let share = 100.0 * host / (host + moved.p2p as f64);
            found.value(format!("{count} GPUs"), format!("{name}; s"), report.makespan_seconds);
            found.value(format!("{count} GPUs"), format!("{name}; % of bytes by the host"), share);
            times.push((count as f64, report.makespan_seconds));
            shares.push(share);
        }
        found.judge(
            format!("{name}: from two to four GPUs the time nearly halves"),
            times[1].1 / times[3].1 > 1.5,
            format!("{:.2} times as fast", times[1].1 / times[3].1),
        );
        found.judge(
            format!("{name}: the host's share of transfers falls with the number of GPUs"),
            shares.windows(2).all(|pair| pair[1] <= pair[0]),
            format!("{:.0}, {:.0}, {:.0} and {:.0} %", shares[0], shares[1], shares[2], shares[3]),
        );
        found.curve(name, times);
    }
    if !context.full {
        found.leave(
            "one GPU is slow, as its memory does not hold the matrix",
            "28 500 measurements fit one GPU: --full has 100 000",
        );
    }
    found.command(format!("zellige simulate tor --n {n} --m {} --tile {SIMULATED} --platform v100x4 --devices 1 --precision fp32 --precision {MIXED}", n / 20));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use zellige_tor::geometry::Geometry;

    use super::{OF_EXAMPLE, OF_FIG2, OF_FIG5, OF_FIG5_40M};

    #[test]
    fn systems_of_full_runs_have_the_sizes_of_the_paper() {
        let measurements = [&OF_EXAMPLE, &OF_FIG2, &OF_FIG5, &OF_FIG5_40M]
            .map(|full| Geometry::new(&full.system().unwrap().system).unwrap().measurements());
        assert_eq!(measurements, [2856, 13_184, 17_360, 50_616]);
    }
}
