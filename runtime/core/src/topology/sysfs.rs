//! Topology from Linux's /sys, without a library.

use std::fs;
use std::path::Path;

use super::CoreInfo;

/// Reads the cores among `allowed` below `root` (`/sys/devices/system`). Information that cannot be
/// read counts as shared by all.
pub(super) fn read(root: &str, allowed: &[usize]) -> Vec<CoreInfo> {
    let root = Path::new(root);
    allowed.iter().map(|&cpu| read_core(root, cpu)).collect()
}

/// Returns the NUMA node of a CPU; 0 if the system does not report it.
#[cfg(feature = "hwloc")]
pub(super) fn node(cpu: usize) -> usize {
    node_of(&Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}"))).unwrap_or(0)
}

fn read_core(root: &Path, cpu: usize) -> CoreInfo {
    let dir = root.join(format!("cpu/cpu{cpu}"));
    let number = |name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse::<usize>().ok();
    CoreInfo {
        cpu,
        core: number("topology/core_id").unwrap_or(cpu),
        package: number("topology/physical_package_id").unwrap_or(0),
        cache: last_level_cache(&dir).unwrap_or(0),
        node: node_of(&dir).unwrap_or(0),
    }
}

/// Returns the lowest CPU that shares the cache of the highest level.
fn last_level_cache(cpu_dir: &Path) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    for entry in fs::read_dir(cpu_dir.join("cache")).ok()?.flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
        let level = read("level").and_then(|s| s.trim().parse::<usize>().ok());
        let engine = read("shared_cpu_list").and_then(|s| first_cpu(&s));
        if let (Some(level), Some(engine)) = (level, engine) {
            best = best.max(Some((level, engine)));
        }
    }
    best.map(|(_, engine)| engine)
}

/// Returns the node from the link `cpuN/nodeM`.
fn node_of(cpu_dir: &Path) -> Option<usize> {
    fs::read_dir(cpu_dir)
        .ok()?
        .flatten()
        .find_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

/// Returns the first number of a list such as `4-7,12`.
fn first_cpu(list: &str) -> Option<usize> {
    let digits: String = list.trim().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_and_survives_their_absence() {
        assert_eq!(first_cpu("4-7,12\n"), Some(4));
        assert_eq!(first_cpu(""), None);
        let cores = read("/nonexistent", &[3]);
        assert_eq!(cores, [CoreInfo { cpu: 3, core: 3, ..CoreInfo::default() }]);
    }
}
