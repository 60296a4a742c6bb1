//! Matrices by rows as operators.

use std::ops::Range;

use zellige_runtime::{Handle, Runtime, Submit, read, reads, update};

use super::operator::Operator;
use super::rows::Rows;
use super::scalars::Scalars;
use super::steps::Steps;
use crate::csr::Csr;
use crate::error::Error;
use crate::space::{Space, Vector, joined};

/// `y = A x`, where `x` begins at column `first`.
fn multiply(rows: &Rows<f64>, x: &[f64], first: usize, y: &mut [f64]) {
    for (i, y) in y.iter_mut().enumerate() {
        let (column, value) = rows.row(i);
        *y = column.iter().zip(value).map(|(&j, a)| a * x[j as usize - first]).sum();
    }
}

/// A matrix by rows in `f64`, a handle for each stretch of a space.
#[derive(Debug)]
pub struct CsrOperator {
    rows: usize,
    bytes: u64,
    panels: Vec<Panel>,
    /// The space of the vectors that it multiplies.
    from: Space,
}

#[derive(Debug)]
struct Panel {
    rows: Handle<Rows<f64>>,
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
        CsrOperator::between(rt, space, space, a)
    }

    /// As [`new`](CsrOperator::new), for a matrix that makes vectors of one space from those of another.
    ///
    /// # Errors
    /// [`Error::Shape`] for a matrix of other spaces.
    pub fn between(rt: &Runtime, to: &Space, from: &Space, a: &Csr) -> Result<CsrOperator, Error> {
        if (a.rows(), a.columns()) != (to.len(), from.len()) {
            let problem =
                format!("{} x {} between spaces of {} and {}", a.rows(), a.columns(), to.len(), from.len());
            return Err(Error::shape("rows and columns of the matrix", problem));
        }
        let panel = |range: Range<usize>| {
            let rows = Rows::of(range.map(|i| a.row(i)));
            Panel { columns: rows.columns(), rows: rt.register(rows) }
        };
        let panels = to.ranges().map(panel).collect();
        Ok(CsrOperator { rows: a.rows(), bytes: a.bytes(), panels, from: from.clone() })
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
        for (i, panel) in self.panels.iter().enumerate() {
            let needed = self.from.covering(panel.columns.clone());
            let first = self.from.first_of(&needed);
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
                    if !Scalars::new(s).is_done() {
                        multiply(rows, &joined(x), first, y);
                    }
                })
                .coords([i as u32])
                .submit()?;
        }
        Ok(())
    }
}
