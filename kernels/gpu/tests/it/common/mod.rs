//! Helpers that tests of the mock share.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use zellige_gpu::mock::{Mock, MockBuilder};
use zellige_gpu::twin::TwinArg;
use zellige_gpu::{Address, Arg, Driver, GpuError, Kernel, Place, Stream};

/// Fails if `f` takes too long: a hang is a failure.
pub fn within<T: Send + 'static>(seconds: u64, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(f()));
    match receiver.recv_timeout(Duration::from_secs(seconds)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("not done after {seconds} s"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it sent nothing"))
        }
    }
}

/// The kernel `mix(update x, read y, salt)`: `x = 31 x + y + salt`, byte by byte. No two orders of
/// its calls give the same.
pub fn with_mix(builder: MockBuilder) -> MockBuilder {
    builder.kernel("mix", |_, _, args| {
        let [TwinArg::Update(x), TwinArg::Read(y), TwinArg::U32(salt)] = args else {
            return Err("mix takes an update, a read and a number".into());
        };
        mix(x, y, *salt);
        Ok(())
    })
}

pub fn mix(x: &mut [u8], y: &[u8], salt: u32) {
    for (x, y) in x.iter_mut().zip(y) {
        *x = x.wrapping_mul(31).wrapping_add(*y).wrapping_add(salt as u8);
    }
}

/// A mock with `mix` on its first GPU.
pub struct Bench {
    pub mock: Mock,
    pub mix: Kernel,
}

impl Bench {
    pub fn new(seed: u64) -> Bench {
        Bench::of(Mock::builder().gpus(2).seed(seed))
    }

    pub fn of(builder: MockBuilder) -> Bench {
        let mock = with_mix(builder).build();
        let mix = mock.load(0, b"any").and_then(|module| mock.kernel(module, "mix")).unwrap();
        Bench { mock, mix }
    }

    pub fn stream(&self) -> Stream {
        self.mock.create_stream(0, false).unwrap()
    }

    /// `mix` of `bytes` bytes.
    pub fn mix(&self, stream: Stream, x: Address, y: Address, bytes: u64) -> Result<(), GpuError> {
        let args = [Arg::Update(x, bytes), Arg::Read(y, bytes), Arg::U32(1)];
        // SAFETY: the mock checks addresses; only device memory is named.
        unsafe { self.mock.launch(stream, self.mix, [1, 1, 1], [32, 1, 1], 0, &args) }
    }

    pub fn zero(&self, stream: Stream, at: Address, bytes: u64) -> Result<(), GpuError> {
        // SAFETY: the mock checks addresses; only device memory is named.
        unsafe { self.mock.zero(stream, at, bytes) }
    }

    pub fn free(&self, stream: Stream, at: Address) -> Result<(), GpuError> {
        // SAFETY: the mock checks addresses; only device memory is named.
        unsafe { self.mock.free(stream, at) }
    }

    /// Makes `later` wait for the operations that are on `first` now.
    pub fn order(&self, first: Stream, later: Stream) -> Result<(), GpuError> {
        let event = self.mock.create_event(0, false)?;
        self.mock.record(event, first)?;
        self.mock.wait_event(later, event)
    }

    /// Returns the contents of device memory after the stream has ended.
    pub fn read(&self, stream: Stream, at: Address, bytes: usize) -> Result<Vec<u8>, GpuError> {
        let mut host = vec![0; bytes];
        let to = Place::Host(host.as_mut_ptr());
        // SAFETY: the buffer lives until the stream has ended.
        unsafe { self.mock.copy(stream, to, Place::Gpu(0, at), bytes as u64)? };
        self.mock.synchronize(stream)?;
        Ok(host)
    }

    /// Puts bytes into device memory.
    pub fn write(&self, stream: Stream, at: Address, bytes: &[u8]) -> Result<(), GpuError> {
        let from = Place::Host(bytes.as_ptr().cast_mut());
        // SAFETY: the buffer is only read, and lives until the stream has ended.
        unsafe { self.mock.copy(stream, Place::Gpu(0, at), from, bytes.len() as u64)? };
        self.mock.synchronize(stream)
    }
}

/// Asserts that the error is sticky, contains all of `words`, is recorded as a violation, and is
/// returned again.
pub fn assert_caught(bench: &Bench, error: GpuError, words: &[&str]) {
    assert!(error.is_sticky(), "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert_eq!(bench.mock.violations(), [text]);
    assert_eq!(bench.mock.create_stream(0, false), Err(error.clone()));
    assert_eq!(bench.mock.memory(0), Err(error));
}
