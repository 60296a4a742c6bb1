//! Chapter 5: searches of pulse shapes on a simulated crystal.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zellige_measure::searches::{self, Row, Sample};
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::{CHANNELS, ChannelSet, Segment};
use zellige_psa::detector::{self, Detector};
use zellige_psa::electronics::Electronics;
use zellige_psa::events::{self, Energies, Events, Spec};
use zellige_psa::params::{EXAMPLE, parse_crystal};
use zellige_psa::search::{Event, Method, Plan, Precision, Prepared, Rules, SegmentEvents};
use zellige_psa::simulate::{basis, lattice};
use zellige_psa::trust::Searches;
use zellige_stochastic::TrustOptions;

use super::super::Context;
use super::super::found::Found;

/// Noise of a sample (keV rms).
const NOISE: f64 = 2.5;
/// Number of events of the thesis.
const EVENTS: f64 = 5342.0;
/// Number of times that a search is measured.
const REPEATS: usize = 5;
/// Edges of the classes of distances (mm).
const DISTANCES: [f64; 7] = [0.5, 3.0, 5.0, 10.0, 20.0, 40.0, f64::INFINITY];
/// Edges of the classes of energies (keV).
const ENERGIES: [f64; 5] = [50.0, 200.0, 1000.0, 5000.0, f64::INFINITY];

/// Crystal, events and searches, computed by the first item that needs them.
#[derive(Default)]
pub struct SharedSearches {
    data: OnceCell<Data>,
    runs: OnceCell<Searched>,
}

/// A simulated crystal with its events.
struct Data {
    basis: Basis,
    samples: Vec<Sample>,
}

/// The searches of `zellige psa benchmark`.
struct Searched {
    runs: Vec<searches::Run>,
    rows: Vec<Row>,
    names: Vec<&'static str>,
}

fn data<'c>(context: &'c Context<'_>) -> anyhow::Result<&'c Data> {
    let shared = &context.searches.data;
    if shared.get().is_none() {
        let (step, count) = if context.full { (2.0, 5342) } else { (4.0, 300) };
        let crystal = parse_crystal("zellige psa crystal".as_ref(), EXAMPLE)?;
        let rt = context.runtime;
        let fields = detector::fields(rt, &crystal, if context.full { 1.0 } else { 3.0 }, context.observer)?;
        let detector = Arc::new(Detector::new(&crystal, Arc::new(fields), Electronics::default(), 1.0)?);
        let sampling: Sampling = Spec::default().sampling;
        let basis = basis(rt, &detector, &lattice(&crystal, step)?, sampling, context.observer)?;
        let spec = Spec {
            count,
            seed: 1,
            energies: Energies::LogUniform { from: 15.0, to: 5000.0 },
            noise: NOISE,
            sampling,
            ..Spec::default()
        };
        let events = events::simulate(rt, &detector, &spec, context.observer)?;
        let _ = shared.set(Data { basis, samples: vec![Sample { noise: NOISE, seed: 1, events }] });
    }
    shared.get().ok_or_else(|| anyhow::anyhow!("the crystal was simulated"))
}

fn searched<'c>(context: &'c Context<'_>) -> anyhow::Result<&'c Searched> {
    let Data { basis, samples } = data(context)?;
    let shared = &context.searches.runs;
    if shared.get().is_none() {
        let variants = searches::variants();
        let channels = [ChannelSet::HitCore, ChannelSet::Neighbours];
        let runs = searches::survey(context.runtime, basis, samples, &variants, &channels, context.observer)?;
        let rows = searches::rows(&runs, samples, &variants);
        let names = variants.iter().map(|variant| variant.name).collect();
        let _ = shared.set(Searched { runs, rows, names });
    }
    shared.get().ok_or_else(|| anyhow::anyhow!("the searches ran"))
}

impl Searched {
    /// Returns the row of a search with these channels.
    fn row(&self, name: &str, channels: ChannelSet) -> anyhow::Result<&Row> {
        let channels = channels.to_string();
        let found = self.rows.iter().find(|row| row.name == name && row.channels == channels);
        found.ok_or_else(|| anyhow::anyhow!("there is no search {name} with {channels}"))
    }

    /// Returns the run of a search with hit segment and core.
    fn run(&self, name: &str) -> anyhow::Result<&searches::Run> {
        let is_of = |run: &&searches::Run| {
            run.channels == ChannelSet::HitCore && run.variant.map(|at| self.names[at]) == Some(name)
        };
        self.runs.iter().find(is_of).ok_or_else(|| anyhow::anyhow!("there is no search {name}"))
    }
}

const BASIS: &str = "zellige psa simulate --grid 3 --step 4 -o basis";
const BENCHMARK: &str = "zellige psa benchmark --basis basis -n 300 --energy 15:5000";

fn commands(found: &mut Found) {
    found.command(BASIS);
    found.command(BENCHMARK);
}

/// Counts the points that random rounding and FP64 change.
pub fn stochastic(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let Data { basis, samples } = data(context)?;
    let count = if context.full { 5342 } else { 60 };
    let events = hits(&samples[0].events, ChannelSet::HitCore).take(count);
    let sampling = basis.sampling();
    let window = Rules::DEFAULT.window.min(sampling.samples);
    let rules = Rules { channels: ChannelSet::HitCore, window, ..Rules::DEFAULT };
    let judged = Searches::of_crystal(basis, rules, events)?;
    let (rt, plan) = (context.runtime, searches::REFERENCE);
    let double = Plan { precision: Precision::Fp64, ..plan };
    let begin = Instant::now();
    let reference = judged.plain(rt, &plan)?;
    let plain = begin.elapsed().as_secs_f64();
    let options = TrustOptions { samples: 3, seed: 1 };
    let mut changed = Vec::new();
    let mut add = |name: &str, points: Vec<usize>| {
        let other =
            points.iter().zip(&reference).filter(|(point, reference)| **point != reference.index).count();
        let percent = 100.0 * other as f64 / points.len().max(1) as f64;
        changed.push(percent);
        found.value(name, "% of other points", percent);
    };
    add("FP64", judged.plain(rt, &double)?.iter().map(|one| one.index).collect());
    let begin = Instant::now();
    let (single, instabilities) = judged.stochastic(rt, &plan, &options)?;
    let random = begin.elapsed().as_secs_f64();
    add("stochastic FP32", single.iter().map(|one| one.index).collect());
    let (wide, _) = judged.stochastic(rt, &double, &options)?;
    add("stochastic FP64", wide.iter().map(|one| one.index).collect());
    let digits = single.iter().map(|one| f64::from(one.fom_digits)).sum::<f64>() / single.len().max(1) as f64;
    found.value("stochastic FP32", "exact digits of the best figure of merit, mean", digits);
    let undecided = single.iter().filter(|one| one.gap_digits == 0).count();
    found.value("stochastic FP32", "searches that rounding decides", undecided as f64);
    found.value("stochastic FP32", "time beside plain FP32", random / plain.max(1e-9));
    let most = changed.into_iter().fold(0.0, f64::max);
    found.judge(
        "stochastic FP32, stochastic FP64 and FP64 change 0.02 % of the points",
        most <= 100.0 / single.len().max(1) as f64,
        format!("{most:.2} % of {} events: one event counts as the same", single.len()),
    );
    found.leave(
        "stochastic arithmetic takes 4 times the memory and 10 times the time",
        format!(
            "CADNA's figures; here {:.0} times the time, {} of instabilities",
            random / plain.max(1e-9),
            if instabilities.is_empty() { "none" } else { "some" }
        ),
    );
    found.command(BASIS);
    found.command("zellige trust psa run --basis basis --events events --method fgs --samples 3");
    Ok(found)
}

/// Returns the events as searches take them.
fn hits(events: &Events, channels: ChannelSet) -> impl Iterator<Item = Event> {
    let samples = events.sampling.samples;
    events.signals.chunks_exact(CHANNELS * samples).enumerate().map(move |(number, signals)| {
        let segment = events.segments[number];
        let compared = channels.of(segment);
        let values =
            compared.iter().flat_map(|c| &signals[c.index() * samples..][..samples]).copied().collect();
        let hit = Some((segment, events.energies[number]));
        Event { timestamp: events.timestamps[number], hit, signals: values, saturated: Vec::new() }
    })
}

/// Counts equal points of Table 5.1.
pub fn same_points(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let searched = searched(context)?;
    let columns = [("FP32", "cfgs fp32"), ("FP16", "cfgs fp16"), ("MIXED", "cfgs mixed")];
    found.value("FGS", "FP32", 100.0);
    found.value("FGS", "FP16", searched.row("fgs fp16", ChannelSet::Neighbours)?.same.mean);
    let mut coarse = Vec::new();
    for (column, name) in columns {
        let share = searched.row(name, ChannelSet::Neighbours)?.same.mean;
        found.value("CFGS", column, share);
        coarse.push(share);
    }
    let full = searched.row("fgs fp16", ChannelSet::Neighbours)?.same.mean;
    found.judge(
        "FP16 changes no point of the full search",
        full >= 99.9,
        format!("{full:.1} % here, and 87 % on the thesis' own GPU: 100 % do not fit its 85.96 % of CFGS-FP16, nearly all lost in the fine stage"),
    );
    found.judge(
        "the mixed search finds as many points as that in FP32, FP16 fewer",
        (coarse[2] - coarse[0]).abs() <= 1.0 && coarse[1] <= coarse[0],
        format!("{:.1}, {:.1} and {:.1} % (FP32, mixed, FP16)", coarse[0], coarse[2], coarse[1]),
    );
    commands(&mut found);
    Ok(found)
}

const SHOWN: [&str; 4] = ["fgs fp16", "cfgs fp32", "cfgs fp16", "cfgs mixed"];

/// Classes of distances of the points that differ.
pub fn distances(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let searched = searched(context)?;
    let mut least = 1.0f64;
    for name in SHOWN {
        let apart: Vec<f64> = searched
            .run(name)?
            .outcomes
            .iter()
            .filter(|one| !one.is_same)
            .map(|one| one.from_reference)
            .collect();
        let counts = classes(&apart, &DISTANCES);
        for (edge, count) in DISTANCES.iter().zip(&counts) {
            found.value(name, format!("below {edge} mm"), *count as f64);
        }
        found.curve(
            name,
            DISTANCES
                .iter()
                .zip(&counts)
                .filter(|(edge, _)| edge.is_finite())
                .map(|(&edge, &count)| (edge, count as f64)),
        );
        let near = apart.iter().filter(|apart| **apart < 3.0).count();
        least = least.min(near as f64 / apart.len().max(1) as f64);
    }
    let statement = "most points that differ are less than 3 mm away";
    if context.full {
        let reason = format!("at least {:.0} % of them are", 100.0 * least);
        found.judge(statement, least > 0.5, reason);
    } else {
        found.leave(statement, "points of this grid are 4 mm apart: --full has one of 2 mm");
    }
    commands(&mut found);
    Ok(found)
}

/// Counts numbers by class; each class ends at its edge.
fn classes(numbers: &[f64], edges: &[f64]) -> Vec<usize> {
    let mut counts = vec![0; edges.len()];
    for number in numbers {
        if let Some(at) = edges.iter().position(|edge| number <= edge) {
            counts[at] += 1;
        }
    }
    counts
}

/// Classes of energies of the points that differ.
pub fn energies(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let searched = searched(context)?;
    let all: Vec<f64> = searched.run("cfgs fp32")?.outcomes.iter().map(|one| one.energy).collect();
    let mut shares = Vec::new();
    for name in ["all events"].into_iter().chain(SHOWN) {
        let own: Vec<f64> = match name {
            "all events" => all.clone(),
            _ => {
                searched.run(name)?.outcomes.iter().filter(|one| !one.is_same).map(|one| one.energy).collect()
            }
        };
        let counts = classes(&own, &ENERGIES);
        for (edge, count) in ENERGIES.iter().zip(&counts).filter(|(edge, _)| edge.is_finite()) {
            found.value(name, format!("below {edge} keV"), *count as f64);
        }
        shares.push(counts[1] as f64 / own.len().max(1) as f64);
    }
    found.judge(
        "energies of the points that differ are the same for CFGS in FP32 and mixed",
        (shares[2] - shares[4]).abs() <= 0.1,
        format!("{:.0} and {:.0} % from 50 to 200 keV", 100.0 * shares[2], 100.0 * shares[4]),
    );
    commands(&mut found);
    Ok(found)
}

const COLUMNS: [(&str, &str); 4] = [
    ("FGS-NOLUT", "fgs fp32"),
    ("FGS-LUT", "fgs lut whole"),
    ("CFGS-NOLUT", "cfgs fp32"),
    ("CFGS-LUT", "cfgs lut whole"),
];

/// Times of Table 5.2.
pub fn times(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let searched = searched(context)?;
    let mut all = Vec::new();
    for (row, name) in COLUMNS {
        let time = searched.row(name, ChannelSet::HitCore)?.microseconds;
        found.value(row, "us per event", time);
        all.push(time);
    }
    found.judge(
        "CFGS takes a sixth of the time of FGS",
        all[2] < 0.5 * all[0],
        format!(
            "{:.2} of it: the full search is vectorised here, which leaves the coarse one less to gain",
            all[2] / all[0]
        ),
    );
    found.judge(
        "the table of powers makes FGS six times faster",
        all[1] < 0.5 * all[0],
        format!("{:.1} times its time: powers are computed in vectors here, and the table is made for each segment", all[1] / all[0]),
    );
    commands(&mut found);
    Ok(found)
}

/// Energies and signals of the events of each segment, in neighbouring channels.
fn by_segment(data: &Data, window: usize) -> BTreeMap<usize, (Segment, Vec<f64>, Vec<f32>)> {
    let mut segments = BTreeMap::new();
    for event in hits(&data.samples[0].events, ChannelSet::Neighbours) {
        let Some((segment, energy)) = event.hit else { continue };
        let (_, energies, signals) =
            segments.entry(segment.index()).or_insert((segment, Vec::new(), Vec::new()));
        energies.push(energy);
        let each = event.signals.chunks_exact(data.basis.sampling().samples);
        signals.extend(each.flat_map(|signal| &signal[..window]).copied());
    }
    segments
}

/// Returns the least time of several calls.
fn least_time<T>(mut call: impl FnMut() -> Result<T, zellige_psa::Error>) -> anyhow::Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..REPEATS {
        let begin = Instant::now();
        call()?;
        least = least.min(begin.elapsed());
    }
    Ok(least)
}

/// Measures the shares of the stages of a full search.
pub fn profile(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let data = data(context)?;
    let (channels, window) =
        (ChannelSet::Neighbours, Rules::DEFAULT.window.min(data.basis.sampling().samples));
    let [mut signals_of_basis, mut signals_of_events, mut comparisons] = [Duration::ZERO; 3];
    for (segment, energies, signals) in by_segment(data, window).into_values() {
        let of_segment = || data.basis.of_segment(segment, channels, window);
        signals_of_basis += least_time(|| Prepared::new(&searches::REFERENCE, &of_segment()?))?;
        let events = || SegmentEvents::new(channels.of(segment).len(), window, &energies, &signals);
        signals_of_events += least_time(events)?;
        let (prepared, events) = (Prepared::new(&searches::REFERENCE, &of_segment()?)?, events()?);
        let only_coarse = vec![false; events.len()];
        comparisons += least_time(|| prepared.search(&events, &only_coarse))?;
    }
    // The basis is prepared once for all events.
    let more = EVENTS / data.samples[0].events.energies.len() as f64;
    let [signals_of_events, comparisons] = [signals_of_events, comparisons].map(|part| part.mul_f64(more));
    let whole = (signals_of_basis + signals_of_events + comparisons).as_secs_f64();
    let share = |part: Duration| 100.0 * part.as_secs_f64() / whole;
    found.value("comparison of signals", "% of the time", share(comparisons));
    found.value("signals of the basis", "% of the time", share(signals_of_basis));
    found.value("signals of events", "% of the time", share(signals_of_events));
    found.judge(
        "the loop over samples takes most of the cycles",
        share(comparisons) > 50.0,
        format!(
            "{:.0} % of the time of one thread for {EVENTS} events; 69 % of the cycles in the thesis",
            share(comparisons)
        ),
    );
    found.leave(
        "it makes 80 % of the references to the cache and 73 % of its misses",
        "counters of the processor are not read here",
    );
    found.command(BASIS);
    found.command("zellige psa run --basis basis --events events --method fgs --trace run.json");
    Ok(found)
}

/// Measures how much of the time of coarse and fine searches the coarse points take.
pub fn coarse_share(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let data = data(context)?;
    let (channels, window) =
        (ChannelSet::Neighbours, Rules::DEFAULT.window.min(data.basis.sampling().samples));
    let plan = Plan { method: Method::CoarseFine { cells: 1 }, ..searches::REFERENCE };
    let (mut coarse, mut both) = (Duration::ZERO, Duration::ZERO);
    for (segment, energies, signals) in by_segment(data, window).into_values() {
        let prepared = Prepared::new(&plan, &data.basis.of_segment(segment, channels, window)?)?;
        let events = SegmentEvents::new(channels.of(segment).len(), window, &energies, &signals)?;
        for (only, time) in [(true, &mut coarse), (false, &mut both)] {
            let only = vec![only; events.len()];
            *time += least_time(|| prepared.search(&events, &only))?;
        }
    }
    let share = 100.0 * coarse.as_secs_f64() / both.as_secs_f64();
    found.value("coarse stage", "% of the time", share);
    found.judge_full(
        context.full,
        "the coarse stage takes about 20 % of the time",
        (10.0..=30.0).contains(&share),
        format!("{share:.0} %"),
        "with a basis of 2 mm, which has eight times as many fine points around each coarse one",
    );
    found.command(BASIS);
    Ok(found)
}

/// Points within 5 mm, of Table 5.3 and of the text beside it.
pub fn near_points(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let searched = searched(context)?;
    let mut near = Vec::new();
    let rows = COLUMNS.into_iter().chain([("FGS-NOLUT FP16", "fgs fp16")]);
    for (row, name) in rows {
        let one = searched.row(name, ChannelSet::HitCore)?;
        found.value(row, "within 5 mm", one.near.mean);
        found.value(row, "same", one.same.mean);
        found.value(row, "beyond 20 mm", one.far.mean);
        near.push(one.near.mean);
    }
    let ordered = near[0] >= near[4] && near[4] >= near[1] && near[1] >= near[2] && near[2] >= near[3];
    found.judge(
        "FP16 loses least, then the table, then the coarse search, then both",
        ordered,
        format!("{:.0}, {:.0}, {:.0} and {:.0} % within 5 mm", near[4], near[1], near[2], near[3]),
    );
    commands(&mut found);
    Ok(found)
}
