//! The sources.

use zellige_gpu::source::Source;

macro_rules! source {
    ($name:literal, $($kernel:literal),+ $(,)?) => { source!($name of $name with "", $($kernel),+) };
    ($name:literal of $file:literal $(after $header:literal)? with $defined:literal, $($kernel:literal),+ $(,)?) => {
        Source {
            name: $name,
            text: concat!(
                include_str!("../../cuda/numbers.cuh"),
                $("\n#line 1 \"", $header, "\"\n", include_str!(concat!("../../cuda/", $header)),)?
                $defined,
                "\n#line 1 \"", $file, ".cu\"\n",
                include_str!(concat!("../../cuda/", $file, ".cu")),
            ),
            kernels: &[$($kernel),+],
        }
    };
}

/// Sources for tiles of dense matrices.
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
        "zellige_invert_blocks",
    ),
    source!(
        "batched",
        "zellige_small_products_f32",
        "zellige_small_products_f16",
        "zellige_small_products_bf16",
    ),
];

/// Sources for sparse solvers, besides products.
pub const SPARSE_SOURCES: &[Source] = &[
    source!("vectors" of "vectors" with "\n#define IS_COMPLEX 0", "zellige_vectors"),
    source!("vectors_complex" of "vectors" with "\n#define IS_COMPLEX 1", "zellige_vectors_complex"),
    source!("formulas", "zellige_formulas"),
    source!("gather", "zellige_gather"),
];

/// Products with sparse matrices of elements of 1 x 1 to 4 x 4 numbers: each size has a text of its
/// own, so that the others need not be compiled.
pub const SELL_SOURCES: &[Source] = &[
    source!("sell_1" of "sell" with "\n#define EDGE 1", "zellige_sell_1_1", "zellige_sell_1_2", "zellige_sell_1_4"),
    source!("sell_2" of "sell" with "\n#define EDGE 2", "zellige_sell_2_1", "zellige_sell_2_2", "zellige_sell_2_4"),
    source!("sell_3" of "sell" with "\n#define EDGE 3", "zellige_sell_3_1", "zellige_sell_3_2", "zellige_sell_3_4"),
    source!("sell_4" of "sell" with "\n#define EDGE 4", "zellige_sell_4_1", "zellige_sell_4_2", "zellige_sell_4_4"),
];

/// Sources for lattices. Each kernel has a text of its own, since no program needs all of them.
pub const SITE_SOURCES: &[Source] = &[
    source!("dslash_fp64_in_fp64" of "dslash" after "sites.cuh" with "\n#define KERNEL 0", "zellige_dslash_fp64_in_fp64"),
    source!("dslash_fp32_in_fp64" of "dslash" after "sites.cuh" with "\n#define KERNEL 1", "zellige_dslash_fp32_in_fp64"),
    source!("dslash_fixed32_in_fp64" of "dslash" after "sites.cuh" with "\n#define KERNEL 2", "zellige_dslash_fixed32_in_fp64"),
    source!("dslash_fixed24_in_fp64" of "dslash" after "sites.cuh" with "\n#define KERNEL 3", "zellige_dslash_fixed24_in_fp64"),
    source!("dslash_fixed16_in_fp64" of "dslash" after "sites.cuh" with "\n#define KERNEL 4", "zellige_dslash_fixed16_in_fp64"),
    source!("dslash_fp64_in_fp32" of "dslash" after "sites.cuh" with "\n#define KERNEL 5", "zellige_dslash_fp64_in_fp32"),
    source!("dslash_fp32_in_fp32" of "dslash" after "sites.cuh" with "\n#define KERNEL 6", "zellige_dslash_fp32_in_fp32"),
    source!("dslash_fixed32_in_fp32" of "dslash" after "sites.cuh" with "\n#define KERNEL 7", "zellige_dslash_fixed32_in_fp32"),
    source!("dslash_fixed24_in_fp32" of "dslash" after "sites.cuh" with "\n#define KERNEL 8", "zellige_dslash_fixed24_in_fp32"),
    source!("dslash_fixed16_in_fp32" of "dslash" after "sites.cuh" with "\n#define KERNEL 9", "zellige_dslash_fixed16_in_fp32"),
];

/// Sources for searches of a basis.
pub const DISTANCE_SOURCES: &[Source] = &[source!(
    "distance",
    "zellige_distance_any",
    "zellige_distance_bits",
    "zellige_distance_quarter",
    "zellige_distance_fourth_root",
    "zellige_distance_root",
    "zellige_distance_magnitude",
    "zellige_distance_square",
    "zellige_distance_again_any",
    "zellige_distance_again_fourth_root",
    "zellige_distance_again_root",
    "zellige_distance_again_magnitude",
    "zellige_distance_again_square",
    "zellige_distance_best",
    "zellige_distance_matrix",
    "zellige_distance_nearest",
    "zellige_distance_answer",
    "zellige_distance_narrow",
)];

/// Products with matrices of few bits.
pub const FEW_BITS_SOURCES: &[Source] = &[source!("few_bits", "zellige_few_bits")];

/// Returns all sources.
pub fn all_sources() -> impl Iterator<Item = &'static Source> {
    [SOURCES, SELL_SOURCES, SPARSE_SOURCES, SITE_SOURCES, DISTANCE_SOURCES, FEW_BITS_SOURCES]
        .into_iter()
        .flatten()
}

/// Returns the source that defines a kernel.
///
/// # Panics
/// If none of the sources defines it.
pub fn source_with(sources: &'static [Source], kernel: &str) -> &'static [Source] {
    let at = sources.iter().position(|source| source.kernels.contains(&kernel));
    let at = at.expect("a kernel of these sources");
    &sources[at..=at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_listed_and_no_name_appears_twice() {
        let mut seen = Vec::new();
        for source in all_sources() {
            // Macros make kernels too, so names are looked for as words, in the file itself.
            let own = source.text.split("#line 1").last().unwrap();
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
        let others = all_sources().filter(|s| s.name != here).any(|s| s.kernels.contains(&word));
        others || word == "zellige_kernels"
    }
}
