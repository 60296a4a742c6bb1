//! Transfer of frames over a socket, from one sender at a time. No frame is lost if a connection
//! is: frames that were not acknowledged are sent again.
//!
//! Both sides begin with [`HELLO`] bytes: `ZELLIGE` and a zero byte, the protocol's version
//! ([`VERSION`]) and the role, `uint32` each. Role 1 is a sender, 2 a receiver, 3 a receiver that
//! already has another sender and closes the connection. All numbers are little-endian. A receiver
//! then sends counts of frames, `uint64`: one at once, after which the sender begins, and one
//! whenever more frames are safe. The sender sends frames, one of kind [`KEEP`] if it sends no
//! other for a while, and at last one of kind [`END`]. It is done when a count says that all frames
//! are safe. A connection that ends before that is lost, and the receiver waits for another one.
//!
//! All waits are limited. The connection counts as lost if a peer does not introduce itself within
//! [`HELLO_LIMIT`], or a sender is silent for [`IDLE_LIMIT`]. It also does if a receiver makes no
//! frame safe within the sender's time limit.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::record::{END, KEEP};
use super::source::{Acknowledger, Mark, Next, Source};
use crate::Error;
use crate::files::geb::{Frame, FrameReader, write_frame};
use crate::observe::Observer;
use zellige_runtime::internal::threads::{SMALL_STACK, start_thread};

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// Number of bytes of the introduction of each side.
pub const HELLO: usize = 16;
/// Time limit for the introduction of a peer.
pub const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// Time after which a silent sender counts as lost.
pub const IDLE_LIMIT: Duration = Duration::from_secs(30);

const MAGIC: [u8; 8] = *b"ZELLIGE\0";
const SENDER: u32 = 1;
const RECEIVER: u32 = 2;
const BUSY: u32 = 3;

/// Returns the introduction of a side.
fn hello(side: u32) -> [u8; HELLO] {
    let mut bytes = [0; HELLO];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..].copy_from_slice(&side.to_le_bytes());
    bytes
}

/// Returns the role of a peer from its introduction, or a description of the error.
fn side(bytes: [u8; HELLO]) -> Result<u32, String> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    match (bytes[..8] == MAGIC, word(8)) {
        (false, _) => Err("the peer does not use the protocol of zellige psa stream".into()),
        (true, VERSION) => Ok(word(12)),
        (true, other) => {
            Err(format!("the peer uses version {other} of the protocol, this program version {VERSION}"))
        }
    }
}

/// Resolves `HOST:PORT`, or `PORT` alone on this machine.
fn resolved(name: &str) -> Result<Vec<SocketAddr>, Error> {
    let found = match name.parse::<u16>() {
        Ok(port) => ("localhost", port).to_socket_addrs(),
        Err(_) => name.to_socket_addrs(),
    };
    let cannot = |e| {
        let problem = format!("{name:?}: PORT or HOST:PORT is needed: {e}");
        Error::Parameter { name: "address", problem }
    };
    Ok(found.map_err(cannot)?.collect())
}

/// Receiving end of a socket.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    /// Senders that have introduced themselves, one at a time.
    senders: Receiver<TcpStream>,
    frames: Option<FrameReader<TcpStream>>,
    count: u64,
    sender: Acknowledger,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether there is a sender, or one that has introduced itself and waits for its count.
    is_taken: AtomicBool,
    has_ended: AtomicBool,
}

impl Listener {
    /// Listens at `HOST:PORT`, or at a `PORT` of this machine alone, for the frames after `from`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an invalid address, [`Error::Connection`] if listening there fails.
    pub fn bind(name: &str, from: Mark) -> Result<Listener, Error> {
        let cannot = |e| Error::Connection(format!("cannot listen at {name}: {e}"));
        let listener = TcpListener::bind(&*resolved(name)?).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let (arrived, senders) = channel();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let welcome = move || welcome(&listener, &arrived, &shared);
        start_thread("psa-listener".into(), SMALL_STACK, welcome)
            .map_err(|error| Error::Connection(format!("the thread that listens does not start: {error}")))?;
        Ok(Listener {
            address,
            senders,
            frames: None,
            count: from.frames,
            sender: Acknowledger::default(),
            state,
        })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the frame reader of the sender; blocks until there is one.
    fn connected(&mut self) -> Result<&mut FrameReader<TcpStream>, Error> {
        while self.frames.is_none() {
            let nobody = |_| Error::Connection("connections are no longer accepted".into());
            let mut stream = self.senders.recv().map_err(nobody)?;
            let begun = stream
                .write_all(&hello(RECEIVER))
                .and_then(|()| stream.write_all(&self.count.to_le_bytes()))
                .and_then(|()| stream.set_read_timeout(Some(IDLE_LIMIT)))
                .and_then(|()| stream.try_clone());
            // A sender that is gone again leaves its place to the next one.
            match begun {
                Ok(copy) => {
                    *self.sender.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(copy);
                    self.frames = Some(FrameReader::new(stream));
                }
                Err(_) => self.state.is_taken.store(false, Ordering::Release),
            }
        }
        Ok(self.frames.as_mut().expect("just connected"))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect_timeout(&self.address, HELLO_LIMIT);
    }
}

/// Accepts connections until the listener is gone, each on a thread of its own, so that a silent
/// one does not block others.
fn welcome(listener: &TcpListener, arrived: &Sender<TcpStream>, state: &Arc<State>) {
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // For example, too many files are open: a later attempt may succeed.
            std::thread::sleep(RETRY);
            continue;
        };
        if state.has_ended.load(Ordering::Acquire) {
            return;
        }
        let (arrived, state) = (arrived.clone(), Arc::clone(state));
        // A connection with an error, or without a thread, is dropped; a peer with an invalid
        // introduction has received ours.
        let introduce = move || introduce(stream, &arrived, &state);
        let _ = start_thread("psa-sender".into(), SMALL_STACK, introduce);
    }
}

/// Accepts a sender, or replies with the reason for the refusal.
fn introduce(mut stream: TcpStream, arrived: &Sender<TcpStream>, state: &State) -> io::Result<()> {
    stream.set_read_timeout(Some(HELLO_LIMIT))?;
    stream.set_write_timeout(Some(HELLO_LIMIT))?;
    let mut bytes = [0; HELLO];
    stream.read_exact(&mut bytes)?;
    if side(bytes) != Ok(SENDER) {
        return stream.write_all(&hello(RECEIVER));
    }
    if state.is_taken.swap(true, Ordering::AcqRel) {
        return stream.write_all(&hello(BUSY));
    }
    if arrived.send(stream).is_err() {
        state.is_taken.store(false, Ordering::Release);
    }
    Ok(())
}

impl Source for Listener {
    /// Reads the next frame. An incomplete frame of a lost connection is discarded: it is sent
    /// again.
    fn next(&mut self, frame: &mut Frame) -> Result<Next, Error> {
        loop {
            match self.connected()?.next(frame) {
                Ok(true) if frame.kind == KEEP => {}
                Ok(true) if frame.kind == END => return Ok(Next::End),
                Ok(true) => {
                    self.count += 1;
                    return Ok(Next::Frame(Mark { offset: 0, frames: self.count }));
                }
                Ok(false) | Err(_) => {
                    self.frames = None;
                    *self.sender.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    self.state.is_taken.store(false, Ordering::Release);
                    return Ok(Next::Lost);
                }
            }
        }
    }

    fn acknowledger(&self) -> Acknowledger {
        self.sender.clone()
    }
}

/// Sends the frames of a file to the receiver at `HOST:PORT`, at the rate `rate` (1/s) if given.
/// Frames that are not acknowledged when a connection is lost are sent again. Gives up if no
/// receiver was reached, or nothing was acknowledged, for `patience`. Returns the number of frames
/// that are safe.
///
/// # Errors
/// [`Error::File`] for the file; [`Error::Parameter`] for an invalid address; [`Error::Stream`] for
/// a file without frames; [`Error::Connection`] if no receiver can be reached, or the receiver
/// speaks another protocol.
pub fn send(
    path: &Path,
    to: &str,
    rate: Option<f64>,
    patience: Duration,
    observer: &dyn Observer,
) -> Result<u64, Error> {
    let addresses = resolved(to)?;
    let (mut reached, mut known) = (Instant::now(), None);
    loop {
        let mut safe = None;
        let attempt = connect(&addresses, patience).and_then(|stream| {
            let frames = *safe.insert(acknowledged(&stream)?);
            deliver(path, &stream, frames, rate, observer)
        });
        // The time limit restarts if the receiver made more frames safe before it was lost, but not
        // if it never makes any safe.
        if safe.is_some() && safe != known {
            (reached, known) = (Instant::now(), safe);
        }
        match attempt {
            Ok(frames) => return Ok(frames),
            Err(Lost::For(e)) => return Err(e),
            Err(Lost::Stranger(problem)) => {
                return Err(Error::Connection(format!("{to}: {problem}")));
            }
            Err(Lost::Connection(e)) if reached.elapsed() >= patience => {
                return Err(Error::Connection(format!("no receiver accepts frames at {to}: {e}")));
            }
            Err(Lost::Connection(_)) => std::thread::sleep(RETRY),
        }
    }
}

/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(100);

/// Connects and introduces this side. The connection fails if the receiver accepts or sends nothing
/// for `patience`.
fn connect(addresses: &[SocketAddr], patience: Duration) -> Result<TcpStream, Lost> {
    // The system refuses a limit of zero.
    let limit = patience.max(Duration::from_millis(1));
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        let mut stream = match TcpStream::connect_timeout(address, limit) {
            Ok(stream) => stream,
            Err(error) => {
                failed = error;
                continue;
            }
        };
        stream.set_write_timeout(Some(limit))?;
        stream.set_read_timeout(Some(limit.min(HELLO_LIMIT)))?;
        stream.write_all(&hello(SENDER))?;
        let mut bytes = [0; HELLO];
        stream.read_exact(&mut bytes).map_err(|e| silent(e, "the peer did not identify itself"))?;
        stream.set_read_timeout(Some(limit))?;
        return match side(bytes) {
            Ok(RECEIVER) => Ok(stream),
            Ok(BUSY) => Err(io::Error::other("the receiver is busy with another sender").into()),
            Ok(_) => Err(Lost::Stranger("the peer did not answer as a receiver".into())),
            Err(problem) => Err(Lost::Stranger(problem)),
        };
    }
    Err(failed.into())
}

/// Replaces the message of a timeout by the step that the peer did not complete.
fn silent(error: io::Error, what: &str) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(io::ErrorKind::TimedOut, what),
        _ => error,
    }
}

/// Shortest sleep of a sender with a rate.
const PAUSE: Duration = Duration::from_millis(1);

/// Interval of the keep-alive frames of an idle sender.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Reason why frames were not delivered.
enum Lost {
    /// A later attempt may succeed.
    Connection(io::Error),
    /// The other side is no receiver of this protocol.
    Stranger(String),
    /// The file cannot be read.
    For(Error),
}

impl From<io::Error> for Lost {
    fn from(e: io::Error) -> Self {
        Lost::Connection(e)
    }
}

/// Sends the frames after the first `safe` ones, and waits until all are safe.
fn deliver(
    path: &Path,
    stream: &TcpStream,
    safe: u64,
    rate: Option<f64>,
    observer: &dyn Observer,
) -> Result<u64, Lost> {
    let cannot = |source| Lost::For(Error::system(path, "cannot read the events", source));
    let mut frames = FrameReader::new(File::open(path).map_err(cannot)?);
    let (mut frame, mut count) = (Frame::default(), 0);
    let mut out = BufWriter::with_capacity(1 << 16, stream);
    let begin = Instant::now();
    while frames.next(&mut frame).map_err(Lost::For)? {
        count += 1;
        if count <= safe {
            continue;
        }
        write_frame(&mut out, frame.kind, frame.timestamp, &frame.payload)?;
        observer.advance(count);
        let due = rate
            .map(|rate| Duration::try_from_secs_f64((count - safe) as f64 / rate).unwrap_or(Duration::MAX));
        let early = due.and_then(|due| due.checked_sub(begin.elapsed()));
        if let Some(early) = early.filter(|early| *early > PAUSE) {
            wait(&mut out, early)?;
        }
    }
    if safe > count {
        let problem = format!(
            "the receiver has {safe} frames already, but this file has {count}: check that the same file was sent before"
        );
        return Err(Lost::Stranger(problem));
    }
    write_frame(&mut out, END, 0, &[])?;
    out.flush()?;
    stream.shutdown(Shutdown::Write)?;
    if safe == count {
        return Ok(count);
    }
    loop {
        match acknowledged(stream)? {
            all if all == count => return Ok(count),
            more if more > count => {
                let problem = format!("the receiver acknowledged {more} frames of {count}");
                return Err(Lost::Stranger(problem));
            }
            _ => {}
        }
    }
}

/// Waits, and sends keep-alive frames in the meantime.
fn wait(out: &mut impl Write, mut rest: Duration) -> io::Result<()> {
    out.flush()?;
    while rest > SIGN_OF_LIFE {
        std::thread::sleep(SIGN_OF_LIFE);
        write_frame(out, KEEP, 0, &[])?;
        out.flush()?;
        rest -= SIGN_OF_LIFE;
    }
    std::thread::sleep(rest);
    Ok(())
}

fn acknowledged(mut stream: &TcpStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes).map_err(|e| silent(e, "the receiver did not acknowledge any frame"))?;
    Ok(u64::from_le_bytes(bytes))
}
