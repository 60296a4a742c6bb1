//! Clock rate and power of a GPU while something runs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use zellige_gpu::{Driver, Gauges};

use crate::median;

/// Sampling period.
const PERIOD: Duration = Duration::from_millis(10);
/// Shorter runs are over before a counter of energy has moved often enough for a power (seconds).
const COUNTED_FROM: f64 = 0.5;

/// Clock rate, power and energy of a GPU during a measurement; `None` if the GPU does not report
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Conditions {
    /// Median clock rate of its multiprocessors (MHz).
    pub sm_clock_mhz: Option<f64>,
    /// Mean power (W): from the energy counter if there is one and runs take half a second,
    /// otherwise from samples, which average over up to a second.
    pub power_w: Option<f64>,
    /// Energy by its counter (J).
    pub energy_j: Option<f64>,
    /// Observed time (seconds).
    pub watched_seconds: f64,
}

/// Looks at one GPU while runs go on.
#[derive(Debug)]
pub struct Meter {
    driver: Arc<dyn Driver>,
    gpu: u32,
    looks: Vec<Gauges>,
    energy_j: f64,
    has_energy: bool,
    runs: u32,
    seconds: f64,
}

impl Conditions {
    /// Clock rate and power in cells of a table.
    pub(in crate::gpu) fn cells(&self) -> [String; 2] {
        [self.sm_clock_mhz, self.power_w].map(|x| x.map_or_else(String::new, |x| format!("{x:.0}")))
    }
}

impl Meter {
    /// Creates a meter without samples.
    pub fn new(driver: &Arc<dyn Driver>, gpu: u32) -> Self {
        Meter {
            driver: Arc::clone(driver),
            gpu,
            looks: Vec::new(),
            energy_j: 0.0,
            has_energy: true,
            runs: 0,
            seconds: 0.0,
        }
    }

    /// Runs something and samples the GPU meanwhile, or at its end if it was too short or no thread
    /// can be started.
    pub fn during<R>(&mut self, run: impl FnOnce() -> R) -> R {
        let (start, before) = (Instant::now(), self.look().energy_j);
        let here = &*self;
        let (looks, result) = std::thread::scope(|scope| {
            let (running, ended) = channel::<()>();
            let watcher = Builder::new().spawn_scoped(scope, move || here.look_until(&ended));
            let result = run();
            drop(running);
            let looks = watcher.ok().and_then(|watcher| watcher.join().ok());
            (looks.unwrap_or_default(), result)
        });
        let last = self.look();
        self.runs += 1;
        self.seconds += start.elapsed().as_secs_f64();
        match (before, last.energy_j) {
            (Some(before), Some(after)) => self.energy_j += after - before,
            _ => self.has_energy = false,
        }
        self.looks.extend(if looks.is_empty() { vec![last] } else { looks });
        result
    }

    fn look(&self) -> Gauges {
        // A GPU without sensors is known from the first sample on; the measurement continues.
        self.driver.gauges(self.gpu).unwrap_or_default()
    }

    fn look_until(&self, ended: &Receiver<()>) -> Vec<Gauges> {
        let mut looks = Vec::new();
        while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            looks.push(self.look());
        }
        looks
    }

    /// Over all runs so far.
    pub fn conditions(&self) -> Conditions {
        let of = |gauge: fn(&Gauges) -> Option<f64>| -> Option<Vec<f64>> {
            let all: Vec<f64> = self.looks.iter().filter_map(gauge).collect();
            (!all.is_empty()).then_some(all)
        };
        let seen = of(|look| look.power_w).map(|all| all.iter().sum::<f64>() / all.len() as f64);
        let energy_j = (self.has_energy && self.runs > 0).then_some(self.energy_j);
        let is_long = self.seconds >= COUNTED_FROM * f64::from(self.runs);
        let counted = energy_j.filter(|_| is_long).map(|energy| energy / self.seconds);
        Conditions {
            sm_clock_mhz: of(|look| look.sm_clock_mhz).map(median),
            power_w: counted.or(seen),
            energy_j,
            watched_seconds: self.seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use zellige_gpu::Library;
    use zellige_gpu::mock::Mock;

    use super::*;

    fn nap() {
        std::thread::sleep(Duration::from_millis(60));
    }

    /// The mock takes 300 W at 1500 MHz all the time.
    #[test]
    fn clock_power_and_energy_are_those_of_the_runs() {
        let (mock, start): (Arc<dyn Driver>, _) = (Arc::new(Mock::builder().build()), Instant::now());
        let mut meter = Meter::new(&mock, 0);
        meter.during(nap);
        nap(); // nobody looks
        assert_eq!(meter.during(|| 7), 7);
        let (seen, all) = (meter.conditions(), start.elapsed().as_secs_f64());
        assert!(seen.watched_seconds >= 0.06 && seen.watched_seconds <= all - 0.06, "{seen:?} {all}");
        assert_eq!((seen.sm_clock_mhz, seen.power_w), (Some(1500.0), Some(300.0)));
        let energy = seen.energy_j.unwrap();
        assert!(energy >= 0.06 * 300.0 && energy <= seen.watched_seconds * 300.0, "{seen:?}");
    }

    #[test]
    fn of_long_runs_the_counter_tells_the_power() {
        let mock: Arc<dyn Driver> = Arc::new(Mock::builder().build());
        let mut meter = Meter::new(&mock, 0);
        meter.during(|| std::thread::sleep(Duration::from_secs_f64(COUNTED_FROM)));
        let seen = meter.conditions();
        assert_eq!(seen.power_w, seen.energy_j.map(|energy| energy / seen.watched_seconds));
        assert!(seen.power_w.unwrap() > 0.0, "{seen:?}");
    }

    #[test]
    fn who_does_not_tell_is_measured_all_the_same() {
        let mock: Arc<dyn Driver> = Arc::new(Mock::builder().without(Library::Nvml).build());
        let mut meter = Meter::new(&mock, 0);
        meter.during(nap);
        let seen = meter.conditions();
        assert_eq!((seen.sm_clock_mhz, seen.power_w, seen.energy_j), (None, None, None));
        assert!(seen.watched_seconds >= 0.06, "{seen:?}");
    }
}
