//! The Paje format, which ViTE, PajeNG and StarVZ's readers open.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

use super::tracks::{PALETTE, span};
use super::{TaskEvent, Trace};

/// The self-describing part: every event's fields in order. Numbers are those that StarPU's traces use.
const HEADER: &str = "\
%EventDef PajeDefineContainerType 1
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
%EventDef PajeSetState 10
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
%EndEventDef
";

impl Trace {
    /// Writes the run in the Paje format: a program, its workers, one state per codelet, the number of ready tasks.
    ///
    /// Times are milliseconds since the runtime's start, to the nanosecond. A body inside another one is a pushed state. A
    /// task's state carries `Size` (bytes of its operands), `Params` (its label), `JobId`, `Priority`, `GFlop` (operations
    /// / 1e9), `X`, `Y`, `Iteration` (its coordinates; -1: unused) and `Failed`. The format has no way to write a double
    /// quote or a line end: they become `'` and a blank.
    ///
    /// # Errors
    ///
    /// What `out` answers. The text is written in small pieces: hand in a buffered writer.
    pub fn write_paje(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(HEADER.as_bytes())?;
        writeln!(out, "# policy {}, {} records lost", Quoted(&self.policy), self.lost)?;
        out.write_all(
            b"1 P 0 \"Program\"\n1 W P \"Worker\"\n3 S W \"Worker state\"\n\
              4 ready P \"Ready tasks\" \"0.2 0.2 0.2\"\n6 I S \"Idle\" \"0.93 0.93 0.93\"\n",
        )?;
        let mut states: HashMap<&str, usize> = HashMap::new();
        for codelet in self.report().codelets {
            let number = states.len();
            let [r, g, b] = PALETTE[number % PALETTE.len()].map(|part| f64::from(part) / 255.0);
            writeln!(out, "6 c{number} S {} \"{r:.3} {g:.3} {b:.3}\"", Quoted(codelet.name))?;
            states.insert(codelet.name, number);
        }
        let (start, end) = span(self);
        let tracks = self.tracks();
        writeln!(out, "7 {} program P 0 \"zellige\"", Millis(start))?;
        for track in &tracks {
            let worker = track.worker;
            writeln!(out, "7 {} w{worker} W program {}", Millis(start), Quoted(&track.name))?;
            writeln!(out, "10 {} S w{worker} I", Millis(start))?;
        }
        // Per track in the order in which bodies open and close; then by time, which keeps that order.
        let mut steps: Vec<(u64, u32, &TaskEvent, bool)> = Vec::with_capacity(2 * self.tasks.len());
        for track in &tracks {
            let mut open: Vec<(u64, &TaskEvent)> = Vec::new();
            for slice in &track.slices {
                for (end, task) in open.drain(slice.depth..).rev() {
                    steps.push((end, track.worker, task, false));
                }
                let task = &self.tasks[slice.task];
                steps.push((slice.start, track.worker, task, true));
                open.push((slice.end, task));
            }
            steps.extend(open.iter().rev().map(|&(end, task)| (end, track.worker, task, false)));
        }
        steps.sort_by_key(|step| step.0);
        for (time, worker, task, opens) in steps {
            if opens {
                push_state(out, time, worker, states[task.name], task)?;
            } else {
                writeln!(out, "12 {} S w{worker}", Millis(time))?;
                writeln!(out, "13 {} ready program {}", Millis(time), task.ready)?;
            }
        }
        for track in &tracks {
            writeln!(out, "8 {} W w{}", Millis(end), track.worker)?;
        }
        writeln!(out, "8 {} P program", Millis(end))
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
    writeln!(out, "{x} {y} {iteration} {}", u8::from(task.failed))
}

/// A string as Paje has it: in quotes, on one line, never empty.
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
                // Also the line ends that are no control characters.
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
