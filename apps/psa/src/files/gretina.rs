//! Bases of GRETINA: a text of 256 bytes, 7712 bytes a point, and a table of points by place, little-endian.
//!
//! A point has four bytes (segment, and its places along r, phi and z), x, y, z (mm) in `float32`, 37 signals of 50 samples of 10 ns in `float32`, the core
//! last, and for each the first and the last sample that is not zero in `int32`. Segments are counted as `6 ring + sector` there, and as
//! `6 sector + ring` here; signs stay as they are. The table has a record's number in `int32` for every segment and place, -1 where there is no point.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::{fill, word};
use crate::Error;
use crate::basis::{Basis, Sampling};
use crate::channels::{CHANNELS, SECTORS, SEGMENTS, Segment};

/// How signals are sampled in these files.
pub const SAMPLING: Sampling = Sampling { samples: 50, step: 10.0, before: 0 };

/// Bytes of a point.
pub const RECORD: usize = PLACE + 12 + SIGNALS + 8 * CHANNELS;

/// Bytes of the text at the beginning.
pub const HEADER: usize = 256;

const PLACE: usize = 4;
const SIGNALS: usize = 4 * CHANNELS * SAMPLING.samples;

/// What stands around the six numbers of the header.
const WORDS: [&str; 7] = [
    "GRETA basis signals; Cylindrical; version 1.2\n",
    " basis point, ",
    " grid segments, ",
    " time steps\ngrid_pos_lu_rpz SRAD SPHI SZ: ",
    " ",
    " ",
    "\n",
];

/// Reads a basis.
///
/// # Errors
/// [`Error::File`] where it cannot be read; [`Error::Format`] with the byte where the header is another one, the file has not the length that it
/// promises, a value is no number, or a segment or a record of the table does not exist.
pub fn read(path: &Path) -> Result<Basis, Error> {
    let cannot = |source| Error::File { path: path.to_owned(), problem: "cannot read the basis", source };
    let wrong = |offset: u64, problem| Error::Format { path: path.to_owned(), offset: Some(offset), problem };
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(cannot)?);
    let size = file.get_ref().metadata().map_err(cannot)?.len();
    let mut header = vec![0; HEADER];
    if fill(&mut file, &mut header).map_err(cannot)? != HEADER {
        return Err(wrong(size, format!("the file ends here, in the {HEADER} bytes of its header")));
    }
    let [points, places] = counts(&header).map_err(|problem| wrong(0, problem))?;
    let end =
        points.checked_mul(RECORD as u64).zip(places.checked_mul(4)).and_then(|(a, b)| a.checked_add(b));
    if end.and_then(|end| end.checked_add(HEADER as u64)) != Some(size) {
        let problem =
            format!("the file ends here, but its header promises {points} points and {places} places");
        return Err(wrong(size, problem));
    }
    let (mut positions, mut segments, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut record = vec![0; RECORD];
    for point in 0..points {
        let begin = HEADER as u64 + point * RECORD as u64;
        if fill(&mut file, &mut record).map_err(cannot)? != RECORD {
            return Err(wrong(begin, "the file became shorter while it was read".into()));
        }
        let float = |at: usize| {
            let value = f32::from_le_bytes(word(&record, at));
            let number = value.is_finite().then_some(value);
            number.ok_or_else(|| wrong(begin + at as u64, format!("{value} where a number is needed")))
        };
        let segment = segment(record[0].into());
        segments
            .push(segment.ok_or_else(|| wrong(begin, format!("segment {}: there are 0 to 35", record[0])))?);
        positions.push([float(PLACE)?, float(PLACE + 4)?, float(PLACE + 8)?]);
        for channel in 0..CHANNELS {
            // Which of its signals is that of our channel.
            let signal = Segment::from_index(channel).map_or(channel, number);
            let begin = PLACE + 12 + 4 * SAMPLING.samples * signal;
            for sample in 0..SAMPLING.samples {
                values.push(float(begin + 4 * sample)?);
            }
        }
    }
    let mut entry = [0; 4];
    for place in 0..places {
        let offset = HEADER as u64 + points * RECORD as u64 + 4 * place;
        if fill(&mut file, &mut entry).map_err(cannot)? != entry.len() {
            return Err(wrong(offset, "the file became shorter while it was read".into()));
        }
        let number = i64::from(i32::from_le_bytes(entry));
        if number < -1 || number >= points as i64 {
            return Err(wrong(offset, format!("record {number} of {points}")));
        }
    }
    Basis::new(SAMPLING, positions, segments, values)
}

/// The segment that has a number there.
pub(crate) fn segment(number: usize) -> Option<Segment> {
    Segment::new(number % SECTORS, number / SECTORS)
}

/// The number that a segment has there.
pub(crate) fn number(segment: Segment) -> usize {
    SECTORS * segment.ring() + segment.sector()
}

/// Points, and places of the table.
fn counts(header: &[u8]) -> Result<[u64; 2], String> {
    let text = header.split(|&byte| byte == 0).next().unwrap_or_default();
    let wanted = || format!("no header of a GRETINA basis, which begins {:?}", WORDS[0]);
    let mut rest =
        std::str::from_utf8(text).ok().and_then(|text| text.strip_prefix(WORDS[0])).ok_or_else(wanted)?;
    let mut numbers = [0u64; 6];
    for (number, behind) in numbers.iter_mut().zip(&WORDS[1..]) {
        let (digits, further) =
            rest.split_once(behind).ok_or_else(|| format!("{behind:?} is missing in the header"))?;
        *number = digits.trim().parse().map_err(|_| format!("{digits:?} is no number"))?;
        rest = further;
    }
    let [points, segments, samples, along_r, along_phi, along_z] = numbers;
    if segments != SEGMENTS as u64 || samples != SAMPLING.samples as u64 {
        return Err(format!(
            "{segments} segments and {samples} samples: {SEGMENTS} and {} are read",
            SAMPLING.samples
        ));
    }
    let places =
        [along_r, along_phi, along_z].iter().try_fold(segments, |product, &n| product.checked_mul(n));
    places
        .map(|places| [points, places])
        .ok_or_else(|| "a table of more places than there are numbers".into())
}
