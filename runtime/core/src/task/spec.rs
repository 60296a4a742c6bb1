//! A task as it is submitted.

use smallvec::SmallVec;
use zellige_model::TaskInfo;

use super::{Codelet, Only, TaskRef};

/// A task that has been described and not yet submitted.
pub struct Spec<C: Codelet> {
    pub(crate) codelet: C,
    pub(crate) operands: C::Operands,
    pub(crate) info: TaskInfo,
    pub(crate) priority: i32,
    pub(crate) after: SmallVec<[TaskRef; 2]>,
    /// Where it may run, if not anywhere.
    pub(crate) only: Option<Box<Only>>,
}
