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
    write!(out, ",\"failed\":{}}}}},\n", task.failed)?;
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
