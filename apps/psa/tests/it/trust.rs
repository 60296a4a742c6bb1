//! Digits of searches: the same on any number of workers, and conclusions that fit them.

use crate::common::runtime;
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::{CHANNELS, Channel, ChannelSet, Segment};
use zellige_psa::search::{Event, Method, Plan, Precision, Rules};
use zellige_psa::trust::{Searches, run};
use zellige_stochastic::TrustOptions;

const SAMPLES: usize = 8;

fn segment(index: usize) -> Segment {
    Segment::from_index(index).expect("one of 36")
}

/// Returns a crystal of two segments with 40 points each: the last one of each is the one before.
fn basis() -> Basis {
    let segments: Vec<Segment> = (0..80).map(|point| segment(point % 2)).collect();
    let mut values = vec![0.0f32; 80 * CHANNELS * SAMPLES];
    for (point, values) in values.chunks_mut(CHANNELS * SAMPLES).enumerate() {
        let rise = (point / 2).min(38) as f32 / 10.0;
        for (at, channel) in [Channel::from(segments[point]), Channel::CORE].into_iter().enumerate() {
            for t in 0..SAMPLES {
                let late = rise + at as f32 - t as f32;
                values[channel.index() * SAMPLES + t] = 1.0 / (1.0 + late.exp());
            }
        }
    }
    let positions = (0..80).map(|point| [point as f32, 0.0, 0.0]).collect();
    let sampling = Sampling { samples: SAMPLES, step: 10.0, before: 0 };
    Basis::new(sampling, positions, segments, values).expect("sizes that fit")
}

/// Returns an event of each point of some noise, with the hit known.
fn events(basis: &Basis, channels: ChannelSet) -> Vec<Event> {
    let event = |point: usize| {
        let (hit, energy) = (basis.segments()[point], 100.0 + point as f64);
        let channels = channels.of(hit);
        let signals = channels.iter().flat_map(|&channel| basis.signal(point, channel));
        let noise = |i: usize| ((point * 31 + i * 7919) % 1000) as f32 / 500.0 - 1.0;
        let signals = signals.enumerate().map(|(i, b)| b * energy as f32 + noise(i)).collect();
        Event { timestamp: 0, hit: Some((hit, energy)), signals, saturated: Vec::new() }
    };
    (0..80).map(event).collect()
}

pub fn searches() -> Searches {
    searches_in(ChannelSet::HitCore)
}

fn searches_in(channels: ChannelSet) -> Searches {
    let basis = basis();
    let rules = Rules { channels, window: SAMPLES, ..Rules::default() };
    Searches::of_crystal(&basis, rules, events(&basis, channels)).expect("events that fit")
}

#[test]
fn digits_do_not_depend_on_workers() {
    let searches = searches();
    for precision in [Precision::Fp32, Precision::Fp64] {
        let plan = Plan { method: Method::Full, precision, ..Plan::default() };
        let on = |workers, seed| {
            let options = TrustOptions { samples: 8, seed };
            let found = searches.stochastic(&runtime(workers), &plan, &options).expect("a search");
            let trust = run(&runtime(workers), &searches, &plan, &options).expect("a search");
            (found, trust.maps, trust.instabilities, trust.conclusions)
        };
        let one = on(1, 4);
        assert_eq!(one.0.0.len(), 80);
        assert_eq!(on(2, 4), one);
        assert_ne!(on(2, 5).0.0, one.0.0, "another seed");
    }
}

/// The events of the two points that stand there twice: rounding decides.
#[test]
fn equal_points_have_a_gap_without_digits() {
    let searches = searches();
    let plan = Plan { method: Method::Full, ..Plan::default() };
    let trust = run(&runtime(1), &searches, &plan, &TrustOptions::default()).expect("a search");
    let [fom, gap, channels] = &trust.maps[..] else { panic!("three maps") };
    assert_eq!((channels.unit.as_str(), channels.shape), ("channel", [2, 1]));
    // Few where a sample lies so near a point's that their difference is rounding.
    assert!(fom.median() == Some(5) && fom.digits.iter().all(|&digits| digits >= 2), "{fom:?}");
    assert_eq!((fom.all, fom.shape), (7, [80, 1]));
    for ties in [[76, 78], [77, 79]] {
        assert!(ties.iter().any(|&event| gap.digits[event] == 0), "{gap:?}");
    }
    assert!(gap.digits[..60].iter().all(|&digits| digits >= 1), "{gap:?}");
    assert!(trust.conclusions[0].contains("no exact digit"), "{:?}", trust.conclusions);
    assert!(trust.instabilities.count(zellige_stochastic::Category::Branching) > 0);
    assert!(trust.plain_seconds.is_some_and(|plain| plain > 0.0) && trust.seconds > 0.0);
}

/// Neighbours have no signal: their part is that of the noise, of which no digit is lost.
#[test]
fn digits_by_channel_among_neighbours() {
    let searches = searches_in(ChannelSet::Neighbours);
    let plan = Plan { method: Method::Full, ..Plan::default() };
    let on = |workers| run(&runtime(workers), &searches, &plan, &TrustOptions::default()).expect("a search");
    let (one, two) = (on(1), on(2));
    assert_eq!((&one.maps, &one.conclusions), (&two.maps, &two.conclusions));
    let [fom, _, channels] = &one.maps[..] else { panic!("three maps") };
    let count = searches.hits().map(|hit| ChannelSet::Neighbours.of(hit.segment).len()).max().expect("hits");
    assert_eq!((channels.shape, fom.shape, channels.all), ([count, 1], [80, 1], 7));
    let (least, [at, _]) = channels.worst().expect("channels");
    assert!(at < count && least < channels.all, "{channels:?}");
    let said = one.conclusions.last().expect("conclusions");
    assert!(said.starts_with(&format!("Channel {at} has the fewest exact digits")), "{said}");
}

#[test]
fn events_without_exactly_one_hit_are_left_out() {
    let basis = basis();
    let mut signals = vec![0.0f32; CHANNELS * SAMPLES];
    for (channel, energy) in [(0, 300.0), (1, 200.0), (36, 500.0)] {
        signals[channel * SAMPLES..][..SAMPLES].fill(energy);
    }
    let two = Event { timestamp: 0, hit: None, signals, saturated: Vec::new() };
    let rules = Rules { channels: ChannelSet::HitCore, window: SAMPLES, ..Rules::default() };
    let all = [two].into_iter().chain(events(&basis, ChannelSet::HitCore).into_iter().take(3));
    let searches = Searches::of_crystal(&basis, rules, all).expect("events that fit");
    assert_eq!(searches.hits().map(|hit| hit.ticket).collect::<Vec<_>>(), [1, 2, 3]);
    let trust = run(&runtime(1), &searches, &Plan::default(), &TrustOptions::default()).expect("a search");
    assert!(trust.conclusions.iter().any(|said| said.starts_with("1 of 4 events")), "{trust:?}");
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let (searches, rt) = (searches(), runtime(1));
    let narrow = Plan { precision: Precision::Int16, ..Plan::default() };
    let options = TrustOptions::default();
    assert!(run(&rt, &searches, &narrow, &options).is_err());
    let five = TrustOptions { samples: 5, ..options };
    assert!(run(&rt, &searches, &Plan::default(), &five).is_err());
}
