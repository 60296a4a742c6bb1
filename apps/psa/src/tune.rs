//! Methods and formats of a search as items of `zellige tune psa`, and trials with them.
//!
//! Answers are compared with those of a full search in `fp64`. Shares of hits are samples, so that
//! they have standard errors.

mod tracking;

use zellige_tune::{Assignment, Candidate, Data, Item, Measures, Space};

use crate::Error;
use crate::basis::SegmentBasis;
use crate::pipeline::compare::{FAR, NEAR, Outcome, distance};
use crate::search::{Method, Plan, PointGrid, PowerTable, Precision, Prepared, SegmentEvents};
use crate::trust::Searches;
use tracking::Tracking;

/// Condition for which no other is given: 99.5 % of the same points.
pub const ACCEPT: &str = "same >= 0.995";
/// Measure that is the cost if no other is given: CPU time of a hit.
pub const COST: &str = "microseconds";

/// Names of the measures that only trials with [`Tuning::with_tracking`] have.
pub const TRACKING: [&str; 2] = ["efficiency", "peak_to_total"];

/// Names of all measures.
pub const MEASURES: [&str; 11] = [
    "hits",
    "microseconds",
    "bytes",
    "same",
    "same_by_energy",
    "within_5mm",
    "within_5mm_by_energy",
    "beyond_20mm",
    "beyond_20mm_by_energy",
    TRACKING[0],
    TRACKING[1],
];

const METHOD: &str = "method";
const SAMPLES: &str = "samples";
const TABLE: &str = "table";

/// Candidate methods, as words of [`Method`]. The last is the reference.
const METHODS: [&str; 23] = [
    "screen:quarter:2",
    "screen:quarter:4",
    "screen:quarter:8",
    "screen:quarter:16",
    "screen:bits:2",
    "screen:bits:4",
    "screen:bits:8",
    "screen:bits:16",
    "screen:linear:16",
    "screen:linear:64",
    "screen:linear:128",
    "screen:square:32",
    "screen:square:128",
    "screen:product:32",
    "screen:product:128",
    "screen:power:1",
    "screen:power:2",
    "screen:power:8",
    "cfgs:1",
    "cfgs:4",
    "cfgs:8",
    "exact",
    "fgs",
];

/// Largest number of runs of a segment whose median time is taken.
const RUNS: usize = 5;
/// Time after which a segment has been run often enough (s).
const LONG: f64 = 0.1;

/// Measures the time of a run (s), such as the CPU time of the calling thread.
pub type Clock = fn(&mut dyn FnMut()) -> f64;

/// Trials of a search of hits by different plans.
#[derive(Debug)]
pub struct Tuning {
    space: Space,
    p: f64,
    clock: Clock,
    tracking: Option<Tracking>,
    /// Hits that the search sees, and those of the verification.
    parts: [Part; 2],
}

impl Tuning {
    /// Prepares the trials of a search with the exponent `p`. Without `verify`, half of the hits
    /// are for the verification.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an invalid exponent; [`Error::Shape`] if there are too few hits or
    /// they do not fit the points of their segments.
    pub fn new(searches: &Searches, verify: Option<&Searches>, p: f64, clock: Clock) -> Result<Self, Error> {
        Plan { p, ..Plan::default() }.check()?;
        let parts = match verify {
            Some(verify) => [Part::new(searches)?, Part::new(verify)?],
            None => {
                let [search, verify] = searches.halves();
                [Part::new(&search)?, Part::new(&verify)?]
            }
        };
        let space = space(parts[0].points(), parts[0].segments[0].events.shape().terms());
        Ok(Tuning { space, p, clock, tracking: None, parts })
    }

    /// Adds the measures [`TRACKING`] to the trials: photopeak efficiency and peak-to-total ratio
    /// of simulated gamma rays, whose points are displaced as the hits of the trial are from those
    /// of the reference.
    ///
    /// # Errors
    /// None that can occur: the parameters of the simulation are valid.
    pub fn with_tracking(mut self) -> Result<Self, Error> {
        self.tracking = Some(Tracking::new()?);
        Ok(self)
    }

    /// Returns the items: `method`, `samples` and `table`.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the numbers of hits that the search and the verification see.
    pub fn hits(&self) -> [usize; 2] {
        [0, 1].map(|part| self.parts[part].hits)
    }

    /// Returns the plan of an assignment.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a combination that the search does not have.
    pub fn plan(&self, formats: &Assignment) -> Result<Plan, Error> {
        let plan = Plan {
            method: formats.format(METHOD).parse()?,
            p: self.p,
            precision: formats.format(SAMPLES).parse()?,
            table: formats.format(TABLE).parse()?,
            certify: false,
        };
        plan.check()?;
        Ok(plan)
    }

    /// Searches all hits by the plan of an assignment. The measures are shares of the hits by
    /// number and by energy (`same`, `within_5mm`, `beyond_20mm`, relative to the points of the
    /// reference), and means of a hit (`microseconds`, `bytes` of the basis). Equal plans are
    /// searched by once.
    ///
    /// # Errors
    /// The reason why there is no such search.
    pub fn trial(&mut self, formats: &Assignment, data: Data) -> Result<Measures, String> {
        let plan = self.plan(formats).map_err(|error| error.to_string())?;
        let part = &mut self.parts[data as usize];
        if let Some((_, measures)) = part.known.iter().find(|(known, _)| *known == plan) {
            return Ok(measures.clone());
        }
        let measures =
            part.measure(&plan, self.clock, self.tracking.as_ref()).map_err(|error| error.to_string())?;
        part.known.push((plan, measures.clone()));
        Ok(measures)
    }
}

/// Returns the options of `zellige psa run` for a plan.
pub fn options(plan: &Plan) -> String {
    let Plan { method, p, precision, table, .. } = plan;
    format!("--method {method} --precision {precision} --lut {table} --p {p}")
}

/// Items for segments of `points` points in the mean, with `terms` samples in all channels.
///
/// Predicted costs are microseconds of a hit on one machine. They order the trials; what counts is
/// measured.
fn space(points: f64, terms: usize) -> Space {
    // Sorting keeps the reference last: no predicted cost is above its.
    let mut methods: Vec<Candidate> = METHODS
        .map(|name| Candidate { name: name.into(), cost: predicted(name, points, terms as f64) })
        .into();
    methods.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let double = 5e-3 * points * terms as f64;
    let samples = ["bf16", "int16", "fp16", "mixed", "fp32"].map(|name| (name, 0.0));
    let items = vec![
        Item { name: METHOD.into(), group: String::new(), formats: methods },
        Item::new(SAMPLES, "", samples.into_iter().chain([("fp64", double)])),
        Item::new(TABLE, "", [("whole", 0.0), ("log", 0.0), ("none", 0.0)]),
    ];
    Space::new(items).expect("names that differ, and sorted costs")
}

/// Predicted time of a hit (us): medians of `docs/results/psa.md` by point and sample.
fn predicted(method: &str, points: f64, terms: f64) -> f64 {
    const POWER: f64 = 4e-4;
    let all = points * terms;
    let of_screen = |by: &str| match by {
        "quarter" => 0.8e-4,
        "bits" => 1e-4,
        "linear" | "square" | "product" => 0.9e-4,
        _ => POWER,
    };
    let most = POWER * all;
    let cost = match method.split(':').collect::<Vec<_>>()[..] {
        ["screen", by, keep] => of_screen(by) * all + POWER * terms * keep.parse().unwrap_or(points),
        // Few points are compared at a time, by scalar powers.
        ["cfgs", cells] => 6e-3 * terms * (points / 27.0 + 27.0 * cells.parse().unwrap_or(points)),
        _ => most,
    };
    cost.min(most)
}

/// Hits of one kind of data.
#[derive(Debug)]
struct Part {
    segments: Vec<SegmentHits>,
    hits: usize,
    known: Vec<(Plan, Measures)>,
}

/// Hits of a segment.
#[derive(Debug)]
struct SegmentHits {
    basis: SegmentBasis,
    events: SegmentEvents,
    grid: PointGrid,
    /// Points that the reference finds, once they are known.
    reference: Option<Vec<usize>>,
}

impl Part {
    fn new(searches: &Searches) -> Result<Part, Error> {
        let segments = searches.by_segment()?.into_iter().map(|(basis, events)| SegmentHits {
            grid: PointGrid::new(basis.positions()),
            basis,
            events,
            reference: None,
        });
        let segments: Vec<SegmentHits> = segments.collect();
        let hits = segments.iter().map(|segment| segment.events.len()).sum();
        if hits == 0 {
            let problem = "no event with exactly one hit is left for the trials or the verification";
            return Err(Error::shape("events", problem));
        }
        Ok(Part { segments, hits, known: Vec::new() })
    }

    /// Returns the mean number of points that a hit is compared with.
    fn points(&self) -> f64 {
        let all = |segment: &SegmentHits| segment.events.len() * segment.basis.positions().len();
        self.segments.iter().map(all).sum::<usize>() as f64 / self.hits as f64
    }

    fn measure(&mut self, plan: &Plan, clock: Clock, tracking: Option<&Tracking>) -> Result<Measures, Error> {
        let (mut outcomes, mut seconds, mut bytes) = (Vec::with_capacity(self.hits), 0.0, 0.0);
        for segment in &mut self.segments {
            let (time, found) = segment.find(plan, clock)?;
            seconds += time;
            bytes += segment.bytes(plan) * segment.events.len() as f64;
            outcomes.extend(segment.outcomes(&found, plan.p)?);
        }
        let is_reference = plan.method == Method::Full && plan.precision == Precision::Fp64;
        let hits = self.hits as f64;
        let mut measures =
            Measures::from([("hits", hits), ("microseconds", 1e6 * seconds / hits), ("bytes", bytes / hits)]);
        type Judge = fn(&Outcome) -> bool;
        let kinds: [(&str, Judge); 3] = [
            ("same", |hit| hit.is_same),
            ("within_5mm", |hit| hit.from_reference <= NEAR),
            ("beyond_20mm", |hit| hit.from_reference > FAR),
        ];
        for (name, is) in kinds {
            let plain = share(outcomes.iter().map(|hit| (1.0, is(hit))));
            let weighted = share(outcomes.iter().map(|hit| (hit.energy, is(hit))));
            for (name, (value, error)) in [(name.into(), plain), (format!("{name}_by_energy"), weighted)] {
                // The reference is itself on all events, not on those of the sample alone.
                measures.insert(name, value, if is_reference { 0.0 } else { error });
            }
        }
        let shares = tracking.map(|tracking| tracking.measure(&outcomes));
        for (name, (value, error)) in TRACKING.into_iter().zip(shares.into_iter().flatten()) {
            measures.insert(name, value, error);
        }
        Ok(measures)
    }
}

impl SegmentHits {
    /// Returns the median time of the search by a plan (s), and the points that it finds.
    fn find(&self, plan: &Plan, clock: Clock) -> Result<(f64, Vec<usize>), Error> {
        let prepared = Prepared::new(plan, &self.basis)?;
        let (mut times, mut answers): (Vec<f64>, _) = (Vec::new(), Ok(Vec::new()));
        while times.is_empty() || (times.len() < RUNS && times.iter().sum::<f64>() < LONG) {
            times.push(clock(&mut || answers = prepared.search(&self.events, &[])));
        }
        times.sort_by(f64::total_cmp);
        Ok((times[times.len() / 2], answers?.into_iter().map(|found| found.index).collect()))
    }

    /// Returns the number of bytes of the basis that a hit is compared with.
    fn bytes(&self, plan: &Plan) -> f64 {
        let (points, terms) = (self.basis.positions().len() as f64, self.events.shape().terms() as f64);
        let [first, last] = plan.sample_bytes().map(|bytes| bytes as f64 * terms);
        match plan.method {
            Method::Full => points * last,
            Method::Screen { keep, .. } => points * first + points.min(keep as f64) * last,
            Method::Exact { .. } => points * first,
            Method::CoarseFine { cells } => {
                let lattice = &self.grid.lattice;
                let coarse = lattice.coarse.len() as f64;
                let fine = lattice.fine.iter().map(Vec::len).sum::<usize>() as f64 / coarse;
                coarse * first + coarse.min(cells as f64) * fine * last
            }
        }
    }

    /// Compares points with those of the reference.
    fn outcomes(&mut self, found: &[usize], p: f64) -> Result<Vec<Outcome>, Error> {
        let reference = match self.reference.take() {
            Some(reference) => reference,
            None => {
                self.find(&reference_plan(p), |run| {
                    run();
                    LONG
                })?
                .1
            }
        };
        let places = self.basis.positions();
        let outcome = |((&point, &other), &energy): ((&usize, &usize), &f64)| Outcome {
            energy,
            is_same: point == other,
            from_reference: distance(&places[point], &places[other]),
            from_truth: None,
        };
        let all = found.iter().zip(&reference).zip(self.events.energies()).map(outcome).collect();
        self.reference = Some(reference);
        Ok(all)
    }
}

/// A plan with the answers of a full search in `f64`: proven ones where they exist, since these
/// take less time.
fn reference_plan(p: f64) -> Plan {
    let method = if p <= 1.0 { "exact" } else { "fgs" };
    let method = method.parse().expect("a method");
    Plan { method, p, precision: Precision::Fp64, table: PowerTable::None, certify: false }
}

/// Share of hits by weight, with its standard error.
///
/// The error is that of a ratio of sums, and at least the binomial one of Agresti and Coull (1998,
/// for one-sided limits of 95 %), so that shares of all or of none have an error, too. The number
/// of hits is then `(sum w)^2 / sum w^2` (Kish 1965).
fn share(hits: impl Iterator<Item = (f64, bool)> + Clone) -> (f64, f64) {
    const Z2: f64 = 1.645 * 1.645;
    let (mut all, mut squares, mut meant) = (0.0, 0.0, 0.0);
    for (weight, is) in hits.clone() {
        all += weight;
        squares += weight * weight;
        meant += if is { weight } else { 0.0 };
    }
    let share = meant / all;
    let apart = |(weight, is): (f64, bool)| (weight * (f64::from(is) - share)).powi(2);
    let ratio = hits.map(apart).sum::<f64>().sqrt() / all;
    let count = all * all / squares;
    let centre = (share * count + Z2 / 2.0) / (count + Z2);
    (share, ratio.max((centre * (1.0 - centre) / (count + Z2)).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_errors() {
        let of = |hits: &[(f64, bool)]| share(hits.iter().copied());
        let (share, error) = of(&[(1.0, true); 400]);
        assert!(share == 1.0 && (0.0025..0.0035).contains(&error), "{error}");
        let half: Vec<_> = (0..400).map(|i| (1.0, i % 2 == 0)).collect();
        let (share, error) = of(&half);
        assert!(share == 0.5 && (error - 0.025).abs() < 3e-4, "{error}");
        // One hit of much weight is as uncertain as a sample of one.
        let heavy: Vec<_> = (0..400).map(|i| (if i == 0 { 1e6 } else { 1.0 }, true)).collect();
        assert!(of(&heavy).1 > 0.2);
    }

    #[test]
    fn predicted_costs_are_in_order() {
        for (points, terms) in [(1157.0, 400), (40.0, 16), (1.0, 1)] {
            let space = space(points, terms);
            let methods = &space.items()[0];
            assert_eq!(methods.formats.last().map(|last| &*last.name), Some("fgs"));
        }
    }
}
