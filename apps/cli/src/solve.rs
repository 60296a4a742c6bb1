//! `zellige solve`.

mod report;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use zellige_runtime::Runtime;
use zellige_sparse::krylov::{History, Logger, Stop};
use zellige_sparse::system::{self, Answer, Options, System};
use zellige_sparse::{Csr, market, read_vectors, write_vectors_to};
use zellige_tor::pipeline::Observer;

use crate::args::{Rhs, SolveArgs};
use crate::exit::CommandError;
use crate::interrupt;
use crate::out::{self, Target};
use crate::progress::Progress;
use crate::table::{bytes, digits};

/// Solves the system, writes what was asked for, and fails where the answer is not what was asked for.
///
/// # Errors
/// Files that are none, options without meaning together, an output that cannot be written, an answer with too large a residual.
pub fn run(args: &SolveArgs) -> anyhow::Result<()> {
    let targets = Targets::new(args)?;
    let a = market::read(&args.matrix)?.matrix;
    let b = rhs(&args.rhs, a.rows())?;
    let mut x = match &args.x0 {
        Some(path) => read_vectors(path)?,
        None => vec![vec![0.0; a.columns()]; b.len()],
    };
    let mut rt = Runtime::builder();
    if let Some(workers) = args.workers {
        rt = rt.workers(workers.into());
    }
    let rt = rt.build()?;
    let _armed = interrupt::cancels(rt.canceller());
    let watch = Mutex::new(Watch::new((args.max_steps * b.len()) as u64));
    let told = |_: &Vec<f64>| Told { history: History::default(), watch: &watch };
    let mut told: Vec<_> = b.iter().map(told).collect();
    let answers = System::new(&rt, &a, &options(args))?.solve_each(&b, &mut x, &mut told)?;
    let histories = told.into_iter().map(|told| told.history);
    let solved: Vec<Solved> =
        answers.into_iter().zip(histories).map(|(answer, history)| Solved { answer, history }).collect();
    drop(watch);
    targets.write(args, &a, &x, &solved)?;
    if !targets.is_stdout() {
        out::print(&text(&solved))?;
    }
    match solved.iter().position(|solved| !solved.answer.solution.reason.is_converged()) {
        None => Ok(()),
        Some(failed) => {
            let which =
                if solved.len() > 1 { format!("right-hand side {}: ", failed + 1) } else { String::new() };
            Err(CommandError::NotConverged(which + &*advice(args, &solved[failed].answer)).into())
        }
    }
}

/// What was found for one right-hand side.
struct Solved {
    answer: Answer,
    history: History,
}

fn options(args: &SolveArgs) -> Options {
    let absolute = args.abs_tol.map(Stop::Absolute);
    let time = args.max_time.map(|seconds| Stop::After(Duration::from_secs_f64(seconds)));
    let stop = [Stop::RelativeToRhs(args.tol), Stop::Steps(args.max_steps)];
    Options {
        method: args.method,
        preconditioner: args.precond,
        inner: args.inner,
        basis: args.basis,
        scaling: args.scale,
        stop: stop.into_iter().chain(absolute).chain(time).collect(),
        reorder: args.reorder,
        without_constant: args.nullspace.is_some(),
    }
}

fn rhs(from: &Rhs, rows: usize) -> anyhow::Result<Vec<Vec<f64>>> {
    Ok(match from {
        Rhs::Ones => vec![vec![1.0; rows]],
        Rhs::Random(seed) => {
            let mut random = ChaCha8Rng::seed_from_u64(*seed);
            vec![(0..rows).map(|_| random.random_range(-1.0..1.0)).collect()]
        }
        Rhs::File(path) => read_vectors(path)?,
    })
}

/// Everything that is written, checked before anything is computed.
struct Targets {
    answer: Option<Target>,
    json: Option<Target>,
    csv: Option<Target>,
    report: Option<Target>,
}

impl Targets {
    fn new(args: &SolveArgs) -> anyhow::Result<Self> {
        let stream = |option, path: &Option<std::path::PathBuf>| {
            path.as_deref().map(|path| Target::new(option, path)).transpose()
        };
        let file = |option, path: &Option<std::path::PathBuf>| {
            path.as_deref().map(|path| Target::regular(option, path)).transpose()
        };
        Ok(Targets {
            answer: file("--out", &args.out)?,
            json: stream("--json", &args.json)?,
            csv: stream("--csv", &args.csv)?,
            report: file("--report", &args.report)?,
        })
    }

    fn is_stdout(&self) -> bool {
        [&self.json, &self.csv].into_iter().flatten().any(Target::is_stdout)
    }

    fn write(&self, args: &SolveArgs, a: &Csr, x: &[Vec<f64>], solved: &[Solved]) -> anyhow::Result<()> {
        if let (Some(target), Some(name)) = (&self.answer, &args.out) {
            target.write(|to| write_vectors_to(to, name, x).map_err(std::io::Error::other))?;
        }
        if let Some(target) = &self.json {
            let mut figures: Vec<_> = solved.iter().map(|solved| Figures::of(a, solved)).collect();
            match figures.len() {
                1 => target.write_json(&figures.remove(0))?,
                _ => target.write_json(&figures)?,
            }
        }
        if let Some(target) = &self.csv {
            target.write(|to| write_csv(to, solved))?;
        }
        if let Some(target) = &self.report {
            let page = report::page(&args.matrix.display().to_string(), solved);
            target.write(|to| to.write_all(page.as_bytes()))?;
        }
        Ok(())
    }
}

/// A line for each step; for several right-hand sides with their number.
fn write_csv(to: &mut dyn std::io::Write, solved: &[Solved]) -> std::io::Result<()> {
    let several = solved.len() > 1;
    writeln!(to, "{}step,residual", if several { "rhs," } else { "" })?;
    for (k, solved) in solved.iter().enumerate() {
        let rhs = if several { format!("{},", k + 1) } else { String::new() };
        let mut steps = solved.history.steps.iter().enumerate();
        steps.try_for_each(|(step, residual)| writeln!(to, "{rhs}{},{residual:e}", step + 1))?;
    }
    Ok(())
}

/// The JSON.
#[derive(Serialize)]
struct Figures {
    converged: bool,
    reason: &'static str,
    method: String,
    preconditioner: String,
    iterations: usize,
    runs: usize,
    rows: usize,
    elements: usize,
    iterated_residual: f64,
    true_residual: f64,
    rhs: f64,
    backward_error: f64,
    /// The residual that answers in f64 can have.
    attainable_residual: f64,
    seconds: Seconds,
    bytes: Bytes,
    attempts: Vec<Attempt>,
    history: Residuals,
}

#[derive(Serialize)]
struct Seconds {
    setup: f64,
    solve: f64,
    spmv: f64,
}

#[derive(Serialize)]
struct Bytes {
    matrix: u64,
    inner: u64,
    preconditioner: u64,
}

#[derive(Serialize)]
struct Attempt {
    method: String,
    preconditioner: String,
    reason: String,
    iterations: usize,
    true_residual: Option<f64>,
}

#[derive(Serialize)]
struct Residuals {
    /// The method's own, after each step.
    iterated: Vec<f64>,
    /// `[steps, residual]`.
    r#true: Vec<(usize, f64)>,
}

impl Figures {
    fn of(a: &Csr, Solved { answer, history }: &Solved) -> Self {
        let solution = &answer.solution;
        let attempts: Vec<Attempt> = answer.attempts.iter().map(Attempt::of).collect();
        let last = attempts.last();
        Figures {
            converged: solution.reason.is_converged(),
            reason: solution.reason.name(),
            method: last.map(|last| last.method.clone()).unwrap_or_default(),
            preconditioner: last.map(|last| last.preconditioner.clone()).unwrap_or_default(),
            iterations: solution.steps,
            runs: solution.runs,
            rows: a.rows(),
            elements: a.elements(),
            iterated_residual: solution.iterated_residual,
            true_residual: solution.true_residual,
            rhs: solution.rhs,
            backward_error: answer.backward_error,
            attainable_residual: answer.attainable,
            seconds: Seconds {
                setup: answer.setup.as_secs_f64(),
                solve: answer.solve.as_secs_f64(),
                spmv: answer.products.as_secs_f64(),
            },
            bytes: Bytes {
                matrix: answer.bytes.matrix,
                inner: answer.bytes.inner,
                preconditioner: answer.bytes.preconditioner,
            },
            attempts,
            history: Residuals { iterated: history.steps.clone(), r#true: history.checks.clone() },
        }
    }
}

impl Attempt {
    fn of(attempt: &system::Attempt) -> Self {
        let solution = attempt.result.as_ref().ok();
        Attempt {
            method: attempt.method.clone(),
            preconditioner: attempt.preconditioner.to_string(),
            reason: match &attempt.result {
                Ok(solution) => solution.reason.name().to_owned(),
                Err(problem) => problem.clone(),
            },
            iterations: solution.map_or(0, |solution| solution.steps),
            true_residual: solution.map(|solution| solution.true_residual),
        }
    }
}

fn text(solved: &[Solved]) -> String {
    let heading =
        |k: usize| if solved.len() > 1 { format!("right-hand side {}\n", k + 1) } else { String::new() };
    solved.iter().enumerate().map(|(k, solved)| heading(k) + &*text_of(&solved.answer)).collect()
}

fn text_of(answer: &Answer) -> String {
    let mut text = String::new();
    for attempt in answer.attempts.iter().map(Attempt::of) {
        let residual = attempt.true_residual.map(|residual| format!(", true residual {residual:.2e}"));
        text += &format!(
            "{} with {}: {} after {} steps{}\n",
            attempt.method,
            attempt.preconditioner,
            attempt.reason,
            attempt.iterations,
            residual.unwrap_or_default()
        );
    }
    let (solution, stored) = (&answer.solution, &answer.bytes);
    let ratio = solution.true_residual / if solution.rhs > 0.0 { solution.rhs } else { 1.0 };
    text += &format!(
        "residual {ratio:.2e} of the right-hand side, backward error {:.1e}\n\
         {} s to set up, {} s to solve, {} s of it in products\n",
        answer.backward_error,
        digits(answer.setup.as_secs_f64()),
        digits(answer.solve.as_secs_f64()),
        digits(answer.products.as_secs_f64()),
    );
    let narrow =
        if stored.inner > 0 { format!(", {} of its copy", bytes(stored.inner)) } else { String::new() };
    text + &*format!(
        "{} of matrix{narrow}, {} of preconditioner\n",
        bytes(stored.matrix),
        bytes(stored.preconditioner)
    )
}

/// What to do about an answer that is not good enough.
fn advice(args: &SolveArgs, answer: &Answer) -> String {
    let solution = &answer.solution;
    let (ratio, steps) = (solution.true_residual / solution.rhs, solution.steps);
    let floor = answer.attainable / solution.rhs;
    if floor > args.tol {
        return format!(
            "the residual is {ratio:.2e} of the right-hand side after {steps} steps, {:.0e} was asked for: rounding an answer as large as this one to \
             f64 leaves {floor:.1e}, whatever the method; ask for a --tol above that",
            args.tol
        );
    }
    format!(
        "the residual is {ratio:.2e} of the right-hand side after {steps} steps, {:.0e} was asked for ({}): allow more --max-steps, or take \
         another --method, --precond or a more accurate --inner",
        args.tol,
        solution.reason.name(),
    )
}

/// Shows steps, residual and rate on a terminal.
struct Watch {
    progress: Progress,
    steps: u64,
    last: Instant,
    begun: Instant,
}

/// Between two looks at the line.
const REFRESH: Duration = Duration::from_millis(200);

impl Watch {
    fn new(most: u64) -> Self {
        let progress = Progress::new();
        progress.stage("solving", most);
        Watch { progress, steps: 0, last: Instant::now(), begun: Instant::now() }
    }
}

impl Watch {
    fn step(&mut self, residual: f64) {
        self.steps += 1;
        if self.last.elapsed() >= REFRESH {
            self.last = Instant::now();
            let rate = self.steps as f64 / self.begun.elapsed().as_secs_f64();
            self.progress.say(&format!("residual {residual:.2e}, {} steps/s", digits(rate)));
            self.progress.advance(self.steps);
        }
    }
}

/// Keeps the residuals of one right-hand side, and shows those of all.
struct Told<'w> {
    history: History,
    watch: &'w Mutex<Watch>,
}

impl Logger for Told<'_> {
    fn step(&mut self, residual: f64) {
        self.history.step(residual);
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).step(residual);
    }

    fn true_residual(&mut self, steps: usize, residual: f64) {
        self.history.true_residual(steps, residual);
    }
}
