//! Norms of values that do not exist.

use std::collections::HashMap;

/// Norms by slot and version, for a simulation of codelets with deferred selection: the norms that
/// the writers of a real run would have measured.
///
/// Version 0 of a slot is its initial value; each task that writes it makes the next one. A version
/// without a norm of its own keeps that of the previous one.
#[derive(Clone, Debug, Default)]
pub struct Norms(HashMap<(u32, u32), f64>);

impl Norms {
    /// Sets the norm of `version` of the value in `slot`.
    pub fn set(&mut self, slot: usize, version: usize, norm: f64) {
        let narrow = |x: usize| u32::try_from(x).expect("graphs have fewer than 2^32 slots and tasks");
        self.0.insert((narrow(slot), narrow(version)), norm);
    }

    /// Returns the norm of `version` of `slot`.
    pub(super) fn get(&self, slot: u32, version: u32) -> Option<f64> {
        self.0.get(&(slot, version)).copied()
    }
}
