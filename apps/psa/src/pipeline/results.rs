//! Results of searches, of simulations and of tracking in files.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use zellige_app::json;

use crate::Error;
use crate::files::geb::mode2;
use crate::search::LocatedHit;
use crate::track::hits::{Hits, Spectra};
use crate::track::survey::Tally;
use crate::track::{Kind, Tracked};

/// Answers of a run: the one entry of `results` in its JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Results {
    /// Results of the hits, in the order of the events; the hits of one event in descending order
    /// of energy.
    pub events: Vec<EventResult>,
}

/// Results of several processes, each with a part of the events.
impl Results {
    /// Serialises the results for another process, exactly, as CBOR.
    ///
    /// # Errors
    /// [`Error::Connection`] if the results cannot be serialised.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        ciborium::into_writer(self, &mut bytes).map_err(|error| not_results(&error))?;
        Ok(bytes)
    }

    /// Joins the parts from [`to_bytes`](Results::to_bytes), in the order of the events.
    ///
    /// # Errors
    /// [`Error::Connection`] for invalid bytes.
    pub fn joined(parts: impl IntoIterator<Item = Vec<u8>>) -> Result<Results, Error> {
        let mut all = Results::default();
        for bytes in parts {
            let part: Results = ciborium::from_reader(&bytes[..]).map_err(|error| not_results(&error))?;
            all.events.extend(part.events);
        }
        Ok(all)
    }
}

/// Answer for a hit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EventResult {
    /// Number of the event.
    pub event: usize,
    /// Time of the event (ns).
    #[serde(default)]
    pub timestamp: u64,
    /// Number of the crystal that was hit.
    #[serde(default)]
    pub crystal: usize,
    /// Index of the best point in the basis.
    pub index: usize,
    /// Figure of merit of the best point, for a charge of 1000.
    pub fom: f64,
    /// Index of the second best point, if there is one.
    pub second: Option<usize>,
    /// Difference of the second best figure of merit to the best, if there is one.
    pub gap: Option<f64>,
    /// Position of the best point in the crystal (mm).
    pub position: [f32; 3],
    /// Position of the best point in the laboratory (mm), if the placement of the crystal is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_array: Option<[f64; 3]>,
    /// Root mean square distance from the best point of the points with figures of merit up to 2 %
    /// larger (mm).
    #[serde(default)]
    pub spread: f64,
    /// Energy of the hit (keV).
    #[serde(default)]
    pub energy: f64,
    /// Segment that was searched.
    #[serde(default)]
    pub segment: usize,
    /// Flags that describe the origin of the answer.
    #[serde(default)]
    pub flags: Vec<String>,
}

impl EventResult {
    /// Creates the result of a hit of an event at `timestamp` (ns).
    pub fn new(event: usize, timestamp: u64, hit: &LocatedHit) -> EventResult {
        let LocatedHit { segment, energy, best, position } = *hit;
        EventResult {
            event,
            timestamp,
            crystal: 0,
            index: best.index,
            fom: best.fom,
            second: best.second,
            gap: best.gap.is_finite().then_some(best.gap),
            position,
            in_array: None,
            spread: best.spread,
            energy,
            segment: segment.index(),
            flags: best.flags.names().into_iter().map(str::to_owned).collect(),
        }
    }
}

impl EventResult {
    /// Creates the result of a point of interaction from another program.
    pub fn of_point(event: usize, timestamp: u64, point: &mode2::InteractionPoint) -> EventResult {
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
    /// Number of points of the basis.
    pub points: usize,
    /// Number of samples of a signal.
    pub samples: usize,
    /// Number of nodes of the grid of the fields.
    pub nodes: usize,
    /// Time to solve for the fields (s).
    pub seconds_fields: f64,
    /// Time to simulate the signals (s).
    pub seconds_signals: f64,
    /// Number of points whose charge has not settled at the last sample.
    pub unsettled: usize,
    /// Whether the voltage depletes the crystal.
    pub depleted: bool,
    /// Folder or file of the basis.
    pub written: String,
}

/// The result of `zellige psa events`: simulated events.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SimulatedEvents {
    /// Number of events.
    pub events: usize,
    /// Number of hits of each event.
    pub hits: usize,
    /// Time of the simulation (s).
    pub seconds: f64,
    /// Folder of the events.
    pub written: String,
}

/// The result of `zellige psa track` for hits: counts and spectra of the reconstruction.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TrackResult {
    /// Number of events.
    pub events: usize,
    /// Number of hits of all events.
    pub hits: usize,
    /// Number of points after packing.
    pub points: usize,
    /// Number of gamma rays.
    pub gammas: usize,
    /// Number of gamma rays that scattered.
    pub compton: usize,
    /// Number of gamma rays that produced a pair.
    pub pairs: usize,
    /// Number of gamma rays with a single point.
    pub single: usize,
    /// Number of points that belong to no gamma ray.
    pub unused_points: usize,
    /// Time of the tracking (s).
    pub seconds: f64,
    /// Spectra of the energies.
    pub spectra: Spectra,
}

impl TrackResult {
    /// Creates the result from hits and their reconstruction, which took `seconds` seconds.
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

/// A result of `zellige psa track --simulate`: events of one multiplicity.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TallyResult {
    /// Photopeak efficiency, see [`Tally::efficiency`].
    pub efficiency: f64,
    /// Peak-to-total ratio, see [`Tally::peak_to_total`].
    pub peak_to_total: f64,
    /// Fraction of completely absorbed gamma rays, see [`Tally::absorbed_share`].
    pub absorbed_share: f64,
    /// Counts of the events.
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

/// Size limit of files of results (bytes).
const MOST_BYTES: u64 = 1 << 34;
/// Bytes that are read at a time. A file of another format is rejected after its first bytes,
/// regardless of its size.
const BUFFER: usize = 1 << 16;

impl Results {
    /// Reads the results that a run has written.
    ///
    /// # Errors
    /// [`Error::File`] for a file that cannot be read, or with line and column for a
    /// file with other content.
    pub fn read(path: &Path) -> Result<Results, Error> {
        let problem = "cannot read the results";
        let cannot = |source| Error::system(path, problem, source);
        let file = File::open(path).map_err(cannot)?;
        let reader = BufReader::with_capacity(BUFFER, file.take(MOST_BYTES));
        let wrong = |problem: String| {
            let problem = format!("not results of `zellige psa run --json`: {problem}");
            Error::content(path, None, problem)
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
