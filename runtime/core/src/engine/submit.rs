//! From a described task to one in the dependency graph.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::Shared;
use super::threads::current;
use crate::data::HandleBase;
use crate::deps::{AccessRights, Group, Linker};
use crate::engine::Work;
use crate::error::Error;
use crate::operand::{Accesses, Declared, Mode};
use crate::sched::ReadyTask;
use crate::task::{Body, Header, Options, Role, Spec, Tally, Task, TaskCell, TaskRef};

/// Whether a task may name handles that were taken or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retired {
    /// Nobody submits tasks on them any more.
    Refused,
    /// Except who waits for the tasks that there still are.
    Allowed,
}

/// Where dependencies are noted while chains are locked.
struct Linking<'s> {
    shared: &'s Shared,
    finished: RefCell<SmallVec<[Arc<Group>; 1]>>,
}

impl Linker for Linking<'_> {
    fn next_id(&self) -> u64 {
        self.shared.next_ids(1)
    }

    fn edge(&self, from: u64, to: u64) {
        if let Some(recorder) = &self.shared.recorder {
            recorder.edge(from, to);
        }
    }

    fn finish_later(&self, group: Arc<Group>) {
        self.finished.borrow_mut().push(group);
    }
}

/// Refuses a task that names one handle twice and writes it. `order` lists the accesses by handle.
pub(crate) fn check_aliases(task: &str, accesses: &Accesses<'_>, order: &[usize]) -> Result<(), Error> {
    for pair in order.windows(2) {
        let (a, b) = (&accesses[pair[0]], &accesses[pair[1]]);
        if a.base.id == b.base.id && (a.mode.writes() || b.mode.writes()) {
            return Err(Error::Aliased { task: task.into(), handle: a.base.name() });
        }
    }
    Ok(())
}

/// The accesses in the order of their handles' ids, in which chains are locked.
pub(crate) fn by_handle(accesses: &Accesses<'_>) -> SmallVec<[usize; 8]> {
    let mut order: SmallVec<[usize; 8]> = SmallVec::new();
    for i in 0..accesses.len() {
        order.push(i);
    }
    order.sort_unstable_by_key(|&i| accesses[i].base.id);
    order
}

/// Refuses an access that cannot have a value, or that the handle's rights forbids. The chain's `written` and `rights` are
/// passed in.
pub(crate) fn check_access(
    task: &str,
    access: &Declared<'_>,
    written: bool,
    rights: AccessRights,
) -> Result<(), Error> {
    let name = |base: &HandleBase| base.name();
    if !rights.allows(access) {
        return Err(rights.refusal(task, name(access.base)));
    }
    if access.mode.reads() && !written {
        return Err(Error::Unwritten { task: task.into(), handle: name(access.base) });
    }
    if access.mode == Mode::Reduce && !access.handle.has_reduction() {
        return Err(Error::NoReduction { task: task.into(), handle: name(access.base) });
    }
    Ok(())
}

impl Shared {
    /// An algorithm is about to submit a step of so many tasks.
    pub(crate) fn announce_step(&self, tasks: usize) {
        self.window.widen(tasks, self.submitted.load(Ordering::Relaxed));
    }

    /// What counts the tasks of the calling body, if it is called in one.
    pub(crate) fn tally_of_body(&self) -> Option<Arc<Tally>> {
        current::tally(self)
    }

    /// Accepts a task; of the calling body's, if it is called in one.
    pub(crate) fn submit<B: Body + 'static>(self: &Arc<Self>, spec: Spec<B>) -> Result<TaskRef, Error> {
        let Spec { body, options } = spec;
        let (header, after) = self.admit(options)?;
        self.accept(TaskCell::make(header, Role::Work, body), &after)
    }

    /// The same, for a task that `tally` counts.
    pub(crate) fn submit_in<B: Body + 'static>(
        self: &Arc<Self>,
        spec: Spec<B>,
        tally: Option<Arc<Tally>>,
    ) -> Result<TaskRef, Error> {
        let Spec { body, options } = spec;
        let (header, after) = self.admit_to(options, tally)?;
        self.accept(TaskCell::make(header, Role::Work, body), &after)
    }

    /// Waits until there is room for a task; returns its header, and the tasks that it comes after.
    #[inline(never)]
    fn admit(self: &Arc<Self>, options: Options) -> Result<(Header, SmallVec<[TaskRef; 2]>), Error> {
        self.admit_to(options, current::tally(self))
    }

    fn admit_to(
        self: &Arc<Self>,
        options: Options,
        tally: Option<Arc<Tally>>,
    ) -> Result<(Header, SmallVec<[TaskRef; 2]>), Error> {
        self.wait_for_room()?;
        Ok(options.into_header(self.next_ids(1), self.id, tally))
    }

    /// Takes in a task whose type is forgotten.
    #[inline(never)]
    fn accept(self: &Arc<Self>, task: TaskRef, after: &[TaskRef]) -> Result<TaskRef, Error> {
        self.check_place(task.cell())?;
        let tally = &task.cell().header.tally;
        if let Some(tally) = tally {
            tally.add();
        }
        let linked = self.link(&task, after, Retired::Refused);
        if let (Err(_), Some(tally)) = (&linked, tally) {
            tally.remove(None, self);
        }
        linked.map(|()| task)
    }

    /// Refuses a task that no worker may run.
    fn check_place(&self, task: &Task) -> Result<(), Error> {
        let header = &task.header;
        let anywhere = header.only.is_none() && self.transfers.is_none();
        if anywhere || (0..self.workers.len()).any(|worker| self.admits(header, &task.body, worker)) {
            return Ok(());
        }
        let (task, only) = (header.title(), header.only.as_deref());
        let kinds: Vec<&str> = self.workers.iter().map(|worker| &*worker.kind).collect();
        Err(Error::Config(match only.map_or((None, None), |only| (only.worker, only.kinds)) {
            (Some(worker), _) if worker >= kinds.len() => {
                format!("task {task} is to run on worker {worker}: there are {}, from 0", kinds.len())
            }
            (_, Some(wanted)) => {
                format!("task {task} is to run on {wanted:?}, and the workers drive {kinds:?}")
            }
            _ => {
                format!("task {task}: its codelet can execute on none of the workers, which drive {kinds:?}")
            }
        }))
    }

    /// Puts `task` into the chains of its handles and, if nothing holds it back, starts it.
    pub(crate) fn link(
        self: &Arc<Self>,
        task: &TaskRef,
        after: &[TaskRef],
        retired: Retired,
    ) -> Result<(), Error> {
        self.check_process()?;
        let cell = task.cell();
        if let Some(foreign) = after.iter().find(|earlier| !earlier.belongs_to(self.id)) {
            return Err(Error::Foreign { what: format!("task {}", foreign.name()) });
        }
        let mut accesses = Accesses::new();
        cell.body.declare(&mut accesses);
        let order = by_handle(&accesses);
        check_aliases(cell.header.name, &accesses, &order)?;
        let linking = Linking { shared: self, finished: RefCell::default() };
        self.link_locked(cell, &accesses, &order, after, retired, &linking)?;

        if let Some(transfers) = self.transfers.as_ref().filter(|_| cell.role != Role::Gate) {
            transfers.will_use(cell, self.home_of(&cell.header));
            if transfers.is_limited() {
                self.drain();
            }
        }
        // From here on the task is the runtime's: this reference becomes the ReadyTask.
        self.remember(task);
        if cell.role != Role::Gate {
            self.submitted.fetch_add(1, Ordering::AcqRel);
        }
        std::mem::forget(Arc::clone(cell));
        for group in linking.finished.into_inner() {
            self.complete_group(&group);
        }
        if cell.end_links() {
            // SAFETY: the reference forgotten above.
            let cell = unsafe { Arc::from_raw(Arc::as_ptr(cell)) };
            self.start(cell, current::worker_of(self));
        }
        Ok(())
    }

    /// Locks all chains of the task, checks every access, then links them all or none.
    fn link_locked(
        &self,
        cell: &Arc<Task>,
        accesses: &Accesses<'_>,
        order: &[usize],
        after: &[TaskRef],
        retired: Retired,
        linking: &Linking<'_>,
    ) -> Result<(), Error> {
        let mut chains: SmallVec<[_; 4]> = SmallVec::new();
        // Position of each access's chain among the locked ones.
        let mut chain_of: SmallVec<[usize; 8]> = SmallVec::from_elem(0, accesses.len());
        for (n, &i) in order.iter().enumerate() {
            if n == 0 || accesses[order[n - 1]].base.id != accesses[i].base.id {
                chains.push(accesses[i].base.chain.lock());
            }
            let chain = chains.last().expect("just pushed");
            let rights = match chain.rights {
                AccessRights::Gone if retired == Retired::Allowed => AccessRights::Open,
                rights => rights,
            };
            check_access(cell.header.name, &accesses[i], chain.written, rights)?;
            if !accesses[i].base.belongs_to(self.id) {
                return Err(Error::Foreign { what: accesses[i].base.name() });
            }
            if let Some(transfers) = &self.transfers {
                transfers.adopt(accesses[i].handle);
            }
            chain_of[i] = chains.len() - 1;
        }
        if let Some(transfers) = self.transfers.as_ref().filter(|_| cell.role == Role::Work) {
            // What was registered holds until it is written; of an empty handle its first writer is taken at its word.
            let trusted = |at: usize| u32::from(!accesses[at].handle.began_written());
            let sized = |at: usize| chains[chain_of[at]].writers <= trusted(at);
            transfers.check_fits(self, cell, accesses, sized)?;
        }
        Task::begin_links(cell, accesses.len() + after.len());
        let task = TaskRef::from_cell(Arc::clone(cell));
        for (slot, access) in accesses.iter().enumerate() {
            chains[chain_of[slot]].access(access.handle, &task, slot, access.mode, linking);
        }
        for (n, earlier) in after.iter().enumerate() {
            linking.edge(earlier.id(), task.id());
            Task::follow(cell, accesses.len() + n, earlier.cell().successors());
        }
        Ok(())
    }

    /// All predecessors of `task` have completed.
    pub(crate) fn start(self: &Arc<Self>, task: Arc<Task>, from: Option<usize>) {
        match task.role {
            Role::Work => self.push_ready(ReadyTask::new(Work::Task(task)), from),
            Role::Gate => {
                if !task.open_gate() {
                    self.close_gate(&task);
                }
                self.wake_waiters_of(&task);
            }
            Role::Replay => task.body.start(self, Arc::clone(&task)),
        }
    }
}
