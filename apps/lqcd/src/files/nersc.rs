//! Format of the NERSC archive: lines of text, followed by the matrices.
//!
//! The header is `BEGIN_HEADER`, lines `KEY = VALUE`, `END_HEADER`. `DATATYPE` is `4D_SU3_GAUGE`
//! (two rows of each matrix, the third is computed) or `4D_SU3_GAUGE_3x3`. `FLOATING_POINT` is
//! `IEEE32BIG`, `IEEE32LITTLE`, `IEEE64BIG` or `IEEE64LITTLE`. Without a byte order, the one that
//! gives the right checksum is used. `CHECKSUM` is the sum of all 32-bit words. `PLAQUETTE` and
//! `LINK_TRACE` are compared to the precision of their digits.

use std::collections::BTreeMap;

use super::links::{self, LinkFormat, Numbers};
use super::{ByteOrder, FieldFile, Lattice};
use crate::error::Error;
use crate::observables::{link_trace, plaquettes};

/// Maximum size of a header in bytes.
const LONGEST: usize = 1 << 16;

/// Tolerance for plaquette and link trace, since headers have about six digits.
const MEASURED: f64 = 1e-5;

/// Reads the file after its first four bytes.
pub(super) fn read(mut source: FieldFile) -> Result<Lattice, Error> {
    let keys = header(&mut source)?;
    let text = |key: &str| keys.get(key).map(String::as_str);
    let needed = |key: &str| text(key).ok_or_else(|| source.wrong(format!("the header has no {key}")));
    let mut extents = [0; 4];
    for (i, extent) in extents.iter_mut().enumerate() {
        let key = format!("DIMENSION_{}", i + 1);
        let value = needed(&key)?;
        *extent = value.parse().map_err(|_| source.wrong(format!("{key} = {value}: a number is needed")))?;
    }
    let rows = match needed("DATATYPE")? {
        "4D_SU3_GAUGE" => 2,
        "4D_SU3_GAUGE_3x3" | "4D_SU3_GAUGE_3X3" => 3,
        other => {
            let problem = format!("DATATYPE = {other}: 4D_SU3_GAUGE and 4D_SU3_GAUGE_3x3 are supported");
            return Err(source.wrong(problem));
        }
    };
    let (precision, order) = match needed("FLOATING_POINT")? {
        "IEEE32" => (32, None),
        "IEEE32BIG" => (32, Some(ByteOrder::Big)),
        "IEEE32LITTLE" => (32, Some(ByteOrder::Little)),
        "IEEE64" => (64, None),
        "IEEE64BIG" => (64, Some(ByteOrder::Big)),
        "IEEE64LITTLE" => (64, Some(ByteOrder::Little)),
        other => {
            let problem = format!("FLOATING_POINT = {other}: IEEE32 or IEEE64, BIG or LITTLE, are supported");
            return Err(source.wrong(problem));
        }
    };
    let named = needed("CHECKSUM")?;
    let named = u32::from_str_radix(named.trim_start_matches("0x"), 16)
        .map_err(|_| source.wrong(format!("CHECKSUM = {named}: a hexadecimal number is needed")))?;
    let geometry = links::geometry(&source, extents)?;
    let layout = |order| LinkFormat { order, precision, numbers: Numbers::Rows(rows) };
    let bytes = layout(ByteOrder::Big).bytes(geometry);
    source.expect_left(bytes, "this lattice")?;
    let order = match order {
        Some(order) => order,
        None => order_by_checksum(&mut source, bytes, named)?,
    };
    let mut sum = 0u32;
    let gauge = links::read(&mut source, geometry, layout(order), false, |site| {
        sum = sum.wrapping_add(sum_of(site, order))
    })?;
    if sum != named {
        let problem =
            format!("the checksum of the data is {sum:x}, but the header has {named:x}: the file is damaged");
        return Err(source.wrong_all(problem));
    }
    let measured = [("PLAQUETTE", plaquettes(&gauge).mean()), ("LINK_TRACE", link_trace(&gauge))];
    for (key, own) in measured {
        let Some(value) = text(key) else { continue };
        let near = value.parse::<f64>().is_ok_and(|said| (said - own).abs() <= MEASURED);
        if !near {
            let problem =
                format!("{key} is {own:.8}, but the header has {value}: links or sites are in another order");
            return Err(source.wrong_all(problem));
        }
    }
    let keys = ["ENSEMBLE_ID", "ENSEMBLE_LABEL", "SEQUENCE_NUMBER", "CREATOR", "CREATION_DATE"];
    let words = keys.into_iter().filter_map(text).filter(|word| !word.is_empty()).collect::<Vec<_>>();
    Ok(Lattice {
        gauge,
        format: "nersc",
        byte_order: order,
        precision,
        packed: None,
        checksum: Some(format!("{sum:x}")),
        description: words.join(", "),
    })
}

/// Returns the sum of the words of some data.
fn sum_of(bytes: &[u8], order: ByteOrder) -> u32 {
    let words = bytes.chunks_exact(4).map(|four| order.u32(four.try_into().expect("four bytes")));
    words.fold(0, u32::wrapping_add)
}

/// Returns the byte order in which the data have the checksum of the header. Afterwards the source
/// is at its previous offset.
fn order_by_checksum(source: &mut FieldFile, bytes: u64, named: u32) -> Result<ByteOrder, Error> {
    let (begin, orders) = (source.offset, [ByteOrder::Big, ByteOrder::Little]);
    let (mut sums, mut left) = ([0u32; 2], bytes);
    let mut buffer = vec![0; 1 << 16];
    while left > 0 {
        // Both sizes are multiples of a word.
        let part = &mut buffer[..left.min(1 << 16) as usize];
        source.fill(part, "the links")?;
        for (sum, order) in sums.iter_mut().zip(orders) {
            *sum = sum.wrapping_add(sum_of(part, order));
        }
        left -= part.len() as u64;
    }
    source.back_to(begin)?;
    match orders.into_iter().zip(sums).find(|(_, sum)| *sum == named) {
        Some((order, _)) => Ok(order),
        None => Err(source.wrong_all(format!(
            "FLOATING_POINT does not give the byte order, and the checksum of the data is {:x} (big-endian) or {:x} (little-endian), the header has {named:x}: \
             the file is damaged",
            sums[0], sums[1]
        ))),
    }
}

/// Reads the keys of a header; the first bytes of its first line have been read.
fn header(source: &mut FieldFile) -> Result<BTreeMap<String, String>, Error> {
    let (mut keys, mut line, mut read) = (BTreeMap::new(), b"BEGI".to_vec(), 0);
    loop {
        let [byte] = source.array("the header of a NERSC file")?;
        read += 1;
        if read > LONGEST {
            return Err(source.wrong("no END_HEADER in 64 KiB: not a NERSC file"));
        }
        if byte != b'\n' {
            line.push(byte);
            continue;
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        line.clear();
        if text == "END_HEADER" {
            return Ok(keys);
        }
        if let Some((key, value)) = text.split_once('=') {
            keys.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
}
