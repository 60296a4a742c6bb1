//! Kernels on one GPU.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{OPTIONS, Source};
use crate::call::Arg;
use crate::compile::Compiler;
use crate::driver::{Driver, Kernel, Module, Stream};
use crate::error::GpuError;
use crate::info::{Library, LibraryState};

/// One launch: a kernel by name, its geometry, its arguments in order.
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
struct Kept {
    driver: Weak<dyn Driver>,
    gpu: u32,
    /// Where the texts are: they stay where they are.
    texts: Vec<usize>,
    loaded: Arc<Loaded>,
}

impl Loaded {
    /// The kernels of `sources` as [`compiled`](Loaded::compiled) loads them, once for each GPU of a driver, whoever asks; they are kept as
    /// long as the driver lives. Who asks meanwhile waits.
    ///
    /// # Errors
    /// The driver's; the next who asks tries again.
    pub fn shared(driver: &Arc<dyn Driver>, gpu: u32, sources: &[Source]) -> Result<Arc<Self>, GpuError> {
        static ALL: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
        let mut all = ALL.lock();
        let texts = || sources.iter().map(|source| source.text.as_ptr().addr());
        let is_wanted = |kept: &&Kept| {
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
        all.push(Kept { driver, gpu, texts, loaded: Arc::clone(&loaded) });
        Ok(loaded)
    }

    /// Loads every kernel of `sources`, compiled for this GPU where NVRTC is there and knows it, and as the shipped PTX otherwise: also
    /// where the driver refuses what was compiled, since that of an NVRTC which is newer than the driver it cannot read.
    ///
    /// # Errors
    /// The driver's.
    pub fn compiled(driver: &dyn Driver, gpu: u32, sources: &[Source]) -> Result<Self, GpuError> {
        let there = driver.gpus();
        let arch = there.get(gpu as usize).ok_or(GpuError::NoGpu { gpu, there: there.len() })?.arch();
        let has_nvrtc = matches!(driver.library(Library::Nvrtc), LibraryState::There(_));
        let compiler = OPTIONS.iter().fold(Compiler::new(), |compiler, option| compiler.option(option));
        Loaded::either(driver, gpu, sources, |source| match has_nvrtc {
            false => Ok(None),
            true => match compiler.compile(source.name, source.text, &arch) {
                Ok(image) => Ok(Some(image)),
                // An NVRTC that is older than the GPU does not know its architecture; the driver does.
                Err(error @ (GpuError::Missing { .. } | GpuError::Compile { .. })) => {
                    tracing::debug!("the shipped PTX of {} is taken: {error}", source.name);
                    Ok(None)
                }
                Err(other) => Err(other),
            },
        })
    }

    /// What `compiled` gives for a source, or its PTX where there is nothing or the driver refuses it; then nothing more is compiled.
    fn either(
        driver: &dyn Driver,
        gpu: u32,
        sources: &[Source],
        mut compiled: impl FnMut(&Source) -> Result<Option<Vec<u8>>, GpuError>,
    ) -> Result<Self, GpuError> {
        let mut is_refused = false;
        Loaded::all(driver, gpu, sources, |source| {
            let shipped = || driver.load(gpu, source.ptx.as_bytes());
            let image = if is_refused { None } else { compiled(source)? };
            let Some(image) = image else { return shipped() };
            match driver.load(gpu, &image) {
                Err(error @ GpuError::Failed { sticky: false, .. }) => {
                    is_refused = true;
                    tracing::warn!(
                        "the shipped PTX is taken, since the driver refuses what NVRTC compiled for it (a newer driver or an older NVRTC would do): {error}"
                    );
                    shipped()
                }
                loaded => loaded,
            }
        })
    }

    /// Loads every kernel of `sources`. `image` compiles one for this GPU, or gives its shipped PTX.
    ///
    /// # Errors
    /// What `image` and the driver say; the driver's where an image lacks a kernel.
    pub fn new(
        driver: &dyn Driver,
        gpu: u32,
        sources: &[Source],
        mut image: impl FnMut(&Source) -> Result<Cow<'static, [u8]>, GpuError>,
    ) -> Result<Self, GpuError> {
        Loaded::all(driver, gpu, sources, |source| driver.load(gpu, &image(source)?))
    }

    /// Every kernel of `sources`, each from the module that `load` makes of it.
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

    /// Launches on a stream of this GPU.
    ///
    /// # Errors
    /// [`GpuError::Failed`] for a kernel that was not loaded, and what the driver says.
    ///
    /// # Safety
    /// As [`Driver::launch`]: every array that the launch names, in its arguments or besides, exists until it has ended, and
    /// nobody else uses it in a way that conflicts.
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
        // SAFETY: the arrays are the caller's promise; the arguments are those of the kernel of that name, because only the
        // functions beside its source describe its launches.
        unsafe { driver.launch(stream, *kernel, launch.grid, launch.block, 0, &launch.args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::Mock;

    /// A driver that reads PTX alone: one image that it refuses is enough, and what is wrong with PTX is an error.
    #[test]
    fn what_the_driver_refuses_of_nvrtc_is_taken_as_ptx() {
        let reads = |image: &[u8]| image.starts_with(b"//");
        let builder = Mock::builder().kernel("twice", |_, _, _| Ok(())).kernel("thrice", |_, _, _| Ok(()));
        let mock = builder.images(reads).build();
        let one = Source { name: "one", text: "", ptx: "// PTX", kernels: &["twice"] };
        let two = Source { name: "two", kernels: &["thrice"], ..one };
        let mut compiled = Vec::new();
        let made = |source: &Source| {
            compiled.push(source.name);
            Ok(Some(b"a CUBIN".to_vec()))
        };
        let loaded = Loaded::either(&mock, 0, &[one, two], made).unwrap();
        assert_eq!((loaded.kernels.len(), compiled), (2, vec!["one"]));
        // What is compiled and read is kept.
        let bad = Source { ptx: "no PTX", ..one };
        Loaded::either(&mock, 0, &[bad], |_| Ok(Some(b"// read".to_vec()))).unwrap();
        for nothing in [Ok(None), Ok(Some(b"a CUBIN".to_vec()))] {
            let error = Loaded::either(&mock, 0, &[bad], |_| nothing.clone()).unwrap_err();
            assert!(error.to_string().contains("cuModuleLoadData"), "{error}");
        }
    }

    #[test]
    fn kernels_are_loaded_once_for_each_gpu_of_a_driver() {
        let mock = || -> Arc<dyn Driver> {
            Arc::new(Mock::builder().gpus(2).kernel("twice", |_, _, _| Ok(())).build())
        };
        let (driver, other) = (mock(), mock());
        let one = Source { name: "one", text: "a text", ptx: "", kernels: &["twice"] };
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
        // Nothing is kept of a driver that is gone, once the next one comes.
        let next = mock();
        shared(&next, 0, &[one]);
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
