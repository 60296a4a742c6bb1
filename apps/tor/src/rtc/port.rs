//! Ways of packets: UDP, and rings in memory.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// One end of a way for packets in both directions. Neither call waits.
pub trait Port: Send {
    /// Copies the next packet to `buffer` and returns its size; `None` if there is none.
    ///
    /// # Errors
    /// The other end or the system fails.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Sends a packet; returns false if the ring or the socket is full.
    ///
    /// # Errors
    /// The other end or the system fails.
    fn send(&mut self, packet: &[u8]) -> io::Result<bool>;
}

/// A UDP socket that speaks to one other.
#[derive(Debug)]
pub struct UdpPort(UdpSocket);

impl UdpPort {
    /// Speaks to the address to which a socket is connected.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(UdpPort(socket))
    }

    /// Connects two sockets of this machine; the first one has the port number `port`, or any
    /// one for 0.
    ///
    /// # Errors
    /// The port number is in use, or the system refuses.
    pub fn pair(port: u16) -> io::Result<(Self, Self)> {
        let [a, b] =
            [UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?];
        a.connect(b.local_addr()?)?;
        b.connect(a.local_addr()?)?;
        Ok((UdpPort::new(a)?, UdpPort::new(b)?))
    }
}

impl Port for UdpPort {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.0.recv(buffer) {
            Ok(size) => Ok(Some(size)),
            // The other end was not there when a packet was sent to it.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(None),
            Err(error) => none_yet(error).map(|()| None),
        }
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        match self.0.send(packet) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
            Err(error) => none_yet(error).map(|()| false),
        }
    }
}

fn none_yet(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

/// Words of a slot: the size of its packet in bytes, and up to 1472 bytes.
const WORDS: usize = 1 + 368;

/// Packets of one thread for another, in a ring of slots.
#[derive(Debug)]
struct Ring {
    words: Vec<AtomicU32>,
    /// Number of packets that were written. The writer alone changes it, after the words.
    written: AtomicUsize,
    /// Number of packets that were read. The reader alone changes it, after it has copied.
    read: AtomicUsize,
}

impl Ring {
    fn new(slots: usize) -> Self {
        let words = (0..slots * WORDS).map(|_| AtomicU32::new(0)).collect();
        Ring { words, written: AtomicUsize::new(0), read: AtomicUsize::new(0) }
    }

    fn slot(&self, packet: usize) -> &[AtomicU32] {
        let slots = self.words.len() / WORDS;
        &self.words[packet % slots * WORDS..][..WORDS]
    }
}

/// One end of two rings, for another thread of the process.
#[derive(Debug)]
pub struct RingPort {
    from: Arc<Ring>,
    to: Arc<Ring>,
}

impl RingPort {
    /// Connects two ends by rings for so many packets of up to 1472 bytes each.
    ///
    /// # Panics
    /// `slots` is 0.
    pub fn pair(slots: usize) -> (Self, Self) {
        assert!(slots > 0, "a ring without slots");
        let [a, b] = [(); 2].map(|()| Arc::new(Ring::new(slots)));
        (RingPort { from: Arc::clone(&a), to: Arc::clone(&b) }, RingPort { from: b, to: a })
    }
}

impl Port for RingPort {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let read = self.from.read.load(Relaxed);
        // Acquire: the words of a packet were stored before it was counted.
        if self.from.written.load(Acquire) == read {
            return Ok(None);
        }
        let (size, words) = self.from.slot(read).split_first().expect("a slot has words");
        let size = (size.load(Relaxed) as usize).min(buffer.len());
        for (to, word) in buffer[..size].chunks_mut(4).zip(words) {
            to.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[..to.len()]);
        }
        // Release: the writer uses the slot again only after the copy.
        self.from.read.store(read.wrapping_add(1), Release);
        Ok(Some(size))
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        if packet.len() > 4 * (WORDS - 1) {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a packet of more than 1472 bytes"));
        }
        let written = self.to.written.load(Relaxed);
        let slots = self.to.words.len() / WORDS;
        if written.wrapping_sub(self.to.read.load(Acquire)) == slots {
            return Ok(false);
        }
        let (size, words) = self.to.slot(written).split_first().expect("a slot has words");
        size.store(packet.len() as u32, Relaxed);
        for (from, word) in packet.chunks(4).zip(words) {
            let mut bytes = [0; 4];
            bytes[..from.len()].copy_from_slice(from);
            word.store(u32::from_ne_bytes(bytes), Relaxed);
        }
        self.to.written.store(written.wrapping_add(1), Release);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_keep_packets_and_their_order() {
        let (mut a, mut b) = RingPort::pair(3);
        let mut buffer = [0; 1500];
        assert_eq!(b.receive(&mut buffer).unwrap(), None);
        for round in 0..10u8 {
            for k in 0..3 {
                assert!(a.send(&vec![round + k; 1 + usize::from(k) * 700]).unwrap());
            }
            assert!(!a.send(&[0]).unwrap(), "the ring is full");
            for k in 0..3 {
                let size = 1 + usize::from(k) * 700;
                assert_eq!(b.receive(&mut buffer).unwrap(), Some(size));
                assert_eq!(buffer[..size], vec![round + k; size]);
            }
        }
        assert!(a.send(&[0; 1473]).is_err());
        b.send(&[1, 2, 3]).unwrap();
        assert_eq!(a.receive(&mut buffer).unwrap(), Some(3));
    }

    #[test]
    fn rings_are_for_two_threads() {
        let (mut a, mut b) = RingPort::pair(4);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for k in 0..20_000u32 {
                    while !a.send(&k.to_le_bytes().repeat(1 + k as usize % 7)).unwrap() {
                        std::thread::yield_now();
                    }
                }
            });
            let mut buffer = [0; 1500];
            for k in 0..20_000u32 {
                let size = loop {
                    match b.receive(&mut buffer).unwrap() {
                        Some(size) => break size,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(buffer[..size], k.to_le_bytes().repeat(1 + k as usize % 7));
            }
        });
    }
}
