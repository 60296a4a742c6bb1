//! Slopes and commands of an exposure, frame by frame.

use super::control::ControlLaw;
use crate::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names of arrays in npz files.
pub(crate) const SLOPES: &str = "slopes";
pub(crate) const FRAME_TIME: &str = "frame_time";
pub(crate) const SEES_MIRROR: &str = "sees_mirror";
/// Keywords of the images of slopes in FITS files.
pub(crate) const FRAME_TIME_KEY: &str = "FRAMETIM";
pub(crate) const SAW_MIRROR_KEY: &str = "SAWMIRR";

/// Returns the name of the image of a star's slopes in FITS files.
pub(crate) fn slopes_image(star: usize) -> String {
    format!("SLOPES_{}", star + 1)
}

/// Recorded slopes \[arcsec\] and commands \[volts\], in single precision.
#[derive(Debug)]
pub struct Telemetry {
    /// Slopes of each star, as its sensor measured them: frames x slopes, slopes inner.
    pub(super) slopes: Vec<Vec<f32>>,
    /// Commands on each mirror during the frames: frames x actuators, actuators inner.
    pub(super) commands: Vec<Vec<f32>>,
    /// Number of the first frame that is recorded.
    first: u64,
    /// Largest number of frames.
    most: u64,
    pub(super) frames: usize,
    /// Time between frames in s.
    pub(super) frame_time: f64,
    pub(super) law: ControlLaw,
}

impl Telemetry {
    /// Reserves the memory for `most` frames from number `first` on, with so many slopes of each
    /// star and commands of each mirror.
    ///
    /// # Errors
    /// There is too little memory.
    pub(super) fn new(
        first: u64,
        most: u64,
        [slopes, commands]: [&[usize]; 2],
        frame_time: f64,
        law: ControlLaw,
    ) -> Result<Self, Error> {
        let reserve = |length: &usize| {
            let mut out = Vec::new();
            let count = usize::try_from(most).ok().and_then(|frames| frames.checked_mul(*length));
            match count.map(|count| out.try_reserve_exact(count)) {
                Some(Ok(())) => Ok(out),
                _ => Err(Error::numeric(
                    "telemetry",
                    format!("{most} frames of {length} values do not fit the memory: record fewer frames"),
                )),
            }
        };
        Ok(Telemetry {
            slopes: slopes.iter().map(reserve).collect::<Result<_, _>>()?,
            commands: commands.iter().map(reserve).collect::<Result<_, _>>()?,
            first,
            most,
            frames: 0,
            frame_time,
            law,
        })
    }

    /// Adds a frame, if it is one of those to record.
    pub(super) fn add<'v>(
        &mut self,
        frame: u64,
        slopes: impl Iterator<Item = &'v [f64]>,
        commands: impl Iterator<Item = &'v [f64]>,
    ) {
        if frame < self.first || self.frames as u64 >= self.most {
            return;
        }
        let add = |(all, values): (&mut Vec<f32>, &[f64])| all.extend(values.iter().map(|v| *v as f32));
        self.slopes.iter_mut().zip(slopes).for_each(add);
        self.commands.iter_mut().zip(commands).for_each(add);
        self.frames += 1;
    }

    /// Returns the number of recorded frames.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the slopes \[arcsec\] of a star: frames x slopes, slopes inner.
    ///
    /// # Panics
    /// There is no such star.
    pub fn slopes(&self, star: usize) -> &[f32] {
        &self.slopes[star]
    }

    /// Returns the commands \[volts\] on a mirror during the frames: frames x actuators, actuators
    /// inner.
    ///
    /// # Panics
    /// There is no such mirror.
    pub fn commands(&self, mirror: usize) -> &[f32] {
        &self.commands[mirror]
    }
}

/// Telemetry that tasks add to, and that is still there if they are cancelled.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Mutex<Telemetry>>);

impl Recorder {
    pub(super) fn new(telemetry: Telemetry) -> Self {
        Recorder(Arc::new(Mutex::new(telemetry)))
    }

    /// Returns the telemetry; tasks wait meanwhile.
    pub fn get(&self) -> MutexGuard<'_, Telemetry> {
        // A task adds a frame wholly or not at all.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
