//! Sources compiled by g++.

use std::ffi::c_void;
use std::path::Path;

use libloading::{Library, Symbol};
use zellige_gpu::Arg;

use crate::build;

/// Why a twin does not do what its kernel should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TwinError {
    /// The source does not compile.
    #[error("g++ refuses {source_name}:\n{log}")]
    Compile {
        /// Name of the source.
        source_name: String,
        /// Output of g++.
        log: String,
    },
    /// A file could not be written, or the library not loaded.
    #[error("{what}: {why}")]
    System {
        /// Action that was tried.
        what: String,
        /// Message of the system.
        why: String,
    },
    /// No kernel of this name.
    #[error("there is no twin of {kernel}: it must be among the names given to `build`")]
    Unknown {
        /// The name.
        kernel: String,
    },
    /// The arguments are not those of the kernel.
    #[error("{kernel} takes arguments of {want:?} bytes, it was given {got:?}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// Bytes of each of its arguments.
        want: Vec<u32>,
        /// Bytes of the given arguments.
        got: Vec<u32>,
    },
    /// Some threads of a block ended while others waited at a barrier.
    #[error("{kernel}: not all threads of a block came to the same barrier")]
    Barrier {
        /// The kernel.
        kernel: String,
    },
    /// The kernel did something with an array that its argument does not say, or threads race.
    #[error("{kernel}, array {array}: {what}")]
    Array {
        /// The kernel.
        kernel: String,
        /// Index of the array, counted among arrays.
        array: usize,
        /// Description of the violation.
        what: &'static str,
    },
}

/// The twins of one source's kernels, loaded.
#[derive(Debug)]
pub struct Twins {
    library: Library,
}

type Entry = unsafe extern "C" fn(*mut *mut c_void);
type LaunchEntry = unsafe extern "C" fn(Entry, *const u32, *const u32, *mut *mut c_void, u64) -> i32;
type SizesEntry = unsafe extern "C" fn() -> *const u32;

impl Twins {
    /// Compiles a whole source, unless it is cached, and loads it. Returns `None`, with a printed
    /// line, if there is no g++.
    ///
    /// # Errors
    /// [`TwinError::Compile`], [`TwinError::System`].
    pub fn build(name: &str, text: &str, kernels: &[&str]) -> Result<Option<Twins>, TwinError> {
        let Some(file) = build::library(name, text, kernels)? else { return Ok(None) };
        Ok(Some(Twins { library: load(&file)? }))
    }

    fn symbol<T>(&self, kernel: &str, prefix: &str) -> Result<Symbol<'_, T>, TwinError> {
        // SAFETY: what the shim defines under these prefixes has the types that the callers below
        // name.
        unsafe { self.library.get(format!("{prefix}{kernel}")) }
            .map_err(|_| TwinError::Unknown { kernel: kernel.into() })
    }

    /// Runs a launch twice, from the same contents: once in order, once in an order drawn from
    /// `seed`.
    ///
    /// Bytes of [`Arg::Write`] differ before the two runs.
    ///
    /// # Errors
    /// [`TwinError::Array`] if the runs leave different bytes (a race, or bytes that were not
    /// written), or if an array of [`Arg::Read`] has changed; the other errors for a kernel that
    /// does not exist, arguments that do not match it, and barriers that were not reached.
    ///
    /// # Safety
    /// Addresses are those of host memory, valid for as many bytes as the arguments say, and nobody
    /// else uses it meanwhile. The kernel accesses no other memory.
    pub unsafe fn run(
        &self,
        kernel: &str,
        [grid, block]: [[u32; 3]; 2],
        args: &[Arg],
        seed: u64,
    ) -> Result<(), TwinError> {
        let arrays: Vec<Array> = args.iter().filter_map(Array::of).collect();
        // SAFETY: for this block: the arrays are as the caller promises.
        unsafe {
            let before: Vec<Vec<u8>> = arrays.iter().map(|a| a.bytes().to_vec()).collect();
            fill_written(&arrays, 0xa5);
            self.run_once(kernel, grid, block, args, 0)?;
            let first: Vec<Vec<u8>> = arrays.iter().map(|a| a.bytes().to_vec()).collect();
            for (array, bytes) in arrays.iter().zip(&before).filter(|(a, _)| a.changes) {
                array.set(bytes);
            }
            fill_written(&arrays, 0x5a);
            self.run_once(kernel, grid, block, args, seed | 1)?;
            for (at, (array, bytes)) in arrays.iter().zip(&first).enumerate() {
                let wrong = |what| Err(TwinError::Array { kernel: kernel.into(), array: at, what });
                if array.bytes() != *bytes {
                    return wrong("another order of threads, or other bytes before, gave another result");
                }
                if !array.changes && *bytes != before[at] {
                    return wrong("it was to be read only, and was written");
                }
            }
        }
        Ok(())
    }

    /// Runs a launch once, its threads in order.
    ///
    /// # Errors
    /// The errors of [`run`](Twins::run), except those that need two runs.
    ///
    /// # Safety
    /// As for [`run`](Twins::run).
    pub unsafe fn run_in_order(
        &self,
        kernel: &str,
        [grid, block]: [[u32; 3]; 2],
        args: &[Arg],
    ) -> Result<(), TwinError> {
        // SAFETY: the caller's promise.
        unsafe { self.run_once(kernel, grid, block, args, 0) }
    }

    /// Runs the kernel once.
    ///
    /// # Safety
    /// As for [`run`](Twins::run).
    unsafe fn run_once(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[Arg],
        seed: u64,
    ) -> Result<(), TwinError> {
        self.check_sizes(kernel, args)?;
        let mut values: Vec<u64> = args.iter().map(value).collect();
        let mut places: Vec<*mut c_void> = values.iter_mut().map(|v| std::ptr::from_mut(v).cast()).collect();
        let launch = self.symbol::<LaunchEntry>("", "shim_launch")?;
        let entry = self.symbol::<Entry>(kernel, "twin_")?;
        // SAFETY: the kernel takes as many arguments, of these sizes, and reads each from its
        // place; what the pointers among them point to is the caller's promise.
        let code = unsafe { launch(*entry, grid.as_ptr(), block.as_ptr(), places.as_mut_ptr(), seed) };
        if code == 0 { Ok(()) } else { Err(TwinError::Barrier { kernel: kernel.into() }) }
    }

    fn check_sizes(&self, kernel: &str, args: &[Arg]) -> Result<(), TwinError> {
        let sizes = self.symbol::<SizesEntry>(kernel, "sizes_")?;
        let mut want = Vec::new();
        // SAFETY: the shim gives the address of a static array that ends with a 0.
        unsafe {
            let mut at = sizes();
            while *at != 0 {
                want.push(*at);
                at = at.add(1);
            }
        }
        let got: Vec<u32> = args.iter().map(bytes_of).collect();
        if got == want { Ok(()) } else { Err(TwinError::Arguments { kernel: kernel.into(), want, got }) }
    }
}

fn load(path: &Path) -> Result<Library, TwinError> {
    // SAFETY: the library was compiled from the shim and a source; its static initialisers are
    // those of the C++ library.
    unsafe { Library::new(path) }.map_err(|error| TwinError::System {
        what: format!("loading {}", path.display()),
        why: error.to_string(),
    })
}

fn bytes_of(arg: &Arg) -> u32 {
    match arg {
        Arg::I32(_) | Arg::U32(_) | Arg::F32(_) => 4,
        _ => 8,
    }
}

/// An argument's bytes, in the first of 8: this machine is little-endian, as every one that CUDA
/// runs on.
fn value(arg: &Arg) -> u64 {
    match *arg {
        Arg::Read(at, _) | Arg::Write(at, _) | Arg::Update(at, _) => at.0,
        Arg::I32(x) => u64::from(x as u32),
        Arg::U32(x) => x.into(),
        Arg::U64(x) => x,
        Arg::F32(x) => x.to_bits().into(),
        Arg::F64(x) => x.to_bits(),
    }
}

/// An array that a launch names.
struct Array {
    at: *mut u8,
    bytes: usize,
    changes: bool,
    whole: bool,
}

impl Array {
    fn of(arg: &Arg) -> Option<Array> {
        let (at, bytes, changes, whole) = match *arg {
            Arg::Read(at, bytes) => (at, bytes, false, false),
            Arg::Write(at, bytes) => (at, bytes, true, true),
            Arg::Update(at, bytes) => (at, bytes, true, false),
            _ => return None,
        };
        let at = std::ptr::with_exposed_provenance_mut(at.0 as usize);
        (bytes > 0).then_some(Array { at, bytes: bytes as usize, changes, whole })
    }

    /// # Safety
    /// The memory is there, and nothing writes it meanwhile.
    unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: as the caller promises.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }
    }

    /// # Safety
    /// The memory is there and may be written, and nothing else uses it meanwhile.
    unsafe fn set(&self, bytes: &[u8]) {
        // SAFETY: as the caller promises; `bytes` is as long as the array, whose copy it is.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at, self.bytes.min(bytes.len())) };
    }
}

/// # Safety
/// As [`Array::set`], for each.
unsafe fn fill_written(arrays: &[Array], byte: u8) {
    for array in arrays.iter().filter(|a| a.whole) {
        // SAFETY: as the caller promises.
        unsafe { std::ptr::write_bytes(array.at, byte, array.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_gpu::Address;

    const SOURCE: &str = r#"
extern "C" __global__ void race(unsigned *out) { out[0] = threadIdx.x; }
extern "C" __global__ void part(unsigned n, unsigned *out)
{
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) out[i] = 1;
}
extern "C" __global__ void reads(const unsigned *in) { const_cast<unsigned *>(in)[0] = 7; }
extern "C" __global__ void diverges(unsigned *out) { if (threadIdx.x > 0) { out[0] = 1; __syncthreads(); } }
// Without the barrier a thread would find its neighbour's number or zero.
extern "C" __global__ void turns(unsigned *out)
{
    __shared__ unsigned mine[8];
    mine[threadIdx.x] = threadIdx.x + 10 * blockIdx.x;
    __syncthreads();
    out[blockIdx.x * 8 + threadIdx.x] = mine[7 - threadIdx.x];
}
"#;

    fn twins() -> Option<Twins> {
        Twins::build("test", SOURCE, &["race", "part", "reads", "diverges", "turns"]).unwrap()
    }

    fn address(x: &mut [u32]) -> Address {
        Address(x.as_mut_ptr().expose_provenance() as u64)
    }

    const EIGHT: [[u32; 3]; 2] = [[2, 1, 1], [8, 1, 1]];

    #[test]
    fn barriers_order_the_threads_of_a_block() {
        let Some(twins) = twins() else { return };
        let mut out = [0; 16];
        for seed in 0..20 {
            let args = [Arg::Write(address(&mut out), 64)];
            // SAFETY: `out` has 64 bytes and is used by nobody else.
            unsafe { twins.run("turns", EIGHT, &args, seed) }.unwrap();
            for (i, &x) in out.iter().enumerate() {
                assert_eq!(x as usize, 7 - i % 8 + 10 * (i / 8));
            }
        }
    }

    #[test]
    fn wrong_kernels_are_found_out() {
        let Some(twins) = twins() else { return };
        let (mut out, mut into) = ([0; 16], [0; 4]);
        let write = Arg::Write(address(&mut out), 64);
        // SAFETY: for the runs below: arrays as long as their arguments say, used by nobody else.
        let run = |kernel, args: &[Arg]| unsafe { twins.run(kernel, EIGHT, args, 5) };
        assert!(matches!(run("race", &[Arg::Update(address(&mut out), 4)]), Err(TwinError::Array { .. })));
        // 16 words are to be written, 8 are.
        let partly = run("part", &[Arg::U32(8), write]).unwrap_err();
        assert!(matches!(partly, TwinError::Array { array: 0, .. }), "{partly}");
        run("part", &[Arg::U32(16), write]).unwrap();
        let written = run("reads", &[Arg::Read(address(&mut into), 16)]).unwrap_err();
        assert!(written.to_string().contains("read only"), "{written}");
        assert!(matches!(run("diverges", &[write]), Err(TwinError::Barrier { .. })));
        assert!(matches!(run("part", &[write]), Err(TwinError::Arguments { .. })));
        assert!(matches!(run("absent", &[]), Err(TwinError::Unknown { .. })));
        let broken = Twins::build("broken", "int x = ;", &[]).unwrap_err();
        assert!(broken.to_string().contains("broken"), "{broken}");
    }
}
