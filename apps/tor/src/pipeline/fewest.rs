//! Search for the fewest bits of a reconstructor.

use super::{Options, Outcome, PipelineError, RuleResult, Xray};
use zellige_dense::Rounding;

/// Most runs with rounding.
const RUNS: usize = 6;

/// Share of the allowed loss from which on the search ends.
const ENOUGH: f64 = 0.8;

/// Share of the allowed loss at which it aims.
const AIM: f64 = 0.92;

/// Computes the reconstructors of one rule in few bits, so that the exact Strehl ratio of no target
/// is smaller than without rounding by more than `most`. `rounding` is a format for an expected
/// loss of an entry, such as [`Rounding::within`]; the search is for the largest such loss, which
/// takes the fewest bits. It ends when the Strehl ratio loses between 0.8 of `most` and `most`, or
/// after six runs. `run` is [`run`](super::run()) or [`run_with_mirror`](super::run_with_mirror).
/// The outcome of a rule that loses positive definiteness says so.
///
/// # Errors
/// The errors of `run`; [`PipelineError::Options`] for several rules, and if no format is accurate
/// enough.
pub fn with_fewest_bits<E: From<PipelineError>>(
    options: &Options,
    rounding: impl Fn(f64) -> Rounding,
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
    let Some((first, exact_ratios)) = exact.results.first().zip(ratios(&exact)) else { return Ok(exact) };
    let mut limit = first_limit(first, &exact_ratios, most);
    // The largest limit that was accurate enough, and the smallest one that was not.
    let (mut enough, mut too_much) = (0.0, f64::INFINITY);
    let (mut best, mut least) = (None, f64::INFINITY);
    for _ in 0..RUNS {
        let outcome = run(&judged(Some(rounding(limit))))?;
        let lost = ratios(&outcome).map_or(f64::INFINITY, |rounded| lost(&exact_ratios, &rounded));
        least = least.min(lost);
        if lost <= most {
            (enough, best) = (limit, Some(outcome));
        } else {
            too_much = limit;
        }
        if lost <= most && lost >= ENOUGH * most {
            break;
        }
        // The loss of the Strehl ratio is nearly proportional to that of the entries.
        limit *= (AIM * most / lost).clamp(1e-3, 1e3);
        if limit <= enough || limit >= too_much {
            limit = (enough * too_much).sqrt();
        }
    }
    match best {
        Some(outcome) => Ok(outcome),
        None => refused(format!(
            "no format of --bits loses at most {most:e} of the Strehl ratio (the best {least:.1e}): allow more by --max-strehl-loss, or leave out --bits"
        )),
    }
}

/// Returns the expected loss of an entry at which the search begins. By Marechal's approximation
/// `S = exp(-v)`, a small increase of the variance takes `S ln(1 / S)` times its relative increase
/// from the Strehl ratio `S`.
fn first_limit(result: &RuleResult, exact: &[f64], most: f64) -> f64 {
    let trace = result.measured.as_ref().map_or(0.0, |measured| measured.trace_cee);
    let strehl = exact.iter().copied().fold(f64::INFINITY, f64::min).clamp(1e-3, 0.999);
    let relative = most / (strehl * -strehl.ln());
    relative * trace / (result.m * result.n) as f64
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
