//! Basis and events of one segment from files of arrays.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::basis::SegmentBasis;
use crate::channels::{CHANNELS, Channel, ChannelSet, Segment};
use crate::consistency::{check_channels, check_energies, check_events, check_segment};
use crate::files::arrays::{self, NumberArray, Quantity};
use crate::search::saturation::{self, Levels};
use crate::search::{Hit, SegmentEvents};

/// Paths of the input files.
#[derive(Clone, Debug, PartialEq)]
pub struct Files {
    /// Signals of points, by point, channel and sample; the whole charge is 1, or 16384 in `int16`.
    pub basis: PathBuf,
    /// Positions of the points (mm), by point.
    pub positions: PathBuf,
    /// Signals of events (keV), by event, channel and sample.
    pub events: PathBuf,
    /// Energies of events (keV).
    pub energies: PathBuf,
}

/// Basis of a segment, and hits in it.
#[derive(Clone, Debug)]
pub struct Input {
    /// Segment of the hits.
    pub segment: Segment,
    /// Points of the segment.
    pub basis: SegmentBasis,
    /// Events in the segment.
    pub events: SegmentEvents,
    /// Numbers of the events with clipped samples.
    pub saturated: Vec<usize>,
}

impl Input {
    /// Reads the basis and the events of one segment. If the files have all 37 channels, those that
    /// `channels` selects for the segment are compared. Files may have fewer channels, with the hit
    /// segment first and the core last. Then [`ChannelSet::HitCore`] selects these two, and any
    /// other set all channels of the file. The first `window` samples are compared, or all.
    ///
    /// # Errors
    /// [`Error::File`] for files that cannot be read or do not match each
    /// other, [`Error::Parameter`] for an invalid window, [`Error::Shape`] for a basis without
    /// matching sizes, and those of [`SegmentEvents::new`].
    pub fn read(
        files: &Files,
        segment: Segment,
        channels: ChannelSet,
        window: Option<usize>,
    ) -> Result<Input, Error> {
        let basis = arrays::open(&files.basis, 3)?;
        let shape = basis.sides().to_vec();
        let numbers = arrays::charges(basis)?.into_iter().map(f64::from).collect();
        let basis = NumberArray { shape, numbers };
        let positions = arrays::read(&files.positions, 2, Quantity::Length)?;
        let events = arrays::read(&files.events, 3, Quantity::Energy)?;
        let energies = arrays::read(&files.energies, 1, Quantity::Energy)?;
        let [points, in_file, samples] = sides(&basis);
        let [_, of_events, of_each] = sides(&events);
        if (of_events, of_each) != (in_file, samples) {
            let problem =
                format!("{of_events} channels of {of_each} samples, {in_file} of {samples} in the basis");
            return Err(bad(&files.events, problem));
        }
        if positions.shape != [points, 3] {
            let problem =
                format!("an array of shape {:?}; {points} points have {points} x 3", positions.shape);
            return Err(bad(&files.positions, problem));
        }
        let window = window.unwrap_or(samples);
        if window == 0 || window > samples {
            let problem = format!("{window}: the signals of this basis have {samples} samples");
            return Err(Error::Parameter { name: "window", problem });
        }
        let kept = kept(segment, channels, in_file);
        let place = |at: &[f64; 3]| at.map(|x| x as f32);
        let positions: Vec<[f32; 3]> = positions.numbers.as_chunks().0.iter().map(place).collect();
        if in_file == CHANNELS {
            let whole = |array: &NumberArray| array.numbers.iter().map(|&x| x as f32).collect::<Vec<f32>>();
            check_channels(&whole(&basis), samples, segment).map_err(|e| bad(&files.basis, e))?;
            check_events(&whole(&events), samples).map_err(|e| bad(&files.events, e))?;
        }
        let own = |array: &NumberArray| -> Vec<f32> { picked(array, &kept[..kept.len().min(1)], samples) };
        let signals = own(&basis);
        check_segment(signals.chunks_exact(samples), &positions).map_err(|e| bad(&files.basis, e))?;
        let charges = own(&events);
        let charges = charges.chunks_exact(samples).map(|signal| f64::from(signal[samples - 1]));
        let pairs = charges.zip(energies.numbers.iter().copied());
        check_energies(pairs).map_err(|e| bad(&files.events, e))?;
        let compared = picked(&events, &kept, samples);
        let levels = Levels::of(&compared, kept.len(), samples);
        let is_clipped = |signals: &[f32]| {
            !(levels.find(signals, samples).is_empty() && saturation::find(signals, samples).is_empty())
        };
        let each = compared.chunks_exact((kept.len() * samples).max(1)).enumerate();
        let saturated = each.filter(|(_, signals)| is_clipped(signals)).map(|(event, _)| event).collect();
        let basis = SegmentBasis::new(kept.len(), window, positions, picked(&basis, &kept, window))?;
        let events =
            SegmentEvents::new(kept.len(), window, &energies.numbers, &picked(&events, &kept, window))?;
        Ok(Input { segment, basis, events, saturated })
    }

    /// Returns the events as hits, each the only one of its event.
    pub fn hits(&self) -> impl Iterator<Item = (Hit, &[f64])> {
        let hit = |(ticket, &energy)| Hit { ticket, segment: self.segment, energy, coarse_only: false };
        let hits = self.events.energies().iter().enumerate().map(hit);
        hits.zip(self.events.all().chunks_exact(self.events.shape().terms().max(1)))
    }
}

fn bad(path: &Path, problem: String) -> Error {
    Error::content(path, None, problem)
}

fn sides(array: &NumberArray) -> [usize; 3] {
    [array.shape[0], array.shape[1], array.shape[2]]
}

/// Returns the indices in the file of the channels that are compared.
fn kept(segment: Segment, channels: ChannelSet, in_file: usize) -> Vec<usize> {
    match channels {
        _ if in_file == CHANNELS => channels.of(segment).into_iter().map(Channel::index).collect(),
        ChannelSet::HitCore if in_file > 2 => vec![0, in_file - 1],
        _ => (0..in_file).collect(),
    }
}

/// Returns the first samples of some channels of an array, by first index, channel and sample.
fn picked(array: &NumberArray, kept: &[usize], window: usize) -> Vec<f32> {
    let [_, channels, samples] = sides(array);
    let whole = array.numbers.chunks_exact((channels * samples).max(1));
    let signals = whole.flat_map(|all| kept.iter().map(move |&channel| &all[channel * samples..][..window]));
    signals.flatten().map(|&x| x as f32).collect()
}
