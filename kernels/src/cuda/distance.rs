//! Searches of a basis: sums over points and events, the smallest of them, answers.

use zellige_gpu::{Address, Arg, Compute, Element, Factors, Gemm, Matrix, Transpose};

use super::Launch;
use super::launch::LaunchError;
use crate::distance::{GpuPower, LANES, Margin, Metric, Shape};

/// Threads of a block, and points and events of one that sums: `THREADS`, `POINTS`, `EVENTS` of the
/// source.
const THREADS: u32 = 256;
const POINTS: u32 = 64;
const EVENTS: u32 = 16;
/// Most blocks along the second axis of a grid.
const GRID_LIMIT: u32 = 65_535;
/// Numbers of an answer: see [`distance_answers`].
pub const ANSWER_NUMBERS: usize = 6;

/// Storage format of the samples of points. Events are `f32` in the same unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Stored unchanged as `f32`.
    F32,
    /// Whole numbers.
    I16,
    /// `f16`, computed with in `f32`.
    F16,
    /// `bf16`.
    Bf16,
}

/// Signals of points on a GPU, laid out by [`place`](crate::distance::place).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointsAt {
    /// Address and number of bytes.
    pub at: (Address, u64),
    /// Storage format of the samples.
    pub stored: Stored,
    /// Channels and samples.
    pub shape: Shape,
    /// Number of points, without the padding.
    pub points: usize,
}

impl PointsAt {
    /// Returns the number of points with padding, which is the number of sums of an event.
    pub fn stride(&self) -> usize {
        self.points.next_multiple_of(LANES)
    }

    /// Returns the leading arguments of all kernels that read samples.
    fn samples(&self, kernel: &'static str) -> Result<[Arg; 2], LaunchError> {
        let each = if self.stored == Stored::F32 { 4 } else { 2 };
        let (got, least) = (self.at.1, (self.stride() * self.shape.terms() * each) as u64);
        if got < least {
            return Err(LaunchError::TooSmall {
                kernel,
                what: "the samples of all points (bytes)",
                got,
                least,
            });
        }
        for (what, got) in
            [("the number of samples", self.shape.terms()), ("the number of points", self.stride())]
        {
            within(kernel, what, got, i32::MAX as usize)?;
        }
        Ok([Arg::Read(self.at.0, least), Arg::U32(self.stored as u32)])
    }

    /// Returns the leading arguments of all kernels that sum, for `count` events.
    fn args(&self, kernel: &'static str, events: Address, count: usize) -> Result<[Arg; 3], LaunchError> {
        let [samples, stored] = self.samples(kernel)?;
        within(kernel, "the number of events", count, i32::MAX as usize)?;
        Ok([samples, stored, Arg::Read(events, 4 * (count * self.shape.terms()) as u64)])
    }
}

fn within(kernel: &'static str, what: &'static str, got: usize, most: usize) -> Result<u32, LaunchError> {
    if got > most {
        return Err(LaunchError::TooLarge { kernel, what, got: got as u64, most: most as u64 });
    }
    Ok(got as u32)
}

/// The launch that makes `count` samples of events `f32`: each times `factor`, rounded once.
pub fn distance_events(samples: Address, factor: f64, count: usize, events: Address) -> Launch {
    let (kernel, count) = ("zellige_distance_narrow", count as u64);
    let blocks = count.div_ceil(THREADS.into()).clamp(1, GRID_LIMIT.into()) as u32;
    let args =
        vec![Arg::Read(samples, 8 * count), Arg::F64(factor), Arg::U64(count), Arg::Write(events, 4 * count)];
    Launch { kernel, grid: [blocks, 1, 1], block: [THREADS, 1, 1], args }
}

/// Returns the launch of [`sums`](crate::distance::sums) of all points for `count` events, bitwise
/// equal to the CPU's. There is none for metrics with tables. `sums` holds [`PointsAt::stride`]
/// numbers for each event.
///
/// # Errors
/// [`LaunchError`] for samples with fewer bytes than their shape requires, and for more points or
/// events than one launch takes.
pub fn distance_sums(
    metric: &Metric,
    points: &PointsAt,
    events: Address,
    count: usize,
    sums: Address,
) -> Result<Option<Launch>, LaunchError> {
    let Some(GpuPower { name, numbers }) = metric.on_gpus() else { return Ok(None) };
    let kernel = match name {
        "any" => "zellige_distance_any",
        "bits" => "zellige_distance_bits",
        "quarter" => "zellige_distance_quarter",
        "fourth_root" => "zellige_distance_fourth_root",
        "root" => "zellige_distance_root",
        "magnitude" => "zellige_distance_magnitude",
        _ => "zellige_distance_square",
    };
    let mut args = points.args(kernel, events, count)?.to_vec();
    within(kernel, "the number of events", count, (GRID_LIMIT * EVENTS) as usize)?;
    let Shape { channels, samples } = points.shape;
    args.extend([points.stride(), channels, samples, count].map(|x| Arg::U32(x as u32)));
    args.extend(numbers.map(Arg::F32));
    args.push(Arg::Write(sums, 4 * (count * points.stride()) as u64));
    let grid = [(points.stride() as u32).div_ceil(POINTS).max(1), (count as u32).div_ceil(EVENTS).max(1), 1];
    Ok(Some(Launch { kernel, grid, block: [THREADS, 1, 1], args }))
}

/// The launch that finds the `keep` points with the smallest of [`distance_sums`], of equal ones
/// the lowest numbers: `kept` are their numbers (`u32`), in rising order, for each event.
///
/// # Errors
/// [`LaunchError::TooLarge`] for more points than there are.
pub fn distance_best(
    points: &PointsAt,
    sums: Address,
    count: usize,
    keep: usize,
    kept: Address,
) -> Result<Launch, LaunchError> {
    let kernel = "zellige_distance_best";
    within(kernel, "the number of points that are kept", keep, points.points)?;
    let args = vec![
        Arg::Read(sums, 4 * (count * points.stride()) as u64),
        Arg::U32(points.stride() as u32),
        Arg::U32(points.points as u32),
        Arg::U32(keep as u32),
        Arg::Write(kept, 4 * (count * keep) as u64),
    ];
    Ok(Launch { kernel, grid: [count as u32, 1, 1], block: [THREADS, 1, 1], args })
}

/// Returns the launch that writes the samples of all points as one `matrix` in `f32`, a column of
/// [`PointsAt::stride`] points for each of a point's samples, and the squares of their lengths:
/// `squares`, as many `f32` as a column has. Squares are added in `f64`, in another order than
/// those of [`squares`](fn@crate::distance::squares), and rounded once.
///
/// # Errors
/// [`LaunchError`] for samples with fewer bytes than their shape requires, and for more than one
/// launch takes.
pub fn distance_matrix(points: &PointsAt, matrix: Address, squares: Address) -> Result<Launch, LaunchError> {
    let kernel = "zellige_distance_matrix";
    let mut args = points.samples(kernel)?.to_vec();
    let (stride, terms) = (points.stride(), points.shape.terms());
    args.extend([stride, terms].map(|x| Arg::U32(x as u32)));
    args.push(Arg::Write(matrix, 4 * (stride * terms) as u64));
    args.push(Arg::Write(squares, 4 * stride as u64));
    Ok(Launch { kernel, grid: [(stride / LANES).max(1) as u32, 1, 1], block: [THREADS, 1, 1], args })
}

/// The product of the `matrix` of [`distance_matrix`] and `count` events: `sums` are `-2 v b`,
/// [`PointsAt::stride`] of them for each event `v`. Sums are `f32` and operands are not narrowed.
///
/// # Errors
/// [`LaunchError::TooLarge`] for more points, samples or events than a product takes.
pub fn distance_products(
    points: &PointsAt,
    matrix: Address,
    events: Address,
    count: usize,
    sums: Address,
) -> Result<Gemm, LaunchError> {
    let size = |what, got| within("the product of points and events", what, got, i32::MAX as usize);
    let m = size("the number of points", points.stride())?;
    let k = size("the number of samples", points.shape.terms())?;
    let n = size("the number of events", count)?;
    let of = |at, ld| Matrix { at, ld, element: Element::F32 };
    Ok(Gemm {
        op_a: Transpose::No,
        op_b: Transpose::No,
        m,
        n,
        k,
        factors: Factors::Host { alpha: -2.0, beta: 0.0 },
        a: of(matrix, m),
        b: of(events, k),
        c: of(sums, m),
        compute: Compute::F32,
    })
}

/// Returns the launch that follows [`distance_products`]. It changes `sums` such that
/// [`distance_best`] finds in them the same `keep` points as in [`distance_sums`] of squares.
/// Points that are certainly kept get minus infinity, and points that are certainly not kept get
/// infinity. Points that the products cannot separate, by [`Margin::in_any_order`], get direct
/// sums. `squares` are those of [`distance_matrix`].
///
/// # Errors
/// The errors of [`distance_sums`], and [`LaunchError::TooLarge`] if `keep` exceeds the number of
/// points.
pub fn distance_nearest(
    points: &PointsAt,
    events: Address,
    (count, keep): (usize, usize),
    squares: Address,
    sums: Address,
) -> Result<Launch, LaunchError> {
    let kernel = "zellige_distance_nearest";
    let mut args = points.args(kernel, events, count)?.to_vec();
    within(kernel, "the number of points that are kept", keep, points.points)?;
    let (stride, Shape { channels, samples }) = (points.stride(), points.shape);
    args.push(Arg::Read(squares, 4 * stride as u64));
    args.extend([stride, points.points, channels, samples, keep].map(|x| Arg::U32(x as u32)));
    let Margin { error, subnormal, direct } = Margin::in_any_order(points.shape);
    args.extend([error, subnormal, direct, Margin::LARGEST].map(Arg::F64));
    args.push(Arg::Update(sums, 4 * (count * stride) as u64));
    Ok(Launch { kernel, grid: [count as u32, 1, 1], block: [THREADS, 1, 1], args })
}

/// Returns the launch of the sums of the points that [`distance_best`] has kept, `keep` for each
/// event. There is none for metrics with tables or with the powers computed from bits. `sums` holds
/// `count * keep` numbers.
///
/// # Errors
/// The errors of [`distance_sums`].
pub fn distance_again(
    metric: &Metric,
    points: &PointsAt,
    events: Address,
    (count, keep): (usize, usize),
    kept: Address,
    sums: Address,
) -> Result<Option<Launch>, LaunchError> {
    let Some(GpuPower { name, numbers }) = metric.on_gpus() else { return Ok(None) };
    let kernel = match name {
        "any" => "zellige_distance_again_any",
        "fourth_root" => "zellige_distance_again_fourth_root",
        "root" => "zellige_distance_again_root",
        "magnitude" => "zellige_distance_again_magnitude",
        "square" => "zellige_distance_again_square",
        _ => return Ok(None),
    };
    let mut args = points.args(kernel, events, count)?.to_vec();
    let all =
        within(kernel, "the number of points that are kept, of all events", count * keep, i32::MAX as usize)?;
    let Shape { channels, samples } = points.shape;
    args.push(Arg::Read(kept, 4 * u64::from(all)));
    args.extend([keep, channels, samples, count].map(|x| Arg::U32(x as u32)));
    args.extend(numbers.map(Arg::F32));
    args.push(Arg::Write(sums, 4 * u64::from(all)));
    Ok(Some(Launch { kernel, grid: [all.div_ceil(THREADS).max(1), 1, 1], block: [THREADS, 1, 1], args }))
}

/// Inputs of [`distance_answers`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The sums of an event: `count` of them, the next event's `stride` later.
    pub sums: Address,
    /// See [`Compared::sums`].
    pub stride: usize,
    /// See [`Compared::sums`].
    pub count: usize,
    /// Numbers of their points, as many as sums, if the sums are not those of all points.
    pub kept: Option<Address>,
    /// Factor that turns a sum into a figure of merit.
    pub unit: f64,
    /// Figures of merit that are so much larger than the smallest, as a ratio, are near it.
    pub near: f64,
    /// Value in an answer if two points have the same figure of merit.
    pub tie: f64,
}

/// The launch that writes the answer for each of `events` events, [`ANSWER_NUMBERS`] `f64`: the
/// number of the best point, its figure of merit, the number of the second or -1, by how much its
/// figure is larger (or infinity), the root mean square distance of the points near the best from
/// it, a tie. `positions` are those of all `points`, three `f32` each.
///
/// # Errors
/// [`LaunchError::TooSmall`] without a sum to choose from.
pub fn distance_answers(
    compared: &Compared,
    (positions, points): (Address, usize),
    events: usize,
    answers: Address,
) -> Result<Launch, LaunchError> {
    let kernel = "zellige_distance_answer";
    let &Compared { sums, stride, count, kept, unit, near, tie } = compared;
    if count == 0 {
        return Err(LaunchError::TooSmall {
            kernel,
            what: "the number of sums of an event",
            got: 0,
            least: 1,
        });
    }
    within(kernel, "the number of sums of an event", count, stride)?;
    let bytes = 4 * (stride * events) as u64;
    let args = vec![
        Arg::Read(sums, bytes),
        Arg::U32(stride as u32),
        Arg::U32(count as u32),
        Arg::U32(kept.is_some().into()),
        kept.map_or(Arg::Read(Address(0), 0), |kept| Arg::Read(kept, bytes)),
        Arg::F64(unit),
        Arg::F64(near),
        Arg::Read(positions, 12 * points as u64),
        Arg::F64(tie),
        Arg::Write(answers, (8 * ANSWER_NUMBERS * events) as u64),
    ];
    Ok(Launch { kernel, grid: [events as u32, 1, 1], block: [THREADS, 1, 1], args })
}
