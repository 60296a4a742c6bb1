//! Random programs on parts and views, checked against the same programs on plain vectors.

use std::ops::Range;
use std::time::Duration;

use zellige_runtime::sched::POLICIES;
use zellige_runtime::split::{Block, Region, split_evenly};
use zellige_runtime::{
    Bindings, Emulated, Error, Graph, Handle, Recorder, Runtime, Submit, commute, read, update,
};
use zellige_tests::{amount, every};

use super::{Ints, builder};

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

/// Returns disjoint ranges of `length` elements, some left out.
fn some_ranges(random: &mut Random, length: usize) -> Vec<Range<usize>> {
    let pieces = split_evenly(length, 1 + random.below(4));
    pieces.into_iter().filter(|_| random.below(5) > 0).collect()
}

/// Returns disjoint blocks of a matrix, some left out.
fn some_blocks(random: &mut Random, (rows, cols): (usize, usize)) -> Vec<Block> {
    let tile = (1 + random.below(rows.max(1)), 1 + random.below(cols.max(1)));
    let tiles = Block::tiles((rows, cols), rows, tile).unwrap();
    let keep = tiles.len().div_ceil(6);
    tiles.into_iter().filter(|_| random.below(keep) == 0).collect()
}

/// A random program, submitted to `target` and executed on `plain` as well.
struct Program<'s, S> {
    target: &'s S,
    random: Random,
    /// Checksum of all views, as a handle and as a number.
    seen: &'s Handle<u64>,
    plain_seen: &'s mut u64,
}

impl<S: Submit> Program<'_, S> {
    /// Runs some steps on one handle, whose value is a matrix of this shape.
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

    /// Submits two tasks that commute with each other, and with nothing else in the program.
    fn add(&mut self, handle: &Handle<Ints>, plain: &mut [u64], c: u64) -> Result<(), Error> {
        for c in [c, c + 7] {
            let body = move |values: &mut [u64]| values.iter_mut().for_each(|v| *v = v.wrapping_add(c));
            self.target.task("add").operands((commute(handle),)).cpu(move |(v,)| body(v)).submit()?;
            body(plain);
        }
        Ok(())
    }

    /// Reads overlapping views after their parent has changed.
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

/// Host memory for the whole vector, one more of its size, and a number: not for all data at once.
const TIGHT: u64 = 2 * SIZE as u64 * 8 + 16;
const ROWS: usize = 8;
const SIZE: usize = ROWS * 6;

/// Returns every policy on mixes of up to two CPU workers and two devices: each policy on some of
/// the eight mixes, and each mix with some policies; at full size all combinations.
fn mixes() -> impl Iterator<Item = (String, Runtime)> {
    let all = POLICIES.into_iter().flat_map(|(policy, _)| (1..9).map(move |mix| (policy, mix)));
    all.step_by(every(3)).map(|(policy, mix)| {
        let (cpus, devices) = (mix % 3, mix / 3);
        let mut building = builder(cpus).policy(policy);
        for seed in 0..devices {
            building = building.device(Emulated::new(TIGHT).late(seed as u64, Duration::from_micros(20)));
        }
        (format!("{policy}, {cpus} CPU workers, {devices} devices"), building.build().unwrap())
    })
}

#[test]
fn random_programs_are_right_on_every_mix() {
    for (n, (mix, rt)) in mixes().enumerate() {
        for seed in 0..amount(2) {
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
        // A second recording executes the program on the plain values a second time.
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
