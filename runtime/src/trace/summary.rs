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
            writeln!(f, "{} task{} failed", self.failed, if self.failed == 1 { "" } else { "s" })?;
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
            let rate = if codelet.flops > 0.0 { format!("{:.1}", codelet.gflops()) } else { "-".into() };
            let share = 100.0 * codelet.total.as_secs_f64() / self.busy.as_secs_f64().max(1e-12);
            writeln!(
                f,
                "{:<width$} {:>8} {:>9} {:>5.1}% {:>9} {:>9} {:>9} {:>9} {rate:>8}",
                plain(codelet.name),
                codelet.count,
                Short(codelet.total).to_string(),
                share,
                Short(codelet.mean).to_string(),
                Short(codelet.median).to_string(),
                Short(codelet.max).to_string(),
                Short(codelet.stdev).to_string(),
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
        let digits = if value < 10.0 {
            2
        } else if value < 100.0 {
            1
        } else {
            0
        };
        write!(f, "{value:.digits$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trace::samples::{diamond, traces};

    #[test]
    fn the_diamond_in_four_lines() {
        let mut trace = diamond();
        trace.lost = 2;
        let text = trace.report().to_string();
        assert!(
            text.starts_with(
                "4 tasks on 2 workers in 50.0 µs, 0.2 Gflop/s, kernels' share 70.0 %\n\
             area bound 35.0 µs, critical path 50.0 µs (3 tasks), 100.0 % of the best possible schedule\n\
             2 records lost"
            ),
            "{text}"
        );
        assert!(text.lines().any(|line| line.starts_with("trsm ") && line.contains("71.4%")), "{text}");
    }

    #[test]
    fn durations_keep_three_digits() {
        for (nanos, text) in [(0, "0 ns"), (999, "999 ns"), (1500, "1.50 µs"), (12_345_678, "12.3 ms")] {
            assert_eq!(Short(Duration::from_nanos(nanos)).to_string(), text);
        }
        assert_eq!(Short(Duration::from_secs(125)).to_string(), "125 s");
    }

    proptest! {
        #[test]
        fn no_name_reaches_the_terminal_as_a_command(trace in traces()) {
            let report = trace.report();
            let text = report.to_string();
            prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
            prop_assert!(text.lines().count() <= 6 + report.codelets.len());
        }
    }
}
