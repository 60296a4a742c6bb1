//! `zellige trust tor ...`.

use zellige_files::observe::Observer;
use zellige_tor::trust;

use super::{merged, options, write};
use crate::args::{RunArgs, Tile, Trusted};
use crate::devices::Needs;
use crate::processes::Session;
use crate::run::Setup;
use crate::tor::read;

/// Size of tiles without `--tile`.
const TILE: usize = 96;

/// Judges the covariances, the factor and the reconstructor of the first target.
///
/// # Errors
/// Bad parameters, files that cannot be read, tasks that fail, an output that cannot be written.
pub fn run(args: &Trusted<RunArgs>) -> anyhow::Result<()> {
    let Trusted { sampling, verb: args } = args;
    let input = read(&args.system)?;
    let tile = match args.factor.tile {
        Tile::Auto => TILE,
        Tile::Edge(edge) => edge,
    };
    let run = Setup::on_ranks(&args.execution, &Needs::default(), &args.outputs)?.start()?;
    let (given, options) = ((&input.system, &input.atmosphere), options(*sampling));
    let mut trust = run.work(|progress| {
        progress.stage("factorising", 0);
        match run.session() {
            Session::One(runtime) => trust::run(runtime, given, 0, tile, &options),
            #[cfg(feature = "mpi")]
            Session::Rank(cluster) => trust::run(cluster, given, 0, tile, &options),
        }
    })?;
    trust.instabilities = merged(run.session(), trust.instabilities)?;
    write(run, &format!("zellige trust tor run {}", args.system.system.display()), &trust)
}
