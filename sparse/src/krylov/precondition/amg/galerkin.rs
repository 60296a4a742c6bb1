//! Products of sparse matrices.

use crate::csr::Csr;
use crate::error::Error;

/// `A B`, row by row (Gustavson 1978).
///
/// # Errors
/// [`Error::Shape`] where the columns of `A` are not the rows of `B`.
pub fn product(a: &Csr, b: &Csr) -> Result<Csr, Error> {
    if a.columns() != b.rows() {
        let problem = format!("{} columns of the left one, {} rows of the right one", a.columns(), b.rows());
        return Err(Error::shape("matrices of a product", problem));
    }
    let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    let mut sum = vec![0.0; b.columns()];
    let mut seen = vec![u32::MAX; b.columns()];
    let mut row: Vec<u32> = Vec::new();
    for (i, (column, value)) in a.iter().enumerate() {
        row.clear();
        for (&k, a) in column.iter().zip(value) {
            let (column, value) = b.row(k as usize);
            for (&j, b) in column.iter().zip(value) {
                if seen[j as usize] != i as u32 {
                    seen[j as usize] = i as u32;
                    sum[j as usize] = 0.0;
                    row.push(j);
                }
                sum[j as usize] += a * b;
            }
        }
        row.sort_unstable();
        columns.extend(&row);
        values.extend(row.iter().map(|&j| sum[j as usize]));
        starts.push(columns.len());
    }
    Csr::new(b.columns(), starts, columns, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_act_as_their_factors_do() -> Result<(), Error> {
        let triplets = |rows: u32, columns: u32, step: u32| {
            let of_row =
                move |i| (0..3).map(move |k| (i, (i * step + 5 * k) % columns, f64::from(i + k) - 7.0));
            (0..rows).flat_map(of_row).collect::<Vec<_>>()
        };
        let a = Csr::from_triplets(20, 30, &triplets(20, 30, 2))?;
        let b = Csr::from_triplets(30, 10, &triplets(30, 10, 3))?;
        let ab = product(&a, &b)?;
        let x: Vec<f64> = (0..10).map(f64::from).collect();
        let (mut bx, mut abx, mut direct) = (vec![0.0; 30], vec![0.0; 20], vec![0.0; 20]);
        b.multiply(&x, &mut bx)?;
        a.multiply(&bx, &mut abx)?;
        ab.multiply(&x, &mut direct)?;
        assert_eq!(abx, direct);
        assert!(product(&a, &a).is_err());
        Ok(())
    }
}
