//! CUDA C++ that is shipped: as text, as PTX, and loaded onto a GPU.

mod load;

pub use load::{Launch, Loaded};

/// Options without which the kernels do not round as documented: a product and a sum are not fused unless a source says so.
///
/// The others that matter are NVRTC's defaults: subnormals are kept, divisions and roots are rounded correctly.
pub const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false"];

/// What the shipped PTX is made for: the oldest GPUs with tensor cores, and by the driver for all later ones.
pub const PTX_ARCH: &str = "compute_70";

/// One source file: a module of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its file name without ending.
    pub name: &'static str,
    /// CUDA C++, whole: nothing is included.
    pub text: &'static str,
    /// The same as PTX, made by NVRTC 12.9 for [`PTX_ARCH`] with [`OPTIONS`]. Its first line says of which source.
    pub ptx: &'static str,
    /// The kernels' names.
    pub kernels: &'static [&'static str],
}

impl Source {
    /// Tells this text and [`OPTIONS`] from others (64 bits, FNV-1a): for caches, and for PTX that is out of date.
    pub const fn hash(&self) -> u64 {
        let mut hash = fnv1a(0xcbf2_9ce4_8422_2325, self.text.as_bytes());
        let mut i = 0;
        while i < OPTIONS.len() {
            hash = fnv1a(hash, OPTIONS[i].as_bytes());
            i += 1;
        }
        hash
    }

    /// The first line of PTX made of this source.
    pub fn ptx_header(&self) -> String {
        format!(
            "// {} {:016x}, NVRTC 12.9, {PTX_ARCH}; scripts/ptx makes this file\n",
            self.name,
            self.hash()
        )
    }

    /// Whether [`ptx`](Self::ptx) was made of this text.
    pub fn ptx_is_current(&self) -> bool {
        self.ptx.starts_with(&self.ptx_header())
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
        let a = Source { name: "a", text: "one", ptx: "", kernels: &[] };
        let b = Source { text: "other", ..a };
        assert_ne!(a.hash(), b.hash());
        let shipped = a.ptx_header();
        let shipped = Source { ptx: Box::leak(shipped.into_boxed_str()), ..a };
        assert!(shipped.ptx_is_current());
        assert!(!Source { text: "other", ..shipped }.ptx_is_current());
    }
}
