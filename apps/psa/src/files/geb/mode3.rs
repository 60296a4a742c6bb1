//! Traces of GRETINA's digitisers (mode 3).
//!
//! The format has big-endian words of 16 bits: for each channel two markers `0xaaaa`, 14 words of a
//! header, and samples. The first word of the header has the board in bits 11 to 15 and the length
//! of header and samples, in pairs of words, in bits 0 to 10. The second has the module from bit 4
//! on and the channel in bits 0 to 3. The content of the other twelve depends on the digitisers'
//! program and is passed on unchanged.
//!
//! ```
//! use zellige_psa::files::geb::{Frame, mode3};
//!
//! let trace = mode3::Trace::new(3, 17, 9, vec![-5, 12, 400, 8191])?;
//! let mut frame = Frame { kind: mode3::KIND, ..Frame::default() };
//! trace.put(&mut frame.payload);
//! assert_eq!(mode3::traces(&frame)?, [trace]);
//! # Ok::<(), zellige_psa::Error>(())
//! ```

use super::Frame;
use crate::Error;
use crate::channels::MOST_SAMPLES;

/// Kind of mode 3 frames.
pub const KIND: u32 = 2;

const MARKER: u16 = 0xaaaa;
/// Number of words of a header.
const HEADER: usize = 14;
/// Mask of the length.
const LENGTH: u16 = 0x7ff;

const _: () = assert!(MOST_SAMPLES == 2 * LENGTH as usize - HEADER);

/// Trace of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    header: [u16; HEADER],
    samples: Vec<i16>,
}

impl Trace {
    /// Creates a trace of a board (below 32), a module (below 4096) and a channel (below 16). The
    /// other words of the header are 0.
    ///
    /// # Errors
    /// [`Error::Parameter`] for numbers out of range, and for an odd number of samples or more than
    /// [`MOST_SAMPLES`].
    pub fn new(board: u16, module: u16, channel: u16, samples: Vec<i16>) -> Result<Trace, Error> {
        let wrong = |name, problem| Err(Error::Parameter { name, problem });
        for (name, number, end) in [("board", board, 32), ("module", module, 4096), ("channel", channel, 16)]
        {
            if number >= end {
                return wrong(name, format!("{number}: there are 0 to {}", end - 1));
            }
        }
        if !samples.len().is_multiple_of(2) || samples.len() > MOST_SAMPLES {
            let problem = format!("{}: take an even number up to {MOST_SAMPLES}", samples.len());
            return wrong("samples of a trace", problem);
        }
        let mut header = [0; HEADER];
        header[0] = board << 11 | ((HEADER + samples.len()) / 2) as u16;
        header[1] = module << 4 | channel;
        Ok(Trace { header, samples })
    }

    /// Returns all words of the header.
    pub fn header(&self) -> &[u16; HEADER] {
        &self.header
    }

    /// Returns the number of the board.
    pub fn board(&self) -> u16 {
        self.header[0] >> 11
    }

    /// Returns the number of the module.
    pub fn module(&self) -> u16 {
        self.header[1] >> 4
    }

    /// Returns the channel of the board.
    pub fn channel(&self) -> u16 {
        self.header[1] & 0xf
    }

    /// Returns the samples, in steps of the digitiser.
    pub fn samples(&self) -> &[i16] {
        &self.samples
    }

    /// Appends the trace to a payload.
    pub fn put(&self, payload: &mut Vec<u8>) {
        let words = [MARKER; 2].into_iter().chain(self.header);
        words.chain(self.samples.iter().map(|&sample| sample as u16)).for_each(|word| {
            payload.extend(word.to_be_bytes());
        });
    }
}

/// Decodes the traces of a frame.
///
/// # Errors
/// [`Error::Stream`] with the byte for a frame of another kind, and if a trace does not begin with
/// its marker, is shorter than its header, or is cut off.
pub fn traces(frame: &Frame) -> Result<Vec<Trace>, Error> {
    /// Number of bytes of the markers.
    const MARKERS: usize = 4;
    const WORDS: usize = 2 * HEADER;
    frame.expect(KIND, "mode 3")?;
    let mut all = Vec::new();
    let mut at = 0;
    while at < frame.payload.len() {
        let rest = &frame.payload[at..];
        let end = at + rest.len();
        if rest.len() < MARKERS + WORDS {
            return Err(frame.wrong(end, "the frame ends here, in the header of a trace"));
        }
        let mut words = rest.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair));
        for marker in 0..2 {
            let found = words.next().unwrap_or_default();
            if found != MARKER {
                let problem = format!("{found:#06x} where a trace begins with {MARKER:#06x}");
                return Err(frame.wrong(at + 2 * marker, problem));
            }
        }
        let header: [u16; HEADER] = std::array::from_fn(|_| words.next().unwrap_or_default());
        let length = 4 * usize::from(header[0] & LENGTH);
        if length < WORDS {
            let problem = format!("a trace of {length} bytes: its header has {WORDS}");
            return Err(frame.wrong(at + MARKERS, problem));
        }
        if MARKERS + length > rest.len() {
            return Err(frame.wrong(end, format!("the frame ends here, in a trace of {length} bytes")));
        }
        let samples = words.take((length - WORDS) / 2).map(|word| word as i16).collect();
        all.push(Trace { header, samples });
        at += MARKERS + length;
    }
    Ok(all)
}
