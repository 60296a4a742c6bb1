//! `zellige tor info`.

use schemars::JsonSchema;
use serde::Serialize;
use zellige_tor::info::Info;
use zellige_tor::params::Input;
use zellige_tor::pipeline::{self, Need, Options, Silent, TileChoice};

use crate::args::{InfoArgs, Tile};
use crate::results::{is_stdout, write_json};
use crate::table::bytes;
use crate::{devices, interrupt, out};

#[derive(Serialize, JsonSchema)]
pub struct Figures<'a> {
    #[serde(flatten)]
    info: &'a Info,
    tiling: Tiling,
    run: Run,
}

/// A run with these rules.
#[derive(Serialize, JsonSchema)]
pub struct Run {
    rules: Vec<String>,
    /// Bytes by purpose; empty where it does not fit.
    memory: Vec<(String, u64)>,
    memory_bytes: Option<u64>,
    available_bytes: Option<u64>,
    fits: bool,
}

/// The tiles, and what they mean for the rules.
#[derive(Serialize, JsonSchema)]
pub struct Tiling {
    /// Tiles along one side.
    tiles: usize,
    /// From 0 to n.
    edges: Vec<usize>,
    largest: usize,
    /// Tiles per block of one sensor axis, at most.
    parts_of_largest: usize,
    /// Tasks of one factorisation.
    factor_tasks: u64,
    advice: String,
}

/// Says how large the system is.
///
/// # Errors
/// Bad parameters, or an output that cannot be written.
pub fn info(args: &InfoArgs) -> anyhow::Result<()> {
    let input = super::read(&args.system)?;
    let info = zellige_tor::info(&input.system, &input.atmosphere)?;
    let mut tiling = Tiling::of(&info, args.tile)?;
    let rules = super::run::rules(&args.precision);
    let options = Options {
        rules: rules.clone(),
        tile: super::tile(args.tile, TileChoice::Auto),
        ..Options::default()
    };
    let need = match pipeline::precheck(&input, &options) {
        Ok(plan) => Some(plan.memory),
        Err(pipeline::Error::Memory(text)) => {
            // What does not fit here may fit elsewhere: the description stands.
            out::note(&format!("warning: {text}"));
            None
        }
        Err(other) => return Err(other.into()),
    };
    if need.is_some() {
        tiling.advice += &rule_advice(&input, &options, info.measurements)?;
    }
    let run = Run {
        rules,
        memory: need.as_ref().map_or(Vec::new(), |need| need.items.clone()),
        memory_bytes: need.as_ref().map(Need::total),
        available_bytes: need.as_ref().and_then(|need| need.available),
        fits: need.is_some(),
    };
    let figures = Figures { info: &info, tiling, run };
    write_json(args.json.as_ref(), &[&figures])?;
    if is_stdout(args.json.as_ref()) {
        return Ok(());
    }
    let run = need.map_or(String::new(), |need| {
        format!("run              {need} with {}\n", figures.run.rules.join(", "))
    });
    out::print(&format!("{info}\n{run}{}", figures.tiling.text()))
}

/// Which rule to take, by what a sample of the tiles does with it.
fn rule_advice(input: &Input, options: &Options, measurements: usize) -> anyhow::Result<String> {
    let rt = devices::builder().build()?;
    let _armed = interrupt::cancels(rt.canceller());
    let found = pipeline::recommend(&rt, input, options, &Silent).map_err(super::pipeline_error)?;
    let refused: Vec<String> = found.refused.iter().map(|rule| format!("{rule} would not")).collect();
    let whole = if found.rows == measurements { "all" } else { "a sample" };
    Ok(format!(
        "; {} keeps it positive definite, by {whole} of its tiles ({} measurements){}",
        found.rule,
        found.rows,
        refused.iter().map(|text| format!(", {text}")).collect::<String>()
    ))
}

impl Tiling {
    fn of(info: &Info, tile: Tile) -> anyhow::Result<Tiling> {
        let grid = pipeline::grid(info, super::tile(tile, TileChoice::Auto))?;
        let parts = match tile {
            Tile::Auto => grid.parts_of_largest(),
            Tile::Edge(_) => parts(info, grid.edges()),
        };
        let advice = match (tile, parts) {
            (_, 3..) => format!(
                "an axis of one sensor lies in {parts} tiles: low precision needs a band of at least 2 (hp1:band=2) or a \
                 rule on operands"
            ),
            (Tile::Edge(_), 2) => {
                "tiles cut across sensors: --tile auto follows them, and low precision then loses \
                                   positive definiteness less often"
                    .into()
            }
            _ => "tiles follow the sensors: hp1:band=1 and more may hold".into(),
        };
        let nt = grid.tiles() as u64;
        Ok(Tiling {
            tiles: grid.tiles(),
            largest: grid.max_width(),
            edges: grid.edges().to_vec(),
            parts_of_largest: parts,
            // potrf, trsm, syrk, gemm
            factor_tasks: nt
                + nt * nt.saturating_sub(1)
                + nt * nt.saturating_sub(1) * nt.saturating_sub(2) / 6,
            advice,
        })
    }

    fn text(&self) -> String {
        format!(
            "tiles            {} x {}, at most {} rows ({} in float32), {} tasks to factorise\nadvice           {}\n",
            self.tiles,
            self.tiles,
            self.largest,
            bytes(4 * (self.largest as u64).pow(2)),
            self.factor_tasks,
            self.advice
        )
    }
}

/// In how many tiles the block lies that lies in most.
fn parts(info: &Info, edges: &[usize]) -> usize {
    let inside = |start: usize, end: usize| edges.iter().filter(|&&edge| start < edge && edge < end).count();
    info.blocks.iter().map(|b| 1 + inside(b.start, b.start + b.len)).max().unwrap_or(1)
}
