//! Several right-hand sides and several shifts.

use super::*;

/// An answer is bitwise identical to that of a single solve, for any concurrent solves;
/// preconditioners with vectors of their own are shared, too.
#[test]
fn right_hand_sides_at_once_have_the_bits_of_one_at_a_time() -> Result<(), Error> {
    let a = flow(&Flow { cells: [24, 20, 18], ..Flow::default() })?;
    let rt = Runtime::builder().workers(3).build()?;
    let b: Vec<Vec<f64>> =
        (0..7).map(|k| (0..a.rows()).map(|i| ((i * (k + 3)) % 29) as f64 - 14.0).collect()).collect();
    // Conjugate gradients run in lock step, the other ones concurrently.
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
            assert_eq!(Solution { memory: expected.solution.memory, ..answer.solution }, expected.solution);
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

/// One Krylov space for several right-hand sides takes fewer steps than one for each, also with AMG
/// and scaled rows; a single one is solved for as well.
#[test]
fn block_conjugate_gradients_take_fewer_steps() -> Result<(), Error> {
    let a = flow(&Flow { cells: [24, 20, 18], ..Flow::default() })?;
    let b: Vec<Vec<f64>> =
        (0..7).map(|k| (0..a.rows()).map(|i| ((i * (k + 3)) % 29) as f64 - 14.0).collect()).collect();
    let steps = |method, preconditioner: &str, scaling, workers| -> Result<(Vec<usize>, _), Error> {
        let rt = Runtime::builder().workers(workers).build()?;
        let preconditioner = preconditioner.parse()?;
        let options = Options { method, preconditioner, scaling, ..Options::default() };
        let (mut x, mut logs) = (vec![vec![0.0; a.rows()]; b.len()], vec![History::default(); b.len()]);
        let answers = System::new(&rt, &a, &options)?.solve_each(&b, &mut x, &mut logs)?;
        for (answer, (x, b)) in answers.iter().zip(x.iter().zip(&b)) {
            let mut product = vec![0.0; a.rows()];
            a.multiply(x, &mut product)?;
            let residual = norm(product.iter().zip(b).map(|(product, b)| b - product));
            assert!(residual <= 1.001e-10 * norm(b.iter().copied()), "{residual:e} {answer:?}");
        }
        Ok((answers.iter().map(|answer| answer.solution.steps).collect(), x))
    };
    for (preconditioner, scaling) in
        [("jacobi", ScalingChoice::None), ("amg", ScalingChoice::None), ("ic0", ScalingChoice::Both)]
    {
        let (block, x) = steps(MethodChoice::BlockCg, preconditioner, scaling, 2)?;
        let (alone, _) = steps(MethodChoice::Cg, preconditioner, scaling, 2)?;
        assert!(block.iter().sum::<usize>() < alone.iter().sum(), "{preconditioner}: {block:?} {alone:?}");
        assert!(steps(MethodChoice::BlockCg, preconditioner, scaling, 1)? == (block, x), "other bits");
    }
    Ok(())
}

/// Answers to several shifts, with a narrow copy and without, in another order: each is that of its
/// matrix.
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

/// Right-hand sides, and matrices, whose squares leave the range of `f64`: a factor changes nothing
/// but the size.
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
                    let size = |v: &[f64]| crate::krylov::method::norm(v);
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
