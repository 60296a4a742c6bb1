//! Products of sparse matrices, by the tasks of `zellige solve --device cuda`: graphs that are
//! recorded once and replayed.

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::Serialize;
use zellige_app::table::Side;
use zellige_app::text::{bytes, digits};
use zellige_cuda::Gpu;
use zellige_runtime::Bindings;
use zellige_sparse::Csr;
use zellige_sparse::Stored;
use zellige_sparse::adaptive::{Adaptation, Criterion, FormatSet};
use zellige_sparse::generate::{Elasticity, Elements, Flow, elasticity, flow};
use zellige_sparse::krylov::method::{NumbersHandle, Steps};
use zellige_sparse::krylov::{MultiVector, Operator, Space};

use super::rates::Conditions;
use super::run::GpuRun;
use crate::{Error, median, on_gpus};

/// Products of one replay.
const PRODUCTS: usize = 10;
/// Replays that do not count. In the first one the matrix comes to the GPU; five go task by task
/// and five in one launch before the runtime keeps the faster of the two methods
/// (`DeviceGraphs::Measured`), as it does in a solver's first steps.
const BEFORE: usize = 12;

/// Storage of a matrix: block size, formats, accuracy (criterion `nw`). The other storages of a
/// matrix are compared with its first.
type Storage = (usize, FormatSet, &'static str);
const FLOW: &[Storage] = &[
    (1, FormatSet::Fp64, "2^-53"),
    (1, FormatSet::Ap2, "2^-37"),
    (1, FormatSet::Ap7, "2^-37"),
    (1, FormatSet::Ap7, "2^-24"),
];
const ELASTICITY: &[Storage] =
    &[(3, FormatSet::Fp64, "2^-53"), (3, FormatSet::Ap7, "2^-37"), (3, FormatSet::Ap7, "2^-24")];

/// The matrices.
#[derive(Clone, Copy, Debug)]
pub struct SparseSizes {
    /// Cells of the flow.
    pub cells: [usize; 3],
    /// Elements of the solid.
    pub elements: [usize; 3],
}

/// Results of products with one matrix in one storage; medians.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SparseFigures {
    matrix: &'static str,
    rows: usize,
    nonzeros: usize,
    /// Block size.
    block_size: usize,
    set: &'static str,
    eps: &'static str,
    /// Bytes of the stored matrix.
    bytes: u64,
    /// Time of one product.
    seconds: f64,
    /// The matrix, `x` and `y` once each, by that time.
    bytes_per_second: f64,
    /// Rate relative to copies within the GPU's memory, bytes read and written; `null` if that was
    /// not measured.
    of_copy: Option<f64>,
    /// Speedup over `f64`; `null` if that was not measured.
    x_fp64: Option<f64>,
    #[serde(flatten)]
    conditions: Conditions,
}

/// Columns of the table for [`SparseFigures::cells`].
pub(super) const COLUMNS: [(&str, Side); 7] = [
    ("sparse product", Side::Left),
    ("stored", Side::Left),
    ("bytes", Side::Right),
    ("us", Side::Right),
    ("GB/s", Side::Right),
    ("of copies", Side::Right),
    ("x fp64", Side::Right),
];

impl SparseFigures {
    pub(super) fn cells(&self) -> impl Iterator<Item = String> {
        let or_nothing = |ratio: Option<f64>| ratio.map_or_else(String::new, digits);
        let cells = [
            self.matrix.to_owned(),
            self.stored(),
            bytes(self.bytes),
            digits(self.seconds * 1e6),
            digits(self.bytes_per_second / 1e9),
            or_nothing(self.of_copy),
            or_nothing(self.x_fp64),
        ];
        cells.into_iter().chain(self.conditions.cells())
    }

    fn stored(&self) -> String {
        let blocks =
            if self.block_size > 1 { format!(", blocks of {}", self.block_size) } else { String::new() };
        format!("{} {}{blocks}", self.set, self.eps)
    }

    /// Returns the main figures in one line.
    pub(super) fn in_short(&self) -> String {
        let of_copy = self.of_copy.map_or_else(String::new, |x| format!(" ({} of copies)", digits(x)));
        format!("{} {} {} GB/s{of_copy}", self.matrix, self.stored(), digits(self.bytes_per_second / 1e9))
    }
}

impl GpuRun<'_> {
    pub(super) fn sparse(&mut self) -> Result<(), Error> {
        let SparseSizes { cells, elements } = self.sizes.sparse;
        let fluid = move || flow(&Flow { cells, ..Flow::default() });
        let solid = move || elasticity(&Elasticity { elements: Elements(elements), ..Elasticity::default() });
        self.listeners.progress.stage("sparse products", (FLOW.len() + ELASTICITY.len()) as u64);
        self.of_matrix("flow", FLOW, &fluid, 0)?;
        self.of_matrix("elasticity", ELASTICITY, &solid, FLOW.len() as u64)
    }

    /// Measures one matrix, after `before` other measurements of this part.
    fn of_matrix(
        &mut self,
        name: &'static str,
        all: &[Storage],
        make: &dyn Fn() -> Result<Csr, zellige_sparse::Error>,
        before: u64,
    ) -> Result<(), Error> {
        if self.affordable(&format!("sparse products, {name}"), "sparse products", 1.0, 1).is_none() {
            return Ok(());
        }
        let a = make()?;
        let mut in_f64 = None;
        for (done, &storage) in (before + 1..).zip(all) {
            if let Some(figures) = self.stored_so(name, &a, storage, in_f64)? {
                in_f64 = in_f64.or(Some(figures.seconds));
                self.figures.sparse.push(figures);
            }
            self.done(done);
        }
        Ok(())
    }

    fn stored_so(
        &mut self,
        matrix: &'static str,
        a: &Csr,
        (block_size, set, eps): Storage,
        in_f64: Option<f64>,
    ) -> Result<Option<SparseFigures>, Error> {
        let what = format!("sparse products, {matrix}, {set} {eps}");
        let vectors = 2 * size_of::<f64>() as u64 * a.rows() as u64;
        if !self.fits(&what, a.bytes() + vectors)? {
            return Ok(None);
        }
        let adaptation = match set {
            FormatSet::Fp64 => Adaptation::double(),
            _ => Adaptation::new(set, Criterion::Normwise, eps.parse()?),
        };
        let measured = self.multiplied(a, block_size, &adaptation);
        let Some((bytes, seconds, conditions)) = self.tried(&what, measured)? else { return Ok(None) };
        let bytes_per_second = (bytes + vectors) as f64 / seconds;
        Ok(Some(SparseFigures {
            matrix,
            rows: a.rows(),
            nonzeros: a.nonzeros(),
            block_size,
            set: set.name(),
            eps,
            bytes,
            seconds,
            bytes_per_second,
            of_copy: self.figures.within().map(|rate| bytes_per_second / rate),
            x_fp64: in_f64.map(|in_f64| in_f64 / seconds),
            conditions,
        }))
    }

    /// Returns the bytes of the matrix, and the seconds of a product after the runtime has learned
    /// how to replay it. Some replays in sequence are timed as one.
    fn multiplied(
        &self,
        a: &Csr,
        block_size: usize,
        adaptation: &Adaptation<'_>,
    ) -> Result<(u64, f64, Conditions), Error> {
        let gpu = Gpu::new(self.bench.driver.clone(), self.bench.number);
        let rt = on_gpus(&[gpu]).build()?;
        let _watched = (self.listeners.watch)(rt.canceller());
        let space = Space::new(a.rows(), a.bytes());
        let stored = Stored::new(&rt, &space, a, block_size, adaptation)?;
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let x: Vec<f64> = (0..a.rows()).map(|_| random.random_range(-1.0..1.0)).collect();
        let (x, y) = (MultiVector::from_column(&rt, &space, &x), MultiVector::zeros(&rt, &space, 1));
        let numbers = NumbersHandle::new(&rt, 1, 0);
        let graph = rt.record(|graph| {
            let steps = Steps::new(&rt, graph, &space, &numbers);
            (0..PRODUCTS).try_for_each(|_| stored.apply(&steps, &x, &y))
        })?;
        let replay = |times: usize| -> Result<f64, Error> {
            let begin = Instant::now();
            for _ in 0..times {
                rt.wait(&rt.replay(&Bindings::recorded(&graph))?)?;
            }
            Ok(begin.elapsed().as_secs_f64() / (times * PRODUCTS) as f64)
        };
        replay(BEFORE)?;
        let mut meter = self.bench.meter();
        let together = self.sizes.replays.max(1);
        let times = (0..self.sizes.repeats.max(1)).map(|_| meter.during(|| replay(together)));
        let seconds = median(times.collect::<Result<Vec<f64>, Error>>()?);
        Ok((stored.bytes(), seconds, meter.conditions()))
    }
}
