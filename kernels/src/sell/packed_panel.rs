//! Panels as bytes, to be copied to other memory nodes and ranks.

use std::sync::OnceLock;

use super::Panel;
use crate::KernelError;

/// The bytes of a panel, which may be overwritten by those of another one: they are checked when
/// they are first multiplied with.
#[derive(Debug, Default)]
pub struct PackedPanel {
    /// Those of no panel yet.
    bytes: Vec<u8>,
    panel: OnceLock<Result<Panel, KernelError>>,
}

impl From<Panel> for PackedPanel {
    fn from(panel: Panel) -> Self {
        PackedPanel { bytes: Vec::new(), panel: OnceLock::from(Ok(panel)) }
    }
}

impl PackedPanel {
    /// Zeros, which are no panel.
    pub fn blank(bytes: usize) -> Self {
        PackedPanel { bytes: vec![0; bytes], panel: OnceLock::new() }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self.panel.get() {
            Some(Ok(panel)) => &panel.bytes,
            _ => &self.bytes,
        }
    }

    /// The bytes, to be overwritten.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if let Some(Ok(panel)) = self.panel.take() {
            self.bytes = panel.into_bytes();
        }
        &mut self.bytes
    }

    /// The panel.
    ///
    /// # Errors
    /// [`KernelError::Panel`] for bytes that are none.
    pub fn panel(&self) -> Result<&Panel, KernelError> {
        // The first user pays for the check and a copy.
        self.panel.get_or_init(|| Panel::from_bytes(self.bytes.clone())).as_ref().map_err(|error| *error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::{PackedFormat, Rounding};
    use crate::sell::{Bucket, Elements, PanelWriter};

    fn panel(value: f64) -> Panel {
        let mut writer = PanelWriter::new(1, 0, 1, 0, &[Bucket::unscaled(PackedFormat::Fp64)]).unwrap();
        let mut elements = Elements::default();
        elements.push(0, 0, &[value]);
        writer.tile(1, None, &[elements], Rounding::Nearest).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn panels_arrive_as_bytes() -> Result<(), KernelError> {
        let sent = PackedPanel::from(panel(3.0));
        let mut arrived = PackedPanel::blank(sent.bytes().len());
        assert!(PackedPanel::blank(sent.bytes().len()).panel().is_err());
        arrived.bytes_mut().copy_from_slice(sent.bytes());
        let product = |packed: &PackedPanel| {
            let mut y = [0.0];
            packed.panel()?.multiply_part(1, 0, &[2.0], &mut y).map(|()| y[0])
        };
        assert_eq!(product(&arrived)?, 6.0);
        // Overwritten after it was used.
        arrived.bytes_mut().copy_from_slice(PackedPanel::from(panel(5.0)).bytes());
        assert_eq!(product(&arrived)?, 10.0);
        arrived.bytes_mut()[0] ^= 0xff;
        assert!(product(&arrived).is_err());
        Ok(())
    }
}
