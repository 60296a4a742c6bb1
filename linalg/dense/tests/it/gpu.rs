//! Factorisations and solves on GPUs that are not there: the kernels' own sources on the host, and
//! a driver that checks the order of streams.

use std::sync::Arc;

use crate::common::*;
use zellige_cuda::Gpu;
use zellige_dense::{
    Error, GemmPrecision, Generator, RectTiled, Rule, SharedPolicy, Submission, SymmetricTiled, TileGrid,
    TileScalar, cholesky_with, solve_with,
};
use zellige_gpu::mock::{Fault, Mock};
use zellige_kernels::cuda::SOURCES;
use zellige_runtime::{Runtime, RuntimeBuilder};

fn mock(gpus: u32, seed: u64) -> Option<Arc<Mock>> {
    Some(Arc::new(zellige_twins::mock(SOURCES)?.gpus(gpus).seed(seed).build()))
}

/// Returns a builder without CPU workers: tasks without a GPU function would be refused.
fn only_gpus(mock: &Arc<Mock>, devices: &[u32], memory: u64) -> RuntimeBuilder {
    let builder = Runtime::builder().workers(0).peers(1e9).policy("lws");
    devices
        .iter()
        .fold(builder, |builder, &number| builder.device(Gpu::new(mock.clone(), number).memory(memory)))
}

/// Checks that there are no leaks and no violations.
fn check(mock: &Mock) {
    assert_eq!(mock.violations(), [] as [String; 0]);
    assert_eq!(mock.leaks(), [] as [String; 0]);
}

fn rule(text: &str) -> SharedPolicy {
    text.parse::<Rule>().unwrap().into()
}

/// A factor, its tiles' norms, and how many products each precision had.
struct Factored {
    l: Vec<f64>,
    norms: Vec<f64>,
    counts: Vec<(GemmPrecision, u64)>,
}

/// Factors `a` in tiles of `T` that the host has generated.
fn factor<T: TileScalar + Into<f64>>(
    rt: &Runtime,
    fill: &Generator<T>,
    grid: &TileGrid,
    rule: &SharedPolicy,
) -> Result<Factored, Error> {
    factor_with(rt, fill, grid, rule, &Submission::default())
}

fn factor_with<T: TileScalar + Into<f64>>(
    rt: &Runtime,
    fill: &Generator<T>,
    grid: &TileGrid,
    rule: &SharedPolicy,
    submission: &Submission,
) -> Result<Factored, Error> {
    let host = runtime(1, "lws");
    let tiles = SymmetricTiled::generate(&host, grid.clone(), fill)?;
    host.wait_all()?;
    drop(host);
    let run = cholesky_with(rt, &tiles, rule, submission)?;
    run.wait(rt)?;
    let (mut norms, nt) = (Vec::new(), tiles.tiles());
    for j in 0..nt {
        for i in j + 1..nt {
            norms.push(rt.read(tiles.tile(i, j))?.norm());
        }
    }
    let counts = GemmPrecision::ALL.into_iter().map(|p| (p, run.counts().count_of(p))).collect();
    Ok(Factored { l: tiles.gather(rt)?.into_iter().map(Into::into).collect(), norms, counts })
}

/// Returns `X` of `X A = B`, factored and solved in tiles that the host has generated; each of the
/// two by inverses or not.
fn solution(
    rt: &Runtime,
    (a, grid): (&[f64], &TileGrid),
    (b, rows): (&[f64], &TileGrid),
    text: &str,
    [in_factor, in_solves]: [bool; 2],
) -> Vec<f64> {
    let host = runtime(1, "lws");
    let l = SymmetricTiled::generate(&host, grid.clone(), &dense32(a, grid.len())).unwrap();
    let x = RectTiled::generate(&host, "B", rows.clone(), grid.clone(), &dense32(b, rows.len())).unwrap();
    host.wait_all().unwrap();
    drop(host);
    let submission = Submission::default().by_inverses(in_factor);
    let factor = cholesky_with(rt, &l, &rule(text), &submission).unwrap();
    // Nothing waits for the factor here.
    let submission = if in_solves { submission.with_inverses_of(&factor) } else { submission };
    solve_with(rt, &l, &x, &rule(text), &submission, |_| Ok(())).unwrap().wait(rt).unwrap();
    x.gather(rt).unwrap().into_iter().map(f64::from).collect()
}

/// Factors `a` on a runtime of CPU cores, and on GPUs.
fn both(a: &[f64], grid: &TileGrid, rule: &SharedPolicy, mock: &Arc<Mock>) -> [Result<Factored, Error>; 2] {
    let fill = dense32(a, grid.len());
    let on_gpus = factor(&only_gpus(mock, &[0], 1 << 28).build().unwrap(), &fill, grid, rule);
    [factor(&runtime(2, "lws"), &fill, grid, rule), on_gpus]
}

/// Each rule rounds on the GPU like on the CPU, except for the order of sums: the two factors
/// differ only by the effect of that order.
#[test]
fn every_precision_gives_the_factor_of_the_cpu() {
    let Some(mock) = mock(1, 1) else { return };
    let n = 150;
    // Tiles of one column, of odd sizes, and of multiples of what tensor cores like.
    let grid = TileGrid::from_edges([0, 48, 80, 81, 118, 150]).unwrap();
    for (name, a) in [
        ("random", random_spd(n, 1.0, 1)),
        ("graded", graded(random_spd(n, 1.0, 2), n, 1e-4)),
        ("radians", random_spd(n, 1.0, 3).iter().map(|x| x * 2.35e-11).collect()),
    ] {
        // Maximum difference of two factors: roundoffs of the sums, and of operands that are
        // rounded to a neighbour.
        for (text, error, apart) in [
            ("fp32", 3e-7, 1e-6),
            ("x3", 5e-7, 1e-6),
            ("hp1", 1e-3, 2e-4),
            ("hp2", 2e-3, 1e-3),
            ("hp3", 4e-3, 3e-3),
            ("bf1", 8e-3, 2e-3),
            ("tf32", 1e-3, 2e-4),
            ("fp8", 6e-2, 2e-2),
            ("hp1:band=2", 1e-3, 2e-4),
            ("hp2:band=2,else=hp1", 2e-3, 1e-3),
            ("hp1:operand=1e-2,else=x3", 1e-3, 2e-4),
            ("fp8:tile=1e-1,else=hp2", 6e-2, 2e-2),
        ] {
            let [cpu, gpu] = both(&a, &grid, &rule(text), &mock).map(|made| made.unwrap());
            let backward = reference_backward_error(&a, &gpu.l, n);
            assert!(backward < error, "{name} {text}: backward error {backward:e}");
            let distance = distance(gpu.l.iter().copied(), &cpu.l);
            assert!(distance < apart, "{name} {text}: {distance:e} from the CPU's factor");
            assert_eq!(gpu.counts, cpu.counts, "{name} {text}");
            for (there, here) in gpu.norms.iter().zip(&cpu.norms) {
                assert!((there - here).abs() <= 2.0 * apart * here.abs(), "{name} {text}: {there} {here}");
            }
        }
    }
    check(&mock);
}

/// The host does not intervene between two dependent tasks, unless one depends on the result of the
/// other one's end.
#[test]
fn tasks_of_a_factorisation_follow_one_another() {
    let Some(mock) = mock(1, 8) else { return };
    let (n, grid) = (240, TileGrid::uniform(240, 24).unwrap());
    let a = random_spd(n, 1.0, 5);
    for (text, least, error) in [("fp32", 20, 3e-7), ("hp1:operand=1e-9,else=fp32", 10, 3e-7)] {
        let rt = only_gpus(&mock, &[0], 1 << 28).build().unwrap();
        let made = factor(&rt, &dense32(&a, n), &grid, &rule(text)).unwrap();
        let behind: u64 = rt.memory().iter().map(|node| node.launched_in_stream_order).sum();
        assert!(behind > least, "{text}: {behind} of 220");
        let backward = reference_backward_error(&a, &made.l, n);
        assert!(backward < error, "{text}: {backward:e}");
        drop(rt);
    }
    check(&mock);
}

#[test]
fn diagonal_updates_and_solves_have_a_precision_of_their_own() {
    let Some(mock) = mock(1, 2) else { return };
    // Above the 256 columns that a solve by products takes at a time.
    let (n, grid) = (610, TileGrid::from_edges([0, 300, 310, 610]).unwrap());
    let a = random_spd(n, 1.0, 12);
    for (text, error, least) in
        [("fp32", 3e-7, 1e-9), ("fp32,panel=x3", 5e-7, 1e-9), ("fp32,panel=tf32", 1e-3, 1e-6)]
    {
        let [_, gpu] = both(&a, &grid, &rule(text), &mock);
        let backward = reference_backward_error(&a, &gpu.unwrap().l, n);
        assert!(backward < error && backward > least, "{text}: {backward:e}");
    }
    check(&mock);
}

#[test]
fn tiles_of_f64_are_factored_in_f64() {
    let Some(mock) = mock(1, 3) else { return };
    let (n, grid) = (100, TileGrid::uniform(100, 32).unwrap());
    let a = random_spd(n, 1e-3, 4);
    let rt = only_gpus(&mock, &[0], 1 << 28).build().unwrap();
    let l = factor(&rt, &dense64(&a, n), &grid, &rule("fp64")).unwrap().l;
    assert!(distance(l, &reference_cholesky(&a, n)) < 1e-13);
    drop(rt);
    check(&mock);
}

/// The factor has the same bits with less memory than the matrix, on two GPUs and on two halves of
/// one.
#[test]
fn out_of_core_and_on_several_gpus_the_factor_is_the_same() {
    let (n, grid) = (160, TileGrid::uniform(160, 20).unwrap());
    let a = random_spd(n, 1.0, 5);
    for text in ["hp1:band=2", "hp1:operand=1e-2,else=x3"] {
        let mut first = None;
        for (gpus, devices, memory) in
            [(1, &[0][..], 1 << 28), (1, &[0], 20_000), (2, &[0, 1], 20_000), (1, &[0, 0], 20_000)]
        {
            let Some(mock) = mock(gpus, 6) else { return };
            let rt = only_gpus(&mock, devices, memory).build().unwrap();
            let l = factor(&rt, &dense32(&a, n), &grid, &rule(text)).unwrap().l;
            let moved = rt.memory();
            let evicted: u64 = moved.iter().map(|node| node.evictions).sum();
            assert_eq!(evicted > 0, memory < 1 << 20, "{moved:?}");
            assert!(moved.iter().any(|node| node.name != "host" && node.conversions > 0), "{moved:?}");
            assert!(*first.get_or_insert_with(|| l.clone()) == l, "{text} on {devices:?}");
            drop(rt);
            check(&mock);
        }
    }
}

/// Small tiles are updated several in one launch; which tasks meet depends on time and policy, and
/// no bit does.
#[test]
fn small_tiles_are_launched_together_with_the_same_bits() {
    let (n, grid) = (200, TileGrid::uniform(200, 20).unwrap());
    let a = random_spd(n, 1.0, 17);
    for (text, error) in [("fp32", 3e-7), ("hp1:operand=1e-2,else=bf1", 8e-3)] {
        let (mut first, mut most) = (None, 0);
        for (gpus, policy) in [(1, "lws"), (1, "prio"), (2, "dmdas"), (2, "eager")] {
            let Some(mock) = mock(gpus, 18) else { return };
            let devices: Vec<u32> = (0..gpus).collect();
            let rt = only_gpus(&mock, &devices, 1 << 28).policy(policy).trace(true).build().unwrap();
            let made = factor(&rt, &dense32(&a, n), &grid, &rule(text)).unwrap();
            let trace = rt.take_trace().unwrap();
            for name in ["gemm", "syrk"] {
                let together = trace.tasks.iter().filter(|task| task.name == name).map(|task| task.batch);
                most = most.max(together.max().unwrap_or(0));
            }
            assert!(reference_backward_error(&a, &made.l, n) < error, "{text}");
            let products: u64 = made.counts.iter().map(|(_, count)| count).sum();
            assert_eq!(products, 10 * 9 * 8 / 6, "{text}: each is counted once");
            assert!(*first.get_or_insert_with(|| made.l.clone()) == made.l, "{text} with {policy}");
            drop(rt);
            check(&mock);
        }
        assert!(most > 2, "{text}: {most} at most");
    }
}

/// Several products of a tile in one task have the bits of separate tasks, in less workspace than
/// the sum over all of them.
#[test]
fn products_that_share_a_task_have_the_bits_of_separate_tasks() {
    let (n, grid) = (200, TileGrid::uniform(200, 24).unwrap());
    let a = random_spd(n, 1.0, 15);
    for text in ["fp32", "tf32", "hp1:band=2", "bf1", "x3", "hp1:operand=1e-2,else=x3", "hp2:band=3"] {
        let run = |fuse_updates| {
            let mock = mock(1, 16)?;
            let rt = only_gpus(&mock, &[0], 1 << 28).trace(true).build().unwrap();
            let submission = Submission::default().fuse_updates(fuse_updates);
            let made = factor_with(&rt, &dense32(&a, n), &grid, &rule(text), &submission).unwrap();
            let tasks = rt.take_trace().unwrap().tasks.iter().filter(|task| task.name == "gemm").count();
            drop(rt);
            check(&mock);
            Some((made, tasks))
        };
        let Some((separate, tasks)) = run(1) else { return };
        for fuse_updates in [2, 5] {
            let (together, fewer) = run(fuse_updates).unwrap();
            assert!(together.l == separate.l && together.counts == separate.counts, "{text}, {fuse_updates}");
            assert!(fewer < tasks, "{text}: {fewer} tasks instead of {tasks}");
        }
    }
}

#[test]
fn a_matrix_that_is_not_positive_definite_is_said_to_be_so() {
    let Some(mock) = mock(1, 7) else { return };
    let (n, grid) = (60, TileGrid::uniform(60, 20).unwrap());
    let mut a = random_spd(n, 1.0, 6);
    a[47 + 47 * n] = -1.0;
    let [cpu, gpu] = both(&a, &grid, &rule("fp32"), &mock);
    let [cpu, gpu] = [cpu, gpu].map(|made| *made.err().unwrap().not_positive_definite().unwrap());
    assert_eq!((gpu.tile, gpu.pivot, gpu.row), (2, 7, 47));
    assert_eq!((cpu.tile, cpu.pivot, cpu.row), (2, 7, 47));
    assert!(gpu.to_string().contains("has no positive pivot"), "{gpu}");
    // NaN is none either, though the library goes on with it.
    a[47 + 47 * n] = f64::NAN;
    let [_, gpu] = both(&a, &grid, &rule("fp32"), &mock);
    assert_eq!(gpu.err().unwrap().not_positive_definite().unwrap().tile, 2);
    check(&mock);
}

#[test]
fn solves_follow_on_the_gpu() {
    let Some(mock) = mock(2, 8) else { return };
    let (m, n) = (70, 130);
    let (grid, rows) = (TileGrid::uniform(n, 37).unwrap(), TileGrid::uniform(m, 32).unwrap());
    let (a, x) = (random_spd(n, 1.0, 9), random_rect(m, n, 10));
    let b = times(&x, &a, m, n);
    for (text, error) in [("fp32", 1e-5), ("x3,panel=x3", 1e-5), ("hp1", 3e-2), ("hp2", 5e-2), ("fp8", 0.9)] {
        let rt = only_gpus(&mock, &[0, 1], 1 << 28).build().unwrap();
        let distance = distance(solution(&rt, (&a, &grid), (&b, &rows), text, [false; 2]), &x);
        assert!(distance < error, "{text}: {distance:e}");
    }
    check(&mock);
}

/// If the library has no kernel for a product of 8-bit tiles, another method computes it: the same
/// products of entries, summed in another order.
#[test]
fn eight_bit_products_without_a_kernel_are_made_all_the_same() {
    let Some(twins) = zellige_twins::mock(SOURCES) else { return };
    let without = Arc::new(twins.without_8_bit_kernels().seed(21).build());
    let Some(with) = mock(1, 21) else { return };
    // Tiles that are multiples of 16, and others, which are padded.
    for tile in [32, 20] {
        let (n, grid) = (96, TileGrid::uniform(96, tile).unwrap());
        let a = random_spd(n, 1.0, 22);
        let made = [&without, &with].map(|mock| {
            let rt = only_gpus(mock, &[0], 1 << 28).build().unwrap();
            factor(&rt, &dense32(&a, n), &grid, &rule("fp8:band=1")).unwrap()
        });
        let errors = made.each_ref().map(|made| reference_backward_error(&a, &made.l, n));
        assert!(errors[0] < 6e-2 && (errors[0] / errors[1] - 1.0).abs() < 0.1, "{errors:?}");
    }
    check(&without);
    check(&with);
}

/// A well-conditioned factor by inverses of diagonal blocks, and solutions with it, are as accurate
/// as those by substitution, for any precision of the panel. With ill-conditioned blocks solves are
/// substitutions, bit by bit.
#[test]
fn solves_by_inverses_are_as_good_where_they_are_allowed() {
    let Some(mock) = mock(1, 23) else { return };
    let n = 600;
    let grid = TileGrid::uniform(n, 300).unwrap();
    let both = |a: &[f64], text: &str| {
        [false, true].map(|by_inverses| {
            let rt = only_gpus(&mock, &[0], 1 << 28).build().unwrap();
            let submission = Submission::default().by_inverses(by_inverses);
            factor_with(&rt, &dense32(a, n), &grid, &rule(text), &submission).unwrap().l
        })
    };
    let mut a = random_spd(n, 1.0, 24);
    // A right-hand side with its rows in two tiles.
    let (m, rows) = (90, TileGrid::uniform(90, 50).unwrap());
    let x = random_rect(m, n, 25);
    let solutions = |a: &[f64], text: &str| {
        let b = times(&x, a, m, n);
        [[false; 2], [true, false], [true; 2]].map(|by_inverses| {
            let rt = only_gpus(&mock, &[0], 1 << 28).build().unwrap();
            solution(&rt, (a, &grid), (&b, &rows), text, by_inverses)
        })
    };
    for text in ["fp32", "fp32,panel=x3", "fp32,panel=tf32"] {
        let [plain, inverted] = both(&a, text);
        let errors = [&plain, &inverted].map(|l| reference_backward_error(&a, l, n));
        assert!(errors[1] < 2.0 * errors[0] + 1e-6, "{text}: {errors:?}");
        assert_ne!(plain, inverted, "{text}");
        let [plain, factored, solved] = solutions(&a, text);
        let errors = [&plain, &solved].map(|found| distance(found.iter().copied(), &x));
        assert!(errors[1] < 2.0 * errors[0] + 1e-6, "{text}: {errors:?}");
        assert_ne!(factored, solved, "{text}");
    }
    // A column of each tile is nearly the one before: solves are refined.
    let nearly = |a: &mut [f64], i: usize, apart: f64| {
        let j = i + 1;
        for row in 0..n {
            a[row + j * n] = a[row + i * n];
            a[j + row * n] = a[row + i * n];
        }
        [a[i + j * n], a[j + i * n]] = [a[i + i * n]; 2];
        a[j + j * n] = a[i + i * n] * (1.0 + apart);
    };
    [10, 310].into_iter().for_each(|i| nearly(&mut a, i, 4e-6));
    let [plain, inverted] = both(&a, "fp32");
    let errors = [&plain, &inverted].map(|l| reference_backward_error(&a, l, n));
    assert!(errors[1] < 2.0 * errors[0] + 1e-7, "{errors:?}");
    assert_ne!(plain, inverted);
    // A fifth of all columns: no inverse is used.
    (0..n).step_by(5).for_each(|i| nearly(&mut a, i, 1e-6));
    let [plain, inverted] = both(&a, "fp32");
    assert_eq!(plain, inverted);
    let [plain, _, solved] = solutions(&a, "fp32");
    assert_eq!(plain, solved);
    check(&mock);
}

/// A tile of more columns than one inverse has is solved block by block, in each precision of the
/// panel.
#[test]
fn solves_of_wide_tiles_are_by_blocks() {
    let Some(mock) = mock(1, 26) else { return };
    let (n, m) = (1100, 20);
    let (grid, rows) = (TileGrid::uniform(n, n).unwrap(), TileGrid::uniform(m, m).unwrap());
    let (a, x) = (random_spd(n, 1.0, 27), random_rect(m, n, 28));
    let b = times(&x, &a, m, n);
    for (text, most) in [("fp32", 1e-5), ("fp32,panel=x3", 1e-5), ("fp32,panel=tf32", 1e-3)] {
        let found = [false, true].map(|in_solves| {
            let rt = only_gpus(&mock, &[0], 1 << 28).build().unwrap();
            solution(&rt, (&a, &grid), (&b, &rows), text, [true, in_solves])
        });
        let errors = found.each_ref().map(|found| distance(found.iter().copied(), &x));
        assert!(errors[1] < 2.0 * errors[0] + most, "{text}: {errors:?}");
        assert_ne!(found[0], found[1], "{text}");
    }
    check(&mock);
}

/// One of two GPUs fails at some operation: what it alone had is lost by name, or the factor is
/// right.
#[test]
fn a_gpu_that_fails_is_named_or_not_missed() {
    let (n, grid) = (90, TileGrid::uniform(90, 30).unwrap());
    let a = random_spd(n, 1.0, 11);
    let (mut right, mut lost) = (0, 0);
    for operation in (1..200).step_by(9) {
        let Some(mock) = mock(2, operation) else { return };
        mock.inject(1, Fault::Operation(operation)).unwrap();
        let rt = only_gpus(&mock, &[0, 1], 1 << 28).build().unwrap();
        match factor(&rt, &dense32(&a, n), &grid, &rule("hp1:band=2")) {
            Ok(made) => {
                right += 1;
                assert!(reference_backward_error(&a, &made.l, n) < 1e-3);
            }
            Err(error) => {
                lost += 1;
                assert!(error.to_string().contains("GPU 1"), "{error}");
            }
        }
        drop(rt);
        check(&mock);
    }
    assert!(right > 0, "{right} right, {lost} lost");
}

/// Products that a GPU is too old for are left to CPU workers, where there are some, and the others
/// run on it; without any the task is refused.
#[test]
fn an_old_gpu_is_not_given_what_it_lacks() {
    let Some(twins) = zellige_twins::mock(SOURCES) else { return };
    let mock = Arc::new(twins.compute_capability(7, 5).seed(15).build());
    let (n, grid) = (150, TileGrid::uniform(150, 32).unwrap());
    let a = random_spd(n, 1.0, 4);
    let run = |workers, text: &str| {
        let gpu = Gpu::new(mock.clone(), 0).memory(1 << 28);
        let builder = Runtime::builder().workers(workers).gpu_only(true).device(gpu).trace(true);
        let rt = builder.policy("lws").build().unwrap();
        let made = factor(&rt, &dense32(&a, n), &grid, &rule(text));
        let tasks = rt.take_trace().unwrap().tasks;
        made.map(|made| (made, tasks))
    };
    for (text, error) in [("bf1:band=2", 8e-3), ("bf1:operand=1e3", 8e-3), ("hp1,panel=tf32", 2e-3)] {
        let (made, tasks) = run(1, text).unwrap();
        assert!(reference_backward_error(&a, &made.l, n) < error, "{text}");
        // The GPU's worker is the second.
        let on_gpu = |name: &str| tasks.iter().any(|task| task.name == name && task.worker == 1);
        assert!(on_gpu("potrf"), "{text}");
        let lacking = if text.contains("tf32") { "trsm" } else { "none" };
        assert!(!on_gpu(lacking), "{text}");
        assert!(run(0, text).is_err(), "{text}");
    }
    let (_, tasks) = run(1, "bf1").unwrap();
    assert!(tasks.iter().filter(|task| task.name == "gemm").all(|task| task.worker == 0));
    assert!(run(0, "hp1:band=2").is_ok());
    check(&mock);
}
