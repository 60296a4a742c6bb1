//! Control laws: from slopes to commands.

use crate::matrix::gemm;
use crate::system::LoopMode;
use crate::{Error, Matrix};
use faer::{MatMut, MatRef};
use std::collections::VecDeque;

/// Parameters of a control law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ControlLaw {
    /// Relation between sensors and mirror.
    pub mode: LoopMode,
    /// Gain `g`: of the integrator, or of the low-pass filter `u = (1 - g) u + g v` of the other
    /// modes. 1 is no filter.
    pub gain: f64,
    /// Fraction of the commands that an integrator loses in every frame.
    pub leak: f64,
    /// Number of frames after which slopes move the mirror; with 0 they do in their own frame.
    pub delay: usize,
    /// Largest command in volts.
    pub limit: f64,
}

/// State of a control law: commands that were computed, and those on their way to the mirror.
#[derive(Debug, Clone)]
pub struct ControlState {
    law: ControlLaw,
    /// Commands that were computed last.
    last: Vec<f64>,
    /// Commands that have not reached the mirror yet, oldest first.
    waiting: VecDeque<Vec<f64>>,
    /// Number of commands that have been limited.
    saturated: u64,
}

impl ControlState {
    /// Begins with commands that are 0.
    pub fn new(law: ControlLaw, actuators: usize) -> Self {
        let waiting = vec![vec![0.0; actuators]; law.delay.saturating_sub(1)].into();
        ControlState { law, last: vec![0.0; actuators], waiting, saturated: 0 }
    }

    /// Applies the law to the commands: `add(u, g)` adds `g C s` to `u`, with the slopes `s` of the
    /// sensors, or the open-loop slopes in [`LoopMode::PseudoOpen`]. Replaces `mirror` by the
    /// commands of the next frame \[volts\]. Nothing is allocated.
    ///
    /// # Panics
    /// There is not one command for each actuator.
    pub fn update(&mut self, mirror: &mut [f64], add: impl FnOnce(&mut [f64], f64)) {
        let (keep, gain) = match self.law.mode {
            LoopMode::Closed => (1.0 - self.law.leak, self.law.gain),
            LoopMode::Open | LoopMode::PseudoOpen => (1.0 - self.law.gain, self.law.gain),
        };
        self.last.iter_mut().for_each(|u| *u *= keep);
        add(&mut self.last, gain);
        self.send(mirror);
    }

    /// Limits the commands that were computed last, and puts on the mirror those whose time has
    /// come.
    fn send(&mut self, mirror: &mut [f64]) {
        let limit = self.law.limit;
        for u in self.last.iter_mut().filter(|u| u.abs() > limit) {
            *u = u.clamp(-limit, limit);
            self.saturated += 1;
        }
        match self.waiting.pop_front() {
            Some(mut next) => {
                mirror.copy_from_slice(&next);
                next.copy_from_slice(&self.last);
                self.waiting.push_back(next);
            }
            None => mirror.copy_from_slice(&self.last),
        }
    }
}

/// Controller of one mirror: its matrices and its state.
#[derive(Debug, Clone)]
pub struct Controller {
    /// Command matrix `C`, actuators x measurements, volts per arcsec.
    command: Matrix,
    /// Slopes `D` of the sensors for each actuator, measurements x actuators, arcsec per volt.
    interaction: Option<Matrix>,
    state: ControlState,
}

impl Controller {
    /// Makes a controller whose commands are 0. `interaction` is needed in
    /// [`LoopMode::PseudoOpen`] only.
    ///
    /// # Errors
    /// Matrices that do not fit each other, or one that is missing.
    pub fn new(law: ControlLaw, command: Matrix, interaction: Option<Matrix>) -> Result<Self, Error> {
        let (actuators, slopes) = (command.rows(), command.cols());
        let fits = |d: &Matrix| (d.rows(), d.cols()) == (slopes, actuators);
        if law.mode == LoopMode::PseudoOpen && !interaction.as_ref().is_some_and(fits) {
            return Err(Error::shape(
                "interaction matrix",
                format!("a pseudo-open loop needs one of {slopes} x {actuators}"),
            ));
        }
        Ok(Controller { command, interaction, state: ControlState::new(law, actuators) })
    }

    /// Returns the command matrix, actuators x measurements, volts per arcsec.
    pub fn command(&self) -> &Matrix {
        &self.command
    }

    /// Returns the number of commands that have been limited.
    pub fn saturated(&self) -> u64 {
        self.state.saturated
    }

    /// Takes the slopes of a frame, in which the mirror had the commands `mirror` \[volts\], and
    /// replaces these by those of the next frame.
    ///
    /// # Panics
    /// Lengths differ from those of the matrices.
    pub fn step(&mut self, slopes: &[f64], mirror: &mut [f64]) {
        let mut seen;
        let mut slopes = slopes;
        if let (LoopMode::PseudoOpen, Some(interaction)) = (self.state.law.mode, &self.interaction) {
            seen = slopes.to_vec();
            multiply(interaction, mirror, &mut seen, 1.0);
            slopes = &seen;
        }
        self.state.update(mirror, |commands, gain| multiply(&self.command, slopes, commands, gain));
    }

    /// Takes commands \[volts\] in place of the law's, with the same limit and delay, and replaces
    /// `mirror` by those of the next frame. An integrator goes on from them.
    ///
    /// # Panics
    /// There is not one command for each actuator.
    pub fn take(&mut self, commands: &[f64], mirror: &mut [f64]) {
        self.state.last.copy_from_slice(commands);
        self.state.send(mirror);
    }
}

/// Adds `scale * matrix * vector` to `out`.
fn multiply(matrix: &Matrix, vector: &[f64], out: &mut [f64], scale: f64) {
    let rows = out.len();
    gemm(
        MatMut::from_column_major_slice_mut(out, rows, 1),
        true,
        matrix.view(),
        MatRef::from_column_major_slice(vector, vector.len(), 1),
        scale,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(mode: LoopMode, gain: f64, delay: usize) -> ControlLaw {
        ControlLaw { mode, gain, leak: 0.0, delay, limit: f64::INFINITY }
    }

    /// Returns the commands in effect after each of the slopes 1, 0, 0, 0.
    fn impulse(law: ControlLaw) -> Vec<f64> {
        let one = Matrix::from_fn(1, 1, |_, _| 1.0);
        let mut controller = Controller::new(law, one.clone(), Some(one)).unwrap();
        let mut mirror = [0.0];
        let step = |slope: f64| {
            controller.step(&[slope], &mut mirror);
            mirror[0]
        };
        [1.0, 0.0, 0.0, 0.0].map(step).to_vec()
    }

    #[test]
    fn delays_and_gains() {
        assert_eq!(impulse(law(LoopMode::Closed, 0.5, 1)), [0.5; 4]);
        assert_eq!(impulse(law(LoopMode::Closed, 0.5, 3)), [0.0, 0.0, 0.5, 0.5]);
        assert_eq!(impulse(law(LoopMode::Open, 1.0, 1)), [1.0, 0.0, 0.0, 0.0]);
        assert_eq!(impulse(law(LoopMode::Open, 0.5, 2)), [0.0, 0.5, 0.25, 0.125]);
        // A mirror that its own slopes reproduce keeps its shape.
        assert_eq!(impulse(law(LoopMode::PseudoOpen, 1.0, 1)), [1.0; 4]);
        let leaky = ControlLaw { leak: 0.5, ..law(LoopMode::Closed, 1.0, 1) };
        assert_eq!(impulse(leaky), [1.0, 0.5, 0.25, 0.125]);
    }

    #[test]
    fn commands_stay_below_their_limit() {
        let one = Matrix::from_fn(1, 1, |_, _| 1.0);
        let law = ControlLaw { limit: 0.3, ..law(LoopMode::Closed, 1.0, 1) };
        let mut controller = Controller::new(law, one, None).unwrap();
        let mut mirror = [0.0];
        controller.step(&[-5.0], &mut mirror);
        assert_eq!((mirror[0], controller.saturated()), (-0.3, 1));
        // Nothing winds up beyond the limit.
        controller.step(&[0.1], &mut mirror);
        assert!((mirror[0] + 0.2).abs() < 1e-12);
    }

    #[test]
    fn commands_of_others_have_the_same_limit_and_delay() {
        let one = Matrix::from_fn(1, 1, |_, _| 1.0);
        let law = ControlLaw { limit: 0.3, ..law(LoopMode::Closed, 1.0, 2) };
        let mut controller = Controller::new(law, one, None).unwrap();
        let mut mirror = [0.0];
        controller.take(&[-0.2], &mut mirror);
        assert_eq!(mirror, [0.0]);
        controller.take(&[9.0], &mut mirror);
        assert_eq!((mirror[0], controller.saturated()), (-0.2, 1));
        // The integrator goes on from the last of them.
        controller.step(&[-0.1], &mut mirror);
        assert_eq!(mirror, [0.3]);
        controller.step(&[0.0], &mut mirror);
        assert!((mirror[0] - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_pseudo_open_loop_needs_its_interaction_matrix() {
        let law = law(LoopMode::PseudoOpen, 1.0, 1);
        assert!(Controller::new(law, Matrix::zeros(2, 3), None).is_err());
        assert!(Controller::new(law, Matrix::zeros(2, 3), Some(Matrix::zeros(2, 3))).is_err());
        assert!(Controller::new(law, Matrix::zeros(2, 3), Some(Matrix::zeros(3, 2))).is_ok());
    }
}
