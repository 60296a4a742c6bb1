//! Options of `zellige reproduce`.

use clap::{Args, Subcommand};
use zellige_lqcd::{Action, Boundary};

use super::paths::{Input, Output, OutputFile, OutputFolder};

pub(super) const NOTES: &str = "\
Each run computes its items anew, at sizes that take seconds, or with
--full at those of the paper where memory allows. Beside our numbers stand those
of the paper, and each statement of the paper that the numbers are for is judged:
it agrees, or it is contradicted. Times are of this machine.

Examples
  The items of a paper:
    zellige reproduce thesis --list
  One table, as text and as a page:
    zellige reproduce thesis table3.1 --report table.html
  All of a paper: a page for each item, an index, and the data as CSV:
    zellige reproduce lattice -o pages --json lattice.json
  A figure on a gauge field of your own:
    zellige reproduce lattice fig2 --lattice f.lat --mass 0.01";

/// Papers whose figures and tables are repeated.
#[derive(Debug, Subcommand)]
pub enum Reproduce {
    /// Molina, thesis 2024: formats, adaptive sparse products, pulse shapes.
    Thesis(ReproduceItems),
    /// Clark et al. 2022: solvers of lattice QCD in packed formats.
    Lattice(ReproduceLattice),
    /// Doucet et al. 2019: tomographic reconstructors in mixed precision.
    Tomography(ReproduceItems),
}

/// Options of every paper.
#[derive(Debug, Args)]
pub struct ReproduceItems {
    /// Figures and tables, such as table3.1 and fig3.2 [default: all].
    #[arg(value_name = "ITEM")]
    pub items: Vec<String>,
    /// List the figures and tables, and compute nothing.
    #[arg(long)]
    pub list: bool,
    /// Compute at the sizes of the paper where memory allows: hours.
    #[arg(long)]
    pub full: bool,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub json: Option<Output>,
    /// Write the numbers as CSV, ours beside the paper's; `-` is standard output.
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub csv: Option<Output>,
    /// Write one HTML page with all items.
    #[arg(long, value_name = "FILE.html", help_heading = "Results")]
    pub report: Option<OutputFile>,
    /// Write a folder: an HTML page and a CSV file for each item, and an index.
    #[arg(long, short, value_name = "FOLDER", help_heading = "Results")]
    pub output: Option<OutputFolder>,
}

/// Options of `zellige reproduce lattice`.
#[derive(Debug, Args)]
pub struct ReproduceLattice {
    #[command(flatten)]
    pub common: ReproduceItems,
    /// Gauge field to read [default: one that is generated].
    #[arg(long, value_name = "LATTICE", help_heading = "Lattice")]
    pub lattice: Option<Input>,
    /// Action: naive, asqtad:U0, hisq or hisq:EPSILON [default: that of the item].
    #[arg(long, value_name = "ACTION", help_heading = "Lattice")]
    pub action: Option<Action>,
    /// Quark mass in lattice units [default: that of the item].
    #[arg(long, value_name = "MASS", help_heading = "Lattice")]
    pub mass: Option<f64>,
    /// Boundary condition in time: periodic or antiperiodic.
    #[arg(long, value_name = "BC", default_value_t = Boundary::default(), help_heading = "Lattice")]
    pub bc: Boundary,
    /// Tolerance: norm of the residual relative to that of the source.
    #[arg(long, value_name = "TOL", default_value = "1e-8", help_heading = "Lattice")]
    pub tol: f64,
    /// Maximum number of iterations of a solve.
    #[arg(long, value_name = "N", default_value_t = 12_000, help_heading = "Lattice")]
    pub max_steps: usize,
}
