//! Partition of rows into blocks.

use std::ops::Range;

use crate::csr::Csr;

/// Returns blocks of at most `most` rows that cover `rows`, in order.
///
/// Consecutive rows with the same columns are not split unless there are too many of them, and as
/// many such groups as fit form a block (Chow and Scott, "On the use of supervariables and blocking
/// in iterative solvers", 2014).
pub fn blocks(a: &Csr, rows: Range<usize>, most: usize) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    for group in groups(a, rows, most) {
        match blocks.last_mut() {
            Some(last) if group.end - last.start <= most => last.end = group.end,
            _ => blocks.push(group),
        }
    }
    blocks
}

/// Returns the groups of consecutive rows with equal columns.
fn groups(a: &Csr, rows: Range<usize>, most: usize) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for i in rows {
        match groups.last_mut() {
            Some(last) if last.len() < most && a.row(i).0 == a.row(last.start).0 => last.end = i + 1,
            _ => groups.push(i..i + 1),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_krylov::Error;

    /// Rows with the column of their group, and their own.
    fn grouped(groups: &[u32]) -> Result<Csr, Error> {
        let (mut triplets, mut start) = (Vec::new(), 0);
        for &size in groups {
            let rows = start..start + size;
            triplets.extend(rows.clone().flat_map(|i| rows.clone().map(move |j| (i, j, 1.0))));
            start += size;
        }
        Csr::from_triplets(start as usize, start as usize, &triplets)
    }

    #[test]
    fn groups_stay_together_and_share_blocks() -> Result<(), Error> {
        let a = grouped(&[3, 3, 3, 2, 5, 1])?;
        assert_eq!(blocks(&a, 0..17, 8), [0..6, 6..11, 11..17]);
        assert_eq!(blocks(&a, 0..17, 3), [0..3, 3..6, 6..9, 9..11, 11..14, 14..17]);
        assert_eq!(blocks(&a, 4..13, 8), [4..11, 11..13]);
        assert_eq!(blocks(&a, 0..17, 1).len(), 17);
        Ok(())
    }
}
