//! Test driver that executes actions on real values.

use std::collections::{HashMap, VecDeque};

use super::*;

/// Kind of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum What {
    /// A task.
    #[default]
    Task,
    /// A task whose written data turn out to have the other format.
    Turns,
    /// A task that is abandoned once after so many more steps, then retried on another node.
    Retried(usize, NodeId),
    /// A task that is abandoned after so many more steps and never run.
    Skipped(usize),
    /// The handle of its first operand is replaced by another one, with a value or without.
    Renewed(bool),
    /// Its first operand gets a new value on the host.
    Replaced,
    /// Its first operand loses its value.
    Invalidated,
    /// An access of a caller on the host.
    Called,
    /// A task whose body waits for as long as others can go on without it.
    Patient,
}

/// Capacity of the host, and presence of a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Host {
    pub(super) capacity: Option<u64>,
    pub(super) disk: bool,
}

/// Events besides jobs, with the number of steps before them.
#[derive(Clone, Debug, Default)]
pub(super) struct Asides {
    /// A node loses its memory.
    pub(super) loss: Option<(usize, NodeId)>,
    /// The disk accepts no more write-backs.
    pub(super) shut: Option<usize>,
    /// A datum stays on the host from now on.
    pub(super) kept: Vec<(usize, u32)>,
    /// A datum will not be used for now.
    pub(super) unused: Vec<(usize, u32)>,
    /// A datum is pinned to a node for so many more steps.
    pub(super) pins: Vec<(usize, u32, NodeId, usize)>,
}

/// A task: its node, and its access to each datum, with the format.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub(super) node: NodeId,
    pub(super) needs: Vec<(u32, Format, Access)>,
    pub(super) prefetched: bool,
    /// True if its uses are announced from the beginning.
    pub(super) announced: bool,
    pub(super) what: What,
}

impl Job {
    pub(super) fn is_announced(&self) -> bool {
        self.announced && !matches!(self.what, What::Renewed(_) | What::Replaced | What::Invalidated)
    }

    /// Adjusts a job that gives its only operand a value outside of tasks.
    pub(super) fn settled(mut self) -> Self {
        if self.what == What::Called {
            self.node = HOST;
        }
        if let What::Renewed(_) | What::Replaced | What::Invalidated = self.what {
            self.needs.truncate(1);
            self.needs[0].2 = Access::Write;
        }
        self
    }
}

/// Executes actions on real values and checks every promise of [`Memory`].
pub(super) struct Driver {
    pub(super) memory: Memory,
    capacity: u64,
    devices: usize,
    pub(super) host: Host,
    pub(super) sizes: Vec<u64>,
    /// The handle of each datum.
    pub(super) data: Vec<Datum>,
    /// The value of each replica that a transfer or a task has filled.
    pub(super) values: HashMap<BufferId, u64>,
    /// Datum, node and format of each buffer.
    pub(super) places: HashMap<BufferId, (Datum, NodeId, Format)>,
    /// The node whose memory is lost.
    pub(super) lost: Option<NodeId>,
    /// Transfers in flight and the values that they carry.
    pub(super) flying: VecDeque<(Transfer, u64)>,
    pub(super) staged: VecDeque<Ticket>,
    /// Tasks that were requested and have neither ended nor been abandoned.
    asked: Vec<Ticket>,
    /// Pinned data, each with its node and the last step of the pin.
    pub(super) pinned: Vec<(u32, NodeId, usize)>,
    /// Bytes by which tasks wrote more than they stated.
    pub(super) grown: u64,
    pub(super) evictions: u64,
    pub(super) write_backs: u64,
    pub(super) conversions: u64,
    pub(super) abandoned: u64,
    pub(super) disk_writes: u64,
    /// Data that stay on the host.
    pub(super) kept: Vec<Datum>,
}

impl Driver {
    pub(super) fn new(devices: usize, peers: bool, capacity: u64, staging: u32, sizes: &[u64]) -> Self {
        Self::with_host(Host::default(), devices, peers, capacity, staging, sizes)
    }

    /// Creates a driver like `new`, with a given capacity of the host and perhaps a disk.
    pub(super) fn with_host(
        host: Host,
        devices: usize,
        peers: bool,
        capacity: u64,
        staging: u32,
        sizes: &[u64],
    ) -> Self {
        let spec = LinkSpec { bandwidth: 1e9, latency_ns: 10 };
        let disk = host.disk.then_some(devices + 1);
        let of_device = NodeSpec { capacity: Some(capacity), staging, spill: Some(HOST) };
        let nodes: Vec<NodeSpec> =
            std::iter::once(NodeSpec { capacity: host.capacity, staging, spill: disk })
                .chain(std::iter::repeat_n(of_device, devices))
                .chain(disk.map(|_| NodeSpec { capacity: None, staging: 0, spill: None }))
                .collect();
        let all = 0..nodes.len();
        let linked =
            |a: NodeId, b: NodeId| a == b || a * b == 0 || (peers && Some(a) != disk && Some(b) != disk);
        let links: Vec<Vec<Option<LinkSpec>>> =
            all.clone().map(|a| all.clone().map(|b| linked(a, b).then_some(spec)).collect()).collect();
        let mut driver = Driver {
            memory: Memory::new(&nodes, &links),
            capacity,
            devices,
            host,
            sizes: sizes.to_vec(),
            data: Vec::new(),
            values: HashMap::new(),
            places: HashMap::new(),
            lost: None,
            flying: VecDeque::new(),
            staged: VecDeque::new(),
            asked: Vec::new(),
            pinned: Vec::new(),
            grown: 0,
            evictions: 0,
            write_backs: 0,
            conversions: 0,
            abandoned: 0,
            disk_writes: 0,
            kept: Vec::new(),
        };
        for (i, &size) in sizes.iter().enumerate() {
            let datum = driver.memory.add(WIDE, size, Some(HOST));
            driver.data.push(datum);
            driver.put(datum, HOST, WIDE, i as u64);
        }
        driver.memory.tidy();
        driver.obey();
        driver
    }

    /// Sets the current version in this place to `value`.
    pub(super) fn put(&mut self, datum: Datum, node: NodeId, format: Format, value: u64) {
        let buffer = self.memory.buffer(datum, node, format).unwrap();
        self.values.insert(buffer, value);
        self.places.insert(buffer, (datum, node, format));
    }

    pub(super) fn needs(&self, job: &Job) -> Vec<Need> {
        let need = |&(datum, format, access): &(u32, Format, Access)| Need {
            datum: self.data[datum as usize],
            format,
            bytes: bytes_as(self.sizes[datum as usize], format),
            access,
        };
        job.needs.iter().map(need).collect()
    }

    pub(super) fn stage_for_caller(&mut self, ticket: Ticket, needs: &[Need]) {
        self.asked.push(ticket);
        self.memory.stage_for_caller(ticket, needs);
        self.obey();
    }

    pub(super) fn stage(&mut self, ticket: Ticket, node: NodeId, needs: &[Need]) {
        self.asked.push(ticket);
        self.memory.stage(ticket, node, needs);
        self.obey();
    }

    pub(super) fn abandon(&mut self, ticket: Ticket) {
        self.forget(ticket);
        self.abandoned += 1;
        self.memory.abandon(ticket);
        self.obey();
    }

    pub(super) fn finish(&mut self, ticket: Ticket, actual: &[(Datum, Format, u64)]) {
        self.forget(ticket);
        self.memory.finish_as(ticket, actual);
        self.obey();
    }

    /// Returns the disk's node, if there is one.
    pub(super) fn disk(&self) -> Option<NodeId> {
        self.host.disk.then_some(self.devices + 1)
    }

    /// Stops write-backs to the disk: the data in flight to it are lost, and nothing else is.
    pub(super) fn shut(&mut self) {
        let Some(disk) = self.disk() else { return };
        self.host.disk = false;
        self.memory.shut(disk);
        let (gone, left): (VecDeque<_>, _) = self.flying.drain(..).partition(|(t, _)| t.to == disk);
        self.flying = left;
        self.obey();
        for (transfer, _) in gone {
            self.memory.arrived(transfer.id);
            assert!(self.memory.take_actions().is_empty(), "an arrival that was dropped does something");
        }
    }

    /// Loses the memory of a node; transfers that touch it are reported as if they had ended.
    pub(super) fn lose(&mut self, node: NodeId) -> Lost {
        self.host.disk &= Some(node) != self.disk();
        self.lost = Some(node);
        let lost = self.memory.lose(node);
        let (gone, left): (VecDeque<_>, _) =
            self.flying.drain(..).partition(|(t, _)| t.from == node || t.to == node);
        self.flying = left;
        for &ticket in lost.tickets.iter().chain(&lost.stranded) {
            self.forget(ticket);
        }
        self.obey();
        for (transfer, _) in gone {
            self.memory.arrived(transfer.id);
            assert!(self.memory.take_actions().is_empty(), "an arrival that was dropped does something");
        }
        lost
    }

    pub(super) fn pin(&mut self, place: u32, node: NodeId, until: usize) {
        self.pinned.push((place, node, until));
        self.memory.pin(self.data[place as usize], node);
        self.obey();
    }

    pub(super) fn unpin(&mut self, is_due: impl Fn(u32, usize) -> bool) {
        let (due, kept): (Vec<_>, Vec<_>) =
            self.pinned.iter().partition(|&&(place, _, until)| is_due(place, until));
        self.pinned = kept;
        for (place, node, _) in due {
            self.memory.unpin(self.data[place as usize], node);
        }
        self.obey();
    }

    /// Returns true if `value` of the datum is in its own format on a remaining node.
    pub(super) fn survives(&self, place: usize, value: u64) -> bool {
        let datum = self.data[place];
        let (format, _) = self.memory.current(datum);
        let mut buffers = self.values.iter().filter(|(_, other)| **other == value);
        buffers.any(|(buffer, _)| {
            let (of, node, form) = self.places[buffer];
            (of, form) == (datum, format) && Some(node) != self.lost
        })
    }

    fn forget(&mut self, ticket: Ticket) {
        self.asked.retain(|other| *other != ticket);
        self.staged.retain(|other| *other != ticket);
    }

    pub(super) fn obey(&mut self) {
        for action in self.memory.take_actions() {
            match action {
                Action::Begin(transfer) => {
                    let value = self.values[&transfer.source];
                    self.conversions += u64::from(transfer.format != transfer.source_format);
                    let (datum, to_disk) = (transfer.datum, Some(transfer.to) == self.disk());
                    assert!(
                        !to_disk || transfer.format == transfer.source_format,
                        "only the own form is written"
                    );
                    assert!(!to_disk || !self.kept.contains(&datum), "{datum:?} stays on the host");
                    self.disk_writes += u64::from(to_disk);
                    let same_link =
                        |(other, _): &(Transfer, u64)| (other.from, other.to) == (transfer.from, transfer.to);
                    assert!(!self.flying.iter().any(same_link), "one transfer at a time on a link");
                    assert!(self.lost.is_none_or(|node| transfer.from != node && transfer.to != node));
                    let place = (transfer.datum, transfer.to, transfer.format);
                    self.places.insert(transfer.target, place);
                    self.flying.push_back((transfer, value));
                }
                Action::Staged(ticket) => {
                    assert!(self.asked.contains(&ticket), "{ticket:?} is staged and was abandoned");
                    self.staged.push_back(ticket);
                }
                Action::Evicted { written_back, node, datum, .. } => {
                    let holds = |&(place, n, _): &(u32, NodeId, usize)| {
                        (self.data[place as usize], n) == (datum, node)
                    };
                    assert!(!self.pinned.iter().any(holds), "{datum:?} is pinned to node {node}");
                    self.evictions += 1;
                    self.write_backs += u64::from(written_back);
                }
                Action::Freed { buffer, .. } => {
                    let used = |(t, _): &(Transfer, u64)| t.source == buffer || t.target == buffer;
                    assert!(!self.flying.iter().any(used), "{buffer:?} is freed under a transfer");
                    self.values.remove(&buffer);
                }
            }
        }
        for node in 1..=self.devices {
            assert!(
                self.memory.used(node) <= self.capacity + self.grown,
                "node {node} holds more than it can"
            );
        }
    }

    /// Completes the transfer at index `which`.
    pub(super) fn arrive(&mut self, which: usize) {
        let (transfer, value) = self.flying.remove(which).unwrap();
        assert_eq!(
            self.values.get(&transfer.source),
            Some(&value),
            "the source changed under a transfer: {transfer:?}"
        );
        self.values.insert(transfer.target, value);
        self.memory.arrived(transfer.id);
        self.obey();
    }

    pub(super) fn arrive_all(&mut self) {
        while !self.flying.is_empty() {
            self.arrive(0);
        }
    }

    /// Fetches the value of a datum to the host, if it is available.
    pub(super) fn fetch(&mut self, datum: usize) -> Option<u64> {
        let datum = self.data[datum];
        let (format, bytes) = self.memory.current(datum);
        let ticket = Ticket(1 << 40);
        self.stage_for_caller(ticket, &[Need { datum, format, bytes, access: Access::Read }]);
        self.arrive_all();
        let buffer = self.memory.buffer(datum, HOST, format).unwrap();
        let value = self.values.get(&buffer).copied();
        self.finish(ticket, &[]);
        value
    }

    /// Gives `datum` a new value on the host, or another handle.
    pub(super) fn give(&mut self, datum: u32, what: What, value: u64) -> Option<u64> {
        if what == What::Invalidated {
            self.memory.invalidate(self.data[datum as usize]);
            self.obey();
            assert!(!self.memory.has_value(self.data[datum as usize]));
            return None;
        }
        let (place, size) = (datum as usize, self.sizes[datum as usize]);
        let format = if let What::Renewed(valued) = what {
            self.memory.remove(self.data[place]);
            self.obey();
            self.kept.retain(|kept| *kept != self.data[place]);
            self.data[place] = self.memory.add(NARROW, size / 2, valued.then_some(HOST));
            valued.then_some(NARROW)
        } else {
            let buffer = self.memory.replace(self.data[place], WIDE, size);
            assert_eq!(self.memory.buffer(self.data[place], HOST, WIDE), Some(buffer));
            Some(WIDE)
        };
        if let Some(format) = format {
            self.put(self.data[place], HOST, format, value);
        }
        self.memory.tidy();
        self.obey();
        format.map(|_| value)
    }
}
