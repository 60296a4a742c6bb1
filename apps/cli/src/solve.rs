//! `zellige solve`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zellige_app::text::digits;
use zellige_files::observe::Observer;
use zellige_solve::files::{write_csv, write_vectors_to};
use zellige_solve::pipeline;
use zellige_solve::pipeline::least_squares::{self, Fitted};
use zellige_solve::pipeline::results::{LeastSquaresResult, RankUse, SolveOutput, SolveResult};
use zellige_solve::report::{self, text};
use zellige_solve::tune::RowAccuracies;
use zellige_sparse::Csr;
use zellige_sparse::files::{self, Vectors};
use zellige_sparse::krylov::Stop;
use zellige_sparse::precondition::{AmgSetup, NearNull};
use zellige_sparse::system::{
    self, KeptSetup, MethodChoice, Options, PreconditionerChoice, ScalingChoice, System,
};

use crate::args::{NearNullSource, OperatorChoice, SolveArgs};
use crate::devices::{self, Needs};
use crate::exit::CommandError;
use crate::processes::Session;
use crate::progress::Progress;
use crate::results::is_stdout;
use crate::run::Setup;
use crate::vectors;

/// Solves the system and writes the requested files. It fails if the residual is above the
/// requested tolerance.
///
/// # Errors
/// Files with other content, invalid combinations of options, an output that cannot be written, a
/// residual above the tolerance.
pub fn run(args: &SolveArgs) -> anyhow::Result<()> {
    // Sparse products use zellige's own kernels and need no library.
    let setup = Setup::on_ranks(&args.execution, &Needs::default(), &args.outputs)?;
    let problem = problem(args)?;
    if args.damping.is_some() || problem.a.rows() != problem.a.columns() {
        return least_squares(args, &problem, setup);
    }
    let LinearSystem { a, b, x0, complex } = problem;
    let systems = b.len().saturating_mul(args.shifts.len().max(1));
    let workers = usize::from(devices::workers(args.execution.workers));
    let most = workers.min(system::parallelism(&a).saturating_mul(systems));
    let run = setup.start_with(|builder| builder.workers(most))?;
    let options = options(args, a.columns())?;
    let (x, solved) = run.work(|progress| {
        let executor = run.session().executor();
        let mut watch = Watch::new(progress, args.max_steps.saturating_mul(systems) as u64);
        let step = move |residual| watch.step(residual);
        let system = System::new(executor, &a, &options)?;
        match args.shifts.is_empty() {
            true => pipeline::solve(&system, &b, x0, step),
            false => pipeline::solve_shifted(&system, &b, &args.shifts, step),
        }
    })?;
    let ranks = rank_uses(run.session())?;
    let Some(finished) = run.finish()? else { return Ok(()) };
    args.write_solution(&x, complex)?;
    let kept = options.kept_setup.as_ref().and_then(KeptSetup::get);
    if let (Some(path), Some(setup)) = (&args.save_setup, kept) {
        setup.write(path)?;
    }
    if let Some(target) = &args.csv {
        target.write(|to| write_csv(to, &solved))?;
    }
    let result = |solved| SolveResult { ranks: ranks.clone(), ..SolveResult::new(&a, complex, solved) };
    let result = |solved| SolveOutput::System(Box::new(result(solved)));
    let results: Vec<_> = solved.iter().map(result).collect();
    let name = args.matrix.display().to_string();
    let page = || Ok(report::of_solved(&name, &solved));
    finished.write(&name, &results, page, |_| args.unless_quiet(|| text::of_solved(&solved)))?;
    fail(text::advice(&options, args.tol, &a, &solved))
}

/// Fails with the advice on a solution that misses its tolerance, if there is one.
fn fail(advice: Option<String>) -> anyhow::Result<()> {
    advice.map_or(Ok(()), |advice| Err(CommandError::NotConverged(advice).into()))
}

/// Gathers the resource use of each rank on the first of several ranks.
fn rank_uses(session: &Session) -> anyhow::Result<Vec<RankUse>> {
    let own = [zellige_files::memory::peak(), session.bytes_sent()];
    let said = session.on_first(own.iter().flat_map(|number| number.to_le_bytes()).collect())?;
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let of = |(rank, said): (usize, &Vec<u8>)| {
        let (peak, sent) = said.split_at(size_of::<u64>().min(said.len()));
        RankUse { rank, peak_memory_bytes: number(peak), sent_bytes: number(sent) }
    };
    let uses = said.iter().enumerate().map(of);
    Ok(if said.len() > 1 { uses.collect() } else { Vec::new() })
}

/// The system to solve. If a part of it is complex, this is the equivalent real system of twice the
/// size.
struct LinearSystem {
    a: Csr,
    b: Vec<Vec<f64>>,
    x0: Option<Vec<Vec<f64>>>,
    complex: bool,
}

fn problem(args: &SolveArgs) -> anyhow::Result<LinearSystem> {
    let files::Matrix { csr: a, complex } = files::read(&args.matrix)?;
    let numbers = |real: usize| if complex { real / 2 } else { real };
    let b = vectors::all(&args.rhs, numbers(a.rows()), complex)?;
    let x0 = args.x0.as_ref().map(|path| files::read_vectors(path, Some(numbers(a.columns()))));
    let x0 = x0.transpose()?;
    let is_real = |vectors: &Vectors| !vectors.complex;
    if !complex && is_real(&b) && x0.as_ref().is_none_or(is_real) {
        return Ok(LinearSystem { a, b: b.columns, x0: x0.map(|x0| x0.columns), complex });
    }
    only_for_real(args)?;
    let a = if complex { a } else { a.as_complex()? };
    Ok(LinearSystem { a, b: b.into_complex(), x0: x0.map(Vectors::into_complex), complex: true })
}

/// Reads the square system that `trust` judges, and its right-hand sides.
///
/// # Errors
/// Files with other content, a matrix that is not square.
pub(crate) fn square(args: &SolveArgs) -> anyhow::Result<(Csr, Vec<Vec<f64>>)> {
    let LinearSystem { a, b, .. } = problem(args)?;
    if a.rows() == a.columns() {
        return Ok((a, b));
    }
    let problem =
        format!("{}: the matrix is not square: least squares are not judged", args.matrix.display());
    Err(CommandError::Argument(problem).into())
}

/// Refuses options that would have another meaning for the real equivalent of a complex system.
fn only_for_real(args: &SolveArgs) -> Result<(), CommandError> {
    let given = [
        ("--nullspace", args.nullspace.is_some()),
        ("--x-for", args.x_for.is_some()),
        ("--near-null", args.near_null.is_some()),
        ("--coordinates", args.coordinates.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(CommandError::option(option, "applies to real systems only; this one is complex"))
        }
    }
}

/// Refuses options that do not apply to least-squares problems.
fn only_for_systems(args: &SolveArgs) -> Result<(), CommandError> {
    let given = [
        ("--method", args.method != MethodChoice::Auto),
        ("--operator", args.operator != OperatorChoice::default()),
        (
            "--precond",
            args.precond != PreconditionerChoice::Auto && args.precond != PreconditionerChoice::None,
        ),
        ("--near-null", args.near_null.is_some()),
        ("--coordinates", args.coordinates.is_some()),
        ("--setup", args.setup.is_some()),
        ("--save-setup", args.save_setup.is_some()),
        ("--scale", args.scale != ScalingChoice::Auto && args.scale != ScalingChoice::None),
        ("--x0", args.x0.is_some()),
        ("--shifts", !args.shifts.is_empty()),
        ("--relax", !args.relax.is_empty()),
        ("--reliable", args.reliable.is_some()),
        ("--nullspace", args.nullspace.is_some()),
        ("--reorder", args.reorder),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            let problem = "does not apply to least squares, which LSMR solves (--damping, or a matrix that is not square)";
            Err(CommandError::option(option, problem))
        }
    }
}

/// Solves a least-squares problem and writes the requested files. It fails if no measure is within
/// the requested tolerance.
fn least_squares(args: &SolveArgs, problem: &LinearSystem, setup: Setup<'_>) -> anyhow::Result<()> {
    only_for_systems(args)?;
    let LinearSystem { a, b, complex, .. } = problem;
    let run = setup.start()?;
    let damping = args.damping.unwrap_or(0.0);
    let options = least_squares::Options {
        damping,
        tolerance: args.tol,
        steps: args.max_steps,
        // A time too long to represent means no limit.
        time: args.max_time.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)),
    };
    let (x, fitted) = run.work(|progress| {
        let mut watch = Watch::new(progress, (args.max_steps * b.len()) as u64);
        let step = move |measure| watch.step(measure);
        least_squares::least_squares(run.session().executor(), a, b, &options, step)
    })?;
    let ranks = rank_uses(run.session())?;
    let Some(finished) = run.finish()? else { return Ok(()) };
    args.write_solution(&x, *complex)?;
    if let Some(target) = &args.csv {
        target.write(|to| write_measures(to, &fitted))?;
    }
    let result = |fitted| LeastSquaresResult {
        ranks: ranks.clone(),
        ..LeastSquaresResult::new(a, *complex, damping, fitted)
    };
    let result = |fitted| SolveOutput::LeastSquares(Box::new(result(fitted)));
    let results: Vec<_> = fitted.iter().map(result).collect();
    let name = args.matrix.display().to_string();
    let page = || Ok(report::of_fitted(&name, a, damping, &fitted));
    finished.write(&name, &results, page, |_| args.unless_quiet(|| text::of_fitted(a, &fitted)))?;
    fail(text::advice_on_fit(&options, &fitted))
}

fn write_measures(to: &mut dyn Write, fitted: &[Fitted]) -> std::io::Result<()> {
    writeln!(to, "rhs,step,measure")?;
    let lines = fitted
        .iter()
        .flat_map(|fitted| fitted.history.steps.iter().enumerate().map(move |line| (fitted.rhs, line)));
    lines.into_iter().try_for_each(|(rhs, (step, measure))| writeln!(to, "{rhs},{},{measure:e}", step + 1))
}

pub(crate) fn options(args: &SolveArgs, columns: usize) -> anyhow::Result<Options> {
    // A time too long to represent means no limit.
    let longest = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let time = args.max_time.map(|seconds| Stop::After(longest(seconds)));
    let stop = [Stop::RelativeToRhs(args.tol), Stop::Steps(args.max_steps)];
    let x_for = args.x_for.as_ref().map(|x| vectors::one("--x-for", x, columns)).transpose()?;
    let (inner, x_for) = match &args.operator {
        OperatorChoice::Copy(inner) => (*inner, x_for),
        OperatorChoice::Map(_) if x_for.is_some() => {
            return Err(CommandError::option("--x-for", "a map of row blocks is for any vector").into());
        }
        OperatorChoice::Map(path) => {
            let rows = RowAccuracies::read(path, columns)?;
            (rows.inner(), Some(rows.weights))
        }
    };
    let setup = args.setup.as_ref().map(|path| AmgSetup::read(path)).transpose()?;
    let kept_setup = args.save_setup.as_ref().map(|_| KeptSetup::default());
    Ok(Options {
        near_null: near_null(args, columns)?,
        method: args.method,
        // Shifted systems are solved without a preconditioner.
        preconditioner: match args.precond {
            PreconditionerChoice::Auto if setup.is_some() || kept_setup.is_some() => {
                PreconditionerChoice::Amg
            }
            PreconditionerChoice::Auto if !args.shifts.is_empty() => PreconditionerChoice::None,
            preconditioner => preconditioner,
        },
        setup: setup.map(Arc::new),
        kept_setup,
        inner,
        x_for,
        basis: args.basis_format,
        relaxed: args.relax.clone(),
        reliable: args.reliable,
        // Shifts are not supported with scaling.
        scaling: match args.scale {
            ScalingChoice::Auto if !args.shifts.is_empty() => ScalingChoice::None,
            scaling => scaling,
        },
        stop: stop.into_iter().chain(time).collect(),
        reorder: args.reorder,
        without_constant: args.nullspace.is_some(),
        ..Options::default()
    })
}

/// Returns the near null space that the options name, for a matrix of `rows` rows.
fn near_null(args: &SolveArgs, rows: usize) -> anyhow::Result<Option<NearNull>> {
    let is_used = matches!(args.precond, PreconditionerChoice::Auto | PreconditionerChoice::Amg);
    let given = [("--near-null", args.near_null.is_some()), ("--coordinates", args.coordinates.is_some())];
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given && !is_used) {
        return Err(CommandError::option(option, "is for amg: name --precond amg").into());
    }
    let real = |option, file: &Path, rows| match files::read_vectors(file, rows)? {
        Vectors { complex: true, .. } => {
            Err(CommandError::option(option, "the file is complex, but real numbers are needed").into())
        }
        vectors => anyhow::Ok(vectors.columns),
    };
    Ok(match (&args.near_null, &args.coordinates) {
        (_, Some(file)) => Some(NearNull::Coordinates(real("--coordinates", file, None)?)),
        (None, None) => None,
        (Some(NearNullSource::Constant), _) => Some(NearNull::Constants),
        (Some(NearNullSource::Search), _) => Some(NearNull::Search),
        (Some(NearNullSource::File(file)), _) => {
            Some(NearNull::Vectors(real("--near-null", file, Some(rows))?))
        }
    })
}

/// Output of the results.
impl SolveArgs {
    /// Writes the solution, if it is requested.
    fn write_solution(&self, x: &[Vec<f64>], complex: bool) -> anyhow::Result<()> {
        match &self.output {
            Some(out) => out.write(|to| write_vectors_to(to, out, x, complex).map_err(std::io::Error::other)),
            None => Ok(()),
        }
    }

    /// Returns a text, or nothing if standard output is the residual history.
    fn unless_quiet(&self, text: impl FnOnce() -> String) -> String {
        if is_stdout(self.csv.as_ref()) { String::new() } else { text() }
    }
}

/// Display of steps, residual and rate on a terminal.
struct Watch<'p> {
    progress: &'p Progress<'p>,
    steps: u64,
    last: Instant,
    begun: Instant,
}

/// Minimum interval between updates of the display.
const REFRESH: Duration = Duration::from_millis(200);

impl<'p> Watch<'p> {
    fn new(progress: &'p Progress<'p>, most: u64) -> Self {
        progress.stage("solving", most);
        Watch { progress, steps: 0, last: Instant::now(), begun: Instant::now() }
    }

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
