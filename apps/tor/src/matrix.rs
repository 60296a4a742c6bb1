//! A dense column-major matrix, whose public interface has no types of a linear-algebra package.

use crate::Error;
use faer::{MatMut, MatRef};
pub(crate) use zellige_faer::gemm;

/// Dense `rows x cols` matrix of `f64`, column-major without padding: entry `(i, j)` is `data[i +
/// j * rows]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f64>,
}

impl Matrix {
    /// Returns a matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Matrix { rows, cols, data: vec![0.0; rows * cols] }
    }

    /// Wraps column-major data.
    ///
    /// # Errors
    /// The length is not `rows * cols`.
    pub fn from_vec(rows: usize, cols: usize, data: Vec<f64>) -> Result<Self, Error> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(Error::shape(
                "matrix",
                format!("{rows} x {cols} needs that many values, got {}", data.len()),
            ));
        }
        Ok(Matrix { rows, cols, data })
    }

    /// Builds a matrix from a function of row and column.
    pub fn from_fn(rows: usize, cols: usize, mut f: impl FnMut(usize, usize) -> f64) -> Self {
        let mut data = Vec::with_capacity(rows * cols);
        for j in 0..cols {
            for i in 0..rows {
                data.push(f(i, j));
            }
        }
        Matrix { rows, cols, data }
    }

    /// Converts column-major `f32` data.
    ///
    /// # Errors
    /// The length is not `rows * cols`.
    pub fn from_f32(rows: usize, cols: usize, data: &[f32]) -> Result<Self, Error> {
        Matrix::from_vec(rows, cols, data.iter().map(|&x| f64::from(x)).collect())
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the column-major values.
    pub fn data(&self) -> &[f64] {
        &self.data
    }

    /// Returns the column-major values, mutable.
    pub fn data_mut(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// Consumes the matrix and returns its column-major values.
    pub fn into_vec(self) -> Vec<f64> {
        self.data
    }

    /// Returns column `j`.
    ///
    /// # Panics
    /// `j` is not a column.
    pub fn col(&self, j: usize) -> &[f64] {
        &self.data[j * self.rows..(j + 1) * self.rows]
    }

    /// Returns column `j`, mutable.
    ///
    /// # Panics
    /// `j` is not a column.
    pub fn col_mut(&mut self, j: usize) -> &mut [f64] {
        &mut self.data[j * self.rows..(j + 1) * self.rows]
    }

    /// Returns a transposed copy.
    pub fn transposed(&self) -> Matrix {
        Matrix::from_fn(self.cols, self.rows, |i, j| self[(j, i)])
    }

    /// Returns the sum of the diagonal.
    pub fn trace(&self) -> f64 {
        (0..self.rows.min(self.cols)).map(|i| self[(i, i)]).sum()
    }

    /// Returns the Frobenius norm.
    pub fn norm(&self) -> f64 {
        self.data.iter().map(|x| x * x).sum::<f64>().sqrt()
    }

    /// Returns the largest absolute value.
    pub fn max_abs(&self) -> f64 {
        self.data.iter().fold(0.0, |m, x| x.abs().max(m))
    }

    /// Computes `self * other`.
    ///
    /// # Errors
    /// The inner sizes differ.
    pub fn times(&self, other: &Matrix) -> Result<Matrix, Error> {
        if self.cols != other.rows {
            return Err(Error::shape(
                "matrix product",
                format!("{} x {} times {} x {}", self.rows, self.cols, other.rows, other.cols),
            ));
        }
        let mut out = Matrix::zeros(self.rows, other.cols);
        gemm(out.view_mut(), false, self.view(), other.view(), 1.0);
        Ok(out)
    }

    pub(crate) fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.data, self.rows, self.cols)
    }

    pub(crate) fn view_mut(&mut self) -> MatMut<'_, f64> {
        MatMut::from_column_major_slice_mut(&mut self.data, self.rows, self.cols)
    }
}

impl std::ops::Index<(usize, usize)> for Matrix {
    type Output = f64;
    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        debug_assert!(i < self.rows);
        &self.data[i + j * self.rows]
    }
}

impl std::ops::IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        debug_assert!(i < self.rows);
        &mut self.data[i + j * self.rows]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_and_transpose_agree_with_the_definition() {
        let a = Matrix::from_fn(3, 4, |i, j| (i * 5 + j) as f64 - 3.0);
        let b = Matrix::from_fn(4, 2, |i, j| (i as f64) * 0.5 - j as f64);
        let c = a.times(&b).unwrap();
        for i in 0..3 {
            for j in 0..2 {
                let want: f64 = (0..4).map(|k| a[(i, k)] * b[(k, j)]).sum();
                assert!((c[(i, j)] - want).abs() < 1e-12);
            }
        }
        assert_eq!(a.transposed().transposed(), a);
        assert!(b.times(&a).is_err());
        assert!(Matrix::from_vec(2, 2, vec![0.0; 3]).is_err());
    }
}
