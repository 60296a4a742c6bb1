//! This machine, as its performance models know it.

use std::sync::Arc;

use super::{DeviceSpec, KindSpec, NodeSpec, Platform};
use crate::error::Error;
use crate::model::{KindId, Models, OVERHEAD};
use crate::task::TaskInfo;

/// Name of the host's node and of its kind of device, as in models.
const HOST: &str = "host";
const CPU: &str = "cpu";

/// A kind of device whose times are those of performance models: history or regression, and the runtime's overhead.
#[derive(Clone, Debug)]
pub struct Measured {
    models: Arc<Models>,
    kind: KindId,
    overhead_ns: u64,
}

impl Measured {
    /// With an implementation; empty: the only one.
    pub(super) fn nanos(
        &self,
        codelet: &str,
        implementation: &str,
        label: &'static str,
        shape: [u32; 3],
        flops: f64,
        bytes: u64,
    ) -> Option<u64> {
        let info = TaskInfo { flops, label, shape, ..TaskInfo::default() };
        let id = self.models.id_of(codelet, &info, implementation);
        let known = self.models.estimate(id, self.kind, &info, bytes)?;
        Some(known.time.as_nanos() as u64 + self.overhead_ns)
    }

    pub(super) fn peak_tflops(&self, label: &str) -> f64 {
        let rows = self.models.rows();
        let rates = rows.iter().filter(|row| row.label == label && self.models.kind(&row.kind) == self.kind);
        rates.filter_map(|row| row.gflops()).fold(0.0, f64::max) / 1e3
    }
}

impl Platform {
    /// This machine: `workers` CPU workers on the host's memory, which is unlimited. How long tasks take is what `models` have learnt;
    /// a conversion between formats takes the time that they know of the link from the host to itself.
    ///
    /// # Errors
    /// [`Error::Config`] unless the models were measured with as many workers (see [`OVERHEAD`]): workers share caches, memory and
    /// clock, so that their times are those of their number.
    pub fn host(models: Arc<Models>, workers: usize) -> Result<Platform, Error> {
        let kind = models.kind(CPU);
        let overhead = TaskInfo { shape: [workers as u32, 0, 0], ..TaskInfo::default() };
        let (Some(overhead), Some(conversion)) =
            (models.known(models.id(OVERHEAD, &overhead), kind), models.link(HOST, HOST))
        else {
            return Err(Error::Config(format!(
                "the performance models were not measured with {workers} worker(s) at once"
            )));
        };
        let overhead_ns = overhead.time.as_nanos() as u64;
        let node = NodeSpec {
            name: HOST.into(),
            capacity_gb: None,
            convert_gb_s: conversion.bandwidth() / 1e9,
            staging: 0,
        };
        Ok(Platform {
            name: HOST.into(),
            description: "This machine, as its performance models know it.".into(),
            nodes: vec![node],
            devices: vec![DeviceSpec { kind: CPU.into(), node: HOST.into(), count: workers }],
            links: Vec::new(),
            kinds: [(CPU.into(), KindSpec::Measured(Measured { models, kind, overhead_ns }))].into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::LinkModel;

    /// Products of 100 in 20 us, an overhead of 2 us for two workers.
    fn calibrated() -> Arc<Models> {
        let models = Arc::new(Models::new());
        let cpu = models.kind(CPU);
        let record = |codelet: &str, info: TaskInfo, micros: u64| {
            let id = models.id(codelet, &info);
            (0..7).for_each(|_| models.record(id, cpu, info.flops, 0, Duration::from_micros(micros)));
        };
        record("gemm", TaskInfo { label: "fp32", shape: [100; 3], flops: 2e6, ..TaskInfo::default() }, 20);
        record(OVERHEAD, TaskInfo { shape: [2, 0, 0], ..TaskInfo::default() }, 2);
        models.set_link(HOST, HOST, LinkModel::new(5e9, 0.0).unwrap());
        models
    }

    #[test]
    fn a_task_takes_what_was_measured_and_the_overhead() {
        let platform = Platform::host(calibrated(), 2).unwrap();
        let kind = &platform.kinds["cpu"];
        assert_eq!(kind.nanos("gemm", "fp32", [100; 3], 2e6, 0), Some(22_000));
        assert_eq!(kind.nanos("gemm", "fp64", [100; 3], 2e6, 0), None, "nothing is known");
        assert!((platform.peak_tflops("fp32") - 2.0 * 0.1).abs() < 1e-9);
        platform.check().unwrap();
    }

    #[test]
    fn of_several_implementations_the_fastest_that_is_known_counts() {
        let models = calibrated();
        let cpu = models.kind(CPU);
        let info = TaskInfo { label: "fp32", shape: [64; 3], flops: 1e6, ..TaskInfo::default() };
        for (name, micros) in [("tiled", 30), ("packed", 9)] {
            let id = models.id_of("product", &info, name);
            (0..7).for_each(|_| models.record(id, cpu, 1e6, 0, Duration::from_micros(micros)));
        }
        let platform = Platform::host(models, 2).unwrap();
        let fastest =
            |names: &[&'static str]| platform.kinds["cpu"].fastest("product", names, "fp32", [64; 3], 1e6, 0);
        assert_eq!(fastest(&["tiled", "packed", "unknown"]), Some((11_000, "packed")));
        assert_eq!(fastest(&["tiled", "unknown"]), Some((32_000, "tiled")));
        assert_eq!(fastest(&[]), None);
    }

    #[test]
    fn models_of_another_number_of_workers_are_refused() {
        let error = Platform::host(calibrated(), 1).unwrap_err().to_string();
        assert!(error.contains("not measured with 1 worker(s)"), "{error}");
        assert!(Platform::host(Arc::default(), 2).is_err());
    }
}
