//! The GPUs of this machine, the libraries that they need, and the reason if a GPU is not used.

use schemars::JsonSchema;
use serde::Serialize;
use zellige_app::text::bytes;
use zellige_gpu::cuda::{libraries, loaded_from, skipped};
use zellige_gpu::{Driver, GpuInfo, LibraryState};

use crate::devices;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Gpu {
    number: u32,
    name: String,
    memory_bytes: u64,
    compute_capability: String,
    /// Numbers of the GPUs with directly accessible memory (peer access).
    peers: Vec<u32>,
    uuid: String,
    bus: String,
    /// The reason why it cannot be used; `null` if `--device cuda` uses it.
    unused: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Library {
    name: &'static str,
    usable: bool,
    /// The library's version; empty if the library does not report it or cannot be used.
    version: String,
    /// Loaded files; several if the process has several versions of the library.
    files: Vec<String>,
    /// The reason why it cannot be used.
    reason: Option<String>,
    needed_for: &'static str,
}

/// The GPUs of this machine and the libraries for them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Gpus {
    gpus: Vec<Gpu>,
    gpu_libraries: Vec<Library>,
    /// Library files that were found but not loaded, each with the reason.
    gpu_libraries_skipped: Vec<String>,
    /// The reason why there are no GPUs; `null` if there are some.
    gpus_unused: Option<String>,
}

impl Gpus {
    /// Finds the GPUs and libraries. CUDA need not be installed.
    pub fn discover() -> Gpus {
        let (gpus, gpus_unused) = match devices::driver() {
            Ok(driver) => {
                ((0..).zip(driver.gpus()).map(|(i, info)| Gpu::of(&*driver, i, info)).collect(), None)
            }
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let gpu_libraries = libraries().into_iter().map(Library::of).collect();
        Gpus { gpus, gpu_libraries, gpu_libraries_skipped: skipped(), gpus_unused }
    }

    /// Returns whether there is a GPU.
    pub fn are_there(&self) -> bool {
        !self.gpus.is_empty()
    }

    /// Returns the name and a description of each GPU and library.
    pub fn lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        if self.gpus.is_empty() {
            let why = self.gpus_unused.as_deref().unwrap_or("no GPU found");
            lines.push(("GPU".into(), format!("none is used: {why}")));
        }
        for gpu in &self.gpus {
            let peers: Vec<String> = gpu.peers.iter().map(u32::to_string).collect();
            let use_of = match &gpu.unused {
                None => "--device cuda uses it".to_string(),
                Some(why) => format!("cannot be used: {why}"),
            };
            let peers = if peers.is_empty() { "none".into() } else { peers.join(" ") };
            lines.push((
                format!("GPU {}", gpu.number),
                format!(
                    "{}, {}, compute capability {}, peers: {peers}; {use_of}",
                    gpu.name,
                    bytes(gpu.memory_bytes),
                    gpu.compute_capability,
                ),
            ));
        }
        for library in &self.gpu_libraries {
            let from: String = library.files.iter().map(|file| format!(", {file}")).collect();
            let state = match &library.reason {
                None if library.version.is_empty() => format!("found{from}"),
                None => format!("{}{from}", library.version),
                Some(reason) => format!("not usable ({reason}); needed for {}", library.needed_for),
            };
            lines.push((library.name.to_string(), state));
        }
        lines.extend(self.gpu_libraries_skipped.iter().map(|file| ("not loaded".into(), file.clone())));
        lines
    }
}

impl Gpu {
    fn of(driver: &dyn Driver, number: u32, info: &GpuInfo) -> Gpu {
        let problems = devices::problems(driver, number);
        let (major, minor) = info.compute_capability;
        Gpu {
            number,
            name: info.name.clone(),
            memory_bytes: info.memory,
            compute_capability: format!("{major}.{minor}"),
            peers: info.peers.clone(),
            uuid: info.uuid.clone(),
            bus: info.bus.clone(),
            unused: (!problems.is_empty()).then(|| problems.join("; ")),
        }
    }
}

impl Library {
    fn of((library, state): (zellige_gpu::Library, LibraryState)) -> Library {
        let (usable, version, reason) = match state {
            LibraryState::There(version) => (true, version, None),
            LibraryState::Missing(reason) => (false, String::new(), Some(reason)),
        };
        let files = loaded_from(library).into_iter().map(|file| file.display().to_string()).collect();
        Library { name: library.name(), usable, version, files, reason, needed_for: library.needed_for() }
    }
}
