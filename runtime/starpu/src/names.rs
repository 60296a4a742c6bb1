//! Names that live as long as the process.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// Returns the name with the lifetime of the process; each distinct one is kept once.
pub fn keep(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = name.to_owned().leak();
    names.insert(kept);
    kept
}
