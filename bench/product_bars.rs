//! Cost of tiled products relative to `f64` and to reading memory: `cargo run --release -p
//! zellige-bench --example product_bars -- elasticity|flow [threads] [sets] [eps] [criteria]
//! [edges]`; the set `auto` is the choice of [`zellige_sparse::adaptive::auto`]. After `csr=FILE`
//! the matrix is written for the peers, and nothing is measured. Words that may stand anywhere:
//! `seed=N` for another matrix of the kind, `bytes` to print only the storage of each format,
//! `peers=FOLDER` for the programs made of `bench/peers/mkl_spmv.c` and `petsc_spmv.c`
//! (`scripts/bench-peers` builds them).
//!
//! Every format is timed in turn with the best layout in `f64`, and that in turn with reading an
//! array; figures are medians of 21 pairs. A peer is a process of its own that sleeps until one
//! product is requested: those are also timed in turn with ours. `cpu` measures by the clock of
//! each thread, for one thread on a machine that others use (two threads do not run simultaneously
//! there, so that neither takes memory bandwidth from the other).

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use zellige_kernels::packed::Rounding;
use zellige_kernels::sell::Panel;
use zellige_measure::{cpu_seconds, median, write_rows};
use zellige_sparse::adaptive::{Accuracy, Adaptation, Criterion, FormatSet, TiledMatrix, auto};
use zellige_sparse::generate::{Elasticity, Elements, Flow, elasticity, flow};
use zellige_sparse::{Csr, Error};

const PAIRS: usize = 21;

fn main() -> Result<(), Error> {
    let (words, args): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|arg| {
        ["bytes", "cpu"].contains(&&arg[..]) || arg.starts_with("seed=") || arg.starts_with("peers=")
    });
    let word = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    let seed = word("seed=").map_or(1, |seed| seed.parse().expect("a number"));
    let arg = |at: usize, default: &str| args.get(at).cloned().unwrap_or_else(|| default.into());
    let list = |at: usize, default: &str| arg(at, default).split(',').map(String::from).collect::<Vec<_>>();
    let name = arg(0, "elasticity");
    let a = match &name[..] {
        "flow" => flow(&Flow { seed, ..Flow::default() })?,
        "small" => elasticity(&Elasticity { elements: Elements([20; 3]), seed, ..Elasticity::default() })?,
        _ => elasticity(&Elasticity { seed, ..Elasticity::default() })?,
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
        a.nonzeros(),
        a.bytes() as f64 / 1e6
    );
    if word("bytes").is_some() {
        return print_bytes(&a, &edges, &list(2, "ap7"), &list(3, "2^-53,2^-37,2^-24"));
    }
    let folder = tempfile::tempdir().expect("a folder for the peers' matrix");
    let peers = word("peers=").map(|programs| Peers::of(Path::new(programs), folder.path(), &a, &edges));
    let doubles = edges.iter().map(|&edge| TiledMatrix::new(&a, edge, &Adaptation::double()));
    let doubles = doubles.collect::<Result<Vec<_>, _>>()?;
    let x: Vec<f64> = (0..a.columns()).map(|j| (j as f64 * 0.37).sin()).collect();
    let array = vec![1.0; 40_000_000];
    for threads in list(1, "1,2").iter().map(|threads| threads.parse().expect("a number")) {
        let by_cpu = word("cpu").is_some();
        let mut bench = Bench { threads, by_cpu, x: &x, y: vec![0.0; a.rows()], array: &array };
        println!("{threads} threads");
        let mut best = (f64::INFINITY, &doubles[0]);
        for double in &doubles {
            let seconds = bench.beside_memory(&a, double);
            if seconds < best.0 {
                best = (seconds, double);
            }
        }
        bench.print_csr(&a, best.1);
        if let Some(peers) = &peers {
            peers
                .commands(threads)
                .for_each(|(name, command)| bench.beside_peer(&name, command, peers.sum, best.1));
        }
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

fn print_bytes(a: &Csr, edges: &[usize], sets: &[String], accuracies: &[String]) -> Result<(), Error> {
    for &edge in edges {
        for set in sets {
            let set: FormatSet = set.parse().expect("a set");
            let mut percents = Vec::new();
            for eps in accuracies {
                let adaptation = Adaptation::new(set, Criterion::Normwise, eps.parse()?);
                let bytes = TiledMatrix::new(a, edge, &adaptation)?.bytes();
                percents.push(format!("{:.1}", 100.0 * bytes as f64 / a.bytes() as f64));
            }
            println!("{set} nw edge {edge}: {} % of bytes by rows", percents.join("/"));
        }
    }
    Ok(())
}

/// Element `j` of the `x` that peers multiply with.
fn peer_x(j: usize) -> f64 {
    1.0 + (j % 7) as f64
}

/// Programs of others, and the matrix in a file for them.
struct Peers {
    programs: Vec<(String, Vec<String>)>,
    /// The sum of `abs(y_i)` that they have to find.
    sum: f64,
}

impl Peers {
    fn of(programs: &Path, folder: &Path, a: &Csr, edges: &[usize]) -> Peers {
        let file = folder.join("rows");
        write_rows(a, &file).expect("room for the peers' matrix");
        let x: Vec<f64> = (0..a.columns()).map(peer_x).collect();
        let mut y = vec![0.0; a.rows()];
        a.multiply(&x, &mut y).expect("sizes that fit");
        let block = edges.iter().max().copied().unwrap_or(1).to_string();
        let program = |name: &str| programs.join(name).display().to_string();
        let file = file.display().to_string();
        let mut found = vec![("MKL".to_owned(), vec![program("mkl_spmv"), file.clone()])];
        for kind in ["aij", "sell", "baij"].iter().filter(|&&kind| kind != "baij" || block != "1") {
            let command = vec![program("petsc_spmv"), file.clone(), kind.to_string(), block.clone()];
            found.push((format!("PETSc {kind}"), command));
        }
        Peers { programs: found, sum: y.iter().map(|y| y.abs()).sum() }
    }

    /// Returns the command that starts each peer with `threads` threads or processes.
    fn commands(&self, threads: usize) -> impl Iterator<Item = (String, Command)> {
        self.programs.iter().map(move |(name, words)| {
            let mut command = Command::new(if name == "MKL" || threads == 1 { &words[0] } else { "mpirun" });
            if name == "MKL" {
                command.args(&words[1..]).arg(threads.to_string());
            } else if threads == 1 {
                command.args(&words[1..]);
            } else {
                let count = threads.to_string();
                command.args(["--allow-run-as-root", "--oversubscribe", "-n", &count]).args(words);
            }
            (name.clone(), command)
        })
    }
}

/// A peer that waits for requests of a product.
struct Peer {
    child: Child,
    /// None once it is to end.
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// None where it cannot be started, or does not find the right product.
    fn start(mut command: Command, sum: f64) -> Option<Peer> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let (ask, answers) = (child.stdin.take(), BufReader::new(child.stdout.take()?));
        let mut peer = Peer { child, ask, answers };
        let found: f64 = peer.line()?.strip_prefix("ready ")?.parse().ok()?;
        ((found - sum).abs() <= 1e-9 * sum).then_some(peer)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        Some(line.trim().to_owned())
    }

    /// Seconds of one product, on the wall and of the peer's CPU time.
    fn product(&mut self) -> Option<[f64; 2]> {
        let ask = self.ask.as_mut()?;
        ask.write_all(b"\n").and_then(|()| ask.flush()).ok()?;
        let line = self.line()?;
        let (wall, cpu) = line.split_once(' ')?;
        Some([wall.parse().ok()?, cpu.parse().ok()?])
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.ask.take());
        // A peer that failed has said why itself.
        let _ = self.child.wait();
    }
}

struct Bench<'a> {
    threads: usize,
    /// The clock is that of each thread.
    by_cpu: bool,
    x: &'a [f64],
    y: Vec<f64>,
    array: &'a [f64],
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
        self.together(parts, |part| part.into_iter().for_each(|(panel, y)| run(panel, y)))
    }

    /// Returns the seconds of running parts concurrently, one of them on this thread.
    fn together<P: Send>(&self, mut parts: Vec<P>, run: impl Fn(P) + Sync) -> f64 {
        let mine = parts.pop().expect("one at least");
        let (begin, run) = (Instant::now(), &run);
        let busy = std::thread::scope(|scope| {
            let start = |part| scope.spawn(move || cpu_seconds(|| run(part)));
            let others: Vec<_> = parts.into_iter().map(start).collect();
            let busy = cpu_seconds(|| run(mine));
            others.into_iter().map(|other| other.join().expect("a part that ends")).fold(busy, f64::max)
        });
        if self.by_cpu { busy } else { begin.elapsed().as_secs_f64() }
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
        let parts = self.array.chunks(self.array.len().div_ceil(self.threads));
        let time = self.together(parts.collect(), sum);
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
            double.block_size(),
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
            let run = |y: &mut [f64]| a.multiply(self.x, y).expect("sizes that fit");
            let time = self.together(vec![&mut y[..]], run);
            ratios.push(time / self.product(best));
        }
        println!("by rows, 1 thread: {:.2} of the best fp64 time", median(ratios));
    }

    /// A peer's product in turn with ours.
    fn beside_peer(&mut self, name: &str, command: Command, sum: f64, best: &TiledMatrix) {
        let left_out = || println!("{name}: left out (it is not there, or finds another product)");
        let Some(mut peer) = Peer::start(command, sum) else { return left_out() };
        let (mut times, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let Some(seconds) = peer.product() else { return left_out() };
            let time = seconds[usize::from(self.by_cpu)];
            times.push(time);
            ratios.push(self.product(best) / time);
        }
        println!("{name}: {:.2} ms; best fp64 takes {:.2} of it", 1e3 * median(times), median(ratios));
    }

    /// Prints the time per vector of a product with several vectors, relative to a product with
    /// one.
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
            matrix.block_size(),
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
            matrix.block_size(),
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
