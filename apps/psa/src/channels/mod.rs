//! Segments of a crystal, channels of its electronics, and the sets of channels that a search
//! compares.

pub(crate) mod map;

use std::fmt;
use std::str::FromStr;

pub use map::{ChannelMap, MOST_SAMPLES};

/// Number of sectors of a crystal around its axis.
pub const SECTORS: usize = 6;
/// Number of rings of a crystal along its axis, counted from the front face.
pub const RINGS: usize = 6;
/// Number of contacts on the outside of a crystal.
pub const SEGMENTS: usize = SECTORS * RINGS;
/// Number of signals of a crystal: those of the segments and of the core.
pub const CHANNELS: usize = SEGMENTS + 1;

/// One of the contacts on the outside of a crystal, and the germanium in front of it. Its number is
/// `6 sector + ring`, as in the codes of AGATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment(u8);

impl Segment {
    /// Returns the segment of a sector and a ring; `None` if there is no such sector or ring.
    pub fn new(sector: usize, ring: usize) -> Option<Self> {
        (sector < SECTORS && ring < RINGS).then_some(Segment((sector * RINGS + ring) as u8))
    }

    /// Returns the segment with a number from 0 to 35.
    pub fn from_index(index: usize) -> Option<Self> {
        (index < SEGMENTS).then_some(Segment(index as u8))
    }

    /// Returns all segments in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Segment> {
        (0..SEGMENTS as u8).map(Segment)
    }

    /// Returns the segment with the largest value, the first one of equal values.
    pub fn with_largest(value: impl Fn(Segment) -> f32) -> Segment {
        let larger = |best, other| if value(other) > value(best) { other } else { best };
        Segment::all().reduce(larger).expect("there are segments")
    }

    /// Returns the number of the segment, 0 to 35.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// Returns the sector, 0 to 5 around the axis.
    pub fn sector(self) -> usize {
        self.index() / RINGS
    }

    /// Returns the ring, 0 to 5 along the axis, 0 at the front face.
    pub fn ring(self) -> usize {
        self.index() % RINGS
    }

    /// Returns whether the segment touches `other`, at an edge or a corner. No segment touches
    /// itself.
    pub fn touches(self, other: Segment) -> bool {
        let around = self.sector().abs_diff(other.sector());
        self != other && around.min(SECTORS - around) <= 1 && self.ring().abs_diff(other.ring()) <= 1
    }
}

/// One signal of a crystal: number 0 to 35 for the segments, 36 for the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(u8);

impl Channel {
    /// The signal of the core.
    pub const CORE: Channel = Channel(SEGMENTS as u8);

    /// Returns all channels: the segments and the core.
    pub fn all() -> impl Iterator<Item = Channel> {
        Segment::all().map(Channel::from).chain([Channel::CORE])
    }

    /// Returns the channel with a number from 0 to 36.
    pub fn from_index(index: usize) -> Option<Self> {
        (index < CHANNELS).then_some(Channel(index as u8))
    }

    /// Returns the number of the channel, 0 to 36.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

impl From<Segment> for Channel {
    fn from(segment: Segment) -> Self {
        Channel(segment.0)
    }
}

/// The signals of an event that are compared with those of the basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChannelSet {
    /// The segment that was hit, and the core.
    HitCore,
    /// The hit segment, the core and the segments that touch the hit one: 10 channels, 7 in the
    /// first and the last ring.
    Neighbours,
    /// All 37 channels.
    All,
}

impl ChannelSet {
    /// Returns the channels that are compared for a hit in `segment`: its own first, then the
    /// others by number, the core last.
    pub fn of(self, segment: Segment) -> Vec<Channel> {
        let others = Segment::all().filter(|&other| match self {
            ChannelSet::HitCore => false,
            ChannelSet::Neighbours => other.touches(segment),
            ChannelSet::All => other != segment,
        });
        [segment].into_iter().chain(others).map(Channel::from).chain([Channel::CORE]).collect()
    }
}

impl fmt::Display for ChannelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChannelSet::HitCore => "hit-core",
            ChannelSet::Neighbours => "neighbours",
            ChannelSet::All => "all",
        })
    }
}

impl FromStr for ChannelSet {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [ChannelSet::HitCore, ChannelSet::Neighbours, ChannelSet::All]
            .into_iter()
            .find(|set| set.to_string() == name)
            .ok_or_else(|| crate::Error::Parameter {
                name: "channels",
                problem: format!("'{name}' is not one of hit-core, neighbours, all"),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(set: ChannelSet, segment: usize) -> Vec<usize> {
        let segment = Segment::from_index(segment).expect("a segment");
        set.of(segment).into_iter().map(Channel::index).collect()
    }

    #[test]
    fn neighbours_go_around_the_axis_and_end_at_the_faces() {
        assert_eq!(numbers(ChannelSet::Neighbours, 0), [0, 1, 6, 7, 30, 31, 36]);
        assert_eq!(numbers(ChannelSet::Neighbours, 14), [14, 7, 8, 9, 13, 15, 19, 20, 21, 36]);
        assert_eq!(numbers(ChannelSet::HitCore, 35), [35, 36]);
        assert_eq!(numbers(ChannelSet::All, 5).len(), CHANNELS);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for set in [ChannelSet::HitCore, ChannelSet::Neighbours, ChannelSet::All] {
            assert_eq!(set.to_string().parse::<ChannelSet>().expect("its own name"), set);
        }
        assert!("core".parse::<ChannelSet>().is_err());
    }
}
