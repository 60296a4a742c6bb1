//! What a search says of an event.

/// What is to be known about how an answer came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// It is proven to be the answer of a full search in `f64`.
    pub const CERTIFIED: Flags = Flags(1);
    /// A proof left more points in question than were to be compared again: every point was
    /// compared in `f64`.
    pub const FELL_BACK: Flags = Flags(1 << 1);
    /// Only coarse points were compared, for the energy's sake.
    pub const COARSE_ONLY: Flags = Flags(1 << 2);
    /// Another point has the same figure of merit; the lowest number won.
    pub const TIE: Flags = Flags(1 << 3);
    /// The event has more hit segments than a search takes apart.
    pub const TOO_MANY_SEGMENTS: Flags = Flags(1 << 4);
    /// It is one of two hits in its segment.
    pub const PAIR: Flags = Flags(1 << 5);
    /// Samples that were compared are clipped: energy and position come from the others.
    pub const SATURATED: Flags = Flags(1 << 6);

    /// With those of `other`.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// With those of `other` where `condition` holds.
    #[must_use]
    pub fn with_if(self, condition: bool, other: Flags) -> Flags {
        if condition { self.with(other) } else { self }
    }

    /// Whether all of `other` are there.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// As it stands among the numbers of an answer.
    pub(super) fn number(self) -> f64 {
        f64::from(self.0)
    }

    /// In words.
    pub fn words(self) -> Vec<&'static str> {
        let all = [
            (Flags::CERTIFIED, "certified"),
            (Flags::FELL_BACK, "fell-back"),
            (Flags::COARSE_ONLY, "coarse-only"),
            (Flags::TIE, "tie"),
            (Flags::TOO_MANY_SEGMENTS, "too-many-segments"),
            (Flags::PAIR, "pair"),
            (Flags::SATURATED, "saturated"),
        ];
        all.into_iter().filter(|&(flag, _)| self.has(flag)).map(|(_, word)| word).collect()
    }
}

/// The point whose signals are most like those of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Its place among the points of the segment.
    pub index: usize,
    /// Its figure of merit, with a charge of 1000.
    pub fom: f64,
    /// The point that comes next, of those that were compared last; none where there was no other.
    pub second: Option<usize>,
    /// How much larger its figure of merit is.
    pub gap: f64,
    /// How far points lie from the best one whose figures of merit are up to 2 % larger, of those
    /// that were compared last: the root of the mean square (mm).
    pub spread: f64,
    /// How it came about.
    pub flags: Flags,
}

/// Numbers in which an answer travels.
pub(super) const NUMBERS: usize = 6;

impl Found {
    pub(super) fn to_numbers(self) -> [f64; NUMBERS] {
        let second = self.second.map_or(-1.0, |second| second as f64);
        [self.index as f64, self.fom, second, self.gap, self.spread, self.flags.number()]
    }

    pub(super) fn from_numbers(&[index, fom, second, gap, spread, flags]: &[f64; NUMBERS]) -> Found {
        let second = (second >= 0.0).then_some(second as usize);
        Found { index: index as usize, fom, second, gap, spread, flags: Flags(flags as u8) }
    }
}
