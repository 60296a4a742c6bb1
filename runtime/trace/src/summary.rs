//! A run in a few lines of plain text.

use std::fmt;
use std::time::Duration;

use super::nodes::{LinkReport, NodeReport};
use super::report::{CodeletReport, Report};
use super::{IdleState, TransferReason};

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
        writeln!(f, "makespan / bound {:.3}", self.over_bound())?;
        if self.failed > 0 {
            writeln!(f, "{} failed", Counted(self.failed as u64, "task"))?;
        }
        if self.lost > 0 {
            writeln!(f, "{} records lost: the numbers leave them out", self.lost)?;
        }
        if self.cyclic_edges > 0 {
            writeln!(f, "{} dependencies form cycles and were left out", self.cyclic_edges)?;
        }
        for (name, took) in &self.phases {
            writeln!(f, "{:>9} {}", Short(*took).to_string(), plain(name))?;
        }
        idle(f, self)?;
        moved(f, self)?;
        self.nodes.iter().try_for_each(|node| held(f, node))?;
        if self.codelets.is_empty() {
            return Ok(());
        }
        let names = self.codelets.iter().map(|codelet| plain(codelet.name).chars().count());
        let width = names.max().unwrap_or(0).clamp(7, 24);
        write!(
            f,
            "{:<width$} {:>8} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9} {:>8}",
            "codelet", "count", "total", "share", "mean", "median", "max", "stdev", "Gflop/s"
        )?;
        let predicted = self.codelets.iter().any(|codelet| codelet.predicted > 0);
        writeln!(f, "{}", if predicted { " measured/predicted" } else { "" })?;
        for codelet in &self.codelets {
            let rate = if codelet.flops > 0.0 { format!("{:.1}", codelet.gflops()) } else { "-".into() };
            let share = 100.0 * codelet.total.as_secs_f64() / self.busy.as_secs_f64().max(1e-12);
            write!(
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
            match codelet.measured_over_predicted() {
                Some(ratio) => writeln!(f, " {ratio:>18.3}")?,
                None => writeln!(f)?,
            }
        }
        self.codelets
            .iter()
            .filter(|codelet| codelet.is_below_model())
            .try_for_each(|codelet| slow(f, codelet))
    }
}

/// Writes a warning for a kernel that took far longer than its model predicted.
fn slow(f: &mut fmt::Formatter<'_>, codelet: &CodeletReport) -> fmt::Result {
    let ratio = codelet.measured_over_predicted().unwrap_or_default();
    writeln!(
        f,
        "{} took {ratio:.1} times as long as its performance model expected, over {} runs: perhaps its data hold subnormal numbers \
         (RuntimeBuilder::subnormals(Subnormals::Flush) takes them for zero), or others use the machine",
        plain(codelet.name),
        codelet.predicted
    )
}

/// Writes the idle time of each kind's workers by state.
fn idle(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    for kind in &report.kinds {
        let name = if kind.kind.is_empty() { "worker" } else { &kind.kind };
        let split = report.idle_split(kind);
        write!(f, "{} {}: idle {:.1} %", kind.workers, plain(name), 100.0 * split.iter().sum::<f64>())?;
        let states = IdleState::ALL.map(IdleState::name);
        for (place, (state, share)) in states.into_iter().chain(["other"]).zip(split).enumerate() {
            write!(f, "{} {state} {:.1} %", if place == 0 { ":" } else { "," }, 100.0 * share)?;
        }
        writeln!(f)?;
    }
    Ok(())
}

/// Writes the transfers of each link, then their total.
fn moved(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let reasons = |f: &mut fmt::Formatter<'_>, bytes: &[u64]| {
        let by_reason = TransferReason::ALL.iter().zip(bytes).filter(|part| *part.1 > 0);
        for (place, (reason, &bytes)) in by_reason.enumerate() {
            write!(f, "{} {} {}", if place == 0 { ":" } else { "," }, reason.name(), Bytes(bytes))?;
        }
        writeln!(f)
    };
    for link in &report.links {
        let LinkReport { from, to, transfers, bytes, .. } = link;
        if link.within {
            let conversions = Counted(*transfers as u64, "conversion");
            write!(f, "within {}: {} in {conversions}", plain(from), Bytes(*bytes))?;
        } else {
            let transfers = Counted(*transfers as u64, "transfer");
            write!(f, "{} -> {}: {} in {transfers}", plain(from), plain(to), Bytes(*bytes))?;
            if link.converted > 0 {
                write!(f, " ({} converted)", link.converted)?;
            }
        }
        write!(f, ", busy {}", Short(link.busy))?;
        reasons(f, &link.by_reason)?;
    }
    let links = || report.links.iter().filter(|link| !link.within);
    if links().count() > 1 {
        let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0u64, u64::saturating_add);
        write!(f, "moved {}", Bytes(sum(&mut links().map(|link| link.bytes))))?;
        let bytes =
            TransferReason::ALL.map(|reason| sum(&mut links().map(|link| link.by_reason[reason as usize])));
        reasons(f, &bytes)?;
    }
    Ok(())
}

/// Writes the evictions, hits and prefetches of one memory node.
fn held(f: &mut fmt::Formatter<'_>, node: &NodeReport) -> fmt::Result {
    write!(f, "{}: {}", plain(&node.name), Counted(node.evictions as u64, "eviction"))?;
    if node.evictions > 0 {
        write!(f, " ({}, {} written back)", Bytes(node.evicted_bytes), node.written_back)?;
    }
    let asked = node.hits.saturating_add(node.misses);
    if asked > 0 {
        write!(f, ", {} of {} there", node.hits, Counted(asked, "operand"))?;
    }
    let prefetches = node.prefetch_used.saturating_add(node.prefetch_unused);
    if prefetches > 0 {
        write!(f, ", {} of {} used", node.prefetch_used, Counted(prefetches, "prefetch"))?;
    }
    if node.peak > 0 {
        write!(f, ", at most {}", Bytes(node.peak))?;
        if let Some(capacity) = node.capacity {
            write!(f, " of {}", Bytes(capacity))?;
        }
        write!(f, " held")?;
    }
    writeln!(f)
}

/// A count with its noun.
struct Counted(u64, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted(count, what) = self;
        let ending = match *count {
            1 => "",
            _ if what.ends_with('h') => "es",
            _ => "s",
        };
        write!(f, "{count} {what}{ending}")
    }
}

/// Returns a name without terminal control characters.
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

/// A number of bytes with three digits and the decimal unit that suits it.
pub(super) struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [(1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
        let bytes = self.0 as f64;
        let Some((unit, name)) = steps.into_iter().find(|step| bytes >= step.0) else {
            return write!(f, "{bytes} B");
        };
        let value = bytes / unit;
        let digits = if value < 10.0 {
            2
        } else if value < 100.0 {
            1
        } else {
            0
        };
        write!(f, "{value:.digits$} {name}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Trace;
    use crate::samples::{diamond, event, gpu, phase, traces, transfer};

    #[test]
    fn the_diamond_in_four_lines() {
        let mut trace = diamond();
        trace.lost = 2;
        let text = trace.report().to_string();
        assert!(
            text.starts_with(
                "4 tasks on 2 workers in 50.0 µs, 0.2 Gflop/s, kernels' share 70.0 %\n\
             area bound 35.0 µs, critical path 50.0 µs (3 tasks), makespan / bound 1.000\n\
             2 records lost: the numbers leave them out\n\
             2 cpu: idle 30.0 %: sleeping 0.0 %, searching 0.0 %, waiting for data 0.0 %, other 30.0 %\n\
             codelet "
            ),
            "{text}"
        );
        assert!(text.lines().any(|line| line.starts_with("trsm ") && line.contains("71.4%")), "{text}");
    }

    #[test]
    fn a_run_with_a_gpu_says_where_time_and_bytes_went() {
        let text = gpu().report().to_string();
        for line in [
            "area bound 36.0 µs, critical path 40.0 µs (3 tasks), makespan / bound 1.250",
            "1 cpu: idle 20.0 %: sleeping 16.0 %, searching 4.0 %, waiting for data 0.0 %, other 0.0 %",
            "1 gpu: idle 40.0 %: sleeping 20.0 %, searching 0.0 %, waiting for data 20.0 %, other 0.0 %",
            "host -> gpu 0: 96 B in 2 transfers (1 converted), busy 9.00 µs: fetch 64 B, prefetch 32 B",
            "gpu 0 -> host: 64 B in 1 transfer, busy 5.00 µs: write-back 64 B",
            "moved 160 B: fetch 64 B, prefetch 32 B, write-back 64 B",
            "host: 0 evictions",
            "gpu 0: 1 eviction (64 B, 1 written back), 3 of 4 operands there, 1 of 3 prefetches used, \
             at most 96 B of 1.00 kB held",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        let trsm = text.lines().find(|line| line.starts_with("trsm ")).unwrap();
        assert!(trsm.ends_with(" 1.200"), "{text}");
    }

    #[test]
    fn a_kernel_far_below_its_model_is_named_with_a_possible_reason() {
        // The summary of runs of one codelet, 100 µs each; `predicted` of them have a predicted
        // time of `expected` µs.
        let text = |predicted: usize, expected: u64| {
            let mut trace = Trace::default();
            for id in 0..40 {
                let start = 100 * id;
                let mut task = event(0, id, if id % 2 == 0 { "gemm" } else { "trsm" }, start, start + 100);
                if id % 2 == 0 && id < 2 * predicted as u64 {
                    task.predicted_ns = expected;
                }
                trace.tasks.push(task);
            }
            trace.report().to_string()
        };
        let said = |text: &str| text.lines().filter(|line| line.contains("subnormal")).count();
        let slow = text(20, 2_500);
        let line = slow.lines().last().unwrap();
        assert!(
            line.starts_with("gemm took 40.0 times as long as its performance model expected, over 20 runs"),
            "{slow}"
        );
        assert_eq!(said(&slow), 1, "{slow}");
        // Noise, too few runs, and as expected: no warning.
        for (predicted, expected) in [(20, 50_000), (20, 100_000), (3, 2_500), (0, 0)] {
            let text = text(predicted, expected);
            assert_eq!(said(&text), 0, "{text}");
        }
    }

    #[test]
    fn phases_have_their_lengths() {
        let phases = vec![phase("factor", 0), phase("solve", 45)];
        let text = Trace { phases, ..diamond() }.report().to_string();
        assert!(text.contains("\n  40.0 µs factor\n  10.0 µs solve\n"), "{text}");
    }

    #[test]
    fn a_conversion_within_a_node_moves_nothing() {
        let mut trace = gpu();
        trace.transfers.push(crate::TransferEvent { converted: true, ..transfer(1, 1, 20, 22) });
        let text = trace.report().to_string();
        assert!(text.contains("within gpu 0: 64 B in 1 conversion, busy 2.00 µs: fetch 64 B\n"), "{text}");
        assert!(text.contains("moved 160 B: "), "{text}");
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
            let rows = report.kinds.len() + report.links.len() + report.nodes.len() + 2 * report.codelets.len() + report.phases.len();
            prop_assert!(text.lines().count() <= 7 + rows);
        }
    }
}
