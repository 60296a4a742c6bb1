//! Queueing of operations on streams, with checks.
//!
//! All checks are made when an operation is queued. They use its order, never the order of
//! execution: a wrong program is detected on every run that reaches the operation.

use std::sync::{Arc, OnceLock};

use super::call::{Call, End, Operand, overlap};
use super::clock::{Clock, Point};
use super::history::{Access, Use};
use super::memory::{Unusable, rounded};
use super::run::Bound;
use super::state::{FaultKind, Item, Mark, Record, State, event_name, gpu_of, refused, stream_name};
use crate::error::GpuError;

impl State {
    /// Returns the position of the next item on a stream, and the clock before it.
    fn next_point(&mut self, token: u64) -> (Point, Clock) {
        let stream = self.streams.get_mut(&token).expect("callers looked it up");
        stream.items += 1;
        stream.clock.join(&self.host);
        let known = stream.clock.clone();
        let at = Point { stream: token, item: stream.items };
        stream.clock.learn(at);
        (at, known)
    }

    fn push(&mut self, token: u64, item: Item) {
        self.streams.get_mut(&token).expect("callers looked it up").queue.push_back(item);
    }

    /// Puts an operation on a stream.
    pub(super) fn enqueue(&mut self, token: u64, call: Call) -> Result<(), GpuError> {
        let gpu = self.stream(token, call.cuda())?.gpu;
        if self.fault_hits(gpu, FaultKind::Operation) {
            let reason = "this operation was told to fail".into();
            let error = GpuError::Failed { gpu, call: call.cuda(), reason, sticky: true };
            self.lose(gpu, error.clone());
            return Err(error);
        }
        let fails = call.is_launch() && self.fault_hits(gpu, FaultKind::Launch);
        let who: Arc<str> = format!("{} on {}", call.name(), stream_name(token)).into();
        let operands = call.operands(gpu);
        self.check_ends(gpu, &call)?;
        let bound = self.bind(gpu, &call, &who, &operands)?;
        if let Some((one, other)) = overlap(&operands) {
            let reason = format!("{who}: two operands share bytes: {} and {}", named(&one), named(&other));
            return Err(self.violation(gpu, call.cuda(), reason));
        }
        let (at, known) = self.next_point(token);
        self.use_bytes(gpu, &call, &who, &operands, at, &known)?;
        self.push(token, Item::Run { call, bound, fails });
        Ok(())
    }

    /// Checks that the stream's GPU can access both ends of a copy.
    fn check_ends(&mut self, gpu: u32, call: &Call) -> Result<(), GpuError> {
        let Call::Copy { to, from, .. } = call else {
            return Ok(());
        };
        let on = |end: &End| match end {
            End::Host(_) => None,
            End::Gpu(gpu, _) => Some(*gpu),
        };
        let ends = [on(to), on(from)];
        if !ends.contains(&Some(gpu)) {
            return Err(refused(gpu, call.cuda(), "neither end of the copy is on the stream's GPU"));
        }
        for other in ends.into_iter().flatten().filter(|other| *other != gpu) {
            self.usable(other)?;
            if !self.gpus[gpu as usize].info.peers.contains(&other) {
                let reason = format!("GPU {other} is no peer of GPU {gpu}: copy through the host");
                return Err(refused(gpu, call.cuda(), reason));
            }
        }
        Ok(())
    }

    /// Finds the memory of the operands. Each has to lie in one allocation.
    fn bind(
        &mut self,
        gpu: u32,
        call: &Call,
        who: &str,
        operands: &[Operand],
    ) -> Result<Vec<Bound>, GpuError> {
        let mut bound = Vec::with_capacity(operands.len());
        for operand in operands {
            bound.push(match operand.end {
                _ if operand.bytes == 0 => Bound::Empty,
                End::Host(0) => {
                    return Err(refused(gpu, call.cuda(), format!("{who}: host memory at address 0")));
                }
                End::Host(at) => {
                    if let Some((base, bytes)) = self.overrun(at, operand.bytes) {
                        let reason = format!(
                            "{who} {} {}: out of bounds: {bytes} bytes are locked at {base:#x}",
                            operand.kind.verb(),
                            named(operand)
                        );
                        return Err(self.violation(gpu, call.cuda(), reason));
                    }
                    if self.locked_around(at).is_none() {
                        self.pageable.push(operand.bytes);
                    }
                    Bound::Host { at: at as usize, bytes: operand.bytes as usize }
                }
                End::Gpu(owner, at) => match self.space.find(at, operand.bytes) {
                    Ok((base, allocation)) if allocation.gpu == owner => Bound::Gpu {
                        gpu: owner,
                        block: Arc::clone(&allocation.block),
                        offset: (at - base) as usize,
                        bytes: operand.bytes as usize,
                    },
                    Ok((_, allocation)) => {
                        let on = allocation.gpu;
                        let reason =
                            format!("{who}: {at:#x} is memory of GPU {on}, given as one of GPU {owner}");
                        return Err(self.violation(gpu, call.cuda(), reason));
                    }
                    Err(why) => {
                        let reason =
                            format!("{who} {} {}: {}", operand.kind.verb(), named(operand), describe(&why));
                        return Err(self.violation(gpu, call.cuda(), reason));
                    }
                },
            });
        }
        Ok(bound)
    }

    /// The locked host memory that a range begins in and leaves.
    fn overrun(&self, at: u64, bytes: u64) -> Option<(u64, u64)> {
        let (base, size) = self.locked_around(at)?;
        (bytes > size - (at - base)).then_some((base, size))
    }

    /// Returns the locked host memory that contains an address: its begin and its bytes.
    fn locked_around(&self, at: u64) -> Option<(u64, u64)> {
        let (&base, &(size, _)) = self.locked.range(..=at).next_back()?;
        (at - base < size).then_some((base, size))
    }

    /// Checks the operands against all uses that nothing orders before this one, and remembers
    /// them.
    fn use_bytes(
        &mut self,
        gpu: u32,
        call: &Call,
        who: &Arc<str>,
        operands: &[Operand],
        at: Point,
        known: &Clock,
    ) -> Result<(), GpuError> {
        for operand in operands.iter().filter(|operand| operand.bytes > 0) {
            let (End::Host(from) | End::Gpu(_, from)) = operand.end;
            let to = from.saturating_add(operand.bytes);
            let access = Access { from, to, kind: operand.kind, at, who: Arc::clone(who) };
            let history = match operand.end {
                End::Host(_) => &mut self.host_history,
                End::Gpu(_, address) => match self.space.find(address, operand.bytes) {
                    Ok((_, allocation)) => &mut allocation.history,
                    Err(_) => continue, // bound above
                },
            };
            if let Some(old) = history.conflict(&access, known) {
                let reason = race(&access, old);
                return Err(self.violation(gpu, call.cuda(), reason));
            }
            history.add(access, known, &self.host);
        }
        Ok(())
    }

    /// New memory, from this place of the stream on.
    pub(super) fn allocate(&mut self, token: u64, bytes: u64) -> Result<u64, GpuError> {
        const CALL: &str = "cuMemAllocAsync";
        let gpu = self.stream_outside_capture(token, CALL)?;
        let room = self.gpus[gpu as usize].info.memory.saturating_sub(self.space.used(gpu));
        if self.fault_hits(gpu, FaultKind::Allocation) || rounded(bytes) > room {
            return Err(GpuError::OutOfMemory { gpu, bytes });
        }
        let who: Arc<str> = format!("allocation of {bytes} bytes on {}", stream_name(token)).into();
        let (at, known) = self.next_point(token);
        let base = self.space.allocate(gpu, bytes, Arc::clone(&who));
        let base = base.ok_or(GpuError::OutOfMemory { gpu, bytes })?;
        if let Ok((_, allocation)) = self.space.find(base, 0) {
            let access = Access { from: base, to: base + bytes.max(1), kind: Use::Allocate, at, who };
            allocation.history.add(access, &known, &self.host);
        }
        Ok(base)
    }

    /// Frees memory in the order of the stream. Its space is available immediately: in CUDA an
    /// allocation may wait for it.
    pub(super) fn free(&mut self, token: u64, address: u64) -> Result<(), GpuError> {
        const CALL: &str = "cuMemFreeAsync";
        let gpu = self.stream_outside_capture(token, CALL)?;
        let who: Arc<str> = format!("free on {}", stream_name(token)).into();
        let (at, known) = self.next_point(token);
        let wrong = match self.space.find(address, 0) {
            Err(why) => describe(&why),
            Ok((base, _)) if base != address => format!("it lies inside the allocation at {base:#x}"),
            Ok((_, allocation)) if allocation.gpu != gpu => format!("it is memory of GPU {}", allocation.gpu),
            Ok((base, allocation)) => {
                let access = Access {
                    from: base,
                    to: base + allocation.bytes.max(1),
                    kind: Use::Free,
                    at,
                    who: Arc::clone(&who),
                };
                match allocation.history.conflict(&access, &known) {
                    None => {
                        self.space.free(base, who);
                        return Ok(());
                    }
                    Some(old) => race(&access, old),
                }
            }
        };
        Err(self.violation(gpu, CALL, format!("{who} of {address:#x}: {wrong}")))
    }

    /// The GPU of a stream that is not being captured.
    pub(super) fn stream_outside_capture(&mut self, token: u64, call: &'static str) -> Result<u32, GpuError> {
        let stream = self.stream(token, call)?;
        let gpu = stream.gpu;
        match stream.capture {
            None => Ok(gpu),
            Some(_) => {
                Err(refused(gpu, call, format!("{} is being captured: end that first", stream_name(token))))
            }
        }
    }

    /// Puts a record on a stream.
    pub(super) fn enqueue_record(&mut self, token: u64) -> Arc<Record> {
        let (at, mut clock) = self.next_point(token);
        clock.forget(&self.host);
        clock.learn(at);
        let record = Arc::new(Record { clock, ended: OnceLock::new() });
        self.push(token, Item::Record(Arc::clone(&record)));
        record
    }

    /// Makes the next items of a stream wait for a record.
    pub(super) fn enqueue_wait(&mut self, token: u64, record: Arc<Record>) -> Point {
        let (at, _) = self.next_point(token);
        let stream = self.streams.get_mut(&token).expect("looked up by next_point");
        stream.clock.join(&record.clock);
        self.push(token, Item::Wait(record));
        at
    }

    /// Records an event.
    pub(super) fn record(&mut self, event: u64, token: u64) -> Result<(), GpuError> {
        const CALL: &str = "cuEventRecord";
        let stream = self.stream(token, CALL)?;
        let (gpu, capture) = (stream.gpu, stream.capture);
        self.event(event, CALL)?;
        if gpu_of(event) != gpu {
            let reason = format!("{} cannot be recorded on {}", event_name(event), stream_name(token));
            return Err(refused(gpu, CALL, reason));
        }
        let mark = match capture {
            Some(capture) => Mark::Captured { capture, slot: self.capture_record(capture, token) },
            None => Mark::Live(self.enqueue_record(token)),
        };
        self.event(event, CALL)?.last = Some(mark);
        Ok(())
    }

    /// Makes a stream wait for an event.
    pub(super) fn wait_event(&mut self, token: u64, event: u64) -> Result<(), GpuError> {
        const CALL: &str = "cuStreamWaitEvent";
        let stream = self.stream(token, CALL)?;
        let (gpu, capture) = (stream.gpu, stream.capture);
        let owner = gpu_of(event);
        let last = if owner != gpu && self.gpus.get(owner as usize).is_some_and(|owner| owner.lost.is_some())
        {
            // A loss on another GPU is an error for operations that read its memory, not for waits.
            let Some(last) = self.events.get(&event).and_then(|state| state.last.clone()) else {
                return Ok(());
            };
            Some(last)
        } else {
            self.event(event, CALL)?.last.clone()
        };
        match (last, capture) {
            (None, _) => {
                let reason = format!(
                    "{} waits for {}, which was never recorded",
                    stream_name(token),
                    event_name(event)
                );
                Err(self.violation(gpu, CALL, reason))
            }
            (Some(Mark::Captured { capture, slot }), _) => self.capture_wait(capture, token, slot, event),
            (Some(Mark::Live(_)), Some(_)) => {
                let reason = format!(
                    "{} was recorded outside the capture of {}",
                    event_name(event),
                    stream_name(token)
                );
                Err(refused(gpu, CALL, reason))
            }
            (Some(Mark::Live(record)), None) => {
                let at = self.enqueue_wait(token, record);
                let host = &self.host;
                if let Some(state) = self.events.get_mut(&event) {
                    state.waits.retain(|wait| !host.knows(*wait));
                    state.waits.push(at);
                }
                Ok(())
            }
        }
    }

    /// Forgets an event.
    pub(super) fn destroy_event(&mut self, event: u64) {
        const CALL: &str = "cuEventDestroy";
        let gpu = gpu_of(event);
        if self.usable(gpu).is_err() {
            self.events.remove(&event);
            return;
        }
        match self.events.remove(&event) {
            None => drop(self.event(event, CALL)),
            Some(state) => {
                if let Some(wait) = state.waits.iter().find(|wait| !self.host.knows(**wait)) {
                    let (event, stream) = (event_name(event), stream_name(wait.stream));
                    let reason =
                        format!("{event} is destroyed, and nothing tells that {stream} waits for it no more");
                    self.violation(gpu, CALL, reason);
                }
            }
        }
    }
}

/// An operand's place, for messages.
fn named(operand: &Operand) -> String {
    match operand.end {
        End::Host(at) => format!("{} bytes of host memory at {at:#x}", operand.bytes),
        End::Gpu(gpu, at) => format!("{} bytes of GPU {gpu} at {at:#x}", operand.bytes),
    }
}

/// Why memory is not usable.
fn describe(why: &Unusable) -> String {
    match why {
        Unusable::Freed { by, bytes, base } => {
            format!("use after free: the {bytes} bytes at {base:#x} were given back by {by}")
        }
        Unusable::Outside { bytes, base } => {
            format!("out of bounds: {bytes} bytes were allocated at {base:#x}")
        }
        Unusable::Unknown => "nobody allocated memory there".into(),
    }
}

/// Two uses that nothing orders.
fn race(new: &Access, old: &Access) -> String {
    format!(
        "{} {} {:#x}..{:#x} and {} {} {:#x}..{:#x}, and nothing orders the two: record an event behind one and let the other's stream wait for it",
        old.who,
        old.kind.verb(),
        old.from,
        old.to,
        new.who,
        new.kind.verb(),
        new.from,
        new.to
    )
}
