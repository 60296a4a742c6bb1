//! What the system has and what this process has used of it (Linux; elsewhere nothing is known).

use std::fs;

/// Bytes that can still be used without swapping: what the kernel has available, or less where a control group grants less.
pub fn available() -> Option<u64> {
    let free = from_meminfo(&fs::read_to_string("/proc/meminfo").ok()?);
    let group = group_left("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current").or_else(|| {
        let folder = "/sys/fs/cgroup/memory";
        group_left(&format!("{folder}/memory.limit_in_bytes"), &format!("{folder}/memory.usage_in_bytes"))
    });
    match (free, group) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// What may be used: no more than `wish`, no more than there is.
pub(super) fn limit(wish: Option<u64>) -> Option<u64> {
    match (wish, available()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn from_meminfo(text: &str) -> Option<u64> {
    kilobytes(text, "MemAvailable:")
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn group_left(limit: &str, used: &str) -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    Some(number(limit)?.saturating_sub(number(used)?))
}

/// Begins a new peak, where the kernel allows it.
pub fn reset_peak() {
    // "5" resets the high-water mark only (proc(5)). Without permission the peak is that of the whole process.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Most bytes resident at once since the last reset; 0 where the system does not tell.
pub fn peak() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|text| kilobytes(&text, "VmHWM:")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_tables_are_understood() {
        assert_eq!(from_meminfo("MemTotal: 5 kB\nMemAvailable:   12 kB\n"), Some(12 << 10));
        assert_eq!(from_meminfo("MemTotal: 5 kB\n"), None);
        assert_eq!(from_meminfo("MemAvailable: many kB\n"), None);
        assert_eq!(group_left("/nowhere/a", "/nowhere/b"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_large_allocation_is_seen() {
        let before = peak();
        let block = vec![1u8; 64 << 20];
        assert!(block.iter().all(|&b| b == 1));
        assert!(before > 0 && peak() >= block.len() as u64);
        assert!(available().is_some_and(|a| a > 0));
    }
}
