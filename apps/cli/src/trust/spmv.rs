//! `zellige trust spmv`.

use zellige_files::observe::Observer;
use zellige_measure::spmv::{Layout, criterion};
use zellige_solve::trust::{self, ProductStorage};
use zellige_sparse::adaptive::Adaptation;
use zellige_sparse::files;

use super::{options, write};
use crate::args::{RunOutputs, SetChoice, SpmvArgs, Trusted};
use crate::exit::CommandError;
use crate::run::Run;
use crate::vectors;

/// Judges a product.
///
/// # Errors
/// A file that is no matrix, invalid combinations of options, an output that cannot be written.
pub fn run(args: &Trusted<SpmvArgs>) -> anyhow::Result<()> {
    let Trusted { sampling, verb: args } = args;
    let a = files::read_real(&args.matrix)?.without_zeros();
    let x = vectors::one("--x-for", &args.x_for, a.columns())?;
    let SetChoice::Set(set) = *one("--sets", &args.sets)? else {
        return Err(CommandError::option("--sets", "auto and maps are not judged: name a set").into());
    };
    let accuracy = *one("--eps", &args.eps)?;
    let adaptation = Adaptation::of_set(set, criterion(one("--criterion", &args.criterion)?, &x)?, accuracy);
    let storage = match args.layout {
        Layout::Thesis => ProductStorage::Thesis(adaptation),
        Layout::Tiled => ProductStorage::Tiled(1, adaptation),
        Layout::Bsr => ProductStorage::Tiled(a.block_size().max(2), adaptation),
        Layout::Auto => ProductStorage::Tiled(a.block_size(), adaptation),
    };
    let outputs = RunOutputs { json: args.json.clone(), report: args.report.clone(), trace: None };
    let run = Run::on_cpu(args.workers, &outputs)?;
    let trust = run.work(|progress| {
        progress.stage("multiplying", 0);
        trust::spmv(run.runtime(), &a, &x, storage, &options(*sampling))
    })?;
    write(run, &format!("zellige trust spmv {}", args.matrix.display()), &trust)
}

/// Returns the value of an option that takes a list, and one value under `trust`.
fn one<'a, T>(option: &'static str, values: &'a [T]) -> Result<&'a T, CommandError> {
    match values {
        [value] => Ok(value),
        _ => Err(CommandError::option(option, "one product is judged: name one value")),
    }
}
