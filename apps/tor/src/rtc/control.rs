//! A control law on top of a product.

use super::Packed;
use super::gpu::Placed;
use super::threads::RowPart;
use crate::Error;
use crate::end_to_end::{ControlLaw, ControlState};
use crate::system::LoopMode;
use std::sync::Arc;

/// A control law, the commands on the mirror, and the slopes that sensors see of them.
#[derive(Debug)]
pub(super) struct Control {
    state: ControlState,
    /// Commands during the frame \[volts\].
    mirror: Vec<f64>,
    /// The product `D u`, of a pseudo-open loop.
    interaction: Option<RowPart>,
    /// Whether `D u` is that of the mirror.
    is_ready: bool,
}

impl Control {
    /// `interaction` is needed in [`LoopMode::PseudoOpen`] only: measurements x actuators, arcsec
    /// per volt.
    pub(super) fn new(
        law: ControlLaw,
        (actuators, slopes): (usize, usize),
        interaction: Option<Packed>,
    ) -> Result<Self, Error> {
        let interaction = interaction.filter(|_| law.mode == LoopMode::PseudoOpen);
        let fits = interaction.as_ref().is_some_and(|d| d.shape() == (slopes, actuators));
        if law.mode == LoopMode::PseudoOpen && !fits {
            let problem = format!("a pseudo-open loop needs one of {slopes} x {actuators}");
            return Err(Error::shape("interaction matrix", problem));
        }
        let interaction = interaction.map(|d| Placed::new(d, None)).transpose()?;
        Ok(Control {
            state: ControlState::new(law, actuators),
            mirror: vec![0.0; actuators],
            interaction: interaction.map(|d| RowPart::new(Arc::new(d), 0, 1)),
            is_ready: false,
        })
    }

    /// Computes the slopes `D u` of the mirror, before those of the frame come.
    pub(super) fn prepare(&mut self) {
        if let (Some(product), false) = (&mut self.interaction, self.is_ready) {
            product.begin();
            for (to, &volts) in product.slopes.values.iter_mut().zip(&self.mirror) {
                *to = volts as f32;
            }
            product.add(0..product.matrix.groups());
        }
        self.is_ready = true;
    }

    /// Returns the slopes that are added to those of the sensors; none in other modes.
    pub(super) fn seen(&self) -> &[f32] {
        self.interaction.as_ref().map_or(&[], RowPart::sums)
    }

    /// Replaces the products of a frame by the commands of the next one.
    pub(super) fn apply(&mut self, products: &mut [f32]) {
        self.state.update(&mut self.mirror, |commands, gain| {
            for (command, &product) in commands.iter_mut().zip(&*products) {
                *command += gain * f64::from(product);
            }
        });
        for (to, &volts) in products.iter_mut().zip(&self.mirror) {
            *to = volts as f32;
        }
        self.is_ready = false;
    }
}
