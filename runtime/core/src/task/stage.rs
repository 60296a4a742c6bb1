//! The stages of a task's life, and the transitions between them. The table is that of
//! `../engine/README.md`, and a test compares the two.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU8, Ordering};

/// Stage of a task. The number of its incomplete predecessors is counted separately: see
/// `../engine/README.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// It waits for its predecessors.
    Waiting,
    /// Its scheduling policy has it.
    Queued,
    /// A worker has popped it.
    Taken,
    /// It is kept with a resource that another task uses, and comes back when that is free.
    Parked,
    /// It has exclusive access to the handles on which it commutes.
    Exclusive,
    /// The memory manager gathers its operands on the worker's node.
    Staging,
    /// Its operands are on the worker's node.
    Staged,
    /// Its body runs on the worker's thread.
    Running,
    /// It has been handed to the worker's device.
    Launched,
    /// It has completed, failed or been discarded, and its successors have been notified.
    Ended,
}

#[cfg(any(test, debug_assertions))]
use Stage::{Ended, Exclusive, Launched, Parked, Queued, Running, Staged, Staging, Taken, Waiting};

/// All transitions.
#[cfg(any(test, debug_assertions))]
pub(crate) const TRANSITIONS: &[(Stage, Stage)] = &[
    (Waiting, Queued),
    (Waiting, Staged),
    (Waiting, Ended),
    (Queued, Taken),
    (Queued, Queued),
    (Queued, Ended),
    (Taken, Running),
    (Taken, Exclusive),
    (Taken, Parked),
    (Taken, Queued),
    (Taken, Ended),
    (Parked, Queued),
    (Parked, Taken),
    (Parked, Ended),
    (Exclusive, Staging),
    (Exclusive, Queued),
    (Exclusive, Ended),
    (Staging, Staged),
    (Staging, Queued),
    (Staging, Ended),
    (Staged, Running),
    (Staged, Launched),
    (Staged, Queued),
    (Staged, Waiting),
    (Staged, Ended),
    (Running, Parked),
    (Running, Queued),
    (Running, Ended),
    (Launched, Queued),
    (Launched, Waiting),
    (Launched, Ended),
];

/// The stage of one task. Without debug assertions it takes no space and no time.
#[derive(Debug, Default)]
pub(crate) struct StageCell(#[cfg(debug_assertions)] AtomicU8);

impl StageCell {
    /// The task enters a stage.
    ///
    /// # Panics
    /// In debug builds, where the table has no such transition.
    #[inline]
    #[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "only debug builds know the stage"))]
    pub(crate) fn enter(&self, stage: Stage) {
        #[cfg(debug_assertions)]
        {
            let before = self.0.swap(stage as u8, Ordering::AcqRel);
            let known = TRANSITIONS.iter().any(|&(from, to)| from as u8 == before && to == stage);
            assert!(known, "a task goes from stage {before} to {stage:?}, which is no transition");
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The rows of the table in `README.md` are the transitions, each once, in both directions.
    #[test]
    fn the_table_of_the_readme_is_this_one() {
        let row = |line: &str| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let &[_, from, to, when, ..] = &cells[..] else { return None };
            let named = !from.is_empty() && !when.is_empty();
            named.then(|| (from.to_owned(), to.to_owned()))
        };
        let text = include_str!("../engine/README.md");
        let table = text.lines().skip_while(|line| !line.starts_with("| from | to |"));
        let written: Vec<_> =
            table.skip(2).map_while(|line| line.starts_with('|').then(|| row(line).unwrap())).collect();
        let coded: Vec<_> =
            TRANSITIONS.iter().map(|(from, to)| (format!("{from:?}"), format!("{to:?}"))).collect();
        assert_eq!(written, coded);
    }

    /// From each stage but the last a task can go on. Every stage can be reached, and can be left
    /// for the end.
    #[test]
    fn every_stage_leads_to_the_end() {
        let reach = |from: Stage| {
            let mut seen = vec![from];
            let mut at = 0;
            while at < seen.len() {
                for &(before, after) in TRANSITIONS {
                    if before == seen[at] && !seen.contains(&after) {
                        seen.push(after);
                    }
                }
                at += 1;
            }
            seen
        };
        let all = reach(Waiting);
        assert_eq!(all.len(), 10);
        assert!(all.iter().all(|&stage| reach(stage).contains(&Ended)));
        assert_eq!(reach(Ended), [Ended]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no transition")]
    fn a_task_that_has_ended_does_not_run() {
        let cell = StageCell::default();
        cell.enter(Ended);
        cell.enter(Running);
    }
}
