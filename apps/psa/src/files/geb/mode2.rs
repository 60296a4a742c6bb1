//! Points of interaction in a crystal, the output of GRETINA's signal decomposition (mode 2,
//! version `0xabcd5678`).
//!
//! The format is little-endian: a header of 80 bytes and 24 bytes a point. The header has version,
//! crystal, number of points, `int32`; total energy, `float32`; four energies of the core, `int32`;
//! times of the event and of its trigger, `int64`; T0, CFD, chi square, chi square by degree of
//! freedom, baseline, and the core before and after its step, `float32`; an error word, `int32`. A
//! point has x, y, z, energy, `float32`; segment, `int32`; energy of the segment, `float32`.
//! Payloads are written with space for 16 points, since other programs expect records of one size.
//! The space after the points is zero when written, and ignored when read.
//!
//! ```
//! use zellige_psa::files::geb::{Frame, FrameReader, mode2, write_frame};
//!
//! let event = mode2::Decomposed { crystal: 5, total_energy: 1332.5, timestamp: 42, ..Default::default() };
//! let (mut bytes, mut payload) = (Vec::new(), Vec::new());
//! event.put(&mut payload)?;
//! write_frame(&mut bytes, mode2::KIND, event.timestamp, &payload)?;
//!
//! let (mut reader, mut frame) = (FrameReader::new(&bytes[..]), Frame::default());
//! assert!(reader.next(&mut frame)?);
//! assert_eq!(mode2::Decomposed::of(&frame)?, event);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::{Frame, LONGEST, long};
use crate::Error;
use crate::channels::Segment;
use crate::files::{gretina, word};

/// Kind of mode 2 frames.
pub const KIND: u32 = 1;

/// Version word at the beginning of the payload.
pub const VERSION: u32 = 0xabcd_5678;

/// Limit of the points of a payload.
pub const MOST_POINTS: usize = 16;

/// Number of bytes of a payload that is written here.
pub const PAYLOAD: usize = HEADER + MOST_POINTS * POINT;

const HEADER: usize = 80;
const POINT: usize = 24;
const _: () = assert!(PAYLOAD <= LONGEST);

/// Decomposed event of a crystal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decomposed {
    /// Number of the crystal.
    pub crystal: i32,
    /// Energy of the core (keV).
    pub total_energy: f32,
    /// Energies of the core from four digitisers, not calibrated.
    pub core_energies: [i32; 4],
    /// Time of the event (10 ns).
    pub timestamp: u64,
    /// Time of its trigger (10 ns).
    pub trigger_time: u64,
    /// Start of the drift relative to the beginning of the signals (ns).
    pub t0: f32,
    /// Correction of the time by a constant-fraction discriminator.
    pub cfd: f32,
    /// Sum of the squared residuals of the fit.
    pub chi2: f32,
    /// Sum of the squared residuals by degree of freedom.
    pub reduced_chi2: f32,
    /// Baseline: the core's signal before the event.
    pub baseline: f32,
    /// Mean of the core's signal before its step.
    pub before_step: f32,
    /// Mean of the core's signal after its step.
    pub after_step: f32,
    /// Error word: not 0 if the decomposition failed or set a flag.
    pub error: i32,
    /// Points of interaction, 16 at most.
    pub points: Vec<InteractionPoint>,
}

/// A point of interaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InteractionPoint {
    /// Position in the crystal's frame (mm).
    pub position: [f32; 3],
    /// Energy of the point (keV).
    pub energy: f32,
    /// Segment of the point, converted from GRETINA's number `6 ring + sector`.
    pub segment: Segment,
    /// Energy that the segment has collected (keV).
    pub segment_energy: f32,
}

impl Decomposed {
    /// Decodes a frame.
    ///
    /// A frame with a nonzero error word may announce points that are missing: the event has no
    /// points then.
    ///
    /// # Errors
    /// [`Error::Stream`] with the byte for a frame of another kind or version, one that is shorter
    /// than announced, and energies and positions that are non-finite.
    pub fn of(frame: &Frame) -> Result<Decomposed, Error> {
        frame.expect(KIND, "mode 2")?;
        let bytes = &frame.payload[..];
        if bytes.len() < HEADER {
            let problem = format!("a payload of {} bytes: mode 2 has {HEADER} or more", bytes.len());
            return Err(frame.wrong(bytes.len(), problem));
        }
        let version = u32::from_le_bytes(word(bytes, 0));
        if version != VERSION {
            let problem = format!("mode 2 of version {version:#010x}: version {VERSION:#010x} is supported");
            return Err(frame.wrong(0, problem));
        }
        let integer = |at| i32::from_le_bytes(word(bytes, at));
        let float = |at| f32::from_le_bytes(word(bytes, at));
        let error = integer(76);
        let points = match count(integer(8), bytes.len()) {
            Some(count) => (0..count).map(|i| point(frame, HEADER + i * POINT)).collect::<Result<_, _>>()?,
            None if error != 0 => Vec::new(),
            None => {
                let problem = format!(
                    "{} points in a payload of {} bytes: 0 to {MOST_POINTS} of {POINT} bytes after {HEADER} are supported",
                    integer(8),
                    bytes.len()
                );
                return Err(frame.wrong(8, problem));
            }
        };
        Ok(Decomposed {
            crystal: integer(4),
            total_energy: finite(frame, 12)?,
            core_energies: std::array::from_fn(|i| integer(16 + 4 * i)),
            timestamp: u64::from_le_bytes(long(bytes, 32)),
            trigger_time: u64::from_le_bytes(long(bytes, 40)),
            t0: float(48),
            cfd: float(52),
            chi2: float(56),
            reduced_chi2: float(60),
            baseline: float(64),
            before_step: float(68),
            after_step: float(72),
            error,
            points,
        })
    }

    /// Encodes the event into a payload of [`PAYLOAD`] bytes, which replaces the previous content.
    ///
    /// # Errors
    /// [`Error::Parameter`] for more points than a payload has space for.
    pub fn put(&self, payload: &mut Vec<u8>) -> Result<(), Error> {
        if self.points.len() > MOST_POINTS {
            let problem = format!("{}: mode 2 has room for {MOST_POINTS}", self.points.len());
            return Err(Error::Parameter { name: "points", problem });
        }
        payload.clear();
        let mut put = |bytes: &[u8]| payload.extend_from_slice(bytes);
        put(&VERSION.to_le_bytes());
        put(&self.crystal.to_le_bytes());
        put(&(self.points.len() as i32).to_le_bytes());
        put(&self.total_energy.to_le_bytes());
        self.core_energies.iter().for_each(|energy| put(&energy.to_le_bytes()));
        put(&self.timestamp.to_le_bytes());
        put(&self.trigger_time.to_le_bytes());
        let [t0, cfd, chi2, reduced] = [self.t0, self.cfd, self.chi2, self.reduced_chi2];
        for value in [t0, cfd, chi2, reduced, self.baseline, self.before_step, self.after_step] {
            put(&value.to_le_bytes());
        }
        put(&self.error.to_le_bytes());
        for point in &self.points {
            let [x, y, z] = point.position;
            [x, y, z, point.energy].iter().for_each(|value| put(&value.to_le_bytes()));
            put(&(gretina::number(point.segment) as i32).to_le_bytes());
            put(&point.segment_energy.to_le_bytes());
        }
        payload.resize(PAYLOAD, 0);
        Ok(())
    }
}

/// Returns the number of points if a payload of `bytes` bytes can hold the announced number.
fn count(promised: i32, bytes: usize) -> Option<usize> {
    let count = usize::try_from(promised).ok().filter(|&count| count <= MOST_POINTS)?;
    (HEADER + count * POINT <= bytes).then_some(count)
}

fn point(frame: &Frame, at: usize) -> Result<InteractionPoint, Error> {
    let number = i32::from_le_bytes(word(&frame.payload, at + 16));
    let segment = usize::try_from(number).ok().and_then(gretina::segment);
    Ok(InteractionPoint {
        position: [finite(frame, at)?, finite(frame, at + 4)?, finite(frame, at + 8)?],
        energy: finite(frame, at + 12)?,
        segment: segment
            .ok_or_else(|| frame.wrong(at + 16, format!("segment {number}: there are 0 to 35")))?,
        segment_energy: finite(frame, at + 20)?,
    })
}

fn finite(frame: &Frame, at: usize) -> Result<f32, Error> {
    let value = f32::from_le_bytes(word(&frame.payload, at));
    let number = value.is_finite().then_some(value);
    number.ok_or_else(|| frame.wrong(at, format!("{value} is not a finite number")))
}
