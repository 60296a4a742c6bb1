//! The boundary of a graph in a replay: the first and the last tasks on each slot.

use super::edges::{Nodes, range};
use crate::operand::Mode;

/// Slots with more first or last tasks than this are acquired, or released, as a whole: otherwise
/// each task would decrement a counter for them.
const FEW: usize = 64;

/// The first and the last tasks on one slot: one that has it alone, or all of a group.
#[derive(Default)]
pub(super) struct SlotEnds {
    first: Vec<u32>,
    last: Vec<u32>,
    /// The mode of the last ones, and whether they are the first, too.
    mode: Option<Mode>,
    is_first: bool,
}

impl SlotEnds {
    /// Adds an access.
    pub(super) fn access(&mut self, task: u32, mode: Mode) {
        let joins = !mode.is_exclusive() && self.mode == Some(mode);
        if !joins {
            self.is_first = self.mode.is_none();
            self.last.clear();
        }
        self.mode = Some(mode);
        // A task that names a handle twice counts once.
        if self.last.last() != Some(&task) {
            self.last.push(task);
            if self.is_first {
                self.first.push(task);
            }
        }
    }
}

/// Consecutive lists.
#[derive(Default)]
struct Lists {
    items: Vec<u32>,
    ends: Vec<u32>,
}

impl Lists {
    fn push(&mut self, list: impl IntoIterator<Item = u32>) {
        self.items.extend(list);
        self.ends.push(self.items.len() as u32);
    }

    fn get(&self, at: usize) -> &[u32] {
        &self.items[range(&self.ends, at)]
    }
}

/// The first and last tasks of all slots.
pub(super) struct Ends {
    heads: Lists,
    finals: Lists,
    /// For each task the nodes that wait for it, then the slots on which it is one of the last, as
    /// positions of their counters.
    after: Lists,
    /// The number of events that each node waits for: its predecessors and the slots on which it is
    /// one of the first, or the start of the replay. After the nodes follows the number of last
    /// tasks of each slot.
    pub(super) pending: Vec<u32>,
    /// Nodes without predecessors.
    pub(super) sources: Vec<u32>,
    /// Slots that are waited for as a whole.
    pub(super) waited_for: usize,
    /// Tasks without waiting nodes, and slots that are released one by one. When all of these are
    /// done, the replay has ended.
    pub(super) sinks: usize,
}

impl Ends {
    pub(super) fn new(nodes: &Nodes, slots: Vec<SlotEnds>) -> Self {
        let mut pending = nodes.predecessors.clone();
        let sources: Vec<u32> = (0..nodes.len() as u32).filter(|&node| pending[node as usize] == 0).collect();
        sources.iter().for_each(|&source| pending[source as usize] = 1);
        let (mut heads, mut finals, mut after) = (Lists::default(), Lists::default(), Lists::default());
        // By task: the slots on which it is one of the last.
        let mut exits: Vec<(u32, u32)> = Vec::new();
        for (slot, SlotEnds { first, last, .. }) in slots.into_iter().enumerate() {
            let few = |list: Vec<u32>| if list.len() <= FEW { list } else { Vec::new() };
            let (first, last) = (few(first), few(last));
            first.iter().for_each(|&task| pending[task as usize] += 1);
            exits.extend(last.iter().map(|&task| (task, (nodes.len() + slot) as u32)));
            pending.push(last.len() as u32);
            heads.push(first);
            finals.push(last);
        }
        exits.sort_unstable();
        let mut exits = exits.into_iter().peekable();
        for task in 0..nodes.tasks() {
            let own = std::iter::from_fn(|| exits.next_if(|exit| exit.0 as usize == task)).map(|exit| exit.1);
            after.push(nodes.successors_of(task).iter().copied().chain(own));
        }
        let given_back = pending[nodes.len()..].iter().filter(|&&last| last > 0).count();
        let sinks = (0..nodes.tasks()).filter(|&task| after.get(task).is_empty()).count() + given_back;
        let waited_for = (0..heads.ends.len()).filter(|&slot| heads.get(slot).is_empty()).count();
        Ends { heads, finals, after, pending, sources, waited_for, sinks }
    }

    /// The first tasks on a slot; none if the replay acquires it as a whole.
    pub(super) fn heads(&self, slot: usize) -> &[u32] {
        self.heads.get(slot)
    }

    /// The last tasks on a slot; none if it is released at the end.
    pub(super) fn finals(&self, slot: usize) -> &[u32] {
        self.finals.get(slot)
    }

    /// The counters that a task decrements: those of nodes, then those of slots, which come after
    /// the nodes.
    pub(super) fn after(&self, task: usize) -> &[u32] {
        self.after.get(task)
    }
}
