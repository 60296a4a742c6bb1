//! Chrome's trace format, for Perfetto and `chrome://tracing`.

use std::collections::HashMap;
use std::io::{self, Write};

use super::nodes::{Node, place};
use super::phases::Phase;
use super::summary::Bytes;
use super::tracks::{Rest, Slice, extent, span};
use super::{EvictionEvent, TaskEvent, Trace, TransferEvent};

/// Process number of the whole run. Those of memory nodes follow.
const PID: u32 = 1;

/// Thread number. Readers identify threads by it alone, so it is counted over all processes. Some
/// readers treat 0 specially.
type Tid = usize;

impl Trace {
    /// Writes the run as Chrome trace JSON: a track per worker, a slice per body and per idle
    /// period (category `idle`), a track of the program's phases, the number of ready tasks as a
    /// counter. A slice of a body has the codelet's name and its label. An arrow leads to each body
    /// from its dependency that ended last.
    ///
    /// Every memory node is a process, which contains its workers, the links to it, evictions and a
    /// counter of its used bytes. A run that uses the host's memory alone has one process.
    /// Transfers that overlap on a link have tracks of their own.
    ///
    /// Times are microseconds since the runtime's start. The order of `args` and their names are
    /// stable. Bodies: `id`, `i`, `j`, `k` (coordinates in use), `label`, `bytes`, `flops`,
    /// `gflops`, `predicted_us` (if there was a prediction), `priority`, `ready`, `failed`.
    /// Transfers: `data`, `format`, `bytes`, `reason`, `converted`. Evictions: `data`, `bytes`,
    /// `written_back`.
    ///
    /// # Errors
    ///
    /// Any error of `out`. The text is written in small pieces: pass a buffered writer.
    pub fn write_chrome(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"otherData\":{\"zellige\":")?;
        text(out, env!("CARGO_PKG_VERSION"))?;
        out.write_all(b",\"policy\":")?;
        text(out, &self.policy)?;
        let (start, end) = span(self);
        writeln!(out, ",\"makespan_ns\":{},\"lost\":{}}},\"traceEvents\":[", end - start, self.lost)?;
        metadata(out, PID, None, "process_name", "zellige")?;
        let nodes = self.memory_nodes();
        for (place, node) in nodes.iter().enumerate() {
            process(out, pid_of(place), node)?;
        }
        let tracks = self.tracks();
        let rests = self.rests(&tracks, extent(self));
        let mut places: HashMap<u64, At> = HashMap::with_capacity(self.tasks.len());
        for (at, (track, rests)) in tracks.iter().zip(rests).enumerate() {
            let tid = at + 1;
            let pid =
                if nodes.is_empty() { PID } else { pid_of(place(&nodes, track.node).min(nodes.len() - 1)) };
            thread(out, (pid, tid), tid, &track.name)?;
            for slice in &track.slices {
                let task = &self.tasks[slice.task];
                slice_event(out, pid, tid, slice, task)?;
                places.insert(task.id, At { pid, tid, start: slice.start, end: slice.end });
            }
            rests.iter().try_for_each(|rest| rest_event(out, pid, tid, rest))?;
        }
        let mut tid = tracks.len() + 1;
        for link in self.links() {
            let pid = pid_of(place(&nodes, link.to));
            let name = match link.is_within() {
                true => "conversions".to_string(),
                false => format!("from {}", nodes[place(&nodes, link.from)].name),
            };
            (0..link.lanes).try_for_each(|lane| thread(out, (pid, tid + lane), tid + lane, &name))?;
            for slice in &link.slices {
                let (start, nanos) = (slice.start, slice.end - slice.start);
                transfer_event(out, pid, tid + slice.lane, start, nanos, &self.transfers[slice.transfer])?;
            }
            tid += link.lanes;
        }
        let phases = self.phase_spans();
        if !phases.is_empty() {
            // Above the workers.
            thread(out, (PID, tid), 0, "phases")?;
            phases.iter().try_for_each(|phase| phase_event(out, PID, tid, phase))?;
        }
        for (number, (before, after)) in self.last_dependencies(&places).into_iter().enumerate() {
            arrow(out, number, before, after)?;
        }
        for eviction in &self.evictions {
            eviction_event(out, pid_of(place(&nodes, eviction.node)), eviction)?;
        }
        let ready = self.tasks.iter().map(|task| (task.end_ns.max(task.start_ns), u64::from(task.ready)));
        counter(out, PID, ("ready tasks", "ready"), ready.collect())?;
        for (place_of, _) in nodes.iter().enumerate() {
            let here = self.memory.iter().filter(|event| place(&nodes, event.node) == place_of);
            let used = here.map(|event| (event.at_ns, event.used)).collect();
            counter(out, pid_of(place_of), ("memory used", "bytes"), used)?;
        }
        out.write_all(b"\n]}\n")
    }

    /// Returns, for each task that waited for others, the predecessor that ended last, and the
    /// task.
    fn last_dependencies(&self, places: &HashMap<u64, At>) -> Vec<(At, At)> {
        // The map is keyed by the number of a group of accesses, then of a task: groups come before
        // the tasks that wait for them.
        let (groups, tasks): (Vec<_>, Vec<_>) =
            self.edges.iter().partition(|edge| !places.contains_key(&edge.1));
        let mut last: HashMap<u64, At> = HashMap::with_capacity(places.len());
        for &(from, to) in groups.into_iter().chain(tasks) {
            let before = places.get(&from).or_else(|| last.get(&from)).copied();
            if let Some(before) = before {
                let known = last.entry(to).or_insert(before);
                if known.end < before.end {
                    *known = before;
                }
            }
        }
        let mut arrows: Vec<(At, At)> = last
            .into_iter()
            .filter_map(|(task, before)| Some((before, *places.get(&task)?)))
            .filter(|(before, after)| before.end <= after.start)
            .collect();
        arrows.sort_by_key(|(before, after)| (after.start, after.tid, before.end));
        arrows
    }
}

/// The position at which a body is drawn.
#[derive(Clone, Copy)]
struct At {
    pid: u32,
    tid: Tid,
    start: u64,
    end: u64,
}

/// Writes an arrow from the end of a body to the start of another one. It begins within the first:
/// readers look for the slice around its moment.
fn arrow(out: &mut impl Write, number: usize, before: At, after: At) -> io::Result<()> {
    let begin = before.start.max(before.end.saturating_sub(1));
    // `bp` binds the end to the slice around it.
    for (phase, bind, of, at) in [("s", "", before, begin), ("f", "\"bp\":\"e\",", after, after.start)] {
        write!(
            out,
            ",\n{{\"ph\":\"{phase}\",{bind}\"id\":{number},\"name\":\"dependency\",\"cat\":\"dependency\","
        )?;
        write!(out, "\"pid\":{},\"tid\":{},\"ts\":{}}}", of.pid, of.tid, Micros(at))?;
    }
    Ok(())
}

/// Writes a value over time, each time that it changes. Of several values at one moment the last
/// one counts.
fn counter(
    out: &mut impl Write,
    pid: u32,
    (name, unit): (&str, &str),
    mut values: Vec<(u64, u64)>,
) -> io::Result<()> {
    values.sort_by_key(|&(at, _)| at);
    let mut shown = None;
    for (place, &(at, value)) in values.iter().enumerate() {
        let is_last = values.get(place + 1).is_none_or(|next| next.0 != at);
        if is_last && shown != Some(value) {
            write!(out, ",\n{{\"ph\":\"C\",\"pid\":{pid},\"name\":\"{name}\",\"ts\":{},", Micros(at))?;
            write!(out, "\"args\":{{\"{unit}\":{value}}}}}")?;
            shown = Some(value);
        }
    }
    Ok(())
}

/// Returns the process number of the node at a position among all.
fn pid_of(place: usize) -> u32 {
    PID + 1 + place as u32
}

fn process(out: &mut impl Write, pid: u32, node: &Node) -> io::Result<()> {
    out.write_all(b",\n")?;
    metadata(out, pid, None, "process_name", &node.name)?;
    write!(
        out,
        ",\n{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{pid}}}}}"
    )?;
    if let Some(capacity) = node.capacity {
        write!(out, ",\n{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_labels\",\"args\":{{\"labels\":")?;
        text(out, &format!("memory of {}", Bytes(capacity)))?;
        out.write_all(b"}}")?;
    }
    Ok(())
}

/// Writes a track, and its position among those of its process.
fn thread(out: &mut impl Write, (pid, tid): (u32, Tid), order: usize, name: &str) -> io::Result<()> {
    out.write_all(b",\n")?;
    metadata(out, pid, Some(tid), "thread_name", name)?;
    write!(out, ",\n{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},")?;
    write!(out, "\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{order}}}}}")
}

fn metadata(out: &mut impl Write, pid: u32, tid: Option<Tid>, what: &str, name: &str) -> io::Result<()> {
    write!(out, "{{\"ph\":\"M\",\"pid\":{pid},")?;
    if let Some(tid) = tid {
        write!(out, "\"tid\":{tid},")?;
    }
    write!(out, "\"name\":\"{what}\",\"args\":{{\"name\":")?;
    text(out, name)?;
    out.write_all(b"}}")
}

/// Writes a slice from its beginning to its arguments, which the caller ends.
fn slice_head(
    out: &mut impl Write,
    (name, category): (&str, &str),
    pid: u32,
    tid: Tid,
    start: u64,
    nanos: u64,
) -> io::Result<()> {
    out.write_all(b",\n{\"ph\":\"X\",\"name\":")?;
    text(out, name)?;
    write!(out, ",\"cat\":\"{category}\",\"pid\":{pid},\"tid\":{tid},")?;
    write!(out, "\"ts\":{},\"dur\":{},\"args\":{{", Micros(start), Micros(nanos))
}

fn rest_event(out: &mut impl Write, pid: u32, tid: Tid, rest: &Rest) -> io::Result<()> {
    slice_head(out, (rest.state.name(), "idle"), pid, tid, rest.start, rest.end - rest.start)?;
    out.write_all(b"}}")
}

fn phase_event(out: &mut impl Write, pid: u32, tid: Tid, phase: &Phase<'_>) -> io::Result<()> {
    slice_head(out, (phase.name, "phase"), pid, tid, phase.start, phase.end - phase.start)?;
    out.write_all(b"}}")
}

fn transfer_event(
    out: &mut impl Write,
    pid: u32,
    tid: Tid,
    start: u64,
    nanos: u64,
    transfer: &TransferEvent,
) -> io::Result<()> {
    slice_head(out, (transfer.reason.name(), "transfer"), pid, tid, start, nanos)?;
    write!(out, "\"data\":{},\"format\":", transfer.data)?;
    text(out, transfer.label)?;
    write!(out, ",\"bytes\":{},\"reason\":\"{}\",", transfer.bytes, transfer.reason.name())?;
    write!(out, "\"converted\":{}}}}}", transfer.converted)
}

fn eviction_event(out: &mut impl Write, pid: u32, eviction: &EvictionEvent) -> io::Result<()> {
    let EvictionEvent { data, bytes, at_ns, written_back, .. } = *eviction;
    write!(
        out,
        ",\n{{\"ph\":\"i\",\"s\":\"p\",\"name\":\"evict\",\"cat\":\"eviction\",\"pid\":{pid},\"tid\":0,"
    )?;
    write!(out, "\"ts\":{},\"args\":{{\"data\":{data},\"bytes\":{bytes},", Micros(at_ns))?;
    write!(out, "\"written_back\":{written_back}}}}}")
}

fn slice_event(out: &mut impl Write, pid: u32, tid: Tid, slice: &Slice, task: &TaskEvent) -> io::Result<()> {
    let nanos = slice.end - slice.start;
    let category = if task.failed { "task,failed" } else { "task" };
    let name = [task.name, task.label].join(" ");
    slice_head(out, (name.trim_end(), category), pid, tid, slice.start, nanos)?;
    write!(out, "\"id\":{}", task.id)?;
    for (name, value) in ["i", "j", "k"].iter().zip(task.coords.unwrap_or([u32::MAX; 3])) {
        if value != u32::MAX {
            write!(out, ",\"{name}\":{value}")?;
        }
    }
    if !task.label.is_empty() {
        out.write_all(b",\"label\":")?;
        text(out, task.label)?;
    }
    if !task.implementation.is_empty() {
        out.write_all(b",\"implementation\":")?;
        text(out, task.implementation)?;
    }
    if task.batch > 0 {
        write!(out, ",\"batch\":{}", task.batch)?;
    }
    write!(out, ",\"bytes\":{}", task.bytes)?;
    // JSON has no infinity and no NaN.
    if task.flops.is_finite() && task.flops != 0.0 {
        write!(out, ",\"flops\":{:e}", task.flops)?;
        if nanos > 0 {
            write!(out, ",\"gflops\":{:.3}", task.flops / nanos as f64)?;
        }
    }
    if task.predicted_ns > 0 {
        write!(out, ",\"predicted_us\":{}", Micros(task.predicted_ns))?;
    }
    write!(out, ",\"priority\":{},\"ready\":{}", task.priority, task.ready)?;
    write!(out, ",\"failed\":{}}}}}", task.failed)
}

fn text(out: &mut impl Write, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(out, text)?)
}

/// Nanoseconds, shown as microseconds without rounding.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::Trace;
    use crate::samples::{diamond, gpu, phase as begins, traces};

    fn parsed(trace: &Trace) -> Value {
        let mut text = Vec::new();
        trace.write_chrome(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    fn phase<'v>(page: &'v Value, ph: &str) -> Vec<&'v Value> {
        page["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == ph).collect()
    }

    fn slices<'v>(page: &'v Value, category: &str) -> Vec<&'v Value> {
        let all = phase(page, "X").into_iter();
        all.filter(|slice| slice["cat"].as_str().unwrap().split(',').next() == Some(category)).collect()
    }

    #[test]
    fn the_diamond_in_full() {
        let mut trace = diamond();
        trace.lost = 7;
        trace.phases = vec![begins("factor", 0), begins("solve", 45)];
        let page = parsed(&trace);
        assert_eq!(page["otherData"]["lost"], 7);
        assert_eq!(page["otherData"]["policy"], "lws");
        let slice = phase(&page, "X")[1];
        assert_eq!((&slice["name"], &slice["tid"]), (&"trsm f32".into(), &1.into()));
        assert_eq!((slice["ts"].as_f64(), slice["dur"].as_f64()), (Some(15.0), Some(20.0)));
        let args = &slice["args"];
        assert_eq!((&args["id"], &args["i"], &args["j"]), (&2.into(), &2.into(), &0.into()));
        assert!(args.get("k").is_none() && args.get("predicted_us").is_none());
        assert_eq!((args["flops"].as_f64(), args["gflops"].as_f64()), (Some(2000.0), Some(0.1)));
        assert_eq!((&args["label"], &args["priority"]), (&"f32".into(), &(-1).into()));
        // Three are ready all the time: the counter is written once.
        let counters = phase(&page, "C");
        let [counter] = counters[..] else { panic!("{counters:?}") };
        assert_eq!((counter["ts"].as_f64(), &counter["args"]["ready"]), (Some(15.0), &3.into()));
        assert_eq!(phase(&page, "M").len(), 1 + 3 * 2);
        let phases: Vec<Value> =
            slices(&page, "phase").iter().map(|s| json!([s["name"], s["tid"], s["ts"], s["dur"]])).collect();
        assert_eq!(json!(phases), json!([["factor", 3, 5.0, 40.0], ["solve", 3, 45.0, 10.0]]));
        // To 2 and 3 from 1, to 4 from 3, which ended after 2.
        let ends =
            |ph| phase(&page, ph).iter().map(|e| json!([e["id"], e["tid"], e["ts"]])).collect::<Vec<_>>();
        assert_eq!(json!(ends("s")), json!([[0, 1, 14.999], [1, 1, 14.999], [2, 2, 44.999]]));
        assert_eq!(json!(ends("f")), json!([[0, 1, 15.0], [1, 2, 15.0], [2, 1, 45.0]]));
    }

    #[test]
    fn a_gpu_is_a_process_with_its_link_its_memory_and_its_evictions() {
        let page = parsed(&gpu());
        let named = |name: &str| {
            phase(&page, "M").into_iter().filter(|m| m["name"] == name).cloned().collect::<Vec<_>>()
        };
        let processes: Vec<(u64, String)> = named("process_name")
            .iter()
            .map(|m| (m["pid"].as_u64().unwrap(), m["args"]["name"].as_str().unwrap().into()))
            .collect();
        assert_eq!(processes, [(1, "zellige".into()), (2, "host".into()), (3, "gpu 0".into())]);
        assert_eq!(named("process_labels")[0]["args"]["labels"], "memory of 1.00 kB");
        let tracks: Vec<Value> =
            named("thread_name").iter().map(|m| json!([m["pid"], m["tid"], m["args"]["name"]])).collect();
        let expected = json!([
            [2, 1, "cpu 0"],
            [3, 2, "gpu 0"],
            [3, 3, "from host"],
            [3, 4, "from host"],
            [2, 5, "from gpu 0"]
        ]);
        assert_eq!(json!(tracks), expected);

        let second = slices(&page, "transfer")[1];
        assert_eq!(
            (&second["tid"], second["ts"].as_f64(), second["dur"].as_f64()),
            (&4.into(), Some(8.0), Some(6.0))
        );
        let args = json!({"data": 8, "format": "f16", "bytes": 32, "reason": "prefetch", "converted": true});
        assert_eq!(second["args"], args);
        let third = slices(&page, "task")[3];
        assert_eq!((third["pid"].as_u64(), third["args"]["predicted_us"].as_f64()), (Some(3), Some(25.0)));
        let idle: Vec<Value> =
            slices(&page, "idle").iter().map(|s| json!([s["tid"], s["name"], s["ts"], s["dur"]])).collect();
        let expected = json!([
            [1, "searching", 35.0, 2.0],
            [1, "sleeping", 37.0, 8.0],
            [2, "waiting for data", 5.0, 10.0],
            [2, "sleeping", 45.0, 10.0]
        ]);
        assert_eq!(json!(idle), expected);
        let used: Vec<&Value> =
            phase(&page, "C").into_iter().filter(|c| c["name"] == "memory used").collect();
        assert_eq!((used.len(), &used[1]["pid"], &used[1]["args"]["bytes"]), (3, &3.into(), &96.into()));
        assert_eq!(phase(&page, "i")[0]["args"], json!({"data": 7, "bytes": 64, "written_back": true}));
    }

    proptest! {
        #[test]
        fn any_trace_is_json_whose_slices_nest(trace in traces()) {
            let page = parsed(&trace);
            let bodies = slices(&page, "task");
            prop_assert_eq!(bodies.len(), trace.tasks.len());
            prop_assert_eq!(slices(&page, "transfer").len(), trace.transfers.len());
            // A counter equals the records at every moment, and is not repeated.
            let mut shown: HashMap<(u64, &str), Vec<(u64, u64)>> = HashMap::new();
            for event in phase(&page, "C") {
                let at = (event["ts"].as_f64().unwrap() * 1000.0).round() as u64;
                let value = event["args"].as_object().unwrap().values().next().unwrap().as_u64().unwrap();
                shown.entry((event["pid"].as_u64().unwrap(), event["name"].as_str().unwrap())).or_default().push((at, value));
            }
            for values in shown.values() {
                prop_assert!(values.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
            }
            let nodes = trace.memory_nodes();
            for (place_of, _) in nodes.iter().enumerate() {
                let used = |at: u64| {
                    let here = trace.memory.iter().filter(|event| super::place(&nodes, event.node) == place_of);
                    here.filter(|event| event.at_ns <= at).max_by_key(|event| event.at_ns).map(|event| event.used)
                };
                let shown = shown.get(&(u64::from(super::pid_of(place_of)), "memory used"));
                for event in &trace.memory {
                    let last = shown.and_then(|values| values.iter().rfind(|value| value.0 <= event.at_ns));
                    prop_assert_eq!(last.map(|value| value.1), used(event.at_ns));
                }
            }
            prop_assert_eq!(slices(&page, "phase").len(), trace.phase_spans().len());
            prop_assert_eq!(phase(&page, "s").len(), phase(&page, "f").len());
            prop_assert_eq!(phase(&page, "i").len(), trace.evictions.len());
            let mut names: Vec<&str> = bodies.iter().map(|slice| slice["name"].as_str().unwrap()).collect();
            let named = trace.tasks.iter().map(|task| [task.name, task.label].join(" ").trim_end().to_string());
            let mut expected: Vec<String> = named.collect();
            names.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(names, expected);

            // Every event is in a process with a name, on a thread with a name, which is in one
            // process.
            let of = |event: &Value, key: &str| event[key].as_u64().unwrap();
            let named = |name: &str| phase(&page, "M").into_iter().filter(|m| m["name"] == name).cloned().collect::<Vec<_>>();
            let processes: HashSet<u64> = named("process_name").iter().map(|m| of(m, "pid")).collect();
            let threads: HashMap<u64, u64> = named("thread_name").iter().map(|m| (of(m, "tid"), of(m, "pid"))).collect();
            prop_assert_eq!(threads.len(), named("thread_name").len());
            for event in page["traceEvents"].as_array().unwrap() {
                prop_assert!(processes.contains(&of(event, "pid")));
            }
            let mut around: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
            let mut slices = phase(&page, "X");
            let nanos = |slice: &Value, key: &str| (slice[key].as_f64().unwrap() * 1000.0).round() as u64;
            slices.sort_by_key(|slice| nanos(slice, "ts"));
            for slice in slices {
                let (start, end) = (nanos(slice, "ts"), nanos(slice, "ts") + nanos(slice, "dur"));
                prop_assert_eq!(threads.get(&of(slice, "tid")), Some(&of(slice, "pid")));
                let open = around.entry(of(slice, "tid")).or_default();
                while open.last().is_some_and(|outer| outer.1 <= start) {
                    open.pop();
                }
                prop_assert!(open.last().is_none_or(|outer| outer.0 <= start && end <= outer.1));
                open.push((start, end));
            }
        }
    }
}
