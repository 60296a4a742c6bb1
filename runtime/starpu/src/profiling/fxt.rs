//! Traces: zellige's native file, and Paje made of it.
//!
//! The runtime records if STARPU_FXT_TRACE or STARPU_GENERATE_TRACE is 1 when it starts. The file
//! is written at the end, in the folder STARPU_FXT_PREFIX (or the current one). With
//! STARPU_GENERATE_TRACE a Paje trace, `paje.trace` in the current folder, is written beside it.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use zellige_runtime::Trace;

use super::{STATUS, asked, starpu_profiling_init};
use crate::c::{free, strdup};
use crate::instance::{complain, with_runtime};
use crate::types::*;

/// The trace begins with the library, not with `starpu_fxt_start_profiling`.
static AUTOSTART: AtomicBool = AtomicBool::new(true);

/// When the runtime began to record, and from when to when the program wants it, since then, in
/// nanoseconds.
struct Recording {
    began: Option<Instant>,
    spans: Vec<(u64, u64)>,
}

static RECORDING: Mutex<Recording> = Mutex::new(Recording { began: None, spans: Vec::new() });

/// Returns whether the runtime is to record a trace. The library asks whenever it starts.
pub(crate) fn trace_wanted() -> bool {
    if asked("STARPU_PROFILING") || asked("STARPU_WORKER_STATS") {
        STATUS.store(true, Ordering::SeqCst);
    }
    starpu_profiling_init();
    let wanted = asked("STARPU_FXT_TRACE") || asked("STARPU_GENERATE_TRACE");
    let mut recording = RECORDING.lock();
    recording.began = wanted.then(Instant::now);
    recording.spans.clear();
    if AUTOSTART.load(Ordering::Relaxed) {
        recording.spans.push((0, u64::MAX));
    }
    wanted
}

/// Prints the statistics that the environment asks for; takes the trace from the runtime and writes
/// it. To be called when all tasks have ended, before the runtime does.
pub(crate) fn at_shutdown() {
    super::starpu_display_stats();
    STATUS.store(false, Ordering::SeqCst);
    let spans = {
        let mut recording = RECORDING.lock();
        if recording.began.take().is_none() {
            return;
        }
        std::mem::take(&mut recording.spans)
    };
    let Some(Some(mut trace)) = with_runtime(|rt| rt.take_trace()) else { return };
    trace.tasks.retain(|task| spans.iter().any(|span| span.0 <= task.start_ns && task.start_ns < span.1));
    let path = native_path();
    if let Err(error) = write(&path, |out| trace.write_native(out)) {
        return complain(format_args!("{}: the trace is not written: {error}", path.display()));
    }
    if !std::env::var("STARPU_SILENT").is_ok_and(|silent| silent.trim() != "0") {
        complain(format_args!("trace: {}", path.display()));
    }
    if asked("STARPU_GENERATE_TRACE")
        && let Err(error) = write(Path::new("paje.trace"), |out| trace.write_paje(out))
    {
        complain(format_args!("paje.trace: the trace is not written: {error}"));
    }
}

fn native_path() -> PathBuf {
    let folder = std::env::var_os("STARPU_FXT_PREFIX").map_or_else(PathBuf::new, PathBuf::from);
    let user = std::env::var("USER").unwrap_or_else(|_| "user".into()).replace('/', "_");
    folder.join(format!("zellige_{user}_{}.trace", std::process::id()))
}

fn write(path: &Path, f: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    let mut out = BufWriter::new(File::create(path)?);
    f(&mut out)?;
    out.flush()
}

/// Begins or ends a span of the trace.
fn set(recorded: bool, function: &str) {
    let mut recording = RECORDING.lock();
    let Some(began) = recording.began else {
        // Programs call this whether or not anybody wants a trace.
        if asked("STARPU_FXT_TRACE") {
            drop(recording);
            complain(format_args!("{function}: there is no trace: call starpu_init first"));
        }
        return;
    };
    let now = began.elapsed().as_nanos() as u64;
    let open = recording.spans.last().is_some_and(|span| span.1 == u64::MAX);
    match (recorded, open) {
        (true, false) => recording.spans.push((now, u64::MAX)),
        (false, true) => {
            if let Some(span) = recording.spans.last_mut() {
                span.1 = now;
            }
        }
        _ => {}
    }
}

/// Returns 1 if a trace is recorded.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_fxt_is_enabled() -> c_int {
    c_int::from(RECORDING.lock().began.is_some())
}

/// Says whether the trace begins with `starpu_init`, or with `starpu_fxt_start_profiling`.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_fxt_autostart_profiling(autostart: c_int) {
    AUTOSTART.store(autostart != 0, Ordering::Relaxed);
}

/// Takes the tasks that begin from now on into the trace.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_fxt_start_profiling() {
    set(true, "starpu_fxt_start_profiling");
}

/// Leaves the tasks that begin from now on out of the trace.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_fxt_stop_profiling() {
    set(false, "starpu_fxt_stop_profiling");
}

/// Marks a moment of the trace by a number.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_fxt_trace_user_event(code: c_ulong) {
    mark(&format!("event {code}"));
}

/// Marks a moment of the trace by a text.
///
/// # Safety
///
/// `text` is a text of C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_fxt_trace_user_event_string(text: *const c_char) {
    if !text.is_null() {
        // SAFETY: as the caller vouches.
        mark(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
    }
}

/// Marks a moment of the trace by a text.
///
/// # Safety
///
/// `text` is a text of C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_fxt_trace_user_meta_string(text: *const c_char) {
    // SAFETY: as the caller vouches.
    unsafe { starpu_fxt_trace_user_event_string(text) };
}

/// A user's event is the beginning of a phase of the trace.
fn mark(name: &str) {
    if starpu_fxt_is_enabled() != 0 {
        with_runtime(|rt| rt.phase(name));
    }
}

// ---- Files from files ---------------------------------------------------------------------------

/// A clock offset of a rank; unused.
#[repr(C)]
pub struct starpu_fxt_mpi_offset {
    local_time_start: u64,
    offset_start: i64,
    local_time_end: u64,
    offset_end: i64,
    nb_barriers: c_int,
}

/// The options of `starpu_fxt_generate_trace`.
#[repr(C)]
pub struct starpu_fxt_options {
    per_task_colour: c_uint,
    no_events: c_uint,
    no_counter: c_uint,
    no_bus: c_uint,
    no_flops: c_uint,
    ninputfiles: c_uint,
    no_smooth: c_uint,
    no_acquire: c_uint,
    memory_states: c_uint,
    internal: c_uint,
    label_deps: c_uint,
    use_task_color: c_uint,
    show_workers: c_uint,
    iter_clusters: c_uint,
    filenames: [*mut c_char; STARPU_FXT_MAX_FILES],
    out_paje_path: *mut c_char,
    /// The paths of files that are not written here: distribution of times, activity, tasks, ...
    others: [*mut c_char; 11],
    dir: *mut c_char,
    worker_names: [[c_char; 256]; STARPU_NMAXWORKERS],
    nworkers: c_int,
    worker_archtypes: [starpu_perfmodel_arch; STARPU_NMAXWORKERS],
    file_prefix: *mut c_char,
    file_offset: starpu_fxt_mpi_offset,
    file_rank: c_int,
    dumped_codelets: *mut *mut c_void,
    dumped_codelets_count: c_long,
}

/// Sets the options to what is done without any.
///
/// # Safety
///
/// `options` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_fxt_options_init(options: *mut starpu_fxt_options) {
    // SAFETY: as the caller vouches; all-zero bytes are a valid value of the structure.
    unsafe {
        options.write_bytes(0, 1);
        (*options).out_paje_path = strdup(c"paje.trace".as_ptr());
        (*options).file_prefix = strdup(c"".as_ptr());
        (*options).file_rank = -1;
    }
}

/// Frees what `starpu_fxt_options_init` made.
///
/// # Safety
///
/// `options` was set by `starpu_fxt_options_init`; paths that the program set came from malloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_fxt_options_shutdown(options: *mut starpu_fxt_options) {
    // SAFETY: as the caller vouches.
    unsafe {
        for path in [&mut (*options).out_paje_path, &mut (*options).file_prefix] {
            free(std::mem::replace(path, ptr::null_mut()).cast());
        }
    }
}

/// Reads a native trace.
fn read(path: &Path) -> Option<Trace> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            complain(format_args!("{}: the trace is not read: {error}", path.display()));
            return None;
        }
    };
    match Trace::read_native(&bytes) {
        Ok(trace) => Some(trace),
        Err(error) => {
            complain(format_args!("{}: this is no trace of zellige: {error}", path.display()));
            None
        }
    }
}

/// Writes the Paje trace of the first of the native files.
///
/// # Safety
///
/// `options` was set by `starpu_fxt_options_init`, and the paths are texts of C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_fxt_generate_trace(options: *mut starpu_fxt_options) {
    // SAFETY: as the caller vouches.
    let (options, text) =
        unsafe { (&*options, |text: *mut c_char| CStr::from_ptr(text).to_string_lossy().into_owned()) };
    if options.ninputfiles == 0 || options.filenames[0].is_null() || options.out_paje_path.is_null() {
        return complain(format_args!("starpu_fxt_generate_trace: no file of a trace, or no path for Paje"));
    }
    if options.ninputfiles > 1 {
        complain(format_args!("starpu_fxt_generate_trace: one file at a time; the first is used"));
    }
    let mut path = PathBuf::from(text(options.out_paje_path));
    if !options.dir.is_null() {
        path = Path::new(&text(options.dir)).join(path);
    }
    if let Some(trace) = read(Path::new(&text(options.filenames[0])))
        && let Err(error) = write(&path, |out| trace.write_paje(out))
    {
        complain(format_args!("{}: the trace is not written: {error}", path.display()));
    }
}

/// Says that times of single codelets are not written; the trace itself has them.
///
/// # Safety
///
/// `file` is a text of C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_fxt_write_data_trace(file: *mut c_char) {
    // SAFETY: as the caller vouches.
    unsafe { starpu_fxt_write_data_trace_in_dir(file, ptr::null_mut()) };
}

/// Writes the duration of every task of a native trace, by codelet, as `<folder>/<codelet>`.
///
/// # Safety
///
/// `file` is a text of C, `folder` is one or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_fxt_write_data_trace_in_dir(file: *mut c_char, folder: *mut c_char) {
    if file.is_null() {
        return;
    }
    // SAFETY: as the caller vouches.
    let (file, folder) = unsafe {
        let text = |text: *mut c_char| PathBuf::from(CStr::from_ptr(text).to_string_lossy().into_owned());
        (text(file), if folder.is_null() { PathBuf::from(".") } else { text(folder) })
    };
    let Some(trace) = read(&file) else { return };
    let mut lines = std::collections::BTreeMap::<&str, String>::new();
    for task in &trace.tasks {
        let time = (task.end_ns - task.start_ns) as f64 * 1e-3;
        *lines.entry(task.name).or_default() += &format!("{}\t{}\t{time}\n", task.worker, task.bytes);
    }
    for (name, text) in lines {
        let path = folder.join(name.replace('/', "_"));
        if let Err(error) = write(&path, |out| out.write_all(text.as_bytes())) {
            complain(format_args!("{}: the times are not written: {error}", path.display()));
        }
    }
}
