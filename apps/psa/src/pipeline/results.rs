//! Results of searches, of simulations and of tracking, as files have them.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use zellige_app::json;

use crate::Error;
use crate::files::geb::mode2;
use crate::search::Place;
use crate::track::hits::{Hits, Spectra};
use crate::track::survey::Tally;
use crate::track::{Kind, Tracked};

/// The answers of a run: the one entry of `results` in its JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Results {
    /// One for each hit, in the order of the events; the hits of one event by energy, the largest
    /// first.
    pub events: Vec<EventResult>,
}

/// Answers of several processes, each with a part of the events.
impl Results {
    /// For another process: exact, as CBOR.
    ///
    /// # Errors
    /// [`Error::Connection`] for what cannot be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        ciborium::into_writer(self, &mut bytes).map_err(|error| not_results(&error))?;
        Ok(bytes)
    }

    /// What [`to_bytes`](Results::to_bytes) has made of the parts, in the order of the events.
    ///
    /// # Errors
    /// [`Error::Connection`] for bytes that are something else.
    pub fn joined(parts: impl IntoIterator<Item = Vec<u8>>) -> Result<Results, Error> {
        let mut all = Results::default();
        for bytes in parts {
            let part: Results = ciborium::from_reader(&bytes[..]).map_err(|error| not_results(&error))?;
            all.events.extend(part.events);
        }
        Ok(all)
    }
}

/// The answer for a hit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EventResult {
    /// The event's number.
    pub event: usize,
    /// When it happened (ns).
    #[serde(default)]
    pub timestamp: u64,
    /// The number of the crystal that was hit.
    #[serde(default)]
    pub crystal: usize,
    /// The best point's place among those of the basis.
    pub index: usize,
    /// Its figure of merit, with a charge of 1000.
    pub fom: f64,
    /// The next best point; none where there was no other.
    pub second: Option<usize>,
    /// How much larger its figure of merit is; none where there was no other.
    pub gap: Option<f64>,
    /// Where the best point is in the crystal (mm).
    pub position: [f32; 3],
    /// Where that is in the laboratory (mm), where it is known how the crystal lies there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_array: Option<[f64; 3]>,
    /// Root mean square distance from it of points whose figures of merit are up to 2 % larger
    /// (mm).
    #[serde(default)]
    pub spread: f64,
    /// The hit's energy (keV).
    #[serde(default)]
    pub energy: f64,
    /// The segment that was searched.
    #[serde(default)]
    pub segment: usize,
    /// How the answer came about.
    #[serde(default)]
    pub flags: Vec<String>,
}

impl EventResult {
    /// Of a hit of an event that happened at `timestamp` (ns).
    pub fn new(event: usize, timestamp: u64, place: &Place) -> EventResult {
        let Place { segment, energy, found, position } = *place;
        EventResult {
            event,
            timestamp,
            crystal: 0,
            index: found.index,
            fom: found.fom,
            second: found.second,
            gap: found.gap.is_finite().then_some(found.gap),
            position,
            in_array: None,
            spread: found.spread,
            energy,
            segment: segment.index(),
            flags: found.flags.words().into_iter().map(str::to_owned).collect(),
        }
    }
}

impl EventResult {
    /// Of a point of interaction that somebody else has found.
    pub fn of_point(event: usize, timestamp: u64, point: &mode2::Point) -> EventResult {
        EventResult {
            event,
            timestamp,
            crystal: 0,
            index: 0,
            fom: 0.0,
            second: None,
            gap: None,
            position: point.position,
            in_array: None,
            spread: 0.0,
            energy: point.energy.into(),
            segment: point.segment.index(),
            flags: Vec::new(),
        }
    }
}

/// The result of `zellige psa simulate`: a basis.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BasisResult {
    /// Points of the basis.
    pub points: usize,
    /// Samples of a signal.
    pub samples: usize,
    /// Nodes of the grid of the fields.
    pub nodes: usize,
    /// Time of the fields (s).
    pub seconds_fields: f64,
    /// Time of the signals (s).
    pub seconds_signals: f64,
    /// Points whose charge has not settled at the last sample.
    pub unsettled: usize,
    /// Whether the voltage depletes the crystal.
    pub depleted: bool,
    /// The folder or file of the basis.
    pub written: String,
}

/// The result of `zellige psa events`: simulated events.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SimulatedEvents {
    /// Number of events.
    pub events: usize,
    /// Hits of each event.
    pub hits: usize,
    /// Time of the simulation (s).
    pub seconds: f64,
    /// The folder of the events.
    pub written: String,
}

/// The result of `zellige psa track` for hits: what they were put together to.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TrackResult {
    /// Number of events.
    pub events: usize,
    /// Hits of all events.
    pub hits: usize,
    /// Points after packing.
    pub points: usize,
    /// Gamma rays.
    pub gammas: usize,
    /// Those that scattered.
    pub compton: usize,
    /// Those that made a pair.
    pub pairs: usize,
    /// Those with a single point.
    pub single: usize,
    /// Points that belong to no gamma ray.
    pub unused_points: usize,
    /// Time of the tracking (s).
    pub seconds: f64,
    /// Counts by energy.
    pub spectra: Spectra,
}

impl TrackResult {
    /// Counts what hits were put together to, in so many seconds.
    pub fn new(hits: &Hits, tracked: &[Tracked], spectra: Spectra, seconds: f64) -> TrackResult {
        let gammas = || tracked.iter().flat_map(|event| &event.gammas);
        let of = |kind| gammas().filter(|gamma| gamma.kind == kind).count();
        let points = tracked.iter().map(|event| event.points.len()).sum();
        let used: usize = gammas().map(|gamma| gamma.points.len()).sum();
        TrackResult {
            events: tracked.len(),
            hits: hits.points.iter().map(Vec::len).sum(),
            points,
            gammas: gammas().count(),
            compton: of(Kind::Compton),
            pairs: of(Kind::Pair),
            single: of(Kind::Photo),
            unused_points: points - used,
            seconds,
            spectra,
        }
    }
}

/// A result of `zellige psa track --simulate`: events with so many gamma rays.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TallyResult {
    /// [`Tally::efficiency`].
    pub efficiency: f64,
    /// [`Tally::peak_to_total`].
    pub peak_to_total: f64,
    /// [`Tally::absorbed_share`].
    pub absorbed_share: f64,
    /// What was counted.
    #[serde(flatten)]
    pub tally: Tally,
}

impl From<Tally> for TallyResult {
    fn from(tally: Tally) -> Self {
        TallyResult {
            efficiency: tally.efficiency(),
            peak_to_total: tally.peak_to_total(),
            absorbed_share: tally.absorbed_share(),
            tally,
        }
    }
}

fn not_results(error: &dyn std::error::Error) -> Error {
    Error::Connection(format!("results of one of several processes: {error}"))
}

/// No results of a run are longer.
const MOST_BYTES: u64 = 1 << 34;
/// Bytes of them that are read at a time: a file that is something else ends with its first bytes,
/// however long it is.
const BUFFER: usize = 1 << 16;

impl Results {
    /// Reads what a run has written.
    ///
    /// # Errors
    /// [`Error::File`] for a file that cannot be read; [`Error::Format`] for one that holds
    /// something else, with line and column.
    pub fn read(path: &Path) -> Result<Results, Error> {
        let problem = "cannot read the results";
        let cannot = |source| Error::File { path: path.to_owned(), problem, source };
        let file = File::open(path).map_err(cannot)?;
        let reader = BufReader::with_capacity(BUFFER, file.take(MOST_BYTES));
        let wrong = |problem: String| {
            let problem = format!("no results of `zellige psa run --json`: {problem}");
            Error::Format { path: path.to_owned(), offset: None, problem }
        };
        let file: json::Results<Results> =
            serde_json::from_reader(reader).map_err(|error| match error.io_error_kind() {
                Some(_) => cannot(error.into()),
                None => wrong(error.to_string()),
            })?;
        let [results] = <[Results; 1]>::try_from(file.results)
            .map_err(|all| wrong(format!("{} entries in `results` instead of one", all.len())))?;
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_as_they_were() {
        let event = |event: usize| EventResult {
            event,
            timestamp: u64::MAX,
            crystal: 7,
            index: 3,
            fom: 0.1 + 0.2,
            second: None,
            gap: Some(1.0 / 3.0),
            position: [0.1, -7.3, f32::MIN_POSITIVE],
            in_array: Some([1e-300, -0.0, 1.0 / 7.0]),
            spread: 5e-324,
            energy: 1.0 / 3.0,
            segment: event,
            flags: vec!["edge".into()],
        };
        let whole = Results { events: (0..5).map(event).collect() };
        let parts = [0..2, 2..2, 2..5].map(|part| Results { events: whole.events[part].to_vec() });
        let bytes: Vec<_> = parts.iter().map(|part| part.to_bytes().unwrap()).collect();
        assert_eq!(Results::joined(bytes.clone()).unwrap(), whole);
        let error = Results::joined([bytes[0][..9].to_vec()]).unwrap_err();
        assert!(error.to_string().starts_with("results of one of several processes"), "{error}");
    }
}
