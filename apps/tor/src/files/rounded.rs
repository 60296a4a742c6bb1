//! Reconstructors in few bits: integers with scales for groups of columns, in NumPy's npz format.

use crate::{Error, Matrix};
use std::ops::Range;
use std::path::Path;
use zellige_dense::{RoundedTiles, Rounding};
use zellige_files::array::Array;
use zellige_files::array::npz::{NpzWriter, names};
use zellige_kernels::few_bits::FewBits;
use zellige_runtime::Runtime;

/// A matrix in few bits: `codes[i, j] scales[i, g]` in row `i` and column `j` of group `g`.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundedMatrix {
    rows: usize,
    /// First column of each group, and the number of columns.
    edges: Vec<usize>,
    /// Bits of an integer.
    bits: u32,
    /// Integers, row by row.
    codes: Vec<i8>,
    /// Scales, row by row.
    scales: Vec<f32>,
}

/// Names of the arrays of a file.
const ARRAYS: [&str; 4] = ["bits", "codes", "edges", "scales"];

impl RoundedMatrix {
    /// Copies rows of tiles, which end at `rows`.
    ///
    /// # Errors
    /// The error that left a tile without a value.
    ///
    /// # Panics
    /// `rows` does not end at edges of tiles.
    pub(crate) fn of_tiles(
        rt: &Runtime,
        tiles: &RoundedTiles,
        rows: Range<usize>,
    ) -> Result<Self, zellige_dense::Error> {
        let (group, cols) = (tiles.rounding().group(), tiles.col_grid());
        let starts = (0..cols.tiles()).flat_map(|j| cols.range(j).step_by(group));
        let edges: Vec<usize> = starts.chain([cols.len()]).collect();
        let (groups, width) = (edges.len() - 1, cols.len());
        let mut matrix = RoundedMatrix {
            rows: rows.len(),
            bits: tiles.rounding().bits(),
            codes: vec![0; rows.len() * width],
            scales: vec![0.0; rows.len() * groups],
            edges,
        };
        for i in (0..tiles.row_grid().tiles()).filter(|&i| rows.contains(&tiles.row_grid().range(i).start)) {
            let first = tiles.row_grid().range(i).start - rows.start;
            let mut first_group = 0;
            for j in 0..cols.tiles() {
                let (tile, start) = (tiles.tile(rt, i, j)?, cols.range(j).start);
                let (height, _) = tile.shape();
                for (at, &code) in tile.codes().iter().enumerate() {
                    matrix.codes[(first + at % height) * width + start + at / height] = code;
                }
                for (at, &scale) in tile.scales().iter().enumerate() {
                    matrix.scales[(first + at % height) * groups + first_group + at / height] = scale;
                }
                first_group += tile.scales().len() / height;
            }
        }
        Ok(matrix)
    }

    /// Returns `(rows, columns)`.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols())
    }

    fn cols(&self) -> usize {
        self.edges[self.edges.len() - 1]
    }

    /// Returns the number of bits of an integer.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the size in bytes with integers packed without gaps and scales of 16 bits.
    pub fn bytes(&self) -> u64 {
        (self.codes.len() as u64 * u64::from(self.bits)).div_ceil(8) + 2 * self.scales.len() as u64
    }

    /// Returns the entries.
    pub fn to_matrix(&self) -> Matrix {
        let (width, groups) = (self.cols(), self.edges.len() - 1);
        let mut matrix = Matrix::zeros(self.rows, width);
        for (g, columns) in self.edges.windows(2).enumerate() {
            for j in columns[0]..columns[1] {
                for (i, entry) in matrix.col_mut(j).iter_mut().enumerate() {
                    *entry = f64::from(self.codes[i * width + j]) * f64::from(self.scales[i * groups + g]);
                }
            }
        }
        matrix
    }

    /// Packs the matrix for products.
    ///
    /// # Errors
    /// A scale that is no bfloat16 number.
    pub fn pack(&self) -> Result<FewBits, Error> {
        match self.scales.iter().find(|scale| scale.to_bits() & 0xffff != 0) {
            Some(scale) => {
                Err(Error::numeric("scales", format!("{scale} is no bfloat16 number: round it to 8 bits")))
            }
            None => {
                let bits = self.bits.max(*FewBits::BITS.start());
                Ok(FewBits::new(self.rows, bits, self.edges.clone(), &self.codes, &self.scales))
            }
        }
    }

    /// Writes the arrays `bits`, `codes` (rows x columns), `edges` (groups + 1) and `scales` (rows
    /// x groups).
    ///
    /// # Errors
    /// The file cannot be written. No partial file remains.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let edges: Vec<i64> = self.edges.iter().map(|&edge| edge as i64).collect();
        let written = NpzWriter::write(path, |npz| {
            npz.put("bits", &[1], &[i64::from(self.bits)])?;
            npz.put("codes", &[self.rows, self.cols()], &self.codes)?;
            npz.put("edges", &[edges.len()], &edges)?;
            npz.put("scales", &[self.rows, edges.len() - 1], &self.scales)
        });
        written.map_err(|error| Error::system(path, error.problem, error.source))
    }

    /// Returns whether a file has the arrays of a rounded matrix.
    pub fn is_in(path: &Path) -> bool {
        names(path).is_ok_and(|names| ARRAYS.iter().all(|array| names.iter().any(|name| name == array)))
    }

    /// Reads what [`write`](RoundedMatrix::write) writes.
    ///
    /// # Errors
    /// The file cannot be read; sizes that do not fit each other, scales that are not finite, or
    /// integers of more bits than it says.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let array = |name: &str| Array::open(&path.join(name));
        let integers = |name: &str, count: &[usize]| -> Result<Vec<i64>, Error> {
            let array = array(name)?;
            match count {
                [] => Ok(array.of(&["i8", "i4"], 1)?.integers()?),
                _ => Ok(array.sized(&["i8", "i4"], count)?.integers()?),
            }
        };
        let wrong = |name: &str, problem: String| Err(Error::content(&path.join(name), problem));
        let bits = integers("bits", &[1])?[0];
        let Some(format) = u32::try_from(bits).ok().and_then(|bits| Rounding::new(bits, 1)) else {
            return wrong("bits", format!("{bits}: integers have 2 to 8 bits"));
        };
        let codes = array("codes")?.of(&["i1"], 2)?;
        let (rows, cols) = (codes.sides()[0], codes.sides()[1]);
        let edges: Vec<usize> = integers("edges", &[])?
            .into_iter()
            .map(|edge| usize::try_from(edge).unwrap_or(usize::MAX))
            .collect();
        let is_rising = edges.windows(2).all(|pair| pair[0] < pair[1]);
        if !is_rising || edges.first() != Some(&0) || edges.last() != Some(&cols) {
            return wrong(
                "edges",
                format!("the first columns of groups must rise from 0 to {cols}, the columns of codes"),
            );
        }
        let codes: Vec<i8> = codes.values()?;
        if let Some(code) = codes.iter().find(|code| code.unsigned_abs() > format.largest().unsigned_abs()) {
            return wrong(
                "codes",
                format!("{code} is no integer of {bits} bits: the largest is {}", format.largest()),
            );
        }
        let scales = array("scales")?.sized(&["f4"], &[rows, edges.len() - 1])?.finite()?;
        Ok(RoundedMatrix { rows, edges, bits: format.bits(), codes, scales })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> RoundedMatrix {
        RoundedMatrix {
            rows: 2,
            edges: vec![0, 2, 3],
            bits: 4,
            codes: vec![1, -7, 3, 0, 5, 7],
            scales: vec![0.5, 2.0, 1.0, 0.25],
        }
    }

    #[test]
    fn entries_are_integers_times_scales() {
        let matrix = small().to_matrix();
        let rows = [[0.5, -3.5, 6.0], [0.0, 5.0, 1.75]];
        assert_eq!(matrix, Matrix::from_fn(2, 3, |i, j| rows[i][j]));
        assert_eq!(small().bytes(), 3 + 8);
    }

    #[test]
    fn files_are_read_back_and_wrong_ones_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("r.npz");
        small().write(&path).unwrap();
        assert!(RoundedMatrix::is_in(&path));
        assert_eq!(RoundedMatrix::read(&path).unwrap(), small());
        let refused = |change: &dyn Fn(&mut RoundedMatrix), words: &str| {
            let mut matrix = small();
            change(&mut matrix);
            matrix.write(&path).unwrap();
            let error = RoundedMatrix::read(&path).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(&|m| m.bits = 3, "-7 is no integer of 3 bits: the largest is 3");
        refused(&|m| m.bits = 9, "9: integers have 2 to 8 bits");
        refused(&|m| m.edges[1] = 0, "must rise from 0 to 3");
        refused(&|m| m.scales[1] = f32::NAN, "scales");
    }
}
