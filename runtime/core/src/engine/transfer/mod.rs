//! The driver of the memory manager: devices move bytes while workers do other things.
//!
//! [`TransferDriver`] is the part that the threads of a runtime share. `drive` executes the
//! manager's actions. `gather` brings a task's operands to its worker and settles its outputs.
//! `host_access` does the same for a caller outside of tasks. `retire` removes a failed device.
//! `README.md` gives the threading rules. A runtime without devices has no transfer driver
//! and no such costs.

mod batch;
mod disk;
mod drive;
mod gather;
mod handoff;
mod hints;
mod host_access;
mod lane;
mod links;
mod log;
#[cfg(all(test, loom))]
mod models;
mod node;
mod probe;
mod progress;
mod refuse;
mod retire;
mod stream_order;
mod tally;
mod timing;
mod workspace;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, ReentrantMutex};
use smallvec::{SmallVec, smallvec};

use self::disk::Disk;
pub(crate) use self::disk::HostMemory;
pub(crate) use self::gather::{Next, Placed, PlacedBatch};
use self::handoff::Handoff;
pub use self::hints::Candidate;
pub(crate) use self::hints::Chooser;
pub(crate) use self::host_access::HostAccess;
use self::host_access::Signal;
use self::lane::Lane;
use self::links::LinkMeasurements;
pub(crate) use self::log::Log;
use self::node::{MemoryNode, pools};
use self::progress::Progress;
use self::stream_order::Followers;
use self::tally::NodeCounts;
pub use self::tally::NodeUse;
pub(crate) use self::timing::Timing;
use crate::buffer::{HostPool, Serving};
use crate::device::{Arch, Device, DeviceSpec, Events, HostDevice, LaunchDepth, Opening, SimulatedDevice};
use crate::engine::Job;
use crate::error::DeviceError;
use crate::memory::{Action, BufferId, Datum, HOST, LinkSpec, Memory, NodeId, NodeSpec, Reason, Ticket};
use crate::numbered::Numbered;
use crate::subnormals::Subnormals;
use crate::task::plan::{Needs, Plan, Planned};
use crate::task::{AnyHandle, Forgotten, Work};
use zellige_model::Models;

/// A datum's handle, and the number that the handle has in traces.
type DatumHandle = (u64, Weak<dyn AnyHandle>);

/// The owner of the working set of a ticket.
enum Waiting {
    Task(Placed),
    Caller(Arc<Signal>),
}

/// The buffers of a task's operands, one per access.
pub(crate) type Buffers = SmallVec<[BufferId; 4]>;

/// A machine in simulated time.
pub(crate) struct Simulated<'m> {
    /// Memory nodes, the host first.
    pub(crate) nodes: Vec<(String, NodeSpec)>,
    /// Links in the form of [`Memory::new`].
    pub(crate) links: &'m [Vec<Option<LinkSpec>>],
    pub(crate) disk: Option<NodeId>,
    /// For each worker its node, the depth of its launch queue, and the delay after an end until
    /// the host learns of it (ns).
    pub(crate) workers: Vec<(NodeId, LaunchDepth, u64)>,
    pub(crate) events: &'m Arc<Events>,
    pub(crate) timing: Box<dyn Timing>,
}

/// Drives the memory manager for one runtime; see the module.
pub(crate) struct TransferDriver {
    manager: Manager,
    tickets: TicketOwners,
    nodes: Vec<MemoryNode>,
    operations: Operations,
    disk: Option<Disk>,
    lanes: Vec<Lane>,
    /// Threads that wait for resources released by transfers and bodies.
    progress: Progress,
    /// Only present if a device orders launches.
    followers: Option<Followers>,
    tally: NodeCounts,
    links: LinkMeasurements,
    pub(crate) log: Option<Log>,
}

/// The memory manager, and the values that it is responsible for.
struct Manager {
    memory: Mutex<Memory>,
    /// Requested actions of the manager that nobody has executed yet, in order.
    actions: Handoff<Action>,
    /// The handle of each datum.
    data: Arc<Mutex<Vec<DatumHandle>>>,
    forgotten: Forgotten,
    /// Held while partial results are added to a value.
    combining: ReentrantMutex<()>,
}

/// The owners of the working sets that have been requested.
#[derive(Default)]
struct TicketOwners {
    waiting: Mutex<Numbered<Ticket, Waiting>>,
    next: AtomicU64,
}

/// The means by which operations outside of lanes run.
struct Operations {
    /// Conversions on the host, and transfers to and from the disk.
    host: Arc<dyn Device>,
    /// Recycled host memory, one pool for each allocator of the devices.
    pools: Vec<Arc<HostPool>>,
    /// Treatment of subnormal numbers in conversions and additions.
    mode: Subnormals,
    /// Times of operations, if time is simulated and nothing runs.
    timing: Option<Box<dyn Timing>>,
    /// Operations of simulated devices.
    events: Option<Arc<Events>>,
}

impl TransferDriver {
    /// Creates the memory of `cpus` workers on the host, of one node for each device, and of the
    /// disk, if there is one. `peers` is the link between any two devices. For undeclared links,
    /// `models` are queried and updated. Values are converted and added in `mode`, on any thread.
    /// With `events` all devices are simulated ones, and bodies run on them.
    #[expect(clippy::too_many_arguments, reason = "what a builder was told, each of another type")]
    pub(crate) fn new(
        cpus: usize,
        devices: &[Arc<dyn DeviceSpec>],
        peers: Option<LinkSpec>,
        host: HostMemory,
        models: Option<Arc<Models>>,
        log: Option<Log>,
        mode: Subnormals,
        events: Option<&Arc<Events>>,
    ) -> Result<Self, String> {
        devices.iter().try_for_each(|device| device.check(devices))?;
        let pools = pools(devices, host.capacity);
        let disk = host.swap.map(|swap| Disk::new(devices.len() + 1, Some(swap)));
        let spill = disk.as_ref().map(|disk| disk.node);
        let host = NodeSpec { capacity: host.capacity, staging: u32::MAX, spill };
        let of_device = |d: &Arc<dyn DeviceSpec>| NodeSpec {
            capacity: Some(d.capacity()),
            staging: d.staging(),
            spill: Some(HOST),
        };
        let specs: Vec<NodeSpec> = std::iter::once(host)
            .chain(devices.iter().map(of_device))
            .chain(disk.iter().map(|_| disk::NODE))
            .collect();
        let opening = |number: usize, spec: &Arc<dyn DeviceSpec>| Opening {
            name: format!("{} {number}", spec.kind()),
            subnormals: mode,
            pool: Arc::clone(
                spec.pinned()
                    .and_then(|(allocator, _)| pools.iter().find(|pool| pool.is_of(&*allocator)))
                    .unwrap_or(&pools[0]),
            ),
            peers,
        };
        let made = devices.iter().enumerate();
        let made = made.map(|(i, spec)| MemoryNode::of(i, &**spec, opening(i, spec), events));
        let made = made.collect::<Result<Vec<MemoryNode>, String>>()?;
        let host = MemoryNode::new("host".into(), specs[HOST].capacity, None);
        let simulated = |number: usize, name: &str| -> Option<Arc<dyn Device>> {
            Some(Arc::new(SimulatedDevice::new(events?, number, name)))
        };
        let of_cpu =
            |cpu: usize| Lane::new(HOST, simulated(devices.len() + 1 + cpu, "cpu"), LaunchDepth::default());
        let of_made = |(at, node): (usize, &MemoryNode)| {
            let depth = node.device.as_ref().map_or_else(LaunchDepth::default, |device| device.depth());
            Lane::new(at + 1, node.device.clone(), depth)
        };
        let lanes = (0..cpus).map(of_cpu).chain(made.iter().enumerate().map(of_made)).collect();
        let of_disk = disk.iter().map(|_| MemoryNode::new("disk".into(), None, None));
        let host_device = simulated(devices.len(), "host")
            .unwrap_or_else(|| Arc::new(HostDevice::new(Arc::clone(&pools[0]), mode)));
        let nodes: Vec<MemoryNode> = std::iter::once(host).chain(made).chain(of_disk).collect();
        let links = LinkMeasurements::new(models);
        let memory = Memory::new(&specs, &links.specs(&nodes, peers.is_some(), spill));
        let orders = |node: &MemoryNode| node.device.as_ref().is_some_and(|device| device.orders_launches());
        let followers = nodes.iter().any(orders).then(Followers::default);
        let transfers = TransferDriver::of(nodes, memory, lanes, links, host_device);
        let operations = Operations { pools, mode, events: events.cloned(), ..transfers.operations };
        Ok(TransferDriver { disk, operations, followers, log, ..transfers })
    }

    /// Creates a driver in simulated time.
    pub(crate) fn simulated(machine: Simulated<'_>, log: Log) -> Self {
        let Simulated { nodes, links, disk, workers, events, timing } = machine;
        let simulated = |number: usize, name: &str| SimulatedDevice::new(events, number, name);
        let specs: Vec<NodeSpec> = nodes.iter().map(|(_, spec)| *spec).collect();
        let of_node = |(at, (name, spec)): (usize, &(String, NodeSpec))| {
            let device = (at != HOST).then(|| -> Arc<dyn Device> { Arc::new(simulated(at, name)) });
            MemoryNode::new(name.clone(), spec.capacity, device)
        };
        let lane = |(at, &(node, depth, latency)): (usize, &(NodeId, LaunchDepth, u64))| {
            let device = simulated(nodes.len() + at, &nodes[node].0).with_latency(latency);
            Lane::new(node, Some(Arc::new(device)), depth)
        };
        let lanes = workers.iter().enumerate().map(lane).collect();
        let followers = workers.iter().any(|&(.., latency)| latency > 0).then(Followers::default);
        let host = Arc::new(simulated(HOST, &nodes[HOST].0));
        let of_nodes = nodes.iter().enumerate().map(of_node).collect();
        let memory = Memory::new(&specs, links);
        let disk = disk.map(|node| Disk::new(node, None));
        let made = TransferDriver::of(of_nodes, memory, lanes, LinkMeasurements::new(None), host);
        let operations = Operations { timing: Some(timing), ..made.operations };
        TransferDriver { disk, followers, operations, log: Some(log), ..made }
    }

    /// Creates a driver without the optional parts.
    fn of(
        nodes: Vec<MemoryNode>,
        memory: Memory,
        lanes: Vec<Lane>,
        links: LinkMeasurements,
        host: Arc<dyn Device>,
    ) -> Self {
        let tally = nodes.iter().map(|node| (node.name.clone(), node.what.clone(), node.capacity));
        TransferDriver {
            tally: NodeCounts::new(tally),
            manager: Manager {
                memory: Mutex::new(memory),
                actions: Handoff::new(),
                data: Arc::default(),
                forgotten: Forgotten::default(),
                combining: ReentrantMutex::new(()),
            },
            tickets: TicketOwners::default(),
            operations: Operations {
                host,
                pools: Vec::new(),
                mode: Subnormals::default(),
                timing: None,
                events: None,
            },
            disk: None,
            log: None,
            followers: None,
            links,
            nodes,
            lanes,
            progress: Progress::default(),
        }
    }

    /// Applies a change to the state machine. The actions that it requests are queued in order, for
    /// [`drain`](crate::engine::Engine::drain).
    pub(crate) fn with_memory<R>(&self, tell: impl FnOnce(&mut Memory) -> R) -> R {
        let mut memory = self.manager.memory.lock();
        while let Some(datum) = self.manager.forgotten.pop() {
            memory.remove(datum);
        }
        let answer = tell(&mut memory);
        let actions = memory.take_actions();
        if !actions.is_empty() {
            self.manager.actions.extend(actions);
        }
        self.tally.uses(
            |node| memory.used(node),
            |node, used| {
                if let Some(log) = &self.log {
                    log.uses(node, used);
                }
            },
        );
        answer
    }

    /// Queries the state machine.
    fn look<R>(&self, ask: impl FnOnce(&Memory) -> R) -> R {
        ask(&self.manager.memory.lock())
    }

    /// Makes new buffers of the calling thread come from a pool until the guard is dropped, so that
    /// they move to GPUs at full speed. With several drivers, this holds for the GPUs of the first.
    pub(crate) fn serve(&self) -> Option<Serving> {
        self.operations.pools.first().map(HostPool::serve)
    }

    /// Frees unused pool memory, now and later.
    fn close_pools(&self) {
        self.operations.pools.iter().for_each(|pool| pool.close());
    }

    /// Makes the manager responsible for the handle's value, unless it is already. The caller holds
    /// the chain's lock of a handle that no task of another runtime can have.
    pub(crate) fn adopt(&self, handle: &dyn AnyHandle) {
        if handle.datum().is_some() {
            return;
        }
        let own = handle.own();
        let meta = own.or(handle.registered()).unwrap_or_default();
        self.with_memory(|memory| {
            let datum = memory.add(meta.format, meta.bytes as u64, own.map(|_| HOST));
            let mut data = self.manager.data.lock();
            let known = (handle.base().id, Arc::downgrade(&handle.arc()));
            match data.get_mut(datum.0 as usize) {
                Some(place) => *place = known,
                None => data.push(known),
            }
            handle.manage(datum, meta, memory.buffer(datum, HOST, meta.format), &self.manager.forgotten);
            if !handle.is_portable() {
                memory.keep(datum);
            }
        });
    }

    fn handle(&self, datum: Datum) -> Option<Arc<dyn AnyHandle>> {
        self.manager.data.lock().get(datum.0 as usize).and_then(|(_, handle)| handle.upgrade())
    }

    fn ticket(&self) -> Ticket {
        Ticket(self.tickets.next.fetch_add(1, Ordering::Relaxed))
    }

    /// True if a worker waits for operands and has no task to run.
    pub(crate) fn waits_for_data(&self, worker: usize) -> bool {
        self.lanes[worker].waits()
    }

    /// True if a worker's device has been given a task that has not ended.
    pub(crate) fn runs(&self, worker: usize) -> bool {
        self.lanes[worker].runs()
    }

    /// Returns the architecture of a worker's device; `None`: it runs CPU functions.
    pub(crate) fn arch(&self, worker: usize) -> Option<Arch> {
        self.nodes[self.node_of(worker)].memory.as_ref().map(|memory| memory.arch())
    }

    /// True for a worker whose device has functions of its own, which launch.
    pub(crate) fn launches(&self, worker: usize) -> bool {
        self.nodes[self.node_of(worker)].memory.is_some()
    }

    /// Returns the memory size of a worker's device in bytes; `None` on the host.
    pub(crate) fn own_memory(&self, worker: usize) -> Option<u64> {
        let node = self.node_of(worker);
        if node == HOST { None } else { self.nodes[node].capacity }
    }

    pub(crate) fn node_of(&self, worker: usize) -> NodeId {
        self.lanes[worker].node
    }

    /// Returns the number of nodes on which tasks and callers can have values: all but the disk.
    pub(crate) fn values_nodes(&self) -> usize {
        self.nodes.len() - usize::from(self.disk.is_some())
    }

    pub(crate) fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| &*node.name)
    }

    /// Returns the statistics of each node.
    pub(crate) fn uses(&self) -> Vec<NodeUse> {
        let mut uses = self.look(|memory| self.tally.with(|node| memory.stats(node)));
        for (counts, node) in uses.iter_mut().zip(&self.nodes) {
            counts.failure = node.failure.get().map(|error| error.reason.clone());
        }
        if let (Some(disk), Some(counts)) = (&self.disk, uses.last_mut()) {
            counts.failure = counts.failure.take().or(disk.refusal());
        }
        uses
    }

    /// The failure of a worker's device, if it has failed.
    pub(crate) fn failure_of(&self, worker: usize) -> Option<&DeviceError> {
        self.nodes[self.node_of(worker)].failure.get()
    }

    pub(crate) fn failures(&self) -> usize {
        self.nodes.iter().filter(|node| node.failure.get().is_some()).count()
    }

    /// True if a device has failed since the task was planned: a policy that had no worker for it
    /// may have one now.
    pub(crate) fn is_plan_stale(&self, work: &Work) -> bool {
        work.planned().ask(|planned| planned.failures < self.failures()).unwrap_or(false)
    }

    /// Adds to the statistics of a worker's device.
    pub(crate) fn count(&self, worker: usize, add: impl FnOnce(&mut NodeUse)) {
        self.tally.add(self.node_of(worker), add);
    }

    /// Notes that a device can run a task.
    pub(crate) fn note_gpu_only(&self, work: &Work) {
        work.planned().ask(|planned| planned.gpu_only = true);
    }

    /// True if that has been noted; `None` for a task that is not planned, and once a device has
    /// failed since.
    pub(crate) fn is_noted_gpu_only(&self, work: &Work) -> Option<bool> {
        let failures = self.failures();
        let noted = |planned: &mut Planned| (planned.failures == failures).then_some(planned.gpu_only);
        work.planned().ask(noted).flatten()
    }

    /// True if a task's operands fit on a worker's node, all at once.
    pub(crate) fn fits(&self, work: &Work, worker: usize) -> bool {
        let node = self.node_of(worker);
        if self.nodes[node].failure.get().is_some() {
            return false;
        }
        let has_room = |plan: &Plan| self.nodes[node].capacity.is_none_or(|most| plan.bytes() <= most);
        let fits = |Planned { plan, .. }: &mut Planned| {
            (node == HOST || !plan.on_host) && self.has_time(plan, worker) && has_room(plan)
        };
        work.planned().ask(fits).unwrap_or(true)
    }

    /// Returns the bytes of a task's operands that are not on a worker's node.
    pub(crate) fn missing(&self, work: &Work, worker: usize) -> u64 {
        let node = self.node_of(worker);
        let missing = |planned: &mut Planned| self.look(|memory| memory.missing(node, &planned.plan.needs));
        work.planned().ask(missing).unwrap_or(0)
    }

    /// Returns the time to bring the task's operands to each node (ns), the host first.
    pub(crate) fn transfer_times(&self, work: &Work) -> SmallVec<[u64; 4]> {
        let times = |planned: &mut Planned| self.look(|memory| memory.transfer_times(&planned.plan.needs));
        work.planned().ask(times).unwrap_or_else(|| smallvec![0; self.nodes.len()])
    }

    /// Returns the label that deferred selection gave a planned task (empty: none), and the bytes
    /// of its operands.
    pub(crate) fn chosen(&self, work: &Work) -> Option<(&'static str, u64)> {
        work.planned().ask(|Planned { plan, .. }| (plan.choice.label, plan.bytes()))
    }

    /// Announces that a worker will run the task. Its operands are evicted later than others, and
    /// are prefetched if there is room.
    pub(crate) fn prefetch(&self, work: &Work, worker: usize) {
        let node = self.node_of(worker);
        work.planned().ask(|planned| {
            if planned.wanted.is_some() {
                return;
            }
            planned.wanted = Some(node);
            self.with_memory(|memory| {
                let needs = &planned.plan.needs;
                memory.want(node, needs);
                // A datum that a failed writer left without a value cannot be fetched.
                let there: Needs =
                    needs.iter().filter(|need| memory.has_value(need.datum)).copied().collect();
                memory.prefetch(node, &there, Reason::TaskPrefetch);
            });
        });
    }

    /// Describes the contents of the workers' lanes and the waits for operands, for the watchdog;
    /// only a few of them.
    pub(crate) fn describe(&self) -> Vec<String> {
        /// Maximum number of lines: more would not be read.
        const NAMED: usize = 8;
        let mut lines: Vec<String> = Vec::new();
        for (worker, lane) in self.lanes.iter().enumerate() {
            if let Some(text) = lane.describe() {
                lines.push(format!("worker {worker} {text}"));
            }
        }
        let waiting: Vec<(Ticket, String)> = {
            let waiting = self.tickets.waiting.lock();
            let title = |waiting: &Waiting| match waiting {
                Waiting::Task(placed) => format!("{:?} for worker {}", placed.task, placed.worker),
                Waiting::Caller(_) => "a caller".into(),
            };
            waiting.iter().take(NAMED).map(|(&ticket, waits)| (ticket, title(waits))).collect()
        };
        self.look(|memory| {
            let line =
                |(ticket, who): (Ticket, String)| format!("{who} waits for {}", memory.waits_for(ticket));
            lines.extend(waiting.into_iter().map(line));
            lines.push(format!("{} transfers", memory.transfers()));
        });
        lines
    }

    /// Waits until all requested operations of devices have ended. True if there were any.
    pub(crate) fn close(&self) -> bool {
        let devices = self.nodes.iter().filter_map(|node| node.device.as_ref());
        let were_open = devices.filter(|device| device.close()).count() > 0;
        self.operations.host.close() || were_open
    }
}
