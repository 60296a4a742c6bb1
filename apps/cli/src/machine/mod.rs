//! `zellige machine ...`: what this machine gives to a process, and how fast it is known to be.

mod calibrate;
mod gpus;
pub mod models;
pub mod show;

use crate::args::MachineVerb;

pub use models::{cached, for_policy, keep};

/// Does what the verb says.
///
/// # Errors
/// An output or the file of models cannot be written; a calibration that fails or is interrupted.
pub fn run(verb: &MachineVerb) -> anyhow::Result<()> {
    match verb {
        MachineVerb::Show(args) => show::show(args),
        MachineVerb::Calibrate(args) => calibrate::calibrate(args),
        MachineVerb::Forget => models::forget(),
    }
}
