//! Triangular solves and factorisations.

use zellige_dense::{Error, TileScalar, tasks};
use zellige_kernels::Op;
use zellige_kernels::precision::PanelPrecision;

use super::dense::Dense;
use super::random::Tiles;
use super::roundoffs::Roundoffs;
use super::{KernelCheck, Pair};

/// Solves `X op(L) = B`, and checks the norm that is stored with `X`.
pub(super) fn trsm<T: TileScalar>(
    rt: Pair<'_>,
    panel: PanelPrecision,
    random: &mut Tiles,
    tiles: usize,
    largest: usize,
) -> Result<KernelCheck, Error> {
    let precision = panel.gemm(T::FULL);
    let roundoffs = Roundoffs::of(precision);
    let u = T::FORMAT.unit_roundoff();
    let mut check = KernelCheck::new("trsm", precision.name());
    for _ in 0..tiles {
        // In other precisions than the native one, fewer than 256 columns may be solved without
        // products.
        let order = if panel == PanelPrecision::Native { largest } else { 2 * largest.max(300) };
        let (m, n) = (random.length(largest), random.length(order));
        let op = if random.below(2) == 0 { Op::None } else { Op::Trans };
        let (l, b) = (random.triangle(n).rounded::<T>(), random.matrix(m, n).rounded::<T>());
        // Above the diagonal of a factor stands what factorisations leave there.
        let littered = Dense::from_fn(n, n, |i, j| if i < j { f64::NAN } else { l.at(i, j) });
        let [there, here] = rt.run::<T>(&[&littered, &b], |rt, tiles| {
            tasks::trsm(rt, panel, op, &tiles[0], &tiles[1], (m, n))
        })?;
        let x = there.values;
        let size = x.abs().times(&l.abs(), op);
        // Products inside: their operands and sums.
        let inside = 2.0 * roundoffs.operand + (n + 2) as f64 * roundoffs.sum;
        let lost = roundoffs.small * n as f64 * x.largest() * l.largest() * 2.0;
        let bound = size.scaled((n + 2) as f64 * u + inside);
        let bound = bound.plus(&Dense::from_fn(m, n, |_, _| lost));
        let error = x.times(&l, op).minus(&b).part_of(&bound);
        let apart = x.minus(&here.values).times(&l, op).part_of(&bound.scaled(2.0));
        let norm = x.values.iter().map(|x| x * x).sum::<f64>().sqrt();
        let is_norm = (there.norm - norm).abs() <= 1e-12 * norm;
        check.add(error, if is_norm { apart } else { f64::INFINITY });
    }
    Ok(check)
}

/// `L L^T = A`.
pub(super) fn potrf<T: TileScalar>(
    rt: Pair<'_>,
    random: &mut Tiles,
    tiles: usize,
    largest: usize,
) -> Result<KernelCheck, Error> {
    let u = T::FORMAT.unit_roundoff();
    let mut check = KernelCheck::new("potrf", T::FULL.name());
    for _ in 0..tiles {
        let n = random.length(largest);
        let l = random.triangle(n);
        let a = l.times(&l, Op::Trans).rounded::<T>();
        let outcomes = rt.run::<T>(&[&a], |rt, tiles| tasks::potrf(rt, &tiles[0], n))?;
        let [l, here] = outcomes.map(|outcome| outcome.values.lower());
        let bound = l.abs().times(&l.abs(), Op::Trans).scaled(2.0 * (n + 4) as f64 * u);
        let product = l.times(&l, Op::Trans);
        let apart = product.minus(&here.times(&here, Op::Trans)).part_of(&bound.scaled(2.0));
        check.add(product.minus(&a).part_of(&bound), apart);
    }
    Ok(check)
}
