//! Integers of a number of bits in bytes: planes of 8, 4, 2 and 1 of their bits.

use super::{PART, ROWS};

/// Appends the integers of a block.
pub(super) fn pack(unsigned: &[u16], bits: u32, out: &mut Vec<u8>) {
    let mut from = 0;
    if bits > 8 {
        out.extend(unsigned.iter().map(|code| *code as u8));
        from = 8;
    }
    for part in unsigned.chunks(unsigned.len() * PART / ROWS) {
        let mut from = from;
        for width in [8, 4, 2, 1] {
            if bits - from < width {
                continue;
            }
            // Bits `from` on, of `8 / width` integers in each byte.
            let (per_byte, mask) = (8 / width as usize, (1 << width) - 1);
            let count = part.len() / per_byte;
            out.extend((0..count).map(|k| {
                let field = |r: usize| ((part[k + r * count] >> from) & mask) << (r * width as usize);
                (0..per_byte).fold(0, |byte, r| byte | field(r)) as u8
            }));
            from += width;
        }
    }
}

/// Unpacks integers of 1 to 7 bits.
#[inline(always)]
pub(super) fn unpack(bits: u32, bytes: &[u8], out: &mut [u8]) {
    match bits {
        1 => unpack_each::<1>(bytes, out),
        2 => unpack_each::<2>(bytes, out),
        3 => unpack_each::<3>(bytes, out),
        4 => unpack_each::<4>(bytes, out),
        5 => unpack_each::<5>(bytes, out),
        6 => unpack_each::<6>(bytes, out),
        _ => unpack_each::<7>(bytes, out),
    }
}

/// Unpacks with constant shifts.
#[inline(always)]
fn unpack_each<const BITS: u32>(bytes: &[u8], out: &mut [u8]) {
    let count = out.len();
    let (fours, rest) = bytes.split_at(if BITS & 4 == 0 { 0 } else { count / 2 });
    let (twos, ones) = rest.split_at(if BITS & 2 == 0 { 0 } else { count / 4 });
    let ones = &ones[..if BITS & 1 == 0 { 0 } else { count / 8 }];
    macro_rules! part {
        ($planes:ident, $width:literal, $from:expr, $($r:literal)*) => {
            $(for (byte, code) in $planes.iter().zip(&mut out[$r * (count * $width / 8)..]) {
                let part = (byte >> ($r * $width) & ((1 << $width) - 1)) << $from;
                *code = if $from == 0 { part } else { *code | part };
            })*
        };
    }
    part!(fours, 4, 0, 0 1);
    part!(twos, 2, BITS & 4, 0 1 2 3);
    part!(ones, 1, BITS & 6, 0 1 2 3 4 5 6 7);
}
