//! Traces of an event as the payload of a frame.
//!
//! The format is little-endian, 24 bytes and the samples: version (`uint32`), crystal (`int32`),
//! segment (`int16`, -1 if the channels are all 37), channels, samples, zero (`uint16` each),
//! energy and keV of a sample's unit (`float32`), then `int16` by channel and sample. The time is
//! in the frame's header.

use crate::Error;
use crate::channels::{CHANNELS, Segment};
use crate::files::geb::{Frame, HEADER as FRAME};
use crate::search::Event;

/// Kind of frames with traces.
pub const KIND: u32 = 0x5a50;
/// Kind of the frame that marks the end of the stream; it has no payload.
pub const END: u32 = 0x5a51;
/// Kind of the keep-alive frame of a sender; it has no payload.
pub const KEEP: u32 = 0x5a52;
/// Version word at the beginning of payloads.
const VERSION: u32 = 0x5a50_0001;
/// Number of bytes before the samples.
const HEADER: usize = 24;

/// Traces of an event, and the crystal that they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// Number of the crystal.
    pub crystal: i32,
    /// Event to be searched for.
    pub event: Event,
}

impl Traces {
    /// Decodes a frame.
    ///
    /// # Errors
    /// [`Error::Stream`] with the byte for another kind of frame, another version, sizes that do
    /// not match, a segment that does not exist, and invalid numbers.
    pub fn of(frame: &Frame) -> Result<Traces, Error> {
        let wrong = |at: usize, problem: String| Error::Stream {
            offset: frame.offset + (FRAME + at) as u64,
            problem,
        };
        if frame.kind != KIND {
            let problem = format!("a frame of kind {:#06x}: traces are kind {KIND:#06x}", frame.kind);
            return Err(Error::Stream { offset: frame.offset, problem });
        }
        let Some((header, samples)) = frame.payload.split_first_chunk::<HEADER>() else {
            let problem = format!("a payload of {} bytes: traces have {HEADER} or more", frame.payload.len());
            return Err(wrong(0, problem));
        };
        let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
        let half = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let version = u32::from_le_bytes(word(0));
        if version != VERSION {
            return Err(wrong(
                0,
                format!("traces of version {version:#010x}: version {VERSION:#010x} is supported"),
            ));
        }
        let (channels, length) = (half(10), half(12));
        if samples.len() != 2 * channels * length || channels == 0 || length == 0 {
            let problem = format!("{channels} channels of {length} samples in {} bytes", samples.len());
            return Err(wrong(10, problem));
        }
        let (energy, unit) = (f32::from_le_bytes(word(16)), f32::from_le_bytes(word(20)));
        if !(unit.is_finite() && unit > 0.0 && energy.is_finite()) {
            return Err(wrong(16, format!("an energy of {energy} keV, units of {unit} keV")));
        }
        let hit = match i16::from_le_bytes([header[8], header[9]]) {
            -1 if channels == CHANNELS => None,
            -1 => return Err(wrong(10, format!("{channels} channels of a crystal: it has {CHANNELS}"))),
            number => {
                let segment = usize::try_from(number).ok().and_then(Segment::from_index);
                let segment =
                    segment.ok_or_else(|| wrong(8, format!("segment {number}: there are 0 to 35")))?;
                Some((segment, f64::from(energy)))
            }
        };
        let steps = || samples.as_chunks().0.iter().map(|&sample| i16::from_le_bytes(sample));
        let signals = steps().map(|sample| f32::from(sample) * unit).collect();
        let ends = steps().enumerate().filter(|(_, sample)| [i16::MIN, i16::MAX].contains(sample));
        let saturated = ends.map(|(at, _)| at as u32).collect();
        let event = Event { timestamp: frame.timestamp.saturating_mul(10), hit, signals, saturated };
        Ok(Traces { crystal: i32::from_le_bytes(word(4)), event })
    }

    /// Encodes the traces into a payload, replacing its previous content, with samples in units of
    /// `unit` (keV). Returns the number of samples that do not fit 16 bits and are clipped.
    ///
    /// # Errors
    /// [`Error::Shape`] for signals that are no channels of one length; [`Error::Parameter`] for a
    /// unit that is not above 0.
    pub fn put(&self, channels: usize, unit: f32, payload: &mut Vec<u8>) -> Result<usize, Error> {
        let signals = &self.event.signals;
        let samples = signals.len().checked_div(channels).unwrap_or(0);
        let sizes = u16::try_from(channels).ok().zip(u16::try_from(samples).ok());
        let Some((count, length)) = sizes.filter(|_| samples > 0 && channels * samples == signals.len())
        else {
            return Err(Error::shape(
                "signals of an event",
                format!("{} samples of {channels} channels", signals.len()),
            ));
        };
        if !(unit.is_finite() && unit > 0.0) {
            return Err(Error::Parameter {
                name: "unit",
                problem: format!("{unit} keV: a unit above 0 is needed"),
            });
        }
        let (segment, energy) =
            self.event.hit.map_or((-1, 0.0), |(segment, energy)| (segment.index() as i16, energy));
        payload.clear();
        let mut put = |bytes: &[u8]| payload.extend_from_slice(bytes);
        put(&VERSION.to_le_bytes());
        put(&self.crystal.to_le_bytes());
        put(&segment.to_le_bytes());
        [count, length, 0].iter().for_each(|size| put(&size.to_le_bytes()));
        put(&(energy as f32).to_le_bytes());
        put(&unit.to_le_bytes());
        let mut clipped = 0;
        for &x in signals {
            let steps = (x / unit).round();
            clipped += usize::from(!(f32::from(i16::MIN)..=f32::from(i16::MAX)).contains(&steps));
            put(&(steps as i16).to_le_bytes());
        }
        Ok(clipped)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn traces(hit: Option<(Segment, f64)>, channels: usize) -> Traces {
        let signals = (0..channels * 5).map(|i| i as f32 * 0.5 - 3.0).collect();
        Traces { crystal: 7, event: Event { timestamp: 120, hit, signals, saturated: Vec::new() } }
    }

    fn frame(traces: &Traces, channels: usize) -> Frame {
        let mut payload = Vec::new();
        traces.put(channels, 0.5, &mut payload).expect("sizes that fit");
        Frame { kind: KIND, timestamp: traces.event.timestamp / 10, payload, offset: 100 }
    }

    #[test]
    fn traces_come_back() {
        let hit = Segment::from_index(14).map(|segment| (segment, 661.5));
        for (traces, channels) in [(traces(hit, 2), 2), (traces(None, CHANNELS), CHANNELS)] {
            assert_eq!(Traces::of(&frame(&traces, channels)).expect("traces"), traces);
        }
        let mut wrong = frame(&traces(hit, 2), 2);
        wrong.payload[8] = 36;
        let problem = Traces::of(&wrong).expect_err("no segment").to_string();
        assert!(problem.contains("byte 124") && problem.contains("36"), "{problem}");
        assert!(traces(hit, 2).put(3, 0.5, &mut Vec::new()).is_err());
        // Of -3, -2.5, ... 1.5 keV, those beyond 16 bits are clipped, counted and flagged when they
        // are read.
        let (unit, mut payload) = (2.0 / 32_768.0, Vec::new());
        assert_eq!(traces(hit, 2).put(2, unit, &mut payload).expect("traces"), 2);
        let clipped = Traces::of(&Frame { kind: KIND, timestamp: 0, payload, offset: 0 }).expect("traces");
        assert_eq!(clipped.event.saturated, [0, 1, 2], "-2 keV is the end of the range");
        assert!(traces(hit, 2).put(2, 0.0, &mut Vec::new()).is_err());
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(payload in proptest::collection::vec(any::<u8>(), 0..200), keep in 0usize..200) {
            let _ = Traces::of(&Frame { kind: KIND, timestamp: u64::MAX, payload: payload.clone(), offset: 0 });
            // A valid header, followed by arbitrary bytes.
            let mut good = frame(&traces(None, CHANNELS), CHANNELS).payload;
            good.truncate(keep.max(HEADER));
            good.extend(&payload);
            let _ = Traces::of(&Frame { kind: KIND, timestamp: 0, payload: good, offset: 0 });
        }
    }
}
