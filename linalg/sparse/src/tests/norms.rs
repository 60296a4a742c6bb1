//! Right-hand sides whose squares leave the range of `f64`, and those that are zero.

use super::*;

fn methods() -> [Box<dyn Method>; 6] {
    [
        Box::new(Cg::default()),
        Box::new(Cg { flexible: true }),
        Box::new(Minres),
        Box::new(Gmres::default()),
        Box::new(BiCgStab { l: 1 }),
        Box::new(BiCgStab { l: 2 }),
    ]
}

struct Solved {
    solution: Solution,
    x: Vec<f64>,
    history: History,
}

fn found(method: &dyn Method, a: &Csr, b: &[f64], guess: &[f64], stop: &[Stop]) -> Result<Solved, Error> {
    let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(a.rows(), a.bytes()));
    let exact = Stored::exact(&rt, &space, a)?;
    let problem = Solve { rt: &rt, exact: &exact, inner: &exact, preconditioner: None, reduction: 0.0 };
    let (mut x, mut history) = (guess.to_vec(), History::default());
    let solution = solve(&problem, method, b, &mut x, stop, &mut history)?;
    Ok(Solved { solution, x, history })
}

fn times(v: &[f64], factor: f64) -> Vec<f64> {
    v.iter().map(|v| v * factor).collect()
}

#[test]
fn a_factor_of_the_right_hand_side_is_one_of_everything() -> Result<(), Error> {
    let a = flow(&Flow { cells: [5, 4, 3], spread: 0.3, ..Flow::default() })?;
    let (b, guess) = (rhs(a.rows()), vec![0.25; a.rows()]);
    for method in methods() {
        for guess in [vec![0.0; a.rows()], guess.clone()] {
            let stop = [Stop::RelativeToRhs(1e-9), Stop::Steps(300)];
            let one = found(&*method, &a, &b, &guess, &stop)?;
            assert!(one.solution.reason.is_converged(), "{}: {:?}", method.name(), one.solution);
            // About 1e-155, 1e-170, 1e-290, 1e+170 and 1e+300.
            for factor in [-515, -565, -963, 565, 996].map(|e| libm::ldexp(1.0, e)) {
                let other = found(&*method, &a, &times(&b, factor), &times(&guess, factor), &stop)?;
                let name = format!("{} {factor:e}", method.name());
                assert_eq!(other.x, times(&one.x, factor), "{name}");
                let expected = Solution {
                    iterated_residual: one.solution.iterated_residual * factor,
                    true_residual: one.solution.true_residual * factor,
                    rhs: one.solution.rhs * factor,
                    ..one.solution
                };
                assert_eq!(other.solution, expected, "{name}");
                assert_eq!(other.history.steps, times(&one.history.steps, factor), "{name}");
                let checks = one.history.checks.iter().map(|(step, norm)| (*step, norm * factor));
                assert_eq!(other.history.checks, checks.collect::<Vec<_>>(), "{name}");
            }
        }
    }
    Ok(())
}

#[test]
fn absolute_goals_are_those_of_the_caller() -> Result<(), Error> {
    let a = flow(&Flow { cells: [5, 4, 3], spread: 0.3, ..Flow::default() })?;
    for (size, goal) in [(1e-170, 1e-176), (1e170, 1e164)] {
        let b = times(&rhs(a.rows()), size);
        let stop = [Stop::Absolute(goal), Stop::Steps(300)];
        let Solved { solution, .. } = found(&Cg::default(), &a, &b, &vec![0.0; a.rows()], &stop)?;
        assert!(solution.reason.is_converged() && solution.steps > 5, "{solution:?}");
        assert!(solution.true_residual <= goal && solution.true_residual > 1e-4 * goal, "{solution:?}");
    }
    Ok(())
}

#[test]
fn a_guess_far_from_the_answer_hides_no_right_hand_side() -> Result<(), Error> {
    let a = diagonal(&[1.0, 2.0, 4.0]);
    let b = times(&[1.0, -1.0, 3.0], 1e-200);
    let stop = [Stop::RelativeToRhs(1e-10), Stop::Steps(50)];
    let Solved { solution, x, .. } = found(&Cg::default(), &a, &b, &[1.0; 3], &stop)?;
    assert!((solution.rhs / 11f64.sqrt() / 1e-200 - 1.0).abs() < 1e-14, "{solution:?}");
    let error = x.iter().zip([1.0, -0.5, 0.75]).map(|(x, y)| (x / 1e-200 - y).abs()).fold(0.0, f64::max);
    assert!(solution.reason.is_converged() && error < 1e-9, "{solution:?} {x:?}");
    Ok(())
}

#[test]
fn nothing_on_the_right_has_nothing_for_an_answer() -> Result<(), Error> {
    let a = diagonal(&[1.0, 2.0, 4.0]);
    let stop = [Stop::RelativeToRhs(1e-10), Stop::Steps(50)];
    for method in methods() {
        let Solved { solution, x, .. } = found(&*method, &a, &[0.0; 3], &[1.0, -2.0, 0.5], &stop)?;
        assert!(solution.reason.is_converged() && solution.steps == 0, "{}: {solution:?}", method.name());
        assert_eq!((x, solution.true_residual, solution.rhs), (vec![0.0; 3], 0.0, 0.0));
        // Whoever asks for less begins with the guess.
        let stop = [Stop::Absolute(10.0), Stop::Steps(50)];
        let Solved { solution, x, .. } = found(&*method, &a, &[0.0; 3], &[1.0, -2.0, 0.5], &stop)?;
        assert!(solution.reason.is_converged() && x == [1.0, -2.0, 0.5], "{}: {solution:?}", method.name());
        assert!((solution.true_residual - 21f64.sqrt()).abs() < 1e-14);
    }
    Ok(())
}

#[test]
fn answers_outside_the_range_of_numbers_are_none() -> Result<(), Error> {
    let stop = [Stop::RelativeToRhs(1e-10), Stop::Steps(50)];
    // They would be 1e+400 and 1e-400.
    for (a, b) in [(1e-200, 1e200), (1e200, 1e-200)] {
        let Solved { solution, x, .. } =
            found(&Cg::default(), &diagonal(&[a; 2]), &[b; 2], &[0.0; 2], &stop)?;
        assert!(!solution.reason.is_converged() && x == [0.0; 2], "{solution:?} {x:?}");
        assert_eq!(solution.true_residual, solution.rhs);
    }
    Ok(())
}
