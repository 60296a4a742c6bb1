//! `zellige machine ...`: the resources of this machine, and its known performance.

mod calibrate;
mod gpus;
pub mod known;
pub mod show;

use crate::args::MachineVerb;

/// Runs a verb of `zellige machine`.
///
/// # Errors
/// An output or the file of models cannot be written; a calibration that fails or is interrupted.
pub fn run(verb: &MachineVerb) -> anyhow::Result<()> {
    match verb {
        MachineVerb::Show(args) => show::show(args),
        MachineVerb::Calibrate(args) => calibrate::calibrate(args),
        MachineVerb::Forget => known::forget(),
    }
}
