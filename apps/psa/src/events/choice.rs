//! Options of simulated events, and their text forms.

use std::fmt;
use std::str::FromStr;

use rand::{Rng, RngExt};

use crate::Error;

/// Distribution of the energies of events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Energies {
    /// Equal numbers of events in every octave (keV).
    LogUniform {
        /// Lowest energy.
        from: f64,
        /// Highest energy.
        to: f64,
    },
    /// Equal numbers of events in every energy interval (keV).
    Uniform {
        /// Lowest energy.
        from: f64,
        /// Highest energy.
        to: f64,
    },
    /// One energy for all events (keV).
    Line(f64),
}

impl Energies {
    pub(crate) fn draw(self, random: &mut impl Rng) -> f64 {
        let share: f64 = random.random();
        match self {
            Energies::LogUniform { from, to } => from * (to / from).powf(share),
            Energies::Uniform { from, to } => from + (to - from) * share,
            Energies::Line(energy) => energy,
        }
    }

    pub(crate) fn check(self) -> Result<(), Error> {
        let (from, to) = match self {
            Energies::LogUniform { from, to } | Energies::Uniform { from, to } => (from, to),
            Energies::Line(energy) => (energy, energy),
        };
        // NaN fails the comparison.
        if from > 0.0 && from <= to && to < 1e9 {
            return Ok(());
        }
        Err(wrong_energy(&self.to_string()))
    }
}

fn wrong_energy(text: &str) -> Error {
    let problem = format!("{text:?}: give keV as 15:5000 (log-uniform), uniform:15:5000, or 1332 (a line)");
    Error::Parameter { name: "energy", problem }
}

impl fmt::Display for Energies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Energies::LogUniform { from, to } => write!(f, "{from}:{to}"),
            Energies::Uniform { from, to } => write!(f, "uniform:{from}:{to}"),
            Energies::Line(energy) => write!(f, "{energy}"),
        }
    }
}

impl FromStr for Energies {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |part: &str| part.trim().parse::<f64>().map_err(|_| wrong_energy(text));
        let parts: Vec<&str> = text.split(':').collect();
        let energies = match parts[..] {
            ["uniform", from, to] => Energies::Uniform { from: number(from)?, to: number(to)? },
            [from, to] => Energies::LogUniform { from: number(from)?, to: number(to)? },
            [line] => Energies::Line(number(line)?),
            _ => return Err(wrong_energy(text)),
        };
        energies.check().map(|()| energies)
    }
}

/// Region of the hits of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Within {
    /// Anywhere in the crystal.
    #[default]
    Crystal,
    /// All hits in one segment.
    Segment,
    /// Each hit in a different segment.
    Segments,
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Within::Crystal => "crystal",
            Within::Segment => "segment",
            Within::Segments => "segments",
        })
    }
}

impl FromStr for Within {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        [Within::Crystal, Within::Segment, Within::Segments]
            .into_iter()
            .find(|within| within.to_string() == name)
            .ok_or_else(|| Error::Parameter {
                name: "within",
                problem: format!(
                    "'{name}' is not one of crystal, segment (all hits in one), segments (each in its own)"
                ),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for text in ["15:5000", "uniform:10:20.5", "1332"] {
            assert_eq!(text.parse::<Energies>().expect(text).to_string(), text);
        }
        for text in ["", "0", "-3:4", "20:10", "nan", "1:inf", "uniform:3", "line:1:2:3"] {
            assert!(text.parse::<Energies>().is_err(), "{text}");
        }
        for within in [Within::Crystal, Within::Segment, Within::Segments] {
            assert_eq!(within.to_string().parse::<Within>().expect("its own name"), within);
        }
        assert!("ring".parse::<Within>().is_err());
    }
}
