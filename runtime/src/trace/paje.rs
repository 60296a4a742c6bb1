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
        // Readers warn about comments, so what has no event of its own is in the name.
        let lost = if self.lost > 0 { format!(", {} records lost", self.lost) } else { String::new() };
        let name = format!("zellige {}{lost}", self.policy);
        writeln!(out, "7 {} program P 0 {}", Millis(start), Quoted(name.trim_end()))?;
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

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use crate::trace::Trace;
    use crate::trace::samples::{diamond, event, traces};

    fn text(trace: &Trace) -> String {
        let mut text = Vec::new();
        trace.write_paje(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// A line's fields: words, or anything between double quotes.
    fn fields(line: &str) -> Vec<String> {
        let mut fields = Vec::new();
        let mut rest = line.trim_start();
        while !rest.is_empty() {
            let (field, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').expect("a closing quote"),
                None => rest.split_once(' ').unwrap_or((rest, "")),
            };
            fields.push(field.to_string());
            rest = after.trim_start();
        }
        fields
    }

    /// Each event's number with its name and its count of fields.
    fn header(text: &str) -> HashMap<String, (String, usize)> {
        let mut events = HashMap::new();
        let mut open: Option<(String, String, usize)> = None;
        for line in text.lines().filter(|line| line.starts_with('%')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["%EventDef", name, number] => open = Some((number.into(), name.into(), 0)),
                ["%EndEventDef"] => {
                    let (number, name, count) = open.take().unwrap();
                    assert!(events.insert(number, (name, count)).is_none());
                }
                ["%", _, "string" | "date" | "double" | "color"] => open.as_mut().unwrap().2 += 1,
                _ => panic!("not a header line: {line}"),
            }
        }
        events
    }

    #[test]
    fn the_diamonds_lines() {
        let text = text(&diamond());
        for line in [
            "7 0.005000 program P 0 \"zellige lws\"",
            "7 0.005000 w1 W program \"cpu 1\"",
            "6 c0 S \"trsm\" \"0.000 0.447 0.698\"",
            "10 0.005000 S w0 I",
            "20 0.015000 S w1 c0 64 \"f32\" 3 -1 0.000002000 3 0 -1 0",
            "12 0.045000 S w1",
            "13 0.045000 ready program 3",
            "8 0.055000 P program",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_body_inside_another_one_is_popped_first() {
        let mut trace = diamond();
        trace.tasks.push(event(1, 5, "inner", 20, 30));
        let text = text(&trace);
        let steps: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("20 ") || line.starts_with("12 "))
            .filter(|line| line.contains(" w1"))
            .map(|line| line.split(' ').nth(1).unwrap())
            .collect();
        assert_eq!(steps, ["0.015000", "0.020000", "0.030000", "0.045000"]);
    }

    proptest! {
        #[test]
        fn any_traces_lines_fit_the_header(trace in traces()) {
            let text = text(&trace);
            let events = header(&text);
            let mut time = 0.0;
            let mut depth: HashMap<String, i64> = HashMap::new();
            let mut known: HashSet<String> = HashSet::from(["0".to_string()]);
            let mut pushes = 0;
            for line in text.split('\n').filter(|line| !line.is_empty() && !line.starts_with('%')) {
                let fields = fields(line);
                let (name, count) = &events[&fields[0]];
                prop_assert_eq!(fields.len() - 1, *count, "{}", line);
                prop_assert!(fields.iter().all(|field| !field.is_empty()), "{}", line);
                if name.starts_with("PajeDefine") {
                    known.insert(fields[1].clone());
                    prop_assert!(known.contains(&fields[2]), "{}", line);
                    continue;
                }
                let now: f64 = fields[1].parse().unwrap();
                prop_assert!(now >= time, "{}", line);
                time = now;
                match name.as_str() {
                    "PajeCreateContainer" => {
                        prop_assert!(known.contains(&fields[3]) && known.contains(&fields[4]));
                        known.insert(fields[2].clone());
                    }
                    "PajePushState" => {
                        prop_assert!(known.contains(&fields[3]) && known.contains(&fields[4]));
                        *depth.entry(fields[3].clone()).or_default() += 1;
                        pushes += 1;
                    }
                    "PajePopState" => {
                        let depth = depth.get_mut(&fields[3]).unwrap();
                        *depth -= 1;
                        prop_assert!(*depth >= 0);
                    }
                    _ => prop_assert!(known.contains(&fields[3])),
                }
            }
            prop_assert_eq!(pushes, trace.tasks.len());
            prop_assert!(depth.values().all(|&depth| depth == 0));
        }
    }
}
