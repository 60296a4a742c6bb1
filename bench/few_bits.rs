//! Products with reconstructors in few bits beside float32, beside reading memory and beside
//! OpenBLAS.
//!
//! `cargo run --release -p zellige-bench --example few_bits [ROWS COLUMNS [WORKERS]]`. Each matrix
//! has so many copies, which are used in turn, that all have at least 1.25 GiB: no product finds
//! its matrix in a cache. `read` sums the entries of the float32 copies, `float32` is the product
//! of `tor rtc`, and `sgemv` that of OpenBLAS if the loader finds `libopenblas.so.0`, by rows and
//! by columns. Rounds of all of them are in turn, and medians are printed.

use std::ffi::{CStr, c_char, c_int};
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use libloading::Library;
use zellige_kernels::few_bits::{Digits, FewBits, ROWS};
use zellige_kernels::row_blocks::RowBlocks;

/// Columns of a group.
const GROUP: usize = 32;

/// Numbers of bits that are timed.
const BITS: [u32; 8] = [16, 12, 8, 7, 6, 5, 4, 3];

/// Bytes of the copies of a matrix: more than four times the caches of the largest machine tried.
const BYTES: usize = 5 << 28;

/// Rounds over all copies.
const ROUNDS: usize = 7;

/// A product with copies of one matrix.
struct Product<'a> {
    name: String,
    bytes: usize,
    copies: usize,
    multiply: Box<dyn Fn(usize) + 'a>,
    /// Seconds of a product, by round.
    seconds: Vec<f64>,
}

impl<'a> Product<'a> {
    fn new(name: impl Into<String>, bytes: usize, copies: usize, multiply: impl Fn(usize) + 'a) -> Self {
        Product { name: name.into(), bytes, copies, multiply: Box::new(multiply), seconds: Vec::new() }
    }

    /// Times a round, after a pause: threads of OpenBLAS wait busily for a while after a product.
    fn time(&mut self) {
        std::thread::sleep(Duration::from_millis(100));
        let start = Instant::now();
        (0..self.copies).for_each(&self.multiply);
        self.seconds.push(start.elapsed().as_secs_f64() / self.copies as f64);
    }

    fn median(&self) -> f64 {
        let mut all = self.seconds.clone();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }
}

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let argument = |at: usize, default| arguments.get(at).copied().unwrap_or(default);
    let (rows, cols, workers) = (argument(0, 4092), argument(1, 19_078), argument(2, 2));
    let blocks = rows.div_ceil(ROWS);
    let x: Vec<f32> = (0..cols).map(|j| (j as f32).sin()).collect();
    let bytes = 4 * rows * cols;
    let copies = BYTES.div_ceil(bytes).max(2);
    let first = RowBlocks::new(rows, cols, |i, j| ((i * cols + j) * 7 % 1013) as f32);
    let float = vec![first; copies];
    let few: Vec<(u32, Vec<FewBits>)> = BITS.iter().map(|&bits| (bits, packed(bits, rows, cols))).collect();
    let blas = Blas::load(workers);
    let mut products = vec![
        Product::new("read", bytes, copies, |c| {
            on_workers(workers, blocks, |part| {
                black_box(sum(&float[c].values()[part.start * ROWS * cols..part.end * ROWS * cols]));
            });
        }),
        Product::new("float32", bytes, copies, |c| {
            on_workers(workers, blocks, |part| {
                for block in part {
                    let mut y = [0.0; ROWS];
                    float[c].multiply_block(block, 0..cols, &x, &mut y);
                    black_box(y);
                }
            });
        }),
    ];
    match &blas {
        Ok(blas) => {
            println!("OpenBLAS: kernels of {}", blas.core());
            for (name, order) in [("sgemv, by rows", Blas::BY_ROWS), ("sgemv, by columns", Blas::BY_COLUMNS)]
            {
                // The entries are in another order, which does not matter for the time.
                products.push(Product::new(name, bytes, copies, {
                    let (float, x) = (&float, &x);
                    move |c| blas.multiply(order, (rows, cols), float[c].values(), x)
                }));
            }
        }
        Err(problem) => println!("no OpenBLAS: {problem}"),
    }
    for (bits, copies) in &few {
        let (x, first) = (&x, &copies[0]);
        products.push(Product::new(format!("{bits} bits"), first.bytes(), copies.len(), move |c| {
            on_workers(workers, blocks, |part| {
                let mut digits = Digits::new(cols);
                digits.put(first.edges(), 0..first.groups(), x);
                let mut y = vec![[0.0; ROWS]; part.len()];
                for start in (0..first.groups()).step_by(first.run()) {
                    let groups = start..first.groups().min(start + first.run());
                    copies[c].multiply_blocks(part.clone(), groups, &digits, &mut y);
                }
                black_box(y);
            });
        }));
    }
    println!("{rows} x {cols}, {workers} workers, {ROUNDS} rounds");
    for _ in 0..ROUNDS {
        products.iter_mut().for_each(Product::time);
    }
    let best = |name: &str| {
        let named = products.iter().filter(|product| product.name.starts_with(name));
        named.map(Product::median).fold(f64::INFINITY, f64::min)
    };
    let (float32, sgemv) = (best("float32"), best("sgemv"));
    println!("{:18} {:>9} {:>6} {:>10} {:>8}", "product", "us", "GB/s", "of float32", "of sgemv");
    for product in &products {
        let seconds = product.median();
        println!(
            "{:18} {:9.1} {:6.1} {:10.3} {:8.3}",
            product.name,
            seconds * 1e6,
            product.bytes as f64 / seconds / 1e9,
            seconds / float32,
            seconds / sgemv
        );
    }
}

/// Returns copies of a matrix of integers.
fn packed(bits: u32, rows: usize, cols: usize) -> Vec<FewBits> {
    let most = (1i64 << (bits - 1)) - 1;
    let edges: Vec<usize> = (0..cols).step_by(GROUP).chain([cols]).collect();
    let groups = edges.len() - 1;
    let codes: Vec<i16> = (0..rows * cols).map(|at| (at as i64 * 7 % (2 * most) - most) as i16).collect();
    let of_blocks = vec![bits as u8; rows.div_ceil(ROWS) * groups];
    let matrix = FewBits::new(rows, &of_blocks, &edges, &codes, &vec![0.5; rows * groups]);
    let copies = BYTES.div_ceil(matrix.bytes());
    vec![matrix; copies]
}

/// OpenBLAS, from a shared library.
struct Blas(Library);

type Sgemv = unsafe extern "C" fn(
    order: c_int,
    transposed: c_int,
    rows: c_int,
    cols: c_int,
    alpha: f32,
    a: *const f32,
    lead: c_int,
    x: *const f32,
    step_of_x: c_int,
    beta: f32,
    y: *mut f32,
    step_of_y: c_int,
);

impl Blas {
    const BY_ROWS: c_int = 101;
    const BY_COLUMNS: c_int = 102;
    const NOT_TRANSPOSED: c_int = 111;

    fn load(workers: usize) -> Result<Blas, libloading::Error> {
        // SAFETY: OpenBLAS may be loaded at any time.
        let library = unsafe { Library::new("libopenblas.so.0") }?;
        // SAFETY: the function has this type.
        let set = unsafe { library.get::<unsafe extern "C" fn(c_int)>(b"openblas_set_num_threads") }?;
        // SAFETY: any number of threads is allowed.
        unsafe { set(workers as c_int) };
        Ok(Blas(library))
    }

    /// Returns the name of the processor for which kernels were chosen.
    fn core(&self) -> String {
        // SAFETY: the function has this type, and returns a string that stays.
        let name = unsafe {
            let core = self.0.get::<unsafe extern "C" fn() -> *const c_char>(b"openblas_get_corename");
            core.map(|core| CStr::from_ptr(core()).to_string_lossy().into_owned())
        };
        name.unwrap_or_else(|error| error.to_string())
    }

    fn multiply(&self, order: c_int, (rows, cols): (usize, usize), a: &[f32], x: &[f32]) {
        assert!(a.len() >= rows * cols && x.len() == cols);
        let lead = if order == Blas::BY_ROWS { cols } else { rows };
        let mut y = vec![0.0f32; rows];
        let (m, n, lead, plain) = (rows as c_int, cols as c_int, lead as c_int, Blas::NOT_TRANSPOSED);
        // SAFETY: the function has this type, and the slices have the entries of `a`, `x` and `y`.
        unsafe {
            let sgemv = self.0.get::<Sgemv>(b"cblas_sgemv").expect("OpenBLAS has cblas_sgemv");
            sgemv(order, plain, m, n, 1.0, a.as_ptr(), lead, x.as_ptr(), 1, 0.0, y.as_mut_ptr(), 1);
        }
        black_box(y);
    }
}

/// Divides blocks among threads.
fn on_workers(workers: usize, blocks: usize, work: impl Fn(Range<usize>) + Sync) {
    let edge = |worker: usize| worker * blocks / workers;
    std::thread::scope(|scope| {
        for w in 1..workers {
            let work = &work;
            scope.spawn(move || work(edge(w)..edge(w + 1)));
        }
        work(0..edge(1));
    });
}

fn sum(values: &[f32]) -> f32 {
    let mut sums = [0.0f32; 128];
    for part in values.as_chunks::<128>().0 {
        sums.iter_mut().zip(part).for_each(|(s, v)| *s += v);
    }
    sums.iter().sum()
}
