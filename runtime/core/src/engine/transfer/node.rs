//! Memory nodes, and the devices that work on them.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::buffer::HostPool;
use crate::device::{Device, DeviceMemory, DeviceSpec, Emulated, Events, Opening, SimulatedDevice};
use crate::error::DeviceError;

/// One memory node and the device that works on it.
pub(super) struct MemoryNode {
    pub(super) name: String,
    /// Its name in the performance models of links.
    pub(super) link_end: String,
    /// Description of its device, for people.
    pub(super) what: Option<String>,
    /// Capacity in bytes; `None`: unlimited.
    pub(super) capacity: Option<u64>,
    /// The device that moves bytes to it; `None`: the host, or the disk.
    pub(super) device: Option<Arc<dyn Device>>,
    /// Its memory, if it belongs to a device with an architecture of its own.
    pub(super) memory: Option<Arc<dyn DeviceMemory>>,
    /// Set once the device has failed.
    pub(super) failure: OnceLock<DeviceError>,
    /// Held until the manager has processed the failure.
    pub(super) retiring: Mutex<()>,
    /// Copies to and from its memory in progress.
    pub(super) moving: AtomicUsize,
}

impl MemoryNode {
    pub(super) fn new(name: String, capacity: Option<u64>, device: Option<Arc<dyn Device>>) -> Self {
        let (failure, retiring, moving) = Default::default();
        let link_end = name.clone();
        let memory = device.as_ref().and_then(|device| device.memory());
        MemoryNode { name, link_end, what: None, capacity, device, memory, failure, retiring, moving }
    }

    /// True for two devices that work on host memory, and for two devices with direct access to
    /// each other.
    pub(super) fn is_peer_of(&self, other: &MemoryNode) -> bool {
        match (&self.memory, &other.memory) {
            (None, None) => true,
            (Some(one), Some(other)) => one.reaches(&**other),
            _ => false,
        }
    }

    /// Creates a node for this device, named by its kind and number. With `events` it is a
    /// simulated one.
    ///
    /// # Errors
    /// The reason why a device cannot be used, in words.
    pub(super) fn of(
        number: usize,
        spec: &dyn DeviceSpec,
        opening: Opening,
        events: Option<&Arc<Events>>,
    ) -> Result<Self, String> {
        let name = opening.name.clone();
        let (capacity, what, link_end) = (Some(spec.capacity()), Some(spec.title()), spec.link_end(number));
        let device: Arc<dyn Device> = match events {
            None => spec.open(opening).map_err(|error| format!("{name}: {error}"))?,
            Some(events) => {
                let Some(emulated) = spec.downcast::<Emulated>() else {
                    return Err(format!("{name}: only emulated devices run in simulated time"));
                };
                let device = SimulatedDevice::new(events, number, &name);
                Arc::new(device.like(spec.link(), emulated.fails_at))
            }
        };
        Ok(MemoryNode { what, link_end, ..MemoryNode::new(name, capacity, Some(device)) })
    }
}

/// Creates pools of recycled host memory: page-locked for the devices that request it, a pool for
/// each allocator, or ordinary if none does.
pub(super) fn pools(devices: &[Arc<dyn DeviceSpec>], limit: Option<u64>) -> Vec<Arc<HostPool>> {
    let mut pools: Vec<Arc<HostPool>> = Vec::new();
    for (allocator, least) in devices.iter().filter_map(|device| device.pinned()) {
        if !pools.iter().any(|pool| pool.is_of(&*allocator)) {
            pools.push(HostPool::page_locked(&allocator, least, limit));
        }
    }
    if pools.is_empty() {
        pools.push(HostPool::ordinary(limit));
    }
    pools
}
