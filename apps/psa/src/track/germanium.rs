//! Attenuation and interactions of gamma rays in germanium.

use crate::body::Vec3;

/// Energy of an electron at rest (keV); CODATA 2018.
pub const ELECTRON: f64 = 510.998_95;

/// Germanium atoms per barn and mm: 5.323 g/cm3, 72.630 g/mol, Avogadro's number.
const ATOMS: f64 = 5.323 / 72.630 * 0.602_214_076 * 0.1;

/// Lowest energy of the table (keV); photons of less energy are absorbed at their next interaction.
pub const LEAST: f64 = 10.0;

/// Highest energy of the table (keV).
pub const MOST: f64 = 20_000.0;

/// Cross sections of a germanium atom (barn) by energy (keV): incoherent scattering, photoelectric
/// absorption, and the sum of pair production in the fields of the nucleus and of electrons.
/// Source: NIST, XCOM: Photon Cross Sections Database (NIST Standard Reference Database 8, Berger,
/// Hubbell et al.).
const XCOM: [[f64; 4]; 35] = [
    [10.0, 8.579, 4306.0, 0.0],
    [11.1030, 9.180, 3206.0, 0.0],
    [11.1031, 9.180, 23_710.0, 0.0],
    [15.0, 10.91, 10_900.0, 0.0],
    [20.0, 12.38, 4996.0, 0.0],
    [30.0, 14.00, 1610.0, 0.0],
    [40.0, 14.75, 704.5, 0.0],
    [50.0, 15.05, 367.0, 0.0],
    [60.0, 15.12, 214.0, 0.0],
    [80.0, 14.94, 90.61, 0.0],
    [100.0, 14.59, 46.24, 0.0],
    [150.0, 13.57, 13.56, 0.0],
    [200.0, 12.63, 5.706, 0.0],
    [300.0, 11.13, 1.733, 0.0],
    [400.0, 10.03, 0.7731, 0.0],
    [500.0, 9.188, 0.4270, 0.0],
    [600.0, 8.516, 0.2699, 0.0],
    [800.0, 7.497, 0.1379, 0.0],
    [1000.0, 6.747, 0.085_85, 0.0],
    [1250.0, 6.038, 0.055_12, 0.010_73],
    [1500.0, 5.490, 0.039_68, 0.053_20],
    [2000.0, 4.687, 0.024_37, 0.1971],
    [3000.0, 3.689, 0.013_14, 0.539_091],
    [4000.0, 3.077, 0.008_813, 0.857_869],
    [5000.0, 2.658, 0.006_576, 1.140_49],
    [6000.0, 2.349, 0.005_225, 1.390_11],
    [7000.0, 2.112, 0.004_325, 1.6137],
    [8000.0, 1.922, 0.003_685, 1.815_13],
    [9000.0, 1.767, 0.003_208, 1.998_32],
    [10_000.0, 1.637, 0.002_839, 2.164_26],
    [12_000.0, 1.432, 0.002_306, 2.454_36],
    [14_000.0, 1.276, 0.001_940, 2.702_49],
    [16_000.0, 1.154, 0.001_674, 2.917_82],
    [18_000.0, 1.054, 0.001_471, 3.108_46],
    [20_000.0, 0.9724, 0.001_312, 3.2795],
];

/// Attenuation coefficients of germanium: interactions per mm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attenuation {
    /// Coefficient of Compton scattering (1/mm).
    pub compton: f64,
    /// Coefficient of photoelectric absorption (1/mm).
    pub photo: f64,
    /// Coefficient of pair production (1/mm).
    pub pair: f64,
}

impl Attenuation {
    /// Returns the coefficients at an energy (keV), clamped to the range from [`LEAST`] to
    /// [`MOST`]. The cross sections are interpolated linearly in the logarithms of energy and cross
    /// section. That of pair production is divided by `(1 - 2 m / E)^3` first, as in XCOM.
    pub fn at(energy: f64) -> Attenuation {
        let energy = energy.clamp(LEAST, MOST);
        let next = XCOM.partition_point(|row| row[0] <= energy).clamp(1, XCOM.len() - 1);
        let (low, high) = (&XCOM[next - 1], &XCOM[next]);
        let share = (energy / low[0]).ln() / (high[0] / low[0]).ln();
        let between = |a: f64, b: f64| ATOMS * a * ((b / a).ln() * share).exp();
        let pair = match above(energy) {
            none if none <= 0.0 => 0.0,
            factor => {
                let reduced = |row: &[f64; 4]| row[3] / above(row[0]);
                // Below the first energy with pairs the reduced cross section is constant.
                let (b, a) = (reduced(high), if low[3] > 0.0 { reduced(low) } else { reduced(high) });
                factor * between(a, b)
            }
        };
        Attenuation { compton: between(low[1], high[1]), photo: between(low[2], high[2]), pair }
    }

    /// Returns the total attenuation coefficient (1/mm).
    pub fn total(&self) -> f64 {
        self.compton + self.photo + self.pair
    }
}

/// Returns the threshold factor of pair production; 0 below the threshold.
fn above(energy: f64) -> f64 {
    (1.0 - 2.0 * ELECTRON / energy).max(0.0).powi(3)
}

/// Returns the energy (keV) after a Compton scattering by an angle with this cosine: `E / (1 + E/m
/// (1 - cos))`.
pub fn scattered(energy: f64, cosine: f64) -> f64 {
    energy / (1.0 + energy / ELECTRON * (1.0 - cosine))
}

/// Returns the length (mm) of the part of the line between two points that lies outside a sphere
/// around the origin (mm). There is no germanium inside the sphere.
pub fn path(from: Vec3, to: Vec3, inner_radius: f64) -> f64 {
    let way: Vec3 = std::array::from_fn(|axis| to[axis] - from[axis]);
    let length = norm(way);
    if length <= 0.0 {
        return 0.0;
    }
    // The distance along the line of the point nearest to the origin, and the square of its
    // distance from there.
    let nearest = -dot(from, way) / length;
    let squared = dot(from, from) - nearest * nearest;
    let half = (inner_radius * inner_radius - squared).max(0.0).sqrt();
    let hollow = (nearest + half).min(length) - (nearest - half).max(0.0);
    length - hollow.max(0.0)
}

pub(super) fn dot(a: Vec3, b: Vec3) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(super) fn norm(a: Vec3) -> f64 {
    dot(a, a).sqrt()
}

pub(super) fn minus(a: Vec3, b: Vec3) -> Vec3 {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mass attenuation coefficients of germanium in NIST's tables (Hubbell & Seltzer, NIST
    /// Standard Reference Database 126), minus coherent scattering, which XCOM gives in barn.
    #[test]
    fn attenuation_is_that_of_the_tables() {
        for (energy, mass, coherent) in
            [(1000.0, 0.057_27, 0.07242), (500.0, 0.082_12, 0.2860), (100.0, 0.5550, 6.083)]
        {
            let ours = 10.0 * Attenuation::at(energy).total() / 5.323;
            let printed = mass - coherent * 0.602_214_076 / 72.630;
            assert!((ours / printed - 1.0).abs() < 0.003, "{energy} keV: {ours} beside {printed}");
        }
        // 2044 keV is not in the table: XCOM says 4.629, 0.02353 and 0.2116 barn.
        let between = Attenuation::at(2044.0);
        for (ours, barn) in [(between.compton, 4.629), (between.photo, 0.023_53), (between.pair, 0.2116)] {
            assert!((ours / ATOMS / barn - 1.0).abs() < 0.003, "{} beside {barn}", ours / ATOMS);
        }
        assert_eq!(Attenuation::at(1021.9).pair, 0.0);
        assert!(Attenuation::at(1100.0).pair > 0.0);
        assert!(Attenuation::at(11.2).photo > 5.0 * Attenuation::at(11.0).photo, "the K edge");
    }

    #[test]
    fn hollows_hold_no_germanium() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} beside {b}");
        near(path([0.0; 3], [0.0, 0.0, 7.0], 5.0), 2.0);
        near(path([0.0, 1.0, 6.0], [0.0, 1.0, 9.0], 5.0), 3.0);
        near(path([-6.0, 3.0, 0.0], [6.0, 3.0, 0.0], 5.0), 4.0);
        near(path([-6.0, 6.0, 0.0], [6.0, 6.0, 0.0], 5.0), 12.0);
        near(path([1.0, 0.0, 0.0], [2.0, 0.0, 0.0], 5.0), 0.0);
        near(path([1.0, 0.0, 0.0], [1.0, 0.0, 0.0], 0.0), 0.0);
    }
}
