//! Twins as the kernels of a driver that needs no GPU.

use std::fmt;

use zellige_gpu::mock::{Mock, MockBuilder};
use zellige_gpu::source::Source;
use zellige_gpu::twin::{Twin, TwinArg};
use zellige_gpu::{Address, Arg, Gemm};

use crate::{TwinError, Twins};

/// The kernels of some sources, for [`MockBuilder::twin`](zellige_gpu::mock::MockBuilder::twin).
#[derive(Debug)]
pub struct HostKernels {
    sources: Vec<Twins>,
    names: Vec<(&'static str, usize)>,
}

impl HostKernels {
    /// Compiles sources. Returns `None`, with a printed line, if there is no g++.
    ///
    /// # Errors
    /// The errors of [`Twins::build`].
    pub fn build<'s>(
        sources: impl IntoIterator<Item = &'s Source>,
    ) -> Result<Option<HostKernels>, TwinError> {
        let (mut built, mut names) = (Vec::new(), Vec::new());
        for source in sources {
            let Some(twins) = Twins::build(source.name, source.text, source.kernels)? else {
                return Ok(None);
            };
            names.extend(source.kernels.iter().map(|kernel| (*kernel, built.len())));
            built.push(twins);
        }
        Ok(Some(HostKernels { sources: built, names }))
    }

    fn source_of(&self, kernel: &str) -> Option<usize> {
        self.names.iter().find(|(name, _)| *name == kernel).map(|(_, source)| *source)
    }
}

/// Creates a driver that needs no GPU, with the kernels of these sources. Returns `None`, with a
/// printed line, if there is no g++.
///
/// # Panics
/// A source does not compile.
pub fn mock<'s>(sources: impl IntoIterator<Item = &'s Source>) -> Option<MockBuilder> {
    let kernels = HostKernels::build(sources).unwrap_or_else(|error| panic!("{error}"))?;
    Some(Mock::builder().twin(kernels))
}

impl Twin for HostKernels {
    fn knows(&self, kernel: &str) -> bool {
        self.source_of(kernel).is_some()
    }

    fn launch(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &mut [TwinArg<'_>],
    ) -> Result<(), String> {
        let source = self.source_of(kernel).ok_or_else(|| format!("there is no twin of {kernel}"))?;
        let args: Vec<Arg> = args.iter_mut().map(described).collect();
        // SAFETY: the addresses are those of the slices, which this call has to itself.
        unsafe { self.sources[source].run_in_order(kernel, [grid, block], &args) }
            .map_err(|error| error.to_string())
    }
}

/// Function that changes the result of a product. It also receives A and B.
type Change = Box<dyn Fn(&Gemm, [&[u8]; 2], &mut [u8]) + Send + Sync>;

/// Unchanged kernels, and library products that are changed.
struct Wrong {
    kernels: HostKernels,
    change: Change,
}

impl fmt::Debug for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wrong({:?})", self.kernels)
    }
}

/// Creates a mock with a library whose products `change` modifies after each is computed. It is for
/// tests of code that has to tolerate or find errors.
///
/// # Panics
/// In the cases of [`mock`].
pub fn mock_with_wrong_products<'s>(
    sources: impl IntoIterator<Item = &'s Source>,
    change: impl Fn(&Gemm, [&[u8]; 2], &mut [u8]) + Send + Sync + 'static,
) -> Option<MockBuilder> {
    let kernels = HostKernels::build(sources).unwrap_or_else(|error| panic!("{error}"))?;
    Some(Mock::builder().twin(Wrong { kernels, change: Box::new(change) }))
}

impl Twin for Wrong {
    fn knows(&self, kernel: &str) -> bool {
        self.kernels.knows(kernel)
    }

    fn launch(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &mut [TwinArg<'_>],
    ) -> Result<(), String> {
        self.kernels.launch(kernel, grid, block, args)
    }

    fn gemm(&self, gemm: &Gemm, factors: [f64; 2], a: &[u8], b: &[u8], c: &mut [u8]) -> Result<(), String> {
        self.kernels.gemm(gemm, factors, a, b, c)?;
        (self.change)(gemm, [a, b], c);
        Ok(())
    }
}

fn described(arg: &mut TwinArg<'_>) -> Arg {
    match arg {
        TwinArg::Read(bytes) => {
            Arg::Read(Address(bytes.as_ptr().expose_provenance() as u64), bytes.len() as u64)
        }
        TwinArg::Write(bytes) => {
            Arg::Write(Address(bytes.as_mut_ptr().expose_provenance() as u64), bytes.len() as u64)
        }
        TwinArg::Update(bytes) => {
            Arg::Update(Address(bytes.as_mut_ptr().expose_provenance() as u64), bytes.len() as u64)
        }
        TwinArg::I32(x) => Arg::I32(*x),
        TwinArg::U32(x) => Arg::U32(*x),
        TwinArg::U64(x) => Arg::U64(*x),
        TwinArg::F32(x) => Arg::F32(*x),
        TwinArg::F64(x) => Arg::F64(*x),
    }
}
