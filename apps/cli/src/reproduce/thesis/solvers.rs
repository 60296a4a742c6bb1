//! Chapter 3, section 5: Krylov methods whose products are uniform or adaptive, within refinement.

use zellige_solve::pipeline;
use zellige_solve::pipeline::results::Solved;
use zellige_sparse::Csr;
use zellige_sparse::generate::{Elasticity, Elements, elasticity};
use zellige_sparse::krylov::Stop;
use zellige_sparse::system::{MethodChoice, Options, PreconditionerChoice, ScalingChoice, System};

use super::super::Context;
use super::super::found::Found;
use super::products::{NamedMatrix, matrix};

/// Target residual of all solves.
const TOLERANCE: f64 = 1e-12;
/// Command that makes the matrix of Figures 3.8 and 3.9.
const GENERATE: &str = "zellige matrix generate elasticity --size 5 --spread 1 -o rough.mtx";
/// Most steps of the figures and of the tables, at their small sizes.
const MOST_STEPS: [usize; 2] = [3000, 600];

/// Solves a system with the right-hand side of ones, as the thesis does: scaled rows, no
/// preconditioner.
fn solve(
    context: &Context<'_>,
    a: &Csr,
    method: &str,
    products: &str,
    most: usize,
) -> anyhow::Result<Solved> {
    let method: MethodChoice = method.parse()?;
    let steps = if context.full { 4000 } else { most };
    let options = Options {
        method,
        preconditioner: PreconditionerChoice::None,
        inner: products.parse()?,
        // Scaled rows alone lose the symmetry that conjugate gradients need.
        scaling: if method == MethodChoice::Cg { ScalingChoice::Both } else { ScalingChoice::Rows },
        stop: vec![Stop::RelativeToRhs(TOLERANCE), Stop::Steps(steps)],
        ..Options::default()
    };
    let system = System::new(context.runtime, a, &options)?;
    let (_, mut solved) = pipeline::solve(&system, &[vec![1.0; a.rows()]], None, |_| {})?;
    solved.pop().ok_or_else(|| anyhow::anyhow!("one right-hand side has one answer"))
}

/// Returns the bytes of the products' matrix in percent of one in FP32.
fn cost(solved: &Solved, single: &Solved) -> f64 {
    100.0 * solved.answer.bytes.inner as f64 / single.answer.bytes.inner.max(1) as f64
}

/// Returns the residual after each step, relative to the right-hand side of ones.
fn residuals(solved: &Solved, rows: usize) -> impl Iterator<Item = (f64, f64)> {
    let norm = (rows as f64).sqrt();
    solved.history.steps.iter().enumerate().map(move |(step, residual)| (step as f64 + 1.0, residual / norm))
}

/// Solves with each kind of products and collects steps, costs and curves.
fn compare(
    context: &Context<'_>,
    named: &NamedMatrix,
    kinds: &[&str],
    found: &mut Found,
) -> anyhow::Result<Vec<Solved>> {
    let single = solve(context, &named.a, "gmres:80", "fp32", MOST_STEPS[0])?;
    let mut all = Vec::new();
    for &kind in kinds {
        let solved = solve(context, &named.a, "gmres:80", kind, MOST_STEPS[0])?;
        found.value(kind, "steps", solved.answer.solution.steps as f64);
        found.value(kind, "% of an FP32 product's bytes", cost(&solved, &single));
        found.value(kind, "backward error", solved.answer.backward_error);
        found.curve(kind, residuals(&solved, named.a.rows()));
        found.command(format!(
            "zellige solve {}.mtx --method gmres:80 --precond none --scale rows --tol 1e-12 --operator {kind} --csv {}.csv",
            named.name,
            kind.replace(':', "-")
        ));
        all.push(solved);
    }
    Ok(all)
}

/// Generates a matrix that shows what low precision costs: elasticity whose stiffness varies by
/// more than a decade, with 5 elements along each axis.
fn rough(context: &Context<'_>) -> anyhow::Result<NamedMatrix> {
    let elements = Elements([if context.full { 40 } else { 5 }; 3]);
    let a = elasticity(&Elasticity { elements, spread: 1.0, ..Elasticity::default() })?;
    Ok(NamedMatrix { name: "rough", a })
}

fn steps(solved: &Solved) -> usize {
    solved.answer.solution.steps
}

/// Solves with targets between those of FP32 and of bfloat16.
pub fn targets(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let named = rough(context)?;
    found.command(GENERATE);
    let kinds = ["fp32", "rp16", "ap7:cw:2^-24", "ap7:cw:2^-20", "ap7:cw:2^-16"];
    let all = compare(context, &named, &kinds, &mut found)?;
    let [single, narrow, close, _, coarse] = &all[..] else { return Ok(found) };
    found.judge(
        "bfloat16 converges much more slowly than FP32",
        narrow.answer.backward_error > 10.0 * single.answer.backward_error
            || steps(narrow) as f64 > 1.2 * steps(single) as f64,
        format!(
            "{} and {} steps, errors {:.0e} and {:.0e}",
            steps(narrow),
            steps(single),
            narrow.answer.backward_error,
            single.answer.backward_error
        ),
    );
    found.judge(
        "at 2^-24 steps are about those of FP32, for fewer bytes",
        (steps(close) as f64) < 1.2 * steps(single) as f64 && cost(close, single) < 100.0,
        format!("{} and {} steps, {:.0} % of the bytes", steps(close), steps(single), cost(close, single)),
    );
    found.judge(
        "at 2^-16 products cost less, and steps are more",
        cost(coarse, single) < cost(close, single) && steps(coarse) > steps(close),
        format!("{} steps, {:.0} % of the bytes", steps(coarse), cost(coarse, single)),
    );
    Ok(found)
}

/// Solves with both criteria.
pub fn criteria(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let named = rough(context)?;
    found.command(GENERATE);
    let kinds = [
        "fp32",
        "ap7:cw:2^-24",
        "ap7:nw:2^-24",
        "ap7:cw:2^-20",
        "ap7:nw:2^-20",
        "ap7:cw:2^-16",
        "ap7:nw:2^-16",
    ];
    let all = compare(context, &named, &kinds, &mut found)?;
    let (single, pairs) = (&all[0], all[1..].as_chunks::<2>().0);
    let texts = |of: &dyn Fn(&Solved) -> String| {
        let texts = pairs.iter().map(|[cw, nw]| format!("{} and {}", of(nw), of(cw)));
        format!("{} at 2^-24, 2^-20 and 2^-16", texts.collect::<Vec<_>>().join(", "))
    };
    found.judge(
        "for one target the normwise criterion costs less",
        pairs.iter().all(|[cw, nw]| cost(nw, single) <= cost(cw, single)),
        texts(&|one| format!("{:.1} %", cost(one, single))),
    );
    found.judge(
        "for one target the normwise criterion converges more slowly",
        pairs.iter().all(|[cw, nw]| steps(nw) >= steps(cw))
            && pairs.iter().any(|[cw, nw]| steps(nw) > steps(cw)),
        texts(&|one| format!("{} steps", steps(one))),
    );
    Ok(found)
}

/// Solves systems of which one might become easier by dropping.
pub fn easier(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let mut is_seen = false;
    for name in ["flow", "elasticity", "transport"] {
        let named = matrix(context, name)?;
        let mut of_matrix = Found::default();
        let kinds = ["fp32", "ap7:cw:2^-16", "ap7:nw:2^-16"];
        let all = compare(context, &named, &kinds, &mut of_matrix)?;
        let [single, _, nw] = &all[..] else { continue };
        is_seen |= nw.answer.solution.reason.is_converged() && steps(nw) as f64 <= 0.9 * steps(single) as f64;
        for (row, column, value) in of_matrix.values {
            found.value(format!("{name} {row}"), column, value);
        }
        found.series.extend(of_matrix.series.into_iter().map(|mut one| {
            one.name = format!("{name} {}", one.name);
            one
        }));
        found.commands.extend(of_matrix.commands);
    }
    found.judge(
        "for Geo_1438 and others the normwise criterion needs fewer steps than FP32",
        is_seen,
        "for none of the generated matrices: 10 % fewer steps at 2^-16 would count",
    );
    Ok(found)
}

/// Best of three targets: the time, the time in products, and the error.
fn best(context: &Context<'_>, a: &Csr, method: &str, criterion: &str) -> anyhow::Result<Solved> {
    let mut best: Option<Solved> = None;
    for power in [24, 20, 16] {
        let solved = solve(context, a, method, &format!("ap7:{criterion}:2^-{power}"), MOST_STEPS[1])?;
        let is_better = |best: &Solved| {
            let [now, then] =
                [&solved, best].map(|one| (!one.answer.solution.reason.is_converged(), one.answer.solve));
            now < then
        };
        if best.as_ref().is_none_or(is_better) {
            best = Some(solved);
        }
    }
    best.ok_or_else(|| anyhow::anyhow!("there are three targets"))
}

/// Makes the rows of a table: a method and a kind of products each.
fn table(context: &Context<'_>, names: &[&'static str], methods: &[&str]) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let (mut kept, mut all) = (0, 0);
    for &name in names {
        let named = matrix(context, name)?;
        for &method in methods {
            if method == "cg" && !named.a.is_symmetric() {
                continue;
            }
            let uniform = solve(context, &named.a, method, "fp32", MOST_STEPS[1])?;
            let cw = best(context, &named.a, method, "cw")?;
            let nw = best(context, &named.a, method, "nw")?;
            all += 1;
            kept += usize::from(cw.answer.backward_error <= 10.0 * uniform.answer.backward_error.max(1e-14));
            for (kind, solved) in [("Uniform", &uniform), ("Adaptive CW", &cw), ("Adaptive NW", &nw)] {
                let row = format!("{name} {kind}");
                let answer = &solved.answer;
                found.value(row.clone(), format!("{method} time"), answer.solve.as_secs_f64());
                found.value(row.clone(), format!("{method} time in products"), answer.products.as_secs_f64());
                found.value(row.clone(), format!("{method} steps"), answer.solution.steps as f64);
                found.value(row, format!("{method} error"), answer.backward_error);
            }
        }
        found.command(format!(
            "zellige solve {name}.mtx --method gmres:80 --precond none --scale rows --operator ap7:cw:2^-20"
        ));
    }
    found.judge(
        "the best componentwise target keeps the error of uniform FP32 products",
        kept == all,
        format!("{kept} of {all} pairs of matrix and method, within a factor of 10"),
    );
    found.leave(
        "adaptive products save time",
        "times of small systems are those of synchronisation; take --full",
    );
    Ok(found)
}

/// Compares four methods.
pub fn methods(context: &Context<'_>) -> anyhow::Result<Found> {
    table(context, &["elasticity", "flow"], &["gmres:80", "gmres:40", "bicgstab", "cg"])
}

/// Compares two lengths of restarts.
pub fn restarts(context: &Context<'_>) -> anyhow::Result<Found> {
    table(context, &["transport", "biot", "stokes"], &["gmres:80", "gmres:40"])
}
