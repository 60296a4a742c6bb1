//! Statistics of the charges of whole crystals, and the warning that they may give.

use super::crystal_basis::Charge;

/// Statistics of the charges of whole crystals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChargeStatistics {
    events: u64,
    /// Number of events with hits.
    with_hits: u64,
    /// Largest and smallest charge of a segment (keV).
    most: f64,
    least: f64,
}

impl ChargeStatistics {
    /// Adds the charges of an event.
    pub fn add(&mut self, charges: impl Iterator<Item = Charge>, has_hits: bool) {
        self.events += 1;
        self.with_hits += u64::from(has_hits);
        for (_, charge) in charges {
            self.most = self.most.max(charge);
            self.least = self.least.min(charge);
        }
    }

    /// Returns a warning if hardly any event of a crystal has had a hit, or if energies are
    /// implausible.
    pub fn doubt(&self, threshold: f64) -> Option<String> {
        /// Largest plausible charge of a gamma ray (keV).
        const MOST: f64 = 1e5;
        let ChargeStatistics { events, with_hits, most, least } = *self;
        let few = 10 * with_hits < events;
        let counted = match with_hits {
            0 => format!("none of {events} events has a hit"),
            _ => format!("{with_hits} of {events} events have hits"),
        };
        if few && -least > 2.0 * most && -least >= threshold {
            return Some(format!(
                "{counted}: charges range from {least:.6} keV to {most:.6} keV, the opposite polarity: multiply signals by -1"
            ));
        }
        if events > 0 && with_hits == 0 {
            let remedy = match 1000.0 * most {
                kilo if kilo >= threshold && kilo < MOST => {
                    "signals in MeV have to be multiplied by 1000, signals of small charges need a lower --threshold"
                }
                _ => {
                    "a lower --threshold finds smaller ones; signals are in keV, and those of other units have to be multiplied"
                }
            };
            let what = "the largest charge of a segment is";
            return Some(format!(
                "{counted}: {what} {most:.6} keV, --threshold is {threshold} keV; {remedy}"
            ));
        }
        (most > MOST).then(|| {
            format!("a segment has collected {most:.3e} keV, more than any gamma ray has: signals are in keV, divide those in eV by 1000")
        })
    }
}
