//! What can never have its operands is refused when it is submitted.

use super::Hub;
use crate::data::Meta;
use crate::error::Error;
use crate::exec::Shared;
use crate::memory::{Datum, HOST, Need};
use crate::operand::Accesses;
use crate::plan::Plan;
use crate::task::Task;

impl Hub {
    /// Refuses a task whose operands can be on no node at once. Only sizes that are known count: `sized` says of which accesses they
    /// are what the handles were registered with. A late choice counts with what is stored, its widest answer.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with the arithmetic.
    pub(crate) fn check_fits(
        &self,
        shared: &Shared,
        task: &Task,
        accesses: &Accesses<'_>,
        sized: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        // A task that only a failed device could have had is let in: its failure names the device.
        let workers = || 0..self.lanes.len();
        let has_host =
            workers().any(|worker| self.node_of(worker) == HOST && self.capacity_of(HOST).is_none());
        if has_host && task.header.only.is_none() {
            return Ok(());
        }
        let needs = distinct(&self.known_needs(task, accesses, sized));
        let bytes: u64 = needs.iter().map(|need| need.bytes).sum();
        let only = task.header.only.as_ref();
        let may = |worker: &usize| only.is_none_or(|only| only.allows(&task.body, &shared.device(*worker)));
        let mut least_lacking: Option<(u64, &str)> = None;
        for worker in workers().filter(may) {
            let node = self.node_of(worker);
            match self.capacity_of(node) {
                Some(capacity) if capacity < bytes => {
                    let here = (capacity, &*self.nodes[node].name);
                    least_lacking = Some(least_lacking.map_or(here, |best| best.max(here)));
                }
                _ => return Ok(()),
            }
        }
        let Some((capacity, node)) = least_lacking else { return Ok(()) };
        let (task, node) = (task.header.title(), node.to_string());
        Err(Error::TooLarge { task, operands: needs.len(), bytes, node, capacity })
    }

    /// What the task will need of what is known.
    fn known_needs(&self, task: &Task, accesses: &Accesses<'_>, sized: impl Fn(usize) -> bool) -> Vec<Need> {
        let meta = |(at, access): (usize, &crate::operand::Declared<'_>)| {
            access.handle.registered().filter(|_| sized(at)).unwrap_or_default()
        };
        let metas: Vec<Meta> = accesses.iter().enumerate().map(meta).collect();
        let datum = |at: usize| accesses[at].handle.datum().unwrap_or(Datum(u32::MAX));
        let stored = |at: usize| Need {
            datum: datum(at),
            format: metas[at].format,
            bytes: metas[at].bytes as u64,
            access: crate::memory::Access::Read,
        };
        let late = task.body.is_late();
        let plan = if late { None } else { Plan::of(&task.header, &task.body, datum, &metas).ok() };
        match plan {
            Some(plan) => plan.needs.into_vec(),
            None => (0..metas.len()).map(stored).collect(),
        }
    }

    fn capacity_of(&self, node: usize) -> Option<u64> {
        self.with_memory(|memory| memory.capacity(node))
    }
}

/// A datum that is named twice in one form is there once.
fn distinct(needs: &[Need]) -> Vec<Need> {
    let mut distinct: Vec<Need> = Vec::new();
    for need in needs {
        if !distinct.iter().any(|other| (other.datum, other.format) == (need.datum, need.format)) {
            distinct.push(*need);
        }
    }
    distinct
}
