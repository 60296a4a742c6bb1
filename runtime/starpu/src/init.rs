//! Start and end of the library, and its configuration.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::time::Duration;

use parking_lot::Mutex;
use zellige_runtime::{Error, Runtime};

use crate::gpus;
use crate::instance::{self, Instance, complain, errno, get};
use crate::policy::{self, OfApplication, Wrapped};
use crate::tags::Tags;
use crate::types::*;

/// Number of `starpu_init` without their `starpu_shutdown`.
static STARTS: Mutex<usize> = Mutex::new(0);

/// Magic number of a configuration that `starpu_conf_init` has filled.
const MAGIC: c_int = 42;

fn number(name: &str) -> Option<c_int> {
    let text = std::env::var(name).ok()?;
    match text.trim().parse() {
        Ok(number) => Some(number),
        Err(_) => {
            complain(format_args!("{name}={text} is not a whole number: it is ignored"));
            None
        }
    }
}

/// Returns the number that is asked for: the environment has precedence unless the configuration
/// says otherwise.
fn asked(configured: c_int, names: &[&str], conf_first: bool) -> Option<usize> {
    let from_environment = names.iter().find_map(|name| number(name)).filter(|&n| n >= 0);
    let from_conf = (configured >= 0).then_some(configured);
    let chosen = if conf_first { from_conf.or(from_environment) } else { from_environment.or(from_conf) };
    chosen.map(|n| n as usize)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_conf_init(conf: *mut starpu_conf) -> c_int {
    if conf.is_null() {
        return -errno::EINVAL;
    }
    ptr::write_bytes(conf, 0, 1);
    let conf = &mut *conf;
    conf.magic = MAGIC;
    for count in [
        &mut conf.ncpus,
        &mut conf.reserve_ncpus,
        &mut conf.ncuda,
        &mut conf.nhip,
        &mut conf.nsycl,
        &mut conf.nopencl,
        &mut conf.nmax_fpga,
        &mut conf.nmpi_sc,
        &mut conf.ntcpip_sc,
    ] {
        *count = -1;
    }
    conf.will_use_mpi = -1;
    conf.global_sched_ctx_min_priority = number("STARPU_MIN_PRIO").unwrap_or(-1);
    conf.global_sched_ctx_max_priority = number("STARPU_MAX_PRIO").unwrap_or(-1);
    conf.bus_calibrate = number("STARPU_BUS_CALIBRATE").unwrap_or(0);
    conf.calibrate = number("STARPU_CALIBRATE").unwrap_or(0);
    conf.catch_signals = number("STARPU_CATCH_SIGNALS").unwrap_or(1);
    conf.single_combined_worker = number("STARPU_SINGLE_COMBINED_WORKER").unwrap_or(0);
    if let Ok(name) = std::env::var("STARPU_SCHED")
        && let Ok(name) = std::ffi::CString::new(name)
    {
        conf.sched_policy_name = name.into_raw();
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_conf_noworker(conf: *mut starpu_conf) -> c_int {
    let result = starpu_conf_init(conf);
    if result == 0 {
        let conf = &mut *conf;
        for count in [
            &mut conf.ncpus,
            &mut conf.ncuda,
            &mut conf.nhip,
            &mut conf.nsycl,
            &mut conf.nopencl,
            &mut conf.nmax_fpga,
            &mut conf.nmpi_sc,
            &mut conf.ntcpip_sc,
        ] {
            *count = 0;
        }
    }
    result
}

/// Number of workers on cores that a configuration and the environment ask for; each of `gpus` GPUs
/// takes a core unless the number is given.
fn workers(conf: &starpu_conf, gpus: usize) -> usize {
    let conf_first = conf.precedence_over_environment_variables != 0;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let reserved = asked(conf.reserve_ncpus, &["STARPU_RESERVE_NCPU"], conf_first).unwrap_or(0);
    let wanted = asked(conf.ncpus, &["STARPU_NCPU", "STARPU_NCPUS"], conf_first);
    let workers = wanted.unwrap_or_else(|| cores.saturating_sub(reserved + gpus).max(1));
    let most = STARPU_NMAXWORKERS - gpus;
    if workers > most {
        complain(format_args!("{workers} workers requested: {most} start, the maximum"));
    }
    workers.min(most)
}

unsafe fn build(conf: &starpu_conf, workers: usize) -> Result<Runtime, Error> {
    let mut builder =
        Runtime::builder().workers(workers).window(usize::MAX).trace(crate::profiling::trace_wanted());
    if let Some(time) = number("STARPU_WATCHDOG_TIMEOUT").filter(|&time| time > 0) {
        builder = builder.watchdog(Some(Duration::from_micros(time as u64)));
    } else {
        builder = builder.watchdog(None);
    }
    if !conf.sched_policy.is_null() {
        policy::sets_range("eager");
        return builder.policy_with(OfApplication::new(conf.sched_policy)).build();
    }
    let requested = policy::requested(conf.sched_policy_name);
    let known = requested.as_deref().map_or(Some("lws"), policy::equivalent);
    if known.is_none() {
        complain(format_args!(
            "there is no scheduling policy {}: lws is used",
            requested.as_deref().unwrap_or_default()
        ));
    }
    policy::sets_range(if known.is_none() { "lws" } else { requested.as_deref().unwrap_or("lws") });
    let wrapped = Wrapped::new(known.unwrap_or("lws"), workers)
        .ok_or_else(|| Error::Config("the scheduling policy lws is missing".into()))?;
    builder.policy_with(wrapped).build()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_init(conf: *mut starpu_conf) -> c_int {
    let mut starts = STARTS.lock();
    if *starts > 0 {
        *starts += 1;
        return 0;
    }
    let mut default = std::mem::zeroed::<starpu_conf>();
    let conf = if conf.is_null() {
        starpu_conf_init(&raw mut default);
        &default
    } else {
        if (*conf).magic != MAGIC {
            complain(format_args!("starpu_init: call starpu_conf_init on the configuration first"));
            return -errno::EINVAL;
        }
        &*conf
    };
    let conf_first = conf.precedence_over_environment_variables != 0;
    let mut gpus = gpus::open(conf, asked(conf.ncuda, &["STARPU_NCUDA"], conf_first));
    let cores = workers(conf, gpus.len());
    let workers = cores + gpus.len();
    gpus::number_workers(&mut gpus, cores);
    if workers == 0 {
        return -errno::ENODEV;
    }
    let rt = match build(conf, workers) {
        Ok(rt) => rt,
        Err(error) => {
            complain(format_args!("starpu_init: {error}"));
            return -errno::ENODEV;
        }
    };
    instance::begin(Instance { rt, workers, gpus, unfinished: Default::default(), tags: Tags::default() });
    crate::memory::read_limits();
    crate::workers::forget_bindings();
    crate::sched_ctx::at_init();
    policy::set_caps(c_int::MIN, c_int::MAX);
    crate::held::at_init(conf, cores);
    if conf.start_perf_counter_collection != 0 {
        crate::profiling::starpu_perf_counter_collection_start();
    }
    let policy = policy::requested(conf.sched_policy_name).unwrap_or_default();
    crate::perfmodel::at_init(
        conf.calibrate,
        conf.sched_policy.is_null() && crate::perfmodel::is_asked_by(&policy),
    );
    if let Some(instance) = get() {
        policy::begin(instance);
    }
    if let Some(callback) = conf.sched_policy_callback {
        callback(0);
    }
    *starts = 1;
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_initialize(
    conf: *mut starpu_conf,
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
) -> c_int {
    starpu_init(conf)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_is_initialized() -> c_int {
    c_int::from(*STARTS.lock() > 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_wait_initialized() {
    while starpu_is_initialized() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_shutdown() {
    let mut starts = STARTS.lock();
    if *starts == 0 {
        return complain(format_args!("starpu_shutdown: StarPU is not initialised"));
    }
    *starts -= 1;
    if *starts > 0 {
        return;
    }
    policy::unpause();
    crate::held::free_all();
    policy::starpu_do_schedule();
    crate::task::starpu_task_wait_for_all();
    crate::perfmodel::at_shutdown();
    crate::profiling::at_shutdown();
    gpus::leave_all();
    let workers = instance::workers();
    policy::finish(workers);
    instance::end();
    crate::profiling::starpu_perf_counter_collection_stop();
    crate::submission::forget_order();
    crate::pool::drain();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_get_version(major: *mut c_int, minor: *mut c_int, release: *mut c_int) {
    for (place, number) in [(major, 1), (minor, 4), (release, 99)] {
        if let Some(place) = place.as_mut() {
            *place = number;
        }
    }
}

/// Defines functions that say whether a kind of asynchronous copy is switched off.
macro_rules! asynchronous {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            c_int::from(number("STARPU_DISABLE_ASYNCHRONOUS_COPY").unwrap_or(0) > 0)
        })*
    };
}

asynchronous! {
    starpu_asynchronous_copy_disabled starpu_asynchronous_cuda_copy_disabled
    starpu_asynchronous_hip_copy_disabled starpu_asynchronous_sycl_copy_disabled
    starpu_asynchronous_opencl_copy_disabled starpu_asynchronous_max_fpga_copy_disabled
    starpu_asynchronous_mpi_sc_copy_disabled starpu_asynchronous_tcpip_sc_copy_disabled
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_asynchronous_copy_disabled_for(_kind: starpu_node_kind) -> c_int {
    starpu_asynchronous_copy_disabled()
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_map_enabled() -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_cpu_os_index(core: c_int) -> c_int {
    core
}
