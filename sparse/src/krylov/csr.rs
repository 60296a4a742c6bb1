//! Matrices by rows as operators.

use std::ops::Range;

use zellige_runtime::{
    Data, Handle, Meta, Portability, Portable, Runtime, StretchRef, Submit, read, reads, update,
};

use super::operator::Operator;
use super::scalars::Scalars;
use super::steps::Steps;
use crate::csr::Csr;
use crate::error::Error;
use crate::space::{Space, Vector};

/// Some rows of a matrix.
#[derive(Debug)]
struct Rows {
    starts: Vec<u64>,
    column: Vec<u32>,
    value: Vec<f64>,
}

impl Rows {
    fn of(a: &Csr, rows: Range<usize>) -> Rows {
        let mut part = Rows { starts: vec![0], column: Vec::new(), value: Vec::new() };
        for (column, value) in rows.map(|i| a.row(i)) {
            part.column.extend(column);
            part.value.extend(value);
            part.starts.push(part.value.len() as u64);
        }
        part
    }

    /// The columns that have elements, and those between.
    fn columns(&self) -> Range<usize> {
        let first = self.column.iter().min().map_or(0, |&j| j as usize);
        first..self.column.iter().max().map_or(0, |&j| j as usize + 1)
    }

    /// `y = A x`, where `x` begins at column `first`.
    fn multiply(&self, x: &[f64], first: usize, y: &mut [f64]) {
        for (y, ends) in y.iter_mut().zip(self.starts.windows(2)) {
            let row = ends[0] as usize..ends[1] as usize;
            let products = self.column[row.clone()].iter().zip(&self.value[row]);
            *y = products.map(|(&j, a)| a * x[j as usize - first]).sum();
        }
    }
}

impl Data for Rows {
    type Ref<'v> = &'v Rows;
    type Mut<'v> = &'v mut Rows;

    fn view(&self) -> &Rows {
        self
    }

    fn view_mut(&mut self) -> &mut Rows {
        self
    }

    fn meta(&self) -> Meta {
        Meta { bytes: self.parts().iter().map(|part| part.len()).sum(), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

impl Portable for Rows {
    /// Rows and elements.
    type Header = [usize; 2];

    fn header(&self) -> [usize; 2] {
        [self.starts.len() - 1, self.value.len()]
    }

    fn blank(&[rows, elements]: &[usize; 2]) -> Self {
        Rows { starts: vec![0; rows + 1], column: vec![0; elements], value: vec![0.0; elements] }
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![
            bytemuck::cast_slice(&self.starts),
            bytemuck::cast_slice(&self.column),
            bytemuck::cast_slice(&self.value),
        ]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![
            bytemuck::cast_slice_mut(&mut self.starts),
            bytemuck::cast_slice_mut(&mut self.column),
            bytemuck::cast_slice_mut(&mut self.value),
        ]
    }
}

/// A matrix by rows in `f64`, a handle for each stretch of a space.
#[derive(Debug)]
pub struct CsrOperator {
    rows: usize,
    bytes: u64,
    panels: Vec<Panel>,
}

#[derive(Debug)]
struct Panel {
    rows: Handle<Rows>,
    columns: Range<usize>,
}

impl CsrOperator {
    /// Gives the rows of each stretch a handle.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a matrix that is not square, [`Error::Shape`] for one of another space.
    pub fn new(rt: &Runtime, space: &Space, a: &Csr) -> Result<CsrOperator, Error> {
        if a.rows() != a.columns() {
            let problem =
                format!("{} rows, {} columns: only square systems are solved", a.rows(), a.columns());
            return Err(Error::unsolvable("matrix", problem));
        }
        if a.rows() != space.len() {
            return Err(Error::shape(
                "rows of the matrix",
                format!("{} in a space of {}", a.rows(), space.len()),
            ));
        }
        let panel = |range| {
            let rows = Rows::of(a, range);
            Panel { columns: rows.columns(), rows: rt.register(rows) }
        };
        Ok(CsrOperator { rows: a.rows(), bytes: a.bytes(), panels: space.ranges().map(panel).collect() })
    }
}

impl Operator for CsrOperator {
    fn rows(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn apply(&self, steps: &Steps<'_>, x: &Vector, y: &Vector) -> Result<(), Error> {
        let space = steps.space();
        for (i, panel) in self.panels.iter().enumerate() {
            let needed = space.covering(panel.columns.clone());
            let first = if needed.is_empty() { 0 } else { space.range(needed.start).start };
            let operands = (
                steps.scalars(),
                read(&panel.rows),
                reads(&x.stretches()[needed]),
                update(&y.stretches()[i]),
            );
            steps
                .graph()
                .task("spmv")
                .operands(operands)
                .cpu(move |(s, rows, x, y)| {
                    if Scalars::new(s).is_done() {
                        return;
                    }
                    match StretchRef::joined(x.iter()) {
                        Some(x) => rows.multiply(x, first, y),
                        // Copies, on a device with memory of its own.
                        None => rows.multiply(
                            &x.iter().flat_map(StretchRef::slice).copied().collect::<Vec<_>>(),
                            first,
                            y,
                        ),
                    }
                })
                .coords([i as u32])
                .submit()?;
        }
        Ok(())
    }
}
