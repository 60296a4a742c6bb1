//! The tasks around the products: operands and results are in the element type, diagonal updates
//! and solves use products in the precision of the policy
//! ([`PrecisionPolicy::panel`](crate::PrecisionPolicy::panel)).

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zellige_cuda::{CUDA, GpuTask};
use zellige_kernels::precision::{
    PanelPrecision, Sign, syrk_lower_tf32, syrk_lower_x3, syrk_scratch_len, trsm_right_lower_in,
    trsm_scratch_len,
};
use zellige_kernels::{
    KernelError, MatMut, MatRef, Op, StorageFormat, potrf_lower, syrk_lower, trsm_right_lower,
};
use zellige_runtime::codelet::{DeviceBatch, DeviceTable, DeviceViews};
use zellige_runtime::{
    Codelet, Cpu, DeviceInfo, Handle, Operands, Read, Scratch, Subnormals, TaskContext, TaskError, TaskInfo,
    Update, scratch, update,
};

use super::batched::{launch_batched, most};
use crate::SUBNORMALS;
use crate::error::{Error, NotPositiveDefinite};
use crate::format::format_of;
use crate::gpu::{self, DiagonalSolves, OnGpu, Ops, Small};
use crate::scalar::TileScalar;
use crate::tile::Tile;

/// Updates a tile in its element type, for any form that products have left it in.
pub(crate) fn native_update<T: TileScalar>(tile: &Handle<Tile<T>>) -> Update<Tile<T>> {
    update(tile).as_format(format_of(T::FORMAT))
}

/// Returns the entries of a native tile of `f32`.
pub(crate) fn single<T: TileScalar>(tile: &Tile<T>) -> Result<MatRef<'_, f32>, Error> {
    T::as_f32_ref(tile.mat()?).ok_or(Error::Format { got: T::FORMAT, want: StorageFormat::F32 })
}

/// Returns mutable entries like [`single`].
pub(crate) fn single_mut<T: TileScalar>(tile: &mut Tile<T>) -> Result<MatMut<'_, f32>, Error> {
    T::as_f32(tile.mat_mut()?).ok_or(Error::Format { got: T::FORMAT, want: StorageFormat::F32 })
}

/// Returns the information on a task; `shape` is (m, n, k) of the kernel, 0 for a dimension that it
/// does not have.
pub(super) fn info(flops: f64, shape: [usize; 3], at: [usize; 3], label: &'static str) -> TaskInfo {
    let narrow = |xs: [usize; 3]| xs.map(|x| u32::try_from(x).unwrap_or(u32::MAX));
    TaskInfo { flops, coords: Some(narrow(at)), label, shape: narrow(shape), ..TaskInfo::default() }
}

/// Bodies for GPUs do not read norms, which only count in deferred selections; results that depend
/// on a factor that does not exist fail with it.
pub(crate) const NEEDS_ENDS: bool = false;

/// For each tile column, the solution method for the diagonal blocks of its diagonal tile. The
/// factorisations of diagonal tiles on GPUs set it at their ends, and the solves wait for that.
#[derive(Clone, Debug)]
pub(crate) struct ColumnSolves(Arc<[AtomicU64]>);

impl ColumnSolves {
    pub(crate) fn new(tiles: usize) -> Self {
        ColumnSolves((0..tiles).map(|_| AtomicU64::new(DiagonalSolves::NONE.0)).collect())
    }

    fn set(&self, k: usize, solves: DiagonalSolves) {
        // The end of the task orders it before the tasks that wait for that.
        self.0[k].store(solves.0, Ordering::Relaxed);
    }

    fn of(&self, k: usize) -> DiagonalSolves {
        DiagonalSolves(self.0[k].load(Ordering::Relaxed))
    }
}

/// `L_kk L_kk^T = A_kk`.
pub(crate) struct Potrf<T> {
    k: usize,
    rows: Range<usize>,
    solves: Option<ColumnSolves>,
    _element: PhantomData<fn() -> T>,
}

impl<T> Potrf<T> {
    pub(crate) fn new(k: usize, rows: Range<usize>, solves: Option<ColumnSolves>) -> Self {
        Potrf { k, rows, solves, _element: PhantomData }
    }
}

impl<T: TileScalar> Codelet for Potrf<T> {
    type Operands = (Update<Tile<T>>,);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

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
        self.solves.iter().for_each(|solves| solves.set(self.k, DiagonalSolves::NONE));
        match potrf_lower(a.mat_mut()?) {
            Ok(()) => Ok(()),
            Err(KernelError::NotPositive { pivot, value }) => {
                Err(Box::new(lost(self.k, self.rows.start, pivot, value)))
            }
            Err(other) => Err(Error::from(other).into()),
        }
    }

    fn needs_ends(&self) -> bool {
        NEEDS_ENDS
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl<T: TileScalar> Potrf<T> {
    fn cuda(&self, (a,): DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let (tile, first) = (self.k, self.rows.start);
        // The library reports the index of the pivot, not its value.
        let lost = move |pivot| -> TaskError { Box::new(lost(tile, first, pivot, f64::NAN)) };
        let k = self.k;
        let then = self.solves.clone().map(|all| move |solves| all.set(k, solves));
        Ok(gpu::factor(&Ops::new(cx.gpu())?, &OnGpu::update(&a)?, lost, then)?)
    }
}

fn lost(tile: usize, first_row: usize, pivot: usize, value: f64) -> NotPositiveDefinite {
    NotPositiveDefinite { tile, pivot, row: first_row + pivot, value }
}

/// Solves `X op(L_kk) = B_ik` in place of `B_ik`, and computes the norm of `X`: `L_ik` in a
/// factorisation, a tile of the solution in a solve.
pub(crate) struct Trsm<T> {
    name: &'static str,
    panel: PanelPrecision,
    op: Op,
    /// `(i, k)`.
    at: (usize, usize),
    shape: (usize, usize),
    solves: Option<ColumnSolves>,
    _element: PhantomData<fn() -> T>,
}

impl<T> Trsm<T> {
    pub(crate) fn of_factor(
        panel: PanelPrecision,
        at: (usize, usize),
        shape: (usize, usize),
        solves: Option<ColumnSolves>,
    ) -> Self {
        Trsm { name: "trsm", panel, op: Op::Trans, at, shape, solves, _element: PhantomData }
    }

    pub(crate) fn of_solution(
        panel: PanelPrecision,
        op: Op,
        at: (usize, usize),
        shape: (usize, usize),
        solves: Option<ColumnSolves>,
    ) -> Self {
        let name = match op {
            Op::Trans => "solve_lt",
            Op::None => "solve_l",
        };
        Trsm { name, panel, op, at, shape, solves, _element: PhantomData }
    }

    pub(crate) fn scratch(&self) -> Scratch<f32> {
        scratch(trsm_scratch_len(self.panel, self.shape.0, self.shape.1)).on_host()
    }
}

impl<T: TileScalar> Codelet for Trsm<T> {
    type Operands = (Read<Tile<T>>, Update<Tile<T>>, Scratch<f32>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        self.name
    }

    fn info(&self) -> TaskInfo {
        let ((m, n), (i, k)) = (self.shape, self.at);
        let flops = m as f64 * n as f64 * n as f64;
        info(flops, [m, n, 0], [i, k, k], self.panel.gemm(T::FULL).name())
    }

    fn has_constraints(&self) -> bool {
        gpu::has_constraints([self.panel.gemm(T::FULL)])
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        gpu::can_execute([self.panel.gemm(T::FULL)], device)
    }

    fn cpu(
        &self,
        (l, x, scratch): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Ok(solve_right(self.panel, self.op, l, x, scratch)?)
    }

    fn needs_ends(&self) -> bool {
        NEEDS_ENDS || self.solves.is_some()
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl<T: TileScalar> Trsm<T> {
    /// Runs on a GPU; the norm is known when the task has ended.
    fn cuda(&self, (l, x, _): DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let ops = Ops::new(cx.gpu())?;
        let (l, b) = (OnGpu::read(&l)?, OnGpu::update(&x)?);
        let solves = self.solves.as_ref().map_or(DiagonalSolves::NONE, |solves| solves.of(self.at.1));
        gpu::solve_right(&ops, self.panel, self.op, l.want(T::FORMAT)?, b.want(T::FORMAT)?, solves)?;
        Ok(ops.set_norm(&x)?)
    }
}

pub(crate) fn solve_right<T: TileScalar>(
    panel: PanelPrecision,
    op: Op,
    l: &Tile<T>,
    x: &mut Tile<T>,
    scratch: &mut [f32],
) -> Result<(), Error> {
    match panel {
        PanelPrecision::Native => trsm_right_lower(op, l.mat()?, x.mat_mut()?)?,
        PanelPrecision::Tf32 | PanelPrecision::X3 => {
            trsm_right_lower_in(panel, op, single(l)?, single_mut(x)?, scratch)?;
        }
    }
    x.measure()?;
    Ok(())
}

/// `A_ii -= L_ik L_ik^T`.
pub(crate) struct Syrk<T> {
    panel: PanelPrecision,
    at: [usize; 3],
    shape: (usize, usize),
    _element: PhantomData<fn() -> T>,
}

impl<T> Syrk<T> {
    pub(crate) fn new(panel: PanelPrecision, i: usize, k: usize, shape: (usize, usize)) -> Self {
        Syrk { panel, at: [i, i, k], shape, _element: PhantomData }
    }

    pub(crate) fn scratch(&self) -> Scratch<f32> {
        scratch(syrk_scratch_len(self.panel, self.shape.0, self.shape.1)).on_host()
    }
}

impl<T: TileScalar> Codelet for Syrk<T> {
    type Operands = (Read<Tile<T>>, Update<Tile<T>>, Scratch<f32>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "syrk"
    }

    fn info(&self) -> TaskInfo {
        let (n, k) = (self.shape.0 as f64, self.shape.1 as f64);
        info(n * n * k, [self.shape.0, self.shape.1, 0], self.at, self.panel.gemm(T::FULL).name())
    }

    fn has_constraints(&self) -> bool {
        gpu::has_constraints([self.panel.gemm(T::FULL)])
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        gpu::can_execute([self.panel.gemm(T::FULL)], device)
    }

    fn cpu(
        &self,
        (l, a, scratch): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Ok(subtract_square(self.panel, l, a, scratch)?)
    }

    fn needs_ends(&self) -> bool {
        NEEDS_ENDS
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        let most = {
            match self.panel {
                PanelPrecision::Native => most::<T>(T::FULL, (self.shape.0, self.shape.0)),
                PanelPrecision::Tf32 | PanelPrecision::X3 => 1,
            }
        };
        table.add_batched(*CUDA, Self::cuda, most, Self::cuda_batch);
    }
}

impl<T: TileScalar> Syrk<T> {
    fn cuda(&self, (l, a, _): DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let (l, a) = (OnGpu::read(&l)?, OnGpu::update(&a)?);
        Ok(gpu::subtract_square(&Ops::new(cx.gpu())?, self.panel, &l, a.want(T::FORMAT)?)?)
    }

    fn cuda_batch(batch: DeviceBatch<'_, '_, Self>) -> Vec<Result<(), TaskError>> {
        let square = |(l, a, _): &DeviceViews<'_, Self>| -> Result<Small, Error> {
            let (l, a) = (OnGpu::read(l)?, OnGpu::update(a)?);
            Ok(Small { op_b: Op::Trans, a: *l.want(T::FORMAT)?, b: l, c: *a.want(T::FORMAT)? })
        };
        let each: Vec<Result<Small, Error>> = batch.iter().map(|member| square(&member.views)).collect();
        let small: Vec<Small> = each.iter().flatten().copied().collect();
        let launched_batch = launch_batched(batch.first().map(|member| &*member.cx), &small);
        each.into_iter()
            .map(|small| Ok(small.map(drop).and(launched_batch.clone().map_err(Error::from))?))
            .collect()
    }
}

/// Computes `A -= L L^T` in the lower triangle.
pub(crate) fn subtract_square<T: TileScalar>(
    panel: PanelPrecision,
    l: &Tile<T>,
    a: &mut Tile<T>,
    scratch: &mut [f32],
) -> Result<(), Error> {
    match panel {
        PanelPrecision::Native => syrk_lower(-T::ONE, l.mat()?, T::ONE, a.mat_mut()?)?,
        PanelPrecision::Tf32 => syrk_lower_tf32(Sign::Minus, single(l)?, single_mut(a)?, scratch)?,
        PanelPrecision::X3 => syrk_lower_x3(Sign::Minus, l.split()?, single_mut(a)?, scratch)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A performance model knows a task by name, label and shape.
    #[test]
    fn tasks_say_their_shapes() {
        assert_eq!(Potrf::<f64>::new(3, 10..17, None).info().shape, [7, 0, 0]);
        let (native, x3) = (PanelPrecision::Native, PanelPrecision::X3);
        assert_eq!(Trsm::<f32>::of_factor(native, (2, 1), (30, 20), None).info().shape, [30, 20, 0]);
        assert_eq!(Syrk::<f32>::new(x3, 2, 1, (30, 20)).info().shape, [30, 20, 0]);
        let solve = Trsm::<f32>::of_solution(x3, Op::None, (0, 1), (5, 20), None);
        assert_eq!((solve.info().shape, solve.info().label), ([5, 20, 0], "x3"));
        let info = Trsm::<f64>::of_factor(native, (2, 1), (30, 20), None).info();
        assert_eq!((info.flops, info.label, info.coords), (12_000.0, "fp64", Some([2, 1, 1])));
    }
}
