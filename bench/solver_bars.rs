//! Systems solved to a recomputed residual of 1e-10 by `zellige solve` and by PETSc, in turn:
//! `cargo run --release -p zellige-bench --example solver_bars -- [workers=1,2] [repeats=3]
//! [peer=PROGRAM] [method=M] [precond=P] [inner=I] [of=FOLDER] [SYSTEM...]`, with the words of
//! `zellige solve`. A system is a Matrix Market file, `flow` or `elasticity` (as
//! `zellige matrix generate` makes them), and `:product` after it for `b = A x` with a random `x`
//! instead of ones. The peer is `bench/peers/petsc_ksp.c`, whose first lines list its requirements;
//! `mpirun` starts one process of it per worker.
//!
//! Without systems, `elasticity` and `flow:product` are run. `of=FOLDER` adds those of the five
//! files of the documentation that are in the folder, with the right-hand sides of the
//! documentation.
//!
//! Times are of set-up and solve together: the median and the minimum of wall-clock time, and the
//! minimum of CPU time of all threads or processes. CPU time is the only comparable figure if
//! others use the machine too. It includes busy waiting, so with more than one worker it is no
//! measure. Each method of PETSc that reaches the goal has a row. `ours` runs the method of the
//! row: by default the choice of `zellige solve`.

use std::fmt;
use std::path::Path;
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_measure::{cpu_of_process, median, write_rows, write_vector};
use zellige_runtime::Runtime;
use zellige_sparse::generate::{Elasticity, Flow, elasticity, flow};
use zellige_sparse::system::{Answer, Options, solve};
use zellige_sparse::{Csr, files};

/// Methods and preconditioners of PETSc: for symmetric matrices, and for others.
const SYMMETRIC: [[&str; 2]; 4] = [["cg", "icc"], ["cg", "jacobi"], ["cg", "gamg"], ["gmres", "ilu"]];
const GENERAL: [[&str; 2]; 4] = [["gmres", "ilu"], ["bcgs", "ilu"], ["gmres", "jacobi"], ["bcgs", "jacobi"]];
/// The systems of the documentation.
const FILES: [(&str, &str); 5] =
    [("bcsstk16", ""), ("memplus", ""), ("biot_small", ":product"), ("norne_flow", ""), ("elas3d_small", "")];
/// With a right-hand side of ones no method in `f64` reaches the goal for the flow: its solution is
/// too large.
const GENERATED: [&str; 2] = ["elasticity", "flow:product"];
/// Relative residual at which a system counts as solved.
const GOAL: f64 = 1e-10;
/// A program that takes longer is left alone.
const MOST_SECONDS: &str = "300";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let (mut workers, mut repeats, mut peer, mut systems) = (vec![1, 2], 3, None, Vec::new());
    let mut options = Options::default();
    for arg in std::env::args().skip(1) {
        match arg.split_once('=') {
            Some(("workers", list)) => workers = list.split(',').map(str::parse).collect::<Result<_, _>>()?,
            Some(("repeats", number)) => repeats = number.parse()?,
            Some(("of", folder)) => {
                systems.extend(FILES.map(|(file, rest)| format!("{folder}/{file}.mtx.gz{rest}")));
                systems.extend(GENERATED.map(str::to_owned));
            }
            Some(("peer", program)) => peer = Some(program.to_owned()),
            Some(("method", method)) => options.method = method.parse()?,
            Some(("precond", preconditioner)) => options.preconditioner = preconditioner.parse()?,
            Some(("inner", inner)) => options.inner = inner.parse()?,
            _ => systems.push(arg),
        }
    }
    if systems.is_empty() {
        systems.extend(GENERATED.map(str::to_owned));
    }
    let folder = tempfile::tempdir()?;
    for name in systems {
        let system = System::new(&name, folder.path(), options.clone())?;
        println!("{name}: {} rows, {} nonzeros", system.a.rows(), system.a.nonzeros());
        for &workers in &workers {
            system.compare(workers, repeats, peer.as_deref())?;
        }
    }
    Ok(())
}

struct System<'f> {
    a: Csr,
    b: Vec<f64>,
    folder: &'f Path,
    options: Options,
}

impl<'f> System<'f> {
    fn new(name: &str, folder: &'f Path, options: Options) -> Result<Self, Failure> {
        let (matrix, is_product) = match name.strip_suffix(":product") {
            Some(matrix) => (matrix, true),
            None => (name, false),
        };
        let a = match matrix {
            "flow" => flow(&Flow::default())?,
            "elasticity" => elasticity(&Elasticity::default())?,
            file => files::read_real(Path::new(file))?.without_zeros(),
        };
        let mut b = vec![1.0; a.rows()];
        if is_product {
            let mut random = ChaCha8Rng::seed_from_u64(1);
            let x: Vec<f64> = (0..a.columns()).map(|_| random.random_range(-1.0..1.0)).collect();
            a.multiply(&x, &mut b)?;
        }
        write_rows(&a, &folder.join("rows"))?;
        write_vector(&b, &folder.join("rhs"))?;
        Ok(System { a, b, folder, options })
    }

    fn compare(&self, workers: usize, repeats: usize, peer: Option<&str>) -> Result<(), Failure> {
        let (mut ours, mut theirs) = (Times::default(), Vec::<Peer>::new());
        let mut last = None;
        for _ in 0..repeats {
            let begun = cpu_of_process();
            let answer = self.solve(workers)?;
            ours.add((answer.setup + answer.solve).as_secs_f64(), cpu_of_process() - begun);
            last = Some(answer);
            if let Some(peer) = peer {
                self.round(peer, workers, &mut theirs)?;
            }
        }
        let answer = last.ok_or("no repeats")?;
        let attempt = answer.attempts.last().ok_or("no attempts")?;
        println!(
            "  {workers} workers: {ours}, {} {}, {} steps, residual {:.1e} ({}), set up in {:.3} s",
            attempt.method,
            attempt.preconditioner,
            answer.solution.steps,
            answer.solution.true_residual / answer.solution.rhs,
            answer.solution.reason.name(),
            answer.setup.as_secs_f64()
        );
        for peer in theirs {
            println!("    {}, {} of it ours: {}", peer.times, ours.beside(&peer.times), peer.printed);
        }
        Ok(())
    }

    fn solve(&self, workers: usize) -> Result<Answer, Failure> {
        let rt = Runtime::builder().workers(workers).build()?;
        let mut x = vec![0.0; self.a.rows()];
        Ok(solve(&rt, &self.a, &self.b, &mut x, &self.options, &mut ())?)
    }

    /// Runs what of the peer's methods has not failed yet.
    fn round(&self, program: &str, workers: usize, known: &mut Vec<Peer>) -> Result<(), Failure> {
        if known.is_empty() {
            let all = if self.a.is_symmetric() { SYMMETRIC } else { GENERAL };
            known.extend(all.map(|method| Peer { method, times: Times::default(), printed: String::new() }));
        }
        let block = self.a.block_size().to_string();
        let run = |peer: &mut Peer| -> Result<bool, Failure> {
            let processes = workers.to_string();
            let mut command = Command::new("timeout");
            command.args([MOST_SECONDS, "mpirun", "--allow-run-as-root", "-n", &processes, program]);
            command.args([self.folder.join("rows"), self.folder.join("rhs")]).args(peer.method).arg(&block);
            let printed = String::from_utf8(command.output()?.stdout)?;
            let words: Vec<&str> = printed.split_whitespace().collect();
            let [_, _, _, _, _, setup, solve, residual, _, cpu] = words[..] else {
                println!(
                    "    {:?}: {}",
                    peer.method,
                    if printed.is_empty() { "no answer" } else { &printed }
                );
                return Ok(false);
            };
            peer.times.add(setup.parse::<f64>()? + solve.parse::<f64>()?, cpu.parse()?);
            peer.printed = printed.trim().to_owned();
            let is_solved = residual.parse::<f64>()? <= GOAL;
            if !is_solved {
                println!("    not solved: {}", peer.printed);
            }
            Ok(is_solved)
        };
        let mut failure = Ok(());
        known.retain_mut(|peer| {
            run(peer).unwrap_or_else(|error| {
                failure = Err(error);
                false
            })
        });
        failure
    }
}

/// A method of the peer.
struct Peer {
    method: [&'static str; 2],
    times: Times,
    /// The last line of its output.
    printed: String,
}

/// Times of several runs (s).
#[derive(Default)]
struct Times {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl Times {
    fn add(&mut self, wall: f64, cpu: f64) {
        self.wall.push(wall);
        self.cpu.push(cpu);
    }

    /// The median and the least by the clock on the wall, and the least of CPU time.
    fn figures(&self) -> [f64; 3] {
        let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
        [median(self.wall.iter().copied()), least(&self.wall), least(&self.cpu)]
    }

    /// Formats the figures relative to those of another.
    fn beside(&self, other: &Times) -> String {
        let (own, other) = (self.figures(), other.figures());
        format!("{:.2}/{:.2}/{:.2}", own[0] / other[0], own[1] / other[1], own[2] / other[2])
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, least, cpu] = self.figures();
        write!(f, "{median:.3} s (least {least:.3}, CPU {cpu:.3})")
    }
}
