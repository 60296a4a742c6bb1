//! Clock rates and power through NVML, which the bindings do not cover: seven functions, by their
//! names.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use super::error::refused;
use crate::error::GpuError;
use crate::info::Gauges;

/// The library as drivers install it, and as development packages do.
const FILES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];
/// `NVML_CLOCK_SM`.
const SM_CLOCK: c_int = 1;

type Device = *mut c_void;
type Start = unsafe extern "C" fn() -> c_int;
type Version = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
type Describe = unsafe extern "C" fn(c_int) -> *const c_char;
type ByBus = unsafe extern "C" fn(*const c_char, *mut Device) -> c_int;
type Clock = unsafe extern "C" fn(Device, c_int, *mut c_uint) -> c_int;
type Power = unsafe extern "C" fn(Device, *mut c_uint) -> c_int;
type Energy = unsafe extern "C" fn(Device, *mut c_ulonglong) -> c_int;

/// The library's functions; it stays loaded as long as the process.
struct Nvml {
    version: Version,
    driver: Version,
    describe: Describe,
    by_bus: ByBus,
    clock: Clock,
    power: Power,
    energy: Energy,
}

fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: NVIDIA's libraries may be loaded at any time; what runs then is their own set-up.
    let load = || FILES.iter().find_map(|file| unsafe { Library::new(*file) }.ok());
    LIBRARY.get_or_init(load).as_ref()
}

/// Returns the functions after the start of the library; `None` if it lacks one, or does not start.
fn nvml() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    NVML.get_or_init(|| start(library()?)).as_ref()
}

fn start(library: &'static Library) -> Option<Nvml> {
    // SAFETY: each type is that of the function of this name in nvml.h, and the library is never
    // unloaded.
    let (start, nvml) = unsafe {
        let start = *library.get::<Start>(b"nvmlInit_v2\0").ok()?;
        let nvml = Nvml {
            version: *library.get::<Version>(b"nvmlSystemGetNVMLVersion\0").ok()?,
            driver: *library.get::<Version>(b"nvmlSystemGetDriverVersion\0").ok()?,
            describe: *library.get::<Describe>(b"nvmlErrorString\0").ok()?,
            by_bus: *library.get::<ByBus>(b"nvmlDeviceGetHandleByPciBusId_v2\0").ok()?,
            clock: *library.get::<Clock>(b"nvmlDeviceGetClockInfo\0").ok()?,
            power: *library.get::<Power>(b"nvmlDeviceGetPowerUsage\0").ok()?,
            energy: *library.get::<Energy>(b"nvmlDeviceGetTotalEnergyConsumption\0").ok()?,
        };
        (start, nvml)
    };
    // SAFETY: it takes nothing, and may be called any number of times.
    (unsafe { start() } == 0).then_some(nvml)
}

/// Returns true if the library can be loaded.
pub(super) fn is_present() -> bool {
    library().is_some()
}

/// Returns the version of the library; `None` if it does not work.
pub(super) fn version() -> Option<String> {
    text(nvml()?.version)
}

/// Returns the version of NVIDIA's driver; `None` if the library is missing or does not work.
pub(super) fn driver_version() -> Option<String> {
    text(nvml()?.driver)
}

/// Returns the text that such a function writes.
fn text(version: Version) -> Option<String> {
    let mut text: [c_char; 96] = [0; 96];
    // SAFETY: the library is started; writes at most so many characters with a 0 at the end.
    if unsafe { version(text.as_mut_ptr(), 95) } != 0 {
        return None;
    }
    // SAFETY: the last character is 0 whatever was written.
    Some(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
}

/// Clock rate, power and energy of the GPU at this place on the bus. The library has to be there.
pub(super) fn gauges(gpu: u32, bus: &str) -> Result<Gauges, GpuError> {
    const CALL: &str = "nvmlDeviceGetHandleByPciBusId";
    let (Some(nvml), Ok(bus)) = (nvml(), CString::new(bus)) else {
        return Err(refused(gpu, CALL, "the library does not start, or the GPU's place has a 0 in it"));
    };
    let mut device = ptr::null_mut();
    // SAFETY: the name ends with a 0; writes one handle, which is never given back.
    let result = unsafe { (nvml.by_bus)(bus.as_ptr(), &mut device) };
    if result != 0 {
        return Err(refused(gpu, CALL, nvml.said(result)));
    }
    let (mut clock, mut power, mut energy) = (0, 0, 0);
    // SAFETY: for the three calls: the handle is the library's own; each writes one number.
    unsafe {
        let if_ok = |result: c_int, value: f64| (result == 0).then_some(value);
        let result = (nvml.clock)(device, SM_CLOCK, &mut clock);
        let sm_clock_mhz = if_ok(result, f64::from(clock));
        let result = (nvml.power)(device, &mut power);
        let power_w = if_ok(result, f64::from(power) / 1e3);
        let result = (nvml.energy)(device, &mut energy);
        Ok(Gauges { sm_clock_mhz, power_w, energy_j: if_ok(result, energy as f64 / 1e3) })
    }
}

impl Nvml {
    /// The library's words for an answer.
    fn said(&self, result: c_int) -> String {
        // SAFETY: any number may be asked; gives a string that is never freed, or null.
        let text = unsafe { (self.describe)(result) };
        if text.is_null() {
            return format!("error {result}");
        }
        // SAFETY: not null, so it is such a string.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
