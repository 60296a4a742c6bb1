//! `zellige simulate ...`: virtual time on machines that a file describes.

use std::path::Path;

use anyhow::{Context, anyhow};
use zellige_app::page::Page;
use zellige_dense::Rule;
use zellige_sim::platform::Platform;
use zellige_tor::pipeline::norms::TileNorms;
use zellige_tor::pipeline::simulate::{Report, Request, SimulateError, compare, simulate};
use zellige_tor::report::text;

use crate::args::{Simulate, SimulateCommon};
use crate::devices;
use crate::exit::CommandError;
use crate::models;
use crate::out;
use crate::reproduce::{Series, curves};
use crate::results::page_of;

/// Name of the platform of this machine.
const HOST: &str = "host";
/// Number of tasks whose operands a device prefetches beyond the running one.
const AHEAD: usize = 2;

/// Runs the simulations, prints the reports and writes them.
///
/// # Errors
/// A platform that cannot be read, a graph that the platform cannot run, an output that cannot be
/// written.
pub fn run(verb: &Simulate) -> anyhow::Result<()> {
    match verb {
        Simulate::Tor(args) => simulations(&args.common, &args.n, Some(args.m), false),
        Simulate::Cholesky(args) => simulations(&args.common, &args.n, None, args.products_only),
        Simulate::Platforms { name: None } => platforms(),
        Simulate::Platforms { name: Some(name) } => {
            let platform = Platform::shipped(name).map_err(|error| CommandError::option("NAME", error))?;
            out::print(&platform.to_toml()?)
        }
    }
}

fn platforms() -> anyhow::Result<()> {
    let mut text = String::new();
    for name in Platform::names() {
        let platform = Platform::shipped(name)?;
        text += &format!("{name}\n");
        for line in platform.description.trim().lines() {
            text += &format!("    {line}\n");
        }
    }
    out::print(&text)
}

/// Maximum size of a file of norms or of a platform, in bytes.
const MOST_BYTES: u64 = 1 << 26;

fn norms(path: &Path) -> anyhow::Result<TileNorms> {
    let text = zellige_files::read_text(path, MOST_BYTES)
        .with_context(|| format!("cannot read norms {}", path.display()))?;
    let bad = |error| CommandError::option("--norms", format!("{}: {error}", path.display()));
    Ok(TileNorms::parse(&text).map_err(bad)?)
}

/// Returns the platform of an option, and how many tasks its devices prefetch for.
pub fn machine(name: &str, workers: Option<u16>, option: &'static str) -> anyhow::Result<(Platform, usize)> {
    // Workers of this machine share its memory and prefetch nothing.
    match name {
        HOST => Ok((named(name, workers, option)?, 0)),
        _ => Ok((named(name, None, option)?, AHEAD)),
    }
}

/// Returns the platforms that the options describe, one for each number of devices.
fn platforms_of(args: &SimulateCommon) -> anyhow::Result<Vec<Platform>> {
    let mut platform = named(&args.platform, args.workers, "--platform")?;
    if let Some(gb) = args.device_memory {
        platform = platform.with_capacity(gb);
    }
    let there = platform.devices.len();
    if args.devices.iter().any(|&count| usize::from(count) > there) {
        let problem = format!("platform {} has {there} devices", platform.name);
        return Err(CommandError::option("--devices", problem).into());
    }
    match args.devices[..] {
        [] => Ok(vec![platform]),
        _ => Ok(args.devices.iter().map(|&count| platform.clone().with_devices(count.into())).collect()),
    }
}

/// Returns the platform of this name: this machine, a shipped platform, or one from a file.
fn named(name: &str, workers: Option<u16>, option: &'static str) -> anyhow::Result<Platform> {
    let bad = |error: zellige_runtime::Error| anyhow::Error::from(CommandError::option(option, error));
    if name == HOST {
        return host(devices::workers(workers).into());
    }
    if workers.is_some() {
        return Err(
            CommandError::option("--workers", "applies to --platform host only; see --devices").into()
        );
    }
    if !name.ends_with(".toml") {
        return Platform::shipped(name).map_err(bad);
    }
    let path = Path::new(name);
    let unread = |error| CommandError::option(option, format!("{}: {error}", path.display()));
    let text = zellige_files::read_text(path, MOST_BYTES).map_err(unread)?;
    Platform::parse(&text).map_err(bad).with_context(|| path.display().to_string())
}

/// Returns the platform of this machine, from its calibration.
fn host(workers: usize) -> anyhow::Result<Platform> {
    let (models, _) = models::cached()
        .map_err(|unusable| anyhow!("--platform host needs performance models; {unusable}"))?;
    Platform::host(models, workers)
        .with_context(|| format!("--platform host: run zellige machine calibrate --workers {workers} first"))
}

/// Simulates a reconstructor of `m` rows, the factorisation alone, or only its products, for every
/// rule, size, and number of devices and nodes.
fn simulations(
    args: &SimulateCommon,
    sizes: &[u32],
    m: Option<u32>,
    products_only: bool,
) -> anyhow::Result<()> {
    let outputs = &args.outputs;
    let platforms = platforms_of(args)?;
    if outputs.trace.is_some() && args.rules.len() * args.nodes.len() * sizes.len() * platforms.len() > 1 {
        let problem = "a trace is of one simulation: give one --precision, --n, --devices and --nodes";
        return Err(CommandError::option("--trace", problem).into());
    }
    let platform = &platforms[0];
    if args.nodes.iter().any(|&nodes| nodes > 1) && platform.network.is_none() {
        let problem = format!("platform {} has no table [network] with gb_s and latency_us", platform.name);
        return Err(CommandError::option("--nodes", problem).into());
    }
    // Workers of this machine share its memory and prefetch nothing.
    let ahead = if args.platform == HOST { 0 } else { AHEAD };
    let norms = args.norms.as_deref().map(norms).transpose()?;
    let (mut reports, mut trace) = (Vec::new(), None);
    let each = platforms.iter().flat_map(|platform| {
        sizes.iter().flat_map(move |&n| args.rules.iter().map(move |rule| (platform, n, rule)))
    });
    for (platform, n, rule) in each {
        let first = reports.len();
        for &nodes in &args.nodes {
            let request = Request {
                n: n as usize,
                m: m.unwrap_or(0) as usize,
                products_only,
                tile: args.tile as usize,
                rule: rule.clone(),
                norms: norms.as_ref(),
                fuse_updates: args.fuse_updates.into(),
                cyclic_block: usize::from(args.cyclic_block),
                policy: args.sched.clone(),
                ahead,
                nodes: nodes.into(),
            };
            let (report, recorded) = simulate(&request, platform).map_err(|error| refused(rule, error))?;
            reports.push(report);
            trace = trace.or(Some(recorded));
        }
        compare(&mut reports[first..]);
    }
    let text = |colours| {
        let table = text::of_simulations(&reports, colours);
        let m = m.map_or(String::new(), |m| format!(", m = {m}"));
        // Lists are columns of the table.
        let devices = match &platforms[..] {
            [platform] => format!(" on {} device(s)", platform.device_count()),
            _ => String::new(),
        };
        let tasks = match sizes {
            [n] => format!(", n = {n}{m}, {} tasks", reports[0].tasks),
            _ => m,
        };
        format!("{table}{}{devices}, {}{tasks}; predictions, no task ran\n", platform.name, args.sched)
    };
    let title = format!("{} on {}", args.rules[0], platform.name);
    let page = || {
        let mut page = page_of(&title, &reports)?;
        figures(&mut page, &reports);
        Ok(page)
    };
    outputs.write(&title, trace.as_ref(), &reports, page, text)
}

/// Adds figures of rates by size, and of times by number of devices, where these are lists.
fn figures(page: &mut Page, reports: &[Report]) {
    type Number = fn(&Report) -> f64;
    let figures: [(&str, [&str; 2], Number, Number); 2] = [
        ("Rates by size", ["n", "Tflop/s"], |one| one.n as f64, |one| one.tflops),
        (
            "Times by number of devices",
            ["devices", "s"],
            |one| one.devices as f64,
            |one| one.makespan_seconds,
        ),
    ];
    for (title, axes, x, y) in figures {
        let mut series: Vec<Series> = Vec::new();
        for report in reports {
            let name = match axes[0] {
                "n" => format!("{}, {} device(s)", report.rule, report.devices),
                _ => format!("{}, n = {}", report.rule, report.n),
            };
            let at = series.iter().position(|one| one.name == name).unwrap_or_else(|| {
                series.push(Series { name, x: Vec::new(), y: Vec::new() });
                series.len() - 1
            });
            series[at].x.push(x(report));
            series[at].y.push(y(report));
        }
        if series.iter().all(|one| one.x.len() > 1 && one.x[1..].iter().any(|x| *x != one.x[0])) {
            page.section(
                title,
                "Predictions; a line for each rule.",
                &curves(&series, &axes.map(str::to_owned)),
            );
        }
    }
}

/// Explains why a rule was not simulated, and names the option to change.
fn refused(rule: &Rule, error: SimulateError) -> anyhow::Error {
    match error {
        SimulateError::NeedsNorms(_) => {
            CommandError::option("--precision", format!("{error} (--norms FILE)")).into()
        }
        SimulateError::OwnersOnNodes => CommandError::option("--sched", error).into(),
        SimulateError::NoProducts(..) => CommandError::option("--tile", error).into(),
        SimulateError::Linalg(
            zellige_dense::Error::Elements { .. } | zellige_dense::Error::Precision { .. },
        ) => {
            let problem = format!(
                "{rule}: simulations support float32 tiles only: use fp32, or a rule of lower precision"
            );
            CommandError::option("--precision", problem).into()
        }
        SimulateError::Linalg(error) => anyhow::Error::from(error),
    }
}
