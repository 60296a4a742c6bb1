//! Detection of samples that a digitiser has clipped at the end of its range.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Treatment of an event with clipped samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Saturated {
    /// Points and energies are fitted to the samples that are not clipped, and the fit replaces the
    /// clipped ones for the search.
    #[default]
    Fit,
    /// The event has no hits.
    Skip,
    /// The event is an error.
    Refuse,
}

impl fmt::Display for Saturated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Saturated::Fit => "fit",
            Saturated::Skip => "skip",
            Saturated::Refuse => "refuse",
        })
    }
}

impl FromStr for Saturated {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        [Saturated::Fit, Saturated::Skip, Saturated::Refuse]
            .into_iter()
            .find(|what| what.to_string() == name)
            .ok_or_else(|| Error::Parameter {
                name: "saturated",
                problem: format!("'{name}' is not one of fit, skip, refuse"),
            })
    }
}

/// Number of equal samples in a row at the end of a trace's range that make a flat top.
const FLAT: usize = 6;
/// Minimum range of a digitiser, in smallest steps of its event: noise does not reach that far.
const RANGE: f32 = 64.0;
/// Minimum step with which a clipped trace enters its flat top, in smallest steps of its event.
const STEPS: f32 = 8.0;
/// Minimum of this step as a fraction of the trace's range. A charge that settles reaches its end
/// slowly.
const SHARE: f32 = 0.02;

/// Returns the largest and the smallest value of a trace of an event if the trace is flat there and
/// enters the flat top with a step.
fn flat_tops(trace: &[f32], event: &[f32], samples: usize) -> impl Iterator<Item = f32> {
    [1.0, -1.0].into_iter().filter_map(move |sign| {
        let level = trace.iter().fold(f32::NEG_INFINITY, |most, &x| most.max(sign * x));
        let first = trace.windows(FLAT).position(|run| run.iter().all(|&x| sign * x == level))?;
        if first == 0 || level <= 0.0 {
            return None;
        }
        let least = trace.iter().fold(f32::INFINITY, |least, &x| least.min(sign * x));
        let steps =
            |trace: &[f32]| trace.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect::<Vec<_>>();
        let all = event.chunks_exact(samples).flat_map(steps).filter(|&step| step > 0.0);
        let smallest = all.fold(f32::INFINITY, f32::min);
        let entry = steps(&trace[first.saturating_sub(2)..=first]).into_iter().fold(0.0, f32::max);
        let is_end = level >= RANGE * smallest && entry >= STEPS * smallest;
        (is_end && entry >= SHARE * (level - least)).then_some(sign * level)
    })
}

/// Appends to `clipped` the samples of a trace that are at a level or beyond it; `begin` is the
/// number of its first sample.
fn beyond(trace: &[f32], level: f32, begin: usize, clipped: &mut Vec<u32>) {
    let is_beyond = |&(_, &x): &(usize, &f32)| x * level.signum() >= level.abs();
    clipped.extend(trace.iter().enumerate().filter(is_beyond).map(|(at, _)| (begin + at) as u32));
}

/// Returns the clipped samples of an event, detected from this event alone in traces with noise,
/// since charges with noise do not end in flat tops. Traces without noise begin at exactly 0 and
/// are skipped.
pub fn find(signals: &[f32], samples: usize) -> Vec<u32> {
    let mut clipped = Vec::new();
    for (number, trace) in signals.chunks_exact(samples.max(1)).enumerate() {
        if trace[0] == 0.0 {
            continue;
        }
        for level in flat_tops(trace, signals, samples) {
            beyond(trace, level, number * samples, &mut clipped);
        }
    }
    clipped
}

/// Values at which traces of several events are clipped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Levels(HashMap<u32, LevelSource>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LevelSource {
    In(usize),
    InSeveral,
}

impl Levels {
    /// Finds the levels in the signals of events with `channels` channels, by event, channel and
    /// sample. Levels are flat tops that two events share, and that no sample of their channels
    /// exceeds. If all samples are whole numbers, the ends of 16 bits are levels, too.
    pub fn of(signals: &[f32], channels: usize, samples: usize) -> Levels {
        let mut levels = HashMap::new();
        let (samples, channels) = (samples.max(1), channels.max(1));
        let mut ends = vec![[0.0f32; 2]; channels];
        for (number, trace) in signals.chunks_exact(samples).enumerate() {
            let [least, most] = &mut ends[number % channels];
            trace.iter().for_each(|&x| (*least, *most) = (least.min(x), most.max(x)));
        }
        for (number, event) in signals.chunks_exact(channels * samples).enumerate() {
            for (trace, ends) in event.chunks_exact(samples).zip(&ends) {
                for level in flat_tops(trace, event, samples).filter(|level| ends.contains(level)) {
                    let source = levels.entry(level.to_bits()).or_insert(LevelSource::In(number));
                    if *source != LevelSource::In(number) {
                        *source = LevelSource::InSeveral;
                    }
                }
            }
        }
        levels.retain(|_, source| *source == LevelSource::InSeveral);
        if signals.iter().all(|x| x.fract() == 0.0) {
            let most = signals.iter().fold(0.0f32, |most, &x| most.max(x));
            let ends = if most > i16::MAX.into() { [65_535.0, 65_535.0] } else { [-32_768.0, 32_767.0] };
            levels.extend(ends.map(|end: f32| (end.to_bits(), LevelSource::InSeveral)));
        }
        Levels(levels)
    }

    /// Returns the samples of an event that are at such a level.
    pub fn find(&self, signals: &[f32], samples: usize) -> Vec<u32> {
        let mut clipped = Vec::new();
        if self.0.is_empty() {
            return clipped;
        }
        for (number, trace) in signals.chunks_exact(samples.max(1)).enumerate() {
            let most = trace.iter().fold(0.0f32, |most, &x| most.max(x));
            let least = trace.iter().fold(0.0f32, |least, &x| least.min(x));
            for level in [most, least].into_iter().filter(|level| self.0.contains_key(&level.to_bits())) {
                beyond(trace, level, number * samples, &mut clipped);
            }
        }
        clipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::CHANNELS;

    fn rise(height: f32, clip: f32, noise: &[f32]) -> Vec<f32> {
        let of = |t: usize| if t < 2 { 0.0 } else { height * (1.0 - (-(t as f32 - 2.0) / 4.0).exp()) };
        (0..40).map(|t| (of(t) + noise[t % noise.len()]).min(clip)).collect()
    }

    #[test]
    fn clipped_samples_are_found_and_settled_ones_are_not() {
        let noise = [0.7, -1.1, 0.2, 1.9, -0.4];
        let clipped = find(&rise(900.0, 500.0, &noise), 40);
        assert_eq!((clipped.len(), clipped.first(), clipped.last()), (34, Some(&6), Some(&39)));
        assert!(find(&rise(900.0, 5000.0, &noise), 40).is_empty());
        // Settled charges in steps of a digitiser, with and without a little noise.
        for noise in [&[0.0][..], &[0.1, 0.0]] {
            let stepped: Vec<f32> =
                rise(900.0, 5000.0, noise).iter().map(|x| (x / 0.4).round() * 0.4).collect();
            assert!(find(&stepped, 40).is_empty());
            assert_eq!(flat_tops(&stepped, &stepped, 40).count(), 0);
        }
        let turned: Vec<f32> = rise(900.0, 500.0, &noise).iter().map(|x| -x).collect();
        assert_eq!(find(&turned, 40).len(), 34);
    }

    #[test]
    fn levels_are_those_that_several_events_share() {
        let event = |height: f32| {
            let mut event = vec![0.0; CHANNELS * 40];
            event[..40].copy_from_slice(&rise(height, 500.0, &[0.0]));
            event[40..80].copy_from_slice(&rise(height / 100.0, 500.0, &[0.0]));
            event
        };
        let all = [event(900.0), event(700.0), event(300.0)].concat();
        let levels = Levels::of(&all, CHANNELS, 40);
        let counts = all.chunks(CHANNELS * 40).map(|event| levels.find(event, 40).len());
        assert_eq!(counts.collect::<Vec<_>>(), [34, 32, 0]);
        assert!(Levels::of(&all[..CHANNELS * 40], CHANNELS, 40).find(&all, 40).is_empty(), "one event alone");
        // Whole numbers end at the ends of 16 bits, even for a single sample.
        let mut whole = vec![0.0; CHANNELS * 40];
        (whole[5], whole[50]) = (32_767.0, -32_768.0);
        assert_eq!(Levels::of(&whole, CHANNELS, 40).find(&whole, 40), [5, 50]);
        whole[5] = 65_535.0;
        assert_eq!(Levels::of(&whole, CHANNELS, 40).find(&whole, 40), [5]);
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for what in [Saturated::Fit, Saturated::Skip, Saturated::Refuse] {
            assert_eq!(what.to_string().parse::<Saturated>().expect("its own name"), what);
        }
        assert!("drop".parse::<Saturated>().is_err());
    }
}
