//! Placeholder handles of values that do not exist: graphs in simulated time use them.

use std::any::Any;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::places::{Ahead, CarryError, Forgotten, Onto, Places};
use super::{AnyHandle, HandleBase};
use crate::format::Format;
use crate::memory::{BufferId, Datum, Ticket};
use crate::task::{ReadyTask, Resource};
use crate::value::{AnyHeader, Carrier, Known, Meta, Pending, Seen};

/// Function that returns the norm of a version of a value, if it is known.
pub(crate) type NormOf = Box<dyn Fn(u32) -> Option<f64> + Send + Sync>;

/// Placeholder of another handle. It has the meta of each version that a task or policy may query:
/// format, size and norm.
pub(crate) struct Placeholder {
    base: HandleBase,
    me: Weak<Placeholder>,
    real: Arc<dyn AnyHandle>,
    /// True if there is an initial value.
    has_value: bool,
    norm_of: NormOf,
    state: Mutex<PlaceholderState>,
}

struct PlaceholderState {
    /// Meta of the current version.
    meta: Meta,
    /// Number of writes so far.
    version: u32,
    datum: Option<(Datum, Forgotten)>,
    /// Ticket, result and version of the last launched writer, until it ends.
    ahead: Option<(Ticket, Ahead, u32)>,
}

impl Placeholder {
    /// Creates a placeholder for `real`, as it was registered.
    pub(crate) fn new(real: &Arc<dyn AnyHandle>, has_value: bool, norm_of: NormOf) -> Arc<Self> {
        let mut meta = real.registered().unwrap_or_default();
        meta.norm = norm_of(0).unwrap_or(meta.norm);
        Arc::new_cyclic(|me| Placeholder {
            base: HandleBase::new(has_value),
            me: Weak::clone(me),
            real: Arc::clone(real),
            has_value,
            norm_of,
            state: Mutex::new(PlaceholderState { meta, version: 0, datum: None, ahead: None }),
        })
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        if let Some((datum, forgotten)) = self.state.get_mut().datum.take() {
            forgotten.push(datum);
        }
    }
}

impl AnyHandle for Placeholder {
    fn base(&self) -> &HandleBase {
        &self.base
    }

    fn arc(&self) -> Arc<dyn AnyHandle> {
        self.me.upgrade().expect("whoever asks holds it")
    }

    fn has_reduction(&self) -> bool {
        self.real.has_reduction()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn registered(&self) -> Option<Meta> {
        self.real.registered()
    }

    fn began_written(&self) -> bool {
        self.has_value
    }

    fn size_as(&self, meta: &Meta, to: Format) -> Option<usize> {
        self.real.size_as(meta, to)
    }

    fn format_name(&self, format: Format) -> &'static str {
        self.real.format_name(format)
    }

    fn combine_partials(&self, _at: Option<BufferId>) {}

    fn combine_apart(&self, _from: BufferId, _make: &mut dyn FnMut(Meta) -> BufferId) {}

    fn has_partials(&self) -> bool {
        false
    }

    fn park(&self, resource: Resource, task: ReadyTask) -> Result<(), ReadyTask> {
        match resource {
            Resource::Commute => self.base.park_commuting(task),
            // The memory manager makes replicas.
            Resource::Replica(_) => Err(task),
        }
    }
}

impl Places for Placeholder {
    fn datum(&self) -> Option<Datum> {
        self.state.lock().datum.as_ref().map(|(datum, _)| *datum)
    }

    fn current(&self) -> Meta {
        self.state.lock().meta
    }

    fn manage(&self, datum: Datum, meta: Meta, _buffer: Option<BufferId>, forgotten: &Forgotten) {
        let mut state = self.state.lock();
        state.meta = Meta { norm: state.meta.norm, ..meta };
        state.datum = Some((datum, Arc::clone(forgotten)));
    }

    fn own(&self) -> Option<Meta> {
        self.has_value.then(|| self.current())
    }

    fn unmanage(&self, _buffer: Option<BufferId>) {}

    fn is_portable(&self) -> bool {
        self.real.is_portable()
    }

    fn carry(
        &self,
        _source: BufferId,
        _target: BufferId,
        _to: Format,
        _onto: Onto<'_>,
        _carrier: Option<Carrier<'_>>,
    ) -> Result<(), CarryError> {
        Ok(())
    }

    fn clear(&self, _buffer: BufferId) {}

    fn settle(&self, _buffer: BufferId) -> Meta {
        self.current()
    }

    fn settle_as(&self, by: Ticket, meta: Meta) {
        let mut state = self.state.lock();
        state.ahead.take_if(|(ticket, ..)| *ticket == by);
        state.version += 1;
        let norm = (self.norm_of)(state.version).unwrap_or(state.meta.norm);
        state.meta = Meta { norm, ..meta };
    }

    fn launched(&self, _buffer: BufferId, _by: Ticket, _pending: &Pending) -> Ahead {
        Ahead { meta: self.current(), learns: false }
    }

    fn planned(&self, by: Ticket, meta: Meta) -> Ahead {
        let mut state = self.state.lock();
        let version = state.ahead.map_or(state.version, |(_, _, version)| version) + 1;
        // A norm becomes known at the end of its writer.
        let norm = (self.norm_of)(version);
        let meta = Meta { norm: norm.unwrap_or(state.meta.norm), ..meta };
        let ahead = Ahead { meta, learns: norm.is_some() };
        state.ahead = Some((by, ahead, version));
        ahead
    }

    fn learnt(&self, _buffer: BufferId, by: Ticket) -> Ahead {
        let mut state = self.state.lock();
        let current = state.meta;
        let ahead = state.ahead.as_mut().filter(|(ticket, ..)| *ticket == by);
        ahead.map_or(Ahead { meta: current, learns: false }, |(_, ahead, _)| {
            ahead.learns = false;
            *ahead
        })
    }

    fn unlaunched(&self, by: Ticket) {
        self.state.lock().ahead.take_if(|(ticket, ..)| *ticket == by);
    }

    fn ahead(&self) -> Option<Ahead> {
        self.state.lock().ahead.map(|(_, ahead, _)| ahead)
    }

    fn seen_on_device(&self, _buffer: BufferId) -> Option<Seen> {
        None
    }

    fn learn_on_device(&self, _buffer: BufferId, _known: Known) {}

    fn is_same_header(&self, _one: &AnyHeader, _other: &AnyHeader) -> bool {
        false
    }
}
