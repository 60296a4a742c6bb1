//! Trials of one system: factorisation, solve and judgement in the precisions of a map or a rule.

use super::super::factor::{Workspace, reconstruct};
use super::super::judge::{command_matrix, strehl};
use super::super::norms::TileNorms;
use super::super::problem::Problem;
use super::super::watch::watch;
use super::super::{NotSpd, Observer, Options, PipelineError};
use crate::change::ResidualChange;
use crate::dm::DeformableMirror;
use crate::params::Input;
use crate::{Matrix, image};
use std::sync::Arc;
use zellige_dense::{Factorisation, GemmPrecision, Rule, Solution};
use zellige_runtime::Runtime;
use zellige_tune::{Data, Measures};

/// The systems of the search and of the verification, the latter prepared when a trial needs it.
pub(super) struct Benches<'a> {
    search: Bench<'a>,
    verify: Option<Bench<'a>>,
    verification: Option<&'a Input>,
}

/// A system prepared for trials.
pub(super) struct Bench<'a> {
    rt: &'a Runtime,
    problem: Problem,
    options: Options,
    workspace: Workspace,
    dx: Matrix,
    /// The reconstructor of the reference, and the residuals of changed ones.
    first: Option<(Arc<Matrix>, ResidualChange)>,
    with_error: bool,
    observer: Quiet<'a>,
}

/// A trial that kept positive definiteness.
pub(super) struct Tried {
    pub(super) measures: Measures,
    pub(super) factor: Factorisation,
    pub(super) solution: Solution,
    /// Measured seconds of factorisation and solve.
    pub(super) seconds: f64,
    pub(super) norms: Option<TileNorms>,
}

/// An observer that learns of cancellation only: a search reports its trials.
struct Quiet<'a>(&'a dyn Observer);

impl Observer for Quiet<'_> {
    fn stage(&self, _name: &str, _total: u64) {}

    fn advance(&self, _done: u64) {}

    fn warn(&self, text: &str) {
        self.0.warn(text);
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

impl<'a> Benches<'a> {
    pub(super) fn new(search: Bench<'a>, verification: Option<&'a Input>) -> Benches<'a> {
        Benches { search, verify: None, verification }
    }

    pub(super) fn problem(&self) -> &Problem {
        self.search.problem()
    }

    /// Returns the system of some data.
    pub(super) fn at(&mut self, data: Data) -> Result<&mut Bench<'a>, PipelineError> {
        let Bench { rt, options, with_error, observer, .. } = &self.search;
        match (data, self.verification, &mut self.verify) {
            (Data::Search, _, _) | (_, None, _) => Ok(&mut self.search),
            (_, _, Some(bench)) => Ok(bench),
            (_, Some(input), place) => {
                Ok(place.insert(Bench::new(rt, input, options, *with_error, observer.0)?))
            }
        }
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        rt: &'a Runtime,
        input: &Input,
        options: &Options,
        with_error: bool,
        observer: &'a dyn Observer,
    ) -> Result<Bench<'a>, PipelineError> {
        let problem = Problem::new(input, options)?;
        if problem.targets() != 1 {
            return Err(PipelineError::Options(format!(
                "a search has one target, and the system has {}: choose one (--target X,Y)",
                problem.targets()
            )));
        }
        let observer = Quiet(observer);
        let dx = command_matrix(rt, problem.system(), problem.cov.geometry(), &observer)?;
        let (options, workspace) = (options.clone(), Workspace::default());
        Ok(Bench { rt, problem, options, workspace, dx, first: None, with_error, observer })
    }

    pub(super) fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Runs a map or a rule; `Ok(Err(..))` if it loses positive definiteness. The reference, which
    /// others are compared with, runs first, unless a log has its trial.
    ///
    /// # Errors
    /// A failed task, cancellation.
    pub(super) fn run(&mut self, rule: &Rule) -> Result<Result<Tried, NotSpd>, PipelineError> {
        let is_reference = rule.to_string() == GemmPrecision::Sp.name();
        if self.first.is_none() && !is_reference {
            // Without it, the first that is definite stands in for it.
            let _ = self.run(&Rule::uniform(GemmPrecision::Sp))?;
        }
        let (rt, problem, observer) = (self.rt, &self.problem, &self.observer);
        let made = reconstruct::<f32, _>(rt, problem, rule, &self.options, &mut self.workspace, observer)?;
        let made = match made {
            Ok(made) => made,
            Err(lost) => return Ok(Err(lost)),
        };
        let r = made.reconstructors(rt, problem)?.swap_remove(0);
        if self.first.is_none() {
            let prepared = || {
                let system = problem.system();
                Ok(ResidualChange::new(system, &problem.cov, 0, &self.dx, &r)?)
            };
            self.first = Some((Arc::clone(&r), watch(rt, observer, || 0, prepared)?));
        }
        let Some((first, changes)) = &self.first else { unreachable!("it was just set") };
        let judged = || {
            let (m, n) = (r.rows(), r.cols());
            let change = Matrix::from_fn(m, n, |i, j| r[(i, j)] - first[(i, j)]);
            let changed = changes.of(&change)?;
            let mirror = DeformableMirror::new(problem.system());
            let stationary = image::psf(problem.system(), &mirror, &changed.cvv)?.strehl;
            Ok((changed.exact()?, changed.variance_nm2, stationary))
        };
        let (exact, variance, stationary) = watch(rt, observer, || 0, judged)?;
        let exact = strehl(rt, exact, observer)?;
        let seconds = made.factor_seconds + made.solve_seconds;
        let low = 1.0 - made.factor.counts().share(GemmPrecision::Sp);
        let mut measures = Measures::from([
            ("definite", 1.0),
            ("strehl", exact),
            ("strehl_stationary", stationary),
            ("variance_change_nm2", variance),
            ("seconds", seconds),
            ("low_share", low),
        ]);
        if self.with_error {
            let error = made.backward_error(rt, problem, rule, observer)?;
            measures.insert("backward_error", error.value, 0.0);
        }
        let norms = made.norms.clone();
        Ok(Ok(Tried { measures, factor: made.factor, solution: made.solution, seconds, norms }))
    }

    /// Returns the norms of the tiles in `fp32`.
    pub(super) fn norms(&mut self) -> Result<Option<TileNorms>, PipelineError> {
        self.options.keep_norms = true;
        let tried = self.run(&Rule::uniform(GemmPrecision::Sp));
        self.options.keep_norms = false;
        Ok(tried?.ok().and_then(|tried| tried.norms))
    }
}
