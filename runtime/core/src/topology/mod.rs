//! Cores that this process may use, and the distances between them.

#[cfg(feature = "hwloc")]
mod hwloc;
mod limits;
mod sysfs;

pub(crate) use limits::free_address_space;
pub use limits::{available_memory, cpu_limit};

use std::collections::BTreeSet;
use std::sync::Arc;

/// One core (one hardware thread of it).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreInfo {
    /// Number in the operating system.
    pub cpu: usize,
    /// Physical core; hardware threads of one core share it.
    pub core: usize,
    /// Last-level cache, given by the lowest CPU that shares it.
    pub cache: usize,
    /// NUMA node.
    pub node: usize,
    /// Socket.
    pub package: usize,
}

impl CoreInfo {
    /// Returns 0 for the same physical core, 1 for a shared cache, 2 for a NUMA node, 3 for a
    /// socket, and 4 otherwise.
    pub fn distance(&self, other: &CoreInfo) -> usize {
        if (self.package, self.core) == (other.package, other.core) {
            0
        } else if self.cache == other.cache {
            1
        } else if self.node == other.node {
            2
        } else if self.package == other.package {
            3
        } else {
            4
        }
    }
}

/// The cores that this process may use.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The cores, one hardware thread of each physical core first.
    pub cores: Vec<CoreInfo>,
    /// Source of the information: `sysfs` or `hwloc`.
    pub source: &'static str,
}

impl Topology {
    /// Discovers the topology: from hwloc if it is built in and works, otherwise from sysfs.
    pub fn discover() -> Topology {
        let allowed = limits::allowed_cpus();
        #[cfg(feature = "hwloc")]
        if let Some(cores) = hwloc::read(&allowed) {
            return Topology { cores: first_threads_first(cores), source: "hwloc" };
        }
        let cores = sysfs::read("/sys/devices/system", &allowed);
        Topology { cores: first_threads_first(cores), source: "sysfs" }
    }
}

/// Orders cores so that the second hardware thread of a core comes after the first threads of all
/// cores.
fn first_threads_first(mut cores: Vec<CoreInfo>) -> Vec<CoreInfo> {
    let mut seen = BTreeSet::new();
    cores.sort_by_key(|core| core.cpu);
    let (mut first, second): (Vec<_>, Vec<_>) =
        cores.into_iter().partition(|core| seen.insert((core.package, core.core)));
    first.extend(second);
    first
}

/// Returns the other workers for each worker, nearest first. Additional workers beyond one for each
/// of `distinct` cores share the list of the first on their core, which then has all workers.
pub(crate) fn neighbours(cores: &[CoreInfo], distinct: usize) -> Vec<Arc<[usize]>> {
    let count = cores.len();
    let steps = if count > distinct { 1..count + 1 } else { 1..count };
    let of = |me: usize| {
        // Starting after the worker itself, so that thieves do not all go to worker 0 first.
        let mut others: Vec<usize> = steps.clone().map(|step| (me + step) % count).collect();
        others.sort_by_key(|&other| cores[me].distance(&cores[other]));
        Arc::from(others)
    };
    let lists: Vec<Arc<[usize]>> = (0..count.min(distinct)).map(of).collect();
    (0..count).map(|worker| Arc::clone(&lists[worker % distinct])).collect()
}

/// Binds the calling thread to one CPU; does nothing if the system refuses.
pub(crate) fn pin_to(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    if cpu < rustix::thread::CpuSet::MAX_CPU {
        set.set(cpu);
        if let Err(e) = rustix::thread::sched_setaffinity(None, &set) {
            tracing::debug!(cpu, error = %e, "the system refuses to pin a worker");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(cpu: usize, core: usize, cache: usize, package: usize) -> CoreInfo {
        CoreInfo { cpu, core, cache, node: package, package }
    }

    #[test]
    fn neighbours_are_sorted_by_distance() {
        let cores = [core(0, 0, 0, 0), core(1, 1, 0, 0), core(2, 2, 2, 0), core(3, 0, 3, 1)];
        assert_eq!(*neighbours(&cores, 4)[0], [1, 2, 3]);
        assert_eq!(*neighbours(&cores, 4)[3], [0, 1, 2]);
    }

    #[test]
    fn workers_that_share_a_core_share_a_list_of_all() {
        let of = |worker: usize| core(worker % 2, worker % 2, worker % 2, 0);
        let lists = neighbours(&(0..5).map(of).collect::<Vec<_>>(), 2);
        assert_eq!(*lists[0], [2, 4, 0, 1, 3]);
        assert!([2, 4].iter().all(|&worker| Arc::ptr_eq(&lists[0], &lists[worker])));
    }

    #[test]
    fn second_hardware_threads_come_last() {
        let cores = vec![core(0, 0, 0, 0), core(1, 0, 0, 0), core(2, 1, 0, 0), core(3, 1, 0, 0)];
        let cpus: Vec<usize> = first_threads_first(cores).iter().map(|core| core.cpu).collect();
        assert_eq!(cpus, [0, 2, 1, 3]);
    }

    #[test]
    fn this_machine_has_a_core() {
        let topology = Topology::discover();
        assert!(!topology.cores.is_empty());
    }
}
