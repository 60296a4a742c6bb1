//! Tests of the CUDA driver on stand-ins for NVIDIA's libraries (`mock/mock.c`): every call is
//! made, and each gets its documented arguments.
//!
//! These tests cannot show the effect of a call on a GPU. Libraries are found when a process first
//! needs them, so each test runs itself again in a process of its own whose `LD_LIBRARY_PATH` names
//! the stand-ins. Without a C compiler a line is printed instead.

mod libraries;
mod memory;
mod products;

use std::path::Path;
use std::process::Command;

use zellige_gpu::cuda::{Cuda, libraries, loaded_from, look_in, skipped};
use zellige_gpu::twin::encode;
use zellige_gpu::{
    Address, Arg, BatchedGemm, Compute, Driver, Element, Factors, Gauges, Gemm, GpuError, Library,
    LibraryState, Matrix, Place, Potrf, Side, Stream, Syrk, Transpose, Trsm,
};

/// Tells the process that it is the second one.
const SECOND: &str = "ZELLIGE_TEST_SECOND_PROCESS";
const ALL: [&str; 6] = ["cuda", "cublas", "cublasLt", "cusolver", "nvToolsExt", "nvidia-ml"];

/// Runs `check`, the body of the one test whose name has `test` in it, in a process that finds
/// these libraries and this environment. Gives what that process wrote.
fn with(test: &str, there: &[&str], variables: &[(&str, &str)], check: fn()) -> String {
    if std::env::var_os(SECOND).is_some() {
        check();
        return String::new();
    }
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mock/mock.c");
    for library in there {
        let out = folder.path().join(format!("lib{library}.so"));
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", &format!("-DMOCK_{}", library.replace('-', "_")), "-o"])
            .arg(out)
            .arg(&source)
            .arg("-lm");
        match compiler.status() {
            Ok(status) => assert!(status.success(), "{compiler:?}"),
            Err(error) => {
                println!("skipped: no C compiler: {error}");
                return String::new();
            }
        }
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([test, "--nocapture"]).env(SECOND, "1").env("LD_LIBRARY_PATH", folder.path());
    let output = again.envs(variables.iter().copied()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    text
}

fn missing(result: Result<Cuda, GpuError>) -> String {
    match result {
        Err(GpuError::Missing { library: Library::Driver, reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// A GPU, a stream, and matrices on it.
struct Gpu {
    cuda: Cuda,
    stream: Stream,
}

impl Gpu {
    fn new() -> Gpu {
        let cuda = Cuda::open().unwrap();
        let stream = cuda.create_stream(0, true).unwrap();
        Gpu { cuda, stream }
    }

    fn write(&self, bytes: &[u8]) -> Address {
        let at = self.cuda.allocate(self.stream, bytes.len() as u64).unwrap();
        let from = Place::Host(bytes.as_ptr().cast_mut());
        // SAFETY: as many bytes are at both ends; the stand-ins copy synchronously.
        unsafe { self.cuda.copy(self.stream, Place::Gpu(0, at), from, bytes.len() as u64).unwrap() };
        at
    }

    fn read<const N: usize>(&self, at: Address, size: usize) -> [f32; N] {
        let mut bytes = vec![0u8; N * size];
        // SAFETY: the memory that is named exists, and the stand-ins run calls synchronously.
        unsafe {
            self.cuda.copy(
                self.stream,
                Place::Host(bytes.as_mut_ptr()),
                Place::Gpu(0, at),
                bytes.len() as u64,
            )
        }
        .unwrap();
        std::array::from_fn(|i| match size {
            8 => f64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap()) as f32,
            _ => f32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap()),
        })
    }

    /// Numbers in columns of `ld`.
    fn matrix(&self, element: Element, ld: u32, numbers: &[f64]) -> Matrix {
        let size = element.bytes() as usize;
        let mut bytes = vec![0; numbers.len() * size];
        for (x, bytes) in numbers.iter().zip(bytes.chunks_mut(size)) {
            encode(element, *x, bytes);
        }
        Matrix { at: self.write(&bytes), ld, element }
    }
}

/// Environment variable by which a profiler is found.
const HEARD: [(&str, &str); 1] = [("NVTX_INJECTION64_PATH", "/opt/profiler/libinjection.so")];

/// Room for the libraries' working space.
const LARGE: [(&str, &str); 1] = [("MOCK_MEMORY", "268435456")];

fn gemm(ops: (Transpose, Transpose), [m, n, k]: [u32; 3], [a, b, c]: [Matrix; 3], compute: Compute) -> Gemm {
    let factors = Factors::Host { alpha: 2.0, beta: -1.0 };
    Gemm { op_a: ops.0, op_b: ops.1, m, n, k, factors, a, b, c, compute }
}
