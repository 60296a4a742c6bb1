//! Quark fields in SciDAC files, such as the columns of a propagator.
//!
//! Each field is a message of a LIME container: a private record with its type, a title, the data
//! site by site with `x` fastest, and their checksums. Float32 and float64 have SciDAC's types
//! `USQCD_F3_ColorVector` and `USQCD_D3_ColorVector`, or `..._DiracFermion` for four spins, whose
//! numbers are `[spin][colour]`. Older files have `QDP` in place of `USQCD`. Packed formats have
//! types such as `zellige_int20_ColorVector`: the 32-bit words of a record for each site and spin,
//! in the layout of the format. All words are big-endian.

use std::io::{self, Write};
use std::path::Path;

use zellige_kernels::sites::{SiteFormat, decode_numbers, encode_numbers};

use super::lime::{
    self, FIRST, HEAD, LAST, LimeSums, checksums_of, each_record, element, extents_of, file_text, record,
    record_head, text_of, title, title_of,
};
use super::{FieldFile, links};
use crate::error::Error;
use crate::geometry::{COLOURS, Geometry, SPINS};
use crate::su3::C64;

/// Quark fields on all sites of a lattice.
#[derive(Clone, Debug, PartialEq)]
pub struct QuarkFields {
    /// Lattice.
    pub geometry: Geometry,
    /// Numbers of each field, in the order of the lattice's sites: the colours of each site, or the
    /// colours of each of its four spins.
    pub fields: Vec<Vec<C64>>,
    /// Storage format.
    pub format: SiteFormat,
    /// Titles of the fields.
    pub titles: Vec<String>,
}

/// Type of the fields in a file.
#[derive(Clone, Copy, PartialEq)]
struct FieldType {
    format: SiteFormat,
    spins: usize,
}

impl FieldType {
    /// Returns the bytes of a site.
    fn bytes(self) -> usize {
        self.spins * self.format.bytes()
    }

    fn name(self) -> String {
        let kind = if self.spins == 1 { "ColorVector" } else { "DiracFermion" };
        match self.format {
            SiteFormat::Fp64 => format!("USQCD_D3_{kind}"),
            SiteFormat::Fp32 => format!("USQCD_F3_{kind}"),
            packed => format!("zellige_{packed}_{kind}"),
        }
    }

    fn of_name(name: &str) -> Option<FieldType> {
        let name = name.replacen("QDP_", "USQCD_", 1);
        let known = |format| [1, SPINS].map(|spins| FieldType { format, spins });
        SiteFormat::ALL.into_iter().flat_map(known).find(|one| one.name() == name)
    }

    fn text(self) -> String {
        let precision = match self.format {
            SiteFormat::Fp64 => "D",
            SiteFormat::Fp32 => "F",
            _ => "I",
        };
        let spins = if self.spins == 1 { String::new() } else { format!("<spins>{SPINS}</spins>") };
        format!(
            "{HEAD}<scidacRecord><version>1.1</version><recordtype>0</recordtype><datatype>{}</datatype>\
             <precision>{precision}</precision><colors>3</colors>{spins}<typesize>{}</typesize><datacount>1</datacount></scidacRecord>",
            self.name(),
            self.bytes()
        )
    }

    /// Returns the bytes of a site with these numbers.
    fn encode(self, numbers: &[C64]) -> Vec<u8> {
        let mut words = vec![0.0; self.format.words(self.spins)];
        encode_numbers(self.format, bytemuck::cast_slice(numbers), &mut words, 0..self.spins);
        match self.format {
            SiteFormat::Fp64 => words.iter().flat_map(|word| word.to_be_bytes()).collect(),
            _ => bytemuck::cast_slice(&words).iter().flat_map(|word: &u32| word.to_be_bytes()).collect(),
        }
    }

    fn decode(self, bytes: &[u8], numbers: &mut [C64]) {
        let words: Vec<f64> = match self.format {
            SiteFormat::Fp64 => bytes.as_chunks().0.iter().map(|word| f64::from_be_bytes(*word)).collect(),
            _ => {
                let halves = bytes.as_chunks().0.iter().map(|word| u32::from_be_bytes(*word));
                let halves: Vec<u32> = halves.collect();
                halves
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|[low, high]| f64::from_bits(u64::from(*low) | u64::from(*high) << 32))
                    .collect()
            }
        };
        decode_numbers(self.format, &words, 0..self.spins, bytemuck::cast_slice_mut(numbers));
    }
}

/// Writes quark fields.
///
/// # Errors
/// [`Error::Parameter`] for another number of titles than fields, and for fields of other sizes;
/// [`Error::File`] if the file cannot be written; it then keeps its old content.
pub fn write(path: &Path, fields: &QuarkFields) -> Result<(), Error> {
    let sizes = [1, SPINS].map(|spins| spins * COLOURS * fields.geometry.sites());
    let first = fields.fields.first().map_or(0, Vec::len);
    let are_alike = sizes.contains(&first) && fields.fields.iter().all(|field| field.len() == first);
    if !are_alike || fields.titles.len() != fields.fields.len() {
        let problem = format!("all have to have {sizes:?} numbers, and a title each");
        return Err(Error::parameter("fields", problem));
    }
    let written = zellige_files::write_whole(path, |out| put(out, fields));
    written.map_err(|error| Error::system(path, "cannot be written", error.into()))
}

fn put(out: &mut impl Write, quarks: &QuarkFields) -> io::Result<()> {
    let QuarkFields { geometry, fields, format, titles } = quarks;
    record(out, FIRST, "scidac-private-file-xml", file_text(*geometry).as_bytes())?;
    record(out, LAST, "scidac-file-xml", title("quark fields").as_bytes())?;
    for (field, text) in fields.iter().zip(titles) {
        let of_site = field.len() / geometry.sites();
        let kind = FieldType { format: *format, spins: of_site / COLOURS };
        record(out, FIRST, "scidac-private-record-xml", kind.text().as_bytes())?;
        record(out, 0, "scidac-record-xml", title(text).as_bytes())?;
        // A site has a multiple of eight bytes, so no padding is needed.
        record_head(out, 0, "scidac-binary-data", (geometry.sites() * kind.bytes()) as u64)?;
        let mut sums = LimeSums::default();
        for rank in 0..geometry.sites() {
            let site = geometry.site(links::coordinates(*geometry, rank)) as usize;
            let bytes = kind.encode(&field[site * of_site..][..of_site]);
            sums.add(&bytes);
            out.write_all(&bytes)?;
        }
        record(out, LAST, "scidac-checksum", sums.text().as_bytes())?;
    }
    Ok(())
}

/// Reads quark fields.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, has no quark fields, is truncated or damaged.
pub fn read(path: &Path) -> Result<QuarkFields, Error> {
    let mut source = FieldFile::open(path)?;
    if u32::from_be_bytes(source.array("quark fields")?) != lime::MAGIC {
        return Err(source.wrong_all("not a SciDAC file: it does not begin with a LIME record"));
    }
    let (mut geometry, mut kind, mut sums) = (None, None, [0; 2]);
    let (mut fields, mut titles, mut first) = (Vec::new(), Vec::new(), None);
    each_record(&mut source, |source, name, length| {
        let is_text = name.starts_with("scidac-") && name != "scidac-binary-data";
        let text = if is_text { text_of(source, name, length)? } else { None };
        match (name, &text) {
            ("scidac-private-file-xml", Some(text)) => {
                if let Some(extents) = extents_of(text) {
                    geometry = Some(links::geometry(source, extents)?);
                }
            }
            ("scidac-private-record-xml", Some(text)) => {
                let named = element(text, "datatype").unwrap_or_default();
                let found = FieldType::of_name(named);
                if found.is_none() {
                    return Err(source.wrong(format!(
                        "fields of type {named:?}: colour vectors and Dirac fermions with three colours are supported"
                    )));
                }
                if *first.get_or_insert(found) != found {
                    return Err(source.wrong("fields of different types"));
                }
                kind = found;
            }
            ("scidac-record-xml", Some(text)) => {
                titles.resize(fields.len(), String::new());
                titles.push(title_of(text));
            }
            ("scidac-checksum", Some(text)) if checksums_of(source, text)? != sums => {
                return Err(source.wrong("a field does not match its checksum: the file is damaged"));
            }
            ("scidac-binary-data", _) => {
                let (Some(geometry), Some(kind)) = (geometry, kind) else {
                    return Err(source.wrong("data before SciDAC's private records, which describe them"));
                };
                let expected = (geometry.sites() * kind.bytes()) as u64;
                if length != expected {
                    let problem = format!("a field of {length} bytes: this lattice and type have {expected}");
                    return Err(source.wrong(problem));
                }
                let (field, found) = read_field(source, geometry, kind)?;
                fields.push(field);
                sums = found;
                return Ok(true);
            }
            _ => {}
        }
        Ok(text.is_some())
    })?;
    let (Some(geometry), Some(kind)) = (geometry, kind.filter(|_| !fields.is_empty())) else {
        return Err(
            source.wrong_all("the file has no record scidac-binary-data, so that it has no quark fields")
        );
    };
    titles.resize(fields.len(), String::new());
    Ok(QuarkFields { geometry, fields, format: kind.format, titles })
}

fn read_field(
    source: &mut FieldFile,
    geometry: Geometry,
    kind: FieldType,
) -> Result<(Vec<C64>, [u32; 2]), Error> {
    let of_site = kind.spins * COLOURS;
    let mut field = vec![C64::default(); geometry.sites() * of_site];
    let (mut sums, mut bytes) = (LimeSums::default(), vec![0; kind.bytes()]);
    for rank in 0..geometry.sites() {
        source.fill(&mut bytes, "a quark field")?;
        sums.add(&bytes);
        let site = geometry.site(links::coordinates(geometry, rank)) as usize;
        kind.decode(&bytes, &mut field[site * of_site..][..of_site]);
    }
    Ok((field, sums.sums))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(format: SiteFormat, spins: usize) -> QuarkFields {
        let geometry = Geometry::new([4, 4, 6, 4]).expect("a lattice");
        let count = geometry.sites() * spins * COLOURS;
        let field = |seed: usize| {
            (0..count)
                .map(|i| C64::new(((i + seed) % 17) as f64 - 8.0, ((i * 3 + seed) % 23) as f64 / 8.0))
                .collect()
        };
        let titles = vec!["first".into(), "second & last".into()];
        QuarkFields { geometry, fields: vec![field(1), field(2)], format, titles }
    }

    #[test]
    fn fields_come_back_from_their_files() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("quarks.lime");
        for format in SiteFormat::ALL {
            for spins in [1, SPINS] {
                let wanted = fields(format, spins);
                write(&path, &wanted)?;
                let found = read(&path)?;
                assert_eq!((found.geometry, found.format), (wanted.geometry, format));
                assert_eq!(found.titles, wanted.titles);
                let each = found.fields.iter().flatten().zip(wanted.fields.iter().flatten());
                let apart = each.map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
                assert!(apart <= 12.0 * format.unit_roundoff(), "{format}: {apart:e}");
            }
        }
        Ok(())
    }

    /// Numbers by hand: the site (1, 0, 0, 0) is the second one of the data.
    #[test]
    fn float32_is_big_endian_with_x_fastest() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("quarks.lime");
        let mut quarks = fields(SiteFormat::Fp32, 1);
        let site = quarks.geometry.site([1, 0, 0, 0]) as usize;
        quarks.fields[0][site * COLOURS + 1] = C64::new(1.5, -2.0);
        write(&path, &quarks)?;
        let bytes = std::fs::read(&path).expect("the file");
        let name = b"scidac-binary-data\0";
        let at = bytes.windows(name.len()).position(|window| window == name).expect("the record");
        let data = &bytes[at + 128..];
        assert_eq!(data[24 + 8..24 + 16], [0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0]);
        Ok(())
    }

    #[test]
    fn damaged_and_other_files_are_refused() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("quarks.lime");
        write(&path, &fields(SiteFormat::Int20, 1))?;
        let bytes = std::fs::read(&path).expect("the file");
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            read(&path).expect_err("refused").to_string()
        };
        let mut changed = bytes.clone();
        let at = bytes.len() / 3;
        changed[at] ^= 1;
        assert!(refused(&changed).contains("damaged"));
        assert!(refused(&bytes[..bytes.len() / 2]).contains("truncated"));
        assert!(refused(b"").contains("ends within"));
        assert!(refused(b"not a lime file").contains("SciDAC"));
        let plain = fields(SiteFormat::Fp32, 1);
        let mixed = vec![plain.fields[0].clone(), fields(SiteFormat::Fp32, SPINS).fields.remove(0)];
        for other in [
            QuarkFields { titles: Vec::new(), ..plain.clone() },
            QuarkFields { fields: mixed, ..plain.clone() },
            QuarkFields { fields: vec![vec![C64::default(); 7]; 2], ..plain.clone() },
            QuarkFields { fields: Vec::new(), titles: Vec::new(), ..plain },
        ] {
            assert!(write(&path, &other).is_err());
        }
        Ok(())
    }
}
