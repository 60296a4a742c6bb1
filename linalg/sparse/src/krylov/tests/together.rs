use super::*;
use crate::adaptive::{Adaptation, Criterion, FormatSet};
use crate::krylov::precondition::{Amg, Ilu};
use crate::krylov::rounds::Limits;

const STEPS: [usize; 8] = [9, 7, 9, 0, 9, 9, 5, 1];

/// What columns find after so many steps each, in lock step and alone.
fn both(
    rt: &Runtime,
    a: &Csr,
    edge: usize,
    preconditioner: &str,
    count: usize,
) -> Result<[Vec<Vec<u64>>; 2], Error> {
    let space = Space::new(a.rows(), 64 * a.bytes());
    assert!(space.stretches() > 1);
    let adaptation = Adaptation::new(FormatSet::Ap7, Criterion::Componentwise, "2^-37".parse()?);
    let stored = Stored::new(rt, &space, a, edge, &adaptation)?;
    let m: Option<Box<dyn Preconditioner>> = match preconditioner {
        "ilu0" => Some(Box::new(Ilu::new(rt, &space, a)?)),
        "amg" => Some(Box::new(Amg::new(rt, &space, a, edge)?)),
        _ => None,
    };
    let b = |k: usize| (0..a.rows()).map(|i| ((i * (k + 3)) % 29) as f64 - 14.0).collect::<Vec<_>>();
    let limits = |k: usize| Limits { goal: 0.0, steps: STEPS[k], is_late: &|| false };
    let bits = |d: &crate::space::Vector| -> Result<Vec<u64>, Error> {
        let mut found = vec![f64::NAN; a.rows()];
        d.copy_to(rt, &mut found)?;
        Ok(found.into_iter().map(f64::to_bits).collect())
    };
    let cg = Together::new(rt, &space, &stored, m.as_deref(), count)?;
    // The last column has nothing to do.
    let run: Vec<_> = (0..count).map(|k| (k + 1 < count).then(|| limits(k))).collect();
    for k in 0..count - 1 {
        cg.residual(k).copy_from(rt, &b(k))?;
    }
    let mut logs = vec![History::default(); count];
    let mut told: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as &mut dyn Logger).collect();
    let ended = cg.run(&run, &mut told)?;
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    for k in 0..count - 1 {
        together.push(bits(cg.correction(k))?);
        let of_one = Cg::default();
        let mut method = of_one.prepare(rt, &space, &stored, m.as_deref())?;
        method.residual().copy_from(rt, &b(k))?;
        let mut log = History::default();
        assert_eq!(ended[k], method.run(&limits(k), &mut log)?, "column {k}");
        assert_eq!(logs[k], log);
        alone.push(bits(method.correction())?);
    }
    Ok([together, alone])
}

#[test]
fn columns_have_the_bits_that_they_have_alone() -> Result<(), Error> {
    let (a, _) = flowing()?;
    let [one, four, devices] = places()?;
    for (rt, preconditioner, count) in [
        (&one, "none", 8),
        (&four, "none", 2),
        (&four, "ilu0", 4),
        (&four, "amg", 8),
        (&devices, "none", 4),
        (&devices, "ilu0", 2),
    ] {
        let [together, alone] = both(rt, &a, 1, preconditioner, count)?;
        assert!(together == alone, "{count} columns, {preconditioner}");
    }
    let solid = crate::generate::Elasticity {
        elements: crate::generate::Elements([8, 8, 8]),
        ..crate::generate::Elasticity::default()
    };
    let rt = Runtime::builder().workers(2).build()?;
    let [together, alone] = both(&rt, &crate::generate::elasticity(&solid)?, 3, "ilu0", 4)?;
    assert!(together == alone);
    Ok(())
}

/// A column that breaks down, or becomes no number, does nothing to the others.
#[test]
fn columns_do_not_see_each_other() -> Result<(), Error> {
    let a = diagonal(&[1.0, -1.0, 2.0, 3.0]);
    let rt = Runtime::builder().workers(2).build()?;
    let space = Space::new(4, 0);
    let stored = Stored::exact(&rt, &space, &a)?;
    let cg = Together::new(&rt, &space, &stored, None, 4)?;
    // The first curvature is 0; finite; a square that is not finite; solved in two steps.
    let b = [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [1e200, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]];
    (0..4).try_for_each(|k| cg.residual(k).copy_from(&rt, &b[k]))?;
    let limits: Vec<_> = (0..4).map(|_| Some(Limits { goal: 1e-12, steps: 9, is_late: &|| false })).collect();
    let mut logs = [(); 4];
    let mut told: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as &mut dyn Logger).collect();
    let states: Vec<_> = cg.run(&limits, &mut told)?.iter().map(|ended| (ended.state, ended.steps)).collect();
    use crate::krylov::State::{BrokenDown, NotANumber, Reached};
    assert_eq!(states, [(BrokenDown, 0), (Reached, 1), (NotANumber, 0), (Reached, 2)]);
    let mut found = [0.0; 4];
    cg.correction(3).copy_to(&rt, &mut found)?;
    assert!((found[2] - 0.5).abs() < 1e-14 && (found[3] - 1.0 / 3.0).abs() < 1e-14, "{found:?}");
    Ok(())
}
