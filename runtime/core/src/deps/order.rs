//! What an access waits for, and what the chain of its handle becomes: the table of `README.md`,
//! for every kind of node.

use super::Mode;

/// What an access waits for.
#[derive(Clone)]
pub(crate) enum Node<T, G> {
    Task(T),
    Group(G),
}

/// Where nodes and edges are kept, while one access is put at the end of a chain.
pub(crate) trait Links {
    type Task;
    type Group;

    /// The task whose access it is, as the chain keeps it.
    fn task(&self) -> Self::Task;

    /// The task waits for `node`.
    fn follow(&mut self, node: &Node<Self::Task, Self::Group>);

    /// A new group of accesses in `mode`, which is concurrent.
    fn open(&mut self, mode: Mode) -> Self::Group;

    /// The task becomes a member of `group`, which is open.
    fn join(&mut self, group: &Self::Group);

    /// No access joins `group` any more; the next one waits for it.
    fn close(&mut self, group: &Self::Group);
}

/// The order of the accesses to one handle, as far as the next access depends on it.
pub(crate) struct Order<T, G> {
    /// What the next access waits for: a task that wrote, or a closed group.
    last: Option<Node<T, G>>,
    /// The group that concurrent accesses of one kind are joining.
    open: Option<(Mode, G)>,
}

impl<T, G> Default for Order<T, G> {
    fn default() -> Self {
        Order { last: None, open: None }
    }
}

impl<T, G> Order<T, G> {
    /// Puts an access in `mode` at the end.
    #[inline(always)]
    pub(crate) fn access<L: Links<Task = T, Group = G>>(&mut self, mode: Mode, links: &mut L) {
        let joins = !mode.is_exclusive() && self.open.as_ref().is_some_and(|(open, _)| *open == mode);
        if !joins && let Some((_, group)) = self.open.take() {
            links.close(&group);
            self.last = Some(Node::Group(group));
        }
        if let Some(last) = &self.last {
            links.follow(last);
        }
        if mode.is_exclusive() {
            self.last = Some(Node::Task(links.task()));
        } else {
            let (_, group) = self.open.get_or_insert_with(|| (mode, links.open(mode)));
            links.join(group);
        }
    }

    /// Takes out the group that is open, if one is: nothing joins it any more.
    pub(crate) fn take_open(&mut self) -> Option<(Mode, G)> {
        self.open.take()
    }

    /// Lets go of the last node if it is a task of which `is_it` is true.
    pub(crate) fn forget(&mut self, is_it: impl FnOnce(&T) -> bool) {
        self.last.take_if(|last| matches!(last, Node::Task(task) if is_it(task)));
    }
}
