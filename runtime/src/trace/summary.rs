//! A run in a few lines of plain text.

use std::fmt;
use std::time::Duration;

use super::bounds::Report;

impl fmt::Display for Report {
    /// The run's numbers and a table of its codelets, for a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workers = self.idle.len();
        write!(f, "{} tasks on {workers} workers in {}", self.tasks, Short(self.makespan))?;
        if self.flops > 0.0 {
            write!(f, ", {:.1} Gflop/s", self.gflops())?;
        }
        writeln!(f, ", kernels' share {:.1} %", 100.0 * self.kernels_share())?;
        write!(f, "area bound {}, ", Short(self.area_bound))?;
        write!(f, "critical path {} ", Short(self.critical_path_bound))?;
        write!(f, "({} tasks), ", self.critical_path.len())?;
        writeln!(f, "{:.1} % of the best possible schedule", 100.0 * self.efficiency())?;
        if self.failed > 0 {
            writeln!(f, "{} tasks failed", self.failed)?;
        }
        if self.lost > 0 {
            writeln!(f, "{} records lost: the numbers leave them out", self.lost)?;
        }
        if self.cyclic_edges > 0 {
            writeln!(f, "{} dependencies form cycles and were left out", self.cyclic_edges)?;
        }
        if self.codelets.is_empty() {
            return Ok(());
        }
        let names = self.codelets.iter().map(|codelet| plain(codelet.name).chars().count());
        let width = names.max().unwrap_or(0).clamp(7, 24);
        writeln!(
            f,
            "{:<width$} {:>8} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9} {:>8}",
            "codelet", "count", "total", "share", "mean", "median", "max", "stdev", "Gflop/s"
        )?;
        for codelet in &self.codelets {
            let share = 100.0 * codelet.total.as_secs_f64() / self.busy.as_secs_f64().max(1e-12);
            writeln!(
                f,
                "{:<width$} {:>8} {:>9} {:>5.1}% {:>9} {:>9} {:>9} {:>9} {:>8.1}",
                plain(codelet.name),
                codelet.count,
                Short(codelet.total).to_string(),
                share,
                Short(codelet.mean).to_string(),
                Short(codelet.median).to_string(),
                Short(codelet.max).to_string(),
                Short(codelet.stdev).to_string(),
                codelet.gflops()
            )?;
        }
        Ok(())
    }
}

/// A name that does nothing to a terminal.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A duration with three or more digits and the unit that suits it.
pub(super) struct Short(pub Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos() as f64;
        let (value, unit) = match nanos {
            n if n < 1e3 => return write!(f, "{n} ns"),
            n if n < 1e6 => (n / 1e3, "µs"),
            n if n < 1e9 => (n / 1e6, "ms"),
            n => (n / 1e9, "s"),
        };
        let digits = if value < 10.0 { 2 } else if value < 100.0 { 1 } else { 0 };
        write!(f, "{value:.digits$} {unit}")
    }
}
