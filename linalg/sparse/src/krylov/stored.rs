//! Stored matrices as operators.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zellige_kernels::sell::Panel;
use zellige_runtime::{Handle, Recorder, Runtime, Submit, read, reads, scratch, update};

use super::operator::Operator;
use super::product::{JointProduct, Product, Rows};
use super::steps::{JointSums, ScalarsHandle, Steps};
use crate::adaptive::{Adaptation, StoragePolicy, TiledMatrix};
use crate::csr::Csr;
use crate::error::Error;
use crate::space::{Space, Vector};

/// A matrix whose elements have the requested accuracy, a handle for the rows of each stretch.
#[derive(Debug)]
pub struct Stored {
    rows: usize,
    bytes: u64,
    accuracy: f64,
    panels: Vec<StoredPanel>,
    /// The space of the vectors that it multiplies.
    from: Space,
    /// Nanoseconds that CPU workers were busy with products.
    busy: Arc<AtomicU64>,
}

/// Refuses a copy that does not fit the memory; no set of formats takes more than `f64` does, with padding.
///
/// # Errors
/// [`Error::Memory`].
pub(crate) fn check_copy(a: &Csr) -> Result<(), Error> {
    let bytes = a.bytes() + a.bytes() / 4;
    Error::if_too_large(|| format!("a stored copy of a matrix of {} nonzeros", a.elements()), bytes)
}

#[derive(Debug)]
struct StoredPanel {
    rows: Handle<Rows>,
    /// The stretches that it reads.
    needed: Range<usize>,
}

impl Stored {
    /// Stores a square matrix, in blocks of `edge x edge`.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a matrix that is not square, and those of [`TiledMatrix::cut`].
    pub fn new(
        rt: &Runtime,
        space: &Space,
        a: &Csr,
        edge: usize,
        adaptation: &Adaptation<'_>,
    ) -> Result<Stored, Error> {
        check_square(a)?;
        Stored::between(rt, space, space, a, edge, adaptation)
    }

    /// A square matrix in `f64`, with nothing left out.
    ///
    /// # Errors
    /// Those of [`new`](Stored::new).
    pub fn exact(rt: &Runtime, space: &Space, a: &Csr) -> Result<Stored, Error> {
        Stored::new(rt, space, a, best_edge(a), &Adaptation::double())
    }

    /// As [`new`](Stored::new), for a matrix that makes vectors of one space from those of another.
    ///
    /// # Errors
    /// Those of [`TiledMatrix::cut`], and [`Error::Shape`] for a matrix of other spaces.
    pub fn between(
        rt: &Runtime,
        to: &Space,
        from: &Space,
        a: &Csr,
        edge: usize,
        adaptation: &Adaptation<'_>,
    ) -> Result<Stored, Error> {
        if a.columns() != from.len() {
            let problem = format!("{} columns for vectors of {}", a.columns(), from.len());
            return Err(Error::shape("matrix", problem));
        }
        check_copy(a)?;
        Ok(Stored::of(rt, from, TiledMatrix::cut(a, edge, adaptation, to, rt.workers())?, adaptation))
    }

    /// As [`new`](Stored::new), with the set of formats that a policy chooses for each stretch.
    ///
    /// # Errors
    /// Those of [`TiledMatrix::cut_by`].
    pub fn by_policy(
        rt: &Runtime,
        space: &Space,
        a: &Csr,
        edge: usize,
        adaptation: &Adaptation<'_>,
        policy: &dyn StoragePolicy,
    ) -> Result<Stored, Error> {
        check_square(a)?;
        let matrix = TiledMatrix::cut_by(a, edge, adaptation, space, policy, rt.workers())?;
        Ok(Stored::of(rt, space, matrix, adaptation))
    }

    /// A matrix that was cut for the stretches of what it makes, multiplying vectors of `from`.
    pub(crate) fn of(rt: &Runtime, from: &Space, matrix: TiledMatrix, adaptation: &Adaptation<'_>) -> Stored {
        let (rows, bytes) = (matrix.rows(), matrix.bytes());
        let panel = |panel: Panel| StoredPanel {
            needed: from.covering(panel.columns()),
            rows: rt.register(Rows::from(panel)),
        };
        Stored {
            rows,
            bytes,
            accuracy: adaptation.accuracy.get(),
            panels: matrix.into_panels().into_iter().map(panel).collect(),
            from: from.clone(),
            busy: Arc::default(),
        }
    }

    /// Records the products of several vectors at once, which read the matrix once: of `p`, whose numbers of one row lie beside each other in `woven`.
    pub(super) fn apply_together(
        &self,
        graph: &Recorder,
        scalars: &[ScalarsHandle],
        woven: &Vector,
        (p, q): (&Vector, &Vector),
        sums: &JointSums,
    ) -> Result<(), Error> {
        let count = scalars.len();
        for (i, panel) in self.panels.iter().enumerate() {
            let needed = panel.needed.clone();
            let first = self.from.first_of(&needed);
            let work = scratch::<f64>(count * self.space_rows(i)).on_host();
            let operands = (
                reads(scalars),
                read(&panel.rows),
                reads(&woven.stretches()[needed]),
                p.read(i),
                q.update(i),
                sums.of(i),
                work,
            );
            let product = JointProduct { first, count, busy: Arc::clone(&self.busy) };
            graph.codelet(product, operands).coords([i as u32]).submit()?;
        }
        Ok(())
    }

    /// Rows of panel `i` of a square matrix.
    fn space_rows(&self, i: usize) -> usize {
        self.from.range(i).len()
    }

    /// How long CPU workers have been busy with products so far, added up.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy.load(Ordering::Relaxed))
    }
}

fn check_square(a: &Csr) -> Result<(), Error> {
    if a.rows() == a.columns() {
        return Ok(());
    }
    let problem = format!("{} rows, {} columns: only square systems are solved", a.rows(), a.columns());
    Err(Error::unsolvable("matrix", problem))
}

/// Rows of blocks that are looked at.
const SAMPLE: usize = 100;

/// The edge of the blocks that a matrix has, if they are nearly full: 1, 2, 3 or 4.
pub fn best_edge(a: &Csr) -> usize {
    let fits = |edge: &usize| a.rows().is_multiple_of(*edge) && a.columns().is_multiple_of(*edge);
    let bytes_of_row = |edge: usize| {
        let rows = a.rows() / edge;
        let sample = || (0..rows).step_by(rows.div_ceil(SAMPLE).max(1));
        let blocks: usize = sample().map(|row| blocks_of(a, row, edge)).sum();
        (blocks * (8 * edge * edge + 2)) as f64 / (sample().count() * edge).max(1) as f64
    };
    let by_bytes = |one: &usize, other: &usize| bytes_of_row(*one).total_cmp(&bytes_of_row(*other));
    [1, 2, 3, 4].into_iter().filter(fits).min_by(by_bytes).unwrap_or(1)
}

/// Blocks of a row of blocks that have elements.
fn blocks_of(a: &Csr, row: usize, edge: usize) -> usize {
    let mut rows: Vec<&[u32]> = (0..edge).map(|i| a.row(row * edge + i).0).collect();
    let mut count = 0;
    while let Some(first) = rows.iter().filter_map(|columns| columns.first()).min() {
        let end = (first / edge as u32 + 1) * edge as u32;
        rows.iter_mut().for_each(|columns| *columns = &columns[columns.partition_point(|&j| j < end)..]);
        count += 1;
    }
    count
}

impl Operator for Stored {
    fn rows(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn accuracy(&self) -> f64 {
        self.accuracy
    }

    fn apply(&self, steps: &Steps<'_>, x: &Vector, y: &Vector) -> Result<(), Error> {
        for (i, panel) in self.panels.iter().enumerate() {
            let needed = panel.needed.clone();
            let first = self.from.first_of(&needed);
            let operands = (
                steps.scalars(),
                read(&panel.rows),
                reads(&x.stretches()[needed]),
                update(&y.stretches()[i]),
            );
            let product = Product { first, busy: Arc::clone(&self.busy) };
            steps.graph().codelet(product, operands).coords([i as u32]).submit()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Elasticity, Elements, Flow, elasticity, flow};

    #[test]
    fn blocks_are_found() -> Result<(), Error> {
        let solid = elasticity(&Elasticity { elements: Elements([4, 4, 4]), ..Elasticity::default() })?;
        assert_eq!(best_edge(&solid), 3);
        assert_eq!(best_edge(&flow(&Flow { cells: [6, 6, 6], ..Flow::default() })?), 1);
        Ok(())
    }
}
