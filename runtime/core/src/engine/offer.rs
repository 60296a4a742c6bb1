//! A version of a value that other processes may request: a gate that stays open until they no
//! longer need it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Engine, Retired, gate};
use crate::error::{Error, Failure};
use crate::format::Format;
use crate::operand::Mode;
use crate::task::{Accesses, Body, Declared, Env, Handle, HandleCore, NoReplica, Ran, TaskPtr};
use crate::value::{Data, Kind, Meta, Viewer};

/// One version of a handle's value, that of its last writer so far, for other processes. Tasks that
/// write the handle wait until this is dropped. It is not a task: it does not count for the window,
/// and a wait for all tasks does not include it. It requires a runtime whose only memory node is
/// the host.
pub struct Offer<D: Data> {
    engine: Arc<Engine>,
    core: Arc<HandleCore<D>>,
    task: TaskPtr,
}

/// Callback that gets the meta of the version, or the reason why there is none.
type Opened = Box<dyn FnOnce(Result<Meta, Arc<Failure>>) + Send>;

/// The gate's body.
struct OfferBody<D: Data>(Arc<HandleCore<D>>, Mutex<Option<Opened>>);

/// Returns the meta of the version at the gate, which is open.
fn meta<D: Data>(core: &HandleCore<D>) -> Meta {
    // SAFETY: the gate, whose turn has come, is a reading access.
    unsafe { core.cell.engine() }.map(Data::meta).unwrap_or_default()
}

impl<D: Data> Body for OfferBody<D> {
    fn passes(&self) -> bool {
        let core = &self.0;
        let failure = core.base.failure();
        let has_failed = failure.is_some();
        if let Some(opened) = self.1.lock().take() {
            opened(failure.map_or_else(|| Ok(meta(core)), Err));
        }
        has_failed
    }

    fn run<'e>(&'e self, _env: &mut Env<'e>) -> Ran {
        unreachable!("a gate is opened, not run")
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.push(Declared { inner: true, ..(&self.0, Mode::Read).into() });
    }

    fn clear(&self) {}
}

impl<D: Data> Offer<D> {
    /// Creates an offer, see [`of`](Self::of).
    pub(crate) fn new(
        engine: &Arc<Engine>,
        handle: &Handle<D>,
        opened: impl FnOnce(Result<Meta, Arc<Failure>>) + Send + 'static,
    ) -> Self {
        let (engine, core) = (Arc::clone(engine), Arc::clone(handle.core()));
        let body = OfferBody(Arc::clone(&core), Mutex::new(Some(Box::new(opened))));
        let task = gate(&engine, "offer", body);
        Offer { engine, core, task }
    }

    /// Starts the offer with the version of the tasks submitted before this call.
    ///
    /// # Errors
    /// Those of a submission.
    pub fn begins(&self) -> Result<(), Error> {
        self.engine.link(TaskPtr::clone(&self.task), &[], Retired::Refused)
    }

    /// Returns the handle.
    pub fn handle(&self) -> Handle<D> {
        Handle::from_core(Arc::clone(&self.core))
    }

    /// Returns the size of a form of the value, as far as it is known (bytes).
    pub fn bytes_as(&self, format: Format) -> usize {
        let meta = meta(&self.core);
        D::size_as(&meta, format).unwrap_or(meta.bytes)
    }

    /// Appends a form of the value to `out`, as [`Portability::pack`](crate::data::Portability)
    /// does; returns the size in the meta of that form (bytes).
    ///
    /// # Errors
    /// If there is no such form, or it cannot leave its process.
    pub fn pack(&self, format: Format, out: &mut Vec<u8>) -> Result<usize, String> {
        let core = &self.core;
        let view = core.cell.view(Kind::Shared, &core.base, Viewer::runtime("a value that is sent"));
        let _view = self.engine.granted(view);
        // SAFETY: the gate, which is open, is a reading access.
        let value =
            unsafe { core.cell.engine() }.ok_or_else(|| format!("{} holds no value", core.base.name()))?;
        let mut pack = |value: &D| {
            let packed = D::portability().and_then(|travel| (travel.pack)(value, out));
            packed.ok_or_else(|| format!("{} has no wire encoding", core.base.name()))
        };
        if format == Format::NATIVE || format == value.meta().format {
            return pack(value);
        }
        let mut woken = Vec::new();
        let replica = core.replica(value, format, &mut woken);
        woken.into_iter().for_each(|task| self.engine.push_ready(task, None));
        match replica {
            Ok(replica) => pack(&replica),
            // Another thread is making it: do not wait for it here.
            Err(NoReplica::InFlight(_)) => {
                let made = value.convert(format);
                pack(&made.ok_or_else(|| core.no_conversion(value.meta().format, format))?)
            }
            Err(NoReplica::Impossible(error)) => Err(error.to_string()),
            Err(NoReplica::Lost(failure)) => Err(failure.to_string()),
        }
    }
}

impl<D: Data> Drop for Offer<D> {
    fn drop(&mut self) {
        if self.task.ticket.leave_gate() {
            self.engine.close_gate(&self.task);
            self.engine.workers.sleep.rouse_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::{Runtime, Submit, update, write};

    fn runtime() -> Runtime {
        Runtime::builder().workers(2).build().unwrap()
    }

    #[test]
    fn an_offer_holds_its_version_until_it_is_dropped() {
        let (rt, (told, tell)) = (runtime(), channel());
        let x = rt.register_empty::<Vec<f64>>();
        let fill = |value: f64| {
            let put = move |(mut x,): (crate::Slot<'_, Vec<f64>>,)| x.put(vec![value; 3]);
            rt.task("fill").operands((write(&x),)).cpu(put).submit().unwrap()
        };
        fill(1.5);
        let offer =
            Offer::new(rt.engine(), &x, move |version| told.send(version.map(|meta| meta.bytes)).unwrap());
        offer.begins().unwrap();
        let next = fill(7.0);
        let bytes = tell.recv_timeout(Duration::from_secs(60)).expect("it opens");
        assert_eq!(bytes.unwrap(), 24);
        let mut packed = Vec::new();
        assert_eq!(offer.pack(Format::NATIVE, &mut packed).unwrap(), offer.bytes_as(Format::NATIVE));
        assert_eq!(Vec::<f64>::portability().unwrap().unpack(&packed).unwrap(), [1.5; 3]);
        assert!(offer.pack(Format(9), &mut packed).unwrap_err().contains("cannot be converted"));
        assert!(!next.is_done());
        drop(offer);
        assert_eq!(*rt.read(&x).unwrap(), [7.0; 3]);
    }

    #[test]
    fn an_offer_of_what_failed_says_so_and_holds_nothing() {
        let (rt, (told, tell)) = (runtime(), channel());
        let x = rt.register(1.0f64);
        rt.task("bad").operands((update(&x),)).cpu(|_| Err("no")).submit().unwrap();
        let offer = Offer::new(rt.engine(), &x, move |version| told.send(version).unwrap());
        offer.begins().unwrap();
        let failure = tell.recv_timeout(Duration::from_secs(60)).expect("it is told").unwrap_err();
        assert_eq!(failure.task, "bad");
        let put = |(mut x,): (crate::Slot<'_, f64>,)| x.put(2.0);
        rt.task("fill").operands((write(&x),)).cpu(put).submit().unwrap();
        assert_eq!(*rt.read(&x).unwrap(), 2.0);
        drop(offer);
    }
}
