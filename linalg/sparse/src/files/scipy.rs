//! Archives of `scipy.sparse.save_npz`: `format`, `shape`, `data` and the indices of the format.

use std::path::Path;

use zellige_files::array::{Array, Numbers};

use super::{EachNonzero, Matrix, gathered, number, too_many_rows, wrong};
use crate::files::market::Symmetry;
use zellige_krylov::Error;

pub(super) fn read(path: &Path) -> Result<Matrix, Error> {
    let archive = Archive { path };
    let format = archive.open("format")?.text()?;
    let shape = archive.indices("shape")?;
    let (rows, columns) = match shape[..] {
        // A one-dimensional array is a column.
        [rows] => (rows, 1),
        [rows, columns] => (rows, columns),
        _ => {
            return Err(wrong(path, format!("a sparse array of shape {shape:?}: two dimensions are needed")));
        }
    };
    match &*format {
        "csr" | "csc" => archive.compressed((rows, columns), format == "csc"),
        "bsr" => archive.blocks((rows, columns)),
        "coo" => archive.places((rows, columns), shape.len()),
        "dia" => archive.diagonals((rows, columns)),
        other => Err(wrong(
            path,
            format!("a sparse matrix in format {other:?}: csr, csc, coo, bsr and dia are supported"),
        )),
    }
}

struct Archive<'p> {
    path: &'p Path,
}

impl Archive<'_> {
    fn open(&self, name: &str) -> Result<Array, Error> {
        let array = Array::open(&self.path.join(name))?;
        let count = array.sides().iter().fold(1u64, |product, &side| product.saturating_mul(side as u64));
        let what = || format!("{}: array {name:?} of {count} numbers", self.path.display());
        Error::if_too_large(what, count.saturating_mul(16))?;
        Ok(array)
    }

    /// Integers that are not negative.
    fn indices(&self, name: &str) -> Result<Vec<usize>, Error> {
        let values = self.open(name)?.integers()?.into_iter().map(usize::try_from);
        let values: Result<Vec<usize>, _> = values.collect();
        values.map_err(|_| self.wrong(format!("a negative number in {name:?}")))
    }

    fn wrong(&self, problem: impl Into<String>) -> Error {
        wrong(self.path, problem)
    }

    /// Refuses rows that no nonzero answers for.
    fn check_rows(&self, rows: usize, nonzeros: usize) -> Result<(), Error> {
        too_many_rows(rows, nonzeros).map_or(Ok(()), |problem| Err(self.wrong(problem)))
    }

    /// Returns the start of each row or column, and the end of the last one.
    fn starts(&self, lines: usize, nonzeros: usize) -> Result<Vec<usize>, Error> {
        let starts = self.indices("indptr")?;
        let fits = starts.len() == lines.saturating_add(1)
            && starts[0] == 0
            && starts.is_sorted()
            && starts.last().is_some_and(|&last| last <= nonzeros);
        match fits {
            true => Ok(starts),
            false => Err(self.wrong(format!(
                "\"indptr\" does not rise from 0 to at most {nonzeros} in {} steps, as the shape requires",
                lines
            ))),
        }
    }

    fn data(&self, dimensions: usize) -> Result<(Vec<usize>, Numbers), Error> {
        let array = self.open("data")?;
        let sides = array.sides().to_vec();
        if sides.len() != dimensions {
            return Err(
                self.wrong(format!("\"data\" of shape {sides:?}: {dimensions} dimension(s) are needed"))
            );
        }
        Ok((sides, array.numbers()?))
    }

    fn finish(
        &self,
        sides: (usize, usize),
        data: &Numbers,
        each: &dyn Fn(&mut EachNonzero<'_>),
    ) -> Result<Matrix, Error> {
        gathered(self.path, sides, data.im.is_some(), Symmetry::General, each)
    }

    fn compressed(&self, (rows, columns): (usize, usize), by_columns: bool) -> Result<Matrix, Error> {
        let (_, data) = self.data(1)?;
        let indices = self.indices("indices")?;
        let nonzeros = indices.len().min(data.re.len());
        let starts = self.starts(if by_columns { columns } else { rows }, nonzeros)?;
        if by_columns {
            self.check_rows(rows, nonzeros)?;
        }
        self.finish((rows, columns), &data, &|nonzero| {
            for (line, range) in starts.windows(2).map(|ends| ends[0]..ends[1]).enumerate() {
                for at in range {
                    let (re, im) = number(&data, at);
                    match by_columns {
                        false => nonzero(line, indices[at], re, im),
                        true => nonzero(indices[at], line, re, im),
                    }
                }
            }
        })
    }

    fn blocks(&self, (rows, columns): (usize, usize)) -> Result<Matrix, Error> {
        let (sides, data) = self.data(3)?;
        let indices = self.indices("indices")?;
        let (height, width) = (sides[1], sides[2]);
        if height == 0 || width == 0 || rows % height != 0 || columns % width != 0 {
            return Err(self.wrong(format!("blocks of {height} x {width} in a matrix of {rows} x {columns}")));
        }
        let starts = self.starts(rows / height, indices.len().min(sides[0]))?;
        self.check_rows(rows, data.re.len())?;
        self.finish((rows, columns), &data, &|nonzero| {
            for (line, range) in starts.windows(2).map(|ends| ends[0]..ends[1]).enumerate() {
                for block in range {
                    for at in 0..height * width {
                        let (re, im) = number(&data, block * height * width + at);
                        if re != 0.0 || im != 0.0 {
                            let column = indices[block].saturating_mul(width).saturating_add(at % width);
                            nonzero(line * height + at / width, column, re, im);
                        }
                    }
                }
            }
        })
    }

    fn places(&self, (rows, columns): (usize, usize), dimensions: usize) -> Result<Matrix, Error> {
        let (_, data) = self.data(1)?;
        let nonzeros = data.re.len();
        let names = zellige_files::array::npz::names(self.path)?;
        let (row, column) = if names.iter().any(|name| name == "row") {
            (self.indices("row")?, self.indices("col")?)
        } else {
            let mut row = self.indices("coords")?;
            let column = row.split_off(nonzeros.min(row.len()));
            (row, if dimensions == 1 { vec![0; nonzeros] } else { column })
        };
        if row.len() != nonzeros || column.len() != nonzeros {
            return Err(self.wrong(format!(
                "{} row and {} column indices for {nonzeros} numbers",
                row.len(),
                column.len()
            )));
        }
        self.check_rows(rows, nonzeros)?;
        self.finish((rows, columns), &data, &|nonzero| {
            for at in 0..nonzeros {
                let (re, im) = number(&data, at);
                nonzero(row[at], column[at], re, im);
            }
        })
    }

    /// Reads the diagonals: `data[k, j]` is the entry of column `j` on the diagonal `offsets[k]`.
    fn diagonals(&self, (rows, columns): (usize, usize)) -> Result<Matrix, Error> {
        let (sides, data) = self.data(2)?;
        let offsets = self.open("offsets")?.integers()?;
        if offsets.len() != sides[0] {
            return Err(self.wrong(format!("{} offsets for {} diagonals", offsets.len(), sides[0])));
        }
        self.check_rows(rows, data.re.len())?;
        let length = sides[1];
        self.finish((rows, columns), &data, &|nonzero| {
            for (k, &offset) in offsets.iter().enumerate() {
                for j in 0..length.min(columns) {
                    let row = (j as i64).checked_sub(offset).and_then(|row| usize::try_from(row).ok());
                    let (re, im) = number(&data, k * length + j);
                    if let Some(i) = row.filter(|&i| i < rows && (re != 0.0 || im != 0.0)) {
                        nonzero(i, j, re, im);
                    }
                }
            }
        })
    }
}
