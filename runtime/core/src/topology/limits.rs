//! How much of the machine this process may use: its CPU mask and its control group's quota.

use std::fs;
use std::path::Path;

/// The CPUs in this process's affinity mask.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// The CPU time that the control group grants, in CPUs; `None` where there is no quota.
pub fn cpu_limit() -> Option<f64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut path = Path::new("/sys/fs/cgroup").join(group.trim_start_matches('/'));
    let mut limit: Option<f64> = None;
    // Every level above may be tighter.
    while path.starts_with("/sys/fs/cgroup") {
        if let Some(here) = fs::read_to_string(path.join("cpu.max")).ok().as_deref().and_then(parse_cpu_max) {
            limit = Some(limit.map_or(here, |l| l.min(here)));
        }
        if !path.pop() {
            break;
        }
    }
    limit
}

/// `max 100000` means no limit, `150000 100000` one and a half CPUs.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let quota: f64 = quota.parse().ok()?;
    let period: f64 = period.parse().ok()?;
    (period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::parse_cpu_max;

    #[test]
    fn reads_quotas() {
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        assert_eq!(parse_cpu_max("nonsense"), None);
        assert_eq!(parse_cpu_max("1 0"), None);
    }
}
