//! Replicas of one version of a value in other formats: converted here, or received from another
//! process that has the value.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{AnyHandle, Handle, HandleCore};
use crate::error::{Cause, Failure, TaskError, caught};
use crate::format::Format;
use crate::task::{Busy, GiveBack, ReadyTask, Refusal, Resource, Services};
use crate::value::{Data, Meta};

/// Replicas of one version, in addition to the value in the handle's cell.
pub(super) struct Replicas<D: Data> {
    forms: Vec<(Format, ReplicaState<D>)>,
    elsewhere: Option<Arc<Elsewhere<D>>>,
}

enum ReplicaState<D> {
    /// A worker is converting; these tasks wait for it.
    InFlight(Vec<ReadyTask>),
    /// It has been requested, with this number, from the owner of the value; these tasks wait for
    /// it.
    Requested(u64, Vec<ReadyTask>),
    Ready(Arc<D>),
    /// It was requested, and will not come.
    Lost(Arc<Failure>),
}

/// Reason why a replica is not available now.
pub(crate) enum NoReplica {
    /// It is being converted to this format, or has been requested.
    InFlight(Format),
    /// The data type has no such conversion, or it failed.
    Impossible(TaskError),
    /// It could not be received.
    Lost(Arc<Failure>),
}

impl NoReplica {
    /// Converts it into the refusal of a task that reads `handle`.
    pub(crate) fn of(self, handle: &dyn AnyHandle) -> Refusal {
        match self {
            NoReplica::InFlight(to) => Refusal::Busy(Busy::new(handle, Resource::Replica(to))),
            NoReplica::Impossible(error) => Refusal::Failed(error),
            NoReplica::Lost(failure) => Refusal::Poisoned(failure),
        }
    }
}

/// A version in another process; only its meta is here. Its forms are received when tasks read
/// them. It is dropped when the handle's next version is about to be written.
pub struct Elsewhere<D: Data> {
    meta: Meta,
    request: Box<dyn Fn(Format, Arrival<D>) + Send + Sync>,
}

impl<D: Data> Elsewhere<D> {
    /// Creates a remote version; `request` requests a form of it ([`Format::NATIVE`]: in its own
    /// format) without waiting.
    pub fn new(meta: Meta, request: impl Fn(Format, Arrival<D>) + Send + Sync + 'static) -> Self {
        Elsewhere { meta, request: Box::new(request) }
    }
}

/// Destination of a requested form. If it is dropped without an answer, the form is lost.
pub struct Arrival<D: Data> {
    core: Arc<HandleCore<D>>,
    give_back: GiveBack,
    number: u64,
}

impl<D: Data> Default for Replicas<D> {
    fn default() -> Self {
        Replicas { forms: Vec::new(), elsewhere: None }
    }
}

impl<D: Data> Replicas<D> {
    fn find(&self, format: Format) -> Option<Result<Arc<D>, NoReplica>> {
        let (_, replica) = self.forms.iter().find(|(known, _)| *known == format)?;
        Some(match replica {
            ReplicaState::Ready(replica) => Ok(Arc::clone(replica)),
            ReplicaState::InFlight(_) | ReplicaState::Requested(..) => Err(NoReplica::InFlight(format)),
            ReplicaState::Lost(failure) => Err(NoReplica::Lost(Arc::clone(failure))),
        })
    }

    /// Parks a task until the replica is ready; returns the task if nobody is making the replica.
    pub(super) fn park(&mut self, format: Format, task: ReadyTask) -> Result<(), ReadyTask> {
        match self.forms.iter_mut().find(|(known, _)| *known == format) {
            Some((_, ReplicaState::InFlight(parked) | ReplicaState::Requested(_, parked))) => {
                parked.push(task)
            }
            _ => return Err(task),
        }
        Ok(())
    }
}

impl<D: Data> HandleCore<D> {
    /// Returns `master` in format `to`: the first caller converts it, and it is shared until the
    /// next write. `woken` receives the tasks that were parked on the conversion.
    pub(crate) fn replica(
        &self,
        master: &D,
        to: Format,
        woken: &mut Vec<ReadyTask>,
    ) -> Result<Arc<D>, NoReplica> {
        {
            let mut replicas = self.replicas.lock();
            if let Some(known) = replicas.find(to) {
                return known;
            }
            replicas.forms.push((to, ReplicaState::InFlight(Vec::new())));
            self.base.has_replicas.store(true, Ordering::Relaxed);
        }
        let made = caught(|| master.convert(to))
            .map_err(|message| format!("converting {} to {to:?} panicked: {message}", self.base.name()))
            .and_then(|made| made.ok_or_else(|| self.no_conversion(master.meta().format, to)))
            .map(Arc::new);
        let forms = &mut self.replicas.lock().forms;
        let at = forms.iter().position(|(format, _)| *format == to).expect("in flight since above");
        let (_, was) = match &made {
            Ok(replica) => std::mem::replace(&mut forms[at], (to, ReplicaState::Ready(Arc::clone(replica)))),
            Err(_) => forms.swap_remove(at),
        };
        if let ReplicaState::InFlight(parked) = was {
            woken.extend(parked);
        }
        made.map_err(|message| NoReplica::Impossible(message.into()))
    }

    pub(crate) fn no_conversion(&self, from: Format, to: Format) -> String {
        format!(
            "{} is stored in {from:?} and cannot be converted to {to:?}: its data type knows no such conversion",
            self.base.name()
        )
    }

    /// Drops the replicas: a writer is about to make another version.
    #[inline]
    pub(crate) fn drop_replicas(&self) {
        if self.base.has_replicas.load(Ordering::Relaxed) {
            // Dropped after the lock is released: dropping a value is user code.
            let old = std::mem::take(&mut *self.replicas.lock());
            self.base.has_replicas.store(false, Ordering::Relaxed);
            drop(old);
        }
    }

    /// Records that the new version is in another process. The replicas of the previous one have
    /// been dropped.
    pub(crate) fn is_elsewhere(&self, elsewhere: Elsewhere<D>) {
        self.replicas.lock().elsewhere = Some(Arc::new(elsewhere));
        self.base.has_replicas.store(true, Ordering::Relaxed);
    }

    /// Returns the meta of a version in another process.
    pub(crate) fn meta_elsewhere(&self) -> Option<Meta> {
        if !self.base.has_replicas.load(Ordering::Relaxed) {
            return None;
        }
        self.replicas.lock().elsewhere.as_ref().map(|elsewhere| elsewhere.meta)
    }

    /// Returns a form of a version in another process, and requests it if necessary; `None` if the
    /// version is local. `woken` as for [`replica`](Self::replica).
    pub(crate) fn received(
        &self,
        services: &dyn Services,
        format: Format,
        woken: &mut Vec<ReadyTask>,
    ) -> Option<Result<Arc<D>, NoReplica>> {
        let mut replicas = self.replicas.lock();
        let elsewhere = replicas.elsewhere.clone()?;
        let to = if format == elsewhere.meta.format { Format::NATIVE } else { format };
        if let Some(known) = replicas.find(to) {
            return Some(known);
        }
        if to != Format::NATIVE
            && let Some(Ok(whole)) = replicas.find(Format::NATIVE)
        {
            drop(replicas);
            return Some(self.replica(&whole, to, woken));
        }
        let number = services.next_number();
        replicas.forms.push((to, ReplicaState::Requested(number, Vec::new())));
        drop(replicas);
        let give_back = services.give_back();
        (elsewhere.request)(to, Arrival { core: self.itself(), give_back, number });
        Some(Err(NoReplica::InFlight(to)))
    }
}

impl<D: Data> Arrival<D> {
    /// Returns the handle for which the form was requested.
    pub fn handle(&self) -> Handle<D> {
        Handle::from_core(Arc::clone(&self.core))
    }

    /// Delivers the form, or the reason why it will not come.
    pub fn complete(self, form: Result<D, Arc<Failure>>) {
        self.ends(|| match form {
            Ok(form) => ReplicaState::Ready(Arc::new(form)),
            Err(failure) => ReplicaState::Lost(failure),
        });
    }

    fn ends(&self, replica: impl FnOnce() -> ReplicaState<D>) {
        let parked = {
            let mut replicas = self.core.replicas.lock();
            // None if the version is gone: the tasks that waited for it were cancelled.
            let asked = replicas.forms.iter_mut().find_map(|(_, form)| match form {
                ReplicaState::Requested(number, _) if *number == self.number => Some(form),
                _ => None,
            });
            asked.map(|form| std::mem::replace(form, replica()))
        };
        if let Some(ReplicaState::Requested(_, parked)) = parked {
            (self.give_back)(parked);
        }
    }
}

impl<D: Data> Drop for Arrival<D> {
    fn drop(&mut self) {
        let failure = || Failure {
            task: "receive".into(),
            operands: vec![self.core.base.name()],
            cause: Cause::Cancelled,
        };
        self.ends(|| ReplicaState::Lost(Arc::new(failure())));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;
    use crate::operand::whole::write_elsewhere;
    use crate::{Error, Runtime, Submit, TaskRef, read, update, write};

    /// Numbers that are stored in 8 bytes each, or in 4.
    #[derive(Clone, Debug, PartialEq)]
    struct Numbers(Format, Vec<f64>);

    const NARROW: Format = Format(1);

    impl Data for Numbers {
        type Ref<'v> = &'v Numbers;
        type Mut<'v> = &'v mut Numbers;

        fn view(&self) -> &Numbers {
            self
        }

        fn view_mut(&mut self) -> &mut Numbers {
            self
        }

        fn meta(&self) -> Meta {
            Meta { format: self.0, norm: self.1[0], bytes: 8 * self.1.len() }
        }

        fn convert(&self, to: Format) -> Option<Numbers> {
            (to == NARROW).then(|| Numbers(to, self.1.iter().map(|&x| f64::from(x as f32)).collect()))
        }
    }

    fn runtime() -> Runtime {
        Runtime::builder().workers(2).build().unwrap()
    }

    fn numbers() -> Numbers {
        Numbers(Format::NATIVE, vec![1.0 / 3.0, 2.0])
    }

    /// A handle whose value is in another process, and the requests for it.
    struct Case {
        rt: Runtime,
        x: Handle<Numbers>,
        asked: Receiver<(Format, Arrival<Numbers>)>,
        gone: Receiver<()>,
    }

    struct Gone(Sender<()>);

    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    fn case() -> Case {
        let (rt, (ask, asked), (tell, gone)) = (runtime(), channel(), channel());
        let x = rt.register_empty();
        let state = Mutex::new(Some((ask, Gone(tell))));
        let place = move |(place,): (&mut Option<Elsewhere<Numbers>>,)| {
            let (ask, gone) = state.lock().take().expect("it runs once");
            let ask = Mutex::new(ask);
            *place = Some(Elsewhere::new(numbers().meta(), move |format, arrival| {
                let _ = &gone;
                ask.lock().send((format, arrival)).unwrap();
            }));
        };
        rt.task("announced").operands((write_elsewhere(&x),)).cpu(place).submit().unwrap();
        Case { rt, x, asked, gone }
    }

    impl Case {
        /// Adds the first number, in a format.
        fn add(&self, format: Format, sum: &Handle<f64>) -> TaskRef {
            let add = |(x, sum): (&Numbers, &mut f64)| *sum += x.1[0];
            self.rt
                .task("add")
                .operands((read(&self.x).as_format(format), update(sum)))
                .cpu(add)
                .submit()
                .unwrap()
        }

        fn sums<const N: usize>(&self) -> [Handle<f64>; N] {
            std::array::from_fn(|_| self.rt.register(0.0))
        }

        fn next(&self) -> (Format, Arrival<Numbers>) {
            self.asked.recv_timeout(Duration::from_secs(60)).expect("somebody asks")
        }
    }

    #[test]
    fn a_form_is_requested_once_by_whoever_reads_it_first() {
        let case = case();
        let [a, b, c] = case.sums();
        case.add(NARROW, &a);
        case.add(NARROW, &b);
        let (format, arrival) = case.next();
        assert!(format == NARROW && arrival.handle().name() == case.x.name());
        // Other tasks run meanwhile, and a task that accesses only the meta has it.
        let bytes = case.rt.register(0usize);
        let look = |(metas, bytes): (&[Meta], &mut usize)| *bytes = metas[0].bytes;
        case.rt.task("look").operands((crate::metas([&case.x]), update(&bytes))).cpu(look).submit().unwrap();
        assert_eq!(case.rt.take(bytes).unwrap(), 16);
        arrival.complete(Ok(numbers().convert(NARROW).unwrap()));
        let third = f64::from(1.0f32 / 3.0);
        assert_eq!([a, b].map(|sum| case.rt.take(sum).unwrap()), [third; 2]);
        // The native form is requested separately, and serves later requests.
        case.add(Format::NATIVE, &c);
        let (format, arrival) = case.next();
        assert_eq!(format, Format::NATIVE);
        arrival.complete(Ok(numbers()));
        assert_eq!(case.rt.take(c).unwrap(), 1.0 / 3.0);
        assert!(case.asked.try_recv().is_err());
        // The next version ends it.
        let put = |(mut x,): (crate::Slot<'_, Numbers>,)| x.put(Numbers(Format::NATIVE, vec![5.0]));
        case.rt.task("next").operands((write(&case.x),)).cpu(put).submit().unwrap();
        assert_eq!(case.rt.read(&case.x).unwrap().1, [5.0]);
        case.gone.try_recv().expect("nobody requests it any more");
    }

    #[test]
    fn narrow_forms_are_made_from_the_whole_where_it_has_come() {
        let case = case();
        let [a, b] = case.sums();
        case.add(Format::NATIVE, &a);
        case.next().1.complete(Ok(numbers()));
        assert_eq!(case.rt.take(a).unwrap(), 1.0 / 3.0);
        case.add(NARROW, &b);
        assert_eq!(case.rt.take(b).unwrap(), f64::from(1.0f32 / 3.0));
        assert!(case.asked.try_recv().is_err());
    }

    #[test]
    fn what_does_not_come_fails_who_waits_for_it() {
        let case = case();
        let [a, b, c] = case.sums();
        let failure = Failure { task: "potrf".into(), operands: Vec::new(), cause: Cause::Cancelled };
        case.add(Format::NATIVE, &a);
        case.next().1.complete(Err(Arc::new(failure)));
        case.add(NARROW, &b);
        // Dropped without an answer.
        drop(case.next());
        for (sum, task) in [(a, "potrf"), (b, "receive")] {
            match case.rt.take(sum) {
                Err(Error::Poisoned { failure, .. }) => assert_eq!(failure.task, task),
                other => panic!("{other:?}"),
            }
        }
        // A writer that fails before it has written ends it, too.
        let lost = case.rt.task("lost").operands((read(&c), write(&case.x)));
        lost.cpu(|_| Err("on purpose")).submit().unwrap();
        case.rt.wait_all().unwrap_err();
        case.gone.try_recv().expect("nobody requests it any more");
    }
}
