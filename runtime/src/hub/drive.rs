//! Carrying out what the memory manager asks for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::links::mover;
use super::{Hub, Waiting};
use crate::data::{AnyHandle, CarryError, Onto};
use crate::device::{Device, DeviceError, Op, Span, StreamId};
use crate::error::{Cause, Failure, TaskError};
use crate::exec::Shared;
use crate::memory::{Access, Action, Ticket, Transfer};

impl Shared {
    /// Carries out all that is queued, in order: one thread at a time does, whoever comes meanwhile leaves it to that one.
    pub(crate) fn drain(self: &Arc<Self>) {
        let Some(hub) = &self.hub else { return };
        hub.actions.drain(|action| self.carry_out(hub, action));
    }

    fn carry_out(self: &Arc<Self>, hub: &Hub, action: Action) {
        // Spares that had to go are gone before what needs their room is there.
        hub.drop_thrown_out();
        match action {
            Action::Begin(transfer) => self.begin(hub, transfer),
            Action::Staged(ticket) => self.staged(hub, ticket),
            Action::Evicted { node, datum, bytes, written_back } => {
                hub.tally.evicted(node, written_back);
                if let Some(log) = &hub.log {
                    log.evicted(node, hub.handle(datum).map_or(0, |h| h.base().id), bytes, written_back);
                }
            }
            Action::Freed { node, datum, buffer } => {
                if let Some(spare) = hub.handle(datum).and_then(|handle| handle.clear(buffer)) {
                    drop(hub.nodes[node].spares.keep(spare));
                }
            }
        }
    }

    /// Begins a transfer, or first measures its link.
    fn begin(self: &Arc<Self>, hub: &Hub, transfer: Transfer) {
        let shared = Arc::clone(self);
        self.once_known(hub, (transfer.from, transfer.to), move || shared.send(transfer));
    }

    /// Hands a transfer to the device at its end that is not the host.
    fn send(self: &Arc<Self>, transfer: Transfer) {
        let Some(hub) = &self.hub else { return };
        let (shared, at_end) = (Arc::clone(self), Arc::clone(self));
        let handle = hub.handle(transfer.datum);
        let named = |handle: &Arc<dyn AnyHandle>| (handle.base().id, handle.format_name(transfer.format));
        let data = handle.as_ref().map_or((0, ""), named);
        let run = move || shared.carry(handle.as_deref(), &transfer);
        let done = move |ended: Result<Span, DeviceError>| at_end.arrived(&transfer, data, ended);
        let stream = StreamId::Link(transfer.from, transfer.to);
        match hub.mover(&transfer) {
            Some(device) => {
                let bytes = Some(transfer.bytes).filter(|_| transfer.from != transfer.to);
                // Only a disk fails in the copy itself.
                let run = Box::new(move || drop(run()));
                device.enqueue(stream, Op { bytes, run, done: Box::new(done) });
            }
            None => hub.host.push(
                stream,
                Box::new(move || {
                    let start = Instant::now();
                    let ended = run();
                    done(ended.map(|()| Span { start, end: Instant::now() }));
                }),
            ),
        }
    }

    /// Moves the bytes.
    fn carry(&self, handle: Option<&dyn AnyHandle>, transfer: &Transfer) -> Result<(), DeviceError> {
        let Some(hub) = &self.hub else { return Ok(()) };
        let ends = [transfer.from, transfer.to].map(|node| &hub.nodes[node]);
        for node in ends {
            node.moving.fetch_add(1, Ordering::SeqCst);
        }
        // What a failed device was to send or to get is left alone: others may be writing there by now.
        let is_left = ends.iter().all(|node| node.failure.get().is_none());
        let carried = if is_left { carry(hub, handle, transfer) } else { Ok(()) };
        for node in ends {
            node.moving.fetch_sub(1, Ordering::SeqCst);
        }
        carried
    }

    fn arrived(
        self: &Arc<Self>,
        transfer: &Transfer,
        data: (u64, &'static str),
        ended: Result<Span, DeviceError>,
    ) {
        let Some(hub) = &self.hub else { return };
        match ended {
            Ok(span) => {
                hub.tally.moved(transfer);
                if let Some(log) = &hub.log {
                    log.moved(transfer, data, span);
                }
                hub.with_memory(|memory| memory.arrived(transfer.id));
            }
            Err(error) if hub.swap_of(transfer.to).is_some() => hub.shut_disk(transfer.to, &error),
            Err(error) => {
                self.retire(hub, mover((transfer.from, transfer.to)), error);
            }
        }
        self.drain();
    }

    /// A working set is complete: whoever it is for goes on.
    fn staged(self: &Arc<Self>, hub: &Hub, ticket: Ticket) {
        // A ticket that nobody waits for was given up meanwhile.
        let waiting = hub.waiting.lock().remove(&ticket);
        match waiting {
            Some(Waiting::Task(task)) => {
                let worker = task.worker;
                if task.needs.iter().any(|need| need.access == Access::Write) {
                    // Its body allocates what it writes anew.
                    drop(hub.nodes[hub.node_of(worker)].spares.make_way());
                }
                hub.lanes[worker].gathered(task);
                self.sleep.notify(worker);
            }
            Some(Waiting::Turn(signal)) => {
                signal.is_there();
                self.tell();
            }
            None => {}
        }
    }
}

impl Hub {
    /// The device that carries a transfer out; `None` for a conversion on the host, and for the disk.
    fn mover(&self, transfer: &Transfer) -> Option<&Arc<dyn Device>> {
        self.nodes[mover((transfer.from, transfer.to))].device.as_ref()
    }
}

fn carry(hub: &Hub, handle: Option<&dyn AnyHandle>, transfer: &Transfer) -> Result<(), DeviceError> {
    // A handle that is gone had bytes on their way that nobody waits for.
    let Some(handle) = handle else { return Ok(()) };
    let format = if crate::mutant::mutant(4) { crate::data::Format::NATIVE } else { transfer.format };
    let onto = match hub.swap_of(transfer.to) {
        Some(swap) => Onto::Disk(swap),
        None => Onto::Memory(&hub.nodes[transfer.to].spares),
    };
    match handle.carry(transfer.source, transfer.target, format, onto) {
        Ok(()) => {}
        Err(CarryError::Disk(error)) => return Err(error),
        Err(CarryError::Value(error)) => handle.base().poison(&failure_to_carry(handle, error)),
    }
    Ok(())
}

fn failure_to_carry(handle: &dyn AnyHandle, error: TaskError) -> Arc<Failure> {
    let operands = vec![handle.base().name()];
    Arc::new(Failure { task: "a transfer".into(), operands, cause: Cause::Error(Arc::from(error)) })
}
