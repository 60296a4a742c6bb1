//! Options of `zellige tune tor`.

use clap::{Args, ValueEnum};
use zellige_dense::{GemmPrecision, PanelPrecision};
use zellige_tor::pipeline::tune::Granularity;

use super::TuneSearch;
use crate::args::paths::Input;
use crate::args::tor::{target, tile};
use crate::args::{ExecutionArgs, RunOutputs, SystemArgs, Tile};

pub(super) const EXAMPLES: &str = "\
Measures
  strehl             The exact long-exposure Strehl ratio. Acceptance is
                     strehl >= REF.strehl - 1e-4 unless --accept says otherwise.
  strehl_stationary  That of the stationary image.
  variance_change_nm2
                     Growth of the residual's variance over the pupil.
  backward_error     That of the factor, if --accept names it.
  definite           1. A map that loses positive definiteness is rejected.
  seconds, low_share Measured time of factorisation and solve, and the share of
                     the factorisation's products that are not in fp32.

Examples
  zellige tune tor demo.toml --tile 256 -o map.json --report tune.html
  zellige tor run demo.toml --tile 256 --precision map:map.json
  zellige tune tor demo.toml --tile 256 --machine h200x1 --items tiles \\
      --formats fp8,hp2,hp1,fp32 --trials trials.jsonl --max-trials 200
  zellige tune tor demo.toml --accept 'backward_error <= 1e-5 && definite'";

/// Options of `zellige tune tor`.
#[derive(Debug, Args)]
pub struct TuneTor {
    /// Formats of tile products: a list; fp32, the reference, is always one of them.
    ///
    /// A format that costs no less than a more accurate one is not tried.
    #[arg(long, value_name = "P,...", value_delimiter = ',', default_value = "hp3,hp2,hp1,fp32")]
    pub formats: Vec<GemmPrecision>,
    /// Formats of diagonal updates and triangular solves: a list of fp32, x3, tf32.
    ///
    /// fp32 is always one of them. Their bytes are the same, so that --cost bytes keeps fp32.
    #[arg(
        long,
        value_name = "P,...",
        value_delimiter = ',',
        default_value = "tf32,x3,fp32",
        hide_short_help = true
    )]
    pub panels: Vec<PanelPrecision>,
    /// Items: classes of tiles by pair of sensors and distance from the diagonal, or single tiles.
    #[arg(long, value_name = "I", value_enum, default_value_t = TuneItems::Classes, hide_short_help = true)]
    pub items: TuneItems,
    /// Cost: bytes that tile products read and write, or measured seconds.
    #[arg(long, value_name = "C", value_enum, default_value_t = TuneCost::Bytes, hide_short_help = true)]
    pub cost: TuneCost,
    /// Use predicted seconds on this platform as the cost: a shipped one, a .toml file, or host.
    ///
    /// As --platform of `zellige simulate`. Tiles are uniform (--tile N).
    #[arg(long, value_name = "NAME|FILE.toml|host", conflicts_with = "cost")]
    pub machine: Option<String>,
    /// Tile size: a number, or auto.
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = tile)]
    pub tile: Tile,
    /// Direction of the verification (arcsec) [default: a quarter of the field away].
    #[arg(long, value_name = "X,Y", value_parser = target, hide_short_help = true)]
    pub verify_target: Option<[f64; 2]>,
    /// Turbulence profile of the verification [default: r0 times 0.85, altitudes times 1.1].
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub verify_atm: Option<Input>,
    /// Do not verify the result on another direction and profile.
    #[arg(long, conflicts_with_all = ["verify_target", "verify_atm"], hide_short_help = true)]
    pub no_verify: bool,
    /// Do not search the best band, tile and operand rules to compare with.
    #[arg(long, hide_short_help = true)]
    pub no_rules: bool,
    #[command(flatten)]
    pub search: TuneSearch,
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Items; see [`TuneTor::items`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TuneItems {
    Classes,
    Tiles,
}

impl From<TuneItems> for Granularity {
    fn from(items: TuneItems) -> Self {
        match items {
            TuneItems::Classes => Granularity::Classes,
            TuneItems::Tiles => Granularity::Tiles,
        }
    }
}

/// Costs; see [`TuneTor::cost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TuneCost {
    Bytes,
    Seconds,
}
