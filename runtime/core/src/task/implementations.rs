//! Implementations of codelets: their selection and batching.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use zellige_model::{KindId, ModelId, Models, TaskInfo};

use super::{Accesses, Bound, Header, resolved};
use crate::device::{Arch, Archs};

/// Implementations of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Implementations {
    /// Names of the codelet's implementations; empty if there is only one.
    pub(crate) names: &'static [&'static str],
    /// Maximum number of tasks in one call; 0 or 1: it runs alone.
    pub(crate) batch: u32,
    /// Maximum number of tasks in one launch on a device, by a function of its own.
    pub(crate) batch_on_devices: u32,
    /// Architectures for which it has functions.
    pub(crate) archs: Archs,
    /// True if it relies on the actions of earlier tasks at their ends.
    pub(crate) needs_ends: bool,
}

impl Implementations {
    /// Returns the maximum number of tasks that are run as one on a worker.
    pub(crate) fn together(&self, launched: bool) -> u32 {
        if launched { self.batch.max(self.batch_on_devices) } else { self.batch }
    }

    /// Returns true if it can run on a device of this architecture; `None`: one that runs CPU
    /// functions.
    pub(crate) fn suit(&self, arch: Option<Arch>) -> bool {
        arch.is_none_or(|arch| self.archs.contains(arch))
    }
}

impl Header {
    /// Returns the description under which models know the task. `chosen`: label from its deferred
    /// selection, if known; empty: none.
    pub(crate) fn known_as(&self, chosen: &'static str) -> Cow<'_, TaskInfo> {
        match chosen {
            "" => Cow::Borrowed(&self.info),
            label => Cow::Owned(TaskInfo { label, ..self.info }),
        }
    }
}

impl Header {
    /// Returns the model identifier of the task with one of its implementations (empty: its only
    /// one).
    pub(crate) fn model_id(&self, models: &Models, chosen: &'static str, implementation: &str) -> ModelId {
        match (chosen, implementation) {
            ("", "") => models.cached_id(&self.model, self.name, &self.info),
            _ => models.id_of(self.name, &self.known_as(chosen), implementation),
        }
    }
}

/// A task whose expected time is queried.
pub(crate) struct Asked<'t> {
    pub(crate) header: &'t Header,
    /// Label from its deferred selection, if known; empty: none.
    pub(crate) chosen: &'static str,
    /// Bytes of its operands, if it has been planned.
    pub(crate) bytes: Option<u64>,
}

/// Returns the bytes of the declared operands as registered; 0 if they are not known for all.
pub(crate) fn registered_bytes<'a>(declare: impl FnOnce(&mut Accesses<'a>), bound: Option<Bound<'_>>) -> u64 {
    let mut accesses = Accesses::new();
    declare(&mut accesses);
    let named = accesses.iter().zip(resolved(&accesses, bound)).filter(|(access, _)| !access.look);
    let each = named.map(|(_, (handle, _))| handle.registered().map(|meta| meta.bytes as u64));
    each.sum::<Option<u64>>().unwrap_or(0)
}

impl Header {
    /// Selects one of several implementations for a kind of device, among those that satisfy
    /// `able`: the one with the fewest samples while one has too few, then the fastest; without
    /// models the first.
    pub(crate) fn pick(
        &self,
        chosen: &'static str,
        models: Option<&Arc<Models>>,
        kind: impl FnOnce() -> KindId,
        able: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let names = self.implementations.names;
        let mut able = (0..names.len()).filter(|&i| able(i));
        let Some(models) = models else { return able.next() };
        let kind = kind();
        able.min_by_key(|&i| {
            let id = self.model_id(models, chosen, names[i]);
            let time = models.known(id, kind).map_or(Duration::MAX, |known| known.time);
            (Reverse(models.needs_exploration(id, kind)), time)
        })
    }
}

impl Asked<'_> {
    /// Returns the expected time of the task on a kind of device with one of its implementations
    /// (empty: its only one): the estimate of the models, or without models the cost given by the
    /// user. `registered`: bytes of its operands, for one that is not planned.
    pub(crate) fn time(
        &self,
        models: Option<&Arc<Models>>,
        kind: impl FnOnce() -> KindId,
        name: &str,
        registered: impl FnOnce() -> u64,
    ) -> Option<Duration> {
        let Asked { header, chosen, bytes } = *self;
        let Some(models) = models else { return header.info.cost };
        let info = header.known_as(chosen);
        let model = header.model_id(models, chosen, name);
        let bytes = || bytes.unwrap_or_else(registered);
        models.estimate_with(model, kind(), &info, bytes).map(|estimate| estimate.time)
    }
}
