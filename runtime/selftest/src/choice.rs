//! Deferred selection of a job: it depends only on the metas of its inputs.

use zellige_runtime::codelet::{Apart, MAX_OPERAND_FORMATS};
use zellige_runtime::{Choice, Format, Meta};

use super::case::{Access, Job};
use super::rng::blend;
use super::words::FORMATS;

/// Returns the selection. `metas`: one for each handle, in the order of the accesses. Operands that
/// are only written, or that commute, are ignored.
pub(super) fn choose(job: &Job, formats_are_known: impl Fn(&Access) -> bool, metas: &[Meta]) -> Choice {
    let mut seen = job.seed;
    let mut next = metas.iter();
    for access in &job.accesses {
        for meta in next.by_ref().take(access.handles().len()) {
            if access.is_chosen_for() {
                seen =
                    blend(blend(seen, meta.format.0.into()), blend(meta.bytes as u64, meta.norm.to_bits()));
            }
        }
    }
    let mut choice = Choice { variant: (seen & 3) as u32, ..Choice::default() };
    for (at, access) in job.accesses.iter().enumerate().take(MAX_OPERAND_FORMATS) {
        if access.is_chosen_for() && formats_are_known(access) {
            let wanted: [Option<Format>; 4] = [None, Some(FORMATS[0]), Some(FORMATS[1]), Some(FORMATS[2])];
            choice.formats[at] = wanted[(seen >> (8 * at + 2)) as usize & 3];
        }
    }
    let lists = || job.accesses.iter().filter(|access| matches!(access, Access::List { .. }));
    if lists().next().is_some() && lists().all(formats_are_known) && seen >> 40 & 1 == 1 {
        let format = FORMATS[(seen >> 41) as usize % FORMATS.len()];
        choice.apart = Some(Apart { elements: (seen >> 44) as u32, format });
    }
    choice
}

/// Returns the format in which access `at` requests the value of its handle number `element`, after
/// the selection `choice`.
pub(super) fn wanted(access: &Access, at: usize, element: usize, choice: &Choice) -> Format {
    let asked = match access {
        Access::Read { format, .. } | Access::List { format, .. } | Access::Update { format, .. } => *format,
        Access::Write { .. } | Access::Commute { .. } | Access::Reduce { .. } => return Format::NATIVE,
    };
    match (access, choice.apart) {
        (Access::List { .. }, Some(Apart { elements, format }))
            if element < 32 && elements >> element & 1 == 1 =>
        {
            format
        }
        _ => choice.formats.get(at).copied().flatten().unwrap_or(asked),
    }
}
