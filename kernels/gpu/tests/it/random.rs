//! Random programs: ordered as they must be, they give what one stream would give; without their
//! events, they are found out.

use crate::common::{Bench, mix, within};
use proptest::prelude::*;
use zellige_gpu::mock::Mock;
use zellige_gpu::{Address, Arg, Driver, Event, GpuError, Kernel, Place, Stream};

const BYTES: usize = 96;
const GPUS: u32 = 2;
/// Buffers on each GPU, and on the host.
const BUFFERS: usize = 3;
const STREAMS: usize = 3;

/// Step of a program; buffers and streams by number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Mix {
        gpu: usize,
        stream: usize,
        x: usize,
        y: usize,
        salt: u32,
    },
    Zero {
        gpu: usize,
        stream: usize,
        x: usize,
        from: usize,
    },
    Copy {
        stream: usize,
        gpu: usize,
        to: Where,
        from: Where,
    },
    /// The buffer is freed, and a new one has its number.
    Renew {
        gpu: usize,
        stream: usize,
        x: usize,
    },
    /// The host looks until the last operation on a stream has ended.
    See {
        gpu: usize,
        stream: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Host(usize),
    Gpu(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (gpu, buffer, stream) = (0..GPUS as usize, 0..BUFFERS, 0..STREAMS);
    let place = prop_oneof![
        (0..BUFFERS).prop_map(Where::Host),
        (0..GPUS as usize, 0..BUFFERS).prop_map(|(gpu, x)| Where::Gpu(gpu, x))
    ];
    let at = (gpu, stream, buffer);
    prop_oneof![
        4 => (at.clone(), 0..BUFFERS, any::<u32>())
            .prop_map(|((gpu, stream, x), y, salt)| Step::Mix { gpu, stream, x, y, salt }),
        1 => (at.clone(), 0..BYTES).prop_map(|((gpu, stream, x), from)| Step::Zero { gpu, stream, x, from }),
        3 => (at.clone(), place, any::<bool>()).prop_map(|((gpu, stream, x), other, out)| {
            let here = Where::Gpu(gpu, x);
            let (to, from) = if out { (other, here) } else { (here, other) };
            Step::Copy { stream, gpu, to, from }
        }),
        1 => at.clone().prop_map(|(gpu, stream, x)| Step::Renew { gpu, stream, x }),
        1 => (0..GPUS as usize, 0..STREAMS).prop_map(|(gpu, stream)| Step::See { gpu, stream }),
    ]
}

/// Users of a buffer: the event after the last write and those after the reads since, each with its
/// stream.
#[derive(Clone, Default)]
struct Users {
    write: Option<(Event, Stream)>,
    reads: Vec<(Event, Stream)>,
}

/// A program being run: with its events, or without.
struct Run {
    mock: Mock,
    mix: Vec<Kernel>,
    streams: Vec<Vec<Stream>>,
    device: Vec<Vec<Address>>,
    host: Vec<*mut u8>,
    /// Users of the GPUs' buffers, then of the host's.
    users: Vec<Vec<Users>>,
    ordered: bool,
    /// True if a wait was left out.
    missing: bool,
}

impl Run {
    fn new(seed: u64, ordered: bool) -> Run {
        let Bench { mock, .. } = Bench::of(Mock::builder().gpus(GPUS).seed(seed));
        let mix =
            (0..GPUS).map(|gpu| mock.load(gpu, b"").and_then(|module| mock.kernel(module, "mix")).unwrap());
        let streams =
            (0..GPUS).map(|gpu| (0..STREAMS).map(|_| mock.create_stream(gpu, false).unwrap()).collect());
        let (mix, streams): (Vec<_>, Vec<Vec<Stream>>) = (mix.collect(), streams.collect());
        let mut run = Run {
            mix,
            host: (0..BUFFERS).map(|_| mock.allocate_pinned(BYTES).unwrap()).collect(),
            device: vec![Vec::new(); GPUS as usize],
            users: vec![vec![Users::default(); BUFFERS]; GPUS as usize + 1],
            streams,
            mock,
            ordered,
            missing: false,
        };
        for gpu in 0..GPUS as usize {
            let stream = run.streams[gpu][0];
            for _ in 0..BUFFERS {
                let at = run.fresh(stream);
                run.device[gpu].push(at);
            }
            run.mock.synchronize(stream).unwrap();
        }
        for host in &run.host {
            // SAFETY: so many bytes were allocated, and nothing else uses them yet.
            unsafe { host.write_bytes(0, BYTES) };
        }
        run
    }

    fn fresh(&self, stream: Stream) -> Address {
        let at = self.mock.allocate(stream, BYTES as u64).unwrap();
        // SAFETY: new memory.
        unsafe { self.mock.zero(stream, at, BYTES as u64).unwrap() };
        at
    }

    fn users(&mut self, place: Where) -> &mut Users {
        match place {
            Where::Gpu(gpu, x) => &mut self.users[gpu][x],
            Where::Host(x) => &mut self.users[GPUS as usize][x],
        }
    }

    fn place(&self, place: Where) -> Place {
        match place {
            Where::Gpu(gpu, x) => Place::Gpu(gpu as u32, self.device[gpu][x]),
            Where::Host(x) => Place::Host(self.host[x]),
        }
    }

    /// Waits for all operations that have to precede it, queues `f`, and records an event after it.
    fn queue(
        &mut self,
        gpu: usize,
        stream: Stream,
        writes: &[Where],
        reads: &[Where],
        f: impl FnOnce(&mut Run) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let mut before: Vec<(Event, Stream)> = Vec::new();
        for place in writes {
            let users = self.users(*place).clone();
            before.extend(users.write.into_iter().chain(users.reads));
        }
        for place in reads {
            before.extend(self.users(*place).write);
        }
        for (event, _) in before.into_iter().filter(|(_, other)| *other != stream) {
            if self.ordered {
                self.mock.wait_event(stream, event)?;
            } else {
                self.missing = true;
            }
        }
        f(self)?;
        let end = self.mock.create_event(gpu as u32, false)?;
        self.mock.record(end, stream)?;
        for place in reads {
            self.users(*place).reads.push((end, stream));
        }
        for place in writes {
            *self.users(*place) = Users { write: Some((end, stream)), reads: Vec::new() };
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), GpuError> {
        let bytes = BYTES as u64;
        match step {
            Step::Mix { x, y, .. } if x == y => Ok(()),
            Step::Mix { gpu, stream, x, y, salt } => {
                let stream = self.streams[gpu][stream];
                self.queue(gpu, stream, &[Where::Gpu(gpu, x)], &[Where::Gpu(gpu, y)], |run| {
                    let [x, y] = [x, y].map(|at| run.device[gpu][at]);
                    let args = [Arg::Update(x, bytes), Arg::Read(y, bytes), Arg::U32(salt)];
                    // SAFETY: ordered by `queue`, or refused.
                    unsafe { run.mock.launch(stream, run.mix[gpu], [1; 3], [1; 3], 0, &args) }
                })
            }
            Step::Zero { gpu, stream, x, from } => {
                let stream = self.streams[gpu][stream];
                self.queue(gpu, stream, &[Where::Gpu(gpu, x)], &[], |run| {
                    let at = run.device[gpu][x].offset(from as u64);
                    // SAFETY: ordered by `queue`, or refused.
                    unsafe { run.mock.zero(stream, at, bytes - from as u64) }
                })
            }
            Step::Copy { to, from, .. } if to == from => Ok(()),
            Step::Copy { stream, gpu, to, from } => {
                let stream = self.streams[gpu][stream];
                // SAFETY: ordered by `queue`, or refused; host memory stays until the end.
                self.queue(gpu, stream, &[to], &[from], |run| unsafe {
                    run.mock.copy(stream, run.place(to), run.place(from), bytes)
                })
            }
            Step::Renew { gpu, stream, x } => {
                let stream = self.streams[gpu][stream];
                self.queue(gpu, stream, &[Where::Gpu(gpu, x)], &[], |run| {
                    // SAFETY: allocated by `fresh`, freed once.
                    unsafe { run.mock.free(stream, run.device[gpu][x])? };
                    run.device[gpu][x] = run.fresh(stream);
                    Ok(())
                })
            }
            Step::See { .. } if !self.ordered => Ok(()), // it would order what is to be found
            Step::See { gpu, stream } => {
                let event = self.mock.create_event(gpu as u32, false)?;
                self.mock.record(event, self.streams[gpu][stream])?;
                while !self.mock.is_done(event)? {
                    std::thread::yield_now();
                }
                Ok(())
            }
        }
    }

    /// Returns the contents of the buffers at the end.
    fn contents(&self) -> Vec<Vec<Vec<u8>>> {
        for stream in self.streams.iter().flatten() {
            self.mock.synchronize(*stream).unwrap();
        }
        let mut all: Vec<Vec<Vec<u8>>> = Vec::new();
        for (gpu, buffers) in self.device.iter().enumerate() {
            let stream = self.streams[gpu][0];
            let mut contents = vec![vec![0; BYTES]; BUFFERS];
            for (at, bytes) in buffers.iter().zip(&mut contents) {
                let to = Place::Host(bytes.as_mut_ptr());
                // SAFETY: the buffer lives until the stream has ended, just below.
                unsafe { self.mock.copy(stream, to, Place::Gpu(gpu as u32, *at), BYTES as u64).unwrap() };
            }
            self.mock.synchronize(stream).unwrap();
            all.push(contents);
        }
        // SAFETY: all streams have ended, so nothing writes these bytes.
        all.push(
            self.host.iter().map(|at| unsafe { std::slice::from_raw_parts(*at, BYTES) }.to_vec()).collect(),
        );
        all
    }
}

/// The program, step by step.
fn oracle(program: &[Step]) -> Vec<Vec<Vec<u8>>> {
    let mut all = vec![vec![vec![0u8; BYTES]; BUFFERS]; GPUS as usize + 1];
    let place = |place: Where| match place {
        Where::Gpu(gpu, x) => (gpu, x),
        Where::Host(x) => (GPUS as usize, x),
    };
    for step in program {
        match *step {
            Step::Mix { x, y, .. } if x == y => {}
            Step::Mix { gpu, x, y, salt, .. } => {
                let y = all[gpu][y].clone();
                mix(&mut all[gpu][x], &y, salt);
            }
            Step::Zero { gpu, x, from, .. } => all[gpu][x][from..].fill(0),
            Step::Copy { to, from, .. } => {
                let ((g, x), (h, y)) = (place(to), place(from));
                all[g][x] = all[h][y].clone();
            }
            Step::Renew { gpu, x, .. } => all[gpu][x].fill(0),
            Step::See { .. } => {}
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..zellige_tests::cases(64) })]

    #[test]
    fn ordered_programs_give_what_one_stream_gives(
        program in prop::collection::vec(step(), 1..80),
        seed: u64,
    ) {
        let (found, expected) = within(60, move || {
            let mut run = Run::new(seed, true);
            for step in &program {
                run.step(*step).unwrap();
            }
            assert_eq!(run.mock.violations(), Vec::<String>::new());
            (run.contents(), oracle(&program))
        });
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn programs_without_their_events_are_found_out(
        program in prop::collection::vec(step(), 1..40),
        seed: u64,
    ) {
        within(60, move || {
            let mut run = Run::new(seed, false);
            for step in &program {
                let result = run.step(*step);
                assert_eq!(result.is_err(), run.missing, "{step:?}: {result:?}");
                if run.missing {
                    assert_eq!(run.mock.violations().len(), 1);
                    break;
                }
            }
        });
    }
}

#[test]
fn many_operations_from_several_threads_end() {
    within(120, || {
        let bench = Bench::of(Mock::builder().seed(7));
        let bench = &bench;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || chain(bench, 1000));
            }
        });
        assert_eq!((bench.mock.violations(), bench.mock.leaks()), (Vec::new(), Vec::new()));
    });
}

/// A chain of operations to and fro between two streams, with memory that comes and goes.
fn chain(bench: &Bench, length: u32) {
    let mock = &bench.mock;
    let streams = [bench.stream(), bench.stream()];
    let [x, y] = [(); 2].map(|()| mock.allocate(streams[0], BYTES as u64).unwrap());
    bench.zero(streams[0], x, BYTES as u64).unwrap();
    bench.zero(streams[0], y, BYTES as u64).unwrap();
    let mut expected = vec![0u8; BYTES];
    for i in 0..length {
        let (from, to) = (streams[i as usize % 2], streams[(i as usize + 1) % 2]);
        let event = mock.create_event(0, false).unwrap();
        mock.record(event, from).unwrap();
        mock.wait_event(to, event).unwrap();
        bench.mix(to, x, y, BYTES as u64).unwrap();
        mix(&mut expected, &[0; BYTES], 1);
        let scratch = mock.allocate(to, 10).unwrap();
        bench.zero(to, scratch, 10).unwrap();
        bench.free(to, scratch).unwrap();
        if i % 100 == 0 {
            mock.synchronize(to).unwrap();
        }
        mock.record(event, to).unwrap();
        mock.wait(event).unwrap();
        mock.destroy_event(event);
    }
    let last = streams[length as usize % 2];
    assert_eq!(bench.read(last, x, BYTES).unwrap(), expected);
    bench.free(last, x).unwrap();
    bench.free(last, y).unwrap();
    streams.into_iter().for_each(|stream| mock.destroy_stream(stream));
}
