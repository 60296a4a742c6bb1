//! Correction of measured signals for the cross-talk between the segments of a crystal.

use std::path::Path;

use crate::Error;
use crate::channels::SEGMENTS;

/// Cross-talk matrix: measured signals are this matrix times the true ones, sample by sample. The
/// core is not affected.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossTalk {
    /// Coefficients in row-major order: a row has the fractions of all segments' charges that one
    /// segment shows.
    coefficients: Vec<f64>,
}

/// Number of steps of the iteration. If the off-diagonal coefficients of each row add up to 0.1,
/// they leave 1e-16 of the cross-talk.
const STEPS: usize = 16;

/// Size limit of files of coefficients (bytes).
const MOST_BYTES: u64 = 1 << 20;

impl CrossTalk {
    /// Creates the matrix from 36 x 36 coefficients in row-major order. The one in row `i` and
    /// column `j` is the fraction of segment `j`'s charge that segment `i` shows.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of coefficients. [`Error::Parameter`] if some are
    /// non-finite or too large to be cross-talk: in each row, the deviation of the diagonal from 1
    /// and the magnitudes of the others must not add up to more than 0.25.
    pub fn new(coefficients: Vec<f64>) -> Result<CrossTalk, Error> {
        if coefficients.len() != SEGMENTS * SEGMENTS {
            let problem = format!("{}, {} are needed", coefficients.len(), SEGMENTS * SEGMENTS);
            return Err(Error::shape("coefficients of cross-talk", problem));
        }
        for (i, row) in coefficients.chunks_exact(SEGMENTS).enumerate() {
            let sum: f64 = row.iter().enumerate().map(|(j, c)| (c - f64::from(u8::from(i == j))).abs()).sum();
            if sum.is_nan() || sum > 0.25 {
                let problem = format!(
                    "segment {i}: {sum} of the charge of others is not plausible; cross-talk is a few percent"
                );
                return Err(Error::Parameter { name: "cross-talk", problem });
            }
        }
        Ok(CrossTalk { coefficients })
    }

    /// Reads lines of `seen gate coefficient`, with segments from 0: the fraction of segment `gate`
    /// that segment `seen` shows. Pairs that are not named have no cross-talk.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be read, or with the byte at which an
    /// invalid line begins, and those of [`CrossTalk::new`].
    pub fn read(path: &Path) -> Result<CrossTalk, Error> {
        let problem = "cannot read the coefficients of cross-talk";
        let text = zellige_files::read_text(path, MOST_BYTES)
            .map_err(|source| Error::system(path, problem, source))?;
        let unit = |at: usize| if at / SEGMENTS == at % SEGMENTS { 1.0 } else { 0.0 };
        let mut coefficients: Vec<f64> = (0..SEGMENTS * SEGMENTS).map(unit).collect();
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            match entry(line) {
                Some(Some((place, coefficient))) => coefficients[place] = coefficient,
                Some(None) => {}
                None => {
                    let problem = "a line must have two segments (0 to 35) and a coefficient".to_owned();
                    return Err(Error::content(path, Some(offset), problem));
                }
            }
            offset += line.len() as u64;
        }
        CrossTalk::new(coefficients)
    }

    /// Removes the cross-talk from the signals of the 36 segments, each `samples` long and one
    /// after the other. It solves for the true signals by the iteration `x <- x + (y - M x)`, which
    /// converges since `M` is close to the identity.
    ///
    /// # Errors
    /// [`Error::Shape`] for signals of another size.
    pub fn correct(&self, signals: &mut [f32], samples: usize) -> Result<(), Error> {
        if signals.len() != SEGMENTS * samples {
            let problem = format!("{} samples, {SEGMENTS} signals of {samples} are needed", signals.len());
            return Err(Error::shape("signals of segments", problem));
        }
        for t in 0..samples {
            let measured: [f64; SEGMENTS] = std::array::from_fn(|s| signals[s * samples + t].into());
            let mut truth = measured;
            for _ in 0..STEPS {
                let shown = self.shown(&truth);
                for s in 0..SEGMENTS {
                    truth[s] += measured[s] - shown[s];
                }
            }
            truth.iter().enumerate().for_each(|(s, &x)| signals[s * samples + t] = x as f32);
        }
        Ok(())
    }

    /// Applies the cross-talk to charges of segments.
    pub fn shown(&self, charges: &[f64; SEGMENTS]) -> [f64; SEGMENTS] {
        let row = |s: usize| &self.coefficients[s * SEGMENTS..][..SEGMENTS];
        std::array::from_fn(|s| row(s).iter().zip(charges).map(|(c, x)| c * x).sum())
    }
}

/// Parses the index and the value of a line's coefficient; the inner `None` is an empty line.
fn entry(line: &str) -> Option<Option<(usize, f64)>> {
    let mut words = line.split_whitespace();
    let Some(seen) = words.next() else { return Some(None) };
    let (seen, gate): (usize, usize) = (seen.parse().ok()?, words.next()?.parse().ok()?);
    let coefficient: f64 = words.next()?.parse().ok()?;
    let fits = seen < SEGMENTS && gate < SEGMENTS && words.next().is_none();
    fits.then_some(Some((seen * SEGMENTS + gate, coefficient)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uniform(off_diagonal: f64) -> CrossTalk {
        let one = |at: usize| if at / SEGMENTS == at % SEGMENTS { 1.0 } else { off_diagonal };
        CrossTalk::new((0..SEGMENTS * SEGMENTS).map(one).collect()).expect("cross-talk")
    }

    /// With one coefficient `c` everywhere the inverse is known: `(1 - c)^-1 (x - c sum / (1 + 35
    /// c))`.
    #[test]
    fn what_was_shown_is_taken_out() {
        let c = -1.56e-3;
        let mut signals = vec![0.0f32; SEGMENTS * 2];
        signals[2 * 14] = 1000.0;
        signals[2 * 3 + 1] = 200.0;
        uniform(c).correct(&mut signals, 2).expect("sizes that fit");
        for s in 0..SEGMENTS {
            for (t, hit, charge) in [(0, 14, 1000.0), (1, 3, 200.0)] {
                let own = if s == hit { charge } else { 0.0 };
                let expected = (own - c * charge / (1.0 + 35.0 * c)) / (1.0 - c);
                let found = f64::from(signals[2 * s + t]);
                assert!((found - expected).abs() < 1e-4, "segment {s}: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn what_is_no_cross_talk_is_refused() {
        assert!(CrossTalk::new(vec![0.0; 36]).is_err());
        assert!(CrossTalk::new(vec![0.5; SEGMENTS * SEGMENTS]).is_err());
        assert!(CrossTalk::new(vec![f64::NAN; SEGMENTS * SEGMENTS]).is_err());
    }

    proptest! {
        #[test]
        fn no_file_is_too_broken(text in "([0-9]{1,3} [0-9]{1,3} -?0\\.0[0-9]{1,4}\n){0,5}[ -~]{0,20}") {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("crosstalk");
            std::fs::write(&path, &text).expect("a file");
            let named = CrossTalk::read(&path).map_err(|e| e.to_string());
            prop_assert!(named.is_ok() || named.is_err_and(|problem| problem.contains("cross")));
        }
    }
}
