//! Names, types and scopes of counters and knobs, and the questions that are the same for both.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use super::{counters, knobs};
use crate::instance::complain;

/// A counter or knob.
pub(super) struct Meter {
    pub(super) id: c_int,
    pub(super) scope: c_int,
    pub(super) kind: c_int,
    pub(super) name: &'static CStr,
    pub(super) help: &'static CStr,
}

pub(super) const INT32: c_int = 1;
pub(super) const INT64: c_int = 2;
pub(super) const DOUBLE: c_int = 4;
const TYPES: [(&CStr, c_int); 4] = [(c"int32", INT32), (c"int64", INT64), (c"float", 3), (c"double", DOUBLE)];

/// The number of a name; -1 if it has none.
unsafe fn number(names: &[(&CStr, c_int)], name: *const c_char) -> c_int {
    if name.is_null() {
        return -1;
    }
    let name = CStr::from_ptr(name);
    names.iter().find(|pair| pair.0 == name).map_or(-1, |pair| pair.1)
}

/// The name of a number; null if it has none.
fn name(names: &[(&'static CStr, c_int)], number: c_int) -> *const c_char {
    names.iter().find(|pair| pair.1 == number).map_or(ptr::null(), |pair| pair.0.as_ptr())
}

/// Returns the entry with a number, or reports that there is none.
pub(super) fn entry(function: &str, table: &'static [Meter], id: c_int) -> Option<&'static Meter> {
    let found = table.iter().find(|entry| entry.id == id);
    if found.is_none() {
        complain(format_args!("{function}: {id} is not the number of one"));
    }
    found
}

fn of_scope(table: &'static [Meter], scope: c_int) -> impl Iterator<Item = &'static Meter> {
    table.iter().filter(move |entry| entry.scope == scope)
}

fn list(table: &'static [Meter], scope: c_int) {
    for entry in of_scope(table, scope) {
        let kind =
            TYPES.iter().find(|kind| kind.1 == entry.kind).map_or("", |kind| kind.0.to_str().unwrap_or(""));
        println!("{} ({kind}): {}", entry.name.to_string_lossy(), entry.help.to_string_lossy());
    }
}

/// Defines the questions that are the same for counters and knobs.
macro_rules! questions {
    ($table:expr, $scopes:expr; $scope_id:ident $scope_name:ident $type_id:ident $type_name:ident $nb:ident
     $by_name:ident $nth:ident $name_of:ident $type_of:ident $help:ident $list:ident $list_all:ident) => {
        /// Returns the number of a scope; -1 if the name is none.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $scope_id(name: *const c_char) -> c_int {
            number(&$scopes, name)
        }

        /// Returns the name of a scope; null if the number is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $scope_name(scope: c_int) -> *const c_char {
            name(&$scopes, scope)
        }

        /// Returns the number of a type; -1 if the name is none.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $type_id(name: *const c_char) -> c_int {
            number(&TYPES, name)
        }

        /// Returns the name of a type; null if the number is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $type_name(of: c_int) -> *const c_char {
            name(&TYPES, of)
        }

        /// Returns how many a scope has.
        #[unsafe(no_mangle)]
        pub extern "C" fn $nb(scope: c_int) -> c_int {
            of_scope(&$table, scope).count() as c_int
        }

        /// Returns the number of a name of a scope; -1 if there is none.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $by_name(scope: c_int, name: *const c_char) -> c_int {
            let is = |entry: &&Meter| !name.is_null() && entry.name == CStr::from_ptr(name);
            of_scope(&$table, scope).find(is).map_or(-1, |entry| entry.id)
        }

        /// Returns the number of one of a scope by its place in the list; -1 if there is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $nth(scope: c_int, nth: c_int) -> c_int {
            let place = usize::try_from(nth).unwrap_or(usize::MAX);
            of_scope(&$table, scope).nth(place).map_or(-1, |entry| entry.id)
        }

        /// Returns the name of a number; null if there is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name_of(id: c_int) -> *const c_char {
            entry(stringify!($name_of), &$table, id).map_or(ptr::null(), |entry| entry.name.as_ptr())
        }

        /// Returns the type of the value; 0 if there is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $type_of(id: c_int) -> c_int {
            entry(stringify!($type_of), &$table, id).map_or(0, |entry| entry.kind)
        }

        /// Returns what it is; null if there is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $help(id: c_int) -> *const c_char {
            entry(stringify!($help), &$table, id).map_or(ptr::null(), |entry| entry.help.as_ptr())
        }

        /// Prints those of a scope.
        #[unsafe(no_mangle)]
        pub extern "C" fn $list(scope: c_int) {
            list(&$table, scope);
        }

        /// Prints all.
        #[unsafe(no_mangle)]
        pub extern "C" fn $list_all() {
            $scopes.iter().for_each(|scope| list(&$table, scope.1));
        }
    };
}

questions!(counters::COUNTERS, counters::SCOPES;
    starpu_perf_counter_scope_name_to_id starpu_perf_counter_scope_id_to_name
    starpu_perf_counter_type_name_to_id starpu_perf_counter_type_id_to_name starpu_perf_counter_nb
    starpu_perf_counter_name_to_id starpu_perf_counter_nth_to_id starpu_perf_counter_id_to_name
    starpu_perf_counter_get_type_id starpu_perf_counter_get_help_string
    starpu_perf_counter_list_avail starpu_perf_counter_list_all_avail
);
questions!(knobs::KNOBS, knobs::SCOPES;
    starpu_perf_knob_scope_name_to_id starpu_perf_knob_scope_id_to_name
    starpu_perf_knob_type_name_to_id starpu_perf_knob_type_id_to_name starpu_perf_knob_nb
    starpu_perf_knob_name_to_id starpu_perf_knob_nth_to_id starpu_perf_knob_id_to_name
    starpu_perf_knob_get_type_id starpu_perf_knob_get_help_string
    starpu_perf_knob_list_avail starpu_perf_knob_list_all_avail
);
