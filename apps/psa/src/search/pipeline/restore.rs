//! Replacement of the clipped samples of an event by a fit to the others.

use super::crystal_basis::{Charge, CrystalBasis, SETTLED};
use crate::channels::Channel;

/// An event whose clipped samples are replaced.
pub(super) struct ClippedEvent<'s> {
    pub signals: &'s mut [f32],
    pub channels: &'s [Channel],
    /// Indices of the clipped samples, in ascending order.
    pub samples: &'s [u32],
    /// Whether the energies are known from elsewhere.
    pub is_known: bool,
}

/// Number of sweeps over the hits of an event.
const SWEEPS: usize = 3;

impl ClippedEvent<'_> {
    /// Fits a point to each hit, and an energy if its segment is clipped, by least squares over the
    /// compared samples. Clipped samples count only if the fit falls short of them. Then replaces
    /// clipped samples by the fit if it exceeds them.
    pub fn restore(&mut self, crystal: &CrystalBasis<'_>, hits: &[Charge]) {
        let samples = self.signals.len() / self.channels.len();
        let is_clipped = {
            let mut is_clipped = vec![false; self.signals.len()];
            self.samples.iter().for_each(|&at| is_clipped[at as usize] = true);
            is_clipped
        };
        let collected = hits;
        let mut hits = hits.to_vec();
        let mut at: Vec<usize> = hits.iter().map(|&(segment, _)| crystal.first_point(segment)).collect();
        for _ in 0..if hits.len() > 1 { SWEEPS } else { hits.len() } {
            for hit in 0..hits.len() {
                // The clipped charge is a lower bound.
                let mut beside = hits.clone();
                beside[hit] = collected[hit];
                (hits[hit].1, at[hit]) = self.fitted(crystal, &beside, &at, hit, &is_clipped);
            }
        }
        let mut model = vec![0.0; samples];
        for (index, &channel) in self.channels.iter().enumerate() {
            let range = index * samples..(index + 1) * samples;
            if !is_clipped[range.clone()].contains(&true) {
                continue;
            }
            model.fill(0.0);
            crystal.add_signals(hits.iter().zip(at.iter().copied()), channel, &mut model);
            // The charge is constant after its end.
            let known = crystal.samples().min(samples);
            let last = model[known - 1];
            model[known..].fill(last);
            let trace = self.signals[range.clone()].iter_mut().zip(&is_clipped[range]).zip(&model);
            for ((x, _), &model) in trace.filter(|((_, is_clipped), _)| **is_clipped) {
                let model = model as f32;
                *x = if *x < 0.0 { x.min(model) } else { x.max(model) };
            }
        }
    }

    /// Fits the energy and the point of a hit, given the other hits.
    fn fitted(
        &self,
        crystal: &CrystalBasis<'_>,
        hits: &[Charge],
        at: &[usize],
        hit: usize,
        is_clipped: &[bool],
    ) -> (f64, usize) {
        let ((segment, energy), window) = (hits[hit], crystal.rules().window);
        let samples = self.signals.len() / self.channels.len();
        let compared = crystal.channels(segment).unwrap_or_default();
        let (mut remainder, mut clipped) = (Vec::new(), Vec::new());
        let mut is_open = false;
        for &channel in compared {
            let index = self.channels.iter().position(|&other| other == channel);
            let begin = index.expect("a channel that is compared") * samples;
            let mut others = vec![0.0; window];
            let all = hits.iter().zip(at.iter().copied()).enumerate();
            crystal.add_signals(
                all.filter(|&(other, _)| other != hit).map(|(_, other)| other),
                channel,
                &mut others,
            );
            let signal = self.signals[begin..][..window].iter().zip(&others);
            remainder.extend(signal.map(|(&x, other)| f64::from(x) - other));
            clipped.extend_from_slice(&is_clipped[begin..][..window]);
            let settled = begin + samples.saturating_sub(SETTLED)..begin + samples;
            is_open |= channel == segment.into() && is_clipped[settled].contains(&true);
        }
        let is_open = is_open && !self.is_known;
        let mut best = (f64::INFINITY, energy, at[hit]);
        for point in 0..crystal.points(segment) {
            let known = crystal.point(segment, point);
            let signals = compared.iter().flat_map(|&channel| &crystal.signal(known, channel)[..window]);
            let terms = || {
                remainder.iter().zip(signals.clone()).zip(&clipped).map(|((&v, &b), &c)| (v, f64::from(b), c))
            };
            let energy = match is_open {
                true => {
                    let open = terms().filter(|&(.., clipped)| !clipped);
                    let sums = open.fold((0.0, 0.0), |(vb, bb), (v, b, _)| (vb + v * b, bb + b * b));
                    if sums.1 > 0.0 { (sums.0 / sums.1).max(energy) } else { energy }
                }
                false => energy,
            };
            let square = terms().fold(0.0, |sum, (v, b, clipped)| {
                let apart = v - energy * b;
                let counts = !clipped || apart * v.signum() > 0.0;
                sum + if counts { apart * apart } else { 0.0 }
            });
            if square < best.0 {
                best = (square, energy, point);
            }
        }
        (best.1, best.2)
    }
}
