//! SciDAC and ILDG files: records in a LIME container.
//!
//! A record is a header of 144 bytes (big-endian: the magic number, a version and flags of 16 bits
//! each, the length in 64 bits, a name in 128 bytes) and its data, padded to a multiple of 8 bytes.
//! `ildg-format`, or SciDAC's two private records, describe the links. `ildg-binary-data` or
//! `scidac-binary-data` contains them, big-endian. `scidac-checksum` has their checksums: the
//! CRC-32 of each site, rotated to the left by the number of the site modulo 29 and 31, combined by
//! exclusive or.
//!
//! Packed links are a private format in the same records. The type is
//! `zellige_fixed16-13_ColorMatrix` for the [`MatrixFormat`] of this name, and each link has the
//! numbers of its format, big-endian. Integers are multiples of `1 / most` for the largest integer
//! `most`. All 18 numbers are stored column by column, the real part before the imaginary part.
//! `-13` are the columns of the first two rows, then `tan(phi / 4)` of the determinant
//! `e^(i phi)`. `-9` are the numbers of a Hermitian matrix: see
//! [`MatrixReals`](zellige_kernels::sites::MatrixReals).

use std::io::{self, Write};
use std::path::Path;

use flate2::Crc;
use zellige_kernels::sites::{MatrixFormat, MatrixNumber};

use super::links::{self, LinkFormat, Numbers};
use super::{ByteOrder, FieldFile, Lattice, printable};
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::Geometry;

/// First word of each record.
pub const MAGIC: u32 = 0x4567_89ab;

/// Maximum size of a text record in bytes.
const LONGEST: u64 = 1 << 20;

/// Maximum number of bytes kept of descriptions, except for the last one.
const MOST_TOLD: usize = 500;

/// Contents of the text records.
#[derive(Default)]
struct TextRecords {
    extents: Option<[u64; 4]>,
    /// Number format and set of numbers of the links.
    links: Option<LinkFormat>,
    checksums: Option<[u32; 2]>,
    description: String,
}

/// Calls `take` with the name and the length of each record, after the first four bytes of a file.
/// It reads the data, or returns false to have them skipped.
pub(super) fn each_record(
    source: &mut FieldFile,
    mut take: impl FnMut(&mut FieldFile, &str, u64) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut magic = MAGIC;
    loop {
        if magic != MAGIC {
            return Err(source.wrong(format!("{magic:08x} is not the beginning of a record, {MAGIC:08x}")));
        }
        let header: [u8; 140] = source.array("the header of a record")?;
        let length = u64::from_be_bytes(header[4..12].try_into().expect("eight bytes"));
        let name = printable(header[12..].split(|&byte| byte == 0).next().unwrap_or_default());
        if length > source.left() {
            let left = source.left();
            return Err(
                source.wrong(format!("{left} bytes of a record {name} of {length}: the file is truncated"))
            );
        }
        let padding = length.next_multiple_of(8) - length;
        if !take(source, &name, length)? {
            source.skip(length)?;
        }
        if padding > source.left() {
            return Err(source.wrong(format!("the file ends within the record {name}: it is truncated")));
        }
        source.skip(padding)?;
        if source.left() == 0 {
            return Ok(());
        }
        magic = u32::from_be_bytes(source.array("a record")?);
    }
}

/// Reads the text of a record, if it is short enough for one.
pub(super) fn text_of(source: &mut FieldFile, name: &str, length: u64) -> Result<Option<String>, Error> {
    if length > LONGEST {
        return Ok(None);
    }
    let bytes = source.bytes(length as usize, name)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Reads the file after its first four bytes. Its links have to be in SU(3) unless they are
/// `smeared`.
pub(super) fn read(mut source: FieldFile, smeared: bool) -> Result<Lattice, Error> {
    let mut records = TextRecords::default();
    let mut data: Option<(Gauge, LinkFormat, [u32; 2], &'static str)> = None;
    each_record(&mut source, |source, name, length| match name {
        "ildg-binary-data" | "scidac-binary-data" if data.is_none() => {
            let format = if name.starts_with("ildg") { "ildg" } else { "scidac" };
            let (gauge, layout, sums) = read_data(source, &records, (length, name), smeared)?;
            data = Some((gauge, layout, sums, format));
            Ok(true)
        }
        "ildg-format"
        | "scidac-private-file-xml"
        | "scidac-private-record-xml"
        | "scidac-checksum"
        | "scidac-record-xml"
        | "ildg-data-lfn" => match text_of(source, name, length)? {
            Some(text) => records.learn(source, name, &text).map(|()| true),
            None => Ok(false),
        },
        _ => Ok(false),
    })?;
    let Some((gauge, layout, sums, format)) = data else {
        return Err(source.wrong_all(
            "the file has no record ildg-binary-data or scidac-binary-data, so that it has no links",
        ));
    };
    let text = |[a, b]: [u32; 2]| format!("{a:x} {b:x}");
    if let Some(named) = records.checksums.filter(|named| *named != sums) {
        let problem = format!(
            "the checksums of the links are {}, scidac-checksum has {}: the file is damaged",
            text(sums),
            text(named)
        );
        return Err(source.wrong_all(problem));
    }
    Ok(Lattice {
        gauge,
        format,
        byte_order: layout.order,
        precision: layout.precision,
        packed: match layout.numbers {
            Numbers::Packed(format) => Some(format),
            Numbers::Rows(_) => None,
        },
        checksum: records.checksums.map(text),
        description: records.description,
    })
}

fn read_data(
    source: &mut FieldFile,
    records: &TextRecords,
    (length, name): (u64, &str),
    smeared: bool,
) -> Result<(Gauge, LinkFormat, [u32; 2]), Error> {
    let (Some(extents), Some(layout)) = (records.extents, records.links) else {
        let problem = format!(
            "{name} before a record ildg-format, or the private ones of SciDAC, with extents and precision"
        );
        return Err(source.wrong(problem));
    };
    let geometry = links::geometry(source, extents)?;
    if length != layout.bytes(geometry) {
        let problem =
            format!("{name} has {length} bytes, the lattice {} in this format", layout.bytes(geometry));
        return Err(source.wrong(problem));
    }
    let mut sums = LimeSums::default();
    let gauge = links::read(source, geometry, layout, smeared, |site| sums.add(site))?;
    Ok((gauge, layout, sums.sums))
}

/// Checksums of the sites so far.
#[derive(Default)]
pub(super) struct LimeSums {
    rank: u32,
    pub(super) sums: [u32; 2],
}

impl LimeSums {
    /// Returns the record that has these checksums.
    pub(super) fn text(&self) -> String {
        let [a, b] = self.sums;
        format!(
            "{HEAD}<scidacChecksum><version>1.0</version><suma>{a:x}</suma><sumb>{b:x}</sumb></scidacChecksum>"
        )
    }

    pub(super) fn add(&mut self, site: &[u8]) {
        let mut crc = Crc::new();
        crc.update(site);
        self.sums[0] ^= crc.sum().rotate_left(self.rank % 29);
        self.sums[1] ^= crc.sum().rotate_left(self.rank % 31);
        self.rank += 1;
    }
}

/// Writes a gauge field with the records and checksums that SciDAC's library also writes: in ILDG
/// format if the links are whole in float64 or float32, otherwise packed.
///
/// # Errors
/// [`Error::File`] if the file cannot be written; it then keeps its old content.
pub fn write(path: &Path, gauge: &Gauge, description: &str, format: MatrixFormat) -> Result<(), Error> {
    let written = zellige_files::write_whole(path, |out| put(out, gauge, description, format));
    written.map_err(|error| Error::system(path, "cannot be written", error.into()))
}

/// Returns whether a format is one of ILDG: all numbers in float64 or float32.
pub fn is_ildg(format: MatrixFormat) -> bool {
    [MatrixNumber::Fp64, MatrixNumber::Fp32].into_iter().any(|number| format == MatrixFormat::full(number))
}

/// Flags of the first and last record of a message.
pub(super) const FIRST: u16 = 1 << 15;
pub(super) const LAST: u16 = 1 << 14;
/// First line of text records.
pub(super) const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";

/// Writes the field into a stream.
///
/// # Errors
/// The errors of the stream.
pub fn put(out: &mut impl Write, gauge: &Gauge, description: &str, format: MatrixFormat) -> io::Result<()> {
    let geometry = gauge.geometry();
    let is_ildg = is_ildg(format);
    let layout = match is_ildg {
        true => LinkFormat::rows(ByteOrder::Big, 8 * format.number.bytes() as u32),
        false => LinkFormat::packed(format),
    };
    let (kind, letter) = match (is_ildg, layout.precision) {
        (true, 64) => ("USQCD_D3_ColorMatrix".to_owned(), "D"),
        (true, _) => ("USQCD_F3_ColorMatrix".to_owned(), "F"),
        (false, _) => (format!("{PACKED}{format}{MATRIX}"), "I"),
    };

    // Messages and records are those of QIO. Readers of SciDAC files need the private records,
    // readers of ILDG files the format record.
    let kind = format!(
        "{HEAD}<scidacRecord><version>1.1</version><recordtype>0</recordtype><datatype>{kind}</datatype>\
         <precision>{letter}</precision><colors>3</colors><typesize>{}</typesize><datacount>4</datacount></scidacRecord>",
        layout.bytes_of_link()
    );
    record(out, FIRST, "scidac-private-file-xml", file_text(geometry).as_bytes())?;
    record(out, LAST, "scidac-file-xml", format!("{HEAD}<title>gauge field</title>").as_bytes())?;
    record(out, FIRST, "scidac-private-record-xml", kind.as_bytes())?;
    record(out, 0, "scidac-record-xml", title(description).as_bytes())?;
    let name = if is_ildg {
        let [x, y, z, t] = geometry.extents();
        let text = format!(
            "{HEAD}<ildgFormat xmlns=\"http://www.lqcd.org/ildg\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xsi:schemaLocation=\"http://www.lqcd.org/ildg filefmt.xsd\"><version>1.0</version><field>su3gauge</field>\
             <precision>{}</precision><lx>{x}</lx><ly>{y}</ly><lz>{z}</lz><lt>{t}</lt></ildgFormat>",
            layout.precision
        );
        record(out, 0, "ildg-format", text.as_bytes())?;
        "ildg-binary-data"
    } else {
        "scidac-binary-data"
    };
    record_head(out, 0, name, layout.bytes(geometry))?;
    let mut sums = LimeSums::default();
    // A lattice has a multiple of eight sites, so no padding is needed.
    for rank in 0..geometry.sites() {
        let site = geometry.site(links::coordinates(geometry, rank));
        let bytes = layout.encode(&std::array::from_fn(|mu| *gauge.link(site, mu)));
        sums.add(&bytes);
        out.write_all(&bytes)?;
    }
    record(out, LAST, "scidac-checksum", sums.text().as_bytes())
}

/// Type of packed links: its name is that of the format between these.
const PACKED: &str = "zellige_";
const MATRIX: &str = "_ColorMatrix";

/// Returns the private record of a file with fields on a lattice.
pub(super) fn file_text(geometry: Geometry) -> String {
    let [x, y, z, t] = geometry.extents();
    format!(
        "{HEAD}<scidacFile><version>1.1</version><spacetime>4</spacetime><dims>{x} {y} {z} {t} </dims><volfmt>0</volfmt></scidacFile>"
    )
}

/// Returns a record with a title.
pub(super) fn title(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("{HEAD}<title>{escaped}</title>")
}

/// Returns the title of such a record, or its plain text, as MILC writes it.
pub(super) fn title_of(text: &str) -> String {
    match element(text, "title") {
        Some(title) => title.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"),
        None => printable(text.as_bytes()),
    }
}

pub(super) fn record_head(out: &mut impl Write, flags: u16, name: &str, length: u64) -> io::Result<()> {
    let mut text = [0; 128];
    text[..name.len()].copy_from_slice(name.as_bytes());
    out.write_all(&MAGIC.to_be_bytes())?;
    out.write_all(&1u16.to_be_bytes())?;
    out.write_all(&flags.to_be_bytes())?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(&text)
}

pub(super) fn record(out: &mut impl Write, flags: u16, name: &str, data: &[u8]) -> io::Result<()> {
    record_head(out, flags, name, data.len() as u64)?;
    out.write_all(data)?;
    out.write_all(&[0; 8][..data.len().next_multiple_of(8) - data.len()])
}

impl TextRecords {
    fn learn(&mut self, source: &FieldFile, record: &str, text: &str) -> Result<(), Error> {
        let number = |tag: &str| -> Result<Option<u64>, Error> {
            let parse = |value: &str| {
                value.parse().map_err(|_| {
                    source.wrong(format!("{record}: <{tag}> is {value:?}, but a number is needed"))
                })
            };
            element(text, tag).map(parse).transpose()
        };
        match record {
            "ildg-format" => {
                let [x, y, z, t] = [number("lx")?, number("ly")?, number("lz")?, number("lt")?];
                if let (Some(x), Some(y), Some(z), Some(t)) = (x, y, z, t) {
                    self.extents = Some([x, y, z, t]);
                }
                if let Some(field) = element(text, "field").filter(|field| *field != "su3gauge") {
                    return Err(source.wrong(format!("the field is {field:?}: su3gauge is supported")));
                }
                match number("precision")? {
                    Some(bits @ (32 | 64)) => {
                        self.links = Some(LinkFormat::rows(ByteOrder::Big, bits as u32))
                    }
                    Some(bits) => return Err(source.wrong(format!("{bits} bits: 32 and 64 are supported"))),
                    None => {}
                }
            }
            "scidac-private-file-xml" => self.extents = extents_of(text).or(self.extents),
            "scidac-private-record-xml" => {
                let kind = element(text, "datatype").unwrap_or_default();
                if ["Vector", "Fermion"].iter().any(|quarks| kind.ends_with(quarks)) {
                    let problem =
                        format!("quark fields ({kind}), not links: lqcd invert --source-fields reads them");
                    return Err(source.wrong(problem));
                }
                if let Some(count) = number("datacount")?.filter(|&count| count != 4) {
                    return Err(source.wrong(format!("{count} matrices for each site: a gauge field has 4")));
                }
                let packed = kind.strip_prefix(PACKED).and_then(|rest| rest.strip_suffix(MATRIX));
                if let Some(name) = packed {
                    let format = name
                        .parse()
                        .map_err(|problem| source.wrong(format!("links in {name:?}: {problem}")))?;
                    self.links = Some(LinkFormat::packed(format));
                    return Ok(());
                }
                match element(text, "precision") {
                    Some("F") => self.links = Some(LinkFormat::rows(ByteOrder::Big, 32)),
                    Some("D") => self.links = Some(LinkFormat::rows(ByteOrder::Big, 64)),
                    Some(other) => {
                        return Err(source.wrong(format!("precision {other:?}: F and D are supported")));
                    }
                    None => {}
                }
            }
            "scidac-checksum" => self.checksums = Some(checksums_of(source, text)?),
            _ if self.description.len() < MOST_TOLD => {
                let description: String = title_of(text).chars().take(200).collect();
                self.description = [&*self.description, &*description].join(" ").trim().to_owned();
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the lattice of a private file record.
pub(super) fn extents_of(text: &str) -> Option<[u64; 4]> {
    let extents: Result<Vec<u64>, _> = element(text, "dims")?.split_whitespace().map(str::parse).collect();
    extents.ok()?.try_into().ok()
}

/// Returns both checksums of their record.
pub(super) fn checksums_of(source: &FieldFile, text: &str) -> Result<[u32; 2], Error> {
    let sum = |tag: &str| {
        let value = element(text, tag).and_then(|value| u32::from_str_radix(value, 16).ok());
        value.ok_or_else(|| source.wrong(format!("scidac-checksum without a hexadecimal <{tag}>")))
    };
    Ok([sum("suma")?, sum("sumb")?])
}

/// Returns the text of the first element of this name that has no elements in it.
pub(super) fn element<'t>(text: &'t str, tag: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    Some(rest.split_once("</")?.0.trim())
}
