use zellige_runtime::{Emulated, Runtime};
use zellige_test_scale::every;

use super::*;
use crate::direct;
use crate::generate::{
    Biot, Elasticity, Elements, Flow, Stokes, Transport, biot, elasticity, flow, stokes, transport,
};
use zellige_krylov::History;

fn matrices() -> Result<Vec<(&'static str, Csr)>, Error> {
    let cells = Flow { cells: [9, 8, 6], ..Flow::default() };
    let elements = Elements([4, 3, 3]);
    Ok(vec![
        ("flow", flow(&cells)?),
        ("transport", transport(&Transport { flow: cells, ..Transport::default() })?),
        ("elasticity", elasticity(&Elasticity { elements, ..Elasticity::default() })?),
        ("biot", biot(&Biot { elements, ..Biot::default() })?),
        ("stokes", stokes(&Stokes { elements, ..Stokes::default() })?),
    ])
}

/// More of them: other random fields, steps and spreads, rows of other units, and some that no problem of physics has.
fn more_matrices() -> Result<Vec<(String, Csr)>, Error> {
    let mut all = Vec::new();
    for seed in [2, 3] {
        let cells = Flow { cells: [8, 7, 7], seed, spread: 0.8 };
        all.push((format!("flow {seed}"), flow(&cells)?));
        let stream = Transport { flow: cells, step: 1e4, ..Transport::default() };
        all.push((format!("transport {seed}"), transport(&stream)?));
        let elements = Elements([3, 4, 4]);
        all.push((
            format!("elasticity {seed}"),
            elasticity(&Elasticity { elements, seed, ..Elasticity::default() })?,
        ));
        all.push((format!("stokes {seed}"), stokes(&Stokes { elements, seed, ..Stokes::default() })?));
    }
    let units = |i: usize, j: u32, value: f64| Some(value * 4f64.powi((i % 7) as i32 - (j % 5) as i32));
    let units = all[0].1.clone().map_elements(units);
    all.push(("other units".into(), units));
    let n = 300u32;
    let scattered = (0..n).flat_map(|i| {
        let others =
            (1..6u32).map(move |k| (i, (i * 7 + 31 * k * k) % n, f64::from((i * k) % 9) / 4.0 - 1.0));
        others.chain([(i, i, 6.0 + f64::from(i % 4))])
    });
    all.push((
        "scattered".into(),
        Csr::from_triplets(n as usize, n as usize, &scattered.collect::<Vec<_>>())?,
    ));
    // A saddle point: two blocks of a chain, coupled by the identity, and nothing in the last block's diagonal but a little.
    let chain = (0..n / 2).flat_map(|i| {
        let next = (i + 1) % (n / 2);
        let (k, eps) = (i + n / 2, 1e-3);
        [(i, i, 2.5), (i, next, -1.0), (next, i, -1.0), (i, k, 1.0), (k, i, 1.0), (k, k, -eps)]
    });
    all.push((
        "saddle point".into(),
        Csr::from_triplets(n as usize, n as usize, &chain.collect::<Vec<_>>())?,
    ));
    Ok(all)
}

fn rhs(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 37 % 101) as f64 - 50.0) / 50.0).collect()
}

fn norm(v: impl Iterator<Item = f64>) -> f64 {
    v.map(|v| v * v).sum::<f64>().sqrt()
}

/// Relative residuals of `tol` mean relative errors of `cond tol`; the answers of a direct solver, which has errors of its own.
fn agrees_with_a_direct_solver(name: &str, a: &Csr, options: &Options) -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let (mut b, mut x) = (vec![0.0; a.rows()], vec![0.0; a.rows()]);
    a.multiply(&rhs(a.rows()), &mut b)?;
    let answer = solve(&rt, a, &b, &mut x, options, &mut ())?;
    assert!(answer.solution.reason.is_converged(), "{name}: {:?}", answer.attempts);
    let (expected, condition) = (direct::solved(a, &b), direct::condition(a));
    let error = norm(x.iter().zip(&expected).map(|(x, y)| x - y)) / norm(expected.iter().copied());
    assert!(error <= 100.0 * condition * 1e-10, "{name}: {error:e}, condition {condition:e}");
    Ok(())
}

#[test]
fn answers_agree_with_those_of_a_direct_solver() -> Result<(), Error> {
    for (name, a) in matrices()? {
        agrees_with_a_direct_solver(name, &a, &Options::default())?;
    }
    Ok(())
}

#[test]
fn answers_to_more_matrices_agree_with_those_of_a_direct_solver() -> Result<(), Error> {
    let narrow = Options { inner: "ap7:cw:2^-24".parse()?, ..Options::default() };
    for (name, a) in more_matrices()? {
        agrees_with_a_direct_solver(&name, &a, &Options::default())?;
        agrees_with_a_direct_solver(&name, &a, &narrow)?;
    }
    Ok(())
}

/// One, two and four workers, and two devices with memories of their own: the same bits, whatever helps and however the system is scaled.
#[test]
fn preconditioned_and_scaled_systems_have_the_same_bits_everywhere() -> Result<(), Error> {
    let device = || Emulated::new(1 << 30);
    let workers = |count| Runtime::builder().workers(count).build();
    let devices = Runtime::builder().workers(1).device(device()).device(device()).build()?;
    let [one, others @ ..] = [workers(1)?, workers(2)?, workers(4)?, devices];
    let cells = Flow { cells: [30, 30, 26], ..Flow::default() };
    let (symmetric, streaming) =
        (flow(&cells)?, transport(&Transport { flow: cells, ..Transport::default() })?);
    let solid = elasticity(&Elasticity { elements: Elements([9, 9, 9]), ..Elasticity::default() })?;
    assert!(
        [&symmetric, &streaming, &solid]
            .iter()
            .all(|a| zellige_krylov::Space::new(a.rows(), a.bytes()).parts() > 1)
    );
    let ways = [
        (&symmetric, "cg", "ilu0", "none", "fp64"),
        (&symmetric, "cg", "ilu0", "both", "fp64"),
        (&symmetric, "cg", "amg", "both", "ap7:cw:2^-24"),
        (&symmetric, "fcg", "chebyshev:3", "none", "fp64"),
        (&symmetric, "minres", "jacobi", "both", "fp64"),
        (&solid, "cg", "ilu0", "both", "ap7:nw:2^-24"),
        (&solid, "cg", "amg", "none", "fp64"),
        (&solid, "gmres:20", "block:12", "rows", "fp32"),
        (&streaming, "gmres:20", "ilu0", "rows", "ap7re:cw:2^-30"),
        (&streaming, "bicgstabl:2", "ilu0", "both", "fp64"),
        (&streaming, "fgmres:20", "jacobi", "rows", "fp64"),
    ];
    for (n, (a, method, preconditioner, scaling, inner)) in ways.into_iter().enumerate() {
        let options = Options {
            method: method.parse()?,
            preconditioner: preconditioner.parse()?,
            scaling: scaling.parse()?,
            inner: inner.parse()?,
            stop: vec![Stop::Steps(12)],
            ..Options::default()
        };
        let b = [rhs(a.rows()), vec![1.0; a.rows()]];
        let solved = |rt: &Runtime| -> Result<Vec<Vec<f64>>, Error> {
            let mut x = vec![vec![0.0; a.rows()]; 2];
            System::new(rt, a, &options)?.solve_each(&b, &mut x, &mut [(); 2])?;
            Ok(x)
        };
        let expected = solved(&one)?;
        assert!(expected.iter().flatten().any(|x| *x != 0.0));
        let step = every(others.len());
        for (k, rt) in others.iter().enumerate().skip(n % step).step_by(step) {
            let bits = |x: Vec<Vec<f64>>| x.into_iter().flatten().map(f64::to_bits).collect::<Vec<_>>();
            assert!(
                bits(solved(rt)?) == bits(expected.clone()),
                "{method} {preconditioner} {scaling} {inner}, place {k}"
            );
        }
    }
    Ok(())
}

#[test]
fn narrow_copies_give_answers_of_the_same_quality() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let a = elasticity(&Elasticity { elements: Elements([6, 6, 5]), ..Elasticity::default() })?;
    let b = rhs(a.rows());
    for (inner, method) in [
        ("fp32", "gmres:60"),
        ("ap7:cw:2^-24", "cg"),
        ("ap2:cw:2^-20", "gmres:60"),
        ("ap7re:cw:2^-37", "bicgstabl:2"),
        ("ap7re:cw:2^-37", "auto"),
        ("ap7re:nw:2^-37", "cg"),
    ] {
        let mut x = vec![0.0; a.rows()];
        let options = Options {
            inner: inner.parse()?,
            method: method.parse()?,
            preconditioner: PreconditionerChoice::Ilu0,
            ..Options::default()
        };
        let answer = solve(&rt, &a, &b, &mut x, &options, &mut ())?;
        assert!(answer.solution.reason.is_converged(), "{inner}: {:?}", answer.attempts);
        assert!(answer.bytes.inner < answer.bytes.matrix * 9 / 10, "{inner}: {:?}", answer.bytes);
        let residual = crate::exact::ExactProduct::of(&a, &x)?.errors(&b)?;
        assert!(norm(residual.into_iter()) <= 1.001e-10 * norm(b.iter().copied()), "{inner}");
    }
    Ok(())
}

#[test]
fn orders_and_null_spaces_are_taken_care_of() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    // A ring: the graph Laplacian makes constants zero.
    let n = 500u32;
    let triplets = (0..n).flat_map(|i| [(i, i, 2.0), (i, (i + 1) % n, -1.0), ((i + 1) % n, i, -1.0)]);
    let ring = Csr::from_triplets(n as usize, n as usize, &triplets.collect::<Vec<_>>())?;
    let b = rhs(n as usize);
    let mut x = vec![0.0; n as usize];
    let options = Options { without_constant: true, reorder: true, ..Options::default() };
    let answer = solve(&rt, &ring, &b, &mut x, &options, &mut ())?;
    assert!(answer.solution.reason.is_converged(), "{:?}", answer.attempts);
    assert!(x.iter().sum::<f64>().abs() < 1e-8 * norm(x.iter().copied()));
    let mean = b.iter().sum::<f64>() / f64::from(n);
    let mut product = vec![0.0; n as usize];
    ring.multiply(&x, &mut product)?;
    let residual = norm(product.iter().zip(&b).map(|(product, b)| b - mean - product));
    assert!((answer.solution.true_residual - residual).abs() < 1e-12 * norm(b.iter().copied()), "{answer:?}");
    assert!(residual < 2e-10 * norm(b.iter().copied()), "{residual:e}");
    assert!((answer.removed - mean.abs() * f64::from(n).sqrt()).abs() < 1e-12, "{answer:?}");
    Ok(())
}

#[test]
fn what_cannot_be_solved_is_named() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let problem = |triplets: &[(u32, u32, f64)], size: (usize, usize), options: &Options| {
        let a = Csr::from_triplets(size.0, size.1, triplets).expect("a matrix");
        let b = vec![1.0; size.0];
        solve(&rt, &a, &b, &mut vec![0.0; size.1], options, &mut ()).expect_err("no answer").to_string()
    };
    let auto = Options::default();
    assert!(problem(&[(0, 0, 1.0)], (1, 2), &auto).contains("only square"));
    assert!(problem(&[(0, 0, 1.0), (0, 1, 1.0)], (2, 2), &auto).contains("row 2 is all zeros"));
    let jacobi =
        Options { preconditioner: PreconditionerChoice::Jacobi, method: MethodChoice::Cg, ..auto.clone() };
    assert!(problem(&[(0, 1, 1.0), (1, 0, 1.0)], (2, 2), &jacobi).contains("row 1"));
    let constant = Options { without_constant: true, ..auto };
    assert!(problem(&[(0, 0, 1.0), (1, 1, 1.0)], (2, 2), &constant).contains("not in the null space"));
    Ok(())
}

/// Some right-hand sides have answers so large that none in `f64` has a small residual: that is said.
#[test]
fn what_rounding_does_is_told() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = biot(&Biot { elements: Elements([4, 3, 3]), ..Biot::default() })?;
    let (b, mut x, mut history) = (vec![1.0; a.rows()], vec![0.0; a.rows()], History::default());
    let answer = solve(&rt, &a, &b, &mut x, &Options::default(), &mut history)?;
    assert!(!answer.solution.reason.is_converged());
    // One history of all attempts.
    assert!(answer.attempts.len() > 1 && history.steps.len() == answer.solution.steps);
    assert!(history.checks.is_sorted_by_key(|(step, _)| *step), "{:?}", history.checks);
    assert_eq!(history.checks.last().map(|(step, _)| *step), Some(answer.solution.steps));
    assert!(answer.attainable > 1e-10 * answer.solution.rhs);
    assert!(answer.solution.true_residual < 100.0 * answer.attainable, "{answer:?}");
    Ok(())
}

/// A singular system without an answer: nobody says that there is one.
#[test]
fn what_has_no_answer_gets_none() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0)])?;
    let mut x = vec![0.0; 2];
    let answer = solve(&rt, &a, &[1.0, -1.0], &mut x, &Options::default(), &mut ())?;
    assert!(!answer.solution.reason.is_converged(), "{:?}", answer.attempts);
    assert!(answer.solution.true_residual >= 0.99 * 2f64.sqrt());
    Ok(())
}

/// Whatever is solved beside it, an answer has the bits that it has alone; preconditioners with vectors of their own are shared, too.
#[test]
fn right_hand_sides_at_once_have_the_bits_of_one_at_a_time() -> Result<(), Error> {
    let a = flow(&Flow { cells: [24, 20, 18], ..Flow::default() })?;
    let rt = Runtime::builder().workers(3).build()?;
    let b: Vec<Vec<f64>> =
        (0..7).map(|k| (0..a.rows()).map(|i| ((i * (k + 3)) % 29) as f64 - 14.0).collect()).collect();
    // Conjugate gradients go in lock step, the other ones side by side.
    for (method, preconditioner, inner) in [
        ("cg", "ilu0", "fp64"),
        ("cg", "amg", "ap7:cw:2^-24"),
        ("cg", "none", "fp64"),
        ("auto", "auto", "fp64"),
        ("fcg", "chebyshev:3", "fp64"),
    ] {
        let (method, inner) = (method.parse()?, inner.parse()?);
        let preconditioner: PreconditionerChoice = preconditioner.parse()?;
        let stop = vec![Stop::RelativeToRhs(1e-8), Stop::Steps(10_000)];
        let options = Options { method, preconditioner, inner, stop, ..Options::default() };
        let system = System::new(&rt, &a, &options)?;
        let (mut x, mut logs) = (vec![vec![0.0; a.rows()]; b.len()], vec![History::default(); b.len()]);
        let answers = system.solve_each(&b, &mut x, &mut logs)?;
        for (k, answer) in answers.iter().enumerate() {
            assert!(answer.solution.reason.is_converged(), "{answer:?}");
            let mut alone = vec![0.0; a.rows()];
            let expected = solve(&rt, &a, &b[k], &mut alone, &options, &mut ())?;
            assert!(
                x[k].iter().zip(&alone).all(|(x, alone)| x.to_bits() == alone.to_bits()),
                "{preconditioner} {k}"
            );
            assert_eq!(Solution { kept: expected.solution.kept, ..answer.solution }, expected.solution);
            assert_eq!(logs[k].steps.len(), expected.solution.steps);
        }
    }
    let system = System::new(&rt, &a, &Options::default())?;
    assert!(system.solve_each(&b, &mut [], &mut [(); 7]).is_err());
    // One that has no answer keeps the others from nothing.
    let (mut spoilt, mut x) = (b.clone(), vec![vec![0.0; a.rows()]; b.len()]);
    spoilt[1][5] = f64::NAN;
    let error = system.solve_each(&spoilt, &mut x, &mut [(); 7]).expect_err("no answer").to_string();
    assert!(error.contains("element 6"), "{error}");
    assert!(x[1] == vec![0.0; a.rows()] && x[0] != x[1] && x[6] != x[1]);
    Ok(())
}

/// Rows of other units dominate the residual that the caller sees; a scaled method begins with the others, and narrow copies do so, too.
#[test]
fn rows_of_other_units_are_solved_with_narrow_copies() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let cells = Flow { cells: [9, 8, 7], ..Flow::default() };
    let a = transport(&Transport { flow: cells, ..Transport::default() })?;
    // Some unknowns are given, as finite element codes write that.
    let is_given = |i: usize| i.is_multiple_of(20);
    let a = a.map_elements(|i, j, value| match is_given(i) || is_given(j as usize) {
        true => (i == j as usize).then_some(1.0),
        false => Some(1e9 * value),
    });
    let b = vec![1.0; a.rows()];
    for inner in ["fp64", "fp32", "ap7:cw:2^-20"] {
        let mut x = vec![0.0; a.rows()];
        let options = Options {
            method: "gmres:40".parse()?,
            preconditioner: PreconditionerChoice::None,
            inner: inner.parse()?,
            scaling: ScalingChoice::Rows,
            ..Options::default()
        };
        let answer = solve(&rt, &a, &b, &mut x, &options, &mut ())?;
        assert!(answer.solution.reason.is_converged(), "{inner}: {:?}", answer.attempts);
    }
    Ok(())
}

/// Scaling changes what AMG has to keep, which it is told: steps are as few as without.
#[test]
fn amg_bears_scaling() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let a = flow(&Flow { cells: [24, 24, 20], ..Flow::default() })?;
    let (mut b, x) = (vec![0.0; a.rows()], rhs(a.rows()));
    a.multiply(&x, &mut b)?;
    let steps = |scaling| -> Result<usize, Error> {
        let (method, preconditioner) = (MethodChoice::Cg, PreconditionerChoice::Amg);
        let options = Options { method, preconditioner, scaling, ..Options::default() };
        let answer = solve(&rt, &a, &b, &mut vec![0.0; a.rows()], &options, &mut ())?;
        assert!(answer.solution.reason.is_converged(), "{:?}", answer.attempts);
        Ok(answer.solution.steps)
    };
    let (with, without) = (steps(ScalingChoice::Both)?, steps(ScalingChoice::None)?);
    assert!(without <= 25 && with <= without + 3, "{with} steps with scales, {without} without");
    Ok(())
}

/// The methods of narrow copies, with scaled systems and without: answers of the same quality, and steps not many more than with exact products.
#[test]
fn narrow_products_on_the_way_are_enough() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let a = elasticity(&Elasticity { elements: Elements([6, 6, 5]), ..Elasticity::default() })?;
    let b = rhs(a.rows());
    let copies = || Ok::<_, Error>(vec!["ap7:cw:2^-37".parse::<Inner>()?, "ap7:cw:2^-24".parse()?]);
    let precond = PreconditionerChoice::Ilu0;
    for scaling in [ScalingChoice::None, ScalingChoice::Both, ScalingChoice::Rows] {
        let solved = |options: Options| -> Result<Answer, Error> {
            let mut x = vec![0.0; a.rows()];
            let options = Options { preconditioner: precond, scaling, ..options };
            let answer = solve(&rt, &a, &b, &mut x, &options, &mut ())?;
            assert!(answer.solution.reason.is_converged(), "{options:?}: {:?}", answer.attempts);
            let residual = crate::exact::ExactProduct::of(&a, &x)?.errors(&b)?;
            assert!(norm(residual.into_iter()) <= 1.001e-10 * norm(b.iter().copied()), "{options:?}");
            Ok(answer)
        };
        let gmres = Options { method: "gmres:60".parse()?, ..Options::default() };
        let plain = solved(gmres.clone())?;
        let relaxed = solved(Options { relaxed: copies()?, ..gmres.clone() })?;
        assert_eq!(relaxed.attempts[0].method, "relaxed gmres(60)");
        // Where products became inaccurate too soon another cycle makes up for it.
        assert!(relaxed.solution.steps <= plain.solution.steps * 3 / 2, "{relaxed:?} {plain:?}");
        assert!(relaxed.solution.runs <= 2, "{relaxed:?}");
        assert!(relaxed.bytes.inner > plain.bytes.matrix / 2, "{:?}", relaxed.bytes);
        let modified = Orthogonalisation::Modified;
        let modified = solved(Options { orthogonalisation: modified, ..gmres })?;
        assert_eq!(modified.attempts[0].method, "gmres(60,mgs)");
        if scaling != ScalingChoice::Rows {
            let cg = Options { method: MethodChoice::Cg, ..Options::default() };
            let plain = solved(cg.clone())?;
            let reliable = solved(Options { reliable: Some(0.1), inner: "ap7:cw:2^-24".parse()?, ..cg })?;
            assert_eq!(reliable.attempts[0].method, "reliable cg");
            assert!(reliable.solution.runs <= 2, "{reliable:?}");
            assert!(reliable.solution.steps <= 2 * plain.solution.steps, "{reliable:?} {plain:?}");
        }
    }
    Ok(())
}

/// Answers to several shifts, with a narrow copy and without, in another order: each is that of its matrix.
#[test]
fn shifts_are_answered_together() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let a = flow(&Flow { cells: [10, 9, 8], spread: 0.3, ..Flow::default() })?;
    let (b, shifts) = (rhs(a.rows()), [0.5, 0.0, 30.0]);
    for (inner, reorder) in [("fp64", false), ("fp64", true), ("ap7:cw:2^-30", false)] {
        let scaling = ScalingChoice::None;
        let options = Options { inner: inner.parse()?, reorder, scaling, ..Options::default() };
        let mut logs = vec![History::default(); 3];
        let found = System::new(&rt, &a, &options)?.solve_shifted(&shifts, &b, &mut logs)?;
        for ((found, shift), log) in found.iter().zip(shifts).zip(&logs) {
            assert_eq!(found.shift, shift);
            assert!(found.answer.solution.reason.is_converged(), "{inner}: {:?}", found.answer);
            assert_eq!(log.steps.len(), found.answer.solution.steps);
            let mut product = vec![0.0; a.rows()];
            a.multiply(&found.x, &mut product)?;
            let rows = product.iter().zip(&found.x).zip(&b);
            let residual = norm(rows.map(|((product, x), b)| b - product - shift * x));
            assert!(residual <= 1.001e-10 * norm(b.iter().copied()), "{inner} {shift}: {residual:e}");
            assert!(found.answer.backward_error < 1e-9 && found.answer.attainable < residual);
        }
    }
    Ok(())
}

/// What elements are chosen for goes through scaling and another order: the copy is the same, so are its bytes.
#[test]
fn elements_are_chosen_for_a_vector() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let a = flow(&Flow { cells: [12, 11, 10], ..Flow::default() })?;
    let (b, x) = (rhs(a.rows()), (0..a.rows()).map(|i| 1.0 + (i % 7) as f64).collect::<Vec<_>>());
    let mut bytes = Vec::new();
    for (scaling, reorder) in
        [(ScalingChoice::None, false), (ScalingChoice::Rows, false), (ScalingChoice::Rows, true)]
    {
        let options = Options {
            method: "gmres:60".parse()?,
            preconditioner: PreconditionerChoice::Ilu0,
            inner: "ap7:cw-exact:2^-24".parse()?,
            x_for: Some(x.clone()),
            scaling,
            reorder,
            ..Options::default()
        };
        let answer = solve(&rt, &a, &b, &mut vec![0.0; a.rows()], &options, &mut ())?;
        assert!(answer.solution.reason.is_converged(), "{options:?}: {:?}", answer.attempts);
        bytes.push(answer.bytes.inner as f64);
    }
    // Multiplying rows by powers of two changes nothing that is compared; another order changes what lies side by side, and leaves no few diagonals.
    assert!((bytes[1] / bytes[0] - 1.0).abs() < 0.02 && (bytes[2] / bytes[0] - 1.0).abs() < 0.5, "{bytes:?}");
    let both = |x: Vec<f64>, inner: &str| -> Result<String, Error> {
        let options = Options { inner: inner.parse()?, x_for: Some(x), ..Options::default() };
        Ok(System::new(&rt, &a, &options).map(|_| ()).expect_err("refused").to_string())
    };
    assert!(both(vec![1.0; 3], "ap7:cw-exact:2^-24")?.contains("3 elements"));
    assert!(both(vec![0.0; a.rows()], "ap7:cw-exact:2^-24")?.contains("element 1 is 0"));
    assert!(both(x.clone(), "ap7:cw:2^-24")?.contains("only cw-exact"));
    assert!(both(x, "ap7re:cw-exact:2^-24")?.contains("ap7"));
    Ok(())
}

/// Whatever the machine makes of it: what was chosen is said, and gives the bits of the answer when it is asked for by name.
#[test]
fn what_is_chosen_by_costs_can_be_asked_for() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let a = elasticity(&Elasticity { elements: Elements([8, 8, 6]), ..Elasticity::default() })?;
    let b = rhs(a.rows());
    let method = "gmres:60".parse()?;
    for inner in ["auto:cw:2^-24", "auto:nw:2^-16"] {
        let solved = |inner: Inner| -> Result<_, Error> {
            let scaling = ScalingChoice::Both;
            let options = Options { method, inner, scaling, ..Options::default() };
            let mut x = vec![0.0; a.rows()];
            let answer = solve(&rt, &a, &b, &mut x, &options, &mut ())?;
            assert!(answer.solution.reason.is_converged(), "{inner}: {:?}", answer.attempts);
            assert_eq!(answer.bytes.inner == 0, answer.inner == Inner::Exact);
            Ok((x, answer.inner))
        };
        let (x, chosen) = solved(inner.parse()?)?;
        assert!(chosen == Inner::Exact || chosen.edge().is_some(), "{chosen}");
        let (again, _) = solved(chosen.to_string().parse()?)?;
        assert!(x.iter().zip(&again).all(|(x, y)| x.to_bits() == y.to_bits()), "{chosen}");
    }
    Ok(())
}

#[test]
fn options_without_meaning_together_are_named() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = flow(&Flow { cells: [4, 3, 2], ..Flow::default() })?;
    let auto = Options::default();
    let (cg, narrow): (_, Inner) =
        (Options { method: MethodChoice::Cg, ..auto.clone() }, "ap7:cw:2^-24".parse()?);
    let gmres = Options { method: "gmres:9".parse()?, ..auto.clone() };
    for (options, name) in [
        (Options { basis: "fp32".parse()?, ..cg.clone() }, "basis"),
        (Options { orthogonalisation: "mgs".parse()?, ..cg.clone() }, "orthogonalise"),
        (Options { relaxed: vec![narrow], ..auto.clone() }, "relax"),
        (Options { relaxed: vec![narrow], ..cg.clone() }, "relax"),
        (Options { relaxed: vec![Inner::Single, narrow], ..gmres.clone() }, "relax"),
        (Options { relaxed: vec!["auto".parse()?], ..gmres.clone() }, "relax"),
        (Options { relaxed: vec![narrow], inner: Inner::Single, ..gmres.clone() }, "relax"),
        (Options { reliable: Some(0.1), inner: narrow, ..auto.clone() }, "reliable"),
        (Options { reliable: Some(0.1), ..cg.clone() }, "reliable"),
        (Options { inner: "ap7:cw-exact:2^-24".parse()?, ..auto.clone() }, "x-for"),
        (Options { reliable: Some(1.0), inner: narrow, ..cg.clone() }, "reliable"),
        (Options { inner: "ap7re:cw:2^-24".parse()?, ..cg.clone() }, "operator"),
    ] {
        let error = System::new(&rt, &a, &options).map(|_| ()).expect_err(name);
        assert!(error.to_string().starts_with(&format!("{name}: ")), "{error}");
    }
    let both = Options { scaling: ScalingChoice::Both, ..auto.clone() };
    let jacobi = Options { preconditioner: PreconditionerChoice::Jacobi, ..auto.clone() };
    for (options, word) in [(both, "--scale none"), (jacobi, "--precond none"), (gmres, "--method cg")] {
        let system = System::new(&rt, &a, &options)?;
        let error = system.solve_shifted(&[1.0], &rhs(a.rows()), &mut [()]).expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    }
    let transported =
        transport(&Transport { flow: Flow { cells: [4, 3, 2], ..Flow::default() }, ..Transport::default() })?;
    let system = System::new(&rt, &transported, &auto)?;
    let error = system.solve_shifted(&[1.0], &rhs(transported.rows()), &mut [()]).expect_err("no shifts");
    assert!(error.to_string().contains("not symmetric"), "{error}");
    Ok(())
}

/// Every stored copy counts: those of scaled and ordered systems, of a compressed basis, of attempts that failed.
#[test]
fn memory_is_that_of_all_copies() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = elasticity(&Elasticity { elements: Elements([6, 6, 5]), ..Elasticity::default() })?;
    let (b, n) = (rhs(a.rows()), 8 * a.rows() as u64);
    let bytes = |options: &Options| -> Result<Bytes, Error> {
        Ok(solve(&rt, &a, &b, &mut vec![0.0; a.rows()], options, &mut ())?.bytes)
    };
    let none = PreconditionerChoice::None;
    let stop = vec![Stop::Steps(5)];
    let plain = Options { preconditioner: none, stop, scaling: ScalingChoice::None, ..Options::default() };
    let with =
        |method: &str| -> Result<Options, Error> { Ok(Options { method: method.parse()?, ..plain.clone() }) };
    // The loop around methods keeps five vectors.
    for (method, basis, vectors) in [
        ("cg", 0, 4),
        ("fcg", 0, 4),
        ("minres", 0, 7),
        ("bicgstabl:2", 0, 8),
        ("gmres:7", 7, 4),
        ("fgmres:7", 7, 4),
    ] {
        let found = bytes(&with(method)?)?;
        assert_eq!((found.basis, found.vectors), (basis * n, (vectors + 5) * n), "{method}");
        assert_eq!((found.given, found.rearranged, found.preconditioner), (a.memory(), 0, 0), "{method}");
        assert!(found.total() == found.given + found.matrix + found.basis + found.vectors, "{found:?}");
    }
    let narrow = bytes(&Options { basis: "fp32".parse()?, ..with("gmres:7")? })?;
    assert_eq!((narrow.basis, narrow.vectors), (7 * n / 2, 9 * n));
    let jacobi = PreconditionerChoice::Jacobi;
    let flexible = bytes(&Options { preconditioner: jacobi, ..with("fgmres:7")? })?;
    assert_eq!((flexible.basis, flexible.preconditioner), (14 * n, n));
    let scaled = bytes(&Options { scaling: ScalingChoice::Both, reorder: true, ..with("cg")? })?;
    assert_eq!((scaled.rearranged, scaled.vectors), (2 * a.memory(), (4 + 5 + 4 + 3) * n));
    let several: Vec<Inner> = vec!["ap7:cw:2^-37".parse()?, "ap7:cw:2^-24".parse()?];
    let relaxed = bytes(&Options { relaxed: several, ..with("gmres:7")? })?;
    let one = bytes(&Options { inner: "ap7:cw:2^-24".parse()?, ..with("gmres:7")? })?;
    assert!(relaxed.inner > 2 * one.inner && one.inner > 0, "{relaxed:?} {one:?}");
    // A system without an answer: all attempts fail, and all their preconditioners are there.
    let biot = biot(&Biot { elements: Elements([4, 3, 3]), ..Biot::default() })?;
    let ones = vec![1.0; biot.rows()];
    let failed = solve(&rt, &biot, &ones, &mut vec![0.0; biot.rows()], &Options::default(), &mut ())?;
    assert!(failed.attempts.len() > 1 && failed.bytes.failed_preconditioners > failed.bytes.preconditioner);
    assert_eq!(failed.bytes.basis, 200 * 8 * biot.rows() as u64);
    Ok(())
}

/// Right-hand sides, and matrices, whose squares leave the range of `f64`: a factor changes nothing but the size.
#[test]
fn sizes_far_from_one_are_solved_all_the_same() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let cells = Flow { cells: [9, 8, 6], ..Flow::default() };
    let (diffusion, streaming) =
        (flow(&cells)?, transport(&Transport { flow: cells, ..Transport::default() })?);
    let sizes = [-565, -515, 0, 565].map(|e| libm::ldexp(1.0, e));
    for (a, method) in [
        (&diffusion, "cg"),
        (&diffusion, "minres"),
        (&streaming, "gmres:60"),
        (&streaming, "bicgstabl:2"),
        (&streaming, "auto"),
    ] {
        for scaling in [ScalingChoice::Auto, ScalingChoice::Both] {
            let options = Options { method: method.parse()?, scaling, ..Options::default() };
            for of_matrix in sizes {
                let a = a.map_values(|_, _, value| of_matrix * value);
                let system = System::new(&rt, &a, &options)?;
                // Together where the method can.
                let b: Vec<Vec<f64>> =
                    sizes.iter().map(|size| rhs(a.rows()).iter().map(|b| size * b).collect()).collect();
                let (mut x, mut logs) = (vec![vec![0.0; a.rows()]; 4], vec![History::default(); 4]);
                let answers = system.solve_each(&b, &mut x, &mut logs)?;
                for (k, answer) in answers.iter().enumerate() {
                    let (name, ratio) =
                        (format!("{method} {of_matrix:e} {:e}", sizes[k]), sizes[k] / of_matrix);
                    if !(1e-290..1e290).contains(&ratio) {
                        continue; // so is the answer
                    }
                    let solution = answer.solution;
                    assert!(solution.reason.is_converged(), "{name}: {:?}", answer.attempts);
                    let errors = crate::exact::ExactProduct::of(&a, &x[k])?.errors(&b[k])?;
                    let size = |v: &[f64]| crate::krylov::grains::norm(v);
                    assert!(size(&errors) <= 1.01e-10 * size(&b[k]), "{name}: {:e}", size(&errors));
                    assert!(solution.true_residual <= 1e-10 * solution.rhs, "{name}: {solution:?}");
                    assert!(logs[k].checks[0].1 == solution.rhs, "{name}: {:?}", logs[k].checks);
                    assert!(answer.backward_error < 1e-9 && answer.attainable > 0.0, "{name}: {answer:?}");
                }
            }
        }
    }
    Ok(())
}
