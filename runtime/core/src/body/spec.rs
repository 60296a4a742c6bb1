//! Descriptions of tasks that have a codelet.

use super::{Codelet, DeviceTable, TypedBody};
use crate::operand::{Mode, Operands};
use crate::task::{Accesses, Implementations, Only, Options, Spec};

impl<C: Codelet> Spec<TypedBody<C>> {
    pub(crate) fn of_codelet(codelet: C, operands: C::Operands) -> Self {
        let only = codelet.has_constraints().then(|| Box::new(Only { constrained: true, ..Only::default() }));
        let (info, implementations) = (codelet.info(), implementations(&codelet, &operands));
        let options = Options { info, only, implementations, ..Options::named(codelet.name()) };
        Spec { body: TypedBody::new(codelet, operands), options }
    }
}

/// Returns the implementations of a task with these operands.
fn implementations<C: Codelet>(codelet: &C, operands: &C::Operands) -> Implementations {
    let several = C::IMPLEMENTATIONS.len() > 1;
    let names = if several { C::IMPLEMENTATIONS } else { &[] };
    let most = |most: usize, may: bool| match most {
        2.. if may && !runs_alone(codelet, operands) => u32::try_from(most).unwrap_or(u32::MAX),
        _ => 0,
    };
    let table = DeviceTable::of(codelet, None);
    let (batch, archs) = (most(codelet.batch(), true), table.archs);
    let batch_on_devices = most(table.batch, !several);
    Implementations { names, batch, batch_on_devices, archs, needs_ends: codelet.needs_ends() }
}

/// Returns true for operands with exclusive turns or per-worker results, and for codelets that
/// select implementations by device: similar tasks may then differ in their implementation.
fn runs_alone<C: Codelet>(codelet: &C, operands: &C::Operands) -> bool {
    let mut accesses = Accesses::new();
    operands.declare(&mut accesses);
    accesses.iter().any(|access| matches!(access.mode, Mode::Commute | Mode::Reduce))
        || (C::IMPLEMENTATIONS.len() > 1 && codelet.has_constraints())
}
