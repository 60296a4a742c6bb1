//! Handles taken apart and put together again, checked against the same program on plain vectors.

#![allow(clippy::single_range_in_vec_init, reason = "a list of one region is one")]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use zellige_runtime::{
    Bindings, Block, Codelet, Cpu, Emulated, Error, Graph, Handle, Meta, Operands, POLICIES, Read, Recorder,
    Region, Runtime, RuntimeBuilder, Split, Submit, TaskContext, TaskError, commute, read, reads, reduce,
    split_evenly, update, write,
};

type Ints = Vec<u64>;

/// A runtime that is given up loudly if it hangs.
fn builder(cpus: usize) -> RuntimeBuilder {
    Runtime::builder().workers(cpus).watchdog(Some(Duration::from_secs(20))).on_stall(|text| {
        eprintln!("stalled: {text}");
        std::process::abort();
    })
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

fn elements<R: Region>(region: &R, of: &[u64]) -> Ints {
    region.runs().flatten().map(|element| of[element]).collect()
}

/// Disjoint ranges of `length` elements, some left out.
fn some_ranges(random: &mut Random, length: usize) -> Vec<Range<usize>> {
    let pieces = split_evenly(length, 1 + random.below(4));
    pieces.into_iter().filter(|_| random.below(5) > 0).collect()
}

/// Disjoint blocks of a matrix, some left out.
fn some_blocks(random: &mut Random, (rows, cols): (usize, usize)) -> Vec<Block> {
    let tile = (1 + random.below(rows.max(1)), 1 + random.below(cols.max(1)));
    let tiles = Block::tiles((rows, cols), rows, tile).unwrap();
    let keep = tiles.len().div_ceil(6);
    tiles.into_iter().filter(|_| random.below(keep) == 0).collect()
}

/// A random program, submitted to `target` and at the same time carried out on `plain`.
struct Program<'s, S> {
    target: &'s S,
    random: Random,
    /// Everything that views showed, as a handle and as a number.
    seen: &'s Handle<u64>,
    plain_seen: &'s mut u64,
}

impl<S: Submit> Program<'_, S> {
    /// Some steps on one handle, whose value is a matrix of this shape.
    fn run(
        &mut self,
        handle: &Handle<Ints>,
        plain: &mut [u64],
        shape: (usize, usize),
        depth: usize,
    ) -> Result<(), Error> {
        for _ in 0..1 + self.random.below(3) {
            let c = self.random.below(1000) as u64;
            match self.random.below(7) {
                0 => self.change(handle, plain, c)?,
                1 => self.add(handle, plain, c)?,
                2 | 3 => self.look(handle, plain, shape, c)?,
                4 | 5 if depth < 2 => {
                    let blocks = some_blocks(&mut self.random, shape);
                    let shape_of = |block: &Block| (block.rows.len(), block.cols.len());
                    self.split(handle, plain, blocks, shape_of, depth)?;
                }
                _ if depth < 2 => {
                    let ranges = some_ranges(&mut self.random, plain.len());
                    self.split(handle, plain, ranges, |range| (range.len(), 1), depth)?;
                }
                _ => self.change(handle, plain, c + 1)?,
            }
        }
        Ok(())
    }

    fn change(&mut self, handle: &Handle<Ints>, plain: &mut [u64], c: u64) -> Result<(), Error> {
        let body = move |values: &mut [u64]| {
            for (i, value) in values.iter_mut().enumerate() {
                *value = value.wrapping_mul(3).wrapping_add(c + i as u64);
            }
        };
        self.target.task("change").operands((update(handle),)).cpu(move |(values,)| body(values)).submit()?;
        body(plain);
        Ok(())
    }

    /// Two tasks that commute with each other, and with nothing else in the program.
    fn add(&mut self, handle: &Handle<Ints>, plain: &mut [u64], c: u64) -> Result<(), Error> {
        for c in [c, c + 7] {
            let body = move |values: &mut [u64]| values.iter_mut().for_each(|v| *v = v.wrapping_add(c));
            self.target.task("add").operands((commute(handle),)).cpu(move |(v,)| body(v)).submit()?;
            body(plain);
        }
        Ok(())
    }

    /// Views that overlap, looked at after their parent has changed.
    fn look(
        &mut self,
        handle: &Handle<Ints>,
        plain: &mut [u64],
        shape: (usize, usize),
        c: u64,
    ) -> Result<(), Error> {
        let blocks = [some_blocks(&mut self.random, shape), some_blocks(&mut self.random, shape)].concat();
        let views = self.target.views(handle, blocks.iter().cloned())?;
        let shown: Vec<_> = blocks.iter().map(|block| elements(block, plain)).collect();
        self.change(handle, plain, c)?;
        for (view, shown) in views.iter().zip(shown) {
            self.target
                .task("look")
                .operands((read(view), update(self.seen)))
                .cpu(|(view, seen)| {
                    *seen = view.iter().fold(*seen, |s, v| s.wrapping_mul(31).wrapping_add(*v))
                })
                .submit()?;
            *self.plain_seen =
                shown.iter().fold(*self.plain_seen, |s, v| s.wrapping_mul(31).wrapping_add(*v));
        }
        Ok(())
    }

    fn split<R: Region>(
        &mut self,
        handle: &Handle<Ints>,
        plain: &mut [u64],
        regions: Vec<R>,
        shape_of: impl Fn(&R) -> (usize, usize),
        depth: usize,
    ) -> Result<(), Error> {
        let parts = self.target.split(handle, regions.iter().cloned())?;
        let refused = self.change(handle, &mut [], 0);
        assert!(matches!(refused, Err(Error::Split { .. })), "{refused:?}");
        for (region, part) in regions.iter().zip(parts.handles()) {
            let mut values = elements(region, plain);
            self.run(part, &mut values, shape_of(region), depth + 1)?;
            for (element, value) in region.runs().flatten().zip(values) {
                plain[element] = value;
            }
        }
        if self.random.below(3) == 0 {
            drop(parts);
            Ok(())
        } else {
            parts.join()
        }
    }
}

/// Memory for the whole vector, one more of its size, and a number: not for everything at once.
const TIGHT: u64 = 2 * SIZE as u64 * 8 + 16;
const ROWS: usize = 8;
const SIZE: usize = ROWS * 6;

/// Every policy on every mix of up to two CPU workers and two devices.
fn mixes() -> impl Iterator<Item = (String, Runtime)> {
    POLICIES.into_iter().flat_map(|(policy, _)| {
        (1..9).map(move |mix| {
            let (cpus, devices) = (mix % 3, mix / 3);
            let mut building = builder(cpus).policy(policy);
            for seed in 0..devices {
                building = building.device(Emulated::new(TIGHT).late(seed as u64, Duration::from_micros(20)));
            }
            (format!("{policy}, {cpus} CPU workers, {devices} devices"), building.build().unwrap())
        })
    })
}

#[test]
fn random_programs_are_right_on_every_mix() {
    for (n, (mix, rt)) in mixes().enumerate() {
        for seed in 0..6 {
            let mut plain: Ints = (0..SIZE as u64).collect();
            let mut plain_seen = 0;
            let (values, seen) = (rt.register(plain.clone()), rt.register(0u64));
            let random = Random((n * 1000 + seed) as u64);
            let mut program = Program { target: &rt, random, seen: &seen, plain_seen: &mut plain_seen };
            for _ in 0..4 {
                program.run(&values, &mut plain, (ROWS, SIZE / ROWS), 0).unwrap();
            }
            assert_eq!(rt.take(values).unwrap(), plain, "{mix}, seed {seed}");
            assert_eq!(rt.take(seen).unwrap(), plain_seen, "{mix}, seed {seed}");
        }
    }
}

#[test]
fn random_programs_replay_on_every_mix() {
    for (n, (mix, rt)) in mixes().enumerate() {
        let mut plain: Ints = (0..SIZE as u64).collect();
        let mut plain_seen = 0;
        let (values, seen) = (rt.register(plain.clone()), rt.register(0u64));
        // Recording it a second time carries it out on the plain values a second time.
        let mut record = || {
            Graph::record(|g: &Recorder| {
                let random = Random(n as u64);
                let mut program = Program { target: g, random, seen: &seen, plain_seen: &mut plain_seen };
                (0..6).try_for_each(|_| program.run(&values, &mut plain, (ROWS, SIZE / ROWS), 0))
            })
            .unwrap()
        };
        let (graph, _) = (record(), record());
        rt.replay(&Bindings::recorded(&graph)).unwrap();
        rt.replay(&Bindings::recorded(&graph)).unwrap();
        assert_eq!(rt.take(values).unwrap(), plain, "{mix}");
        assert_eq!(rt.take(seen).unwrap(), plain_seen, "{mix}");
    }
}

#[test]
fn what_a_dying_device_leaves_is_right() {
    let (mut right, mut lost) = (0, 0);
    for (n, (policy, _)) in POLICIES.into_iter().enumerate() {
        for at in 0..20u64 {
            let dying = Emulated::new(TIGHT).late(at, Duration::from_micros(20)).fails_at(2 * at);
            let rt =
                builder(n % 2).policy(policy).device(dying).device(Emulated::new(TIGHT)).build().unwrap();
            let mut plain: Ints = (0..SIZE as u64).collect();
            let mut plain_seen = 0;
            let (values, seen) = (rt.register(plain.clone()), rt.register(0u64));
            let random = Random(at);
            let mut program = Program { target: &rt, random, seen: &seen, plain_seen: &mut plain_seen };
            program.run(&values, &mut plain, (ROWS, SIZE / ROWS), 0).unwrap();
            let (values, seen) = (rt.take(values), rt.take(seen));
            let outcomes = [values.map(|v| v == plain), seen.map(|s| s == plain_seen)];
            for outcome in outcomes {
                match outcome {
                    Ok(same) => {
                        assert!(same, "{policy}, operation {at}");
                        right += 1;
                    }
                    Err(error) => {
                        let text = error.to_string();
                        assert!(text.contains("emulated 0 failed"), "{policy}, operation {at}: {text}");
                        lost += 1;
                    }
                }
            }
        }
    }
    assert!(right > 20 && lost > 20, "{right} values were right, {lost} were lost");
}

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

    // A value that no task writes: nothing is left split behind.
    let later = rt.register_sized::<Ints>(Meta { bytes: 16, ..Meta::default() });
    assert!(matches!(rt.split(&later, [0..1]).map(drop), Err(Error::Unwritten { .. })));
    rt.task("now").operands((write(&later),)).cpu(|(mut v,)| v.put(vec![3; 2])).submit().unwrap();
    rt.split(&later, [0..1]).unwrap().join().unwrap();
    assert_eq!(rt.take(later).unwrap(), [3, 3]);
    // A value that turns out shorter than it was registered.
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

    // A graph that splits by itself, on other data: longer ones do, shorter ones fail by name.
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

    // Parts that outlive the scope have nowhere to come back to.
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
