//! Records as columns of numbers.

use serde::{Deserialize, Serialize};

use super::ReadError;
use crate::{
    EvictionEvent, GivenTime, IdleEvent, IdleState, MemoryEvent, PhaseEvent, TaskEvent, TransferEvent,
    TransferReason,
};

/// Columns of numbers, all of one length.
macro_rules! columns {
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        #[derive(Default, Serialize, Deserialize)]
        pub(super) struct $name { $(pub(super) $field: Vec<$type>,)* }

        impl $name {
            /// Returns the number of rows, if all columns have the same length.
            fn rows(&self, section: &'static str) -> Result<usize, ReadError> {
                let lengths = [$(self.$field.len(),)*];
                match lengths.iter().all(|&length| length == lengths[0]) {
                    true => Ok(lengths[0]),
                    false => Err(ReadError::Content { section, problem: "columns of different lengths".into() }),
                }
            }
        }
    };
}

// Times and the numbers of tasks are stored as differences to the previous row: small numbers take
// few bytes.
columns!(Tasks {
    worker: u32,
    id: i64,
    name: u32,
    label: u32,
    implementation: u32,
    batch: u32,
    coords: Option<Vec<u32>>,
    priority: i32,
    flops: f64,
    bytes: u64,
    start_ns: i64,
    took_ns: i64,
    predicted_ns: u64,
    ready: u32,
    failed: bool,
});
columns!(Edges { to: i64, back: i64 });
columns!(Idle { worker: u32, start_ns: i64, took_ns: i64, state: u8 });
columns!(Phases { name: u32, start_ns: i64 });
columns!(Transfers {
    from: u32,
    to: u32,
    data: u64,
    label: u32,
    bytes: u64,
    start_ns: i64,
    took_ns: i64,
    reason: u8,
    converted: bool,
});
columns!(Memory { node: u32, at_ns: i64, used: u64 });
columns!(Evictions { node: u32, data: u64, bytes: u64, at_ns: i64, written_back: bool });
columns!(Given { name: u32, label: u32, kind: u32, time_ns: u64 });

/// Numbers as differences to the previous one.
#[derive(Default)]
pub(super) struct Delta(pub(super) u64);

impl Delta {
    pub(super) fn of(&mut self, value: u64) -> i64 {
        let before = std::mem::replace(&mut self.0, value);
        value.wrapping_sub(before) as i64
    }

    fn back(&mut self, difference: i64) -> u64 {
        self.0 = self.0.wrapping_add(difference as u64);
        self.0
    }
}

pub(super) type StringOf<'s> = dyn Fn(&'static str, u32) -> Result<&'static str, ReadError> + 's;

impl Tasks {
    pub(super) fn read(&self, string: &StringOf<'_>) -> Result<Vec<TaskEvent>, ReadError> {
        const SECTION: &str = "task";
        let (mut id, mut start) = (Delta::default(), Delta::default());
        let task = |i: usize| {
            let start_ns = start.back(self.start_ns[i]);
            Ok(TaskEvent {
                worker: self.worker[i],
                id: id.back(self.id[i]),
                name: string(SECTION, self.name[i])?,
                label: string(SECTION, self.label[i])?,
                implementation: string(SECTION, self.implementation[i])?,
                batch: self.batch[i],
                coords: self.coords[i].as_deref().map(with_unused).transpose()?,
                priority: self.priority[i],
                flops: self.flops[i],
                bytes: self.bytes[i],
                start_ns,
                end_ns: Delta(start_ns).back(self.took_ns[i]),
                predicted_ns: self.predicted_ns[i],
                ready: self.ready[i],
                failed: self.failed[i],
            })
        };
        (0..self.rows(SECTION)?).map(task).collect()
    }
}

impl Edges {
    pub(super) fn read(&self) -> Result<Vec<(u64, u64)>, ReadError> {
        let mut to = Delta::default();
        let edge = |i: usize| {
            let to = to.back(self.to[i]);
            (to.wrapping_sub(self.back[i] as u64), to)
        };
        Ok((0..self.rows("edge")?).map(edge).collect())
    }
}

impl Idle {
    pub(super) fn read(&self) -> Result<Vec<IdleEvent>, ReadError> {
        let mut start = Delta::default();
        let idle = |i: usize| {
            let start_ns = start.back(self.start_ns[i]);
            let state = one_of(&IdleState::ALL, "idle", self.state[i])?;
            Ok(IdleEvent {
                worker: self.worker[i],
                start_ns,
                end_ns: Delta(start_ns).back(self.took_ns[i]),
                state,
            })
        };
        (0..self.rows("idle")?).map(idle).collect()
    }
}

impl Phases {
    pub(super) fn read(&self, string: &StringOf<'_>) -> Result<Vec<PhaseEvent>, ReadError> {
        const SECTION: &str = "phas";
        let mut start = Delta::default();
        let phase = |i: usize| {
            let name = string(SECTION, self.name[i])?.into();
            Ok(PhaseEvent { name, start_ns: start.back(self.start_ns[i]) })
        };
        (0..self.rows(SECTION)?).map(phase).collect()
    }
}

impl Transfers {
    pub(super) fn read(&self, string: &StringOf<'_>) -> Result<Vec<TransferEvent>, ReadError> {
        const SECTION: &str = "xfer";
        let mut start = Delta::default();
        let transfer = |i: usize| {
            let start_ns = start.back(self.start_ns[i]);
            Ok(TransferEvent {
                from: self.from[i],
                to: self.to[i],
                data: self.data[i],
                label: string(SECTION, self.label[i])?,
                bytes: self.bytes[i],
                start_ns,
                end_ns: Delta(start_ns).back(self.took_ns[i]),
                reason: one_of(&TransferReason::ALL, SECTION, self.reason[i])?,
                converted: self.converted[i],
            })
        };
        (0..self.rows(SECTION)?).map(transfer).collect()
    }
}

impl Memory {
    pub(super) fn read(&self) -> Result<Vec<MemoryEvent>, ReadError> {
        let mut at = Delta::default();
        let memory =
            |i: usize| MemoryEvent { node: self.node[i], at_ns: at.back(self.at_ns[i]), used: self.used[i] };
        Ok((0..self.rows("memo")?).map(memory).collect())
    }
}

impl Evictions {
    pub(super) fn read(&self) -> Result<Vec<EvictionEvent>, ReadError> {
        let mut at = Delta::default();
        let eviction = |i: usize| EvictionEvent {
            node: self.node[i],
            data: self.data[i],
            bytes: self.bytes[i],
            at_ns: at.back(self.at_ns[i]),
            written_back: self.written_back[i],
        };
        Ok((0..self.rows("evic")?).map(eviction).collect())
    }
}

impl Given {
    pub(super) fn read(&self, string: &StringOf<'_>) -> Result<Vec<GivenTime>, ReadError> {
        const SECTION: &str = "time";
        let given = |i: usize| {
            Ok(GivenTime {
                name: string(SECTION, self.name[i])?,
                label: string(SECTION, self.label[i])?,
                kind: string(SECTION, self.kind[i])?.into(),
                time_ns: self.time_ns[i],
            })
        };
        (0..self.rows(SECTION)?).map(given).collect()
    }
}

/// The coordinates up to the last one in use.
pub(super) fn without_unused(coords: [u32; 3]) -> Vec<u32> {
    let used = coords.iter().rposition(|&coord| coord != u32::MAX).map_or(0, |last| last + 1);
    coords[..used].into()
}

fn with_unused(used: &[u32]) -> Result<[u32; 3], ReadError> {
    let problem = || format!("{} coordinates; a task has three at most", used.len());
    let mut coords = [u32::MAX; 3];
    let places = coords.get_mut(..used.len());
    places.ok_or_else(|| ReadError::Content { section: "task", problem: problem() })?.copy_from_slice(used);
    Ok(coords)
}

fn one_of<T: Copy>(all: &[T], section: &'static str, number: u8) -> Result<T, ReadError> {
    let problem = || format!("{number} where there are numbers below {}", all.len());
    all.get(usize::from(number)).copied().ok_or_else(|| ReadError::Content { section, problem: problem() })
}
