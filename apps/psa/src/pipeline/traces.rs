//! Events of a crystal in a file of frames: digitiser traces (mode 3) with a map of their channels,
//! or the traces that `zellige psa frames --channels all` writes.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::stream::record::{KIND, Traces};
use crate::Error;
use crate::channels::map::{ChannelMap, ContactSource, contact_name};
use crate::channels::{CHANNELS, Channel};
use crate::files::geb::mode3::{self, Trace};
use crate::files::geb::{Frame, FrameReader};
use crate::files::refuse_foreign;
use crate::search::Event;

/// Reader of events, one after the other; frames of other kinds are skipped.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    reader: FrameReader<File>,
    frame: Frame,
    size: u64,
}

/// Additional input that is needed to read an event file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// A map of channels: the first frame with traces has digitiser traces.
    Map,
    /// Nothing: the traces are those of contacts.
    Nothing,
}

impl EventFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::File`], also for files of other programs, by name.
    pub fn open(path: &Path) -> Result<Self, Error> {
        refuse_foreign(path)?;
        let cannot = |source| Error::system(path, "cannot read the events", source);
        let file = File::open(path).map_err(cannot)?;
        let size = file.metadata().map_err(cannot)?.len();
        Ok(EventFile { path: path.to_owned(), reader: FrameReader::new(file), frame: Frame::default(), size })
    }

    /// Returns the additional input that the first frame with traces needs.
    ///
    /// # Errors
    /// [`Error::File`] for an invalid frame, and if no frame holds traces.
    pub fn needs(path: &Path) -> Result<Needs, Error> {
        let mut file = EventFile::open(path)?;
        while file.frame()? {
            match file.frame.kind {
                mode3::KIND => return Ok(Needs::Map),
                KIND => return Ok(Needs::Nothing),
                _ => {}
            }
        }
        let problem =
            "no frame holds traces: neither those of digitisers (mode 3) nor those of `zellige psa frames`";
        Err(Error::content(&file.path, None, problem))
    }

    /// Returns the number of bytes that have been read, and the size of the file.
    pub fn progress(&self) -> [u64; 2] {
        [self.reader.offset(), self.size]
    }

    /// Reads the next event, `None` at the end of the file. With a map, the event has `samples`
    /// samples of each contact.
    ///
    /// # Errors
    /// [`Error::File`] with the byte for an invalid frame or an event that is not of a whole
    /// crystal.
    pub fn next(&mut self, map: Option<&ChannelMap>, samples: usize) -> Result<Option<Event>, Error> {
        while self.frame()? {
            let event = match (self.frame.kind, map) {
                (mode3::KIND, Some(map)) => map.event(&self.frame, samples),
                (KIND, _) => Traces::of(&self.frame).map(|traces| traces.event),
                _ => continue,
            };
            return event.map(Some).map_err(|error| self.located(error));
        }
        Ok(None)
    }

    fn frame(&mut self) -> Result<bool, Error> {
        let read = self.reader.next(&mut self.frame);
        read.map_err(|error| self.located(error))
    }

    /// Converts an error of the stream to an error of the file; the byte offsets are equal.
    fn located(&self, error: Error) -> Error {
        match error {
            Error::Stream { offset, problem } => Error::content(&self.path, Some(offset), problem),
            other => other,
        }
    }
}

impl ChannelMap {
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
