//! Signals of known points: what measured ones are compared with.

use crate::Error;
use crate::channels::{CHANNELS, Channel, ChannelSet, Segment};

/// The whole charge in files with samples of two bytes.
pub const FIXED: f32 = 16_384.0;

/// How signals are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Samples of one signal.
    pub samples: usize,
    /// Time between two of them (ns).
    pub step: f64,
    /// Samples before the charge begins to move.
    pub before: usize,
}

/// The signals of all points of a crystal.
#[derive(Clone, Debug)]
pub struct Basis {
    sampling: Sampling,
    positions: Vec<[f32; 3]>,
    segments: Vec<Segment>,
    values: Vec<f32>,
    sensitivities: Option<Vec<[f32; 2]>>,
}

impl Basis {
    /// Of points at `positions` (mm) in `segments`, with `values` by point, channel (37) and
    /// sample; 1 is the whole charge.
    ///
    /// # Errors
    /// [`Error::Shape`] where the lengths do not fit each other.
    pub fn new(
        sampling: Sampling,
        positions: Vec<[f32; 3]>,
        segments: Vec<Segment>,
        values: Vec<f32>,
    ) -> Result<Self, Error> {
        if segments.len() != positions.len() {
            let problem = format!("{} for {} points", segments.len(), positions.len());
            return Err(Error::shape("segments of the points", problem));
        }
        check_values(positions.len(), CHANNELS, sampling.samples, values.len())?;
        Ok(Basis { sampling, positions, segments, values, sensitivities: None })
    }

    /// With the trapping sensitivities of each point in the segment that it lies in, of electrons
    /// and of holes (mm; [`Pulse::sensitivities`](crate::drift::Pulse)).
    ///
    /// # Errors
    /// [`Error::Shape`] where there is not one pair for each point.
    pub fn with_sensitivities(self, sensitivities: Vec<[f32; 2]>) -> Result<Self, Error> {
        if sensitivities.len() != self.positions.len() {
            let problem = format!("{} for {} points", sensitivities.len(), self.positions.len());
            return Err(Error::shape("trapping sensitivities", problem));
        }
        Ok(Basis { sensitivities: Some(sensitivities), ..self })
    }

    /// The trapping sensitivities of its points, of electrons and of holes (mm), where they are
    /// known.
    pub fn sensitivities(&self) -> Option<&[[f32; 2]]> {
        self.sensitivities.as_deref()
    }

    /// How its signals are sampled.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Where its points are (mm).
    pub fn positions(&self) -> &[[f32; 3]] {
        &self.positions
    }

    /// Which segment each point lies in.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The signal of a point in a channel.
    ///
    /// # Panics
    /// Where there is no such point.
    pub fn signal(&self, point: usize, channel: Channel) -> &[f32] {
        let samples = self.sampling.samples;
        &self.values[(point * CHANNELS + channel.index()) * samples..][..samples]
    }

    /// All signals, by point, channel and sample.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The points of one segment, with the channels that a search compares and the first `window`
    /// samples.
    ///
    /// # Errors
    /// [`Error::Parameter`] where signals are shorter than the window.
    pub fn of_segment(
        &self,
        segment: Segment,
        channels: ChannelSet,
        window: usize,
    ) -> Result<SegmentBasis, Error> {
        if window == 0 || window > self.sampling.samples {
            return Err(Error::Parameter {
                name: "window",
                problem: format!(
                    "{window}: the signals of this basis have {} samples",
                    self.sampling.samples
                ),
            });
        }
        let channels = channels.of(segment);
        let points: Vec<usize> = (0..self.positions.len()).filter(|&i| self.segments[i] == segment).collect();
        let signals = points.iter().flat_map(|&point| channels.iter().map(move |&channel| (point, channel)));
        let values = signals.flat_map(|(point, channel)| &self.signal(point, channel)[..window]).copied();
        let values = values.collect();
        let positions = points.iter().map(|&point| self.positions[point]).collect();
        SegmentBasis::new(channels.len(), window, positions, values)
    }
}

/// The signals of the points of one segment, in the channels that a search compares: the segment's
/// own first, the core last.
#[derive(Clone, Debug)]
pub struct SegmentBasis {
    channels: usize,
    samples: usize,
    positions: Vec<[f32; 3]>,
    values: Vec<f32>,
}

impl SegmentBasis {
    /// Of points at `positions` (mm), with `values` by point, channel and sample; 1 is the whole
    /// charge.
    ///
    /// # Errors
    /// [`Error::Shape`] where the lengths do not fit each other.
    pub fn new(
        channels: usize,
        samples: usize,
        positions: Vec<[f32; 3]>,
        values: Vec<f32>,
    ) -> Result<Self, Error> {
        check_values(positions.len(), channels, samples, values.len())?;
        Ok(SegmentBasis { channels, samples, positions, values })
    }

    /// How many channels are compared.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Samples of one signal.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Where its points are (mm).
    pub fn positions(&self) -> &[[f32; 3]] {
        &self.positions
    }

    /// The signals of a point: channel after channel.
    ///
    /// # Panics
    /// Where there is no such point.
    pub fn point(&self, point: usize) -> &[f32] {
        let length = self.channels * self.samples;
        &self.values[point * length..][..length]
    }
}

fn check_values(points: usize, channels: usize, samples: usize, values: usize) -> Result<(), Error> {
    match points.checked_mul(channels).and_then(|signals| signals.checked_mul(samples)) {
        Some(wanted) if wanted == values => Ok(()),
        _ => {
            let problem =
                format!("{values} values for {points} points, {channels} channels, {samples} samples");
            Err(Error::shape("signals of a basis", problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that say which point, channel and sample they belong to.
    fn numbered(points: usize, samples: usize) -> Basis {
        let sampling = Sampling { samples, step: 10.0, before: 2 };
        let segments = (0..points).map(|i| Segment::from_index(i % 2).expect("a segment")).collect();
        let values = (0..points * CHANNELS * samples).map(|i| i as f32).collect();
        Basis::new(sampling, vec![[0.0; 3]; points], segments, values).expect("sizes that fit")
    }

    #[test]
    fn a_segment_has_its_points_with_the_channels_compared() {
        let (basis, hit) = (numbered(5, 4), Segment::from_index(1).expect("a segment"));
        let part = basis.of_segment(hit, ChannelSet::HitCore, 3).expect("a window that fits");
        assert_eq!((part.channels(), part.samples(), part.positions().len()), (2, 3, 2));
        let at = |point: usize, channel: usize| ((point * CHANNELS + channel) * 4) as f32;
        let expected =
            [at(3, 1), at(3, 1) + 1.0, at(3, 1) + 2.0, at(3, 36), at(3, 36) + 1.0, at(3, 36) + 2.0];
        assert_eq!(part.point(1), expected);
        assert!(basis.of_segment(hit, ChannelSet::HitCore, 5).is_err());
    }

    #[test]
    fn sizes_have_to_fit() {
        assert!(SegmentBasis::new(2, 3, vec![[0.0; 3]; 2], vec![0.0; 11]).is_err());
        assert!(SegmentBasis::new(usize::MAX, 3, vec![[0.0; 3]; 2], vec![]).is_err());
    }
}
