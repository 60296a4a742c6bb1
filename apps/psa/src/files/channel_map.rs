//! Assignment of digitiser channels to the contacts of a crystal, in TOML:
//!
//! | key | content |
//! | --- | --- |
//! | `step` | time between samples (ns), equal to that of the basis |
//! | `baseline` | number of samples at the beginning of a trace; their mean is subtracted from the trace |
//! | `begin` | sample of a trace with `t0 = 0` that is the first one of the event |
//! | `[[channel]]` | one for each of the 37 contacts |
//! | `board`, `module`, `channel` | numbers in the header of the trace |
//! | `segment` | 0 to 35 (`6 sector + ring`), or `"core"` |
//! | `gain` | keV of one step of the digitiser, above 0 |
//! | `polarity` | 1 if collected charge raises the trace, -1 if it lowers it |
//! | `t0` | delay of the channel relative to the others (ns), by which its samples are read later; 0 by default |
//!
//! Traces of channels that the map does not name are ignored.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use crate::Error;
use crate::channels::{CHANNELS, Channel, Segment};
use crate::files::geb::Frame;
use crate::files::geb::mode3::{self, Trace};
use crate::search::Event;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelMapFile {
    step: f64,
    baseline: usize,
    begin: usize,
    channel: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    board: u16,
    module: u16,
    channel: u16,
    segment: Contact,
    gain: f64,
    polarity: i8,
    #[serde(default)]
    t0: f64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Contact {
    Segment(usize),
    Word(String),
}

/// Source of a contact's samples: conversion of its trace.
#[derive(Clone, Debug, PartialEq)]
struct ContactSource {
    contact: Channel,
    /// Energy of one step (keV), with the sign of the polarity.
    unit: f64,
    /// Delay in samples.
    late: f64,
}

/// A map from channels of digitisers to the contacts of a crystal.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelMap {
    step: f64,
    baseline: usize,
    begin: usize,
    /// Sources by board, module and channel.
    sources: HashMap<[u16; 3], ContactSource>,
}

/// Size limit of files of maps (bytes).
const MOST_BYTES: u64 = 1 << 20;

impl ChannelMap {
    /// Reads a map from a file.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be read, and those of [`ChannelMap::parse`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let cannot = |source| Error::File {
            path: path.to_owned(),
            problem: "cannot read the map of channels",
            source,
        };
        ChannelMap::parse(path, &zellige_files::read_text(path, MOST_BYTES).map_err(cannot)?)
    }

    /// Parses the text of a map; errors call it `name`.
    ///
    /// # Errors
    /// [`Error::Text`] for invalid TOML, unknown keys, invalid numbers, a channel or a contact that
    /// is named twice, and contacts that are missing.
    pub fn parse(name: &Path, text: &str) -> Result<Self, Error> {
        let wrong = |line, problem| Error::Text { path: name.to_owned(), line, problem };
        let file: ChannelMapFile = toml::from_str(text).map_err(|e| {
            let line =
                e.span().map(|span| 1 + text.bytes().take(span.start).filter(|&byte| byte == b'\n').count());
            wrong(line, e.message().to_owned())
        })?;
        let refuse = |problem: String| Err(wrong(None, problem));
        if !(file.step > 0.0 && file.step <= 1e6) {
            return refuse(format!("step = {}: ns between samples, above 0", file.step));
        }
        if file.baseline == 0 || file.baseline.max(file.begin) > mode3::MOST_SAMPLES {
            let most = mode3::MOST_SAMPLES;
            return refuse(format!(
                "baseline = {}, begin = {}: 1 to {most} samples, 0 to {most}",
                file.baseline, file.begin
            ));
        }
        let (mut sources, mut named) = (HashMap::new(), [false; CHANNELS]);
        for (number, entry) in file.channel.into_iter().enumerate() {
            let refuse =
                |problem: String| Err(wrong(None, format!("channel {number} of the file: {problem}")));
            let contact = match &entry.segment {
                Contact::Segment(segment) => Segment::from_index(*segment).map(Channel::from),
                Contact::Word(word) if word == "core" => Some(Channel::CORE),
                Contact::Word(_) => None,
            };
            let Some(contact) = contact else {
                return refuse("segment: a number from 0 to 35, or \"core\"".into());
            };
            if !(entry.gain > 0.0 && entry.gain <= 1e6) {
                return refuse(format!("gain = {}: keV of one step, above 0", entry.gain));
            }
            if entry.polarity.abs() != 1 {
                return refuse(format!("polarity = {}: 1 or -1", entry.polarity));
            }
            let late = entry.t0 / file.step;
            if late.is_nan() || late.abs() > mode3::MOST_SAMPLES as f64 {
                return refuse(format!("t0 = {} ns: longer than any trace", entry.t0));
            }
            if std::mem::replace(&mut named[contact.index()], true) {
                return refuse(format!("{} is named before", contact_name(contact)));
            }
            let unit = entry.gain * f64::from(entry.polarity);
            let place = [entry.board, entry.module, entry.channel];
            if sources.insert(place, ContactSource { contact, unit, late }).is_some() {
                return refuse(format!(
                    "board {}, module {}, channel {} is named before",
                    place[0], place[1], place[2]
                ));
            }
        }
        let missing: Vec<String> =
            (0..CHANNELS).filter(|&c| !named[c]).filter_map(Channel::from_index).map(contact_name).collect();
        if !missing.is_empty() {
            return refuse(format!("no channel for {}", missing.join(", ")));
        }
        Ok(ChannelMap { step: file.step, baseline: file.baseline, begin: file.begin, sources })
    }

    /// Returns the time between samples (ns).
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Builds the event of a frame of digitiser traces: `samples` samples of each contact in keV,
    /// with the baselines subtracted.
    ///
    /// # Errors
    /// [`Error::Stream`] with the byte for a frame of another kind, a contact without a trace or
    /// with two, and a trace that is too short.
    pub fn event(&self, frame: &Frame, samples: usize) -> Result<Event, Error> {
        let wrong = |problem: String| Error::Stream { offset: frame.offset, problem };
        let (mut signals, mut seen) = (vec![0.0; CHANNELS * samples], [false; CHANNELS]);
        let mut saturated = Vec::new();
        for trace in mode3::traces(frame)? {
            let Some(source) = self.sources.get(&[trace.board(), trace.module(), trace.channel()]) else {
                continue;
            };
            let contact = source.contact;
            if std::mem::replace(&mut seen[contact.index()], true) {
                return Err(wrong(format!("two traces of {}", contact_name(contact))));
            }
            let out = &mut signals[contact.index() * samples..][..samples];
            self.put(&trace, source, out)
                .map_err(|problem| wrong(format!("{}: {problem}", contact_name(contact))))?;
            let first = (self.begin as f64 + source.late).floor() as usize;
            // A sample between two others is clipped if one of these is.
            let ends = |pair: &[i16]| pair.iter().any(|sample| [i16::MIN, i16::MAX].contains(sample));
            let pairs = trace.samples()[first..].windows(2).take(samples).enumerate();
            let begin = contact.index() * samples;
            saturated.extend(pairs.filter(|(_, pair)| ends(pair)).map(|(at, _)| (begin + at) as u32));
        }
        match seen.iter().position(|seen| !seen).and_then(Channel::from_index) {
            Some(contact) => Err(wrong(format!(
                "no trace of {}: all {CHANNELS} contacts are needed",
                contact_name(contact)
            ))),
            None => {
                Ok(Event { timestamp: frame.timestamp.saturating_mul(10), hit: None, signals, saturated })
            }
        }
    }

    /// Writes the samples of a trace, interpolated if `t0` is no multiple of the step.
    fn put(&self, trace: &Trace, source: &ContactSource, out: &mut [f32]) -> Result<(), String> {
        let samples = trace.samples();
        let first = self.begin as f64 + source.late;
        let last = first + out.len().saturating_sub(1) as f64;
        if self.baseline > samples.len() || first < 0.0 || last > samples.len().saturating_sub(1) as f64 {
            return Err(format!(
                "a trace of {} samples: the first {} and those from {first} to {last} are needed (baseline, begin, t0 of the map)",
                samples.len(),
                self.baseline
            ));
        }
        let baseline =
            samples[..self.baseline].iter().map(|&x| f64::from(x)).sum::<f64>() / self.baseline as f64;
        for (k, out) in out.iter_mut().enumerate() {
            let at = first + k as f64;
            let (before, share) = (at.floor(), at.fract());
            let at = |k: usize| f64::from(samples[k.min(samples.len() - 1)]);
            let value = at(before as usize) * (1.0 - share) + at(before as usize + 1) * share;
            *out = (source.unit * (value - baseline)) as f32;
        }
        Ok(())
    }
}

fn contact_name(contact: Channel) -> String {
    if contact == Channel::CORE { "the core".into() } else { format!("segment {}", contact.index()) }
}
