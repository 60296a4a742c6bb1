//! Frames from packets of slopes, and packets of commands from frames.

use super::Rtc;
use super::packet::{LARGEST, Packet, VALUES, packets};
use super::port::Port;
use super::threads::pause;
use crate::Error;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Number of incomplete frames that are named.
const NAMED: usize = 16;

/// Maximum number of frames by which a packet may be ahead. Numbers further off belong to no
/// frame that is sent now.
const AHEAD: u32 = 1 << 16;

/// Number of packets in a row that belong to no frame, after which the sender is taken to have
/// started anew.
const STRANGERS: u32 = 64;

/// Counts of packets and frames that were not as they should be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Losses {
    /// Frames of which no packet came in time. They have no commands.
    pub lost_frames: u64,
    /// Frames that ended without all slopes: those missing are of the frame before.
    pub incomplete_frames: u64,
    /// Incomplete frames that ended by the timeout; the others ended by a packet of a later frame.
    pub late_frames: u64,
    /// Slopes that incomplete frames lacked.
    pub missing_slopes: u64,
    /// Packets of frames that had ended.
    pub late_packets: u64,
    /// Packets without any new slope of their frame.
    pub repeated_packets: u64,
    /// Packets of wrong form, or with slopes beyond the last column.
    pub malformed_packets: u64,
    /// New starts of the sender, with frame numbers of their own.
    pub restarts: u64,
    /// Packets of commands that were dropped, because the ring or the socket was full.
    pub unsent_packets: u64,
    /// The first incomplete frames.
    pub incomplete: Vec<IncompleteFrame>,
}

/// An incomplete frame.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IncompleteFrame {
    /// Number of the frame.
    pub frame: u32,
    /// Number of slopes that did not come.
    pub missing_slopes: usize,
}

/// A frame whose commands were sent.
#[derive(Debug, Clone, Copy)]
pub struct FrameTimes {
    /// Number of the frame.
    pub frame: u32,
    /// Version of the reconstructor.
    pub version: u64,
    /// Whether all slopes came.
    pub is_complete: bool,
    /// Time from the first packet to the last command.
    pub whole: Duration,
    /// Time from the last packet to the last command.
    pub latency: Duration,
}

/// A product whose slopes come in packets, and whose commands go in packets.
#[derive(Debug)]
pub struct Link<P> {
    rtc: Rtc,
    port: P,
    timeout: Duration,
    /// Number of the next frame, once one is known.
    next: Option<u32>,
    /// Packets in a row that belong to no frame.
    strangers: u32,
    losses: Losses,
    memory: Memory,
}

/// Memory for packets and values.
#[derive(Debug)]
struct Memory {
    packet: Vec<u8>,
    /// Size of a packet that is kept for the next frame.
    kept: Option<usize>,
    values: Vec<f32>,
    out: Vec<u8>,
}

/// Slopes of a packet, as the frame sees them.
enum Taken {
    New,
    /// None is new.
    Old,
    /// They are of a later frame, or of a sender that has started anew.
    Ahead(u32),
}

impl<P: Port> Link<P> {
    /// Waits at most `timeout` for the slopes of a frame, from its first packet on.
    pub fn new(rtc: Rtc, port: P, timeout: Duration) -> Self {
        let memory = Memory {
            packet: vec![0; LARGEST],
            kept: None,
            values: vec![0.0; LARGEST / 4],
            out: Vec::with_capacity(4 * VALUES + 16),
        };
        let losses = Losses { incomplete: Vec::with_capacity(NAMED), ..Losses::default() };
        Link { rtc, port, timeout, next: None, strangers: 0, losses, memory }
    }

    /// Returns the product.
    pub fn rtc(&self) -> &Rtc {
        &self.rtc
    }

    /// Returns what was lost until now.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Sets the number of the next frame: those before are late, and a later one shows that this
    /// one is lost. Otherwise frames begin with the first packet.
    pub fn expect_frame(&mut self, frame: u32) {
        self.next = Some(frame);
    }

    /// Receives one frame and sends its commands; `None` if no frame begins within `idle`.
    ///
    /// Packets are received as long as there are any; between them the columns that are complete
    /// are multiplied. A frame ends when all its slopes are there, at its timeout, or with the
    /// first packet of a later frame.
    ///
    /// # Errors
    /// The port fails, a thread of the product has ended by a panic, or its GPU has failed.
    pub fn frame(&mut self, idle: Duration) -> Result<Option<FrameTimes>, Error> {
        let (begun, mut times, mut round) = (Instant::now(), None, 0);
        loop {
            let packet = self.packet()?;
            let now = Instant::now();
            match packet.map(|size| self.accept(size)).transpose()? {
                Some(Taken::New) => {
                    let (first, _) = times.unwrap_or((now, now));
                    times = Some((first, now));
                    if self.rtc.missing() == 0 {
                        break;
                    }
                }
                Some(Taken::Ahead(frame)) => {
                    self.memory.kept = packet;
                    if times.is_some() {
                        break;
                    }
                    self.skip_to(frame);
                }
                Some(Taken::Old) => {}
                None if self.rtc.work() => round = 0,
                None => pause(&mut round),
            }
            match times {
                Some((first, _)) if now - first > self.timeout => {
                    self.losses.late_frames += 1;
                    break;
                }
                None if now - begun > idle => return Ok(None),
                _ => {}
            }
        }
        let (first, last) = times.unwrap_or((begun, begun));
        self.end(first, last).map(Some)
    }

    /// Returns the size of the packet that was kept, or of the next one.
    fn packet(&mut self) -> Result<Option<usize>, Error> {
        match self.memory.kept.take() {
            Some(size) => Ok(Some(size)),
            None => self.port.receive(&mut self.memory.packet).map_err(failed),
        }
    }

    /// Goes on with a later frame, or with one of a sender that has started anew.
    fn skip_to(&mut self, frame: u32) {
        match frame.wrapping_sub(self.next.unwrap_or(frame)) {
            lost @ 0..AHEAD => self.losses.lost_frames += u64::from(lost),
            _ => self.losses.restarts += 1,
        }
        self.next = Some(frame);
    }

    /// Takes the slopes of a packet, or counts why not.
    fn accept(&mut self, size: usize) -> Result<Taken, Error> {
        let cols = self.rtc.matrix().shape().1;
        let fits = |p: &Packet<'_>| p.first.checked_add(p.values().len()).is_some_and(|end| end <= cols);
        let Some(packet) = Packet::read(&self.memory.packet[..size]).filter(fits) else {
            self.losses.malformed_packets += 1;
            return Ok(Taken::Old);
        };
        let next = *self.next.get_or_insert(packet.frame);
        match packet.frame.wrapping_sub(next) {
            0 => {}
            1..AHEAD => return Ok(Taken::Ahead(packet.frame)),
            _ if self.strangers >= STRANGERS => return Ok(Taken::Ahead(packet.frame)),
            _ => {
                self.losses.late_packets += 1;
                self.strangers += 1;
                return Ok(Taken::Old);
            }
        }
        self.strangers = 0;
        let values = &mut self.memory.values[..packet.values().len()];
        values.iter_mut().zip(packet.values()).for_each(|(to, value)| *to = value);
        match self.rtc.take(packet.first, values)? {
            0 => {
                self.losses.repeated_packets += 1;
                Ok(Taken::Old)
            }
            _ => Ok(Taken::New),
        }
    }

    /// Sends the commands of the frame.
    fn end(&mut self, first: Instant, last: Instant) -> Result<FrameTimes, Error> {
        let (frame, missing) = (self.next.unwrap_or(0), self.rtc.missing());
        if missing > 0 {
            self.losses.incomplete_frames += 1;
            self.losses.missing_slopes += missing as u64;
            if self.losses.incomplete.len() < NAMED {
                self.losses.incomplete.push(IncompleteFrame { frame, missing_slopes: missing });
            }
        }
        let (port, memory, mut sent) = (&mut self.port, &mut self.memory.out, Ok(()));
        let unsent = &mut self.losses.unsent_packets;
        self.rtc.finish_by_rows(|row, commands| {
            let send = |packet: &[u8]| port.send(packet).map(|is_sent| *unsent += u64::from(!is_sent));
            if sent.is_ok() {
                sent = packets(frame, row, commands, memory, send);
            }
        })?;
        sent.map_err(failed)?;
        let end = Instant::now();
        self.rtc.prepare();
        self.next = Some(frame.wrapping_add(1));
        Ok(FrameTimes {
            frame,
            version: self.rtc.version(),
            is_complete: missing == 0,
            whole: end - first,
            latency: end - last,
        })
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::numeric("packets", error.to_string())
}
