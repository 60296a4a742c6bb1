//! The clocks of the peer programs and the line each measurement prints: `peer case workers us_cpu
//! us_wall`.

use rustix::time::{ClockId, clock_gettime};

/// CPU seconds of all threads of this process, and seconds on the wall.
#[derive(Clone, Copy)]
pub struct Stamp {
    pub cpu: f64,
    pub wall: f64,
}

impl Stamp {
    pub fn now() -> Stamp {
        let seconds = |clock| {
            let t = clock_gettime(clock);
            t.tv_sec as f64 + 1e-9 * t.tv_nsec as f64
        };
        Stamp { cpu: seconds(ClockId::ProcessCPUTime), wall: seconds(ClockId::Monotonic) }
    }

    /// Time since this stamp.
    pub fn elapsed(self) -> Stamp {
        let now = Stamp::now();
        Stamp { cpu: now.cpu - self.cpu, wall: now.wall - self.wall }
    }
}
