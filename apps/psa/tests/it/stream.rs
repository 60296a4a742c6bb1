//! Streams lose nothing and repeat nothing, wherever they are cut off.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zellige_psa::Error;
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::{CHANNELS, ChannelSet, Segment};
use zellige_psa::files::geb::{Frame, FrameReader, mode2, write_frame};
use zellige_psa::observe::Silent;
use zellige_psa::pipeline::stream::journal::Journal;
use zellige_psa::pipeline::stream::output::Output;
use zellige_psa::pipeline::stream::record::{KIND, Traces};
use zellige_psa::pipeline::stream::socket::{Listener, send};
use zellige_psa::pipeline::stream::source::{Mark, Next, Once, Source};
use zellige_psa::pipeline::stream::{Options, Overload, Summary, run};
use zellige_psa::search::{Batching, Event, EventPipeline, Method, Plan, Rules};
use zellige_runtime::Runtime;

const SAMPLES: usize = 16;
const PLAN: Plan = Plan { method: Method::Full, ..Plan::DEFAULT };
const RULES: Rules = Rules { channels: ChannelSet::HitCore, window: SAMPLES, ..Rules::DEFAULT };

/// Returns nine points in each of two segments; the position of a point determines the rise time of
/// its signals.
fn basis() -> Basis {
    let (mut positions, mut segments, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for segment in [3, 20].map(|index| Segment::from_index(index).expect("a segment")) {
        for i in 0..9 {
            let place = [i % 3, i / 3, 0].map(|x| x as f32 * 2.0);
            positions.push(place);
            segments.push(segment);
            for channel in 0..CHANNELS {
                let rise = |late: f32, t: usize| 1.0 / (1.0 + (4.0 + late - t as f32).exp());
                values.extend((0..SAMPLES).map(|t| match channel {
                    c if c == segment.index() => rise(place[0], t),
                    36 => rise(place[1], t),
                    _ => 0.0,
                }));
            }
        }
    }
    Basis::new(Sampling { samples: SAMPLES, step: 10.0, before: 2 }, positions, segments, values)
        .expect("sizes")
}

/// Returns events of known points, 400 ns apart; the crystal's number counts them.
fn frames(basis: &Basis, count: usize) -> Vec<u8> {
    let (mut bytes, mut payload) = (Vec::new(), Vec::new());
    for i in 0..count {
        let point = i * 7 % basis.positions().len();
        let segment = basis.segments()[point];
        let channels = ChannelSet::HitCore.of(segment);
        let signals = channels.iter().flat_map(|&c| basis.signal(point, c)).map(|b| b * 500.0).collect();
        let hit = Some((segment, 500.0));
        let event = Event { timestamp: 400 * i as u64, hit, signals, saturated: Vec::new() };
        Traces { crystal: i as i32, event }.put(2, 0.05, &mut payload).expect("traces");
        write_frame(&mut bytes, KIND, 40 * i as u64, &payload).expect("memory");
    }
    bytes
}

fn stream(
    source: impl Source + 'static,
    output: &mut Output<'_>,
    options: &Options,
) -> Result<Summary, Error> {
    let (basis, rt) = (basis(), Runtime::builder().workers(2).build().expect("a runtime"));
    let batching = Batching { size: 16, patience: Duration::from_millis(1) };
    let mut pipeline = EventPipeline::new(&rt, &PLAN, batching, &basis, RULES)?;
    run(source, output, &mut pipeline, options, &Silent)
}

/// Checks that every event is present once, in order, at its point.
fn check(hits: &Path, count: usize) {
    let basis = basis();
    let (mut reader, mut frame) = (FrameReader::new(File::open(hits).expect("hits")), Frame::default());
    for i in 0..count {
        assert!(reader.next(&mut frame).expect("a frame"), "{i} of {count}");
        let event = mode2::Decomposed::of(&frame).expect("hits");
        assert_eq!((event.crystal, event.timestamp), (i as i32, 40 * i as u64));
        let point = i * 7 % basis.positions().len();
        let found: Vec<_> = event.points.iter().map(|point| (point.position, point.segment)).collect();
        assert_eq!(found, [(basis.positions()[point], basis.segments()[point])], "{i}");
    }
    assert!(!reader.next(&mut frame).expect("the end"));
}

fn in_folder(names: [&str; 2]) -> (tempfile::TempDir, [PathBuf; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = names.map(|name| folder.path().join(name));
    (folder, paths)
}

#[test]
fn a_file_is_answered_event_by_event() {
    let (_folder, [input, hits]) = in_folder(["events.geb", "hits.geb"]);
    std::fs::write(&input, frames(&basis(), 500)).expect("a file");
    let (mut output, from) = Output::file(&hits, "events", 10.0).expect("an output");
    assert_eq!(from, Mark::default());
    let options = Options { buffer: 32, ..Options::default() };
    let summary = stream(Once::open(&input, from).expect("events"), &mut output, &options).expect("a stream");
    assert!(!hits.exists(), "not before it is whole");
    output.finish().expect("a file");
    assert_eq!((summary.events, summary.hits, summary.shed, summary.broken), (500, 500, 0, 0));
    assert!(summary.latency_p50_ms <= summary.latency_most_ms && summary.latency_most_ms > 0.0);
    check(&hits, 500);
    assert!(!Journal::path(&hits).exists());
}

/// A source that returns some frames and fails, as if the process had been killed.
struct Cut(Once<File>, u64);

impl Source for Cut {
    fn next(&mut self, frame: &mut Frame) -> Result<Next, Error> {
        match self.0.next(frame)? {
            Next::Frame(mark) if mark.frames > self.1 => {
                Err(Error::Stream { offset: 0, problem: "cut".into() })
            }
            next => Ok(next),
        }
    }
}

#[test]
fn a_run_that_was_cut_off_goes_on() {
    let (_folder, [input, hits]) = in_folder(["events.geb", "hits.geb"]);
    std::fs::write(&input, frames(&basis(), 300)).expect("a file");
    for end in [90, 91, 200] {
        let (mut output, from) = Output::file(&hits, "events", 10.0).expect("an output");
        let source = Cut(Once::open(&input, from).expect("events"), end);
        stream(source, &mut output, &Options::default()).expect_err("cut off");
        drop(output);
        // Appends more than is safe, and a part of a frame.
        let mut part = File::options().append(true).open(hits.with_extension("geb.part")).expect("a part");
        part.write_all(&[7; 700]).expect("a file");
        let kept = Journal::read(&hits).expect("a journal").expect("kept");
        assert_eq!((kept.frames, kept.written), (end, end * 480));
    }
    Output::file(&hits, "other", 10.0).expect_err("another input");
    // A pipe begins anew: nothing of another run is left.
    let copy = hits.with_file_name("copy.geb");
    for name in ["geb.part", "geb.resume"] {
        std::fs::copy(hits.with_extension(name), copy.with_extension(name)).expect("a copy");
    }
    let mut output = Output::anew(&copy, "-", 10.0).expect("an output");
    let pipe = Once::new(File::open(&input).expect("events"));
    stream(pipe, &mut output, &Options::default()).expect("a stream");
    output.finish().expect("a file");
    check(&copy, 300);
    let (mut output, from) = Output::file(&hits, "events", 10.0).expect("an output");
    assert_eq!(from.frames, 200);
    let summary = stream(Once::open(&input, from).expect("events"), &mut output, &Options::default());
    assert_eq!(summary.expect("a stream").events, 100);
    output.finish().expect("a file");
    check(&hits, 300);
}

#[test]
fn what_is_no_event_is_answered_without_hits() {
    let (_folder, [_, hits]) = in_folder(["", "hits.geb"]);
    let mut bytes = frames(&basis(), 3);
    write_frame(&mut bytes, KIND, 9, b"nothing").expect("memory");
    write_frame(&mut bytes, 11, 9, b"something else").expect("memory");
    bytes.extend(frames(&basis(), 1));
    let end = bytes.len() as u64;
    bytes.extend([1, 2, 3]);
    let (mut output, _) = Output::file(&hits, "-", 10.0).expect("an output");
    let failed = stream(Once::new(std::io::Cursor::new(bytes)), &mut output, &Options::default());
    let problem = failed.expect_err("a header that ends").to_string();
    assert!(problem.contains(&format!("byte {}", end + 3)), "{problem}");
    let kept = Journal::read(&hits).expect("a journal").expect("what came before is safe");
    assert_eq!((kept.frames, kept.written, kept.offset), (6, 5 * 480, end));
    let part = File::open(hits.with_extension("geb.part")).expect("a part");
    let (mut reader, mut frame) = (FrameReader::new(part), Frame::default());
    let mut counts = Vec::new();
    while reader.next(&mut frame).expect("frames") {
        let event = mode2::Decomposed::of(&frame).expect("hits");
        counts.push((event.points.len(), event.error));
    }
    assert_eq!(counts, [(1, 0), (1, 0), (1, 0), (0, 1), (1, 0)]);
}

/// More events than the buffer holds arrive at once.
#[test]
fn what_comes_too_fast_is_left_out_and_counted() {
    let mut hits = Vec::new();
    let mut output = Output::stream(&mut hits, 10.0);
    let options = Options { buffer: 2, overload: Overload::Shed, ..Options::default() };
    let bytes = std::io::Cursor::new(frames(&basis(), 5000));
    let summary = stream(Once::new(bytes), &mut output, &options).expect("a stream");
    drop(output);
    assert_eq!(summary.events + summary.shed, 5000);
    assert!(summary.shed > 0 && summary.events > 0, "{summary:?}");
    assert_eq!(hits.len() as u64, 480 * summary.events);
}

/// Returns the introduction of a side of version 1.
fn hello(side: u8) -> [u8; 16] {
    let mut bytes = *b"ZELLIGE\0\x01\0\0\0\0\0\0\0";
    bytes[12] = side;
    bytes
}

/// Connects as a sender until a receiver accepts it; returns the connection and the number of
/// frames that the receiver has.
fn introduced(to: SocketAddr) -> (TcpStream, usize) {
    loop {
        let mut stream = TcpStream::connect(to).expect("a receiver");
        stream.write_all(&hello(1)).expect("a receiver");
        let mut answer = [0; 16];
        stream.read_exact(&mut answer).expect("an answer");
        // The previous sender may still count as connected.
        if answer == hello(2) {
            let mut count = [0; 8];
            stream.read_exact(&mut count).expect("a count");
            return (stream, u64::from_le_bytes(count) as usize);
        }
        assert_eq!(answer, hello(3));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A sender with a connection that breaks repeatedly, between frames and within them.
#[test]
fn sockets_send_again_what_was_not_acknowledged() {
    let (_folder, [input, hits]) = in_folder(["events.geb", "hits.geb"]);
    let bytes = frames(&basis(), 400);
    std::fs::write(&input, &bytes).expect("a file");
    let (mut output, from) = Output::file(&hits, "socket", 10.0).expect("an output");
    let listener = Listener::bind("0", from).expect("an address");
    let to = listener.address();
    let safe = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&safe);
    let length = bytes.len() / 400;
    let sender = std::thread::spawn(move || {
        for parts in [0, 1, 2] {
            let (mut stream, begin) = introduced(to);
            counted.store(begin, Ordering::Relaxed);
            stream.write_all(&bytes[begin * length..][..100 * length + 11 * parts]).expect("frames");
        }
        send(&input, &to.to_string(), Some(2e5), Duration::from_secs(20), &Silent).expect("all frames")
    });
    let options = Options { commit: Duration::from_millis(5), ..Options::default() };
    let summary = stream(listener, &mut output, &options).expect("a stream");
    output.finish().expect("a file");
    assert_eq!(sender.join().expect("a sender"), 400);
    assert_eq!((summary.events, safe.load(Ordering::Relaxed)), (400, 200));
    check(&hits, 400);
}

#[test]
fn nobody_is_waited_for_for_ever() {
    let (_folder, [input, _]) = in_folder(["events.geb", ""]);
    std::fs::write(&input, frames(&basis(), 1)).expect("a file");
    // A port that was free a moment ago.
    let free =
        std::net::TcpListener::bind("127.0.0.1:0").expect("an address").local_addr().expect("an address");
    let problem = send(&input, &free.to_string(), None, Duration::from_millis(50), &Silent)
        .expect_err("nobody")
        .to_string();
    assert!(problem.contains(&free.to_string()), "{problem}");
}

/// The sender waits again for a receiver that disappears after longer than its time limit.
#[test]
fn a_receiver_that_comes_back_is_waited_for() {
    let (_folder, [input, _]) = in_folder(["events.geb", ""]);
    let bytes = frames(&basis(), 10);
    let length = bytes.len() / 10;
    std::fs::write(&input, bytes).expect("a file");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
    let to = listener.local_addr().expect("an address");
    let receiver = std::thread::spawn(move || {
        let connected = |safe: u64| {
            let (mut stream, _) = listener.accept().expect("a sender");
            let mut first = [0; 16];
            stream.read_exact(&mut first).expect("a sender");
            assert_eq!(first, hello(1));
            stream.write_all(&hello(2)).expect("a sender");
            stream.write_all(&safe.to_le_bytes()).expect("a count");
            stream
        };
        let first = connected(0);
        std::thread::sleep(Duration::from_millis(600));
        drop(first);
        let (mut second, mut rest) = (connected(4), Vec::new());
        second.read_to_end(&mut rest).expect("the others");
        second.write_all(&10u64.to_le_bytes()).expect("a count");
        rest.len()
    });
    let sent = send(&input, &to.to_string(), None, Duration::from_millis(300), &Silent).expect("all frames");
    // Six frames, and the frame that marks the end.
    assert_eq!((sent, receiver.join().expect("a receiver")), (10, 6 * length + 16));
}

/// Runs a receiver that replies with these bytes to any connection, and returns the error of a
/// sender.
fn answered(answer: &'static [u8], patience: Duration) -> String {
    let (_folder, [input, _]) = in_folder(["events.geb", ""]);
    std::fs::write(&input, frames(&basis(), 3)).expect("a file");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
    let to = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            stream.write_all(answer).expect("a sender");
            kept.push(stream);
        }
    });
    send(&input, &to, None, patience, &Silent).expect_err("no receiver of ours").to_string()
}

#[test]
fn strangers_are_no_receivers() {
    let hour = Duration::from_secs(3600);
    let random = answered(&[0x5a; 4096], hour);
    assert!(random.contains("does not use the protocol"), "{random}");
    let other = answered(b"ZELLIGE\0\x02\0\0\0\x02\0\0\0", hour);
    assert!(other.contains("version 2"), "{other}");
    let ahead = answered(b"ZELLIGE\0\x01\0\0\0\x02\0\0\0\xff\0\0\0\0\0\0\0", hour);
    assert!(ahead.contains("255 frames already"), "{ahead}");
    let begin = std::time::Instant::now();
    let silent = answered(b"", Duration::from_millis(300));
    assert!(silent.contains("did not identify itself"), "{silent}");
    let forgetful = answered(b"ZELLIGE\0\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0", Duration::from_millis(300));
    assert!(forgetful.contains("did not acknowledge any frame"), "{forgetful}");
    assert!(begin.elapsed() < Duration::from_secs(60), "neither is waited for for ever");
}

/// A silent sender does not block others, a second sender is refused, and other peers receive the
/// version of the receiver.
#[test]
fn one_sender_at_a_time() {
    let (_folder, [input, hits]) = in_folder(["events.geb", "hits.geb"]);
    std::fs::write(&input, frames(&basis(), 20)).expect("a file");
    let (mut output, from) = Output::file(&hits, "socket", 10.0).expect("an output");
    let listener = Listener::bind("localhost:0", from).expect("an address");
    let to = listener.address();
    let sender = std::thread::spawn(move || {
        let _idle = TcpStream::connect(to).expect("a receiver");
        let mut stranger = TcpStream::connect(to).expect("a receiver");
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("a receiver");
        let mut answer = [0; 16];
        stranger.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, hello(2));
        let first = introduced(to);
        let short = Duration::from_millis(300);
        let second =
            send(&input, &to.to_string(), None, short, &Silent).expect_err("there is one").to_string();
        assert!(second.contains("another sender"), "{second}");
        drop(first);
        send(&input, &to.to_string(), None, Duration::from_secs(20), &Silent).expect("all frames")
    });
    let summary = stream(listener, &mut output, &Options::default()).expect("a stream");
    output.finish().expect("a file");
    assert_eq!((sender.join().expect("a sender"), summary.events), (20, 20));
    check(&hits, 20);
}

/// Outputs that are no regular files: a pipe's reader gets the hits, a device stays a device.
#[test]
fn devices_and_pipes_get_hits_as_they_come() {
    use std::os::unix::fs::FileTypeExt;
    let (_folder, [pipe, link]) = in_folder(["pipe", "link"]);
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    std::os::unix::fs::symlink(&pipe, &link).expect("a link");
    let from = pipe.clone();
    let reader = std::thread::spawn(move || std::fs::read(from).expect("hits"));
    let (mut output, mark) = Output::file(&link, "events", 10.0).expect("an output");
    assert_eq!(mark, Mark::default());
    let bytes = frames(&basis(), 30);
    let source = Once::new(std::io::Cursor::new(bytes));
    let summary = stream(source, &mut output, &Options::default()).expect("a stream");
    output.finish().expect("written");
    assert_eq!((summary.events, reader.join().expect("a reader").len()), (30, 30 * 480));
    assert!(pipe.metadata().expect("there").file_type().is_fifo() && link.is_symlink());
    let mut output = Output::anew(Path::new("/dev/full"), "-", 10.0).expect("it can be opened");
    let source = Once::new(std::io::Cursor::new(frames(&basis(), 30)));
    let ended = stream(source, &mut output, &Options::default()).and_then(|_| output.finish());
    assert!(ended.is_err(), "the device is full");
    assert!(Path::new("/dev/full").metadata().expect("there").file_type().is_char_device());
}
