//! General matrix product, in the orders of crate `gemm`.

use crate::{KernelError, MatMut, MatRef, Op, Scalar};
use gemm_common::cache::kernel_params;

use super::machine::Machine;
use super::{Elements, Number, add_products, check_shape, rows_of};
use zellige_stochastic::{element, vectorize};

/// Computes `C = alpha op_a(A) op_b(B) + beta C`, with `C` `m x n`, `op_a(A)` `m x k`, `op_b(B)`
/// `k x n`. `C` is not read when `beta` is zero.
///
/// # Errors
/// [`KernelError::Shape`] when the shapes do not fit; `C` is then untouched.
pub fn gemm<N: Number>(
    alpha: N::Plain,
    a: MatRef<'_, N>,
    op_a: Op,
    b: MatRef<'_, N>,
    op_b: Op,
    beta: N::Plain,
    c: MatMut<'_, N>,
    elements: &mut Elements,
) -> Result<(), KernelError> {
    let (m, k) = op_a.shape(a.shape());
    let n = op_b.shape(b.shape()).1;
    check_shape("gemm", "B", b.shape(), op_b.shape((k, n)))?;
    check_shape("gemm", "C", c.shape(), (m, n))?;
    product(alpha, (a, op_a), (b, op_b), beta, c, elements);
    Ok(())
}

/// Order of the operations of an entry.
#[derive(Clone, Copy)]
enum Order {
    /// Sums in the lanes of one register, in blocks of so many products.
    Lanes(usize),
    /// At most two products, not fused, of scaled coefficients.
    Few,
    /// One column or row of `C`, to which multiples of columns or rows are added.
    Multiples,
    /// One column or row of `C`, of inner products in eight registers.
    EightRegisters,
    /// One sum for each block of so many products.
    Blocks(usize),
}

/// Products of one horizontal block.
const HORIZONTAL: usize = 1024;
/// Entries of `C` at most that are computed horizontally.
const SMALL: usize = 256;

/// Returns the order that crate `gemm` chooses; strides are those of columns and of rows.
fn order<N: Number>(
    [m, n, k]: [usize; 3],
    [a_columns, a_rows]: [usize; 2],
    [b_columns, b_rows]: [usize; 2],
    c_columns: usize,
) -> Order {
    if a_columns == 1 && b_rows == 1 && m * n <= SMALL {
        return Order::Lanes(HORIZONTAL);
    }
    if k <= 2 {
        return Order::Few;
    }
    if n <= 1 && a_rows == 1 || m <= 1 && b_columns == 1 && c_columns == 1 {
        return Order::Multiples;
    }
    if (n <= 1 || m <= 1) && b_rows == 1 && a_columns == 1 {
        return Order::EightRegisters;
    }
    if m <= 64 && n <= 64 {
        return Order::Blocks(512);
    }
    let bytes = size_of::<N::Plain>();
    let [rows, columns] = Machine::new(bytes).block;
    Order::Blocks(kernel_params(m, n, k, rows, columns, bytes).kc)
}

/// Distances of neighbours in a row and in a column of `op(M)`.
fn strides<N>((matrix, op): (MatRef<'_, N>, Op)) -> [usize; 2] {
    match op {
        Op::None => [matrix.ld(), 1],
        Op::Trans => [1, matrix.ld()],
    }
}

/// [`gemm`] for operands whose shapes are known to fit.
pub(super) fn product<N: Number>(
    alpha: N::Plain,
    a: (MatRef<'_, N>, Op),
    b: (MatRef<'_, N>, Op),
    beta: N::Plain,
    mut c: MatMut<'_, N>,
    elements: &mut Elements,
) {
    let (m, k) = a.1.shape(a.0.shape());
    let n = c.cols();
    if c.is_empty() {
        return;
    }
    let first = elements.take(m * n);
    if k == 0 || alpha == N::Plain::ZERO {
        for j in 0..n {
            for (i, x) in c.col_mut(j).iter_mut().enumerate() {
                element(first + (i + j * m) as u64);
                *x = scaled(beta, *x);
            }
        }
        return;
    }
    let order = order::<N>([m, n, k], strides(a), strides(b), c.ld());
    let other = match b.1 {
        Op::None => Op::Trans,
        Op::Trans => Op::None,
    };
    let mut rows = rows_of(a.0, a.1);
    let mut columns = rows_of(b.0, other);
    // The scaled coefficients are those of the operand that has one row or column, or of `B`.
    match order {
        Order::Few => scale(alpha, &mut columns, elements),
        Order::Multiples if n <= 1 => scale(alpha, &mut columns, elements),
        Order::Multiples => scale(alpha, &mut rows, elements),
        _ => {}
    }
    let task = Product { alpha, beta, rows: &rows, columns: &columns, k, first };
    let lanes = Machine::new(size_of::<N::Plain>()).lanes;
    let zero = N::from_plain(N::Plain::ZERO);
    match order {
        Order::Lanes(depth) => task.run(
            c,
            #[inline(always)]
            |x, y, value| {
                task.by_blocks(
                    depth,
                    (x, y, value),
                    #[inline(always)]
                    |x, y| in_lanes(lanes, x, y),
                )
            },
        ),
        Order::Few => task.run(
            c,
            #[inline(always)]
            |x, y, value| task.few(x, y, value),
        ),
        Order::Multiples => task.run(
            c,
            #[inline(always)]
            |x, y, value| task.multiples(x, y, value),
        ),
        Order::EightRegisters => task.run(
            c,
            #[inline(always)]
            |x, y, value| task.eight_registers(lanes, x, y, value),
        ),
        Order::Blocks(depth) => task.run(
            c,
            #[inline(always)]
            |x, y, value| {
                task.by_blocks(
                    depth,
                    (x, y, value),
                    #[inline(always)]
                    |x, y| add_products(zero, x, y),
                )
            },
        ),
    }
}

/// `beta x`; `x` is not read where `beta` is zero.
#[inline(always)]
#[track_caller]
pub(super) fn scaled<N: Number>(beta: N::Plain, x: N) -> N {
    if beta == N::Plain::ZERO {
        N::from_plain(beta)
    } else if beta == N::Plain::ONE {
        x
    } else {
        x * N::from_plain(beta)
    }
}

fn scale<N: Number>(alpha: N::Plain, numbers: &mut [N], elements: &mut Elements) {
    let first = elements.take(numbers.len());
    let alpha = N::from_plain(alpha);
    vectorize(
        #[inline(always)]
        || {
            for (at, x) in (first..).zip(&mut *numbers) {
                element(at);
                *x = alpha * *x;
            }
        },
    );
}

/// Numbers in eight registers, at most.
const MOST_LANES: usize = 128;

/// A product of packed operands.
struct Product<'a, N: Number> {
    alpha: N::Plain,
    beta: N::Plain,
    /// Rows of `op(A)`, one after the other.
    rows: &'a [N],
    /// Columns of `op(B)`, one after the other.
    columns: &'a [N],
    k: usize,
    /// Number of the first entry's element.
    first: u64,
}

impl<N: Number> Product<'_, N> {
    /// Sets each entry of `C` to `entry` of its row of `op(A)`, its column of `op(B)`, its value.
    fn run(&self, mut c: MatMut<'_, N>, entry: impl Fn(&[N], &[N], N) -> N) {
        let m = c.rows();
        vectorize(
            #[inline(always)]
            || {
                for j in 0..c.cols() {
                    let y = &self.columns[j * self.k..][..self.k];
                    for (i, value) in c.col_mut(j).iter_mut().enumerate() {
                        element(self.first + (i + j * m) as u64);
                        *value = entry(&self.rows[i * self.k..][..self.k], y, *value);
                    }
                }
            },
        );
    }

    /// `alpha sum + beta value`.
    #[inline(always)]
    #[track_caller]
    fn write(&self, sum: N, beta: N::Plain, value: N) -> N {
        let alpha = N::from_plain(self.alpha);
        if beta == N::Plain::ZERO {
            alpha * sum
        } else if beta == N::Plain::ONE {
            alpha.mul_add(sum, value)
        } else {
            N::from_plain(beta) * value + alpha * sum
        }
    }

    /// `value` after [`write`](Self::write) of the sum of each block of `depth` products.
    #[inline(always)]
    fn by_blocks(&self, depth: usize, (x, y, value): (&[N], &[N], N), sum: impl Fn(&[N], &[N]) -> N) -> N {
        let (mut beta, mut value) = (self.beta, value);
        for (x, y) in x.chunks(depth).zip(y.chunks(depth)) {
            value = self.write(sum(x, y), beta, value);
            beta = N::Plain::ONE;
        }
        value
    }

    #[inline(always)]
    fn few(&self, x: &[N], y: &[N], value: N) -> N {
        let mut sum = x[0] * y[0];
        if self.beta != N::Plain::ZERO {
            sum = sum + self.old(value);
        }
        if x.len() == 2 { x[1] * y[1] + sum } else { sum }
    }

    #[inline(always)]
    fn multiples(&self, x: &[N], y: &[N], value: N) -> N {
        let first = if self.beta == N::Plain::ZERO {
            x[0] * y[0]
        } else if self.beta == N::Plain::ONE {
            x[0].mul_add(y[0], value)
        } else {
            x[0] * y[0] + self.old(value)
        };
        add_products(first, &x[1..], &y[1..])
    }

    #[inline(always)]
    fn eight_registers(&self, lanes: usize, x: &[N], y: &[N], value: N) -> N {
        let sum = in_eight_registers(lanes, x, y) * N::from_plain(self.alpha);
        if self.beta == N::Plain::ZERO { sum } else { sum + self.old(value) }
    }

    /// `beta value`; a product by one is exact.
    #[inline(always)]
    #[track_caller]
    fn old(&self, value: N) -> N {
        N::from_plain(self.beta) * value
    }
}

/// Sum of products in `lanes` sums, which are added by halves.
#[inline(always)]
#[track_caller]
fn in_lanes<N: Number>(lanes: usize, x: &[N], y: &[N]) -> N {
    let mut sums = [N::from_plain(N::Plain::ZERO); MOST_LANES];
    for (x, y) in x.chunks(lanes).zip(y.chunks(lanes)) {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum = x.mul_add(*y, *sum);
        }
    }
    let mut half = lanes / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] = sums[lane] + sums[lane + half];
        }
        half /= 2;
    }
    sums[0]
}

/// Sum of products in eight registers, whose lanes are added in order at the end.
#[inline(always)]
#[track_caller]
fn in_eight_registers<N: Number>(lanes: usize, x: &[N], y: &[N]) -> N {
    let mut sums = [N::from_plain(N::Plain::ZERO); MOST_LANES];
    let eights = x.len() / (8 * lanes) * 8 * lanes;
    let whole = x.len() / lanes * lanes;
    for at in 0..eights {
        let sum = &mut sums[at % (8 * lanes)];
        *sum = x[at].mul_add(y[at], *sum);
    }
    for lane in 0..lanes {
        let two = |r: usize| sums[r * lanes + lane] + sums[(r + 1) * lanes + lane];
        sums[lane] = (two(0) + two(2)) + (two(4) + two(6));
    }
    for at in eights..whole {
        let sum = &mut sums[at % lanes];
        *sum = x[at].mul_add(y[at], *sum);
    }
    let mut sum = sums[0];
    for lane in 1..lanes {
        sum = sum + sums[lane];
    }
    add_products(sum, &x[whole..], &y[whole..])
}
