//! Random bits by a counter, so that the bits of an operation depend on nothing but its place.

/// Philox4x32-10 of Salmon et al. (SC 2011): 128 random bits of a key and a counter.
fn philox(key: [u32; 2], element: u64, block: u64) -> [u64; 2] {
    let mut counter = [element as u32, (element >> 32) as u32, block as u32, (block >> 32) as u32];
    let mut key = key;
    for _ in 0..10 {
        let product0 = 0xD251_1F53_u64 * u64::from(counter[0]);
        let product1 = 0xCD9E_8D57_u64 * u64::from(counter[2]);
        counter = [
            (product1 >> 32) as u32 ^ counter[1] ^ key[0],
            product1 as u32,
            (product0 >> 32) as u32 ^ counter[3] ^ key[1],
            product0 as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [word(counter[0], counter[1]), word(counter[2], counter[3])]
}

/// Key of the task `task` in its replay `replay`, for a run with `seed`.
pub(crate) fn key(seed: u64, task: u64, replay: u64) -> u64 {
    philox([seed as u32, (seed >> 32) as u32], task, replay)[0]
}

/// First state of the generator of element `number` of a task with this key: the word `number` of
/// the generator that begins with the key.
#[inline(always)]
pub(crate) fn first(key: u64, number: u64) -> u64 {
    next(key.wrapping_add(number.wrapping_mul(GAMMA))).1
}

/// Difference of the states of one word and the next.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The generator SplitMix64 of Steele, Lea and Flood (OOPSLA 2014): its next state and word.
///
/// Philox keys a task, this one its elements and their operations: few enough instructions to be
/// inlined.
#[inline(always)]
pub(crate) fn next(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(GAMMA);
    let word = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (state, word ^ word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the Random123 distribution, file `kat_vectors`.
    #[test]
    fn philox_gives_the_known_answers() {
        let words = |w: [u64; 2]| [w[0] as u32, (w[0] >> 32) as u32, w[1] as u32, (w[1] >> 32) as u32];
        assert_eq!(words(philox([0, 0], 0, 0)), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            words(philox([u32::MAX; 2], u64::MAX, u64::MAX)),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }

    /// The first words of state 1234567, of the reference implementation.
    #[test]
    fn split_mix_gives_the_known_answers() {
        let (mut state, mut word) = (1_234_567, 0);
        for known in [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423] {
            (state, word) = next(state);
            assert_eq!(word, known);
        }
        assert_ne!(word, state);
    }
}
