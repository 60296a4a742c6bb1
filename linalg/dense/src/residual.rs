//! Backward error of a factor: `||A - L L^T||_F / ||A||_F`, with every operation in `f64`.

use std::ops::Range;
use std::sync::Arc;

use zellige_kernels::{MatMut, MatRef, Op, gemm};
use zellige_runtime::{Data, Handle, Session, reads, scratch, update, write};

use crate::error::Error;
use crate::grid::TileGrid;
use crate::scalar::TileScalar;
use crate::tile::Tile;
use crate::tiled::{Generator, SymmetricTiled, mirror};

/// Up to this order [`backward_error`] computes every entry of `A - L L^T`.
pub const EXACT_UP_TO: usize = 8192;
/// Vectors of the estimate.
const VECTORS: usize = 16;

/// A measured backward error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackwardError {
    /// `||A - L L^T||_F / ||A||_F`, or an estimate of it.
    pub value: f64,
    /// False for an estimate from 16 random vectors (standard error about a fifth of the value at
    /// most).
    pub exact: bool,
}

/// Waits for the factor `l` and measures its backward error, against `A` as `a` generates it.
///
/// Exact up to [`EXACT_UP_TO`] rows, at the cost of another factorisation in `f64` (`n^3 / 3`
/// flop); above, the estimate `||(A - L L^T) W||_F / (4 ||A||_F)` with a fixed `n x 16` matrix `W`
/// of signs, whose square has the exact one's square as its mean (Hutchinson). On several ranks
/// each computes the parts that its tiles are on the left of, for which other tiles are sent to it.
///
/// # Errors
/// Whatever left a tile of `l` without a value, or what `a` returns.
pub fn backward_error<T: TileScalar, S: Session>(
    rt: &S,
    l: &SymmetricTiled<T>,
    a: &Generator<f64>,
) -> Result<BackwardError, Error> {
    if l.n() <= EXACT_UP_TO { exact(rt, l, a) } else { estimated(rt, l, a) }
}

/// Bytes of the operands of that task of [`backward_error`] which has the most: it reads two rows
/// of tiles of `L`, or a row, or a column. A runtime with less host memory refuses it.
pub fn operand_bytes<T: TileScalar>(grid: &TileGrid) -> u64 {
    let (nt, n) = (grid.tiles(), grid.len());
    let row = |i: usize, j: usize| grid.width(i) * grid.range(j).end;
    let all = |most: &dyn Fn(usize, usize) -> usize| {
        (0..nt).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| most(i, j)).max().unwrap_or(0) as u64
    };
    let element = size_of::<T>();
    match n <= EXACT_UP_TO {
        true => all(&|i, j| element * (row(i, j) + if i == j { 0 } else { row(j, j) })),
        false => all(&|i, j| {
            let column = element * grid.width(j) * (n - grid.range(j).start);
            let vectors = VECTORS * size_of::<f64>() * (grid.width(i) + grid.range(i).end);
            column.max(element * row(i, i) + vectors)
        }),
    }
}

/// [`backward_error`] with every entry, whatever the order.
///
/// # Errors
/// As [`backward_error`].
pub fn exact<T: TileScalar, S: Session>(
    rt: &S,
    l: &SymmetricTiled<T>,
    a: &Generator<f64>,
) -> Result<BackwardError, Error> {
    let (nt, grid) = (l.tiles(), l.grid());
    let mut sums = Vec::new();
    for j in 0..nt {
        for i in j..nt {
            let sum = rt.register_empty::<Vec<f64>>();
            beside(rt, &sum, l.tile(i, j))?;
            let (a, rows, cols) = (Arc::clone(a), grid.range(i), grid.range(j));
            let area = rows.len() * cols.len();
            let panel = grid.max_width() * grid.max_width();
            let row_j: Vec<_> = l.row(j).cloned().collect();
            let row_i: Vec<_> = (0..=j).map(|k| l.tile(i, k).clone()).collect();
            rt.task("backward_error")
                .operands((
                    reads(&row_i),
                    reads(&row_j),
                    write(&sum),
                    scratch::<f64>(area),
                    scratch::<f64>(panel),
                    scratch::<f64>(panel),
                ))
                .cpu(move |(row_i, row_j, mut sum, e, x, y)| {
                    fill(&a, &rows, &cols, i == j, e)?;
                    let before = squares(&e[..area], i == j);
                    let (m, n) = (rows.len(), cols.len());
                    for k in 0..row_j.len() {
                        let l_ik = lower_f64(row_i.get(k), i == k, x)?;
                        let l_jk = lower_f64(row_j.get(k), j == k, y)?;
                        let e = MatMut::new(e, m, n, m)?;
                        gemm(-1.0, l_ik, Op::None, l_jk, Op::Trans, 1.0, e)?;
                    }
                    sum.put(vec![squares(&e[..area], i == j), before]);
                    Ok::<(), Error>(())
                })
                .submit()?;
            sums.push(sum);
        }
    }
    let (mut error, mut norm) = (0.0, 0.0);
    for sum in sums {
        let sum = rt.take(sum)?;
        error += sum[0];
        norm += sum[1];
    }
    Ok(BackwardError { value: ratio(error, norm), exact: true })
}

/// [`backward_error`] from 16 random vectors, whatever the order.
///
/// # Errors
/// As [`backward_error`].
pub fn estimated<T: TileScalar, S: Session>(
    rt: &S,
    l: &SymmetricTiled<T>,
    a: &Generator<f64>,
) -> Result<BackwardError, Error> {
    let (nt, grid) = (l.tiles(), l.grid());
    let panel = grid.max_width() * grid.max_width();
    // Y = A W, block by block; each block stands for its mirror image too.
    let zeros = |i: usize| {
        let owner = rt.owner_of(l.tile(i, i))?.unwrap_or(0);
        rt.register_on(owner, || vec![0.0; grid.width(i) * VECTORS])
    };
    let y: Vec<Handle<Vec<f64>>> = (0..nt).map(zeros).collect::<Result<_, _>>()?;
    let mut norms = Vec::new();
    for distance in 0..nt {
        for i in distance..nt {
            let j = i - distance;
            let norm = rt.register_empty::<f64>();
            beside(rt, &norm, l.tile(i, i))?;
            let (a, rows, cols) = (Arc::clone(a), grid.range(i), grid.range(j));
            let multiply = move |y_i: &mut [f64], y_j: Option<&mut [f64]>, block: &mut [f64]| {
                fill(&a, &rows, &cols, i == j, block)?;
                let (m, n) = (rows.len(), cols.len());
                let block_view = MatRef::new(block, m, n, m)?;
                add_product(1.0, block_view, Op::None, &signs(&cols), y_i)?;
                if let Some(y_j) = y_j {
                    add_product(1.0, block_view, Op::Trans, &signs(&rows), y_j)?;
                }
                Ok::<f64, Error>(squares(&block[..m * n], i == j))
            };
            if i == j {
                rt.task("estimate_a")
                    .operands((update(&y[i]), write(&norm), scratch::<f64>(panel)))
                    .cpu(move |(y_i, mut norm, block)| {
                        norm.put(multiply(y_i, None, block)?);
                        Ok::<(), Error>(())
                    })
                    .submit()?;
            } else {
                rt.task("estimate_a")
                    .operands((update(&y[i]), update(&y[j]), write(&norm), scratch::<f64>(panel)))
                    .cpu(move |(y_i, y_j, mut norm, block)| {
                        norm.put(multiply(y_i, Some(y_j), block)?);
                        Ok::<(), Error>(())
                    })
                    .submit()?;
            }
            norms.push(norm);
        }
    }
    // Z = L^T W, then Y -= L Z.
    let mut z = Vec::new();
    for j in 0..nt {
        let z_j = rt.register_empty::<Vec<f64>>();
        beside(rt, &z_j, l.tile(j, j))?;
        let column: Vec<_> = (j..nt).map(|i| l.tile(i, j).clone()).collect();
        let ranges: Vec<_> = (j..nt).map(|i| grid.range(i)).collect();
        let width = grid.width(j);
        rt.task("estimate_lt")
            .operands((reads(&column), write(&z_j), scratch::<f64>(panel)))
            .cpu(move |(column, mut z_j, wide)| {
                let mut sum = vec![0.0; width * VECTORS];
                for (at, rows) in ranges.iter().enumerate() {
                    let l = lower_f64(column.get(at), at == 0, wide)?;
                    add_product(1.0, l, Op::Trans, &signs(rows), &mut sum)?;
                }
                z_j.put(sum);
                Ok::<(), Error>(())
            })
            .submit()?;
        z.push(z_j);
    }
    for i in 0..nt {
        let row: Vec<_> = l.row(i).cloned().collect();
        rt.task("estimate_l")
            .operands((reads(&row), reads(&z[..=i]), update(&y[i]), scratch::<f64>(panel)))
            .cpu(move |(row, z, y, wide)| {
                for k in 0..row.len() {
                    let l = lower_f64(row.get(k), k == i, wide)?;
                    add_product(-1.0, l, Op::None, z.get(k), y)?;
                }
                Ok::<(), Error>(())
            })
            .submit()?;
    }
    let (mut error, mut norm) = (0.0, 0.0);
    for y in y {
        error += rt.take(y)?.iter().map(|v| v * v).sum::<f64>();
    }
    for square in norms {
        norm += rt.take(square)?;
    }
    Ok(BackwardError { value: ratio(error / VECTORS as f64, norm), exact: false })
}

/// The rank that owns a tile writes what is computed from it.
fn beside<T: TileScalar, S: Session, D: Data>(
    rt: &S,
    result: &Handle<D>,
    tile: &Handle<Tile<T>>,
) -> Result<(), Error> {
    Ok(rt.set_owner(result, rt.owner_of(tile)?.unwrap_or(0))?)
}

/// The root of `error / norm`; 0 where both are.
fn ratio(error: f64, norm: f64) -> f64 {
    if error == 0.0 { 0.0 } else { (error / norm).sqrt() }
}

/// Generates a block, without gaps between its columns.
fn fill(
    a: &Generator<f64>,
    rows: &Range<usize>,
    cols: &Range<usize>,
    diagonal: bool,
    out: &mut [f64],
) -> Result<(), Error> {
    let failed = |error: zellige_runtime::TaskError| Error::Generator(error.to_string());
    a(rows.clone(), cols.clone(), out, rows.len()).map_err(failed)?;
    if diagonal {
        mirror(out, rows.len());
    }
    Ok(())
}

/// The sum of squares of a block, twice for one that stands for its mirror image too.
fn squares(block: &[f64], diagonal: bool) -> f64 {
    let sum: f64 = block.iter().map(|v| v * v).sum();
    if diagonal { sum } else { 2.0 * sum }
}

/// A tile of `L` in `f64`, with zeros above the diagonal of a diagonal tile.
fn lower_f64<'a, T: TileScalar>(
    tile: &Tile<T>,
    diagonal: bool,
    out: &'a mut [f64],
) -> Result<MatRef<'a, f64>, Error> {
    let source = tile.mat()?;
    let (rows, cols) = source.shape();
    for j in 0..cols {
        let column = &mut out[j * rows..][..rows];
        for (out, x) in column.iter_mut().zip(source.col(j)) {
            *out = x.to_f64();
        }
        if diagonal {
            column[..j].fill(0.0);
        }
    }
    Ok(MatRef::new(out, rows, cols, rows)?)
}

/// `Y += alpha op(A) W`, `W` and `Y` of [`VECTORS`] columns without gaps.
fn add_product(alpha: f64, a: MatRef<'_, f64>, op: Op, w: &[f64], y: &mut [f64]) -> Result<(), Error> {
    let (m, k) = op.shape(a.shape());
    let w = MatRef::new(w, k, VECTORS, k)?;
    let y = MatMut::new(y, m, VECTORS, m)?;
    Ok(gemm(alpha, a, op, w, Op::None, 1.0, y)?)
}

/// Rows of the matrix of signs: the same for everyone who asks, from a hash of row and column
/// (SplitMix64's finaliser).
fn signs(rows: &Range<usize>) -> Vec<f64> {
    let sign = |row: usize, column: usize| {
        let mut x = (row as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = x.wrapping_add((column as u64).wrapping_mul(0xD1B5_4A32_D192_ED03));
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        if (x ^ (x >> 31)) & 1 == 0 { 1.0 } else { -1.0 }
    };
    let columns = (0..VECTORS).flat_map(|column| rows.clone().map(move |row| (row, column)));
    columns.map(|(row, column)| sign(row, column)).collect()
}
