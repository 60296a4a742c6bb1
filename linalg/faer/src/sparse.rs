//! Factors of sparse matrices on one thread: bitwise identical on every machine with the same
//! vector instructions.

use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::perm::PermRef;
use faer::sparse::linalg::LuError;
use faer::sparse::linalg::cholesky::{LltRef, SymbolicCholesky, factorize_symbolic_cholesky};
use faer::sparse::linalg::colamd;
use faer::sparse::linalg::lu::simplicial::{
    SimplicialLu, factorize_simplicial_numeric_lu, factorize_simplicial_numeric_lu_scratch,
    solve_in_place_scratch,
};
use faer::sparse::linalg::qr::{
    col_etree, col_etree_scratch, column_counts_aat_scratch, column_counts_ata, postorder, postorder_scratch,
};
use faer::sparse::{FaerError, SparseColMatRef, SymbolicSparseColMatRef};
use faer::traits::RealField;
use faer::{Conj, MatMut, Par, Side};

/// Number type of factors: `f64` or `f32`.
pub trait Real: RealField + Copy {
    /// Returns the nearest number of this type.
    fn nearest(value: f64) -> Self;

    /// Returns true unless it is infinite or NaN.
    fn is_number(self) -> bool;

    /// Returns true if division by the number stays in range.
    fn is_pivot(self) -> bool;
}

impl Real for f64 {
    fn nearest(value: f64) -> f64 {
        value
    }

    fn is_number(self) -> bool {
        self.is_finite()
    }

    fn is_pivot(self) -> bool {
        self.is_normal()
    }
}

impl Real for f32 {
    fn nearest(value: f64) -> f32 {
        value as f32
    }

    fn is_number(self) -> bool {
        self.is_finite()
    }

    fn is_pivot(self) -> bool {
        self.is_normal()
    }
}

/// Sparsity pattern of a square matrix: column `j` has nonzeros in the rows
/// `rows[starts[j]..starts[j + 1]]`, which increase strictly.
#[derive(Clone, Copy, Debug)]
pub struct Pattern<'a> {
    /// Start of each column, and the end of the last one.
    pub starts: &'a [u32],
    /// The row of each nonzero.
    pub rows: &'a [u32],
}

impl Pattern<'_> {
    /// Returns the number of columns.
    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn symbolic(&self) -> SymbolicSparseColMatRef<'_, u32> {
        SymbolicSparseColMatRef::new_checked(self.len(), self.len(), self.starts, None, self.rows)
    }
}

/// Reason why a factorisation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorError {
    /// A column depends on others, to the precision of float64.
    Singular {
        /// Counted from 0.
        column: usize,
    },
    /// Elimination found a pivot that is not positive.
    NotPositive,
    /// The factors do not fit the memory, or have more than 2^31 nonzeros.
    TooLarge,
}

impl From<FaerError> for FactorError {
    fn from(_: FaerError) -> Self {
        FactorError::TooLarge
    }
}

fn buffer(size: StackReq) -> Result<MemBuffer, FactorError> {
    MemBuffer::try_new(size).map_err(|_| FactorError::TooLarge)
}

/// Elimination order of the columns of a matrix (COLAMD: Davis, Gilbert, Larimore and Ng 2004), for
/// LU factors.
#[derive(Debug)]
pub struct LuOrder {
    /// Column `k` in the new order is this one.
    forward: Vec<u32>,
    inverse: Vec<u32>,
    nonzeros: u64,
}

impl LuOrder {
    /// Computes the ordering from a matrix and its transpose.
    ///
    /// # Errors
    /// [`FactorError::TooLarge`].
    pub fn new(a: Pattern<'_>, transposed: Pattern<'_>) -> Result<LuOrder, FactorError> {
        let (n, symbolic) = (a.len(), a.symbolic());
        let (mut forward, mut inverse) = (vec![0; n], vec![0; n]);
        let mut memory = buffer(colamd::order_scratch::<u32>(n, n, a.rows.len()))?;
        let stack = MemStack::new(&mut memory);
        colamd::order(&mut forward, &mut inverse, symbolic, colamd::Control::default(), stack)?;
        drop(memory);
        let nonzeros = nonzeros(a, transposed, PermRef::new_checked(&forward, &inverse, n))?;
        Ok(LuOrder { forward, inverse, nonzeros })
    }

    /// Returns an upper bound of the nonzeros of the factors for any pivoting; dense rows are not
    /// counted.
    pub fn nonzeros(&self) -> u64 {
        self.nonzeros
    }

    /// Factors the matrix with these values, with the largest pivot of each column.
    ///
    /// # Errors
    /// [`FactorError::Singular`], [`FactorError::TooLarge`].
    pub fn factor<T: Real>(self, a: Pattern<'_>, values: &[T]) -> Result<Lu<T>, FactorError> {
        let n = a.len();
        let matrix = SparseColMatRef::new(a.symbolic(), values);
        let (mut rows, mut rows_inverse) = (vec![0; n], vec![0; n]);
        let mut factors = SimplicialLu::new();
        let mut memory = buffer(factorize_simplicial_numeric_lu_scratch::<u32, T>(n, n))?;
        let columns = PermRef::new_checked(&self.forward, &self.inverse, n);
        let stack = MemStack::new(&mut memory);
        let result = factorize_simplicial_numeric_lu(
            &mut rows,
            &mut rows_inverse,
            &mut factors,
            matrix,
            columns,
            stack,
        );
        let singular = |k: usize| FactorError::Singular { column: self.forward[k] as usize };
        match result {
            Ok(()) => {}
            Err(LuError::SymbolicSingular { index }) => return Err(singular(index)),
            Err(LuError::Generic(_)) => return Err(FactorError::TooLarge),
        }
        let upper = factors.u_factor_unsorted();
        // The pivot is the last of its column.
        let is_pivot = |k: &usize| upper.val_of_col(*k).last().is_some_and(|pivot| pivot.is_pivot());
        match (0..n).find(|k| !is_pivot(k)) {
            Some(k) => Err(singular(k)),
            None => Ok(Lu { order: self, rows, rows_inverse, factors }),
        }
    }
}

/// Returns the maximum number of nonzeros of `L` and `U`: those of the Cholesky factor of `A^T A`,
/// and of the Householder vectors that would make `R` (George and Ng 1987).
fn nonzeros(a: Pattern<'_>, transposed: Pattern<'_>, order: PermRef<'_, u32>) -> Result<u64, FactorError> {
    let n = a.len();
    // COLAMD ignores the same rows.
    let dense = (10.0 * (n as f64).sqrt()).max(16.0) as usize;
    let is_dense: Vec<bool> =
        transposed.starts.windows(2).map(|ends| (ends[1] - ends[0]) as usize > dense).collect();
    let of_dense: u64 = is_dense.iter().filter(|is_dense| **is_dense).count() as u64 * n as u64;
    let (mut starts, mut rows) = (vec![0u32], Vec::with_capacity(a.rows.len()));
    for ends in a.starts.windows(2) {
        let column = &a.rows[ends[0] as usize..ends[1] as usize];
        rows.extend(column.iter().filter(|row| !is_dense[**row as usize]));
        starts.push(rows.len() as u32);
    }
    let (mut starts_t, mut rows_t) = (vec![0u32], Vec::with_capacity(a.rows.len()));
    for (ends, is_dense) in transposed.starts.windows(2).zip(&is_dense) {
        if !is_dense {
            rows_t.extend_from_slice(&transposed.rows[ends[0] as usize..ends[1] as usize]);
        }
        starts_t.push(rows_t.len() as u32);
    }
    let a = Pattern { starts: &starts, rows: &rows };
    let transposed = Pattern { starts: &starts_t, rows: &rows_t };
    let size = StackReq::any_of(&[
        col_etree_scratch::<u32>(n, n),
        postorder_scratch::<u32>(n),
        column_counts_aat_scratch::<u32>(n, n),
    ]);
    let mut memory = buffer(size)?;
    let (mut tree, mut post) = (vec![0u32; n], vec![0u32; n]);
    let (mut counts, mut first) = (vec![0u32; n], vec![0u32; n]);
    let etree = col_etree(a.symbolic(), Some(order), &mut tree, MemStack::new(&mut memory));
    postorder(&mut post, etree, MemStack::new(&mut memory));
    let stack = MemStack::new(&mut memory);
    column_counts_ata(&mut counts, &mut first, transposed.symbolic(), Some(order), etree, &post, stack);
    // A row takes part in the Householder vectors from its first column on, up the tree: each
    // vector passes on all its rows but one.
    let mut vectors = vec![0u64; n];
    let real = |k: u32| (k as usize) < n;
    first.iter().filter(|k| real(**k)).for_each(|k| vectors[*k as usize] += 1);
    for k in 0..n {
        let parent = tree[k];
        if real(parent) {
            vectors[parent as usize] += vectors[k].saturating_sub(1);
        }
    }
    let upper: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    Ok(upper + vectors.iter().sum::<u64>() + 2 * of_dense)
}

/// `L U = P A Q`.
#[derive(Debug)]
pub struct Lu<T = f64> {
    order: LuOrder,
    rows: Vec<u32>,
    rows_inverse: Vec<u32>,
    factors: SimplicialLu<u32, T>,
}

impl<T: Real> Lu<T> {
    /// Returns the number of nonzeros, including the ones on the diagonal of `L`.
    pub fn nonzeros(&self) -> u64 {
        let count =
            self.factors.l_factor_unsorted().compute_nnz() + self.factors.u_factor_unsorted().compute_nnz();
        count as u64
    }

    /// Computes `B = A^-1 B`.
    pub fn solve(&self, b: MatMut<'_, T>) {
        let n = self.rows.len();
        let mut memory = MemBuffer::new(solve_in_place_scratch::<u32, T>(n, b.ncols(), Par::Seq));
        let rows = PermRef::new_checked(&self.rows, &self.rows_inverse, n);
        let columns = PermRef::new_checked(&self.order.forward, &self.order.inverse, n);
        let stack = MemStack::new(&mut memory);
        self.factors.solve_in_place_with_conj(rows, columns, Conj::No, b, Par::Seq, stack);
    }
}

/// Elimination order of a symmetric matrix (AMD: Amestoy, Davis and Duff 1996), and the pattern of
/// its factor.
#[derive(Debug)]
pub struct CholeskyOrder {
    symbolic: SymbolicCholesky<u32>,
}

impl CholeskyOrder {
    /// Computes the ordering of a matrix; only its upper triangle is read.
    ///
    /// # Errors
    /// [`FactorError::TooLarge`].
    pub fn new(a: Pattern<'_>) -> Result<CholeskyOrder, FactorError> {
        let symbolic =
            factorize_symbolic_cholesky(a.symbolic(), Side::Upper, Default::default(), Default::default())?;
        Ok(CholeskyOrder { symbolic })
    }

    /// Returns the number of entries of the factor.
    pub fn nonzeros(&self) -> u64 {
        self.symbolic.len_val() as u64
    }

    /// Factors the matrix with these values.
    ///
    /// # Errors
    /// [`FactorError::NotPositive`], [`FactorError::TooLarge`].
    pub fn factor<T: Real>(self, a: Pattern<'_>, values: &[T]) -> Result<SparseCholesky<T>, FactorError> {
        let matrix = SparseColMatRef::new(a.symbolic(), values);
        let mut factor = vec![T::nearest(0.0); self.symbolic.len_val()];
        let size = self.symbolic.factorize_numeric_llt_scratch::<T>(Par::Seq, Default::default());
        let mut memory = buffer(size)?;
        let result = self.symbolic.factorize_numeric_llt(
            &mut factor,
            matrix,
            Side::Upper,
            Default::default(),
            Par::Seq,
            MemStack::new(&mut memory),
            Default::default(),
        );
        if result.is_err() || !factor.iter().all(|value| value.is_number()) {
            return Err(FactorError::NotPositive);
        }
        Ok(SparseCholesky { order: self, factor })
    }
}

/// `L L^T = P A P^T`.
#[derive(Debug)]
pub struct SparseCholesky<T = f64> {
    order: CholeskyOrder,
    factor: Vec<T>,
}

impl<T: Real> SparseCholesky<T> {
    /// Returns the number of entries of the factor.
    pub fn nonzeros(&self) -> u64 {
        self.order.nonzeros()
    }

    /// Computes `B = A^-1 B`.
    pub fn solve(&self, b: MatMut<'_, T>) {
        let symbolic = &self.order.symbolic;
        let mut memory = MemBuffer::new(symbolic.solve_in_place_scratch::<T>(b.ncols(), Par::Seq));
        let factor = LltRef::new(symbolic, &self.factor);
        factor.solve_in_place_with_conj(Conj::No, b, Par::Seq, MemStack::new(&mut memory));
    }
}
