//! Signals of known points, with which measured signals are compared.

use crate::Error;
use crate::channels::{CHANNELS, Channel, ChannelSet, Segment};

/// Value of the whole charge in files with samples of two bytes.
pub const FIXED: f32 = 16_384.0;

/// Sampling of the signals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Samples of one signal.
    pub samples: usize,
    /// Time between two samples (ns).
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
    /// Creates a basis of points at `positions` (mm) in `segments`. `values` are ordered by point,
    /// channel (37) and sample; 1 is the whole charge.
    ///
    /// # Errors
    /// [`Error::Shape`] if the lengths do not match.
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

    /// Adds the trapping sensitivities of each point in its segment, for electrons and for holes
    /// (mm; [`Pulse::sensitivities`](crate::drift::Pulse)).
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one pair for each point.
    pub fn with_sensitivities(self, sensitivities: Vec<[f32; 2]>) -> Result<Self, Error> {
        if sensitivities.len() != self.positions.len() {
            let problem = format!("{} for {} points", sensitivities.len(), self.positions.len());
            return Err(Error::shape("trapping sensitivities", problem));
        }
        Ok(Basis { sensitivities: Some(sensitivities), ..self })
    }

    /// Returns the trapping sensitivities of the points, for electrons and for holes (mm), if they
    /// are known.
    pub fn sensitivities(&self) -> Option<&[[f32; 2]]> {
        self.sensitivities.as_deref()
    }

    /// Returns the sampling of the signals.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Returns the positions of the points (mm).
    pub fn positions(&self) -> &[[f32; 3]] {
        &self.positions
    }

    /// Returns the segment of each point.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the signal of a point in a channel.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn signal(&self, point: usize, channel: Channel) -> &[f32] {
        let samples = self.sampling.samples;
        &self.values[(point * CHANNELS + channel.index()) * samples..][..samples]
    }

    /// Returns all signals, by point, channel and sample.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the points of one segment, with the channels that a search compares and the first
    /// `window` samples.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the window is empty or longer than the signals.
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

/// Signals of the points of one segment in the channels that a search compares: the segment's own
/// channel first, the core last.
#[derive(Clone, Debug)]
pub struct SegmentBasis {
    channels: usize,
    samples: usize,
    positions: Vec<[f32; 3]>,
    values: Vec<f32>,
}

impl SegmentBasis {
    /// Creates the basis of a segment from points at `positions` (mm). `values` are ordered by
    /// point, channel and sample; 1 is the whole charge.
    ///
    /// # Errors
    /// [`Error::Shape`] if the lengths do not match.
    pub fn new(
        channels: usize,
        samples: usize,
        positions: Vec<[f32; 3]>,
        values: Vec<f32>,
    ) -> Result<Self, Error> {
        check_values(positions.len(), channels, samples, values.len())?;
        Ok(SegmentBasis { channels, samples, positions, values })
    }

    /// Returns the number of channels that are compared.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Returns the number of samples of one signal.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Returns the positions of the points (mm).
    pub fn positions(&self) -> &[[f32; 3]] {
        &self.positions
    }

    /// Returns the signals of a point, channel after channel.
    ///
    /// # Panics
    /// If there is no such point.
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

    /// Returns a basis in which each value identifies its point, channel and sample.
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
