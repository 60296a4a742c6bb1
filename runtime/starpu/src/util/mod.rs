//! Small things that programs use beside tasks and data: time, hashes, random numbers, the
//! environment, sets of bits, and what devices would need.

mod absent;
mod bitmap;
mod random;

use std::ffi::{CStr, c_char, c_int, c_long, c_ushort, c_void};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::c::{calloc, free, getenv};
use crate::types::*;

// ---- Time --------------------------------------------------------------------------------------

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Microseconds since the library was first asked.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_timing_now() -> f64 {
    START.elapsed().as_secs_f64() * 1e6
}

/// The time that all times count from, in microseconds.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_timing_get_reference() -> f64 {
    0.0
}

const NANOS: c_long = 1_000_000_000;

/// Makes a time zero.
///
/// # Safety
/// `time` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_timespec_clear(time: *mut timespec) {
    // SAFETY: the caller's promise.
    unsafe { *time = timespec::default() };
}

fn sum(a: timespec, b: timespec) -> timespec {
    let nanos = a.tv_nsec + b.tv_nsec;
    timespec { tv_sec: a.tv_sec + b.tv_sec + i64::from(nanos >= NANOS), tv_nsec: nanos % NANOS }
}

/// Adds two times.
///
/// # Safety
/// All are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_timespec_add(a: *mut timespec, b: *mut timespec, result: *mut timespec) {
    // SAFETY: the caller's promise.
    unsafe { *result = sum(*a, *b) };
}

/// Adds a time to another.
///
/// # Safety
/// Both are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_timespec_accumulate(result: *mut timespec, a: *mut timespec) {
    // SAFETY: the caller's promise.
    unsafe { *result = sum(*result, *a) };
}

/// Takes one time from another.
///
/// # Safety
/// All are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_timespec_sub(a: *const timespec, b: *const timespec, result: *mut timespec) {
    // SAFETY: the caller's promise.
    let (a, b) = unsafe { (*a, *b) };
    let nanos = a.tv_nsec - b.tv_nsec;
    let borrow = i64::from(nanos < 0);
    let difference =
        timespec { tv_sec: a.tv_sec - b.tv_sec - borrow, tv_nsec: nanos + borrow as c_long * NANOS };
    // SAFETY: the caller's promise.
    unsafe { *result = difference };
}

/// Sleeps for seconds.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sleep(seconds: f32) {
    if seconds > 0.0 {
        std::thread::sleep(Duration::try_from_secs_f64(seconds.into()).unwrap_or_default());
    }
}

/// Sleeps for microseconds.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_usleep(microseconds: f32) {
    starpu_sleep(microseconds * 1e-6);
}

// ---- Hashes ------------------------------------------------------------------------------------

/// CRC-32C, highest bit first.
const POLYNOMIAL: u32 = 0x1edc_6f41;

/// Remainder of each highest byte.
static CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc >> 31 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc32c(bytes: &[u8], crc: u32) -> u32 {
    bytes.iter().fold(crc, |crc, byte| (crc << 8) ^ CRC[((crc >> 24) as u8 ^ byte) as usize])
}

/// The hash of some bytes after what was hashed before.
///
/// # Safety
/// `input` points at `n` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_hash_crc32c_be_n(input: *const c_void, n: usize, crc: u32) -> u32 {
    if n == 0 {
        return crc;
    }
    // SAFETY: the caller's promise.
    crc32c(unsafe { std::slice::from_raw_parts(input.cast(), n) }, crc)
}

/// The hash of an address.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_hash_crc32c_be_ptr(input: *mut c_void, crc: u32) -> u32 {
    crc32c(&(input as usize).to_ne_bytes(), crc)
}

/// The hash of a number.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_hash_crc32c_be(input: u32, crc: u32) -> u32 {
    crc32c(&input.to_ne_bytes(), crc)
}

/// The hash of a text.
///
/// # Safety
/// `text` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_hash_crc32c_string(text: *const c_char, crc: u32) -> u32 {
    // SAFETY: the caller's promise.
    crc32c(unsafe { CStr::from_ptr(text) }.to_bytes(), crc)
}

// ---- The environment ---------------------------------------------------------------------------

/// The value of a variable of the environment, or null.
///
/// # Safety
/// `name` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_getenv(name: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise.
    unsafe { getenv(name) }
}

/// # Safety
/// `name` ends with 0.
unsafe fn variable(name: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise; values end with 0.
    unsafe {
        let value = getenv(name);
        (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().trim().to_owned())
    }
}

/// Says what a variable has to be, and gives the value that it should have had.
///
/// # Safety
/// `name` ends with 0.
unsafe fn wrong<T>(name: *const c_char, value: &str, what: &str, otherwise: T) -> T {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    eprintln!("zellige-starpu: {name} is `{value}', which is not {what}; it is ignored");
    otherwise
}

/// The number that a variable of the environment holds, or -1.
///
/// # Safety
/// `name` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_get_env_number(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { starpu_get_env_number_default(name, -1) }
}

/// The number that a variable of the environment holds, or another one.
///
/// # Safety
/// `name` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_get_env_number_default(name: *const c_char, otherwise: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let Some(value) = (unsafe { variable(name) }) else { return otherwise };
    match value.parse::<c_int>() {
        Ok(number) if number >= 0 => number,
        // SAFETY: the caller's promise.
        _ => unsafe { wrong(name, &value, "a number from 0 on", otherwise) },
    }
}

/// The real number that a variable of the environment holds, or another one.
///
/// # Safety
/// `name` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_get_env_float_default(name: *const c_char, otherwise: f32) -> f32 {
    // SAFETY: the caller's promise.
    let Some(value) = (unsafe { variable(name) }) else { return otherwise };
    // SAFETY: the caller's promise.
    value.parse().unwrap_or_else(|_| unsafe { wrong(name, &value, "a number", otherwise) })
}

/// The size that a variable of the environment holds, with a unit of 1024, or another one.
///
/// # Safety
/// `name` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_get_env_size_default(name: *const c_char, otherwise: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let Some(value) = (unsafe { variable(name) }) else { return otherwise };
    let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match value[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        _ => None,
    };
    match (digits.parse::<c_int>(), unit) {
        (Ok(number), Some(unit)) => number.saturating_mul(1 << unit),
        // SAFETY: the caller's promise.
        _ => unsafe { wrong(name, &value, "a size", otherwise) },
    }
}

/// Returns the place in a list of the word that a variable of the environment holds.
///
/// # Safety
/// `name` ends with 0, and so does each word; the list ends with null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_get_env_string_var_default(
    name: *const c_char,
    words: *const *const c_char,
    otherwise: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(value) = (unsafe { variable(name) }) else { return otherwise };
    let mut i = 0;
    // SAFETY: the list ends with null.
    while let word = unsafe { *words.add(i) }
        && !word.is_null()
    {
        // SAFETY: words end with 0.
        if unsafe { CStr::from_ptr(word) }.to_bytes().eq_ignore_ascii_case(value.as_bytes()) {
            return i as c_int;
        }
        i += 1;
    }
    // SAFETY: the caller's promise.
    unsafe { wrong(name, &value, "one of its words", otherwise) }
}

// ---- Semaphores --------------------------------------------------------------------------------

unsafe extern "C" {
    fn sem_wait(semaphore: *mut c_void) -> c_int;
    fn sem_trywait(semaphore: *mut c_void) -> c_int;
}

/// Calls until no signal comes between, and gives 0 or the number of the error.
fn without_signals(mut call: impl FnMut() -> c_int) -> c_int {
    loop {
        if call() == 0 {
            return 0;
        }
        match std::io::Error::last_os_error() {
            error if error.kind() == std::io::ErrorKind::Interrupted => {}
            error => return error.raw_os_error().unwrap_or(-1),
        }
    }
}

/// Waits for a semaphore, through signals.
///
/// # Safety
/// `semaphore` was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sem_wait(semaphore: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    without_signals(|| unsafe { sem_wait(semaphore) })
}

/// Takes a semaphore if that needs no waiting.
///
/// # Safety
/// `semaphore` was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sem_trywait(semaphore: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    without_signals(|| unsafe { sem_trywait(semaphore) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_crc32c_highest_bit_first() {
        // The bit-by-bit definition.
        let slow = |bytes: &[u8]| {
            bytes.iter().fold(0_u32, |crc, byte| {
                (0..8).fold(crc ^ (u32::from(*byte) << 24), |crc, _| {
                    (crc << 1) ^ if crc >> 31 == 1 { POLYNOMIAL } else { 0 }
                })
            })
        };
        assert_eq!(crc32c(b"zellige", 0), slow(b"zellige"));
        assert_eq!(starpu_hash_crc32c_be(12, 0), slow(&12_u32.to_ne_bytes()));
        // SAFETY: the text ends with 0.
        assert_eq!(unsafe { starpu_hash_crc32c_string(c"zellige".as_ptr(), 0) }, slow(b"zellige"));
    }
}
