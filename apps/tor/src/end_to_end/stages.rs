//! Durations of the stages of a frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A stage of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    Turbulence,
    Sensor,
    Control,
    Image,
}

/// Time in ns that the tasks of each stage have taken, on all workers together.
#[derive(Debug, Clone, Default)]
pub(super) struct StageClock(Arc<[AtomicU64; 4]>);

impl StageClock {
    /// Does work that belongs to a stage.
    pub(super) fn time<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.0[stage as usize].fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        done
    }

    /// Returns the means over so many frames.
    pub(super) fn per_frame(&self, frames: u64) -> StageSeconds {
        let of = |stage: Stage| {
            1e-9 * self.0[stage as usize].load(Ordering::Relaxed) as f64 / frames.max(1) as f64
        };
        StageSeconds {
            turbulence: of(Stage::Turbulence),
            sensor: of(Stage::Sensor),
            control: of(Stage::Control),
            image: of(Stage::Image),
        }
    }
}

/// Time in s that a frame's tasks take, all stars and targets and all workers together.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct StageSeconds {
    /// Wavefronts of the turbulence.
    pub turbulence: f64,
    /// Sensors.
    pub sensor: f64,
    /// Products with the command matrices.
    pub control: f64,
    /// Residuals, Strehl ratios and images.
    pub image: f64,
}

impl StageSeconds {
    /// Returns each stage by its name.
    pub fn list(&self) -> [(&'static str, f64); 4] {
        [
            ("turbulence", self.turbulence),
            ("sensors", self.sensor),
            ("control", self.control),
            ("images", self.image),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_counted_apart() {
        let clock = StageClock::default();
        let sleep = || std::thread::sleep(std::time::Duration::from_millis(2));
        clock.time(Stage::Sensor, sleep);
        clock.clone().time(Stage::Sensor, sleep);
        let seconds = clock.per_frame(2);
        assert!(seconds.sensor >= 2e-3 && seconds.turbulence == 0.0, "{seconds:?}");
    }
}
