//! Values for callers outside of tasks: brought to the host on request, and written back when the
//! runtime ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{TransferDriver, Waiting};
use crate::engine::{Engine, Target};
use crate::error::Error;
use crate::format::Format;
use crate::memory::{Access, BufferId, Datum, HOST, Memory, NOWHERE, Need, Ticket};
use crate::task::AnyHandle;

const THERE: u8 = 1;
const LOST: u8 = 2;

/// Notifies a waiting caller of the fate of the value.
#[derive(Default)]
pub(super) struct Signal(AtomicU8);

impl Signal {
    pub(super) fn is_there(&self) {
        self.0.store(THERE, Ordering::Release);
    }

    pub(super) fn is_lost(&self) {
        self.0.store(LOST, Ordering::Release);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Acquire)
    }
}

/// A caller's access to a value in host memory.
pub(crate) struct HostAccess {
    ticket: Ticket,
    writes: bool,
    signal: Arc<Signal>,
    format: Format,
    /// Buffer of the value, once it is complete.
    pub(crate) buffer: BufferId,
}

impl Engine {
    /// Brings the current version to the host, once it is the caller's turn in the handle's chain.
    /// `None` if there is no value.
    pub(crate) fn bring(
        self: &Arc<Self>,
        handle: &dyn AnyHandle,
        writes: bool,
    ) -> Result<Option<HostAccess>, Error> {
        let Some(mut access) = self.ask_for_value(handle, writes) else { return Ok(None) };
        let transfers = self.transfers.as_ref().expect("only a transfers brings values");
        let there = || access.signal.get() != 0;
        if let Err(error) = self.wait_until(&Target::Other("a value from another memory node"), there) {
            transfers.give_up(access.ticket);
            self.drain();
            return Err(error);
        }
        if access.signal.get() == LOST {
            return Ok(None);
        }
        let format = access.format;
        let datum = handle.datum().expect("held");
        access.buffer = transfers.look(|memory| memory.buffer(datum, HOST, format)).expect("staged");
        Ok(Some(access))
    }

    /// Requests the current version on the host, without waiting for it; `None` if there is no
    /// value.
    pub(crate) fn ask_for_value(
        self: &Arc<Self>,
        handle: &dyn AnyHandle,
        writes: bool,
    ) -> Option<HostAccess> {
        let transfers = self.transfers.as_ref().expect("only a transfers brings values");
        if handle.has_partials() {
            transfers.combine(handle);
        }
        let (ticket, signal) = (transfers.ticket(), Arc::new(Signal::default()));
        let datum = handle.datum().expect("adopted when the caller's turn was linked");
        let format = transfers.with_memory(|memory| {
            let (format, bytes) = memory.current(datum);
            let access = if writes { Access::Update } else { Access::Read };
            memory.has_value(datum).then(|| {
                transfers.tickets.waiting.lock().insert(ticket, Waiting::Caller(Arc::clone(&signal)));
                memory.stage_for_caller(ticket, &[Need { datum, format, bytes, access }]);
                format
            })
        })?;
        self.drain();
        Some(HostAccess { ticket, writes, signal, format, buffer: NOWHERE })
    }

    /// Releases the caller's access to the value.
    pub(crate) fn let_go(self: &Arc<Self>, handle: &dyn AnyHandle, access: &HostAccess) {
        let transfers = self.transfers.as_ref().expect("only a transfers brings values");
        transfers.with_memory(|memory| {
            let datum = handle.datum().expect("held");
            let meta = access.writes.then(|| handle.settle(access.buffer));
            let written: Option<(Datum, _, _)> = meta.map(|meta| (datum, meta.format, meta.bytes as u64));
            memory.finish_as(access.ticket, written.as_slice());
        });
        self.drain();
    }

    /// Waits until no transfer between nodes is pending.
    pub(crate) fn wait_for_transfers(self: &Arc<Self>) -> Result<(), Error> {
        let Some(transfers) = &self.transfers else { return Ok(()) };
        let _counted = transfers.progress.wait_for_rest();
        self.drain();
        self.wait_until(&Target::Other("the end of all transfers"), || transfers.is_at_rest())
    }

    /// Wakes the threads that wait for the end of all transfers, if nothing moves. Called by a
    /// thread that has executed actions of the manager.
    pub(super) fn wake_if_at_rest(&self, transfers: &TransferDriver) {
        if transfers.progress.is_any_for_rest() && transfers.is_at_rest() {
            self.wake_other_waiters();
        }
    }

    /// Writes every value that still has a handle back to it: nothing runs any more, and other
    /// runtimes may use the handles.
    pub(crate) fn write_back_all(self: &Arc<Self>) {
        let Some(transfers) = &self.transfers else { return };
        if transfers.is_limited() {
            transfers.with_memory(|memory| memory.lift_capacity());
            self.drain();
        }
        let handles: Vec<Arc<dyn AnyHandle>> =
            transfers.manager.data.lock().iter().filter_map(|(_, handle)| handle.upgrade()).collect();
        for handle in &handles {
            let access =
                if handle.base().is_poisoned() { None } else { self.bring(&**handle, false).ok().flatten() };
            if let Some(access) = &access {
                self.let_go(&**handle, access);
            }
        }
        // The end of one transfer may begin another, on a stream that was closed a moment ago: once
        // it has ended nothing moves, and yet its stream is open.
        loop {
            let were_open = transfers.close();
            self.drain();
            if !were_open && transfers.look(Memory::is_at_rest) {
                break;
            }
        }
        for handle in &handles {
            handle.unmanage(transfers.on_host(&**handle));
        }
        transfers.close_pools();
    }
}

impl TransferDriver {
    /// True if nothing moves, and all actions of the manager have been executed.
    fn is_at_rest(&self) -> bool {
        // The order matters: actions requested at the end of a transfer are queued before the
        // manager's lock is released.
        self.look(Memory::is_at_rest) && self.manager.actions.is_idle()
    }

    /// Withdraws the caller's request for a working set.
    fn give_up(&self, ticket: Ticket) {
        self.with_memory(|memory| {
            self.tickets.waiting.lock().remove(&ticket);
            // It may be lost already with its device.
            if memory.holds(ticket) {
                memory.abandon(ticket);
            }
        });
    }

    /// Returns the buffer of the current version on the host, if the host has it.
    fn on_host(&self, handle: &dyn AnyHandle) -> Option<BufferId> {
        let datum = handle.datum()?;
        self.look(|memory| {
            let (format, _) = memory.current(datum);
            if memory.has_value(datum) { memory.buffer(datum, HOST, format) } else { None }
        })
    }

    /// Adds the partial results of a reduction to the value, once, before anybody reads it. The sum
    /// goes to a new buffer, since transfers may still read the old one.
    pub(super) fn combine(&self, handle: &dyn AnyHandle) {
        let _one = self.manager.combining.lock();
        let _mode = self.operations.mode.enter();
        let datum = handle.datum().expect("managed");
        // A value that cannot be transferred cannot be copied: it moves, once no conversion reads
        // it any more.
        let moves = !handle.is_portable();
        self.wait_for(|| !moves || !handle.has_partials() || self.look(|memory| memory.is_unread(datum)));
        if !handle.has_partials() {
            return;
        }
        let Some(old) = self.on_host(handle) else { return };
        handle.combine_apart(old, &mut |meta| {
            self.with_memory(|memory| memory.replace(datum, meta.format, meta.bytes as u64))
        });
        if handle.is_portable() {
            self.with_memory(|memory| memory.unkeep(datum));
        }
    }
}
