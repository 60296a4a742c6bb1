//! The GPUs of this machine, the libraries that they need, and why a GPU is not used.

use serde::Serialize;
use zellige_gpu::cuda::{Cuda, libraries};
use zellige_gpu::{Driver, GpuInfo, LibraryState};

use crate::table::bytes;

/// Said of GPUs that are there.
const NOT_YET: &str = "no application of this version runs tasks on GPUs";

#[derive(Debug, Serialize)]
pub struct Gpu {
    number: usize,
    name: String,
    memory_bytes: u64,
    compute_capability: String,
    /// Numbers of the GPUs whose memory it reaches directly.
    peers: Vec<u32>,
    uuid: String,
    bus: String,
}

#[derive(Debug, Serialize)]
pub struct Library {
    name: &'static str,
    usable: bool,
    /// Empty where the library does not tell it, or cannot be used.
    version: String,
    /// Why it cannot be used.
    reason: Option<String>,
    needed_for: &'static str,
}

/// What there is for GPUs.
#[derive(Debug, Serialize)]
pub struct Gpus {
    gpus: Vec<Gpu>,
    gpu_libraries: Vec<Library>,
    /// Why none is used.
    gpus_unused: String,
}

impl Gpus {
    /// Looks. Nothing of CUDA needs to be there.
    pub fn discover() -> Gpus {
        let (gpus, gpus_unused) = match Cuda::open() {
            Ok(driver) => (driver.gpus().iter().enumerate().map(Gpu::of).collect(), NOT_YET.to_string()),
            Err(error) => (Vec::new(), error.to_string()),
        };
        Gpus { gpus, gpu_libraries: libraries().into_iter().map(Library::of).collect(), gpus_unused }
    }

    /// A line for each GPU and library, after its name.
    pub fn lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        if self.gpus.is_empty() {
            lines.push(("GPU".into(), format!("none is used: {}", self.gpus_unused)));
        }
        for gpu in &self.gpus {
            let peers: Vec<String> = gpu.peers.iter().map(u32::to_string).collect();
            let peers = if peers.is_empty() { "none".into() } else { peers.join(" ") };
            lines.push((
                format!("GPU {}", gpu.number),
                format!(
                    "{}, {}, compute capability {}, peers: {peers}; not used: {}",
                    gpu.name,
                    bytes(gpu.memory_bytes),
                    gpu.compute_capability,
                    self.gpus_unused
                ),
            ));
        }
        for library in &self.gpu_libraries {
            let state = match &library.reason {
                None if library.version.is_empty() => "found".into(),
                None => library.version.clone(),
                Some(reason) => format!("not usable ({reason}); needed for {}", library.needed_for),
            };
            lines.push((library.name.to_string(), state));
        }
        lines
    }
}

impl Gpu {
    fn of((number, info): (usize, &GpuInfo)) -> Gpu {
        let (major, minor) = info.compute_capability;
        Gpu {
            number,
            name: info.name.clone(),
            memory_bytes: info.memory,
            compute_capability: format!("{major}.{minor}"),
            peers: info.peers.clone(),
            uuid: info.uuid.clone(),
            bus: info.bus.clone(),
        }
    }
}

impl Library {
    fn of((library, state): (zellige_gpu::Library, LibraryState)) -> Library {
        let (usable, version, reason) = match state {
            LibraryState::There(version) => (true, version, None),
            LibraryState::Missing(reason) => (false, String::new(), Some(reason)),
        };
        Library { name: library.name(), usable, version, reason, needed_for: library.needed_for() }
    }
}
