//! The sources, as text and as PTX.

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

macro_rules! source {
    ($name:literal, $($kernel:literal),+ $(,)?) => {
        Source {
            name: $name,
            text: concat!(
                include_str!("../../cuda/numbers.cuh"),
                "\n#line 1 \"", $name, ".cu\"\n",
                include_str!(concat!("../../cuda/", $name, ".cu")),
            ),
            ptx: include_str!(concat!("../../cuda/ptx/", $name, ".compute_70.ptx")),
            kernels: &[$($kernel),+],
        }
    };
}

/// Every source of this crate.
pub const SOURCES: &[Source] = &[
    source!(
        "convert",
        "zellige_narrow",
        "zellige_widen",
        "zellige_pack_f16",
        "zellige_pack_bf16",
        "zellige_pack_e4m3",
        "zellige_unpack_f16",
        "zellige_unpack_bf16",
        "zellige_unpack_e4m3",
        "zellige_split",
        "zellige_join",
        "zellige_triple",
    ),
    source!("norms", "zellige_measure_f32", "zellige_max_f64", "zellige_squares_f64", "zellige_measured"),
    source!(
        "update",
        "zellige_factors",
        "zellige_accumulate",
        "zellige_sum_f32",
        "zellige_sum_f16",
        "zellige_store_f16",
        "zellige_rescale_f16",
        "zellige_product_hp3",
    ),
    source!(
        "blocks",
        "zellige_copy_8",
        "zellige_copy_16",
        "zellige_copy_32",
        "zellige_copy_64",
        "zellige_fill_f32",
        "zellige_fill_f64",
        "zellige_zero_upper_f32",
        "zellige_zero_upper_f64",
        "zellige_mirror_f32",
        "zellige_mirror_f64",
        "zellige_transpose_8",
    ),
    source!("batched", "zellige_small_products_f32", "zellige_small_products_f16"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_listed_and_no_name_appears_twice() {
        let mut seen = Vec::new();
        for source in SOURCES {
            // Macros make kernels too, so names are looked for as words, in the file itself.
            let own = source.text.split("#line 1").nth(1).unwrap();
            let words = own.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            let mut there: Vec<_> = words.filter(|w| w.starts_with("zellige_")).collect();
            there.retain(|w| source.kernels.contains(w) || !is_mentioned_elsewhere(w, source.name));
            there.sort_unstable();
            there.dedup();
            let mut listed = source.kernels.to_vec();
            listed.sort_unstable();
            assert_eq!(there, listed, "{}", source.name);
            seen.extend(listed);
        }
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }

    /// Comments name kernels of other sources, and `zellige_kernels`.
    fn is_mentioned_elsewhere(word: &str, here: &str) -> bool {
        let others = SOURCES.iter().filter(|s| s.name != here).any(|s| s.kernels.contains(&word));
        others || word == "zellige_kernels"
    }

    #[test]
    fn the_hash_follows_the_text() {
        let a = SOURCES[0];
        let b = Source { text: "other", ..a };
        assert_ne!(a.hash(), b.hash());
        assert!(!b.ptx_is_current());
    }
}
