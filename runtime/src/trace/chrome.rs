//! Chrome's trace format, which Perfetto and `chrome://tracing` open.

use std::io::{self, Write};

use super::tracks::{Slice, span};
use super::{TaskEvent, Trace};

/// The one process of the trace.
const PID: u32 = 1;

impl Trace {
    /// Writes the run as Chrome trace JSON: one track per worker, one slice per body, the number of ready tasks as a counter.
    ///
    /// Times are microseconds since the runtime's start. The order of `args` and the names in it are stable:
    /// `id`, `i`, `j`, `k` (coordinates in use), `label`, `bytes`, `flops`, `gflops`, `priority`, `ready`, `failed`.
    ///
    /// # Errors
    ///
    /// What `out` answers. The text is written in small pieces: hand in a buffered writer.
    pub fn write_chrome(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"otherData\":{\"policy\":")?;
        text(out, &self.policy)?;
        let (start, end) = span(self);
        write!(out, ",\"makespan_ns\":{},\"lost\":{}}},\"traceEvents\":[", end - start, self.lost)?;
        write!(
            out,
            "\n{{\"ph\":\"M\",\"pid\":{PID},\"name\":\"process_name\",\"args\":{{\"name\":\"zellige\"}}}}"
        )?;
        for (place, track) in self.tracks().iter().enumerate() {
            // Track 0 of a process is special to some readers.
            let tid = u64::from(track.worker) + 1;
            write!(out, ",\n{{\"ph\":\"M\",\"pid\":{PID},\"tid\":{tid},\"name\":\"thread_name\",")?;
            out.write_all(b"\"args\":{\"name\":")?;
            text(out, &track.name)?;
            write!(out, "}}}},\n{{\"ph\":\"M\",\"pid\":{PID},\"tid\":{tid},")?;
            write!(out, "\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{place}}}}}")?;
            for slice in &track.slices {
                slice_event(out, tid, slice, &self.tasks[slice.task])?;
            }
        }
        out.write_all(b"\n]}\n")
    }
}

fn slice_event(out: &mut impl Write, tid: u64, slice: &Slice, task: &TaskEvent) -> io::Result<()> {
    let nanos = slice.end - slice.start;
    out.write_all(b",\n{\"ph\":\"X\",\"name\":")?;
    text(out, task.name)?;
    out.write_all(b",\"cat\":")?;
    text(out, if task.failed { "task,failed" } else { "task" })?;
    write!(out, ",\"pid\":{PID},\"tid\":{tid},\"ts\":{},", Micros(slice.start))?;
    write!(out, "\"dur\":{},\"args\":{{\"id\":{}", Micros(nanos), task.id)?;
    for (name, value) in ["i", "j", "k"].iter().zip(task.coords.unwrap_or([u32::MAX; 3])) {
        if value != u32::MAX {
            write!(out, ",\"{name}\":{value}")?;
        }
    }
    if !task.label.is_empty() {
        out.write_all(b",\"label\":")?;
        text(out, task.label)?;
    }
    write!(out, ",\"bytes\":{}", task.bytes)?;
    // JSON has no infinity and no NaN.
    if task.flops.is_finite() && task.flops != 0.0 {
        write!(out, ",\"flops\":{:e}", task.flops)?;
        if nanos > 0 {
            write!(out, ",\"gflops\":{:.3}", task.flops / nanos as f64)?;
        }
    }
    write!(out, ",\"priority\":{},\"ready\":{}", task.priority, task.ready)?;
    writeln!(out, ",\"failed\":{}}}}},", task.failed)?;
    write!(out, "{{\"ph\":\"C\",\"pid\":{PID},\"name\":\"ready tasks\",\"ts\":{},", Micros(slice.end))?;
    write!(out, "\"args\":{{\"ready\":{}}}}}", task.ready)
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
    use std::collections::HashMap;

    use proptest::prelude::*;
    use serde_json::Value;

    use crate::trace::Trace;
    use crate::trace::samples::{diamond, traces};

    fn parsed(trace: &Trace) -> Value {
        let mut text = Vec::new();
        trace.write_chrome(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    fn phase<'v>(page: &'v Value, ph: &str) -> Vec<&'v Value> {
        page["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == ph).collect()
    }

    #[test]
    fn the_diamond_in_full() {
        let mut trace = diamond();
        trace.lost = 7;
        let page = parsed(&trace);
        assert_eq!(page["otherData"]["lost"], 7);
        assert_eq!(page["otherData"]["policy"], "lws");
        let slice = phase(&page, "X")[1];
        assert_eq!((&slice["name"], &slice["tid"]), (&"trsm".into(), &1.into()));
        assert_eq!((slice["ts"].as_f64(), slice["dur"].as_f64()), (Some(15.0), Some(20.0)));
        let args = &slice["args"];
        assert_eq!((&args["id"], &args["i"], &args["j"]), (&2.into(), &2.into(), &0.into()));
        assert!(args.get("k").is_none());
        assert_eq!((args["flops"].as_f64(), args["gflops"].as_f64()), (Some(2000.0), Some(0.1)));
        assert_eq!((&args["label"], &args["priority"]), (&"f32".into(), &(-1).into()));
        let counter = phase(&page, "C")[0];
        assert_eq!((counter["ts"].as_f64(), &counter["args"]["ready"]), (Some(15.0), &3.into()));
        assert_eq!(phase(&page, "M").len(), 1 + 2 * 2);
    }

    proptest! {
        #[test]
        fn any_trace_is_json_whose_slices_nest(trace in traces()) {
            let page = parsed(&trace);
            let slices = phase(&page, "X");
            prop_assert_eq!(slices.len(), trace.tasks.len());
            prop_assert_eq!(phase(&page, "C").len(), trace.tasks.len());
            let mut names: Vec<&str> = slices.iter().map(|slice| slice["name"].as_str().unwrap()).collect();
            let mut expected: Vec<&str> = trace.tasks.iter().map(|task| task.name).collect();
            names.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(names, expected);
            let mut around: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
            for slice in slices {
                let nanos = |key: &str| (slice[key].as_f64().unwrap() * 1000.0).round() as u64;
                let (start, end) = (nanos("ts"), nanos("ts") + nanos("dur"));
                let open = around.entry(slice["tid"].as_u64().unwrap()).or_default();
                while open.last().is_some_and(|outer| outer.1 <= start) {
                    open.pop();
                }
                prop_assert!(open.last().is_none_or(|outer| outer.0 <= start && end <= outer.1));
                open.push((start, end));
            }
        }
    }
}
