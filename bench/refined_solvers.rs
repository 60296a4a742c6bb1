//! Iterative refinement around Krylov methods whose products are in adaptive precision (Molina,
//! thesis 2024, section 3.5.4, tables 3.3 and 3.4; figures 3.8 to 3.10 are histories of the same
//! runs): `cargo run --release -p zellige-bench --example refined_solvers -- [steps=4000]
//! [workers=2] FILE...`.
//!
//! Systems are `D^-1 A x = D^-1 b` with `b` of ones, without a preconditioner; rows and columns are
//! scaled for conjugate gradients, which keeps symmetry. Prints a table in Markdown: steps,
//! seconds, of these in products, and the normwise backward error; without these two where nothing
//! is gained.

use std::path::Path;

use zellige_runtime::Runtime;
use zellige_sparse::files;
use zellige_sparse::krylov::Stop;
use zellige_sparse::system::{Answer, MethodChoice, Options, PreconditionerChoice, ScalingChoice, solve};

type Failure = Box<dyn std::error::Error>;

/// Storage of the matrix in the inner method: one format, and sets of formats by each criterion.
const COPIES: [&str; 8] = [
    "fp64",
    "fp32",
    "ap7:cw:2^-24",
    "ap7:cw:2^-20",
    "ap7:cw:2^-16",
    "ap7:nw:2^-24",
    "ap7:nw:2^-20",
    "ap7:nw:2^-16",
];
const METHODS: [&str; 4] = ["gmres:80", "gmres:40", "bicgstab", "cg"];

fn main() -> Result<(), Failure> {
    let (mut steps, mut workers, mut files) = (4000, 2, Vec::new());
    for arg in std::env::args().skip(1) {
        match arg.split_once('=') {
            Some(("steps", number)) => steps = number.parse()?,
            Some(("workers", number)) => workers = number.parse()?,
            _ => files.push(arg),
        }
    }
    let rt = Runtime::builder().workers(workers).build()?;
    println!("| matrix | products | % of fp64 | {} |", METHODS.join(" | "));
    println!("| --- | --- | --- |{}", " --- |".repeat(METHODS.len()));
    for file in files {
        let path = Path::new(&file);
        let a = files::read_real(path)?.without_zeros();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let b = vec![1.0; a.rows()];
        for copy in COPIES {
            let (mut cells, mut percent) = (Vec::new(), 100.0);
            for method in METHODS {
                let method: MethodChoice = method.parse()?;
                if method == MethodChoice::Cg && !a.is_symmetric() {
                    cells.push("".to_owned());
                    continue;
                }
                let options = Options {
                    method,
                    preconditioner: PreconditionerChoice::None,
                    inner: copy.parse()?,
                    scaling: if method == MethodChoice::Cg {
                        ScalingChoice::Both
                    } else {
                        ScalingChoice::Rows
                    },
                    stop: vec![Stop::RelativeToRhs(1e-10), Stop::Steps(steps)],
                    ..Options::default()
                };
                let mut x = vec![0.0; a.rows()];
                let answer = solve(&rt, &a, &b, &mut x, &options, &mut ())?;
                percent = 100.0 * answer.bytes.inner.max(1) as f64 / answer.bytes.matrix as f64;
                cells.push(cell(&answer));
            }
            println!("| {name} | {copy} | {percent:.0} | {} |", cells.join(" | "));
        }
    }
    Ok(())
}

fn cell(answer: &Answer) -> String {
    let solution = &answer.solution;
    format!(
        "{} {}, {:.2} s ({:.2}), {:.0e}",
        solution.steps,
        solution.reason.name(),
        answer.solve.as_secs_f64(),
        answer.products.as_secs_f64(),
        answer.backward_error
    )
}
