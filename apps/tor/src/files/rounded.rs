//! Reconstructors in few bits: integers with scales for groups of columns, in NumPy's npz format or
//! in FITS. Each block of 64 rows of a group has its own number of bits.

use super::fits::{self, BinaryTable, Card, CardValue, Hdu, Pixels};
use crate::{Error, Matrix};
use std::ops::Range;
use std::path::{Path, PathBuf};
use zellige_dense::RoundedTiles;
use zellige_files::array::Array;
use zellige_files::array::npz::{NpzWriter, names};
use zellige_kernels::few_bits::{FewBits, ROWS, largest};
use zellige_runtime::Runtime;

/// A matrix in few bits: `codes[i, j] scales[i, g]` in row `i` and column `j` of group `g`.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundedMatrix {
    rows: usize,
    /// First column of each group, and the number of columns.
    edges: Vec<usize>,
    /// Bits of an integer, for each group of each block of [`ROWS`] rows, block after block.
    bits: Vec<u8>,
    /// Integers, row by row.
    codes: Vec<i16>,
    /// Scales, row by row.
    scales: Vec<f32>,
}

/// Name of the image of integers in FITS.
const CODES: &str = "CODES";

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
            bits: vec![0; rows.len().div_ceil(ROWS) * groups],
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
                for (at, (&scale, &bits)) in tile.scales().iter().zip(tile.bits()).enumerate() {
                    let (row, group) = (first + at % height, first_group + at / height);
                    matrix.scales[row * groups + group] = scale;
                    // A block may lie in two tiles, which have chosen separately.
                    let of_block = &mut matrix.bits[row / ROWS * groups + group];
                    *of_block = bits.max(*of_block);
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

    /// Returns the number of bits of an integer, for each group of columns of each block of 64
    /// rows, block after block.
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Returns the number of bits of an integer.
    ///
    /// # Panics
    /// There is no such row or column.
    pub fn bits_of(&self, row: usize, column: usize) -> u8 {
        let group = self.edges.partition_point(|edge| *edge <= column) - 1;
        self.bits[row / ROWS * (self.edges.len() - 1) + group]
    }

    /// Returns the mean number of bits of the integers.
    pub fn mean_bits(&self) -> f64 {
        self.code_bits() as f64 / self.codes.len() as f64
    }

    /// Returns the number of bits of all integers together.
    fn code_bits(&self) -> u64 {
        let groups = self.edges.len() - 1;
        let of_block = |(at, &bits): (usize, &u8)| {
            let (block, g) = (at / groups, at % groups);
            let rows = (self.rows - block * ROWS).min(ROWS);
            (rows * (self.edges[g + 1] - self.edges[g]) * usize::from(bits)) as u64
        };
        self.bits.iter().enumerate().map(of_block).sum()
    }

    /// Returns the size in bytes with integers packed without gaps and scales of 16 bits.
    pub fn bytes(&self) -> u64 {
        self.code_bits().div_ceil(8) + 2 * self.scales.len() as u64
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
            None => Ok(FewBits::new(self.rows, &self.bits, &self.edges, &self.codes, &self.scales)),
        }
    }

    /// Writes the arrays `bits` (blocks of 64 rows x groups, or one number for all), `codes`
    /// (rows x columns), `edges` (groups + 1) and `scales` (rows x groups).
    ///
    /// # Errors
    /// The file cannot be written. No partial file remains.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let edges: Vec<i64> = self.edges.iter().map(|&edge| edge as i64).collect();
        let groups = edges.len() - 1;
        let is_uniform = self.bits.iter().all(|bits| *bits == self.bits[0]);
        let bits: Vec<i8> = self.bits.iter().map(|&bits| bits as i8).collect();
        let shape = [self.rows, self.cols()];
        let written = NpzWriter::write(path, |npz| {
            match is_uniform {
                true => npz.put("bits", &[1], &bits[..1])?,
                false => npz.put("bits", &[bits.len() / groups, groups], &bits)?,
            }
            match self.bits.iter().all(|bits| *bits <= 8) {
                true => {
                    let narrow: Vec<i8> = self.codes.iter().map(|&code| code as i8).collect();
                    npz.put("codes", &shape, &narrow)?;
                }
                false => npz.put("codes", &shape, &self.codes)?,
            }
            npz.put("edges", &[edges.len()], &edges)?;
            npz.put("scales", &[self.rows, groups], &self.scales)
        });
        written.map_err(|error| Error::system(path, error.problem, error.source))
    }

    /// Writes the arrays of [`write`](RoundedMatrix::write) as images `CODES`, `SCALES`, `EDGES`
    /// and `BITS` of a FITS file. The first one gets further `cards`, and `tables` follow.
    ///
    /// # Errors
    /// The file cannot be written. No partial file remains.
    pub fn write_fits(&self, path: &Path, cards: Vec<Card>, tables: &[BinaryTable]) -> Result<(), Error> {
        let groups = self.edges.len() - 1;
        let shape = vec![self.rows, self.cols()];
        let edges: Vec<i32> = self.edges.iter().map(|&edge| edge as i32).collect();
        let narrow: Vec<u8>;
        let mut codes = vec![Card::new("BUNIT", "", "R = CODES SCALES, a scale for each group")];
        let pixels = if self.bits.iter().all(|bits| *bits <= 8) {
            // A whole number, since Astropy 7 takes no other one for integers of 8 bits.
            codes.push(Card::new("BZERO", CardValue::Integer(-128), "integers from -127 on"));
            narrow = self.codes.iter().map(|&code| (code + 128) as u8).collect();
            Pixels::U8 { shape, values: &narrow }
        } else {
            Pixels::I16 { shape, values: &self.codes }
        };
        codes.extend(cards);
        let image = |name: &str, pixels, axes, cards| Hdu { name: name.into(), pixels, axes, cards };
        let blocks = vec![self.bits.len() / groups, groups];
        let hdus = [
            image(CODES, pixels, &["commands or truth-sensor slopes", "measurements"][..], codes),
            image(
                "SCALES",
                Pixels::F32 { shape: vec![self.rows, groups], values: &self.scales },
                &["rows", "groups of columns"],
                Vec::new(),
            ),
            image(
                "EDGES",
                Pixels::I32 { shape: vec![edges.len()], values: &edges },
                &["first column of each group, and their number"],
                Vec::new(),
            ),
            image(
                "BITS",
                Pixels::U8 { shape: blocks, values: &self.bits },
                &["blocks of 64 rows", "groups of columns"],
                Vec::new(),
            ),
        ];
        fits::write(path, &hdus, tables)
    }

    /// Returns whether a file has the arrays of a rounded matrix.
    pub fn is_in(path: &Path) -> bool {
        is_fits_of_codes(path)
            || names(path)
                .is_ok_and(|names| ARRAYS.iter().all(|array| names.iter().any(|name| name == array)))
    }

    /// Reads what [`write`](RoundedMatrix::write) and [`write_fits`](RoundedMatrix::write_fits)
    /// write.
    ///
    /// # Errors
    /// The file cannot be read; sizes that do not fit each other, scales that are not finite, or
    /// integers of more bits than it says.
    pub fn read(path: &Path) -> Result<Self, Error> {
        if is_fits_of_codes(path) {
            return RoundedMatrix::read_fits(path);
        }
        let array = |name: &str| Array::open(&path.join(name));
        let codes = array("codes")?.of(&["i1", "i2"], 2)?;
        let (rows, cols) = (codes.sides()[0], codes.sides()[1]);
        let codes: Vec<i16> = match codes.kind() {
            "i1" => codes.values::<i8>()?.into_iter().map(i16::from).collect(),
            _ => codes.values()?,
        };
        let edges = array("edges")?.of(&["i8", "i4"], 1)?.integers()?;
        let (blocks, groups) = (rows.div_ceil(ROWS), edges.len().saturating_sub(1));
        let kinds = &["i1", "i4", "i8"];
        let bits = array("bits")?;
        let bits = match bits.sides() {
            [1] => vec![bits.of(kinds, 1)?.integers()?[0]; blocks * groups],
            _ => bits.sized(kinds, &[blocks, groups])?.integers()?,
        };
        let scales = array("scales")?.sized(&["f4"], &[rows, groups])?.finite()?;
        RoundedMatrix::checked(|name| path.join(name), (rows, cols), &edges, &bits, codes, scales)
    }

    fn read_fits(path: &Path) -> Result<Self, Error> {
        let whole = |name: &str| -> Result<(Vec<usize>, Vec<i64>), Error> {
            let image = fits::read(path, Some(name))?;
            match image.values.iter().find(|value| value.fract() != 0.0 || value.abs() > 2f64.powi(53)) {
                Some(value) => Err(Error::content(&path.join(name), format!("{value} is no integer"))),
                None => Ok((image.shape, image.values.iter().map(|&value| value as i64).collect())),
            }
        };
        let wrong = |name: &str, problem: String| Err(Error::content(&path.join(name), problem));
        let (shape, codes) = whole(CODES)?;
        let &[rows, cols] = &shape[..] else {
            return wrong(CODES, format!("an image of shape {shape:?}; it needs two dimensions"));
        };
        if let Some(code) = codes.iter().find(|code| i16::try_from(**code).is_err()) {
            return wrong(CODES, format!("{code} has more than 16 bits"));
        }
        let (_, edges) = whole("EDGES")?;
        let (of_bits, bits) = whole("BITS")?;
        let scales = fits::read(path, Some("SCALES"))?;
        let (blocks, groups) = (rows.div_ceil(ROWS), edges.len().saturating_sub(1));
        for (name, shape, expected) in
            [("BITS", &of_bits, [blocks, groups]), ("SCALES", &scales.shape, [rows, groups])]
        {
            if shape[..] != expected {
                return wrong(name, format!("an image of shape {shape:?} instead of {expected:?}"));
            }
        }
        if let Some(scale) = scales.values.iter().find(|scale| !(**scale as f32).is_finite()) {
            return wrong("SCALES", format!("{scale} is not finite"));
        }
        let codes = codes.into_iter().map(|code| code as i16).collect();
        let scales = scales.values.into_iter().map(|scale| scale as f32).collect();
        let place = |name: &str| path.join(name.to_uppercase());
        RoundedMatrix::checked(place, (rows, cols), &edges, &bits, codes, scales)
    }

    /// Makes a matrix of arrays whose sizes fit each other. `place` names an array in messages.
    fn checked(
        place: impl Fn(&str) -> PathBuf,
        (rows, cols): (usize, usize),
        edges: &[i64],
        bits: &[i64],
        codes: Vec<i16>,
        scales: Vec<f32>,
    ) -> Result<Self, Error> {
        let wrong = |name: &str, problem: String| Err(Error::content(&place(name), problem));
        let edges: Vec<usize> =
            edges.iter().map(|&edge| usize::try_from(edge).unwrap_or(usize::MAX)).collect();
        let is_rising = edges.windows(2).all(|pair| pair[0] < pair[1]);
        if !is_rising || edges.first() != Some(&0) || edges.last() != Some(&cols) {
            return wrong(
                "edges",
                format!("the first columns of groups must rise from 0 to {cols}, the columns of codes"),
            );
        }
        let is_known = |bits: i64| u32::try_from(bits).is_ok_and(|bits| FewBits::BITS.contains(&bits));
        if let Some(bits) = bits.iter().find(|bits| !is_known(**bits)) {
            return wrong("bits", format!("{bits}: integers have 2 to 16 bits"));
        }
        let groups = edges.len() - 1;
        let bits: Vec<u8> = bits.iter().map(|&bits| bits as u8).collect();
        for (row, codes) in codes.chunks_exact(cols.max(1)).enumerate() {
            for (g, columns) in edges.windows(2).enumerate() {
                let bits = bits[row / ROWS * groups + g];
                let most = largest(bits.into());
                let is_wide = |code: &&i16| code.unsigned_abs() > most.unsigned_abs();
                if let Some(code) = codes[columns[0]..columns[1]].iter().find(is_wide) {
                    let problem = format!("{code} is no integer of {bits} bits: the largest is {most}");
                    return wrong("codes", problem);
                }
            }
        }
        Ok(RoundedMatrix { rows, edges, bits, codes, scales })
    }
}

fn is_fits_of_codes(path: &Path) -> bool {
    fits::is_fits(path) && fits::has_image(path, CODES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> RoundedMatrix {
        RoundedMatrix {
            rows: 2,
            edges: vec![0, 2, 3],
            bits: vec![4, 4],
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
        let mixed = RoundedMatrix { bits: vec![4, 10], ..small() };
        assert_eq!((mixed.bytes(), mixed.mean_bits()), (5 + 8, 6.0));
    }

    #[test]
    fn files_are_read_back_and_wrong_ones_refused() {
        let place = tempfile::tempdir().unwrap();
        let [npz, fits] = ["r.npz", "r.fits"].map(|name| place.path().join(name));
        let write = |matrix: &RoundedMatrix| {
            matrix.write(&npz).unwrap();
            matrix.write_fits(&fits, Vec::new(), &[]).unwrap();
        };
        for matrix in [
            small(),
            RoundedMatrix { bits: vec![5, 8], ..small() },
            RoundedMatrix { bits: vec![4, 12], codes: vec![1, -7, 2047, 0, 5, -2047], ..small() },
        ] {
            write(&matrix);
            for path in [&npz, &fits] {
                assert!(RoundedMatrix::is_in(path));
                assert_eq!(RoundedMatrix::read(path).unwrap(), matrix);
            }
        }
        let refused = |change: &dyn Fn(&mut RoundedMatrix), words: &str| {
            let mut matrix = small();
            change(&mut matrix);
            write(&matrix);
            for path in [&npz, &fits] {
                let error = RoundedMatrix::read(path).unwrap_err().to_string();
                assert!(error.to_lowercase().contains(&words.to_lowercase()), "{error}");
            }
        };
        refused(&|m| m.bits = vec![3, 4], "-7 is no integer of 3 bits: the largest is 3");
        refused(&|m| m.bits = vec![4, 3], "7 is no integer of 3 bits: the largest is 3");
        refused(&|m| m.bits = vec![17, 17], "17: integers have 2 to 16 bits");
        refused(&|m| m.bits = vec![0, 0], "0: integers have 2 to 16 bits");
        refused(&|m| m.bits = vec![4, 0], "0: integers have 2 to 16 bits");
        refused(&|m| m.bits = vec![4, 1], "1: integers have 2 to 16 bits");
        refused(&|m| m.bits = vec![4, 4, 5, 5], "bits");
        refused(&|m| m.edges[1] = 0, "must rise from 0 to 3");
        refused(&|m| m.scales[1] = f32::NAN, "scales");
    }

    #[test]
    fn images_of_other_programs_are_checked() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("r.fits");
        let codes = [0.0, 1.5];
        let image = |name: &str, pixels| Hdu { name: name.into(), pixels, axes: &[], cards: Vec::new() };
        fits::write(&path, &[image("CODES", Pixels::F64 { shape: vec![1, 2], values: &codes })], &[])
            .unwrap();
        let error = RoundedMatrix::read(&path).unwrap_err().to_string();
        assert!(error.contains("CODES") && error.contains("1.5 is no integer"), "{error}");
        let codes = [0u8, 1];
        fits::write(&path, &[image("CODES", Pixels::U8 { shape: vec![1, 2], values: &codes })], &[]).unwrap();
        let error = RoundedMatrix::read(&path).unwrap_err().to_string();
        assert!(error.contains("no image called EDGES"), "{error}");
    }
}
