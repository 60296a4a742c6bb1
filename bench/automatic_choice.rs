//! Compares the automatic choice of a method and a preconditioner with every candidate that it
//! chooses from: `cargo run --release -p zellige-bench --example automatic_choice -- [workers=1,2]
//! [repeats=5] [NAME...]`.
//!
//! Twelve generated matrices, each with `b = A x` for a random `x`, to a residual of 1e-10. Times
//! are CPU times of the process for setting up and solving, all trials of the automatic choice
//! included: medians of the repeats. `ratio` is a time relative to the fastest candidate. A
//! candidate that takes 1.5 times as long as the fastest in the first round is measured once; one
//! that takes three times as long as the automatic choice, or 20 s longer, is stopped. Complete
//! factors, which cannot be stopped, are left out above 30 000 rows: they take minutes.

use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_measure::{cpu_of_process, median};
use zellige_runtime::Runtime;
use zellige_sparse::generate::{
    Biot, Elasticity, Elements, Flow, Stokes, Transport, biot, elasticity, flow, stokes, transport,
};
use zellige_sparse::krylov::Stop;
use zellige_sparse::system::{MethodChoice, Options, PreconditionerChoice, candidates, solve};
use zellige_sparse::{Csr, Error};

type Failure = Box<dyn std::error::Error>;
type Choice = (MethodChoice, PreconditionerChoice);
type Make = fn() -> Result<Csr, Error>;

/// The matrices, from the small to the large of each kind.
const MATRICES: [(&str, Make); 12] = [
    ("elasticity-47", || elasticity(&Elasticity::default())),
    ("elasticity-30", || elasticity(&Elasticity { elements: Elements([30; 3]), ..Elasticity::default() })),
    ("elasticity-30-rough", || elasticity(&Elasticity { elements: Elements([30; 3]), spread: 1.0, seed: 2 })),
    ("elasticity-16", || elasticity(&Elasticity { elements: Elements([16; 3]), ..Elasticity::default() })),
    ("flow-64", || flow(&Flow { cells: [64; 3], ..Flow::default() })),
    ("flow-48-smooth", || flow(&Flow { cells: [48; 3], spread: 0.3, seed: 1 })),
    ("flow-30", || flow(&Flow { cells: [30; 3], ..Flow::default() })),
    ("transport", || transport(&Transport::default())),
    ("transport-40-slow", || {
        let flow = Flow { cells: [40; 3], spread: 1.0, seed: 2 };
        transport(&Transport { flow, stream: 0.3, step: 100.0 })
    }),
    ("biot", || biot(&Biot::default())),
    ("biot-14-late", || biot(&Biot { elements: Elements([14; 3]), step: 1e6, ..Biot::default() })),
    ("stokes-14", || stokes(&Stokes { elements: Elements([14; 3]), ..Stokes::default() })),
];

fn main() -> Result<(), Failure> {
    let (mut workers, mut repeats, mut names) = (vec![1, 2], 5, Vec::new());
    for arg in std::env::args().skip(1) {
        match arg.split_once('=') {
            Some(("workers", list)) => workers = list.split(',').map(str::parse).collect::<Result<_, _>>()?,
            Some(("repeats", number)) => repeats = number.parse()?,
            _ => names.push(arg),
        }
    }
    for (name, make) in
        MATRICES.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|n| n == name))
    {
        let system = System::new(make()?)?;
        println!("{name}: {} rows, {} nonzeros", system.a.rows(), system.a.nonzeros());
        for &workers in &workers {
            system.compare(workers, repeats)?;
        }
    }
    Ok(())
}

struct System {
    a: Csr,
    b: Vec<f64>,
}

/// CPU times of the runs that solved the system (s), and the description of the last run.
#[derive(Default)]
struct Times {
    cpu: Vec<f64>,
    text: String,
}

impl System {
    fn new(a: Csr) -> Result<Self, Failure> {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let x: Vec<f64> = (0..a.columns()).map(|_| random.random_range(-1.0..1.0)).collect();
        let mut b = vec![0.0; a.rows()];
        a.multiply(&x, &mut b)?;
        Ok(System { a, b })
    }

    fn compare(&self, workers: usize, repeats: usize) -> Result<(), Failure> {
        let auto = (MethodChoice::Auto, PreconditionerChoice::Auto);
        let may_factor = self.a.rows() <= 30_000;
        let is_measured = |choice: &Choice| may_factor || choice.1 != PreconditionerChoice::Lu;
        let candidates = candidates(&self.a, &Options::default()).into_iter().filter(is_measured);
        let mut rows: Vec<(Choice, Times)> =
            std::iter::once(auto).chain(candidates).map(|choice| (choice, Times::default())).collect();
        let mut limit = None;
        for round in 0..repeats {
            let fastest = rows[1..]
                .iter()
                .flat_map(|(_, times)| times.cpu.first())
                .copied()
                .fold(f64::INFINITY, f64::min);
            for (choice, times) in &mut rows {
                let is_close = times.cpu.first().is_some_and(|&cpu| cpu <= 1.5 * fastest);
                if round == 0 || *choice == auto || is_close {
                    let begun = Instant::now();
                    self.run(*choice, workers, limit, times)?;
                    let elapsed = begun.elapsed();
                    limit.get_or_insert(elapsed + (2 * elapsed).min(Duration::from_secs(20)));
                }
            }
        }
        let figure = |times: &Times| match times.cpu.is_empty() {
            true => f64::INFINITY,
            false => median(times.cpu.iter().copied()),
        };
        let best = rows[1..].iter().map(|(_, times)| figure(times)).fold(f64::INFINITY, f64::min);
        for (choice, times) in &rows {
            let (name, cpu) = (if *choice == auto { "auto" } else { "" }, figure(times));
            let (ratio, text) = (cpu / best, &times.text);
            println!("  {workers} workers {name:>4} {cpu:8.3} s  ratio {ratio:5.2}  {text}");
        }
        Ok(())
    }

    fn run(
        &self,
        (method, preconditioner): Choice,
        workers: usize,
        limit: Option<Duration>,
        times: &mut Times,
    ) -> Result<(), Failure> {
        let mut options = Options { method, preconditioner, ..Options::default() };
        options.stop.extend(limit.filter(|_| method != MethodChoice::Auto).map(Stop::After));
        let rt = Runtime::builder().workers(workers).build()?;
        let mut x = vec![0.0; self.a.rows()];
        let begun = cpu_of_process();
        match solve(&rt, &self.a, &self.b, &mut x, &options, &mut ()) {
            Err(error) => times.text = error.to_string(),
            Ok(answer) => {
                if answer.solution.reason.is_converged() {
                    times.cpu.push(cpu_of_process() - begun);
                }
                let attempts: Vec<String> = answer
                    .attempts
                    .iter()
                    .map(|attempt| {
                        let steps = attempt.result.as_ref().map_or(0, |found| found.steps);
                        format!("{} {} {steps}", attempt.method, attempt.preconditioner)
                    })
                    .collect();
                times.text = format!("{}: {}", answer.solution.reason.name(), attempts.join(", "));
            }
        }
        Ok(())
    }
}
