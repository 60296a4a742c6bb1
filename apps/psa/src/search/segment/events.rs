//! Samples of events in the formats that searches compare.

use zellige_kernels::distance::Shape;
use zellige_kernels::formats::bits::{f16_from_f32, f32_from_f16};

use super::block::{Block, SampleFormat, THOUSAND};
use crate::Error;

/// Events of one segment: samples by event, channel and sample, in thousandths of each event's
/// energy.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentEvents {
    shape: Shape,
    energies: Vec<f64>,
    samples: Vec<f64>,
}

impl SegmentEvents {
    /// Creates events with `energies` (keV) from `samples` (keV) by event, channel and sample,
    /// positive where charge is collected.
    ///
    /// # Errors
    /// [`Error::Shape`] if the lengths do not match; [`Error::Parameter`] for a sample that is
    /// non-finite, and for an energy that is not above 0.
    pub fn new(
        channels: usize,
        window: usize,
        energies: &[f64],
        samples: &[f32],
    ) -> Result<SegmentEvents, Error> {
        let shape = Shape { channels, samples: window };
        if channels.checked_mul(window).and_then(|terms| terms.checked_mul(energies.len()))
            != Some(samples.len())
        {
            let problem = format!(
                "{} samples for {} events of {channels} channels and {window} samples",
                samples.len(),
                energies.len()
            );
            return Err(Error::shape("samples of events", problem));
        }
        let wrong =
            |name, event, what: &str| Error::Parameter { name, problem: format!("event {event}: {what}") };
        if let Some(event) = energies.iter().position(|energy| !(energy.is_finite() && *energy > 0.0)) {
            return Err(wrong("energies", event, "an energy above 0 keV is needed"));
        }
        if let Some(at) = samples.iter().position(|sample| !sample.is_finite()) {
            return Err(wrong("events", at / shape.terms(), "a sample is not a finite number"));
        }
        let normal =
            |(at, &sample): (usize, &f32)| f64::from(sample) * THOUSAND / energies[at / shape.terms()];
        let samples = samples.iter().enumerate().map(normal).collect();
        Ok(SegmentEvents { shape, energies: energies.to_vec(), samples })
    }

    /// Creates events from samples in thousandths of each event's energy.
    ///
    /// # Errors
    /// [`Error::Shape`] if the lengths do not match.
    pub(crate) fn of_thousandths(
        shape: Shape,
        energies: Vec<f64>,
        samples: Vec<f64>,
    ) -> Result<SegmentEvents, Error> {
        if shape.terms() * energies.len() != samples.len() {
            let problem = format!("{} samples for {} events of {shape:?}", samples.len(), energies.len());
            return Err(Error::shape("samples of events", problem));
        }
        Ok(SegmentEvents { shape, energies, samples })
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.energies.len()
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.energies.is_empty()
    }

    /// Returns the number of channels and samples.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the energies (keV).
    pub fn energies(&self) -> &[f64] {
        &self.energies
    }

    /// Returns the samples of all events, one after the other.
    pub fn all(&self) -> &[f64] {
        &self.samples
    }

    /// Returns the samples of an event in thousandths of its energy, channel after channel.
    ///
    /// # Panics
    /// If there is no such event.
    pub fn samples(&self, event: usize) -> &[f64] {
        &self.samples[event * self.shape.terms()..][..self.shape.terms()]
    }
}

/// Appends samples in `f32`, in the unit and with the rounding of a block's format.
pub(in crate::search) fn narrowed(samples: &[f64], block: &Block, to: &mut Vec<f32>) {
    let factor = f64::from(block.scale()) / THOUSAND;
    match block.format() {
        SampleFormat::F16 => {
            to.extend(samples.iter().map(|&v| f32_from_f16(f16_from_f32((v * factor) as f32))))
        }
        _ => to.extend(samples.iter().map(|&v| (v * factor) as f32)),
    }
}

/// Appends samples in units of the charge as two `f32`, whose sum differs from the sample by a
/// relative error of about 2^-49. Returns an upper bound of the sum over samples of the `p`-th
/// power of the remaining error.
pub(in crate::search) fn in_two_parts(
    samples: &[f64],
    p: f64,
    high: &mut Vec<f32>,
    low: &mut Vec<f32>,
) -> f64 {
    let mut left = 0.0;
    for &sample in samples {
        let unit = sample / THOUSAND;
        let first = unit as f32;
        let rest = unit - f64::from(first);
        let second = rest as f32;
        // The division is rounded as well, by 2^-53 of the sample at most.
        let lost = (rest - f64::from(second)).abs() + unit.abs() * 2f64.powi(-53);
        left += if lost > 0.0 { lost.powf(p) } else { 0.0 };
        high.push(first);
        low.push(second);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_parts_are_the_sample() {
        let samples = [0.0, 1000.0 / 3.0, -987.654_321, 1e-7];
        let (mut high, mut low) = (Vec::new(), Vec::new());
        let left = in_two_parts(&samples, 1.0, &mut high, &mut low);
        for (i, sample) in samples.iter().enumerate() {
            let sum = f64::from(high[i]) + f64::from(low[i]);
            assert!((sum - sample / THOUSAND).abs() <= left, "{sample}");
        }
        assert!(left < 1e-14, "{left:e}");
    }

    #[test]
    fn what_is_no_event_is_refused() {
        assert!(SegmentEvents::new(2, 3, &[100.0], &[0.0; 6]).is_ok());
        assert!(SegmentEvents::new(2, 3, &[100.0], &[0.0; 7]).is_err());
        assert!(SegmentEvents::new(2, 3, &[0.0], &[0.0; 6]).is_err());
        assert!(SegmentEvents::new(2, 3, &[f64::NAN], &[0.0; 6]).is_err());
        assert!(SegmentEvents::new(1, 1, &[1.0], &[f32::INFINITY]).is_err());
        assert!(SegmentEvents::new(usize::MAX, 2, &[1.0], &[0.0]).is_err());
    }
}
