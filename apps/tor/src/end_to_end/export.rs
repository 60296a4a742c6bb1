//! Telemetry as files.

use super::aot;
use super::telemetry::{FRAME_TIME, SEES_MIRROR, SLOPES, Telemetry};
use crate::Error;
use crate::geometry::Geometry;
use crate::system::System;
use std::path::Path;
use zellige_files::array::npz::NpzWriter;

impl Telemetry {
    /// Writes a file: npz by that ending, FITS in the AOT standard otherwise
    /// (adaptive optics telemetry).
    ///
    /// # Errors
    /// No frame; a file that cannot be written. No partial file remains.
    pub fn write(&self, path: &Path, system: &System) -> Result<(), Error> {
        if self.frames == 0 {
            return Err(Error::numeric("telemetry", "no frame of the exposure was simulated"));
        }
        match path.extension().is_some_and(|end| end.eq_ignore_ascii_case("npz")) {
            true => self.write_npz(path),
            false => aot::write(path, self, system, &Geometry::new(system)?),
        }
    }

    /// Writes `slopes` (frames, measurements), `commands_1` (frames, actuators) and further
    /// mirrors, `frame_time`, and `sees_mirror` (0 or 1).
    fn write_npz(&self, path: &Path) -> Result<(), Error> {
        let frames = self.frames;
        let widths: Vec<usize> = self.slopes.iter().map(|all| all.len() / frames).collect();
        let row = |frame: usize| {
            let of = |(all, width): (&'_ Vec<f32>, &usize)| all[frame * width..(frame + 1) * width].to_vec();
            self.slopes.iter().zip(&widths).flat_map(of).collect::<Vec<f32>>()
        };
        let all: Vec<f32> = (0..frames).flat_map(row).collect();
        let written = NpzWriter::write(path, |out| {
            out.put(SLOPES, &[frames, widths.iter().sum()], &all)?;
            for (k, commands) in self.commands.iter().enumerate() {
                out.put(&format!("commands_{}", k + 1), &[frames, commands.len() / frames], commands)?;
            }
            out.put(FRAME_TIME, &[1], &[self.frame_time])?;
            out.put(SEES_MIRROR, &[1], &[u8::from(self.law.mode.sees_mirror())])
        });
        written.map_err(|error| Error::system(path, error.problem, error.source))
    }
}
