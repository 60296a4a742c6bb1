//! Format of events in a folder: `signals.npy` (keV, events x 37 x samples), `energies.npy` (keV,
//! events x hits), `positions.npy` (mm, events x hits x 3), `segments.npy` (0 to 35, events x
//! hits), `timestamps.npy` (ns, events), and `events.toml`, which is written last.

use std::path::Path;

use serde::{Deserialize, Serialize};
use zellige_files::array::Array;

use super::arrays::{self, Quantity};
use super::{make_folder, segments, unseal, write_array, write_whole};
use crate::Error;
use crate::basis::Sampling;
use crate::channels::CHANNELS;
use crate::consistency::{check_events, check_sampling};
use crate::detector::Detector;
use crate::drift::Trapping;
use crate::electronics::Electronics;
use crate::events::{Events, Spec};
use crate::params::read_toml;

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventsFile {
    format: String,
    events: usize,
    hits: usize,
    samples: usize,
    /// Time between samples (ns).
    step: f64,
    before: usize,
    seed: u64,
    energies: String,
    within: String,
    /// Noise of a sample (keV rms).
    noise: f64,
    correlation: f64,
    /// Step of the digitiser (keV).
    adc_step: f64,
    /// Standard deviation of the start of the drift (ns).
    jitter: f64,
    /// Mean rate of events (1/s).
    rate: f64,
    speed: f64,
    /// Mean drift lengths of holes and electrons until they are trapped (mm).
    #[serde(default = "untrapped")]
    trapping: String,
    electronics: Electronics,
}

fn untrapped() -> String {
    Trapping::NONE.to_string()
}

const FORMAT: &str = "zellige psa events 1";

/// Writes events into a folder, which is created if necessary, with their specification and the
/// parameters of the detector.
///
/// # Errors
/// [`Error::File`].
pub fn write(folder: &Path, events: &Events, spec: &Spec, detector: &Detector) -> Result<(), Error> {
    make_folder(folder)?;
    let (seal, sampling, count) = (folder.join("events.toml"), events.sampling, events.count());
    unseal(&seal)?;
    let signals = events.signals.iter().copied();
    write_array(&folder.join("signals.npy"), &[count, CHANNELS, sampling.samples], signals)?;
    write_array(&folder.join("energies.npy"), &[count, events.hits], events.energies.iter().copied())?;
    let positions = events.positions.iter().flatten().copied();
    write_array(&folder.join("positions.npy"), &[count, events.hits, 3], positions)?;
    let segments = events.segments.iter().map(|segment| segment.index() as u8);
    write_array(&folder.join("segments.npy"), &[count, events.hits], segments)?;
    write_array(&folder.join("timestamps.npy"), &[count], events.timestamps.iter().copied())?;
    let file = EventsFile {
        format: FORMAT.into(),
        events: count,
        hits: events.hits,
        samples: sampling.samples,
        step: sampling.step,
        before: sampling.before,
        seed: spec.seed,
        energies: spec.energies.to_string(),
        within: spec.within.to_string(),
        noise: spec.noise,
        correlation: spec.correlation,
        adc_step: spec.adc_step,
        jitter: spec.jitter,
        rate: spec.rate,
        speed: detector.speed(),
        trapping: detector.trapping().to_string(),
        electronics: detector.electronics(),
    };
    let text = toml::to_string(&file).expect("numbers and words are TOML");
    write_whole(&seal, |out| std::io::Write::write_all(out, text.as_bytes()))
}

/// Reads the signals of events (keV, events x 37 x samples, the core last) from an array of
/// numbers, in the sampling of a basis. Such events have no known hits, and their times are 0.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, or for other content, or if
/// [`check_events`] fails.
pub fn read_signals(path: &Path, sampling: Sampling) -> Result<Events, Error> {
    let array = arrays::open(path, 3)?;
    let count = array.sides()[0];
    let wrong = |problem| Error::content(path, None, problem);
    let Sampling { samples, step, before } = sampling;
    if array.sides()[1..] != [CHANNELS, samples] {
        return Err(wrong(format!(
            "an array of shape {:?}: events x {CHANNELS} x {samples} is needed, as the basis is sampled (every {step} ns, {before} samples before \
             charges move); cut traces to these",
            array.sides(),
        )));
    }
    if let Ok(steps) = arrays::read(&path.join("dt"), 1, Quantity::Time)
        && let Some(&other) = steps.numbers.iter().find(|other| (*other / step - 1.0).abs() > 1e-6)
    {
        let of_events = Sampling { step: other, ..sampling };
        check_sampling(sampling, of_events, 0).map_err(wrong)?;
    }
    let signals = arrays::finite(array, Quantity::Energy)?;
    check_events(&signals, samples).map_err(wrong)?;
    Ok(Events {
        sampling,
        hits: 0,
        signals,
        energies: Vec::new(),
        positions: Vec::new(),
        segments: Vec::new(),
        timestamps: vec![0; count],
    })
}

/// Reads events from a folder.
///
/// # Errors
/// [`Error::Text`] for an incomplete folder; [`Error::File`] with the byte for arrays that do not
/// match, or if [`check_events`] fails.
pub fn read(folder: &Path) -> Result<Events, Error> {
    let path = folder.join("events.toml");
    let missing = "no such file: the folder has no events, or incomplete ones";
    let file: EventsFile = read_toml(&path, missing)?;
    if file.format != FORMAT || !(file.step > 0.0 && file.step.is_finite()) {
        let problem = format!(
            "format {:?}, step {}: {FORMAT:?} and a step above 0 are supported",
            file.format, file.step
        );
        return Err(Error::Text { path, line: None, problem });
    }
    let (events, hits) = (file.events, file.hits);
    let array = |name: &str, sides: &[usize]| arrays::sized(&folder.join(name), sides);
    let positions = arrays::finite(array("positions.npy", &[events, hits, 3])?, Quantity::Length)?;
    let signals = arrays::finite(array("signals.npy", &[events, CHANNELS, file.samples])?, Quantity::Energy)?;
    let wrong = |problem| Error::content(&folder.join("signals.npy"), None, problem);
    check_events(&signals, file.samples).map_err(wrong)?;
    let energies = arrays::reals(array("energies.npy", &[events, hits])?, Quantity::Energy)?;
    let segments = segments(array("segments.npy", &[events, hits])?)?;
    let timestamps = times(array("timestamps.npy", &[events])?)?;
    Ok(Events {
        sampling: Sampling { samples: file.samples, step: file.step, before: file.before },
        hits,
        signals,
        energies,
        positions: positions.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect(),
        segments,
        timestamps,
    })
}

/// Reads times in whole ns from numbers of any type.
fn times(array: Array) -> Result<Vec<u64>, Error> {
    if array.kind() == "u8" {
        return Ok(array.values()?);
    }
    let path = array.path().to_owned();
    let times = array.reals()?;
    match times.iter().position(|time| !(*time >= 0.0 && time.is_finite())) {
        None => Ok(times.into_iter().map(|time| time as u64).collect()),
        Some(at) => {
            let problem = format!("time {at} is {} ns: times must be 0 or more", times[at]);
            Err(Error::content(&path, None, problem))
        }
    }
}
