//! One rule: tiles, factorisation, solve, refinement, backward error.

use super::problem::{Element, OnGpus, Problem};
use super::ranks::{add_counts, lost_pivot, owners};
use super::results::{GemmShare, NotSpd, PrecisionMap};
use super::watch::{Counter, watch};
use super::{Observer, Options, PipelineError};
use crate::Matrix;
use crate::files::RoundedMatrix;
use crate::pipeline::norms::TileNorms;
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;
use zellige_dense::{
    BackwardError, Error as LinalgError, Factorisation, Generator, RectTiled, RefineUntil, Refinement, Rule,
    SharedPolicy, Solution, Submission, SymmetricTiled, backward_error, cholesky_with, generator, refine,
    solve_with, widened,
};
use zellige_kernels::StorageFormat;
use zellige_runtime::{Error as RuntimeError, Session};

/// Results of a rule that survived.
pub(super) struct Solved {
    /// Reconstructors `R` by target; empty except on the first rank.
    pub(super) reconstructors: Vec<Arc<Matrix>>,
    /// The same in few bits, with [`Options::rounding`].
    pub(super) rounded: Vec<Arc<RoundedMatrix>>,
    pub(super) share: GemmShare,
    pub(super) solve_share: GemmShare,
    pub(super) map: PrecisionMap,
    pub(super) refinement: Option<Refinement>,
    /// Backward error; `None` if results are not judged.
    pub(super) error: Option<BackwardError>,
    pub(super) cov_seconds: f64,
    pub(super) factor_seconds: f64,
    pub(super) solve_seconds: f64,
    pub(super) error_seconds: f64,
    /// Bytes of tiles on this rank.
    pub(super) tile_bytes: u64,
    pub(super) norms: Option<TileNorms>,
}

/// Memory that the next rule reuses: allocated tiles, and the data from which GPUs fill them.
#[derive(Default)]
pub(super) struct Workspace {
    gpus: Option<OnGpus>,
    single: Option<SymmetricTiled<f32>>,
    double: Option<SymmetricTiled<f64>>,
}

impl Workspace {
    fn tiles<T: Element, S: Session>(
        &mut self,
        s: &S,
        problem: &Problem,
    ) -> Result<SymmetricTiled<T>, PipelineError> {
        let new = || {
            let tiles = SymmetricTiled::new(s, problem.plan.grid.clone());
            let owner = owners(s.ranks());
            for j in 0..tiles.tiles() {
                (j..tiles.tiles()).try_for_each(|i| s.set_owner(tiles.tile(i, j), owner(i, j)))?;
            }
            Ok(tiles)
        };
        // Exactly one of the two is a matrix of T.
        let place: &mut dyn Any =
            if T::FORMAT == StorageFormat::F64 { &mut self.double } else { &mut self.single };
        match place.downcast_mut::<Option<SymmetricTiled<T>>>() {
            Some(Some(tiles)) => Ok(tiles.clone()),
            Some(place) => Ok(place.insert(new()?).clone()),
            None => new(),
        }
    }
}

/// Runs one rule; `Ok(Err(..))` if it loses positive definiteness.
pub(super) fn run_rule<S: Session>(
    s: &S,
    problem: &Problem,
    rule: &Rule,
    options: &Options,
    workspace: &mut Workspace,
    observer: &dyn Observer,
) -> Result<Result<Solved, NotSpd>, PipelineError> {
    if rule.element() == StorageFormat::F64 {
        run_typed::<f64, S>(s, problem, rule, options, workspace, observer, |_, _, _| Ok(None))
    } else {
        run_typed::<f32, S>(s, problem, rule, options, workspace, observer, |l, policy, x| {
            if options.refine == 0 {
                return Ok(None);
            }
            refined(s, problem, l, policy, x, options.refine, observer).map(Some)
        })
    }
}

type Refined = (RectTiled<f64>, Refinement);

/// A factor and a solution as tiles, with the times of their computation.
pub(super) struct Reconstructed<T: Element> {
    l: SymmetricTiled<T>,
    x: RectTiled<T>,
    pub(super) factor: Factorisation,
    pub(super) solution: Solution,
    solve_policy: SharedPolicy,
    pub(super) cov_seconds: f64,
    pub(super) factor_seconds: f64,
    pub(super) solve_seconds: f64,
    pub(super) norms: Option<TileNorms>,
}

impl<T: Element> Reconstructed<T> {
    /// Collects `R` of each target in float64 on the first rank.
    pub(super) fn reconstructors<S: Session>(
        &self,
        s: &S,
        problem: &Problem,
    ) -> Result<Vec<Arc<Matrix>>, PipelineError> {
        collect(s, problem, &self.x)
    }

    /// Measures the backward error of the factor, against the float64 `Cmm`.
    pub(super) fn backward_error<S: Session>(
        &self,
        s: &S,
        problem: &Problem,
        rule: &Rule,
        observer: &dyn Observer,
    ) -> Result<BackwardError, PipelineError> {
        measured(s, problem, rule, &self.l, observer)
    }
}

/// Runs covariances, factorisation and solve; `Ok(Err(..))` if the rule loses positive
/// definiteness.
pub(super) fn reconstruct<T: Element, S: Session>(
    s: &S,
    problem: &Problem,
    rule: &Rule,
    options: &Options,
    workspace: &mut Workspace,
    observer: &dyn Observer,
) -> Result<Result<Reconstructed<T>, NotSpd>, PipelineError> {
    let policy: SharedPolicy = rule.clone().into();
    let solve_policy = problem.plan.solve_rule.clone().map_or_else(|| Arc::clone(&policy), Into::into);
    let nt = problem.plan.tiles() as u64;

    let start = Instant::now();
    let (l, x) = generate::<T, S>(s, problem, rule, workspace, observer)?;
    let cov_seconds = start.elapsed().as_secs_f64();
    let rt = s.runtime();
    let mut norms = options.keep_norms.then(|| TileNorms::before(rt, rule, &l, &x)).transpose()?;

    let start = Instant::now();
    observer.stage(&format!("{rule}: factorisation"), nt * (nt - 1) * (nt.max(2) - 2) / 6);
    let by_inverses = options.by_inverses && problem.plan.grid.max_width() >= INVERSES_FROM;
    let submission = Submission::default().fuse_updates(options.fuse_updates).by_inverses(by_inverses);
    let factor = cholesky_with(s, &l, &policy, &submission)?;
    let counts = factor.clone();
    let done = move || counts.counts().total();
    let failed = watch(rt, observer, done, || match s.wait_all() {
        Ok(()) => Ok(None),
        Err(RuntimeError::Failed(failure)) => Ok(Some(LinalgError::from(RuntimeError::Failed(failure)))),
        Err(error) => Err(error.into()),
    })?;
    if let Some(error) = failed {
        let Some(lost) = lost_pivot(s, &error)? else {
            return Err(error.into());
        };
        return Ok(Err(NotSpd::new(&lost, rule.suggest_next().map(|r| r.to_string()))));
    }
    add_counts(s, factor.counts())?;
    let factor_seconds = start.elapsed().as_secs_f64();

    let start = Instant::now();
    observer.stage(&format!("{rule}: solve"), problem.rows.tiles() as u64 * nt * (nt - 1));
    let submission = submission.with_inverses_of(&factor);
    let rounding = options.rounding.clone().map(|rounding| rounding.for_matrices_of(problem.m()));
    let submission = rounding.into_iter().fold(submission, Submission::round);
    let solution = solve_with(s, &l, &x, &solve_policy, &submission, |y| match &mut norms {
        Some(norms) => norms.between(rt, &l, y),
        None => Ok(()),
    })?;
    let counts = solution.clone();
    let solved = || {
        let all = s.wait_all();
        solution.wait(rt)?;
        Ok(all?)
    };
    watch(rt, observer, move || counts.counts().total(), solved)?;
    add_counts(s, solution.counts())?;
    let solve_seconds = start.elapsed().as_secs_f64();
    if let Some(norms) = &mut norms {
        norms.after(rt, &x)?;
    }
    Ok(Ok(Reconstructed {
        l,
        x,
        factor,
        solution,
        solve_policy,
        cov_seconds,
        factor_seconds,
        solve_seconds,
        norms,
    }))
}

fn run_typed<T: Element, S: Session>(
    s: &S,
    problem: &Problem,
    rule: &Rule,
    options: &Options,
    workspace: &mut Workspace,
    observer: &dyn Observer,
    refine: impl FnOnce(
        &SymmetricTiled<T>,
        &SharedPolicy,
        &RectTiled<T>,
    ) -> Result<Option<Refined>, PipelineError>,
) -> Result<Result<Solved, NotSpd>, PipelineError> {
    let made = match reconstruct::<T, S>(s, problem, rule, options, workspace, observer)? {
        Ok(made) => made,
        Err(lost) => return Ok(Err(lost)),
    };
    let Reconstructed { l, x, factor, solution, norms, .. } = made;
    let start = Instant::now();
    let improved = refine(&l, &made.solve_policy, &x)?;
    let solve_seconds = made.solve_seconds + start.elapsed().as_secs_f64();

    let of_target = |t: usize, tiles| {
        RoundedMatrix::of_tiles(s.runtime(), tiles, t * problem.m()..(t + 1) * problem.m()).map(Arc::new)
    };
    let of_tiles = |tiles| (0..problem.targets()).map(|t| of_target(t, tiles)).collect::<Result<_, _>>();
    let rounded = solution.rounded().map(of_tiles).transpose()?.unwrap_or_default();
    let (reconstructors, refinement, x_bytes) = match improved {
        Some((wide, made)) => (collect(s, problem, &wide)?, Some(made), wide.bytes(s)?),
        None => (collect(s, problem, &x)?, None, x.bytes(s)?),
    };
    drop(x);
    let tile_bytes = (l.bytes(s)? + x_bytes) as u64;

    let start = Instant::now();
    let measure = || measured(s, problem, rule, &l, observer);
    let error = options.judge.then(measure).transpose()?;
    Ok(Ok(Solved {
        reconstructors,
        rounded,
        share: GemmShare::of(factor.counts()),
        solve_share: GemmShare::of(solution.counts()),
        map: PrecisionMap::of(factor.counts()),
        refinement,
        error,
        cov_seconds: made.cov_seconds,
        factor_seconds: made.factor_seconds,
        solve_seconds,
        error_seconds: start.elapsed().as_secs_f64(),
        tile_bytes,
        norms,
    }))
}

/// Measures the backward error of a factor, against the float64 `Cmm`.
fn measured<T: Element, S: Session>(
    s: &S,
    problem: &Problem,
    rule: &Rule,
    l: &SymmetricTiled<T>,
    observer: &dyn Observer,
) -> Result<BackwardError, PipelineError> {
    let asked = Counter::default();
    let watched = watched(problem.cmm::<f64>(), &asked);
    let nt = problem.plan.tiles() as u64;
    observer.stage(&format!("{rule}: backward error"), nt * (nt + 1) / 2);
    let measure = || Ok(backward_error(s, l, &watched)?);
    watch(s.runtime(), observer, move || asked.get(), measure)
}

fn generate<T: Element, S: Session>(
    s: &S,
    problem: &Problem,
    rule: &Rule,
    workspace: &mut Workspace,
    observer: &dyn Observer,
) -> Result<(SymmetricTiled<T>, RectTiled<T>), PipelineError> {
    let grid = &problem.plan.grid;
    let nt = grid.tiles() as u64;
    let counter = Counter::default();
    observer.stage(&format!("{rule}: covariances"), nt * (nt + 1) / 2 + nt * problem.rows.tiles() as u64);
    let l = workspace.tiles::<T, S>(s, problem)?;
    let rt = s.runtime();
    if workspace.gpus.is_none() && rt.devices().any(|device| device.kind == "cuda") {
        workspace.gpus = Some(OnGpus::new(s, problem));
    }
    let (shared, gpus) = (counter.clone(), workspace.gpus.as_ref().map(|gpus| gpus.counted(&counter)));
    let x = watch(
        rt,
        observer,
        move || shared.get(),
        || {
            l.fill_with(s, &watched(problem.cmm::<T>(), &counter), gpus.as_ref().map(|[cmm, _]| cmm))?;
            let rows = problem.rows.clone();
            let x = RectTiled::new(s, "B", rows, grid.clone());
            let owner = owners(s.ranks());
            for i in 0..x.row_grid().tiles() {
                (0..grid.tiles()).try_for_each(|j| s.set_owner(x.tile(i, j), owner(i, j)))?;
            }
            let ctm = gpus.as_ref().map(|[_, ctm]| ctm).filter(|_| problem.given.is_none());
            x.fill_with(s, &watched(problem.right_hand_side::<T>(), &counter), ctm)?;
            s.wait_all()?;
            Ok(x)
        },
    )?;
    Ok((l, x))
}

/// Wraps a generator to count its calls.
fn watched<T: Element>(fill: Generator<T>, counter: &Counter) -> Generator<T> {
    let counter = counter.clone();
    generator(move |rows, cols, out: &mut [T], ld| {
        fill(rows, cols, out, ld)?;
        counter.bump();
        Ok::<(), zellige_runtime::TaskError>(())
    })
}

fn refined<S: Session>(
    s: &S,
    problem: &Problem,
    l: &SymmetricTiled<f32>,
    policy: &SharedPolicy,
    x: &RectTiled<f32>,
    steps: usize,
    observer: &dyn Observer,
) -> Result<Refined, PipelineError> {
    let blocks = problem.plan.tiles() as u64 * (problem.plan.tiles() as u64 + 1) / 2;
    observer.stage(&format!("refinement, {steps} steps at most"), (steps as u64 + 1) * blocks);
    let (wide, asked) = (widened(s, x)?, Counter::default());
    let (a, b) = (watched(problem.cmm::<f64>(), &asked), problem.right_hand_side::<f64>());
    let until = RefineUntil { steps, tolerance: REFINED };
    let made = watch(
        s.runtime(),
        observer,
        move || asked.get(),
        || {
            let made = refine(s, (l, policy), (&a, &b), &wide, until)?;
            s.wait_all()?;
            Ok(made)
        },
    )?;
    Ok((wide, made))
}

/// Relative residual at which refinement in float64 ends.
const REFINED: f64 = 1e-15;

/// Minimum of the largest tile size for solves with inverses. For smaller tiles, the condition
/// estimate of the inverses takes longer than they save.
const INVERSES_FROM: usize = 512;

/// Collects `R` of each target in float64 on the first rank.
fn collect<T: Element, S: Session>(
    s: &S,
    problem: &Problem,
    x: &RectTiled<T>,
) -> Result<Vec<Arc<Matrix>>, PipelineError> {
    let (m, n) = (problem.m(), problem.n());
    let targets = if s.rank() == 0 { problem.targets() } else { 0 };
    let mut all: Vec<Matrix> = (0..targets).map(|_| Matrix::zeros(m, n)).collect();
    for i in 0..x.row_grid().tiles() {
        let rows = x.row_grid().range(i);
        // Boundaries of targets are boundaries of tiles.
        let (target, first) = (rows.start / m, rows.start % m);
        for j in 0..x.col_grid().tiles() {
            let Some(guard) = s.read_on(0, x.tile(i, j))? else { continue };
            let native = if guard.storage() == T::FORMAT { None } else { guard.to_storage(T::FORMAT) };
            let tile = native.as_ref().unwrap_or(&guard);
            let values = tile.as_slice()?;
            for (column, source) in x.col_grid().range(j).zip(values.chunks_exact(rows.len())) {
                let place = &mut all[target].col_mut(column)[first..first + rows.len()];
                place.iter_mut().zip(source).for_each(|(to, from)| *to = from.to_f64());
            }
        }
    }
    Ok(all.into_iter().map(Arc::new).collect())
}
