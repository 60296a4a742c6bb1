//! Clock of a runtime: real time, or simulated time that advances with the ends of operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Clock of one runtime; see the module.
pub(crate) struct Clock {
    started: Instant,
    /// Nanoseconds since the start; `None`: the machine's clock is used.
    simulated: Option<AtomicU64>,
}

impl Clock {
    /// Creates a clock in real time that starts now.
    pub(crate) fn real() -> Self {
        Clock { started: Instant::now(), simulated: None }
    }

    /// Creates a simulated clock that stands still until it is [advanced](Clock::advance_to).
    pub(crate) fn simulated() -> Self {
        Clock { simulated: Some(AtomicU64::new(0)), ..Clock::real() }
    }

    /// Returns the start time, which is the origin of traces.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Instant {
        match &self.simulated {
            None => Instant::now(),
            Some(nanos) => self.at(nanos.load(Ordering::Relaxed)),
        }
    }

    /// Returns the time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now().saturating_duration_since(self.started)
    }

    /// Returns the time `nanos` nanoseconds after the start.
    pub(crate) fn at(&self, nanos: u64) -> Instant {
        self.started + Duration::from_nanos(nanos)
    }

    /// Sets the simulated time; has no effect on a clock in real time.
    pub(crate) fn advance_to(&self, nanos: u64) {
        if let Some(now) = &self.simulated {
            now.store(nanos, Ordering::Relaxed);
        }
    }
}
