//! Placeholder.
use crate::programs;
use zellige_stochastic::*;
#[test]
fn table() {
    for seed in 1..=20 {
        for (name, kind, run) in programs::all::<Three>() {
            let scope = Scope::with(seed, Perturbation::Random, Categories::CADNA);
            let mut out = programs::Results::default();
            scope.run(|| run(&mut out));
            let counts: Vec<String> =
                Category::ALL.iter().map(|&c| scope.report().count(c).to_string()).collect();
            let list: Vec<String> = out
                .0
                .iter()
                .map(|(n, e)| match e {
                    programs::Entry::Integer(i) => format!("{n:?}: [\"i\", {i}]"),
                    programs::Entry::Number { digits, zero, .. } => {
                        format!("{n:?}: [\"d\", {digits}, {zero}]")
                    }
                })
                .collect();
            println!(
                "JSON{{\"program\":\"{name}\",\"type\":\"{kind}\",\"seed\":{seed},\"results\":{{{}}},\"counts\":[{}]}}",
                list.join(","),
                counts.join(",")
            );
        }
    }
}
