//! Descriptions of machines: memory nodes, devices, links, and the speed of each codelet on each
//! kind of device.
//!
//! A platform is the machine on which the [simulator](crate::Simulation) runs graphs. Some are
//! shipped ([`Platform::shipped`]); others are measured ([`Platform::measured`]), also as a file
//! ([`Platform::to_toml`]), or read from TOML:
//!
//! ```
//! use zellige_sim::platform::Platform;
//!
//! let text = r#"
//!     name = "one-gpu"
//!     [[nodes]]
//!     name = "host"
//!     convert_gb_s = 20.0
//!     [[nodes]]
//!     name = "gpu0"
//!     capacity_gb = 16.0
//!     convert_gb_s = 700.0
//!     [[devices]]
//!     kind = "gpu"
//!     node = "gpu0"
//!     [[links]]
//!     between = ["host", "gpu0"]
//!     gb_s = 10.0
//!     latency_us = 10.0
//!     [kinds.gpu]
//!     memory_gb_s = 900.0
//!     peak_tflops = { fp32 = 15.0 }
//!     efficiency = { "*" = [[256, 0.3], [1024, 0.8]] }
//! "#;
//! let platform = Platform::parse(text)?;
//! let gemm = platform.kinds["gpu"].nanos("gemm", "fp32", [1024; 3], 2.0 * 1024f64.powi(3), 0);
//! assert_eq!(gemm, Some(178_957)); // at 0.8 of 15 Tflop/s
//! # Ok::<(), zellige_runtime::Error>(())
//! ```

mod measured;
mod rates;
mod shipped;

pub use measured::Measured;
pub use rates::Rates;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use zellige_runtime::Error;

/// A machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Its name.
    pub name: String,
    /// Description of the machine, and the source of its numbers.
    #[serde(default)]
    pub description: String,
    /// Memory nodes; the first is the host.
    pub nodes: Vec<NodeSpec>,
    /// Devices that execute tasks.
    pub devices: Vec<DeviceSpec>,
    /// Links between nodes, each usable in both directions at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkSpec>,
    /// The network between several machines like this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    /// Kinds of devices by name.
    pub kinds: BTreeMap<String, KindSpec>,
}

/// A memory node.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Its name.
    pub name: String,
    /// Its size (GB = 1e9 bytes); unlimited without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_gb: Option<f64>,
    /// Throughput of conversions between formats, bytes read and written (GB/s). A disk makes no
    /// conversions.
    #[serde(default)]
    pub convert_gb_s: f64,
    /// Number of simultaneous conversions in memory that is not part of the capacity.
    #[serde(default = "two")]
    pub staging: u32,
    /// True for the disk behind a host of limited size: it has no capacity, and is linked with the
    /// host alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disk: bool,
}

fn two() -> u32 {
    2
}

impl NodeSpec {
    /// Returns its size (bytes); `None`: unlimited.
    pub fn capacity(&self) -> Option<u64> {
        self.capacity_gb.map(|gb| (gb * 1e9) as u64)
    }
}

/// Devices of one kind on one node.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// Its kind, one of [`Platform::kinds`].
    pub kind: String,
    /// The node whose memory it works in.
    pub node: String,
    /// Number of such devices.
    #[serde(default = "one")]
    pub count: usize,
}

fn one() -> usize {
    1
}

/// A link.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The two nodes.
    pub between: [String; 2],
    /// Bandwidth in each direction (GB/s).
    pub gb_s: f64,
    /// Time before the first byte arrives (us).
    #[serde(default)]
    pub latency_us: f64,
}

/// A network: each machine has one adapter, on the host's side.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// Bandwidth of an adapter in each direction (GB/s).
    pub gb_s: f64,
    /// Time before the first byte arrives (us).
    pub latency_us: f64,
}

impl NetworkSpec {
    /// Returns the time that an adapter needs for this many bytes (ns).
    pub fn nanos(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.gb_s).round() as u64
    }
}

/// Task times on a kind of device.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(from = "Rates", into = "Rates")]
pub enum KindSpec {
    /// Times from given peaks and efficiencies.
    Rated(Rates),
    /// Times from performance models of tasks that ran.
    Measured(Measured),
}

impl From<Rates> for KindSpec {
    fn from(rates: Rates) -> Self {
        KindSpec::Rated(rates)
    }
}

/// Converts model times to rates.
impl From<KindSpec> for Rates {
    fn from(kind: KindSpec) -> Self {
        match kind {
            KindSpec::Rated(rates) => rates,
            KindSpec::Measured(measured) => measured.rates(),
        }
    }
}

impl KindSpec {
    /// Returns the time of a task (ns); `None` if this kind cannot run it, or its time is unknown.
    pub fn nanos(
        &self,
        codelet: &str,
        label: &'static str,
        shape: [u32; 3],
        flops: f64,
        bytes: u64,
    ) -> Option<u64> {
        match self {
            KindSpec::Rated(rates) => rates.nanos(codelet, label, shape, flops, bytes),
            KindSpec::Measured(measured) => measured.nanos(codelet, "", label, shape, flops, bytes),
        }
    }

    /// Returns the least time of the implementations with known times, and that implementation; see
    /// [`nanos`](KindSpec::nanos). Given rates are those of the codelet, whichever implementation
    /// reaches them.
    pub(crate) fn fastest(
        &self,
        codelet: &str,
        implementations: &[&'static str],
        label: &'static str,
        shape: [u32; 3],
        flops: f64,
        bytes: u64,
    ) -> Option<(u64, &'static str)> {
        let KindSpec::Measured(measured) = self else {
            return self.nanos(codelet, label, shape, flops, bytes).map(|nanos| (nanos, ""));
        };
        let names = if implementations.is_empty() { &[""] } else { implementations };
        let times = names.iter().filter_map(|name| {
            measured.nanos(codelet, name, label, shape, flops, bytes).map(|nanos| (nanos, *name))
        });
        times.min_by_key(|(nanos, _)| *nanos)
    }

    /// Returns the time of a call that runs nothing (ns); 0 if the times of tasks include it.
    pub(crate) fn launch_nanos(&self) -> u64 {
        match self {
            KindSpec::Rated(rates) => (rates.overhead_us * 1e3).round() as u64,
            KindSpec::Measured(_) => 0,
        }
    }

    /// Returns the delay until the host learns of the end of a call (ns).
    pub(crate) fn end_nanos(&self) -> u64 {
        match self {
            KindSpec::Rated(rates) => (rates.end_us * 1e3).round() as u64,
            KindSpec::Measured(_) => 0,
        }
    }

    /// Returns the peak rate in one precision (Tflop/s): as given, or the best measured one; 0 if
    /// unknown.
    pub fn peak_tflops(&self, label: &str) -> f64 {
        match self {
            KindSpec::Rated(rates) => rates.peak_tflops.get(label).copied().unwrap_or(0.0),
            KindSpec::Measured(measured) => measured.peak_tflops(label),
        }
    }
}

impl Platform {
    /// Reads a platform from TOML and checks it.
    ///
    /// # Errors
    /// [`Error::Config`] with the line or the name of the error.
    pub fn parse(text: &str) -> Result<Platform, Error> {
        let platform: Platform =
            toml::from_str(text).map_err(|e| Error::Config(format!("the platform cannot be read: {e}")))?;
        platform.check().map_err(|what| Error::Config(format!("platform {:?}: {what}", platform.name)))?;
        Ok(platform)
    }

    /// Returns the platform as a file that [`parse`](Platform::parse) reads. Model times become
    /// rates: peaks, and the fractions of them that each codelet reached in each precision at the
    /// measured sizes.
    ///
    /// # Errors
    /// [`Error::Config`] for data that TOML cannot represent.
    pub fn to_toml(&self) -> Result<String, Error> {
        toml::to_string(self)
            .map_err(|e| Error::Config(format!("platform {:?} cannot be written: {e}", self.name)))
    }

    /// Returns a shipped platform by its name.
    ///
    /// # Errors
    /// [`Error::Config`] with the valid names.
    pub fn shipped(name: &str) -> Result<Platform, Error> {
        match shipped::ALL.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Platform::parse(text),
            None => {
                let known: Vec<&str> = Platform::names().collect();
                let known = known.join(", ");
                Err(Error::Config(format!(
                    "no platform {name:?} is shipped: take one of {known}, or a TOML file"
                )))
            }
        }
    }

    /// Returns the names of the shipped platforms.
    pub fn names() -> impl Iterator<Item = &'static str> {
        shipped::ALL.iter().map(|(name, _)| *name)
    }

    /// Returns this machine with only its first `count` devices; their nodes stay.
    #[must_use]
    pub fn with_devices(mut self, count: usize) -> Self {
        self.devices.truncate(count);
        self
    }

    /// Returns this machine with `gb` of memory on every device node that has a capacity.
    #[must_use]
    pub fn with_capacity(mut self, gb: f64) -> Self {
        for node in self.nodes.iter_mut().skip(1).filter(|node| node.capacity_gb.is_some()) {
            node.capacity_gb = Some(gb);
        }
        self
    }

    /// Returns the number of its devices.
    pub fn device_count(&self) -> usize {
        self.devices.iter().map(|device| device.count).sum()
    }

    /// Returns the peak rate of all devices in one precision (Tflop/s).
    pub fn peak_tflops(&self, label: &str) -> f64 {
        let peak = |device: &DeviceSpec| self.kinds[&device.kind].peak_tflops(label);
        self.devices.iter().map(|device| device.count as f64 * peak(device)).sum()
    }

    pub(crate) fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    fn check(&self) -> Result<(), String> {
        if self.nodes.is_empty() || self.devices.is_empty() {
            return Err("it needs a node, the host, and a device".into());
        }
        let positive = |what: String, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(format!("{what} is {value}, not above 0"))
            }
        };
        for (i, node) in self.nodes.iter().enumerate() {
            if !node.disk {
                positive(format!("convert_gb_s of node {}", node.name), node.convert_gb_s)?;
            }
            node.capacity_gb
                .map_or(Ok(()), |gb| positive(format!("capacity_gb of node {}", node.name), gb))?;
            if self.node(&node.name) != Some(i) {
                return Err(format!("two nodes are called {}", node.name));
            }
            let linked = |link: &LinkSpec| {
                link.between.contains(&node.name) && link.between.contains(&self.nodes[0].name)
            };
            if i > 0 && !self.links.iter().any(linked) {
                return Err(format!("node {} has no link to the host, {}", node.name, self.nodes[0].name));
            }
        }
        for disk in self.nodes.iter().filter(|node| node.disk) {
            let name = &disk.name;
            let alone = self.nodes.iter().filter(|node| node.disk).count() == 1;
            let is_used = self.devices.iter().any(|device| device.node == *name);
            let links = self.links.iter().filter(|link| link.between.contains(name)).count();
            if !alone || is_used || links != 1 || disk.capacity_gb.is_some() || *name == self.nodes[0].name {
                return Err(format!(
                    "node {name} is a disk: there is one at most, without a capacity and without devices, linked with the host alone"
                ));
            }
        }
        for link in &self.links {
            let [a, b] = &link.between;
            positive(format!("gb_s between {a} and {b}"), link.gb_s)?;
            if !(link.latency_us.is_finite() && (0.0..1e6).contains(&link.latency_us)) {
                return Err(format!("latency_us between {a} and {b} is {}", link.latency_us));
            }
            if let Some(unknown) = link.between.iter().find(|name| self.node(name).is_none()) {
                return Err(format!("a link names node {unknown}, which is not there"));
            }
        }
        if let Some(NetworkSpec { gb_s, latency_us }) = self.network {
            positive("gb_s of the network".into(), gb_s)?;
            if !(0.0..1e6).contains(&latency_us) {
                return Err(format!("latency_us of the network is {latency_us}, not from 0 to a second"));
            }
        }
        for device in &self.devices {
            if self.node(&device.node).is_none() {
                return Err(format!("a device names node {}, which is not there", device.node));
            }
            if !self.kinds.contains_key(&device.kind) || device.count == 0 {
                return Err(format!("there is no kind {:?}, or no device of it", device.kind));
            }
        }
        for (name, kind) in &self.kinds {
            if let KindSpec::Rated(rates) = kind {
                rates.check().map_err(|what| format!("kind {name}: {what}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shipped_platforms_are_sound() {
        for name in Platform::names() {
            let platform = Platform::shipped(name).unwrap();
            assert_eq!(platform.name, name);
            assert!(platform.peak_tflops("fp32") > 0.0 && !platform.description.is_empty());
        }
        let v100 = Platform::shipped("v100x4").unwrap();
        assert_eq!(v100.peak_tflops("fp32"), 60.0);
        assert_eq!(v100.peak_tflops("hp1"), 500.0);
        for label in ["tf32", "fp8"] {
            let of = |name| Platform::shipped(name).unwrap().peak_tflops(label);
            // Volta and Pascal have neither.
            assert_eq!((of("v100x4"), of("p100x4")), (0.0, 0.0));
            let eight = of("h200x8") / of("h200x1");
            assert!(of("h200x1") > 450.0 && (eight - 8.0).abs() < 1e-9 && of("gh200x4") > 1800.0);
        }
        let error = Platform::shipped("v100").unwrap_err().to_string();
        assert!(error.contains("p100x4") && error.contains("v100x4"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let sound = shipped::ALL[0].1;
        for (from, to, said) in [
            ("{ kind = \"", "{ sort = \"", "sort"),
            ("node = \"gpu0\"", "node = \"gpu9\"", "gpu9"),
            ("gb_s = 10.0", "gb_s = -1.0", "-1"),
            ("[network]\ngb_s = 12.5", "[network]\ngb_s = -12.5", "gb_s of the network is -12.5"),
            ("[network]\ngb_s = 12.5", "[network]\nmb_s = 12.5", "mb_s"),
            ("latency_us = 2.0", "latency_us = -2.0", "latency_us of the network is -2"),
            ("latency_us = 2.0", "", "latency_us"),
            ("between = [\"host\", \"gpu0\"]", "between = [\"gpu1\", \"gpu0\"]", "gpu0"),
        ] {
            assert!(sound.contains(from), "{from}");
            let error = Platform::parse(&sound.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}", at in 0usize..2000, with in "[\\x00-\\x7f]{0,8}") {
            let _ = Platform::parse(&text);
            let mut sound = shipped::ALL[1].1.to_string();
            let at = (0..=at.min(sound.len())).rev().find(|&i| sound.is_char_boundary(i)).unwrap_or(0);
            sound.insert_str(at, &with);
            let _ = Platform::parse(&sound);
        }
    }
}
