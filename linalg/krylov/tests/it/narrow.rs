//! Vectors in few bits, and what keeps conjugate gradients stable then.

use std::sync::Arc;

use zellige_kernels::packed::PackedFormat;
use zellige_krylov::method::{
    InnerSolver, MemoryUse, NumbersHandle, Setting, Steps, Sums, minus, plus, times,
};
use zellige_krylov::{
    BiCgStab, Cg, Error, FromFn, History, Logger, Method, MultiVector, Operator, Packed, Plain,
    ReliableUpdates, Solution, Solve, Space, Stabilisation, Stop, StoppingCriterion, Storage, Trigger,
    Updates, from_fn, solve, solve_columns, solve_shifted, solve_shifted_with,
};
use zellige_runtime::{Bindings, Runtime};

/// Returns the operator `-1 2 -1` plus an increasing diagonal: condition number about `1e5`.
fn chain(space: &Space) -> FromFn<f64> {
    from_fn(space, |x: &[f64], y: &mut [f64]| {
        let n = x.len();
        for i in 0..n {
            let beside = [i.checked_sub(1), Some(i + 1)].into_iter().flatten().filter_map(|j| x.get(j));
            let here = 2.0 + 1e-5 + 4.0 * (i as f64 / n as f64).powi(8);
            y[i] = here * x[i] - beside.sum::<f64>();
        }
    })
}

const ROWS: usize = 600;
const TOLERANCE: f64 = 1e-10;

fn rhs() -> Vec<f64> {
    (0..ROWS).map(|i| ((i * 37 % 101) as f64 - 50.0) / 50.0).collect()
}

fn solved(
    storage: Packed,
    flexible: bool,
    stabilisation: Stabilisation,
    trigger: Trigger,
) -> Result<Solution, Error> {
    let (rt, space) = (Runtime::builder().workers(2).build()?, Space::cut_at(&[0, 192, 384], ROWS)?);
    let a = chain(&space);
    let updates = Updates { trigger, storage: Arc::new(storage), stabilisation, buffer: 1 };
    let method = ReliableUpdates { method: Cg { flexible }, exact: &a as &dyn Operator, updates };
    let (mut x, stop) = (vec![0.0; ROWS], [Stop::RelativeToRhs(TOLERANCE), Stop::Steps(6000)]);
    let solution = solve(&Solve::new(&rt, &a), &method, &rhs(), &mut x, &stop[..], &mut ())?;
    println!("{storage:?} flexible {flexible} {stabilisation:?} {trigger:?}: {solution:?}");
    Ok(solution)
}

/// All digits, with residuals and directions in formats that have three to eight.
#[test]
fn narrow_vectors_are_enough_for_all_digits() -> Result<(), Error> {
    let wide = solved(Packed::default(), false, Stabilisation::default(), Trigger::Reduction(0.1))?;
    assert!(wide.reason.is_converged() && wide.runs == 1, "{wide:?}");
    for format in [PackedFormat::Fp32, PackedFormat::Rp24] {
        for trigger in [Trigger::Reduction(0.1), Trigger::Estimate] {
            let narrow = solved(Packed::Each(format), true, Stabilisation::default(), trigger)?;
            assert!(narrow.reason.is_converged(), "{format} {trigger:?}: {narrow:?}");
            assert!(narrow.true_residual <= TOLERANCE * narrow.rhs);
            if format == PackedFormat::Fp32 {
                assert!(narrow.steps <= 2 * wide.steps, "{format} {trigger:?}: {narrow:?} {wide:?}");
            }
        }
    }
    Ok(())
}

/// Without what keeps it stable it takes more steps.
#[test]
fn each_part_of_the_stabilisation_helps() -> Result<(), Error> {
    let format = Packed::Each(PackedFormat::Rp24);
    let with = |flexible, wide_solution, projection| {
        let stabilisation = Stabilisation { wide_solution, projection, ..Stabilisation::default() };
        solved(format, flexible, stabilisation, Trigger::Reduction(0.1))
    };
    let (all, none) = (with(true, true, true)?, with(false, false, false)?);
    assert!(all.reason.is_converged());
    assert!(!none.reason.is_converged() || none.steps > all.steps, "{all:?} {none:?}");
    for (flexible, wide, projection) in [(false, true, true), (true, false, true), (true, true, false)] {
        with(flexible, wide, projection)?;
    }
    Ok(())
}

/// A vector task on vectors of several storages rounds to what is stored, and sums what is stored.
#[test]
fn tasks_see_what_is_stored() -> Result<(), Error> {
    let (rt, space) = (Runtime::builder().workers(2).build()?, Space::cut_at(&[0, 4800], 10_000)?);
    let storages: [Arc<dyn Storage<f64>>; 3] = [
        Arc::new(Plain),
        Arc::new(Packed::SINGLE),
        Arc::new(Packed::Blocks(zellige_kernels::packed::block::BlockFormat::B16)),
    ];
    for columns in [1, 3, 8] {
        for storage in &storages {
            let vector = |factor: usize| -> Result<MultiVector, Error> {
                let v = MultiVector::stored(&rt, &space, columns, Arc::clone(storage));
                for c in 0..columns {
                    let column = |i: usize| (i * (factor + c) % 101) as f64 / 7.0 - 7.0;
                    v.set_column(&rt, c, &(0..space.len()).map(column).collect::<Vec<_>>())?;
                }
                Ok(v)
            };
            let (x, y) = (vector(37)?, vector(53)?);
            let before: Vec<Vec<f64>> = (0..columns).map(|c| y.column(&rt, c)).collect::<Result<_, _>>()?;
            let (numbers, sums) = (NumbersHandle::new(&rt, columns, 6), Sums::new(&rt, &space, columns, 2));
            numbers.change(&rt, |c, mut numbers| numbers.set_reals([(0, 0.3 + c as f64), (1, 0.7)]))?;
            let graph = rt.record(|graph| {
                let steps = Steps::new(&rt, graph, &space, &numbers).with_sums(&sums);
                let task = steps.task("test").assign(&y, [plus(0, &x), minus(1, &y), times(0.5, &x)]);
                task.dot(&y, &x, 0).dot_change(&y, 1).submit()?;
                steps.update_numbers("sums", |sums, s| s.set_reals([(2, sums[0]), (3, sums[1])]))
            })?;
            rt.replay(&Bindings::recorded(&graph))?;
            let found = numbers.look(&rt, |_, numbers| [numbers[2], numbers[3]])?;
            for c in 0..columns {
                let (x, y, old) = (x.column(&rt, c)?, y.column(&rt, c)?, &before[c]);
                let exact = |i: usize| (0.3 + c as f64) * x[i] - 0.7 * old[i] + 0.5 * x[i];
                let largest = (0..y.len()).map(|i| exact(i).abs()).fold(0.0, f64::max);
                let roundoff = storage.roundoff().max(f64::EPSILON);
                let error = (0..y.len()).map(|i| (y[i] - exact(i)).abs()).fold(0.0, f64::max);
                assert!(
                    error <= 4.0 * roundoff * largest,
                    "{columns} {storage:?}: {error:e} beside {largest:e}"
                );
                let dot: f64 = y.iter().zip(&x).map(|(y, x)| y * x).sum();
                let change: f64 = y.iter().zip(old).map(|(y, old)| y * (y - old)).sum();
                let size: f64 = y.iter().zip(old).map(|(y, old)| y.abs() * (y.abs() + old.abs())).sum();
                for (found, expected) in found[c].iter().zip([dot, change]) {
                    assert!(
                        (found - expected).abs() <= 1e-12 * size,
                        "{columns} {storage:?}: {found} {expected}"
                    );
                }
            }
        }
    }
    Ok(())
}

/// The residual of a run is in float64 for any storage, so the reported residual equals the
/// recomputed one.
#[test]
fn residuals_that_are_told_are_true() -> Result<(), Error> {
    let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(ROWS, 0));
    let a = chain(&space);
    let updates = Updates::new(0.1, Packed::Each(PackedFormat::Rp16));
    let method = ReliableUpdates { method: Cg { flexible: true }, exact: &a as &dyn Operator, updates };
    let ready: Box<dyn InnerSolver> = method.prepare(Setting { rt: &rt, a: &a, m: None, columns: 1 })?;
    assert!(ready.residual().storage().is_plain() && ready.correction().storage().is_plain());
    let (mut x, mut history) = (vec![0.0; ROWS], History::default());
    let stop = [Stop::RelativeToRhs(1e-3), Stop::Steps(4000)];
    let solution = solve(&Solve::new(&rt, &a), &method, &rhs(), &mut x, &stop[..], &mut history)?;
    let product = zellige_krylov::multiply(&rt, &a as &dyn Operator, &x)?;
    let squares = rhs().iter().zip(&product).map(|(b, y)| (b - y).powi(2)).sum::<f64>();
    assert!((solution.true_residual - squares.sqrt()).abs() <= 1e-9 * solution.rhs, "{solution:?}");
    let _: &dyn Logger = &history;
    Ok(())
}

/// BiCGStab(l) with narrow vectors, on a system that is not symmetric, with and without a
/// preconditioner.
#[test]
fn stabilised_gradients_reach_all_digits_in_narrow_vectors() -> Result<(), Error> {
    let (rt, space) = (Runtime::builder().workers(2).build()?, Space::cut_at(&[0, 192, 384], ROWS)?);
    let a = from_fn(&space, |x: &[f64], y: &mut [f64]| {
        for i in 0..x.len() {
            let at = |j: Option<usize>| j.and_then(|j| x.get(j)).copied().unwrap_or(0.0);
            y[i] = (2.2 + (i % 7) as f64 / 3.0) * x[i] - 1.4 * at(i.checked_sub(1)) - 0.6 * at(Some(i + 1));
        }
    });
    let diagonal = from_fn(&space, |x: &[f64], y: &mut [f64]| {
        y.iter_mut().zip(x).enumerate().for_each(|(i, (y, x))| *y = x / (2.2 + (i % 7) as f64 / 3.0));
    });
    for l in [1, 2, 4] {
        for format in [PackedFormat::Fp64, PackedFormat::Fp32, PackedFormat::Rp24] {
            for preconditioner in [None, Some(&diagonal as &dyn Operator)] {
                let updates = Updates::new(0.1, Packed::Each(format));
                let method = ReliableUpdates { method: BiCgStab { l }, exact: &a as &dyn Operator, updates };
                let (mut x, stop) = (vec![0.0; ROWS], [Stop::RelativeToRhs(TOLERANCE), Stop::Steps(2000)]);
                let problem = Solve { preconditioner, ..Solve::new(&rt, &a) };
                let found = solve(&problem, &method, &rhs(), &mut x, &stop[..], &mut ())?;
                assert!(found.reason.is_converged(), "{l} {format}: {found:?}");
                assert!(
                    found.true_residual <= TOLERANCE * found.rhs && found.runs <= 3,
                    "{l} {format}: {found:?}"
                );
            }
        }
    }
    let updates = Updates { trigger: Trigger::Estimate, ..Updates::new(0.1, Plain) };
    let estimate = ReliableUpdates { method: BiCgStab { l: 2 }, exact: &a as &dyn Operator, updates };
    assert!(estimate.prepare(Setting { rt: &rt, a: &a, m: None, columns: 1 }).is_err());
    let updates = Updates { buffer: 4, ..Updates::new(0.1, Plain) };
    let buffered = ReliableUpdates { method: BiCgStab { l: 2 }, exact: &a as &dyn Operator, updates };
    assert!(buffered.prepare(Setting { rt: &rt, a: &a, m: None, columns: 1 }).is_err());
    Ok(())
}

/// Several shifts in one space, with narrow residuals and directions: as many digits as in float64.
#[test]
fn shifts_reach_all_digits_in_narrow_vectors() -> Result<(), Error> {
    let (rt, space) = (Runtime::builder().workers(2).build()?, Space::cut_at(&[0, 192, 384], ROWS)?);
    let (a, shifts) = (chain(&space), [0.0, 0.001, 0.1, 5.0]);
    let stop = [Stop::RelativeToRhs(TOLERANCE), Stop::Steps(6000)];
    let problem = Solve::new(&rt, &a);
    let plain = solve_shifted(&problem, &shifts, &rhs(), &stop[..], &mut [(); 4])?;
    for format in [PackedFormat::Fp64, PackedFormat::Fp32, PackedFormat::Rp24] {
        let updates = Updates::new(0.1, Packed::Each(format));
        let with = |updates| solve_shifted_with(&problem, &shifts, &rhs(), &stop[..], &mut [(); 4], updates);
        let found = with(&updates)?;
        let stabilisation = Stabilisation { removal: false, ..Stabilisation::default() };
        let stayed = with(&Updates { stabilisation, ..updates.clone() })?;
        println!("{format}: took part in {:?}, without removal {:?}", found.taken, stayed.taken);
        // The smallest shift stays to the end, and others are removed from narrow vectors before
        // they are done.
        assert!(found.taken[0] == found.shared && found.taken.is_sorted_by(|a, b| a >= b));
        assert_eq!(found.taken == stayed.taken, format == PackedFormat::Fp64, "{format}");
        assert!(found.taken.iter().zip(&stayed.taken).all(|(with, without)| with <= without));
        let steps: Vec<usize> = found.each.iter().map(|(solution, _)| solution.steps).collect();
        println!("{format}: {} shared, {steps:?}; plain {}", found.shared, plain.shared);
        for (shift, (solution, x)) in shifts.iter().zip(&found.each) {
            assert!(solution.reason.is_converged(), "{format} {shift}: {solution:?}");
            let product = zellige_krylov::multiply(&rt, &a as &dyn Operator, x)?;
            let of_row = |((b, y), x): ((&f64, &f64), &f64)| (b - y - shift * x).powi(2);
            let squares: f64 = rhs().iter().zip(&product).zip(x).map(of_row).sum();
            assert!(squares.sqrt() <= 1.01 * TOLERANCE * solution.rhs, "{format} {shift}: {solution:?}");
        }
        if format == PackedFormat::Fp64 {
            // The smallest shift goes on alone with its direction: a restart would lose steps.
            assert!(found.shared < plain.shared && found.shared + steps[0] <= plain.shared + 5, "{steps:?}");
            assert!(steps[1..].iter().all(|steps| *steps == 0), "{steps:?}");
        }
    }
    Ok(())
}

/// Solves for three right-hand sides with this buffer, two of which end earlier, and returns the
/// solutions.
fn buffered(
    rt: &Runtime,
    buffer: usize,
    trigger: Trigger,
    (format, wide_solution, is_preconditioned): (PackedFormat, bool, bool),
) -> Result<(Vec<Solution>, Vec<Vec<f64>>), Error> {
    let space = Space::cut_at(&[0, 192, 384], ROWS)?;
    let (a, half) = (chain(&space), from_fn(&space, halved));
    let stabilisation = Stabilisation { wide_solution, ..Stabilisation::default() };
    let updates = Updates { trigger, storage: Arc::new(Packed::Each(format)), stabilisation, buffer };
    let method = ReliableUpdates { method: Cg { flexible: true }, exact: &a as &dyn Operator, updates };
    let preconditioner = is_preconditioned.then_some(&half as &dyn Operator);
    let b: Vec<Vec<f64>> = (0..3).map(|c| rhs().iter().map(|b| b * b + f64::from(c)).collect()).collect();
    let mut x = vec![vec![0.0; ROWS]; 3];
    let stops = [
        [Stop::RelativeToRhs(TOLERANCE), Stop::Steps(6000)],
        [Stop::RelativeToRhs(1e-3), Stop::Steps(6000)],
        [Stop::RelativeToRhs(TOLERANCE), Stop::Steps(37)],
    ];
    let stops = stops.each_ref().map(|stop| &stop[..]);
    let stops = stops.each_ref().map(|stop| stop as &dyn StoppingCriterion);
    let problem = Solve { preconditioner, ..Solve::new(rt, &a) };
    let b: Vec<&[f64]> = b.iter().map(Vec::as_slice).collect();
    let mut of_columns: Vec<&mut [f64]> = x.iter_mut().map(Vec::as_mut_slice).collect();
    let mut logs = [(), (), ()];
    let mut told: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as &mut dyn Logger).collect();
    let found = solve_columns(&problem, &method, &b, &mut of_columns, &stops, &mut told)?;
    // A buffer changes only the memory.
    let found = found.into_iter().map(|found| Solution { memory: MemoryUse::default(), ..found }).collect();
    Ok((found, x))
}

fn halved(x: &[f64], y: &mut [f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = 0.5 * x);
}

/// Steps, updates and answers are those without a buffer, to the bit, wherever in the buffer a
/// column ends.
#[test]
fn a_buffer_changes_no_bits() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    for (trigger, setting) in [
        (Trigger::Reduction(0.1), (PackedFormat::Fp32, true, false)),
        (Trigger::Estimate, (PackedFormat::Fp32, true, true)),
        (Trigger::Reduction(0.3), (PackedFormat::Rp24, false, false)),
        (Trigger::Reduction(0.1), (PackedFormat::Fp64, true, true)),
    ] {
        let without = buffered(&rt, 1, trigger, setting)?;
        assert!(without.0[0].reason.is_converged() && without.0[0].updates > 3, "{:?}", without.0);
        assert!(without.0[1].steps < without.0[0].steps && without.0[2].steps == 37, "{:?}", without.0);
        for buffer in [2, 3, 4, 8] {
            assert!(buffered(&rt, buffer, trigger, setting)? == without, "{buffer} {trigger:?} {setting:?}");
        }
    }
    for buffer in [0, 9] {
        assert!(buffered(&rt, buffer, Trigger::Estimate, (PackedFormat::Fp32, true, false)).is_err());
    }
    Ok(())
}

#[test]
fn a_buffer_changes_no_bits_of_shifts() -> Result<(), Error> {
    let (rt, space) = (Runtime::builder().workers(2).build()?, Space::cut_at(&[0, 192, 384], ROWS)?);
    let (a, shifts) = (chain(&space), [0.0, 0.001, 0.1, 5.0]);
    let found = |buffer, steps| {
        let updates = Updates { buffer, ..Updates::new(0.1, Packed::SINGLE) };
        let stop = [Stop::RelativeToRhs(TOLERANCE), Stop::Steps(steps)];
        solve_shifted_with(&Solve::new(&rt, &a), &shifts, &rhs(), &stop[..], &mut [(); 4], &updates)
    };
    for steps in [6000, 101] {
        let without = found(1, steps)?;
        for buffer in [2, 4, 7] {
            let with = found(buffer, steps)?;
            assert_eq!((with.shared, with.updates), (without.shared, without.updates));
            for ((with, x), (without, y)) in with.each.iter().zip(&without.each) {
                assert_eq!((with.steps, with.true_residual), (without.steps, without.true_residual));
                assert!(x == y, "{buffer} of {steps}");
            }
        }
    }
    Ok(())
}
