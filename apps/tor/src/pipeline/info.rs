//! Size, memory and work of a system, before a run.

use crate::Error;
use crate::dm::DeformableMirror;
use crate::geometry::{Block, Geometry};
use crate::system::{Atmosphere, StarKind, System};
use std::fmt;

/// Sizes, memory and work of one system.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Info {
    /// Diameter in m.
    pub diameter: f64,
    /// Number of measurements `n`.
    pub measurements: usize,
    /// Number of truth-sensor slopes `m`.
    pub truth_slopes: usize,
    /// Number of actuators of the default mirror.
    pub actuators: usize,
    /// Number of laser guide stars.
    pub lgs: usize,
    /// Number of natural guide stars.
    pub ngs: usize,
    /// Number of targets.
    pub targets: usize,
    /// Number of valid sub-apertures of each measuring sensor.
    pub sub_apertures: Vec<usize>,
    /// Number of turbulent layers.
    pub layers: usize,
    /// Fried parameter in m at 500 nm.
    pub r0: f64,
    /// Seeing in arcsec at 500 nm.
    pub seeing: f64,
    /// Blocks of the measurements: natural tile boundaries.
    pub blocks: Vec<Block>,
    /// Bytes of the whole `Cmm` in float32.
    pub cmm_bytes: u64,
    /// Bytes of the lower triangle of `Cmm` in float32.
    pub triangle_bytes: u64,
    /// Bytes of `Ctm` (or `R`) of one target in float32.
    pub ctm_bytes: u64,
    /// Flops of the factorisation, `n^3 / 3`.
    pub factor_flops: f64,
    /// Flops of one target's two triangular solves, `2 n^2 m`.
    pub solve_flops: f64,
    /// Flops of factorisation and solves for all targets.
    pub total_flops: f64,
}

/// Computes the sizes, memory and work of a system.
///
/// # Errors
/// A sensor has no valid sub-aperture.
pub fn info(system: &System, atmosphere: &Atmosphere) -> Result<Info, Error> {
    let geometry = Geometry::new(system)?;
    let (n, m) = (geometry.measurements() as u64, geometry.truth_slopes() as u64);
    let factor_flops = (n as f64).powi(3) / 3.0;
    let solve_flops = 2.0 * (n as f64).powi(2) * m as f64;
    Ok(Info {
        diameter: system.diameter,
        measurements: n as usize,
        truth_slopes: m as usize,
        actuators: DeformableMirror::new(system).len(),
        lgs: system.stars.iter().filter(|s| s.kind == StarKind::Lgs).count(),
        ngs: system.stars.iter().filter(|s| s.kind == StarKind::Ngs).count(),
        targets: system.targets.len(),
        sub_apertures: geometry.sensors().iter().map(|s| s.len()).collect(),
        layers: atmosphere.layers.len(),
        r0: atmosphere.r0(),
        seeing: atmosphere.seeing(),
        blocks: geometry.blocks().to_vec(),
        cmm_bytes: 4 * n * n,
        triangle_bytes: 2 * n * (n + 1),
        ctm_bytes: 4 * n * m,
        factor_flops,
        solve_flops,
        total_flops: factor_flops + solve_flops * system.targets.len() as f64,
    })
}

/// Assumed rate of a server core in float64, in operations per second.
const CORE_RATE: f64 = 4e10;

impl Info {
    /// Estimates the seconds that `workers` CPU workers need to judge the reconstructors of `rules`
    /// rules. `Cee` takes most of it. One worker computes the command matrix of the mirror and
    /// `Cvv`.
    pub fn judging_seconds(&self, rules: usize, workers: usize) -> f64 {
        let [n, m, a] = [self.measurements, self.truth_slopes, self.actuators].map(|count| count as f64);
        let cee = n * n * m + 2.0 * n * m * m;
        let cvv = 2.0 * a * m * (m + a);
        let mirror = 9.0 * a.powi(3) + 6.0 * a * a * m;
        let judged = (rules * self.targets) as f64;
        (judged * (cee / workers.max(1) as f64 + cvv) + mirror) / CORE_RATE
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        writeln!(
            f,
            "telescope        {} m, {} laser and {} natural guide stars",
            self.diameter, self.lgs, self.ngs
        )?;
        writeln!(f, "sub-apertures    {:?}", self.sub_apertures)?;
        writeln!(f, "measurements     n = {}", self.measurements)?;
        writeln!(f, "truth slopes     m = {}, {} target(s)", self.truth_slopes, self.targets)?;
        writeln!(f, "actuators        {}", self.actuators)?;
        writeln!(
            f,
            "turbulence       {} layers, r0 {:.4} m, seeing {:.3} arcsec at 500 nm",
            self.layers, self.r0, self.seeing
        )?;
        writeln!(
            f,
            "memory           Cmm {:.3} GB in float32 (triangle {:.3}), Ctm {:.3} GB per target",
            gb(self.cmm_bytes),
            gb(self.triangle_bytes),
            gb(self.ctm_bytes)
        )?;
        write!(
            f,
            "work             factorisation {:.3e} flop, solves {:.3e} per target, {:.3e} in all",
            self.factor_flops, self.solve_flops, self.total_flops
        )
    }
}
