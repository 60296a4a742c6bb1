//! Topology from hwloc, with the feature `hwloc`.

use hwloc2::{ObjectType, Topology, TopologyObject};

use super::CoreInfo;

/// Returns the cores among `allowed`; `None` if hwloc returns nothing.
pub(super) fn read(allowed: &[usize]) -> Option<Vec<CoreInfo>> {
    let topology = Topology::new()?;
    let cores: Vec<CoreInfo> = topology
        .objects_with_type(&ObjectType::PU)
        .ok()?
        .into_iter()
        .filter(|pu| allowed.contains(&(pu.os_index() as usize)))
        .map(describe)
        .collect();
    (!cores.is_empty()).then_some(cores)
}

fn describe(pu: &TopologyObject) -> CoreInfo {
    let cpu = pu.os_index() as usize;
    let mut info = CoreInfo { cpu, core: cpu, ..CoreInfo::default() };
    let mut above = pu.parent();
    while let Some(object) = above {
        match object.object_type() {
            ObjectType::Core => info.core = object.logical_index() as usize,
            // The outermost cache is met last and stays.
            ObjectType::L2Cache | ObjectType::L3Cache | ObjectType::L4Cache => {
                info.cache = first_cpu(object, cpu)
            }
            ObjectType::Package => info.package = object.logical_index() as usize,
            _ => {}
        }
        above = object.parent();
    }
    // hwloc 2 stores NUMA nodes outside of the tree that its crate walks: sysfs has them.
    info.node = super::sysfs::node(cpu);
    info
}

fn first_cpu(object: &TopologyObject, cpu: usize) -> usize {
    object.cpuset().and_then(|set| (0..=cpu).find(|&c| set.is_set(c as u32))).unwrap_or(cpu)
}
