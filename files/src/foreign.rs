//! Files of other programs, known by their first bytes and named with a line that converts them.

use std::io::{self, Read};
use std::path::Path;

/// Number of bytes at the beginning of a file that identify its format.
pub const HEAD: usize = 2048;

/// First bytes of zip files.
pub const ZIP: &[u8] = b"PK\x03\x04";
/// First bytes of npy files.
pub const NPY: &[u8] = b"\x93NUMPY";
/// First bytes of HDF5 files.
pub const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";

/// Reads the first bytes of a file, at most [`HEAD`].
///
/// # Errors
/// Errors of the reader.
pub fn head(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEAD);
    reader.take(HEAD as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns true if this is a regular file that begins with these bytes.
pub fn begins(path: &Path, with: &[u8]) -> bool {
    let mut bytes = Vec::new();
    let read = |file: std::fs::File| file.take(with.len() as u64).read_to_end(&mut bytes);
    path.is_file() && std::fs::File::open(path).and_then(read).is_ok() && bytes == with
}

/// Python that brings a matrix into a file that is read, given an expression for it.
macro_rules! python {
    ($import:literal, $matrix:literal) => {
        concat!(
            "python3 -c \"import ",
            $import,
            ", scipy.sparse as s; s.save_npz('A.npz', s.coo_array(",
            $matrix,
            "))\""
        )
    };
}

/// Returns the format of a file that cannot be read here, with a command that converts it; none for
/// unknown formats.
///
/// ```
/// let (what, command) = zellige_files::foreign::name(b"BZh91AY&SY...").expect("bzip2");
/// assert_eq!((what, command), ("a file compressed with bzip2", "bunzip2 --keep FILE"));
/// ```
pub fn name(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const BY_BEGINNING: &[(&[u8], &str, &str)] = &[
        (
            b"MATLAB 5.0 MAT-file",
            "a MATLAB file (version 5)",
            python!("scipy.io as i", "i.loadmat('FILE')['A']"),
        ),
        (
            b"MATLAB 7.3 MAT-file",
            "a MATLAB file (version 7.3, HDF5 inside)",
            "python3 -c \"import h5py, scipy.sparse as s; g = h5py.File('FILE')['A']; s.save_npz('A.npz', \
             s.csc_array((g['data'][:], g['ir'][:], g['jc'][:]), (g.attrs['MATLAB_sparse'], len(g['jc']) - 1)) \
             if 'MATLAB_sparse' in g.attrs else s.coo_array(g[:].T))\"",
        ),
        (b"BZh", "a file compressed with bzip2", "bunzip2 --keep FILE"),
        (b"\xfd7zXZ\0", "a file compressed with xz", "unxz --keep FILE"),
        (b"\x28\xb5\x2f\xfd", "a file compressed with zstd", "unzstd FILE"),
        (b"\x04\x22\x4d\x18", "a file compressed with lz4", "unlz4 FILE"),
        (b"LZIP", "a file compressed with lzip", "lzip -d -k FILE"),
        (b"\x1f\x9d", "a file compressed with compress", "gunzip --keep FILE"),
        (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "7z x FILE"),
        (b"SIMPLE  =", "a FITS file", python!("astropy.io.fits as f", "f.getdata('FILE').astype(float)")),
        (b"PAR1", "a Parquet file", python!("pandas", "pandas.read_parquet('FILE').to_numpy()")),
        (b"\xff\xfe", "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > FILE.txt"),
        (b"\xfe\xff", "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > FILE.txt"),
    ];
    let known = BY_BEGINNING.iter().find(|(begin, ..)| head.starts_with(begin));
    if let Some(&(_, what, command)) = known {
        return Some((what, command));
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some(("a tar archive", "tar -xf FILE"));
    }
    if is_pickle(head) {
        let command = python!("pickle", "pickle.load(open('FILE', 'rb'))");
        return Some(("a pickled Python object", command));
    }
    is_matlab_4(head)
        .then_some(("a MATLAB file (version 4)", python!("scipy.io as i", "i.loadmat('FILE')['A']")))
}

/// Protocols 2 to 5 say which they are; a frame or the name of a module follows.
fn is_pickle(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, 0x95 | b'c' | b'}' | b']' | 0x8c, ..])
}

/// A header of five numbers: type, rows, columns, whether it is complex, length of the name; then
/// the name.
fn is_matlab_4(head: &[u8]) -> bool {
    let is = |order: usize| {
        let number = |at: usize| {
            let bytes: [u8; 4] = head.get(4 * at..4 * at + 4)?.try_into().ok()?;
            Some(if order == 0 { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
        };
        let (Some(kind), Some(imaginary), Some(length)) = (number(0), number(3), number(4)) else {
            return false;
        };
        let name = head.get(20..20 + length.min(64) as usize).unwrap_or_default();
        let is_kind = kind / 1000 == order as u32 && kind / 10 % 10 <= 5 && kind % 10 <= 2;
        is_kind
            && imaginary <= 1
            && (2..64).contains(&length)
            && name.split_last().is_some_and(|(end, name)| *end == 0 && name.iter().all(u8::is_ascii_graphic))
    };
    is(0) || is(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_is_named() {
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let matlab = [0u32, 2, 2, 0, 2].map(u32::to_le_bytes).concat();
        for (head, says) in [
            (&b"MATLAB 5.0 MAT-file, Platform"[..], "MATLAB file (version 5)"),
            (b"MATLAB 7.3 MAT-file, Platform", "HDF5 inside"),
            (b"\xfd7zXZ\0\0", "xz"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (&tar, "tar"),
            (b"\x80\x04\x95abc", "pickled"),
            (&[&matlab[..], b"A\0"].concat(), "version 4"),
        ] {
            let (what, command) = name(head).expect(says);
            assert!(what.contains(says) && command.contains("FILE"), "{what}: {command}");
        }
        for head in [&b""[..], b"%%MatrixMarket", b"1 2 3\n", NPY, ZIP, HDF5, &[0; 600]] {
            assert_eq!(name(head), None);
        }
    }
}
