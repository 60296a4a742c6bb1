//! Implausible bases and events are refused or cause a warning that names the cause; plausible ones
//! are accepted.

use std::sync::{Arc, OnceLock};

use crate::common::{detector, runtime, small};
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::{CHANNELS, SEGMENTS, Segment};
use zellige_psa::consistency::{Comparison, check_basis, check_events, check_sampling};
use zellige_psa::detector::Detector;
use zellige_psa::events::{self, Energies, Events, Spec};
use zellige_psa::observe::Silent;
use zellige_psa::search::saturation::{Levels, find};
use zellige_psa::search::{Batching, Event, Flow, Method, Plan, Rules};
use zellige_psa::simulate::{basis, lattice};

const SAMPLING: Sampling = Sampling { samples: 40, step: 10.0, before: 2 };

/// Returns a crystal, a basis and events of it.
fn made() -> &'static (Arc<Detector>, Basis, Events) {
    static MADE: OnceLock<(Arc<Detector>, Basis, Events)> = OnceLock::new();
    MADE.get_or_init(|| {
        let (rt, detector) = (runtime(2), detector(&small(), 1.5));
        let points = lattice(&small(), 2.0).expect("points");
        let basis = basis(&rt, &detector, &points, SAMPLING, &Silent).expect("a basis");
        let spec = Spec {
            count: 60,
            energies: Energies::LogUniform { from: 200.0, to: 5000.0 },
            noise: 2.0,
            sampling: SAMPLING,
            ..Spec::default()
        };
        let events = events::simulate(&rt, &detector, &spec, &Silent).expect("events");
        (detector, basis, events)
    })
}

/// Returns a basis with other numbers.
fn with(
    sampling: Sampling,
    signal: impl Fn(usize, usize) -> Vec<f32>,
    position: impl Fn(f32) -> f32,
    segment: impl Fn(usize) -> usize,
) -> Basis {
    let (_, basis, _) = made();
    let points = basis.positions().len();
    let values =
        (0..points).flat_map(|point| (0..CHANNELS).flat_map(|c| signal(point, c)).collect::<Vec<_>>());
    let positions = basis.positions().iter().map(|at| at.map(&position)).collect();
    let segments = basis.segments().iter().map(|s| Segment::from_index(segment(s.index())).expect("one"));
    Basis::new(sampling, positions, segments.collect(), values.collect()).expect("sizes that fit")
}

fn signal(point: usize, channel: usize) -> Vec<f32> {
    let length = CHANNELS * SAMPLING.samples;
    made().1.values()[point * length + channel * SAMPLING.samples..][..SAMPLING.samples].to_vec()
}

fn by_ring(channel: usize) -> usize {
    if channel == SEGMENTS { channel } else { 6 * (channel % 6) + channel / 6 }
}

fn times(factor: f32) -> impl Fn(usize, usize) -> Vec<f32> {
    move |point, channel| signal(point, channel).iter().map(|x| factor * x).collect()
}

#[test]
fn bases_are_refused_with_the_cause() {
    let (_, basis, _) = made();
    assert_eq!(check_basis(basis), Ok(()));
    let same = |x: f32| x;
    let all = |segment: usize| segment;
    let turned = |point: usize, c: usize| signal(point, if c < SEGMENTS { (c + 30) % SEGMENTS } else { c });
    let backwards = |point: usize, c: usize| signal(point, c).into_iter().rev().collect();
    let core_first = |point: usize, c: usize| signal(point, (c + SEGMENTS) % CHANNELS);
    let core_turned = |point: usize, c: usize| times(if c == SEGMENTS { -1.0 } else { 1.0 })(point, c);
    let step = |step: f64| Sampling { step, ..SAMPLING };
    for (basis, cause) in [
        (with(SAMPLING, times(1000.0), same, all), "divide the signals by"),
        (with(SAMPLING, times(0.7), same, all), "1 is the whole charge"),
        (with(SAMPLING, times(1.0 / 16_384.0), same, all), "divide the signals by 0.00006"),
        (with(SAMPLING, times(-1.0), same, all), "turn the sign of the signals"),
        (with(SAMPLING, core_turned, same, all), "signals[:, 36] *= -1"),
        (with(SAMPLING, core_first, same, all), "the core comes first"),
        (with(SAMPLING, |p, c| signal(p, by_ring(c)), same, all), "6 ring + sector"),
        (with(SAMPLING, signal, same, by_ring), "6 ring + sector"),
        (with(SAMPLING, turned, same, all), "rotated against segments by 1 of 6 sectors"),
        (with(SAMPLING, signal, same, |s| (s + 1).min(35)), "counted from 1"),
        (with(SAMPLING, signal, same, |s| (s * 7 + 5) % 36), "collects its charge"),
        (with(SAMPLING, backwards, same, all), "time runs backwards"),
        (with(step(0.01), signal, same, all), "microseconds"),
        (with(step(1e-8), signal, same, all), "seconds"),
        (with(step(1e4), signal, same, all), "picoseconds"),
        (with(SAMPLING, signal, |x| x / 1000.0, all), "metres"),
        (with(SAMPLING, signal, |x| x / 10.0, all), "centimetres"),
        (with(SAMPLING, signal, |x| x * 1000.0, all), "micrometres"),
    ] {
        let error = check_basis(&basis).expect_err(cause);
        assert!(error.contains(cause), "{cause}: {error}");
    }
    // 100 ns are too short for most charges to settle, so that their ends are unknown.
    let short = |point: usize, c: usize| signal(point, c)[..8].to_vec();
    let _ = check_basis(&with(Sampling { samples: 8, ..SAMPLING }, short, same, all));
}

fn changed(change: impl Fn(&[f32], usize, usize) -> f32) -> Vec<f32> {
    let (_, _, events) = made();
    let length = CHANNELS * SAMPLING.samples;
    let each = |event: &[f32]| -> Vec<f32> {
        let at = |i: usize| change(event, i / SAMPLING.samples, i % SAMPLING.samples);
        (0..length).map(at).collect()
    };
    events.signals.chunks_exact(length).flat_map(each).collect()
}

fn at(event: &[f32], channel: usize, sample: usize) -> f32 {
    event[channel * SAMPLING.samples + sample.min(SAMPLING.samples - 1)]
}

#[test]
fn events_are_compared_with_the_basis() {
    let (_, basis, events) = made();
    let doubt = |signals: &[f32], shifts: usize| {
        let mut comparison = Comparison::new(basis, shifts);
        let _ = signals.chunks_exact(CHANNELS * SAMPLING.samples).any(|event| comparison.add(event));
        comparison.doubt()
    };
    assert_eq!(doubt(&events.signals, 0), None);
    assert_eq!(check_events(&events.signals, SAMPLING.samples), Ok(()));
    let late = changed(|event, c, t| if t < 5 { 0.0 } else { at(event, c, t - 5) });
    assert_eq!(doubt(&late, 5), None);
    let half = |t: usize| (2 + t).div_ceil(2);
    for (signals, cause) in [
        (late, "5 samples later"),
        (changed(|event, c, t| at(event, c, t + 4)), "samples earlier"),
        (changed(|event, c, t| at(event, c, (2 * t).saturating_sub(2))), "samples are 20 ns apart"),
        (changed(|event, c, t| at(event, c, half(t))), "samples are 5 ns apart"),
        (changed(|event, c, t| at(event, by_ring(c), t)), "6 ring + sector"),
    ] {
        let said = doubt(&signals, 0).expect(cause);
        assert!(said.contains(cause), "{cause}: {said}");
    }
    let sampling = |step, before| Sampling { step, before, ..SAMPLING };
    assert_eq!(check_sampling(SAMPLING, sampling(10.0, 2), 0), Ok(()));
    assert_eq!(check_sampling(SAMPLING, sampling(10.0, 10), 8), Ok(()));
    for (events, cause) in [
        (sampling(0.01, 2), "microseconds"),
        (sampling(5.0, 2), "--sample-step 5"),
        (sampling(10.0, 10), "cut the first 8 samples of each trace, or take --shifts 8"),
    ] {
        let said = check_sampling(SAMPLING, events, 7).expect_err(cause);
        assert!(said.contains(cause), "{cause}: {said}");
    }
    let said = check_sampling(SAMPLING, sampling(10.0, 0), 0).expect_err("earlier");
    assert!(said.contains("--before 0"), "{said}");
}

/// Compares energies and positions of clipped events with those of complete ones, and checks the
/// flags.
#[test]
fn clipped_events_are_found_and_fitted() {
    let (_, basis, events) = made();
    let rt = runtime(2);
    let full = Plan { method: Method::Full, ..Plan::DEFAULT };
    let length = CHANNELS * SAMPLING.samples;
    let search = |signals: &[f32]| {
        let levels = Levels::of(signals, CHANNELS, SAMPLING.samples);
        let (now, mut answers) = (std::time::Instant::now(), Vec::new());
        let mut flow = Flow::new(&rt, &full, Batching::default(), basis, Rules::DEFAULT).expect("a search");
        for event in signals.chunks_exact(length) {
            let saturated = levels.find(event, SAMPLING.samples);
            let event = Event { timestamp: 0, hit: None, signals: event.to_vec(), saturated };
            flow.push(event, now).expect("an event");
        }
        flow.finish(now, &mut answers).expect("answers");
        answers
    };
    assert!(search(&events.signals).iter().all(|answer| answer.saturated == 0));
    let clip = 655.36;
    let clipped: Vec<f32> = events.signals.iter().map(|x| x.clamp(-clip, clip)).collect();
    let mut apart = Vec::new();
    for (answer, &energy) in search(&clipped).iter().zip(&events.energies) {
        let flags: Vec<_> = answer.places.iter().flat_map(|place| place.found.flags.words()).collect();
        if energy < 640.0 {
            assert_eq!((answer.saturated, flags.contains(&"saturated")), (0, false), "{energy}");
        } else if energy > 700.0 {
            assert!(answer.saturated > 0 && flags.contains(&"saturated"), "{energy}: {answer:?}");
            apart.push((answer.places[0].energy / energy - 1.0).abs());
        }
    }
    // Without the fit all energies are 655 keV.
    apart.sort_unstable_by(f64::total_cmp);
    let (count, most) = (apart.len(), apart.last().copied().unwrap_or(1.0));
    assert!(count > 10 && apart[count / 2] < 0.1 && most < 0.4, "{apart:?}");
    // Clipping is also detected from one event alone, by its noise.
    let one = clipped.chunks_exact(length).zip(&events.energies).filter(|(_, energy)| **energy > 1000.0);
    let seen = one.clone().filter(|(event, _)| !find(event, SAMPLING.samples).is_empty()).count();
    assert!(2 * seen > one.count(), "{seen}");
}

#[test]
fn events_without_hits_are_doubted() {
    let (_, basis, events) = made();
    let rt = runtime(1);
    let doubt = |factor: f32| {
        let (now, mut answers) = (std::time::Instant::now(), Vec::new());
        let full = Plan { method: Method::Full, ..Plan::DEFAULT };
        let mut flow = Flow::new(&rt, &full, Batching::default(), basis, Rules::DEFAULT).expect("a search");
        for event in events.signals.chunks_exact(CHANNELS * SAMPLING.samples) {
            let signals = event.iter().map(|x| factor * x).collect();
            flow.push(Event { timestamp: 0, hit: None, signals, saturated: Vec::new() }, now).expect("one");
        }
        flow.finish(now, &mut answers).expect("answers");
        flow.doubt()
    };
    assert_eq!(doubt(1.0), None);
    for (factor, cause) in [
        (-1.0, "the opposite polarity"),
        (1e-3, "multiplied by 1000"),
        (1e-9, "--threshold is 10 keV"),
        (1e3, "eV by 1000"),
    ] {
        let said = doubt(factor).expect(cause);
        assert!(said.contains(cause), "{cause}: {said}");
    }
}
