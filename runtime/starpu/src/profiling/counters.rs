//! Counters to be read and knobs to be turned while a program runs: there are none.
//!
//! The lists are empty, and whoever asks for one by number is told so on the error stream. Names of
//! scopes and types are known, as programs compare them.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use crate::instance::complain;
use crate::types::*;

const TYPES: [(&CStr, c_int); 4] = [(c"int32", 1), (c"int64", 2), (c"float", 3), (c"double", 4)];
const COUNTER_SCOPES: [(&CStr, c_int); 3] = [(c"global", 2), (c"per_worker", 4), (c"per_codelet", 6)];
const KNOB_SCOPES: [(&CStr, c_int); 3] = [(c"global", 1), (c"per_worker", 3), (c"per_scheduler", 5)];

/// The number of a name; -1 if it has none.
///
/// # Safety
///
/// `name` is a text of C or null.
unsafe fn number(names: &[(&CStr, c_int)], name: *const c_char) -> c_int {
    if name.is_null() {
        return -1;
    }
    // SAFETY: as the caller vouches.
    let name = unsafe { CStr::from_ptr(name) };
    names.iter().find(|pair| pair.0 == name).map_or(-1, |pair| pair.1)
}

/// The name of a number; null if it has none.
fn name(names: &[(&'static CStr, c_int)], number: c_int) -> *const c_char {
    names.iter().find(|pair| pair.1 == number).map_or(ptr::null(), |pair| pair.0.as_ptr())
}

fn absent(function: &str, what: &str) {
    complain(format_args!("{function}: zellige has no {what}"));
}

/// Defines the questions that are the same for counters and knobs.
macro_rules! questions {
    ($what:literal, $scopes:ident: $scope_id:ident $scope_name:ident $type_id:ident $type_name:ident $nb:ident
     $by_name:ident $nth:ident $name_of:ident $type_of:ident $help:ident $list:ident $list_all:ident) => {
        /// Returns the number of a scope; -1 if the name is none.
        ///
        /// # Safety
        ///
        /// `name` is a text of C or null.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $scope_id(name: *const c_char) -> c_int {
            // SAFETY: as the caller vouches.
            unsafe { number(&$scopes, name) }
        }

        /// Returns the name of a scope; null if the number is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $scope_name(scope: c_int) -> *const c_char {
            name(&$scopes, scope)
        }

        /// Returns the number of a type; -1 if the name is none.
        ///
        /// # Safety
        ///
        /// `name` is a text of C or null.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $type_id(name: *const c_char) -> c_int {
            // SAFETY: as the caller vouches.
            unsafe { number(&TYPES, name) }
        }

        /// Returns the name of a type; null if the number is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $type_name(of: c_int) -> *const c_char {
            name(&TYPES, of)
        }

        #[doc = concat!("Returns 0, the number of ", $what, ".")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $nb(_scope: c_int) -> c_int {
            0
        }

        #[doc = concat!("Returns -1: there are no ", $what, ".")]
        ///
        /// # Safety
        ///
        /// As C demands of the name, which is not read.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $by_name(_scope: c_int, _name: *const c_char) -> c_int {
            absent(stringify!($by_name), $what);
            -1
        }

        #[doc = concat!("Returns -1: there are no ", $what, ".")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $nth(_scope: c_int, _nth: c_int) -> c_int {
            absent(stringify!($nth), $what);
            -1
        }

        #[doc = concat!("Returns null: there are no ", $what, ".")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name_of(_id: c_int) -> *const c_char {
            absent(stringify!($name_of), $what);
            ptr::null()
        }

        #[doc = concat!("Returns 0, no type: there are no ", $what, ".")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $type_of(_id: c_int) -> c_int {
            absent(stringify!($type_of), $what);
            0
        }

        #[doc = concat!("Returns null: there are no ", $what, ".")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $help(_id: c_int) -> *const c_char {
            absent(stringify!($help), $what);
            ptr::null()
        }

        #[doc = concat!("Prints that there are no ", $what, ".")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $list(_scope: c_int) {
            println!(concat!("zellige has no ", $what));
        }

        #[doc = concat!("Prints that there are no ", $what, ".")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $list_all() {
            println!(concat!("zellige has no ", $what));
        }
    };
}

questions!("performance counters", COUNTER_SCOPES:
    starpu_perf_counter_scope_name_to_id starpu_perf_counter_scope_id_to_name
    starpu_perf_counter_type_name_to_id starpu_perf_counter_type_id_to_name starpu_perf_counter_nb
    starpu_perf_counter_name_to_id starpu_perf_counter_nth_to_id starpu_perf_counter_id_to_name
    starpu_perf_counter_get_type_id starpu_perf_counter_get_help_string
    starpu_perf_counter_list_avail starpu_perf_counter_list_all_avail
);
questions!("performance knobs", KNOB_SCOPES:
    starpu_perf_knob_scope_name_to_id starpu_perf_knob_scope_id_to_name
    starpu_perf_knob_type_name_to_id starpu_perf_knob_type_id_to_name starpu_perf_knob_nb
    starpu_perf_knob_name_to_id starpu_perf_knob_nth_to_id starpu_perf_knob_id_to_name
    starpu_perf_knob_get_type_id starpu_perf_knob_get_help_string
    starpu_perf_knob_list_avail starpu_perf_knob_list_all_avail
);

/// Defines functions that only say that something is absent, and what they return then.
macro_rules! absences {
    ($what:literal: $($name:ident($($type:ty),*) $(-> $result:ty = $value:expr)?;)*) => {$(
        #[doc = concat!("Says that there are no ", $what, ".")]
        ///
        /// # Safety
        ///
        /// As C demands of the arguments, which are not used.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($(_: $type),*) $(-> $result)? {
            absent(stringify!($name), $what);
            $($value)?
        }
    )*};
}

/// Does nothing: there are no performance counters.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_counter_collection_start() {}

/// Does nothing: there are no performance counters.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_counter_collection_stop() {}

absences!("performance counters":
    starpu_perf_counter_set_alloc(c_int) -> *mut c_void = ptr::null_mut();
    starpu_perf_counter_set_free(*mut c_void);
    starpu_perf_counter_set_enable_id(*mut c_void, c_int);
    starpu_perf_counter_set_disable_id(*mut c_void, c_int);
    starpu_perf_counter_listener_init(*mut c_void, *const c_void, *mut c_void) -> *mut c_void = ptr::null_mut();
    starpu_perf_counter_listener_exit(*mut c_void);
    starpu_perf_counter_set_global_listener(*mut c_void);
    starpu_perf_counter_set_per_worker_listener(c_uint, *mut c_void);
    starpu_perf_counter_set_all_per_worker_listeners(*mut c_void);
    starpu_perf_counter_set_per_codelet_listener(*mut starpu_codelet, *mut c_void);
    starpu_perf_counter_unset_global_listener();
    starpu_perf_counter_unset_per_worker_listener(c_uint);
    starpu_perf_counter_unset_all_per_worker_listeners();
    starpu_perf_counter_unset_per_codelet_listener(*mut starpu_codelet);
    starpu_perf_counter_sample_get_int32_value(*mut c_void, c_int) -> i32 = 0;
    starpu_perf_counter_sample_get_int64_value(*mut c_void, c_int) -> i64 = 0;
    starpu_perf_counter_sample_get_float_value(*mut c_void, c_int) -> f32 = 0.0;
    starpu_perf_counter_sample_get_double_value(*mut c_void, c_int) -> f64 = 0.0;
);
absences!("performance knobs":
    starpu_perf_knob_get_global_int32_value(c_int) -> i32 = 0;
    starpu_perf_knob_set_global_int32_value(c_int, i32);
    starpu_perf_knob_get_per_worker_int32_value(c_int, c_uint) -> i32 = 0;
    starpu_perf_knob_set_per_worker_int32_value(c_int, c_uint, i32);
    starpu_perf_knob_get_per_scheduler_int32_value(c_int, *const c_char) -> i32 = 0;
    starpu_perf_knob_set_per_scheduler_int32_value(c_int, *const c_char, i32);
    starpu_perf_knob_get_global_int64_value(c_int) -> i64 = 0;
    starpu_perf_knob_set_global_int64_value(c_int, i64);
    starpu_perf_knob_get_per_worker_int64_value(c_int, c_uint) -> i64 = 0;
    starpu_perf_knob_set_per_worker_int64_value(c_int, c_uint, i64);
    starpu_perf_knob_get_per_scheduler_int64_value(c_int, *const c_char) -> i64 = 0;
    starpu_perf_knob_set_per_scheduler_int64_value(c_int, *const c_char, i64);
    starpu_perf_knob_get_global_float_value(c_int) -> f32 = 0.0;
    starpu_perf_knob_set_global_float_value(c_int, f32);
    starpu_perf_knob_get_per_worker_float_value(c_int, c_uint) -> f32 = 0.0;
    starpu_perf_knob_set_per_worker_float_value(c_int, c_uint, f32);
    starpu_perf_knob_get_per_scheduler_float_value(c_int, *const c_char) -> f32 = 0.0;
    starpu_perf_knob_set_per_scheduler_float_value(c_int, *const c_char, f32);
    starpu_perf_knob_get_global_double_value(c_int) -> f64 = 0.0;
    starpu_perf_knob_set_global_double_value(c_int, f64);
    starpu_perf_knob_get_per_worker_double_value(c_int, c_uint) -> f64 = 0.0;
    starpu_perf_knob_set_per_worker_double_value(c_int, c_uint, f64);
    starpu_perf_knob_get_per_scheduler_double_value(c_int, *const c_char) -> f64 = 0.0;
    starpu_perf_knob_set_per_scheduler_double_value(c_int, *const c_char, f64);
);
