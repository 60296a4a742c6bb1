//! Search from a basis to an answer: `cargo run --release -p zellige-psa --example search`.
//!
//! The "detector" is simulated here: a cube of 20 mm with three electrodes. Their signals rise
//! later if a charge starts farther from them.

use std::time::Instant;

use zellige_psa::Error;
use zellige_psa::basis::SegmentBasis;
use zellige_psa::channels::Segment;
use zellige_psa::search::{Batching, Flags, Hit, Method, Plan, Prepared, Searcher, SegmentEvents};
use zellige_runtime::Runtime;

const CHANNELS: usize = 3;
const SAMPLES: usize = 40;

/// Returns the signal of electrode `channel` for a unit charge that starts at `place` (mm), sample
/// after sample.
fn signal(place: [f32; 3], channel: usize) -> impl Iterator<Item = f32> {
    (0..SAMPLES).map(move |t| 1.0 / (1.0 + (place[channel] + 6.0 - t as f32).exp()))
}

fn main() -> Result<(), Error> {
    // 1. A basis: the signals of points in steps of 2 mm, by point, channel and sample; 1 is the
    //    whole charge.
    let place = |i: usize| [i % 11, i / 11 % 11, i / 121].map(|x| x as f32 * 2.0);
    let positions: Vec<[f32; 3]> = (0..11 * 11 * 11).map(place).collect();
    let values = positions.iter().flat_map(|&at| (0..CHANNELS).flat_map(move |channel| signal(at, channel)));
    let basis = SegmentBasis::new(CHANNELS, SAMPLES, positions.clone(), values.collect())?;

    // 2. Events: 600 keV between points of the basis, and 3 keV of noise that repeats itself.
    let truth = [[7.3f32, 4.1, 15.2], [12.0, 9.0, 3.3], [1.1, 18.6, 10.4]];
    let noise = |i: usize| 3.0 * ((i * 7919 % 1000) as f32 / 500.0 - 1.0);
    let samples: Vec<f32> = truth
        .iter()
        .flat_map(|&at| (0..CHANNELS).flat_map(move |channel| signal(at, channel)))
        .enumerate()
        .map(|(i, value)| 600.0 * value + noise(i))
        .collect();
    let events = SegmentEvents::new(CHANNELS, SAMPLES, &[600.0; 3], &samples)?;

    // 3. A plan defines the search. The default screens every point and compares the best eight
    //    again; an exact search proves its answer.
    let fast = Prepared::new(&Plan::default(), &basis)?.search(&events, &[])?;
    let exact = Plan { method: Method::Exact { cap: 500 }, ..Plan::default() };
    let proven = Prepared::new(&exact, &basis)?.search(&events, &[])?;
    for ((found, proven), truth) in fast.iter().zip(&proven).zip(truth) {
        let at = basis.positions()[found.index];
        println!(
            "true {truth:4.1?} mm, found {at:4.1?}, figure of merit {:.1}, next best {:.1} more, spread {:.1} mm",
            found.fom, found.gap, found.spread
        );
        assert!(proven.flags.has(Flags::CERTIFIED) && proven.index == found.index);
        assert!(at.iter().zip(truth).all(|(x, y)| (x - y).abs() <= 2.0));
    }

    // 4. The same search on all cores: events wait in queues, a batch is a task.
    let rt = Runtime::new()?;
    let plan = Plan::default();
    let mut searcher = Searcher::new(&rt, &plan, Batching::default());
    let segment = Segment::new(0, 0).expect("the first of 36");
    searcher.host(segment, &basis)?;
    for (number, &energy) in events.energies().iter().enumerate() {
        let hit = Hit { ticket: number, segment, energy, coarse_only: false };
        searcher.push(hit, events.samples(number), Instant::now())?;
    }
    for ((_, found), before) in searcher.finish()?.iter().zip(&fast) {
        assert_eq!(found, before); // to the bit, with any number of workers
    }
    Ok(())
}
