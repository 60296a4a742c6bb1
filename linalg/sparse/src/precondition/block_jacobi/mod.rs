//! Block Jacobi with inverses stored in adaptive precision.

mod inverse;
mod partition;
mod value;

use std::collections::BTreeMap;

use zellige_kernels::packed::PackedFormat;
use zellige_runtime::{Data, Handle, read};

use self::partition::blocks;
use self::value::Inverses;
use crate::csr::Csr;
use zellige_krylov::method::Steps;
use zellige_krylov::{Error, Executor, MultiVector, Operator, Space};

/// Block Jacobi preconditioner: `M` consists of the diagonal blocks of the matrix.
///
/// Consecutive rows with the same pattern stay together, like the unknowns of a node; blocks
/// contain as many of these groups as fit. The inverse of a block is stored in the narrowest format
/// whose roundoff, times the block's condition number, leaves a digit (Anzt, Dongarra, Flegar,
/// Higham and Quintana-Ortí, "Adaptive precision in block-Jacobi preconditioning", 2019);
/// arithmetic is in `f64`.
#[derive(Debug)]
pub struct BlockJacobi {
    space: Space,
    /// The blocks of each part.
    inverses: Vec<Handle<Inverses>>,
    bytes: u64,
    counts: BTreeMap<PackedFormat, usize>,
}

impl BlockJacobi {
    /// Rows that a block may have.
    pub const MOST: usize = 32;

    /// Inverts the diagonal blocks, of at most `most` rows each.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless `most` is 1 to [`MOST`](BlockJacobi::MOST);
    /// [`Error::Unsolvable`] for a block that is singular, with its rows.
    pub fn new(rt: &dyn Executor, space: &Space, a: &Csr, most: usize) -> Result<BlockJacobi, Error> {
        if !(1..=BlockJacobi::MOST).contains(&most) {
            return Err(Error::parameter("rows of a block", format!("{most}: 1 to {}", BlockJacobi::MOST)));
        }
        let bytes = 8 * (most * a.rows()) as u64;
        Error::if_too_large(|| format!("inverses of blocks of {most} rows"), bytes)?;
        let mut made = BlockJacobi {
            space: space.clone(),
            inverses: Vec::with_capacity(space.parts()),
            bytes: 0,
            counts: BTreeMap::new(),
        };
        for (i, range) in space.ranges().enumerate() {
            let mut inverses = Inverses::default();
            for block in blocks(a, range, most) {
                let inverse = inverse::of_block(a, block)?;
                *made.counts.entry(inverse.format).or_default() += 1;
                inverses.push(&inverse);
            }
            made.bytes += inverses.meta().bytes as u64;
            made.inverses.push(rt.register_local_on(space.rank_of(i, rt.ranks()), || inverses));
        }
        Ok(made)
    }

    /// Returns the number of blocks in each storage format.
    pub fn counts(&self) -> &BTreeMap<PackedFormat, usize> {
        &self.counts
    }
}

impl Operator for BlockJacobi {
    fn domain(&self) -> &Space {
        &self.space
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn apply(&self, steps: &Steps<'_>, r: &MultiVector, z: &MultiVector) -> Result<(), Error> {
        let columns = steps.columns();
        steps.each(
            "block_jacobi",
            |i| (read(&self.inverses[i]), r.read(i), z.update(i)),
            move |(inverses, r, z)| inverses.multiply(columns, &r, z),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Elasticity, Elements, elasticity};
    use crate::precondition::tests::applied;

    fn rhs(n: usize) -> Vec<f64> {
        (0..n).map(|i| (i % 23) as f64 - 11.0).collect()
    }

    /// Returns a block-diagonal matrix whose block sizes repeat cyclically.
    fn blocks_alone(n: u32, sizes: [u32; 4], value: impl Fn(u32, u32) -> f64) -> Result<Csr, Error> {
        let (mut triplets, mut start) = (Vec::new(), 0);
        for &size in sizes.iter().cycle() {
            let end = (start + size).min(n);
            let rows = start..end;
            triplets.extend(
                rows.clone()
                    .flat_map(|i| rows.clone().map(move |j| (i, j)))
                    .map(|(i, j)| (i, j, value(i, j))),
            );
            start = end;
            if end == n {
                break;
            }
        }
        Csr::from_triplets(n as usize, n as usize, &triplets)
    }

    #[test]
    fn a_matrix_of_blocks_is_inverted() -> Result<(), Error> {
        let value = |i: u32, j: u32| if i == j { 4.0 } else { 1.0 / f64::from(1 + i % 5 + 2 * (j % 3)) };
        let a = blocks_alone(30_000, [1, 3, 8, 4], value)?;
        let (x, mut b) = (rhs(a.rows()), vec![0.0; a.rows()]);
        a.multiply(&x, &mut b)?;
        let z = applied(&a, |rt, space| BlockJacobi::new(rt, space, &a, 8), &b)?;
        // Parts begin at block boundaries. The rule leaves one digit; well-conditioned blocks are
        // in 16 bits, with a roundoff of 2^-8.
        let error = z.iter().zip(&x).map(|(z, x)| (z - x).abs()).fold(0.0, f64::max);
        assert!(error < 11.0 * 8.0 / 64.0 && error > 0.0, "{error:e}");
        Ok(())
    }

    /// Blocks of Hilbert's matrix, whose condition numbers are known: the worse, the wider.
    #[test]
    fn formats_follow_the_condition() -> Result<(), Error> {
        let format = |n: usize| -> Result<PackedFormat, Error> {
            let hilbert = |i: u32, j: u32| 1.0 / f64::from(i + j + 1);
            let a = blocks_alone(n as u32, [n as u32; 4], hilbert)?;
            let rt = zellige_runtime::Runtime::builder().workers(1).build()?;
            let m = BlockJacobi::new(&rt, &Space::new(n, 1), &a, 32)?;
            assert_eq!(m.counts().len(), 1);
            Ok(*m.counts().keys().next().expect("one block"))
        };
        // Condition numbers in the 1-norm 1, 27, 748, 2.8e4, 9.4e5, 3.4e10 (Todd 1954).
        assert_eq!(format(1)?, PackedFormat::Rp16);
        assert_eq!(format(2)?, PackedFormat::Rp24);
        assert_eq!(format(3)?, PackedFormat::Rp24);
        assert_eq!(format(4)?, PackedFormat::Fp32);
        assert_eq!(format(5)?, PackedFormat::Fp32);
        assert_eq!(format(8)?, PackedFormat::Rp56);
        Ok(())
    }

    #[test]
    fn it_is_symmetric_for_a_symmetric_matrix() -> Result<(), Error> {
        let a = elasticity(&Elasticity { elements: Elements([8, 8, 8]), ..Elasticity::default() })?;
        let (x, y) = (rhs(a.rows()), (0..a.rows()).map(|i| (i % 7) as f64).collect::<Vec<_>>());
        let m = |v: &[f64]| applied(&a, |rt, space| BlockJacobi::new(rt, space, &a, 16), v);
        let of = |u: &[f64], v: &[f64]| -> f64 { u.iter().zip(v).map(|(u, v)| u * v).sum() };
        let (left, right) = (of(&m(&x)?, &y), of(&x, &m(&y)?));
        assert!((left / right - 1.0).abs() < 1e-12, "{left:e} {right:e}");
        Ok(())
    }

    #[test]
    fn singular_blocks_are_named() -> Result<(), Error> {
        let a =
            blocks_alone(6, [2; 4], |i, j| if i < 2 && i == j { 1.0 } else { f64::from(u8::from(i >= 2)) })?;
        let rt = zellige_runtime::Runtime::builder().workers(1).build()?;
        let error = BlockJacobi::new(&rt, &Space::new(6, 1), &a, 2).expect_err("ones").to_string();
        assert!(error.contains("rows 3 to 4") && error.contains("singular"), "{error}");
        assert!(BlockJacobi::new(&rt, &Space::new(6, 1), &a, 33).is_err());
        Ok(())
    }
}
