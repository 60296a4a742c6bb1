//! Comparison of many searches of the same events with the full one: the tables of the thesis cited
//! in `docs/explanation/psa-search.md`, on the user's own basis.

pub mod report;

use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_files::observe::Observer;
use zellige_psa::Error;
use zellige_psa::basis::Basis;
use zellige_psa::channels::{CHANNELS, ChannelSet};
use zellige_psa::events::Events;
use zellige_psa::pipeline::compare::{Distance, FAR, NEAR, Outcome, distance};
use zellige_psa::search::{Answer, Batching, Event, Flow, Method, Plan, Precision, Rules, Screen, Table};
use zellige_runtime::Runtime;

/// Pending events at most.
const MOST_PENDING: usize = 4096;

/// Published figures of a search (%): the same point, within 5 mm, beyond 20 mm.
pub type Published = [Option<f64>; 3];

/// A search to be compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// Name of the search.
    pub name: &'static str,
    /// Plan of the search.
    pub plan: Plan,
    /// Published figures with hit segment and core.
    pub hit_core: Published,
    /// Published figures for which neither events nor channels are named (Table 5.1); the
    /// prototype's figures with the neighbours are near them.
    pub neighbours: Published,
}

/// The search that the others are compared with: every point, in `f32`.
pub const REFERENCE: Plan = Plan { method: Method::Full, ..Plan::DEFAULT };

/// The searches of the thesis' Tables 5.1 to 5.3 and those that go further.
pub fn variants() -> Vec<Variant> {
    const NONE: Published = [None; 3];
    let full = REFERENCE;
    let cells = |cells| Plan { method: Method::CoarseFine { cells }, ..full };
    let screen = |by, keep| Plan { method: Method::Screen { by, keep }, ..full };
    let of = |name, plan| Variant { name, plan, hit_core: NONE, neighbours: NONE };
    let same = |percent| [Some(percent), None, None];
    vec![
        Variant {
            hit_core: [Some(87.0), Some(94.0), Some(1.0)],
            neighbours: same(100.0),
            ..of("fgs fp16", Plan { precision: Precision::Fp16, ..full })
        },
        of("fgs int16", Plan { precision: Precision::Int16, ..full }),
        of("fgs bf16", Plan { precision: Precision::Bf16, ..full }),
        Variant {
            hit_core: [Some(76.0), Some(90.0), Some(2.0)],
            ..of("fgs lut whole", Plan { table: Table::Whole, ..full })
        },
        of("fgs lut log", Plan { table: Table::Log, ..full }),
        of("fgs p=0.25", Plan { p: 0.25, ..full }),
        of("fgs p=0.5", Plan { p: 0.5, ..full }),
        of("fgs p=1", Plan { p: 1.0, ..full }),
        of("fgs p=2", Plan { p: 2.0, ..full }),
        Variant {
            hit_core: [Some(68.0), Some(72.0), Some(8.0)],
            neighbours: same(91.78),
            ..of("cfgs fp32", cells(1))
        },
        Variant {
            neighbours: same(85.96),
            ..of("cfgs fp16", Plan { precision: Precision::Fp16, ..cells(1) })
        },
        Variant {
            neighbours: same(91.45),
            ..of("cfgs mixed", Plan { precision: Precision::Mixed, ..cells(1) })
        },
        Variant {
            hit_core: [Some(54.0), Some(68.0), Some(8.0)],
            ..of("cfgs lut whole", Plan { table: Table::Whole, ..cells(1) })
        },
        of("cfgs fp32, 8 cells", cells(8)),
        of("screen quarter, 8", screen(Screen::Quarter, 8)),
        of("screen bits, 8", screen(Screen::Bits, 8)),
        of("screen linear, 64", screen(Screen::Linear, 64)),
        of("screen square, 128", screen(Screen::Square, 128)),
        of("screen product, 128", screen(Screen::Product, 128)),
        of("exact", Plan { method: Method::Exact { cap: 1000 }, ..full }),
    ]
}

/// Events of one hit each, with the parameters of their generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Noise of a sample (keV rms).
    pub noise: f64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The events.
    pub events: Events,
}

/// A sample in a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The search; none: the reference.
    pub variant: Option<usize>,
    /// The channels that were compared.
    pub channels: ChannelSet,
    /// Index of the sample.
    pub sample: usize,
    /// Wall time of an event with all workers (us).
    pub microseconds: f64,
    /// Outcomes of the events.
    pub outcomes: Vec<Outcome>,
}

/// Searches all samples with all variants, the reference first.
///
/// # Errors
/// [`Error::Parameter`] for a basis without some segment of an event, or with signals shorter than
/// the window; [`Error::Shape`] for events of several hits; the runtime's.
pub fn survey(
    rt: &Runtime,
    basis: &Basis,
    samples: &[Sample],
    variants: &[Variant],
    channels: &[ChannelSet],
    observer: &dyn Observer,
) -> Result<Vec<Run>, Error> {
    if let Some(sample) = samples.iter().find(|sample| sample.events.hits != 1) {
        let problem = format!("{} hits each, one is needed", sample.events.hits);
        return Err(Error::Shape { what: "events", problem });
    }
    let mut runs = Vec::new();
    for &channels in channels {
        let reference = search_all(rt, basis, samples, &REFERENCE, channels)?;
        let all = [None].into_iter().chain((0..variants.len()).map(Some));
        for variant in all {
            let name = variant.map_or("fgs fp32", |variant| variants[variant].name);
            observer.stage(&format!("{channels}: {name}"), samples.len() as u64);
            let found = match variant {
                None => reference.clone(),
                Some(variant) => search_all(rt, basis, samples, &variants[variant].plan, channels)?,
            };
            for (sample, (points, microseconds)) in found.into_iter().enumerate() {
                let outcomes = outcomes(basis, &samples[sample].events, &points, &reference[sample].0);
                runs.push(Run { variant, channels, sample, microseconds, outcomes });
                observer.advance(sample as u64 + 1);
            }
        }
    }
    Ok(runs)
}

/// The best point of each event, and the time of an event (us), by sample.
type Found = (Vec<usize>, f64);

fn search_all(
    rt: &Runtime,
    basis: &Basis,
    samples: &[Sample],
    plan: &Plan,
    channels: ChannelSet,
) -> Result<Vec<Found>, Error> {
    let rules =
        Rules { channels, window: Rules::DEFAULT.window.min(basis.sampling().samples), ..Rules::DEFAULT };
    let mut flow = Flow::new(rt, plan, Batching::default(), basis, rules)?;
    samples.iter().map(|sample| search(&mut flow, &sample.events, channels)).collect()
}

/// Searches each event with its true energy and segment.
fn search(flow: &mut Flow<'_, '_>, events: &Events, channels: ChannelSet) -> Result<Found, Error> {
    let (begin, mut answers) = (Instant::now(), Vec::with_capacity(events.count()));
    let samples = events.sampling.samples;
    for (number, signals) in events.signals.chunks_exact(CHANNELS * samples).enumerate() {
        let segment = events.segments[number];
        let compared = channels.of(segment);
        let signals =
            compared.iter().flat_map(|c| &signals[c.index() * samples..][..samples]).copied().collect();
        let hit = Some((segment, events.energies[number]));
        let timestamp = events.timestamps[number];
        flow.push(Event { timestamp, hit, signals, saturated: Vec::new() }, begin)?;
        if flow.on_the_way() >= MOST_PENDING {
            flow.wait(begin, &mut answers)?;
        }
    }
    flow.finish(begin, &mut answers)?;
    let microseconds = 1e6 * begin.elapsed().as_secs_f64() / events.count().max(1) as f64;
    let point = |answer: &Answer| answer.places[0].found.index;
    Ok((answers.iter().map(point).collect(), microseconds))
}

fn outcomes(basis: &Basis, events: &Events, points: &[usize], reference: &[usize]) -> Vec<Outcome> {
    let at = basis.positions();
    let outcome = |(event, (&point, &other)): (usize, (&usize, &usize))| Outcome {
        energy: events.energies[event],
        is_same: point == other,
        from_reference: distance(&at[point], &at[other]),
        from_truth: Some([point, other].map(|point| distance(&at[point], &events.positions[event]))),
    };
    points.iter().zip(reference).enumerate().map(outcome).collect()
}

/// A figure of several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Range {
    /// The mean.
    pub mean: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Range {
    fn of(values: &[f64]) -> Range {
        Range {
            mean: values.iter().sum::<f64>() / values.len().max(1) as f64,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// A line of the tables: a search with some channels, at a noise, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The search.
    pub name: &'static str,
    /// Hit segment and core, or more.
    pub channels: String,
    /// Noise of a sample (keV rms).
    pub noise: f64,
    /// Events of all seeds.
    pub events: usize,
    /// Share with the reference's point (%).
    pub same: Range,
    /// Share within 5 mm of it (%).
    pub near: Range,
    /// Share beyond 20 mm of it (%).
    pub far: Range,
    /// Published figures: same, near, far (%).
    pub published: Published,
    /// Distance from the truth.
    pub truth: Distance,
    /// Wall time of an event (us), the mean of the seeds.
    pub microseconds: f64,
}

/// The tables of a survey, in its order; noises as they come.
pub fn rows(runs: &[Run], samples: &[Sample], variants: &[Variant]) -> Vec<Row> {
    let mut rows: Vec<(Option<usize>, Row)> = Vec::new();
    for run in runs {
        let (noise, channels) = (samples[run.sample].noise, run.channels.to_string());
        if rows.iter().any(|(v, row)| *v == run.variant && row.noise == noise && row.channels == channels) {
            continue;
        }
        let alike = |other: &&Run| {
            (other.variant, other.channels) == (run.variant, run.channels)
                && samples[other.sample].noise == noise
        };
        let seeds: Vec<&Run> = runs.iter().filter(alike).collect();
        let range = |keep: &dyn Fn(&Outcome) -> bool| {
            let share = |run: &&Run| {
                100.0 * run.outcomes.iter().filter(|o| keep(o)).count() as f64
                    / run.outcomes.len().max(1) as f64
            };
            Range::of(&seeds.iter().map(share).collect::<Vec<_>>())
        };
        let all = || seeds.iter().flat_map(|run| &run.outcomes);
        let published = run.variant.map_or([None; 3], |variant| match run.channels {
            ChannelSet::HitCore => variants[variant].hit_core,
            _ => variants[variant].neighbours,
        });
        let row = Row {
            name: run.variant.map_or("fgs fp32", |variant| variants[variant].name),
            channels,
            noise,
            events: all().count(),
            same: range(&|o| o.is_same),
            near: range(&|o| o.from_reference <= NEAR),
            far: range(&|o| o.from_reference > FAR),
            published,
            truth: Distance::of(all().filter_map(Outcome::away).collect()),
            microseconds: seeds.iter().map(|run| run.microseconds).sum::<f64>() / seeds.len() as f64,
        };
        rows.push((run.variant, row));
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(variant: Option<usize>, sample: usize, away: &[f64]) -> Run {
        let outcome = |&away: &f64| Outcome {
            energy: 100.0,
            is_same: away == 0.0,
            from_reference: away,
            from_truth: Some([away + 1.0, 0.0]),
        };
        let outcomes = away.iter().map(outcome).collect();
        Run { variant, channels: ChannelSet::HitCore, sample, microseconds: 2.0 + sample as f64, outcomes }
    }

    #[test]
    fn rows_are_over_seeds() {
        let events = Events {
            sampling: zellige_psa::basis::Sampling { samples: 1, step: 1.0, before: 0 },
            hits: 1,
            signals: Vec::new(),
            energies: Vec::new(),
            positions: Vec::new(),
            segments: Vec::new(),
            timestamps: Vec::new(),
        };
        let sample = |noise, seed| Sample { noise, seed, events: events.clone() };
        let samples = [sample(1.0, 1), sample(1.0, 2), sample(5.0, 1)];
        let runs = [
            run(Some(0), 0, &[0.0, 3.0, 6.0, 30.0]),
            run(Some(0), 1, &[0.0, 0.0, 0.0, 5.0]),
            run(Some(0), 2, &[40.0]),
        ];
        let rows = rows(&runs, &samples, &variants());
        assert_eq!(rows.len(), 2);
        let first = &rows[0];
        assert_eq!((first.name, first.events, first.microseconds), ("fgs fp16", 8, 2.5));
        assert_eq!(first.same, Range { mean: 50.0, least: 25.0, most: 75.0 });
        assert_eq!(first.near, Range { mean: 75.0, least: 50.0, most: 100.0 });
        assert_eq!(first.far, Range { mean: 12.5, least: 0.0, most: 25.0 });
        assert_eq!(first.published, [Some(87.0), Some(94.0), Some(1.0)]);
        assert_eq!((rows[1].noise, rows[1].far.mean, rows[1].truth.median), (5.0, 100.0, 41.0));
    }

    #[test]
    fn every_search_can_be_done() {
        for variant in variants() {
            variant.plan.check().unwrap_or_else(|e| panic!("{}: {e}", variant.name));
        }
    }
}
