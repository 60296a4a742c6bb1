//! Rates of one GPU: products, copies, factorisations, sparse products, reconstructors. It knows
//! the GPU's driver and nothing of CUDA.

mod budget;
mod figures;
pub mod rates;
mod reconstructors;
mod run;
mod sparse;
mod summary;

use std::time::Duration;

use zellige_cuda::Gpu;
use zellige_dense::Rule;
use zellige_runtime::device::LaunchDepth;
use zellige_runtime::topology::Topology;

pub use figures::Figures;
pub use reconstructors::TorSize;
pub use run::{Listeners, measure};
pub use sparse::SparseSizes;

/// A part of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Products of tiles in each precision.
    Products,
    /// Copies to and from the GPU, and within it.
    Copies,
    /// Replays of a graph.
    Replays,
    /// Single routines over their order; launches and ends.
    Routines,
    /// Factorisations of whole matrices by the library.
    Cusolver,
    /// Factorisations in tiles.
    Cholesky,
    /// Factorisations in little memory.
    Memory,
    /// CPU workers together with the GPU.
    WithCpu,
    /// Several GPUs.
    Several,
    /// Sparse products.
    Sparse,
    /// Whole reconstructors.
    Tor,
}

impl Part {
    /// All parts, in the order in which they are measured.
    pub const ALL: [Part; 11] = [
        Part::Products,
        Part::Copies,
        Part::Replays,
        Part::Routines,
        Part::Cusolver,
        Part::Cholesky,
        Part::Memory,
        Part::WithCpu,
        Part::Several,
        Part::Sparse,
        Part::Tor,
    ];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Products => "products",
            Part::Copies => "copies",
            Part::Replays => "replays",
            Part::Routines => "routines",
            Part::Cusolver => "cusolver",
            Part::Cholesky => "cholesky",
            Part::Memory => "memory",
            Part::WithCpu => "with-cpu",
            Part::Several => "several",
            Part::Sparse => "sparse",
            Part::Tor => "tor",
        }
    }

    /// Returns the estimated share of the total time that the part takes on an H200.
    const fn share(self) -> f64 {
        match self {
            Part::Products => 0.1,
            Part::Copies | Part::Replays => 0.01,
            Part::Routines => 0.03,
            Part::Cusolver => 0.2,
            Part::Cholesky => 0.15,
            Part::Memory | Part::WithCpu | Part::Sparse => 0.08,
            Part::Several => 0.06,
            Part::Tor => 0.2,
        }
    }
}

/// Settings of the runtimes for a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// [`Gpu::streams`].
    pub streams: usize,
    /// [`Gpu::urgent_stream`].
    pub urgent: bool,
    /// [`Gpu::depth`]; `None`: as the GPU's memory suggests.
    pub depth: Option<LaunchDepth>,
    /// [`Gpu::spins`]; `None`: as this machine suggests.
    pub spins: Option<Duration>,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { streams: Gpu::STREAMS, urgent: false, depth: None, spins: None }
    }
}

impl Tuning {
    fn of(self, gpu: Gpu) -> Gpu {
        let gpu = gpu.streams(self.streams).urgent_stream(self.urgent);
        let gpu = self.depth.into_iter().fold(gpu, Gpu::depth);
        self.spins.into_iter().fold(gpu, Gpu::spins)
    }
}

/// Sizes of the measurements.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Parts that are measured.
    pub parts: Vec<Part>,
    /// Settings of the runtimes for the GPU.
    pub tuning: Tuning,
    /// Orders of single routines.
    pub routines: Vec<u32>,
    /// Orders of the factorisations.
    pub n: Vec<u32>,
    /// Tile size, a multiple of 16.
    pub tile: u32,
    /// Rules of the factorisations.
    pub rules: Vec<Rule>,
    /// The rule of the solves of reconstructors; `None`: that of the factorisation.
    pub solve_rule: Option<Rule>,
    /// Most products on one tile in one task.
    pub fuse_updates: u8,
    /// Triangular solves of factorisations by inverses of diagonal blocks, where these are
    /// well-conditioned.
    pub by_inverses: bool,
    /// Order of the factorisations in little memory.
    pub out_of_core: u32,
    /// CPU workers that help.
    pub workers: usize,
    /// Sparse matrices.
    pub sparse: SparseSizes,
    /// Reconstructors.
    pub tor: Vec<TorSize>,
    /// Their tile size; `None`: as the memory of the GPU suggests.
    pub tor_tile: Option<usize>,
    /// Runs of each, at most.
    pub repeats: u16,
    /// Time for all measurements.
    pub budget: Duration,
    /// Bytes of the tiles of products, more than caches hold.
    pub spread: u64,
    /// Replays of a graph that are timed together.
    pub replays: usize,
    /// Order of the library's large products, as long as memory holds it.
    pub peak: u32,
    /// Bytes of one copy.
    pub copy: usize,
    /// Least time of the products of one run.
    pub seconds: f64,
}

impl Sizes {
    /// Returns the default sizes, or smaller ones if `quick`.
    pub fn usual(quick: bool) -> Self {
        let sparse = if quick {
            SparseSizes { cells: [80, 80, 60], elements: [23; 3] }
        } else {
            SparseSizes { cells: [170, 170, 110], elements: [47; 3] }
        };
        Sizes {
            parts: Part::ALL.into(),
            tuning: Tuning::default(),
            routines: if quick { vec![1024, 2048] } else { vec![512, 1024, 2048, 4096, 8192] },
            n: if quick { vec![8192, 16_384] } else { vec![16_384, 32_768, 65_536, 100_352] },
            tile: 2048,
            rules: Vec::new(),
            solve_rule: None,
            fuse_updates: 1,
            by_inverses: true,
            out_of_core: if quick { 16_384 } else { 32_768 },
            workers: Topology::discover().cores.len(),
            sparse,
            tor: TorSize::all(if quick { &[41] } else { &[47, 67, 86] }),
            tor_tile: None,
            repeats: 3,
            budget: Duration::from_secs(300),
            spread: 512 << 20,
            replays: 20,
            peak: if quick { 4096 } else { 8192 },
            copy: 256 << 20,
            seconds: 0.2,
        }
    }
}

#[cfg(test)]
mod tests;
