//! The knowledge of every rank about the data of its cluster, and its consequences for a task.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use zellige_runtime::internal::Body;
use zellige_runtime::internal::ranks::{Named, number_of, outline};
use zellige_runtime::{Data, Error, Format, Handle, Mode};

use crate::deferred::DEFERRED;
use crate::journal::mix;
use crate::remote::{Remote, WHOLE};
use crate::wire::Key;

/// The data of a cluster, by the numbers of their handles.
#[derive(Default)]
pub(crate) struct ClusterState {
    pub(crate) data: HashMap<u64, Datum, BuildHasherDefault<Multiply>>,
    /// Handles of values that are private to each rank.
    pub(crate) local: HashSet<u64, BuildHasherDefault<Multiply>>,
    /// Handles among them whose values are equal on all ranks.
    pub(crate) replicated: HashSet<u64, BuildHasherDefault<Multiply>>,
    next_tag: u64,
    /// Number of data at which unreachable ones are searched for.
    sweep_at: usize,
    /// Number of collective calls so far.
    pub(crate) calls: u64,
    /// Number of recordings so far.
    pub(crate) recordings: u64,
    /// Accesses of the task that is being submitted.
    pub(crate) accesses: Vec<Named>,
}

/// The information of every rank about a datum. Some of it is known only on ranks that have its
/// newest version, or a replica.
pub(crate) struct Datum {
    pub(crate) remote: Box<dyn Remote>,
    pub(crate) tag: u64,
    /// The rank whose tasks write it, once that is decided.
    pub(crate) owner: Option<usize>,
    /// The rank that has the newest version, if there is one.
    pub(crate) location: usize,
    pub(crate) version: u64,
    /// True if it has a version.
    pub(crate) written: bool,
    /// True if its values can leave their process.
    pub(crate) travels: bool,
    /// Format of its registered or expected value: a request for this format gets the value
    /// unchanged.
    pub(crate) usual: Format,
    /// Ranks that have the newest version, or will have, besides its location, in the order of the
    /// sends, and the form of each. If no [`relays`] are needed, only the ranks to which this rank
    /// has sent it, or this rank.
    pub(crate) replicas: Replicas,
}

/// Ranks, and the form that each has.
pub(crate) type Replicas = Vec<(usize, Format)>;

/// Number of ranks to which a rank sends a form of a version.
const FAN_OUT: usize = 4;

/// True if there are so many ranks that some get values from others than their location: then all
/// ranks track the replicas.
pub(crate) fn relays(ranks: usize) -> bool {
    ranks > FAN_OUT + 1
}

/// Returns the sender of a form to the next rank: the location of the version, and then the ranks
/// that have got it, in their order.
pub(crate) fn sender(replicas: &[(usize, Format)], form: Format, location: usize) -> usize {
    let mut same = replicas.iter().filter(|(_, other)| *other == form).map(|&(rank, _)| rank);
    let before = same.clone().count();
    (before / FAN_OUT).checked_sub(1).and_then(|place| same.nth(place)).unwrap_or(location)
}

/// Placement of a task, with its consequences.
pub(crate) struct Place {
    pub(crate) rank: usize,
    /// True if it runs on all ranks, each of which writes its copies.
    pub(crate) everywhere: bool,
    /// Hash of its properties beyond its name: the same on all ranks.
    pub(crate) hash: u64,
    /// The tag of the first datum that it names.
    pub(crate) first: Option<u64>,
    /// True if one of its inputs is on this rank.
    pub(crate) is_source: bool,
    /// True if one of its inputs cannot leave its process.
    pub(crate) stays: bool,
}

impl Place {
    /// Returns the ranks that run it, among `ranks` ranks.
    pub(crate) fn ranks(&self, ranks: usize) -> Range<usize> {
        if self.everywhere { 0..ranks } else { self.rank..self.rank + 1 }
    }
}

/// Hashes handles' numbers, which nobody chooses to collide.
#[derive(Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0, number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Below this number of data, unreachable ones are not searched for.
const FEW: usize = 1024;

impl ClusterState {
    /// Adds a datum, and gives it its tag.
    pub(crate) fn add(&mut self, handle: u64, datum: Datum) -> u64 {
        if self.data.len() >= self.sweep_at.max(FEW) {
            self.data.retain(|_, datum| datum.remote.is_alive());
            self.sweep_at = 2 * self.data.len();
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        self.data.insert(handle, Datum { tag, ..datum });
        tag
    }

    pub(crate) fn find<D: Data>(&mut self, handle: &Handle<D>) -> Result<&mut Datum, Error> {
        self.data.get_mut(&number_of(handle)).ok_or_else(|| not_here(handle.name()))
    }

    /// Returns the placement of a task, as seen from rank `me`, and its accesses.
    /// `will_be_written`: true if a datum without a value will have one.
    ///
    /// # Errors
    /// [`Error::Config`] for a task that would have to run on all ranks and on one; those of
    /// [`outline`].
    pub(crate) fn place<B: Body + ?Sized>(
        &self,
        me: usize,
        (name, body): (&'static str, &B),
        accesses: &mut Vec<Named>,
        will_be_written: impl Fn(u64) -> bool,
    ) -> Result<Place, Error> {
        let (mut hash, mut first, mut is_source, mut stays) = (0, None, false, false);
        let (mut of_writes, mut of_reads, mut everywhere, mut writes_datum) = (None, None, false, false);
        let see = |access: &Named, handle: &dyn Fn() -> String| {
            let Some(datum) = self.data.get(&access.handle) else {
                everywhere |= access.mode.writes() && self.replicated.contains(&access.handle);
                return if self.local.contains(&access.handle) { Ok(true) } else { Err(not_here(handle())) };
            };
            writes_datum |= access.mode.writes();
            first.get_or_insert(datum.tag);
            let owner = if access.mode.writes() { &mut of_writes } else { &mut of_reads };
            *owner = owner.or(datum.owner);
            let how = access.mode as u64 | (u64::from(access.format.unwrap_or(DEFERRED).0) << 8);
            hash = mix(mix(hash, datum.tag), how);
            if access.mode.reads() {
                is_source |= datum.location == me;
                stays |= !datum.travels;
            }
            Ok(datum.written || will_be_written(access.handle))
        };
        outline(name, body, see, accesses)?;
        if everywhere && writes_datum {
            return Err(Error::Config(format!(
                "task {name} writes a replicated value, which all ranks would have to do, and one that a rank \
                 owns: make it two tasks"
            )));
        }
        let rank = if everywhere { me } else { of_writes.or(of_reads).unwrap_or(0) };
        Ok(Place { rank, everywhere, hash, first, is_source, stays })
    }

    /// Refuses a task with an input that cannot come to its rank, or to all `ranks`.
    pub(crate) fn check_travels(&self, place: &Place, ranks: usize, accesses: &[Named]) -> Result<(), Error> {
        for access in accesses.iter().filter(|access| place.stays && access.mode.reads()) {
            let Some(datum) = self.data.get(&access.handle) else { continue };
            place.ranks(ranks).try_for_each(|rank| datum.check_travels(datum.location, rank))?;
        }
        Ok(())
    }

    /// Brings all inputs of a task to the rank that runs it.
    pub(crate) fn bring_all(
        &mut self,
        mover: &impl Mover,
        accesses: &[Named],
        to: usize,
    ) -> Result<(), Error> {
        for access in accesses.iter().filter(|access| access.mode.reads()) {
            let Some(datum) = self.data.get_mut(&access.handle) else { continue };
            datum.bring(mover, format_of(access), to)?;
        }
        Ok(())
    }
}

/// Executes the transfers that are decided here.
pub(crate) trait Mover {
    /// False if it takes no part in a transfer from the location of a version to a rank, and need
    /// not know of it.
    fn concerns(&self, location: usize, to: usize) -> bool;
    /// Moves a form of a version from one rank to another.
    fn moves(&self, datum: &Datum, key: Key, way: (usize, usize)) -> Result<(), Error>;
}

impl Datum {
    /// Creates a datum that no task has named; the caller gives it its tag.
    pub(crate) fn new(remote: Box<dyn Remote>, owner: Option<usize>, written: bool, usual: Format) -> Self {
        Datum {
            travels: remote.travels(),
            remote,
            tag: 0,
            owner,
            location: owner.unwrap_or_default(),
            version: 0,
            written,
            usual,
            replicas: Vec::new(),
        }
    }

    /// Ensures that `to` gets the newest version, in a form that serves a reader of `format`.
    pub(crate) fn bring(&mut self, mover: &impl Mover, format: Format, to: usize) -> Result<(), Error> {
        let location = self.location;
        if location == to || !mover.concerns(location, to) {
            return Ok(());
        }
        let Some(form) = self.form_for(form_of(&self.replicas, to), format) else { return Ok(()) };
        // Forms that are not known yet come from a rank with the unchanged value.
        let from = if form == DEFERRED { location } else { sender(&self.replicas, form, location) };
        self.replicas.retain(|(rank, _)| *rank != to);
        self.replicas.push((to, form));
        let key = Key { tag: self.tag, version: self.version, format: form, requested: false };
        mover.moves(self, key, (from, to))
    }

    /// Notes `times` writes by tasks, the last of them on `rank`.
    pub(crate) fn is_written(&mut self, rank: usize, times: u64) {
        self.version += times;
        (self.written, self.location) = (true, rank);
        self.replicas.clear();
    }

    /// Refuses a value that cannot go from one rank to another.
    pub(crate) fn check_travels(&self, from: usize, to: usize) -> Result<(), Error> {
        if from == to || self.travels {
            return Ok(());
        }
        Err(Error::Config(format!(
            "{} is on rank {from} and needed on rank {to}, and its data type stays in its process \
             (Data::portability)",
            self.remote.name(),
        )))
    }

    /// Returns the form in which a rank gets a version that it `has` in one form already, for a
    /// task that reads `format`; `None`: its present form serves.
    pub(crate) fn form_for(&self, has: Option<Format>, format: Format) -> Option<Format> {
        let format = match format {
            // Values with a single format are sent unchanged.
            DEFERRED if self.usual == WHOLE => WHOLE,
            format if format == self.usual => WHOLE,
            format => format,
        };
        match has {
            None => Some(format),
            Some(has) if has == WHOLE || has == format => None,
            // A value that is read now can be requested as well.
            Some(DEFERRED) if format != WHOLE => None,
            Some(_) if format == DEFERRED => Some(DEFERRED),
            // A narrow form has lost the information that other forms need.
            Some(_) => Some(WHOLE),
        }
    }
}

/// Returns the form that a rank has, among those of all.
pub(crate) fn form_of(forms: &[(usize, Format)], rank: usize) -> Option<Format> {
    forms.iter().find(|(other, _)| *other == rank).map(|&(_, form)| form)
}

/// Returns the form that a reading task requests.
pub(crate) fn format_of(access: &Named) -> Format {
    if access.mode == Mode::Read { access.format.unwrap_or(DEFERRED) } else { WHOLE }
}

pub(crate) fn not_here(handle: String) -> Error {
    Error::Foreign { what: format!("{handle}, which was not registered with this cluster,") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_spread_along_a_tree() {
        let (whole, narrow) = (WHOLE, Format(2));
        let mut replicas: Replicas = vec![(50, narrow)];
        let mut senders = Vec::new();
        for rank in 1..=21 {
            senders.push(sender(&replicas, whole, 0));
            replicas.push((rank, whole));
        }
        let each = |rank: usize| std::iter::repeat_n(rank, FAN_OUT);
        let wanted: Vec<usize> = (0..5).flat_map(each).chain([5]).collect();
        assert_eq!(senders, wanted);
        assert_eq!(sender(&replicas, narrow, 0), 0);
        assert!(!relays(5) && relays(6));
    }
}
