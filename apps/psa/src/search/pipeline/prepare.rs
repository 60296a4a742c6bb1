//! Preparation of an event for the search: checks, hits, clipped samples.

use std::sync::Arc;

use super::crystal_basis::{Charge, CrystalBasis, charges};
use super::event::Event;
use super::restore::ClippedEvent;
use super::saturation::{self, Saturated};
use super::statistics::ChargeStatistics;
use crate::Error;
use crate::channels::{CHANNELS, Channel, SEGMENTS};

/// A prepared event: signals, channels and hits of the search.
pub(super) struct PreparedEvent {
    pub signals: Arc<[f32]>,
    pub channels: Vec<Channel>,
    pub hits: Vec<Charge>,
    /// Indices of the clipped samples.
    pub saturated: Vec<u32>,
}

impl PreparedEvent {
    /// Checks an event, and determines its hits and its clipped samples. The charges of a whole
    /// crystal are added to `statistics`.
    pub fn new(
        event: Event,
        crystal: &CrystalBasis<'_>,
        statistics: &mut ChargeStatistics,
    ) -> Result<Self, Error> {
        let mut prepared = match event.hit {
            None => Self::of_crystal(event.signals, crystal, statistics)?,
            Some(hit) => Self::of_hit(hit, event.signals, crystal)?,
        };
        let samples = prepared.signals.len() / prepared.channels.len();
        let mut saturated = saturation::find(&prepared.signals, samples);
        if saturated.is_empty() && event.saturated.is_empty() {
            return Ok(prepared);
        }
        saturated.extend(event.saturated.into_iter().filter(|&at| (at as usize) < prepared.signals.len()));
        saturated.sort_unstable();
        saturated.dedup();
        match crystal.rules().saturated {
            Saturated::Fit => prepared.restore(&saturated, event.hit.is_some(), crystal)?,
            Saturated::Skip => prepared.hits.clear(),
            Saturated::Refuse => {
                let count = saturated.len();
                let problem = format!(
                    "{count} samples are clipped at the end of their range: fit leaves them out, skip leaves out the event"
                );
                return Err(Error::Parameter { name: "saturated", problem });
            }
        }
        Ok(PreparedEvent { saturated, ..prepared })
    }

    /// Replaces the clipped samples by a fit. The hits of a whole crystal follow from it.
    fn restore(
        &mut self,
        saturated: &[u32],
        is_known: bool,
        crystal: &CrystalBasis<'_>,
    ) -> Result<(), Error> {
        let mut restored = self.signals.to_vec();
        let (signals, channels) = (&mut restored, &self.channels);
        ClippedEvent { signals, channels, samples: saturated, is_known }.restore(crystal, &self.hits);
        if !is_known {
            self.hits = crystal.hits(charges(&restored))?;
        }
        self.signals = restored.into();
        Ok(())
    }

    /// Prepares the signals of a whole crystal, and finds its hits.
    fn of_crystal(
        mut signals: Vec<f32>,
        crystal: &CrystalBasis<'_>,
        statistics: &mut ChargeStatistics,
    ) -> Result<Self, Error> {
        let rules = crystal.rules();
        check(&signals, CHANNELS, rules.window)?;
        if let Some(cross_talk) = &rules.cross_talk {
            let samples = signals.len() / CHANNELS;
            cross_talk.correct(&mut signals[..SEGMENTS * samples], samples)?;
        }
        let hits = crystal.hits(charges(&signals))?;
        statistics.add(charges(&signals), !hits.is_empty());
        let channels = Channel::all().collect();
        Ok(PreparedEvent { signals: signals.into(), channels, hits, saturated: Vec::new() })
    }

    /// Prepares the signals of a known hit.
    fn of_hit(
        (segment, energy): Charge,
        signals: Vec<f32>,
        crystal: &CrystalBasis<'_>,
    ) -> Result<Self, Error> {
        let wrong = |problem| Err(Error::Parameter { name: "event", problem });
        let Some(channels) = crystal.channels(segment) else {
            return wrong(format!("a hit in segment {}: the basis has no point there", segment.index()));
        };
        check(&signals, channels.len(), crystal.rules().window)?;
        if !(energy.is_finite() && energy > 0.0) {
            return wrong(format!("an energy of {energy} keV: it must be above 0"));
        }
        let (channels, hits) = (channels.to_vec(), vec![(segment, energy)]);
        Ok(PreparedEvent { signals: signals.into(), channels, hits, saturated: Vec::new() })
    }
}

fn check(signals: &[f32], channels: usize, window: usize) -> Result<(), Error> {
    let len = signals.len();
    if !len.is_multiple_of(channels) || len / channels < window {
        let problem = format!("{len} samples of {channels} channels: {window} or more of each are needed");
        return Err(Error::shape("signals of an event", problem));
    }
    if signals.iter().any(|sample| !sample.is_finite()) {
        let problem = "a sample is not a finite number".to_owned();
        return Err(Error::Parameter { name: "event", problem });
    }
    Ok(())
}
