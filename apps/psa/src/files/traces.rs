//! Events of a crystal in a file of frames: digitiser traces (mode 3) with a map of their channels,
//! or the traces that `zellige psa frames --channels all` writes.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::channel_map::ChannelMap;
use super::geb::{Frame, FrameReader, mode3};
use super::refuse_foreign;
use crate::Error;
use crate::pipeline::stream::record::{KIND, Traces};
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
    /// [`Error::File`]; [`Error::Format`] for files of other programs, by name.
    pub fn open(path: &Path) -> Result<Self, Error> {
        refuse_foreign(path)?;
        let cannot =
            |source| Error::File { path: path.to_owned(), problem: "cannot read the events", source };
        let file = File::open(path).map_err(cannot)?;
        let size = file.metadata().map_err(cannot)?.len();
        Ok(EventFile { path: path.to_owned(), reader: FrameReader::new(file), frame: Frame::default(), size })
    }

    /// Returns the additional input that the first frame with traces needs.
    ///
    /// # Errors
    /// [`Error::Format`] for an invalid frame, and if no frame holds traces.
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
        Err(Error::Format { path: file.path, offset: None, problem: problem.into() })
    }

    /// Returns the number of bytes that have been read, and the size of the file.
    pub fn progress(&self) -> [u64; 2] {
        [self.reader.offset(), self.size]
    }

    /// Reads the next event, `None` at the end of the file. With a map, the event has `samples`
    /// samples of each contact.
    ///
    /// # Errors
    /// [`Error::Format`] with the byte for an invalid frame or an event that is not of a whole
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
            Error::Stream { offset, problem } => {
                Error::Format { path: self.path.clone(), offset: Some(offset), problem }
            }
            other => other,
        }
    }
}
