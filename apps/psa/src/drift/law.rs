//! Drift speed along one axis of the lattice.

/// Drift law `v = mu0 E / (1 + (E/E0)^beta)^(1/beta) - mun E` (Knoll's form with Bruyneel's last
/// term), at one temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// Mobility `mu0` in weak fields (cm2/Vs).
    pub mobility: f64,
    /// Field `E0` at which the speed begins to saturate (V/cm).
    pub field: f64,
    /// Exponent `beta` of the saturation.
    pub exponent: f64,
    /// Mobility `mun` that is lost to the Gunn effect (cm2/Vs).
    pub loss: f64,
}

/// Temperature (K) for which the laws are given.
const REFERENCE: f64 = 78.0;

/// 1 cm/s in mm/ns.
const MM_PER_NS: f64 = 1e-8;

impl Law {
    /// Returns the speed (mm/ns) in a field (V/cm).
    pub fn speed(&self, field: f64) -> f64 {
        let bent = (1.0 + (field / self.field).powf(self.exponent)).powf(1.0 / self.exponent);
        MM_PER_NS * field * (self.mobility / bent - self.loss)
    }

    /// Returns the law at another temperature (K). Mobilities scale with `power` of the
    /// temperature. The saturated speed `mu0 E0` scales as `sqrt(tanh(theta / 2T))` with `theta =
    /// 200 K` (Omar, Reggiani, Solid-State Electronics 30 (1987) 1351).
    pub fn at(self, temperature: f64, power: f64) -> Law {
        const THETA: f64 = 200.0;
        let saturated = |t: f64| (THETA / (2.0 * t)).tanh().sqrt();
        let mobilities = (temperature / REFERENCE).powf(-power);
        let speeds = saturated(temperature) / saturated(REFERENCE);
        Law {
            mobility: self.mobility * mobilities,
            field: self.field * speeds / mobilities,
            exponent: self.exponent,
            loss: self.loss * mobilities,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_fields_are_answered_with_the_mobility_and_strong_ones_with_saturation() {
        let law = Law { mobility: 40_000.0, field: 500.0, exponent: 1.0, loss: 0.0 };
        assert!((law.speed(1e-3) / (40_000.0 * 1e-3 * 1e-8) - 1.0).abs() < 1e-5);
        // The speed is mu0 E0 / 2 at E = E0, and tends to mu0 E0.
        assert!((law.speed(500.0) / 0.1 - 1.0).abs() < 1e-12);
        assert!((law.speed(1e9) / 0.2 - 1.0).abs() < 1e-5);
        let warm = law.at(100.0, 1.68);
        assert!((warm.mobility / law.mobility - (100.0f64 / 78.0).powf(-1.68)).abs() < 1e-12);
        let saturated = (1f64.tanh() / (200.0f64 / 156.0).tanh()).sqrt();
        assert!((warm.speed(1e9) / law.speed(1e9) - saturated).abs() < 1e-4);
        assert_eq!(law.at(78.0, 1.68), law);
    }
}
