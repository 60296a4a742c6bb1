//! rayon: CPU time of one empty task. Usage: `peer_rayon_tasks [workers] [tasks]`.
//!
//! The submitting thread is one of the workers. `independent` spawns from one thread into a scope;
//! in `chain` each task spawns the next. rayon has no data dependencies: for `graph3` and
//! `cholesky_empty` the edges are derived here from the accesses (last writer, readers since), and
//! a task that reduces a successor's count to zero spawns it. The time covers building and one run.
//! `replay` is a second run of the graph of `graph3`.

mod clock;

use clock::Stamp;
use rayon::Scope;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Tiles per side of `cholesky_empty`.
const SIDE: usize = 64;

struct Node {
    predecessors: u32,
    /// Predecessors that have not finished in this run.
    waiting: AtomicU32,
    successors: Vec<u32>,
}

#[derive(Default, Clone)]
struct Datum {
    writer: Option<u32>,
    readers: Vec<u32>,
}

/// Tasks and their edges, derived from accesses in the order of the calls.
struct Graph {
    nodes: Vec<Node>,
    data: Vec<Datum>,
}

impl Graph {
    fn new(data: usize, tasks: usize) -> Graph {
        Graph { nodes: Vec::with_capacity(tasks), data: vec![Datum::default(); data] }
    }

    /// A task that reads `reads` and updates `updated`.
    fn task(&mut self, reads: &[usize], updated: usize) {
        let me = self.nodes.len() as u32;
        let mut predecessors = 0;
        let nodes = &mut self.nodes;
        let mut after = |before: u32| {
            if before != me {
                nodes[before as usize].successors.push(me);
                predecessors += 1;
            }
        };
        for &read in reads {
            let datum = &mut self.data[read];
            datum.writer.into_iter().for_each(&mut after);
            datum.readers.push(me);
        }
        let datum = &mut self.data[updated];
        if datum.readers.is_empty() {
            datum.writer.into_iter().for_each(&mut after);
        }
        datum.readers.drain(..).for_each(&mut after);
        datum.writer = Some(me);
        self.nodes.push(Node { predecessors, waiting: AtomicU32::new(0), successors: Vec::new() });
    }

    /// Runs every task once; the number of tasks without successors that ran.
    fn run(&self, pool: &rayon::ThreadPool) -> usize {
        for node in &self.nodes {
            node.waiting.store(node.predecessors, Ordering::Relaxed);
        }
        let leaves = AtomicUsize::new(0);
        pool.scope(|s| {
            for (i, node) in self.nodes.iter().enumerate() {
                if node.predecessors == 0 {
                    let leaves = &leaves;
                    s.spawn(move |s| self.finish(s, i, leaves));
                }
            }
        });
        leaves.load(Ordering::Relaxed)
    }

    /// The body of task `i` (empty, but for the count of tasks without successors) and the release
    /// of its successors.
    fn finish<'s>(&'s self, s: &Scope<'s>, i: usize, leaves: &'s AtomicUsize) {
        let successors = &self.nodes[i].successors;
        if successors.is_empty() {
            leaves.fetch_add(1, Ordering::Relaxed);
        }
        for &next in successors {
            if self.nodes[next as usize].waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
                s.spawn(move |s| self.finish(s, next as usize, leaves));
            }
        }
    }
}

fn independent(pool: &rayon::ThreadPool, tasks: usize) {
    pool.scope(|s| {
        for i in 0..tasks {
            s.spawn(move |_| {
                black_box(i);
            });
        }
    });
}

fn chain(s: &Scope<'_>, left: usize) {
    if black_box(left) > 1 {
        s.spawn(move |s| chain(s, left - 1));
    }
}

fn graph3(tasks: usize) -> Graph {
    let mut graph = Graph::new(1024, tasks);
    for i in 0..tasks {
        graph.task(&[(i / 32) % 32, 32 + i % 32], 64 + i % 960);
    }
    graph
}

fn cholesky() -> Graph {
    let tile = |i: usize, j: usize| i * (i + 1) / 2 + j;
    let mut graph = Graph::new(tile(SIDE, 0), SIDE * (SIDE + 1) * (SIDE + 2) / 6);
    for k in 0..SIDE {
        graph.task(&[], tile(k, k));
        for i in k + 1..SIDE {
            graph.task(&[tile(k, k)], tile(i, k));
        }
        for j in k + 1..SIDE {
            graph.task(&[tile(j, k)], tile(j, j));
            for i in j + 1..SIDE {
                graph.task(&[tile(i, k), tile(j, k)], tile(i, j));
            }
        }
    }
    graph
}

/// The command line: workers and tasks, both at least 1.
fn arguments() -> Option<(usize, usize)> {
    let mut words = std::env::args().skip(1);
    let mut number =
        |default: usize| words.next().map_or(Some(default), |w| w.parse().ok().filter(|&n| n > 0));
    let found = (number(1)?, number(100_000)?);
    words.next().is_none().then_some(found)
}

fn main() -> ExitCode {
    let Some((workers, tasks)) = arguments() else {
        eprintln!("usage: peer_rayon_tasks [workers >= 1] [tasks >= 1]");
        return ExitCode::from(2);
    };
    let pool = match rayon::ThreadPoolBuilder::new().num_threads(workers).build() {
        Ok(pool) => pool,
        Err(error) => {
            eprintln!("rayon does not start with {workers} workers: {error}");
            return ExitCode::FAILURE;
        }
    };
    let report = |case: &str, tasks: usize, from: Stamp| {
        let spent = from.elapsed();
        let us = 1e6 / tasks as f64;
        println!("rayon {case} {workers} {:.4} {:.4}", spent.cpu * us, spent.wall * us);
    };
    for print in [false, true] {
        // The first round warms up.
        let report = |case: &str, tasks: usize, from: Stamp| {
            if print {
                report(case, tasks, from);
            }
        };
        let from = Stamp::now();
        independent(&pool, tasks);
        report("independent", tasks, from);

        let from = Stamp::now();
        pool.scope(|s| chain(s, tasks));
        report("chain", tasks, from);

        let from = Stamp::now();
        let graph = graph3(tasks);
        let leaves = graph.run(&pool);
        report("graph3", tasks, from);

        let from = Stamp::now();
        let again = graph.run(&pool);
        report("replay", tasks, from);
        if again != leaves {
            eprintln!("the second run of the graph ended with {again} leaves, the first with {leaves}");
            return ExitCode::FAILURE;
        }

        let from = Stamp::now();
        let graph = cholesky();
        graph.run(&pool);
        report("cholesky_empty", graph.nodes.len(), from);
    }
    ExitCode::SUCCESS
}
