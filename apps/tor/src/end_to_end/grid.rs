//! Grids of pupil positions.

/// A rectangular grid of pupil positions: every pair of a column and a row.
///
/// A wavefront on it holds `xs.len() * ys.len()` values, row by row (y outer, x inner).
#[derive(Debug, Clone, PartialEq)]
pub struct PupilGrid {
    /// Positions of the columns in m from the centre of the pupil, ascending.
    pub xs: Vec<f64>,
    /// Positions of the rows in m, ascending.
    pub ys: Vec<f64>,
}

impl PupilGrid {
    /// Returns the centres of `across x across` pixels that cover the square around a pupil of this
    /// diameter \[m\].
    pub fn centres(diameter: f64, across: usize) -> PupilGrid {
        let pixel = diameter / across as f64;
        PupilGrid::square((0..across).map(|k| (k as f64 + 0.5) * pixel - diameter / 2.0).collect())
    }

    /// Returns the corners of those pixels, `(across + 1) x (across + 1)` positions.
    pub fn corners(diameter: f64, across: usize) -> PupilGrid {
        let pixel = diameter / across as f64;
        PupilGrid::square((0..=across).map(|k| k as f64 * pixel - diameter / 2.0).collect())
    }

    fn square(positions: Vec<f64>) -> PupilGrid {
        PupilGrid { xs: positions.clone(), ys: positions }
    }

    /// Returns the number of positions.
    pub fn len(&self) -> usize {
        self.xs.len() * self.ys.len()
    }

    /// Returns whether there is no position.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
