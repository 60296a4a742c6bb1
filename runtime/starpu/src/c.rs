//! Functions of the C library.

use std::ffi::{c_char, c_int, c_void};

use crate::types::FILE;

unsafe extern "C" {
    pub(crate) fn malloc(size: usize) -> *mut c_void;
    pub(crate) fn calloc(n: usize, size: usize) -> *mut c_void;
    pub(crate) fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void;
    pub(crate) fn free(pointer: *mut c_void);
    pub(crate) fn posix_memalign(pointer: *mut *mut c_void, align: usize, size: usize) -> c_int;
    pub(crate) fn fputs(text: *const c_char, stream: *mut FILE) -> c_int;
    pub(crate) fn getenv(name: *const c_char) -> *mut c_char;
    pub(crate) fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub(crate) fn strdup(text: *const c_char) -> *mut c_char;
    pub(crate) fn sched_setaffinity(process: c_int, bytes: usize, mask: *const c_void) -> c_int;
}
