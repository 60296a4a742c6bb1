//! Systems solved to a true residual of 1e-10 by `zellige solve` and by PETSc, in turn:
//! `cargo run --release -p zellige-bench --example solver_bars -- [workers=1,2] [repeats=3] [peer=PROGRAM] [method=M] [precond=P] [inner=I] SYSTEM...`,
//! with the words of `zellige solve`. A system is a Matrix Market file, `flow` or `elasticity` (as `zellige matrix generate` makes them), and
//! `:product` after it for `b = A x` with a random `x` instead of ones. The peer is `bench/peers/petsc_ksp.c`, whose first lines say what it needs;
//! `mpirun` starts as many processes of it as there are workers.
//!
//! Times are medians of setting up and solving together. Each method of PETSc that reaches the goal has a row.

use std::path::Path;
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_bench::{median, write_rows, write_vector};
use zellige_runtime::Runtime;
use zellige_sparse::generate::{Elasticity, Flow, elasticity, flow};
use zellige_sparse::system::{Answer, Options, solve};
use zellige_sparse::{Csr, market};

/// Methods and preconditioners of PETSc: for symmetric matrices, and for others.
const SYMMETRIC: [[&str; 2]; 4] = [["cg", "icc"], ["cg", "jacobi"], ["cg", "gamg"], ["gmres", "ilu"]];
const GENERAL: [[&str; 2]; 4] = [["gmres", "ilu"], ["bcgs", "ilu"], ["gmres", "jacobi"], ["bcgs", "jacobi"]];
/// What counts as solved.
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
            Some(("peer", program)) => peer = Some(program.to_owned()),
            Some(("method", method)) => options.method = method.parse()?,
            Some(("precond", preconditioner)) => options.preconditioner = preconditioner.parse()?,
            Some(("inner", inner)) => options.inner = inner.parse()?,
            _ => systems.push(arg),
        }
    }
    let folder = tempfile::tempdir()?;
    for name in systems {
        let system = System::new(&name, folder.path(), options.clone())?;
        println!("{name}: {} rows, {} elements", system.a.rows(), system.a.elements());
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
            file => market::read(Path::new(file))?.matrix.without_zeros(),
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
        let (mut ours, mut theirs) = (Vec::new(), Vec::<Peer>::new());
        let mut last = None;
        for _ in 0..repeats {
            let answer = self.solve(workers)?;
            ours.push((answer.setup + answer.solve).as_secs_f64());
            last = Some(answer);
            if let Some(peer) = peer {
                self.round(peer, workers, &mut theirs)?;
            }
        }
        let answer = last.ok_or("no repeats")?;
        let own = median(ours);
        let attempt = answer.attempts.last().ok_or("no attempts")?;
        println!(
            "  {workers} workers: {own:.3} s, {} {}, {} steps, residual {:.1e} ({})",
            attempt.method,
            attempt.preconditioner,
            answer.solution.steps,
            answer.solution.true_residual / answer.solution.rhs,
            answer.solution.reason.name()
        );
        for peer in theirs {
            let seconds = median(peer.seconds);
            println!("    {seconds:.3} s, {:.2} of it ours: {}", own / seconds, peer.told);
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
            known.extend(all.map(|method| Peer { method, seconds: Vec::new(), told: String::new() }));
        }
        let block = zellige_sparse::krylov::best_edge(&self.a).to_string();
        let run = |peer: &mut Peer| -> Result<bool, Failure> {
            let processes = workers.to_string();
            let mut command = Command::new("timeout");
            command.args([MOST_SECONDS, "mpirun", "--allow-run-as-root", "-n", &processes, program]);
            command.args([self.folder.join("rows"), self.folder.join("rhs")]).args(peer.method).arg(&block);
            let told = String::from_utf8(command.output()?.stdout)?;
            let words: Vec<&str> = told.split_whitespace().collect();
            let [_, _, _, _, _, setup, solve, residual, _] = words[..] else {
                println!("    {:?}: {}", peer.method, if told.is_empty() { "no answer" } else { &told });
                return Ok(false);
            };
            peer.seconds.push(setup.parse::<f64>()? + solve.parse::<f64>()?);
            peer.told = told.trim().to_owned();
            let is_solved = residual.parse::<f64>()? <= GOAL;
            if !is_solved {
                println!("    not solved: {}", peer.told);
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
    seconds: Vec<f64>,
    /// The last line that it printed.
    told: String,
}
