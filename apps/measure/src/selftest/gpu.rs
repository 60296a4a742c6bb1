//! The checks of one GPU. They know its driver and nothing of CUDA.

use std::sync::Arc;
use std::time::Instant;

use crate::{PEERS, builder, check as go_on, test_matrix};
use zellige_cuda::Gpu;
use zellige_dense::{
    GemmPrecision, PrecisionPolicy, Rule, SharedPolicy, Submission, SymmetricTiled, TileGrid, capability_for,
    cholesky_with, residual,
};
use zellige_files::observe::{Observer, Silent};
use zellige_gpu::Driver;
use zellige_runtime::{Runtime, RuntimeBuilder};
use zellige_tor::params::{CHECK_SYSTEM, Input, Mode, parse};
use zellige_tor::pipeline::{self, Options, TileChoice};

use super::faults::{faulty_kernel, too_much_memory};
use super::kernels::Extent;
use super::outcome::{CHECKS, FactorRow, FaultRow, GpuReport, KernelRow, RuleRow, skipped};
use super::{Failure, applications, chain, kernels as all_kernels};
use crate::Error;

/// Sizes of the checks.
#[derive(Clone, Copy, Debug)]
pub struct Extents {
    /// Kernels of factorisations and solves.
    pub kernels: Extent,
    /// Kernels of applications.
    pub applications: applications::ApplicationExtent,
    /// Order and tile of the factorisations; there must be at least 16 tiles along the matrix for a
    /// quarter of 30 % to hold three.
    pub factor: (usize, usize),
    /// Number of precision rules, the most different first.
    pub rules: usize,
}

impl Extents {
    /// Returns the bytes of the tiles of the factorisations.
    fn bytes(&self) -> u64 {
        let (n, tile) = self.factor;
        (n * (n + tile) / 2 * size_of::<f32>()) as u64
    }

    fn tile_bytes(&self) -> u64 {
        let (_, tile) = self.factor;
        (tile * tile * size_of::<f32>()) as u64
    }

    /// Returns the sizes for a seed. With `quick` there are fewer and smaller checks.
    pub fn new(quick: bool, seed: u64) -> Self {
        if quick {
            let kernels = Extent { tiles: 100, largest: 96, seed };
            let applications =
                applications::ApplicationExtent { cells: 24, points: 5, events: 40, tile: 96, seed };
            return Extents { kernels, applications, factor: (4096, 256), rules: 4 };
        }
        Extents {
            kernels: Extent { tiles: 1000, largest: 128, seed },
            applications: applications::ApplicationExtent {
                cells: 48,
                points: 8,
                events: 100,
                tile: 128,
                seed,
            },
            factor: (8192, 512),
            rules: RULES.len(),
        }
    }
}

/// Rules on the check system with tiles of 48, the most different first: with a margin they
/// survive, or do not.
const RULES: [&str; 12] = [
    "hp1:band=2",
    "x3,panel=x3",
    "hp2",
    "hp1:operand=1e-2",
    "fp32",
    "fp64",
    "x3",
    "tf32:band=2",
    "bf1:band=2",
    "hp3:band=2",
    "fp8:band=2",
    "fp8:operand=1e-5",
];
/// Tolerance between the Strehl ratios of the CPU and the GPU: about the effect of the precisions
/// on it.
const STREHL: f64 = 1e-3;
/// Tolerance for TF32 products. Hardware may truncate their operands, while the CPU rounds them:
/// errors are twice as large, and of one sign.
const STREHL_TF32: f64 = 4e-3;

/// The backward error that the factor may have: a roundoff of 16 bits.
const BACKWARD_ERROR: f64 = 5e-4;
/// Function that makes a kernel on a GPU fault in another process, and returns the message.
pub type Fault<'f> = &'f dyn Fn(u32) -> Result<String, Failure>;

/// Checks one GPU of a driver. What is wrong, tasks that are refused or fail included, is in rows
/// of the report.
///
/// # Errors
/// Ctrl-C; a runtime of CPU workers that cannot be built.
pub fn check(
    driver: &Arc<dyn Driver>,
    number: u32,
    extents: &Extents,
    fault: Fault<'_>,
    progress: &dyn Observer,
) -> Result<GpuReport, Error> {
    let start = Instant::now();
    let gpu = Gpu::new(Arc::clone(driver), number);
    let info = driver.gpus().get(number as usize).ok_or(Error::NoGpu(number))?;
    let (name, capability) = (info.name.clone(), info.compute_capability);
    let kernels = kernels(&gpu, capability, extents, progress)?;
    let rules = rules(&gpu, capability, extents, progress)?;
    let factors = factors(&gpu, extents, progress)?;
    progress.stage("deliberate faults", 2);
    let faults = vec![memory(&gpu), faulted(number, fault)];
    let seconds = start.elapsed().as_secs_f64();
    Ok(GpuReport { number, name, kernels, rules, factors, faults, seconds })
}

/// No CPU worker: all that runs runs on GPUs.
fn alone(gpus: &[Gpu]) -> RuntimeBuilder {
    let builder = builder().workers(0).policy("lws").peers(PEERS);
    gpus.iter().fold(builder, |builder, gpu| builder.device(gpu.clone()))
}

fn kernels(
    gpu: &Gpu,
    capability: (u32, u32),
    extents: &Extents,
    progress: &dyn Observer,
) -> Result<Vec<KernelRow>, Error> {
    progress.stage("kernels", CHECKS + applications::CHECKS);
    let rt = match alone(std::slice::from_ref(gpu)).build() {
        Ok(rt) => rt,
        Err(error) => return Ok(vec![KernelRow::none(error.to_string())]),
    };
    let here = builder().build()?;
    let done = std::cell::Cell::new(0);
    let one_more = || {
        done.set(done.get() + 1);
        progress.advance(done.get());
    };
    let checks = all_kernels::kernels(&rt, &here, &extents.kernels, capability, &|_| one_more());
    go_on(progress)?;
    let others = applications::kernels(&rt, &here, &extents.applications, &one_more);
    go_on(progress)?;
    Ok(checks.iter().map(|check| KernelRow::new(check, capability)).chain(others).collect())
}

fn rules(
    gpu: &Gpu,
    capability: (u32, u32),
    extents: &Extents,
    progress: &dyn Observer,
) -> Result<Vec<RuleRow>, Error> {
    let input = parse("check.toml".as_ref(), CHECK_SYSTEM, None, Mode::Strict)?;
    let rules = &RULES[..extents.rules];
    progress.stage("precision rules", 2 * rules.len() as u64);
    let on_cpu = builder().build()?;
    // The CPU worker runs the tasks without a GPU implementation.
    let on_gpu = builder().workers(1).gpu_only(true).device(gpu.clone()).build();
    let mut rows = Vec::new();
    for text in rules {
        let rule: Rule = text.parse()?;
        let products = rule.precisions().into_iter().flatten().chain([rule.panel().gemm(GemmPrecision::Sp)]);
        let needed = products.map(capability_for).max();
        let row = RuleRow::new(text);
        rows.push(match needed.filter(|needed| *needed > capability) {
            Some(needed) => RuleRow { skipped: Some(skipped(needed, capability)), ..row },
            None => match strehls(&on_cpu, &on_gpu, &input, text, progress) {
                Ok([strehl_cpu, strehl_gpu]) => {
                    let passed = agree(strehl_cpu, strehl_gpu, tolerance(&rule));
                    RuleRow { strehl_cpu, strehl_gpu, passed, ..row }
                }
                Err(error) => RuleRow { failed: Some(chain(&*error)), passed: false, ..row },
            },
        });
        go_on(progress)?;
        progress.advance(2 * rows.len() as u64);
    }
    Ok(rows)
}

/// Returns the Strehl ratios of a rule on these runtimes; none if it loses definiteness.
fn strehls(
    on_cpu: &Runtime,
    on_gpu: &Result<Runtime, zellige_runtime::Error>,
    input: &Input,
    rule: &str,
    progress: &dyn Observer,
) -> Result<[Option<f64>; 2], Failure> {
    let options = Options {
        rules: vec![rule.into()],
        tile: TileChoice::Uniform(48),
        exact: false,
        ..Options::default()
    };
    let strehl = |rt: &Runtime| -> Result<Option<f64>, Failure> {
        let outcome = pipeline::run(rt, input, &options, &Silent)?;
        go_on(progress)?;
        Ok(outcome.results[0].measured.as_ref().map(|measured| measured.strehl_moao))
    };
    let on_gpu = on_gpu.as_ref().map_err(zellige_runtime::Error::to_string)?;
    Ok([strehl(on_cpu)?, strehl(on_gpu)?])
}

fn tolerance(rule: &Rule) -> f64 {
    let products = rule.precisions().into_iter().flatten().chain([rule.panel().gemm(GemmPrecision::Sp)]);
    if products.into_iter().any(|product| product == GemmPrecision::Tf32) { STREHL_TF32 } else { STREHL }
}

/// Returns true if both lost definiteness, or if neither did and they are within the tolerance.
fn agree(cpu: Option<f64>, gpu: Option<f64>, tolerance: f64) -> bool {
    match (cpu, gpu) {
        (Some(cpu), Some(gpu)) => (cpu - gpu).abs() <= tolerance,
        (cpu, gpu) => cpu.is_none() && gpu.is_none(),
    }
}

/// Factors in its whole memory, in 30 % of the bytes of the matrix, and on parts of the GPU: the
/// bits are the same.
fn factors(gpu: &Gpu, extents: &Extents, progress: &dyn Observer) -> Result<Vec<FactorRow>, Error> {
    let whole = extents.bytes();
    let third = whole * 3 / 10;
    let part = |devices, memory| vec![gpu.clone().memory(memory); devices];
    let cases = vec![
        Case::new("in memory", part(1, 2 * whole)),
        Case::new("in 30 % of its size", part(1, third)),
        Case::new("on 2 parts of the GPU", part(2, whole)),
        Case::new("on 4 parts, 30 % in all", part(4, third / 4)),
    ];
    alike(cases, extents, progress)
}

/// Factors on the first of several GPUs, on two, on all of them, and on all with 30 % of the bytes
/// of the matrix: the bits are the same. Does nothing if there is only one GPU.
///
/// # Errors
/// The errors of [`check`].
pub fn on_several(
    driver: &Arc<dyn Driver>,
    extents: &Extents,
    progress: &dyn Observer,
) -> Result<Vec<FactorRow>, Error> {
    let all: Vec<Gpu> =
        driver.working().into_iter().map(|number| Gpu::new(Arc::clone(driver), number)).collect();
    if all.len() < 2 {
        return Ok(Vec::new());
    }
    let whole = extents.bytes();
    let first = |count: usize, memory| all[..count].iter().map(|gpu| gpu.clone().memory(memory)).collect();
    let count = all.len();
    let mut cases = vec![Case::new("on one GPU", first(1, 2 * whole))];
    if count > 2 {
        cases.push(Case::new("on 2 GPUs", first(2, whole)));
    }
    cases.push(Case::new(&format!("on {count} GPUs"), first(count, whole)));
    // A device holds the three tiles of a product at least.
    let each = (whole * 3 / 10 / count as u64).max(4 * extents.tile_bytes());
    cases.push(Case::new(&format!("on {count} GPUs, 30 % in all"), first(count, each)));
    alike(cases, extents, progress)
}

/// A factorisation on some devices.
struct Case {
    what: String,
    parts: Vec<Gpu>,
}

impl Case {
    fn new(what: &str, parts: Vec<Gpu>) -> Self {
        Case { what: what.into(), parts }
    }
}

/// Runs all cases and checks that they give the same bits.
fn alike(cases: Vec<Case>, extents: &Extents, progress: &dyn Observer) -> Result<Vec<FactorRow>, Error> {
    progress.stage("factorisations", cases.len() as u64);
    let mut first: Option<Vec<f32>> = None;
    let mut rows = Vec::new();
    for Case { what, parts } in cases {
        let blank = FactorRow::new(&what, parts.len(), parts.first().map_or(0, Gpu::bytes));
        rows.push(match factor(&parts, extents.factor, blank.clone()) {
            Ok((factor, row)) => {
                let passed = first.get_or_insert_with(|| factor.clone()) == &factor;
                let evicts = what.contains('%');
                let passed = passed && row.backward_error < BACKWARD_ERROR && (!evicts || row.evictions > 0);
                FactorRow { passed, ..row }
            }
            Err(error) => FactorRow { failed: Some(chain(&error)), ..blank },
        });
        progress.advance(rows.len() as u64);
        go_on(progress)?;
    }
    Ok(rows)
}

fn factor(parts: &[Gpu], (n, tile): (usize, usize), row: FactorRow) -> Result<(Vec<f32>, FactorRow), Error> {
    let host = builder().build()?;
    let a = SymmetricTiled::<f32>::new(&host, TileGrid::uniform(n, tile)?);
    a.fill(&host, &test_matrix::<f32>(n))?;
    host.wait_all()?;
    drop(host);
    let rt = alone(parts).build()?;
    let rule: SharedPolicy = "hp1:band=2,panel=x3".parse::<Rule>()?.into();
    let start = Instant::now();
    cholesky_with(&rt, &a, &rule, &Submission::default().by_inverses(true))?.wait(&rt)?;
    let seconds = start.elapsed().as_secs_f64();
    let (nodes, factor) = (rt.memory(), a.gather(&rt)?);
    drop(rt);
    // Computed on the host, and estimated, so that it takes no additional factorisation.
    let host = builder().build()?;
    let backward_error = residual::estimated(&host, &a, &test_matrix::<f64>(n))?.value;
    let row = FactorRow {
        backward_error,
        seconds,
        bytes_moved: nodes.iter().map(|node| node.bytes_in).sum(),
        evictions: nodes.iter().map(|node| node.evictions).sum(),
        ..row
    };
    Ok((factor, row))
}

fn memory(gpu: &Gpu) -> FaultRow {
    let said = alone(std::slice::from_ref(gpu)).build().map_err(Error::from);
    let said = said.and_then(|rt| Ok(too_much_memory(&rt)?));
    let (passed, said) = match said {
        Ok(said) => (said.is_some(), said.unwrap_or_else(|| "nothing".into())),
        Err(error) => (false, chain(&error)),
    };
    FaultRow { what: "too much memory", passed, said }
}

fn faulted(number: u32, fault: Fault<'_>) -> FaultRow {
    let (passed, said) = match fault(number) {
        Ok(said) => (true, said),
        Err(error) => (false, chain(&*error)),
    };
    FaultRow { what: "a faulting kernel", said, passed }
}

/// Makes a kernel fault in this process, and returns the runtime's message when it retired the
/// device.
///
/// # Errors
/// No device was retired, or a value was lost.
pub fn fault_here(driver: &Arc<dyn Driver>, number: u32) -> Result<String, Failure> {
    let gpu = Gpu::new(Arc::clone(driver), number);
    let rt = builder().workers(1).device(gpu).build()?;
    Ok(faulty_kernel(&rt)?.ok_or("no device was retired, or a value was lost")?)
}

#[cfg(test)]
mod tests {
    use zellige_gpu::{Compute, Factors, Gemm, Transpose};
    use zellige_kernels::cuda::{DISTANCE_SOURCES, SELL_SOURCES, SOURCES, SPARSE_SOURCES};
    use zellige_tor::covariance::device::SOURCE;

    use super::*;

    /// Returns a mock with every kernel of the command.
    fn twins() -> Option<zellige_gpu::mock::MockBuilder> {
        let all = [SOURCES, SELL_SOURCES, SPARSE_SOURCES, DISTANCE_SOURCES].into_iter().flatten();
        zellige_twins::mock(all.chain([&SOURCE]))
    }

    fn mock(seed: u64) -> Option<Arc<dyn Driver>> {
        Some(Arc::new(twins()?.seed(seed).build()))
    }

    const FEW: applications::ApplicationExtent =
        applications::ApplicationExtent { cells: 12, points: 4, events: 6, tile: 304, seed: 1 };

    /// Runs all checks on a driver that checks its use, including a fault.
    #[test]
    fn a_gpu_that_does_as_it_should_passes() {
        let (Some(driver), Some(lost)) = (mock(1), mock(2)) else { return };
        let kernels = Extent { tiles: 5, largest: 40, seed: 1 };
        let extents = Extents { kernels, applications: FEW, factor: (384, 32), rules: 1 };
        let report = check(&driver, 0, &extents, &|number| fault_here(&lost, number), &Silent).unwrap();
        assert!(report.passed(), "{}", report.text(false));
        assert_eq!((report.kernels.len(), report.rules.len(), report.factors.len()), (23 + 13, 1, 4));
        let text = report.text(false);
        assert!(text.contains("0 checks failed") && text.contains("no room"), "{text}");
        let has = |kernel, precision| {
            report
                .kernels
                .iter()
                .any(|row| (row.kernel, row.precision) == (kernel, precision) && row.tiles > 0)
        };
        assert!(
            has("sparse product", "AP7REU") && has("search", "bf16") && has("covariance", "fp32"),
            "{text}"
        );
    }

    /// Tensor cores may truncate operands, while the CPU rounds them to TF32: checks of kernels and
    /// of rules allow for that.
    #[test]
    fn a_gpu_that_cuts_tf32_off_passes() {
        let number =
            |bytes: &[u8], at: usize| f32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap());
        let cut = |x: f32| f64::from(f32::from_bits(x.to_bits() & !0x1FFF));
        let rounded =
            |x: f32| f64::from(f32::from_bits((x.to_bits() + 0xFFF + (x.to_bits() >> 13 & 1)) & !0x1FFF));
        let changed = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = Arc::clone(&changed);
        let change = move |gemm: &Gemm, [a, b]: [&[u8]; 2], c: &mut [u8]| {
            let Factors::Host { alpha, .. } = gemm.factors else { return };
            if gemm.compute != Compute::Tf32 {
                return;
            }
            let place = |op: Transpose, ld: u32, outer: usize, inner: usize, first: bool| {
                let along = (op == Transpose::No) == first;
                if along { outer + inner * ld as usize } else { inner + outer * ld as usize }
            };
            for j in 0..gemm.n as usize {
                for i in 0..gemm.m as usize {
                    let mut apart = 0.0;
                    for l in 0..gemm.k as usize {
                        let x = number(a, place(gemm.op_a, gemm.a.ld, i, l, true));
                        let y = number(b, place(gemm.op_b, gemm.b.ld, j, l, false));
                        apart += cut(x) * cut(y) - rounded(x) * rounded(y);
                    }
                    let at = 4 * (i + j * gemm.c.ld as usize);
                    let c = &mut c[at..at + 4];
                    let sum = f64::from(f32::from_le_bytes((&*c).try_into().unwrap())) + alpha * apart;
                    c.copy_from_slice(&(sum as f32).to_le_bytes());
                    count.fetch_add(usize::from(apart != 0.0), std::sync::atomic::Ordering::Relaxed);
                }
            }
        };
        let all =
            [SOURCES, SELL_SOURCES, SPARSE_SOURCES, DISTANCE_SOURCES].into_iter().flatten().chain([&SOURCE]);
        let Some(twins) = zellige_twins::mock_with_wrong_products(all, change) else { return };
        let driver: Arc<dyn Driver> = Arc::new(twins.build());
        let gpu = Gpu::new(driver, 0);
        let on_gpu = builder().workers(1).gpu_only(true).device(gpu.clone()).build();
        let on_cpu = builder().build().unwrap();
        let input = parse("check.toml".as_ref(), CHECK_SYSTEM, None, Mode::Strict).unwrap();
        let [cpu, there] = strehls(&on_cpu, &on_gpu, &input, "tf32:band=2", &Silent).unwrap();
        // Further apart than by other precisions, and near enough.
        let of_tf32 = tolerance(&"tf32:band=2".parse().unwrap());
        assert!(cpu.is_some() && agree(cpu, there, of_tf32), "{cpu:?} {there:?}");
        assert!(!agree(cpu, there, STREHL) && of_tf32 > STREHL, "{cpu:?} {there:?}");
        assert!(changed.load(std::sync::atomic::Ordering::Relaxed) > 1000);
    }

    /// A GPU that is older than some precisions, and one that fails a task for good.
    #[test]
    fn what_a_gpu_lacks_is_skipped_and_what_fails_is_a_row() {
        let Some(twins) = twins() else { return };
        let mock = Arc::new(twins.compute_capability(7, 5).build());
        let driver: Arc<dyn Driver> = mock.clone();
        let kernels = Extent { tiles: 1, largest: 8, seed: 1 };
        let extents = Extents { kernels, applications: FEW, factor: (256, 16), rules: 0 };
        let report = check(&driver, 0, &extents, &|_| Ok("it was retired".into()), &Silent).unwrap();
        assert!(report.passed(), "{}", report.text(false));
        let skipped: Vec<&str> =
            report.kernels.iter().filter(|row| row.skipped.is_some()).map(|row| row.precision).collect();
        assert_eq!(skipped, ["bf1", "tf32", "fp8", "tf32", "tf32"]);
        assert!(report.text(false).contains("skipped: needs 8.0, this GPU is 7.5"), "{}", report.text(false));
        // Whatever comes next finds the GPU lost.
        mock.inject(0, zellige_gpu::mock::Fault::Launch(40)).unwrap();
        let report = check(&driver, 0, &extents, &|_| Ok("it was retired".into()), &Silent).unwrap();
        let failed = report.kernels.iter().filter(|row| row.failed.is_some()).count();
        assert!((1..report.kernels.len()).contains(&failed), "{}", report.text(false));
        assert!(report.factors.iter().all(|row| row.failed.is_some() && !row.passed));
        assert!(report.text(false).contains("FAILED: "), "{}", report.text(false));
    }

    #[test]
    fn what_fails_is_counted_and_said() {
        let Some(driver) = mock(3) else { return };
        let kernels = Extent { tiles: 1, largest: 8, seed: 1 };
        let extents = Extents { kernels, applications: FEW, factor: (256, 16), rules: 0 };
        let report = check(&driver, 0, &extents, &|_| Err("it went on".into()), &Silent).unwrap();
        assert_eq!(report.failures(), 1);
        let row = report.faults.last().map(|row| (row.said.as_str(), row.passed));
        assert_eq!(row, Some(("it went on", false)));
        assert!(report.text(false).contains("FAILED"), "{}", report.text(false));
    }

    /// Checks that the factor has the bits of one GPU for every placement of tiles, with peers and
    /// with little memory.
    #[test]
    fn several_gpus_factor_together() {
        let Some(twins) = twins() else { return };
        let driver: Arc<dyn Driver> = Arc::new(twins.gpus(3).seed(4).build());
        let kernels = Extent { tiles: 1, largest: 8, seed: 1 };
        let extents = Extents { kernels, applications: FEW, factor: (384, 32), rules: 0 };
        let rows = on_several(&driver, &extents, &Silent).unwrap();
        let said: Vec<(&str, usize)> = rows.iter().map(|row| (&*row.what, row.devices)).collect();
        assert_eq!(
            said,
            [("on one GPU", 1), ("on 2 GPUs", 2), ("on 3 GPUs", 3), ("on 3 GPUs, 30 % in all", 3)]
        );
        assert!(rows.iter().all(|row| row.passed && row.failed.is_none()), "{rows:?}");
        assert!(rows[3].evictions > 0 && rows[2].bytes_moved > rows[0].bytes_moved, "{rows:?}");
        let Some(alone) = mock(5) else { return };
        assert!(on_several(&alone, &extents, &Silent).unwrap().is_empty());
    }
}
