//! Every line fits the header, and every event is present.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use crate::Trace;
use crate::samples::{diamond, event, gpu, phase, traces};

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
    let text = text(&Trace { phases: vec![phase("factor", 0), phase("solve", 45)], ..diamond() });
    for line in [
        "6 f1 F \"solve\" \"0.902 0.624 0.000\"",
        "10 0.005000 F program f0",
        "10 0.045000 F program f1",
        "7 0.005000 program P 0 \"zellige lws\"",
        "7 0.005000 w1 W program \"cpu 1\"",
        "6 c0 S \"trsm\" \"0.000 0.447 0.698\"",
        "10 0.005000 S w0 I",
        "20 0.015000 S w1 c0 64 \"f32\" 3 -1 0.000002000 3 0 -1 0 0.000000 \"-\" 0",
        "12 0.045000 S w1",
        "13 0.045000 ready program 3",
        "8 0.055000 P program",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_gpus_lines() {
    let text = text(&gpu());
    for line in [
        "7 0.005000 n1 N program \"gpu 0\"",
        "7 0.005000 l1 L program \"host -> gpu 0 (2)\"",
        "7 0.005000 l2 L program \"gpu 0 -> host\"",
        "11 0.005000 S w1 i2",
        "12 0.015000 S w1",
        "20 0.015000 S w1 c0 64 \"f32\" 3 -1 0.000002000 3 0 -1 0 0.025000 \"-\" 0",
        "6 m2 M \"prefetch\" \"0.000 0.620 0.451\"",
        "21 0.008000 M l1 m2 32 \"f16\" 8 1",
        "18 0.008000 A program a2 n0 1",
        "19 0.014000 A program a2 n1 1",
        "12 0.014000 M l1",
        "13 0.008000 used n1 96",
        "9 0.050000 E n1 evict",
        "8 0.055000 N n1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let ends = text.lines().position(|line| line == "12 0.015000 S w1");
    assert!(ends < text.lines().position(|line| line.starts_with("20 0.015000 S w1")));
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
        let mut pushes: HashMap<String, usize> = HashMap::new();
        let mut resting: HashSet<String> = HashSet::new();
        let mut arrows: HashMap<String, bool> = HashMap::new();
        for line in text.split('\n').filter(|line| !line.is_empty() && !line.starts_with('%')) {
            let fields = fields(line);
            let (name, count) = &events[&fields[0]];
            prop_assert_eq!(fields.len() - 1, *count, "{}", line);
            prop_assert!(fields.iter().all(|field| !field.is_empty()), "{}", line);
            if name.starts_with("PajeDefine") {
                prop_assert!(known.insert(fields[1].clone()), "{}", line);
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
                    prop_assert!(known.contains(&fields[3]) && known.contains(&fields[4]), "{}", line);
                    let depth = depth.entry(fields[3].clone()).or_default();
                    *depth += 1;
                    // Idle periods and transfers stand alone; bodies may be inside one another,
                    // never inside an idle period.
                    prop_assert!(fields[0] == "20" || *depth == 1, "{}", line);
                    if fields[0] == "11" {
                        resting.insert(fields[3].clone());
                    }
                    prop_assert!(fields[0] != "20" || !resting.contains(&fields[3]), "{}", line);
                    *pushes.entry(fields[0].clone()).or_default() += 1;
                }
                "PajePopState" => {
                    resting.remove(&fields[3]);
                    let depth = depth.get_mut(&fields[3]).unwrap();
                    *depth -= 1;
                    prop_assert!(*depth >= 0);
                }
                "PajeStartLink" => {
                    prop_assert!(known.contains(&fields[4]) && known.contains(&fields[5]), "{}", line);
                    prop_assert!(arrows.insert(fields[6].clone(), false).is_none());
                }
                "PajeEndLink" => {
                    prop_assert!(known.contains(&fields[4]) && known.contains(&fields[5]), "{}", line);
                    prop_assert_eq!(arrows.insert(fields[6].clone(), true), Some(false), "{}", line);
                }
                _ => prop_assert!(known.contains(&fields[3])),
            }
        }
        prop_assert_eq!(pushes.get("20").copied().unwrap_or(0), trace.tasks.len());
        prop_assert_eq!(pushes.get("21").copied().unwrap_or(0), trace.transfers.len());
        prop_assert_eq!(arrows.len(), trace.transfers.iter().filter(|t| t.from != t.to).count());
        prop_assert!(arrows.values().all(|&ended| ended));
        prop_assert!(depth.values().all(|&depth| depth == 0));
    }
}
