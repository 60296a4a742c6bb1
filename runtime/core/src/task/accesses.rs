//! Accesses of a task, as dependency analysis and placement see them.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{AnyHandle, HandleBase, HandleCore};
use crate::deps::Mode;
use crate::format::Format;
use crate::value::{Data, Meta};

/// One access, as dependency analysis sees it.
pub struct Declared<'a> {
    pub(crate) base: &'a HandleBase,
    pub(crate) handle: &'a dyn AnyHandle,
    pub(crate) mode: Mode,
    /// True for an access of a task that splits a handle or joins its parts; others are refused
    /// meanwhile.
    pub(crate) inner: bool,
    /// True if only the metadata of the value is read: its bytes are not transferred.
    pub(crate) look: bool,
}

impl<'a, D: Data> From<(&'a Arc<HandleCore<D>>, Mode)> for Declared<'a> {
    fn from((core, mode): (&'a Arc<HandleCore<D>>, Mode)) -> Self {
        Declared { base: &core.base, handle: &**core, mode, inner: false, look: false }
    }
}

impl<'a> From<(&'a Arc<dyn AnyHandle>, Mode)> for Declared<'a> {
    fn from((handle, mode): (&'a Arc<dyn AnyHandle>, Mode)) -> Self {
        Declared { base: handle.base(), handle: &**handle, mode, inner: false, look: false }
    }
}

/// Accesses of one task.
pub type Accesses<'a> = SmallVec<[Declared<'a>; 4]>;
/// Requested format of each access of one task.
pub type Formats = SmallVec<[Format; 4]>;
/// Metas of one task's operands.
pub type Metas = SmallVec<[Meta; 4]>;
