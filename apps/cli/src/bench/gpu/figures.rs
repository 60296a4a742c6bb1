//! What was measured, as JSON and as tables.

use std::collections::BTreeMap;

use serde::Serialize;
use zellige_gpu::GpuInfo;
use zellige_linalg::bench::gpu::{LinkRates, ProductRate, TiledRun, WholeFactor};

use super::Sizes;
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
}

impl From<&ProductRate> for ProductFigures {
    fn from(rate: &ProductRate) -> Self {
        let &ProductRate { precision, products, seconds, tflops, plain_tflops, fraction } = rate;
        ProductFigures { precision: precision.name(), products, seconds, tflops, plain_tflops, fraction }
    }
}

/// Bytes per second from and to page-locked memory.
#[derive(Debug, Serialize)]
pub(super) struct CopyFigures {
    bytes: usize,
    to_gpu: f64,
    to_host: f64,
}

impl From<LinkRates> for CopyFigures {
    fn from(LinkRates { bytes, to_gpu, to_host }: LinkRates) -> Self {
        CopyFigures { bytes, to_gpu, to_host }
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
}

impl From<WholeFactor> for WholeFigures {
    fn from(WholeFactor { seconds, tflops }: WholeFactor) -> Self {
        WholeFigures { seconds, tflops }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct TiledFigures {
    pub(super) rule: String,
    pub(super) seconds: f64,
    pub(super) tflops: f64,
    /// How many times as fast as cuSOLVER in f32.
    pub(super) x_cusolver_f32: Option<f64>,
    pub(super) bytes_moved: u64,
    pub(super) evictions: u64,
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
}

impl MemoryFigures {
    pub(super) fn new(
        what: String,
        devices: usize,
        memory_each: u64,
        same_bits: bool,
        run: &TiledRun,
    ) -> Self {
        let &TiledRun { seconds, tflops, bytes_moved, evictions, .. } = run;
        MemoryFigures { what, devices, memory_each, seconds, tflops, bytes_moved, evictions, same_bits }
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
            left_out: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Tables, and lines for what is not in them.
    pub(super) fn text(&self, colours: bool) -> String {
        let GpuFigures { number, name, .. } = &self.gpu;
        let mut text =
            format!("GPU {number}: {name}, tile {}, median of {}\n", self.tile, self.repeats.max(1));
        for table in [self.product_table(), self.factor_table(), self.memory_table()] {
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
        let mut table = Table::new(&[
            ("product", Side::Left),
            ("Tflop/s", Side::Right),
            ("plain", Side::Right),
            ("fraction", Side::Right),
        ]);
        for row in &self.products {
            let rates = [row.tflops, row.plain_tflops, row.fraction].map(digits);
            table.row([row.precision.to_string()].into_iter().chain(rates));
        }
        table
    }

    fn factor_table(&self) -> Table {
        let mut table = Table::new(&[
            ("n", Side::Right),
            ("Cholesky", Side::Left),
            ("s", Side::Right),
            ("Tflop/s", Side::Right),
            ("x cuSOLVER f32", Side::Right),
        ]);
        for size in &self.cholesky {
            let mut row = |what: &str, seconds, tflops, ratio: Option<f64>| {
                let ratio = ratio.map_or(String::new(), digits);
                table.row([size.n.to_string(), what.into(), digits(seconds), digits(tflops), ratio]);
            };
            for (what, whole) in [("cuSOLVER f32", &size.cusolver_f32), ("cuSOLVER f64", &size.cusolver_f64)]
            {
                if let Some(whole) = whole {
                    row(what, whole.seconds, whole.tflops, None);
                }
            }
            for tiled in &size.tiled {
                row(&tiled.rule, tiled.seconds, tiled.tflops, tiled.x_cusolver_f32);
            }
        }
        table
    }

    fn memory_table(&self) -> Table {
        let mut table = Table::new(&[
            ("memory", Side::Left),
            ("devices", Side::Right),
            ("of each", Side::Right),
            ("s", Side::Right),
            ("Tflop/s", Side::Right),
            ("moved", Side::Right),
            ("evictions", Side::Right),
        ]);
        for row in &self.memory {
            table.row([
                row.what.clone(),
                row.devices.to_string(),
                bytes(row.memory_each),
                digits(row.seconds),
                digits(row.tflops),
                bytes(row.bytes_moved),
                row.evictions.to_string(),
            ]);
        }
        table
    }
}
