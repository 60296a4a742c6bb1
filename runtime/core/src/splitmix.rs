//! splitmix64 (Steele, Lea, Flood 2014): numbers that look random and are the same on every machine
//! and in every version.

/// Increment of the state from one number to the next.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the pseudo-random number of a state.
pub fn scramble(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the `n`-th number from seed 0, counted from 0.
pub(crate) fn number(n: u64) -> u64 {
    scramble(n.wrapping_add(1).wrapping_mul(STEP))
}

/// Returns the `n`-th number from seed 0 as a fraction in `[0, 1)`.
pub(crate) fn fraction(n: u64) -> f64 {
    (number(n) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // From the reference implementation, seeds 0 and 1234567.
        assert_eq!([number(0), number(1)], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        let state = |n: u64| n.wrapping_mul(STEP).wrapping_add(1_234_567);
        let first = [1, 2, 3].map(|n| scramble(state(n)));
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn fractions_are_below_one() {
        assert!((0..1000).map(fraction).all(|share| (0.0..1.0).contains(&share)));
    }
}
