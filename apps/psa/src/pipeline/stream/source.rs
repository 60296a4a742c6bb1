//! Where frames come from.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use crate::files::geb::{Frame, FrameReader};

/// Where an input stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Bytes of it.
    pub offset: u64,
    /// Frames of it.
    pub frames: u64,
}

/// What came of an attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A frame; the input then stands here.
    Frame(Mark),
    /// A connection was lost; the next attempt waits for another one.
    Lost,
    /// Nothing follows.
    End,
}

/// Frames, one after the other.
pub trait Source: Send {
    /// Reads the next frame; waits where there is none yet.
    ///
    /// # Errors
    /// [`Error::Stream`], after which nothing can be read.
    fn next(&mut self, frame: &mut Frame) -> Result<Next, Error>;

    /// Who is told how many frames are safe.
    fn acknowledger(&self) -> Acknowledger {
        Acknowledger::default()
    }
}

/// Tells a sender how many frames are safe, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Acknowledger(pub(super) Arc<Mutex<Option<TcpStream>>>);

impl Acknowledger {
    /// Tells it. A sender that is gone asks again when it comes back.
    pub fn send(&self, frames: u64) {
        use std::io::Write;
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.as_mut().is_some_and(|stream| stream.write_all(&frames.to_le_bytes()).is_err()) {
            *sender = None;
        }
    }
}

/// A file, a pipe, or anything else that ends once.
#[derive(Debug)]
pub struct Once<R> {
    frames: FrameReader<R>,
    count: u64,
}

impl<R: Read + Send> Once<R> {
    /// From the beginning.
    pub fn new(stream: R) -> Once<R> {
        Once { frames: FrameReader::new(stream), count: 0 }
    }
}

impl Once<File> {
    /// A file, from a place that an earlier run came to.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Format`] for a file that is shorter than that.
    pub fn open(path: &Path, from: Mark) -> Result<Once<File>, Error> {
        let cannot =
            |source| Error::File { path: path.to_owned(), problem: "cannot read the events", source };
        let mut file = File::open(path).map_err(cannot)?;
        let length = file.metadata().map_err(cannot)?.len();
        if from.offset > length {
            let problem =
                format!("{length} bytes; an earlier run had come to byte {}: another file?", from.offset);
            return Err(Error::Format { path: path.to_owned(), offset: Some(length), problem });
        }
        file.seek(SeekFrom::Start(from.offset)).map_err(cannot)?;
        Ok(Once { frames: FrameReader::starting_at(file, from.offset), count: from.frames })
    }
}

impl<R: Read + Send> Source for Once<R> {
    fn next(&mut self, frame: &mut Frame) -> Result<Next, Error> {
        if !self.frames.next(frame)? {
            return Ok(Next::End);
        }
        self.count += 1;
        Ok(Next::Frame(Mark { offset: self.frames.offset(), frames: self.count }))
    }
}
