//! How far two runs agree, and how far each is from the truth: the columns of the tables of chapter 5 of the thesis behind `docs/psa.md`.

use crate::Error;
use crate::results::{EventResult, Results};
use crate::search::EnergyClass;

/// Answers within this distance of each other agree (mm).
const NEAR: f64 = 5.0;
/// Answers beyond this distance are far from each other (mm).
const FAR: f64 = 20.0;

/// Figures of the events of an energy class, or of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// The class; none: all events.
    pub class: Option<EnergyClass>,
    /// How many events.
    pub events: usize,
    /// With one point for both runs (%).
    pub same: f64,
    /// With points within 5 mm of each other (%).
    pub near: f64,
    /// With points more than 20 mm from each other (%).
    pub far: f64,
    /// Of each run, where the truth is known.
    pub truth: Option<[Distance; 2]>,
}

/// Distances from the truth (mm).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Half of them are smaller.
    pub median: f64,
    /// Nine in ten are smaller.
    pub p90: f64,
}

fn distance(a: &[f32; 3], b: &[f32; 3]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>().sqrt()
}

/// Compares two runs of the same events: all of them first, then by energy class (of `a`'s energies). `truth`: where the events happened (mm).
///
/// # Errors
/// [`Error::Shape`] where there is not one answer, or one true place, for each event.
pub fn compare(a: &Results, b: &Results, truth: Option<&[[f32; 3]]>) -> Result<Vec<Agreement>, Error> {
    let count = a.events.len();
    for (what, other) in
        [("answers of the second run", b.events.len()), ("true places", truth.map_or(count, <[_]>::len))]
    {
        if other != count {
            return Err(Error::shape(what, format!("{other}, {count} answers of the first run")));
        }
    }
    let classes = EnergyClass::ALL.map(Some);
    let all = [None].into_iter().chain(classes).map(|class| {
        let belongs = |event: &EventResult| class.is_none_or(|class| EnergyClass::of(event.energy) == class);
        let members: Vec<usize> = (0..count).filter(|&i| belongs(&a.events[i])).collect();
        agreement(class, &members, a, b, truth)
    });
    Ok(all.filter(|row| row.class.is_none() || row.events > 0).collect())
}

fn agreement(
    class: Option<EnergyClass>,
    members: &[usize],
    a: &Results,
    b: &Results,
    truth: Option<&[[f32; 3]]>,
) -> Agreement {
    let share = |keep: &dyn Fn(&EventResult, &EventResult) -> bool| {
        let kept = members.iter().filter(|&&i| keep(&a.events[i], &b.events[i])).count();
        100.0 * kept as f64 / members.len().max(1) as f64
    };
    let of_run = |run: &Results, truth: &[[f32; 3]]| {
        let mut all: Vec<f64> =
            members.iter().map(|&i| distance(&run.events[i].position, &truth[i])).collect();
        all.sort_unstable_by(f64::total_cmp);
        Distance { median: quantile(&all, 0.5), p90: quantile(&all, 0.9) }
    };
    Agreement {
        class,
        events: members.len(),
        same: share(&|a, b| (a.segment, a.index) == (b.segment, b.index)),
        near: share(&|a, b| distance(&a.position, &b.position) <= NEAR),
        far: share(&|a, b| distance(&a.position, &b.position) > FAR),
        truth: truth.map(|truth| [of_run(a, truth), of_run(b, truth)]),
    }
}

/// The element of sorted numbers below which a share of them lies; NaN of none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (share * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(places: &[(usize, f32)]) -> Results {
        let event = |(i, &(index, x)): (usize, &(usize, f32))| EventResult {
            event: i,
            timestamp: 0,
            crystal: 0,
            index,
            fom: 1.0,
            second: None,
            gap: None,
            position: [x, 0.0, 0.0],
            spread: 0.0,
            energy: if i == 0 { 20.0 } else { 500.0 },
            segment: 3,
            flags: Vec::new(),
        };
        Results { events: places.iter().enumerate().map(event).collect() }
    }

    #[test]
    fn shares_are_counted_by_class() {
        let a = results(&[(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0)]);
        let b = results(&[(9, 30.0), (1, 0.0), (8, 4.0), (7, 10.0)]);
        let truth = [[1.0, 0.0, 0.0]; 4];
        let rows = compare(&a, &b, Some(&truth)).expect("as many of each");
        let all = rows[0];
        assert_eq!((all.events, all.same, all.near, all.far), (4, 25.0, 50.0, 25.0));
        assert_eq!(all.truth.expect("known")[0], Distance { median: 1.0, p90: 1.0 });
        let figures: Vec<_> = rows[1..].iter().map(|row| (row.events, row.far)).collect();
        assert_eq!(figures, [(1, 100.0), (3, 0.0)]);
        assert!(compare(&a, &results(&[(0, 0.0)]), None).is_err());
        assert!(compare(&a, &b, Some(&truth[..3])).is_err());
    }
}
