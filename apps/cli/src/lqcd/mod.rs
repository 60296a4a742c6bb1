//! `zellige lqcd ...`.

mod convert;
mod dslash;
mod eigen;
mod generate;
mod info;
pub(crate) mod invert;
mod multishift;
mod smear;

use zellige_lqcd::pipeline::{Options, Solver};

use crate::args::{Lqcd, LqcdSystem};

/// Runs a verb of `zellige lqcd`.
///
/// # Errors
/// Files that cannot be read or written, invalid parameters, residuals that stay too large, tasks
/// that fail, Ctrl-C.
pub fn run(verb: &Lqcd) -> anyhow::Result<()> {
    match verb {
        Lqcd::Generate(args) => generate::run(args),
        Lqcd::Info(args) => info::run(args),
        Lqcd::Convert(args) => convert::run(args),
        Lqcd::Smear(args) => smear::run(args),
        Lqcd::Invert(args) => invert::run(args),
        Lqcd::Eigen(args) => eigen::run(args),
        Lqcd::Multishift(args) => multishift::run(args),
        Lqcd::Dslash(args) => dslash::run(args),
    }
}

/// Converts the options of a system, with a tolerance and the default solver.
pub(crate) fn options(args: &LqcdSystem, tolerance: f64) -> Options {
    Options {
        action: args.action,
        mass: args.mass,
        boundary: args.bc,
        source: args.source,
        tolerance,
        heavy_quark: None,
        most_steps: args.max_steps,
        solver: Solver::default(),
    }
}
