//! GPUs: which there are, their memory, and copies to and from it.
//!
//! Memory node 0 is the host's. GPU `g` of those in use has node `g + 1`, and one worker, whose
//! number follows those of the cores.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use zellige_gpu::cuda::Cuda;
use zellige_gpu::{Address, Driver, GpuError, Place, Stream};

use crate::data::data;
use crate::instance::{complain, current_worker, errno, get};
use crate::types::*;

/// Speed of copies between two memory nodes.
#[derive(Clone, Copy)]
pub struct CopySpeed {
    /// Bytes a second.
    pub bandwidth: f64,
    /// Seconds before the first byte.
    pub latency: f64,
}

impl CopySpeed {
    /// Copies within a node, which nobody makes.
    const NONE: CopySpeed = CopySpeed { bandwidth: f64::INFINITY, latency: 0.0 };

    /// Returns the seconds that so many bytes take.
    pub fn seconds(self, bytes: u64) -> f64 {
        self.latency + bytes as f64 / self.bandwidth
    }

    /// Returns the link from one node to another by way of a third.
    fn then(self, next: CopySpeed) -> CopySpeed {
        let bandwidth = 1.0 / (1.0 / self.bandwidth + 1.0 / next.bandwidth);
        CopySpeed { bandwidth, latency: self.latency + next.latency }
    }
}

/// Result of a search for memory that can be freed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    Freed,
    /// Another thread uses it or frees it at this moment.
    Busy,
    Nothing,
}

/// A GPU that has a worker.
pub struct Gpu {
    /// Copies from the host and to it.
    link: CopySpeed,
    /// Its kind in performance models.
    kind: String,
    driver: Arc<dyn Driver>,
    /// Its number by the driver.
    number: u32,
    worker: usize,
    /// Stream of its tasks and of copies for them.
    stream: Stream,
    /// Stream of what other threads do, one at a time.
    others: Mutex<Stream>,
    /// Handles with memory on it, with the time of their last use.
    resident: Mutex<HashMap<usize, u64>>,
    /// Counts uses of handles.
    clock: AtomicU64,
    /// Time at which the running task began.
    began: AtomicU64,
}

/// Returns the GPUs in use.
pub fn all() -> &'static [Gpu] {
    get().map_or(&[], |instance| &instance.gpus)
}

/// Returns the GPU with this memory node.
pub fn on_node(node: usize) -> Option<&'static Gpu> {
    all().get(node.checked_sub(1)?)
}

/// Lets all values return to the host, at the end of the library: handles may stay registered.
pub unsafe fn leave_all() {
    all().iter().zip(1..).for_each(|(gpu, node)| gpu.leave_all(node));
}

/// Number of the first GPU's worker, so that cores need not look at the list.
static FIRST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Gives GPUs the workers from `first` on.
pub fn number_workers(gpus: &mut [Gpu], first: usize) {
    gpus.iter_mut().zip(first..).for_each(|(gpu, worker)| gpu.worker = worker);
    FIRST.store(if gpus.is_empty() { usize::MAX } else { first }, Ordering::Relaxed);
}

/// Returns true if GPUs are in use.
#[inline]
pub fn is_any() -> bool {
    FIRST.load(Ordering::Relaxed) != usize::MAX
}

/// Returns the memory node of a worker.
#[inline]
pub fn node_of(worker: usize) -> usize {
    let first = FIRST.load(Ordering::Relaxed);
    if worker < first { 0 } else { worker - first + 1 }
}

/// Returns the memory node of the calling thread.
pub fn node_here() -> usize {
    current_worker().map_or(0, node_of)
}

/// Returns the link between two memory nodes; `None` if one of them does not exist.
pub fn link(from: usize, to: usize) -> Option<CopySpeed> {
    let to_host = |node| if node == 0 { Some(CopySpeed::NONE) } else { on_node(node).map(|gpu| gpu.link) };
    match (to_host(from)?, to_host(to)?) {
        _ if from == to => Some(CopySpeed::NONE),
        (here, there) if from > 0 && to > 0 && !on_node(to)?.reaches(on_node(from)?) => {
            Some(here.then(there))
        }
        (here, there) => Some(if from > 0 { here } else { there }),
    }
}

/// Opens the GPUs that a configuration asks for, at most `wanted`. A GPU that fails is left out.
pub fn open(conf: &starpu_conf, wanted: Option<usize>) -> Vec<Gpu> {
    if wanted == Some(0) {
        return Vec::new();
    }
    let driver = match driver() {
        Ok(driver) => driver,
        Err(error) => {
            if let Some(wanted) = wanted {
                complain(format_args!("starpu_init: {wanted} GPUs requested, none available: {error}"));
            }
            return Vec::new();
        }
    };
    let mut numbers = driver.working();
    let most = wanted.unwrap_or(numbers.len()).min(STARPU_MAXCUDADEVS);
    let is_explicit = conf.use_explicit_workers_cuda_gpuid != 0;
    let of_conf = is_explicit.then(|| conf.workers_cuda_gpuid[..most].to_vec());
    if let Some(listed) = listed_in_environment().or(of_conf) {
        let mut chosen = Vec::new();
        for number in listed {
            if !numbers.contains(&number) {
                complain(format_args!("starpu_init: GPU {number} is not available: it is left out"));
            } else if !chosen.contains(&number) {
                chosen.push(number);
            }
        }
        numbers = chosen;
    }
    numbers.truncate(STARPU_MAXCUDADEVS);
    if let Some(wanted) = wanted {
        if wanted > numbers.len() {
            complain(format_args!("starpu_init: {wanted} GPUs requested, {} available", numbers.len()));
        }
        numbers.truncate(wanted);
    }
    let mut gpus = Vec::new();
    for number in numbers {
        match Gpu::open(&driver, number) {
            Ok(gpu) => gpus.push(gpu),
            Err(error) => complain(format_args!("starpu_init: GPU {number} is left out: {error}")),
        }
    }
    gpus
}

/// Returns the numbers of GPUs in `STARPU_WORKERS_CUDAID`, if it is set.
fn listed_in_environment() -> Option<Vec<u32>> {
    let text = std::env::var("STARPU_WORKERS_CUDAID").ok()?;
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let number = |word: &str| {
        let number = word.parse().ok();
        if number.is_none() {
            complain(format_args!("STARPU_WORKERS_CUDAID: {word} is not the number of a GPU: it is ignored"));
        }
        number
    };
    Some(words.filter_map(number).collect())
}

/// Returns the GPUs of the machine; with the feature `mock-gpu` and its variable, some for tests.
fn driver() -> Result<Arc<dyn Driver>, GpuError> {
    #[cfg(feature = "mock-gpu")]
    if let Some(count) = std::env::var("ZELLIGE_MOCK_GPU").ok().and_then(|text| text.parse().ok()) {
        let apart = std::env::var("ZELLIGE_MOCK_GPU_PEERS").is_ok_and(|peers| peers == "0");
        let mock = zellige_gpu::mock::Mock::builder().gpus(count).memory(1 << 20).peers(!apart);
        return Ok(Arc::new(mock.build()));
    }
    Ok(Arc::new(Cuda::open()?))
}

/// Measures copies from the host and to it, unless the driver knows them.
fn measured_link(driver: &dyn Driver, stream: Stream, number: u32) -> Result<CopySpeed, GpuError> {
    const BYTES: usize = 4 << 20;
    if let Some((bandwidth, latency)) = driver.links() {
        return Ok(CopySpeed { bandwidth, latency });
    }
    let mut host = vec![1u8; BYTES];
    let there = driver.allocate(stream, BYTES as u64)?;
    let (at_gpu, at_host) = (Place::Gpu(number, there), Place::Host(host.as_mut_ptr()));
    let mut shortest = [f64::INFINITY; 2];
    // The first round prepares what copies need.
    for round in 0..4 {
        for (shortest, bytes) in shortest.iter_mut().zip([1, BYTES as u64]) {
            let began = Instant::now();
            // SAFETY: both places have so many bytes and live until the stream has ended.
            unsafe {
                driver.copy(stream, at_gpu, at_host, bytes)?;
                driver.copy(stream, at_host, at_gpu, bytes)?;
            }
            driver.synchronize(stream)?;
            if round > 0 {
                *shortest = shortest.min(began.elapsed().as_secs_f64() / 2.0);
            }
        }
    }
    // SAFETY: allocated above, and not used any more.
    unsafe { driver.free(stream, there)? };
    let [latency, whole] = shortest;
    Ok(CopySpeed { bandwidth: BYTES as f64 / (whole - latency).max(1e-9), latency })
}

impl Gpu {
    fn open(driver: &Arc<dyn Driver>, number: u32) -> Result<Gpu, GpuError> {
        let (stream, others) = (driver.create_stream(number, false)?, driver.create_stream(number, false)?);
        let name = driver.gpus().get(number as usize).map_or("", |info| &info.name);
        let mut gpu = Gpu {
            link: CopySpeed::NONE,
            kind: format!("cuda:{name}"),
            driver: Arc::clone(driver),
            number,
            worker: usize::MAX,
            stream,
            others: Mutex::new(others),
            resident: Mutex::default(),
            clock: AtomicU64::new(1),
            began: AtomicU64::new(0),
        };
        gpu.link = measured_link(&**driver, stream, number)?;
        Ok(gpu)
    }

    /// Its number by the driver.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its kind in performance models: GPUs of one kind are equally fast.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.driver.gpus().get(self.number as usize).map_or_else(String::new, |info| info.name.clone())
    }

    /// Bytes of its memory.
    pub fn memory(&self) -> u64 {
        self.driver.memory(self.number).map_or(0, |(_, total)| total)
    }

    /// Returns the stream of its tasks as CUDA's own handle, and makes it the calling thread's GPU.
    pub fn native_stream(&self) -> *mut c_void {
        self.driver.native(self.stream).unwrap_or_else(|error| self.stop(&error))
    }

    /// Makes it the calling thread's GPU.
    pub fn make_current(&self) {
        self.native_stream();
    }

    /// Returns the bytes of its memory that data may fill: StarPU leaves a tenth to libraries.
    pub fn memory_for_data(&self) -> u64 {
        self.memory() / 10 * 9
    }

    /// Ends the program: values on a GPU that fails are lost.
    fn stop(&self, error: &GpuError) -> ! {
        complain(format_args!("GPU {}: {error}", self.number));
        std::process::abort()
    }

    /// Calls `f` with the stream that the calling thread may use.
    fn with_stream<R>(
        &self,
        f: impl FnOnce(&dyn Driver, Stream) -> Result<R, GpuError>,
    ) -> Result<R, GpuError> {
        if current_worker() == Some(self.worker) {
            f(&*self.driver, self.stream)
        } else {
            let others = self.others.lock();
            f(&*self.driver, *others)
        }
    }

    /// Calls `f` with a stream as CUDA's own handle, and waits until what it has queued has ended.
    pub fn with_native_stream(&self, f: impl FnOnce(*mut c_void) -> c_int) -> c_int {
        // Without the lock: `f` is the application's, and may copy.
        let native = self.with_stream(|driver, stream| driver.native(stream));
        let result = f(native.unwrap_or_else(|error| self.stop(&error)));
        self.with_stream(|driver, stream| driver.synchronize(stream))
            .unwrap_or_else(|error| self.stop(&error));
        result
    }

    /// Allocates memory; `None` if there is not as much.
    pub fn allocate(&self, bytes: usize) -> Option<usize> {
        let made = self.with_stream(|driver, stream| {
            let made = driver.allocate(stream, bytes.max(1) as u64)?;
            // Any stream may use it from now on.
            driver.synchronize(stream)?;
            Ok(made)
        });
        match made {
            Ok(at) => Some(at.0 as usize),
            Err(GpuError::OutOfMemory { .. }) => None,
            Err(error) => self.stop(&error),
        }
    }

    /// Frees memory that [`allocate`](Gpu::allocate) returned.
    pub unsafe fn free(&self, at: usize) {
        let freed = self.with_stream(|driver, stream| {
            driver.free(stream, Address(at as u64))?;
            // Any stream may get it from now on.
            driver.synchronize(stream)
        });
        freed.unwrap_or_else(|error| self.stop(&error));
    }

    /// Notes that a task begins: what it uses from now on stays on the GPU.
    pub fn begins_task(&self) {
        self.began.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Waits until what a task has queued has ended.
    pub fn ends_task(&self) {
        self.driver.synchronize(self.stream).unwrap_or_else(|error| self.stop(&error));
    }

    /// Notes the use of a handle that has memory here.
    pub fn used(&self, handle: starpu_data_handle_t) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        self.resident.lock().insert(handle as usize, now);
    }

    /// Notes that a handle has memory here that nobody has used yet.
    pub fn holds(&self, handle: starpu_data_handle_t) {
        self.resident.lock().entry(handle as usize).or_insert(0);
    }

    /// Lets all values leave the GPU, which no task uses any more.
    pub unsafe fn leave_all(&self, node: usize) {
        for (handle, _) in self.resident.lock().drain() {
            data(handle as starpu_data_handle_t).leave_node(node);
        }
    }

    /// Forgets a handle whose memory here is freed.
    pub fn forgets(&self, handle: starpu_data_handle_t) {
        self.resident.lock().remove(&(handle as usize));
    }

    /// Frees the memory here of the handle that was not used for the longest time, among those that
    /// the running task does not need.
    pub unsafe fn evict(&self, node: usize) -> Eviction {
        let mut resident = self.resident.lock();
        let began = self.began.load(Ordering::Relaxed);
        let mut old: Vec<(u64, usize)> = resident
            .iter()
            .filter(|(_, used)| **used < began)
            .map(|(&handle, &used)| (used, handle))
            .collect();
        old.sort_unstable();
        let mut found = Eviction::Nothing;
        for (_, handle) in old {
            // The handle exists while it is in the list, which is locked.
            match data(handle as starpu_data_handle_t).leave_node(node) {
                Eviction::Freed => {
                    resident.remove(&handle);
                    return Eviction::Freed;
                }
                Eviction::Busy => found = Eviction::Busy,
                Eviction::Nothing => {}
            }
        }
        found
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.driver.destroy_stream(self.stream);
        self.driver.destroy_stream(*self.others.get_mut());
    }
}

/// Returns true if a node is the host's or a GPU's in use.
pub fn is_node(node: usize) -> bool {
    node == 0 || on_node(node).is_some()
}

/// Returns the memory nodes.
pub fn nodes() -> std::ops::Range<usize> {
    0..1 + all().len()
}

/// Returns the GPU that a worker is, if it is one.
#[inline]
pub fn gpu_of(worker: usize) -> Option<&'static Gpu> {
    match node_of(worker) {
        0 => None,
        node => on_node(node),
    }
}

/// Copies a run of bytes; the last argument is their number.
pub type CopyRun<'a> = &'a mut dyn FnMut(*mut u8, *const u8, usize);

/// Copies runs of bytes from one memory node to another, and waits for their end. `runs` calls its
/// argument for each run.
///
/// # Safety
/// The runs are valid memory of the two nodes and do not overlap.
pub unsafe fn copy_runs_between(to_node: usize, from_node: usize, runs: impl FnOnce(CopyRun<'_>)) {
    match (on_node(to_node), on_node(from_node)) {
        (None, None) => runs(&mut |to, from, bytes| {
            // SAFETY: as the caller promises.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
        }),
        (Some(gpu), None) => gpu.copy_all(runs, |to, from| (gpu.at(to), Place::Host(from.cast_mut()))),
        (None, Some(gpu)) => gpu.copy_all(runs, |to, from| (Place::Host(to), gpu.at(from))),
        (Some(here), Some(there)) if here.reaches(there) => {
            here.copy_all(runs, |to, from| (here.at(to), there.at(from)));
        }
        (Some(here), Some(there)) => {
            let mut staged = Vec::new();
            runs(&mut |to, from, bytes| {
                staged.resize(bytes, 0u8);
                let host = staged.as_mut_ptr();
                // SAFETY: as the caller promises, by way of the buffer.
                unsafe {
                    there.copy_all(
                        |copy| copy(host, from, bytes),
                        |to, from| (Place::Host(to), there.at(from)),
                    );
                    here.copy_all(
                        |copy| copy(to, host, bytes),
                        |to, from| (here.at(to), Place::Host(from.cast_mut())),
                    );
                }
            });
        }
    }
}

impl Gpu {
    fn at(&self, address: *const u8) -> Place {
        Place::Gpu(self.number, Address(address as u64))
    }

    fn reaches(&self, other: &Gpu) -> bool {
        let info = self.driver.gpus().get(self.number as usize);
        self.number == other.number || info.is_some_and(|info| info.peers.contains(&other.number))
    }

    /// Queues all runs on a stream, and waits.
    unsafe fn copy_all(
        &self,
        runs: impl FnOnce(CopyRun<'_>),
        places: impl Fn(*mut u8, *const u8) -> (Place, Place),
    ) {
        let copied = self.with_stream(|driver, stream| {
            let mut result = Ok(());
            runs(&mut |to, from, bytes| {
                let (to, from) = places(to, from);
                if result.is_ok() {
                    // SAFETY: as the caller of `copy_runs_between` promises; it waits below.
                    result = unsafe { driver.copy(stream, to, from, bytes as u64) };
                }
            });
            result.and(driver.synchronize(stream))
        });
        copied.unwrap_or_else(|error| self.stop(&error));
    }
}

/// Returns the stream of the calling worker's GPU; null elsewhere.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_cuda_get_local_stream() -> *mut c_void {
    on_node(node_here()).map_or(std::ptr::null_mut(), Gpu::native_stream)
}

/// Makes a GPU the calling thread's.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_cuda_set_device(device: c_int) {
    match all().iter().find(|gpu| gpu.number as c_int == device) {
        Some(gpu) => gpu.make_current(),
        None => complain(format_args!("starpu_cuda_set_device: GPU {device} has no worker")),
    }
}

/// Copies bytes between two memory nodes and waits for the end; the stream and the direction are
/// those of the nodes.
///
/// # Safety
/// Both places are valid memory of their nodes and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cuda_copy_async_sync(
    from: *mut c_void,
    from_node: std::ffi::c_uint,
    to: *mut c_void,
    to_node: std::ffi::c_uint,
    bytes: usize,
    stream: *mut c_void,
    _direction: c_int,
) -> c_int {
    crate::cuda_libraries::wait_for(stream);
    if [from_node, to_node].iter().any(|&node| node as usize > all().len()) {
        complain(format_args!(
            "starpu_cuda_copy_async_sync: there is no memory node {}",
            from_node.max(to_node)
        ));
        return -errno::EINVAL;
    }
    copy_runs_between(to_node as usize, from_node as usize, |copy| copy(to.cast(), from.cast(), bytes));
    0
}
