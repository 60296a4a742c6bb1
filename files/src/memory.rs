//! Memory plans: the bytes of each purpose are compared with the available memory before any of it
//! is allocated. Also the peak memory of this process (Linux only).
//!
//! ```
//! use zellige_files::memory::MemoryPlan;
//!
//! let mut plan = MemoryPlan::new(Some(1_000_000));
//! plan.add("matrix", 600_000);
//! assert!(plan.check("take a smaller matrix").is_ok());
//! plan.add("factors", 700_000);
//! let refused = plan.check("take a smaller matrix").unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     "not enough memory: 1.3 MB needed (matrix 0.6 MB + factors 0.7 MB), 1.0 MB available; take a smaller matrix"
//! );
//! ```

use std::collections::TryReserveError;
use std::fmt;

/// Bytes by purpose, and the bytes that are available.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryPlan {
    /// Purposes and their bytes.
    pub items: Vec<(String, u64)>,
    /// Bytes that this process can still use, if the system reports them.
    pub available: Option<u64>,
}

impl MemoryPlan {
    /// A plan without items.
    pub fn new(available: Option<u64>) -> Self {
        MemoryPlan { items: Vec::new(), available }
    }

    /// Adds an item.
    pub fn add(&mut self, what: impl Into<String>, bytes: u64) {
        self.items.push((what.into(), bytes));
    }

    /// The sum of all items.
    pub fn total(&self) -> u64 {
        self.items.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Refuses a sum that is not available.
    ///
    /// # Errors
    /// [`NotEnoughMemory`], with the items and this remedy.
    pub fn check(&self, remedy: &str) -> Result<(), NotEnoughMemory> {
        match self.available {
            Some(available) if self.total() > available => {
                Err(NotEnoughMemory { plan: self.clone(), remedy: remedy.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} needed (", Bytes(self.total()))?;
        for (k, (what, bytes)) in self.items.iter().enumerate() {
            write!(f, "{}{what} {}", if k == 0 { "" } else { " + " }, Bytes(*bytes))?;
        }
        write!(f, ")")
    }
}

/// A plan that does not fit the memory.
#[derive(Debug, Clone, PartialEq)]
pub struct NotEnoughMemory {
    /// The plan.
    pub plan: MemoryPlan,
    /// Advice to the user that reduces the memory; may be empty.
    pub remedy: String,
}

impl NotEnoughMemory {
    /// The error for one allocation that the system refused.
    pub fn refused(what: impl Into<String>, bytes: u64, available: Option<u64>) -> Self {
        let mut plan = MemoryPlan::new(available);
        plan.add(what, bytes);
        NotEnoughMemory { plan, remedy: String::new() }
    }
}

impl fmt::Display for NotEnoughMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not enough memory: {}", self.plan)?;
        if let Some(available) = self.plan.available {
            write!(f, ", {} available", Bytes(available))?;
        }
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

impl std::error::Error for NotEnoughMemory {}

/// Returns a vector with capacity for `elements` elements, or an error if the system has no memory
/// for them.
///
/// # Errors
/// The system's refusal.
pub fn with_capacity<T>(elements: usize) -> Result<Vec<T>, TryReserveError> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(elements)?;
    Ok(vector)
}

/// Bytes for people, in megabytes or gigabytes.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gb = self.0 as f64 / 1e9;
        if gb >= 0.1 { write!(f, "{gb:.1} GB") } else { write!(f, "{:.1} MB", gb * 1e3) }
    }
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Resets the peak, if the kernel allows it.
pub fn reset_peak() {
    // "5" resets the high-water mark only (proc(5)). Without permission the peak is that of the
    // whole process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak of resident bytes since the last reset; 0 if the system does not report it.
pub fn peak() -> u64 {
    std::fs::read_to_string("/proc/self/status").ok().and_then(|text| kilobytes(&text, "VmHWM:")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_wrap_and_unknown_memory_refuses_nothing() {
        let mut plan = MemoryPlan::new(None);
        plan.add("a", u64::MAX);
        plan.add("b", 1);
        assert_eq!((plan.total(), plan.check("")), (u64::MAX, Ok(())));
        plan.available = Some(5);
        let text = plan.check("").expect_err("too large").to_string();
        assert!(text.contains("a 18446744073.7 GB + b 0.0 MB), 0.0 MB available"), "{text}");
    }

    #[test]
    fn a_vector_that_no_machine_holds_is_an_error() {
        assert!(with_capacity::<u64>(usize::MAX / 16).is_err());
        assert!(with_capacity::<u64>(3).expect("24 bytes").capacity() >= 3);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_large_allocation_is_seen() {
        let before = peak();
        let block = vec![1u8; 64 << 20];
        assert!(block.iter().all(|&b| b == 1));
        assert!(before > 0 && peak() >= block.len() as u64);
    }
}
