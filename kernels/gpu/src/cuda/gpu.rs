//! Finding GPUs, and making them ready.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};
use parking_lot::Mutex;

use super::error::{describe, failed};
use super::probe;
use super::stream::Spare;
use crate::error::GpuError;
use crate::info::{GpuInfo, Library};

/// The oldest driver that has every call which is made here: CUDA 11.4.
const OLDEST: c_int = 11_040;

/// The primary context of a GPU, which other libraries of the process use too.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) device: sys::CUdevice,
    pub(super) context: sys::CUcontext,
    /// Default memory pool, if the GPU supports pools.
    pub(super) pool: Option<sys::CUmemoryPool>,
    /// Priorities of streams: the lowest and the most urgent.
    pub(super) priorities: (c_int, c_int),
    /// Captures that have begun and not ended.
    pub(super) captures: Mutex<usize>,
    /// Handles of libraries that no stream has: those of streams that are gone, for streams that
    /// come. Destroying one waits for the whole GPU, which invalidates a capture on another thread:
    /// they stay as long as the GPU.
    pub(super) spare: Spare,
    /// True after libraries have allocated their memory that all streams share on this GPU.
    pub(super) is_loaded: AtomicBool,
    /// Why everything fails; from the start for a GPU that does not open, which has no context.
    pub(super) lost: OnceLock<GpuError>,
}

impl Gpu {
    /// Creates a GPU that cannot be used, so that the others keep their numbers.
    fn broken(device: sys::CUdevice, error: GpuError) -> Gpu {
        let gpu = Gpu::new(device, ptr::null_mut());
        let _ = gpu.lost.set(error); // it is the first
        gpu
    }

    fn new(device: sys::CUdevice, context: sys::CUcontext) -> Gpu {
        Gpu {
            device,
            context,
            pool: None,
            priorities: (0, 0),
            captures: Mutex::new(0),
            spare: Spare::default(),
            is_loaded: AtomicBool::new(false),
            lost: OnceLock::new(),
        }
    }

    fn works(&self) -> bool {
        self.lost.get().is_none()
    }
}

// SAFETY: contexts and pools may be used from any thread.
unsafe impl Send for Gpu {}
// SAFETY: contexts and pools may be used by several threads concurrently; `lost` is set once.
unsafe impl Sync for Gpu {}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.context.is_null() {
            return;
        }
        // SAFETY: the context is alive; where it is lost, so is what the handles have there.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
        }
        self.spare.lock().clear();
        // SAFETY: retained in `open`, released once; nothing of it is left, as `Cuda` drops that
        // first.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

fn missing(reason: String) -> GpuError {
    GpuError::Missing { library: Library::Driver, reason, needed_for: Library::Driver.needed_for() }
}

/// The driver is there and works.
fn start() -> Result<(), GpuError> {
    probe::needs(Library::Driver)?;
    let version = probe::driver_version().unwrap_or_default();
    if version < OLDEST {
        return Err(missing(format!(
            "it knows CUDA {}.{}, and 11.4 is needed: install a newer driver",
            version / 1000,
            version % 1000 / 10
        )));
    }
    // SAFETY: the library is there; may be called any number of times.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS => Ok(()),
        // If the machine has no GPU, or CUDA_VISIBLE_DEVICES hides all of them, this is
        // CUDA_ERROR_NO_DEVICE.
        result => Err(missing(describe(result))),
    }
}

/// Opens all GPUs that the driver reports. Each is either ready or has the reason why not. Returns
/// them with their descriptions, or the error of the first if none works.
pub(super) fn open_all() -> Result<(Vec<Gpu>, Vec<GpuInfo>), GpuError> {
    start()?;
    let mut count = 0;
    // SAFETY: writes one int.
    check_status(0, "cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
    let count = u32::try_from(count).unwrap_or_default();
    if count == 0 {
        return Err(missing("it shows no GPU".into()));
    }
    let gpus: Vec<Gpu> = (0..count).map(open).collect();
    let errors = || gpus.iter().filter_map(|gpu| gpu.lost.get());
    if let (Some(error), false) = (errors().next(), gpus.iter().any(Gpu::works)) {
        return Err(error.clone());
    }
    errors().for_each(|error| tracing::warn!("a GPU does not open, the others are used: {error}"));
    let reaches = |gpu: &Gpu, peer: &Gpu| gpu.works() && peer.works() && reach(gpu, peer);
    let mut infos = Vec::new();
    for (gpu, number) in gpus.iter().zip(0..) {
        let is_peer = |peer: &u32| *peer != number && reaches(gpu, &gpus[*peer as usize]);
        let info = query_info(number, gpu.device, (0..count).filter(is_peer).collect());
        infos.push(if gpu.works() { info? } else { info.unwrap_or_else(|_| unknown(number)) });
    }
    for (gpu, info) in gpus.iter().zip(&infos) {
        share_pool(gpu, info.peers.iter().map(|peer| gpus[*peer as usize].device));
    }
    Ok((gpus, infos))
}

fn check_status(gpu: u32, call: &'static str, result: CUresult) -> Result<(), GpuError> {
    if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(failed(gpu, call, result)) }
}

/// A GPU with a context, or with the reason why it has none.
fn open(number: u32) -> Gpu {
    let mut device = -1; // no GPU: what is asked of it is refused
    // SAFETY: writes one handle.
    let found =
        check_status(number, "cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, number as c_int) });
    found.and_then(|()| retain(number, device)).unwrap_or_else(|error| Gpu::broken(device, error))
}

fn retain(number: u32, device: sys::CUdevice) -> Result<Gpu, GpuError> {
    let mut context = ptr::null_mut();
    // SAFETY: writes one handle; released when the result is dropped.
    check_status(number, "cuDevicePrimaryCtxRetain", unsafe {
        sys::cuDevicePrimaryCtxRetain(&mut context, device)
    })?;
    let mut gpu = Gpu::new(device, context);
    // SAFETY: the context is alive.
    check_status(number, "cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context) })?;
    let (mut low, mut high) = (0, 0);
    // SAFETY: writes two ints.
    let result = unsafe { sys::cuCtxGetStreamPriorityRange(&mut low, &mut high) };
    check_status(number, "cuCtxGetStreamPriorityRange", result)?;
    gpu.priorities = (low, high);
    gpu.pool = open_pool(number, device)?;
    Ok(gpu)
}

/// Opens the default pool, configured to retain freed memory: the runtime has its own budget, and
/// returning memory to the system is slow.
fn open_pool(number: u32, device: sys::CUdevice) -> Result<Option<sys::CUmemoryPool>, GpuError> {
    if attribute(number, device, Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 0 {
        return Ok(None);
    }
    let mut pool = ptr::null_mut();
    // SAFETY: writes one handle; the default pool is never destroyed.
    check_status(number, "cuDeviceGetDefaultMemPool", unsafe {
        sys::cuDeviceGetDefaultMemPool(&mut pool, device)
    })?;
    let mut all = u64::MAX;
    let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: this attribute is a 64-bit number, read during the call.
    let result = unsafe { sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut all).cast()) };
    check_status(number, "cuMemPoolSetAttribute", result)?;
    Ok(Some(pool))
}

/// Lets a GPU reach a peer's memory, if it can.
fn reach(gpu: &Gpu, peer: &Gpu) -> bool {
    let mut can = 0;
    // SAFETY: writes one int.
    let asked = unsafe { sys::cuDeviceCanAccessPeer(&mut can, gpu.device, peer.device) };
    if asked != CUresult::CUDA_SUCCESS || can == 0 {
        return false;
    }
    // SAFETY: the context is alive.
    if unsafe { sys::cuCtxSetCurrent(gpu.context) } != CUresult::CUDA_SUCCESS {
        return false;
    }
    // SAFETY: both contexts are alive, the own one is current.
    let enabled = unsafe { sys::cuCtxEnablePeerAccess(peer.context, 0) };
    matches!(enabled, CUresult::CUDA_SUCCESS | CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
}

/// Grants peers access to the memory of the pool, which has its own access list. If that fails,
/// peer copies go through the host: slower, not wrong.
fn share_pool(gpu: &Gpu, peers: impl Iterator<Item = sys::CUdevice>) {
    let Some(pool) = gpu.pool else { return };
    let access = |peer| sys::CUmemAccessDesc {
        location: sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: peer },
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    let list: Vec<sys::CUmemAccessDesc> = peers.map(access).collect();
    if !list.is_empty() {
        // SAFETY: the list is read during the call.
        let _ = unsafe { sys::cuMemPoolSetAccess(pool, list.as_ptr(), list.len()) };
    }
}

fn attribute(number: u32, device: sys::CUdevice, which: Attribute) -> Result<c_int, GpuError> {
    let mut value = 0;
    // SAFETY: writes one int.
    let result = unsafe { sys::cuDeviceGetAttribute(&mut value, which, device) };
    check_status(number, "cuDeviceGetAttribute", result).map(|()| value)
}

/// Returns the description of a GPU without any information.
fn unknown(number: u32) -> GpuInfo {
    GpuInfo {
        name: "a GPU that does not open".into(),
        uuid: format!("unknown {number}"),
        memory: 0,
        compute_capability: (0, 0),
        multiprocessors: 0,
        bus: String::new(),
        peers: Vec::new(),
    }
}

fn query_info(number: u32, device: sys::CUdevice, peers: Vec<u32>) -> Result<GpuInfo, GpuError> {
    let mut text = [0; 256];
    // SAFETY: writes at most so many characters with a 0 at the end.
    check_status(number, "cuDeviceGetName", unsafe { sys::cuDeviceGetName(text.as_mut_ptr(), 255, device) })?;
    // SAFETY: the last character is 0 whatever was written.
    let name = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned();
    // SAFETY: writes at most so many characters with a 0 at the end.
    check_status(number, "cuDeviceGetPCIBusId", unsafe {
        sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), 255, device)
    })?;
    // SAFETY: the last character is 0 whatever was written.
    let bus = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().to_lowercase();
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: writes 16 bytes.
    check_status(number, "cuDeviceGetUuid_v2", unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, device) })?;
    let mut memory = 0;
    // SAFETY: writes one number.
    check_status(number, "cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&mut memory, device) })?;
    let get = |which| Ok::<u32, GpuError>(attribute(number, device, which)?.unsigned_abs());
    Ok(GpuInfo {
        name,
        uuid: uuid_text(uuid.bytes.map(|byte| byte as u8)),
        memory: memory as u64,
        compute_capability: (
            get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        bus,
        peers,
    })
}

/// Formats a UUID as `nvidia-smi` does.
fn uuid_text(bytes: [u8; 16]) -> String {
    let hex = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]].map(hex);
    format!("GPU-{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_written_as_nvidia_smi_does() {
        let bytes = std::array::from_fn(|i| i as u8 * 17);
        assert_eq!(uuid_text(bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
