//! Maps of the cells of a square grid.

use super::MAX_NSSP;

/// Selected cells of a square grid: sub-apertures or actuators.
#[derive(Debug, Clone, PartialEq)]
pub struct CellMap {
    across: usize,
    cells: Vec<bool>,
}

impl CellMap {
    /// Makes a map of `rows`, the lowest y first, with x ascending in each.
    ///
    /// # Errors
    /// A message: no row, rows of other lengths than their number, more than [`MAX_NSSP`] + 1 rows,
    /// no selected cell.
    pub fn new(rows: &[Vec<bool>]) -> Result<Self, String> {
        let across = rows.len();
        if across == 0 || across > MAX_NSSP + 1 {
            return Err(format!("a map of {across} rows: 1 to {} are possible", MAX_NSSP + 1));
        }
        if let Some(bad) = rows.iter().position(|row| row.len() != across) {
            return Err(format!(
                "row {} of the map has {} cells, but the map has {across} rows",
                bad + 1,
                rows[bad].len()
            ));
        }
        let cells = rows.concat();
        if !cells.contains(&true) {
            return Err("no cell of the map is 1".into());
        }
        Ok(CellMap { across, cells })
    }

    /// Makes a map as [`CellMap::new`], from numbers that are 0 or 1, or 0 or 255.
    ///
    /// # Errors
    /// The errors of [`CellMap::new`]; another number.
    pub fn from_numbers(rows: &[Vec<f64>]) -> Result<Self, String> {
        let is_of_bytes = rows.iter().flatten().all(|x| [0.0, 255.0].contains(x));
        let flag = |x: &f64| match x {
            0.0 => Ok(false),
            1.0 => Ok(true),
            255.0 if is_of_bytes => Ok(true),
            other => Err(format!("{other} in a map of 0 and 1")),
        };
        let rows: Result<Vec<Vec<bool>>, String> =
            rows.iter().map(|row| row.iter().map(flag).collect()).collect();
        CellMap::new(&rows?)
    }

    /// Returns the number of cells across.
    pub fn across(&self) -> usize {
        self.across
    }

    /// Returns whether the cell of column `x` and row `y` is selected; false outside the map.
    pub fn holds(&self, x: usize, y: usize) -> bool {
        x < self.across && y < self.across && self.cells[x + self.across * y]
    }
}
