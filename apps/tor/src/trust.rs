//! Exact digits of covariances, factor and reconstructor in `f32`, by stochastic arithmetic.

use std::sync::Arc;
use std::time::Instant;

use zellige_dense::TileGrid;
use zellige_dense::trust::{Fill, StochasticRun, conclusion, not_definite};
use zellige_runtime::Session;
use zellige_stochastic::{Samples, Scope, Stochastic, Trust, TrustOptions, WithSamples};

use crate::covariance::{Covariance, Kind, Scalar};
use crate::pipeline::PipelineError;
use crate::system::{Atmosphere, System};

/// Covariances are computed in float64, as for plain entries; the rounding to `f32` is random.
impl<S: Samples> Scalar for Stochastic<f32, S> {
    fn from_f64(value: f64) -> Self {
        Stochastic::<f64, S>::new(value).convert()
    }
}

/// Exact digits of the tiles of `Cmm`, of its factor, and of the reconstructor of one target, all
/// in `f32`, with tiles of order `tile`. A small system is enough: the run takes much longer than
/// a plain one.
///
/// # Errors
/// The system, the target or the tile is invalid, or a task failed. A pivot whose sign is not known
/// is no error: the conclusions name it. On several ranks, each has the instabilities that it
/// counted, and all else is the same.
pub fn run<P: Session>(
    rt: &P,
    (system, atmosphere): (&System, &Atmosphere),
    target: usize,
    tile: usize,
    options: &TrustOptions,
) -> Result<Trust, PipelineError> {
    let covariance = Arc::new(Covariance::new(system, atmosphere)?);
    if target >= covariance.targets() {
        let problem = format!("target {target} of {}", covariance.targets());
        return Err(crate::Error::shape("reconstructor", problem).into());
    }
    options.dispatch(SampledRun { rt, covariance, target, tile, seed: options.seed })
}

struct SampledRun<'a, P> {
    rt: &'a P,
    covariance: Arc<Covariance>,
    target: usize,
    tile: usize,
    seed: u64,
}

impl<P: Session> WithSamples for SampledRun<'_, P> {
    type Output = Result<Trust, PipelineError>;

    fn run<S: Samples>(self) -> Result<Trust, PipelineError> {
        let start = Instant::now();
        let (n, m) = (self.covariance.measurements(), self.covariance.truth_slopes());
        let (grid, rows) = (TileGrid::uniform(n, self.tile)?, TileGrid::uniform(m, self.tile)?);
        let run = StochasticRun::new(self.rt, Scope::new(self.seed).on_rank(self.rt.rank()));
        let c = run.triangle(&grid, &self.fill::<S>(Kind::Cmm))?;
        let r = run.rectangle(&rows, &grid, &self.fill::<S>(Kind::Ctm(self.target)))?;
        let mut maps = vec![run.digits("Cmm", &c)?, run.digits("Ctm", &r)?];
        let lost = run.cholesky(&c)?;
        run.solve(&c, &r)?;
        let (pivots, reconstructor) = (run.pivots(&c)?, run.digits("R", &r)?);
        let text = match &lost {
            Some(lost) => not_definite(lost, u32::from(pivots.all)),
            None => conclusion(&reconstructor, run.precision(&r)?, &pivots),
        };
        maps.extend([run.digits("L", &c)?, pivots, reconstructor]);
        Ok(Trust {
            samples: S::COUNT,
            seed: self.seed,
            maps,
            converged: None,
            instabilities: run.report(),
            conclusions: vec![text],
            plain_seconds: None,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

impl<P> SampledRun<'_, P> {
    fn fill<S: Samples>(&self, kind: Kind) -> Fill<f32, S> {
        let covariance = Arc::clone(&self.covariance);
        Arc::new(move |rows, cols, out| {
            let height = rows.len();
            Ok(covariance.fill(kind, rows, cols, out, height)?)
        })
    }
}
