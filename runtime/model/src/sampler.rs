//! Measurements of one worker, collected before they are added to the shared models.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{KindId, ModelId, Models, nanoseconds};

/// Number of footprints that a sampler collects at once; two in one slot take turns.
const SLOTS: usize = 64;
/// Maximum number of times collected for one footprint.
const BATCH: usize = 32;

/// Records the tasks of one worker: a few nanoseconds per task, and no cache line shared between
/// workers.
///
/// The first times of a footprint are passed on at once, so that it is calibrated soon; later ones
/// in batches of up to 32. [`flush`](Sampler::flush) passes on the rest: call it when the worker
/// runs out of work. Dropping the sampler does so too.
pub struct Sampler {
    models: Arc<Models>,
    kind: KindId,
    slots: Box<[Slot; SLOTS]>,
}

#[derive(Clone, Copy)]
struct Slot {
    id: ModelId,
    flops: f64,
    bytes: u64,
    /// Collected times, and their maximum number.
    waiting: usize,
    limit: usize,
    times: [u64; BATCH],
}

impl Slot {
    const fn new(id: ModelId) -> Self {
        Slot { id, flops: 0.0, bytes: 0, waiting: 0, limit: 1, times: [0; BATCH] }
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Sampler {
    /// Creates a sampler for a worker that drives a device of this kind.
    pub fn new(models: Arc<Models>, kind: KindId) -> Sampler {
        Sampler { models, kind, slots: Box::new([const { Slot::new(ModelId::NONE) }; SLOTS]) }
    }

    /// Records a task; see [`Models::record`]. Flops and bytes of a batch are those of its last
    /// task.
    #[inline]
    pub fn record(&mut self, id: ModelId, flops: f64, bytes: u64, time: Duration) {
        let slot = &mut self.slots[id.0 as usize % SLOTS];
        if slot.id != id {
            pass_on(&self.models, self.kind, slot);
            *slot = Slot::new(id);
        }
        (slot.flops, slot.bytes) = (flops, bytes);
        slot.times[slot.waiting] = nanoseconds(time);
        slot.waiting += 1;
        if slot.waiting >= slot.limit {
            pass_on(&self.models, self.kind, slot);
        }
    }

    /// Passes on all collected times.
    pub fn flush(&mut self) {
        for slot in self.slots.iter_mut() {
            pass_on(&self.models, self.kind, slot);
        }
    }
}

fn pass_on(models: &Models, kind: KindId, slot: &mut Slot) {
    if slot.waiting == 0 {
        return;
    }
    models.add(slot.id, kind, slot.flops, slot.bytes, &slot.times[..slot.waiting]);
    slot.waiting = 0;
    // Six single times would calibrate the footprint; several workers share them.
    let settled = models.is_calibrated(slot.id, kind);
    slot.limit = if settled { (slot.limit * 2).min(BATCH) } else { 1 };
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.flush();
    }
}
