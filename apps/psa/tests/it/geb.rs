//! Frames of GRETINA's event files: they are read back as written, their bytes have the layout that
//! other programs expect, and damaged ones are refused with the byte.

use std::io::{self, Read};

use proptest::prelude::*;
use zellige_psa::Error;
use zellige_psa::channels::{MOST_SAMPLES, Segment};
use zellige_psa::files::geb::mode2::{self, Decomposed, InteractionPoint};
use zellige_psa::files::geb::mode3::{self, Trace};
use zellige_psa::files::geb::{self, Frame, FrameReader, write_frame};

fn byte(error: &Error) -> u64 {
    match error {
        Error::Stream { offset, .. } => *offset,
        other => panic!("not an error of a stream: {other}"),
    }
}

fn frames(stream: impl Read) -> Result<Vec<Frame>, Error> {
    let (mut reader, mut frame, mut all) = (FrameReader::new(stream), Frame::default(), Vec::new());
    while reader.next(&mut frame)? {
        all.push(frame.clone());
    }
    Ok(all)
}

fn event(points: usize) -> Decomposed {
    let point = |i: usize| InteractionPoint {
        position: [i as f32, -2.5, 80.0],
        energy: 100.0 + i as f32,
        segment: Segment::from_index(2 * i).expect("a segment"),
        segment_energy: 300.0,
    };
    Decomposed {
        crystal: 97,
        total_energy: 1332.5,
        core_energies: [-1, 2, 3, i32::MAX],
        timestamp: 0x0123_4567_89ab_cdef,
        trigger_time: 7,
        t0: 1.5,
        cfd: -0.25,
        chi2: 2.0,
        reduced_chi2: 1.25,
        baseline: -3.0,
        before_step: 10.0,
        after_step: 900.0,
        error: 0,
        points: (0..points).map(point).collect(),
    }
}

fn payload(event: &Decomposed) -> Vec<u8> {
    let mut payload = vec![1, 2, 3];
    event.put(&mut payload).expect("a payload");
    payload
}

fn decomposed(payload: Vec<u8>, offset: u64) -> Result<Decomposed, Error> {
    Decomposed::of(&Frame { kind: mode2::KIND, timestamp: 0, payload, offset })
}

#[test]
fn a_frame_has_the_bytes_of_its_layout() {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, 5, 0x0102, b"abc").expect("written");
    assert_eq!(bytes, b"\x05\0\0\0\x03\0\0\0\x02\x01\0\0\0\0\0\0abc");
    write_frame(&mut bytes, 1, u64::MAX, b"").expect("written");
    let read = frames(&bytes[..]).expect("frames");
    assert_eq!(read.iter().map(|frame| (frame.kind, frame.offset)).collect::<Vec<_>>(), [(5, 0), (1, 19)]);
    assert_eq!((read[0].timestamp, &read[0].payload[..], read[1].timestamp), (0x0102, &b"abc"[..], u64::MAX));
    let error = write_frame(&mut bytes, 1, 0, &vec![0; geb::LONGEST + 1]).expect_err("too long");
    assert_eq!((error.kind(), bytes.len()), (io::ErrorKind::InvalidInput, 35));
}

/// Offsets in the record to which other programs cast a payload.
#[test]
fn decomposed_events_have_the_bytes_of_their_layout() {
    let bytes = payload(&event(2));
    assert_eq!(bytes.len(), 464);
    let word = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).expect("four bytes");
    let integer = |at| i32::from_le_bytes(word(at));
    let float = |at| f32::from_le_bytes(word(at));
    assert_eq!(bytes[..4], [0x78, 0x56, 0xcd, 0xab]);
    assert_eq!((integer(4), integer(8), float(12)), (97, 2, 1332.5));
    assert_eq!([16, 20, 24, 28].map(integer), [-1, 2, 3, i32::MAX]);
    assert_eq!(bytes[32..48], [0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!([48, 52, 56, 60, 64, 68, 72].map(float), [1.5, -0.25, 2.0, 1.25, -3.0, 10.0, 900.0]);
    assert_eq!(integer(76), 0);
    // The second point: our segment 2 is sector 0 of ring 2, number 12 in the file.
    assert_eq!([104, 108, 112, 116, 124].map(float), [1.0, -2.5, 80.0, 101.0, 300.0]);
    assert_eq!(integer(120), 12);
    assert!(bytes[128..].iter().all(|&byte| byte == 0));
}

#[test]
fn decomposed_events_come_back() {
    for points in [0, 1, 16] {
        let event = event(points);
        let mut bytes = payload(&event);
        assert_eq!(decomposed(bytes.clone(), 0).expect("an event"), event);
        bytes.truncate(80 + 24 * points);
        assert_eq!(decomposed(bytes, 0).expect("without the room behind"), event);
    }
    assert!(event(17).put(&mut Vec::new()).expect_err("too many").to_string().contains("16"));
}

#[test]
fn what_is_no_decomposed_event_is_refused_with_its_byte() {
    let with = |at: usize, word: u32| {
        let mut bytes = payload(&event(2));
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        byte(&decomposed(bytes, 1000).expect_err("damaged"))
    };
    for version in [0xabcd_1234, 0xabcd_6789, 0] {
        assert_eq!(with(0, version), 1016);
    }
    assert_eq!(with(8, 17), 1024);
    assert_eq!(with(8, u32::MAX), 1024);
    assert_eq!(with(12, f32::NAN.to_bits()), 1028);
    assert_eq!(with(80 + 24 + 16, 36), 1016 + 120);
    assert_eq!(with(80 + 24 + 20, f32::INFINITY.to_bits()), 1016 + 124);
    let mut bytes = payload(&event(16));
    bytes.truncate(463);
    assert_eq!(byte(&decomposed(bytes.clone(), 0).expect_err("cut")), 16 + 8);
    bytes.truncate(79);
    assert_eq!(byte(&decomposed(bytes, 0).expect_err("cut")), 16 + 79);
    let other = Frame { kind: 3, payload: payload(&event(1)), offset: 50, ..Frame::default() };
    assert_eq!(byte(&Decomposed::of(&other).expect_err("another kind")), 50);
    // If the decomposition has failed, the number of points may be wrong.
    let failed = Decomposed { error: 3, ..event(0) };
    let mut bytes = payload(&failed);
    bytes[8] = 21;
    assert_eq!(decomposed(bytes, 0).expect("a failed event"), failed);
}

#[test]
fn traces_have_the_bytes_of_their_layout_and_come_back() {
    let trace = Trace::new(3, 0x11, 9, vec![-2, 0x0102]).expect("a trace");
    let mut frame = Frame { kind: mode3::KIND, ..Frame::default() };
    trace.put(&mut frame.payload);
    let mut expected = vec![0xaa, 0xaa, 0xaa, 0xaa, 3 << 3, 8, 0x01, 0x19];
    expected.resize(4 + 28, 0);
    expected.extend([0xff, 0xfe, 0x01, 0x02]);
    assert_eq!(frame.payload, expected);
    let longest = Trace::new(31, 4095, 15, vec![7; MOST_SAMPLES]).expect("a trace");
    longest.put(&mut frame.payload);
    let back = mode3::traces(&frame).expect("traces");
    assert_eq!(back, [trace, longest]);
    assert_eq!((back[1].board(), back[1].module(), back[1].channel()), (31, 4095, 15));
    assert_eq!((back[0].samples(), back[1].samples().len()), (&[-2, 0x0102][..], 4080));
    for wrong in [(32, 0, 0, 0), (0, 4096, 0, 0), (0, 0, 16, 0), (0, 0, 0, 3), (0, 0, 0, 4082)] {
        let (board, module, channel, samples) = wrong;
        assert!(Trace::new(board, module, channel, vec![0; samples]).is_err(), "{wrong:?}");
    }
}

#[test]
fn what_is_no_trace_is_refused_with_its_byte() {
    let mut payload = Vec::new();
    for channel in 0..2 {
        Trace::new(1, 2, channel, vec![5; 10]).expect("a trace").put(&mut payload);
    }
    let read = |payload: Vec<u8>| {
        let frame = Frame { kind: mode3::KIND, payload, offset: 100, ..Frame::default() };
        byte(&mode3::traces(&frame).expect_err("damaged"))
    };
    let with = |at: usize, value: u8| {
        let mut damaged = payload.clone();
        damaged[at] = value;
        read(damaged)
    };
    // A trace has 4 + 28 + 20 bytes.
    assert_eq!(with(52 + 2, 0xab), 116 + 54);
    assert_eq!(with(5, 6), 116 + 4);
    assert_eq!(with(52 + 5, 13), 116 + 104);
    assert_eq!(read(payload[..60].to_vec()), 116 + 60);
    assert_eq!(read(payload[..103].to_vec()), 116 + 103);
}

/// A stream that announces more than it has, and returns only a few bytes at a time.
struct Dripping<'a>(&'a [u8]);

impl Read for Dripping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(3);
        self.0.read(&mut buffer[..count])
    }
}

fn two_frames() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, mode2::KIND, 1, &payload(&event(3))).expect("written");
    let mut traces = Vec::new();
    Trace::new(1, 2, 3, vec![5; 10]).expect("a trace").put(&mut traces);
    write_frame(&mut bytes, mode3::KIND, 2, &traces).expect("written");
    bytes
}

#[test]
fn lengths_are_not_trusted() {
    let with = |length: i32| {
        let mut bytes = two_frames();
        bytes[480 + 4..480 + 8].copy_from_slice(&length.to_le_bytes());
        frames(&bytes[..]).expect_err("damaged")
    };
    for length in [-1, i32::MIN, i32::MAX, geb::LONGEST as i32 + 1] {
        assert_eq!(byte(&with(length)), 484, "{length}");
    }
    assert_eq!(byte(&with(geb::LONGEST as i32)), 480 + 16 + 52);
    let mut frame = Frame::default();
    let promise = [1, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    assert!(FrameReader::new(&promise[..]).next(&mut frame).is_err());
    assert!(frame.payload.capacity() < 1000, "{} bytes for one", frame.payload.capacity());
}

#[test]
fn what_a_stream_says_is_handed_on() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable is out"))
        }
    }
    let error = frames((&two_frames()[..500]).chain(Broken)).expect_err("broken");
    assert!(byte(&error) == 500 && error.to_string().contains("the cable is out"), "{error}");
}

proptest! {
    #![proptest_config(zellige_tests::cases(300))]

    /// Truncated streams are refused at their end, changed ones are read or refused; nothing
    /// panics.
    #[test]
    fn damaged_streams_are_refused(at: prop::sample::Index, bit in 0u8..8, cut: bool) {
        let mut bytes = two_frames();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        let read = frames(Dripping(&bytes));
        if cut && at != 0 && at != 480 {
            prop_assert_eq!(byte(&read.expect_err("cut")), at as u64);
        } else if let Ok(read) = read {
            for frame in &read {
                let end = frame.offset + 16 + frame.payload.len() as u64;
                for error in [Decomposed::of(frame).err(), mode3::traces(frame).err()].into_iter().flatten() {
                    prop_assert!((frame.offset..=end).contains(&byte(&error)), "{}", error);
                }
            }
        }
    }

    /// Arbitrary payloads cause no panic.
    #[test]
    fn arbitrary_payloads_do_no_harm(
        payload in prop::collection::vec(prop_oneof![Just(0xaau8), Just(0), any::<u8>()], 0..600),
        is_version: bool,
    ) {
        let mut payload = payload;
        if is_version && payload.len() >= 4 {
            payload[..4].copy_from_slice(&mode2::VERSION.to_le_bytes());
        }
        let mut frame = Frame { kind: mode2::KIND, payload, ..Frame::default() };
        let _ = Decomposed::of(&frame);
        frame.kind = mode3::KIND;
        if let Ok(traces) = mode3::traces(&frame) {
            let mut again = Vec::new();
            traces.iter().for_each(|trace| trace.put(&mut again));
            prop_assert_eq!(again, frame.payload);
        }
    }

    /// Arbitrary streams cause no panic.
    #[test]
    fn arbitrary_streams_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), short in 0u8..60) {
        let mut bytes = bytes;
        if bytes.len() > 8 {
            bytes[4..8].copy_from_slice(&[short, 0, 0, 0]);
        }
        if let Err(error) = frames(Dripping(&bytes)) {
            prop_assert!(byte(&error) <= bytes.len() as u64);
        }
    }
}
