//! Incomplete factors on the pattern of the matrix.

use std::ops::Range;

use zellige_runtime::data::Chunk;
use zellige_runtime::{Data, Handle, Read, ReadList, read, reads};

use super::factor::{IncompleteFactors, SymmetryClass, factors};
use super::sweep::Sweep;
use super::triangle::{Needed, Triangle, TriangleRows};
use crate::concurrent::concurrent_map;
use crate::csr::Csr;
use crate::stored::check_columns;
use zellige_krylov::method::{Steps, joined};
use zellige_krylov::{Error, Executor, MultiVector, Operator, Space};

/// Incomplete factorisation `M = L D U` with triangular `L` and `U` on the pattern of the matrix,
/// or of its blocks if it has blocks: ILU(0), or IC(0) of a symmetric matrix, whose `M` is
/// symmetric to the last bit (Meijerink and van der Vorst 1977).
///
/// Factors are stored in `f32`; arithmetic is in `f64`. The storage format adds one more
/// approximation to an incomplete factorisation. A part of a triangular solve waits for the one
/// before it. For symmetric matrices with a positive diagonal the unknowns are eliminated from both
/// ends towards the middle, if the matrix allows it, so two workers are busy; for others one at a
/// time is.
#[derive(Debug)]
pub struct Ilu {
    space: Space,
    panels: Vec<Panel>,
    /// Parts in the order of elimination.
    order: Vec<usize>,
    block_size: usize,
    bytes: u64,
}

/// Factors of a part.
#[derive(Debug)]
struct Panel {
    lower: Half,
    upper: Half,
    /// The blocks of `D^-1`.
    inverses: Handle<Vec<f64>>,
}

/// A triangular factor's rows of a part, and the other parts of the solution that they need.
#[derive(Debug)]
struct Half {
    rows: Handle<Triangle>,
    before: Range<usize>,
    behind: Range<usize>,
}

impl Half {
    /// Returns the operands that a task of a solve with this factor reads.
    fn operands(&self, z: &MultiVector) -> (Read<Triangle>, ReadList<Chunk<f64>>, ReadList<Chunk<f64>>) {
        let others = |range: &Range<usize>| reads(&z.parts()[range.clone()]);
        (read(&self.rows), others(&self.before), others(&self.behind))
    }
}

impl Ilu {
    /// Factors a matrix; the diagonal of a symmetric one is enlarged until its pivots are positive.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a row without a diagonal entry, or if no enlargement helps.
    pub fn new(rt: &dyn Executor, space: &Space, a: &Csr) -> Result<Ilu, Error> {
        // For each nonzero its working copy in f64, its factor, and its position in a triangle; for
        // each row its pivots and starts.
        let bytes = 40 * a.nonzeros() as u64 + 60 * a.rows() as u64;
        Error::if_too_large(|| format!("incomplete factors of {} nonzeros", a.nonzeros()), bytes)?;
        match a.block_size() {
            1 => Ilu::in_blocks::<1>(rt, space, a),
            2 => Ilu::in_blocks::<2>(rt, space, a),
            3 => Ilu::in_blocks::<3>(rt, space, a),
            _ => Ilu::in_blocks::<4>(rt, space, a),
        }
    }

    fn in_blocks<const B: usize>(rt: &dyn Executor, space: &Space, a: &Csr) -> Result<Ilu, Error> {
        let kind = SymmetryClass::of(a);
        let sweep = match kind {
            SymmetryClass::Positive => Sweep::from_both_ends(space, a),
            _ => Sweep::natural(space),
        };
        let factors = factors::<B>(a, space, &sweep, kind, rt.runtime().workers())?;
        let parts = factors.iter().zip(space.ranges()).enumerate();
        let panels = concurrent_map(rt.runtime().workers(), parts, |(i, (factors, range))| {
            Panel::new(rt, space, factors, (i, &range))
        });
        let bytes = panels.iter().map(|(_, bytes)| bytes).sum();
        let panels = panels.into_iter().map(|(panel, _)| panel).collect();
        Ok(Ilu { space: space.clone(), panels, order: sweep.order(), block_size: B, bytes })
    }
}

impl Panel {
    /// Creates the panel of a part with these rows; also returns its bytes.
    fn new<const B: usize>(
        rt: &dyn Executor,
        space: &Space,
        factors: &IncompleteFactors<B>,
        (i, range): (usize, &Range<usize>),
    ) -> (Panel, u64) {
        let (mut bytes, rank) = (0, space.rank_of(i, rt.ranks()));
        let mut half = |rows: &TriangleRows<B>, backward: bool| {
            let needed = Needed::of(rows, range);
            let (before, behind) = (space.covering(needed.before), space.covering(needed.behind));
            let triangle = Triangle::new(rows, &factors.made, backward, range, space.first_of(&before));
            bytes += triangle.meta().bytes as u64;
            Half { rows: rt.register_local_on(rank, || triangle), before, behind }
        };
        let (lower, upper) = (half(&factors.lower, false), half(&factors.upper, true));
        let inverses: Vec<f64> =
            factors.inverses.iter().flat_map(|block| block.as_flattened()).copied().collect();
        bytes += 8 * inverses.len() as u64;
        (Panel { lower, upper, inverses: rt.register_local_on(rank, || inverses) }, bytes)
    }
}

impl Operator for Ilu {
    fn domain(&self) -> &Space {
        &self.space
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn apply(&self, steps: &Steps<'_>, r: &MultiVector, z: &MultiVector) -> Result<(), Error> {
        let columns = check_columns(steps)?;
        for &i in &self.order {
            let (rows, before, behind) = self.panels[i].lower.operands(z);
            let operands = (rows, r.read(i), before, behind, z.update(i));
            steps.one("ilu.lower", i, operands, move |(rows, r, before, behind, z)| {
                z.copy_from_slice(&r);
                rows.solve(columns, &joined(before), &joined(behind), z);
            })?;
        }
        let block_size = self.block_size;
        for &i in self.order.iter().rev() {
            let panel = &self.panels[i];
            let (rows, before, behind) = panel.upper.operands(z);
            let operands = (rows, read(&panel.inverses), before, behind, z.update(i));
            steps.one("ilu.upper", i, operands, move |(rows, inverses, before, behind, z)| {
                scale(block_size, columns, inverses, z);
                rows.solve(columns, &joined(before), &joined(behind), z);
            })?;
        }
        Ok(())
    }
}

/// Computes `z = D z` for each column, with consecutive blocks of `D`.
fn scale(block_size: usize, columns: usize, blocks: &[f64], z: &mut [f64]) {
    match block_size {
        1 => {
            let rows = z.chunks_exact_mut(columns).zip(blocks);
            rows.for_each(|(row, block)| row.iter_mut().for_each(|z| *z *= block));
        }
        2 => scale_blocks::<2>(columns, blocks, z),
        3 => scale_blocks::<3>(columns, blocks, z),
        _ => scale_blocks::<4>(columns, blocks, z),
    }
}

fn scale_blocks<const B: usize>(columns: usize, blocks: &[f64], z: &mut [f64]) {
    for (block, z) in blocks.chunks_exact(B * B).zip(z.chunks_exact_mut(B * columns)) {
        for c in 0..columns {
            let x: [f64; B] = std::array::from_fn(|j| z[j * columns + c]);
            for (i, row) in block.chunks_exact(B).enumerate() {
                z[i * columns + c] = row.iter().zip(&x).map(|(d, x)| d * x).sum();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Flow, flow};
    use crate::precondition::tests::applied;

    /// For a matrix whose exact factors have no fill-in (tridiagonal), ILU(0) is the inverse.
    #[test]
    fn tridiagonal_systems_are_solved() -> Result<(), Error> {
        let n = 40_000;
        let triplets = (0..n as u32).flat_map(|i| {
            let beside = [i.checked_sub(1), Some(i + 1).filter(|&j| j < n as u32)];
            beside
                .into_iter()
                .flatten()
                .map(move |j| (i, j, -1.0 - f64::from(i % 7) / 8.0))
                .chain([(i, i, 4.5)])
        });
        let a = Csr::from_triplets(n, n, &triplets.collect::<Vec<_>>())?;
        let x: Vec<f64> = (0..n).map(|i| (i % 13) as f64 - 6.0).collect();
        let mut b = vec![0.0; n];
        a.multiply(&x, &mut b)?;
        let z = applied(&a, |rt, space| Ilu::new(rt, space, &a), &b)?;
        let error = z.iter().zip(&x).map(|(z, x)| (z - x).abs()).fold(0.0, f64::max);
        assert!(error < 1e-5, "{error:e}: factors are in f32");
        Ok(())
    }

    #[test]
    fn it_is_symmetric_for_a_symmetric_matrix() -> Result<(), Error> {
        let a = flow(&Flow { cells: [30, 30, 30], ..Flow::default() })?;
        let (mut x, mut y) = (vec![0.0; a.rows()], vec![0.0; a.rows()]);
        x.iter_mut().enumerate().for_each(|(i, x)| *x = (i % 17) as f64);
        y.iter_mut().enumerate().for_each(|(i, y)| *y = (i % 11) as f64 - 5.0);
        let ilu = |v: &[f64]| applied(&a, |rt, space| Ilu::new(rt, space, &a), v);
        let of = |u: &[f64], v: &[f64]| -> f64 { u.iter().zip(v).map(|(u, v)| u * v).sum() };
        let (left, right) = (of(&ilu(&x)?, &y), of(&x, &ilu(&y)?));
        assert!((left / right - 1.0).abs() < 1e-12, "{left:e} {right:e}");
        Ok(())
    }
}
