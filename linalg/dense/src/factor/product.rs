//! The tile product `C -= A op(B)`: assignment of products to tasks, and the task of a product
//! whose precision is known at submission.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use zellige_cuda::{CUDA, GpuTask};
use zellige_kernels::precision::{
    Sign, gemm_fp8, gemm_half, gemm_hp2, gemm_hp3, gemm_tf32, gemm_x3, scratch_len,
};
use zellige_kernels::{GemmPrecision, Op, gemm};
use zellige_runtime::codelet::{DeviceBatch, DeviceMember, DeviceMut, DeviceRef, DeviceTable, DeviceViews};
use zellige_runtime::{
    Codelet, Cpu, DeviceInfo, Format, Handle, Operands, Read, Scratch, Submit, Subnormals, TaskContext,
    TaskError, TaskInfo, Update, read, reads, scratch, update,
};

use super::GemmCounts;
use super::batched::{Member, most, multiply_batched};
use super::codelets::{NEEDS_ENDS, info, single, single_mut};
use super::deferred::{DeferredProduct, DeferredProducts, Question};
use super::fused::FusedProduct;
use super::submission::{Submission, accumulates};
use crate::SUBNORMALS;
use crate::error::Error;
use crate::format::format_of;
use crate::gpu::{self, OnGpu, Ops};
use crate::policy::{GemmQuery, SharedPolicy, When};
use crate::scalar::TileScalar;
use crate::tile::{MatrixNorm, Tile};

/// Data that all products of one algorithm share.
pub(crate) struct Products<'a, T: TileScalar, S: Submit> {
    s: &'a S,
    policy: &'a SharedPolicy,
    /// `||A||`, for a policy with deferred selection.
    norm: Option<Handle<MatrixNorm>>,
    counts: &'a Arc<GemmCounts>,
    op_b: Op,
    /// The most products of one task.
    fused: usize,
    /// Products that wait for others, by the tile that they update.
    waiting: HashMap<(usize, usize), Waiting<T>>,
}

/// A finished tile that products read.
pub(crate) struct Source<'a, T: TileScalar> {
    pub(crate) tile: &'a Handle<Tile<T>>,
    pub(crate) shape: (usize, usize),
}

/// A product's operands.
pub(crate) struct Tiles<'a, T: TileScalar> {
    pub(crate) a: Source<'a, T>,
    pub(crate) b: Source<'a, T>,
    pub(crate) c: &'a Handle<Tile<T>>,
}

impl<T: TileScalar> Tiles<'_, T> {
    /// Rows and columns of `C`, inner length.
    fn shape(&self, op_b: Op) -> (usize, usize, usize) {
        let (m, k) = self.a.shape;
        let n = match op_b {
            Op::Trans => self.b.shape.0,
            Op::None => self.b.shape.1,
        };
        (m, n, k)
    }
}

/// Position of a product in the order of submission: its urgency, and whether it is the last on
/// its tile.
#[derive(Clone, Copy)]
pub(crate) struct OrderKey {
    pub(crate) priority: i32,
    /// True if no product on this tile follows.
    pub(crate) last: bool,
}

/// Answer of the policy for a product: its precision, or the means to choose it later.
#[derive(Clone)]
pub(crate) enum PolicyAnswer {
    Known(GemmPrecision),
    /// Decided once the operands are finished; contains `||A||`.
    Deferred(Handle<MatrixNorm>),
}

impl PolicyAnswer {
    pub(crate) fn precision(&self) -> Option<GemmPrecision> {
        match self {
            PolicyAnswer::Known(precision) => Some(*precision),
            PolicyAnswer::Deferred(_) => None,
        }
    }
}

/// Consecutive products on one tile that are to be one task.
struct Waiting<T: TileScalar> {
    answer: PolicyAnswer,
    products: Vec<Ready<T>>,
    /// Priority of the last product.
    priority: i32,
}

/// A product and the handles from which it reads.
struct Ready<T: TileScalar> {
    coordinates: Coordinates,
    a: Handle<Tile<T>>,
    b: Handle<Tile<T>>,
}

impl<'a, T: TileScalar, S: Submit> Products<'a, T, S> {
    /// Creates the products; `norm` returns the norm of the matrix before the algorithm begins, and
    /// is called only for deferred selection.
    ///
    /// # Errors
    /// Those of `norm`.
    pub(crate) fn new(
        s: &'a S,
        policy: &'a SharedPolicy,
        norm: impl FnOnce() -> Result<Handle<MatrixNorm>, Error>,
        counts: &'a Arc<GemmCounts>,
        submission: &Submission,
        op_b: Op,
    ) -> Result<Self, Error> {
        let norm = match policy.when() {
            When::AtSubmission => None,
            When::OperandsReady => Some(norm()?),
        };
        let fused = submission.products_per_task::<T>(policy);
        Ok(Products { s, policy, norm, counts, op_b, fused, waiting: HashMap::new() })
    }

    /// Queries the policy, if it decides at submission.
    pub(crate) fn ask(&self, query: &GemmQuery) -> Result<PolicyAnswer, Error> {
        if let Some(norm) = &self.norm {
            return Ok(PolicyAnswer::Deferred(norm.clone()));
        }
        let precision = self.policy.choose(query)?;
        check::<T>(precision, query)?;
        Ok(PolicyAnswer::Known(precision))
    }

    /// Submits `C -= A op(B)` in the precision of the policy ([`ask`](Products::ask)), or keeps it
    /// for a task shared with the next products on its tile.
    pub(crate) fn submit(
        &mut self,
        query: GemmQuery,
        answer: PolicyAnswer,
        tiles: &Tiles<'_, T>,
        order: OrderKey,
    ) -> Result<(), Error> {
        let coordinates = Coordinates {
            query,
            op_b: self.op_b,
            shape: tiles.shape(self.op_b),
            counts: Arc::clone(self.counts),
        };
        let product = Ready { coordinates, a: tiles.a.tile.clone(), b: tiles.b.tile.clone() };
        if self.fused == 1 {
            return self.submit_single(&answer, product, tiles.c, order.priority);
        }
        let at = (query.i, query.j);
        let precision = answer.precision();
        let joins = precision.is_none_or(accumulates);
        if self.waiting.get(&at).is_some_and(|waiting| !joins || waiting.answer.precision() != precision) {
            self.release(at, tiles.c)?;
        }
        if !joins {
            return self.submit_single(&answer, product, tiles.c, order.priority);
        }
        let none = || Waiting { answer, products: Vec::new(), priority: 0 };
        let waiting = self.waiting.entry(at).or_insert_with(none);
        waiting.products.push(product);
        waiting.priority = order.priority;
        if order.last || waiting.products.len() == self.fused {
            self.release(at, tiles.c)?;
        }
        Ok(())
    }

    /// Submits the products that wait for more on a tile.
    fn release(&mut self, at: (usize, usize), c: &Handle<Tile<T>>) -> Result<(), Error> {
        let Some(Waiting { answer, mut products, priority }) = self.waiting.remove(&at) else {
            return Ok(());
        };
        if products.len() > 1 {
            return self.submit_fused(&answer, products, c, priority);
        }
        products.pop().map_or(Ok(()), |single| self.submit_single(&answer, single, c, priority))
    }

    /// Submits a task for one product.
    fn submit_single(
        &self,
        answer: &PolicyAnswer,
        Ready { coordinates, a, b }: Ready<T>,
        c: &Handle<Tile<T>>,
        priority: i32,
    ) -> Result<(), Error> {
        let space = self.space(answer, [&coordinates]);
        match answer {
            &PolicyAnswer::Known(precision) => {
                let [operand, result] = formats(precision);
                let (a, b) = (read(&a).as_format(operand), read(&b).as_format(operand));
                let operands = (a, b, update(c).as_format(result), space);
                let codelet = Product::<T> { coordinates, precision, _element: PhantomData };
                self.s.codelet(codelet, operands).priority(priority).submit()?;
            }
            PolicyAnswer::Deferred(norm) => {
                let operands = (read(&a), read(&b), update(c), read(norm), space);
                let codelet = DeferredProduct::<T>::new(self.question(coordinates));
                self.s.codelet(codelet, operands).priority(priority).submit()?;
            }
        }
        Ok(())
    }

    /// Submits a task for several products.
    fn submit_fused(
        &self,
        answer: &PolicyAnswer,
        products: Vec<Ready<T>>,
        c: &Handle<Tile<T>>,
        priority: i32,
    ) -> Result<(), Error> {
        let space = self.space(answer, products.iter().map(|product| &product.coordinates));
        let (a, b) = (reads(products.iter().map(|p| &p.a)), reads(products.iter().map(|p| &p.b)));
        let all_coordinates = products.into_iter().map(|product| product.coordinates);
        match answer {
            &PolicyAnswer::Known(precision) => {
                let [operand, result] = formats(precision);
                let (a, b) = (a.as_format(operand), b.as_format(operand));
                let operands = (a, b, update(c).as_format(result), space);
                let codelet = FusedProduct::<T>::new(precision, all_coordinates.collect());
                self.s.codelet(codelet, operands).priority(priority).submit()?;
            }
            PolicyAnswer::Deferred(norm) => {
                let operands = (a, b, update(c), read(norm), space);
                let questions = all_coordinates.map(|coordinates| self.question(coordinates)).collect();
                let codelet = DeferredProducts::<T>::new(questions);
                self.s.codelet(codelet, operands).priority(priority).submit()?;
            }
        }
        Ok(())
    }

    fn question(&self, coordinates: Coordinates) -> Question {
        Question { coordinates, policy: SharedPolicy::clone(self.policy) }
    }

    /// Returns workspace for any one of the products.
    fn space<'p>(
        &self,
        answer: &PolicyAnswer,
        all_coordinates: impl IntoIterator<Item = &'p Coordinates>,
    ) -> Scratch<f32> {
        let possible = |p: &GemmPrecision| answer.precision().map_or(is_of::<T>(*p), |known| known == *p);
        let len = |coordinates: &Coordinates| {
            let (m, n, k) = coordinates.shape;
            GemmPrecision::ALL.into_iter().filter(possible).map(|p| scratch_len(p, m, n, k)).max()
        };
        scratch(all_coordinates.into_iter().filter_map(len).max().unwrap_or(0)).on_host()
    }
}

/// Returns the formats of a product's operands and of its result.
pub(super) fn formats(precision: GemmPrecision) -> [Format; 2] {
    [precision.operand_format(), precision.output_format()].map(format_of)
}

/// Position of a product in the algorithm.
pub(crate) struct Coordinates {
    pub(crate) query: GemmQuery,
    pub(crate) op_b: Op,
    pub(crate) shape: (usize, usize, usize),
    pub(crate) counts: Arc<GemmCounts>,
}

impl Coordinates {
    pub(super) fn info(&self, label: &'static str) -> TaskInfo {
        self.info_of(self.shape.2, label)
    }

    /// Returns the information on this product and those before it in its task, of total inner
    /// length `k`: a task has the position of its last product.
    pub(super) fn info_of(&self, k: usize, label: &'static str) -> TaskInfo {
        let (m, n, _) = self.shape;
        let at = [self.query.i, self.query.j, self.query.k];
        info(2.0 * m as f64 * n as f64 * k as f64, [m, n, k], at, label)
    }
}

/// Returns true for precisions that tiles of `T` support.
pub(super) fn is_of<T: TileScalar>(precision: GemmPrecision) -> bool {
    precision == T::FULL || T::FULL == GemmPrecision::Sp && precision != GemmPrecision::Dp
}

/// Refuses a policy with a precision that tiles of `T` do not support, even if there is no product
/// to query it for, and a policy for another number of tiles along a side.
pub(crate) fn check_policy<T: TileScalar>(policy: &SharedPolicy, tiles: usize) -> Result<(), Error> {
    policy.check(tiles)?;
    match policy.precisions() {
        Some(all) if !all.iter().all(|&precision| is_of::<T>(precision)) => {
            Err(Error::Elements { policy: policy.describe(), have: T::FORMAT })
        }
        _ => Ok(()),
    }
}

/// Refuses precisions that tiles of `T` do not have.
pub(super) fn check<T: TileScalar>(precision: GemmPrecision, query: &GemmQuery) -> Result<(), Error> {
    if is_of::<T>(precision) {
        return Ok(());
    }
    Err(Error::Precision { i: query.i, j: query.j, k: query.k, got: precision, have: T::FORMAT })
}

/// Computes `C -= A op(B)` on tiles in the formats of `precision`.
pub(crate) fn multiply<T: TileScalar>(
    precision: GemmPrecision,
    coordinates: &Coordinates,
    a: &Tile<T>,
    b: &Tile<T>,
    c: &mut Tile<T>,
    scratch: &mut [f32],
) -> Result<(), Error> {
    use GemmPrecision::{Bf1, Dp, Fp8, Hp1, Hp2, Hp3, Sp, Tf32, X3};
    check::<T>(precision, &coordinates.query)?;
    let op = coordinates.op_b;
    match precision {
        Dp | Sp => gemm(-T::ONE, a.mat()?, Op::None, b.mat()?, op, T::ONE, c.mat_mut()?)?,
        Hp1 | Bf1 => {
            let c = single_mut(c)?;
            gemm_half(Sign::Minus, a.half()?, b.half()?, op, c, scratch)?;
        }
        X3 => {
            let c = single_mut(c)?;
            gemm_x3(Sign::Minus, a.split()?, b.split()?, op, c, scratch)?;
        }
        Tf32 => {
            gemm_tf32(Sign::Minus, single(a)?, single(b)?, op, single_mut(c)?, scratch)?;
        }
        Fp8 => {
            gemm_fp8(Sign::Minus, a.fp8()?, b.fp8()?, op, single_mut(c)?, scratch)?;
        }
        Hp2 | Hp3 => {
            let (a, b) = (a.half()?, b.half()?);
            let kernel = if precision == Hp2 { gemm_hp2 } else { gemm_hp3 };
            c.with_half_mut(|c| kernel(Sign::Minus, a, b, op, c, scratch))?;
        }
    }
    coordinates.counts.count(coordinates.query.i, coordinates.query.j, precision);
    Ok(())
}

/// Runs the product on a GPU, stream-ordered after the previous operations of `ops`.
pub(super) fn multiply_on_gpu<T: TileScalar>(
    ops: &Ops<'_>,
    precision: GemmPrecision,
    coordinates: &Coordinates,
    [a, b]: [&DeviceRef<'_, Tile<T>>; 2],
    c: &DeviceMut<'_, Tile<T>>,
    cx: &TaskContext<'_>,
) -> Result<(), TaskError> {
    check::<T>(precision, &coordinates.query)?;
    let (a, b, c) = (OnGpu::read(a)?, OnGpu::read(b)?, OnGpu::update(c)?);
    gpu::multiply(ops, precision, coordinates.op_b, &a, &b, &c)?;
    let (counts, GemmQuery { i, j, .. }) = (Arc::clone(&coordinates.counts), coordinates.query);
    // If the GPU of a body fails, the body runs again on another device.
    cx.gpu().at_end(move || {
        counts.count(i, j, precision);
        Ok(())
    });
    Ok(())
}

/// A product with a known precision.
pub(crate) struct Product<T> {
    pub(crate) coordinates: Coordinates,
    pub(crate) precision: GemmPrecision,
    pub(crate) _element: PhantomData<fn() -> T>,
}

impl<T: TileScalar> Codelet for Product<T> {
    type Operands = (Read<Tile<T>>, Read<Tile<T>>, Update<Tile<T>>, Scratch<f32>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "gemm"
    }

    fn info(&self) -> TaskInfo {
        self.coordinates.info(self.precision.name())
    }

    fn has_constraints(&self) -> bool {
        gpu::has_constraints([self.precision])
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        gpu::can_execute([self.precision], device)
    }

    fn cpu(
        &self,
        (a, b, c, scratch): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Ok(multiply(self.precision, &self.coordinates, a, b, c, scratch)?)
    }

    fn needs_ends(&self) -> bool {
        NEEDS_ENDS
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        let most = {
            let (m, n, _) = self.coordinates.shape;
            most::<T>(self.precision, (m, n))
        };
        table.add_batched(*CUDA, Self::cuda, most, Self::cuda_batch);
    }
}

impl<T: TileScalar> Product<T> {
    fn cuda(&self, (a, b, c, _): DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        multiply_on_gpu(&Ops::new(cx.gpu())?, self.precision, &self.coordinates, [&a, &b], &c, cx)
    }

    fn cuda_batch(batch: DeviceBatch<'_, '_, Self>) -> Vec<Result<(), TaskError>> {
        let member =
            |DeviceMember { codelet: Product { coordinates, precision, .. }, views: (a, b, c, _), cx }| {
                Member { precision: *precision, coordinates, a, b, c, cx }
            };
        multiply_batched(&batch.into_iter().map(member).collect::<Vec<_>>())
    }
}
