//! A loop whose sensors or control are the caller's, frame by frame.
//!
//! Between two frames a caller reads what sensors and targets would see in the next one, and gives
//! slopes or commands of its own for it.

use super::simulation::{Simulation, mirror_of};
use crate::params::Input;
use crate::{Error, Matrix};

impl Simulation {
    /// Returns the number of the next frame, counted from 0.
    pub fn frame(&self) -> u64 {
        self.frame
    }

    /// Returns the command matrices \[volts per arcsec\] of the mirrors, actuators x measurements.
    pub fn command_matrices(&self) -> impl Iterator<Item = &Matrix> {
        self.controllers.iter().map(|controller| controller.command())
    }

    /// Measures the interaction matrix \[arcsec per volt\] without noise, measurements x actuators,
    /// by pushing and pulling each actuator by 20 nm. `input` is that of the loop.
    ///
    /// # Errors
    /// `input` has another geometry than the loop.
    pub fn interaction(&self, input: &Input) -> Result<Matrix, Error> {
        self.setup.interaction(input, self.mirrors[0].len())
    }

    /// Simulates the next frame with `slopes` \[arcsec\] in place of those of the sensors.
    ///
    /// # Errors
    /// There is not one finite slope for each measurement.
    pub fn step_with_slopes(&mut self, slopes: &[f64]) -> Result<(), Error> {
        let needed = self.controllers[0].command().cols();
        check("slopes", slopes, needed, "measurements, all x and then all y of each sensor")?;
        self.advance(slopes, |_, controller, mirror| controller.step(slopes, mirror));
        Ok(())
    }

    /// Simulates the next frame with `commands` \[volts\] in place of those of the control law, all
    /// mirrors one after the other. They reach the mirror when the law's would: `delay` frames
    /// after this one, limited to the stroke.
    ///
    /// # Errors
    /// There is not one finite command for each actuator of each mirror.
    pub fn step_with_commands(&mut self, commands: &[f64]) -> Result<(), Error> {
        let (mirrors, actuators) = (self.mirrors.len(), self.mirrors[0].len());
        check("commands", commands, mirrors * actuators, "actuators, all mirrors one after the other")?;
        let slopes = if self.telemetry().is_some() { self.slopes() } else { Vec::new() };
        self.advance(&slopes, |i, controller, mirror| {
            controller.take(&commands[i * actuators..][..actuators], mirror)
        });
        Ok(())
    }

    /// Returns the wavefront \[m\] of a target in the next frame, row by row on the pixels of the
    /// images: that of the turbulence, or with `corrected` what the mirror as it is now leaves.
    ///
    /// # Errors
    /// There is no such target.
    pub fn wavefront(&self, target: usize, corrected: bool) -> Result<Vec<f64>, Error> {
        one_of("target", target, self.setup.targets(), "targets in [imaging]")?;
        let mut wavefront = vec![0.0; self.setup.target_points()];
        self.setup.target_wavefront(target, self.frame, &mut wavefront);
        if corrected {
            let commands = &self.mirrors[mirror_of(target, self.mirrors.len())];
            self.setup.correct_target(target, commands, &mut wavefront);
        }
        Ok(wavefront)
    }

    /// Returns the wavefront \[m\] of a star in the next frame as its sensor sees it, row by row on
    /// the square grid of the sensor: the centres of pixels for spots, otherwise points from edge
    /// to edge of the pupil.
    ///
    /// # Errors
    /// There is no such star.
    pub fn star_wavefront(&self, star: usize) -> Result<Vec<f64>, Error> {
        one_of("star", star, self.setup.stars(), "guide stars")?;
        let mut wavefront = vec![0.0; self.setup.star_points(star)];
        self.setup.star_wavefront(star, self.frame, &mut wavefront);
        self.setup.correct_star(star, &self.mirrors[0], &mut wavefront);
        Ok(wavefront)
    }
}

/// Refuses numbers that are too few, too many or not finite.
fn check(what: &str, numbers: &[f64], needed: usize, of: &str) -> Result<(), Error> {
    if numbers.len() != needed {
        return Err(Error::shape(
            what,
            format!("{} numbers; give {needed}, one for each of the {of}", numbers.len()),
        ));
    }
    match numbers.iter().position(|x| !x.is_finite()) {
        Some(at) => Err(Error::numeric(what, format!("number {at} is {}; give finite numbers", numbers[at]))),
        None => Ok(()),
    }
}

/// Refuses a number that counts no object.
fn one_of(what: &str, number: usize, count: usize, of: &str) -> Result<(), Error> {
    if number < count {
        return Ok(());
    }
    Err(Error::shape(
        what,
        format!("there is none of number {number}; there are {count} {of}, counted from 0"),
    ))
}
