//! Members of batches: tasks that run in one call of their codelet.

use super::{Body, Bound, Env, Header, Runner, TaskPlacement, WorkerLocal};

/// One task of a batch.
pub(crate) struct Member<'m> {
    pub(crate) header: &'m Header,
    pub(crate) id: u64,
    pub(crate) body: &'m dyn Body,
    pub(crate) bound: Option<Bound<'m>>,
    /// Places of its operands, if they are not in their handles' cells.
    pub(crate) placement: Option<&'m TaskPlacement>,
    /// True if operands may be poisoned.
    pub(crate) strict: bool,
}

/// Place of execution of a batch.
pub(crate) struct Site<'s> {
    pub(crate) runner: Runner<'s>,
    pub(crate) worker: usize,
    pub(crate) local: &'s mut WorkerLocal,
}

impl Site<'_> {
    /// Returns the environment of one member. Members share the worker's state, so only one of them
    /// can have its environment at a time.
    pub(crate) fn env<'e>(&'e mut self, member: &'e Member<'_>) -> Env<'e> {
        let Member { header, id, bound, strict, .. } = *member;
        let env = Env::new(self.runner, header, id, self.worker, self.local, bound, strict);
        match member.placement {
            Some(placement) => env.placed(placement),
            None => env,
        }
    }
}
