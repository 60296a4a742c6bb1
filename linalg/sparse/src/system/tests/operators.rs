//! Narrow copies of the matrix, and the bytes of all copies.

use super::*;

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

/// Rows of other units dominate the residual that the caller sees; a scaled method begins with the
/// others, and narrow copies do so, too.
#[test]
fn rows_of_other_units_are_solved_with_narrow_copies() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let cells = Flow { cells: [9, 8, 7], ..Flow::default() };
    let a = transport(&Transport { flow: cells, ..Transport::default() })?;
    // Some unknowns are given, as finite element codes write that.
    let is_given = |i: usize| i.is_multiple_of(20);
    let a = a.map_nonzeros(|i, j, value| match is_given(i) || is_given(j as usize) {
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

/// The methods of narrow copies, with scaled systems and without: answers of the same quality, and
/// steps not many more than with exact products.
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
        // If products became inaccurate too soon, another cycle makes up for it.
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

/// The vector that formats are chosen for goes through scaling and reordering: the copy is the
/// same, and so are its bytes.
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
    // Multiplying rows by powers of two changes no comparison; another order changes the
    // neighbours, and leaves no few diagonals.
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

/// On any machine the chosen copy is reported, and gives the bits of the answer when it is
/// requested by name.
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
        assert!(chosen == Inner::Exact || chosen.block_size().is_some(), "{chosen}");
        let (again, _) = solved(chosen.to_string().parse()?)?;
        assert!(x.iter().zip(&again).all(|(x, y)| x.to_bits() == y.to_bits()), "{chosen}");
    }
    Ok(())
}

/// Every stored copy counts: those of scaled and ordered systems, of a compressed basis, of
/// attempts that failed.
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
    assert!(failed.attempts.len() > 1 && failed.bytes.failed_preconditioners > 0);
    assert_eq!(failed.bytes.basis, 200 * 8 * biot.rows() as u64);
    Ok(())
}
