//! Loom models of the replica state machine as threads drive it, under every interleaving. The
//! manager, its lock and the queue of its actions are the real ones. Buffers are cells that loom
//! watches: any copy, body or drop that races with a write is found, whatever the values.

use std::collections::{HashMap, VecDeque};

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::handoff::Handoff;
use crate::format::Format;
use crate::memory::{
    Access, Action, BufferId, Datum, HOST, LinkSpec, Memory, Need, NodeId, NodeSpec, Ticket, Transfer,
};
use crate::sync::{Mutex, Parker};

const WIDE: Format = Format(2);
const NARROW: Format = Format(3);
/// Bytes of a datum in its wide form.
const SIZE: u64 = 8;
/// Tasks of one model at most.
const TASKS: usize = 6;

type SharedCell = Arc<UnsafeCell<u64>>;

/// State shared by the threads: a host and two devices.
struct ModelMachine {
    memory: Mutex<Memory>,
    actions: Handoff<Action>,
    /// Not loom's lock: it would order what only the manager may order.
    places: std::sync::Mutex<HashMap<BufferId, SharedCell>>,
    staged: Vec<Parker>,
    ended: Vec<Parker>,
    stream: TransferThread,
}

/// A thread that moves bytes, while others run tasks.
struct TransferThread {
    /// `None` is its end.
    queue: Mutex<VecDeque<Option<Transfer>>>,
    there: Parker,
}

impl TransferThread {
    fn push(&self, transfer: Option<Transfer>) {
        self.queue.lock().push_back(transfer);
        self.there.unpark();
    }

    fn next(&self) -> Option<Transfer> {
        loop {
            let next = self.queue.lock().pop_front();
            match next {
                Some(transfer) => return transfer,
                None => self.there.park(),
            }
        }
    }
}

/// A task on one node: adds one to the data that it updates, and expects a value of those that it
/// reads.
#[derive(Clone, Copy)]
struct ModelTask {
    ticket: usize,
    node: NodeId,
    datum: Datum,
    does: Does,
}

#[derive(Clone, Copy)]
enum Does {
    AddsOne,
    Reads(Format, u64),
}

impl ModelTask {
    fn adds(ticket: usize, node: NodeId, datum: Datum) -> Self {
        ModelTask { ticket, node, datum, does: Does::AddsOne }
    }

    fn reads(ticket: usize, node: NodeId, datum: Datum, format: Format, value: u64) -> Self {
        ModelTask { ticket, node, datum, does: Does::Reads(format, value) }
    }
}

impl ModelMachine {
    /// Creates data of value 0 on the host, and two devices with capacity for `holds` of them.
    fn new(holds: u64, data: usize) -> (Arc<Self>, Vec<Datum>) {
        let host = NodeSpec { capacity: None, staging: 1, spill: None };
        let device = NodeSpec { capacity: Some(holds * SIZE), staging: 1, spill: Some(HOST) };
        let link = Some(LinkSpec { bandwidth: 1e9, latency_ns: 10 });
        let mut memory = Memory::new(&[host, device, device], &vec![vec![link; 3]; 3]);
        let data: Vec<Datum> = (0..data).map(|_| memory.add(WIDE, SIZE, Some(HOST))).collect();
        let on_host = |&datum| memory.buffer(datum, HOST, WIDE).expect("added there");
        let places = data.iter().map(|datum| (on_host(datum), SharedCell::default())).collect();
        let machine = ModelMachine {
            memory: Mutex::new(memory),
            actions: Handoff::new(),
            places: std::sync::Mutex::new(places),
            staged: (0..TASKS).map(|_| Parker::new()).collect(),
            ended: (0..TASKS).map(|_| Parker::new()).collect(),
            stream: TransferThread { queue: Mutex::new(VecDeque::new()), there: Parker::new() },
        };
        (Arc::new(machine), data)
    }

    /// Does the work of `TransferDriver::with_memory` and `Engine::drain`.
    fn tell(&self, what: impl FnOnce(&mut Memory)) {
        {
            let mut memory = self.memory.lock();
            what(&mut memory);
            self.actions.extend(memory.take_actions());
        }
        self.actions.drain(|action| self.carry_out(action));
    }

    fn carry_out(&self, action: Action) {
        match action {
            Action::Begin(transfer) => self.stream.push(Some(transfer)),
            Action::Staged(Ticket(ticket)) => self.staged[ticket as usize].unpark(),
            Action::Freed { buffer, .. } => {
                // One that no transfer and no task has reached was never made.
                let gone = self.places.lock().unwrap().remove(&buffer);
                gone.inspect(|place| place.with_mut(|_| ()));
            }
            Action::Evicted { .. } => {}
        }
    }

    /// Moves bytes until there is nothing more to move.
    fn carry(&self) {
        while let Some(transfer) = self.stream.next() {
            let (source, target) = (self.place(transfer.source), self.place(transfer.target));
            // SAFETY: loom checks that nobody writes the one nor uses the other meanwhile.
            let value = source.with(|at| unsafe { *at });
            target.with_mut(|at| unsafe { *at = value });
            self.tell(|memory| memory.arrived(transfer.id));
        }
    }

    fn place(&self, buffer: BufferId) -> SharedCell {
        Arc::clone(self.places.lock().unwrap().entry(buffer).or_default())
    }

    fn run(&self, task: ModelTask) {
        let (format, access) = match task.does {
            Does::AddsOne => (WIDE, Access::Update),
            Does::Reads(format, _) => (format, Access::Read),
        };
        let bytes = if format == WIDE { SIZE } else { SIZE / 2 };
        let ticket = Ticket(task.ticket as u64);
        self.tell(|memory| {
            memory.stage(ticket, task.node, &[Need { datum: task.datum, format, bytes, access }])
        });
        self.staged[task.ticket].park();
        let buffer = self.memory.lock().buffer(task.datum, task.node, format).expect("it was staged");
        let place = self.place(buffer);
        // SAFETY: as for transfers.
        match task.does {
            Does::AddsOne => place.with_mut(|at| unsafe { *at += 1 }),
            Does::Reads(_, value) => assert_eq!(place.with(|at| unsafe { *at }), value, "an old version"),
        }
        self.tell(|memory| memory.finish(ticket));
        self.ended[task.ticket].unpark();
    }

    /// Waits for the end of a task that another thread runs; one thread waits for each.
    fn after(&self, ticket: usize) {
        self.ended[ticket].park();
    }
}

/// Runs the steps of each of two threads, then looks at the data on the host.
fn check(holds: u64, data: usize, last: &'static [u64], steps: fn(&ModelMachine, &[Datum], usize)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let (machine, data) = ModelMachine::new(holds, data);
        let mover = Arc::clone(&machine);
        let stream = loom::thread::spawn(move || mover.carry());
        let (there, named) = (Arc::clone(&machine), data.clone());
        let other = loom::thread::spawn(move || steps(&there, &named, 1));
        steps(&machine, &data, 0);
        other.join().unwrap();
        for (at, (&datum, &value)) in data.iter().zip(last).enumerate() {
            let ticket = TASKS - 1 - at;
            machine.run(ModelTask::reads(ticket, HOST, datum, WIDE, value));
        }
        machine.stream.push(None);
        stream.join().unwrap();
        assert!(machine.memory.lock().is_at_rest());
    });
}

/// A value is written on a device that then needs its memory: a reader on another device meanwhile
/// gets the written value.
#[test]
fn a_reader_elsewhere_meets_an_eviction() {
    check(1, 2, &[1, 1], |machine, data, thread| {
        if thread == 0 {
            machine.run(ModelTask::adds(0, 1, data[0]));
            machine.run(ModelTask::adds(1, 1, data[1]));
        } else {
            machine.after(0);
            machine.run(ModelTask::reads(2, 2, data[0], WIDE, 1));
        }
    });
}

/// A value is written back to make room, and another task writes it in place: that waits for the
/// copy, or finds the value evicted.
#[test]
fn a_writer_comes_back_to_an_eviction() {
    check(1, 2, &[2, 1], |machine, data, thread| {
        if thread == 0 {
            machine.run(ModelTask::adds(0, 1, data[0]));
            machine.run(ModelTask::adds(1, 1, data[1]));
        } else {
            machine.after(0);
            machine.run(ModelTask::adds(2, 1, data[0]));
        }
    });
}

/// Two devices read a value at once, each from any source; then one writes it, and the other one's
/// copy becomes invalid.
#[test]
fn a_writer_follows_two_readers() {
    check(1, 1, &[1], |machine, data, thread| {
        if thread == 0 {
            machine.run(ModelTask::reads(0, 1, data[0], WIDE, 0));
            machine.after(1);
            machine.run(ModelTask::adds(2, 1, data[0]));
        } else {
            machine.run(ModelTask::reads(1, 2, data[0], WIDE, 0));
            machine.after(2);
            machine.run(ModelTask::reads(3, 2, data[0], WIDE, 1));
        }
    });
}

/// A narrow form is made for another device, and for the writer's own, while the wide one stays.
#[test]
fn narrow_forms_are_made_of_the_last_version() {
    check(2, 1, &[1], |machine, data, thread| {
        if thread == 0 {
            machine.run(ModelTask::adds(0, 1, data[0]));
            machine.run(ModelTask::reads(1, 1, data[0], NARROW, 1));
        } else {
            machine.after(0);
            machine.run(ModelTask::reads(2, 2, data[0], NARROW, 1));
        }
    });
}
