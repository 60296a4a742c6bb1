//! Refusal of tasks that can never have their operands: at submission, or once their operands are
//! finished.

use std::collections::BTreeSet;

use super::TransferDriver;
use crate::engine::{Engine, Job};
use crate::error::{Cause, Error};
use crate::format::Format;
use crate::memory::{Access, Datum, HOST, Need, NodeId, bytes_of, distinct};
use crate::task::plan::{Plan, Planned, formats_of};
use crate::task::{Accesses, ReadyTask, Task};
use crate::value::Meta;

impl TransferDriver {
    /// Refuses a task whose operands fit on no node at once. Only known sizes count: `sized`
    /// selects the accesses whose handles still have their registered size. A deferred selection
    /// counts with the stored format, its widest answer.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with the arithmetic.
    pub(crate) fn check_fits(
        &self,
        engine: &Engine,
        task: &Task,
        accesses: &Accesses<'_>,
        sized: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        // A task that only a failed device could have run is accepted: its failure names the
        // device.
        let workers = || 0..self.lanes.len();
        let has_host =
            workers().any(|worker| self.node_of(worker) == HOST && self.nodes[HOST].capacity.is_none());
        if has_host && task.header.only.is_none() {
            return Ok(());
        }
        let needs = self.known_needs(task, accesses, sized);
        let (operands, bytes) = (distinct(&needs).count(), bytes_of(&needs));
        let may = |worker: &usize| engine.admits(&task.header, &task.body, *worker);
        let mut least_lacking: Option<(u64, &str)> = None;
        for worker in workers().filter(may) {
            let node = self.node_of(worker);
            match self.nodes[node].capacity {
                Some(capacity) if capacity < bytes => {
                    let here = (capacity, &*self.nodes[node].name);
                    least_lacking = Some(least_lacking.map_or(here, |best| best.max(here)));
                }
                _ => return Ok(()),
            }
        }
        let Some((capacity, node)) = least_lacking else { return Ok(()) };
        let (task, node) = (task.header.title(), node.to_string());
        Err(Error::TooLarge { task, operands, bytes, node, capacity })
    }

    /// Returns the needs of the task as far as they are known; unknown ones count nothing.
    fn known_needs(&self, task: &Task, accesses: &Accesses<'_>, sized: impl Fn(usize) -> bool) -> Vec<Need> {
        let of = |at: usize| accesses[at].handle.registered().filter(|_| sized(at));
        let known: Vec<Option<Meta>> = (0..accesses.len()).map(of).collect();
        let metas: Vec<Meta> = known.iter().map(|meta| meta.unwrap_or_default()).collect();
        let late = task.body.selects();
        let asked = if late { None } else { formats_of(&task.body, &metas).ok() };
        let need = |(at, known): (usize, &Option<Meta>)| {
            let wanted = asked.as_ref().map_or(Format::NATIVE, |(_, formats)| formats[at]);
            let format = if wanted == Format::NATIVE { metas[at].format } else { wanted };
            let size = |meta: Meta| accesses[at].handle.size_as(&meta, format).unwrap_or(meta.bytes);
            let bytes = known.map_or(0, size) as u64;
            let datum = accesses[at].handle.datum().unwrap_or(Datum(u32::MAX));
            let access = if accesses[at].look { Access::Look } else { Access::Read };
            Need { datum, format, bytes, access }
        };
        known.iter().enumerate().map(need).collect()
    }
}

impl TransferDriver {
    /// Returns the reason why a planned task can run nowhere, with the arithmetic.
    pub(crate) fn nowhere(&self, task: &ReadyTask) -> Cause {
        let restricted = if task.is_restricted() { "where it may run, " } else { "" };
        let text = task.work().planned().take().map(|Planned { plan, .. }| {
            if self.operations.timing.is_some() && plan.times.iter().all(Option::is_none) {
                let label = plan.label(task.work().header());
                return format!("no device can run it in {label:?}: no kind has a rate for it");
            }
            let (bytes, count) = (plan.bytes(), distinct(&plan.needs).count());
            let each: BTreeSet<NodeId> = self.lanes.iter().map(|lane| lane.node).collect();
            let why = each.into_iter().map(|node| self.why_not(node, &plan)).collect::<Vec<_>>().join(", ");
            format!("its {count} operands need {bytes} bytes at once, and no device can have them: {restricted}{why}")
        });
        Cause::words(text.unwrap_or_else(|| "no device can run it".into()))
    }

    fn why_not(&self, node: NodeId, plan: &Plan) -> String {
        let name = &self.nodes[node].name;
        if let Some(error) = self.nodes[node].failure.get() {
            return error.to_string();
        }
        let stays =
            distinct(&plan.needs).filter_map(|need| self.handle(need.datum)).find(|h| !h.is_portable());
        match (stays, self.nodes[node].capacity) {
            (Some(handle), _) if node != HOST => {
                format!("{} cannot leave the host for {name}", handle.base().name())
            }
            _ if node != HOST && plan.on_host => format!("{name} has no host memory, which it needs"),
            (_, Some(capacity)) => format!("{name} has {capacity} bytes"),
            (_, None) => format!("{name} is not limited"),
        }
    }
}
