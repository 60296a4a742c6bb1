//! Frames from a sender in the same process, and their latencies.

use super::link::{FrameTimes, Link, Losses};
use super::packet::{LARGEST, Packet, packets};
use super::port::{Port, RingPort, UdpPort};
use super::threads::{pause, pin};
use super::{GpuPlace, Packed, Rtc};
use crate::Error;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, scope, sleep};
use std::time::{Duration, Instant};

/// Frames that are sent first and not counted: threads and memory settle in them.
const WARM_UP: u64 = 100;

/// Number of packets of a ring.
const SLOTS: usize = 1024;

/// Number of different frames of slopes, which are sent in turn.
const DIFFERENT: usize = 16;

/// Time that a sender without a rate waits for commands.
const PATIENCE: Duration = Duration::from_millis(100);

/// Longest latency that a histogram tells apart, in ns.
const LONGEST: u64 = 10_000_000_000;

/// Ratio of the ends of a bin.
pub const BIN: f64 = 1.1;

/// Settings of a run of frames.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RtcSetting {
    /// Number of frames that count.
    pub frames: u64,
    /// Threads that multiply.
    pub workers: usize,
    /// Frames per second; `null`: each frame is sent when the commands of the one before have come.
    pub rate_hz: Option<f64>,
    /// UDP port of this machine that receives; `null`: rings in memory. 0 is any port.
    pub udp_port: Option<u16>,
    /// Time in us from the first packet of a frame to its end, whether complete or not.
    pub timeout_us: f64,
}

/// Results of a run of frames.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RtcResult {
    /// File of the reconstructor.
    pub reconstructor: String,
    /// Number of commands.
    pub rows: usize,
    /// Number of slopes.
    pub columns: usize,
    /// Mean number of bits of an entry, without scales; 32 in float32.
    pub bits: f64,
    /// Number of the GPU that multiplied; `null`: threads.
    pub gpu: Option<u32>,
    /// Settings; workers are those that there were.
    pub setting: RtcSetting,
    /// Frames with commands, after 100 first ones that do not count.
    pub frames: u64,
    /// Duration of these frames in seconds.
    pub seconds: f64,
    /// Bytes of the reconstructor, which every frame reads.
    pub bytes_per_frame: u64,
    /// These bytes over the median time from the first packet to the last command, in 1e9 bytes/s.
    pub gigabytes_per_second: f64,
    /// Time from the last packet to the last command, of complete frames.
    pub latency: Latencies,
    /// Time from the first packet to the last command, of complete frames.
    pub whole: Latencies,
    /// Lost, late and incomplete frames and packets, with the first frames.
    pub losses: Losses,
}

/// Distribution of a time, with an error of 0.1 %.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Latencies {
    /// Median in us.
    pub p50_us: f64,
    /// Time that 99 % of the frames do not exceed, in us.
    pub p99_us: f64,
    /// Time that 99.9 % of the frames do not exceed, in us.
    pub p999_us: f64,
    /// Longest time in us.
    pub max_us: f64,
    /// Mean in us.
    pub mean_us: f64,
    /// Jitter: standard deviation in us.
    pub jitter_us: f64,
    /// Frames by time, in bins whose ends have the ratio 1.1; empty bins are left out.
    pub histogram: Vec<LatencyBin>,
}

/// A bin of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct LatencyBin {
    /// End of the bin in us.
    pub up_to_us: f64,
    /// Number of frames.
    pub frames: u64,
}

impl Latencies {
    fn of(times: &Histogram<u64>) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        let quantile = |q: f64| us(times.value_at_quantile(q));
        let bins = times.iter_log(100, BIN).filter(|bin| bin.count_since_last_iteration() > 0);
        Latencies {
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: us(times.max()),
            mean_us: times.mean() / 1e3,
            jitter_us: times.stdev() / 1e3,
            histogram: bins
                .map(|bin| LatencyBin {
                    up_to_us: us(bin.value_iterated_to()),
                    frames: bin.count_since_last_iteration(),
                })
                .collect(),
        }
    }
}

/// Sends frames of slopes from a thread of its own and multiplies them, until all have been sent or
/// `stop` returns true. With `gpu`, that GPU multiplies in place of the workers; `setting` then has
/// one. `pinned` binds the threads to a CPU each, the sender to the next one after the workers.
///
/// # Errors
/// The UDP port is in use, the system starts no thread, one ends by a panic, or the GPU fails.
pub fn run(
    name: &str,
    matrix: Packed,
    gpu: Option<&GpuPlace>,
    setting: &RtcSetting,
    pinned: bool,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<RtcResult, Error> {
    let port = |error: std::io::Error| Error::numeric("UDP port", error.to_string());
    match setting.udp_port {
        Some(number) => {
            between((name, matrix, gpu), setting, pinned, stop, UdpPort::pair(number).map_err(port)?)
        }
        None => between((name, matrix, gpu), setting, pinned, stop, RingPort::pair(SLOTS)),
    }
}

fn between<P: Port>(
    (name, matrix, gpu): (&str, Packed, Option<&GpuPlace>),
    setting: &RtcSetting,
    pinned: bool,
    stop: &(dyn Fn() -> bool + Sync),
    (near, far): (P, P),
) -> Result<RtcResult, Error> {
    let (over, ready) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut sender = Sender::new(far, matrix.shape(), setting);
    scope(|scope| {
        let (over, ready) = (&over, &ready);
        let no_thread = |error: io::Error| Error::numeric("frames", format!("starting a thread: {error}"));
        let send = move || {
            if pinned {
                pin(setting.workers);
            }
            // A GPU takes seconds to begin.
            while !ready.load(Relaxed) && !over.load(Relaxed) {
                sleep(Duration::from_millis(1));
            }
            sender.send_all(over)
        };
        Builder::new().name("rtc-sender".into()).spawn_scoped(scope, send).map_err(no_thread)?;
        // A thread of its own, since its CPU stays bound.
        let receive = move || {
            let rtc = match gpu {
                Some(place) => Rtc::on_gpu(matrix, place, pinned),
                None => Rtc::new(matrix, setting.workers, pinned),
            };
            ready.store(true, Relaxed);
            let result = rtc.and_then(|rtc| receive_all(name, rtc, near, setting, stop));
            let result = result.map(|result| RtcResult { gpu: gpu.map(|place| place.number), ..result });
            over.store(true, Relaxed);
            result
        };
        let receiver = Builder::new().name("rtc-0".into()).spawn_scoped(scope, receive);
        let receiver = receiver.inspect_err(|_| over.store(true, Relaxed)).map_err(no_thread)?;
        receiver.join().map_err(|_| Error::numeric("frames", "their thread has ended by a panic"))?
    })
}

/// Multiplies the frames of a sender.
fn receive_all<P: Port>(
    name: &str,
    rtc: Rtc,
    port: P,
    setting: &RtcSetting,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<RtcResult, Error> {
    let idle = Duration::from_secs_f64(10.0 + setting.rate_hz.map_or(0.0, |rate| 2.0 / rate));
    let mut link = Link::new(rtc, port, Duration::from_secs_f64(1e-6 * setting.timeout_us));
    link.expect_frame(0);
    let all = WARM_UP + setting.frames;
    let mut record = Record::new();
    let mut next = 0;
    while next < all && !stop() {
        let Some(times) = link.frame(idle)? else { break };
        next = u64::from(times.frame) + 1;
        if next > WARM_UP {
            record.add(&times);
        }
    }
    let mut losses = link.losses().clone();
    if !stop() {
        losses.lost_frames += all - next;
    }
    let matrix = link.rtc().matrix();
    let (rows, columns) = matrix.shape();
    let whole = Latencies::of(&record.whole);
    let bytes = matrix.bytes() as u64;
    Ok(RtcResult {
        reconstructor: name.to_owned(),
        rows,
        columns,
        bits: matrix.mean_bits(),
        gpu: None,
        setting: RtcSetting { workers: link.rtc().workers(), ..setting.clone() },
        frames: record.frames,
        seconds: record.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64()),
        bytes_per_frame: bytes,
        gigabytes_per_second: 1e-3 * bytes as f64 / whole.p50_us.max(1e-3),
        latency: Latencies::of(&record.latency),
        whole,
        losses,
    })
}

/// Times of frames, in memory of constant size.
struct Record {
    begun: Option<Instant>,
    frames: u64,
    latency: Histogram<u64>,
    whole: Histogram<u64>,
}

impl Record {
    fn new() -> Self {
        let empty = || Histogram::new_with_max(LONGEST, 3).expect("three digits");
        Record { begun: None, frames: 0, latency: empty(), whole: empty() }
    }

    fn add(&mut self, times: &FrameTimes) {
        self.begun.get_or_insert_with(Instant::now);
        self.frames += 1;
        if times.is_complete {
            let ns = |time: Duration| (time.as_nanos() as u64).max(1);
            self.latency.saturating_record(ns(times.latency));
            self.whole.saturating_record(ns(times.whole));
        }
    }
}

/// Sender of slopes, and receiver of commands.
struct Sender<P> {
    port: P,
    slopes: Vec<Vec<f32>>,
    rows: usize,
    period: Option<Duration>,
    frames: u32,
    packet: Vec<u8>,
    buffer: Vec<u8>,
}

impl<P: Port> Sender<P> {
    fn new(port: P, (rows, cols): (usize, usize), setting: &RtcSetting) -> Self {
        let slope = |frame: usize, j: usize| ((j * 37 + frame * 101) % 211) as f32 / 105.0 - 1.0;
        let slopes = (0..DIFFERENT).map(|frame| (0..cols).map(|j| slope(frame, j)).collect()).collect();
        let period = setting.rate_hz.map(|rate| Duration::from_secs_f64(1.0 / rate));
        let frames = (WARM_UP + setting.frames) as u32;
        Sender { port, slopes, rows, period, frames, packet: Vec::new(), buffer: vec![0; LARGEST] }
    }

    fn send_all(&mut self, over: &AtomicBool) {
        let begun = Instant::now();
        for frame in 0..self.frames {
            if let Some(period) = self.period {
                self.wait_until(begun + period * frame, over);
            }
            if over.load(Relaxed) || self.send(frame, over).is_err() {
                return;
            }
            if self.period.is_none() {
                self.wait_for_commands(frame, over);
            }
        }
    }

    /// Sends the packets of a frame.
    fn send(&mut self, frame: u32, over: &AtomicBool) -> std::io::Result<()> {
        let slopes = &self.slopes[frame as usize % DIFFERENT];
        packets(frame, 0, slopes, &mut self.packet, |packet| {
            let mut round = 0;
            while !self.port.send(packet)? && !over.load(Relaxed) {
                pause(&mut round);
            }
            Ok(())
        })
    }

    /// Waits for all commands of a frame, but not for ever.
    fn wait_for_commands(&mut self, frame: u32, over: &AtomicBool) {
        let (begun, mut missing, mut round) = (Instant::now(), self.rows, 0);
        while missing > 0 && begun.elapsed() < PATIENCE && !over.load(Relaxed) {
            match self.commands(frame) {
                Some(count) => missing = missing.saturating_sub(count),
                None => pause(&mut round),
            }
        }
    }

    /// Reads one packet, and returns its number of commands of a frame.
    fn commands(&mut self, frame: u32) -> Option<usize> {
        let size = self.port.receive(&mut self.buffer).ok()??;
        let packet = Packet::read(&self.buffer[..size]).filter(|packet| packet.frame == frame);
        Some(packet.map_or(0, |packet| packet.values().len()))
    }

    /// Waits for a time, and reads what comes meanwhile.
    fn wait_until(&mut self, time: Instant, over: &AtomicBool) {
        let mut round = 0;
        while let Some(left) = time.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if over.load(Relaxed) {
                return;
            }
            if self.commands(0).is_none() {
                match left.checked_sub(Duration::from_micros(200)) {
                    Some(long) => sleep(long.min(PATIENCE)),
                    None => pause(&mut round),
                }
            }
        }
    }
}
