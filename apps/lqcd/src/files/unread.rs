//! Recognition of unsupported files by their first bytes, with advice on their conversion.

use super::FieldFile;
use crate::error::Error;

/// Message for unknown files.
const UNKNOWN: &str =
    "not a known format of gauge fields, which are MILC version 5, NERSC, SciDAC and ILDG, openQCD and npy";

/// Number of bytes to inspect.
const LOOK: usize = 512;

/// Bytes of a site: four matrices in float32.
const SITE: u64 = 288;

/// Maximum magnitude of the numbers of links at the beginning of a file.
const LARGEST: f64 = 1.0 + 1e-5;
/// Minimum magnitude of nonzero numbers of links.
const SMALLEST: f64 = 1e-30;

/// Returns the error for a file in none of the formats.
pub(super) fn refuse(mut source: FieldFile) -> Error {
    let length = source.length;
    match source.beginning(LOOK) {
        Ok(first) => source.wrong_all(name(&first, length).unwrap_or_else(|| UNKNOWN.into())),
        Err(error) => error,
    }
}

/// Returns the kind of a file, with advice.
fn name(first: &[u8], length: u64) -> Option<String> {
    const SAVE: &str = "load it in Python and save the array of shape (4, T, Z, Y, X, 3, 3) with numpy.save";
    let unpack = |what: &str| Some(format!("compressed with {what}: unpack it first"));
    let word = |at: usize| first.get(at..at + 4).map(|four| [four[0], four[1], four[2], four[3]]);
    match first {
        [0x80, 2..=5, ..] => Some(format!("a Python pickle, as lyncs-io and others write: {SAVE}")),
        [b'P', b'K', 3..=8, ..] => Some(format!("a zip archive, as NumPy's npz is: {SAVE}")),
        [0x89, b'H', b'D', b'F', ..] => Some(format!("an HDF5 file, which has many layouts: {SAVE}")),
        [0x1f, 0x8b, ..] => unpack("gzip"),
        [b'B', b'Z', b'h', ..] => unpack("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => unpack("xz"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unpack("zstd"),
        _ if first.get(257..262) == Some(b"ustar") => Some("a tar archive: unpack it first".into()),
        _ => {
            let four = word(0)?;
            for magic in [u32::from_le_bytes(four), u32::from_be_bytes(four)] {
                let version = match magic {
                    59354 => "of version 1 to 4",
                    53546 => "of 1996",
                    0x7162_6434 => "in Fermilab's order of fields",
                    _ => continue,
                };
                return Some(format!(
                    "a MILC file {version}: load it in MILC and save it in version 5 (save_serial) or as ILDG"
                ));
            }
            bare(first, length)
        }
    }
}

/// Recognises links without a header.
fn bare(first: &[u8], length: u64) -> Option<String> {
    if length == 0 || !length.is_multiple_of(SITE) || first.iter().all(|byte| *byte == 0) {
        return None;
    }
    let are_links = |mut numbers: Box<dyn Iterator<Item = f64> + '_>| {
        numbers.all(|x| x == 0.0 || (SMALLEST..=LARGEST).contains(&x.abs()))
    };
    let eight = || first.chunks_exact(8).map(|bytes| <[u8; 8]>::try_from(bytes).expect("eight bytes"));
    let four = || first.chunks_exact(4).map(|bytes| <[u8; 4]>::try_from(bytes).expect("four bytes"));
    // Numbers in float32 may look like numbers in float64, but not conversely.
    let is_single = are_links(Box::new(four().map(|bytes| f32::from_be_bytes(bytes).into())))
        || are_links(Box::new(four().map(|bytes| f32::from_le_bytes(bytes).into())));
    if !is_single && are_links(Box::new(eight().map(f64::from_be_bytes))) {
        return Some(
            "no header, and big-endian numbers in float64, as in PyQUDA's KYU files. They do not contain the extents; convert the file in Python: \
             pyquda_io.writeNPYGauge(\"lattice.npy\", [X, Y, Z, T], pyquda_io.readKYUGauge(FILE, [X, Y, Z, T]))"
                .into(),
        );
    }
    (is_single || are_links(Box::new(eight().map(f64::from_le_bytes)))).then(|| {
        "numbers of links without a header with the extents: load them with numpy.fromfile and save the array of shape \
         (4, T, Z, Y, X, 3, 3) with numpy.save"
            .into()
    })
}
