//! Systems without an answer, and options without a meaning.

use super::*;

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

/// If an answer is so large that none in `f64` has a small residual, the result says so.
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

/// A singular system without an answer is not reported as solved.
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

#[test]
fn options_without_meaning_together_are_named() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = flow(&Flow { cells: [4, 3, 2], ..Flow::default() })?;
    let auto = Options::default();
    let (cg, narrow): (_, Inner) =
        (Options { method: MethodChoice::Cg, ..auto.clone() }, "ap7:cw:2^-24".parse()?);
    let gmres = Options { method: "gmres:9".parse()?, ..auto.clone() };
    let weighted = Inner::Adaptive {
        set: crate::adaptive::FormatSet::Ap7,
        criterion: CriterionChoice::Rows,
        accuracy: "2^-24".parse()?,
        block_size: None,
    };
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
        (Options { inner: weighted, ..auto.clone() }, "x-for"),
        (Options { inner: weighted, relaxed: vec!["ap7:cw-exact:2^-16".parse()?], ..gmres.clone() }, "relax"),
        (Options { relaxed: vec![weighted], ..gmres.clone() }, "relax"),
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
