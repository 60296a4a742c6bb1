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
use super::codelets::{NEEDS_ENDS, info, single, single_mut};
use super::deferred::{LateProduct, LateProducts, Question};
use super::long::LongProduct;
use super::submission::{Submission, accumulates};
use super::together::{Member, most, multiply_together};
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
    together: usize,
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

/// Urgency of a product, and position among the products on its tile.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) priority: i32,
    /// True if no product on this tile follows.
    pub(crate) last: bool,
}

/// Time at which the precision of a product is known.
#[derive(Clone)]
pub(crate) enum Asked {
    Now(GemmPrecision),
    /// Known once its operands are finished; contains `||A||`.
    Late(Handle<MatrixNorm>),
}

impl Asked {
    pub(crate) fn precision(&self) -> Option<GemmPrecision> {
        match self {
            Asked::Now(precision) => Some(*precision),
            Asked::Late(_) => None,
        }
    }
}

/// Consecutive products on one tile that are to be one task.
struct Waiting<T: TileScalar> {
    asked: Asked,
    products: Vec<Ready<T>>,
    /// Priority of the last product.
    priority: i32,
}

/// A product and the handles from which it reads.
struct Ready<T: TileScalar> {
    place: Place,
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
        let together = submission.together::<T>(policy);
        Ok(Products { s, policy, norm, counts, op_b, together, waiting: HashMap::new() })
    }

    /// Queries the policy, if it decides at submission.
    pub(crate) fn ask(&self, query: &GemmQuery) -> Result<Asked, Error> {
        if let Some(norm) = &self.norm {
            return Ok(Asked::Late(norm.clone()));
        }
        let precision = self.policy.choose(query)?;
        check::<T>(precision, query)?;
        Ok(Asked::Now(precision))
    }

    /// Submits `C -= A op(B)` in the precision of the policy ([`ask`](Products::ask)), or keeps it
    /// for a task shared with the next products on its tile.
    pub(crate) fn submit(
        &mut self,
        query: GemmQuery,
        asked: Asked,
        tiles: &Tiles<'_, T>,
        turn: Turn,
    ) -> Result<(), Error> {
        let place =
            Place { query, op_b: self.op_b, shape: tiles.shape(self.op_b), counts: Arc::clone(self.counts) };
        let product = Ready { place, a: tiles.a.tile.clone(), b: tiles.b.tile.clone() };
        if self.together == 1 {
            return self.alone(&asked, product, tiles.c, turn.priority);
        }
        let at = (query.i, query.j);
        let precision = asked.precision();
        let joins = precision.is_none_or(accumulates);
        if self.waiting.get(&at).is_some_and(|waiting| !joins || waiting.asked.precision() != precision) {
            self.release(at, tiles.c)?;
        }
        if !joins {
            return self.alone(&asked, product, tiles.c, turn.priority);
        }
        let none = || Waiting { asked, products: Vec::new(), priority: 0 };
        let waiting = self.waiting.entry(at).or_insert_with(none);
        waiting.products.push(product);
        waiting.priority = turn.priority;
        if turn.last || waiting.products.len() == self.together {
            self.release(at, tiles.c)?;
        }
        Ok(())
    }

    /// Submits the products that wait for more on a tile.
    fn release(&mut self, at: (usize, usize), c: &Handle<Tile<T>>) -> Result<(), Error> {
        let Some(Waiting { asked, mut products, priority }) = self.waiting.remove(&at) else {
            return Ok(());
        };
        if products.len() > 1 {
            return self.in_one(&asked, products, c, priority);
        }
        products.pop().map_or(Ok(()), |alone| self.alone(&asked, alone, c, priority))
    }

    /// Submits a task for one product.
    fn alone(
        &self,
        asked: &Asked,
        Ready { place, a, b }: Ready<T>,
        c: &Handle<Tile<T>>,
        priority: i32,
    ) -> Result<(), Error> {
        let space = self.space(asked, [&place]);
        match asked {
            &Asked::Now(precision) => {
                let [operand, result] = formats(precision);
                let (a, b) = (read(&a).as_format(operand), read(&b).as_format(operand));
                let operands = (a, b, update(c).as_format(result), space);
                let codelet = Product::<T> { place, precision, _element: PhantomData };
                self.s.codelet(codelet, operands).priority(priority).submit()?;
            }
            Asked::Late(norm) => {
                let operands = (read(&a), read(&b), update(c), read(norm), space);
                let codelet = LateProduct::<T>::new(self.question(place));
                self.s.codelet(codelet, operands).priority(priority).submit()?;
            }
        }
        Ok(())
    }

    /// Submits a task for several products.
    fn in_one(
        &self,
        asked: &Asked,
        products: Vec<Ready<T>>,
        c: &Handle<Tile<T>>,
        priority: i32,
    ) -> Result<(), Error> {
        let space = self.space(asked, products.iter().map(|product| &product.place));
        let (a, b) = (reads(products.iter().map(|p| &p.a)), reads(products.iter().map(|p| &p.b)));
        let places = products.into_iter().map(|product| product.place);
        match asked {
            &Asked::Now(precision) => {
                let [operand, result] = formats(precision);
                let (a, b) = (a.as_format(operand), b.as_format(operand));
                let operands = (a, b, update(c).as_format(result), space);
                let codelet = LongProduct::<T>::new(precision, places.collect());
                self.s.codelet(codelet, operands).priority(priority).submit()?;
            }
            Asked::Late(norm) => {
                let operands = (a, b, update(c), read(norm), space);
                let questions = places.map(|place| self.question(place)).collect();
                let codelet = LateProducts::<T>::new(questions);
                self.s.codelet(codelet, operands).priority(priority).submit()?;
            }
        }
        Ok(())
    }

    fn question(&self, place: Place) -> Question {
        Question { place, policy: SharedPolicy::clone(self.policy) }
    }

    /// Returns workspace for any one of the products.
    fn space<'p>(&self, asked: &Asked, places: impl IntoIterator<Item = &'p Place>) -> Scratch<f32> {
        let possible = |p: &GemmPrecision| asked.precision().map_or(is_of::<T>(*p), |known| known == *p);
        let len = |place: &Place| {
            let (m, n, k) = place.shape;
            GemmPrecision::ALL.into_iter().filter(possible).map(|p| scratch_len(p, m, n, k)).max()
        };
        scratch(places.into_iter().filter_map(len).max().unwrap_or(0)).on_host()
    }
}

/// Returns the formats of a product's operands and of its result.
pub(super) fn formats(precision: GemmPrecision) -> [Format; 2] {
    [precision.operand_format(), precision.output_format()].map(format_of)
}

/// Position of a product in the algorithm.
pub(crate) struct Place {
    pub(crate) query: GemmQuery,
    pub(crate) op_b: Op,
    pub(crate) shape: (usize, usize, usize),
    pub(crate) counts: Arc<GemmCounts>,
}

impl Place {
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
/// to query it for.
pub(crate) fn check_policy<T: TileScalar>(policy: &SharedPolicy) -> Result<(), Error> {
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
    place: &Place,
    a: &Tile<T>,
    b: &Tile<T>,
    c: &mut Tile<T>,
    scratch: &mut [f32],
) -> Result<(), Error> {
    use GemmPrecision::{Bf1, Dp, Fp8, Hp1, Hp2, Hp3, Sp, Tf32, X3};
    check::<T>(precision, &place.query)?;
    let op = place.op_b;
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
    place.counts.count(place.query.i, place.query.j, precision);
    Ok(())
}

/// Runs the product on a GPU, stream-ordered after the previous operations of `ops`.
pub(super) fn multiply_on_gpu<T: TileScalar>(
    ops: &Ops<'_>,
    precision: GemmPrecision,
    place: &Place,
    [a, b]: [&DeviceRef<'_, Tile<T>>; 2],
    c: &DeviceMut<'_, Tile<T>>,
    cx: &TaskContext<'_>,
) -> Result<(), TaskError> {
    check::<T>(precision, &place.query)?;
    let (a, b, c) = (OnGpu::read(a)?, OnGpu::read(b)?, OnGpu::update(c)?);
    gpu::multiply(ops, precision, place.op_b, &a, &b, &c)?;
    let (counts, GemmQuery { i, j, .. }) = (Arc::clone(&place.counts), place.query);
    // If the GPU of a body fails, the body runs again on another device.
    cx.gpu().at_end(move || {
        counts.count(i, j, precision);
        Ok(())
    });
    Ok(())
}

/// A product with a known precision.
pub(crate) struct Product<T> {
    pub(crate) place: Place,
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
        self.place.info(self.precision.name())
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
        Ok(multiply(self.precision, &self.place, a, b, c, scratch)?)
    }

    fn needs_ends(&self) -> bool {
        NEEDS_ENDS
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        let most = {
            let (m, n, _) = self.place.shape;
            most::<T>(self.precision, (m, n))
        };
        table.add_batched(*CUDA, Self::cuda, most, Self::cuda_batch);
    }
}

impl<T: TileScalar> Product<T> {
    fn cuda(&self, (a, b, c, _): DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        multiply_on_gpu(&Ops::new(cx.gpu())?, self.precision, &self.place, [&a, &b], &c, cx)
    }

    fn cuda_batch(batch: DeviceBatch<'_, '_, Self>) -> Vec<Result<(), TaskError>> {
        let member = |DeviceMember { codelet: Product { place, precision, .. }, views: (a, b, c, _), cx }| {
            Member { precision: *precision, place, a, b, c, cx }
        };
        multiply_together(&batch.into_iter().map(member).collect::<Vec<_>>())
    }
}
