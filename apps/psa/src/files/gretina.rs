//! Format of GRETINA's bases, little-endian: a text of 256 bytes, 7712 bytes a point, and a table
//! of points by lattice position.
//!
//! A point has four bytes (segment, and its lattice indices along r, phi and z), x, y, z (mm) in
//! `float32`, and 37 signals of 50 samples of 10 ns in `float32`, the core last. The first and the
//! last nonzero sample of each signal follow in `int32`. The files number segments as `6 ring +
//! sector`, this crate as `6 sector + ring`; the signs of signals are kept. The table has the
//! number of a record in `int32` for every segment and lattice position, -1 if there is no point.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use super::{fill, word, write_whole};
use crate::Error;
use crate::basis::{Basis, Sampling};
use crate::channels::{CHANNELS, Channel, SECTORS, SEGMENTS, Segment};

/// Sampling of the signals in these files.
pub const SAMPLING: Sampling = Sampling { samples: 50, step: 10.0, before: 0 };

/// Number of bytes of a point.
pub const RECORD: usize = PLACE + 12 + SIGNALS + 8 * CHANNELS;

/// Magic bytes at the beginning of these files.
pub const MAGIC: &[u8] = b"GRETA basis signals";

/// Number of bytes of the text at the beginning.
pub const HEADER: usize = 256;

const PLACE: usize = 4;
const SIGNALS: usize = 4 * CHANNELS * SAMPLING.samples;

/// Text around the six numbers of the header.
const WORDS: [&str; 7] = [
    "GRETA basis signals; Cylindrical; version 1.2\n",
    " basis point, ",
    " grid segments, ",
    " time steps\ngrid_pos_lu_rpz SRAD SPHI SZ: ",
    " ",
    " ",
    "\n",
];

/// Position of a point on the lattice of its segment: indices along r, phi and z.
pub type LatticePosition = [u8; 3];

/// Writes a basis of points at `places` on the lattices of their segments.
///
/// Programs of GRETINA have space for 250 000 points, 40 steps along r, 20 along phi and 30 along
/// z; larger bases are written nevertheless. If a signal is zero throughout, its first nonzero
/// sample is given as 50 and the last one as 0, so that the range is empty.
///
/// # Errors
/// [`Error::Parameter`] for another sampling than [`SAMPLING`], more points than the table can
/// count, and two points at one position; [`Error::Shape`] if there is not one position for each
/// point; [`Error::File`] if the file cannot be written.
pub fn write(path: &Path, basis: &Basis, places: &[LatticePosition]) -> Result<(), Error> {
    let sampling = basis.sampling();
    if (sampling.samples, sampling.step) != (SAMPLING.samples, SAMPLING.step) {
        let problem = format!("{sampling:?}: these files have {SAMPLING:?}");
        return Err(Error::Parameter { name: "sampling", problem });
    }
    if places.len() != basis.positions().len() {
        let problem = format!("{} for {} points", places.len(), basis.positions().len());
        return Err(Error::shape("positions of the points", problem));
    }
    let table = RecordTable::new(basis.segments(), places)?;
    let [along_r, along_phi, along_z] = table.sides;
    let points = places.len();
    let numbers = [points, SEGMENTS, SAMPLING.samples, along_r, along_phi, along_z];
    let words = numbers.iter().zip(&WORDS[1..]).map(|(number, behind)| format!("{number}{behind}"));
    let mut header = [WORDS[0].to_owned()].into_iter().chain(words).collect::<String>().into_bytes();
    header.resize(HEADER, 0);
    write_whole(path, |out| {
        out.write_all(&header)?;
        for (point, place) in places.iter().enumerate() {
            out.write_all(&[number(basis.segments()[point]) as u8])?;
            out.write_all(place)?;
            for at in basis.positions()[point] {
                out.write_all(&at.to_le_bytes())?;
            }
            write_signals(out, basis, point)?;
        }
        table.records.iter().try_for_each(|record| out.write_all(&record.to_le_bytes()))
    })
}

/// Writes the signals of a point in the file's order of segments, and the first and last nonzero
/// sample of each.
fn write_signals(out: &mut impl Write, basis: &Basis, point: usize) -> std::io::Result<()> {
    let channel = |signal| segment(signal).map_or(Channel::CORE, Channel::from);
    let signals = || (0..CHANNELS).map(|signal| basis.signal(point, channel(signal)));
    for value in signals().flatten() {
        out.write_all(&value.to_le_bytes())?;
    }
    let first = signals().map(|signal| signal.iter().position(|&x| x != 0.0).unwrap_or(SAMPLING.samples));
    let last = signals().map(|signal| signal.iter().rposition(|&x| x != 0.0).unwrap_or(0));
    first.chain(last).try_for_each(|sample| out.write_all(&(sample as i32).to_le_bytes()))
}

/// Table of records by segment and lattice position.
struct RecordTable {
    sides: [usize; 3],
    records: Vec<i32>,
}

impl RecordTable {
    fn new(segments: &[Segment], places: &[LatticePosition]) -> Result<RecordTable, Error> {
        let wrong = |problem| Error::Parameter { name: "positions of the points", problem };
        let side = |axis: usize| 1 + places.iter().map(|place| usize::from(place[axis])).max().unwrap_or(0);
        let sides = [side(0), side(1), side(2)];
        let mut records = vec![-1; SEGMENTS * sides.iter().product::<usize>()];
        for (point, (&segment, place)) in segments.iter().zip(places).enumerate() {
            let at =
                place.iter().zip(sides).fold(number(segment), |at, (&i, side)| at * side + usize::from(i));
            if records[at] != -1 {
                let both = format!("points {} and {point} of segment {}", records[at], segment.index());
                return Err(wrong(format!("{both} are both at {place:?}")));
            }
            records[at] = i32::try_from(point).map_err(|_| wrong(format!("{} points", places.len())))?;
        }
        Ok(RecordTable { sides, records })
    }
}

/// Reads a basis and the lattice positions of its points.
///
/// # Errors
/// [`Error::File`] if the file cannot be read, or with the byte if the header is
/// invalid, the length of the file does not match it, a value is non-finite, or a segment, a
/// lattice position or a record of the table does not exist.
pub fn read(path: &Path) -> Result<(Basis, Vec<LatticePosition>), Error> {
    let cannot = |source| Error::system(path, "cannot read the basis", source);
    let wrong = |offset: u64, problem| Error::content(path, Some(offset), problem);
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(cannot)?);
    let size = file.get_ref().metadata().map_err(cannot)?.len();
    let mut header = vec![0; HEADER];
    if fill(&mut file, &mut header).map_err(cannot)? != HEADER {
        return Err(wrong(size, format!("the file ends here, in the {HEADER} bytes of its header")));
    }
    let (points, sides) = counts(&header).map_err(|problem| wrong(0, problem))?;
    let places: u64 = SEGMENTS as u64 * sides.iter().product::<u64>();
    let end =
        points.checked_mul(RECORD as u64).zip(places.checked_mul(4)).and_then(|(a, b)| a.checked_add(b));
    if end.and_then(|end| end.checked_add(HEADER as u64)) != Some(size) {
        let problem =
            format!("the file ends here, but its header announces {points} points and {places} positions");
        return Err(wrong(size, problem));
    }
    let (mut positions, mut segments, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let (mut on_lattice, mut record) = (Vec::new(), vec![0; RECORD]);
    for point in 0..points {
        let begin = HEADER as u64 + point * RECORD as u64;
        if fill(&mut file, &mut record).map_err(cannot)? != RECORD {
            return Err(wrong(begin, "the file became shorter while it was read".into()));
        }
        let float = |at: usize| {
            let value = f32::from_le_bytes(word(&record, at));
            let number = value.is_finite().then_some(value);
            number.ok_or_else(|| wrong(begin + at as u64, format!("{value} is not a finite number")))
        };
        let segment = segment(record[0].into());
        segments
            .push(segment.ok_or_else(|| wrong(begin, format!("segment {}: there are 0 to 35", record[0])))?);
        let place = [record[1], record[2], record[3]];
        if let Some(axis) = (0..3).find(|&axis| u64::from(place[axis]) >= sides[axis]) {
            let problem = format!("place {}: the table has {}", place[axis], sides[axis]);
            return Err(wrong(begin + 1 + axis as u64, problem));
        }
        on_lattice.push(place);
        positions.push([float(PLACE)?, float(PLACE + 4)?, float(PLACE + 8)?]);
        for channel in 0..CHANNELS {
            // The file's number of the signal of our channel.
            let signal = Segment::from_index(channel).map_or(channel, number);
            let begin = PLACE + 12 + 4 * SAMPLING.samples * signal;
            for sample in 0..SAMPLING.samples {
                values.push(float(begin + 4 * sample)?);
            }
        }
    }
    check_table(&mut file, points, places, cannot, wrong)?;
    Ok((Basis::new(SAMPLING, positions, segments, values)?, on_lattice))
}

/// Returns the segment with a number of the file.
pub(crate) fn segment(number: usize) -> Option<Segment> {
    Segment::new(number % SECTORS, number / SECTORS)
}

/// Returns the number of a segment in the file.
pub(crate) fn number(segment: Segment) -> usize {
    SECTORS * segment.ring() + segment.sector()
}

/// Parses the number of points and the extents of the table for one segment.
fn counts(header: &[u8]) -> Result<(u64, [u64; 3]), String> {
    let text = header.split(|&byte| byte == 0).next().unwrap_or_default();
    let wanted = || format!("not the header of a GRETINA basis, which begins with {:?}", WORDS[0]);
    let mut rest =
        std::str::from_utf8(text).ok().and_then(|text| text.strip_prefix(WORDS[0])).ok_or_else(wanted)?;
    let mut numbers = [0u64; 6];
    for (number, behind) in numbers.iter_mut().zip(&WORDS[1..]) {
        let (digits, further) =
            rest.split_once(behind).ok_or_else(|| format!("{behind:?} is missing in the header"))?;
        *number = digits.trim().parse().map_err(|_| format!("{digits:?} is not a number"))?;
        rest = further;
    }
    let [points, segments, samples, sides @ ..] = numbers;
    if segments != SEGMENTS as u64 || samples != SAMPLING.samples as u64 {
        return Err(format!(
            "{segments} segments and {samples} samples: {SEGMENTS} and {} are supported",
            SAMPLING.samples
        ));
    }
    // An index is a byte.
    if let Some(side) = sides.iter().find(|&&side| side == 0 || side > 256) {
        return Err(format!("{side} positions along an axis of the table: there are 1 to 256"));
    }
    Ok((points, sides))
}

/// Checks the table of records by lattice position.
fn check_table(
    file: &mut impl Read,
    points: u64,
    places: u64,
    cannot: impl Fn(std::io::Error) -> Error,
    wrong: impl Fn(u64, String) -> Error,
) -> Result<(), Error> {
    let mut entry = [0; 4];
    for place in 0..places {
        let offset = HEADER as u64 + points * RECORD as u64 + 4 * place;
        if fill(file, &mut entry).map_err(&cannot)? != entry.len() {
            return Err(wrong(offset, "the file became shorter while it was read".into()));
        }
        let number = i64::from(i32::from_le_bytes(entry));
        if number < -1 || number >= points as i64 {
            return Err(wrong(offset, format!("record {number} of {points}")));
        }
    }
    Ok(())
}
