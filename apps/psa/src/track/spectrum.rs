//! Histograms of energies.

use serde::Serialize;

/// A spectrum with steps of equal width.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Spectrum {
    /// Width of a step (keV).
    pub step: f64,
    /// Number of energies in each step; the first step begins at 0.
    pub counts: Vec<u64>,
    /// Number of energies above all steps.
    pub beyond: u64,
}

impl Spectrum {
    /// Creates an empty spectrum up to `most` (keV) in steps of `step` (keV).
    pub fn new(step: f64, most: f64) -> Spectrum {
        Spectrum { step, counts: vec![0; (most / step).ceil().clamp(1.0, 1e6) as usize], beyond: 0 }
    }

    /// Counts an energy (keV).
    pub fn add(&mut self, energy: f64) {
        // The conversion saturates: negative numbers become 0.
        match self.counts.get_mut((energy / self.step) as usize) {
            Some(count) => *count += 1,
            None => self.beyond += 1,
        }
    }

    /// Adds the counts of another spectrum with equal steps.
    pub fn join(&mut self, other: &Spectrum) {
        debug_assert_eq!((self.step, self.counts.len()), (other.step, other.counts.len()));
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.beyond += other.beyond;
    }

    /// Returns the number of energies that were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_energy_is_counted_once() {
        let mut spectrum = Spectrum::new(2.0, 10.0);
        [0.0, 1.99, 2.0, 9.99, 10.0, 1e300, -1.0].into_iter().for_each(|energy| spectrum.add(energy));
        assert_eq!((&spectrum.counts[..], spectrum.beyond), (&[3, 1, 0, 0, 1][..], 2));
        let mut twice = spectrum.clone();
        twice.join(&spectrum);
        assert_eq!(twice.total(), 14);
    }
}
