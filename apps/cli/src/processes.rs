//! The processes of a run: this one, or those that an MPI launcher has started.

use std::ops::Range;

use zellige_runtime::{Runtime, RuntimeBuilder, Trace};
use zellige_sparse::krylov::Executor;

use crate::exit::CommandError;

#[cfg(feature = "mpi")]
use zellige_mpi::{Cluster, Mpi};

/// Environment variables that launchers (mpirun of Open MPI and MPICH, srun) set in each process.
const LAUNCHED: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"];

/// The processes of a run.
pub struct Processes {
    #[cfg(feature = "mpi")]
    mpi: Option<Mpi>,
}

impl Processes {
    /// Returns this process alone.
    pub fn single() -> Processes {
        Processes {
            #[cfg(feature = "mpi")]
            mpi: None,
        }
    }

    /// Finds the processes that were started together with this one. From here on only the first of
    /// them prints anything but errors.
    ///
    /// # Errors
    /// [`CommandError::Processes`] for several processes in a build without MPI, or an MPI library
    /// that does not support calls from threads.
    pub fn find() -> Result<Processes, CommandError> {
        let launched = LAUNCHED.iter().any(|name| std::env::var_os(name).is_some());
        Processes::start(launched)
    }

    #[cfg(feature = "mpi")]
    fn start(launched: bool) -> Result<Processes, CommandError> {
        let start = || Mpi::initialize().map_err(|error| CommandError::Processes(error.to_string()));
        let mpi = if launched { Some(start()?) } else { None };
        let processes = Processes { mpi: mpi.filter(|mpi| mpi.ranks() > 1) };
        if !processes.is_first() {
            crate::out::only_errors(processes.mpi.as_ref().map_or(0, Mpi::rank));
        }
        Ok(processes)
    }

    #[cfg(not(feature = "mpi"))]
    fn start(launched: bool) -> Result<Processes, CommandError> {
        let several = std::env::var("OMPI_COMM_WORLD_SIZE").or_else(|_| std::env::var("PMI_SIZE"));
        match several.ok().filter(|count| launched && count != "1") {
            Some(count) => Err(CommandError::Processes(format!(
                "{count} processes were started together, but this command was built without MPI: build it with --features mpi"
            ))),
            None => Ok(Processes::single()),
        }
    }

    /// Returns whether this is the process that prints and writes.
    pub fn is_first(&self) -> bool {
        #[cfg(feature = "mpi")]
        return self.mpi.as_ref().is_none_or(|mpi| mpi.rank() == 0);
        #[cfg(not(feature = "mpi"))]
        true
    }

    /// Returns the number of processes.
    pub fn count(&self) -> usize {
        #[cfg(feature = "mpi")]
        return self.mpi.as_ref().map_or(1, Mpi::ranks);
        #[cfg(not(feature = "mpi"))]
        1
    }

    /// Returns this process's part of `count` items, in their order.
    pub fn part(&self, count: usize) -> Range<usize> {
        #[cfg(feature = "mpi")]
        let rank = self.mpi.as_ref().map_or(0, Mpi::rank);
        #[cfg(not(feature = "mpi"))]
        let rank = 0;
        let processes = self.count();
        count * rank / processes..count * (rank + 1) / processes
    }

    /// Builds a runtime, or this rank of a cluster of runtimes.
    ///
    /// # Errors
    /// The errors of building a runtime; an MPI library that fails.
    pub fn session(&self, builder: RuntimeBuilder) -> anyhow::Result<Session> {
        #[cfg(feature = "mpi")]
        if let Some(mpi) = &self.mpi {
            // The launcher decides on the cores of each rank, since other ranks may share them.
            let transport = mpi.transport().map_err(|error| CommandError::Processes(error.to_string()))?;
            return Ok(Session::Rank(Cluster::new(builder.bind(false).build()?, transport)?));
        }
        Ok(Session::One(builder.build()?))
    }
}

/// Target of task submissions: one runtime, or a cluster.
pub enum Session {
    /// The runtime of the only process.
    One(Runtime),
    /// One of several ranks.
    #[cfg(feature = "mpi")]
    Rank(Cluster),
}

impl Session {
    /// Returns the executor of the solvers.
    pub fn executor(&self) -> &dyn Executor {
        match self {
            Session::One(runtime) => runtime,
            #[cfg(feature = "mpi")]
            Session::Rank(cluster) => cluster,
        }
    }

    /// Returns the runtime of this process.
    pub fn runtime(&self) -> &Runtime {
        match self {
            Session::One(runtime) => runtime,
            #[cfg(feature = "mpi")]
            Session::Rank(cluster) => cluster.runtime(),
        }
    }

    /// Waits for all tasks and transfers, and returns the trace if one was requested. The first
    /// process gets the trace of all processes.
    ///
    /// # Errors
    /// A failed task that was not reported yet; a process that has ended.
    #[cfg_attr(not(feature = "mpi"), expect(unused_variables))]
    pub fn recorded(&self, is_traced: bool) -> anyhow::Result<Option<Trace>> {
        match self {
            Session::One(runtime) => {
                runtime.wait_all()?;
                runtime.wait_transfers()?;
                Ok(runtime.take_trace())
            }
            #[cfg(feature = "mpi")]
            Session::Rank(cluster) if is_traced => Ok(cluster.take_trace()?),
            #[cfg(feature = "mpi")]
            Session::Rank(cluster) => {
                cluster.wait_all()?;
                Ok(None)
            }
        }
    }

    /// Returns the bytes of values that this process has sent to others.
    pub fn bytes_sent(&self) -> u64 {
        match self {
            Session::One(_) => 0,
            #[cfg(feature = "mpi")]
            Session::Rank(cluster) => cluster.traffic().sent_bytes,
        }
    }

    /// Gathers the bytes of all processes on the first one, in the order of the ranks. The others
    /// get nothing.
    ///
    /// # Errors
    /// A process that has ended.
    pub fn on_first(&self, own: Vec<u8>) -> anyhow::Result<Vec<Vec<u8>>> {
        match self {
            Session::One(_) => Ok(vec![own]),
            #[cfg(feature = "mpi")]
            Session::Rank(cluster) => {
                let say = |rank| cluster.register_on(rank, || own.clone());
                let said: Vec<_> = (0..cluster.ranks()).map(say).collect::<Result<_, _>>()?;
                let mut all = Vec::new();
                for said in &said {
                    all.extend(cluster.read_on(0, said)?.map(|bytes| bytes.to_vec()));
                }
                Ok(all)
            }
        }
    }
}
