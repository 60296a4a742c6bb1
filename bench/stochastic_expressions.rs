//! Digits of random expressions beside those of CADNA: one line for each expression in which the
//! medians over seeds differ by more than one digit, then the shares.
//!
//! `cargo run --release -p zellige-bench --example stochastic_expressions -- FILE LINES`, the
//! expressions and what `peers/cadna_expressions.cpp` prints for them.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use zellige_stochastic::{Categories, Perturbation, Sample, Scope, Stochastic, Three};

type Error = Box<dyn std::error::Error>;

/// A line of CADNA.
#[derive(Deserialize)]
struct Line {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    digits: Vec<u32>,
    instabilities: BTreeMap<String, [u64; 2]>,
}

/// Rounding of a square root.
#[derive(Clone, Copy)]
enum Root {
    /// Up or down at random.
    Random,
    /// To nearest, as in CADNA.
    Nearest,
}

/// Evaluates an expression in postfix notation; `None` if it is none.
fn value<T: Sample>(words: &[&str], root: Root) -> Option<Stochastic<T, Three>> {
    let mut stack: Vec<Stochastic<T, Three>> = Vec::new();
    for &word in words {
        let next = match word {
            "+" | "-" | "*" | "/" => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                match word {
                    "+" => a + b,
                    "-" => a - b,
                    "*" => a * b,
                    _ => a / b,
                }
            }
            "sqrt" => match root {
                Root::Random => stack.pop()?.sqrt(),
                Root::Nearest => stack.pop()?.map(|x| T::from_f64(x.to_f64().sqrt())),
            },
            "abs" => stack.pop()?.abs(),
            number => Stochastic::new(T::from_f64(number.parse().ok()?)),
        };
        stack.push(next);
    }
    stack.pop().filter(|_| stack.is_empty())
}

/// Digits by seed, and whether a category was counted that CADNA has too, but for cancellation.
fn digits<T: Sample>(words: &[&str], root: Root, seeds: usize) -> Option<(Vec<u32>, bool)> {
    let mut unstable = false;
    let one = |seed| {
        let watched = Categories::CADNA.without(zellige_stochastic::Category::Cancellation);
        let scope = Scope::with(seed as u64, Perturbation::Random, watched);
        let found = scope.run(|| value::<T>(words, root));
        unstable |= !scope.report().is_empty();
        found.map(|number| number.digits())
    };
    let digits = (0..seeds).map(one).collect::<Option<Vec<u32>>>()?;
    Some((digits, unstable))
}

/// Twice the median.
fn median(digits: &[u32]) -> u32 {
    let mut sorted = digits.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]
}

fn agree(a: &[u32], b: &[u32]) -> bool {
    median(a).abs_diff(median(b)) <= 2
}

/// Pairs of digits, and those of them that differ by one at most.
#[derive(Default)]
struct Pairs {
    all: usize,
    near: usize,
}

impl Pairs {
    fn add(&mut self, pairs: impl Iterator<Item = (u32, u32)>) {
        for (a, b) in pairs {
            self.all += 1;
            self.near += usize::from(a.abs_diff(b) <= 1);
        }
    }

    fn print(&self, what: &str) {
        println!("{:.2} % of {} {what}", 100.0 * self.near as f64 / self.all as f64, self.all);
    }
}

/// The reason of another median.
fn reason(ours: &[u32], nearest: &[u32], cadna: &Line, unstable: bool) -> &'static str {
    let extent = |digits: &[u32]| (digits.iter().copied().min(), digits.iter().copied().max());
    let ((low, high), (least, most)) = (extent(ours), extent(&cadna.digits));
    if agree(nearest, &cadna.digits) {
        "CADNA does not perturb square roots"
    } else if unstable || cadna.instabilities.keys().any(|name| name != "cancellation") {
        "an operation on numbers without an exact digit"
    } else if low <= most && least <= high {
        "digits vary from seed to seed"
    } else {
        "another one"
    }
}

/// Shares of one type of numbers.
#[derive(Default)]
struct Shares {
    medians: Pairs,
    seeds: Pairs,
    of_cadna: Pairs,
    reasons: BTreeMap<&'static str, usize>,
}

impl Shares {
    fn add<T: Sample>(&mut self, words: &[&str], line: &Line) -> Result<(), Error> {
        let of = |root| digits::<T>(words, root, line.digits.len()).ok_or("no expression");
        let (ours, unstable) = of(Root::Random)?;
        self.seeds.add(ours.iter().copied().zip(line.digits.iter().copied()));
        self.of_cadna.add(line.digits.iter().copied().zip(line.digits.iter().skip(1).copied()));
        let near = agree(&ours, &line.digits);
        self.medians.all += 1;
        self.medians.near += usize::from(near);
        if !near {
            let reason = reason(&ours, &of(Root::Nearest)?.0, line, unstable);
            *self.reasons.entry(reason).or_default() += 1;
            let Line { id, kind, digits, .. } = line;
            println!("{id} in {kind}: {ours:?}, CADNA {digits:?}: {reason}\n    {}", words.join(" "));
        }
        Ok(())
    }

    fn print(&self, kind: &str) {
        println!("\nwithin one digit, {kind}:");
        self.medians.print("medians over seeds");
        self.seeds.print("single seeds of ours beside single seeds of CADNA");
        self.of_cadna.print("single seeds of CADNA beside the next");
        for (reason, count) in &self.reasons {
            println!("{count} others: {reason}");
        }
    }
}

fn main() -> Result<(), Error> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [file, lines] = &names[..] else { return Err("usage: stochastic_expressions FILE LINES".into()) };
    let (file, lines) = (fs::read_to_string(file)?, fs::read_to_string(lines)?);
    let mut expressions = BTreeMap::new();
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, _, expression @ ..] = &words[..] else {
            return Err(format!("no expression: {line}").into());
        };
        expressions.insert(*id, expression.to_vec());
    }
    let (mut single, mut double) = (Shares::default(), Shares::default());
    for line in lines.lines() {
        let line: Line = serde_json::from_str(line)?;
        let words = expressions.get(line.id.as_str()).ok_or_else(|| format!("no expression {}", line.id))?;
        match line.kind.as_str() {
            "f32" => single.add::<f32>(words, &line)?,
            _ => double.add::<f64>(words, &line)?,
        }
    }
    single.print("f32");
    double.print("f64");
    Ok(())
}
