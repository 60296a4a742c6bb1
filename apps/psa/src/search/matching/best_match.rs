//! Answer of a search of one segment.

/// Flags that describe the origin of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// The answer is proven to be that of a full search in `f64`.
    pub const CERTIFIED: Flags = Flags(1);
    /// A proof left more points in question than its limit: every point was compared in `f64`.
    pub const FELL_BACK: Flags = Flags(1 << 1);
    /// Only coarse points were compared, because of a low energy.
    pub const COARSE_ONLY: Flags = Flags(1 << 2);
    /// Another point has the same figure of merit; the lowest number was chosen.
    pub const TIE: Flags = Flags(1 << 3);
    /// The event has too many hit segments for a joint search of its hits.
    pub const TOO_MANY_SEGMENTS: Flags = Flags(1 << 4);
    /// The hit is one of two hits in its segment.
    pub const PAIR: Flags = Flags(1 << 5);
    /// Some of the compared samples are clipped: energy and position come from the others.
    pub const SATURATED: Flags = Flags(1 << 6);

    /// Returns the union with the flags of `other`.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns the union with the flags of `other` if `condition` holds.
    #[must_use]
    pub fn with_if(self, condition: bool, other: Flags) -> Flags {
        if condition { self.with(other) } else { self }
    }

    /// Returns whether all flags of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags as one of the numbers of an answer.
    pub(in crate::search) fn number(self) -> f64 {
        f64::from(self.0)
    }

    /// Returns the names of the flags.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (Flags::CERTIFIED, "certified"),
            (Flags::FELL_BACK, "fell-back"),
            (Flags::COARSE_ONLY, "coarse-only"),
            (Flags::TIE, "tie"),
            (Flags::TOO_MANY_SEGMENTS, "too-many-segments"),
            (Flags::PAIR, "pair"),
            (Flags::SATURATED, "saturated"),
        ];
        all.into_iter().filter(|&(flag, _)| self.has(flag)).map(|(_, name)| name).collect()
    }
}

/// The point whose signals fit an event best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Index of the point in the segment.
    pub index: usize,
    /// Figure of merit of the point, for a charge of 1000.
    pub fom: f64,
    /// Second best point among those that were compared last, if there is one.
    pub second: Option<usize>,
    /// Difference of the second best figure of merit to the best.
    pub gap: f64,
    /// Root mean square distance (mm) from the best point of the points with figures of merit up to
    /// 2 % larger, among those that were compared last.
    pub spread: f64,
    /// Flags of the answer.
    pub flags: Flags,
}

/// Number of numbers that encode an answer.
pub(in crate::search) const NUMBERS: usize = 6;

impl Match {
    pub(in crate::search) fn to_numbers(self) -> [f64; NUMBERS] {
        let second = self.second.map_or(-1.0, |second| second as f64);
        [self.index as f64, self.fom, second, self.gap, self.spread, self.flags.number()]
    }

    pub(in crate::search) fn from_numbers(
        &[index, fom, second, gap, spread, flags]: &[f64; NUMBERS],
    ) -> Match {
        let second = (second >= 0.0).then_some(second as usize);
        Match { index: index as usize, fom, second, gap, spread, flags: Flags(flags as u8) }
    }
}
