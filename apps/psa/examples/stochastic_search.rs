//! Share of points that change with the arithmetic of a full search, as the thesis measured it with
//! CADNA: `cargo run --release -p zellige-psa --example stochastic_search -- [events] [samples]
//! [hit-core|neighbours] [mm between points]`.
//!
//! A crystal is simulated, and events of one hit in it; each event is searched in plain and in
//! stochastic arithmetic of 32 and 64 bits.

use std::path::Path;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use zellige_psa::channels::{CHANNELS, Channel, ChannelSet};
use zellige_psa::detector::{self, Detector};
use zellige_psa::electronics::Electronics;
use zellige_psa::events::{self, Spec};
use zellige_psa::observe::Silent;
use zellige_psa::params::{EXAMPLE, parse_crystal};
use zellige_psa::search::{Event, Method, Plan, Precision, Rules, StochasticMatch};
use zellige_psa::simulate::{basis, lattice};
use zellige_psa::trust::Searches;
use zellige_runtime::Runtime;
use zellige_stochastic::TrustOptions;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Distance of the nodes of the fields (mm), and the seed of the random rounding.
const GRID: f64 = 2.0;
const SEED: u64 = 1;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, default: &'static str| args.get(at).map_or(default, String::as_str).to_owned();
    let options = TrustOptions { samples: word(1, "8").parse()?, seed: SEED };
    let channels = match word(2, "hit-core").as_str() {
        "neighbours" => ChannelSet::Neighbours,
        _ => ChannelSet::HitCore,
    };
    let rt = Runtime::new()?;
    let searches = simulated(&rt, word(0, "500").parse()?, channels, word(3, "2").parse()?)?;
    let hits = searches.hits().count();
    let full = |precision| Plan { method: Method::Full, precision, ..Plan::default() };
    println!("\n{hits} events, {channels}, {} samples of each number", options.samples);
    println!("{:22} {:>12} {:>10} {:>12}", "search", "CPU ms/event", "x fp32", "peak MB");
    let mut found: Vec<(String, Vec<usize>)> = Vec::new();
    let mut digits = Vec::new();
    let mut single = None;
    for precision in [Precision::Fp32, Precision::Fp64] {
        for is_stochastic in [false, true] {
            let begin = cpu_seconds();
            let points = if is_stochastic {
                let (matches, report) = searches.stochastic(&rt, &full(precision), &options)?;
                let points = matches.iter().map(|found| found.index).collect();
                digits.push((precision, matches, report));
                points
            } else {
                searches.plain(&rt, &full(precision))?.iter().map(|found| found.index).collect()
            };
            let name = if is_stochastic { format!("stochastic {precision}") } else { precision.to_string() };
            let each = 1e3 * (cpu_seconds() - begin) / hits as f64;
            let ratio = each / *single.get_or_insert(each);
            println!("{name:22} {each:12.3} {ratio:10.1} {:12.0}", peak_megabytes());
            found.push((name, points));
        }
    }
    println!("\nevents with another point, and their share:");
    for (at, (name, points)) in found.iter().enumerate() {
        for (other, others) in &found[at + 1..] {
            let differ = points.iter().zip(others).filter(|(a, b)| a != b).count();
            println!("{name:>16} | {other:16} {differ:6} {:8.3} %", 100.0 * differ as f64 / hits as f64);
        }
    }
    for (precision, matches, report) in &digits {
        let histogram = |digit: fn(&StochasticMatch) -> u8| {
            let mut counts = [0; 16];
            matches.iter().for_each(|found| counts[usize::from(digit(found))] += 1);
            counts
        };
        println!("\nstochastic {precision}: hits by exact digits, from 0 to 15");
        println!("best figure of merit {:?}", histogram(|found| found.fom_digits));
        println!("gap to the second    {:?}", histogram(|found| found.gap_digits));
        print!("{report}");
    }
    Ok(())
}

/// Returns the hits of simulated events, with their true segments and energies.
fn simulated(rt: &Runtime, count: usize, channels: ChannelSet, step: f64) -> Outcome<Searches> {
    let crystal = parse_crystal(Path::new("example"), EXAMPLE)?;
    let fields = Arc::new(detector::fields(rt, &crystal, GRID, &Silent)?);
    let detector = Arc::new(Detector::new(&crystal, fields, Electronics::default(), 1.0)?);
    let spec = Spec { count, ..Spec::default() };
    let basis = basis(rt, &detector, &lattice(&crystal, step)?, spec.sampling, &Silent)?;
    println!("{} points", basis.positions().len());
    let events = events::simulate(rt, &detector, &spec, &Silent)?;
    let samples = spec.sampling.samples;
    let numbered = events.signals.chunks_exact(CHANNELS * samples).enumerate();
    let event = |(number, signals): (usize, &[f32])| {
        let (segment, energy) = (events.segments[number], events.energies[number]);
        let of = |channel: &Channel| &signals[channel.index() * samples..][..samples];
        let signals = channels.of(segment).iter().flat_map(of).copied().collect();
        let timestamp = events.timestamps[number];
        Event { timestamp, hit: Some((segment, energy)), signals, saturated: Vec::new() }
    };
    let rules = Rules { channels, ..Rules::default() };
    Ok(Searches::of_crystal(&basis, rules, numbered.map(event))?)
}

/// Returns the CPU time of all threads so far.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// Returns the largest resident memory so far, 0 where the system does not say it.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1e3
}
