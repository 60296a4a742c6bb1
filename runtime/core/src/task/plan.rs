//! The needs of a ready task: formats and sizes of its operands, for runtimes with devices with
//! memory of their own.

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{Accesses, Body, Choice, Formats, Header};
use crate::deps::Mode;
use crate::error::caught;
use crate::format::Format;
use crate::memory::{Access, Datum, Need, NodeId, bytes_of};
use crate::value::Meta;

/// A task's working set, one need per access.
pub(crate) type Needs = SmallVec<[Need; 4]>;

/// Time of a task on each kind of device (ns) and its implementation; `None`: no device of the kind
/// can run it.
pub type Times = SmallVec<[Option<(u64, &'static str)>; 2]>;

/// Precision and working set of a task whose operands are finished.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) choice: Choice,
    pub(crate) needs: Needs,
    /// True if it runs in the host's memory.
    pub(crate) on_host: bool,
    /// Its times in simulated time.
    pub(crate) times: Times,
}

/// The data kept for a task between the moment it becomes ready and its end.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    /// The node for which its operands are wanted.
    pub(crate) wanted: Option<NodeId>,
    /// Number of devices that had failed when the plan was made.
    pub(crate) failures: usize,
    /// True if a device can run it.
    pub(crate) gpu_only: bool,
}

/// The storage of the plan in the task. Its lock is taken before the memory manager's.
#[derive(Default)]
pub(crate) struct PlanCell(Mutex<Option<Box<Planned>>>);

impl PlanCell {
    pub(crate) fn set(&self, planned: Planned) {
        *self.0.lock() = Some(Box::new(planned));
    }

    pub(crate) fn take(&self) -> Option<Planned> {
        self.0.lock().take().map(|planned| *planned)
    }

    /// Calls `ask` on the plan; `None` for a task that has not been planned.
    pub(crate) fn ask<R>(&self, ask: impl FnOnce(&mut Planned) -> R) -> Option<R> {
        self.0.lock().as_mut().map(|planned| ask(planned))
    }
}

impl Plan {
    /// Queries the task for its precision and formats; there is one datum and one meta per access.
    ///
    /// # Errors
    /// A message for a choice that panics, and for a format that an operand does not have.
    pub(crate) fn of(
        header: &Header,
        body: &dyn Body,
        data: impl Fn(usize) -> Datum,
        metas: &[Meta],
    ) -> Result<Plan, String> {
        let (choice, formats) = formats_of(body, metas)?;
        let mut accesses = Accesses::new();
        body.declare(&mut accesses);
        let mut needs = Needs::new();
        for (at, ((access, meta), &wanted)) in accesses.iter().zip(metas).zip(&formats).enumerate() {
            let format = if wanted == Format::NATIVE { meta.format } else { wanted };
            let bytes = access.handle.size_as(meta, format).ok_or_else(|| {
                let (task, name) = (header.title(), access.base.name());
                format!(
                    "{task} wants {name} in {format:?}: it is stored in {:?}, and its data type knows no such conversion",
                    meta.format
                )
            })?;
            let access = match access.mode {
                Mode::Read if access.look => Access::Look,
                Mode::Read | Mode::Reduce => Access::Read,
                Mode::Write => Access::Write,
                Mode::Update | Mode::Commute => Access::Update,
            };
            needs.push(Need { datum: data(at), format, bytes: bytes as u64, access });
        }
        Ok(Plan { choice, needs, on_host: body.is_for_host(), times: Times::new() })
    }

    /// Returns the task's label in traces and models.
    pub(crate) fn label(&self, header: &Header) -> &'static str {
        if self.choice.label.is_empty() { header.info.label } else { self.choice.label }
    }

    /// Returns the size of the whole working set.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(&self.needs)
    }
}

/// Returns the deferred selection for operands with these metas, or an empty one, and the format
/// that each access then requires.
///
/// # Errors
/// A message for a choice that panics.
pub(crate) fn formats_of(body: &dyn Body, metas: &[Meta]) -> Result<(Choice, Formats), String> {
    let mut formats = Formats::new();
    let choice = caught(|| body.plan(metas, &mut formats))
        .map_err(|message| format!("the deferred selection panicked: {message}"))?;
    Ok((choice, formats))
}

/// Returns the accesses of a task that certainly read a value in its stored format, as known before
/// the operands are finished.
pub(crate) fn reads_as_stored(body: &dyn Body) -> SmallVec<[usize; 4]> {
    if body.selects() {
        return SmallVec::new();
    }
    let (mut accesses, mut formats) = (Accesses::new(), Formats::new());
    body.declare(&mut accesses);
    body.plan(&[], &mut formats);
    let stored = |at: usize| accesses[at].handle.registered().map(|meta: Meta| meta.format);
    let as_stored = |&at: &usize| {
        let wanted = formats[at];
        accesses[at].mode == Mode::Read
            && !accesses[at].look
            && (wanted == Format::NATIVE || stored(at) == Some(wanted))
    };
    (0..accesses.len()).filter(as_stored).collect()
}
