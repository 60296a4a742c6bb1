//! Arithmetic on small dense blocks.

/// A dense block, row by row.
pub type Block<const B: usize> = [[f64; B]; B];

/// Returns `a b`.
pub fn product<const B: usize>(a: &Block<B>, b: &Block<B>) -> Block<B> {
    let mut product = [[0.0; B]; B];
    for i in 0..B {
        for k in 0..B {
            for j in 0..B {
                product[i][j] += a[i][k] * b[k][j];
            }
        }
    }
    product
}

/// Takes `a b` out of a block.
pub fn take_product<const B: usize>(from: &mut Block<B>, a: &Block<B>, b: &Block<B>) {
    for i in 0..B {
        for k in 0..B {
            for j in 0..B {
                from[i][j] -= a[i][k] * b[k][j];
            }
        }
    }
}

pub fn transposed<const B: usize>(a: &Block<B>) -> Block<B> {
    std::array::from_fn(|i| std::array::from_fn(|j| a[j][i]))
}

/// Returns the block in `f32`, column-major.
pub fn narrow<const B: usize>(a: &Block<B>) -> [[f32; B]; B] {
    std::array::from_fn(|j| std::array::from_fn(|i| a[i][j] as f32))
}

/// Returns the inverse, by elimination without pivoting, or the first row whose pivot is not
/// useful.
pub fn inverse<const B: usize>(
    a: &Block<B>,
    is_useful: impl Fn(usize, f64) -> bool,
) -> Result<Block<B>, usize> {
    let (mut a, mut inverse) = (*a, [[0.0; B]; B]);
    (0..B).for_each(|i| inverse[i][i] = 1.0);
    for k in 0..B {
        let pivot = a[k][k];
        if !is_useful(k, pivot) {
            return Err(k);
        }
        for i in (0..B).filter(|&i| i != k) {
            let factor = a[i][k] / pivot;
            for j in 0..B {
                a[i][j] -= factor * a[k][j];
                inverse[i][j] -= factor * inverse[k][j];
            }
        }
    }
    for i in 0..B {
        let pivot = a[i][i];
        inverse[i].iter_mut().for_each(|x| *x /= pivot);
    }
    Ok(inverse)
}
