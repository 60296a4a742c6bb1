//! Correction of a field as the covariances predict it.

use super::field::{field_responses, pupil_commands};
use super::simulation::{LoopOptions, Simulation};
use crate::dm::DeformableMirror;
use crate::geometry::Geometry;
use crate::image::{self, ExactStrehl, Pupil};
use crate::params::Input;
use crate::pipeline::{Observer, PipelineError};
use crate::system::{LoopMode, NoiseModel};
use crate::{Covariance, Error, Matrix, evaluate};
use std::sync::Arc;
use zellige_runtime::{Runtime, Submit, write};

/// Bytes of covariances that are kept from one target to the next.
const KEPT: u64 = 256 << 20;

/// Figures of a target from covariances.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct FieldPoint {
    /// Direction in arcsec.
    pub x: f64,
    /// Direction in arcsec.
    pub y: f64,
    /// Exact long-exposure Strehl ratio of the tomographic error and of what the mirrors leave of
    /// it in this direction.
    pub strehl: f64,
    /// Wavefront error of the same, rms in nm, without piston.
    pub wfe_nm: f64,
}

/// Correction of the field as the covariances predict it, at the first wavelength of the images and
/// without fitting, aliasing on the target and delay.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct FieldMap {
    /// Wavelength in m.
    pub wavelength: f64,
    /// Targets, in the order of those of the loop.
    pub points: Vec<FieldPoint>,
}

/// Data that the judgements of all targets share.
struct Judge {
    cov: Covariance,
    command: Matrix,
    responses: Vec<Matrix>,
    dx: Matrix,
    pupil: Arc<Pupil>,
}

impl Judge {
    /// Returns Strehl ratio and wavefront error \[nm\] of a target.
    fn judge(&self, target: usize) -> Result<[f64; 2], Error> {
        let r = self.responses[target].times(&self.command)?;
        let cvv = evaluate::cvv(&self.dx, &evaluate::cee(&self.cov, target, &r)?)?;
        let strehl = ExactStrehl::new(&self.pupil, &cvv)?.run()?;
        Ok([strehl, image::residual(&self.pupil, &cvv)?.wfe_nm_piston_removed])
    }
}

impl Simulation {
    /// Judges the commands of a pseudo-open loop with shared mirrors from the covariances of
    /// `input`, one task for each target; `None` for other loops.
    ///
    /// # Errors
    /// A failed task.
    pub fn field_map(
        &self,
        rt: &Runtime,
        input: &Input,
        options: &LoopOptions,
        observer: &dyn Observer,
    ) -> Result<Option<FieldMap>, PipelineError> {
        let is_shared = input.system.simulation.field.is_some() && self.law().mode == LoopMode::PseudoOpen;
        let (Some(command), true) = (self.command_matrices().next(), is_shared) else { return Ok(None) };
        let mut system = input.system.clone();
        system.wavelength = system.simulation.wavelengths.first().copied().unwrap_or(system.wavelength);
        if !options.noise {
            system.noise = NoiseModel::Uniform { variance: 0.0 };
        }
        let targets = system.targets.len();
        observer.stage("field map", targets as u64);
        let judge = Arc::new(Judge {
            cov: Covariance::new(&system, &input.atmosphere)?.keep(KEPT),
            command: command.clone(),
            responses: field_responses(&system)?,
            dx: pupil_commands(&system, &Geometry::new(&system)?)?,
            pupil: Arc::new(Pupil::new(&system, &DeformableMirror::new(&system))),
        });
        let mut figures = Vec::with_capacity(targets);
        for target in 0..targets {
            let (judge, out) = (Arc::clone(&judge), rt.register_empty::<Vec<f64>>());
            rt.task("field_point")
                .operands((write(&out),))
                .cpu(move |(mut out,)| {
                    out.put(judge.judge(target)?.to_vec());
                    Ok::<(), Error>(())
                })
                .submit()?;
            figures.push(out);
        }
        let mut points = Vec::with_capacity(targets);
        for (out, &[x, y]) in figures.into_iter().zip(&system.targets) {
            let found = rt.take(out)?;
            points.push(FieldPoint { x, y, strehl: found[0], wfe_nm: found[1] });
            observer.advance(points.len() as u64);
        }
        Ok(Some(FieldMap { wavelength: system.wavelength, points }))
    }
}
