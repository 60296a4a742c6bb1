//! The requested devices: they are found, checked and passed to a runtime. A requested device that
//! is missing is an error with exit code 4; the command does not fall back to CPU cores.

use std::sync::Arc;

use zellige_app::text;
use zellige_cuda::Gpu;
use zellige_dense::{GemmPrecision, PrecisionPolicy, Rule, capability_for};
use zellige_gpu::cuda::{Cuda, libraries};
use zellige_gpu::source::is_archived;
use zellige_gpu::{Driver, GpuError, GpuInfo, Library, LibraryState};
pub use zellige_measure::builder;
use zellige_measure::gpu::rates::GpuBench;
use zellige_measure::with_gpus;
use zellige_runtime::topology::Topology;
use zellige_runtime::{Runtime, RuntimeBuilder};
use zellige_tor::pipeline::TileChoice;

use crate::args::{CudaDevices, Device, ExecutionArgs, MemorySize};
use crate::exit::CommandError;
use crate::models;
use crate::nodes;
use crate::out;

/// Default scheduling policy without GPUs.
const POLICY: &str = "lws";
/// Default scheduling policy with GPUs. It takes transfers into account and prefetches operands.
const GPU_POLICY: &str = "dmdas";

/// Size in bytes of a copy within a GPU's memory, in the measurement of its rate.
const COPIED: u64 = 1 << 28;

/// Libraries that every factorisation on a GPU needs.
pub const LINEAR_ALGEBRA: [Library; 2] = [Library::Cublas, Library::Cusolver];

/// Returns the GPUs of this machine; see [`Cuda::open`].
///
/// # Errors
/// The errors of [`Cuda::open`].
#[cfg(not(feature = "mock-gpu"))]
pub fn driver() -> Result<Arc<dyn Driver>, GpuError> {
    Ok(Arc::new(Cuda::open()?))
}

/// Returns the GPUs of this machine, or a mock if `ZELLIGE_MOCK_GPU` is set. The kernels of the
/// mock are the CUDA sources compiled for the host.
///
/// # Errors
/// The errors of [`Cuda::open`]; [`GpuError::Missing`] for a mock without a C++ compiler.
#[cfg(feature = "mock-gpu")]
pub fn driver() -> Result<Arc<dyn Driver>, GpuError> {
    use zellige_kernels::cuda::all_sources;
    if std::env::var_os("ZELLIGE_MOCK_GPU").is_none() {
        return Ok(Arc::new(Cuda::open()?));
    }
    let others = [&zellige_tor::covariance::device::SOURCE, &zellige_selftest::SOURCE];
    let mock = zellige_twins::mock(all_sources().chain(others));
    let none = || GpuError::Missing {
        library: Library::Driver,
        reason: "the mock needs a C++ compiler".into(),
        needed_for: Library::Driver.needed_for(),
    };
    Ok(Arc::new(mock.ok_or_else(none)?.measured_links().build()))
}

/// Returns the requested number of CPU workers; the default is one per core that this process may
/// use.
pub fn workers(asked: Option<u16>) -> u16 {
    asked.unwrap_or_else(|| Topology::discover().cores.len().try_into().unwrap_or(u16::MAX))
}

/// Libraries and tile products that a command needs on GPUs.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    libraries: Vec<Library>,
    /// Precision rules, each with its products.
    rules: Vec<(String, Vec<GemmPrecision>)>,
}

impl Needs {
    /// Collects the libraries and products of factorisations and solves with these rules. The needs
    /// of a script are not known in advance.
    pub fn of_rules<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Needs {
        let products = |rule: &Rule| {
            let mut all = rule.precisions().unwrap_or_default();
            all.push(rule.panel().gemm(GemmPrecision::Sp));
            (rule.to_string(), all)
        };
        let rules: Vec<_> = rules.into_iter().map(products).collect();
        let mut libraries = LINEAR_ALGEBRA.to_vec();
        let is_fp8 = rules.iter().any(|(_, all)| all.contains(&GemmPrecision::Fp8));
        libraries.extend(is_fp8.then_some(Library::CublasLt));
        Needs { libraries, rules }
    }

    /// Explains why a GPU is too old, and names a remedy; `None` if it is not.
    fn lacking(&self, number: u32, info: &GpuInfo) -> Option<String> {
        let has = info.compute_capability;
        let old = |(major, minor): (u32, u32), who: String, remedy: &str| {
            format!(
                "GPU {number} ({}) has compute capability {}.{}, and {who} needs {major}.{minor}: use newer GPUs, as in cuda:0,2{remedy}",
                info.name, has.0, has.1
            )
        };
        if has < GpuInfo::OLDEST {
            return Some(old(GpuInfo::OLDEST, "zellige".into(), ""));
        }
        let all = self.rules.iter().flat_map(|(rule, all)| all.iter().map(move |product| (rule, *product)));
        let (rule, product) = all.max_by_key(|(_, product)| capability_for(*product))?;
        let needed = capability_for(product);
        let who = format!("rule {rule} ({product} products)");
        (has < needed).then(|| old(needed, who, ", or another rule, e.g. hp1:operand=1e-2"))
    }
}

/// Devices of a run in addition to CPU workers.
#[derive(Debug)]
pub struct Devices {
    gpus: Vec<Gpu>,
    /// Whether CPU workers also run tasks that GPUs can run.
    with_cpu: bool,
    /// Bytes for tiles on the GPU with the least memory.
    least: u64,
}

/// A GPU or a part of one, with its number of usable bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    number: u32,
    bytes: u64,
}

impl Devices {
    /// Finds the requested devices, and refuses GPUs that lack a needed feature.
    ///
    /// # Errors
    /// [`CommandError::NoDevice`] for missing GPUs and libraries, [`CommandError::Option`] for
    /// memory that is not available.
    pub fn open(args: &ExecutionArgs, needs: &Needs) -> Result<Devices, CommandError> {
        let Device::Cuda(wanted) = &args.device else { return Devices::none(args) };
        match driver() {
            Ok(driver) => Devices::of(driver, wanted, args, needs),
            Err(error) => Err(refusal(args, &closed(&error, &needs.libraries))),
        }
    }

    /// Returns the devices of a run on CPU workers alone.
    fn none(args: &ExecutionArgs) -> Result<Devices, CommandError> {
        let alone = "this option needs --device cuda";
        match (args.device_memory, args.logical_gpus) {
            (Some(_), _) => Err(CommandError::option("--device-memory", alone)),
            (_, Some(_)) => Err(CommandError::option("--logical-gpus", alone)),
            (None, None) => Ok(Devices { gpus: Vec::new(), with_cpu: true, least: 0 }),
        }
    }

    /// Returns the requested GPUs of this driver, after the check of their features.
    fn of(
        driver: Arc<dyn Driver>,
        wanted: &CudaDevices,
        args: &ExecutionArgs,
        needs: &Needs,
    ) -> Result<Devices, CommandError> {
        let problems = missing(&needs.libraries, |library| driver.library(library));
        if !problems.is_empty() {
            return Err(refusal(args, &problems));
        }
        let parts = parts(&*driver, wanted, args, needs)?;
        let least = parts.iter().map(|part| part.bytes).min().unwrap_or(0);
        let gpu = |part: Part| Gpu::new(Arc::clone(&driver), part.number).memory(part.bytes);
        Ok(Devices { gpus: parts.into_iter().map(gpu).collect(), with_cpu: wanted.with_cpu, least })
    }

    /// Returns the rule for automatic tile sizes: the one for GPUs if CPU workers take no share.
    pub fn auto_tiles(&self) -> TileChoice {
        if self.with_cpu { TileChoice::Auto } else { TileChoice::AutoGpu { memory: self.least } }
    }

    /// Returns a builder of the requested runtime. A policy that uses performance models gets those
    /// of this machine.
    pub fn runtime(&self, args: &ExecutionArgs) -> RuntimeBuilder {
        let usual = if self.gpus.is_empty() { POLICY } else { GPU_POLICY };
        let known = match &args.sched {
            Some(asked) => models::for_policy(asked),
            None if self.gpus.is_empty() => None,
            // Models of CPU cores are used if there are any. Without them nothing is reported,
            // since the user did not request a policy that needs models.
            None => models::cached().ok().map(|(models, _)| models),
        };
        let mut builder = builder().policy(args.sched.as_deref().unwrap_or(usual));
        if let Some(workers) = args.workers {
            builder = builder.workers(workers.into());
        }
        if let Some(known) = known {
            builder = builder.models(known);
        }
        if let Some(limit) = args.host_memory {
            let folder = args.swap.clone().unwrap_or_else(std::env::temp_dir);
            builder = builder.host_memory(limit.of(total_memory())).swap(folder);
        }
        with_gpus(builder.gpu_only(!self.with_cpu), &self.gpus)
    }

    /// Measures the rate of copies within the memory of the first GPU, in bytes read and written
    /// per second. Call it before a runtime takes the memory.
    pub fn copy_rate(&self) -> Option<f64> {
        let gpu = self.gpus.first()?;
        let (driver, number) = (Arc::clone(gpu.driver()), gpu.number());
        // Two buffers are needed, and they must not fit into a cache.
        let bytes = COPIED.min(gpu.bytes() / 4);
        let bench = GpuBench { driver, number, repeats: 5, least_seconds: 0.0 };
        match bench.links(bytes as usize) {
            Ok(rates) => Some(rates.within),
            Err(error) => {
                tracing::debug!("copies within GPU {number}: {error}");
                None
            }
        }
    }

    /// Finishes a run after all its tasks. It prints a warning if no GPU was used, and the memory
    /// nodes if they are requested. It then saves the measurements of the performance models.
    pub fn done(&self, args: &ExecutionArgs, rt: &Runtime) {
        if let Some(why) = self.unused(rt) {
            out::note(&format!("warning: {why}"));
        }
        if args.stats {
            out::note(nodes::summary(&rt.memory(), out::colours(&std::io::stderr())).trim_end());
        }
        if let Some(models) = rt.models() {
            models::keep(models);
        }
    }

    /// Explains why no requested GPU was used; `None` if one was, or if none was requested.
    fn unused(&self, rt: &Runtime) -> Option<&'static str> {
        let idle = rt.memory().iter().all(|node| node.device.is_none() || node.peak == 0);
        (idle && !self.gpus.is_empty())
            .then_some("no task of this run could use a GPU, since it has no GPU implementation or does not fit: CPU workers ran all tasks")
    }
}

/// Returns a line for each problem that keeps a GPU from linear algebra; empty if it can be used.
pub fn problems(driver: &dyn Driver, number: u32) -> Vec<String> {
    problems_with(driver, number, &LINEAR_ALGEBRA)
}

/// Returns a line for each problem that keeps a GPU from work that needs these libraries.
fn problems_with(driver: &dyn Driver, number: u32, needed: &[Library]) -> Vec<String> {
    let mut problems = missing(needed, |library| driver.library(library));
    problems.extend(usable(driver, number, &Needs::default()).err());
    problems
}

/// Returns the driver of one GPU that this command can use, with these libraries; every GPU also
/// needs kernels.
///
/// # Errors
/// There is no such GPU, or something that it needs is missing.
pub fn one(number: u32, needed: &[Library]) -> Result<Arc<dyn Driver>, CommandError> {
    let refused = |problem| CommandError::NoDevice { device: format!("cuda:{number}"), problem };
    let driver = driver().map_err(|error| refused(error.to_string()))?;
    let problems = problems_with(&*driver, number, needed);
    if problems.is_empty() { Ok(driver) } else { Err(refused(problems.join("\n  "))) }
}

/// Returns a line for each library that cannot be used. Every GPU needs kernels, and therefore
/// NVRTC or an archive of PTX.
fn missing(needed: &[Library], state: impl Fn(Library) -> LibraryState) -> Vec<String> {
    let compiler = if is_archived() { None } else { Some(&Library::Nvrtc) };
    let line = |&library: &Library| match state(library) {
        LibraryState::There(_) => None,
        LibraryState::Missing(reason) => {
            Some(GpuError::Missing { library, reason, needed_for: library.needed_for() }.to_string())
        }
    };
    needed.iter().chain(compiler).filter_map(line).collect()
}

/// Explains in lines why the driver cannot be used, and lists the libraries that are missing as
/// well.
fn closed(error: &GpuError, needed: &[Library]) -> Vec<String> {
    let all = libraries();
    let state = |library| {
        let known = all.iter().find(|(known, _)| *known == library);
        known.map_or(LibraryState::Missing("unknown library".into()), |(_, state)| state.clone())
    };
    let mut problems = vec![error.to_string()];
    // The driver may be present and still show no GPU.
    if matches!(state(Library::Driver), LibraryState::There(_)) {
        problems.extend(hidden());
    }
    problems.extend(missing(needed, state));
    problems
}

/// Returns a note if an environment variable hides GPUs.
fn hidden() -> Option<String> {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok()?;
    Some(format!("CUDA_VISIBLE_DEVICES is {visible:?}, which hides all other GPUs"))
}

fn refusal(args: &ExecutionArgs, problems: &[String]) -> CommandError {
    CommandError::NoDevice { device: args.device.to_string(), problem: problems.join("\n  ") }
}

/// Returns the GPUs to use, each split into parts.
fn parts(
    driver: &dyn Driver,
    wanted: &CudaDevices,
    args: &ExecutionArgs,
    needs: &Needs,
) -> Result<Vec<Part>, CommandError> {
    let numbers = wanted.numbers.clone().unwrap_or_else(|| all(driver));
    let logical = u64::from(args.logical_gpus.unwrap_or(1));
    let mut parts = Vec::new();
    for number in numbers {
        let info = usable(driver, number, needs).map_err(|problem| refusal(args, &[problem]))?;
        // The libraries take memory first, so that the rest is what is available. The next call
        // reports a GPU that does not work.
        if let Err(error) = driver.load_libraries(number) {
            tracing::debug!("libraries of GPU {number}: {error}");
        }
        let memory = driver.memory(number).map_err(|error| refusal(args, &[error.to_string()]))?;
        let bytes = budget(memory, args.device_memory, logical).map_err(|problem| {
            CommandError::option("--device-memory", format!("GPU {number} ({}) {problem}", info.name))
        })?;
        let part = Part { number, bytes: bytes / logical };
        parts.extend((0..logical).map(|_| part));
    }
    Ok(parts)
}

/// Returns the numbers of the GPUs that work. If none works it returns all, so that the first one
/// reports the reason.
pub fn all(driver: &dyn Driver) -> Vec<u32> {
    let working = driver.working();
    if working.is_empty() { (0..driver.gpus().len() as u32).collect() } else { working }
}

/// Returns the size of the host memory in bytes.
fn total_memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(info.mem_unit.into())
}

/// Returns the GPU with this number, after the check of its features.
fn usable<'d>(driver: &'d dyn Driver, number: u32, needs: &Needs) -> Result<&'d GpuInfo, String> {
    let gpus = driver.gpus();
    let Some(info) = gpus.get(number as usize) else {
        let list: Vec<String> =
            gpus.iter().enumerate().map(|(at, gpu)| format!("GPU {at} ({})", gpu.name)).collect();
        let there = GpuError::NoGpu { gpu: number, there: gpus.len() };
        let hidden = hidden().map_or(String::new(), |hidden| format!("; {hidden}"));
        return Err(format!("{there}, {}{hidden}", list.join(", ")));
    };
    driver.memory(number).map_err(|error| format!("GPU {number} ({}) does not work: {error}", info.name))?;
    needs.lacking(number, info).map_or(Ok(info), Err)
}

/// Returns the bytes for tiles on a GPU with (free, total) bytes of memory and so many parts.
fn budget((free, total): (u64, u64), asked: Option<MemorySize>, parts: u64) -> Result<u64, String> {
    let bytes = match asked {
        None => free - free / 20,
        Some(size) => size.of(total),
    };
    if bytes < parts || bytes > free {
        return Err(format!(
            "has {} free of {}, but {} in {parts} part(s) is requested: request less, or end other programs that use the GPU",
            text::bytes(free),
            text::bytes(total),
            text::bytes(bytes)
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use zellige_gpu::mock::Mock;

    const MEMORY: u64 = 1 << 20;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        execution: ExecutionArgs,
    }

    fn args(line: &str) -> ExecutionArgs {
        Line::parse_from(std::iter::once("zellige").chain(line.split_whitespace())).execution
    }

    fn nothing() -> Needs {
        Needs::of_rules([])
    }

    /// Opens two mock GPUs of 1 MiB each with this command line.
    fn of(line: &str) -> Result<Devices, CommandError> {
        let args = args(line);
        let driver = Arc::new(Mock::builder().gpus(2).memory(MEMORY).build());
        let Device::Cuda(wanted) = &args.device else { panic!("{line} is without GPUs") };
        Devices::of(driver, wanted, &args, &nothing())
    }

    fn refused(line: &str) -> String {
        of(line).expect_err(line).to_string()
    }

    /// Returns the device nodes of a runtime with this command line: node, device, bytes.
    fn nodes(line: &str) -> Vec<(String, String, u64)> {
        let rt = of(line).unwrap().runtime(&args(line)).build().unwrap();
        let device = |node: zellige_runtime::NodeUse| Some((node.name, node.device?, node.capacity?));
        rt.memory().into_iter().filter_map(device).collect()
    }

    #[test]
    fn a_runtime_gets_the_gpus_that_were_asked_for() {
        let node = |number: usize, gpu: usize, bytes| {
            (format!("cuda {number}"), format!("GPU {gpu}: mock GPU"), bytes)
        };
        let all = MEMORY - MEMORY / 20;
        for (line, wanted) in [
            ("--device cuda --workers 1", vec![node(0, 0, all), node(1, 1, all)]),
            ("--device cuda:1 --workers 1", vec![node(0, 1, all)]),
            ("--device cuda:1,0+cpu --workers 1 --sched lws", vec![node(0, 1, all), node(1, 0, all)]),
            (
                "--device cuda --workers 1 --device-memory 25%",
                vec![node(0, 0, MEMORY / 4), node(1, 1, MEMORY / 4)],
            ),
            (
                "--device cuda:0 --workers 1 --device-memory 1000 --logical-gpus 3",
                vec![node(0, 0, 333), node(1, 0, 333), node(2, 0, 333)],
            ),
        ] {
            assert_eq!(nodes(line), wanted, "{line}");
        }
    }

    #[test]
    fn tiles_are_those_of_gpus_where_they_work_alone() {
        let memory = MEMORY / 4;
        let gpus = of("--device cuda --device-memory 50% --logical-gpus 2").unwrap();
        assert_eq!(gpus.auto_tiles(), TileChoice::AutoGpu { memory });
        assert_eq!(of("--device cuda+cpu").unwrap().auto_tiles(), TileChoice::Auto);
        let cpu = args("--workers 1");
        assert_eq!(Devices::open(&cpu, &nothing()).unwrap().auto_tiles(), TileChoice::Auto);
    }

    #[test]
    fn policies_follow_the_devices() {
        let policy =
            |line: &str| of(line).unwrap().runtime(&args(line)).build().unwrap().policy().to_string();
        assert_eq!(policy("--device cuda --workers 1"), "dmdas");
        assert_eq!(policy("--device cuda --workers 1 --sched eager"), "eager");
        let cpu = args("--workers 1");
        let rt = Devices::open(&cpu, &nothing()).unwrap().runtime(&cpu).build().unwrap();
        assert_eq!((rt.policy(), rt.memory().len(), rt.workers()), ("lws", 0, 1));
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        let absent = refused("--device cuda:0,7");
        for part in ["--device cuda:0,7", "no GPU 7", "2 found", "GPU 1 (mock GPU)", "--device cpu"] {
            assert!(absent.contains(part), "{part}: {absent}");
        }
        for line in ["--device cuda --device-memory 2MiB", "--device cuda --device-memory 1 --logical-gpus 2"]
        {
            let error = refused(line);
            assert!(error.starts_with("--device-memory: GPU 0 (mock GPU)"), "{line}: {error}");
        }
        let args = args("--device cuda");
        let driver = Mock::builder().without(Library::Cublas).without(Library::Cusolver).build();
        assert_eq!((problems(&driver, 0).len(), problems(&driver, 1).len()), (2, 3));
        let all = CudaDevices { numbers: None, with_cpu: false };
        let error = Devices::of(Arc::new(driver), &all, &args, &nothing()).unwrap_err().to_string();
        assert!(
            error.contains("cuBLAS is not usable") && error.contains("cuSOLVER is not usable"),
            "{error}"
        );
    }

    #[test]
    fn a_gpu_that_is_lost_is_left_out_and_nothing_goes_on_without_any() {
        let Some(twins) = zellige_twins::mock(zellige_kernels::cuda::SOURCES) else { return };
        let driver = Arc::new(twins.gpus(2).build());
        let found = |line: &str| {
            let args = args(line);
            let Device::Cuda(wanted) = &args.device else { panic!("{line} is without GPUs") };
            let devices = Devices::of(driver.clone(), wanted, &args, &nothing())?;
            Ok::<_, CommandError>(devices.gpus.iter().map(Gpu::number).collect::<Vec<u32>>())
        };
        let lose = |number| {
            let gpu = Gpu::new(driver.clone(), number);
            let rt = Runtime::builder().workers(1).device(gpu).build().unwrap();
            assert!(zellige_measure::selftest::faulty_kernel(&rt).unwrap().is_some());
        };
        assert_eq!(found("--device cuda").unwrap(), [0, 1]);
        lose(0);
        assert_eq!(found("--device cuda").unwrap(), [1]);
        let refused = found("--device cuda:1,0").unwrap_err().to_string();
        assert!(refused.contains("GPU 0 (mock GPU) does not work: "), "{refused}");
        lose(1);
        let refused = found("--device cuda").unwrap_err().to_string();
        assert!(refused.contains("GPU 0 (mock GPU) does not work: "), "{refused}");
    }

    #[test]
    fn fp8_needs_one_library_more() {
        let needed = |rules: &[&str]| {
            let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
            Needs::of_rules(&rules).libraries
        };
        for rules in [&[][..], &["fp32"], &["hp1:operand=1e-2,else=x3", "fp64"]] {
            assert_eq!(needed(rules), LINEAR_ALGEBRA, "{rules:?}");
        }
        for rules in [&["fp8"][..], &["fp32", "fp8:band=2"], &["hp1:band=2,else=fp8"]] {
            assert_eq!(needed(rules), [Library::Cublas, Library::Cusolver, Library::CublasLt], "{rules:?}");
        }
    }

    #[test]
    fn gpus_that_lack_a_rules_products_are_refused_with_a_remedy() {
        let args = args("--device cuda");
        let all = CudaDevices { numbers: None, with_cpu: false };
        let refused = |(major, minor), rules: &[&str]| {
            let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
            let driver = Arc::new(Mock::builder().compute_capability(major, minor).build());
            Devices::of(driver, &all, &args, &Needs::of_rules(&rules)).err()
        };
        let error = refused((7, 5), &["fp32", "bf1:band=2"]).unwrap();
        assert_eq!(crate::exit::code(&anyhow::Error::new(error)), crate::exit::NO_DEVICE);
        for (has, rules, said) in [
            ((7, 5), &["fp32", "bf1:band=2"][..], "rule bf1:band=2 (bf1 products) needs 8.0"),
            ((7, 5), &["hp1:band=2,panel=tf32"], "rule hp1:band=2,panel=tf32 (tf32 products) needs 8.0"),
            ((8, 0), &["hp1:band=2,else=fp8"], "(fp8 products) needs 8.9"),
            ((6, 1), &[], "zellige needs 7.0"),
        ] {
            let text = refused(has, rules).unwrap_or_else(|| panic!("{rules:?}")).to_string();
            let capability = format!("GPU 0 (mock GPU) has compute capability {}.{}", has.0, has.1);
            for part in [said, &capability, "cuda:0,2"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        for (has, rules) in
            [((7, 0), &["hp3", "x3,panel=x3"][..]), ((8, 0), &["bf1", "tf32"]), ((8, 9), &["fp8"])]
        {
            assert!(refused(has, rules).is_none(), "{has:?} {rules:?}");
        }
    }

    #[test]
    fn gpus_that_nothing_used_are_noticed() {
        let line = "--device cuda:0 --workers 1";
        let devices = of(line).unwrap();
        let rt = devices.runtime(&args(line)).build().unwrap();
        assert!(devices.unused(&rt).is_some());
        let cpu = args("--workers 1");
        let devices = Devices::open(&cpu, &Needs::default()).unwrap();
        assert_eq!(devices.unused(&devices.runtime(&cpu).build().unwrap()), None);
    }
}
