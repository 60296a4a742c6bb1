use super::*;
use crate::adaptive::{Adaptation, Criterion, FormatSet};
use crate::precondition::{Amg, Ilu};
use zellige_kernels::packed::block::BlockFormat;
use zellige_krylov::method::{InnerResult, Limit, Limits};

const STEPS: [usize; 8] = [9, 7, 9, 0, 9, 9, 5, 1];

/// Runs a method once for columns that have limits; returns the result of each, and the bits of the
/// corrections.
fn run(
    rt: &Runtime,
    method: &dyn Method,
    (a, m): (&Stored, Option<&dyn Operator>),
    b: &[Vec<f64>],
    limits: &[Option<Limit>],
) -> Result<Vec<(InnerResult, History, Vec<u64>)>, Error> {
    let mut ready = method.prepare(Setting { rt, a, m, columns: b.len() })?;
    b.iter().enumerate().try_for_each(|(k, b)| ready.residual().set_column(rt, k, b))?;
    let mut logs = vec![History::default(); b.len()];
    let mut told: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as &mut dyn Logger).collect();
    let ended = ready.solve(&Limits { columns: limits, is_late: &|| false }, &mut told)?;
    let each = ended.into_iter().zip(logs).enumerate();
    each.map(|(k, (ended, log))| {
        let found = ready.correction().column(rt, k)?;
        Ok((ended, log, found.into_iter().map(f64::to_bits).collect()))
    })
    .collect()
}

/// Columns that are solved as a block agree with single solves; some are done before others, and
/// the last one has nothing to do.
fn agree(
    rt: &Runtime,
    method: &dyn Method,
    (a, block_size): (&Csr, usize),
    preconditioner: &str,
    count: usize,
) -> Result<(), Error> {
    let space = Space::new(a.rows(), 64 * a.bytes());
    assert!(space.parts() > 1);
    let adaptation = Adaptation::new(FormatSet::Ap7, Criterion::Componentwise, "2^-37".parse()?);
    let stored = Stored::new(rt, &space, a, block_size, &adaptation)?;
    let m: Option<Box<dyn Operator>> = match preconditioner {
        "ilu0" => Some(Box::new(Ilu::new(rt, &space, a)?)),
        "amg" => Some(Box::new(Amg::new(rt, &space, a, block_size)?)),
        "jacobi" => Some(Box::new(Jacobi::absolute(rt, &space, a)?)),
        "block" => Some(Box::new(crate::precondition::BlockJacobi::new(rt, &space, a, 8)?)),
        _ => None,
    };
    let operators = (&stored, m.as_deref());
    let b = |k: usize| (0..a.rows()).map(|i| ((i * (k + 3)) % 29) as f64 - 14.0).collect::<Vec<_>>();
    let b: Vec<_> = (0..count).map(b).collect();
    let limit = |k: usize| (k + 1 < count).then_some(Limit { goal: 0.0, steps: STEPS[k] });
    let limits: Vec<_> = (0..count).map(limit).collect();
    let together = run(rt, method, operators, &b, &limits)?;
    for k in 0..count - 1 {
        let alone = run(rt, method, operators, &b[k..k + 1], &limits[k..k + 1])?;
        assert!(together[k] == alone[0], "{} {preconditioner}, column {k} of {count}", method.name());
    }
    Ok(())
}

#[test]
fn columns_have_the_bits_that_they_have_alone() -> Result<(), Error> {
    let (a, _) = flowing()?;
    let [one, four, devices] = places()?;
    let (cg, fcg) = (Cg::default(), Cg { flexible: true });
    let bicgstab = BiCgStab { l: 2 };
    let gmres = Gmres { restart: 8, ..Gmres::default() };
    let modified = Gmres { orthogonalisation: Orthogonalisation::Modified, flexible: true, ..gmres };
    let narrow = Gmres { basis: Packed::Blocks(BlockFormat::B16), ..gmres };
    let cases: [(&Runtime, &dyn Method, &str, usize); 18] = [
        (&one, &cg, "none", 8),
        (&four, &cg, "none", 2),
        (&four, &cg, "ilu0", 4),
        (&four, &cg, "amg", 8),
        (&four, &cg, "block", 4),
        (&devices, &cg, "none", 4),
        (&devices, &cg, "ilu0", 2),
        (&four, &fcg, "jacobi", 4),
        (&four, &Minres, "jacobi", 2),
        (&four, &bicgstab, "ilu0", 4),
        (&four, &cg, "none", 3),
        (&devices, &cg, "ilu0", 5),
        (&four, &cg, "amg", 6),
        (&four, &bicgstab, "ilu0", 7),
        (&four, &gmres, "none", 8),
        (&devices, &gmres, "ilu0", 2),
        (&four, &modified, "jacobi", 4),
        (&four, &narrow, "ilu0", 8),
    ];
    for (rt, method, preconditioner, count) in cases {
        agree(rt, method, (&a, 1), preconditioner, count)?;
    }
    let solid = crate::generate::Elasticity {
        elements: crate::generate::Elements([8, 8, 8]),
        ..crate::generate::Elasticity::default()
    };
    let solid = crate::generate::elasticity(&solid)?;
    (3..=7).try_for_each(|count| agree(&four, &cg, (&solid, 3), "ilu0", count))
}

/// A column that breaks down, or becomes NaN, does not affect the others.
#[test]
fn columns_do_not_see_each_other() -> Result<(), Error> {
    let a = diagonal(&[1.0, -1.0, 2.0, 3.0]);
    let rt = Runtime::builder().workers(2).build()?;
    let stored = Stored::exact(&rt, &Space::new(4, 0), &a)?;
    // The first curvature is 0; finite; a square that is not finite; solved in two steps.
    let b = [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [1e200, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]];
    let limits = [Some(Limit { goal: 1e-12, steps: 9 }); 4];
    let found = run(&rt, &Cg::default(), (&stored, None), &b.map(|b| b.to_vec()), &limits)?;
    let states: Vec<_> = found.iter().map(|(ended, ..)| (ended.state, ended.steps)).collect();
    use State::{BrokenDown, NotANumber, Reached};
    assert_eq!(states, [(BrokenDown, 0), (Reached, 1), (NotANumber, 0), (Reached, 2)]);
    let last: Vec<f64> = found[3].2.iter().map(|bits| f64::from_bits(*bits)).collect();
    assert!((last[2] - 0.5).abs() < 1e-14 && (last[3] - 1.0 / 3.0).abs() < 1e-14, "{last:?}");
    Ok(())
}

/// Matrices have kernels for up to eight columns.
#[test]
fn other_numbers_of_columns_are_refused() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let stored = Stored::exact(&rt, &Space::new(2, 0), &diagonal(&[1.0, 2.0]))?;
    let cg = Cg::default();
    let refused = cg.prepare(Setting::<f64> { rt: &rt, a: &stored, m: None, columns: 9 });
    let error = refused.err().map(|error: Error| error.to_string()).unwrap_or_default();
    assert!(error.starts_with("columns: 9"), "{error}");
    Ok(())
}
