//! MILC's binary format, version 5.
//!
//! All words have 32 bits, in the byte order of the writing machine, which the first word reveals.
//!
//! | byte | what |
//! | --- | --- |
//! | 0 | 20103 |
//! | 4 | extents in x, y, z, t |
//! | 20 | when it was written: 64 bytes of text, filled with zeros |
//! | 84 | order of sites: 0, as here |
//! | 88 | checksums `sum29` and `sum31` |
//! | 96 | for each site and direction a matrix, row by row: 18 numbers in float32 |
//!
//! Word `k` of the data, rotated to the left by `k mod 29` bits, is combined by exclusive or into
//! `sum29`; `sum31` is alike.

use std::io::{self, Write};
use std::path::Path;

use super::links::{self, LinkFormat};
use super::{ByteOrder, FieldFile, Lattice, printable};
use crate::error::Error;
use crate::gauge::Gauge;

/// First word of a file.
pub const MAGIC: u32 = 20103;

/// Size of the text of a header in bytes.
const STAMP: usize = 64;

/// Checksums of some data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MilcSums {
    words: u32,
    sum29: u32,
    sum31: u32,
}

impl MilcSums {
    fn add(&mut self, word: u32) {
        self.sum29 ^= word.rotate_left(self.words % 29);
        self.sum31 ^= word.rotate_left(self.words % 31);
        // The word counter is reduced, because 29 * 31 does not divide 2^32.
        self.words = (self.words + 1) % (29 * 31);
    }

    fn text(&self) -> String {
        format!("{:x} {:x}", self.sum29, self.sum31)
    }
}

/// Reads the file after its first word.
pub(super) fn read(mut source: FieldFile, order: ByteOrder) -> Result<Lattice, Error> {
    let header: [u8; 92] = source.array("the header of a MILC file")?;
    let word = |at: usize| order.u32(header[at - 4..at].try_into().expect("four bytes"));
    let geometry = links::geometry(&source, [4, 8, 12, 16].map(|at| u64::from(word(at))))?;
    if word(84) != 0 {
        return Err(
            source.wrong(format!("sites in order {}: only the natural order, 0, is supported", word(84)))
        );
    }
    let layout = LinkFormat::rows(order, 32);
    source.expect_left(layout.bytes(geometry), "this lattice")?;
    let mut sums = MilcSums::default();
    let gauge = links::read(&mut source, geometry, layout, false, |site| {
        let words = site.chunks_exact(4).map(|four| order.u32(four.try_into().expect("four bytes")));
        words.for_each(|word| sums.add(word));
    })?;
    let named = MilcSums { sum29: word(88), sum31: word(92), ..sums };
    if named != sums {
        let problem = format!(
            "the checksums of the data are {}, but the header has {}: the file is damaged",
            sums.text(),
            named.text()
        );
        return Err(source.wrong_all(problem));
    }
    Ok(Lattice {
        gauge,
        format: "milc",
        byte_order: order,
        precision: 32,
        packed: None,
        checksum: Some(sums.text()),
        description: printable(&header[16..16 + STAMP]),
    })
}

/// Writes a gauge field, with links rounded to float32. `stamp` is the text of the header, 63 bytes
/// at most.
///
/// # Errors
/// [`Error::File`] if the file cannot be written; it then keeps its old content.
pub fn write(path: &Path, gauge: &Gauge, stamp: &str, order: ByteOrder) -> Result<(), Error> {
    let written = zellige_files::write_whole(path, |out| put(out, gauge, stamp, order));
    written.map_err(|error| Error::system(path, "cannot be written", error.into()))
}

/// Writes the field into a stream.
///
/// # Errors
/// The errors of the stream.
pub fn put(out: &mut impl Write, gauge: &Gauge, stamp: &str, order: ByteOrder) -> io::Result<()> {
    let geometry = gauge.geometry();
    let encoded = |word: u32| match order {
        ByteOrder::Little => word.to_le_bytes(),
        ByteOrder::Big => word.to_be_bytes(),
    };
    let words_of = |rank: usize| {
        let site = geometry.site(links::coordinates(geometry, rank));
        let elements = (0..4).flat_map(move |mu| *gauge.link(site, mu)).flatten();
        elements.flat_map(|z| [(z.re as f32).to_bits(), (z.im as f32).to_bits()])
    };
    let mut sums = MilcSums::default();
    (0..geometry.sites()).flat_map(words_of).for_each(|word| sums.add(word));
    out.write_all(&encoded(MAGIC))?;
    for extent in geometry.extents() {
        out.write_all(&encoded(extent as u32))?;
    }
    let mut text = [0; STAMP];
    let kept = stamp.len().min(STAMP - 1);
    text[..kept].copy_from_slice(&stamp.as_bytes()[..kept]);
    out.write_all(&text)?;
    for word in [0, sums.sum29, sums.sum31] {
        out.write_all(&encoded(word))?;
    }
    (0..geometry.sites()).flat_map(words_of).try_for_each(|word| out.write_all(&encoded(word)))
}
