//! Predecessors of an access, and the resulting state of its handle's chain: the table of
//! `README.md`, for every kind of node.

use super::Mode;

/// A predecessor of an access.
#[derive(Clone)]
pub(crate) enum OrderNode<T, G> {
    Task(T),
    Group(G),
}

/// Storage of nodes and edges while one access is appended to a chain.
pub(crate) trait Links {
    type Task;
    type Group;

    /// Returns the task of the access, as the chain stores it.
    fn task(&self) -> Self::Task;

    /// Makes the task wait for `node`.
    fn follow(&mut self, node: &OrderNode<Self::Task, Self::Group>);

    /// Creates a group of accesses in `mode`, which is a concurrent mode.
    fn open(&mut self, mode: Mode) -> Self::Group;

    /// Makes the task a member of `group`, which is open.
    fn join(&mut self, group: &Self::Group);

    /// Closes `group`: no access joins it any more, and the next one waits for it.
    fn close(&mut self, group: &Self::Group);
}

/// Order of the accesses to one handle, as far as the next access depends on it.
pub(crate) struct Order<T, G> {
    /// Predecessor of the next access: a task that wrote, or a closed group.
    last: Option<OrderNode<T, G>>,
    /// The group that concurrent accesses of one kind are joining.
    open: Option<(Mode, G)>,
}

impl<T, G> Default for Order<T, G> {
    fn default() -> Self {
        Order { last: None, open: None }
    }
}

impl<T, G> Order<T, G> {
    /// Appends an access in `mode`.
    #[inline(always)]
    pub(crate) fn access<L: Links<Task = T, Group = G>>(&mut self, mode: Mode, links: &mut L) {
        let joins = !mode.is_exclusive() && self.open.as_ref().is_some_and(|(open, _)| *open == mode);
        if !joins && let Some((_, group)) = self.open.take() {
            links.close(&group);
            self.last = Some(OrderNode::Group(group));
        }
        if let Some(last) = &self.last {
            links.follow(last);
        }
        if mode.is_exclusive() {
            self.last = Some(OrderNode::Task(links.task()));
        } else {
            let (_, group) = self.open.get_or_insert_with(|| (mode, links.open(mode)));
            links.join(group);
        }
    }

    /// Removes the open group, if there is one: nothing joins it any more.
    pub(crate) fn take_open(&mut self) -> Option<(Mode, G)> {
        self.open.take()
    }
}
