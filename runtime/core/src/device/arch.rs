//! Architectures: what a codelet may have functions for besides CPUs.

use std::fmt;

use parking_lot::Mutex;

/// The names of all architectures of this process; an [`Arch`] is a place in it.
static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The architecture of devices that run functions of their own, on values that lie as bytes in
/// their memory.
///
/// A codelet says with [`Codelet::on_devices`](crate::Codelet::on_devices) which it has functions
/// for. Devices without an architecture run the CPU function.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arch(u8);

impl Arch {
    /// The architecture of this name, the same wherever it is asked for.
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

    /// Its name.
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

    /// Those that are in both.
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
