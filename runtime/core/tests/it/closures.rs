//! Views and return types of task closures: lists of any length, arrays, the context, and names
//! made at run time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zellige_runtime::data::BorrowedSlice;
use zellige_runtime::*;

/// Returns runtimes with CPU workers, with and without the memory manager, and with devices that
/// have memory of their own.
fn runtimes() -> Vec<Runtime> {
    let plain = || Runtime::builder().workers(2);
    let device = || Emulated::new(1 << 16);
    [plain(), plain().device(device()), Runtime::builder().workers(0).device(device()).device(device())]
        .map(|builder| builder.build().unwrap())
        .into()
}

/// Gaussian elimination of a column of tiles: pivots are searched in all of it, and rows are
/// swapped across tiles.
#[test]
fn a_column_of_tiles_is_updated_by_one_task() {
    for rt in runtimes() {
        let column: Vec<_> = (0..30u64).map(|i| rt.register(vec![7 * i % 30, i])).collect();
        rt.task("sort")
            .operands((updates(&column),))
            .cpu(|(mut tiles,)| {
                for at in 0..tiles.len() {
                    let least = (at..tiles.len()).min_by_key(|&i| tiles[i][0]).unwrap();
                    let (left, right) = tiles.split_at_mut(least.max(at + 1));
                    if least > at {
                        left[at].swap_with_slice(right[0]);
                    }
                }
            })
            .submit()
            .unwrap();
        for (i, tile) in column.into_iter().enumerate() {
            assert_eq!(rt.take(tile).unwrap()[0], i as u64);
        }
    }
}

#[test]
fn lists_are_written_and_a_tile_left_out_is_an_error() {
    for rt in runtimes() {
        let tiles: Vec<_> = (0..9).map(|_| rt.register_empty::<Vec<u32>>()).collect();
        let write_up_to = |count: usize| {
            let written = rt
                .task("write")
                .operands((writes(&tiles),))
                .cpu(move |(slots,)| {
                    for (i, mut slot) in slots.into_iter().take(count).enumerate() {
                        slot.put(vec![i as u32; 3]);
                    }
                })
                .submit()
                .unwrap();
            rt.wait(&written)
        };
        let error = write_up_to(8).unwrap_err();
        assert!(error.to_string().contains("without a value"), "{error}");
        // The task has failed as a whole.
        assert!(matches!(rt.read(&tiles[0]), Err(Error::Poisoned { .. })));
        write_up_to(9).unwrap();
        assert_eq!(rt.read(&tiles[8]).unwrap()[0], 8);
        let _ = rt.failures();
    }
}

/// The commuting turns of a list are acquired all or none.
#[test]
fn lists_of_commuting_operands_meet_each_other() {
    for rt in runtimes() {
        let counters: Vec<_> = (0..6).map(|_| rt.register(0u64)).collect();
        for i in 0..200 {
            let some: Vec<_> = (0..3).map(|k| commute(&counters[(i * (k + 1)) % 6])).collect();
            let distinct = some.len();
            let submitted = rt
                .task("count")
                .operands((some,))
                .cpu(|(counters,)| counters.into_iter().for_each(|counter| *counter += 1))
                .submit();
            match submitted {
                Ok(_) => assert_eq!(distinct, 3),
                // The same handle twice.
                Err(error) => assert!(matches!(error, Error::Aliased { .. }), "{error}"),
            }
        }
        let runs = (0..200).filter(|i| i % 6 == 1 || i % 6 == 5 || i % 6 == 2 || i % 6 == 4);
        let distinct = runs.filter(|i| {
            let mut at: Vec<_> = (1..4).map(|k| (i * k) % 6).collect();
            at.sort_unstable();
            at.dedup();
            at.len() == 3
        });
        let total: u64 = counters.into_iter().map(|counter| rt.take(counter).unwrap()).sum();
        assert_eq!(total, 3 * distinct.count() as u64);
    }
}

#[test]
fn arrays_are_values() {
    for rt in runtimes() {
        let (point, grey) = (rt.register([1.0f64, 2.0, 3.0]), rt.register([0u8; 4]));
        rt.task("turn")
            .operands((update(&point), read(&grey)))
            .cpu(|(point, grey)| {
                point.rotate_left(1);
                point[2] += f64::from(grey[3]);
            })
            .submit()
            .unwrap();
        assert_eq!(rt.take(point).unwrap(), [2.0, 3.0, 1.0]);
    }
}

#[test]
fn a_body_with_a_context_submits_and_waits() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (sum, parts) = (rt.register(0u64), (0..10u64).map(|i| rt.register(i)).collect::<Vec<_>>());
    let all = parts.clone();
    rt.task("sum")
        .operands((update(&sum),))
        .cpu_with(move |(sum,), cx| {
            assert!(cx.worker() < 2 && !cx.is_cancelled());
            for part in &all {
                cx.task("square").operands((update(part),)).cpu(|(part,)| *part *= *part).submit()?;
            }
            cx.wait_children()?;
            *sum = 1;
            Ok::<(), Error>(())
        })
        .submit()
        .unwrap();
    assert_eq!(rt.take(sum).unwrap(), 1);
    assert_eq!(parts.into_iter().map(|part| rt.take(part).unwrap()).sum::<u64>(), 285);
}

#[test]
fn a_body_that_never_returns_is_a_body() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let x = rt.register(0u8);
    let task = rt.task("later").operands((update(&x),)).cpu(|(_,)| todo!("write it")).submit().unwrap();
    let error = rt.wait(&task).unwrap_err();
    assert!(error.to_string().contains("write it"), "{error}");
    let _ = rt.failures();
}

#[test]
fn names_are_made_at_run_time() {
    let rt = Runtime::builder().workers(2).trace(true).build().unwrap();
    let x = rt.register(0u32);
    for i in 0..20 {
        rt.task(format!("phase {}", i % 4)).operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
    }
    rt.wait_all().unwrap();
    let trace = rt.take_trace().unwrap();
    for i in 0..4 {
        let name = format!("phase {i}");
        assert_eq!(trace.tasks.iter().filter(|task| task.name == name).count(), 5);
    }
}

/// A scope accepts tasks itself, as a target for generic algorithms.
#[test]
fn a_scope_is_where_tasks_are_submitted() {
    fn double(to: &impl Submit, x: &Handle<BorrowedSlice<f64>>) {
        to.task("double")
            .operands((update(x),))
            .cpu(|(x,)| x.data.iter_mut().for_each(|x| *x *= 2.0))
            .submit()
            .unwrap();
    }
    let rt = Runtime::builder().workers(2).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut numbers = [1.0, 2.0, 3.0];
    rt.scope(|scope| {
        let slice = scope.slice(&mut numbers, 3, 3)?;
        double(scope, &slice);
        let (count, own) = (Arc::clone(&ran), scope.register(1usize));
        scope
            .task("count")
            .operands((read(&own),))
            .cpu(move |(own,)| _ = count.fetch_add(*own, Ordering::Relaxed))
            .submit()
            .map(drop)
    })
    .unwrap();
    rt.wait_all().unwrap();
    assert_eq!((numbers, ran.load(Ordering::Relaxed)), ([2.0, 4.0, 6.0], 1));
}
