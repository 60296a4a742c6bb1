//! Seeded bugs that fuzzing must find (`scripts/mutants`): each is one condition at the place that
//! it breaks.

/// Returns true if bug `n` is active: never, except with the feature `mutants` and the environment
/// variable `ZELLIGE_MUTANT=n`.
#[cfg(not(feature = "mutants"))]
pub const fn mutant(_n: u32) -> bool {
    false
}

/// Returns true if bug `n` is active; see above.
#[cfg(feature = "mutants")]
pub fn mutant(n: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let chosen = || std::env::var("ZELLIGE_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    *CHOSEN.get_or_init(chosen) == n
}
