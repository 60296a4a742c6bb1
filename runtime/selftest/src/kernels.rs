//! The kernels of bodies on GPUs: their source, their equivalents on the host, and their launches.
//!
//! The computations exist twice: in CUDA C++ (`runtime/selftest/cuda/fuzz.cu`), and as the
//! functions of [`Value`], which bodies on CPUs use too. A test compares the two.

use std::sync::Arc;

use zellige_gpu::mock::MockBuilder;
use zellige_gpu::source::{Launch, Loaded, Source};
use zellige_gpu::twin::TwinArg;
use zellige_gpu::{Address, Arg, Driver, GpuError};
use zellige_runtime::Format;

use super::case::Kind;
use super::rng::blend;
use super::value::Value;
use super::words::FORMATS;

/// The kernels of the bodies.
pub const SOURCE: Source = Source {
    name: "fuzz",
    text: include_str!("../cuda/fuzz.cu"),
    kernels: &[BEGIN, LOOK, MIX, ADD, FRESH, CONVERT, NORM],
};

const BEGIN: &str = "zellige_fuzz_begin";
const LOOK: &str = "zellige_fuzz_look";
const MIX: &str = "zellige_fuzz_mix";
const ADD: &str = "zellige_fuzz_add";
const FRESH: &str = "zellige_fuzz_fresh";
const CONVERT: &str = "zellige_fuzz_convert";
const NORM: &str = "zellige_fuzz_norm";

/// A value in device memory, as passed to the kernels. The native format stands for a plain vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    pub(super) format: Format,
    pub(super) len: usize,
    /// Address of its words, and their bytes.
    pub(super) part: (Address, u64),
}

impl Array {
    fn format(self) -> Arg {
        Arg::U32(self.format.0.into())
    }

    fn args(self, words: fn(Address, u64) -> Arg) -> [Arg; 3] {
        [self.format(), Arg::U32(self.len as u32), words(self.part.0, self.part.1)]
    }
}

/// The digest of a body, in device memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest(pub(super) Address);

impl Digest {
    /// Bytes of a digest.
    pub(super) const BYTES: u64 = 8;

    fn arg(self, number: fn(Address, u64) -> Arg) -> Arg {
        number(self.0, Digest::BYTES)
    }

    /// Returns the launch that initialises it.
    pub(super) fn begin(self, seed: u64) -> Launch {
        launch(BEGIN, [Arg::U64(seed), self.arg(Arg::Write)])
    }

    /// Returns the launch that adds an input to it.
    pub(super) fn look(self, array: Array) -> Launch {
        launch(LOOK, array.args(Arg::Read).into_iter().chain([self.arg(Arg::Update)]))
    }

    /// Returns the launch that changes a body's operand.
    pub(super) fn mix(self, array: Array, operand: usize) -> Launch {
        self.act(MIX, array.args(Arg::Update), operand)
    }

    /// Returns the launch that adds to an operand.
    pub(super) fn add(self, array: Array, operand: usize) -> Launch {
        self.act(ADD, array.args(Arg::Update), operand)
    }

    /// Returns the launch that overwrites an operand.
    pub(super) fn fresh(self, array: Array, operand: usize) -> Launch {
        self.act(FRESH, array.args(Arg::Write), operand)
    }

    fn act(self, kernel: &'static str, array: [Arg; 3], operand: usize) -> Launch {
        launch(kernel, array.into_iter().chain([Arg::U64(operand as u64), self.arg(Arg::Read)]))
    }
}

/// Returns the launch that writes a value in another format.
pub(super) fn convert(from: Array, to: Array) -> Launch {
    launch(CONVERT, from.args(Arg::Read).into_iter().chain([to.format(), Arg::Write(to.part.0, to.part.1)]))
}

/// Bytes of a norm.
pub(super) const NORM_BYTES: usize = size_of::<f64>();

/// Returns the launch that writes a value's norm.
pub(super) fn norm(array: Array, to: Address) -> Launch {
    launch(NORM, array.args(Arg::Read).into_iter().chain([Arg::Write(to, NORM_BYTES as u64)]))
}

fn launch(kernel: &'static str, args: impl IntoIterator<Item = Arg>) -> Launch {
    let args = args.into_iter().collect();
    Launch { kernel, grid: [1; 3], block: [1; 3], args }
}

/// Returns the kernels on a GPU.
///
/// # Errors
/// Errors of the driver.
pub(super) fn loaded(driver: &Arc<dyn Driver>, gpu: u32) -> Result<Arc<Loaded>, GpuError> {
    Loaded::shared(driver, gpu, &[SOURCE])
}

/// A kernel on the host.
type OnHost = fn(&mut [TwinArg<'_>]) -> Result<(), String>;

const ON_HOST: [(&str, OnHost); SOURCE.kernels.len()] = [
    (BEGIN, begin_on_host),
    (LOOK, look_on_host),
    (MIX, |args| change_on_host(args, Value::mix)),
    (ADD, |args| change_on_host(args, Value::add)),
    (FRESH, fresh_on_host),
    (CONVERT, convert_on_host),
    (NORM, norm_on_host),
];

/// Runs a kernel of [`SOURCE`] on the host, on arrays in the order of its arguments.
///
/// # Errors
/// If there is no such kernel, or its arguments differ.
pub fn run_on_host(kernel: &str, args: &mut [TwinArg<'_>]) -> Result<(), String> {
    let known = ON_HOST.iter().find(|(name, _)| *name == kernel);
    known.ok_or_else(|| format!("no kernel is called {kernel}"))?.1(args)
}

/// Registers all kernels with a driver without GPUs.
pub(super) fn on_host(builder: MockBuilder) -> MockBuilder {
    ON_HOST
        .into_iter()
        .fold(builder, |builder, (name, run)| builder.kernel(name, move |_grid, _block, args| run(args)))
}

fn begin_on_host(args: &mut [TwinArg<'_>]) -> Result<(), String> {
    match args {
        [TwinArg::U64(seed), TwinArg::Write(digest)] => put(digest, &seed.to_le_bytes()),
        _ => Err("it takes a seed and a number".into()),
    }
}

fn look_on_host(args: &mut [TwinArg<'_>]) -> Result<(), String> {
    match args {
        [TwinArg::U32(format), TwinArg::U32(len), TwinArg::Read(words), TwinArg::Update(digest)] => {
            let seen = value(*format, *len, words)?.digest();
            let now = blend(number(digest)?, seen);
            put(digest, &now.to_le_bytes())
        }
        _ => Err("it takes a value and a number".into()),
    }
}

fn change_on_host(args: &mut [TwinArg<'_>], change: fn(&mut Value, u64)) -> Result<(), String> {
    match args {
        [
            TwinArg::U32(format),
            TwinArg::U32(len),
            TwinArg::Update(words),
            TwinArg::U64(operand),
            TwinArg::Read(digest),
        ] => {
            let mut value = value(*format, *len, words)?;
            change(&mut value, blend(number(digest)?, *operand));
            put(words, value.bytes())
        }
        _ => Err("it takes a value, the number of an operand, and a number".into()),
    }
}

fn fresh_on_host(args: &mut [TwinArg<'_>]) -> Result<(), String> {
    match args {
        [
            TwinArg::U32(format),
            TwinArg::U32(len),
            TwinArg::Write(words),
            TwinArg::U64(operand),
            TwinArg::Read(digest),
        ] => put(words, fresh(*format, *len, blend(number(digest)?, *operand))?.bytes()),
        _ => Err("it takes room for a value, the number of an operand, and a number".into()),
    }
}

fn convert_on_host(args: &mut [TwinArg<'_>]) -> Result<(), String> {
    match args {
        [
            TwinArg::U32(from),
            TwinArg::U32(len),
            TwinArg::Read(words),
            TwinArg::U32(to),
            TwinArg::Write(room),
        ] => put(room, value(*from, *len, words)?.as_format(known(*to)?).bytes()),
        _ => Err("it takes a value, a format, and room for another".into()),
    }
}

fn norm_on_host(args: &mut [TwinArg<'_>]) -> Result<(), String> {
    match args {
        [TwinArg::U32(format), TwinArg::U32(len), TwinArg::Read(words), TwinArg::Write(norm)] => {
            put(norm, &value(*format, *len, words)?.meta().norm.to_le_bytes())
        }
        _ => Err("it takes a value and room for its norm".into()),
    }
}

fn known(format: u32) -> Result<Format, String> {
    let all = FORMATS.into_iter().chain([Format::NATIVE]);
    all.into_iter().find(|known| u32::from(known.0) == format).ok_or_else(|| format!("no format is {format}"))
}

fn fresh(format: u32, len: u32, seed: u64) -> Result<Value, String> {
    let format = known(format)?;
    let kind = if format == Format::NATIVE { Kind::Plain } else { Kind::Words };
    Ok(Value::fresh(kind, format, len as usize, seed))
}

fn value(format: u32, len: u32, words: &[u8]) -> Result<Value, String> {
    let mut value = fresh(format, len, 0)?;
    put(value.bytes_mut(), words)?;
    Ok(value)
}

fn number(bytes: &[u8]) -> Result<u64, String> {
    bytes.try_into().map(u64::from_le_bytes).map_err(|_| format!("a number has not {} bytes", bytes.len()))
}

fn put(room: &mut [u8], bytes: &[u8]) -> Result<(), String> {
    if room.len() != bytes.len() {
        return Err(format!("{} bytes do not fit an array of {}", bytes.len(), room.len()));
    }
    room.copy_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
#[allow(unsafe_code)] // twins run on memory that the test holds
mod tests {
    use zellige_twins::Twins;

    use super::super::rng::Rng;
    use super::*;

    #[test]
    fn every_kernel_has_a_version_on_the_host() {
        assert_eq!(ON_HOST.map(|(name, _)| name).as_slice(), SOURCE.kernels);
        let there = SOURCE.text.matches("__global__").count();
        assert_eq!(there, SOURCE.kernels.len());
        for kernel in SOURCE.kernels {
            assert!(SOURCE.text.contains(&format!("__global__ void {kernel}(")), "{kernel}");
        }
    }

    /// Returns random bytes with the alignment of words.
    fn random(rng: &mut Rng, bytes: usize) -> Vec<u64> {
        (0..bytes.div_ceil(8)).map(|_| rng.next()).collect()
    }

    /// The arrays of a launch, in memory of its own.
    struct Arrays(Vec<(Vec<u64>, usize)>);

    impl Arrays {
        fn of(rng: &mut Rng, sizes: &[usize]) -> Self {
            Arrays(sizes.iter().map(|&bytes| (random(rng, bytes), bytes)).collect())
        }

        fn place(&mut self, at: usize) -> (Address, u64) {
            let (words, bytes) = &mut self.0[at];
            (Address(words.as_mut_ptr().expose_provenance() as u64), *bytes as u64)
        }

        fn bytes(&self) -> Vec<Vec<u8>> {
            self.0.iter().map(|(words, bytes)| bytemuck::cast_slice(words)[..*bytes].to_vec()).collect()
        }
    }

    /// Runs a launch on copies of its arrays by the functions above, then in place by the twins of
    /// the source.
    fn both(twins: &Twins, launch: &Launch, arrays: &Arrays) -> [Vec<Vec<u8>>; 2] {
        let mut copies = arrays.bytes();
        let mut next = copies.iter_mut();
        let mut args: Vec<TwinArg<'_>> = launch
            .args
            .iter()
            .map(|arg| match *arg {
                Arg::Read(..) => TwinArg::Read(next.next().unwrap()),
                Arg::Write(..) => TwinArg::Write(next.next().unwrap()),
                Arg::Update(..) => TwinArg::Update(next.next().unwrap()),
                Arg::U32(x) => TwinArg::U32(x),
                Arg::U64(x) => TwinArg::U64(x),
                other => panic!("no kernel here takes {other:?}"),
            })
            .collect();
        let (_, run) = ON_HOST.iter().find(|(name, _)| *name == launch.kernel).unwrap();
        run(&mut args).unwrap();
        // SAFETY: the arrays of `arrays`, as long as the arguments say, which nobody else uses.
        unsafe { twins.run(launch.kernel, [launch.grid, launch.block], &launch.args, 7) }.unwrap();
        [copies, arrays.bytes()]
    }

    #[test]
    fn the_source_does_what_bodies_on_cpus_do() {
        let Some(twins) = Twins::build(SOURCE.name, SOURCE.text, SOURCE.kernels).unwrap() else { return };
        let mut rng = Rng::new(11);
        let width = |format: Format| [8, 8, 4, 2][usize::from(format.0)];
        let formats = [Format::NATIVE, FORMATS[0], FORMATS[1], FORMATS[2]];
        let lengths: Vec<usize> =
            (0..=9).chain([63, 64, 65]).chain((0..20).map(|_| rng.below(300))).collect();
        for (format, len) in lengths.iter().flat_map(|&len| formats.map(|format| (format, len))) {
            let (seed, operand) = (rng.next(), rng.below(5));
            let mut compare = |others: &[usize], describe: &dyn Fn(Array, (Address, u64)) -> Launch| {
                let sizes: Vec<usize> = [len * width(format)].iter().chain(others).copied().collect();
                let mut arrays = Arrays::of(&mut rng, &sizes);
                let array = Array { format, len, part: arrays.place(0) };
                let launch = describe(array, arrays.place(1));
                let [host, twin] = both(&twins, &launch, &arrays);
                assert_eq!(host, twin, "{} of {len} words in {format:?}", launch.kernel);
            };
            compare(&[8], &|array, (at, _)| Digest(at).look(array));
            compare(&[8], &|array, (at, _)| Digest(at).mix(array, operand));
            compare(&[8], &|array, (at, _)| Digest(at).add(array, operand));
            compare(&[8], &|array, (at, _)| Digest(at).fresh(array, operand));
            let norms = format != Format::NATIVE;
            for to in FORMATS.into_iter().filter(|_| norms) {
                compare(&[len * width(to)], &|from, part| convert(from, Array { format: to, len, part }));
            }
            if norms {
                compare(&[8], &|array, (at, _)| norm(array, at));
            }
            let mut arrays = Arrays::of(&mut rng, &[8]);
            let launch = Digest(arrays.place(0).0).begin(seed);
            let [host, twin] = both(&twins, &launch, &arrays);
            assert_eq!(host, twin);
            assert_eq!(host[0], seed.to_le_bytes());
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let mut digest = [0; 8];
        let look = |format, len, words: &[u8], digest: &mut [u8]| {
            let (format, len) = (TwinArg::U32(format), TwinArg::U32(len));
            look_on_host(&mut [format, len, TwinArg::Read(words), TwinArg::Update(digest)])
        };
        assert!(look(2, 2, &[0; 8], &mut digest).is_ok());
        assert!(look(2, 3, &[0; 8], &mut digest).is_err());
        assert!(look(9, 1, &[0; 8], &mut digest).is_err());
        assert!(look(1, 1, &[0; 8], &mut []).is_err());
        assert!(norm_on_host(&mut []).is_err());
    }
}
