//! Packets of slopes or commands. All numbers are little-endian.
//!
//! | bytes | type | value |
//! | --- | --- | --- |
//! | 0 to 1 | u16 | version of the format: 1 |
//! | 2 to 3 | u16 | number of values `n`, 1 or more |
//! | 4 to 7 | u32 | number of the frame; it wraps |
//! | 8 to 11 | u32 | index of the first value in the frame |
//! | 12 to 11 + 4 n | f32 | values, all finite |

/// Version of the format.
const VERSION: u16 = 1;

/// Bytes before the values.
const HEAD: usize = 12;

/// Maximum number of values of a packet that is sent: 1452 bytes, within an Ethernet frame.
pub const VALUES: usize = 360;

/// Maximum size of a packet over UDP, in bytes.
pub(super) const LARGEST: usize = 65_507;

/// A packet whose form is right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packet<'a> {
    /// Number of the frame.
    pub frame: u32,
    /// Index of the first value in the frame.
    pub first: usize,
    /// Values, 4 bytes each.
    values: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet; `None` if its version or its size is wrong, or a value is not finite.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (head, values) = bytes.split_at_checked(HEAD)?;
        let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let packet = Packet { frame: long(4), first: long(8) as usize, values };
        let fits = short(0) == VERSION && short(2) > 0 && values.len() == 4 * usize::from(short(2));
        (fits && packet.values().all(f32::is_finite)).then_some(packet)
    }

    /// Returns the values.
    pub fn values(&self) -> impl ExactSizeIterator<Item = f32> + 'a {
        self.values.chunks_exact(4).map(|v| f32::from_le_bytes([v[0], v[1], v[2], v[3]]))
    }
}

/// Writes a packet to `to`, whose memory it uses again.
///
/// # Panics
/// There are no values, or more than 65 535.
pub fn write(frame: u32, first: usize, values: &[f32], to: &mut Vec<u8>) {
    assert!((1..=usize::from(u16::MAX)).contains(&values.len()), "{} values", values.len());
    to.clear();
    to.extend(VERSION.to_le_bytes());
    to.extend((values.len() as u16).to_le_bytes());
    to.extend(frame.to_le_bytes());
    to.extend((first as u32).to_le_bytes());
    values.iter().for_each(|value| to.extend(value.to_le_bytes()));
}

/// Calls `send` with each of the packets of values from `first` on.
///
/// # Errors
/// The first error of `send`.
pub(super) fn packets<E>(
    frame: u32,
    first: usize,
    values: &[f32],
    memory: &mut Vec<u8>,
    mut send: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    for (k, part) in values.chunks(VALUES).enumerate() {
        write(frame, first + k * VALUES, part, memory);
        send(memory)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_table() {
        let mut bytes = Vec::new();
        write(0x0102_0304, 5, &[1.0, -2.0], &mut bytes);
        let expected = [1, 0, 2, 0, 4, 3, 2, 1, 5, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0];
        assert_eq!(bytes, expected);
        let packet = Packet::read(&bytes).unwrap();
        assert_eq!((packet.frame, packet.first), (0x0102_0304, 5));
        assert_eq!(packet.values().collect::<Vec<_>>(), [1.0, -2.0]);
    }

    #[test]
    fn wrong_packets_are_no_packets() {
        let mut bytes = Vec::new();
        write(1, 0, &[1.0, 2.0], &mut bytes);
        let changed = |at: usize, to: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = to;
            bytes
        };
        let wrong = [
            vec![],
            bytes[..11].to_vec(),
            bytes[..19].to_vec(),
            changed(0, 2),
            changed(2, 3),
            changed(2, 0),
            changed(2, 0)[..12].to_vec(),
            [&bytes[..12], &f32::NAN.to_le_bytes(), &bytes[16..]].concat(),
        ];
        for bytes in wrong {
            assert_eq!(Packet::read(&bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn frames_are_cut_into_packets() {
        let values: Vec<f32> = (0..800).map(|v| v as f32).collect();
        let (mut memory, mut parts) = (Vec::new(), Vec::new());
        let sent: Result<(), ()> = packets(9, 100, &values, &mut memory, |bytes| {
            let packet = Packet::read(bytes).unwrap();
            parts.push((packet.first, packet.values().collect::<Vec<_>>()));
            Ok(())
        });
        assert_eq!(sent, Ok(()));
        assert_eq!(
            parts.iter().map(|(first, v)| (*first, v.len())).collect::<Vec<_>>(),
            [(100, 360), (460, 360), (820, 80)]
        );
        assert_eq!(parts.into_iter().flat_map(|(_, values)| values).collect::<Vec<_>>(), values);
    }
}
