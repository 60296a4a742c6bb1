//! Files of set-ups.

use std::path::Path;

use zellige_files::array::Array;
use zellige_files::array::npz::{self, NpzWriter};

use super::blocks::Blocks;
use super::setup::{AmgSetup, FinestLevel, MOST_LEVELS, MatrixSums, SetupLevel};
use crate::csr::Csr;
use crate::precondition::chebyshev::Interval;
use zellige_krylov::Error;

/// Name of the array that a set-up is recognised by, and the version in it.
const HEAD: &str = "amg";
const VERSION: i64 = 1;

/// Returns the position of each row's first nonzero, and the end, in the type of files.
fn to_file(starts: &[usize]) -> Vec<i64> {
    starts.iter().map(|&start| start as i64).collect()
}

impl AmgSetup {
    /// Writes a NumPy archive (npz): `amg` has the version, the size of blocks, 1 if the near null
    /// space has more than constants, the number of levels below the finest, and rows, nonzeros
    /// and check sums of the matrix. `finest`, `energies` and `intervals` have the numbers of the
    /// levels. Level `k` from 1 on has its matrix in `ak.starts`, `ak.column` and `ak.value`, and
    /// in the same way, in blocks, its prolongation `pk` with `pk.shape`.
    ///
    /// # Errors
    /// The file cannot be written. No partial file remains.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let MatrixSums { rows, nonzeros, positions, values } = self.of;
        let sizes = [self.block, usize::from(self.has_more), self.levels.len(), rows, nonzeros];
        let sums = [positions, values].map(i64::from);
        let head: Vec<i64> = [VERSION].into_iter().chain(sizes.map(|size| size as i64)).chain(sums).collect();
        let finest: Vec<f64> = self.finest.iter().flat_map(FinestLevel::numbers).collect();
        let energies: Vec<f64> = self.levels.iter().map(|level| level.least_energy).collect();
        let intervals: Vec<f64> = self
            .levels
            .iter()
            .filter_map(|level| level.interval)
            .flat_map(|interval| interval.ends())
            .collect();
        let written = NpzWriter::write(path, |npz| {
            npz.put(HEAD, &[head.len()], &head)?;
            npz.put("finest", &[finest.len()], &finest)?;
            npz.put("energies", &[energies.len()], &energies)?;
            npz.put("intervals", &[intervals.len() / 2, 2], &intervals)?;
            for (at, SetupLevel { prolongation, a, .. }) in self.levels.iter().enumerate() {
                let k = at + 1;
                let (size, columns, starts, column, value) = prolongation.arrays();
                let shape = [size[0], size[1], columns].map(|side| side as i64);
                npz.put(&format!("p{k}.shape"), &[3], &shape)?;
                for (name, (starts, column, value)) in [("p", (starts, column, value)), ("a", a.arrays())] {
                    npz.put(&format!("{name}{k}.starts"), &[starts.len()], &to_file(starts))?;
                    npz.put_uncompressed(&format!("{name}{k}.column"), &[column.len()], column)?;
                    npz.put_uncompressed(&format!("{name}{k}.value"), &[value.len()], value)?;
                }
            }
            Ok(())
        });
        written.map_err(|error| Error::File {
            path: path.to_owned(),
            problem: error.problem,
            source: error.source,
        })
    }

    /// Reads what [`write`](AmgSetup::write) writes.
    ///
    /// # Errors
    /// The file cannot be read; [`Error::Content`] for another file, another version and arrays
    /// that do not fit each other.
    pub fn read(path: &Path) -> Result<AmgSetup, Error> {
        let file = SetupFile(path);
        if !npz::names(path)?.iter().any(|name| name == HEAD) {
            let problem = "no set-up of amg, as `zellige solve --save-setup` writes it".to_owned();
            return Err(Error::Content { file: path.to_owned(), line: None, problem });
        }
        let head = file.integers(HEAD)?;
        let &[version, block, has_more, count, rows, nonzeros, positions, values] = &head[..] else {
            return Err(file.wrong(HEAD, format!("{} numbers instead of 8", head.len())));
        };
        if version != VERSION {
            return Err(file.wrong(HEAD, format!("version {version}, but {VERSION} is known")));
        }
        let size =
            |number: i64| usize::try_from(number).map_err(|_| file.wrong(HEAD, format!("size {number}")));
        let sum =
            |number: i64| u32::try_from(number).map_err(|_| file.wrong(HEAD, format!("check sum {number}")));
        let of = MatrixSums {
            rows: size(rows)?,
            nonzeros: size(nonzeros)?,
            positions: sum(positions)?,
            values: sum(values)?,
        };
        let (block, count) = (size(block)?, size(count)?);
        if count > MOST_LEVELS || block == 0 || !of.rows.is_multiple_of(block) {
            let problem = format!("{count} levels and blocks of {block} for {} rows", of.rows);
            return Err(file.wrong(HEAD, problem));
        }
        let interval = |name: &str, ends: [f64; 2]| {
            let problem = || file.wrong(name, format!("{ends:?} is no interval of positive numbers"));
            Interval::new(ends[0], ends[1]).ok_or_else(problem)
        };
        let finest = match &file.numbers("finest", usize::from(count > 0) * 3)?[..] {
            &[least, most, least_energy] => {
                Some(FinestLevel { interval: interval("finest", [least, most])?, least_energy })
            }
            _ => None,
        };
        let energies = file.numbers("energies", count)?;
        let intervals = file.numbers("intervals", count.saturating_sub(1) * 2)?;
        let (mut levels, mut finer) = (Vec::with_capacity(count), [of.rows, block]);
        for (at, &least_energy) in energies.iter().enumerate() {
            let (p, a) = (format!("p{}", at + 1), format!("a{}", at + 1));
            let shape = file.integers(&format!("{p}.shape"))?;
            let shape: Vec<usize> = shape.into_iter().map(size).collect::<Result<_, _>>()?;
            let &[r, c, columns] = &shape[..] else {
                return Err(file.wrong(&p, format!("a shape of {} numbers", shape.len())));
            };
            let unfit = |name: &str, error: Error| file.wrong(name, error.to_string());
            let (starts, column, value) = file.arrays(&p)?;
            let prolongation = Blocks::from_arrays([r, c], columns, starts, column, value);
            let prolongation = prolongation.map_err(|error| unfit(&p, error))?;
            let (starts, column, value) = file.arrays(&a)?;
            let rows = starts.len().saturating_sub(1);
            let matrix = Csr::new(rows, starts, column, value).map_err(|error| unfit(&a, error))?;
            if [prolongation.rows().checked_mul(r), Some(r)] != finer.map(Some)
                || columns.checked_mul(c) != Some(rows)
            {
                let problem =
                    format!("{columns} columns of blocks of {r} x {c} between {} and {rows} rows", finer[0]);
                return Err(file.wrong(&p, problem));
            }
            let ends = intervals.as_chunks().0.get(at);
            let interval = ends.map(|ends| interval("intervals", *ends)).transpose()?;
            levels.push(SetupLevel { prolongation, a: matrix, interval, least_energy });
            finer = [rows, c];
        }
        Ok(AmgSetup { of, block, has_more: has_more != 0, finest, levels })
    }
}

/// Starts of rows, columns and values.
type SparseArrays = (Vec<usize>, Vec<u32>, Vec<f64>);

/// A file that is read.
struct SetupFile<'p>(&'p Path);

impl SetupFile<'_> {
    fn wrong(&self, name: &str, problem: String) -> Error {
        Error::Content { file: self.0.join(name), line: None, problem }
    }

    fn open(&self, name: &str) -> Result<Array, Error> {
        Ok(Array::open(&self.0.join(name))?)
    }

    fn integers(&self, name: &str) -> Result<Vec<i64>, Error> {
        Ok(self.open(name)?.of(&["i8"], 1)?.values()?)
    }

    /// Reads this number of finite numbers.
    fn numbers(&self, name: &str, count: usize) -> Result<Vec<f64>, Error> {
        let array = self.open(name)?;
        let dimensions = array.sides().len();
        let numbers: Vec<f64> = array.of(&["f8"], dimensions)?.values()?;
        if numbers.len() != count || numbers.iter().any(|number| !number.is_finite()) {
            let problem = format!("{} numbers, but {count} finite ones are needed", numbers.len());
            return Err(self.wrong(name, problem));
        }
        Ok(numbers)
    }

    /// Reads starts, columns and values.
    fn arrays(&self, name: &str) -> Result<SparseArrays, Error> {
        let starts = self.integers(&format!("{name}.starts"))?.into_iter().map(usize::try_from);
        let starts = starts.collect::<Result<_, _>>();
        let starts = starts.map_err(|_| self.wrong(name, "a negative start of a row".to_owned()))?;
        let column = self.open(&format!("{name}.column"))?.of(&["u4"], 1)?.values()?;
        let value = self.open(&format!("{name}.value"))?.of(&["f8"], 1)?.values()?;
        Ok((starts, column, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Flow, flow};
    use crate::precondition::{Amg, NearNull};
    use zellige_krylov::Space;
    use zellige_runtime::Runtime;

    /// Parts that do not fit each other are refused with the name of an array.
    #[test]
    fn inconsistent_set_ups_are_refused() -> Result<(), Error> {
        let rt = Runtime::builder().workers(1).build()?;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("setup.npz");
        let a = flow(&Flow { cells: [20, 18, 16], ..Flow::default() })?;
        let space = Space::new(a.rows(), a.bytes());
        let ones = vec![1.0; a.rows()];
        let (_, setup) = Amg::with_setup(&rt, &space, &a, 1, &ones, &NearNull::Constants)?;
        assert!(setup.levels.len() > 1, "one level shows less");
        setup.write(&path)?;
        assert!(AmgSetup::read(&path)? == setup);
        type Change = fn(&mut AmgSetup);
        let changes: [(&str, Change); 9] = [
            ("amg", |setup| setup.block = 0),
            ("amg", |setup| setup.block = 7),
            ("p1", |setup| setup.of.rows += 1),
            ("p1", |setup| setup.levels.swap(0, 1)),
            ("p2", |setup| setup.levels[1].a = setup.levels[0].a.clone()),
            ("finest", |setup| setup.finest = None),
            ("energies", |setup| setup.levels[1].least_energy = f64::NAN),
            ("intervals", |setup| setup.levels[0].interval = None),
            ("finest", |setup| setup.levels.clear()),
        ];
        for (name, change) in changes {
            let mut changed = setup.clone();
            change(&mut changed);
            changed.write(&path)?;
            let error = AmgSetup::read(&path).expect_err(name).to_string();
            assert!(error.contains(&format!("setup.npz/{name}")), "{name}: {error}");
        }
        Ok(())
    }
}
