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

/// Rotations that grow a little: eigenvalues are near the imaginary axis, where polynomials of degree 1 gain next to nothing.
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
    // As many products.
    let ask = Ask { steps: 2 * steps, ..PLAIN };
    let (solution, _) = solved(&rt, &BiCgStab { l: 1 }, &a, &b, ask, &mut ())?;
    assert!(!solution.reason.is_converged(), "{solution:?} for {steps} of degree 2");
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
