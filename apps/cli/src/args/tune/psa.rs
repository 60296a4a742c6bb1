//! Options of `zellige tune psa`.

use clap::Args;
use zellige_psa::tune::COST;
use zellige_tune::Expression;

use super::{TuneSearch, cost};
use crate::args::{Input, PsaInput, PsaRules, RunOutputs};

pub(super) const EXAMPLES: &str = "\
Items
  method     fgs, exact, screens by several metrics with several numbers of
             kept points, cfgs
  samples    fp64, fp32, mixed, fp16, int16, bf16
  table      none, log, whole
The reference is fgs in fp64. Combinations that the search does not have are
rejected. Events with other numbers of hits than one are left out, and none are
shifted, aligned or searched for pairs.

Measures
  same, within_5mm, beyond_20mm
             Share of hits whose point is that of the reference, near it, or
             far from it; the same with _by_energy, weighted by energy. They
             have standard errors: too few events are never accepted.
  microseconds, bytes
             Mean CPU time of a hit on one thread, and bytes of the basis that
             it is compared with.
  efficiency, peak_to_total
             Tracking of 20000 simulated gamma rays of 1 MeV, ten in an event,
             as in zellige psa track. Points are displaced like the hits of the
             trial from those of the reference. Computed only if named.

Every other hit is for the verification alone, or --verify-events are.

Examples
  zellige tune psa --basis basis --events ev
  zellige tune psa --basis basis --events ev --verify-events ev2 \\
      --accept 'same >= 0.999 && within_5mm_by_energy >= 0.99' \\
      --trials trials.jsonl --report tune.html";

/// Options of `zellige tune psa`.
#[derive(Debug, Args)]
pub struct TunePsa {
    #[command(flatten)]
    pub input: PsaInput,
    /// Events that only the verification sees (folders) [default: every other hit].
    #[arg(long, value_name = "FOLDER|FILE", conflicts_with = "positions")]
    pub verify_events: Option<Input>,
    /// Exponent of the figure of merit.
    #[arg(long, value_name = "P", default_value_t = 0.3)]
    pub p: f64,
    /// Cost of a trial as an expression over its measures.
    #[arg(long, value_name = "EXPR", default_value = COST, value_parser = cost)]
    pub cost: Expression,
    #[command(flatten)]
    pub rules: PsaRules,
    #[command(flatten)]
    pub search: TuneSearch,
    #[command(flatten)]
    pub outputs: RunOutputs,
}
