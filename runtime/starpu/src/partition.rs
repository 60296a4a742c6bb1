//! Partitions: parts of data are views into the same memory, with handles of their own.
//!
//! A plan's parts and the whole exclude one another. In which of both forms the data are follows
//! the order of submission: a task on the whole ends the partition, a task on a part begins it. The
//! changes are turns on all handles concerned, in which nothing runs.

use std::ffi::{c_int, c_uint};
use std::ptr;

use zellige_runtime::Mode;
use zellige_runtime::internal::untyped::{self, TokenAccess};

use crate::acquire::{acquire_now, release_now};
use crate::data::{Carried, Data, Order, data, destroy};
use crate::gpus;
use crate::handles::destroy_later;
use crate::instance::{Instance, complain, get, must_not_wait, needed};
use crate::types::*;

/// Partitions of a handle, synchronous and planned.
#[derive(Default)]
pub struct Partitions {
    /// Parts of a synchronous partition.
    split: Vec<starpu_data_handle_t>,
    plans: Vec<Plan>,
    next: u64,
}

/// A planned partition.
struct Plan {
    id: u64,
    parts: Vec<starpu_data_handle_t>,
    state: Form,
}

/// Form in which data are, of one plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The parts are not used.
    Whole,
    /// The parts are used, and the whole is not.
    Parts,
    /// Whole and parts are read.
    Shared,
}

impl Partitions {
    /// True if parts were planned.
    pub fn are_planned(&self) -> bool {
        !self.plans.is_empty()
    }

    /// True while it is partitioned synchronously.
    pub fn is_split(&self) -> bool {
        !self.split.is_empty()
    }

    /// Returns all parts.
    pub fn all(&self) -> impl Iterator<Item = starpu_data_handle_t> {
        self.split.iter().chain(self.plans.iter().flat_map(|plan| &plan.parts)).copied()
    }
}

/// Submits a turn on a whole and its parts, in which their values return to the host's memory,
/// which both share.
unsafe fn change(instance: &Instance, whole: &Data, mode: Mode, parts: &[starpu_data_handle_t]) {
    if instance.gpus.is_empty() {
        return change_then(instance, whole, mode, parts, || ());
    }
    let whole_mode = if mode == Mode::Read { STARPU_R } else { STARPU_RW };
    let whole_handle = Carried(whole.handle());
    let all: Vec<_> = parts.iter().map(|&part| Carried(part)).collect();
    change_then(instance, whole, mode, parts, move || {
        // SAFETY: the turn on the handles, which exist, has come.
        unsafe {
            data(whole_handle.get()).value_for(|| whole_mode);
            for part in all {
                data(part.get()).value();
            }
        }
    });
}

unsafe fn change_then(
    instance: &Instance,
    whole: &Data,
    mode: Mode,
    parts: &[starpu_data_handle_t],
    then: impl FnOnce() + Send + 'static,
) {
    let mut accesses: Vec<TokenAccess> = vec![whole.access(mode)];
    accesses.extend(parts.iter().map(|&part| data(part).access(Mode::Update)));
    match untyped::hold(&instance.rt, accesses, &[], then) {
        // It passes when its turn comes.
        Ok(turn) => drop(turn),
        Err(error) => complain(format_args!("partition: {error}")),
    }
}

/// Begins the partition of a plan for an access to one of its parts, unless it has begun.
pub unsafe fn begin(instance: &Instance, whole: starpu_data_handle_t, plan: u64, writes: bool) {
    let whole = data(whole);
    if let Some((outer, Some(outer_plan))) = whole.parent {
        begin(instance, outer, outer_plan, writes);
    }
    let mut order = whole.order();
    let Some(at) = order.parts.plans.iter().position(|p| p.id == plan) else { return };
    match (order.parts.plans[at].state, writes) {
        (Form::Parts, _) | (Form::Shared, false) => {}
        (_, true) => enter(instance, whole, &mut order, at, Form::Parts),
        (Form::Whole, false) => enter(instance, whole, &mut order, at, Form::Shared),
    }
}

/// Brings a plan into a state in which its parts are used.
unsafe fn enter(instance: &Instance, whole: &Data, order: &mut Order, at: usize, state: Form) {
    let wanted = order.parts.plans[at].id;
    for other in 0..order.parts.plans.len() {
        let plan = &order.parts.plans[other];
        let conflicts = state == Form::Parts || plan.state == Form::Parts;
        if plan.id != wanted && plan.state != Form::Whole && conflicts {
            leave(instance, whole, order, other);
        }
    }
    crate::reduction::finish(instance, whole, order);
    // Parts are views into memory that has to be there.
    let initialized = order.initialized;
    let mode = if state == Form::Shared { Mode::Read } else { Mode::Update };
    let plan = &mut order.parts.plans[at];
    if plan.state == Form::Whole {
        plan.parts.iter().for_each(|&part| data(part).order().initialized |= initialized);
    }
    change(instance, whole, mode, &plan.parts);
    plan.state = state;
}

/// Ends the use of a plan's parts.
unsafe fn leave(instance: &Instance, whole: &Data, order: &mut Order, at: usize) {
    let plan = &mut order.parts.plans[at];
    if plan.state == Form::Whole {
        return;
    }
    let mut written = false;
    for &part in &plan.parts {
        let part = data(part);
        let mut inner = part.order();
        end_for_access(instance, part, &mut inner, true);
        crate::reduction::finish(instance, part, &mut inner);
        written |= inner.initialized;
    }
    let mode = if plan.state == Form::Shared { Mode::Read } else { Mode::Update };
    plan.state = Form::Whole;
    change(instance, whole, mode, &plan.parts);
    order.initialized |= written;
}

/// Ends the partitions that an access to the whole excludes.
pub unsafe fn end_for_access(instance: &Instance, whole: &Data, order: &mut Order, writes: bool) {
    for at in 0..order.parts.plans.len() {
        if order.parts.plans[at].state == Form::Parts || writes {
            leave(instance, whole, order, at);
        }
    }
}

/// Makes the parts of a handle.
unsafe fn make_parts(
    whole: &Data,
    filter: *mut starpu_data_filter,
    plan: Option<u64>,
) -> Vec<starpu_data_handle_t> {
    let count = (*filter).get_nchildren.map_or((*filter).nchildren, |count| count(filter, whole.handle()));
    let Some(cut) = (*filter).filter_func else {
        complain(format_args!("a data filter has no filter_func"));
        return Vec::new();
    };
    // Parts point into the memory of the whole.
    whole.allocate_on_host();
    let initialized = whole.order().initialized;
    let made = |i| {
        let ops = (*filter).get_child_ops.map_or(whole.ops, |ops| ops(filter, i));
        let part = Box::into_raw(Data::new(ops, 0, Some((whole.handle(), plan))));
        let part = &*part;
        part.order().initialized = initialized;
        part.home.store(
            whole.home.load(std::sync::atomic::Ordering::Relaxed),
            std::sync::atomic::Ordering::Relaxed,
        );
        part.settings.ordered.store(whole.is_ordered(), std::sync::atomic::Ordering::Relaxed);
        whole.residency.still(|| {
            gpus::nodes().for_each(|node| cut(whole.interface(node), part.interface(node), filter, i, count));
        });
        let reduction = whole.order().reduction.clone();
        part.order().reduction = reduction.without_copies();
        part.handle()
    };
    (0..count).map(made).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_partition(
    handle: starpu_data_handle_t,
    filter: *mut starpu_data_filter,
) {
    let Some(instance) = needed("starpu_data_partition") else { return };
    if must_not_wait("starpu_data_partition") {
        return;
    }
    let whole = data(handle);
    let mode = if whole.order().initialized { STARPU_RW } else { STARPU_W };
    let before = whole.order().initialized;
    if let Err(why) = acquire_now(instance, handle, mode) {
        return complain(format_args!("starpu_data_partition: {why}"));
    }
    whole.order().initialized = before;
    let parts = make_parts(whole, filter, None);
    whole.order().parts.split = parts;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_unpartition(handle: starpu_data_handle_t, _gather: c_uint) {
    let Some(instance) = needed("starpu_data_unpartition") else { return };
    if must_not_wait("starpu_data_unpartition") {
        return;
    }
    let whole = data(handle);
    let parts = std::mem::take(&mut whole.order().parts.split);
    if parts.is_empty() {
        return complain(format_args!("starpu_data_unpartition: {} is not partitioned", whole.token_name()));
    }
    let mut written = false;
    for part in parts {
        if data(part).order().parts.is_split() {
            starpu_data_unpartition(part, 0);
        }
        let target = data(part);
        {
            let mut order = target.order();
            end_for_access(instance, target, &mut order, true);
            crate::reduction::finish(instance, target, &mut order);
            written |= order.initialized;
        }
        target.wait_for_tasks(instance);
        clean_all(instance, target);
        target.wait_for_tasks(instance);
        target.value();
        destroy(part);
    }
    whole.order().initialized |= written;
    release_now(whole);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_nb_children(handle: starpu_data_handle_t) -> c_int {
    data(handle).order().parts.split.len() as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_child(
    handle: starpu_data_handle_t,
    at: c_uint,
) -> starpu_data_handle_t {
    let found = data(handle).order().parts.split.get(at as usize).copied();
    found.unwrap_or_else(|| {
        complain(format_args!("starpu_data_get_child: {} has no part {at}", data(handle).token_name()));
        ptr::null_mut()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_partition_get_nplans(handle: starpu_data_handle_t) -> c_int {
    data(handle).order().parts.plans.len() as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_partition_plan(
    handle: starpu_data_handle_t,
    filter: *mut starpu_data_filter,
    children: *mut starpu_data_handle_t,
) {
    let whole = data(handle);
    let id = {
        let parts = &mut whole.order().parts;
        parts.next += 1;
        parts.next
    };
    let parts = make_parts(whole, filter, Some(id));
    ptr::copy_nonoverlapping(parts.as_ptr(), children, parts.len());
    whole.order().parts.plans.push(Plan { id, parts, state: Form::Whole });
}

/// Calls `f` with the plan to which the first of `children` belongs.
unsafe fn with_plan(
    function: &str,
    handle: starpu_data_handle_t,
    count: c_uint,
    children: *mut starpu_data_handle_t,
    f: impl FnOnce(&Instance, &Data, &mut Order, usize),
) {
    let Some(instance) = needed(function) else { return };
    let whole = data(handle);
    let first = if count == 0 { ptr::null_mut() } else { *children };
    if let Some((outer, Some(plan))) = whole.parent {
        begin(instance, outer, plan, true);
    }
    let mut order = whole.order();
    match order.parts.plans.iter().position(|plan| plan.parts.first() == Some(&first)) {
        Some(at) => f(instance, whole, &mut order, at),
        None => complain(format_args!("{function}: these parts were not planned for {}", whole.token_name())),
    }
}

/// Defines functions that change the form of the data of a plan.
macro_rules! changes {
    ($($name:ident, $with_flag:ident: |$instance:ident, $whole:ident, $order:ident, $at:ident| $body:expr;)*) => {
        $(#[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: starpu_data_handle_t,
            count: c_uint,
            children: *mut starpu_data_handle_t,
        ) {
            with_plan(stringify!($name), handle, count, children, |$instance, $whole, $order, $at| $body);
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $with_flag(
            handle: starpu_data_handle_t,
            count: c_uint,
            children: *mut starpu_data_handle_t,
            _ordered: c_int,
        ) {
            $name(handle, count, children);
        })*
    };
}

changes! {
    starpu_data_partition_submit, starpu_data_partition_submit_sequential_consistency:
        |instance, whole, order, at| if order.parts.plans[at].state != Form::Parts {
            enter(instance, whole, order, at, Form::Parts);
        };
    starpu_data_partition_readonly_submit, starpu_data_partition_readonly_submit_sequential_consistency:
        |instance, whole, order, at| if order.parts.plans[at].state == Form::Whole {
            enter(instance, whole, order, at, Form::Shared);
        };
    starpu_data_partition_readwrite_upgrade_submit, starpu_data_partition_readwrite_upgrade_submit_sequential_consistency:
        |instance, whole, order, at| enter(instance, whole, order, at, Form::Parts);
    starpu_data_partition_readonly_downgrade_submit, starpu_data_partition_readonly_downgrade_submit_sequential_consistency:
        |instance, whole, order, at| {
            leave(instance, whole, order, at);
            enter(instance, whole, order, at, Form::Shared);
        };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_unpartition_submit(
    handle: starpu_data_handle_t,
    count: c_uint,
    children: *mut starpu_data_handle_t,
    _gather: c_int,
) {
    with_plan("starpu_data_unpartition_submit", handle, count, children, |instance, whole, order, at| {
        leave(instance, whole, order, at);
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_unpartition_submit_sequential_consistency(
    handle: starpu_data_handle_t,
    count: c_uint,
    children: *mut starpu_data_handle_t,
    gather: c_int,
    _ordered: c_int,
) {
    starpu_data_unpartition_submit(handle, count, children, gather);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_unpartition_submit_sequential_consistency_cb(
    handle: starpu_data_handle_t,
    count: c_uint,
    children: *mut starpu_data_handle_t,
    gather: c_int,
    _ordered: c_int,
    callback: starpu_callback_t,
    argument: *mut std::ffi::c_void,
) {
    starpu_data_unpartition_submit(handle, count, children, gather);
    let Some(instance) = needed("starpu_data_unpartition_submit") else { return };
    let argument = Carried(argument);
    instance.unfinished.add();
    change_then(instance, data(handle), Mode::Read, &[], move || {
        if let Some(callback) = callback {
            // SAFETY: the application's callback with its argument.
            unsafe { callback(argument.get()) };
        }
        if let Some(instance) = get() {
            instance.unfinished.remove();
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_unpartition_readonly_submit(
    handle: starpu_data_handle_t,
    count: c_uint,
    children: *mut starpu_data_handle_t,
    _gather: c_int,
) {
    with_plan(
        "starpu_data_unpartition_readonly_submit",
        handle,
        count,
        children,
        |instance, whole, order, at| {
            leave(instance, whole, order, at);
            enter(instance, whole, order, at, Form::Shared);
        },
    );
}

/// Removes a plan and its parts, once the tasks on them have ended.
unsafe fn clean(instance: &Instance, whole: &Data, order: &mut Order, at: usize) {
    leave(instance, whole, order, at);
    let plan = order.parts.plans.remove(at);
    for part in plan.parts {
        clean_all(instance, data(part));
        destroy_later(instance, data(part));
    }
}

/// Removes all plans of a handle.
pub unsafe fn clean_all(instance: &Instance, whole: &Data) {
    let mut order = whole.order();
    while !order.parts.plans.is_empty() {
        clean(instance, whole, &mut order, 0);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_partition_clean(
    handle: starpu_data_handle_t,
    count: c_uint,
    children: *mut starpu_data_handle_t,
) {
    with_plan("starpu_data_partition_clean", handle, count, children, |instance, whole, order, at| {
        clean(instance, whole, order, at);
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_partition_clean_node(
    handle: starpu_data_handle_t,
    count: c_uint,
    children: *mut starpu_data_handle_t,
    _gather: c_int,
) {
    starpu_data_partition_clean(handle, count, children);
}
