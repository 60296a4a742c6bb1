//! What products in tiles cost beside `f64` and beside the memory:
//! `cargo run --release -p zellige-bench --example product_bars -- elasticity|flow [threads] [sets] [eps] [criteria] [edges]`; the
//! set `auto` is what [`zellige_sparse::adaptive::auto`] takes. After `csr=FILE` the matrix is written for the peers, and nothing is measured.
//!
//! Every way is timed in turn with the best layout in `f64`, and that in turn with reading an array; medians of 21 pairs.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use zellige_bench::{median, write_rows};
use zellige_kernels::packed::Rounding;
use zellige_kernels::sell::Panel;
use zellige_sparse::adaptive::{Accuracy, Adaptation, Criterion, FormatSet, TiledMatrix, auto};
use zellige_sparse::generate::{Elasticity, Elements, Flow, elasticity, flow};
use zellige_sparse::{Csr, Error};

const PAIRS: usize = 21;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |at: usize, default: &str| args.get(at).cloned().unwrap_or_else(|| default.into());
    let list = |at: usize, default: &str| arg(at, default).split(',').map(String::from).collect::<Vec<_>>();
    let name = arg(0, "elasticity");
    let a = match &name[..] {
        "flow" => flow(&Flow::default())?,
        "small" => elasticity(&Elasticity { elements: Elements([20; 3]), ..Elasticity::default() })?,
        _ => elasticity(&Elasticity::default())?,
    };
    if let Some(file) = arg(1, "").strip_prefix("csr=") {
        return write_rows(&a, Path::new(file)).map_err(|source| Error::File {
            path: file.into(),
            problem: "cannot be written",
            source,
        });
    }
    let edges: Vec<usize> = list(5, if name == "flow" { "1" } else { "1,3" })
        .iter()
        .map(|edge| edge.parse().expect("a number"))
        .collect();
    println!(
        "{name}: {} rows, {} elements, {:.1} MB by rows",
        a.rows(),
        a.elements(),
        a.bytes() as f64 / 1e6
    );
    let doubles = edges.iter().map(|&edge| TiledMatrix::new(&a, edge, &Adaptation::double()));
    let doubles = doubles.collect::<Result<Vec<_>, _>>()?;
    let x: Vec<f64> = (0..a.columns()).map(|j| (j as f64 * 0.37).sin()).collect();
    let array = vec![1.0; 40_000_000];
    for threads in list(1, "1,2").iter().map(|threads| threads.parse().expect("a number")) {
        let mut bench = Bench { threads, x: &x, y: vec![0.0; a.rows()], array: &array };
        println!("{threads} threads");
        let mut best = (f64::INFINITY, &doubles[0]);
        for double in &doubles {
            let seconds = bench.beside_memory(&a, double);
            if seconds < best.0 {
                best = (seconds, double);
            }
        }
        bench.print_csr(&a, best.1);
        for count in [2, 4, 8] {
            bench.print_many(best.1, count, "fp64");
        }
        for eps in list(3, "2^-53,2^-37,2^-24") {
            for set in list(2, "auto,ap2,ap4,ap7,ap7re,ap7reu") {
                for criterion in list(4, "nw") {
                    bench.beside_double(&a, &edges, &set, eps.parse()?, &criterion, best.1)?;
                }
            }
        }
    }
    Ok(())
}

struct Bench<'a> {
    threads: usize,
    x: &'a [f64],
    y: Vec<f64>,
    array: &'a [f64],
}

fn seconds(run: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    run();
    begin.elapsed().as_secs_f64()
}

impl Bench<'_> {
    fn product(&mut self, matrix: &TiledMatrix) -> f64 {
        let x = self.x;
        let mut y = std::mem::take(&mut self.y);
        let time = self.panels(matrix, 1, &mut y, &|panel, y| panel.multiply(x, y).expect("sizes that fit"));
        self.y = y;
        time
    }

    /// Panels in as many parts of about the same bytes as there are threads.
    fn panels(
        &self,
        matrix: &TiledMatrix,
        count: usize,
        mut y: &mut [f64],
        run: &(impl Fn(&Panel, &mut [f64]) + Sync),
    ) -> f64 {
        let share = matrix.bytes() as usize / self.threads + 1;
        let mut parts: Vec<Vec<(&Panel, &mut [f64])>> = (0..self.threads).map(|_| Vec::new()).collect();
        let mut done = 0;
        for panel in matrix.panels() {
            let (rows, rest) = y.split_at_mut(count * panel.rows().len());
            parts[done / share].push((panel, rows));
            (y, done) = (rest, done + panel.bytes());
        }
        let all = |part: Vec<(&Panel, &mut [f64])>| part.into_iter().for_each(|(panel, y)| run(panel, y));
        let mine = parts.pop().expect("one at least");
        seconds(|| {
            std::thread::scope(|scope| {
                parts.into_iter().for_each(|part| {
                    scope.spawn(move || all(part));
                });
                all(mine);
            })
        })
    }

    /// Bytes per second of reading an array.
    fn read(&self) -> f64 {
        let sum = |part: &[f64]| {
            let mut sums = [0.0; 32];
            for part in part.chunks_exact(32) {
                sums.iter_mut().zip(part).for_each(|(sum, a)| *sum += a);
            }
            black_box(sums);
        };
        let time = seconds(|| {
            std::thread::scope(|scope| {
                let mut parts = self.array.chunks(self.array.len().div_ceil(self.threads));
                let mine = parts.next().expect("one at least");
                parts.for_each(|part| {
                    scope.spawn(move || sum(part));
                });
                sum(mine);
            })
        });
        8.0 * self.array.len() as f64 / time
    }

    /// Bytes that a product has to move.
    fn moved(&self, matrix: &TiledMatrix) -> f64 {
        matrix.bytes() as f64 + 8.0 * (self.x.len() + self.y.len()) as f64
    }

    fn beside_memory(&mut self, a: &Csr, double: &TiledMatrix) -> f64 {
        let (mut times, mut ratios, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let (rate, time) = (self.read(), self.product(double));
            times.push(time);
            rates.push(rate);
            ratios.push(self.moved(double) / time / rate);
        }
        let time = median(times);
        println!(
            "fp64 edge {}: {:.2} ms, {:.1} GB/s, memory {:.1} GB/s, {:.3} of it, {:.1} % bytes",
            double.edge(),
            1e3 * time,
            self.moved(double) / time / 1e9,
            median(rates) / 1e9,
            median(ratios),
            100.0 * double.bytes() as f64 / a.bytes() as f64
        );
        time
    }

    fn print_csr(&mut self, a: &Csr, best: &TiledMatrix) {
        let mut y = vec![0.0; a.rows()];
        let mut ratios = Vec::new();
        for _ in 0..5 {
            let time = seconds(|| a.multiply(self.x, &mut y).expect("sizes that fit"));
            ratios.push(time / self.product(best));
        }
        println!("by rows, 1 thread: {:.2} of the best fp64 time", median(ratios));
    }

    /// Products of several vectors at once, in the time of one.
    fn print_many(&mut self, matrix: &TiledMatrix, count: usize, name: &str) {
        let x = vec![1.0; count * self.x.len()];
        let mut y = vec![0.0; count * self.y.len()];
        let mut ratios = Vec::new();
        for _ in 0..PAIRS {
            let run = |panel: &Panel, y: &mut [f64]| {
                panel.multiply_many(count, &x, y).expect("sizes that fit");
            };
            let many = self.panels(matrix, count, &mut y, &run);
            ratios.push(many / count as f64 / self.product(matrix));
        }
        println!(
            "{name} edge {}: {count} vectors, {:.2} of the time of one, each",
            matrix.edge(),
            median(ratios)
        );
    }

    fn beside_double(
        &mut self,
        a: &Csr,
        edges: &[usize],
        set: &str,
        eps: Accuracy,
        criterion: &str,
        double: &TiledMatrix,
    ) -> Result<(), Error> {
        let criterion = if criterion == "cw" { Criterion::Componentwise } else { Criterion::Normwise };
        let begin = Instant::now();
        if set == "auto" {
            let matrix = auto(a, criterion, eps, Rounding::Nearest, self.threads)?;
            self.compare(a, &matrix, &format!("{eps} auto {}", criterion.name()), begin, double);
            return Ok(());
        }
        let set: FormatSet = set.parse().expect("a set");
        for &edge in edges.iter().filter(|&&edge| edge == 1 || !set.has_scales()) {
            let begin = Instant::now();
            let matrix = TiledMatrix::new(a, edge, &Adaptation::new(set, criterion, eps))?;
            self.compare(a, &matrix, &format!("{eps} {set} {}", criterion.name()), begin, double);
        }
        Ok(())
    }

    fn compare(&mut self, a: &Csr, matrix: &TiledMatrix, name: &str, begin: Instant, double: &TiledMatrix) {
        let stored = begin.elapsed().as_secs_f64();
        let (mut times, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let (time, of_double) = (self.product(matrix), self.product(double));
            times.push(time);
            ratios.push(time / of_double);
        }
        let time = median(times);
        let sets: Vec<&str> =
            matrix.counts().iter().filter(|count| count.1 > 0).map(|count| count.0.name()).collect();
        println!(
            "{name} edge {}: {:.2} ms, {:.3} of fp64, {:.1} GB/s, {:.1} % bytes (stored in {stored:.1} s; {})",
            matrix.edge(),
            1e3 * time,
            median(ratios),
            self.moved(matrix) / time / 1e9,
            100.0 * matrix.bytes() as f64 / a.bytes() as f64,
            sets.join(" ")
        );
        if name.contains("auto") {
            [2, 4, 8].into_iter().for_each(|count| self.print_many(matrix, count, name));
        }
    }
}
