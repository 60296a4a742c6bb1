//! Handles of a replay.

use std::sync::Arc;

use super::Graph;
use crate::error::Error;
use crate::task::{AnyHandle, Handle};
use crate::value::Data;

/// The handles that a replay runs on: one for each slot of the graph.
///
/// ```
/// use zellige_runtime::{Bindings, Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let (x, y) = (rt.register(1i32).named("x"), rt.register(10i32));
/// let graph = rt.record(|g| g.task("next").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().map(drop))?;
/// rt.replay(&Bindings::recorded(&graph))?;
/// rt.replay(&Bindings::recorded(&graph).and("x", &y)?)?; // on y in the place of x
/// assert_eq!((rt.take(x)?, rt.take(y)?), (2, 11));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Bindings {
    pub(super) graph: Graph,
    /// Shared by the replays: counting a reference to each handle costs about as much as running
    /// its tasks.
    pub(super) handles: Arc<[Arc<dyn AnyHandle>]>,
    /// The slots by the numbers of their handles, in which chains are locked.
    pub(super) order: Arc<[u32]>,
    /// True if some of them may differ from the recorded ones.
    pub(super) differ: bool,
}

impl Bindings {
    /// The recorded handles.
    pub fn recorded(graph: &Graph) -> Self {
        let handles = graph.0.slots.iter().map(|slot| Arc::clone(&slot.handle)).collect();
        Bindings::new(graph, handles, false)
    }

    /// One placeholder for each slot: handles of types with which no body runs.
    pub(crate) fn placeholders(graph: &Graph, handles: Vec<Arc<dyn AnyHandle>>) -> Self {
        Bindings::new(graph, handles, true)
    }

    fn new(graph: &Graph, handles: Vec<Arc<dyn AnyHandle>>, differ: bool) -> Self {
        let mut order: Vec<u32> = (0..handles.len() as u32).collect();
        order.sort_unstable_by_key(|&slot| handles[slot as usize].base().id);
        Bindings { graph: graph.clone(), handles: handles.into(), order: order.into(), differ }
    }

    /// Binds `handle` in place of the slot called `name`.
    ///
    /// # Errors
    /// [`Error::Binding`] if there is no such slot, or several, or `handle` holds another type of
    /// data.
    pub fn and<D: Data>(self, name: &str, handle: &Handle<D>) -> Result<Self, Error> {
        let slots = &self.graph.0.slots;
        let mut found = (0..slots.len()).filter(|&i| slots[i].handle.base().name() == name);
        let slot = match (found.next(), found.next()) {
            (Some(slot), None) => slot,
            (first, _) => {
                let known = self.graph.slots().into_iter().take(16).collect::<Vec<_>>().join(", ");
                let count = if first.is_none() { "no slot" } else { "several slots" };
                return Err(Error::Binding(format!("the graph has {count} called {name:?}; it has {known}")));
            }
        };
        let new: Arc<dyn AnyHandle> = Arc::clone(handle.core()) as Arc<dyn AnyHandle>;
        if new.as_any().type_id() != slots[slot].handle.as_any().type_id() {
            let kind = std::any::type_name::<D>();
            return Err(Error::Binding(format!(
                "slot {name:?} holds another type of data than {} ({kind})",
                handle.name()
            )));
        }
        let mut handles = self.handles.to_vec();
        handles[slot] = new;
        Ok(Bindings::new(&self.graph, handles, true))
    }
}

impl std::fmt::Debug for Bindings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bindings of {:?}", self.graph)
    }
}
