//! The tasks around the products: everything in the element type.

use std::marker::PhantomData;
use std::ops::Range;

use zellige_kernels::{KernelError, Op, potrf_lower, syrk_lower, trsm_right_lower};
use zellige_runtime::{
    Codelet, Cpu, Handle, Operands, Read, TaskContext, TaskError, TaskInfo, Update, update,
};

use crate::error::{Error, NotPositiveDefinite};
use crate::format::format_of;
use crate::scalar::TileScalar;
use crate::tile::Tile;

/// Updates a tile in its element type, whatever form products have left it in.
pub(crate) fn native_update<T: TileScalar>(tile: &Handle<Tile<T>>) -> Update<Tile<T>> {
    update(tile).as_format(format_of(T::FORMAT))
}

/// `shape`: (m, n, k) of the kernel, 0 for what it does not have.
pub(super) fn info(flops: f64, shape: [usize; 3], at: [usize; 3], label: &'static str) -> TaskInfo {
    let narrow = |xs: [usize; 3]| xs.map(|x| u32::try_from(x).unwrap_or(u32::MAX));
    TaskInfo { flops, coords: Some(narrow(at)), label, shape: narrow(shape), ..TaskInfo::default() }
}

/// `L_kk L_kk^T = A_kk`.
pub(super) struct Potrf<T> {
    k: usize,
    rows: Range<usize>,
    _element: PhantomData<fn() -> T>,
}

impl<T> Potrf<T> {
    pub(super) fn new(k: usize, rows: Range<usize>) -> Self {
        Potrf { k, rows, _element: PhantomData }
    }
}

impl<T: TileScalar> Codelet for Potrf<T> {
    type Operands = (Update<Tile<T>>,);

    fn name(&self) -> &'static str {
        "potrf"
    }

    fn info(&self) -> TaskInfo {
        let n = self.rows.len() as f64;
        info(n * n * n / 3.0, [self.rows.len(), 0, 0], [self.k; 3], T::FULL.name())
    }

    fn cpu(
        &self,
        (a,): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        match potrf_lower(a.mat_mut()?) {
            Ok(()) => Ok(()),
            Err(KernelError::NotPositive { pivot, value }) => Err(Box::new(NotPositiveDefinite {
                tile: self.k,
                pivot,
                row: self.rows.start + pivot,
                value,
            })),
            Err(other) => Err(Error::from(other).into()),
        }
    }
}

/// `L_ik L_kk^T = A_ik`, and the norm of `L_ik`.
pub(super) struct Trsm<T> {
    at: [usize; 3],
    shape: (usize, usize),
    _element: PhantomData<fn() -> T>,
}

impl<T> Trsm<T> {
    pub(super) fn new(i: usize, k: usize, shape: (usize, usize)) -> Self {
        Trsm { at: [i, k, k], shape, _element: PhantomData }
    }
}

impl<T: TileScalar> Codelet for Trsm<T> {
    type Operands = (Read<Tile<T>>, Update<Tile<T>>);

    fn name(&self) -> &'static str {
        "trsm"
    }

    fn info(&self) -> TaskInfo {
        let (m, n) = (self.shape.0 as f64, self.shape.1 as f64);
        info(m * n * n, [self.shape.0, self.shape.1, 0], self.at, T::FULL.name())
    }

    fn cpu(
        &self,
        (l, a): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        solve_right(Op::Trans, l, a)
    }
}

fn solve_right<T: TileScalar>(op: Op, l: &Tile<T>, x: &mut Tile<T>) -> Result<(), TaskError> {
    trsm_right_lower(op, l.mat()?, x.mat_mut()?).map_err(Error::from)?;
    x.measure()?;
    Ok(())
}

/// `A_ii -= L_ik L_ik^T`.
pub(super) struct Syrk<T> {
    at: [usize; 3],
    shape: (usize, usize),
    _element: PhantomData<fn() -> T>,
}

impl<T> Syrk<T> {
    pub(super) fn new(i: usize, k: usize, shape: (usize, usize)) -> Self {
        Syrk { at: [i, i, k], shape, _element: PhantomData }
    }
}

impl<T: TileScalar> Codelet for Syrk<T> {
    type Operands = (Read<Tile<T>>, Update<Tile<T>>);

    fn name(&self) -> &'static str {
        "syrk"
    }

    fn info(&self) -> TaskInfo {
        let (n, k) = (self.shape.0 as f64, self.shape.1 as f64);
        info(n * n * k, [self.shape.0, self.shape.1, 0], self.at, T::FULL.name())
    }

    fn cpu(
        &self,
        (l, a): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        syrk_lower(-T::ONE, l.mat()?, T::ONE, a.mat_mut()?).map_err(Error::from)?;
        Ok(())
    }
}

/// `X_mk op(L_kk) = B_mk` of a solve, and the norm of `X_mk`.
pub(crate) struct SolveDiagonal<T> {
    pub(crate) op: Op,
    pub(crate) at: (usize, usize),
    pub(crate) shape: (usize, usize),
    pub(crate) _element: PhantomData<fn() -> T>,
}

impl<T: TileScalar> Codelet for SolveDiagonal<T> {
    type Operands = (Read<Tile<T>>, Update<Tile<T>>);

    fn name(&self) -> &'static str {
        match self.op {
            Op::Trans => "solve_lt",
            Op::None => "solve_l",
        }
    }

    fn info(&self) -> TaskInfo {
        let (m, n) = (self.shape.0 as f64, self.shape.1 as f64);
        let at = [self.at.0, self.at.1, self.at.1];
        info(m * n * n, [self.shape.0, self.shape.1, 0], at, T::FULL.name())
    }

    fn cpu(
        &self,
        (l, x): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        solve_right(self.op, l, x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A performance model knows a task by name, label and shape.
    #[test]
    fn tasks_say_their_shapes() {
        assert_eq!(Potrf::<f64>::new(3, 10..17).info().shape, [7, 0, 0]);
        assert_eq!(Trsm::<f32>::new(2, 1, (30, 20)).info().shape, [30, 20, 0]);
        assert_eq!(Syrk::<f32>::new(2, 1, (30, 20)).info().shape, [30, 20, 0]);
        let solve = SolveDiagonal::<f32> { op: Op::None, at: (0, 1), shape: (5, 20), _element: PhantomData };
        assert_eq!(solve.info().shape, [5, 20, 0]);
        let info = Trsm::<f64>::new(2, 1, (30, 20)).info();
        assert_eq!((info.flops, info.label, info.coords), (12_000.0, "fp64", Some([2, 1, 1])));
    }
}
