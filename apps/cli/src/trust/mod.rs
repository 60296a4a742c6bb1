//! `zellige trust ...`.

mod psa;

use zellige_app::trust::{page, text};
use zellige_stochastic::{Trust, TrustOptions};

use crate::args::{Sampling, TrustPsa, TrustVerb};
use crate::run::Run;

/// Runs a verb of `zellige trust`.
///
/// # Errors
/// The errors of the verb without `trust`.
pub fn run(verb: &TrustVerb) -> anyhow::Result<()> {
    match verb {
        TrustVerb::Psa(TrustPsa::Run(args)) => psa::run(args),
    }
}

fn options(sampling: Sampling) -> TrustOptions {
    TrustOptions { samples: sampling.samples, seed: sampling.seed }
}

/// Finishes a run, prints the digits of its results, and writes the requested outputs.
fn write(run: Run<'_>, title: &str, trust: &Trust) -> anyhow::Result<()> {
    run.write(title, &[trust], || Ok(page(title, trust)), |colour| text(trust, colour))
}
