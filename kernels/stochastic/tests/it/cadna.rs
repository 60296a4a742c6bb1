//! The classical programs with three samples beside CADNA.
//!
//! `cadna.json` has what CADNA 3.1.12 (cadnaPromise 0.4.1 of PyPI, `scripts/cadna`) finds with 400
//! seeds: for each program and type the digits that at least 2 % of the seeds have, and for each
//! category the least and largest count.

use std::collections::BTreeMap;

use serde::Deserialize;
use zellige_stochastic::{Categories, Category, Eight, Perturbation, Scope, Sixteen, Three};

use crate::programs::{Entry, Results, all, chance, quadratic};

#[derive(Deserialize)]
struct Reference {
    program: String,
    #[serde(rename = "type")]
    kind: String,
    digits: BTreeMap<String, [u32; 2]>,
    instabilities: BTreeMap<Category, [u64; 2]>,
}

/// Seeds of ours for each program.
const SEEDS: u64 = 20;

/// Digits that differ by more than one, for a reason that is CADNA's.
const OTHER_DIGITS: [(&str, &str); 5] = [
    // CADNA rounds functions to nearest and does not perturb them.
    ("functions", "exp(log(x)) - x"),
    ("functions", "pow(x, 2) - x x"),
    // Its generator repeats after some thousand operations: errors of a long sum drift.
    ("harmonic_long", "upwards"),
    ("harmonic_long", "downwards"),
    ("harmonic_long", "difference"),
];

/// Categories that differ, for a reason that is CADNA's.
const OTHER_CATEGORIES: [(&str, Category); 1] = [
    // Samples stay in one band of the attractor, a third of their mean apart: a number with a
    // positive estimate of digits, which CADNA takes from the binary exponent of the variance
    // alone.
    ("logistic_slow", Category::Multiplication),
];

#[test]
fn digits_and_categories_are_those_of_cadna() {
    let references: Vec<Reference> = serde_json::from_str(include_str!("cadna.json")).expect("references");
    let programs = all::<Three>();
    assert_eq!(programs.len(), references.len());
    let mut wrong = Vec::new();
    for (name, kind, run) in programs {
        let reference = references.iter().find(|r| r.program == name && r.kind == kind).expect("a reference");
        let mut digits: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        let mut counts: BTreeMap<Category, u64> = BTreeMap::new();
        for seed in 0..SEEDS {
            let scope = Scope::with(seed, Perturbation::Random, Categories::CADNA);
            let mut results = Results::default();
            scope.run(|| run(&mut results));
            for (result, entry) in results.0 {
                if let Entry::Number { digits: found, .. } = entry {
                    digits.entry(result).or_default().push(found);
                }
            }
            let report = scope.report();
            Category::ALL.iter().for_each(|&c| *counts.entry(c).or_default() += report.count(c));
        }
        for (result, mut found) in digits {
            let Some(&[least, most]) = reference.digits.get(&result) else { continue };
            found.sort_unstable();
            // Of twenty seeds, one at each end may agree by chance.
            let (low, high) = (found[1], found[found.len() - 2]);
            if (low + 1 < least || high > most + 1) && !OTHER_DIGITS.contains(&(name, &result)) {
                wrong.push(format!(
                    "{name} {kind}, {result}: {low} to {high} digits, CADNA {least} to {most}"
                ));
            }
        }
        for (category, count) in counts {
            let range = reference.instabilities.get(&category).copied().unwrap_or([0, 0]);
            let differs = count == 0 && range[0] > 0 || count > 0 && range[1] == 0;
            if differs && !OTHER_CATEGORIES.contains(&(name, category)) {
                wrong.push(format!(
                    "{name} {kind}: {count} {} in {SEEDS} runs, CADNA {range:?} in one",
                    category.name()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs of 4000 seeds that show more than two digits too many of a result that is `truth`.
fn too_many(result: &str, truth: f64, run: fn(&mut Results)) -> usize {
    (0..4000)
        .filter(|&seed| {
            let mut results = Results::default();
            Scope::with(seed, Perturbation::Random, Categories::NONE).run(|| run(&mut results));
            let (_, entry) = results.0.iter().find(|(name, _)| name == result).expect("the result");
            let Entry::Number { digits, mean, .. } = entry else { panic!("{result} is a number") };
            let right = -((mean - truth) / truth).abs().log10();
            f64::from(*digits) > right.max(0.0) + 2.0
        })
        .count()
}

/// Roundings that undo each other leave equal wrong samples: of three in a fifth of all runs, of
/// eight and sixteen as rarely as independent samples agree.
#[test]
fn eight_samples_rarely_agree_on_a_wrong_number() {
    // Exact results with the literals as f32 holds them: b^2 - 4 a c, and 100/3 - 33.3333.
    let [a, b, c, d] = [0.3f32, -2.1, 3.675, 33.3333].map(f64::from);
    let discriminant = b.mul_add(b, -4.0 * a * c);
    let difference = 100.0 / 3.0 - d;
    for (result, truth, programs) in [
        (
            "100 (1/3) - 33.3333",
            difference,
            [chance::<f32, Three>, chance::<f32, Eight>, chance::<f32, Sixteen>] as [fn(&mut Results); 3],
        ),
        ("d", discriminant, [quadratic::<f32, Three>, quadratic::<f32, Eight>, quadratic::<f32, Sixteen>]),
    ] {
        let three = too_many(result, truth, programs[0]);
        let eight = too_many(result, truth, programs[1]);
        let sixteen = too_many(result, truth, programs[2]);
        println!(
            "{result}: more than two digits too many in {three}, {eight}, {sixteen} of 4000 seeds with 3, 8, 16 samples"
        );
        assert!(three > 400 && eight <= 40 && sixteen <= 1, "{result}: {three} {eight} {sixteen}");
    }
}
