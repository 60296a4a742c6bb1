//! `zellige tune spmv`.

use zellige_solve::tune::spmv;
use zellige_sparse::files;
use zellige_tune::{Acceptance, Trials};

use super::{Tuning, check};
use crate::args::{TuneSpmv, VectorSource};
use crate::run::Run;
use crate::vectors;

/// Vector of the verification.
const VERIFY: VectorSource = VectorSource::Random(1);

/// Tunes the accuracies of the row blocks of a product.
///
/// # Errors
/// A file that is no matrix, and the errors of [`super::run`].
pub fn run(args: &TuneSpmv) -> anyhow::Result<()> {
    check(&args.search, &args.cost, &spmv::MEASURES)?;
    let a = files::read_real(&args.matrix)?.without_zeros();
    let x = vectors::one("--x-for", &args.x_for, a.columns())?;
    let other = vectors::one("--verify", &VERIFY, a.columns())?;
    let run = Run::on_cpu(Some(1), &args.outputs)?;
    let products =
        spmv::ProductTuning::new(&a, args.set, [&x, &other], args.blocks.into(), args.repeats.into())?;
    let tuning = Tuning {
        space: products.space(),
        accept: &Acceptance::parse(&spmv::accept(args.eps))?,
        unit: args.cost.text(),
        cost: &|_, measures| args.cost.value(measures),
        subject: format!("spmv {} {} {:?} {}", args.matrix.display(), args.set, args.x_for, args.blocks),
        verify: args.verify,
    };
    let trials = Trials::in_turn(|formats, data| products.trial(formats, data));
    let outcome = tuning.search(&run, &args.search, trials)?;
    let matrix = args.matrix.display();
    let file = args.search.output.as_ref().filter(|output| !output.is_stdout());
    let repeat = file
        .map(|file| format!("zellige spmv {matrix} --sets map:{} --x-for {}", file.display(), args.x_for));
    tuning.write(run, &args.search, &format!("zellige tune spmv {matrix}"), outcome, repeat)
}
