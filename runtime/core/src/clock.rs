//! The clock of a runtime: the machine's, or one that the ends of simulated operations advance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// See the module.
pub(crate) struct Clock {
    started: Instant,
    /// Nanoseconds since the start; `None`: the machine tells.
    simulated: Option<AtomicU64>,
}

impl Clock {
    /// The machine's clock, counted from now on.
    pub(crate) fn real() -> Self {
        Clock { started: Instant::now(), simulated: None }
    }

    /// One that stands still until it is [advanced](Clock::advance_to).
    pub(crate) fn simulated() -> Self {
        Clock { simulated: Some(AtomicU64::new(0)), ..Clock::real() }
    }

    /// The zero of traces.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Now.
    pub(crate) fn now(&self) -> Instant {
        match &self.simulated {
            None => Instant::now(),
            Some(nanos) => self.at(nanos.load(Ordering::Relaxed)),
        }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now().saturating_duration_since(self.started)
    }

    /// The moment so many nanoseconds after the start.
    pub(crate) fn at(&self, nanos: u64) -> Instant {
        self.started + Duration::from_nanos(nanos)
    }

    /// Simulated time passes; nothing happens to the machine's clock.
    pub(crate) fn advance_to(&self, nanos: u64) {
        if let Some(now) = &self.simulated {
            now.store(nanos, Ordering::Relaxed);
        }
    }
}
