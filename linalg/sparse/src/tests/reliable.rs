use super::*;

/// Returns the matrix with symmetric relative errors of up to `2^-20` in its nonzeros.
fn perturbed(a: &Csr) -> Csr {
    let error = |i: usize, j: usize| ((i.min(j) * 31 + i.max(j) * 17) % 97) as f64 / 48.0 - 1.0;
    let triplets: Vec<_> = (0..a.rows())
        .flat_map(|i| a.row(i).0.iter().map(move |&j| (i, j as usize)))
        .map(|(i, j)| (i, j, a.get(i, j) * (1.0 + 2f64.powi(-20) * error(i, j))))
        .collect();
    small(a.rows(), &triplets)
}

#[test]
fn a_narrow_operator_is_enough_for_all_digits() -> Result<(), Error> {
    let a = flow(&Flow { cells: [10, 9, 8], spread: 0.5, ..Flow::default() })?;
    let (b, narrow) = (rhs(a.rows()), perturbed(&a));
    let rt = Runtime::builder().workers(2).build()?;
    let space = Space::new(a.rows(), a.bytes());
    let (exact, inner) = (Stored::exact(&rt, &space, &a)?, Stored::exact(&rt, &space, &narrow)?);
    let jacobi = Jacobi::new(&rt, &space, &a)?;
    let problem =
        Solve { rt: &rt, exact: &exact, inner: &inner, preconditioner: Some(&jacobi), reduction: 0.0 };
    let run = |method: &dyn Method, problem: &Solve<'_>| {
        let (mut x, mut history) = (vec![0.0; a.rows()], History::default());
        let stop = [Stop::RelativeToRhs(1e-12), Stop::Steps(1000)];
        let solution = solve(problem, method, &b, &mut x, &stop[..], &mut history)?;
        Ok::<_, Error>((solution, history, residual(&a, &b, &x)?))
    };
    let (wide, _, _) = run(&Cg::default(), &Solve { inner: &exact, ..problem })?;
    let (_, plain, _) = run(&Cg::default(), &problem)?;
    // The first run believes it is done.
    assert!(plain.checks[1].1 > 1e-9 * plain.checks[0].1, "{:?}", plain.checks);
    for flexible in [false, true] {
        let method = ReliableUpdates::new(Cg { flexible }, &exact, 0.1);
        let (solution, _, residual) = run(&method, &problem)?;
        println!("{}: {solution:?}, exact products {wide:?}", method.name());
        assert!(solution.reason.is_converged() && solution.runs == 1, "{solution:?}");
        assert!(residual <= 1.01e-12, "{residual:e}");
        assert!(solution.steps <= wide.steps + wide.steps / 4, "{solution:?} {wide:?}");
    }
    Ok(())
}

#[test]
fn bits_do_not_depend_on_workers_or_devices() -> Result<(), Error> {
    let (a, b) = flowing()?;
    let narrow = perturbed(&a);
    same_bits_everywhere(|rt| {
        let space = Space::new(a.rows(), 64 * a.bytes());
        let (exact, inner) = (Stored::exact(rt, &space, &a)?, Stored::exact(rt, &space, &narrow)?);
        let jacobi = Jacobi::new(rt, &space, &a)?;
        let preconditioner: Option<&dyn Operator> = Some(&jacobi);
        let problem = Solve { rt, exact: &exact, inner: &inner, preconditioner, reduction: 0.0 };
        let method = ReliableUpdates::new(Cg::default(), &exact, 0.1);
        let mut x = vec![0.0; a.rows()];
        solve(&problem, &method, &b, &mut x, &[Stop::Steps(60)][..], &mut ())?;
        Ok(x)
    })
}

#[test]
fn what_cannot_be_reached_ends() -> Result<(), Error> {
    let a = flow(&Flow { cells: [6, 5, 4], spread: 0.5, ..Flow::default() })?;
    let rt = Runtime::builder().workers(1).build()?;
    let space = Space::new(a.rows(), a.bytes());
    let exact = Stored::exact(&rt, &space, &a)?;
    let method = ReliableUpdates::new(Cg::default(), &exact, 0.1);
    let (solution, _) =
        solved(&rt, &method, &a, &rhs(a.rows()), Ask { tolerance: 1e-18, steps: 20_000, ..PLAIN }, &mut ())?;
    assert_eq!(solution.reason, Reason::Stagnated, "{solution:?}");
    refuses_other_deltas(&rt, &exact);
    Ok(())
}

fn refuses_other_deltas(rt: &Runtime, exact: &dyn Operator) {
    let setting = Setting { rt, a: exact, m: None, columns: 1 };
    for delta in [0.0, 1.0, f64::NAN] {
        let refused =
            ReliableUpdates::new(Cg::default(), exact, delta).prepare(setting).err().expect("a wrong delta");
        assert!(refused.to_string().starts_with("delta: "));
    }
}
