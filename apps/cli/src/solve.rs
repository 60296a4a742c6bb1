//! `zellige solve`.

use std::io::Write;
use std::time::{Duration, Instant};

use zellige_app::text::{bytes, digits};
use zellige_files::observe::Observer;
use zellige_runtime::Trace;
use zellige_solve::files::{write_csv, write_vectors_to};
use zellige_solve::pipeline::least_squares::{self, Fitted};
use zellige_solve::pipeline::results::{
    Attempt, LeastSquaresResult, RankUse, SolveOutput, SolveResult, Solved,
};
use zellige_solve::{pipeline, report};
use zellige_sparse::Csr;
use zellige_sparse::files::{self, Vectors};
use zellige_sparse::krylov::{Reason, Stop};
use zellige_sparse::system::{
    self, Answer, Inner, MethodChoice, Options, PreconditionerChoice, ScalingChoice, System,
};

use crate::args::SolveArgs;
use crate::devices::{self, Devices, Needs};
use crate::exit::CommandError;
use crate::interrupt;
use crate::processes::{Processes, Session};
use crate::progress::Progress;
use crate::results::is_stdout;
use crate::vectors;

/// Solves the system and writes the requested files. It fails if the residual is above the
/// requested tolerance.
///
/// # Errors
/// Files with other content, invalid combinations of options, an output that cannot be written, a
/// residual above the tolerance.
pub fn run(args: &SolveArgs) -> anyhow::Result<()> {
    let processes = Processes::find()?;
    // Sparse products use zellige's own kernels and need no library.
    let devices = Devices::open(&args.execution, &Needs::default())?;
    let Problem { a, b, x0, complex } = problem(args)?;
    if args.damping.is_some() || a.rows() != a.columns() {
        return least_squares(args, &a, &b, complex, &devices, &processes);
    }
    let parts = system::parallelism(&a).saturating_mul(b.len()).saturating_mul(args.shifts.len().max(1));
    let workers = usize::from(devices::workers(args.execution.workers));
    let builder = devices.runtime(&args.execution).workers(workers.min(parts));
    let session = processes.session(args.outputs.traced(builder))?;
    let rt = session.runtime();
    let _armed = interrupt::cancels(rt.canceller());
    let options = options(args, a.columns())?;
    let system = System::new(session.executor(), &a, &options)?;
    let mut watch = Watch::new((args.max_steps * b.len() * args.shifts.len().max(1)) as u64);
    let step = move |residual| watch.step(residual);
    let (x, solved) = if args.shifts.is_empty() {
        pipeline::solve(&system, &b, x0, step)
    } else {
        pipeline::solve_shifted(&system, &b, &args.shifts, step)
    }?;
    let (ranks, trace) = (rank_uses(&session)?, session.recorded(&args.outputs)?);
    if !processes.is_first() {
        return Ok(());
    }
    devices.done(&args.execution, rt);
    args.write(&a, &x, complex, (&solved, &ranks), trace.as_ref())?;
    match solved.iter().position(|solved| !solved.answer.solution.reason.is_converged()) {
        None => Ok(()),
        Some(failed) => {
            let failed = &solved[failed];
            let which = failed.name(solved.len() > 1).map_or(String::new(), |name| name + ": ");
            Err(CommandError::NotConverged(which + &*advice(args, &a, &failed.answer, failed.shift)).into())
        }
    }
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
struct Problem {
    a: Csr,
    b: Vec<Vec<f64>>,
    x0: Option<Vec<Vec<f64>>>,
    complex: bool,
}

fn problem(args: &SolveArgs) -> anyhow::Result<Problem> {
    let files::Matrix { csr: a, complex } = files::read(&args.matrix)?;
    let numbers = |real: usize| if complex { real / 2 } else { real };
    let b = vectors::all(&args.rhs, numbers(a.rows()), complex)?;
    let x0 = args.x0.as_ref().map(|path| files::read_vectors(path, Some(numbers(a.columns()))));
    let x0 = x0.transpose()?;
    let is_real = |vectors: &Vectors| !vectors.complex;
    if !complex && is_real(&b) && x0.as_ref().is_none_or(is_real) {
        return Ok(Problem { a, b: b.columns, x0: x0.map(|x0| x0.columns), complex });
    }
    only_for_real(args)?;
    let a = if complex { a } else { a.as_complex()? };
    Ok(Problem { a, b: b.into_complex(), x0: x0.map(Vectors::into_complex), complex: true })
}

/// Refuses options that would have another meaning for the real equivalent of a complex system.
fn only_for_real(args: &SolveArgs) -> Result<(), CommandError> {
    let given = [("--nullspace", args.nullspace.is_some()), ("--x-for", args.x_for.is_some())];
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
        ("--operator", args.operator != Inner::default()),
        (
            "--precond",
            args.precond != PreconditionerChoice::Auto && args.precond != PreconditionerChoice::None,
        ),
        ("--scale", args.scale != ScalingChoice::Auto && args.scale != ScalingChoice::None),
        ("--x0", args.x0.is_some()),
        ("--shifts", !args.shifts.is_empty()),
        ("--relax", !args.relax.is_empty()),
        ("--reliable", args.reliable.is_some()),
        ("--abs-tol", args.abs_tol.is_some()),
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
fn least_squares(
    args: &SolveArgs,
    a: &Csr,
    b: &[Vec<f64>],
    complex: bool,
    devices: &Devices,
    processes: &Processes,
) -> anyhow::Result<()> {
    only_for_systems(args)?;
    let session = processes.session(args.outputs.traced(devices.runtime(&args.execution)))?;
    let rt = session.runtime();
    let _armed = interrupt::cancels(rt.canceller());
    let damping = args.damping.unwrap_or(0.0);
    let options = least_squares::Options {
        damping,
        tolerance: args.tol,
        steps: args.max_steps,
        // A time too long to represent means no limit.
        time: args.max_time.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)),
    };
    let mut watch = Watch::new((args.max_steps * b.len()) as u64);
    let (x, fitted) =
        least_squares::least_squares(session.executor(), a, b, &options, move |measure| watch.step(measure))?;
    let (ranks, trace) = (rank_uses(&session)?, session.recorded(&args.outputs)?);
    if !processes.is_first() {
        return Ok(());
    }
    devices.done(&args.execution, rt);
    if let Some(out) = &args.output {
        out.write(|to| write_vectors_to(to, out, &x, complex).map_err(std::io::Error::other))?;
    }
    if let Some(target) = &args.csv {
        target.write(|to| write_measures(to, &fitted))?;
    }
    let result = |fitted| LeastSquaresResult {
        ranks: ranks.clone(),
        ..LeastSquaresResult::new(a, complex, damping, fitted)
    };
    let result = |fitted| SolveOutput::LeastSquares(Box::new(result(fitted)));
    let results: Vec<_> = fitted.iter().map(result).collect();
    let name = args.matrix.display().to_string();
    let quiet = is_stdout(args.csv.as_ref());
    let text =
        || if quiet { String::new() } else { fitted.iter().map(|fitted| text_of_fit(a, fitted)).collect() };
    args.outputs.write(
        &name,
        trace.as_ref(),
        &results,
        || Ok(report::of_fitted(&name, a, damping, &fitted)),
        text,
    )?;
    match fitted.iter().find(|fitted| !fitted.solution.reason.is_converged()) {
        None => Ok(()),
        Some(failed) => Err(CommandError::NotConverged(format!(
            "right-hand side {}: neither measure is within {:.0e} after {} steps (the smaller is {:.1e}): use a larger --max-steps, or --damping",
            failed.rhs, args.tol, failed.solution.steps, failed.solution.iterated
        ))
        .into()),
    }
}

fn write_measures(to: &mut dyn Write, fitted: &[Fitted]) -> std::io::Result<()> {
    writeln!(to, "rhs,step,measure")?;
    let lines = fitted
        .iter()
        .flat_map(|fitted| fitted.history.steps.iter().enumerate().map(move |line| (fitted.rhs, line)));
    lines.into_iter().try_for_each(|(rhs, (step, measure))| writeln!(to, "{rhs},{},{measure:e}", step + 1))
}

fn text_of_fit(a: &Csr, fitted: &Fitted) -> String {
    let solution = &fitted.solution;
    format!(
        "least squares, {} rows and {} columns: lsmr {} after {} steps\n\
         residual {:.6e} (right-hand side {:.6e}), gradient {:.1e} of |A| |r|, answer {:.6e}\n\
         {} s to set up, {} s to solve; {} of matrix and transpose\n",
        a.rows(),
        a.columns(),
        solution.reason.name(),
        solution.steps,
        solution.residual,
        solution.rhs,
        solution.gradient / (solution.norm * solution.residual).max(f64::MIN_POSITIVE),
        solution.answer,
        digits(fitted.setup.as_secs_f64()),
        digits(fitted.solve.as_secs_f64()),
        bytes(fitted.bytes)
    )
}

fn options(args: &SolveArgs, columns: usize) -> anyhow::Result<Options> {
    let absolute = args.abs_tol.map(Stop::Absolute);
    // A time too long to represent means no limit.
    let longest = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let time = args.max_time.map(|seconds| Stop::After(longest(seconds)));
    let stop = [Stop::RelativeToRhs(args.tol), Stop::Steps(args.max_steps)];
    Ok(Options {
        method: args.method,
        // Shifted systems are solved without a preconditioner.
        preconditioner: match args.precond {
            PreconditionerChoice::Auto if !args.shifts.is_empty() => PreconditionerChoice::None,
            preconditioner => preconditioner,
        },
        inner: args.operator,
        x_for: args.x_for.as_ref().map(|x| vectors::one("--x-for", x, columns)).transpose()?,
        basis: args.basis_format,
        orthogonalisation: args.orthogonalise,
        relaxed: args.relax.clone(),
        reliable: args.reliable,
        // Shifts are not supported with scaling.
        scaling: match args.scale {
            ScalingChoice::Auto if !args.shifts.is_empty() => ScalingChoice::None,
            scaling => scaling,
        },
        stop: stop.into_iter().chain(absolute).chain(time).collect(),
        reorder: args.reorder,
        without_constant: args.nullspace.is_some(),
    })
}

/// Output of the results.
impl SolveArgs {
    fn write(
        &self,
        a: &Csr,
        x: &[Vec<f64>],
        complex: bool,
        (solved, ranks): (&[Solved], &[RankUse]),
        trace: Option<&Trace>,
    ) -> anyhow::Result<()> {
        if let Some(out) = &self.output {
            out.write(|to| write_vectors_to(to, out, x, complex).map_err(std::io::Error::other))?;
        }
        if let Some(target) = &self.csv {
            target.write(|to| write_csv(to, solved))?;
        }
        let result = |solved| SolveResult { ranks: ranks.to_vec(), ..SolveResult::new(a, complex, solved) };
        let result = |solved| SolveOutput::System(Box::new(result(solved)));
        let results: Vec<_> = solved.iter().map(result).collect();
        let name = self.matrix.display().to_string();
        let quiet = is_stdout(self.csv.as_ref());
        let text = || if quiet { String::new() } else { text(solved) };
        self.outputs.write(&name, trace, &results, || Ok(report::of_solved(&name, solved)), text)
    }
}

fn text(solved: &[Solved]) -> String {
    let several = solved.len() > 1;
    let heading = |solved: &Solved| solved.name(several).map_or(String::new(), |name| name + "\n");
    solved.iter().map(|solved| heading(solved) + &*text_of(&solved.answer)).collect()
}

fn text_of(answer: &Answer) -> String {
    let mut text = String::new();
    for attempt in answer.attempts.iter().map(Attempt::new) {
        let scale = if answer.solution.rhs > 0.0 { answer.solution.rhs } else { 1.0 };
        let residual = attempt.true_residual.map(|residual| format!(", residual {:.2e}", residual / scale));
        let reason = match &*attempt.reason {
            "steps" => "not converged",
            "time" => "not converged in time",
            reason => reason,
        };
        text += &format!(
            "{} with {}: {reason} after {} steps{}\n",
            attempt.method,
            attempt.preconditioner,
            attempt.iterations,
            residual.unwrap_or_default()
        );
    }
    if answer.removed > 0.0 {
        text += &format!("constant part of the right-hand side, removed: {:.2e}\n", answer.removed);
    }
    let (solution, stored) = (&answer.solution, &answer.bytes);
    let ratio = solution.true_residual / if solution.rhs > 0.0 { solution.rhs } else { 1.0 };
    text += &format!(
        "relative residual {ratio:.2e}, backward error {:.1e}\n\
         {} s to set up, {} s to solve, {} s of it in products\n",
        answer.backward_error,
        digits(answer.setup.as_secs_f64()),
        digits(answer.solve.as_secs_f64()),
        digits(answer.products.as_secs_f64()),
    );
    let narrow = if stored.inner > 0 {
        format!(", {} of {}", bytes(stored.inner), answer.inner)
    } else {
        String::new()
    };
    text + &*format!(
        "memory: {} of matrix{narrow}, {} of preconditioner, {} of basis, {} in all\n",
        bytes(stored.matrix),
        bytes(stored.preconditioner),
        bytes(stored.basis),
        bytes(stored.total())
    )
}

/// Explains why a solution misses the tolerance, and names a remedy. `shift` is the shift of its
/// system, if there is one.
fn advice(args: &SolveArgs, a: &Csr, answer: &Answer, shift: Option<f64>) -> String {
    let solution = &answer.solution;
    let ratio = solution.true_residual / solution.rhs;
    let remedy = remedy(args, a, answer, shift);
    format!(
        "the relative residual is {ratio:.2e} after {} steps, above the tolerance {:.0e}: {remedy}",
        solution.steps, args.tol
    )
}

fn remedy(args: &SolveArgs, a: &Csr, answer: &Answer, shift: Option<f64>) -> String {
    let solution = &answer.solution;
    if solution.reason == Reason::OutOfRange {
        return "the solution overflows float64, or is so small that subnormal numbers are too coarse; scale the right-hand side, which scales the solution"
            .into();
    }
    if args.nullspace.is_none() && shift.is_none() && system::has_constant_null_space(a) {
        return "every row of the matrix adds up to zero, so that it is singular; use --nullspace constant"
            .into();
    }
    if let Some(shift) = shift.filter(|_| solution.reason == Reason::BrokenDown) {
        return format!(
            "the matrix with the shift {shift} is not positive definite, which --shifts needs; omit this shift, or solve for it alone with another --method"
        );
    }
    if args.method.needs_symmetry() && !a.is_symmetric() {
        return "the matrix is not symmetric, but this --method is for symmetric (or Hermitian) ones; use auto, bicgstab or gmres"
            .into();
    }
    let is_singular =
        |attempt: &system::Attempt| attempt.result.as_ref().is_err_and(|why| why.contains("singular"));
    if answer.attempts.iter().any(is_singular) {
        return "the matrix is singular, and the right-hand side is not in its range; least squares (--damping 0) minimises the residual"
            .into();
    }
    let needs_definite = matches!(args.method, MethodChoice::Cg | MethodChoice::Fcg);
    if needs_definite && solution.reason == Reason::BrokenDown {
        return "the matrix is not positive definite, or its preconditioner is not, which this --method needs; use auto or minres"
            .into();
    }
    let floor = answer.attainable / solution.rhs;
    if floor > args.tol {
        return format!(
            "rounding the solution to float64 alone leaves a residual of {floor:.1e}; use a larger --tol"
        );
    }
    match solution.reason {
        Reason::Steps => {
            "use a larger --max-steps, another --method or --precond, or a more accurate --operator".into()
        }
        Reason::Time => "use a larger --max-time, or another --method or --precond".into(),
        reason => format!(
            "{}; more steps do not help: use another --method or --precond, or a more accurate --operator",
            reason.name()
        ),
    }
}

/// Display of steps, residual and rate on a terminal.
struct Watch {
    progress: Progress<'static>,
    steps: u64,
    last: Instant,
    begun: Instant,
}

/// Minimum interval between updates of the display.
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
