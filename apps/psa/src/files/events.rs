//! Events in a folder: `signals.npy` (keV, events x 37 x samples), `energies.npy` (keV, events x hits), `positions.npy` (mm, events x hits x 3),
//! `segments.npy` (0 to 35, events x hits), `timestamps.npy` (ns, events) and `events.toml`, which is written last.

use std::path::Path;

use serde::{Deserialize, Serialize};
use zellige_files::array::Array;

use super::{make_folder, segments, unseal, write_array, write_whole};
use crate::Error;
use crate::basis::Sampling;
use crate::channels::{CHANNELS, SEGMENTS};
use crate::detector::Detector;
use crate::drift::Trapping;
use crate::electronics::Electronics;
use crate::events::{Events, Spec};
use crate::params::read_toml;

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    events: usize,
    hits: usize,
    samples: usize,
    /// ns
    step: f64,
    before: usize,
    seed: u64,
    energies: String,
    within: String,
    /// keV
    noise: f64,
    correlation: f64,
    /// keV
    adc_step: f64,
    /// ns
    jitter: f64,
    /// 1/s
    rate: f64,
    speed: f64,
    /// Mean ways of holes and electrons until they are trapped (mm).
    #[serde(default = "untrapped")]
    trapping: String,
    electronics: Electronics,
}

fn untrapped() -> String {
    Trapping::NONE.to_string()
}

const FORMAT: &str = "zellige psa events 1";

/// Writes events into a folder, which is made if need be, with what they were made by and in which detector.
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
    let file = File {
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

/// Reads the signals of events (keV, events x 37 x samples, the core last) from an array of `float32` or `float64`, in the sampling of a basis. Nothing is known of
/// their hits, and their times are 0.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read; [`Error::Format`] for one that holds something else, and where the core's charges are not the
/// sums of the segments', as with channels in another order.
pub fn read_signals(path: &Path, sampling: Sampling) -> Result<Events, Error> {
    let array = Array::open(path)?.of(&["f4", "f8"], 3)?;
    let count = array.sides()[0];
    let wrong = |problem| Error::Format { path: path.to_owned(), offset: None, problem };
    let Sampling { samples, step, before } = sampling;
    if array.sides()[1..] != [CHANNELS, samples] {
        return Err(wrong(format!(
            "an array of shape {:?}: events x {CHANNELS} x {samples} is needed, as the basis is sampled (every {step} ns, {before} samples before \
             charges move); cut traces to these",
            array.sides(),
        )));
    }
    let signals = array.finite()?;
    check_charges(&signals, samples).map_err(wrong)?;
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

/// Refuses signals of whose events most have a core's charge that is far from the sum of the segments': its contact and theirs enclose the crystal, so
/// that the two are one charge.
fn check_charges(signals: &[f32], samples: usize) -> Result<(), String> {
    let last = samples.div_ceil(10).max(1);
    let charge = |signal: &[f32]| {
        let end = &signal[samples.saturating_sub(last)..];
        end.iter().map(|&value| f64::from(value)).sum::<f64>() / last as f64
    };
    let (mut apart, mut whole, mut product, mut square) = (0.0, 0.0, 0.0, 0.0);
    for event in signals.chunks_exact((CHANNELS * samples).max(1)) {
        let (segments, core) = event.split_at(SEGMENTS * samples);
        let (sum, core) = (segments.chunks_exact(samples).map(charge).sum::<f64>(), charge(core));
        let larger = core.abs().max(sum.abs());
        apart += (core - sum).abs();
        whole += larger;
        product += core * sum;
        square += larger * larger;
    }
    // Noise, cross-talk and charges that still drift make some percent.
    if apart <= 0.5 * whole {
        return Ok(());
    }
    let remedy = match product < -0.5 * square {
        true => "turn the sign of one of them: both rise for a positive energy",
        false => "channels are the segments 0 to 35 (6 sector + ring), then the core, in one unit (keV)",
    };
    let percent = 100.0 * apart / whole;
    Err(format!("the core's charges are {percent:.0} % off the sums of the segments': {remedy}"))
}

/// Reads events from a folder.
///
/// # Errors
/// [`Error::Text`] for a folder that is not complete, [`Error::Format`] with the byte for arrays that do not fit each other.
pub fn read(folder: &Path) -> Result<Events, Error> {
    let path = folder.join("events.toml");
    let missing = "no such file: the folder holds no events, or ones that were not written to their end";
    let file: File = read_toml(&path, missing)?;
    if file.format != FORMAT || !(file.step > 0.0 && file.step.is_finite()) {
        let problem =
            format!("format {:?}, step {}: {FORMAT:?} and a step above 0 are known", file.format, file.step);
        return Err(Error::Text { path, line: None, problem });
    }
    let (events, hits) = (file.events, file.hits);
    let path = folder.join("positions.npy");
    let positions = Array::open(&path)?.sized(&["f4"], &[events, hits, 3])?.finite()?;
    let path = folder.join("signals.npy");
    let signals = Array::open(&path)?.sized(&["f4"], &[events, CHANNELS, file.samples])?.finite()?;
    let array = |name: &str, kind: &str, sides: &[usize]| -> Result<Array, Error> {
        Ok(Array::open(&folder.join(name))?.sized(&[kind], sides)?)
    };
    let energies = array("energies.npy", "f8", &[events, hits])?.values()?;
    let segments = segments(array("segments.npy", "u1", &[events, hits])?)?;
    Ok(Events {
        sampling: Sampling { samples: file.samples, step: file.step, before: file.before },
        hits,
        signals,
        energies,
        positions: positions.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect(),
        segments,
        timestamps: array("timestamps.npy", "u8", &[events])?.values()?,
    })
}
