//! Tasks of a factorisation and of a solve under stochastic arithmetic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use zellige_kernels::tile::{self, Elements};
use zellige_kernels::{KernelError, MatMut, MatRef, Op};
use zellige_runtime::{Buffer, Session, TaskRef, read, update};
use zellige_stochastic::{DigitMap, Report, Sample, Samples, Scope, Stochastic};

use super::tiles::{Fill, SampledTiles};
use crate::error::{Error, NotPositiveDefinite};
use crate::grid::TileGrid;
use crate::scalar::TileScalar;

/// Numbers of a tile that a task reads.
type Numbers<'a, T, S> = &'a [Stochastic<T, S>];
/// Numbers of a tile that a task writes.
type NumbersMut<'a, T, S> = &'a mut [Stochastic<T, S>];

/// A run of tiled algorithms under stochastic arithmetic: a scope, and the number of the next task.
///
/// Tasks are numbered in the order of submission, which has to be the same in each run.
///
/// On several ranks all of them make the same calls, and rank `i % ranks` has the tiles of row `i`.
#[derive(Debug)]
pub struct StochasticRun<'a, P: Session> {
    rt: &'a P,
    scope: Arc<Scope>,
    submitted: AtomicU64,
    /// The pivot of a factorisation that was not known to be positive.
    lost: OnceLock<NotPositiveDefinite>,
}

impl<'a, P: Session> StochasticRun<'a, P> {
    /// A run in this scope.
    pub fn new(rt: &'a P, scope: Scope) -> Self {
        StochasticRun { rt, scope: Arc::new(scope), submitted: AtomicU64::new(0), lost: OnceLock::new() }
    }

    /// Instabilities of the tasks of this rank that have ended.
    pub fn report(&self) -> Report {
        self.scope.report()
    }

    /// The scope, and the number of the task that is submitted next.
    fn next(&self) -> (Arc<Scope>, u64) {
        (Arc::clone(&self.scope), self.submitted.fetch_add(1, Ordering::Relaxed))
    }

    /// Submits the generation of the lower triangle of a symmetric matrix.
    ///
    /// # Errors
    /// [`Error::Runtime`] for a task that is refused.
    pub fn triangle<T: Sample, S: Samples>(
        &self,
        grid: &TileGrid,
        fill: &Fill<T, S>,
    ) -> Result<SampledTiles<T, S>, Error> {
        self.generate(grid, grid, true, fill)
    }

    /// Submits the generation of a matrix.
    ///
    /// # Errors
    /// [`Error::Runtime`] for a task that is refused.
    pub fn rectangle<T: Sample, S: Samples>(
        &self,
        rows: &TileGrid,
        cols: &TileGrid,
        fill: &Fill<T, S>,
    ) -> Result<SampledTiles<T, S>, Error> {
        self.generate(rows, cols, false, fill)
    }

    fn generate<T: Sample, S: Samples>(
        &self,
        rows: &TileGrid,
        cols: &TileGrid,
        is_lower: bool,
        fill: &Fill<T, S>,
    ) -> Result<SampledTiles<T, S>, Error> {
        let mut matrix = SampledTiles { rows: rows.clone(), cols: cols.clone(), is_lower, tiles: Vec::new() };
        for (i, j) in matrix.positions() {
            let exists = matrix.has(i, j);
            let len = if exists { rows.width(i) * cols.width(j) } else { 0 };
            let tile = self.rt.register_on(i % self.rt.ranks(), || Buffer::zeroed(len))?;
            if exists {
                let (scope, number) = self.next();
                let (fill, rows, cols) = (Fill::clone(fill), rows.range(i), cols.range(j));
                let body = move |(out,): (&mut [Stochastic<T, S>],)| {
                    scope.task(number, 0, || fill(rows.clone(), cols.clone(), out))
                };
                self.rt.task("generate").operands((update(&tile),)).cpu(body).submit()?;
            }
            matrix.tiles.push(tile);
        }
        Ok(matrix)
    }

    /// Submits the rounding of a matrix to numbers of another type.
    ///
    /// # Errors
    /// [`Error::Runtime`] for a task that is refused.
    pub fn convert<T: Sample, U: Sample, S: Samples>(
        &self,
        a: &SampledTiles<T, S>,
    ) -> Result<SampledTiles<U, S>, Error> {
        let SampledTiles { rows, cols, is_lower, .. } = a;
        let mut rounded =
            SampledTiles { rows: rows.clone(), cols: cols.clone(), is_lower: *is_lower, tiles: Vec::new() };
        for ((i, j), from) in a.positions().zip(&a.tiles) {
            let (m, n) = if a.has(i, j) { a.shape(i, j) } else { (0, 0) };
            let to = self.rt.register_on(i % self.rt.ranks(), || Buffer::zeroed(m * n))?;
            let (scope, number) = self.next();
            let body = move |(from, to): (Numbers<'_, T, S>, NumbersMut<'_, U, S>)| {
                scope.task(number, 0, || to.iter_mut().zip(from).for_each(|(to, x)| *to = x.convert()));
            };
            self.rt.task("round").operands((read(from), update(&to))).cpu(body).submit()?;
            rounded.tiles.push(to);
        }
        Ok(rounded)
    }

    /// Factors the lower triangle in place, and waits. Returns the first pivot that is not known to
    /// be positive, if there is one: tiles that depend on it then have no value.
    ///
    /// # Errors
    /// The first other error.
    pub fn cholesky<T: TileScalar + Sample, S: Samples>(
        &self,
        a: &SampledTiles<T, S>,
    ) -> Result<Option<NotPositiveDefinite>, Error> {
        let nt = a.rows.tiles();
        for k in 0..nt {
            self.potrf(a, k)?;
            for i in k + 1..nt {
                self.trsm(Op::Trans, (a, k), (a, i), "trsm")?;
            }
            for j in k + 1..nt {
                self.syrk(a, j, k)?;
                for i in j + 1..nt {
                    self.gemm(Op::Trans, (a, i, k), (a, j, k), (a, i, j))?;
                }
            }
        }
        match self.rt.wait_all().map_err(Error::from) {
            Ok(()) => Ok(None),
            Err(error) => self.lost_pivot(error).map(Some),
        }
    }

    /// Returns the pivot that is not known to be positive, on all ranks, if that is why tasks
    /// failed: only its rank has it in the error.
    fn lost_pivot(&self, error: Error) -> Result<NotPositiveDefinite, Error> {
        let own = error.not_positive_definite().map_or(Vec::new(), |lost| {
            vec![lost.tile as u64, lost.pivot as u64, lost.row as u64, lost.value.to_bits()]
        });
        let say = |rank| self.rt.register_on(rank, || own.clone());
        let said: Vec<_> = (0..self.rt.ranks()).map(say).collect::<Result<_, _>>()?;
        for said in said {
            if let [tile, pivot, row, value] = self.rt.take(said)?[..] {
                let [tile, pivot, row] = [tile, pivot, row].map(|at| at as usize);
                let lost = NotPositiveDefinite { tile, pivot, row, value: f64::from_bits(value) };
                return Ok(*self.lost.get_or_init(|| lost));
            }
        }
        Err(error)
    }

    /// Submits the solution of `X A = B` in place of `B`, with the factor of `A`.
    ///
    /// # Errors
    /// [`Error::Runtime`] for a task that is refused.
    ///
    /// # Panics
    /// If the columns of `B` are not tiled like the factor.
    pub fn solve<T: TileScalar + Sample, S: Samples>(
        &self,
        l: &SampledTiles<T, S>,
        b: &SampledTiles<T, S>,
    ) -> Result<(), Error> {
        assert_eq!(l.rows.edges(), b.cols.edges(), "tiles of the factor, and of the columns of B");
        let nt = l.rows.tiles();
        for op in [Op::Trans, Op::None] {
            for step in 0..nt {
                let k = if op == Op::Trans { step } else { nt - 1 - step };
                for m in 0..b.rows.tiles() {
                    self.trsm(op, (l, k), (b, m), "solve")?;
                    let remaining = if op == Op::Trans { k + 1..nt } else { 0..k };
                    for n in remaining {
                        self.gemm(op, (b, m, k), (l, n.max(k), n.min(k)), (b, m, n))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// `L_kk L_kk^T = A_kk`.
    fn potrf<T: TileScalar + Sample, S: Samples>(
        &self,
        a: &SampledTiles<T, S>,
        k: usize,
    ) -> Result<TaskRef, Error> {
        let (scope, number) = self.next();
        let rows = a.rows.range(k);
        let body = move |(a,): (&mut [Stochastic<T, S>],)| -> Result<(), Error> {
            let n = rows.len();
            let a = MatMut::new(a, n, n, n)?;
            match scope.task(number, 0, || tile::potrf_lower(a, &mut Elements::default())) {
                Err(KernelError::NotPositive { pivot, value }) => {
                    Err(NotPositiveDefinite { tile: k, pivot, row: rows.start + pivot, value }.into())
                }
                other => Ok(other?),
            }
        };
        Ok(self.rt.task("potrf").operands((update(a.tile(k, k)),)).cpu(body).submit()?)
    }

    /// `X op(L_kk) = B_ik` in place of `B_ik`.
    fn trsm<T: TileScalar + Sample, S: Samples>(
        &self,
        op: Op,
        (l, k): (&SampledTiles<T, S>, usize),
        (b, i): (&SampledTiles<T, S>, usize),
        name: &'static str,
    ) -> Result<TaskRef, Error> {
        let (scope, number) = self.next();
        let (m, n) = b.shape(i, k);
        let body = move |(l, b): (Numbers<'_, T, S>, NumbersMut<'_, T, S>)| -> Result<(), Error> {
            let (l, b) = (MatRef::new(l, n, n, n)?, MatMut::new(b, m, n, m)?);
            Ok(scope.task(number, 0, || tile::trsm_right_lower(op, l, b, &mut Elements::default()))?)
        };
        Ok(self.rt.task(name).operands((read(l.tile(k, k)), update(b.tile(i, k)))).cpu(body).submit()?)
    }

    /// `A_jj -= L_jk L_jk^T`.
    fn syrk<T: TileScalar + Sample, S: Samples>(
        &self,
        a: &SampledTiles<T, S>,
        j: usize,
        k: usize,
    ) -> Result<TaskRef, Error> {
        let (scope, number) = self.next();
        let (n, depth) = a.shape(j, k);
        let body = move |(l, a): (Numbers<'_, T, S>, NumbersMut<'_, T, S>)| -> Result<(), Error> {
            let (l, a) = (MatRef::new(l, n, depth, n)?, MatMut::new(a, n, n, n)?);
            let elements = &mut Elements::default();
            Ok(scope.task(number, 0, || tile::syrk_lower(-T::ONE, l, T::ONE, a, elements))?)
        };
        Ok(self.rt.task("syrk").operands((read(a.tile(j, k)), update(a.tile(j, j)))).cpu(body).submit()?)
    }

    /// `C -= A op(B)`.
    fn gemm<T: TileScalar + Sample, S: Samples>(
        &self,
        op: Op,
        (a, ai, aj): (&SampledTiles<T, S>, usize, usize),
        (b, bi, bj): (&SampledTiles<T, S>, usize, usize),
        (c, ci, cj): (&SampledTiles<T, S>, usize, usize),
    ) -> Result<TaskRef, Error> {
        let (scope, number) = self.next();
        let (a_shape, b_shape, c_shape) = (a.shape(ai, aj), b.shape(bi, bj), c.shape(ci, cj));
        let body = move |(a, b, c): (Numbers<'_, T, S>, Numbers<'_, T, S>, NumbersMut<'_, T, S>)| {
            let a = MatRef::new(a, a_shape.0, a_shape.1, a_shape.0)?;
            let b = MatRef::new(b, b_shape.0, b_shape.1, b_shape.0)?;
            let c = MatMut::new(c, c_shape.0, c_shape.1, c_shape.0)?;
            let elements = &mut Elements::default();
            scope.task(number, 0, || tile::gemm(-T::ONE, a, Op::None, b, op, T::ONE, c, elements))
        };
        let operands = (read(a.tile(ai, aj)), read(b.tile(bi, bj)), update(c.tile(ci, cj)));
        Ok(self.rt.task("gemm").operands(operands).cpu(body).submit()?)
    }

    /// `of` the entries of tile `(i, j)`, after waiting for it; `none` for a tile that has no value
    /// because of a pivot.
    fn of_tile<T: Sample, S: Samples, R>(
        &self,
        tiles: &SampledTiles<T, S>,
        (i, j): (usize, usize),
        none: R,
        of: impl FnOnce(&[Stochastic<T, S>]) -> R,
    ) -> Result<R, Error> {
        match self.rt.read(tiles.tile(i, j)).map_err(Error::from) {
            Ok(tile) => Ok(of(&tile)),
            Err(_) if self.lost.get().is_some() => Ok(none),
            Err(other) => Err(other),
        }
    }

    /// Waits, and returns the digits of the worst entry of each tile.
    ///
    /// # Errors
    /// The first error of a task, except for that of a pivot: tiles that depend on it have no
    /// digit.
    pub fn digits<T: Sample, S: Samples>(
        &self,
        name: &str,
        tiles: &SampledTiles<T, S>,
    ) -> Result<DigitMap, Error> {
        tiles.map(name, |i, j| {
            self.of_tile(tiles, (i, j), 0, |tile| {
                tiles.entries((i, j), tile).map(Stochastic::digits).min().unwrap_or(T::DIGITS)
            })
        })
    }

    /// Waits, and returns the digits of each tile relative to its norm.
    ///
    /// # Errors
    /// Those of [`digits`](Self::digits).
    pub fn norm_digits<T: Sample, S: Samples>(
        &self,
        name: &str,
        tiles: &SampledTiles<T, S>,
    ) -> Result<DigitMap, Error> {
        tiles.map(name, |i, j| Ok(self.moments(tiles, (i, j))?.digits::<T, S>() as u32))
    }

    /// Waits, and returns the digits of each pivot of a factor, as the square of its root has them.
    ///
    /// # Errors
    /// Those of [`digits`](Self::digits).
    pub fn pivots<T: Sample, S: Samples>(&self, l: &SampledTiles<T, S>) -> Result<DigitMap, Error> {
        let mut digits = Vec::new();
        for k in 0..l.rows.tiles() {
            let n = l.rows.width(k);
            let of_diagonal =
                |tile: &[Stochastic<T, S>]| (0..n).map(|i| squared(tile[i * n + i])).collect::<Vec<u8>>();
            digits.extend(self.of_tile(l, (k, k), vec![0; n], of_diagonal)?);
        }
        Ok(DigitMap::new("pivots", "pivot", [digits.len(), 1], digits, T::DIGITS as u8))
    }

    /// Waits, and returns the digits of a matrix relative to its norm, as a real number: 0 where a
    /// tile has no value.
    ///
    /// # Errors
    /// Those of [`digits`](Self::digits).
    pub fn precision<T: Sample, S: Samples>(&self, tiles: &SampledTiles<T, S>) -> Result<f64, Error> {
        let mut all = Moments::default();
        for at in tiles.positions().filter(|&(i, j)| tiles.has(i, j)) {
            let of = self.moments(tiles, at)?;
            all = Moments { square: all.square + of.square, variance: all.variance + of.variance };
        }
        Ok(all.digits::<T, S>())
    }

    /// Waits, and returns the moments of a tile: of infinite variance where it has no value.
    fn moments<T: Sample, S: Samples>(
        &self,
        tiles: &SampledTiles<T, S>,
        at: (usize, usize),
    ) -> Result<Moments, Error> {
        let lost = Moments { square: 0.0, variance: f64::INFINITY };
        self.of_tile(tiles, at, lost, |tile| tiles.entries(at, tile).fold(Moments::default(), Moments::with))
    }
}

/// Squared norm of a matrix, and variance of its samples.
#[derive(Clone, Copy, Default)]
struct Moments {
    square: f64,
    variance: f64,
}

impl Moments {
    /// These, and those of one more entry.
    fn with<T: Sample, S: Samples>(self, x: &Stochastic<T, S>) -> Moments {
        let mean = x.mean();
        let square = |x: &T| (Sample::to_f64(*x) - mean).powi(2);
        let spread = x.samples().iter().map(square).sum::<f64>() / (S::COUNT as f64 - 1.0);
        Moments { square: self.square + mean * mean, variance: self.variance + spread }
    }

    /// Digits relative to the norm, as a real number.
    fn digits<T: Sample, S: Samples>(self) -> f64 {
        let digits = 0.5 * (self.square / self.variance).log10() - S::DEVIATIONS.log10();
        let all = f64::from(T::DIGITS);
        if self.variance == 0.0 { all } else { digits.max(0.0).min(all) }
    }
}

/// Digits of the square of a number: its relative error is twice as large.
fn squared<T: Sample, S: Samples>(root: Stochastic<T, S>) -> u8 {
    let precision = root.precision();
    if precision >= f64::from(T::DIGITS) {
        T::DIGITS as u8
    } else {
        (precision - 2f64.log10()).max(0.0) as u8
    }
}
