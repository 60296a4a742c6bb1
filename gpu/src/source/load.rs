//! Kernels on one GPU.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{OPTIONS, Source};
use crate::call::Arg;
use crate::compile::Compiler;
use crate::driver::{Driver, Kernel, Stream};
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
    /// Arrays that it reaches through addresses in other arrays: no arguments, but used all the same.
    pub also: Vec<Arg>,
}

/// The kernels of some sources, loaded onto one GPU.
#[derive(Debug)]
pub struct Loaded {
    gpu: u32,
    kernels: HashMap<&'static str, Kernel>,
}

impl Loaded {
    /// Loads every kernel of `sources`, compiled for this GPU where NVRTC is there and knows it, and as the shipped PTX otherwise.
    ///
    /// # Errors
    /// The driver's.
    pub fn compiled(driver: &dyn Driver, gpu: u32, sources: &[Source]) -> Result<Self, GpuError> {
        let there = driver.gpus();
        let arch = there.get(gpu as usize).ok_or(GpuError::NoGpu { gpu, there: there.len() })?.arch();
        let has_nvrtc = matches!(driver.library(Library::Nvrtc), LibraryState::There(_));
        let compiler = OPTIONS.iter().fold(Compiler::new(), |compiler, option| compiler.option(option));
        Loaded::new(driver, gpu, sources, |source| {
            let shipped = || Ok(source.ptx.as_bytes().into());
            if !has_nvrtc {
                return shipped();
            }
            match compiler.compile(source.name, source.text, &arch) {
                Ok(image) => Ok(image.into()),
                // An NVRTC that is older than the GPU does not know its architecture; the driver does.
                Err(error @ (GpuError::Missing { .. } | GpuError::Compile { .. })) => {
                    tracing::debug!("the shipped PTX of {} is taken: {error}", source.name);
                    shipped()
                }
                Err(other) => Err(other),
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
        let mut kernels = HashMap::new();
        for source in sources {
            let module = driver.load(gpu, &image(source)?)?;
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
