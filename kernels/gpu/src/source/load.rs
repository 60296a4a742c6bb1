//! Kernels on one GPU.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{OPTIONS, Source, archive};
use crate::call::Arg;
use crate::compile::Compiler;
use crate::driver::{Driver, Kernel, Module, Stream};
use crate::error::GpuError;

/// A launch: a kernel by name, its geometry, its arguments in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// A name of [`Source::kernels`].
    pub kernel: &'static str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// The kernel's arguments.
    pub args: Vec<Arg>,
}

/// The kernels of some sources, loaded onto one GPU.
#[derive(Debug)]
pub struct Loaded {
    gpu: u32,
    kernels: HashMap<&'static str, Kernel>,
}

/// Kernels that were loaded, by driver, GPU and sources.
struct CacheEntry {
    driver: Weak<dyn Driver>,
    gpu: u32,
    /// Addresses of the texts, which identify the sources: they are static.
    texts: Vec<usize>,
    loaded: Arc<Loaded>,
}

impl Loaded {
    /// Returns the kernels of `sources` as [`compiled`](Loaded::compiled) loads them, once for each
    /// GPU of a driver. They are cached as long as the driver lives. Concurrent callers wait.
    ///
    /// # Errors
    /// The driver's; the next call tries again.
    pub fn shared(driver: &Arc<dyn Driver>, gpu: u32, sources: &[Source]) -> Result<Arc<Self>, GpuError> {
        static ALL: Mutex<Vec<CacheEntry>> = Mutex::new(Vec::new());
        let mut all = ALL.lock();
        let texts = || sources.iter().map(|source| source.text.as_ptr().addr());
        let is_wanted = |kept: &&CacheEntry| {
            kept.gpu == gpu
                && ptr::addr_eq(kept.driver.as_ptr(), Arc::as_ptr(driver))
                && kept.texts.iter().copied().eq(texts())
        };
        if let Some(kept) = all.iter().find(is_wanted) {
            return Ok(Arc::clone(&kept.loaded));
        }
        all.retain(|kept| kept.driver.strong_count() > 0);
        let loaded = Arc::new(Loaded::compiled(&**driver, gpu, sources)?);
        let (driver, texts) = (Arc::downgrade(driver), texts().collect());
        all.push(CacheEntry { driver, gpu, texts, loaded: Arc::clone(&loaded) });
        Ok(loaded)
    }

    /// Loads every kernel of `sources`: compiled by NVRTC for this GPU, or from the PTX of an
    /// [archive](super::ARCHIVE) if NVRTC is missing, does not know the GPU, or compiles code that
    /// the driver does not read.
    ///
    /// # Errors
    /// The driver's; [`GpuError::Missing`] and [`GpuError::Compile`] if there is no archive either.
    pub fn compiled(driver: &dyn Driver, gpu: u32, sources: &[Source]) -> Result<Self, GpuError> {
        let there = driver.gpus();
        let arch = there.get(gpu as usize).ok_or(GpuError::NoGpu { gpu, there: there.len() })?.arch();
        if !driver.needs_images() {
            return Loaded::all(driver, gpu, sources, |source| driver.load(gpu, source.text.as_bytes()));
        }
        let compiler = OPTIONS.iter().fold(Compiler::new(), |compiler, option| compiler.option(option));
        let folders = archive::folders();
        let compiled = |source: &Source| compiler.compile(source.name, source.text, &arch);
        Loaded::either(driver, gpu, sources, compiled, |source| archive::ptx(source, &folders))
    }

    /// Loads what `compiled` gives for each source. Where that fails, or the driver refuses it,
    /// `archived` gives PTX; after a refusal nothing more is compiled.
    fn either(
        driver: &dyn Driver,
        gpu: u32,
        sources: &[Source],
        mut compiled: impl FnMut(&Source) -> Result<Vec<u8>, GpuError>,
        archived: impl Fn(&Source) -> Result<Vec<u8>, String>,
    ) -> Result<Self, GpuError> {
        let mut refused: Option<GpuError> = None;
        Loaded::all(driver, gpu, sources, |source| {
            let image = refused.clone().map_or_else(|| compiled(source), Err);
            let error = match image.and_then(|image| driver.load(gpu, &image)) {
                Err(error @ GpuError::Failed { sticky: false, .. }) => refused.insert(error).clone(),
                Err(error @ (GpuError::Missing { .. } | GpuError::Compile { .. })) => error,
                loaded => return loaded,
            };
            let ptx = archived(source).map_err(|missing| with_reason(error.clone(), &missing))?;
            tracing::debug!("the archived PTX of {} is taken: {error}", source.name);
            driver.load(gpu, &ptx)
        })
    }

    /// Returns every kernel of `sources`, each from its module as loaded by `load`.
    fn all(
        driver: &dyn Driver,
        gpu: u32,
        sources: &[Source],
        mut load: impl FnMut(&Source) -> Result<Module, GpuError>,
    ) -> Result<Self, GpuError> {
        let mut kernels = HashMap::new();
        for source in sources {
            let module = load(source)?;
            for &name in source.kernels {
                kernels.insert(name, driver.kernel(module, name)?);
            }
        }
        Ok(Loaded { gpu, kernels })
    }

    /// Launches a kernel on a stream of this GPU.
    ///
    /// # Errors
    /// [`GpuError::Failed`] for a kernel that was not loaded, and the driver's errors.
    ///
    /// # Safety
    /// As [`Driver::launch`]: every array that the launch names, in its arguments or besides,
    /// exists until it has ended, and nobody else uses it in a way that conflicts.
    pub unsafe fn launch(
        &self,
        driver: &dyn Driver,
        stream: Stream,
        launch: &Launch,
    ) -> Result<(), GpuError> {
        let kernel = self.kernels.get(launch.kernel).ok_or_else(|| GpuError::Failed {
            gpu: self.gpu,
            call: "cuLaunchKernel",
            reason: format!("kernel {} was not loaded: load its source first", launch.kernel),
            sticky: false,
        })?;
        // SAFETY: the arrays are the caller's promise; the arguments are those of the kernel of
        // that name, because only the functions next to its source describe its launches.
        unsafe { driver.launch(stream, *kernel, launch.grid, launch.block, 0, &launch.args) }
    }
}

/// The error, with one more reason.
fn with_reason(error: GpuError, more: &str) -> GpuError {
    match error {
        GpuError::Missing { library, reason, needed_for } => {
            GpuError::Missing { library, reason: format!("{reason}; {more}"), needed_for }
        }
        GpuError::Compile { source_name, arch, log } => {
            GpuError::Compile { source_name, arch, log: format!("{log}\n{more}") }
        }
        GpuError::Failed { gpu, call, reason, sticky } => {
            GpuError::Failed { gpu, call, reason: format!("{reason}; {more}"), sticky }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::Library;
    use crate::mock::Mock;

    const ONE: Source = Source { name: "one", text: "", kernels: &["twice"] };
    const TWO: Source = Source { name: "two", text: "", kernels: &["thrice"] };

    /// A driver that reads PTX alone.
    fn reads_ptx() -> Mock {
        let builder = Mock::builder().kernel("twice", |_, _, _| Ok(())).kernel("thrice", |_, _, _| Ok(()));
        builder.images(|image: &[u8]| image.starts_with(b"//")).build()
    }

    #[test]
    fn the_archive_serves_where_the_driver_refuses_what_is_compiled() {
        let mock = reads_ptx();
        let mut compiled = Vec::new();
        let made = |source: &Source| {
            compiled.push(source.name);
            Ok(b"a CUBIN".to_vec())
        };
        let loaded = Loaded::either(&mock, 0, &[ONE, TWO], made, |_| Ok(b"// PTX".to_vec())).unwrap();
        // One refusal is enough.
        assert_eq!((loaded.kernels.len(), compiled), (2, vec!["one"]));
        let wrong = |_: &Source| Ok(b"no PTX".to_vec());
        Loaded::either(&mock, 0, &[ONE], |_| Ok(b"// read".to_vec()), wrong).unwrap();
        let error = Loaded::either(&mock, 0, &[ONE], |_| Ok(b"a CUBIN".to_vec()), wrong).unwrap_err();
        assert!(error.to_string().contains("cuModuleLoadData"), "{error}");
    }

    #[test]
    fn without_nvrtc_there_is_the_archive_and_without_both_a_remedy() {
        let mock = reads_ptx();
        let missing = |_: &Source| {
            let (library, reason) = (Library::Nvrtc, "no libnvrtc.so can be loaded".into());
            Err(GpuError::Missing { library, reason, needed_for: library.needed_for() })
        };
        Loaded::either(&mock, 0, &[ONE, TWO], missing, |_| Ok(b"// PTX".to_vec())).unwrap();
        let none = |_: &Source| Err("there is no archive".to_string());
        let error = Loaded::either(&mock, 0, &[ONE], missing, none).unwrap_err().to_string();
        assert!(error.contains("no libnvrtc.so can be loaded; there is no archive"), "{error}");
    }

    #[test]
    fn kernels_are_loaded_once_for_each_gpu_of_a_driver() {
        let mock = || -> Arc<dyn Driver> {
            Arc::new(Mock::builder().gpus(2).kernel("twice", |_, _, _| Ok(())).build())
        };
        let (driver, other) = (mock(), mock());
        let one = Source { name: "one", text: "a text", kernels: &["twice"] };
        let two = Source { text: "another text", ..one };
        let shared =
            |driver: &Arc<dyn Driver>, gpu, sources: &[Source]| Loaded::shared(driver, gpu, sources).unwrap();
        let first = shared(&driver, 0, &[one]);
        assert!(Arc::ptr_eq(&first, &shared(&driver, 0, &[one])));
        let others = [
            shared(&driver, 1, &[one]),
            shared(&other, 0, &[one]),
            shared(&driver, 0, &[two]),
            shared(&driver, 0, &[one, two]),
        ];
        assert!(others.iter().all(|other| !Arc::ptr_eq(&first, other)));
        assert!(Loaded::shared(&driver, 2, &[one]).is_err());
        drop((others, driver));
        // The entries of a dropped driver are removed when the next one comes.
        let next = mock();
        shared(&next, 0, &[one]);
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
