//! The Paje format, for ViTE, PajeNG and StarVZ's readers.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

use super::nodes::{Node, link_name, place};
use super::tracks::{PALETTE, Track, extent};
use super::{EvictionEvent, IdleState, MemoryEvent, TaskEvent, Trace, TransferEvent, TransferReason};

/// The self-describing part: every event's fields in order. The numbers are those of StarPU's
/// traces.
const HEADER: &str = "\
%EventDef PajeDefineContainerType 1
% Alias string
% Type string
% Name string
%EndEventDef
%EventDef PajeDefineEventType 2
% Alias string
% Type string
% Name string
%EndEventDef
%EventDef PajeDefineStateType 3
% Alias string
% Type string
% Name string
%EndEventDef
%EventDef PajeDefineVariableType 4
% Alias string
% Type string
% Name string
% Color color
%EndEventDef
%EventDef PajeDefineLinkType 5
% Alias string
% Type string
% StartContainerType string
% EndContainerType string
% Name string
%EndEventDef
%EventDef PajeDefineEntityValue 6
% Alias string
% Type string
% Name string
% Color color
%EndEventDef
%EventDef PajeCreateContainer 7
% Time date
% Alias string
% Type string
% Container string
% Name string
%EndEventDef
%EventDef PajeDestroyContainer 8
% Time date
% Type string
% Name string
%EndEventDef
%EventDef PajeNewEvent 9
% Time date
% Type string
% Container string
% Value string
%EndEventDef
%EventDef PajeSetState 10
% Time date
% Type string
% Container string
% Value string
%EndEventDef
%EventDef PajePushState 11
% Time date
% Type string
% Container string
% Value string
%EndEventDef
%EventDef PajePopState 12
% Time date
% Type string
% Container string
%EndEventDef
%EventDef PajeSetVariable 13
% Time date
% Type string
% Container string
% Value double
%EndEventDef
%EventDef PajeStartLink 18
% Time date
% Type string
% Container string
% Value string
% StartContainer string
% Key string
%EndEventDef
%EventDef PajeEndLink 19
% Time date
% Type string
% Container string
% Value string
% EndContainer string
% Key string
%EndEventDef
%EventDef PajePushState 20
% Time date
% Type string
% Container string
% Value string
% Size string
% Params string
% JobId string
% Priority string
% GFlop string
% X string
% Y string
% Iteration string
% Failed string
% Predicted string
% Implementation string
% Batch string
%EndEventDef
%EventDef PajePushState 21
% Time date
% Type string
% Container string
% Value string
% Size string
% Params string
% Data string
% Converted string
%EndEventDef
";

/// Types, and values that every trace has: a worker's states, the reasons of a transfer (as a
/// link's state `m` and as an arrow `a` between memory nodes), evictions.
const TYPES: &str = "\
1 P 0 \"Program\"
1 W P \"Worker\"
1 N P \"Memory node\"
1 L P \"Link\"
3 S W \"Worker state\"
3 M L \"Transfer\"
3 F P \"Phase\"
4 ready P \"Ready tasks\" \"0.2 0.2 0.2\"
4 used N \"Bytes used\" \"0.0 0.447 0.698\"
5 A P N N \"Moved bytes\"
2 E N \"Eviction\"
6 evict E \"Evict\" \"0.835 0.369 0.0\"
6 I S \"Idle\" \"0.93 0.93 0.93\"
6 i0 S \"Sleeping\" \"0.85 0.85 0.85\"
6 i1 S \"Searching\" \"0.96 0.87 0.6\"
6 i2 S \"Waiting for data\" \"0.72 0.52 0.85\"
";

/// An event at one time.
struct Step<'t> {
    time: u64,
    /// Order of simultaneous events: a worker's idle period ends before a body begins, and begins
    /// after one has ended.
    rank: u8,
    what: PajeEvent<'t>,
}

enum PajeEvent<'t> {
    /// Number of the phase.
    Phase(usize),
    BodyBegins(u32, &'t TaskEvent),
    BodyEnds(u32, &'t TaskEvent),
    RestBegins(u32, IdleState),
    RestEnds(u32),
    /// Number of the lane, of the transfer.
    TransferBegins(usize, usize, &'t TransferEvent),
    TransferEnds(usize, usize, &'t TransferEvent),
    Memory(&'t MemoryEvent),
    Eviction(&'t EvictionEvent),
}

impl Trace {
    /// Writes the run in the Paje format: a program with its workers, memory nodes and links.
    ///
    /// A worker has one state per codelet, and `Sleeping`, `Searching`, `Waiting for data` or
    /// `Idle` otherwise. The program has its phases as states, and the number of ready tasks. A
    /// memory node has its used bytes and its evictions. A link has one container per simultaneous
    /// transfer, and one state per reason of a transfer. Each transfer is also an arrow between its
    /// memory nodes.
    ///
    /// Times are milliseconds since the runtime's start, to the nanosecond. A body inside another
    /// one is a pushed state. A task's state carries `Size` (bytes of its operands), `Params` (its
    /// label), `JobId`, `Priority`, `GFlop` (operations / 1e9), `X`, `Y`, `Iteration` (its
    /// coordinates; -1: unused), `Failed` and `Predicted` (milliseconds; 0: unknown),
    /// `Implementation` (`-`: there is only one) and `Batch` (tasks in its call; 0: alone). A
    /// transfer's state carries `Size`, `Params` (its format), `Data` (the handle's number) and
    /// `Converted`. The format cannot represent a double quote or a line end: they become `'` and a
    /// blank.
    ///
    /// # Errors
    ///
    /// Any error of `out`. The text is written in small pieces: pass a buffered writer.
    pub fn write_paje(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(HEADER.as_bytes())?;
        out.write_all(TYPES.as_bytes())?;
        let mut states: HashMap<&str, usize> = HashMap::new();
        for codelet in self.report().codelets {
            let number = states.len();
            writeln!(out, "6 c{number} S {} {}", Quoted(codelet.name), Colour(number))?;
            states.insert(codelet.name, number);
        }
        for (number, reason) in TransferReason::ALL.iter().enumerate() {
            writeln!(out, "6 m{number} M {} {}", Quoted(reason.name()), Colour(number))?;
            writeln!(out, "6 a{number} A {} {}", Quoted(reason.name()), Colour(number))?;
        }
        let phases = self.phase_spans();
        for (number, phase) in phases.iter().enumerate() {
            writeln!(out, "6 f{number} F {} {}", Quoted(phase.name), Colour(number))?;
        }
        let (start, end) = extent(self);
        let (tracks, nodes) = (self.tracks(), self.memory_nodes());
        // Readers warn about comments, so data without an event of its own are in the name.
        let lost = if self.lost > 0 { format!(", {} records lost", self.lost) } else { String::new() };
        let name = format!("zellige {}{lost}", self.policy);
        writeln!(out, "7 {} program P 0 {}", Millis(start), Quoted(name.trim_end()))?;
        for track in &tracks {
            let worker = track.worker;
            writeln!(out, "7 {} w{worker} W program {}", Millis(start), Quoted(&track.name))?;
            writeln!(out, "10 {} S w{worker} I", Millis(start))?;
        }
        for (place, node) in nodes.iter().enumerate() {
            writeln!(out, "7 {} n{place} N program {}", Millis(start), Quoted(&node.name))?;
        }
        let mut steps = self.worker_steps(&tracks, (start, end));
        let lanes = self.link_steps(&nodes, &mut steps);
        for (lane, name) in lanes.iter().enumerate() {
            writeln!(out, "7 {} l{lane} L program {}", Millis(start), Quoted(name))?;
        }
        let alone = |time, what| Step { time, rank: 1, what };
        steps.extend(self.memory.iter().map(|event| alone(event.at_ns, PajeEvent::Memory(event))));
        steps.extend(
            self.evictions.iter().map(|eviction| alone(eviction.at_ns, PajeEvent::Eviction(eviction))),
        );
        steps.extend(
            phases.iter().enumerate().map(|(number, phase)| alone(phase.start, PajeEvent::Phase(number))),
        );
        steps.sort_by_key(|step| (step.time, step.rank));
        steps.iter().try_for_each(|step| write_step(out, step, &states, &nodes))?;
        for track in &tracks {
            writeln!(out, "8 {} W w{}", Millis(end), track.worker)?;
        }
        for place in 0..nodes.len() {
            writeln!(out, "8 {} N n{place}", Millis(end))?;
        }
        for lane in 0..lanes.len() {
            writeln!(out, "8 {} L l{lane}", Millis(end))?;
        }
        writeln!(out, "8 {} P program", Millis(end))
    }

    /// Returns the steps per track in the order in which bodies open and close, and the idle
    /// periods between them.
    fn worker_steps(&self, tracks: &[Track], window: (u64, u64)) -> Vec<Step<'_>> {
        let mut steps = Vec::with_capacity(2 * (self.tasks.len() + self.transfers.len() + self.idle.len()));
        for (track, rests) in tracks.iter().zip(self.rests(tracks, window)) {
            let worker = track.worker;
            let mut step = |time, rank, what| steps.push(Step { time, rank, what });
            let mut open: Vec<(u64, &TaskEvent)> = Vec::new();
            for slice in &track.slices {
                for (end, task) in open.drain(slice.depth..).rev() {
                    step(end, 1, PajeEvent::BodyEnds(worker, task));
                }
                let task = &self.tasks[slice.task];
                step(slice.start, 1, PajeEvent::BodyBegins(worker, task));
                open.push((slice.end, task));
            }
            open.iter().rev().for_each(|&(end, task)| step(end, 1, PajeEvent::BodyEnds(worker, task)));
            for rest in rests {
                step(rest.start, 2, PajeEvent::RestBegins(worker, rest.state));
                step(rest.end, 0, PajeEvent::RestEnds(worker));
            }
        }
        steps
    }

    /// Adds the transfers, lane by lane, and returns the lanes' names.
    fn link_steps<'t>(&'t self, nodes: &[Node], steps: &mut Vec<Step<'t>>) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for link in self.links() {
            let first = names.len();
            let name = link_name(nodes, &link, "->");
            for lane in 1..=link.lanes {
                let lane = if lane > 1 { format!(" ({lane})") } else { String::new() };
                names.push(format!("{name}{lane}"));
            }
            for slice in &link.slices {
                let (lane, key) = (first + slice.lane, slice.transfer);
                let transfer = &self.transfers[key];
                steps.push(Step {
                    time: slice.start,
                    rank: 1,
                    what: PajeEvent::TransferBegins(lane, key, transfer),
                });
                steps.push(Step {
                    time: slice.end,
                    rank: 1,
                    what: PajeEvent::TransferEnds(lane, key, transfer),
                });
            }
        }
        names
    }
}

fn write_step(
    out: &mut impl Write,
    step: &Step<'_>,
    states: &HashMap<&str, usize>,
    nodes: &[Node],
) -> io::Result<()> {
    let time = Millis(step.time);
    match step.what {
        PajeEvent::Phase(number) => writeln!(out, "10 {time} F program f{number}"),
        PajeEvent::BodyBegins(worker, task) => push_state(out, step.time, worker, states[task.name], task),
        PajeEvent::BodyEnds(worker, task) => {
            writeln!(out, "12 {time} S w{worker}\n13 {time} ready program {}", task.ready)
        }
        PajeEvent::RestBegins(worker, state) => writeln!(out, "11 {time} S w{worker} i{}", state as usize),
        PajeEvent::RestEnds(worker) => writeln!(out, "12 {time} S w{worker}"),
        PajeEvent::TransferBegins(lane, key, transfer) => {
            let (reason, from) = (transfer.reason as usize, place(nodes, transfer.from));
            write!(out, "21 {time} M l{lane} m{reason} {} {} ", transfer.bytes, Quoted(transfer.label))?;
            writeln!(out, "{} {}", transfer.data, u8::from(transfer.converted))?;
            if transfer.from == transfer.to {
                return Ok(());
            }
            writeln!(out, "18 {time} A program a{reason} n{from} {key}")
        }
        PajeEvent::TransferEnds(lane, key, transfer) => {
            let (reason, to) = (transfer.reason as usize, place(nodes, transfer.to));
            writeln!(out, "12 {time} M l{lane}")?;
            if transfer.from == transfer.to {
                return Ok(());
            }
            writeln!(out, "19 {time} A program a{reason} n{to} {key}")
        }
        PajeEvent::Memory(event) => {
            writeln!(out, "13 {time} used n{} {}", place(nodes, event.node), event.used)
        }
        PajeEvent::Eviction(eviction) => writeln!(out, "9 {time} E n{} evict", place(nodes, eviction.node)),
    }
}

fn push_state(
    out: &mut impl Write,
    time: u64,
    worker: u32,
    state: usize,
    task: &TaskEvent,
) -> io::Result<()> {
    let [x, y, iteration] = task.coords.unwrap_or([u32::MAX; 3]).map(|value| match value {
        u32::MAX => -1,
        value => i64::from(value),
    });
    let gflop = if task.flops.is_finite() { task.flops / 1e9 } else { 0.0 };
    write!(out, "20 {} S w{worker} c{state} {} ", Millis(time), task.bytes)?;
    write!(out, "{} {} {} {gflop:.9} ", Quoted(task.label), task.id, task.priority)?;
    writeln!(
        out,
        "{x} {y} {iteration} {} {} {} {}",
        u8::from(task.failed),
        Millis(task.predicted_ns),
        Quoted(task.implementation),
        task.batch
    )
}

/// A colour of the palette in Paje's syntax.
struct Colour(usize);

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [r, g, b] = PALETTE[self.0 % PALETTE.len()].map(|part| f64::from(part) / 255.0);
        write!(f, "\"{r:.3} {g:.3} {b:.3}\"")
    }
}

/// A string in Paje's syntax: in quotes, on one line, never empty.
struct Quoted<'t>(&'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("\"-\"");
        }
        f.write_str("\"")?;
        for character in self.0.chars() {
            let shown = match character {
                '"' => '\'',
                // Also the line ends that are not control characters.
                c if c.is_control() || c == '\u{2028}' || c == '\u{2029}' => ' ',
                c => c,
            };
            write!(f, "{shown}")?;
        }
        f.write_str("\"")
    }
}

/// Nanoseconds, shown as milliseconds without rounding.
struct Millis(u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests;
