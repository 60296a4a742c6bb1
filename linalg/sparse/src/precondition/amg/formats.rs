//! Formats of the levels.

use super::blocks::Blocks;
use crate::adaptive::{Adaptation, FormatSet};
use crate::csr::Csr;
use crate::stored::Stored;
use zellige_krylov::{Error, Executor, Space};

/// A matrix has 24 bits where the smallest energy of a vector, relative to the diagonal, is larger
/// than this, and 32 otherwise: rounding to 24 bits adds energies of up to `2^-16` of the diagonal,
/// which make a matrix with smaller ones indefinite. Prolongations then have 16 bits. What these
/// add to a smooth vector, `2^-8` of it, has the energy `2^-16`, and is smoothed.
///
/// On elasticity with 325 000 rows, 24 bits take no step more than 32, and prolongations of 16 bits
/// one more of 22. The finest matrix with 16 bits takes 29, the coarser ones with 16 bits 27.
const LEAST_ENERGY: f64 = 1e-4;

/// Returns the smallest energy of the vectors that the unknowns of the next level stand for,
/// relative to the energy that they have with the diagonal of the matrix only.
pub fn least_energy(a: &Blocks, prolongation: &Blocks, next: &Blocks) -> f64 {
    let [rows, columns] = prolongation.size();
    let diagonal = |a: &Blocks, node: usize, i: usize| {
        let size = a.size()[0];
        a.get(node, node).map_or(0.0, |block| block[i * size + i].abs())
    };
    let mut alone = vec![0.0; next.rows() * columns];
    for node in 0..prolongation.rows() {
        for i in 0..rows {
            let own = diagonal(a, node, i);
            for (j, block) in prolongation.row(node) {
                let row = block[i * columns..(i + 1) * columns].iter();
                alone[j * columns..].iter_mut().zip(row).for_each(|(alone, p)| *alone += own * p * p);
            }
        }
    }
    let energy = |(j, &alone): (usize, &f64)| diagonal(next, j / columns, j % columns) / alone;
    alone.iter().enumerate().filter(|(_, alone)| **alone > 0.0).map(energy).fold(1.0, f64::min)
}

/// Formats of a level's matrix and of its transfers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Formats {
    pub matrix: FormatSet,
    pub transfers: FormatSet,
}

impl Formats {
    /// Returns the formats of a level whose vectors have at least this energy, relative to the
    /// diagonal.
    pub fn of(least_energy: f64) -> Formats {
        if least_energy > LEAST_ENERGY {
            Formats { matrix: FormatSet::Rp24, transfers: FormatSet::Rp16 }
        } else {
            Formats { matrix: FormatSet::Fp32, transfers: FormatSet::Fp32 }
        }
    }
}

/// Stores a matrix in one format. Each nonzero is rounded independently, so that the stored
/// transpose is the transpose of the stored matrix, and a symmetric matrix stays symmetric.
pub fn stored(
    rt: &dyn Executor,
    to: &Space,
    from: &Space,
    a: &Csr,
    format: FormatSet,
) -> Result<Stored, Error> {
    Stored::between(rt, to, from, a, a.block_size(), &Adaptation::uniform(format))
}

#[cfg(test)]
mod tests {
    use super::super::aggregate::{aggregate, strong};
    use super::super::near_null::Smooth;
    use super::super::smooth::ProlongationSmoother;
    use super::*;
    use crate::precondition::amg::blocks::symmetric_product;

    /// A chain with a part that hardly any coupling connects to the rest has a vector of as little
    /// energy.
    #[test]
    fn weak_parts_have_little_energy() -> Result<(), Error> {
        let n = 90u32;
        for weak in [1.0, 1e-6] {
            let coupling = |i: u32| if i == 29 || i == 59 { weak } else { 1.0 };
            let entries = (0..n).flat_map(|i| {
                let (before, behind) = (if i == 0 { 1.0 } else { coupling(i - 1) }, coupling(i));
                [(i, i.wrapping_sub(1), -before), (i, i, before + behind), (i, i + 1, -behind)]
            });
            let a = Csr::from_triplets(
                n as usize,
                n as usize,
                &entries.filter(|entry| entry.1 < n).collect::<Vec<_>>(),
            )?;
            let (mut a, mut smooth) = (Blocks::of(1, &a, 1)?, Smooth::new(1, &vec![1.0; 90], &[], 0));
            let mut least = 1.0;
            while a.rows() > 4 {
                let graph = strong(&a, 0.08);
                let aggregates = aggregate(&graph);
                let smoother = ProlongationSmoother::new(1, &a, graph, &smooth.constants);
                let (tentative, next_smooth) = smooth.tentative(1, &aggregates)?;
                let prolongation = smoother.smoothed(1, &a, &tentative)?;
                let next = symmetric_product(1, &a, &prolongation, &prolongation.transposed())?;
                least *= least_energy(&a, &prolongation, &next);
                (a, smooth) = (next, next_smooth);
            }
            let formats = Formats::of(least);
            assert_eq!(formats.matrix, if weak < 1.0 { FormatSet::Fp32 } else { FormatSet::Rp24 }, "{least}");
        }
        Ok(())
    }
}
