//! `Session` for a cluster: programs written against this trait also run in one process.

use zellige_runtime::data::ReadGuard;
use zellige_runtime::{Data, Error, Handle, Recorder, Runtime, Session};

use crate::cluster::Cluster;
use crate::recording::Recording;

impl Session for Cluster {
    type Recording = Recording;

    fn record<E: From<Error>>(&self, build: impl FnOnce(&Recorder) -> Result<(), E>) -> Result<Recording, E> {
        Cluster::record(self, build)
    }

    fn replay(&self, recording: &Recording) -> Result<(), Error> {
        Cluster::replay(self, recording)
    }

    fn keep_local(&self, handle: u64) {
        Cluster::keep_local(self, handle);
    }

    fn keep_replicated(&self, handle: u64) {
        Cluster::keep_replicated(self, handle);
    }

    fn agree(&self, value: u64) -> Result<u64, Error> {
        Cluster::agree(self, value)
    }

    fn runtime(&self) -> &Runtime {
        Cluster::runtime(self)
    }

    fn rank(&self) -> usize {
        Cluster::rank(self)
    }

    fn ranks(&self) -> usize {
        Cluster::ranks(self)
    }

    fn bytes_sent(&self) -> u64 {
        self.traffic().sent_bytes
    }

    fn register_on<D: Data>(&self, rank: usize, make: impl FnOnce() -> D) -> Result<Handle<D>, Error> {
        Cluster::register_on(self, rank, make)
    }

    fn set_owner<D: Data>(&self, handle: &Handle<D>, rank: usize) -> Result<(), Error> {
        Cluster::set_owner(self, handle, rank)
    }

    fn owner_of<D: Data>(&self, handle: &Handle<D>) -> Result<Option<usize>, Error> {
        Cluster::owner_of(self, handle)
    }

    fn wait_all(&self) -> Result<(), Error> {
        Cluster::wait_all(self)
    }

    fn read<D: Data>(&self, handle: &Handle<D>) -> Result<ReadGuard<'_, D>, Error> {
        Cluster::read(self, handle)
    }

    fn read_on<D: Data>(&self, rank: usize, handle: &Handle<D>) -> Result<Option<ReadGuard<'_, D>>, Error> {
        Cluster::read_on(self, rank, handle)
    }

    fn take<D: Data>(&self, handle: Handle<D>) -> Result<D, Error> {
        Cluster::take(self, handle)
    }
}
