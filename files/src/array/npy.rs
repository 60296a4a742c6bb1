//! Checks of headers of npy files before the crate that reads them is called. Its time doubles with
//! each nested bracket, it multiplies sides without a check, and it allocates the size that a
//! header declares.

use std::io::{self, Read, Seek};

/// A header of more bytes than this belongs to no array of numbers.
const LONGEST_HEADER: u64 = 1024;

/// Problem of files that are no npy file.
pub(super) const NO_ARRAY: &str = "no npy file of an array in memory: it begins otherwise, or is cut off";

/// Returns the offset of the values of an npy file (bytes), or none if it is no such file. The
/// reader is at its beginning before and after the call.
///
/// # Errors
/// Errors of the reader.
pub(super) fn begin(reader: &mut (impl Read + Seek), size: u64) -> io::Result<Option<u64>> {
    let mut head = [0; 12];
    if size < head.len() as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut head)?;
    reader.rewind()?;
    let (fixed, length) = match head[6] {
        1 => (10, u64::from(u16::from_le_bytes([head[8], head[9]]))),
        _ => (12, u64::from(u32::from_le_bytes([head[8], head[9], head[10], head[11]]))),
    };
    if &head[..6] != b"\x93NUMPY" || length > LONGEST_HEADER || fixed + length > size {
        return Ok(None);
    }
    let mut header = vec![0; (fixed + length) as usize];
    reader.read_exact(&mut header)?;
    reader.rewind()?;
    let text = &header[fixed as usize..];
    Ok((is_flat(text) && numbers_fit(text)).then_some(fixed + length))
}

/// Describes the problem of an npy header that [`begin`] or the reader refuses, if the header shows
/// it.
pub(super) fn refused(head: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(head.strip_prefix(b"\x93NUMPY")?);
    let descr = text.split_once("'descr':")?.1.trim_start();
    if descr.starts_with('[') {
        return Some("an array of records, not of numbers of one type: save one field, `a['NAME']`".into());
    }
    let kind = descr.strip_prefix('\'')?.split_once('\'')?.0;
    unread(kind.trim_start_matches(['<', '>', '|', '=']))
}

/// Why elements of this type are no numbers, and what to save instead; none for numbers.
pub(super) fn unread(kind: &str) -> Option<String> {
    let (letter, width) = kind.split_at_checked(1)?;
    Some(match (letter, width) {
        ("V", "1" | "2") | ("f", "1") => format!(
            "elements of type {kind}, of which nobody can tell what they were: NumPy saves bfloat16, float8 and int4 of ml_dtypes so; \
             save `a.astype('float32')`"
        ),
        ("V", _) => {
            format!("elements of type {kind}, plain bytes: save `a.view('float32')` or what they are")
        }
        ("O", _) => "a Python object, not an array of numbers: save a sparse matrix with \
                     scipy.sparse.save_npz(FILE, A), a list of lists as numpy.asarray(a, dtype=float)"
            .into(),
        ("U" | "S", _) => "text, not numbers: save `a.astype('float64')`".into(),
        ("M" | "m", _) => "dates or times, not numbers: save `a.astype('int64')`".into(),
        _ => return None,
    })
}

/// Returns true if a header has no more brackets than an array of numbers needs.
fn is_flat(header: &[u8]) -> bool {
    let count = |bracket: u8| header.iter().filter(|&&byte| byte == bracket).count();
    count(b'{') <= 1 && count(b'(') <= 1 && count(b'[') == 0
}

/// Returns true if all numbers of a header are decimal, and their product does not overflow.
fn numbers_fit(header: &[u8]) -> bool {
    let words = header.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let mut numbers = words.filter(|word| word.first().is_some_and(u8::is_ascii_digit));
    let product = numbers.try_fold(1u64, |product, word| {
        let number: u64 = std::str::from_utf8(word).ok()?.parse().ok()?;
        product.checked_mul(number.max(1))
    });
    product.is_some()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use npyz::NpyFile;
    use proptest::prelude::*;

    use super::*;

    fn file(header: &str) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &[0; 48]].concat()
    }

    fn opened(bytes: &[u8]) -> io::Result<NpyFile<Cursor<&[u8]>>> {
        let mut reader = Cursor::new(bytes);
        let begin = begin(&mut reader, bytes.len() as u64)?;
        begin.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, NO_ARRAY))?;
        NpyFile::new(reader)
    }

    #[test]
    fn arrays_of_numbers_are_opened_and_nothing_else() {
        let whole = file("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n");
        assert_eq!(opened(&whole).expect("an array").shape(), [2, 3]);
        for header in [
            "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }\n",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999), }\n",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (0x10, ), }\n",
            &"[".repeat(60),
            &"{".repeat(60),
        ] {
            let error = opened(&file(header)).err().expect(header);
            assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::InvalidData, NO_ARRAY.to_owned()));
        }
        for bytes in [&whole[..30], &whole[..11], b"", b"\x93NUMPY"] {
            assert!(opened(bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_header_is_opened_or_refused(header in "[\\[\\]{}()',: <>|a-z0-9_.-]{0,300}", version in 0u8..5) {
            let mut bytes = file(&header);
            bytes[6] = version;
            let _ = opened(&bytes);
        }
    }
}
