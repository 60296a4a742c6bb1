//! Device architectures for which codelets may have functions, in addition to CPUs.

use std::fmt;

use parking_lot::Mutex;

/// Names of all architectures of this process; an [`Arch`] is an index into it.
static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Architecture of devices that run their own functions, on values stored as bytes in device
/// memory.
///
/// A codelet names the architectures that it supports in
/// [`Codelet::on_devices`](crate::Codelet::on_devices). Devices without an architecture run the CPU
/// function.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arch(u8);

impl Arch {
    /// Returns the architecture with this name, which is the same throughout the process.
    ///
    /// # Panics
    /// If a process names more than 32.
    pub fn named(name: &'static str) -> Self {
        let mut names = NAMES.lock();
        let known = names.iter().position(|known| *known == name);
        let at = known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        assert!(at < 32, "a process has at most 32 architectures, not one for {name}");
        Arch(at as u8)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        NAMES.lock()[usize::from(self.0)]
    }
}

impl fmt::Debug for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of architectures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Archs(u32);

impl Archs {
    pub(crate) fn insert(&mut self, arch: Arch) {
        self.0 |= 1 << arch.0;
    }

    pub(crate) fn contains(self, arch: Arch) -> bool {
        self.0 >> arch.0 & 1 == 1
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the intersection of both sets.
    pub(crate) fn and(self, other: Archs) -> Archs {
        Archs(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_architecture() {
        let (one, other) = (Arch::named("test one"), Arch::named("test other"));
        assert_eq!(one, Arch::named("test one"));
        assert_ne!(one, other);
        assert_eq!((one.name(), other.name()), ("test one", "test other"));
        let mut archs = Archs::default();
        assert!(archs.is_empty());
        archs.insert(one);
        assert!(archs.contains(one) && !archs.contains(other));
    }
}
