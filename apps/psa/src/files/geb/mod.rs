//! Frames of GRETINA's event files (GEB), read from and written to any stream.
//!
//! | module | payload of a frame |
//! |---|---|
//! | [`mode2`] | points of interaction in a crystal |
//! | [`mode3`] | traces of digitisers |
//!
//! A frame begins with a header of 16 bytes, little-endian: the kind of the payload and its length
//! in bytes, `int32` each, and its time in 10 ns, `int64`. The layouts are those of public programs
//! that read such files; the code has not been tested with files of an experiment.
//!
//! ```
//! use zellige_psa::files::geb::{Frame, FrameReader, write_frame};
//!
//! let mut bytes = Vec::new();
//! write_frame(&mut bytes, 7, 123_456, b"anything")?;
//! let (mut reader, mut frame) = (FrameReader::new(&bytes[..]), Frame::default());
//! while reader.next(&mut frame)? {
//!     assert_eq!((frame.kind, frame.timestamp, &frame.payload[..]), (7, 123_456, &b"anything"[..]));
//! }
//! assert_eq!(reader.offset(), 24);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod mode2;
pub mod mode3;

use std::io::{self, BufReader, Read, Write};

use super::{fill, word};
use crate::Error;

/// Number of bytes of a frame's header.
pub const HEADER: usize = 16;

/// Limit of the bytes of a payload: three times the longest traces of a crystal.
pub const LONGEST: usize = 1 << 20;

/// A frame. Its memory is reused if it is read into again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Kind of the payload: 1 for [`mode2`], 2 for [`mode3`].
    pub kind: u32,
    /// Time of the frame (10 ns).
    pub timestamp: u64,
    /// Payload of the frame.
    pub payload: Vec<u8>,
    /// Offset of the frame in the stream from which it was read (bytes).
    pub offset: u64,
}

impl Frame {
    /// Returns an error at a byte of the payload.
    fn wrong(&self, at: usize, problem: impl Into<String>) -> Error {
        Error::Stream { offset: self.offset + (HEADER + at) as u64, problem: problem.into() }
    }

    /// Checks the kind of the frame.
    ///
    /// # Errors
    /// [`Error::Stream`] for another kind of frame.
    fn expect(&self, kind: u32, name: &str) -> Result<(), Error> {
        let problem = || format!("a frame of kind {}: {name} is kind {kind}", self.kind);
        if self.kind == kind {
            Ok(())
        } else {
            Err(Error::Stream { offset: self.offset, problem: problem() })
        }
    }
}

/// Reader of frames, one after the other. It holds at most one payload and allocates only for the
/// bytes that arrive.
#[derive(Debug)]
pub struct FrameReader<R> {
    stream: BufReader<R>,
    offset: u64,
}

impl<R: Read> FrameReader<R> {
    /// Creates a reader at the beginning of a stream.
    pub fn new(stream: R) -> Self {
        FrameReader::starting_at(stream, 0)
    }

    /// Creates a reader that continues a stream after `offset` bytes.
    pub fn starting_at(stream: R, offset: u64) -> Self {
        FrameReader { stream: BufReader::with_capacity(1 << 16, stream), offset }
    }

    /// Returns the number of bytes of the frames that have been read, the offset of the next one.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the next frame; returns `false` at the end of the stream. Blocks if the stream does.
    ///
    /// # Errors
    /// [`Error::Stream`] with the byte if the stream cannot be read, ends within a frame, or
    /// announces a payload that is longer than [`LONGEST`] or has a negative length. The rest of
    /// the stream cannot be read then.
    pub fn next(&mut self, frame: &mut Frame) -> Result<bool, Error> {
        let begin = self.offset;
        let wrong = |at: usize, problem: String| Error::Stream { offset: begin + at as u64, problem };
        let mut header = [0; HEADER];
        match fill(&mut self.stream, &mut header).map_err(|e| wrong(0, unreadable(&e)))? {
            0 => return Ok(false),
            HEADER => {}
            part => {
                return Err(wrong(part, format!("the stream ends here, in a header of {HEADER} bytes")));
            }
        }
        let promised = i32::from_le_bytes(word(&header, 4));
        let length = usize::try_from(promised).ok().filter(|&length| length <= LONGEST).ok_or_else(|| {
            wrong(
                4,
                format!(
                    "a payload of {promised} bytes: one has 0 to {LONGEST}, so that no frame begins here"
                ),
            )
        })?;
        frame.payload.clear();
        // The buffer grows with the bytes that arrive, not with the announced length.
        let body = (&mut self.stream).take(length as u64).read_to_end(&mut frame.payload);
        let part = body.map_err(|e| wrong(HEADER + frame.payload.len(), unreadable(&e)))?;
        if part < length {
            let problem = format!("the stream ends here, in a payload of {length} bytes");
            return Err(wrong(HEADER + part, problem));
        }
        frame.kind = u32::from_le_bytes(word(&header, 0));
        frame.timestamp = u64::from_le_bytes(long(&header, 8));
        frame.offset = begin;
        self.offset += (HEADER + length) as u64;
        Ok(true)
    }
}

fn unreadable(error: &io::Error) -> String {
    format!("the stream cannot be read here: {error}")
}

/// Writes a frame of a kind, at a time (10 ns).
///
/// # Errors
/// Those of the stream; [`io::ErrorKind::InvalidInput`] for a payload that is longer than
/// [`LONGEST`], in which case nothing is written.
pub fn write_frame(stream: &mut impl Write, kind: u32, timestamp: u64, payload: &[u8]) -> io::Result<()> {
    if payload.len() > LONGEST {
        let problem = format!("a payload of {} bytes: a frame has {LONGEST} at most", payload.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&kind.to_le_bytes());
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[8..].copy_from_slice(&timestamp.to_le_bytes());
    stream.write_all(&header)?;
    stream.write_all(payload)
}

/// Returns eight bytes of a record.
fn long(bytes: &[u8], at: usize) -> [u8; 8] {
    std::array::from_fn(|i| bytes[at + i])
}
