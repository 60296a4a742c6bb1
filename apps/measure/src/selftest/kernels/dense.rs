//! Matrices of `f64`, column by column without gaps: the reference.

use zellige_kernels::Op;

use zellige_dense::{Error, Tile, TileScalar};

#[derive(Clone, Debug)]
pub(super) struct Dense {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) values: Vec<f64>,
}

impl Dense {
    pub(super) fn from_fn(rows: usize, cols: usize, mut value: impl FnMut(usize, usize) -> f64) -> Self {
        let mut values = Vec::with_capacity(rows * cols);
        for j in 0..cols {
            values.extend((0..rows).map(|i| value(i, j)));
        }
        Dense { rows, cols, values }
    }

    /// Returns the numbers of a tile in any format.
    pub(super) fn of<T: TileScalar>(tile: &Tile<T>) -> Result<Self, Error> {
        let wide = tile.to_storage(T::FORMAT);
        let wide = wide.as_ref().ok_or(Error::Format { got: tile.storage(), want: T::FORMAT })?;
        let values = wide.as_slice()?.iter().map(|x| x.to_f64()).collect();
        Ok(Dense { rows: tile.rows(), cols: tile.cols(), values })
    }

    /// A tile of these numbers, rounded.
    pub(super) fn tile<T: TileScalar>(&self) -> Result<Tile<T>, Error> {
        let values: Vec<T> = self.values.iter().map(|&x| T::from_f64(x)).collect();
        Tile::from_slice(self.rows, self.cols, &values)
    }

    /// Returns the matrix rounded to a tile's numbers and back.
    pub(super) fn rounded<T: TileScalar>(&self) -> Self {
        let values = self.values.iter().map(|&x| T::from_f64(x).to_f64()).collect();
        Dense { values, ..*self }
    }

    pub(super) fn at(&self, i: usize, j: usize) -> f64 {
        self.values[j * self.rows + i]
    }

    pub(super) fn abs(&self) -> Self {
        Dense { values: self.values.iter().map(|x| x.abs()).collect(), ..*self }
    }

    pub(super) fn largest(&self) -> f64 {
        self.values.iter().fold(0.0, |most, x| x.abs().max(most))
    }

    /// The lower triangle, zeros above.
    pub(super) fn lower(&self) -> Self {
        Dense::from_fn(self.rows, self.cols, |i, j| if i >= j { self.at(i, j) } else { 0.0 })
    }

    /// `self op(b)`.
    pub(super) fn times(&self, b: &Dense, op: Op) -> Self {
        let cols = if op == Op::Trans { b.rows } else { b.cols };
        let mut product = Dense::from_fn(self.rows, cols, |_, _| 0.0);
        for j in 0..cols {
            for l in 0..self.cols {
                let factor = if op == Op::Trans { b.at(j, l) } else { b.at(l, j) };
                let column = &self.values[l * self.rows..][..self.rows];
                let sums = &mut product.values[j * self.rows..][..self.rows];
                sums.iter_mut().zip(column).for_each(|(sum, x)| *sum += x * factor);
            }
        }
        product
    }

    /// `self - other`.
    pub(super) fn minus(&self, other: &Dense) -> Self {
        Dense::from_fn(self.rows, self.cols, |i, j| self.at(i, j) - other.at(i, j))
    }

    pub(super) fn scaled(&self, factor: f64) -> Self {
        Dense { values: self.values.iter().map(|x| x * factor).collect(), ..*self }
    }

    /// `self + other`.
    pub(super) fn plus(&self, other: &Dense) -> Self {
        self.minus(&other.scaled(-1.0))
    }

    /// Returns the largest ratio of an entry to its `bound`; infinite if a bound of 0 is exceeded.
    pub(super) fn part_of(&self, bound: &Dense) -> f64 {
        let parts = self.values.iter().zip(&bound.values);
        parts.fold(0.0, |most, (x, bound)| {
            let part = if *x == 0.0 { 0.0 } else { x.abs() / bound };
            if part > most || part.is_nan() { part } else { most }
        })
    }
}
