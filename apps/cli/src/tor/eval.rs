//! `zellige tor eval`.

use std::path::Path;

use zellige_tor::pipeline::{self, Foreign, Options};
use zellige_tor::report::text;

use super::files;
use crate::args::EvalArgs;
use crate::devices::Needs;
use crate::results::page_of;
use crate::run::Setup;

/// Judges a reconstructor from a file.
///
/// # Errors
/// Files that cannot be read or do not fit the system.
pub fn eval(args: &EvalArgs) -> anyhow::Result<()> {
    let setup = Setup::new(&args.execution, &Needs::default(), &args.outputs)?;
    let input = super::read(&args.system)?;
    let foreign = Foreign {
        reconstructor: args.rec.to_path_buf(),
        command_matrix: args.dm.as_deref().map(Path::to_path_buf),
        order: args.slope_order.map(files::order),
    };
    let run = setup.start()?;
    super::announce_judgement(&input, 1, run.runtime(), "")?;
    let judgement = run.work(|progress| {
        pipeline::evaluate(run.runtime(), &input, &Options::default(), &foreign, progress)
    })?;
    let title = format!("Reconstructor {}", judgement.reconstructor.display());
    let results = [&judgement];
    let text = |colours| text::of_judgement(&judgement, colours);
    run.write(&title, &results, || page_of(&title, &results), text)
}
