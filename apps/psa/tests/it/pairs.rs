//! Two hits in one segment of a simulated crystal, at positions that are not in the basis.

use std::sync::Arc;

use crate::common::{detector, example, runtime};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use zellige_psa::basis::{Sampling, SegmentBasis};
use zellige_psa::body::{Body, Vec3};
use zellige_psa::channels::{CHANNELS, Channel, ChannelSet, Segment};
use zellige_psa::detector::Detector;
use zellige_psa::observe::Silent;
use zellige_psa::search::{PairMatch, PairPlan, PairSearch, SegmentEvents};
use zellige_psa::simulate::{basis, lattice};

const SAMPLING: Sampling = Sampling { samples: 40, step: 10.0, before: 2 };
/// Noise of a sample (keV), and its correlation with that of the sample before.
const NOISE: f64 = 2.5;
const CORRELATION: f64 = 0.55;

fn segment() -> Segment {
    Segment::from_index(14).expect("a segment")
}

/// Returns the basis of a segment at 2 mm.
fn of_segment(detector: &Arc<Detector>) -> SegmentBasis {
    let near = |point: &Vec3| {
        let starts = detector.crystal().segment(*point);
        starts == segment() || starts.touches(segment())
    };
    let points: Vec<Vec3> =
        lattice(detector.crystal(), 2.0).expect("points").into_iter().filter(near).collect();
    let all = basis(&runtime(2), detector, &points, SAMPLING, &Silent).expect("a basis");
    all.of_segment(segment(), ChannelSet::Neighbours, SAMPLING.samples).expect("a window that fits")
}

/// Simulates events of hits with these shares of the energy (keV); returns them with the positions
/// of the hits.
fn events(
    detector: &Detector,
    energy: f64,
    shares: &[f64],
    count: usize,
    random: &mut ChaCha8Rng,
) -> (SegmentEvents, Vec<Vec<Vec3>>) {
    let (mut samples, mut places) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut signals = vec![0.0; CHANNELS * SAMPLING.samples];
        let mut of_event = Vec::new();
        while of_event.len() < shares.len() {
            let place = detector.crystal().bounds().map(|[from, to]| random.random_range(from..to));
            if !detector.crystal().contains(place) || detector.crystal().segment(place) != segment() {
                continue;
            }
            let pulse = detector.pulse(place);
            if detector.collects(&pulse) == segment() {
                let charge = energy * shares[of_event.len()];
                detector.add(&pulse, charge as f32, 0.0, SAMPLING, &mut signals);
                of_event.push(place);
            }
        }
        for channel in ChannelSet::Neighbours.of(segment()).into_iter().map(Channel::index) {
            let mut noise = NOISE * random.sample::<f64, _>(StandardNormal);
            for value in &signals[channel * SAMPLING.samples..][..SAMPLING.samples] {
                samples.push(value + noise as f32);
                let fresh = NOISE * (1.0 - CORRELATION * CORRELATION).sqrt();
                noise = CORRELATION * noise + fresh * random.sample::<f64, _>(StandardNormal);
            }
        }
        places.push(of_event);
    }
    let channels = ChannelSet::Neighbours.of(segment()).len();
    (SegmentEvents::new(channels, SAMPLING.samples, &vec![energy; count], &samples).expect("events"), places)
}

fn distance(a: Vec3, b: Vec3) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt()
}

/// Returns the distance of the worse of two hits from its true position.
fn error(basis: &SegmentBasis, found: &PairMatch, places: &[Vec3]) -> f64 {
    let [a, b] = found.points.map(|point| basis.positions()[point].map(f64::from));
    let worse = |to: [usize; 2]| distance(a, places[to[0]]).max(distance(b, places[to[1]]));
    worse([0, 1]).min(worse([1, 0]))
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

/// Statistics of pairs within this range of distances (mm): their number, the percentage classified
/// as pairs, and the median and 90th percentile of the error of the worse hit.
fn of_pairs(basis: &SegmentBasis, found: &[PairMatch], places: &[Vec<Vec3>], apart: [f64; 2]) -> [f64; 4] {
    let is_so = |at: &[Vec3]| (apart[0]..apart[1]).contains(&distance(at[0], at[1]));
    let events: Vec<_> = found.iter().zip(places).filter(|(_, at)| is_so(at)).collect();
    let called = events.iter().filter(|(found, _)| found.is_pair).count();
    let mut errors: Vec<f64> = events.iter().map(|(found, at)| error(basis, found, at)).collect();
    let count = events.len() as f64;
    [count, 100.0 * called as f64 / count, quantile(&mut errors, 0.5), quantile(&mut errors, 0.9)]
}

/// Noise of 2.5 keV, the detector of the basis, ten channels, 150 events of each kind.
#[test]
fn two_hits_are_told_from_one() {
    const EVENTS: usize = 150;
    let detector = detector(&example(), 2.0);
    let basis = of_segment(&detector);
    let search = PairSearch::new(&PairPlan::default(), &basis).expect("a search");
    let mut random = ChaCha8Rng::seed_from_u64(12);
    // The lowest accepted percentage of detected pairs, and the largest accepted median error (mm),
    // for hits of equal energy.
    for (energy, least, most) in [(150.0, 40.0, 5.0), (500.0, 75.0, 3.5), (1500.0, 85.0, 3.5)] {
        let (singles, places) = events(&detector, energy, &[1.0], EVENTS, &mut random);
        let found = search.search(&singles).expect("answers");
        let called = 100.0 * found.iter().filter(|found| found.is_pair).count() as f64 / EVENTS as f64;
        let single = |(found, at): (&PairMatch, &Vec<Vec3>)| {
            distance(basis.positions()[found.single.index].map(f64::from), at[0])
        };
        let mut errors: Vec<f64> = found.iter().zip(&places).map(single).collect();
        let median = quantile(&mut errors, 0.5);
        println!("{energy} keV, one hit: {called:.1} % called pairs, {median:.1} mm off");
        assert!(called <= 4.0, "{called} % of the events with one hit are called pairs");
        for share in [0.5, 0.25] {
            let (pairs, places) = events(&detector, energy, &[share, 1.0 - share], EVENTS, &mut random);
            let found = search.search(&pairs).expect("answers");
            for apart in [[5.0, 10.0], [10.0, 100.0]] {
                let [count, called, median, most_of_them] = of_pairs(&basis, &found, &places, apart);
                println!(
                    "{energy} keV, shares from {share}, {apart:?} mm apart: {called:.0} % of {count} called pairs, the worse hit {median:.1} mm off, 90 % below {most_of_them:.1}"
                );
                if share == 0.5 && apart[0] == 10.0 {
                    assert!(called >= least && median <= most, "{called} % called pairs, {median} mm");
                }
            }
        }
    }
}
