//! The tile product `C -= A op(B)`, its precision chosen at submission or when the operands are ready.

use std::sync::Arc;

use zellige_kernels::precision::{
    Sign, gemm_fp8, gemm_half, gemm_hp2, gemm_hp3, gemm_tf32, gemm_x3, scratch_len,
};
use zellige_kernels::{GemmPrecision, Op, gemm};
use zellige_runtime::{
    Choice, Codelet, Cpu, Cuda, CudaMut, CudaRef, Handle, Meta, Operands, Read, Scratch, Submit, TaskContext,
    TaskError, TaskInfo, Update, read, scratch, update,
};

use super::GemmCounts;
use super::codelets::{info, single, single_mut};
use super::copies::{Copies, Source};
use crate::error::Error;
use crate::format::format_of;
use crate::gpu::{self, OnGpu, Ops};
use crate::policy::{GemmQuery, PolicyError, SharedPolicy, When};
use crate::scalar::TileScalar;
use crate::tile::{MatrixNorm, Tile};

/// What all products of one algorithm share.
pub(crate) struct Products<'a, T: TileScalar, S: Submit> {
    pub(crate) s: &'a S,
    pub(crate) policy: &'a SharedPolicy,
    /// `||A||`, for a policy that is asked late.
    pub(crate) norm: Option<Handle<MatrixNorm>>,
    pub(crate) counts: &'a Arc<GemmCounts>,
    pub(crate) copies: &'a Copies<T>,
    pub(crate) op_b: Op,
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

impl<T: TileScalar, S: Submit> Products<'_, T, S> {
    /// Submits `C -= A op(B)`. `converted`: priorities of the tasks that make second copies of `A` and `B`.
    pub(crate) fn submit(
        &self,
        query: GemmQuery,
        tiles: &Tiles<'_, T>,
        priority: i32,
        converted: [i32; 2],
    ) -> Result<(), Error> {
        let shape @ (m, n, k) = tiles.shape(self.op_b);
        let place = Place { query, op_b: self.op_b, shape, counts: Arc::clone(self.counts) };
        let norm = match (&self.norm, self.policy.when()) {
            (Some(norm), When::OperandsReady) => norm,
            _ => {
                let precision = self.policy.choose(&query)?;
                check::<T>(precision, &query)?;
                let operand = format_of(precision.operand_format());
                let result = format_of(precision.output_format());
                let a = self.copies.operand(self.s, &tiles.a, precision, converted[0])?;
                let b = self.copies.operand(self.s, &tiles.b, precision, converted[1])?;
                let operands = (
                    read(&a).as_format(operand),
                    read(&b).as_format(operand),
                    update(tiles.c).as_format(result),
                    scratch(scratch_len(precision, m, n, k)).on_host(),
                );
                let codelet = Product::<T> { place, precision, _element: std::marker::PhantomData };
                self.s.codelet(codelet, operands).priority(priority).submit()?;
                return Ok(());
            }
        };
        let largest = GemmPrecision::ALL
            .into_iter()
            .filter(|&p| check::<T>(p, &query).is_ok())
            .map(|p| scratch_len(p, m, n, k))
            .max();
        let operands = (
            read(tiles.a.tile),
            read(tiles.b.tile),
            update(tiles.c),
            read(norm),
            scratch(largest.unwrap_or(0)).on_host(),
        );
        let codelet = LateProduct::<T> {
            place,
            policy: SharedPolicy::clone(self.policy),
            _element: std::marker::PhantomData,
        };
        self.s.codelet(codelet, operands).priority(priority).submit()?;
        Ok(())
    }
}

/// Where a product stands.
pub(crate) struct Place {
    pub(crate) query: GemmQuery,
    pub(crate) op_b: Op,
    pub(crate) shape: (usize, usize, usize),
    pub(crate) counts: Arc<GemmCounts>,
}

impl Place {
    fn info(&self, label: &'static str) -> TaskInfo {
        let (m, n, k) = self.shape;
        let at = [self.query.i, self.query.j, self.query.k];
        info(2.0 * m as f64 * n as f64 * k as f64, [m, n, k], at, label)
    }
}

/// Refuses precisions that tiles of `T` do not have.
fn check<T: TileScalar>(precision: GemmPrecision, query: &GemmQuery) -> Result<(), Error> {
    let low_on_f32 = T::FULL == GemmPrecision::Sp && precision != GemmPrecision::Dp;
    if precision == T::FULL || low_on_f32 {
        return Ok(());
    }
    Err(Error::Precision { i: query.i, j: query.j, k: query.k, got: precision, have: T::FORMAT })
}

/// `C -= A op(B)` on tiles that are stored as `precision` wants them.
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

/// The same on a GPU.
fn multiply_on_gpu<T: TileScalar>(
    precision: GemmPrecision,
    place: &Place,
    [a, b]: [&CudaRef<'_, Tile<T>>; 2],
    c: &CudaMut<'_, Tile<T>>,
    cx: &TaskContext<'_>,
) -> Result<(), TaskError> {
    check::<T>(precision, &place.query)?;
    let (a, b, c) = (OnGpu::read(a)?, OnGpu::read(b)?, OnGpu::update(c)?);
    gpu::multiply(&Ops::new(cx.gpu())?, precision, place.op_b, &a, &b, &c)?;
    let (counts, GemmQuery { i, j, .. }) = (Arc::clone(&place.counts), place.query);
    // A body whose GPU fails runs again elsewhere.
    cx.gpu().at_end(move || {
        counts.count(i, j, precision);
        Ok(())
    });
    Ok(())
}

/// A product whose precision is known.
pub(crate) struct Product<T> {
    pub(crate) place: Place,
    pub(crate) precision: GemmPrecision,
    pub(crate) _element: std::marker::PhantomData<fn() -> T>,
}

impl<T: TileScalar> Codelet for Product<T> {
    type Operands = (Read<Tile<T>>, Read<Tile<T>>, Update<Tile<T>>, Scratch<f32>);

    fn name(&self) -> &'static str {
        "gemm"
    }

    fn info(&self) -> TaskInfo {
        self.place.info(self.precision.name())
    }

    fn cpu(
        &self,
        (a, b, c, scratch): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Ok(multiply(self.precision, &self.place, a, b, c, scratch)?)
    }

    fn has_cuda(&self) -> bool {
        true
    }

    fn cuda(
        &self,
        (a, b, c, _): <Self::Operands as Operands>::Views<'_, Cuda>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        multiply_on_gpu(self.precision, &self.place, [&a, &b], &c, cx)
    }
}

/// A product whose precision depends on its finished operands.
struct LateProduct<T> {
    place: Place,
    policy: SharedPolicy,
    _element: std::marker::PhantomData<fn() -> T>,
}

impl<T: TileScalar> LateProduct<T> {
    /// Asks the policy. `norms`: first operand, second operand, updated tile before the algorithm began (products leave
    /// its norm alone), whole matrix.
    fn ask(&self, norms: [f64; 4]) -> Result<GemmPrecision, PolicyError> {
        self.policy.choose(&GemmQuery {
            norm_l_ik: norms[0],
            norm_l_jk: norms[1],
            norm_a_ij: norms[2],
            norm_a: norms[3],
            ..self.place.query
        })
    }

    /// The error of a policy that could not choose: it is asked again.
    fn failure(&self, norms: [f64; 4]) -> TaskError {
        let again = match self.ask(norms) {
            Ok(precision) => check::<T>(precision, &self.place.query),
            Err(error) => return error.into(),
        };
        let message = "it failed once and succeeded when it was asked again: \
                       its answers must depend on the query only";
        match again {
            Ok(()) => PolicyError::new(self.policy.describe(), &self.place.query, message).into(),
            Err(error) => error.into(),
        }
    }
}

impl<T: TileScalar> Codelet for LateProduct<T> {
    type Operands = (Read<Tile<T>>, Read<Tile<T>>, Update<Tile<T>>, Read<MatrixNorm>, Scratch<f32>);

    fn name(&self) -> &'static str {
        "gemm"
    }

    fn info(&self) -> TaskInfo {
        self.place.info("late")
    }

    fn late(&self) -> bool {
        true
    }

    /// Variant 0: the policy failed, and the body will ask again to fail with its error. Otherwise 1 plus the precision's
    /// place in [`GemmPrecision::ALL`].
    fn choose(&self, metas: &[Meta]) -> Choice {
        let &[a, b, c, all] = metas else {
            return Choice::default();
        };
        let Ok(precision) = self.ask([a.norm, b.norm, c.norm, all.norm]) else {
            return Choice::default();
        };
        if check::<T>(precision, &self.place.query).is_err() {
            return Choice::default();
        }
        let operand = Some(format_of(precision.operand_format()));
        let result = Some(format_of(precision.output_format()));
        let at = GemmPrecision::ALL.iter().position(|&p| p == precision);
        Choice {
            formats: [operand, operand, result, None],
            variant: at.map_or(0, |at| at as u32 + 1),
            label: precision.name(),
        }
    }

    fn cpu(
        &self,
        (a, b, c, all, scratch): <Self::Operands as Operands>::Views<'_, Cpu>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        match chosen(cx) {
            Some(precision) => Ok(multiply(precision, &self.place, a, b, c, scratch)?),
            None => Err(self.failure([a.norm(), b.norm(), c.norm(), all.0])),
        }
    }

    fn has_cuda(&self) -> bool {
        true
    }

    fn cuda(
        &self,
        (a, b, c, all, _): <Self::Operands as Operands>::Views<'_, Cuda>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        match chosen(cx) {
            Some(precision) => multiply_on_gpu(precision, &self.place, [&a, &b], &c, cx),
            None => Err(self.failure([a.meta(), b.meta(), c.meta(), all.meta()].map(|meta| meta.norm))),
        }
    }
}

/// What a product's policy chose; `None` where it failed.
fn chosen(cx: &TaskContext<'_>) -> Option<GemmPrecision> {
    let at = (cx.variant() as usize).checked_sub(1)?;
    GemmPrecision::ALL.get(at).copied()
}
