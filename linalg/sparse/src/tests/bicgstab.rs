use super::*;

#[test]
fn every_degree_answers() -> Result<(), Error> {
    let (a, b) = streaming(14)?;
    let (few, _) = streaming(3)?;
    for l in [1, 2, 4] {
        let method = BiCgStab { l };
        answers(&method, &a, &b, Ask { steps: 400, ..JACOBI })?;
        answers(&method, &a, &b, Ask { steps: 600, tolerance: 1e-8, ..PLAIN })?;
        agrees_with_elimination(&method, &few)?;
        is_honest(&method)?;
    }
    Ok(())
}

#[test]
fn bits_do_not_depend_on_workers_or_devices() -> Result<(), Error> {
    let (a, b) = streaming(24)?;
    for l in [1, 2] {
        has_the_same_bits_everywhere(&BiCgStab { l }, &a, &b, Ask { steps: 20, ..JACOBI })?;
    }
    Ok(())
}

/// Rotations that grow a little: eigenvalues are near the imaginary axis, where polynomials of
/// degree 1 gain next to nothing.
#[test]
fn degree_two_does_what_degree_one_cannot() -> Result<(), Error> {
    let turns: Vec<_> = (0..400)
        .flat_map(|i| {
            let (k, rate) = (2 * i, 1.0 + i as f64 / 200.0);
            [(k, k, 0.2), (k, k + 1, rate), (k + 1, k, -rate), (k + 1, k + 1, 0.2)]
        })
        .collect();
    let (a, b) = (small(800, &turns), rhs(800));
    let steps = answers(&BiCgStab { l: 2 }, &a, &b, Ask { steps: 300, ..PLAIN })?.steps;
    let rt = Runtime::builder().workers(1).build()?;
    // An equal number of products.
    let ask = Ask { steps: 2 * steps, ..PLAIN };
    let (solution, _) = solved(&rt, &BiCgStab { l: 1 }, &a, &b, ask, &mut ())?;
    assert!(!solution.reason.is_converged(), "{solution:?} for {steps} of degree 2");
    Ok(())
}

/// Returns `shift I` plus a skew-symmetric part.
fn turning(shift: f64) -> Csr {
    let rate = |i: usize| 1.0 + (i % 7) as f64 / 7.0;
    let sides = (0..399).flat_map(|i| [(i, i + 1, rate(i)), (i + 1, i, -rate(i))]);
    small(400, &sides.chain((0..400).map(|i| (i, i, shift))).collect::<Vec<_>>())
}

/// The residual is orthogonal to its product but for rounding, which nothing is divided by.
#[test]
fn skew_symmetric_matrices_are_told() -> Result<(), Error> {
    let (rt, a) = (Runtime::builder().workers(1).build()?, turning(0.0));
    for l in [1, 2, 4] {
        let mut history = History::default();
        let (solution, x) = solved(&rt, &BiCgStab { l }, &a, &rhs(400), PLAIN, &mut history)?;
        assert_eq!((solution.reason, solution.runs), (Reason::BrokenDown, 1), "{l}: {solution:?}");
        assert!(x == vec![0.0; 400] && history.steps.is_empty(), "{l}: {history:?}");
    }
    Ok(())
}

/// If the polynomial with the least residual has small last coefficients, steps with it lose
/// digits.
#[test]
fn nearly_skew_symmetric_matrices_take_fewer_steps() -> Result<(), Error> {
    // With the least residual 532.
    let steps = answers(&BiCgStab { l: 2 }, &turning(0.01), &rhs(400), PLAIN)?.steps;
    assert!(steps <= 460, "{steps}");
    Ok(())
}

#[test]
fn degrees_are_limited() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    for l in [0, 9] {
        let refused = solved(&rt, &BiCgStab { l }, &diagonal(&[1.0]), &[1.0], PLAIN, &mut ());
        assert!(refused.unwrap_err().to_string().starts_with("l: "));
    }
    Ok(())
}
