//! A custom device: a child process with memory of its own that has a few kernels, under the
//! self-test.
//!
//! The parent reaches the child's memory only through a pipe. Four traits make it a device of the
//! runtime: `ChildSpec` describes it, `Child` runs operations in order, with one thread for each
//! stream, `Memory` frees bytes, and `Calls` allocates and copies. Every call is complete when it
//! returns, so nothing has to be kept or waited for.
//!
//! ```sh
//! cargo run --release -p zellige-selftest --example child_process -- 200
//! ```

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::env;
use std::error::Error;
use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use zellige_gpu::Arg;
use zellige_gpu::source::Launch;
use zellige_gpu::twin::TwinArg;
use zellige_runtime::TaskError;
use zellige_runtime::codelet::DeviceContext;
use zellige_runtime::device::{
    Arch, Device, DeviceError, DeviceMemory, DeviceSpec, Op, Opening, Place, Span, Stream, StreamError,
    StreamId,
};
use zellige_selftest::{Accelerator, Fuzz, run_on_host};

static ARCH: LazyLock<Arch> = LazyLock::new(|| Arch::named("child"));

/// The argument that marks the program as the child.
const CHILD: &str = "--child";

fn main() -> Result<(), Box<dyn Error>> {
    let argument = env::args().nth(1);
    if argument.as_deref() == Some(CHILD) {
        return Ok(serve(&mut BufReader::new(io::stdin()), &mut BufWriter::new(io::stdout()))?);
    }
    let graphs = argument.map_or(Ok(40), |graphs| graphs.parse())?;
    let device = |bytes, fails_at| Arc::new(ChildSpec { bytes, fails_at }) as Arc<dyn DeviceSpec>;
    let accelerator = Some(Accelerator { arch: *ARCH, device, launch });
    for deaths in [false, true] {
        let report = Fuzz { graphs, seed: 1, deaths, accelerator, ..Fuzz::default() }.run(|_, _| true);
        let failed = report.failures.len();
        println!("{graphs} random graphs, devices fail: {deaths}; {failed} graphs failed");
        if let Some(first) = report.failures.first() {
            return Err(format!("seed {}: {first:?}", first.seed).into());
        }
    }
    Ok(())
}

// The child: a request consists of a byte for its kind, then numbers of eight bytes, then bytes.

const ALLOCATE: u8 = 0;
const FREE: u8 = 1;
const WRITE: u8 = 2;
const READ: u8 = 3;
const COPY: u8 = 4;
const RUN: u8 = 5;

/// Answers requests until the parent closes the pipe.
fn serve(requests: &mut impl Read, answers: &mut impl Write) -> io::Result<()> {
    let mut memory: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut next = 1 << 20;
    loop {
        let mut what = [0];
        if requests.read(&mut what)? == 0 {
            return Ok(());
        }
        match what[0] {
            ALLOCATE => {
                let bytes = number(requests)?;
                // Unwritten memory holds garbage.
                memory.insert(next, vec![0xa5; bytes as usize]);
                answers.write_all(&next.to_le_bytes())?;
                next += bytes.next_multiple_of(256);
            }
            FREE => {
                memory.remove(&number(requests)?);
            }
            WRITE => {
                let (at, bytes) = (number(requests)?, number(requests)? as usize);
                let block = memory.get_mut(&at).ok_or_else(nothing_there)?;
                requests.read_exact(&mut block[..bytes])?;
            }
            READ => {
                let (at, bytes) = (number(requests)?, number(requests)? as usize);
                answers.write_all(&memory.get(&at).ok_or_else(nothing_there)?[..bytes])?;
            }
            COPY => {
                let (to, from, bytes) = (number(requests)?, number(requests)?, number(requests)? as usize);
                let source = memory.get(&from).ok_or_else(nothing_there)?[..bytes].to_vec();
                memory.get_mut(&to).ok_or_else(nothing_there)?[..bytes].copy_from_slice(&source);
            }
            RUN => run(requests, &mut memory)?,
            other => return Err(io::Error::other(format!("no request is {other}"))),
        }
        answers.flush()?;
    }
}

/// Runs a kernel: the request has the bytes of its name, then its arguments, each a kind and one or
/// two numbers.
fn run(requests: &mut impl Read, memory: &mut BTreeMap<u64, Vec<u8>>) -> io::Result<()> {
    let mut name = vec![0; number(requests)? as usize];
    requests.read_exact(&mut name)?;
    let args: Vec<[u64; 3]> = (0..number(requests)?)
        .map(|_| Ok([number(requests)?, number(requests)?, number(requests)?]))
        .collect::<io::Result<_>>()?;
    // Arrays are taken out of the memory while the kernel has them: no two of its arguments are one
    // array. Empty ones have no address.
    let mut take = |at, bytes| if bytes == 0 { Some(Vec::new()) } else { memory.remove(at) };
    let mut arrays: Vec<(u64, Vec<u8>)> = args
        .iter()
        .filter(|[kind, ..]| *kind <= UPDATED)
        .map(|[_, at, bytes]| Ok((*at, take(at, *bytes).ok_or_else(nothing_there)?)))
        .collect::<io::Result<_>>()?;
    let mut lent = arrays.iter_mut();
    let mut views: Vec<TwinArg<'_>> = args
        .iter()
        .map(|&[kind, first, bytes]| {
            let mut array = || &mut lent.next().expect("taken out above").1[..bytes as usize];
            match kind {
                READ_ONLY => TwinArg::Read(array()),
                WRITTEN => TwinArg::Write(array()),
                UPDATED => TwinArg::Update(array()),
                U32 => TwinArg::U32(first as u32),
                _ => TwinArg::U64(first),
            }
        })
        .collect();
    run_on_host(&String::from_utf8_lossy(&name), &mut views).map_err(io::Error::other)?;
    memory.extend(arrays.into_iter().filter(|(_, array)| !array.is_empty()));
    Ok(())
}

const READ_ONLY: u64 = 0;
const WRITTEN: u64 = 1;
const UPDATED: u64 = 2;
const U32: u64 = 3;
const U64: u64 = 4;

fn number(requests: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    requests.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn nothing_there() -> io::Error {
    io::Error::other("nothing lies there")
}

// The parent.

/// Describes the device.
#[derive(Debug)]
struct ChildSpec {
    bytes: u64,
    fails_at: Option<u64>,
}

impl DeviceSpec for ChildSpec {
    fn kind(&self) -> &str {
        "child"
    }

    fn capacity(&self) -> u64 {
        self.bytes
    }

    fn title(&self) -> String {
        "a child process".into()
    }

    fn open(&self, opening: Opening) -> Result<Arc<dyn Device>, String> {
        let memory = Memory::start(opening.name).map_err(|error| format!("starting the child: {error}"))?;
        let (operations, streams) = Default::default();
        Ok(Arc::new(Child { memory: Arc::new(memory), fails_at: self.fails_at, operations, streams }))
    }
}

/// The child's memory, and the pipe through which it is reached.
struct Memory {
    name: String,
    pipe: Mutex<Pipe>,
    is_lost: AtomicBool,
}

struct Pipe {
    child: process::Child,
    requests: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Memory {
    fn start(name: String) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        let mut child = command.arg(CHILD).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = BufWriter::new(child.stdin.take().expect("piped"));
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        let pipe = Mutex::new(Pipe { child, requests, answers });
        Ok(Memory { name, pipe, is_lost: AtomicBool::new(false) })
    }

    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request, with some bytes after its numbers, and reads the answer, if one is
    /// expected.
    fn call(&self, what: u8, numbers: &[u64], bytes: &[u8], answer: &mut [u8]) -> io::Result<()> {
        let mut pipe = self.pipe();
        let mut call = || -> io::Result<()> {
            pipe.requests.write_all(&[what])?;
            numbers.iter().try_for_each(|number| pipe.requests.write_all(&number.to_le_bytes()))?;
            pipe.requests.write_all(bytes)?;
            pipe.requests.flush()?;
            pipe.answers.read_exact(answer)
        };
        call().inspect_err(|_| self.is_lost.store(true, Ordering::Release))
    }

    /// Ends the child, like a fault of the device.
    fn kill(&self) {
        let _ = self.pipe().child.kill();
        self.is_lost.store(true, Ordering::Release);
    }

    fn failure(&self, reason: &str) -> DeviceError {
        DeviceError { device: self.name.clone(), reason: reason.into() }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({})", self.name)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut pipe = self.pipe();
        let _ = pipe.child.kill();
        let _ = pipe.child.wait();
    }
}

impl DeviceMemory for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn arch(&self) -> Arch {
        *ARCH
    }

    fn free(&self, at: u64) {
        // A lost child has no memory to free.
        let _ = self.call(FREE, &[at], &[], &mut []);
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

/// A stream: calls of the thread that runs its operations.
struct Calls {
    memory: Arc<Memory>,
    erased: Arc<dyn DeviceMemory>,
    kept: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl Calls {
    fn new(memory: &Arc<Memory>) -> Self {
        let erased: Arc<dyn DeviceMemory> = Arc::<Memory>::clone(memory);
        Calls { memory: Arc::clone(memory), erased, kept: Mutex::default() }
    }

    fn call(&self, what: u8, numbers: &[u64], bytes: &[u8], answer: &mut [u8]) -> Result<(), StreamError> {
        self.memory.call(what, numbers, bytes, answer).map_err(|error| StreamError::Failed(error.into()))
    }
}

impl Stream for Calls {
    fn memory(&self) -> &Arc<dyn DeviceMemory> {
        &self.erased
    }

    fn allocate(&self, _memory: &Arc<dyn DeviceMemory>, bytes: u64) -> Result<u64, StreamError> {
        let mut at = [0; 8];
        self.call(ALLOCATE, &[bytes], &[], &mut at)?;
        Ok(u64::from_le_bytes(at))
    }

    unsafe fn copy(&self, to: Place<'_>, from: Place<'_>, bytes: u64) -> Result<(), StreamError> {
        match (to, from) {
            (Place::Device(_, to), Place::Device(_, from)) => {
                self.call(COPY, &[to, from, bytes], &[], &mut [])
            }
            (Place::Device(_, to), Place::Host(from)) => {
                // SAFETY: the caller's promise.
                let from = unsafe { std::slice::from_raw_parts(from, bytes as usize) };
                self.call(WRITE, &[to, bytes], from, &mut [])
            }
            (Place::Host(to), Place::Device(_, from)) => {
                // SAFETY: the caller's promise.
                let to = unsafe { std::slice::from_raw_parts_mut(to, bytes as usize) };
                self.call(READ, &[from, bytes], &[], to)
            }
            (Place::Host(_), Place::Host(_)) => Err(StreamError::Failed("the host copies by itself".into())),
        }
    }

    fn synchronize(&self) -> Result<(), StreamError> {
        Ok(())
    }

    fn keep(&self, what: Box<dyn Any + Send>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    fn is_loss(&self, _error: &dyn fmt::Display) -> bool {
        self.memory.is_lost()
    }

    fn check(&self) -> Result<(), DeviceError> {
        if self.memory.is_lost() { Err(self.memory.failure("the child has ended")) } else { Ok(()) }
    }
}

/// Makes the child run a kernel.
fn launch(cx: &DeviceContext<'_>, launch: &Launch) -> Result<(), TaskError> {
    let stream: &Calls = cx.stream().downcast().expect("the function is named for this architecture");
    let numbers = launch.args.iter().map(|arg| match *arg {
        Arg::Read(at, bytes) => [READ_ONLY, at.0, bytes],
        Arg::Write(at, bytes) => [WRITTEN, at.0, bytes],
        Arg::Update(at, bytes) => [UPDATED, at.0, bytes],
        Arg::U32(number) => [U32, number.into(), 0],
        Arg::U64(number) => [U64, number, 0],
        ref other => panic!("no kernel here takes {other:?}"),
    });
    let mut bytes = launch.kernel.as_bytes().to_vec();
    bytes.extend((launch.args.len() as u64).to_le_bytes());
    bytes.extend(numbers.flatten().flat_map(u64::to_le_bytes));
    Ok(stream.call(RUN, &[launch.kernel.len() as u64], &bytes, &mut [])?)
}

/// The device in use: a thread for each stream, started at the first use of the stream.
struct Child {
    memory: Arc<Memory>,
    fails_at: Option<u64>,
    operations: Arc<AtomicU64>,
    streams: Mutex<HashMap<StreamId, Queue>>,
}

/// The queue of a stream's operations, and the thread that performs them.
type Queue = (Sender<Op>, JoinHandle<()>);

impl Child {
    fn start(&self) -> Queue {
        let (sender, ops) = channel::<Op>();
        let (memory, fails_at, operations) =
            (Arc::clone(&self.memory), self.fails_at, Arc::clone(&self.operations));
        let work = move || {
            for op in ops {
                if fails_at == Some(operations.fetch_add(1, Ordering::Relaxed)) {
                    memory.kill();
                }
                perform(&memory, op);
            }
        };
        (sender, thread::spawn(work))
    }
}

fn perform(memory: &Arc<Memory>, op: Op) {
    let start = Instant::now();
    let calls = Arc::new(Calls::new(memory));
    let stream: Arc<dyn Stream> = Arc::<Calls>::clone(&calls);
    let ran = if memory.is_lost() { Ok(()) } else { (op.run)(Some(&stream)) };
    // The resources of the operation are freed here: nothing of it is in progress.
    drop(std::mem::take(&mut *calls.kept.lock().unwrap_or_else(PoisonError::into_inner)));
    let ended = ran.and_then(|()| calls.check()).map(|()| Span { start, end: Instant::now() });
    (op.done)(ended);
}

impl Device for Child {
    fn enqueue(&self, stream: StreamId, op: Op) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, _) = streams.entry(stream).or_insert_with(|| self.start());
        // Threads end when their sender does.
        let _ = sender.send(op);
    }

    fn close(&self) -> bool {
        let streams = std::mem::take(&mut *self.streams.lock().unwrap_or_else(PoisonError::into_inner));
        let were_open = !streams.is_empty();
        for (sender, thread) in streams.into_values() {
            drop(sender);
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
        were_open
    }

    fn memory(&self) -> Option<Arc<dyn DeviceMemory>> {
        Some(Arc::<Memory>::clone(&self.memory))
    }
}
