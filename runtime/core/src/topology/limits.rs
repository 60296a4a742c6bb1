//! Resources that this process may use: its CPU mask, the limits of its control group, and
//! available memory.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// Returns the CPUs in this process's affinity mask.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// Returns the CPU time that the control group grants, in CPUs; `None` if there is no quota.
pub fn cpu_limit() -> Option<f64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let limit = |folder: &Path| parse_cpu_max(&fs::read_to_string(folder.join("cpu.max")).ok()?);
    levels("/sys/fs/cgroup", group).filter_map(|folder| limit(&folder)).min_by(f64::total_cmp)
}

/// Returns a control group's folder and its parents: every level may be tighter.
fn levels(root: &str, group: &str) -> impl Iterator<Item = PathBuf> {
    let own = Path::new(root).join(group.trim_start_matches('/'));
    std::iter::successors(Some(own), |folder| folder.parent().map(Path::to_owned))
        .take_while(move |folder| folder.starts_with(root))
}

/// Returns the bytes that this process can still use without swapping: the available memory of the
/// kernel, reduced by the limits of control groups or of the address space (`ulimit -v`). `None` if
/// the system does not report it.
pub fn available_memory() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let free = read("/proc/meminfo").and_then(|text| kilobytes(&text, "MemAvailable:"));
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let groups = own.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        match (fields.next(), fields.next()) {
            (Some(""), Some(group)) => grants("/sys/fs/cgroup", group, ["memory.max", "memory.current"]),
            (Some("memory"), Some(group)) => {
                let files = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
                grants("/sys/fs/cgroup/memory", group, files)
            }
            _ => Vec::new(),
        }
    });
    groups.chain(free).chain(free_address_space()).min()
}

/// Returns the bytes of address space that this process can still map; `None` if there is no limit.
pub(crate) fn free_address_space() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let used = kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmSize:")?;
    Some(limit.saturating_sub(used))
}

/// Returns the remaining amount at each level of a control group.
fn grants(root: &str, group: &str, [limit, used]: [&str; 2]) -> Vec<u64> {
    let left = |folder: PathBuf| {
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        // Inactive file pages are reclaimed when memory is short.
        let cached = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse::<u64>().ok());
        Some(number(limit)?.saturating_add(cached.unwrap_or(0)).saturating_sub(number(used)?))
    };
    levels(root, group).filter_map(left).collect()
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Parses the quota: `max 100000` means no limit, `150000 100000` one and a half CPUs.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let quota: f64 = quota.parse().ok()?;
    let period: f64 = period.parse().ok()?;
    (period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_quotas() {
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        assert_eq!(parse_cpu_max("nonsense"), None);
        assert_eq!(parse_cpu_max("1 0"), None);
    }

    #[test]
    fn kernel_tables_are_understood() {
        let text = "MemTotal: 5 kB\nMemAvailable:   12 kB\n";
        assert_eq!(kilobytes(text, "MemAvailable:"), Some(12 << 10));
        assert_eq!(kilobytes("MemTotal: 5 kB\n", "MemAvailable:"), None);
        assert_eq!(kilobytes("MemAvailable: many kB\n", "MemAvailable:"), None);
        assert_eq!(levels("/sys/fs/cgroup", "/a/b").count(), 3);
    }

    #[test]
    fn groups_above_count_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().to_str().expect("a name");
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        };
        write("memory.max", "1000\n");
        write("memory.current", "900\n");
        write("memory.stat", "anon 5\ninactive_file 300\n");
        write("job/memory.max", "max\n");
        write("job/memory.current", "800\n");
        assert_eq!(grants(root, "/job", ["memory.max", "memory.current"]), [400]);
        write("job/memory.max", "850\n");
        assert_eq!(grants(root, "/job", ["memory.max", "memory.current"]), [50, 400]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn there_is_memory() {
        assert!(available_memory().is_some_and(|bytes| bytes > 0));
    }
}
