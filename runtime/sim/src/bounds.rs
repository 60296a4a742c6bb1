//! Lower bounds on the time of any schedule of the simulated tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use zellige_runtime::internal::{longest_path, recorded_task};
use zellige_runtime::trace::{Bounds, TaskEvent};
use zellige_runtime::{Error, Graph};

use super::SimBounds;
use crate::platform::Platform;

/// Number of tasks of a class, and their total time on each kind of device (ns).
type Sum = (u64, Vec<Option<u64>>);

/// Computes bounds from the executed tasks (with the selected precisions) and the platform's times.
pub(super) fn bounds<'t>(
    graph: &Graph,
    platform: &Platform,
    tasks: impl Iterator<Item = &'t TaskEvent> + Clone,
) -> Result<SimBounds, Error> {
    let kinds = kinds(platform);
    let time = |kind: &str, task: &TaskEvent| {
        let (several, shape) = recorded_task(graph, task.id as usize);
        let kind = &platform.kinds[kind];
        kind.fastest(task.name, several, task.label, shape, task.flops, task.bytes).map(|(nanos, _)| nanos)
    };
    // Mean times: tasks of one class differ if their tiles do.
    let mut sums: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
    let mut fastest = vec![0f64; graph.len()];
    for task in tasks.clone() {
        let mut times: Vec<Option<u64>> = kinds.iter().map(|(kind, _)| time(kind, task)).collect();
        if times.iter().all(Option::is_none) {
            // A task of the runtime itself, which adds partial results: the platform has no time
            // for it.
            times.fill(Some(task.end_ns - task.start_ns));
        }
        fastest[task.id as usize] = times.iter().flatten().min().map_or(0.0, |&ns| ns as f64);
        let (count, sum) =
            sums.entry((task.name, task.label)).or_insert_with(|| (0, vec![Some(0); kinds.len()]));
        *count += 1;
        for (sum, time) in sum.iter_mut().zip(times) {
            *sum = sum.zip(time).map(|(sum, time)| sum + time);
        }
    }
    let names: Vec<String> = sums.keys().map(|(name, label)| format!("{name} {label}")).collect();
    let classes: Vec<(&str, u64)> =
        names.iter().map(String::as_str).zip(sums.values().map(|(count, _)| *count)).collect();
    let row = |kind: usize| {
        let mean =
            |(count, sum): &(u64, Vec<Option<u64>>)| sum[kind].map(|s| Duration::from_nanos(s / count));
        sums.values().map(mean).collect()
    };
    let times: Vec<Vec<Option<Duration>>> = (0..kinds.len()).map(row).collect();
    let bounds = Bounds::new(&kinds, &classes, &times)?;
    let path = longest_path(graph, |task| fastest[task]);
    let critical_path = Duration::from_nanos(path.iter().map(|&task| fastest[task]).sum::<f64>() as u64);
    let mut chain: BTreeMap<String, u64> = BTreeMap::new();
    let by_id: std::collections::HashMap<u64, &TaskEvent> = tasks.map(|task| (task.id, task)).collect();
    for task in path.iter().filter_map(|&task| by_id.get(&(task as u64))) {
        *chain.entry(format!("{} {}", task.name, task.label)).or_default() += 1;
    }
    let chain: Vec<(&str, u64)> = chain.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    let area = bounds.area();
    Ok(SimBounds { area, critical_path, mixed: bounds.mixed(&chain)?.max(area).max(critical_path) })
}

/// Returns the device kinds of a platform and the number of devices of each.
fn kinds(platform: &Platform) -> Vec<(&str, usize)> {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for device in &platform.devices {
        match kinds.iter_mut().find(|(kind, _)| *kind == device.kind) {
            Some((_, count)) => *count += device.count,
            None => kinds.push((&device.kind, device.count)),
        }
    }
    kinds
}
