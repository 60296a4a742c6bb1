//! Comparison of two runs with each other and with the truth: the columns of the tables of chapter
//! 5 of the thesis behind `docs/explanation/psa-search.md`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Error;
use crate::channels::Segment;
use crate::events::Events;
use crate::pipeline::results::{EventResult, Results};
use crate::search::EnergyClass;

/// Distance up to which two answers agree (mm).
pub const NEAR: f64 = 5.0;
/// Distance beyond which two answers are far from each other (mm).
pub const FAR: f64 = 20.0;

/// Largest relative difference of the energies of a hit between two runs: options may correct
/// energies.
const SAME_ENERGY: f64 = 0.05;

/// Comparison of the hits of an energy class, or of all hits: a row of the results of `zellige psa
/// compare`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Agreement {
    /// Energy class; `all` for all hits.
    pub class: &'static str,
    /// Number of hits that both runs have.
    pub hits: usize,
    /// Number of hits that only the first run has.
    pub only_in_first: usize,
    /// Hits with the same point in both runs (%).
    pub same_percent: f64,
    /// Hits with points within 5 mm of each other (%).
    pub within_5_mm_percent: f64,
    /// Hits with points more than 20 mm from each other (%).
    pub beyond_20_mm_percent: f64,
    /// Distances from the truth of each run, if the truth is known.
    pub to_truth_mm: Option<[Distance; 2]>,
}

/// True positions of the hits.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth(Vec<Vec<(Option<Segment>, [f32; 3])>>);

impl Truth {
    /// Creates the truth of events of one hit each, at these positions (mm).
    pub fn of_places(places: &[[f32; 3]]) -> Truth {
        Truth(places.iter().map(|&place| vec![(None, place)]).collect())
    }

    /// Creates the truth of simulated events.
    pub fn of_events(events: &Events) -> Truth {
        let of_event = |event: usize| {
            let hits = event * events.hits..(event + 1) * events.hits;
            hits.map(|hit| (Some(events.segments[hit]), events.positions[hit])).collect()
        };
        Truth((0..events.count()).map(of_event).collect())
    }

    /// Returns the true position of a hit (mm), if it is known; the nearest one if the segment has
    /// several.
    pub fn place(&self, hit: &EventResult) -> Option<[f32; 3]> {
        let is_it = |segment: &Option<Segment>| segment.is_none_or(|s| s.index() == hit.segment);
        let places =
            self.0.get(hit.event)?.iter().filter(|(segment, _)| is_it(segment)).map(|&(_, place)| place);
        places.min_by(|a, b| distance(a, &hit.position).total_cmp(&distance(b, &hit.position)))
    }
}

/// Distances from the truth (mm).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Distance {
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
}

/// Returns the distance of two points (mm).
pub fn distance(a: &[f32; 3], b: &[f32; 3]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>().sqrt()
}

/// Outcome of a hit in one run relative to a reference run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Energy of the hit (keV).
    pub energy: f64,
    /// Whether both runs found the same point.
    pub is_same: bool,
    /// Distance of its point from the reference's (mm).
    pub from_reference: f64,
    /// Distances of its point and of the reference's from the true position (mm), if it is known.
    pub from_truth: Option<[f64; 2]>,
}

impl Outcome {
    /// Returns the distance of its point from the true position (mm), if it is known.
    pub fn away(&self) -> Option<f64> {
        self.from_truth.map(|[own, _]| own)
    }
}

/// Key of a hit: the event, the segment, and the ordinal of the hit in that segment.
type Key = (usize, usize, usize);

fn keyed(results: &Results) -> impl Iterator<Item = (Key, &EventResult)> {
    let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    results.events.iter().map(move |hit| {
        let count = counts.entry((hit.event, hit.segment)).or_default();
        *count += 1;
        ((hit.event, hit.segment, *count), hit)
    })
}

/// Comparison of two runs of the same events, hit by hit.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Outcomes of the hits that both runs have; the second run is the reference.
    pub outcomes: Vec<Outcome>,
    /// Energies of the hits that only the first run has (keV).
    pub only_first: Vec<f64>,
    knows_truth: bool,
}

/// Compares two runs of the same events, hit by hit. Hits are matched by event and segment, and in
/// order of energy if a segment has several. Energies are those of `a`. Hits that noise caused in
/// segments without a true hit have no distance from the truth.
///
/// # Errors
/// [`Error::Shape`] if the runs have no hit in common, if most common hits have different energies,
/// or if the truth has fewer events.
pub fn compare(a: &Results, b: &Results, truth: Option<&Truth>) -> Result<Comparison, Error> {
    let of_b: BTreeMap<Key, &EventResult> = keyed(b).collect();
    let pairs = keyed(a).map(|(key, hit)| (hit, of_b.get(&key).copied()));
    let pairs: Vec<(&EventResult, Option<&EventResult>)> = pairs.collect();
    if !pairs.is_empty() && pairs.iter().all(|(_, of_b)| of_b.is_none()) {
        let problem = format!("{}, none of them of an event and a segment of the first run", b.events.len());
        return Err(Error::shape("answers of the second run", problem));
    }
    // Hits of other events may have the same number and segment by chance.
    let both = pairs.iter().filter_map(|(a, b)| Some((a.energy, b.as_ref()?.energy)));
    let (same, common) = both.fold((0, 0), |(same, common), (a, b)| {
        (same + usize::from((a - b).abs() <= SAME_ENERGY * a.abs().max(b.abs())), common + 1)
    });
    if 2 * same < common {
        let problem = format!(
            "{} of the {common} hits that have the event and the segment of one of the first run have a different energy: these are different events",
            common - same
        );
        return Err(Error::shape("answers of the second run", problem));
    }
    let last = a.events.iter().map(|hit| hit.event).max();
    if let Some((truth, event)) = truth.zip(last).filter(|(truth, event)| *event >= truth.0.len()) {
        let problem = format!("{} events; the first run has event {event}", truth.0.len());
        return Err(Error::shape("true places", problem));
    }
    let (mut outcomes, mut only_first) = (Vec::new(), Vec::new());
    for (a, b) in pairs {
        let Some(b) = b else {
            only_first.push(a.energy);
            continue;
        };
        let place = truth.and_then(|truth| truth.place(a));
        outcomes.push(Outcome {
            energy: a.energy,
            is_same: a.index == b.index,
            from_reference: distance(&a.position, &b.position),
            from_truth: place.map(|place| [a, b].map(|hit| distance(&hit.position, &place))),
        });
    }
    Ok(Comparison { outcomes, only_first, knows_truth: truth.is_some() })
}

impl Comparison {
    /// Returns the row of all hits, then the rows of the energy classes.
    pub fn rows(&self) -> Vec<Agreement> {
        let classes = EnergyClass::ALL.map(Some);
        let rows = [None].into_iter().chain(classes).map(|class| self.row(class));
        rows.enumerate()
            .filter(|(at, row)| *at == 0 || row.hits + row.only_in_first > 0)
            .map(|(_, row)| row)
            .collect()
    }

    fn row(&self, class: Option<EnergyClass>) -> Agreement {
        let belongs = |energy: f64| class.is_none_or(|class| EnergyClass::of(energy) == class);
        let hits: Vec<&Outcome> = self.outcomes.iter().filter(|hit| belongs(hit.energy)).collect();
        let share = |keep: &dyn Fn(&Outcome) -> bool| {
            100.0 * hits.iter().filter(|hit| keep(hit)).count() as f64 / hits.len().max(1) as f64
        };
        let of_run =
            |run: usize| Distance::of(hits.iter().filter_map(|hit| Some(hit.from_truth?[run])).collect());
        Agreement {
            class: class.map_or("all", EnergyClass::name),
            hits: hits.len(),
            only_in_first: self.only_first.iter().filter(|&&energy| belongs(energy)).count(),
            same_percent: share(&|hit| hit.is_same),
            within_5_mm_percent: share(&|hit| hit.from_reference <= NEAR),
            beyond_20_mm_percent: share(&|hit| hit.from_reference > FAR),
            to_truth_mm: self.knows_truth.then(|| [0, 1].map(of_run)),
        }
    }
}

impl Distance {
    /// Computes the percentiles of distances in any order.
    pub fn of(mut all: Vec<f64>) -> Distance {
        all.sort_unstable_by(f64::total_cmp);
        Distance { median: quantile(&all, 0.5), p90: quantile(&all, 0.9) }
    }
}

/// Returns the quantile of sorted numbers; NaN for an empty slice.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (share * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(places: &[(usize, f32)]) -> Results {
        let event = |(i, &(index, x)): (usize, &(usize, f32))| EventResult {
            event: i,
            timestamp: 0,
            crystal: 0,
            index,
            fom: 1.0,
            second: None,
            gap: None,
            position: [x, 0.0, 0.0],
            in_array: None,
            spread: 0.0,
            energy: if i == 0 { 20.0 } else { 500.0 },
            segment: 3,
            flags: Vec::new(),
        };
        Results { events: places.iter().enumerate().map(event).collect() }
    }

    #[test]
    fn shares_are_counted_by_class() {
        let a = results(&[(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0)]);
        let b = results(&[(9, 30.0), (1, 0.0), (8, 4.0), (7, 10.0)]);
        let truth = Truth::of_places(&[[1.0, 0.0, 0.0]; 4]);
        let rows = compare(&a, &b, Some(&truth)).expect("as many of each").rows();
        let all = rows[0];
        assert_eq!(
            (all.hits, all.same_percent, all.within_5_mm_percent, all.beyond_20_mm_percent),
            (4, 25.0, 50.0, 25.0)
        );
        assert_eq!(all.to_truth_mm.expect("known")[0], Distance { median: 1.0, p90: 1.0 });
        let figures: Vec<_> = rows[1..].iter().map(|row| (row.hits, row.beyond_20_mm_percent)).collect();
        assert_eq!(figures, [(1, 100.0), (3, 0.0)]);
        let one = compare(&a, &results(&[(0, 0.0)]), None).expect("one hit in common").rows();
        assert_eq!((one[0].hits, one[0].only_in_first, one[0].same_percent), (1, 3, 100.0));
        assert!(compare(&a, &Results::default(), None).is_err());
        let mut others = results(&[(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0)]);
        others.events.iter_mut().skip(1).for_each(|hit| hit.energy *= 1.5);
        let error = compare(&a, &others, None).expect_err("other events").to_string();
        assert!(error.contains("3 of the 4 hits"), "{error}");
        others.events[3].energy = a.events[3].energy;
        compare(&a, &others, None).expect("half of them are the same");
        assert!(compare(&a, &b, Some(&Truth::of_places(&[[0.0; 3]; 3]))).is_err());
    }
}
