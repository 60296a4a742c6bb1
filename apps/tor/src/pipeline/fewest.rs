//! Search for the fewest bits of a reconstructor.

use super::{Options, Outcome, PipelineError, Xray};
use zellige_dense::Rounding;

/// Computes the reconstructors of one rule in the format with the fewest bits in which the exact
/// Strehl ratio of no target is smaller than without rounding by more than `most`. `formats` are in
/// order, the narrowest first; each has to lose at least as much as the next, so that bisection
/// finds it. `run` is [`run`](super::run()) or [`run_with_mirror`](super::run_with_mirror). The
/// outcome of a rule that loses positive definiteness says so.
///
/// # Errors
/// The errors of `run`; [`PipelineError::Options`] for several rules, and if no format is accurate
/// enough.
pub fn with_fewest_bits<E: From<PipelineError>>(
    options: &Options,
    formats: &[Rounding],
    most: f64,
    run: impl Fn(&Options) -> Result<Outcome, E>,
) -> Result<Outcome, E> {
    let refused = |why: String| Err(PipelineError::Options(why).into());
    if options.rules.len() != 1 {
        let rules = options.rules.len();
        return refused(format!("--bits auto is for one precision rule, not {rules}: give one --precision"));
    }
    if options.ranks > 1 {
        return refused("the bits of reconstructors are chosen in a single process: give a number".into());
    }
    let judged = |rounding| Options { rounding, judge: true, exact: true, ..options.clone() };
    let exact = run(&Options { xray: Xray::Off, keep_reconstructors: false, ..judged(None) })?;
    let Some(exact_ratios) = ratios(&exact) else { return Ok(exact) };
    let (mut low, mut high, mut best, mut least) = (0, formats.len(), None, f64::INFINITY);
    while low < high {
        let middle = usize::midpoint(low, high);
        let outcome = run(&judged(Some(formats[middle])))?;
        let lost = ratios(&outcome).map_or(f64::INFINITY, |rounded| lost(&exact_ratios, &rounded));
        if lost <= most {
            (high, best) = (middle, Some(outcome));
        } else {
            (low, least) = (middle + 1, least.min(lost));
        }
    }
    match best {
        Some(outcome) => Ok(outcome),
        None => refused(format!(
            "no format of --bits loses at most {most:e} of the Strehl ratio (the best {least:.1e}): allow more by --max-strehl-loss, or leave out --bits"
        )),
    }
}

/// Returns the exact Strehl ratio of each target; none if the rule did not survive.
fn ratios(outcome: &Outcome) -> Option<Vec<f64>> {
    let measured = outcome.results.first()?.measured.as_ref()?;
    measured.targets.iter().map(|target| target.strehl_exact).collect()
}

/// Returns the largest loss of a target; infinite where a ratio is not a number.
fn lost(exact: &[f64], rounded: &[f64]) -> f64 {
    let of_each = exact.iter().zip(rounded).map(|(exact, own)| exact - own);
    of_each.fold(0.0, |most: f64, lost| if lost.is_nan() { f64::INFINITY } else { most.max(lost) })
}
