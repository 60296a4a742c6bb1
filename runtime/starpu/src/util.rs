//! Small things that programs use beside tasks and data: time, hashes, random numbers, the
//! environment, sets of bits, and what devices would need.

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

// ---- Random numbers ----------------------------------------------------------------------------

const BITS: u64 = (1 << 48) - 1;

/// The generators of POSIX: 48 bits, of which each step takes a line.
fn step(state: u64) -> u64 {
    (0x5_deec_e66d_u64.wrapping_mul(state).wrapping_add(0xb)) & BITS
}

fn real(state: u64) -> f64 {
    state as f64 / (1_u64 << 48) as f64
}

fn seeded(seed: c_long) -> u64 {
    // SAFETY: the name ends with 0.
    let seed = unsafe { starpu_get_env_number_default(c"STARPU_RAND_SEED".as_ptr(), seed as c_int) };
    (u64::from(seed as u32) << 16) | 0x330e
}

/// The state of the generator that all share.
static RANDOM: Mutex<u64> = Mutex::new(0x1234_abcd_330e);

/// The state of a generator of a program's own.
#[repr(C)]
pub struct Drand48 {
    state: u64,
}

/// The seed to use instead of this one: `STARPU_RAND_SEED` where it is set.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_seed(seed: c_int) -> c_int {
    // SAFETY: the name ends with 0.
    unsafe { starpu_get_env_number_default(c"STARPU_RAND_SEED".as_ptr(), seed) }
}

/// Starts the generator that all share.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_srand48(seed: c_long) {
    *RANDOM.lock() = seeded(seed);
}

fn next() -> u64 {
    let mut state = RANDOM.lock();
    *state = step(*state);
    *state
}

/// A number from 0 to 1, without 1.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_drand48() -> f64 {
    real(next())
}

/// A number of 31 bits.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_lrand48() -> c_long {
    (next() >> 17) as c_long
}

/// A number from 0 to 1, without 1, from a state of the program.
///
/// # Safety
/// `xsubi` has three numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_erand48(xsubi: *mut c_ushort) -> f64 {
    // SAFETY: the caller's promise.
    let parts = unsafe { std::slice::from_raw_parts_mut(xsubi, 3) };
    let state = step(parts.iter().rev().fold(0, |state, part| (state << 16) | u64::from(*part)));
    for (i, part) in parts.iter_mut().enumerate() {
        *part = (state >> (16 * i)) as c_ushort;
    }
    real(state)
}

/// Starts a generator of the program.
///
/// # Safety
/// `data` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_srand48_r(seed: c_long, data: *mut Drand48) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (*data).state = seeded(seed) };
    0
}

/// A number from 0 to 1, without 1, of a generator of the program.
///
/// # Safety
/// Both are valid, and the generator was started.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_drand48_r(data: *mut Drand48, result: *mut f64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        (*data).state = step((*data).state);
        *result = real((*data).state);
    }
    0
}

/// A number of 31 bits of a generator of the program.
///
/// # Safety
/// As for [`starpu_drand48_r`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_lrand48_r(data: *mut Drand48, result: *mut c_long) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        (*data).state = step((*data).state);
        *result = ((*data).state >> 17) as c_long;
    }
    0
}

/// A number from 0 to 1, without 1, from a state of the program; the generator is not used.
///
/// # Safety
/// `xsubi` has three numbers, and `result` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_erand48_r(
    xsubi: *mut c_ushort,
    _data: *mut Drand48,
    result: *mut f64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { *result = starpu_erand48(xsubi) };
    0
}

// ---- Sets of bits ------------------------------------------------------------------------------

/// A set of small numbers, such as those of workers.
#[repr(C)]
pub struct starpu_bitmap {
    bits: u64,
    cardinal: c_int,
}

impl starpu_bitmap {
    fn set_bits(&mut self, bits: u64) {
        self.bits = bits;
        self.cardinal = bits.count_ones() as c_int;
    }

    /// The members above `bit`.
    fn above(&self, bit: c_int) -> u64 {
        match bit + 1 {
            next if next <= 0 => self.bits,
            next if next >= 64 => 0,
            next => self.bits >> next << next,
        }
    }
}

fn mask(bit: c_int) -> u64 {
    if !(0..64).contains(&bit) {
        crate::interface::misuse("starpu_bitmap", &format!("{bit} is not below {STARPU_NMAXWORKERS}"));
    }
    1 << bit
}

/// The lowest of some members, or -1.
fn lowest(bits: u64) -> c_int {
    if bits == 0 { -1 } else { bits.trailing_zeros() as c_int }
}

/// Makes an empty set, which `starpu_bitmap_destroy` frees.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bitmap_create() -> *mut starpu_bitmap {
    // SAFETY: any size may be asked for, and zeros are an empty set.
    unsafe { calloc(1, size_of::<starpu_bitmap>()) }.cast()
}

/// Frees a set.
///
/// # Safety
/// `bitmap` is from `starpu_bitmap_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bitmap_destroy(bitmap: *mut starpu_bitmap) {
    // SAFETY: the caller's promise.
    unsafe { free(bitmap.cast()) };
}

macro_rules! on_bitmap {
    ($($(#[doc = $doc:literal])* fn $name:ident($bitmap:ident $(, $arg:ident: $type:ty)*) $(-> $result:ty)? $body:block)*) => {$(
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// All sets are valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(bitmap: *mut starpu_bitmap $(, $arg: $type)*) $(-> $result)? {
            // SAFETY: the caller's promise.
            let $bitmap = unsafe { &mut *bitmap };
            $body
        }
    )*};
}

on_bitmap! {
    /// Makes a set empty.
    fn starpu_bitmap_init(b) { b.set_bits(0); }
    /// Makes a set empty.
    fn starpu_bitmap_unset_all(b) { b.set_bits(0); }
    /// Adds a member.
    fn starpu_bitmap_set(b, bit: c_int) { b.set_bits(b.bits | mask(bit)); }
    /// Takes a member away.
    fn starpu_bitmap_unset(b, bit: c_int) { b.set_bits(b.bits & !mask(bit)); }
    /// Whether something is a member.
    fn starpu_bitmap_get(b, bit: c_int) -> c_int { c_int::from(b.bits & mask(bit) != 0) }
    /// The number of members.
    fn starpu_bitmap_cardinal(b) -> c_int { b.cardinal }
    /// The lowest member, or -1.
    fn starpu_bitmap_first(b) -> c_int { lowest(b.bits) }
    /// The highest member, or -1.
    fn starpu_bitmap_last(b) -> c_int { 63 - b.bits.leading_zeros() as c_int }
    /// The lowest member above another, or -1.
    fn starpu_bitmap_next(b, bit: c_int) -> c_int { lowest(b.above(bit)) }
    /// Whether there is a member above another.
    fn starpu_bitmap_has_next(b, bit: c_int) -> c_int { c_int::from(b.above(bit) != 0) }
}

/// Makes a set of what two others share.
///
/// # Safety
/// All sets are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bitmap_unset_and(
    into: *mut starpu_bitmap,
    a: *mut starpu_bitmap,
    b: *mut starpu_bitmap,
) {
    // SAFETY: the caller's promise; the sets may be the same one.
    unsafe { (*into).set_bits((*a).bits & (*b).bits) };
}

/// Adds the members of another set.
///
/// # Safety
/// Both sets are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bitmap_or(into: *mut starpu_bitmap, from: *mut starpu_bitmap) {
    // SAFETY: the caller's promise; the sets may be the same one.
    unsafe { (*into).set_bits((*into).bits | (*from).bits) };
}

/// Whether something is a member of both sets.
///
/// # Safety
/// Both sets are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bitmap_and_get(
    a: *mut starpu_bitmap,
    b: *mut starpu_bitmap,
    bit: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    c_int::from(unsafe { (*a).bits & (*b).bits } & mask(bit) != 0)
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

// ---- Devices that are absent -------------------------------------------------------------------

macro_rules! nothing_to_do {
    ($($name:ident)*) => {$(
        /// Prepares or ends the library of a device, of which there is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {}
    )*};
}

nothing_to_do! {
    starpu_cublas_init
    starpu_cublas_set_stream
    starpu_cublas_shutdown
    starpu_cublasLt_init
    starpu_cublasLt_shutdown
    starpu_cusparse_init
    starpu_cusparse_shutdown
    starpu_cusolver_init
    starpu_cusolver_shutdown
    starpu_hipblas_init
    starpu_hipblas_shutdown
    starpu_hipsolver_init
    starpu_hipsolver_shutdown
}

// ---- Memory on disks, which is absent ----------------------------------------------------------

/// Functions that keep data on a disk; programs may write tables of their own, so the members
/// stand in
/// `starpu.h` alone.
#[repr(C)]
pub struct starpu_disk_ops {
    functions: [*mut c_void; 19],
}

macro_rules! disks {
    ($($name:ident)*) => {$(
        /// The table of a kind of disk, of which there is none.
        #[unsafe(no_mangle)]
        pub static mut $name: starpu_disk_ops = starpu_disk_ops { functions: [std::ptr::null_mut(); 19] };
    )*};
}

disks! {
    starpu_disk_stdio_ops
    starpu_disk_unistd_ops
    starpu_disk_unistd_o_direct_ops
    starpu_disk_leveldb_ops
    starpu_disk_hdf5_ops
}

/// The node that memory is moved to when there is no more, of which there is none.
#[unsafe(no_mangle)]
pub static mut starpu_disk_swap_node: c_int = -1;

/// Makes a disk a memory node, which is not possible here: -ENOENT.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_disk_register(
    _ops: *mut starpu_disk_ops,
    _parameter: *mut c_void,
    _size: starpu_ssize_t,
) -> c_int {
    eprintln!("zellige-starpu: starpu_disk_register: memory on disks is not supported");
    -2
}

/// Opens a file of a disk, of which there is none: null.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_disk_open(_node: u32, _position: *mut c_void, _size: usize) -> *mut c_void {
    std::ptr::null_mut()
}

/// Closes a file of a disk, of which there is none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_disk_close(_node: u32, _object: *mut c_void, _size: usize) {}

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

    #[test]
    fn random_numbers_are_those_of_posix() {
        unsafe extern "C" {
            fn erand48(xsubi: *mut c_ushort) -> f64;
        }
        let (mut ours, mut theirs) = ([1_u16, 2, 3], [1_u16, 2, 3]);
        for _ in 0..10 {
            // SAFETY: both states have three numbers.
            unsafe { assert_eq!(starpu_erand48(ours.as_mut_ptr()), erand48(theirs.as_mut_ptr())) };
        }
        assert_eq!(ours, theirs);
    }

    #[test]
    fn sets_of_bits() {
        let mut set = starpu_bitmap { bits: 0, cardinal: 0 };
        // SAFETY: the set is a local variable.
        unsafe {
            for bit in [3, 0, 63, 3] {
                starpu_bitmap_set(&mut set, bit);
            }
            assert_eq!(starpu_bitmap_cardinal(&mut set), 3);
            let mut members = vec![starpu_bitmap_first(&mut set)];
            while starpu_bitmap_has_next(&mut set, *members.last().unwrap()) != 0 {
                members.push(starpu_bitmap_next(&mut set, *members.last().unwrap()));
            }
            assert_eq!(members, [0, 3, 63]);
            assert_eq!(starpu_bitmap_last(&mut set), 63);
            starpu_bitmap_unset(&mut set, 63);
            assert_eq!((starpu_bitmap_last(&mut set), starpu_bitmap_next(&mut set, 3)), (3, -1));
        }
    }
}
