//! Events of a crystal in a file of frames: traces of digitisers (mode 3) with a map of their
//! channels, or those that `zellige psa frames --channels all` writes.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::channel_map::ChannelMap;
use super::geb::{Frame, FrameReader, mode3};
use super::refuse_foreign;
use crate::Error;
use crate::pipeline::stream::record::{KIND, Traces};
use crate::search::Event;

/// Reads events one after the other; frames of other kinds are left out.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    reader: FrameReader<File>,
    frame: Frame,
    size: u64,
}

/// What an event file needs to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// A map of channels: its first frame with traces is of digitisers.
    Map,
    /// Nothing: its traces are those of contacts.
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

    /// What the first frame with traces needs.
    ///
    /// # Errors
    /// [`Error::Format`] for what is no frame, and where no frame holds traces.
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

    /// Bytes that have been read, and bytes of the file.
    pub fn progress(&self) -> [u64; 2] {
        [self.reader.offset(), self.size]
    }

    /// The next event, with `samples` of each contact where a map says how they are found; none
    /// where the file has ended.
    ///
    /// # Errors
    /// [`Error::Format`] with the byte for what is no frame or no event of a whole crystal.
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

    /// Bytes of a stream are bytes of the file.
    fn located(&self, error: Error) -> Error {
        match error {
            Error::Stream { offset, problem } => {
                Error::Format { path: self.path.clone(), offset: Some(offset), problem }
            }
            other => other,
        }
    }
}
