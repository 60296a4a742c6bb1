//! CUDA C++ sources, and their kernels loaded onto a GPU.

mod archive;
mod load;

pub use archive::{ARCHIVE, is_archived};
pub use load::{Launch, Loaded};

/// Options without which the kernels do not round as documented: a product and a sum are not fused
/// unless a source says so.
///
/// The others that matter are NVRTC's defaults: subnormals are kept, divisions and roots are
/// rounded correctly.
pub const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false"];

/// A source file: a module of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// File name without ending.
    pub name: &'static str,
    /// CUDA C++, whole: nothing is included.
    pub text: &'static str,
    /// The kernels' names.
    pub kernels: &'static [&'static str],
}

impl Source {
    /// Hash of this text and [`OPTIONS`] (64 bits, FNV-1a).
    pub const fn hash(&self) -> u64 {
        let mut hash = fnv1a(0xcbf2_9ce4_8422_2325, self.text.as_bytes());
        let mut i = 0;
        while i < OPTIONS.len() {
            hash = fnv1a(hash, OPTIONS[i].as_bytes());
            i += 1;
        }
        hash
    }
}

const fn fnv1a(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_follows_the_text() {
        let a = Source { name: "a", text: "one", kernels: &[] };
        assert_ne!(a.hash(), Source { text: "other", ..a }.hash());
    }
}
