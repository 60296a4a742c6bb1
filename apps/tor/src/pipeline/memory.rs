//! What the system has and what this process has used of it (Linux; elsewhere nothing is known).

use std::fs;

use zellige_runtime::topology::available_memory;

/// What may be used: no more than `wish`, no more than there is.
pub(super) fn limit(wish: Option<u64>) -> Option<u64> {
    match (wish, available_memory()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_large_allocation_is_seen() {
        let before = peak();
        let block = vec![1u8; 64 << 20];
        assert!(block.iter().all(|&b| b == 1));
        assert!(before > 0 && peak() >= block.len() as u64);
    }
}
