//! Kinds of devices from peaks and efficiencies.

use std::collections::BTreeMap;

use serde::Deserialize;

/// How fast a kind of device is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Bytes of operands per second that its memory delivers (GB/s): no task takes less than that.
    pub memory_gb_s: f64,
    /// Time to start a task (us).
    #[serde(default)]
    pub overhead_us: f64,
    /// Peak rate per precision, which is the task's label (Tflop/s).
    pub peak_tflops: BTreeMap<String, f64>,
    /// Fraction of the peak that is reached, as points (size, fraction) between which it is linear; size is the geometric mean
    /// of the task's dimensions. By `codelet.label`, `codelet`, `*.label` or `*`, the first that is there. A codelet without
    /// points, or a label without a peak, cannot run on this kind.
    pub efficiency: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Rates {
    /// How long a task takes (ns): the longer of its operations at the rate that its size reaches and its operands' way through
    /// memory, plus the overhead; `None` if this kind cannot run it.
    pub fn nanos(&self, codelet: &str, label: &str, shape: [u32; 3], flops: f64, bytes: u64) -> Option<u64> {
        let points = self.points(codelet, label)?;
        let memory = bytes as f64 / (self.memory_gb_s * 1e9);
        let compute = if flops > 0.0 {
            let rate = self.peak_tflops.get(label)? * 1e12 * between(points, size(shape, flops));
            flops / rate
        } else {
            0.0
        };
        Some(((compute.max(memory) + self.overhead_us * 1e-6) * 1e9).round() as u64)
    }

    /// The efficiency that counts, the most particular first. Simulations ask for every task: nothing is allocated here.
    fn points(&self, codelet: &str, label: &str) -> Option<&[(f64, f64)]> {
        let exact = |name: &str| self.efficiency.get(name);
        let labelled = |name: &str| {
            let fits =
                |key: &str| key.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')) == Some(label);
            self.efficiency.iter().find(|(key, _)| fits(key)).map(|(_, points)| points)
        };
        let points =
            labelled(codelet).or_else(|| exact(codelet)).or_else(|| labelled("*")).or_else(|| exact("*"));
        points.map(Vec::as_slice)
    }
}

/// The geometric mean of the dimensions that are given; without any, of a cube with so many operations.
fn size(shape: [u32; 3], flops: f64) -> f64 {
    let given: Vec<f64> = shape.iter().filter(|&&d| d > 0).map(|&d| f64::from(d)).collect();
    if given.is_empty() {
        return (flops / 2.0).cbrt();
    }
    given.iter().product::<f64>().powf(1.0 / given.len() as f64)
}

/// Linear between points, constant beyond them.
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
        if !fine(self.memory_gb_s) || !(0.0..1e6).contains(&self.overhead_us) {
            return Err("memory_gb_s and overhead_us must be above 0 and sensible".into());
        }
        if let Some((label, peak)) = self.peak_tflops.iter().find(|(_, peak)| !fine(**peak)) {
            return Err(format!("peak_tflops of {label} is {peak}"));
        }
        for (key, points) in &self.efficiency {
            let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
            if points.is_empty()
                || !rising
                || !points.iter().all(|&(size, part)| fine(size) && fine(part) && part <= 1.0)
            {
                return Err(format!(
                    "efficiency of {key} must be points of rising size with fractions in (0, 1]"
                ));
            }
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
            memory_gb_s: 100.0,
            overhead_us: 1.0,
            peak_tflops: [("fp32".to_string(), 1.0)].into(),
            efficiency: [("gemm".to_string(), vec![(100.0, 0.5), (300.0, 1.0)])].into(),
        };
        assert_eq!(kind.nanos("gemm", "fp32", [200; 3], 7.5e9, 0), Some(10_001_000));
        assert_eq!(kind.nanos("gemm", "fp32", [50; 3], 5e9, 0), Some(10_001_000));
        assert_eq!(kind.nanos("gemm", "fp32", [900; 3], 1e9, 1_000_000_000), Some(10_001_000));
        assert_eq!(kind.nanos("gemm", "hp1", [200; 3], 1e9, 0), None);
        assert_eq!(kind.nanos("trsm", "fp32", [200; 3], 1e9, 0), None);
    }

    #[test]
    fn the_most_particular_efficiency_counts() {
        let all = ["gemm.fp32", "gemm", "*.fp32", "*"];
        for count in 1..=4 {
            let known = &all[4 - count..];
            let points =
                |key: &&str| vec![(1.0, 0.1 * (1 + all.iter().position(|k| k == key).unwrap()) as f64)];
            let kind = Rates {
                memory_gb_s: 1.0,
                overhead_us: 0.0,
                peak_tflops: BTreeMap::new(),
                efficiency: known.iter().map(|key| (key.to_string(), points(key))).collect(),
            };
            assert_eq!(kind.points("gemm", "fp32"), Some(&points(&known[0])[..]), "{known:?}");
            assert_eq!(kind.points("gemm.fp", "32"), kind.efficiency.get("*").map(Vec::as_slice));
        }
    }
}
