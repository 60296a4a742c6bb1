//! The parts of a case: data, steps and a machine, all of them plain descriptions.

use std::ops::Range;
use std::sync::Arc;

use zellige_runtime::{Emulated, Format};

use super::accelerator::Accelerator;

/// The type of a handle's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Words in three formats.
    Words,
    /// Words in three formats that cannot leave the host.
    Local,
    /// A plain vector.
    Plain,
}

/// Initial state of a handle.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) kind: Kind,
    pub(super) format: Format,
    pub(super) len: usize,
    pub(super) seed: u64,
    /// True if it is registered without a value.
    pub(super) empty: bool,
}

/// One operand of a job; handles are indices.
#[derive(Clone, Debug)]
pub(super) enum Access {
    Read { handle: usize, format: Format },
    List { handles: Vec<usize>, format: Format },
    Update { handle: usize, format: Format, becomes: Option<Format> },
    Write { handle: usize, format: Format, len: usize },
    Commute { handle: usize },
    Reduce { handle: usize },
}

impl Access {
    pub(super) fn handles(&self) -> &[usize] {
        match self {
            Access::List { handles, .. } => handles,
            Access::Read { handle, .. }
            | Access::Update { handle, .. }
            | Access::Write { handle, .. }
            | Access::Commute { handle }
            | Access::Reduce { handle } => std::slice::from_ref(handle),
        }
    }

    pub(super) fn writes(&self) -> bool {
        !matches!(self, Access::Read { .. } | Access::List { .. })
    }

    pub(super) fn commutes(&self) -> bool {
        matches!(self, Access::Commute { .. } | Access::Reduce { .. })
    }

    /// True if a deferred selection may read its metas, and choose its format.
    pub(super) fn is_chosen_for(&self) -> bool {
        matches!(self, Access::Read { .. } | Access::List { .. } | Access::Update { .. })
    }
}

/// Intentional failure of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its body returns an error, before it writes or after.
    Before,
    After,
    /// Its body panics.
    Panic,
    /// Its deferred selection panics.
    Choice,
    /// It requests a format that the data type does not have.
    Format,
}

/// A task.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) seed: u64,
    pub(super) accesses: Vec<Access>,
    pub(super) fault: Option<Fault>,
    /// True if it uses deferred selection of formats and a variant.
    pub(super) late: bool,
    pub(super) priority: i32,
    /// True if it runs after the previously submitted one.
    pub(super) after: bool,
    /// True if the submitting thread waits for it.
    pub(super) waits: bool,
}

impl Job {
    pub(super) fn commutes(&self) -> bool {
        self.accesses.iter().any(Access::commutes)
    }

    /// Returns the job without features that a GPU cannot record: deferred selections, other
    /// formats, turns, failures.
    pub(super) fn plain(self) -> Job {
        let plain = |access: Access| match access {
            Access::Read { handle, .. } => Access::Read { handle, format: Format::NATIVE },
            Access::List { handles, .. } => Access::List { handles, format: Format::NATIVE },
            Access::Update { handle, .. } | Access::Commute { handle } | Access::Reduce { handle } => {
                Access::Update { handle, format: Format::NATIVE, becomes: None }
            }
            Access::Write { .. } => access,
        };
        let accesses = self.accesses.into_iter().map(plain).collect();
        Job { accesses, fault: None, late: false, ..self }
    }

    /// Returns the handles that it writes.
    pub(super) fn written(&self) -> impl Iterator<Item = usize> {
        self.accesses.iter().filter(|access| access.writes()).map(|access| access.handles()[0])
    }
}

/// Parts or views of a plain vector: the handles from `first` on, one for each region.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) handle: usize,
    pub(super) regions: Vec<Range<usize>>,
    pub(super) first: usize,
}

impl Parts {
    pub(super) fn handles(&self) -> Range<usize> {
        self.first..self.first + self.regions.len()
    }

    /// Returns each handle with its region.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, &Range<usize>)> {
        self.handles().zip(&self.regions)
    }
}

/// A hint for the memory manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    Prefetch,
    WontUse,
    /// Brings the value to a node and keeps it there for a moment only: otherwise a task might wait
    /// for its memory in vain.
    Pin,
}

/// The next action of the submitting thread.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Submit(Arc<Job>),
    /// Records these, and replays them at least twice. From the second replay on, another handle
    /// replaces one of them.
    Replay {
        jobs: Vec<Arc<Job>>,
        times: usize,
        instead: Option<(usize, usize)>,
    },
    /// Reads in place; `across`: the guard is held during the next submission.
    Read {
        handle: usize,
        across: bool,
    },
    /// Changes in place.
    Change {
        handle: usize,
        seed: u64,
    },
    Take {
        handle: usize,
    },
    Drop {
        handle: usize,
    },
    /// Splits a plain vector.
    Split(Parts),
    /// Makes views of regions of a plain vector in their present state.
    Views(Parts),
    /// Joins a split vector.
    Join(Parts),
    /// A hint for a worker, by its number modulo the number of workers.
    Hint {
        handle: usize,
        worker: usize,
        hint: Hint,
    },
    /// Waits for all tasks.
    Wait,
}

/// A GPU in place of an emulated device.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuOf {
    /// Its number in the driver; several devices may share one.
    pub(super) number: u32,
    pub(super) streams: usize,
    /// The operation at which it fails for good, from 0.
    pub(super) fails_at: Option<u64>,
}

/// The machine of a case.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) policy: &'static str,
    pub(super) cpus: usize,
    pub(super) window: usize,
    pub(super) devices: Vec<Emulated>,
    /// The devices that are GPUs instead, with the same memory as the emulated device.
    pub(super) gpus: Vec<Option<GpuOf>>,
    /// True if one of them is a GPU that gets all tasks that it can run, and replays in one launch
    /// if possible.
    pub(super) as_one: bool,
    /// Seed of the order of operations on their streams.
    pub(super) gpu_seed: u64,
    pub(super) peers: Option<f64>,
    /// Limit of host memory (bytes).
    pub(super) host: Option<u64>,
    /// True if a disk backs the host.
    pub(super) swap: bool,
    /// The device that fails.
    pub(super) dies: Option<usize>,
    /// True if values are read after the end of the runtime, through another one.
    pub(super) outlived: bool,
    /// Device kind that replaces GPUs.
    pub(super) accelerator: Option<Accelerator>,
    /// Seed of the order if all runs on one thread.
    pub(super) order: Option<u64>,
}

impl Machine {
    /// Makes one thread do everything. GPUs, which have clocks of their own, become emulated
    /// devices.
    pub(super) fn runs_on_one_thread(&mut self, seed: u64) {
        self.order = Some(seed);
        self.gpus.fill(None);
        self.as_one = false;
    }
}

/// A case.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// All handles; parts and views begin empty, with the length of their region.
    pub(super) data: Vec<Start>,
    pub(super) steps: Vec<Step>,
    pub(super) machine: Machine,
    /// Number of submitted tasks, including those of replays.
    pub(super) tasks: u64,
}

impl Case {
    /// True if a handle is split, or shown in views.
    pub(super) fn has_parts(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Split(_) | Step::Views(_)))
    }
}
