//! Frames over a socket. Whoever sends is told how many frames are safe, first when it connects, and sends those after them: what was not acknowledged is sent again.
//!
//! The receiver sends counts, `uint64`, little-endian: one at once, and one whenever more frames are safe. The sender sends frames and at last one of kind [`END`]; it has done when a count says that
//! all are safe. A connection that ends before that is lost, and the receiver waits for another one.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::record::END;
use super::source::{Acknowledger, Mark, Next, Source};
use crate::Error;
use crate::files::geb::{Frame, FrameReader, write_frame};
use crate::observe::Observer;

/// The receiving end.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    frames: Option<FrameReader<TcpStream>>,
    count: u64,
    sender: Acknowledger,
}

impl Listener {
    /// Listens at an address, for the frames after `from`.
    ///
    /// # Errors
    /// [`Error::Stream`] for an address that cannot be listened at.
    pub fn bind(address: SocketAddr, from: Mark) -> Result<Listener, Error> {
        let listener = TcpListener::bind(address)
            .map_err(|e| Error::Stream { offset: 0, problem: format!("cannot listen at {address}: {e}") })?;
        Ok(Listener { listener, frames: None, count: from.frames, sender: Acknowledger::default() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The frames of a sender; waits for one where there is none.
    fn connected(&mut self) -> Result<&mut FrameReader<TcpStream>, Error> {
        while self.frames.is_none() {
            let lost =
                |e: io::Error| Error::Stream { offset: 0, problem: format!("nobody can connect: {e}") };
            let (mut stream, _) = self.listener.accept().map_err(lost)?;
            // One that is gone again leaves room for the next.
            if let Ok(copy) = stream.write_all(&self.count.to_le_bytes()).and_then(|()| stream.try_clone()) {
                *self.sender.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(copy);
                self.frames = Some(FrameReader::new(stream));
            }
        }
        Ok(self.frames.as_mut().expect("just connected"))
    }
}

impl Source for Listener {
    /// What a lost connection has sent of a frame is thrown away: it is sent again.
    fn next(&mut self, frame: &mut Frame) -> Result<Next, Error> {
        match self.connected()?.next(frame) {
            Ok(true) if frame.kind == END => Ok(Next::End),
            Ok(true) => {
                self.count += 1;
                Ok(Next::Frame(Mark { offset: 0, frames: self.count }))
            }
            Ok(false) | Err(_) => {
                self.frames = None;
                *self.sender.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(Next::Lost)
            }
        }
    }

    fn acknowledger(&self) -> Acknowledger {
        self.sender.clone()
    }
}

/// Sends the frames of a file to a receiver, so many a second where `rate` says that (1/s); what that has not acknowledged when a connection is lost is sent again. Gives up when nobody could
/// be reached for `patience`. The number of frames that are safe.
///
/// # Errors
/// [`Error::File`] for the file, [`Error::Stream`] for one that holds no frames, and where nobody can be reached.
pub fn send(
    path: &Path,
    to: SocketAddr,
    rate: Option<f64>,
    patience: Duration,
    observer: &dyn Observer,
) -> Result<u64, Error> {
    let (mut reached, mut known) = (Instant::now(), None);
    loop {
        let mut safe = None;
        let attempt = TcpStream::connect(to).map_err(Lost::Connection).and_then(|stream| {
            let frames = *safe.insert(acknowledged(&stream)?);
            deliver(path, &stream, frames, rate, observer)
        });
        // A receiver that took frames and is gone is waited for anew; one that never makes any safe is not.
        if safe.is_some() && safe != known {
            (reached, known) = (Instant::now(), safe);
        }
        match attempt {
            Ok(frames) => return Ok(frames),
            Err(Lost::File(e)) => return Err(e),
            Err(Lost::Connection(e)) if reached.elapsed() > patience => {
                let problem = format!("nobody at {to} takes frames: {e}");
                return Err(Error::Stream { offset: 0, problem });
            }
            Err(Lost::Connection(_)) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// A sender with a rate sleeps no shorter than this.
const PAUSE: Duration = Duration::from_millis(1);

/// Why frames did not come through.
enum Lost {
    Connection(io::Error),
    File(Error),
}

impl From<io::Error> for Lost {
    fn from(e: io::Error) -> Self {
        Lost::Connection(e)
    }
}

/// Sends the frames after those that are `safe`, and waits until they are, too.
fn deliver(
    path: &Path,
    stream: &TcpStream,
    safe: u64,
    rate: Option<f64>,
    observer: &dyn Observer,
) -> Result<u64, Lost> {
    let cannot =
        |source| Lost::File(Error::File { path: path.to_owned(), problem: "cannot read the events", source });
    let mut frames = FrameReader::new(File::open(path).map_err(cannot)?);
    let (mut frame, mut count) = (Frame::default(), 0);
    let mut out = BufWriter::with_capacity(1 << 16, stream);
    let begin = Instant::now();
    while frames.next(&mut frame).map_err(Lost::File)? {
        count += 1;
        if count <= safe {
            continue;
        }
        write_frame(&mut out, frame.kind, frame.timestamp, &frame.payload)?;
        observer.advance(count);
        let due = rate.map(|rate| Duration::from_secs_f64((count - safe) as f64 / rate));
        let early = due.and_then(|due| due.checked_sub(begin.elapsed()));
        if let Some(early) = early.filter(|early| *early > PAUSE) {
            out.flush()?;
            std::thread::sleep(early);
        }
    }
    write_frame(&mut out, END, 0, &[])?;
    out.flush()?;
    stream.shutdown(Shutdown::Write)?;
    if safe == count {
        return Ok(count);
    }
    while acknowledged(stream)? < count {}
    Ok(count)
}

fn acknowledged(mut stream: &TcpStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
