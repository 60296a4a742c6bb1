//! Response of the electronics: computes samples from the charges on the contacts.

use crate::basis::Sampling;
use crate::channels::{CHANNELS, Channel, SEGMENTS};
use crate::drift::Pulse;

/// Electronics between a crystal and its samples.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Electronics {
    /// Time constant of the preamplifiers (ns): the response to a charge that arrives at once is
    /// `1 - exp(-t / tau)`.
    pub tau: f64,
    /// Proportional cross-talk: fraction of every other segment's signal that a segment sees.
    /// Measured values are about -0.0015.
    pub cross_talk: f64,
    /// Differential cross-talk: factor (ns) of every other segment's slope that a segment sees.
    pub differential_cross_talk: f64,
}

impl Default for Electronics {
    /// 35 ns, without cross-talk.
    fn default() -> Self {
        Electronics { tau: 35.0, cross_talk: 0.0, differential_cross_talk: 0.0 }
    }
}

impl Electronics {
    /// Adds a pulse of charge `charge` to samples, by channel. The signal is positive on the
    /// contacts that collect the charge, if segments collect charges of sign `polarity`. The pulse
    /// begins `late` (ns) after the sample at which charges begin to move.
    ///
    /// # Panics
    /// If there are not [`CHANNELS`] contacts, or not that many traces.
    pub fn add(
        &self,
        pulse: &Pulse,
        polarity: f32,
        charge: f32,
        late: f64,
        sampling: Sampling,
        samples: &mut [f32],
    ) {
        assert_eq!(
            (pulse.contacts, samples.len()),
            (CHANNELS, CHANNELS * sampling.samples),
            "a crystal's channels"
        );
        let mut values = vec![[0.0f32; 2]; samples.len()];
        for (channel, values) in values.chunks_mut(sampling.samples).enumerate() {
            self.trace(pulse, channel, late, sampling, values);
        }
        for sample in 0..sampling.samples {
            let at = |channel: usize| values[channel * sampling.samples + sample];
            // The sum over all segments, from which each subtracts its own share.
            let sum =
                (0..SEGMENTS).map(at).fold([0.0; 2], |sum, [value, slope]| [sum[0] + value, sum[1] + slope]);
            for channel in 0..CHANNELS {
                let [value, slope] = at(channel);
                let seen = match channel == Channel::CORE.index() {
                    true => -value,
                    false => {
                        let others = self.cross_talk as f32 * (sum[0] - value);
                        value + others + self.differential_cross_talk as f32 * (sum[1] - slope)
                    }
                };
                samples[channel * sampling.samples + sample] += charge * polarity * seen;
            }
        }
    }

    /// Computes value and slope (per ns) of one channel after its preamplifier, at every sample.
    /// The result is exact for charges that are linear between the times of the pulse and constant
    /// after the last one.
    fn trace(&self, pulse: &Pulse, channel: usize, late: f64, sampling: Sampling, values: &mut [[f32; 2]]) {
        let input = |time: usize| f64::from(pulse.charges[time * pulse.contacts + channel]);
        let last = pulse.times() - 1;
        let decay = self.decay(pulse.step);
        // Value after the preamplifier at `time`.
        let (mut time, mut output) = (0, input(0));
        for (sample, value) in values.iter_mut().enumerate() {
            let at = (sample as f64 - sampling.before as f64) * sampling.step - late;
            if at <= 0.0 {
                *value = [0.0; 2];
                continue;
            }
            while time < last && (time + 1) as f64 * pulse.step <= at {
                let slope = (input(time + 1) - input(time)) / pulse.step;
                output = self.step(input(time), slope, output, (pulse.step, decay));
                time += 1;
            }
            let slope = if time < last { (input(time + 1) - input(time)) / pulse.step } else { 0.0 };
            let rest = at - time as f64 * pulse.step;
            let seen = self.step(input(time), slope, output, (rest, self.decay(rest)));
            let steepness = match self.tau > 0.0 {
                true => (input(time) + slope * rest - seen) / self.tau,
                false => slope,
            };
            *value = [seen as f32, steepness as f32];
        }
    }

    /// Returns the solution of `tau y' = x - y` after a time (ns) with this `exp(-time / tau)`. It
    /// starts at `output`; the input starts at `input` and rises by `slope` per ns.
    fn step(&self, input: f64, slope: f64, output: f64, (time, decay): (f64, f64)) -> f64 {
        let lag = slope * self.tau;
        input + slope * time - lag + (output - input + lag) * decay
    }

    fn decay(&self, time: f64) -> f64 {
        if self.tau > 0.0 { (-time / self.tau).exp() } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pulse whose charge arrives at segment 3 and the core linearly within 100 ns.
    fn ramp() -> Pulse {
        let mut charges = vec![0.0; 101 * CHANNELS];
        for time in 0..=100 {
            charges[time * CHANNELS + 3] = time as f32 / 100.0;
            charges[time * CHANNELS + 36] = -(time as f32) / 100.0;
        }
        Pulse {
            step: 1.0,
            contacts: CHANNELS,
            charges,
            sensitivities: vec![[0.0; 2]; CHANNELS],
            is_collected: true,
        }
    }

    fn samples(electronics: Electronics, late: f64) -> Vec<f32> {
        let sampling = Sampling { samples: 60, step: 10.0, before: 2 };
        let mut samples = vec![0.0; CHANNELS * sampling.samples];
        electronics.add(&ramp(), 1.0, 1.0, late, sampling, &mut samples);
        samples
    }

    /// A ramp of length `T` after a preamplifier with `exp(-t/tau)`: `(t - tau (1 - exp(-t/tau))) /
    /// T`, and the approach to 1 after the end of the ramp.
    #[test]
    fn a_ramp_is_answered_as_the_formula_says() {
        let (tau, late) = (35.0, 3.3);
        let samples = samples(Electronics { tau, ..Electronics::default() }, late);
        for sample in 0..60 {
            let t = 10.0 * sample as f64 - 20.0 - late;
            let during = |t: f64| (t - tau * (1.0 - (-t / tau).exp())) / 100.0;
            let expected = match t {
                t if t <= 0.0 => 0.0,
                t if t <= 100.0 => during(t),
                t => 1.0 - (1.0 - during(100.0)) * (-(t - 100.0) / tau).exp(),
            };
            for channel in [3, 36] {
                let found = f64::from(samples[channel * 60 + sample]);
                assert!(
                    (found - expected).abs() < 1e-6,
                    "channel {channel} sample {sample}: {found} {expected}"
                );
            }
        }
        assert!(samples[..60].iter().all(|&value| value == 0.0));
    }

    #[test]
    fn others_get_their_part_of_a_signal_and_of_its_slope() {
        let plain = samples(Electronics::default(), 0.0);
        let mixed = samples(Electronics { cross_talk: -0.002, ..Electronics::default() }, 0.0);
        let slopes = samples(Electronics { differential_cross_talk: 0.5, ..Electronics::default() }, 0.0);
        for sample in 3..60 {
            let own = plain[3 * 60 + sample];
            assert!((mixed[60 + sample] + 0.002 * own).abs() < 1e-7);
            assert_eq!(mixed[3 * 60 + sample], own);
            assert_eq!(mixed[36 * 60 + sample], own);
            // The slope after the preamplifier is (x - y) / tau.
            let t = 10.0 * (sample as f32 - 2.0);
            let slope = ((t / 100.0).min(1.0) - own) / 35.0;
            assert!((slopes[60 + sample] - 0.5 * slope).abs() < 1e-6, "{sample}");
        }
    }
}
