//! What was measured, as JSON and as tables.

use std::collections::BTreeMap;

use serde::Serialize;
use zellige_gpu::GpuInfo;
use zellige_linalg::GemmPrecision;
use zellige_linalg::bench::gpu::{Conditions, LinkRates, ProductRate, TiledRun, WholeFactor, Work};

use super::Sizes;
use super::reconstructors::{self, TorFigures};
use crate::table::{Side, Table, bytes, digits};

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    gpu: GpuFigures,
    /// Those that are there, with their versions.
    libraries: BTreeMap<&'static str, String>,
    tile: u32,
    repeats: u16,
    pub(super) products: Vec<ProductFigures>,
    pub(super) copies: Option<CopyFigures>,
    pub(super) cholesky: Vec<SizeFigures>,
    pub(super) memory: Vec<MemoryFigures>,
    pub(super) together: Vec<TogetherFigures>,
    pub(super) tor: Vec<TorFigures>,
    /// What has no room here or cannot be had, a line each.
    pub(super) left_out: Vec<String>,
    /// What went wrong, a line each.
    pub(super) failed: Vec<String>,
}

#[derive(Debug, Serialize)]
struct GpuFigures {
    number: u32,
    name: String,
    uuid: String,
    memory: u64,
    compute_capability: String,
    multiprocessors: u32,
}

/// How the GPU did while something was measured; `null`: it does not tell.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct ConditionFigures {
    /// Median clock rate of the multiprocessors.
    sm_clock_mhz: Option<f64>,
    /// Mean power.
    power_w: Option<f64>,
    /// By the GPU's counter.
    energy_j: Option<f64>,
    /// For how long it was looked at.
    watched_seconds: f64,
}

impl From<Conditions> for ConditionFigures {
    fn from(Conditions { sm_clock_mhz, power_w, energy_j, seconds }: Conditions) -> Self {
        ConditionFigures { sm_clock_mhz, power_w, energy_j, watched_seconds: seconds }
    }
}

impl ConditionFigures {
    /// Clock rate and power in cells of a table.
    pub(super) fn cells(&self) -> [String; 2] {
        [self.sm_clock_mhz, self.power_w].map(|x| x.map_or_else(String::new, |x| format!("{x:.0}")))
    }
}

/// Columns of a table for [`ConditionFigures::cells`].
const CONDITIONS: [(&str, Side); 2] = [("MHz", Side::Right), ("W", Side::Right)];

/// Products of tiles, 2 tile^3 flop each.
#[derive(Debug, Serialize)]
pub(super) struct ProductFigures {
    precision: &'static str,
    products: usize,
    /// Of one.
    seconds: f64,
    tflops: f64,
    /// The library's product of the same operands, in the same runs.
    plain_tflops: f64,
    /// Their ratio, run by run.
    fraction: f64,
    #[serde(flatten)]
    conditions: ConditionFigures,
}

impl From<&ProductRate> for ProductFigures {
    fn from(rate: &ProductRate) -> Self {
        let &ProductRate { precision, products, seconds, tflops, plain_tflops, fraction, conditions } = rate;
        let (precision, conditions) = (precision.name(), conditions.into());
        ProductFigures { precision, products, seconds, tflops, plain_tflops, fraction, conditions }
    }
}

/// Bytes per second from and to page-locked memory.
#[derive(Debug, Serialize)]
pub(super) struct CopyFigures {
    bytes: usize,
    to_gpu: f64,
    to_host: f64,
    #[serde(flatten)]
    conditions: ConditionFigures,
}

impl From<LinkRates> for CopyFigures {
    fn from(LinkRates { bytes, to_gpu, to_host, conditions }: LinkRates) -> Self {
        CopyFigures { bytes, to_gpu, to_host, conditions: conditions.into() }
    }
}

/// Factorisations of one order, n^3 / 3 flop; `null`: left out or failed.
#[derive(Debug, Serialize)]
pub(super) struct SizeFigures {
    pub(super) n: u32,
    pub(super) cusolver_f32: Option<WholeFigures>,
    pub(super) cusolver_f64: Option<WholeFigures>,
    pub(super) tiled: Vec<TiledFigures>,
}

#[derive(Debug, Serialize)]
pub(super) struct WholeFigures {
    pub(super) seconds: f64,
    tflops: f64,
    #[serde(flatten)]
    conditions: ConditionFigures,
}

impl From<WholeFactor> for WholeFigures {
    fn from(WholeFactor { seconds, tflops, conditions }: WholeFactor) -> Self {
        WholeFigures { seconds, tflops, conditions: conditions.into() }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct TiledFigures {
    pub(super) rule: String,
    pub(super) seconds: f64,
    pub(super) tflops: f64,
    /// At the measured rates of plain products.
    pub(super) limit_seconds: Option<f64>,
    pub(super) fraction_of_limit: Option<f64>,
    /// How many times as fast as cuSOLVER in f32.
    pub(super) x_cusolver_f32: Option<f64>,
    pub(super) bytes_moved: u64,
    pub(super) evictions: u64,
    #[serde(flatten)]
    pub(super) conditions: ConditionFigures,
}

/// A factorisation in so much memory; the first row is the one whose bits the others must have.
#[derive(Debug, Serialize)]
pub(super) struct MemoryFigures {
    what: String,
    devices: usize,
    /// Bytes of each device's memory.
    memory_each: u64,
    seconds: f64,
    tflops: f64,
    bytes_moved: u64,
    evictions: u64,
    same_bits: bool,
    /// At the measured rates of plain products, and of copies for what has no room.
    limit_seconds: Option<f64>,
    fraction_of_limit: Option<f64>,
    #[serde(flatten)]
    conditions: ConditionFigures,
}

impl MemoryFigures {
    pub(super) fn new(
        what: String,
        devices: usize,
        memory_each: u64,
        same_bits: bool,
        run: &TiledRun,
        limit_seconds: Option<f64>,
    ) -> Self {
        let &TiledRun { seconds, tflops, bytes_moved, evictions, conditions, .. } = run;
        let conditions = conditions.map(Into::into).unwrap_or_default();
        MemoryFigures {
            what,
            devices,
            memory_each,
            seconds,
            tflops,
            bytes_moved,
            evictions,
            same_bits,
            limit_seconds,
            fraction_of_limit: limit_seconds.map(|limit| limit / seconds),
            conditions,
        }
    }
}

/// A factorisation by the GPU alone, and by it and CPU workers.
#[derive(Debug, Serialize)]
pub(super) struct TogetherFigures {
    n: u32,
    rule: &'static str,
    workers: usize,
    alone_seconds: f64,
    together_seconds: f64,
    /// The former by the latter.
    ratio: f64,
    #[serde(flatten)]
    conditions: ConditionFigures,
}

impl TogetherFigures {
    pub(super) fn new(
        n: u32,
        rule: &'static str,
        workers: usize,
        alone: &TiledRun,
        together: &TiledRun,
    ) -> Self {
        TogetherFigures {
            n,
            rule,
            workers,
            alone_seconds: alone.seconds,
            together_seconds: together.seconds,
            ratio: alone.seconds / together.seconds,
            conditions: together.conditions.map(Into::into).unwrap_or_default(),
        }
    }
}

impl Figures {
    /// Nothing is measured yet.
    pub(super) fn new(
        number: u32,
        info: &GpuInfo,
        libraries: Vec<(&'static str, String)>,
        sizes: &Sizes,
    ) -> Self {
        let (major, minor) = info.compute_capability;
        let gpu = GpuFigures {
            number,
            name: info.name.clone(),
            uuid: info.uuid.clone(),
            memory: info.memory,
            compute_capability: format!("{major}.{minor}"),
            multiprocessors: info.multiprocessors,
        };
        Figures {
            gpu,
            libraries: libraries.into_iter().collect(),
            tile: sizes.tile,
            repeats: sizes.repeats,
            products: Vec::new(),
            copies: None,
            cholesky: Vec::new(),
            memory: Vec::new(),
            together: Vec::new(),
            tor: Vec::new(),
            left_out: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// The least time of some work: each operation at the rate that the library's product of its precision reached, or ours where that is higher.
    pub(super) fn least_seconds(&self, work: &Work) -> Option<f64> {
        work.seconds(|precision| {
            let row = self.products.iter().find(|row| row.precision == precision.name())?;
            // Its plain product is one of three.
            let plain =
                if precision == GemmPrecision::X3 { row.plain_tflops / 3.0 } else { row.plain_tflops };
            Some(plain.max(row.tflops))
        })
    }

    /// The same, where so many bytes have to come from the host and as many to go there.
    pub(super) fn least_seconds_with_copies(&self, work: &Work, bytes: u64) -> Option<f64> {
        let copies = self.copies.as_ref()?;
        let link = bytes as f64 / copies.to_gpu.min(copies.to_host);
        Some(self.least_seconds(work)?.max(link))
    }

    /// Tables, and lines for what is not in them.
    pub(super) fn text(&self, colours: bool) -> String {
        let GpuFigures { number, name, .. } = &self.gpu;
        let mut text =
            format!("GPU {number}: {name}, tile {}, median of {}\n", self.tile, self.repeats.max(1));
        let tables = [
            self.product_table(),
            self.factor_table(),
            self.memory_table(),
            self.together_table(),
            self.tor_table(),
        ];
        for table in tables {
            text += &table.render(colours);
            text.push('\n');
        }
        if let Some(copies) = &self.copies {
            let [to_gpu, to_host] = [copies.to_gpu, copies.to_host].map(|rate| digits(rate / 1e9));
            text += &format!(
                "copies of {}: {to_gpu} GB/s to the GPU, {to_host} GB/s back\n",
                bytes(copies.bytes as u64)
            );
        }
        self.left_out.iter().for_each(|line| text += &format!("left out: {line}\n"));
        self.failed.iter().for_each(|line| text += &format!("FAILED: {line}\n"));
        text
    }

    fn product_table(&self) -> Table {
        let columns = [
            ("product", Side::Left),
            ("Tflop/s", Side::Right),
            ("plain", Side::Right),
            ("fraction", Side::Right),
        ];
        let mut table = with_conditions(&columns);
        for row in &self.products {
            let rates = [row.tflops, row.plain_tflops, row.fraction].map(digits);
            table.row([row.precision.to_string()].into_iter().chain(rates).chain(row.conditions.cells()));
        }
        table
    }

    fn factor_table(&self) -> Table {
        let columns = [
            ("n", Side::Right),
            ("Cholesky", Side::Left),
            ("s", Side::Right),
            ("Tflop/s", Side::Right),
            ("of limit", Side::Right),
            ("x cuSOLVER f32", Side::Right),
        ];
        let mut table = with_conditions(&columns);
        for size in &self.cholesky {
            let mut row =
                |what: &str, rates: [f64; 2], ratios: [Option<f64>; 2], conditions: &ConditionFigures| {
                    let ratios = ratios.map(|ratio| ratio.map_or_else(String::new, digits));
                    let cells =
                        [size.n.to_string(), what.into()].into_iter().chain(rates.map(digits)).chain(ratios);
                    table.row(cells.chain(conditions.cells()));
                };
            for (what, whole) in [("cuSOLVER f32", &size.cusolver_f32), ("cuSOLVER f64", &size.cusolver_f64)]
            {
                if let Some(whole) = whole {
                    row(what, [whole.seconds, whole.tflops], [None; 2], &whole.conditions);
                }
            }
            for tiled in &size.tiled {
                let ratios = [tiled.fraction_of_limit, tiled.x_cusolver_f32];
                row(&tiled.rule, [tiled.seconds, tiled.tflops], ratios, &tiled.conditions);
            }
        }
        table
    }

    fn memory_table(&self) -> Table {
        let columns = [
            ("memory", Side::Left),
            ("devices", Side::Right),
            ("of each", Side::Right),
            ("s", Side::Right),
            ("Tflop/s", Side::Right),
            ("of limit", Side::Right),
            ("moved", Side::Right),
            ("evictions", Side::Right),
        ];
        let mut table = with_conditions(&columns);
        for row in &self.memory {
            let cells = [
                row.what.clone(),
                row.devices.to_string(),
                bytes(row.memory_each),
                digits(row.seconds),
                digits(row.tflops),
                row.fraction_of_limit.map_or_else(String::new, digits),
                bytes(row.bytes_moved),
                row.evictions.to_string(),
            ];
            table.row(cells.into_iter().chain(row.conditions.cells()));
        }
        table
    }

    fn together_table(&self) -> Table {
        let columns = [
            ("n", Side::Right),
            ("CPU and GPU", Side::Left),
            ("CPU workers", Side::Right),
            ("GPU alone s", Side::Right),
            ("together s", Side::Right),
            ("ratio", Side::Right),
        ];
        let mut table = with_conditions(&columns);
        for row in &self.together {
            let names = [row.n.to_string(), row.rule.into(), row.workers.to_string()];
            let figures = [row.alone_seconds, row.together_seconds, row.ratio].map(digits);
            table.row(names.into_iter().chain(figures).chain(row.conditions.cells()));
        }
        table
    }

    fn tor_table(&self) -> Table {
        let mut table = with_conditions(&reconstructors::COLUMNS);
        self.tor.iter().for_each(|row| table.row(row.cells()));
        table
    }
}

/// A table whose last columns are clock rate and power.
fn with_conditions(columns: &[(&'static str, Side)]) -> Table {
    Table::new(&[columns, &CONDITIONS].concat())
}
