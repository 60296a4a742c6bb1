//! Sources of frames.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use crate::files::geb::{Frame, FrameReader};

/// Position in an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Number of bytes before it.
    pub offset: u64,
    /// Number of frames before it.
    pub frames: u64,
}

/// Result of an attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A frame was read, up to this position of the input.
    Frame(Mark),
    /// The connection was lost; the next attempt waits for another one.
    Lost,
    /// The source has ended.
    End,
}

/// A source of frames, one after the other.
pub trait Source: Send {
    /// Reads the next frame; blocks until there is one.
    ///
    /// # Errors
    /// [`Error::Stream`], after which nothing can be read.
    fn next(&mut self, frame: &mut Frame) -> Result<Next, Error>;

    /// Returns the channel that notifies the sender of safe frames.
    fn acknowledger(&self) -> Acknowledger {
        Acknowledger::default()
    }
}

/// Notifies a sender, if there is one, of the number of safe frames.
#[derive(Clone, Debug, Default)]
pub struct Acknowledger(pub(super) Arc<Mutex<Option<TcpStream>>>);

impl Acknowledger {
    /// Sends the number of safe frames. A sender that is gone receives it when it reconnects.
    pub fn send(&self, frames: u64) {
        use std::io::Write;
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.as_mut().is_some_and(|stream| stream.write_all(&frames.to_le_bytes()).is_err()) {
            *sender = None;
        }
    }
}

/// A source that ends once: a file, a pipe, or another stream.
#[derive(Debug)]
pub struct Once<R> {
    frames: FrameReader<R>,
    count: u64,
}

impl<R: Read + Send> Once<R> {
    /// Creates a source at the beginning of a stream.
    pub fn new(stream: R) -> Once<R> {
        Once { frames: FrameReader::new(stream), count: 0 }
    }
}

impl Once<File> {
    /// Opens a file at the position that an earlier run reached.
    ///
    /// # Errors
    /// [`Error::File`], also for a file that is shorter than that.
    pub fn open(path: &Path, from: Mark) -> Result<Once<File>, Error> {
        let cannot = |source| Error::system(path, "cannot read the events", source);
        let mut file = File::open(path).map_err(cannot)?;
        let length = file.metadata().map_err(cannot)?.len();
        if from.offset > length {
            let problem = format!(
                "{length} bytes, but an earlier run had read to byte {}: use the same file",
                from.offset
            );
            return Err(Error::content(path, Some(length), problem));
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
