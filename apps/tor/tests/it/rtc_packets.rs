//! Frames from packets that are lost, repeated, late, out of order or malformed.

use crate::rtc::{assert_product, matrix, slopes};
use std::time::{Duration, Instant};
use zellige_tor::rtc::packet::{Packet, write};
use zellige_tor::rtc::{Link, Losses, Packed, Port, RingPort, Rtc, UdpPort};

const COLS: usize = 100;

/// A link with its other end.
struct Bench<P> {
    link: Link<P>,
    far: P,
}

impl<P: Port> Bench<P> {
    fn new((near, far): (P, P), timeout: Duration) -> Self {
        let rtc = Rtc::new(Packed::of_matrix(&matrix(70, COLS, 0)).unwrap(), 1, false).unwrap();
        Bench { link: Link::new(rtc, near, timeout), far }
    }

    /// Sends slopes `range` of a frame.
    fn send(&mut self, frame: u32, range: std::ops::Range<usize>) {
        let mut packet = Vec::new();
        write(frame, range.start, &slopes(COLS, frame as usize)[range], &mut packet);
        assert!(self.far.send(&packet).unwrap());
    }

    /// Receives a frame that is there; checks that its commands are those of `used` and arrive.
    fn expect(&mut self, frame: u32, is_complete: bool, used: &[f32]) {
        let times = self.link.frame(Duration::from_secs(10)).unwrap().expect("a frame");
        assert_eq!((times.frame, times.is_complete), (frame, is_complete));
        let commands = self.link.rtc().commands().to_vec();
        assert_product(&matrix(70, COLS, 0), used, &commands);
        let mut buffer = [0; 1500];
        let deadline = Instant::now() + Duration::from_secs(10);
        let size = loop {
            assert!(Instant::now() < deadline, "commands arrive");
            if let Some(size) = self.far.receive(&mut buffer).unwrap() {
                break size;
            }
        };
        let packet = Packet::read(&buffer[..size]).unwrap();
        assert_eq!((packet.frame, packet.first), (frame, 0));
        assert_eq!(packet.values().collect::<Vec<_>>(), commands);
    }

    fn losses(&self) -> Losses {
        Losses { incomplete: Vec::new(), ..self.link.losses().clone() }
    }
}

fn ring() -> Bench<RingPort> {
    Bench::new(RingPort::pair(200), Duration::from_secs(60))
}

#[test]
fn packets_in_any_order_and_twice_make_the_frame() {
    let mut bench = ring();
    for range in [60..100, 0..30, 60..100, 20..60] {
        bench.send(7, range);
    }
    bench.expect(7, true, &slopes(COLS, 7));
    assert_eq!(bench.losses(), Losses { repeated_packets: 1, ..Losses::default() });
}

#[test]
fn a_later_frame_ends_one_with_a_lost_packet() {
    let mut bench = ring();
    bench.send(1, 0..100);
    bench.send(2, 0..40);
    bench.send(3, 50..100);
    bench.send(2, 40..100);
    bench.send(3, 0..50);
    bench.expect(1, true, &slopes(COLS, 1));
    let mixed = [&slopes(COLS, 2)[..40], &slopes(COLS, 1)[40..]].concat();
    bench.expect(2, false, &mixed);
    bench.expect(3, true, &slopes(COLS, 3));
    let losses = bench.link.losses();
    assert_eq!((losses.incomplete[0].frame, losses.incomplete[0].missing_slopes), (2, 60));
    let expected = Losses { incomplete_frames: 1, missing_slopes: 60, late_packets: 1, ..Losses::default() };
    assert_eq!(bench.losses(), expected);
}

#[test]
fn frames_without_packets_are_lost() {
    let mut bench = ring();
    bench.link.expect_frame(u32::MAX - 1);
    bench.send(1, 0..100);
    bench.expect(1, true, &slopes(COLS, 1));
    assert_eq!(bench.losses(), Losses { lost_frames: 3, ..Losses::default() });
    assert!(bench.link.frame(Duration::from_millis(1)).unwrap().is_none(), "it is not waited for");
}

#[test]
fn the_timeout_ends_a_frame() {
    let mut bench = Bench::new(RingPort::pair(8), Duration::from_micros(300));
    bench.send(0, 10..100);
    let mut used = slopes(COLS, 0);
    used[..10].fill(0.0);
    bench.expect(0, false, &used);
    let expected = Losses { incomplete_frames: 1, late_frames: 1, missing_slopes: 10, ..Losses::default() };
    assert_eq!(bench.losses(), expected);
}

#[test]
fn malformed_packets_change_nothing() {
    let mut bench = ring();
    bench.send(0, 0..50);
    let mut packet = Vec::new();
    write(0, 50, &[1.0; 51], &mut packet);
    bench.far.send(&packet).unwrap();
    write(0, u32::MAX as usize, &[1.0], &mut packet);
    bench.far.send(&packet).unwrap();
    write(0, 50, &[f32::INFINITY], &mut packet);
    bench.far.send(&packet).unwrap();
    bench.far.send(&packet[..5]).unwrap();
    bench.far.send(&[]).unwrap();
    bench.send(0, 50..100);
    bench.expect(0, true, &slopes(COLS, 0));
    assert_eq!(bench.losses(), Losses { malformed_packets: 5, ..Losses::default() });
}

#[test]
fn a_sender_may_start_anew() {
    let mut bench = ring();
    bench.send(1_000_000, 0..100);
    bench.expect(1_000_000, true, &slopes(COLS, 1_000_000));
    (0..65).for_each(|frame| bench.send(frame, 0..100));
    bench.expect(64, true, &slopes(COLS, 64));
    assert_eq!(bench.losses(), Losses { late_packets: 64, restarts: 1, ..Losses::default() });
}

#[test]
fn dropped_commands_are_counted() {
    let (near, far) = RingPort::pair(1);
    let mut bench = Bench::new((near, far), Duration::from_secs(60));
    for frame in 0..3 {
        bench.send(frame, 0..100);
        bench.link.frame(Duration::from_secs(10)).unwrap().unwrap();
    }
    assert_eq!(bench.losses(), Losses { unsent_packets: 2, ..Losses::default() });
}

#[test]
fn packets_go_over_udp() {
    let mut bench = Bench::new(UdpPort::pair(0).unwrap(), Duration::from_secs(60));
    for frame in 0..50 {
        bench.send(frame, 0..30);
        bench.send(frame, 30..100);
        bench.expect(frame, true, &slopes(COLS, frame as usize));
    }
    assert_eq!(bench.losses(), Losses::default());
}
