//! The mirrors of a loop and the planes that they are conjugated to.

use crate::dm::{DeformableMirror, footprints};
use crate::system::{ConjugateMirror, System};

/// A mirror and the distance of its plane from the pupil in m.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopMirror {
    /// The mirror, in pupil radii around the axis.
    pub mirror: DeformableMirror,
    /// Distance of its plane from the pupil in m.
    pub altitude: f64,
}

impl LoopMirror {
    /// Returns the mirrors of a system in the order of their commands: its mirror in the pupil, or
    /// those of [`crate::system::FieldCorrection`].
    pub fn of_system(system: &System) -> Vec<LoopMirror> {
        match &system.simulation.field {
            Some(field) if !field.mirrors.is_empty() => {
                field.mirrors.iter().map(|mirror| LoopMirror::conjugate(system, mirror)).collect()
            }
            _ => vec![LoopMirror { mirror: DeformableMirror::new(system), altitude: 0.0 }],
        }
    }

    fn conjugate(system: &System, model: &ConjugateMirror) -> LoopMirror {
        let beams = footprints(system, model.altitude);
        let mirror =
            DeformableMirror::over(system.obstruction, model.pitches(system), model.coupling, &beams);
        LoopMirror { mirror, altitude: model.altitude }
    }
}
