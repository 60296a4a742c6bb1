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

use super::parse_toml;
use crate::Error;
use crate::channels::map::{ChannelMap, ContactSource, MOST_SAMPLES, contact_name};
use crate::channels::{CHANNELS, Channel, Segment};

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

/// Size limit of files of maps (bytes).
const MOST_BYTES: u64 = 1 << 20;

/// Reads a map of channels from a file.
///
/// # Errors
/// [`Error::File`] if the file cannot be read, and those of [`parse_channel_map`].
pub fn read_channel_map(path: &Path) -> Result<ChannelMap, Error> {
    let cannot = |source| Error::system(path, "cannot read the map of channels", source);
    parse_channel_map(path, &zellige_files::read_text(path, MOST_BYTES).map_err(cannot)?)
}

/// Parses the text of a map of channels; errors call it `name`.
///
/// # Errors
/// [`Error::Text`] for invalid TOML, unknown keys, invalid numbers, a channel or a contact that
/// is named twice, and contacts that are missing.
pub fn parse_channel_map(name: &Path, text: &str) -> Result<ChannelMap, Error> {
    let file: ChannelMapFile = parse_toml(name, text)?;
    let wrong = |problem| Error::Text { path: name.to_owned(), line: None, problem };
    let refuse = |problem: String| Err(wrong(problem));
    if !(file.step > 0.0 && file.step <= 1e6) {
        return refuse(format!("step = {}: ns between samples, above 0", file.step));
    }
    if file.baseline == 0 || file.baseline.max(file.begin) > MOST_SAMPLES {
        let most = MOST_SAMPLES;
        return refuse(format!(
            "baseline = {}, begin = {}: 1 to {most} samples, 0 to {most}",
            file.baseline, file.begin
        ));
    }
    let (mut sources, mut named) = (HashMap::new(), [false; CHANNELS]);
    for (number, entry) in file.channel.into_iter().enumerate() {
        let refuse = |problem: String| Err(wrong(format!("channel {number} of the file: {problem}")));
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
        if late.is_nan() || late.abs() > MOST_SAMPLES as f64 {
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
