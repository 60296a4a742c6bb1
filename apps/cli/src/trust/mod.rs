//! `zellige trust ...`.

mod lqcd;
mod psa;
mod solve;
mod spmv;
mod tor;

use zellige_app::trust::{page, text};
use zellige_stochastic::{Report, Trust, TrustOptions};

use crate::args::{Sampling, TrustLqcd, TrustPsa, TrustTor, TrustVerb};
use crate::exit::CommandError;
use crate::processes::Session;
use crate::run::Run;

/// Runs a verb of `zellige trust`.
///
/// # Errors
/// The errors of the verb without `trust`.
pub fn run(verb: &TrustVerb) -> anyhow::Result<()> {
    match verb {
        TrustVerb::Solve(args) => solve::run(args),
        TrustVerb::Spmv(args) => spmv::run(args),
        TrustVerb::Psa(TrustPsa::Run(args)) => psa::run(args),
        TrustVerb::Lqcd(TrustLqcd::Invert(args)) => lqcd::run(args),
        TrustVerb::Tor(TrustTor::Run(args)) => tor::run(args),
    }
}

fn options(sampling: Sampling) -> TrustOptions {
    TrustOptions { samples: sampling.samples, seed: sampling.seed }
}

/// Merges the instabilities of all ranks on the first one.
fn merged(session: &Session, own: Report) -> anyhow::Result<Report> {
    let reports = session.on_first(serde_json::to_vec(&own)?)?;
    let mut all = Report::default();
    for report in &reports {
        all.merge(&serde_json::from_slice(report)?);
    }
    Ok(all)
}

/// Finishes a run, prints the digits of its results, and writes the requested outputs.
///
/// # Errors
/// An output that cannot be written; a tolerance that was not reached.
fn write(run: Run<'_>, title: &str, trust: &Trust) -> anyhow::Result<()> {
    let Some(finished) = run.finish()? else { return Ok(()) };
    finished.write(title, &[trust], || Ok(page(title, trust)), |colour| text(trust, colour))?;
    match trust.converged {
        Some(false) => {
            let advice = "the tolerance was not reached: use a larger --max-steps or a larger --tol";
            Err(CommandError::NotConverged(advice.to_owned()).into())
        }
        _ => Ok(()),
    }
}
