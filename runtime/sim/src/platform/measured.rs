//! A platform of this machine from its performance models.

use std::collections::BTreeMap;
use std::sync::Arc;

use zellige_runtime::model::{KindId, LinkModel, Models, OVERHEAD, Row, Source, TaskInfo};

use super::rates::{Rates, size};
use super::{DeviceSpec, KindSpec, LinkSpec, NodeSpec, Platform};
use zellige_runtime::Error;
use zellige_runtime::device;

/// Name of the host's node and of its kind of device, as in models.
const HOST: &str = "host";
const CPU: &str = "cpu";

/// A kind of device with times from performance models: history or regression, and the runtime's
/// overhead.
#[derive(Clone, Debug)]
pub struct Measured {
    models: Arc<Models>,
    kind: KindId,
    overhead_ns: u64,
}

impl Measured {
    /// Returns the time for an implementation; empty: the only one.
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
        let rows = self.rows();
        let rates = rows.iter().filter(|row| row.label == label);
        rates.filter_map(Row::gflops).fold(0.0, f64::max) / 1e3
    }

    /// Returns all models of this kind except the runtime's overhead.
    fn rows(&self) -> Vec<Row> {
        let mut rows = self.models.rows();
        rows.retain(|row| self.models.kind(&row.kind) == self.kind && row.codelet != OVERHEAD);
        rows
    }

    /// Converts the measurements to rates: the peak of a precision is the best rate that any
    /// codelet reached in it, and an efficiency is the fraction of it that a codelet reached at a
    /// size. Sizes without measurements are interpolated.
    pub(super) fn rates(&self) -> Rates {
        let sizes = by_size(self.rows());
        let mut rates = Rates { overhead_us: short(self.overhead_ns as f64 / 1e3), ..Rates::default() };
        for ((_, label, _), seen) in sizes.iter().filter(|(_, seen)| seen.flops > 0.0) {
            let peak = rates.peak_tflops.entry(label.clone()).or_default();
            *peak = peak.max(seen.flops / seen.seconds / 1e12);
        }
        rates.peak_tflops.values_mut().for_each(|peak| *peak = short(*peak));
        for ((codelet, label, bits), seen) in sizes {
            let (size, key) = (short(f64::from_bits(bits)), key(&codelet, &label));
            if seen.flops > 0.0 {
                let part = short(seen.flops / seen.seconds / 1e12 / rates.peak_tflops[&label]);
                rates.efficiency.entry(key).or_default().push((size, part.clamp(1e-12, 1.0)));
            } else {
                let each = seen.seconds / seen.count;
                rates.time_us.entry(key).or_default().push((size, short(each * 1e6)));
            }
        }
        rates
    }
}

/// Measurements of tasks of one codelet, precision and size.
#[derive(Default)]
struct Seen {
    count: f64,
    flops: f64,
    seconds: f64,
}

/// Returns the times of each codelet and label by size, stored as the bits of a positive number,
/// which sort in its order. Of several implementations the fastest counts; shapes of one size are
/// combined, weighted by their numbers of runs.
fn by_size(rows: Vec<Row>) -> BTreeMap<(String, String, u64), Seen> {
    let mut fastest: BTreeMap<(String, String, [u32; 3], u64), Row> = BTreeMap::new();
    for row in rows.into_iter().filter(is_history) {
        let place = (row.codelet.clone(), row.label.clone(), row.shape, row.flops.to_bits());
        let known = fastest.entry(place).or_insert_with(|| row.clone());
        if seconds(&row) < seconds(known) {
            *known = row;
        }
    }
    let mut sizes: BTreeMap<(String, String, u64), Seen> = BTreeMap::new();
    for row in fastest.into_values() {
        let size = size(row.shape, row.flops);
        if size <= 0.0 {
            continue;
        }
        let (count, time) = (row.samples.max(1) as f64, seconds(&row));
        let seen = sizes.entry((row.codelet, row.label, short(size).to_bits())).or_default();
        seen.count += count;
        seen.flops += count * row.flops;
        seen.seconds += count * time;
    }
    sizes
}

fn is_history(row: &Row) -> bool {
    row.estimate.is_some_and(|estimate| estimate.source == Source::History)
}

fn seconds(row: &Row) -> f64 {
    row.estimate.map_or(f64::INFINITY, |estimate| estimate.time.as_secs_f64())
}

fn key(codelet: &str, label: &str) -> String {
    if label.is_empty() { codelet.into() } else { format!("{codelet}.{label}") }
}

/// Rounds to five digits: a measurement has no more.
fn short(x: f64) -> f64 {
    format!("{x:.4e}").parse().unwrap_or(x)
}

impl Platform {
    /// Creates a platform of this machine: `workers` CPU workers on the host's memory, which is
    /// unlimited. Task times come from `models`; a conversion between formats takes the modelled
    /// time of the link from the host to itself.
    ///
    /// # Errors
    /// [`Error::Config`] unless the models were measured with the same number of workers (see
    /// [`OVERHEAD`]): workers share caches, memory and clock, so times are valid for their number
    /// only.
    pub fn host(models: Arc<Models>, workers: usize) -> Result<Platform, Error> {
        Platform::measured(models, workers, &[])
    }

    /// Creates a platform of a runtime with these devices, which come first and have the same names
    /// as there (`gpu 0`), and `workers` CPU workers. Task times come from `models` for each kind
    /// of device. Links are those that the models know in both directions, or that a device
    /// declares. In a platform both directions are equally fast, so the slower one counts. A
    /// conversion takes the modelled time of the link from a node to itself or, for a device's node
    /// without one, the time on the host.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no measurement for a kind of device, for a device's link to
    /// the host, or for conversions on the host; and those of [`host`](Platform::host) if there are
    /// workers.
    pub fn measured(
        models: Arc<Models>,
        workers: usize,
        devices: &[Arc<dyn device::DeviceSpec>],
    ) -> Result<Platform, Error> {
        let mut platform = Platform {
            name: HOST.into(),
            description: "This machine, as its performance models know it.".into(),
            nodes: vec![host_node(&models, workers)?],
            devices: Vec::new(),
            links: Vec::new(),
            network: None,
            kinds: BTreeMap::new(),
        };
        for (number, device) in devices.iter().enumerate() {
            platform.add(&models, number, &**device)?;
        }
        platform.links.extend(peers(&models, devices));
        if workers > 0 || devices.is_empty() {
            let cpus = Measured::cpus(models, workers)?;
            platform.devices.push(DeviceSpec { kind: CPU.into(), node: HOST.into(), count: workers });
            platform.kinds.insert(CPU.into(), KindSpec::Measured(cpus));
        }
        Ok(platform)
    }

    /// Adds a device with its node, its link to the host, and its kind.
    fn add(
        &mut self,
        models: &Arc<Models>,
        number: usize,
        device: &dyn device::DeviceSpec,
    ) -> Result<(), Error> {
        let (name, kind, end) = (node_name(number, device), device.model_kind(), device.link_end(number));
        let declared = device.link().map(|link| between(link, HOST, &name));
        let link = declared.or_else(|| link(models, [HOST, &end], [HOST, &name]));
        let Some(link) = link else {
            return Err(Error::Config(format!("the link from the host to {name} ({end}) was not measured")));
        };
        let measured = Measured { models: Arc::clone(models), kind: models.kind(&kind), overhead_ns: 0 };
        if !measured.rows().iter().any(is_history) {
            return Err(Error::Config(format!("no task was measured on a device of kind {kind}")));
        }
        let convert_gb_s = models.link(&end, &end).map_or(self.nodes[0].convert_gb_s, gb_s);
        self.nodes.push(NodeSpec {
            name: name.clone(),
            capacity_gb: Some(device.capacity() as f64 / 1e9),
            convert_gb_s,
            staging: device.staging(),
            disk: false,
        });
        self.devices.push(DeviceSpec { kind: kind.clone(), node: name, count: 1 });
        self.links.push(link);
        self.kinds.insert(kind, KindSpec::Measured(measured));
        Ok(())
    }
}

impl Measured {
    fn cpus(models: Arc<Models>, workers: usize) -> Result<Measured, Error> {
        let kind = models.kind(CPU);
        let overhead = TaskInfo { shape: [workers as u32, 0, 0], ..TaskInfo::default() };
        let Some(overhead) = models.known(models.id(OVERHEAD, &overhead), kind) else {
            return Err(unmeasured(workers));
        };
        Ok(Measured { models, kind, overhead_ns: overhead.time.as_nanos() as u64 })
    }
}

fn unmeasured(workers: usize) -> Error {
    Error::Config(format!("the performance models were not measured with {workers} worker(s) at once"))
}

fn host_node(models: &Models, workers: usize) -> Result<NodeSpec, Error> {
    let conversion = models.link(HOST, HOST).ok_or_else(|| unmeasured(workers))?;
    Ok(NodeSpec {
        name: HOST.into(),
        capacity_gb: None,
        convert_gb_s: gb_s(conversion),
        staging: 0,
        disk: false,
    })
}

/// Returns the name of a device's node in a runtime.
fn node_name(number: usize, device: &dyn device::DeviceSpec) -> String {
    format!("{} {number}", device.kind())
}

fn gb_s(link: LinkModel) -> f64 {
    short(link.bandwidth() / 1e9)
}

/// Returns the links between devices that the models know in both directions. Two devices on one
/// GPU have the same link end, and no link.
fn peers(models: &Models, devices: &[Arc<dyn device::DeviceSpec>]) -> Vec<LinkSpec> {
    let of = |number: usize| (devices[number].link_end(number), node_name(number, &*devices[number]));
    let pairs = (0..devices.len()).flat_map(|to| (0..to).map(move |from| (from, to)));
    let links = pairs.filter_map(|(from, to)| {
        let ((from, a), (to, b)) = (of(from), of(to));
        if from == to { None } else { link(models, [&from, &to], [&a, &b]) }
    });
    links.collect()
}

/// Returns a link that the models know in both directions.
fn link(models: &Models, [from, to]: [&str; 2], names: [&str; 2]) -> Option<LinkSpec> {
    let ways = [models.link(from, to)?, models.link(to, from)?];
    Some(LinkSpec {
        between: names.map(String::from),
        gb_s: ways.into_iter().map(gb_s).fold(f64::INFINITY, f64::min),
        latency_us: short(ways.map(|way| way.latency() * 1e6).into_iter().fold(0.0, f64::max)),
    })
}

/// Returns the declared link of a device, between these two nodes.
fn between(link: device::LinkSpec, from: &str, to: &str) -> LinkSpec {
    LinkSpec {
        between: [from.into(), to.into()],
        gb_s: link.bandwidth / 1e9,
        latency_us: link.latency_ns as f64 / 1e3,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use zellige_runtime::Emulated;
    use zellige_runtime::model::LinkModel;

    /// Models with products of 100 in 20 us, and an overhead of 2 us for two workers.
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

    /// Two devices of one kind: their platform file contains the measurements, to five digits.
    #[test]
    fn a_written_machine_is_the_measured_one() {
        let models = calibrated();
        let kind = models.kind("emulated");
        let record = |codelet: &str, label, shape: [u32; 3], flops: f64, micros: u64| {
            let info = TaskInfo { label, shape, flops, ..TaskInfo::default() };
            let id = models.id(codelet, &info);
            (0..7).for_each(|_| models.record(id, kind, flops, 0, Duration::from_micros(micros)));
        };
        record("gemm", "hp1", [100; 3], 2e6, 10);
        record("gemm", "hp1", [200; 3], 16e6, 20);
        record("gemm", "fp32", [200; 3], 16e6, 70);
        record("potrf", "fp32", [200, 0, 0], 8e6 / 3.0, 90);
        record("convert", "fp16", [200, 200, 0], 0.0, 7);
        let devices = [Emulated::new(3_000_000_000).measured_links(), Emulated::new(1 << 30)];
        let [plain, declared] = devices.map(Arc::<dyn device::DeviceSpec>::from);
        let devices = [plain, declared];
        let refused = Platform::measured(Arc::clone(&models), 2, &devices).unwrap_err().to_string();
        assert!(refused.contains("host to emulated 0"), "{refused}");
        let link = |from: &str, to: &str, rate: f64, latency: f64| {
            models.set_link(from, to, LinkModel::new(rate, latency).unwrap());
        };
        link("host", "emulated 0", 25e9, 5e-6);
        link("emulated 0", "host", 20e9, 9e-6);
        link("emulated 0", "emulated 1", 50e9, 1e-6);
        link("emulated 1", "emulated 0", 60e9, 1e-6);
        link("emulated 0", "emulated 0", 700e9, 0.0);
        let known = Platform::measured(Arc::clone(&models), 2, &devices).unwrap();
        let text = known.to_toml().unwrap();
        let written = Platform::parse(&text).unwrap();
        assert_eq!(text, written.to_toml().unwrap(), "what is written stays the same");
        let nodes: Vec<_> = written.nodes.iter().map(|n| (&*n.name, n.capacity_gb, n.convert_gb_s)).collect();
        let second = ("emulated 1", Some((1u64 << 30) as f64 / 1e9), 5.0);
        assert_eq!(nodes, [("host", None, 5.0), ("emulated 0", Some(3.0), 700.0), second]);
        let links: Vec<_> = written.links.iter().map(|link| (link.gb_s, link.latency_us)).collect();
        assert_eq!(links, [(20.0, 9.0), (10.0, 0.0), (50.0, 1.0)], "the slower way, what it declares, peers");
        let kind = &written.kinds["emulated"];
        assert!((kind.peak_tflops("hp1") - 0.8).abs() < 1e-9 && kind.peak_tflops("x3") == 0.0);
        let nanos =
            |codelet: &str, label, shape, flops| kind.nanos(codelet, label, shape, flops, 1 << 30).unwrap();
        let near = |got: u64, want: f64| assert!((got as f64 / want - 1.0).abs() < 1e-4, "{got} {want}");
        near(nanos("gemm", "hp1", [100; 3], 2e6), 10e3);
        near(nanos("gemm", "hp1", [200; 3], 16e6), 20e3);
        near(nanos("gemm", "fp32", [200; 3], 16e6), 70e3);
        near(nanos("potrf", "fp32", [200, 0, 0], 8e6 / 3.0), 90e3);
        near(nanos("convert", "fp16", [200, 200, 0], 0.0), 7e3);
        // Halfway between two sizes, the rate is halfway between their rates.
        near(nanos("gemm", "hp1", [150; 3], 6.75e6), 6.75e6 / 0.5e12 * 1e9);
        assert_eq!(kind.nanos("trsm", "fp32", [200, 200, 0], 8e6, 0), None);
        near(written.kinds["cpu"].nanos("gemm", "fp32", [100; 3], 2e6, 0).unwrap(), 22e3);
    }

    #[test]
    fn a_kind_that_nobody_measured_is_refused() {
        let devices = [Emulated::new(1000).kind("new").into()];
        let error = Platform::measured(calibrated(), 0, &devices).unwrap_err().to_string();
        assert!(error.contains("kind new"), "{error}");
        assert!(Platform::measured(calibrated(), 0, &[]).is_err());
    }

    #[test]
    fn models_of_another_number_of_workers_are_refused() {
        let error = Platform::host(calibrated(), 1).unwrap_err().to_string();
        assert!(error.contains("not measured with 1 worker(s)"), "{error}");
        assert!(Platform::host(Arc::default(), 2).is_err());
    }
}
