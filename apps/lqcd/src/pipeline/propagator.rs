//! Solutions for the sources of a propagator, fields on all sites, and correlators.

use num_complex::Complex;
use zellige_kernels::RealNumber;
use zellige_krylov::{History, MultiVector, Solution};
use zellige_runtime::Runtime;

use super::results::{DeflationResult, Seconds};
use crate::dslash::{Dslash, dslash_now};
use crate::error::Error;
use crate::geometry::{Geometry, Parity, T};
use crate::su3::C64;

/// Right-hand sides on the sites of one parity.
pub(super) struct Side {
    pub parity: Parity,
    pub b: Vec<Vec<C64>>,
}

/// Solutions for the right-hand sides of a parity.
pub(super) struct SolvedSide {
    /// Solutions, their heavy-quark residuals, and histories.
    pub solutions: Vec<Solution>,
    pub of_heavy: Vec<f64>,
    pub histories: Vec<History>,
    /// Their propagators on all sites.
    pub fields: Vec<Vec<C64>>,
}

impl SolvedSide {
    /// Adds the solutions for the sources on the other parity.
    fn join(mut self, other: SolvedSide) -> SolvedSide {
        for (own, other) in self.solutions.iter_mut().zip(other.solutions) {
            if own.reason.is_converged() {
                own.reason = other.reason;
            }
            own.steps += other.steps;
            own.updates += other.updates;
            own.runs += other.runs;
            own.iterated_residual = own.iterated_residual.hypot(other.iterated_residual);
            own.true_residual = own.true_residual.hypot(other.true_residual);
            own.rhs = own.rhs.hypot(other.rhs);
        }
        self.of_heavy.iter_mut().zip(other.of_heavy).for_each(|(own, other)| *own = own.max(other));
        for (own, other) in self.histories.iter_mut().zip(other.histories) {
            let before = own.steps.len();
            own.steps.extend(other.steps);
            own.checks.extend(other.checks.into_iter().map(|(step, residual)| (before + step, residual)));
        }
        for (own, other) in self.fields.iter_mut().zip(other.fields) {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
        self
    }
}

/// A solved propagator.
pub(super) struct Found {
    /// Krylov method.
    pub method: String,
    pub solved: SolvedSide,
    /// Products with the system's operator or its adjoint in an application of the method's.
    pub products: usize,
    pub links_by_svd: usize,
    pub deflation: Option<DeflationResult>,
    pub seconds: Seconds,
}

/// Solves for the sources of each parity, and adds the solutions.
pub(super) fn solve_sides(
    sides: usize,
    solve: impl FnMut(usize) -> Result<SolvedSide, Error>,
) -> Result<SolvedSide, Error> {
    let each = (0..sides).map(solve).collect::<Result<Vec<_>, _>>()?;
    let joined = each.into_iter().reduce(SolvedSide::join);
    joined.ok_or_else(|| Error::parameter("source", "all fields are zero"))
}

/// Returns a vector of zeros with a single one.
pub(super) fn unit(length: usize, at: usize) -> Vec<C64> {
    let mut unit = vec![C64::default(); length];
    unit[at] = C64::new(1.0, 0.0);
    unit
}

/// Returns fields on all sites: `own z` on the sites of a parity, and `other D z` on the others.
pub(super) fn fields(
    rt: &Runtime,
    d: &Dslash,
    z: &[Vec<C64>],
    [own, other]: [f64; 2],
) -> Result<Vec<Vec<C64>>, Error> {
    let columns: Vec<&[C64]> = z.iter().map(Vec::as_slice).collect();
    let here = MultiVector::from_columns(rt, d.space(), &columns);
    let there = MultiVector::zeros(rt, d.space(), z.len());
    dslash_now(rt, d, &here, &there, other)?;
    let each = z.iter().enumerate().map(|(column, z)| {
        let here: Vec<C64> = z.iter().map(|z| z * own).collect();
        let there = there.column(rt, column)?;
        Ok(match d.to() {
            Parity::Odd => [here, there].concat(),
            Parity::Even => [there, here].concat(),
        })
    });
    each.collect()
}

/// Returns the sums of the squares of fields in each time slice, counted from `first`.
pub(super) fn correlator(fields: &[Vec<C64>], geometry: Geometry, first: usize) -> Vec<f64> {
    let mut sums = vec![0.0; geometry.extents()[T]];
    for field in fields {
        let (even, odd) = field.split_at(field.len() / 2);
        add_squares(&mut sums, [even, odd], 1.0, geometry, first);
    }
    sums
}

/// Adds the squares of `factor z` and of `there` in each time slice, counted from `first`.
pub(crate) fn add_squares<R: RealNumber>(
    sums: &mut [R],
    [z, there]: [&[Complex<R>]; 2],
    factor: f64,
    geometry: Geometry,
    first: usize,
) {
    let (nt, factor) = (geometry.extents()[T], R::from(factor));
    let slice = z.len() / nt;
    let square = |[re, im]: [R; 2]| re * re + im * im;
    for t in 0..nt {
        R::begin(t as u64);
        let range = t * slice..(t + 1) * slice;
        // The square of a heavy quark's `z` could underflow even if that of the propagator does
        // not.
        let own: R = z[range.clone()].iter().map(|z| square([z.re * factor, z.im * factor])).sum();
        let other: R = there[range].iter().map(|z| square([z.re, z.im])).sum();
        let sum = &mut sums[(t + nt - first) % nt];
        *sum = *sum + (own + other);
    }
}
