//! Systems on several ranks, threads of this process: the bits of one process.

use zellige_mpi::run_local;
use zellige_runtime::Runtime;
use zellige_sparse::generate::{Elasticity, Elements, Flow, elasticity, flow};
use zellige_sparse::krylov::{Executor, Logger, Reason, Stop};
use zellige_sparse::system::{Answer, MethodChoice, Options, PreconditionerChoice, ScalingChoice, System};
use zellige_sparse::{Csr, Error};
use zellige_tests::amount;

/// Answers, and the residuals on the way.
type Found = (Vec<Vec<f64>>, Vec<Vec<f64>>);

#[derive(Default)]
struct Steps(Vec<f64>);

impl Logger for Steps {
    fn step(&mut self, residual: f64) {
        self.0.push(residual);
    }
}

fn solved(rt: &dyn Executor, a: &Csr, sides: usize, options: &Options) -> Result<Found, Error> {
    let side = |k: usize| (0..a.rows()).map(|i| ((i * (k + 3)) % 17) as f64 - 8.0).collect::<Vec<f64>>();
    let b: Vec<Vec<f64>> = (0..sides).map(side).collect();
    let mut x = vec![vec![0.0; a.rows()]; sides];
    let mut logs: Vec<Steps> = (0..sides).map(|_| Steps::default()).collect();
    let answers = System::new(rt, a, options)?.solve_each(&b, &mut x, &mut logs)?;
    let went_on = |answer: &Answer| [Reason::Converged, Reason::Steps].contains(&answer.solution.reason);
    assert!(answers.iter().all(went_on), "{options:?}");
    Ok((x, logs.into_iter().map(|log| log.0).collect()))
}

/// Checks that each number of ranks finds what one process does.
fn is_the_same(a: &Csr, sides: usize, options: &Options) {
    let alone = Runtime::builder().workers(2).bind(false).build().unwrap();
    let wanted = solved(&alone, a, sides, options).unwrap();
    for ranks in [2, 3] {
        let found = run_local(ranks, 1, |cluster| solved(cluster, a, sides, options).unwrap()).unwrap();
        for (rank, found) in found.iter().enumerate() {
            assert!(*found == wanted, "rank {rank} of {ranks}: other bits with {options:?}");
        }
    }
}

fn with(method: &str, preconditioner: &str) -> Options {
    Options {
        method: method.parse::<MethodChoice>().unwrap(),
        preconditioner: preconditioner.parse::<PreconditionerChoice>().unwrap(),
        ..Options::default()
    }
}

/// Returns a matrix of five parts.
fn solid() -> Csr {
    elasticity(&Elasticity { elements: Elements([10, 10, 10]), ..Elasticity::default() }).unwrap()
}

#[test]
fn symmetric_systems_have_the_answers_of_one_process() {
    let a = solid();
    let few_steps = || vec![Stop::RelativeToRhs(1e-4), Stop::Steps(100)];
    let all = [
        with("cg", "ilu0"),
        Options { inner: "ap7:cw:2^-24".parse().unwrap(), stop: few_steps(), ..with("cg", "block:6") },
        with("cg", "amg"),
        Options { stop: few_steps(), ..with("minres", "none") },
        Options { reorder: true, scaling: ScalingChoice::Both, stop: few_steps(), ..with("fcg", "jacobi") },
        with("auto", "auto"),
        with("cg", "chebyshev:3"),
        with("cg", "none"),
        with("cg", "jacobi"),
    ];
    all[..amount(5).min(all.len())].iter().for_each(|options| is_the_same(&a, 1, options));
    is_the_same(&a, 3, &Options { stop: few_steps(), ..with("cg", "jacobi") });
}

#[test]
fn other_systems_have_the_answers_of_one_process() {
    let a = flow(&Flow { cells: [24, 20, 16], ..Flow::default() }).unwrap();
    for options in [
        with("bicgstab", "ilu0"),
        with("gmres:20", "jacobi"),
        Options { inner: "fp32".parse().unwrap(), ..with("bicgstabl:2", "jacobi") },
        with("auto", "lu"),
    ] {
        is_the_same(&a, 1, &options);
    }
}
