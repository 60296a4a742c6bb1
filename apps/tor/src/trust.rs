//! Exact digits of covariances in `f64`, and of factor and reconstructor in `f32`, by stochastic
//! arithmetic.

use std::sync::Arc;
use std::time::Instant;

use zellige_dense::TileGrid;
use zellige_dense::trust::{Fill, StochasticRun, conclusion, not_definite};
use zellige_runtime::Session;
use zellige_stochastic::{DigitMap, Sample, Samples, Scope, Stochastic, Trust, TrustOptions, WithSamples};

use crate::covariance::{Covariance, Kind, Scalar};
use crate::pipeline::PipelineError;
use crate::system::{Atmosphere, System};
use crate::turbulence::Table;

impl<S: Samples> Scalar for Stochastic<f64, S> {
    type Real = Self;

    fn round(value: Self) -> Self {
        value
    }
}

/// Exact digits of the tiles of `Cmm` and `Ctm` as they are computed in `f64`; of the factor and of
/// the reconstructor of one target in `f32`. Tiles have order `tile`. A small system is enough: the
/// run takes much longer than a plain one.
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
    if target >= system.targets.len() {
        let problem = format!("target {target} of {}", system.targets.len());
        return Err(crate::Error::shape("reconstructor", problem).into());
    }
    options.dispatch(SampledRun { rt, system, atmosphere, target, tile, seed: options.seed })
}

struct SampledRun<'a, P> {
    rt: &'a P,
    system: &'a System,
    atmosphere: &'a Atmosphere,
    target: usize,
    tile: usize,
    seed: u64,
}

impl<P: Session> WithSamples for SampledRun<'_, P> {
    type Output = Result<Trust, PipelineError>;

    fn run<S: Samples>(self) -> Result<Trust, PipelineError> {
        let start = Instant::now();
        let scope = Scope::new(self.seed).on_rank(self.rt.rank());
        // Tasks of replay 0 are those of the run.
        let covariance = scope.repeated(0, 1, || generator::<S>(self.system, self.atmosphere))?;
        let (n, m) = (covariance.measurements(), covariance.truth_slopes());
        let (grid, rows) = (TileGrid::uniform(n, self.tile)?, TileGrid::uniform(m, self.tile)?);
        let run = StochasticRun::new(self.rt, scope);
        let cmm = run.triangle(&grid, &fill(&covariance, Kind::Cmm))?;
        let ctm = run.rectangle(&rows, &grid, &fill(&covariance, Kind::Ctm(self.target)))?;
        let (c, r) = (run.convert(&cmm)?, run.convert(&ctm)?);
        let mut maps = vec![run.norm_digits("Cmm", &cmm)?, run.norm_digits("Ctm", &ctm)?];
        let generated =
            [generation(&maps[0], run.precision(&cmm)?), generation(&maps[1], run.precision(&ctm)?)];
        drop((cmm, ctm));
        let lost = run.cholesky::<f32, S>(&c)?;
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
            conclusions: std::iter::once(text).chain(generated).collect(),
            plain_seconds: None,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

/// The generator with the rounding errors of all that it computes.
fn generator<S: Samples>(
    system: &System,
    atmosphere: &Atmosphere,
) -> Result<Arc<Covariance<Stochastic<f64, S>>>, crate::Error> {
    let table = Arc::new(Table::new());
    Ok(Arc::new(Covariance::with_table(system, atmosphere, &system.targets, table)?))
}

fn fill<S: Samples>(covariance: &Arc<Covariance<Stochastic<f64, S>>>, kind: Kind) -> Fill<f64, S> {
    let covariance = Arc::clone(covariance);
    Arc::new(move |rows, cols, out| {
        let height = rows.len();
        Ok(covariance.fill(kind, rows, cols, out, height)?)
    })
}

/// The digits of a generated matrix, in one sentence. `precision` are those relative to its norm.
fn generation(map: &DigitMap, precision: f64) -> String {
    let (name, all) = (&map.name, map.all);
    let mut text = format!("{} of {all} digits of {name} are exact relative to its norm", precision as u8);
    if let Some((digits, [i, j])) = map.worst() {
        text += &format!(", and {digits} relative to that of the worst tile, ({i}, {j})");
        if digits < <f32 as Sample>::DIGITS as u8 {
            text += ": there its errors exceed those of rounding to fp32";
        }
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use zellige_kernels::RealNumber;
    use zellige_stochastic::{Categories, Eight, Perturbation};

    use super::*;
    use crate::params::{Mode, parse};

    /// Laser and natural stars, offset tables and direct evaluation, and a rotated sensor.
    #[test]
    fn without_perturbation_the_samples_are_plain_covariances() {
        let demo = include_str!("../systems/demo.toml").replace("nssp = 16 ", "nssp = 4 ");
        let mut input = parse(Path::new("system.toml"), &demo, None, Mode::Strict).unwrap();
        for (turn, slopes_turn) in [(0.0, false), (3.0, false), (3.0, true)] {
            let star = &mut input.system.stars[0];
            (star.rotation, star.slopes_turn) = (turn, slopes_turn);
            let plain = Covariance::new(&input.system, &input.atmosphere).unwrap();
            let scope = Scope::with(0, Perturbation::None, Categories::ALL);
            let sampled = scope.run(|| generator::<Eight>(&input.system, &input.atmosphere)).unwrap();
            for kind in [Kind::Cmm, Kind::Ctm(0), Kind::Ctt] {
                let (rows, cols) = plain.shape(kind);
                let mut entries = vec![Stochastic::default(); rows * cols];
                scope.run(|| sampled.fill(kind, 0..rows, 0..cols, &mut entries, rows)).unwrap();
                let wanted = plain.matrix(kind).unwrap();
                for (entry, wanted) in entries.iter().zip(wanted.data()) {
                    let equal = |x: &f64| x.to_bits() == wanted.to_bits();
                    assert!(entry.samples().iter().all(equal), "{kind:?}: {entry:?}, {wanted}");
                }
            }
        }
    }

    #[test]
    fn samples_of_two_pieces_of_the_table() {
        let table = Table::<Stochastic<f64, Eight>>::new();
        let edge = 1.0 + 1.0 / 32.0;
        let lanes: [f64; 8] = std::array::from_fn(|lane| edge * (1.0 + (lane as f64 - 4.0) * f64::EPSILON));
        let g = table.g_of_square(Stochastic::from_samples(&lanes));
        assert!(g.digits() >= 13 && (g.value() - Table::get().g_of_square(edge)).abs() < 1e-14, "{g:?}");
    }
}
