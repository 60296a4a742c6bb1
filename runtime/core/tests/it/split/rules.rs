//! Access rights of handles and their parts, and the values after refusals and failures.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use zellige_runtime::split::{Block, Split, split_evenly};
use zellige_runtime::{
    Bindings, Codelet, Cpu, Emulated, Error, Graph, Handle, Meta, Operands, Read, Recorder, Runtime, Submit,
    TaskContext, TaskError, commute, read, reads, reduce, update, write,
};

use super::{Ints, builder};

#[test]
fn a_handle_cannot_be_named_while_its_parts_are_out() {
    let rt = builder(1).build().unwrap();
    let v = rt.register(vec![1u64; 6]).named("v").with_reduction(|v| vec![0; v.len()], |a, b| a[0] += b[0]);
    let graph = rt.record(|g: &Recorder| g.task("t").operands((read(&v),)).cpu(|_| ()).submit().map(drop));
    let replayed = Bindings::recorded(&graph.unwrap());
    let parts = rt.split(&v, split_evenly(6, 2)).unwrap();
    let refusals = [
        rt.task("t").operands((read(&v),)).cpu(|_| ()).submit().map(drop),
        rt.task("t").operands((write(&v),)).cpu(|_| ()).submit().map(drop),
        rt.task("t").operands((update(&v),)).cpu(|_| ()).submit().map(drop),
        rt.task("t").operands((commute(&v),)).cpu(|_| ()).submit().map(drop),
        rt.task("t").operands((reduce(&v),)).cpu(|_| ()).submit().map(drop),
        rt.task("t").operands((reads([&v]),)).cpu(|_| ()).submit().map(drop),
        rt.replay(&replayed).map(drop),
        rt.read(&v).map(drop),
        rt.write(&v).map(drop),
        rt.take(v.clone()).map(drop),
        rt.views(&v, [0..1]).map(drop),
        rt.split(&v, [0..1]).map(drop),
    ];
    for (i, refused) in refusals.into_iter().enumerate() {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Split { .. }), "{i}: {error}");
        let text = error.to_string();
        assert!(text.contains("names v, which is split") && text.contains("join them"), "{i}: {text}");
    }
    let part = parts.handles()[1].clone();
    assert_eq!(part.name(), "v[3..6]");
    rt.task("t").operands((update(&part),)).cpu(|(part,)| part[0] = 7).submit().unwrap();
    parts.join().unwrap();
    let late = rt.task("late").operands((read(&part),)).cpu(|_| ()).submit();
    assert!(matches!(late, Err(Error::Gone { .. })), "{late:?}");
    rt.replay(&replayed).unwrap();
    assert_eq!(rt.take(v).unwrap(), [1, 1, 1, 7, 1, 1]);
}

#[test]
fn views_show_the_moment_and_cannot_be_written() {
    let rt = builder(2).device(Emulated::new(1 << 12)).build().unwrap();
    let v = rt.register((0..6u64).collect::<Ints>()).named("v");
    let rows = rt.views(&v, [0..4, 2..6]).unwrap();
    let cols = rt.views(&v, [Block::new(0..1, 0..3, 2), Block::new(1..2, 0..3, 2)]).unwrap();
    rt.task("zero").operands((update(&v),)).cpu(|(v,)| v.fill(0)).submit().unwrap();
    let of_view = rt.views(&rows[1], [1..3]).unwrap();
    assert_eq!(*rt.read(&rows[0]).unwrap(), [0, 1, 2, 3]);
    assert_eq!(*rt.read(&rows[1]).unwrap(), [2, 3, 4, 5]);
    assert_eq!(*rt.read(&cols[1]).unwrap(), [1, 3, 5]);
    assert_eq!(*rt.read(&of_view[0]).unwrap(), [3, 4]);
    assert_eq!(*rt.read(&v).unwrap(), [0; 6]);
    let view = &rows[0];
    let refusals = [
        rt.task("t").operands((write(view),)).cpu(|_| ()).submit().map(drop),
        rt.task("t").operands((update(view),)).cpu(|_| ()).submit().map(drop),
        rt.task("t").operands((commute(view),)).cpu(|_| ()).submit().map(drop),
        rt.write(view).map(drop),
        rt.split(view, [0..1]).map(drop),
        rt.record(|g: &Recorder| g.task("t").operands((update(view),)).cpu(|_| ()).submit().map(drop))
            .map(drop),
    ];
    for refused in refusals {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
        assert!(error.to_string().contains("v[0..4], which is a read-only view"), "{error}");
    }
    let recorded = Graph::record(|g: &Recorder| {
        let views = g.views(&v, [0..2])?;
        g.task("t").operands((update(&views[0]),)).cpu(|_| ()).submit().map(drop)
    });
    assert!(matches!(recorded.map(drop), Err(Error::ReadOnly { .. })));
}

#[test]
fn a_failure_in_a_part_reaches_the_parent_when_it_is_joined() {
    let rt = builder(1).device(Emulated::new(1 << 12)).build().unwrap();
    let v = rt.register(vec![1u64; 6]).named("v");
    let fail = |part: &Handle<Ints>| {
        rt.task("fails").operands((update(part),)).cpu(|(_,)| Err::<(), _>("on purpose")).submit().unwrap()
    };
    // A part that is written anew has a value again.
    let parts = rt.split(&v, split_evenly(6, 3)).unwrap();
    fail(&parts.handles()[0]);
    rt.task("anew")
        .operands((write(&parts.handles()[0]),))
        .cpu(|(mut p,)| p.put(vec![5; 2]))
        .submit()
        .unwrap();
    parts.join().unwrap();
    assert_eq!(*rt.read(&v).unwrap(), [5, 5, 1, 1, 1, 1]);

    let parts = rt.split(&v, split_evenly(6, 3)).unwrap();
    fail(&parts.handles()[1]);
    assert_eq!(*rt.read(&parts.handles()[2]).unwrap(), [1, 1]);
    parts.join().unwrap();
    let error = rt.read(&v).map(drop).unwrap_err().to_string();
    assert!(error.contains("v has no value: task fails on (v[2..4]): on purpose"), "{error}");
    let parts = rt.split(&v, [0..2]).unwrap();
    assert!(rt.read(&parts.handles()[0]).is_err());
    parts.join().unwrap();
    rt.task("anew").operands((write(&v),)).cpu(|(mut v,)| v.put(vec![9; 6])).submit().unwrap();
    assert_eq!(*rt.read(&v).unwrap(), [9; 6]);

    // A part that comes back with another size.
    let parts = rt.split(&v, [0..2]).unwrap();
    rt.task("grow")
        .operands((write(&parts.handles()[0]),))
        .cpu(|(mut p,)| p.put(vec![5; 3]))
        .submit()
        .unwrap();
    drop(parts);
    let error = rt.read(&v).map(drop).unwrap_err().to_string();
    assert!(error.contains("the part 0..2 has 3 elements by now, not 2"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let rt = builder(1).build().unwrap();
    let v = rt.register(vec![1u64; 6]).named("v");
    let refused = |regions: &[Range<usize>]| rt.split(&v, regions.iter().cloned()).map(drop).unwrap_err();
    let text = refused(&[0..3, 2..5]).to_string();
    assert!(text.contains("v cannot be split: regions 0..3 and 2..5 both have element 2"), "{text}");
    let text = refused(&[0..3, 3..7]).to_string();
    assert!(text.contains("region 3..7 ends at element 7, and there are 6"), "{text}");
    assert!(matches!(rt.views(&v, [5..7]), Err(Error::Config(_))));
    let empty = rt.register_empty::<Ints>();
    let text = rt.split(&empty, [0..1]).map(drop).unwrap_err().to_string();
    assert!(text.contains("register_sized"), "{text}");

    // A value that no task writes: no handle stays split.
    let later = rt.register_sized::<Ints>(Meta { bytes: 16, ..Meta::default() });
    assert!(matches!(rt.split(&later, [0..1]).map(drop), Err(Error::Unwritten { .. })));
    rt.task("now").operands((write(&later),)).cpu(|(mut v,)| v.put(vec![3; 2])).submit().unwrap();
    rt.split(&later, [0..1]).unwrap().join().unwrap();
    assert_eq!(rt.take(later).unwrap(), [3, 3]);
    // A value that turns out shorter than its registered length.
    rt.task("short").operands((write(&v),)).cpu(|(mut v,)| v.put(vec![1; 4])).submit().unwrap();
    let parts = rt.split(&v, split_evenly(6, 2)).unwrap();
    assert_eq!(*rt.read(&parts.handles()[0]).unwrap(), [1; 3]);
    let text = rt.read(&parts.handles()[1]).map(drop).unwrap_err().to_string();
    assert!(text.contains("region 3..6 ends at element 6, and there are 4"), "{text}");
}

#[test]
fn parts_that_are_split_or_gone_cannot_be_joined() {
    let rt = builder(1).build().unwrap();
    let v = rt.register(vec![1u64; 6]).named("v");
    let outer = rt.split(&v, split_evenly(6, 2)).unwrap();
    let inner = rt.split(&outer.handles()[0], [0..1, 1..3]).unwrap();
    assert!(matches!(outer.join(), Err(Error::Split { .. })));
    inner.join().unwrap();
    let error = rt.read(&v).map(drop).unwrap_err().to_string();
    assert!(error.contains("task join names v[0..3], which is split"), "{error}");

    let anew = || rt.task("anew").operands((write(&v),)).cpu(|(mut v,)| v.put(vec![2; 6])).submit().unwrap();
    anew();
    let parts = rt.split(&v, split_evenly(6, 2)).unwrap();
    assert_eq!(rt.take(parts.handles()[1].clone()).unwrap(), [2; 3]);
    assert!(matches!(parts.join(), Err(Error::Gone { .. })));
    assert!(matches!(rt.read(&v).map(drop), Err(Error::Poisoned { .. })));
    anew();
    let parts = rt.split(&v, split_evenly(6, 2)).unwrap();
    rt.release(v.clone());
    assert!(matches!(parts.join(), Err(Error::Gone { .. })));
    assert!(matches!(rt.read(&v).map(drop), Err(Error::Gone { .. })));
}

#[test]
fn dropping_joins_except_in_a_panic() {
    let rt = builder(1).build().unwrap();
    let v = rt.register(vec![1u64; 4]).named("v");
    let add = |parts: &Split<'_, Runtime, Ints, Range<usize>>| {
        rt.task("add").operands((update(&parts.handles()[0]),)).cpu(|(p,)| p[0] += 1).submit().unwrap();
    };
    add(&rt.split(&v, [1..4]).unwrap());
    assert_eq!(*rt.read(&v).unwrap(), [1, 2, 1, 1]);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let parts = rt.split(&v, [1..4]).unwrap();
        add(&parts);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    let error = rt.read(&v).map(drop).unwrap_err().to_string();
    assert!(error.contains("v has no value") && error.contains("dropped in a panic"), "{error}");
}

#[test]
fn graphs_on_parts_replay_while_they_are_out() {
    let rt = builder(1).device(Emulated::new(1 << 12)).build().unwrap();
    let v = rt.register(vec![1u64; 6]).named("v");
    let parts = rt.split(&v, split_evenly(6, 2)).unwrap();
    let graph = Graph::record(|g: &Recorder| {
        let [low, high] = parts.handles() else { unreachable!("two parts") };
        // A split within the graph, of a part.
        let inner = g.split(low, [0..1, 1..3])?;
        g.task("double").operands((update(&inner.handles()[1]),)).cpu(|(p,)| p[0] *= 2).submit()?;
        inner.join()?;
        g.task("add").operands((read(low), update(high))).cpu(|(l, h)| h[0] += l[1]).submit().map(drop)
    })
    .unwrap();
    let names = ["v[0..3]", "v[0..3][0..1]", "v[0..3][1..3]", "v[3..6]"];
    assert_eq!(graph.slots(), names);
    for _ in 0..3 {
        rt.replay(&Bindings::recorded(&graph)).unwrap();
    }
    parts.join().unwrap();
    assert_eq!(*rt.read(&v).unwrap(), [1, 8, 1, 15, 1, 1]);
    assert!(matches!(rt.replay(&Bindings::recorded(&graph)), Err(Error::Gone { .. })));

    // A graph that contains a split, on other data: longer data work, shorter ones fail with a
    // specific error.
    let graph = Graph::record(|g: &Recorder| {
        let parts = g.split(&v, [0..3, 3..6])?;
        let part = parts.handles()[1].clone();
        g.task("zero").operands((update(&part),)).cpu(|(p,)| p.fill(0)).submit()?;
        parts.join()?;
        // The part's use has ended here, and in the recording only.
        assert!(matches!(g.views(&part, [0..1]), Err(Error::Gone { .. })));
        Ok::<(), Error>(())
    })
    .unwrap();
    let (long, short) = (rt.register(vec![3u64; 7]), rt.register(vec![3u64; 5]));
    rt.replay(&graph.bind("v", &long).unwrap()).unwrap();
    rt.replay(&graph.bind("v", &short).unwrap()).unwrap();
    assert_eq!(rt.take(long).unwrap(), [3, 3, 3, 0, 0, 0, 3]);
    let error = rt.take(short).unwrap_err().to_string();
    assert!(error.contains("region 3..6 ends at element 6, and there are 5"), "{error}");
}

/// Splits a handle from within a task.
struct Nested(Handle<Ints>);

impl Codelet for Nested {
    type Operands = (Read<u64>,);

    fn name(&self) -> &'static str {
        "nested"
    }

    fn cpu(
        &self,
        (factor,): <Self::Operands as Operands>::Views<'_, Cpu>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let factor = *factor;
        let parts = cx.split(&self.0, split_evenly(6, 3))?;
        for part in parts.handles() {
            let scale = move |(p,): (&mut [u64],)| p.iter_mut().for_each(|v| *v *= factor);
            cx.task("scale").operands((update(part),)).cpu(scale).submit()?;
        }
        Ok(parts.join()?)
    }
}

#[test]
fn running_tasks_split_too() {
    for devices in 0..2 {
        let mut building = builder(1);
        for _ in 0..devices {
            building = building.device(Emulated::new(1 << 12));
        }
        let rt = building.build().unwrap();
        let (v, factor) = (rt.register(vec![2u64; 6]), rt.register(5u64));
        let task = rt.submit(Nested(v.clone()), (read(&factor),)).unwrap();
        rt.wait(&task).unwrap();
        assert_eq!(rt.take(v).unwrap(), [10; 6]);
    }
}

#[test]
fn a_borrowed_matrix_is_split_inside_its_scope() {
    let rt = builder(1).device(Emulated::new(1 << 12)).build().unwrap();
    // 2 x 4, one row of padding.
    let mut matrix: Vec<f32> = (0..12).map(|i| i as f32).collect();
    rt.scope(|s| {
        let a = s.slice(&mut matrix, 2, 3)?;
        let tiles = rt.split(&a, Block::tiles((2, 4), 3, (2, 2))?)?;
        let negate = |(t,): (&mut [f32],)| t.iter_mut().for_each(|v| *v = -*v);
        rt.task("negate").operands((update(&tiles.handles()[1]),)).cpu(negate).submit()?;
        tiles.join()
    })
    .unwrap();
    assert_eq!(matrix, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, -6.0, -7.0, 8.0, -9.0, -10.0, 11.0]);

    // Parts that outlive the scope cannot be joined.
    let mut parts = None;
    let before = matrix.clone();
    rt.scope(|s| {
        let a = s.slice(&mut matrix, 3, 3)?;
        parts = Some(rt.split(&a, [0..6])?);
        Ok::<(), Error>(())
    })
    .unwrap();
    let parts = parts.unwrap();
    let zero = |(t,): (&mut [f32],)| t.fill(0.0);
    rt.task("zero").operands((update(&parts.handles()[0]),)).cpu(zero).submit().unwrap();
    assert!(matches!(parts.join(), Err(Error::Gone { .. })));
    rt.wait_all().unwrap();
    assert_eq!(matrix, before);
}
