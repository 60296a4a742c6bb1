//! Execution of the memory manager's actions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::links::{Route, mover};
use super::{TransferDriver, Waiting};
use crate::device::Stream;
use crate::device::{Device, Op, Span, StreamId};
use crate::engine::{Engine, life};
use crate::error::DeviceError;
use crate::error::{Cause, Failure, TaskError};
use crate::memory::{Action, NodeId, Ticket, Transfer};
use crate::task::{AnyHandle, CarryError, Onto};
use crate::value::Carrier;

/// State of a transfer: not begun, in progress, ended, or begun without moving anything because one
/// of its ends has failed.
const QUEUED: u8 = 0;
const MOVES: u8 = 1;
const ENDED: u8 = 2;
const NOTHING: u8 = 3;

impl Engine {
    /// Executes all queued actions in order. One thread at a time does so; a thread that arrives
    /// meanwhile leaves its actions to that one.
    pub(crate) fn drain(self: &Arc<Self>) {
        let Some(transfers) = &self.transfers else { return };
        let mut any = false;
        transfers.manager.actions.drain(|action| {
            any = true;
            self.carry_out(transfers, action);
        });
        if any {
            transfers.progress.notify();
        }
        self.wake_if_at_rest(transfers);
    }

    fn carry_out(self: &Arc<Self>, transfers: &TransferDriver, action: Action) {
        match action {
            Action::Begin(transfer) => self.begin(transfers, transfer),
            Action::Staged(ticket) => self.staged(transfers, ticket),
            Action::Evicted { node, datum, bytes, written_back } => {
                transfers.tally.evicted(node, written_back);
                if let Some(log) = &transfers.log {
                    log.evicted(
                        node,
                        transfers.handle(datum).map_or(0, |h| h.base().id),
                        bytes,
                        written_back,
                    );
                }
            }
            Action::Freed { datum, buffer } => {
                if let Some(handle) = transfers.handle(datum) {
                    handle.clear(buffer);
                }
            }
        }
    }

    /// Begins a transfer, after measuring its link if that is not yet known.
    fn begin(self: &Arc<Self>, transfers: &TransferDriver, transfer: Transfer) {
        let engine = Arc::clone(self);
        self.once_known(transfers, (transfer.from, transfer.to), move || engine.send(transfer));
    }

    /// Hands a transfer to the device that executes it.
    fn send(self: &Arc<Self>, transfer: Transfer) {
        let Some(transfers) = &self.transfers else { return };
        let (engine, at_end) = (Arc::clone(self), Arc::clone(self));
        let handle = transfers.handle(transfer.datum);
        let named = |handle: &Arc<dyn AnyHandle>| (handle.base().id, handle.format_name(transfer.format));
        let data = handle.as_ref().map_or((0, ""), named);
        // The last reference may be dropped meanwhile: its values stay until nothing moves them.
        let kept = handle.clone();
        let begun = Arc::new(AtomicU8::new(QUEUED));
        let ended = Arc::clone(&begun);
        let run = move |stream: Option<&Arc<dyn Stream>>| {
            engine.carry(handle.as_deref(), &transfer, &begun, stream)
        };
        let done = move |result: Result<Span, DeviceError>| {
            // Transfers that were skipped are reported to the manager with the failure of the
            // device.
            if at_end.has_moved(&transfer, &ended) || result.is_err() {
                at_end.arrived(&transfer, data, result);
            }
            drop(kept);
        };
        let stream = StreamId::Link(transfer.from, transfer.to);
        let bytes = Some(transfer.bytes).filter(|_| transfer.from != transfer.to);
        let takes = transfers.operations.timing.as_ref().map(|timing| timing.of_transfer(&transfer));
        let op = Op { takes, ..Op::new(bytes, Box::new(run), Box::new(done)) };
        transfers.mover(&transfer).enqueue(stream, op);
    }

    /// Moves the bytes, or puts their copies on a stream.
    fn carry(
        &self,
        handle: Option<&dyn AnyHandle>,
        transfer: &Transfer,
        moves: &AtomicU8,
        stream: Option<&Arc<dyn Stream>>,
    ) -> Result<(), DeviceError> {
        let Some(transfers) = &self.transfers else { return Ok(()) };
        let ends = [transfer.from, transfer.to].map(|node| &transfers.nodes[node]);
        if moves.compare_exchange(QUEUED, MOVES, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            for node in ends {
                node.moving.fetch_add(1, Ordering::SeqCst);
            }
        }
        // Transfers from or to a failed device are skipped: others may be writing to that memory by
        // now.
        let is_left = ends.iter().all(|node| node.failure.get().is_none());
        if !is_left {
            moves.store(NOTHING, Ordering::SeqCst);
            return Ok(());
        }
        // A panic here does not come from the data type. It would end the stream's thread, and its
        // waiters would wait for ever.
        self.unbroken(|| carry(transfers, handle, transfer, stream)).unwrap_or(Ok(()))
    }

    /// Notes that the bytes have moved, or will not. Waiters that need this before they rewrite a
    /// failed device's values may go on. False if nothing was moved.
    fn has_moved(&self, transfer: &Transfer, moves: &AtomicU8) -> bool {
        let was = moves.swap(ENDED, Ordering::SeqCst);
        if matches!(was, MOVES | NOTHING)
            && let Some(transfers) = &self.transfers
        {
            for node in [transfer.from, transfer.to] {
                transfers.nodes[node].moving.fetch_sub(1, Ordering::SeqCst);
            }
            transfers.progress.notify();
        }
        was != NOTHING
    }

    fn arrived(
        self: &Arc<Self>,
        transfer: &Transfer,
        data: (u64, &'static str),
        ended: Result<Span, DeviceError>,
    ) {
        let Some(transfers) = &self.transfers else { return };
        match ended {
            Ok(span) => {
                transfers.tally.moved(transfer);
                transfers.learn_link(transfer, &span);
                if let Some(log) = &transfers.log {
                    log.moved(transfer, data, span);
                }
                transfers.with_memory(|memory| memory.arrived(transfer.id));
            }
            Err(error) if transfers.swap_of(transfer.to).is_some() => {
                transfers.shut_disk(transfer.to, &error)
            }
            Err(error) => {
                let (node, error) = transfers.failed_end((transfer.from, transfer.to), error);
                self.retire(transfers, node, error);
            }
        }
        transfers.progress.notify();
        self.drain();
    }

    /// Completes a working set and resumes the task or caller that waits for it.
    fn staged(self: &Arc<Self>, transfers: &TransferDriver, ticket: Ticket) {
        // A ticket without a waiter was given up meanwhile.
        let waiting = transfers.tickets.waiting.lock().remove(&ticket);
        match waiting {
            Some(Waiting::Task(task)) => {
                let worker = task.worker;
                life::arrive(task.task.work());
                transfers.lanes[worker].gathered(task);
                self.workers.sleep.notify(worker);
            }
            Some(Waiting::Caller(signal)) => {
                signal.is_there();
                self.wake_other_waiters();
            }
            None => {}
        }
    }
}

impl TransferDriver {
    /// Returns the failed end of a transfer: the device that executes it, unless the error came
    /// from the device at the other end.
    fn failed_end(&self, way: Route, error: DeviceError) -> (NodeId, DeviceError) {
        let mover = mover(way);
        let lost = |node: &&NodeId| self.nodes[**node].memory.as_ref().is_some_and(|memory| memory.is_lost());
        let node = [mover, way.0, way.1].iter().find(lost).copied().unwrap_or(mover);
        let device = self.nodes[node].name.clone();
        (node, DeviceError { device, ..error })
    }

    /// Returns the device that executes a transfer. The host executes its conversions and the
    /// transfers to and from the disk.
    fn mover(&self, transfer: &Transfer) -> &Arc<dyn Device> {
        self.nodes[mover((transfer.from, transfer.to))].device.as_ref().unwrap_or(&self.operations.host)
    }
}

fn carry(
    transfers: &TransferDriver,
    handle: Option<&dyn AnyHandle>,
    transfer: &Transfer,
    stream: Option<&Arc<dyn Stream>>,
) -> Result<(), DeviceError> {
    // A handle that no longer exists had transfers that nobody waits for.
    let Some(handle) = handle else { return Ok(()) };
    let format = if crate::mutant::mutant(4) { crate::format::Format::NATIVE } else { transfer.format };
    let onto = match (transfers.swap_of(transfer.to), &transfers.nodes[transfer.to].memory) {
        (Some(swap), _) => Onto::Disk(swap),
        (None, Some(memory)) => Onto::Device(memory),
        (None, None) => Onto::Memory,
    };
    let carrier = stream.map(|stream| Carrier { stream: &**stream });
    let carry = || match handle.carry(transfer.source, transfer.target, format, onto, carrier) {
        Err(CarryError::Stream(error)) => Err(error),
        carried => Ok(carried),
    };
    // Working space is not part of the memory manager's accounting: it may have to be released
    // first.
    let again = |_bytes| carrier.is_some_and(|carrier| carrier.stream.synchronize().is_ok());
    let carried = transfers.ask_for_room(carry, again).unwrap_or_else(|error| Err(CarryError::Stream(error)));
    match carried {
        Ok(()) => {}
        Err(CarryError::Disk(error)) => return Err(error),
        Err(CarryError::Stream(error)) => {
            return Err(stream.expect("only a stream says so").failure(&error));
        }
        Err(CarryError::Value(error)) => handle.base().poison(&failure_to_carry(handle, error)),
    }
    Ok(())
}

fn failure_to_carry(handle: &dyn AnyHandle, error: TaskError) -> Arc<Failure> {
    let operands = vec![handle.base().name()];
    Arc::new(Failure { task: "a transfer".into(), operands, cause: Cause::Error(Arc::from(error)) })
}
