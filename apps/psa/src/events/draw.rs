//! Simulation of one event from its random numbers.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp, StandardNormal};

use super::{Spec, Within};
use crate::Error;
use crate::body::{Body, Vec3};
use crate::channels::Segment;
use crate::detector::Detector;
use crate::drift::Pulse;

/// A charge deposit of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrawnHit {
    pub place: Vec3,
    pub energy: f64,
    pub segment: Segment,
}

/// The most positions that are tried for a hit.
const TRIES: usize = 100_000;

/// Lower bound of a hit's random weight; weights range up to 1, and the event's energy is shared in
/// their proportion.
const LEAST_SHARE: f64 = 0.2;

/// Returns the random numbers of an event. The last stream is reserved for the times of all events.
fn random(spec: &Spec, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(spec.seed);
    random.set_stream(stream);
    random
}

/// Returns the time of each event (ns): a Poisson process.
pub(super) fn times(spec: &Spec) -> Vec<u64> {
    let mut random = random(spec, u64::MAX);
    let mut now = 0.0;
    let mut next = |_| {
        let gap: f64 = Exp::new(spec.rate * 1e-9).map_or(0.0, |gaps| gaps.sample(&mut random));
        now += gap;
        now as u64
    };
    (0..spec.count).map(&mut next).collect()
}

/// Draws the hits of an event and adds its signals to `signals`, by channel and sample.
pub(super) fn draw(
    detector: &Detector,
    spec: &Spec,
    event: usize,
    signals: &mut [f32],
) -> Result<Vec<DrawnHit>, Error> {
    let mut random = random(spec, event as u64);
    let energy = spec.energies.draw(&mut random);
    let shares: Vec<f64> = (0..spec.hits).map(|_| random.random_range(LEAST_SHARE..1.0)).collect();
    let late = spec.jitter * random.sample::<f64, _>(StandardNormal);
    let all: f64 = shares.iter().sum();
    let mut hits = Vec::with_capacity(spec.hits);
    for share in shares {
        let (place, pulse, segment) = place(detector, spec.within, &hits, &mut random)?;
        let energy = energy * share / all;
        detector.add(&pulse, energy as f32, late, spec.sampling, signals);
        hits.push(DrawnHit { place, energy, segment });
    }
    for trace in signals.chunks_mut(spec.sampling.samples) {
        record(trace, spec, &mut random);
    }
    Ok(hits)
}

/// Draws the position of one more hit; returns it with its pulse and its segment.
fn place(
    detector: &Detector,
    within: Within,
    hits: &[DrawnHit],
    random: &mut impl Rng,
) -> Result<(Vec3, Pulse, Segment), Error> {
    let crystal = detector.crystal();
    let bounds = crystal.bounds();
    for _ in 0..TRIES {
        let place = bounds.map(|[from, to]| random.random_range(from..to));
        if !crystal.contains(place) {
            continue;
        }
        // A charge drifts to a segment that touches the one in which it starts, or stays in it.
        // Other charges need not be followed.
        let starts = crystal.segment(place);
        let may_reach = |hit: &DrawnHit| starts == hit.segment || starts.touches(hit.segment);
        if within == Within::Segment && !hits.iter().all(may_reach) {
            continue;
        }
        let pulse = detector.pulse(place);
        let segment = detector.collects(&pulse);
        let is_in_place = hits.iter().all(|hit| match within {
            Within::Crystal => true,
            Within::Segment => hit.segment == segment,
            Within::Segments => hit.segment != segment,
        });
        if pulse.is_collected && is_in_place {
            return Ok((place, pulse, segment));
        }
    }
    let problem = format!(
        "none of {TRIES} positions has a charge that reaches a contact: check that the crystal is depleted"
    );
    Err(Error::Parameter { name: "crystal", problem })
}

/// Adds noise with a correlation between consecutive samples, and rounds to the steps of the
/// digitiser.
fn record(trace: &mut [f32], spec: &Spec, random: &mut impl Rng) {
    let fresh = spec.noise * (1.0 - spec.correlation * spec.correlation).sqrt();
    let mut noise = spec.noise * random.sample::<f64, _>(StandardNormal);
    for value in trace {
        let seen = f64::from(*value) + noise;
        *value =
            if spec.adc_step > 0.0 { (seen / spec.adc_step).round() * spec.adc_step } else { seen } as f32;
        noise = spec.correlation * noise + fresh * random.sample::<f64, _>(StandardNormal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise_of(spec: &Spec, length: usize) -> Vec<f64> {
        let mut trace = vec![0.0; length];
        record(&mut trace, spec, &mut random(spec, 3));
        trace.into_iter().map(f64::from).collect()
    }

    /// Variance and correlation of 200 000 samples, to five standard errors.
    #[test]
    fn noise_is_as_strong_and_as_slow_as_was_asked_for() {
        let spec = Spec { adc_step: 0.0, ..Spec::default() };
        let noise = noise_of(&spec, 200_000);
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / noise.len() as f64;
        let variance = mean(&mut noise.iter().map(|x| x * x));
        assert!((variance.sqrt() / 2.5 - 1.0).abs() < 0.015, "{variance}");
        let lagged = mean(&mut noise.windows(2).map(|pair| pair[0] * pair[1]));
        assert!((lagged / variance - 0.55).abs() < 0.01, "{lagged}");
        let stepped = noise_of(&Spec { adc_step: 0.5, ..spec }, 1000);
        assert!(stepped.iter().all(|x| (x * 2.0).fract() == 0.0));
    }

    /// The mean gap of a Poisson process is one over its rate, and so is its standard deviation.
    #[test]
    fn times_are_those_of_a_poisson_process() {
        let spec = Spec { count: 100_000, rate: 5e4, ..Spec::default() };
        let times = times(&spec);
        let mean = times[times.len() - 1] as f64 / times.len() as f64;
        assert!((mean / 2e4 - 1.0).abs() < 0.02, "{mean}");
        let square = |pair: &[u64]| ((pair[1] - pair[0]) as f64 - mean).powi(2);
        let deviation = (times.windows(2).map(square).sum::<f64>() / times.len() as f64).sqrt();
        assert!((deviation / mean - 1.0).abs() < 0.03, "{deviation}");
    }
}
