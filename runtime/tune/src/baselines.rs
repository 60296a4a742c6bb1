//! Baselines to compare a search with.

use crate::ledger::{Ledger, Stop};
use crate::minimal::tree_order;
use crate::outcome::Ended;
use crate::search::limit;
use crate::space::Space;

/// Lowers each item in turn as far as it is accepted, those that save most first.
pub(crate) fn greedy(space: &Space, ledger: &mut Ledger<'_, '_>) -> Result<Ended, Stop> {
    let mut state = space.reference();
    for item in tree_order(space) {
        while state.level(item) > 0 {
            let candidate = state.lowered(&[item]);
            let at = ledger.judge(&candidate, [])?;
            if !ledger.is_accepted(at) || ledger.cost(&candidate) > ledger.cost(&state) {
                break;
            }
            state = candidate;
        }
    }
    Ok(Ended::Complete)
}

/// Tries random assignments, as many as the method of delta debugging may try.
pub(crate) fn random(space: &Space, ledger: &mut Ledger<'_, '_>, seed: u64) -> Result<Ended, Stop> {
    let mut random = SplitMix(seed);
    // Small spaces have fewer assignments than that: repeated ones do not count.
    let draws = limit(space);
    for _ in 0..draws {
        let mut formats = space.reference();
        for item in 0..space.items().len() {
            formats = formats.with(item, random.below(space.items()[item].formats.len()));
        }
        ledger.judge(&formats, [])?;
    }
    Ok(Ended::Complete)
}

/// Generator of random numbers.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * bound as u128) >> 64) as usize
    }
}
