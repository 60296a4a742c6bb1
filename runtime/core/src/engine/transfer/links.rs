//! Speed of the links between memory nodes: declared by their devices, known to performance models,
//! or measured at their first use.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use zellige_model::{LinkError, LinkModel, Models};

use super::disk;
use super::probe::{Bytes, Ladder, host_copy};
use super::{MemoryNode, TransferDriver};
use crate::device::Stream;
use crate::device::{Op, Span, StreamId};
use crate::engine::Engine;
use crate::error::DeviceError;
use crate::memory::{HOST, LinkSpec, NodeId, Transfer};
use crate::value::Carrier;

/// A direction from one node to another.
pub(super) type Route = (NodeId, NodeId);

/// Assumed speed of a link without data, or with implausible data: slow, so that nothing is moved
/// without need.
const ASSUMED: LinkSpec = LinkSpec { bandwidth: 4e9, latency_ns: 20_000 };

/// Assumed speed of conversions on a node: used only to choose among sources.
const CONVERTS: LinkSpec = LinkSpec { bandwidth: 20e9, latency_ns: 0 };

/// Smallest transfer that is used to estimate a link's bandwidth (bytes).
const TELLING: u64 = 16 << 10;

/// Number of transfers after which a link's figures are estimated again.
const LEARNT_FROM: usize = 32;

/// State of the measurements.
pub(super) struct LinkMeasurements {
    unknown: Mutex<Unknown>,
    /// The links that no device declares, with the present figures of each and the transfers since
    /// then.
    learnt: Mutex<Vec<Learnt>>,
    /// Notified when a measurement has ended.
    ended: Condvar,
    /// The models to query first, and to update.
    models: Option<Arc<Models>>,
}

struct Learnt {
    way: Route,
    known: LinkModel,
    samples: Vec<(u64, Duration)>,
}

#[derive(Default)]
struct Unknown {
    /// Links to be measured at their first use.
    unused: Vec<Route>,
    /// Links being measured.
    under_way: Vec<Route>,
}

impl LinkMeasurements {
    pub(super) fn new(models: Option<Arc<Models>>) -> Self {
        LinkMeasurements {
            unknown: Mutex::default(),
            learnt: Mutex::default(),
            ended: Condvar::new(),
            models,
        }
    }

    /// Returns the figures that the memory manager starts with. Every device is linked to the host,
    /// and to every other device if they are `peers`; the disk is linked to the host alone. Links
    /// that no device declares and no model knows will be measured.
    pub(super) fn specs(
        &self,
        nodes: &[MemoryNode],
        peers: bool,
        disk: Option<NodeId>,
    ) -> Vec<Vec<Option<LinkSpec>>> {
        let link = |from: NodeId, to: NodeId| {
            if from == to {
                return Some(CONVERTS);
            }
            if Some(from) == disk || Some(to) == disk {
                return (from == HOST || to == HOST).then_some(disk::LINK);
            }
            if from != HOST && to != HOST && !(peers && nodes[from].is_peer_of(&nodes[to])) {
                return None;
            }
            let declared = nodes[mover((from, to))].device.as_ref().and_then(|device| device.link(from, to));
            if declared.is_some() {
                return declared;
            }
            let models = self.models.as_ref();
            let known = models.and_then(|models| models.link(&nodes[from].link_end, &nodes[to].link_end));
            if known.is_none() {
                self.unknown.lock().unused.push((from, to));
            }
            let known = known.unwrap_or_else(assumed);
            self.learnt.lock().push(Learnt { way: (from, to), known, samples: Vec::new() });
            Some(spec(known))
        };
        let all = 0..nodes.len();
        all.clone().map(|from| all.clone().map(|to| link(from, to)).collect()).collect()
    }

    /// Adds the time of a transfer. Returns the new figures of the link, if they are estimated
    /// again.
    fn learn(&self, way: Route, bytes: u64, time: Duration) -> Option<LinkModel> {
        let mut learnt = self.learnt.lock();
        let link = learnt.iter_mut().find(|link| link.way == way)?;
        link.samples.push((bytes, time));
        if link.samples.len() < LEARNT_FROM {
            return None;
        }
        // Implausible figures change nothing.
        let now = link.known.learnt(&link.samples).ok();
        link.samples.clear();
        now
    }

    /// True, once, for a link that is to be measured: the caller begins the measurement.
    fn begins(&self, way: Route) -> bool {
        let mut unknown = self.unknown.lock();
        let Some(at) = unknown.unused.iter().position(|unused| *unused == way) else { return false };
        unknown.unused.swap_remove(at);
        unknown.under_way.push(way);
        true
    }

    fn ends(&self, way: Route) {
        self.unknown.lock().under_way.retain(|under_way| *under_way != way);
        self.ended.notify_all();
    }
}

/// Returns the node whose device executes transfers in this direction.
pub(super) fn mover((from, to): Route) -> NodeId {
    if from == HOST { to } else { from }
}

/// Returns the model for [`ASSUMED`].
fn assumed() -> LinkModel {
    LinkModel::new(ASSUMED.bandwidth, ASSUMED.latency_ns as f64 * 1e-9).expect("a link that can be")
}

fn spec(link: LinkModel) -> LinkSpec {
    LinkSpec { bandwidth: link.bandwidth(), latency_ns: (link.latency() * 1e9).round() as u64 }
}

/// A measurement in progress. Each transfer's end puts the next one on the link's stream; no thread
/// waits for it.
struct Measurement {
    engine: Arc<Engine>,
    way: Route,
    ladder: Ladder,
    /// The bytes that are sent over the link; the transfer holds them while it is in progress.
    bytes: Bytes,
    /// Continuation that runs once the link is known.
    then: Box<dyn FnOnce() + Send>,
}

impl Engine {
    /// Calls `then` at once, or after the link has been measured, if this is its first use.
    pub(super) fn once_known(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        way: Route,
        then: impl FnOnce() + Send + 'static,
    ) {
        if !transfers.links.begins(way) {
            return then();
        }
        let (ladder, bytes) = (Ladder::default(), Bytes::new(0));
        Measurement { engine: Arc::clone(self), way, ladder, bytes, then: Box::new(then) }.go_on();
    }

    /// Measures every link that has not been used yet, one after the other, and waits for the
    /// results.
    pub(crate) fn measure_links(self: &Arc<Self>) {
        let Some(transfers) = &self.transfers else { return };
        loop {
            let Some(way) = transfers.links.unknown.lock().unused.first().copied() else { break };
            self.once_known(transfers, way, || ());
            while self.time.events.as_ref().is_some_and(|events| events.pass()) {}
            transfers.links.wait();
        }
        transfers.links.wait();
    }
}

impl LinkMeasurements {
    /// Waits until no measurement is in progress.
    fn wait(&self) {
        let mut unknown = self.unknown.lock();
        self.ended.wait_while(&mut unknown, |unknown| !unknown.under_way.is_empty());
    }
}

impl Measurement {
    /// Sends the next size, or ends the measurement.
    fn go_on(mut self) {
        let Some(bytes) = self.ladder.next() else { return self.end(true) };
        let engine = Arc::clone(&self.engine);
        let transfers = engine.transfers.as_ref().expect("links belong to a transfers");
        if self.bytes.len() != bytes {
            let _serving = transfers.serve();
            self.bytes = Bytes::new(bytes);
        }
        let device = transfers.nodes[mover(self.way)].device.as_ref().expect("the host moves nothing");
        let stream = StreamId::Link(self.way.0, self.way.1);
        device.enqueue(stream, self.transfer(bytes));
    }

    fn transfer(mut self, bytes: u64) -> Op {
        let sent = Arc::new(Mutex::new(Some(std::mem::replace(&mut self.bytes, Bytes::new(0)))));
        let back = Arc::clone(&sent);
        let (engine, way) = (Arc::clone(&self.engine), self.way);
        let run = move |stream: Option<&Arc<dyn Stream>>| {
            // Taken out first: no lock is held during a copy.
            let taken = sent.lock().take();
            let Some(mut bytes) = taken else { return Ok(()) };
            let transfers = engine.transfers.as_ref().expect("links belong to a transfers");
            let ran = transfers.send_probe(way, &mut bytes, stream);
            *sent.lock() = Some(bytes);
            ran
        };
        let done = move |ended: Result<Span, DeviceError>| {
            let Ok(span) = ended else { return self.end(false) };
            self.bytes = back.lock().take().unwrap_or(Bytes::new(0));
            self.ladder.add(span.end.saturating_duration_since(span.start));
            self.go_on();
        };
        Op::new(Some(bytes), Box::new(run), Box::new(done))
    }

    /// Ends the measurement of the link. A failed device reports its failure to the next operations
    /// itself.
    fn end(self, alive: bool) {
        let Measurement { engine, way, ladder, then, .. } = self;
        let transfers = engine.transfers.as_ref().expect("links belong to a transfers");
        if alive {
            transfers.note_link(way, ladder.judge(host_copy()));
        }
        transfers.links.ends(way);
        then();
    }
}

impl TransferDriver {
    fn send_probe(
        &self,
        way: Route,
        bytes: &mut Bytes,
        stream: Option<&Arc<dyn Stream>>,
    ) -> Result<(), DeviceError> {
        let Some(stream) = stream else {
            bytes.copy();
            return Ok(());
        };
        let [from, to] = [way.0, way.1].map(|node| self.nodes[node].memory.as_ref());
        let sent = Carrier { stream: &**stream }.probe(from, to, bytes.both());
        sent.map_err(|error| stream.failure(&error))
    }

    /// Adds the time of a transfer: links whose devices do not declare them are estimated from
    /// their transfers.
    pub(super) fn learn_link(&self, transfer: &Transfer, span: &Span) {
        let telling = transfer.bytes >= TELLING && transfer.converts.is_none();
        let (way, time) = ((transfer.from, transfer.to), span.end.saturating_duration_since(span.start));
        if telling && let Some(link) = self.links.learn(way, transfer.bytes, time) {
            self.link_is(way, link);
        }
    }

    fn link_is(&self, way: Route, link: LinkModel) {
        self.with_memory(|memory| memory.set_link(way.0, way.1, spec(link)));
        if let Some(known) = self.links.learnt.lock().iter_mut().find(|known| known.way == way) {
            known.known = link;
        }
        if let Some(models) = &self.links.models {
            models.set_link(&self.nodes[way.0].link_end, &self.nodes[way.1].link_end, link);
        }
    }

    /// Reports a link to the memory manager and the models, if its figures are plausible.
    fn note_link(&self, way: Route, judged: Result<LinkModel, LinkError>) {
        let (from, to) = (&*self.nodes[way.0].name, &*self.nodes[way.1].name);
        match judged {
            Ok(link) => self.link_is(way, link),
            Err(error) => tracing::warn!(
                "the link from {from} to {to} is not believed: {error}; {:e} B/s and {:e} s are assumed",
                ASSUMED.bandwidth,
                ASSUMED.latency_ns as f64 * 1e-9
            ),
        }
    }
}
