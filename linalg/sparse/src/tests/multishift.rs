use super::*;

const SHIFTS: [f64; 4] = [0.5, 0.0, 0.02, 30.0];

fn all(workers: usize, a: &Csr, b: &[f64], shifts: &[f64], stop: &[Stop]) -> Result<ShiftedSolutions, Error> {
    all_in(&Runtime::builder().workers(workers).build()?, a, b, shifts, stop)
}

pub(super) fn all_in(
    rt: &Runtime,
    a: &Csr,
    b: &[f64],
    shifts: &[f64],
    stop: &[Stop],
) -> Result<ShiftedSolutions, Error> {
    let space = Space::new(a.rows(), 64 * a.bytes());
    let exact = Stored::exact(rt, &space, a)?;
    let problem = Solve { rt, exact: &exact, inner: &exact, preconditioner: None, reduction: 0.0 };
    solve_shifted(&problem, shifts, b, stop, &mut vec![(); shifts.len()])
}

fn plus(a: &Csr, sigma: f64) -> Csr {
    let identity = (0..a.rows()).map(|i| (i, i, sigma));
    let elements =
        (0..a.rows()).flat_map(|i| a.row(i).0.iter().map(move |&j| (i, j as usize, a.get(i, j as usize))));
    let mut triplets: Vec<_> = elements.collect();
    triplets.extend(identity);
    small(a.rows(), &triplets)
}

const STOP: [Stop; 2] = [Stop::RelativeToRhs(1e-9), Stop::Steps(3000)];

#[test]
fn every_shift_is_answered_in_one_space() -> Result<(), Error> {
    let a = flow(&Flow { cells: [10, 9, 8], spread: 0.3, ..Flow::default() })?;
    let b = rhs(a.rows());
    let rt = Runtime::builder().workers(1).build()?;
    let found = all(2, &a, &b, &SHIFTS, &STOP)?;
    for (sigma, (solution, x)) in SHIFTS.into_iter().zip(&found.each) {
        println!("{sigma}: {solution:?}");
        let a = plus(&a, sigma);
        assert!(solution.reason.is_converged() && solution.steps == 0, "{sigma}: {solution:?}");
        assert!(residual(&a, &b, x)? <= 1.01e-9);
        let (alone, y) = solved(&rt, &Cg::default(), &a, &b, Ask { tolerance: 1e-9, ..PLAIN }, &mut ())?;
        assert!(alone.steps <= found.shared);
        let scale = crate::exact::largest(y.iter().copied());
        assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() <= 1e-6 * scale), "{sigma}");
    }
    Ok(())
}

#[test]
fn each_shift_says_how_it_ended() -> Result<(), Error> {
    let a = flow(&Flow { cells: [10, 9, 8], spread: 0.3, ..Flow::default() })?;
    let found = all(1, &a, &rhs(a.rows()), &SHIFTS, &[Stop::RelativeToRhs(1e-9), Stop::Steps(25)])?;
    let reasons: Vec<_> = found.each.iter().map(|(solution, _)| solution.reason).collect();
    assert_eq!((reasons[1], reasons[3]), (Reason::Steps, Reason::Converged), "{reasons:?}");
    // A shift too small for a definite matrix.
    let found = all(1, &diagonal(&[1.0, 2.0, 3.0]), &[1.0; 3], &[-1.5, 1.0], &STOP)?;
    assert!(
        !found.each[0].0.reason.is_converged()
            || residual(&diagonal(&[-0.5, 0.5, 1.5]), &[1.0; 3], &found.each[0].1)? <= 1e-9
    );
    assert!(found.each[1].0.reason.is_converged());
    let found = all(1, &diagonal(&[1.0, 2.0]), &[0.0; 2], &SHIFTS, &STOP)?;
    assert!(found.each.iter().all(|(solution, x)| solution.reason.is_converged() && x == &[0.0; 2]));
    Ok(())
}

#[test]
fn bits_do_not_depend_on_workers_or_devices() -> Result<(), Error> {
    let (a, b) = flowing()?;
    same_bits_everywhere(|rt| {
        let found = all_in(rt, &a, &b, &SHIFTS, &[Stop::Steps(20)])?;
        Ok(found.each.into_iter().flat_map(|(_, x)| x).collect())
    })
}

#[test]
fn shifts_that_are_none_are_refused() -> Result<(), Error> {
    let refused = |shifts: &[f64]| all(1, &diagonal(&[1.0]), &[1.0], shifts, &STOP).unwrap_err().to_string();
    assert!(refused(&[]).starts_with("shifts: none"));
    assert!(refused(&[0.0, f64::NAN]).starts_with("shifts: NaN"));
    Ok(())
}

#[test]
fn a_factor_of_the_right_hand_side_is_one_of_everything() -> Result<(), Error> {
    let a = flow(&Flow { cells: [5, 4, 3], spread: 0.3, ..Flow::default() })?;
    let b = rhs(a.rows());
    let one = all(1, &a, &b, &SHIFTS, &STOP)?;
    for factor in [-565, -515, 565].map(|e| libm::ldexp(1.0, e)) {
        let times = |v: &[f64]| v.iter().map(|v| v * factor).collect::<Vec<_>>();
        let other = all(1, &a, &times(&b), &SHIFTS, &STOP)?;
        assert_eq!(other.shared, one.shared);
        for ((solution, x), (expected, y)) in other.each.iter().zip(&one.each) {
            assert!(solution.reason.is_converged() && *x == times(y), "{factor:e}: {solution:?}");
            assert_eq!(solution.true_residual, factor * expected.true_residual);
        }
    }
    Ok(())
}

/// Small residuals of a narrow operator are not the recomputed ones: no steps are made for them.
#[test]
fn shared_steps_end_where_a_narrow_operator_does() -> Result<(), Error> {
    let a = flow(&Flow { cells: [10, 9, 8], spread: 0.3, ..Flow::default() })?;
    let (b, rt) = (rhs(a.rows()), Runtime::builder().workers(1).build()?);
    let space = Space::new(a.rows(), a.bytes());
    let exact = Stored::exact(&rt, &space, &a)?;
    let adaptation = crate::adaptive::Adaptation::new(
        crate::adaptive::FormatSet::Ap7,
        crate::adaptive::Criterion::Normwise,
        "2^-20".parse()?,
    );
    let inner = Stored::new(&rt, &space, &a, 1, &adaptation)?;
    let reduction = 1e-4;
    let problem = Solve { rt: &rt, exact: &exact, inner: &inner, preconditioner: None, reduction };
    let mut logs = vec![History::default(); SHIFTS.len()];
    let found = solve_shifted(&problem, &SHIFTS, &b, &STOP[..], &mut logs)?;
    let rhs = zellige_krylov::method::norm(&b);
    let [before, last] = [2, 1].map(|back| logs[0].steps[found.shared - back]);
    assert!(last <= reduction * rhs && before > reduction * rhs, "{before:e} {last:e} of {rhs:e}");
    for (sigma, (solution, x)) in SHIFTS.into_iter().zip(&found.each) {
        assert!(solution.reason.is_converged(), "{sigma}: {solution:?}");
        assert!(residual(&plus(&a, sigma), &b, x)? <= 1.01e-9, "{sigma}");
    }
    Ok(())
}
