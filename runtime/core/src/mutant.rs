//! Seeded bugs, to be found by fuzzing (`scripts/mutants`): each is one condition at the place that
//! it breaks.

/// True if bug `n` is to be there: never, but with the feature `mutants` where the environment says
/// `ZELLIGE_MUTANT=n`.
#[cfg(not(feature = "mutants"))]
pub const fn mutant(_n: u32) -> bool {
    false
}

/// See above.
#[cfg(feature = "mutants")]
pub fn mutant(n: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let chosen = || std::env::var("ZELLIGE_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    *CHOSEN.get_or_init(chosen) == n
}
