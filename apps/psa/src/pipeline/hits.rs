//! Conversion of search results to events in the laboratory, and files of tracking results.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::results::{EventResult, Results};
use crate::Error;
use crate::array::Array;
use crate::files::geb::{Frame, FrameReader, mode2};
use crate::files::{fill, make_folder, write_whole};
use crate::track::hits::{Hits, Spectra};
use crate::track::{MOST_POINTS, Point, Tracked};

/// Reads the output of `zellige psa run` or `zellige psa stream`: results in JSON, or frames of
/// mode 2. Frames within `window` (ns) of the first frame of an event belong to that event.
///
/// # Errors
/// [`Error::File`] and [`Error::Stream`] for files with other content, and
/// those of [`of_results`].
pub fn read(path: &Path, array: &Array, window: u64) -> Result<Hits, Error> {
    let cannot = |source| Error::system(path, "cannot read the hits", source);
    let mut begin = [0];
    let count = fill(&mut File::open(path).map_err(cannot)?, &mut begin).map_err(cannot)?;
    if count == 0 || begin == *b"{" {
        return of_results(&Results::read(path)?, array);
    }
    let mut frames = FrameReader::new(File::open(path).map_err(cannot)?);
    let (mut frame, mut results, mut events) = (Frame::default(), Results::default(), 0);
    let mut first: Option<u64> = None;
    while frames.next(&mut frame)? {
        let of_crystal = mode2::Decomposed::of(&frame)?;
        let time = frame.timestamp.saturating_mul(10);
        if first.is_none_or(|first| time.abs_diff(first) > window) {
            (first, events) = (Some(time), events + 1);
        }
        let crystal = usize::try_from(of_crystal.crystal).unwrap_or(usize::MAX);
        let hit = |point: &mode2::InteractionPoint| EventResult {
            crystal,
            ..EventResult::of_point(events - 1, time, point)
        };
        results.events.extend(of_crystal.points.iter().map(hit));
    }
    of_results(&results, array)
}

/// Groups hits with the same event number to events, and transforms their positions from the
/// frames of their crystals to the laboratory.
///
/// # Errors
/// [`Error::Shape`] for a crystal that is not in the array, for invalid positions or energies,
/// and for events of more than [`MOST_POINTS`] hits.
pub fn of_results(results: &Results, array: &Array) -> Result<Hits, Error> {
    let mut events: BTreeMap<usize, (u64, Vec<Point>)> = BTreeMap::new();
    for hit in &results.events {
        let wrong = |problem: String| Error::shape("hits", format!("event {}: {problem}", hit.event));
        let place = array
            .place(hit.crystal, hit.position)
            .ok_or_else(|| wrong(format!("the array has no position for crystal {}", hit.crystal)))?;
        if !(place.iter().all(|x| x.abs() < 1e6) && (0.0..1e9).contains(&hit.energy)) {
            let problem = format!("{:?} mm and {} keV are not a valid hit", hit.position, hit.energy);
            return Err(wrong(problem));
        }
        let (time, points) = events.entry(hit.event).or_insert((hit.timestamp, Vec::new()));
        *time = (*time).min(hit.timestamp);
        points.push(Point { place, energy: hit.energy });
        if points.len() > MOST_POINTS {
            return Err(wrong(format!("more than {MOST_POINTS} hits: give each event its own number")));
        }
    }
    let mut hits = Hits::default();
    let mut all = Vec::with_capacity(events.len());
    for (number, (time, points)) in events {
        hits.numbers.push(number);
        hits.timestamps.push(time);
        all.push(points);
    }
    hits.points = Arc::new(all);
    Ok(hits)
}

/// An event in the file of gamma rays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EventGammas {
    /// Number of the event.
    pub event: usize,
    /// Time of the event (ns).
    pub timestamp: u64,
    /// Points and gamma rays of the event.
    #[serde(flatten)]
    pub tracked: Tracked,
}

/// Writes `gammas.json` (a list of [`EventGammas`]) and `spectra.csv` (keV at the middle of each
/// step, counts) into a folder, which is created if necessary.
///
/// # Errors
/// [`Error::File`].
pub fn write(folder: &Path, hits: &Hits, tracked: &[Tracked], spectra: &Spectra) -> Result<(), Error> {
    make_folder(folder)?;
    let events: Vec<EventGammas> = hits
        .numbers
        .iter()
        .zip(&hits.timestamps)
        .zip(tracked)
        .map(|((&event, &timestamp), tracked)| EventGammas { event, timestamp, tracked: tracked.clone() })
        .collect();
    write_whole(&folder.join("spectra.csv"), |out| {
        writeln!(out, "energy_kev,tracked,corrected,calorimetric")?;
        let Spectra { tracked, corrected, calorimetric } = spectra;
        for (k, count) in tracked.counts.iter().enumerate() {
            let energy = (k as f64 + 0.5) * tracked.step;
            writeln!(out, "{energy},{count},{},{}", corrected.counts[k], calorimetric.counts[k])?;
        }
        Ok(())
    })?;
    write_whole(&folder.join("gammas.json"), |out| {
        serde_json::to_writer(&mut *out, &events)?;
        writeln!(out)
    })
}
