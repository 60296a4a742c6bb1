//! `zellige machine show`: the resources that this machine gives to a process, and its performance
//! models.

use std::fs;
use std::path::Path;

use clap::Parser;
use schemars::JsonSchema;
use serde::Serialize;
use zellige_app::text::bytes;
use zellige_measure::selftest::Report;
use zellige_runtime::model::processor;
use zellige_runtime::topology::{Topology, cpu_limit};

use super::gpus::Gpus;
use super::known::Known;
use crate::args::{Cli, MachineShow, SelftestArgs, Verb};
use crate::models::simd;
use crate::results::{is_stdout, write_json};
use crate::{out, selftest};

/// Description of the machine.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Machine {
    /// Name of the processor, if the system reports it.
    processor: Option<String>,
    /// CPUs that this process may use.
    cpus: Vec<Cpu>,
    /// Number of physical cores among the CPUs.
    cores: usize,
    /// Number of NUMA nodes of the CPUs.
    numa_nodes: usize,
    /// Number of sockets of the CPUs.
    packages: usize,
    /// Source of the topology: `sysfs` or `hwloc`.
    topology: &'static str,
    /// Limit of the control group on CPU time, in CPUs; `null` if there is none.
    cpu_limit: Option<f64>,
    /// Default number of workers of a runtime.
    default_workers: usize,
    /// Caches of the first CPU, from the first level on.
    caches: Vec<Cache>,
    memory: Memory,
    /// Vector instruction sets that the kernels can choose from.
    simd: Vec<&'static str>,
    #[serde(flatten)]
    pub gpus: Gpus,
    /// Performance models of tasks.
    performance: Known,
    /// Result of the short self-test, with `--check`.
    #[serde(skip_serializing_if = "Option::is_none")]
    selftest: Option<Report>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Cpu {
    cpu: usize,
    core: usize,
    /// Lowest CPU that shares the last-level cache with this one.
    cache: usize,
    numa_node: usize,
    package: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Cache {
    level: u32,
    kind: String,
    bytes: u64,
    /// CPUs that share the cache, in the list format of the system.
    shared_by: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Memory {
    total_bytes: Option<u64>,
    available_bytes: Option<u64>,
    /// Memory limit of the control group; `null` if there is none.
    limit_bytes: Option<u64>,
}

/// Prints the description of the machine; with `--check` also runs a short self-test, with GPUs if
/// their driver is present.
///
/// # Errors
/// A check failed, or the output cannot be written.
pub fn show(args: &MachineShow) -> anyhow::Result<()> {
    let mut machine = Machine::discover();
    let quiet = is_stdout(args.json.as_ref());
    if !quiet {
        out::print(&machine.text())?;
    }
    let short = args.check.then(|| short_selftest(machine.gpus.are_there()));
    if let Some(short) = &short {
        machine.selftest = Some(selftest::check(short)?);
    }
    write_json(args.json.as_ref(), &[&machine])?;
    let (Some(short), Some(report)) = (short, &machine.selftest) else { return Ok(()) };
    if !quiet {
        out::print("\n")?;
        selftest::print(report)?;
    }
    selftest::verdict(&short, report)?;
    if !quiet {
        out::print("all checks passed\n")?;
    }
    Ok(())
}

/// Returns the options of the short self-test.
fn short_selftest(has_gpus: bool) -> SelftestArgs {
    let device = if has_gpus { "cuda" } else { "cpu" };
    let line = ["zellige", "selftest", "--quick", "--fuzz", "50", "--device", device];
    match Cli::parse_from(line).verb {
        Verb::Selftest(args) => args,
        _ => unreachable!("the command line has selftest"),
    }
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> usize {
    values.collect::<std::collections::BTreeSet<T>>().len()
}

impl Machine {
    /// Collects the description of this machine.
    pub fn discover() -> Machine {
        let topology = Topology::discover();
        let cores = &topology.cores;
        Machine {
            processor: processor(),
            cpus: cores
                .iter()
                .map(|c| Cpu {
                    cpu: c.cpu,
                    core: c.core,
                    cache: c.cache,
                    numa_node: c.node,
                    package: c.package,
                })
                .collect(),
            cores: distinct(cores.iter().map(|c| (c.package, c.core))),
            numa_nodes: distinct(cores.iter().map(|c| c.node)),
            packages: distinct(cores.iter().map(|c| c.package)),
            topology: topology.source,
            cpu_limit: cpu_limit(),
            default_workers: cores.len(),
            caches: cores
                .first()
                .map(|c| caches(Path::new("/sys/devices/system/cpu"), c.cpu))
                .unwrap_or_default(),
            memory: Memory::discover(),
            simd: simd(),
            gpus: Gpus::discover(),
            performance: Known::load(),
            selftest: None,
        }
    }

    /// Returns the description as text, one line for each item.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        let mut say = |name: &str, text: String| lines.push(format!("{name:<12} {text}\n"));
        say("processor", self.processor.clone().unwrap_or_else(|| "unknown".into()));
        let list: Vec<String> = self.cpus.iter().map(|c| c.cpu.to_string()).collect();
        say(
            "cores",
            format!(
                "{} CPUs on {} cores, {} NUMA node(s), {} socket(s); allowed: {} (topology from {})",
                self.cpus.len(),
                self.cores,
                self.numa_nodes,
                self.packages,
                list.join(" "),
                self.topology
            ),
        );
        say(
            "CPU limit",
            self.cpu_limit.map_or("none".into(), |l| format!("{l} CPUs of time, by the control group")),
        );
        for cache in &self.caches {
            say(
                &format!("cache L{}", cache.level),
                format!("{} {}, shared by CPUs {}", bytes(cache.bytes), cache.kind, cache.shared_by),
            );
        }
        let known = |b: Option<u64>| b.map_or("unknown".into(), bytes);
        let limit = self.memory.limit_bytes.map_or("no control group limit".into(), |l| {
            format!("at most {} by the control group", bytes(l))
        });
        say(
            "memory",
            format!(
                "{}, {} available, {limit}",
                known(self.memory.total_bytes),
                known(self.memory.available_bytes)
            ),
        );
        say("SIMD", if self.simd.is_empty() { "none detected".into() } else { self.simd.join(" ") });
        self.gpus.lines().into_iter().for_each(|(name, text)| say(&name, text));
        lines.push(self.performance.text(out::colours(&std::io::stdout())));
        lines.concat()
    }
}

/// Returns the caches of one CPU from sysfs; empty if sysfs does not describe them.
fn caches(cpus: &Path, cpu: usize) -> Vec<Cache> {
    let folder = cpus.join(format!("cpu{cpu}/cache"));
    let mut found: Vec<Cache> =
        (0..16).map_while(|i| cache(&folder.join(format!("index{i}")))).flatten().collect();
    found.sort_by_key(|cache| cache.level);
    found
}

/// Reads one cache: `None` if there is no such cache, `Some(None)` if its description cannot be
/// parsed.
fn cache(folder: &Path) -> Option<Option<Cache>> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_string());
    let level = read("level")?;
    Some((|| {
        Some(Cache {
            level: level.parse().ok()?,
            kind: read("type")?.to_lowercase(),
            bytes: kibibytes(&read("size")?)?,
            shared_by: read("shared_cpu_list").unwrap_or_default(),
        })
    })())
}

/// Parses `48K`, `2M` or plain bytes.
fn kibibytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(number) => (number, 1 << 20),
            None => (text, 1),
        },
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

impl Memory {
    fn discover() -> Memory {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            let number: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
            Some(number * 1024)
        };
        Memory {
            total_bytes: field("MemTotal:"),
            available_bytes: field("MemAvailable:"),
            limit_bytes: memory_limit(),
        }
    }
}

/// Returns the smallest `memory.max` of the control groups of this process.
fn memory_limit() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let root = Path::new("/sys/fs/cgroup");
    root.join(group.trim_start_matches('/'))
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .filter_map(|folder| fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_system_writes() {
        assert_eq!(kibibytes("48K"), Some(48 << 10));
        assert_eq!(kibibytes("2M"), Some(2 << 20));
        assert_eq!(kibibytes("big"), None);
        assert_eq!(kibibytes("18446744073709551615K"), None);
    }

    #[test]
    fn caches_come_from_near_to_far() {
        let folder = tempfile::tempdir().unwrap();
        for (i, level, kind, size) in
            [(0, 2, "Unified", "1M"), (1, 1, "Data", "32K"), (2, 3, "Unified", "odd")]
        {
            let place = folder.path().join(format!("cpu3/cache/index{i}"));
            fs::create_dir_all(&place).unwrap();
            for (name, text) in [("level", level.to_string()), ("type", kind.into()), ("size", size.into())] {
                fs::write(place.join(name), format!("{text}\n")).unwrap();
            }
        }
        let found: Vec<_> = caches(folder.path(), 3).iter().map(|c| (c.level, c.bytes)).collect();
        assert_eq!(found, [(1, 32 << 10), (2, 1 << 20)]);
        assert!(caches(folder.path(), 4).is_empty());
    }
}
