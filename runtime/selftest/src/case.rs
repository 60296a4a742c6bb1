//! What a case is made of: data, steps and a machine, all of them plain descriptions.

use std::ops::Range;
use std::sync::Arc;

use zellige_runtime::{Emulated, Format};

use super::accelerator::Accelerator;

/// The type of a handle's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Words in three formats.
    Words,
    /// The same, which cannot leave the host.
    Local,
    /// A plain vector.
    Plain,
}

/// How a handle begins.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) kind: Kind,
    pub(super) format: Format,
    pub(super) len: usize,
    pub(super) seed: u64,
    /// Registered without a value.
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

    /// True if a deferred selection may look at its metas, and choose its format.
    pub(super) fn is_chosen_for(&self) -> bool {
        matches!(self, Access::Read { .. } | Access::List { .. } | Access::Update { .. })
    }
}

/// How a job fails on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its body returns an error, before it writes or after.
    Before,
    After,
    /// Its body panics.
    Panic,
    /// Its deferred selection does.
    Choice,
    /// It asks for a format that the data type does not have.
    Format,
}

/// A task.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) seed: u64,
    pub(super) accesses: Vec<Access>,
    pub(super) fault: Option<Fault>,
    /// It chooses formats and a variant late.
    pub(super) late: bool,
    pub(super) priority: i32,
    /// It runs after the one that was submitted before it.
    pub(super) after: bool,
    /// The submitting thread waits for it.
    pub(super) waits: bool,
}

impl Job {
    pub(super) fn commutes(&self) -> bool {
        self.accesses.iter().any(Access::commutes)
    }

    /// The same without what a GPU cannot record: deferred selections, other formats, turns,
    /// failures.
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

    /// The handles that it writes.
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

    /// Each handle with its region.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, &Range<usize>)> {
        self.handles().zip(&self.regions)
    }
}

/// What the memory manager is told beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    Prefetch,
    WontUse,
    /// Brought to a node and kept there for a moment: for longer a task might wait for its memory
    /// in vain.
    Pin,
}

/// What the submitting thread does next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Submit(Arc<Job>),
    /// Records these, and replays them twice or more often; all but the first time with another
    /// handle in place of one.
    Replay {
        jobs: Vec<Arc<Job>>,
        times: usize,
        instead: Option<(usize, usize)>,
    },
    /// Reads in place; `across` the next submission.
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
    /// Takes a plain vector apart.
    Split(Parts),
    /// Shows regions of a plain vector as they are now.
    Views(Parts),
    /// Puts together what was taken apart.
    Join(Parts),
    /// A hint for a worker, by its number modulo how many there are.
    Hint {
        handle: usize,
        worker: usize,
        hint: Hint,
    },
    /// Waits for all tasks.
    Wait,
}

/// A GPU in the place of an emulated device.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuOf {
    /// Which of the driver's; several devices may share one.
    pub(super) number: u32,
    pub(super) streams: usize,
    /// The operation at which it fails for good, from 0.
    pub(super) fails_at: Option<u64>,
}

/// Where it runs.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) policy: &'static str,
    pub(super) cpus: usize,
    pub(super) window: usize,
    pub(super) devices: Vec<Emulated>,
    /// Those of the devices that are GPUs instead, with the memory that the emulated one would have
    /// had.
    pub(super) gpus: Vec<Option<GpuOf>>,
    /// One of them is a GPU that gets whatever it can run, and replays in one launch where they can
    /// be.
    pub(super) as_one: bool,
    /// From which the order of what is on their streams is drawn.
    pub(super) gpu_seed: u64,
    pub(super) peers: Option<f64>,
    /// What the host holds at most (bytes).
    pub(super) host: Option<u64>,
    /// There is a disk behind it.
    pub(super) swap: bool,
    /// The device that fails.
    pub(super) dies: Option<usize>,
    /// Values are looked at after the runtime has ended, through another one.
    pub(super) outlived: bool,
    /// What GPUs are replaced by.
    pub(super) accelerator: Option<Accelerator>,
    /// All runs on one thread, in an order that is drawn from this.
    pub(super) order: Option<u64>,
}

impl Machine {
    /// One thread does everything, and GPUs, which have clocks of their own, are emulated devices.
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
    /// Tasks that are submitted, those of replays included.
    pub(super) tasks: u64,
}

impl Case {
    /// True if a handle is taken apart, or shown in views.
    pub(super) fn has_parts(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Split(_) | Step::Views(_)))
    }
}
