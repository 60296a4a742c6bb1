//! Point sources.

use std::fmt;
use std::str::FromStr;

use crate::geometry::{COLOURS, DIRECTIONS};

/// Point source of a propagator. For Wilson quarks it means all four spins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Source {
    /// Coordinates x, y, z and t.
    pub at: [usize; DIRECTIONS],
    /// Colour of the source; by default each colour in turn.
    pub colour: Option<usize>,
}

impl Source {
    /// Returns the colours of the source.
    pub(super) fn colours(self) -> Vec<usize> {
        self.colour.map_or_else(|| (0..COLOURS).collect(), |colour| vec![colour])
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z, t] = self.at;
        write!(f, "point:{x},{y},{z},{t}")?;
        self.colour.map_or(Ok(()), |colour| write!(f, ":{colour}"))
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let refused = || "not point:X,Y,Z,T or point:X,Y,Z,T:COLOUR with a colour from 0 to 2".to_owned();
        let mut words = text.split(':');
        let (kind, place, colour) = (words.next(), words.next(), words.next());
        let at = place.map(|place| place.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>());
        let Some(Ok(Ok(at))) = at.map(|at| at.map(<[usize; DIRECTIONS]>::try_from)) else {
            return Err(refused());
        };
        let colour = match colour.map(str::parse) {
            None => None,
            Some(Ok(colour)) if colour < COLOURS => Some(colour),
            Some(_) => return Err(refused()),
        };
        if kind == Some("point") && words.next().is_none() {
            Ok(Source { at, colour })
        } else {
            Err(refused())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_written_as_they_are_read() {
        for text in ["point:0,0,0,0", "point:1,2,3,4:2"] {
            assert_eq!(text.parse::<Source>().map(|source| source.to_string()), Ok(text.to_owned()));
        }
        for text in
            ["point", "point:1,2,3", "wall:0,0,0,0", "point:0,0,0,0:3", "point:0,0,0,-1", "point:0,0,0,0:1:1"]
        {
            assert!(text.parse::<Source>().is_err(), "{text}");
        }
    }
}
