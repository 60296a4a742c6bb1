//! Random numbers.

use super::*;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
