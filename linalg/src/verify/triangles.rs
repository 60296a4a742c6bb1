//! Triangular solves and factorisations.

use zellige_kernels::precision::{PanelPrecision, trsm_scratch_len};
use zellige_kernels::{Op, potrf_lower};
use zellige_runtime::{Runtime, Submit, read};

use super::KernelCheck;
use super::dense::Dense;
use super::random::Random;
use super::roundoffs::Roundoffs;
use crate::error::Error;
use crate::factor::codelets::{Potrf, solve_right};
use crate::factor::{Trsm, native_update};
use crate::scalar::TileScalar;

/// `X op(L) = B`, and the norm that is left with `X`.
pub(super) fn trsm<T: TileScalar>(
    rt: &Runtime,
    panel: PanelPrecision,
    random: &mut Random,
    tiles: usize,
    largest: usize,
) -> Result<KernelCheck, Error> {
    let precision = panel.gemm(T::FULL);
    let roundoffs = Roundoffs::of(precision);
    let u = T::FORMAT.unit_roundoff();
    let mut check = KernelCheck::new("trsm", precision.name());
    for _ in 0..tiles {
        // Not in the native precision, what is below 256 columns may be solved without products.
        let order = if panel == PanelPrecision::Native { largest } else { 2 * largest.max(300) };
        let (m, n) = (random.length(largest), random.length(order));
        let op = if random.below(2) == 0 { Op::None } else { Op::Trans };
        let (l, b) = (random.triangle(n).rounded::<T>(), random.matrix(m, n).rounded::<T>());
        let mut by_cpu = b.tile::<T>()?;
        let mut space = vec![0.0; trsm_scratch_len(panel, m, n)];
        solve_right(panel, op, &l.tile::<T>()?, &mut by_cpu, &mut space)?;
        // Above the diagonal of a factor stands what factorisations leave there.
        let littered = Dense::from_fn(n, n, |i, j| if i < j { f64::NAN } else { l.at(i, j) });
        let (l_there, x_there) = (rt.register(littered.tile::<T>()?), rt.register(b.tile::<T>()?));
        let solve = Trsm::<T>::of_solution(panel, op, (0, 0), (m, n));
        let space = solve.scratch();
        rt.submit(solve, (read(&l_there), native_update(&x_there), space))?;
        let there = rt.read(&x_there)?;
        let (x, by_cpu) = (Dense::of(&*there)?, Dense::of(&by_cpu)?);
        let size = x.abs().times(&l.abs(), op);
        // Products inside: their operands and sums.
        let inside = 2.0 * roundoffs.operand + (n + 2) as f64 * roundoffs.sum;
        let lost = roundoffs.small * n as f64 * x.largest() * l.largest() * 2.0;
        let bound = size.scaled((n + 2) as f64 * u + inside);
        let bound = bound.plus(&Dense::from_fn(m, n, |_, _| lost));
        let error = x.times(&l, op).minus(&b).part_of(&bound);
        let apart = x.minus(&by_cpu).times(&l, op).part_of(&bound.scaled(2.0));
        let norm = x.values.iter().map(|x| x * x).sum::<f64>().sqrt();
        let is_norm = (there.norm() - norm).abs() <= 1e-12 * norm;
        check.add(error, if is_norm { apart } else { f64::INFINITY });
    }
    Ok(check)
}

/// `L L^T = A`.
pub(super) fn potrf<T: TileScalar>(
    rt: &Runtime,
    random: &mut Random,
    tiles: usize,
    largest: usize,
) -> Result<KernelCheck, Error> {
    let u = T::FORMAT.unit_roundoff();
    let mut check = KernelCheck::new("potrf", T::FULL.name());
    for _ in 0..tiles {
        let n = random.length(largest);
        let l = random.triangle(n);
        let a = l.times(&l, Op::Trans).rounded::<T>();
        let mut by_cpu = a.tile::<T>()?;
        potrf_lower(by_cpu.mat_mut()?)?;
        let there = rt.register(a.tile::<T>()?);
        rt.submit(Potrf::<T>::new(0, 0..n), (native_update(&there),))?;
        let l = Dense::of(&*rt.read(&there)?)?.lower();
        let by_cpu = Dense::of(&by_cpu)?.lower();
        let bound = l.abs().times(&l.abs(), Op::Trans).scaled(2.0 * (n + 4) as f64 * u);
        let product = l.times(&l, Op::Trans);
        let apart = product.minus(&by_cpu.times(&by_cpu, Op::Trans)).part_of(&bound.scaled(2.0));
        check.add(product.minus(&a).part_of(&bound), apart);
    }
    Ok(check)
}
