//! Kinds of devices from peaks and efficiencies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Speed of a kind of device.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Memory bandwidth for operands (GB/s): a task takes at least the time that its operands need.
    /// Without it memory takes no time, e.g. if the efficiencies are measured ones and include
    /// memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb_s: Option<f64>,
    /// Time to start a task (us).
    #[serde(default)]
    pub overhead_us: f64,
    /// Delay until the host learns that a task has ended (us). If it is above 0, tasks are launched
    /// in stream order on a device, before their predecessors have ended, as on GPUs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub end_us: f64,
    /// Peak rate per precision, which is the task's label (Tflop/s).
    pub peak_tflops: BTreeMap<String, f64>,
    /// Fraction of the peak that is reached, as points (size, fraction) with linear interpolation;
    /// the size is the geometric mean of the task's dimensions. The keys are `codelet.label`,
    /// `codelet`, `*.label` or `*`; the first that exists counts. A codelet without points, or a
    /// label without a peak, cannot run on this kind.
    pub efficiency: BTreeMap<String, Vec<(f64, f64)>>,
    /// Times of tasks without an operation count (us), as points (size, time), by `codelet.label`
    /// or `codelet`. Tasks without points take the time of their memory accesses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub time_us: BTreeMap<String, Vec<(f64, f64)>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(time: &f64) -> bool {
    *time == 0.0
}

impl Rates {
    /// Returns the time of a task (ns): the time of its operations at the rate for its size, or of
    /// its operands' memory accesses if that is longer, plus the overhead; `None` if this kind
    /// cannot run it.
    pub fn nanos(&self, codelet: &str, label: &str, shape: [u32; 3], flops: f64, bytes: u64) -> Option<u64> {
        let size = size(shape, flops);
        let timed = if flops > 0.0 { None } else { of_codelet(&self.time_us, codelet, label) };
        if let Some(points) = timed {
            return Some(((between(points, size) + self.overhead_us) * 1e3).round() as u64);
        }
        let points = self.points(codelet, label)?;
        let memory = self.memory_gb_s.map_or(0.0, |rate| bytes as f64 / (rate * 1e9));
        let compute = if flops > 0.0 {
            let rate = self.peak_tflops.get(label)? * 1e12 * between(points, size);
            flops / rate
        } else {
            0.0
        };
        Some(((compute.max(memory) + self.overhead_us * 1e-6) * 1e9).round() as u64)
    }

    /// Returns the efficiency points that apply, the most specific first. Simulations call this for
    /// every task: nothing is allocated here.
    fn points(&self, codelet: &str, label: &str) -> Option<&[(f64, f64)]> {
        of_codelet(&self.efficiency, codelet, label).or_else(|| of_codelet(&self.efficiency, "*", label))
    }
}

/// Returns the points of `codelet.label`, or else of `codelet`.
fn of_codelet<'p>(
    points: &'p BTreeMap<String, Vec<(f64, f64)>>,
    codelet: &str,
    label: &str,
) -> Option<&'p [(f64, f64)]> {
    let fits = |key: &str| key.strip_prefix(codelet).and_then(|rest| rest.strip_prefix('.')) == Some(label);
    let labelled = points.iter().find(|(key, _)| fits(key)).map(|(_, points)| points);
    labelled.or_else(|| points.get(codelet)).map(Vec::as_slice)
}

/// Returns the geometric mean of the given dimensions; without any, the order of a cubic product
/// with this many operations.
pub(super) fn size(shape: [u32; 3], flops: f64) -> f64 {
    let given: Vec<f64> = shape.iter().filter(|&&d| d > 0).map(|&d| f64::from(d)).collect();
    if given.is_empty() {
        return (flops / 2.0).cbrt();
    }
    given.iter().product::<f64>().powf(1.0 / given.len() as f64)
}

/// Interpolates linearly between points; constant beyond them.
fn between(points: &[(f64, f64)], x: f64) -> f64 {
    let after = points.partition_point(|&(at, _)| at < x);
    match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
        (Some((x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some((_, y)), None) | (None, Some(&(_, y))) => y,
        (None, None) => 0.0,
    }
}

impl Rates {
    pub(super) fn check(&self) -> Result<(), String> {
        let fine = |x: f64| x.is_finite() && x > 0.0;
        if !self.memory_gb_s.is_none_or(fine) {
            return Err("memory_gb_s must be above 0".into());
        }
        for (key, time) in [("overhead_us", self.overhead_us), ("end_us", self.end_us)] {
            if !(0.0..1e6).contains(&time) {
                return Err(format!("{key} must be at least 0 and below a second, and is {time}"));
            }
        }
        if let Some((label, peak)) = self.peak_tflops.iter().find(|(_, peak)| !fine(**peak)) {
            return Err(format!("peak_tflops of {label} is {peak}"));
        }
        let sound = |points: &[(f64, f64)], most: f64| {
            let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let fine = points.iter().all(|&(size, y)| fine(size) && fine(y) && y <= most);
            rising && fine && !points.is_empty()
        };
        if let Some((key, _)) = self.efficiency.iter().find(|(_, points)| !sound(points, 1.0)) {
            return Err(format!(
                "efficiency of {key} must be points of rising size with fractions in (0, 1]"
            ));
        }
        if let Some((key, _)) = self.time_us.iter().find(|(_, points)| !sound(points, 1e12)) {
            return Err(format!("time_us of {key} must be points of rising size with times above 0"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_rate_memory_and_overhead() {
        let kind = Rates {
            memory_gb_s: Some(100.0),
            overhead_us: 1.0,
            end_us: 0.0,
            peak_tflops: [("fp32".to_string(), 1.0)].into(),
            efficiency: [("gemm".to_string(), vec![(100.0, 0.5), (300.0, 1.0)])].into(),
            time_us: [("convert".to_string(), vec![(100.0, 2.0), (300.0, 4.0)])].into(),
        };
        assert_eq!(kind.nanos("gemm", "fp32", [200; 3], 7.5e9, 0), Some(10_001_000));
        assert_eq!(kind.nanos("gemm", "fp32", [50; 3], 5e9, 0), Some(10_001_000));
        assert_eq!(kind.nanos("gemm", "fp32", [900; 3], 1e9, 1_000_000_000), Some(10_001_000));
        assert_eq!(kind.nanos("gemm", "hp1", [200; 3], 1e9, 0), None);
        assert_eq!(kind.nanos("trsm", "fp32", [200; 3], 1e9, 0), None);
        assert_eq!(kind.nanos("convert", "f16", [200, 200, 0], 0.0, 1_000_000_000), Some(4_000));
        let no_memory = Rates { memory_gb_s: None, ..kind };
        assert_eq!(no_memory.nanos("gemm", "fp32", [900; 3], 1e9, 1_000_000_000), Some(1_001_000));
    }

    #[test]
    fn the_most_particular_efficiency_counts() {
        let all = ["gemm.fp32", "gemm", "*.fp32", "*"];
        for count in 1..=4 {
            let known = &all[4 - count..];
            let points =
                |key: &&str| vec![(1.0, 0.1 * (1 + all.iter().position(|k| k == key).unwrap()) as f64)];
            let kind = Rates {
                efficiency: known.iter().map(|key| (key.to_string(), points(key))).collect(),
                ..Rates::default()
            };
            assert_eq!(kind.points("gemm", "fp32"), Some(&points(&known[0])[..]), "{known:?}");
            assert_eq!(kind.points("gemm.fp", "32"), kind.efficiency.get("*").map(Vec::as_slice));
        }
    }
}
