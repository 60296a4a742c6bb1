//! Loss of charge by trapping.

use std::fmt;
use std::str::FromStr;

use super::Carrier;
use crate::Error;

/// Mean drift lengths of carriers until they are trapped (mm): after a path `s` the fraction
/// `exp(-s / length)` of a charge is left. Neutron damage shortens the length of holes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trapping {
    /// Mean drift length of holes (mm).
    pub holes: f64,
    /// Mean drift length of electrons (mm).
    pub electrons: f64,
}

/// Shortest length (mm) of a usable detector: half of the charge would be lost.
const SHORTEST: f64 = 200.0;

impl Trapping {
    /// No trapping.
    pub const NONE: Trapping = Trapping { holes: f64::INFINITY, electrons: f64::INFINITY };

    /// Refuses lengths that are too short.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a length below 200 mm.
    pub fn check(self) -> Result<(), Error> {
        // NaN fails the comparison.
        if self.holes >= SHORTEST && self.electrons >= SHORTEST {
            return Ok(());
        }
        Err(wrong(&self.to_string()))
    }

    /// Returns the mean drift length of a carrier (mm).
    pub fn length(self, carrier: Carrier) -> f64 {
        match carrier {
            Carrier::Electron => self.electrons,
            Carrier::Hole => self.holes,
        }
    }

    /// Returns the fraction of its charge that a contact loses, from its sensitivities
    /// ([`Pulse::sensitivities`](super::Pulse)), to first order.
    pub fn lost(self, [electrons, holes]: [f32; 2]) -> f64 {
        f64::from(electrons) / self.electrons + f64::from(holes) / self.holes
    }
}

fn wrong(text: &str) -> Error {
    let problem = format!(
        "{text:?}: give the mean path of holes, and optionally that of electrons, before trapping (mm, {SHORTEST} or more), as 3000 or 3000,20000"
    );
    Error::Parameter { name: "trapping", problem }
}

impl fmt::Display for Trapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.holes, self.electrons)
    }
}

impl FromStr for Trapping {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |part: &str| part.trim().parse::<f64>().map_err(|_| wrong(text));
        let trapping = match text.split_once(',') {
            None => Trapping { holes: number(text)?, ..Trapping::NONE },
            Some((holes, electrons)) => Trapping { holes: number(holes)?, electrons: number(electrons)? },
        };
        trapping.check().map(|()| trapping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for text in ["3000,inf", "3000,20000.5"] {
            assert_eq!(text.parse::<Trapping>().expect(text).to_string(), text);
        }
        assert_eq!("800".parse::<Trapping>().expect("holes").electrons, f64::INFINITY);
        for text in ["", "0", "-300", "nan", "3000,", "3000,10", "1,2,3", "3000;4000"] {
            let problem = text.parse::<Trapping>().expect_err(text).to_string();
            assert!(problem.contains("3000,20000"), "{problem}");
        }
    }
}
