//! Stored matrices as operators.

mod product;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zellige_kernels::sell::Panel;
use zellige_krylov::method::Steps;
use zellige_krylov::{Error, Executor, MultiVector, Operator, Scalar, Space};
use zellige_runtime::data::Chunk;
use zellige_runtime::{Handle, ReadList, Submit, read, reads, update, updates};

use self::product::{PanelRows, Product, ProductDot};
use crate::adaptive::{Adaptation, FormatSet, MOST_COLUMNS, StoragePolicy, TiledMatrix};
use crate::csr::Csr;

/// A matrix stored with the requested accuracy, with a handle for the rows of each part.
#[derive(Debug)]
pub struct Stored {
    bytes: u64,
    accuracy: f64,
    panels: Vec<StoredPanel>,
    /// Spaces of the input and output vectors.
    from: Space,
    to: Space,
    /// True if dot products are computed with the matrix product, which no device supports.
    has_dots: bool,
    /// Parts that one task multiplies.
    at_once: usize,
    block_size: usize,
    adjoint: AdjointOf,
    /// Nanoseconds that CPU workers were busy with products.
    busy: Arc<AtomicU64>,
}

/// Adjoint of a stored matrix; real matrices have their transpose.
#[derive(Debug)]
enum AdjointOf {
    Unknown,
    /// The matrix itself.
    Itself,
    Transpose(Box<Stored>),
}

/// Refuses a copy that does not fit the memory; no set of formats takes more than `f64` does, with
/// padding.
///
/// # Errors
/// [`Error::Memory`].
pub(crate) fn check_copy(a: &Csr) -> Result<(), Error> {
    let bytes = a.bytes() + a.bytes() / 4;
    Error::if_too_large(|| format!("a stored copy of a matrix of {} nonzeros", a.nonzeros()), bytes)
}

#[derive(Debug)]
struct StoredPanel {
    rows: Handle<PanelRows>,
    /// The parts that it reads.
    needed: Range<usize>,
}

impl Stored {
    /// Stores a square matrix, in blocks of `block_size x block_size`.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a matrix that is not square, and those of [`TiledMatrix::cut`].
    pub fn new(
        rt: &dyn Executor,
        space: &Space,
        a: &Csr,
        block_size: usize,
        adaptation: &Adaptation<'_>,
    ) -> Result<Stored, Error> {
        check_square(a)?;
        Stored::between(rt, space, space, a, block_size, adaptation)
    }

    /// Stores a square matrix in `f64`, with nothing dropped.
    ///
    /// # Errors
    /// Those of [`new`](Stored::new).
    pub fn exact(rt: &dyn Executor, space: &Space, a: &Csr) -> Result<Stored, Error> {
        Stored::new(rt, space, a, a.block_size(), &Adaptation::double())
    }

    /// Stores a matrix like [`new`](Stored::new), as an operator from one space to another.
    ///
    /// # Errors
    /// Those of [`TiledMatrix::cut`], and [`Error::Shape`] for a matrix of other spaces.
    pub fn between(
        rt: &dyn Executor,
        to: &Space,
        from: &Space,
        a: &Csr,
        block_size: usize,
        adaptation: &Adaptation<'_>,
    ) -> Result<Stored, Error> {
        if a.columns() != from.len() {
            let problem = format!("{} columns for vectors of {}", a.columns(), from.len());
            return Err(Error::shape("matrix", problem));
        }
        check_copy(a)?;
        Ok(Stored::of(
            rt,
            [to, from],
            TiledMatrix::cut(a, block_size, adaptation, to, rt.runtime().workers())?,
            adaptation,
        ))
    }

    /// Adds an [adjoint](Operator::apply_adjoint): stores the transpose as well, with the requested
    /// accuracy of each of its rows. Nothing more is stored for a symmetric matrix in `f64`, or one
    /// that was stored [symmetrically](Adaptation::symmetric). `a` and `adaptation` are those that
    /// the matrix was stored from.
    ///
    /// ```
    /// use zellige_runtime::Runtime;
    /// use zellige_sparse::adaptive::Adaptation;
    /// use zellige_sparse::krylov::{Adjoint, Space, multiply};
    /// use zellige_sparse::{Csr, Stored};
    ///
    /// let (rt, rows, columns) = (Runtime::new()?, Space::new(2, 0), Space::new(3, 0));
    /// let a = Csr::from_triplets(2, 3, &[(0, 0, 1.0), (0, 2, 2.0), (1, 1, 3.0)])?;
    /// let exact = Adaptation::double();
    /// let stored = Stored::between(&rt, &rows, &columns, &a, 1, &exact)?.with_adjoint(&rt, &a, &exact)?;
    /// assert_eq!(multiply(&rt, &Adjoint(&stored), &[1.0, 1.0])?, [1.0, 3.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`between`](Stored::between) for the transpose.
    pub fn with_adjoint(
        self,
        rt: &dyn Executor,
        a: &Csr,
        adaptation: &Adaptation<'_>,
    ) -> Result<Stored, Error> {
        let keeps_symmetry = adaptation.symmetric || adaptation.set == FormatSet::Fp64 && !adaptation.drops;
        let adjoint = if keeps_symmetry && self.from == self.to && a.is_symmetric() {
            AdjointOf::Itself
        } else {
            let (to, from) = (&self.from, &self.to);
            let transpose = Stored::between(rt, to, from, &a.transposed(), self.block_size, adaptation)?;
            AdjointOf::Transpose(Box::new(transpose))
        };
        Ok(Stored { adjoint, ..self })
    }

    /// Stores a matrix like [`new`](Stored::new), with the set of formats that a policy chooses for
    /// each part.
    ///
    /// # Errors
    /// Those of [`TiledMatrix::cut_by`].
    pub fn by_policy(
        rt: &dyn Executor,
        space: &Space,
        a: &Csr,
        block_size: usize,
        adaptation: &Adaptation<'_>,
        policy: &dyn StoragePolicy,
    ) -> Result<Stored, Error> {
        check_square(a)?;
        let matrix = TiledMatrix::cut_by(a, block_size, adaptation, space, policy, rt.runtime().workers())?;
        Ok(Stored::of(rt, [space, space], matrix, adaptation))
    }

    /// Creates the operator of a matrix that was cut for the parts of `to`, for vectors of `from`.
    pub(crate) fn of(
        rt: &dyn Executor,
        [to, from]: [&Space; 2],
        matrix: TiledMatrix,
        adaptation: &Adaptation<'_>,
    ) -> Stored {
        let (bytes, block_size) = (matrix.bytes(), matrix.block_size());
        let vectors = to.bytes(MOST_COLUMNS) + from.bytes(MOST_COLUMNS);
        let at_once = if rt.goes_at_once(bytes.saturating_add(vectors)) { to.parts().max(1) } else { 1 };
        let panel = |(i, panel): (usize, Panel)| StoredPanel {
            needed: from.covering(panel.columns()),
            rows: rt.register_local_on(to.rank_of(i, rt.ranks()), || PanelRows::from(panel)),
        };
        Stored {
            bytes,
            accuracy: adaptation.accuracy.get(),
            panels: matrix.into_panels().into_iter().enumerate().map(panel).collect(),
            from: from.clone(),
            to: to.clone(),
            has_dots: rt.runtime().memory().iter().all(|node| node.device.is_none()),
            at_once,
            block_size,
            adjoint: AdjointOf::Unknown,
            busy: Arc::default(),
        }
    }

    /// Returns the bytes of the values and of their indices.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the relative accuracy that the matrix was stored for.
    pub fn accuracy(&self) -> f64 {
        self.accuracy
    }

    /// Returns the space of its input vectors.
    pub fn domain(&self) -> &Space {
        &self.from
    }

    /// Returns the total busy time of CPU workers in products so far.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy.load(Ordering::Relaxed))
    }
}

/// Refuses a matrix that is not square.
///
/// # Errors
/// [`Error::Unsolvable`].
pub(crate) fn check_square(a: &Csr) -> Result<(), Error> {
    if a.rows() == a.columns() {
        return Ok(());
    }
    let problem = format!("{} rows, {} columns: only square systems are solved", a.rows(), a.columns());
    Err(Error::unsolvable("matrix", problem))
}

/// Returns the range of parts that some panels read; panels that read none do not count.
fn needed_by(panels: &[StoredPanel]) -> Range<usize> {
    let needed = || panels.iter().map(|panel| &panel.needed).filter(|needed| !needed.is_empty());
    let start = needed().map(|needed| needed.start).min().unwrap_or(0);
    start..needed().map(|needed| needed.end).max().unwrap_or(start)
}

/// Returns the number of real columns of the vectors; refuses numbers without kernels.
pub(crate) fn check_columns<E: Scalar>(steps: &Steps<'_, E>) -> Result<usize, Error> {
    let count = steps.columns() * E::PARTS;
    let most = if E::IS_STOCHASTIC { 1 } else { MOST_COLUMNS };
    if (1..=most).contains(&count) {
        return Ok(count);
    }
    let problem = format!("{count} real vectors at once: there are kernels for 1 to {most}");
    Err(Error::parameter("columns", problem))
}

impl Stored {
    /// Returns the parts of `x` that a product with panel `i` reads, and their first row.
    fn operands<E: Scalar>(&self, x: &MultiVector<E>, needed: Range<usize>) -> (ReadList<Chunk<f64>>, usize) {
        (reads(&x.parts()[needed.clone()]), self.from.first_of(&needed))
    }

    /// Refuses vectors that are not multiplied: the real and imaginary parts of a complex number
    /// are separate columns.
    fn check<E: Scalar>(steps: &Steps<'_, E>, vectors: [&MultiVector<E>; 2]) -> Result<(), Error> {
        check_columns(steps)?;
        if !vectors.iter().all(|vector| vector.storage().is_plain()) {
            return Err(Error::parameter("storage", "stored matrices multiply vectors in float64"));
        }
        Ok(())
    }
}

impl<E: Scalar> Operator<E> for Stored {
    fn domain(&self) -> &Space {
        &self.from
    }

    fn range(&self) -> &Space {
        &self.to
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn memory(&self) -> u64 {
        match &self.adjoint {
            AdjointOf::Transpose(transpose) => self.bytes + transpose.bytes,
            AdjointOf::Unknown | AdjointOf::Itself => self.bytes,
        }
    }

    fn accuracy(&self) -> f64 {
        self.accuracy
    }

    fn apply_adjoint(
        &self,
        steps: &Steps<'_, E>,
        x: &MultiVector<E>,
        y: &MultiVector<E>,
    ) -> Result<(), Error> {
        match &self.adjoint {
            AdjointOf::Itself => self.apply(steps, x, y),
            AdjointOf::Transpose(transpose) => transpose.apply(steps, x, y),
            AdjointOf::Unknown => {
                Err(Error::parameter("operator", "a stored matrix without its transpose: see `with_adjoint`"))
            }
        }
    }

    fn apply(&self, steps: &Steps<'_, E>, x: &MultiVector<E>, y: &MultiVector<E>) -> Result<(), Error> {
        Stored::check(steps, [x, y])?;
        let at_once = if E::HAS_KERNELS { self.at_once } else { 1 };
        let parts = self.panels.chunks(at_once).zip(y.parts().chunks(at_once));
        for (i, (panels, y)) in parts.enumerate() {
            let (x, first) = self.operands(x, needed_by(panels));
            let rows = reads(panels.iter().map(|panel| &panel.rows));
            let operands = (steps.numbers().read(), rows, x, updates(y));
            let product = Product::<E>::new(first, steps.columns(), &self.busy);
            steps.graph().codelet(product, operands).coords([i as u32]).submit()?;
        }
        Ok(())
    }

    fn apply_dot(
        &self,
        steps: &Steps<'_, E>,
        x: &MultiVector<E>,
        y: &MultiVector<E>,
        at: usize,
    ) -> Result<(), Error> {
        if E::HAS_KERNELS && !self.has_dots {
            self.apply(steps, x, y)?;
            return steps.task("dot").dot(x, y, at).submit();
        }
        Stored::check(steps, [x, y])?;
        for (i, panel) in self.panels.iter().enumerate() {
            // The rows of the product are among those of `x` that it reads.
            let needed = panel.needed.start.min(i)..panel.needed.end.max(i + 1);
            let (x, first) = self.operands(x, needed);
            let own = self.to.range(i).start - first;
            let product = Product::<E>::new(first, steps.columns(), &self.busy);
            let product = ProductDot::new(product, own, [steps.sums().width(), at]);
            let operands =
                (steps.numbers().read(), read(&panel.rows), x, update(&y.parts()[i]), steps.sums().of(i));
            steps.graph().codelet(product, operands).coords([i as u32]).submit()?;
        }
        Ok(())
    }
}
