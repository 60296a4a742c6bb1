//! `zellige simulate ...`: virtual time on machines that a file describes.

use std::path::Path;

use anyhow::{Context, anyhow};
use zellige_dense::Rule;
use zellige_sim::platform::Platform;
use zellige_tor::pipeline::norms::TileNorms;
use zellige_tor::pipeline::simulate::{Request, SimulateError, compare, simulate};
use zellige_tor::report::text;

use crate::args::{Simulate, SimulateCommon};
use crate::devices;
use crate::exit::CommandError;
use crate::models;
use crate::out;
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
        Simulate::Tor(args) => simulations(&args.common, args.n, Some(args.m), false),
        Simulate::Cholesky(args) => simulations(&args.common, args.n, None, args.products_only),
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

/// Returns the platform that the options describe.
fn platform(args: &SimulateCommon) -> anyhow::Result<Platform> {
    let mut platform = named(&args.platform, args.workers, "--platform")?;
    if let Some(count) = args.devices {
        let there = platform.devices.len();
        if usize::from(count) > there {
            return Err(CommandError::option(
                "--devices",
                format!("platform {} has {there} devices", platform.name),
            )
            .into());
        }
        platform = platform.with_devices(count.into());
    }
    if let Some(gb) = args.device_memory {
        platform = platform.with_capacity(gb);
    }
    Ok(platform)
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
/// rule.
fn simulations(args: &SimulateCommon, n: u32, m: Option<u32>, products_only: bool) -> anyhow::Result<()> {
    let outputs = &args.outputs;
    if outputs.trace.is_some() && args.rules.len() * args.nodes.len() > 1 {
        let problem = "a trace has one rule and one number of nodes: give one --precision and one --nodes";
        return Err(CommandError::option("--trace", problem).into());
    }
    let platform = platform(args)?;
    if args.nodes.iter().any(|&nodes| nodes > 1) && platform.network.is_none() {
        let problem = format!("platform {} has no table [network] with gb_s and latency_us", platform.name);
        return Err(CommandError::option("--nodes", problem).into());
    }
    // Workers of this machine share its memory and prefetch nothing.
    let ahead = if args.platform == HOST { 0 } else { AHEAD };
    let norms = args.norms.as_deref().map(norms).transpose()?;
    let (mut reports, mut trace) = (Vec::new(), None);
    for rule in &args.rules {
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
            let (report, recorded) = simulate(&request, &platform).map_err(|error| refused(rule, error))?;
            reports.push(report);
            trace = trace.or(Some(recorded));
        }
        compare(&mut reports[first..]);
    }
    let text = |colours| {
        let table = text::of_simulations(&reports, colours);
        let m = m.map_or(String::new(), |m| format!(", m = {m}"));
        format!(
            "{table}{} on {} device(s), {}, n = {n}{m}, {} tasks; predictions, no task ran\n",
            platform.name,
            platform.device_count(),
            args.sched,
            reports[0].tasks
        )
    };
    let title = format!("{} on {}", args.rules[0], platform.name);
    outputs.write(&title, trace.as_ref(), &reports, || page_of(&title, &reports), text)
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
