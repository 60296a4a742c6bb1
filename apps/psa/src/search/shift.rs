//! Events whose beginning is not known to the sample.

use super::{Events, Found, Prepared};
use crate::Error;

/// An answer, and by how many samples the event had to be moved for it: later where positive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shifted {
    /// The answer for the moved event.
    pub found: Found,
    /// Samples.
    pub shift: isize,
}

/// Searches for each event as it is and moved by up to `most` samples each way, and takes the smallest figure of merit; of equal ones the shorter way, and then the
/// earlier. What moves in from the ends repeats the first or the last sample.
///
/// # Errors
/// Those of [`Prepared::search`].
pub fn search_shifted(prepared: &Prepared, events: &Events, most: usize) -> Result<Vec<Shifted>, Error> {
    let most = most.min(events.shape().samples) as isize;
    let mut shifts: Vec<isize> = (-most..=most).collect();
    shifts.sort_by_key(|shift| (shift.abs(), *shift));
    let mut best: Vec<Option<Shifted>> = vec![None; events.len()];
    for shift in shifts {
        let found = prepared.search(&events.moved(shift), &[])?;
        for (best, found) in best.iter_mut().zip(found) {
            if best.is_none_or(|best| found.fom < best.found.fom) {
                *best = Some(Shifted { found, shift });
            }
        }
    }
    Ok(best.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::SegmentBasis;
    use crate::search::Plan;

    #[test]
    fn a_late_event_is_found_where_it_is() {
        let rise = |from: usize| (0..20).map(move |t: usize| (t.saturating_sub(from) as f32 * 0.2).min(1.0));
        // Points differ in how steep their second channel is, and all begin at the same sample.
        let signal = |i: usize| {
            rise(5).chain((0..20).map(move |t: usize| (t.saturating_sub(5) * (i + 1)) as f32 * 0.01))
        };
        let values = (0..30).flat_map(signal).collect();
        let basis = SegmentBasis::new(2, 20, vec![[0.0; 3]; 30], values).expect("sizes that fit");
        let prepared = Prepared::new(&Plan::default(), &basis).expect("a plan");
        let late: Vec<f32> = (0..2)
            .flat_map(|channel| {
                let signal = &basis.point(17)[channel * 20..][..20];
                (0..20).map(move |t: usize| 300.0 * signal[t.saturating_sub(2)])
            })
            .collect();
        let events = Events::new(2, 20, &[300.0], &late).expect("an event");
        let found = search_shifted(&prepared, &events, 3).expect("an answer")[0];
        assert_eq!((found.found.index, found.shift), (17, -2));
    }
}
