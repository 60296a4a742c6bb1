//! Products with reconstructors in few bits beside float32, from memory.
//!
//! `cargo run --release -p zellige-bench --example few_bits [ROWS COLUMNS [WORKERS]]`. Every
//! matrix has as many copies as are needed for 2 GiB of float32, which are used in turn, so that
//! no product finds its matrix in a cache. The float32 product is row-blocked like the others and
//! written in plain Rust; `read` sums the bytes of the float32 copies.

use std::hint::black_box;
use std::time::Instant;

use zellige_kernels::few_bits::{FewBits, ROWS};

/// Columns of a group.
const GROUP: usize = 32;

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (rows, cols) =
        (arguments.first().copied().unwrap_or(4092), arguments.get(1).copied().unwrap_or(19_078));
    let workers = arguments.get(2).copied().unwrap_or(2);
    let copies = (2usize << 30).div_ceil(4 * rows * cols).max(2);
    println!("{rows} x {cols}, {workers} workers, {copies} copies in turn");
    let x: Vec<f32> = (0..cols).map(|j| (j as f32).sin()).collect();
    let float: Vec<Vec<f32>> =
        (0..copies).map(|c| (0..rows * cols).map(|at| (at * (c + 7) % 1013) as f32).collect()).collect();
    let bytes = (4 * rows * cols) as f64;
    let read = median(copies, |c| {
        on_workers(workers, rows.div_ceil(ROWS), |blocks| {
            let part = &float[c]
                [(blocks.start * ROWS * cols).min(rows * cols)..(blocks.end * ROWS * cols).min(rows * cols)];
            black_box(sum(part));
        })
    });
    print("read", read, bytes, read);
    let base = median(copies, |c| {
        on_workers(workers, rows.div_ceil(ROWS), |blocks| {
            for i in blocks.start * ROWS..(blocks.end * ROWS).min(rows) {
                black_box(dot(&float[c][i * cols..][..cols], &x));
            }
        })
    });
    print("float32", base, bytes, base);
    drop(float);
    for bits in FewBits::BITS.rev() {
        let most = (1i32 << (bits - 1)) - 1;
        let edges: Vec<usize> = (0..cols).step_by(GROUP).chain([cols]).collect();
        let scales = vec![0.5f32; rows * (edges.len() - 1)];
        let matrix = |c: usize| {
            let codes: Vec<i16> =
                (0..rows * cols).map(|at| ((at * (c + 7)) as i32 % (2 * most) - most) as i16).collect();
            let of_blocks = vec![bits as u8; rows.div_ceil(ROWS) * (edges.len() - 1)];
            FewBits::new(rows, of_blocks, edges.clone(), &codes, &scales)
        };
        let first = matrix(0);
        let packed: Vec<FewBits> =
            (0..(2usize << 30).div_ceil(first.bytes()).min(2 * copies)).map(|_| first.clone()).collect();
        let seconds = median(packed.len(), |c| {
            on_workers(workers, first.blocks(), |blocks| {
                for block in blocks {
                    let mut y = [0.0; ROWS];
                    packed[c].multiply_block(block, 0..first.groups(), &x, &mut y);
                    black_box(y);
                }
            })
        });
        print(&format!("{bits} bits"), seconds, first.bytes() as f64, base);
    }
}

fn print(name: &str, seconds: f64, bytes: f64, base: f64) {
    println!(
        "{name:8} {:9.1} us {:6.1} GB/s {:5.2} of float32",
        seconds * 1e6,
        bytes / seconds / 1e9,
        seconds / base
    );
}

/// Median of the seconds of seven rounds over all copies, for one copy.
fn median(copies: usize, run: impl Fn(usize)) -> f64 {
    let mut all: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            (0..copies).for_each(&run);
            start.elapsed().as_secs_f64() / copies as f64
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[3]
}

fn on_workers(workers: usize, blocks: usize, work: impl Fn(std::ops::Range<usize>) + Sync) {
    let share = blocks.div_ceil(workers);
    std::thread::scope(|scope| {
        for w in 1..workers {
            let work = &work;
            scope.spawn(move || work((w * share).min(blocks)..((w + 1) * share).min(blocks)));
        }
        work(0..share.min(blocks));
    });
}

fn sum(values: &[f32]) -> f32 {
    let mut sums = [0.0f32; 64];
    for part in values.chunks_exact(64) {
        sums.iter_mut().zip(part).for_each(|(s, v)| *s += v);
    }
    sums.iter().sum()
}

fn dot(a: &[f32], x: &[f32]) -> f32 {
    let mut sums = [0.0f32; 64];
    for (a, x) in a.chunks_exact(64).zip(x.chunks_exact(64)) {
        sums.iter_mut().zip(a).zip(x).for_each(|((s, a), x)| *s += a * x);
    }
    sums.iter().sum()
}
