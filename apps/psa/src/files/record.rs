//! Format of bases in zellige's own records: 17 932 bytes a point, little-endian.
//!
//! A point has 24 bytes of scalars: x, y, z (mm), T0 (ns), energy (keV) in `float32` and the
//! segment (0 to 35) in `int32`. They are followed by 37 signals of 121 samples of 5 ns in
//! `float32`, the core last; 1 is the whole charge. The sizes are those of AGATA's records, but the
//! order of the scalars is our own: no other program reads or writes these files.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use super::{fill, word, write_whole};
use crate::Error;
use crate::basis::{Basis, Sampling};
use crate::channels::{CHANNELS, Segment};

/// Sampling of the signals in these records.
pub const SAMPLING: Sampling = Sampling { samples: 121, step: 5.0, before: 10 };

/// Number of bytes of a point.
pub const RECORD: usize = SCALARS + 4 * CHANNELS * SAMPLING.samples;

const SCALARS: usize = 24;

/// Energy that is written for every point (keV): signals are those of a unit charge.
const ENERGY: f32 = 1.0;

/// Writes a basis that has the sampling of these records.
///
/// # Errors
/// [`Error::Parameter`] for another sampling, [`Error::File`] if the file cannot be written.
pub fn write(path: &Path, basis: &Basis) -> Result<(), Error> {
    if basis.sampling() != SAMPLING {
        let problem = format!("{:?}: these records have {SAMPLING:?}", basis.sampling());
        return Err(Error::Parameter { name: "sampling", problem });
    }
    write_whole(path, |out| {
        for (point, position) in basis.positions().iter().enumerate() {
            let [x, y, z] = *position;
            for scalar in [x, y, z, 0.0, ENERGY] {
                out.write_all(&scalar.to_le_bytes())?;
            }
            out.write_all(&(basis.segments()[point].index() as i32).to_le_bytes())?;
            let length = CHANNELS * SAMPLING.samples;
            for value in &basis.values()[point * length..][..length] {
                out.write_all(&value.to_le_bytes())?;
            }
        }
        Ok(())
    })
}

/// Reads a basis.
///
/// # Errors
/// [`Error::File`] if the file cannot be read, or with the byte if a record is cut
/// off, a value is non-finite, or a segment does not exist.
pub fn read(path: &Path) -> Result<Basis, Error> {
    let cannot = |source| Error::system(path, "cannot read the basis", source);
    let wrong = |offset: u64, problem| Error::content(path, Some(offset), problem);
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(cannot)?);
    let (mut positions, mut segments, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut record = vec![0; RECORD];
    loop {
        let begin = (positions.len() * RECORD) as u64;
        match fill(&mut file, &mut record).map_err(cannot)? {
            0 => break,
            RECORD => {}
            part => {
                let problem = format!("a record of {part} bytes instead of {RECORD}: the file is truncated");
                return Err(wrong(begin + part as u64, problem));
            }
        }
        let float = |at: usize| {
            let value = f32::from_le_bytes(word(&record, at));
            match value.is_finite() {
                true => Ok(value),
                false => Err(wrong(begin + at as u64, format!("{value} is not a finite number"))),
            }
        };
        positions.push([float(0)?, float(4)?, float(8)?]);
        let number = i32::from_le_bytes(word(&record, 20));
        let segment = usize::try_from(number).ok().and_then(Segment::from_index);
        segments
            .push(segment.ok_or_else(|| wrong(begin + 20, format!("segment {number}: there are 0 to 35")))?);
        for at in (SCALARS..RECORD).step_by(4) {
            values.push(float(at)?);
        }
    }
    Basis::new(SAMPLING, positions, segments, values)
}
