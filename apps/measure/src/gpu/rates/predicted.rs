//! Predictions in virtual time of a tiled factorisation that has run, on a platform made of
//! measurements.

use zellige_dense::{
    Error, GemmCounts, GemmQuery, PolicyError, PrecisionPolicy, SharedPolicy, Submission, SymmetricTiled,
    TileGrid, When, cholesky_with,
};
use zellige_kernels::GemmPrecision;
use zellige_kernels::precision::PanelPrecision;
use zellige_runtime::{Graph, Recorder};
use zellige_sim::Simulation;
use zellige_sim::platform::Platform;

use super::tiled::{POLICY, TiledBench, TiledRun};

/// Rate of the links to memory that already holds all data (GB/s).
const AT_ONCE: f64 = 1e9;

/// The products of a run: for each tile the number in each precision. The order in which a rule on
/// norms chose them is not kept. Here those in native precision come last, for operands near the
/// diagonal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    tiles: usize,
    panel: PanelPrecision,
    /// Products of tile `(i, j)` at `i tiles + j`.
    products: Vec<Vec<(GemmPrecision, u32)>>,
}

impl Chosen {
    /// Returns the counted products, with diagonal updates and solves in `panel`.
    pub(super) fn of(counts: &GemmCounts, panel: PanelPrecision) -> Self {
        let (tiles, cols) = counts.shape();
        let of_tile = |at: usize| {
            let count = |precision| (precision, counts.at(at / cols, at % cols, precision));
            GemmPrecision::ALL.into_iter().rev().map(count).filter(|(_, count)| *count > 0).collect()
        };
        Chosen { tiles, panel, products: (0..tiles * cols).map(of_tile).collect() }
    }
}

impl PrecisionPolicy for Chosen {
    fn choose(&self, query: &GemmQuery) -> Result<GemmPrecision, PolicyError> {
        let products =
            self.products.get(query.i * self.tiles + query.j).map(Vec::as_slice).unwrap_or_default();
        let mut before = 0;
        let found = products.iter().find(|(_, count)| {
            before += *count as usize;
            query.k < before
        });
        // Who did not run has no time either: any precision will do.
        Ok(found.map_or(GemmPrecision::Sp, |(precision, _)| *precision))
    }

    fn when(&self) -> When {
        When::AtSubmission
    }

    fn panel(&self) -> PanelPrecision {
        self.panel
    }
}

impl TiledBench {
    /// Predicts the time of the factorisation of `run` in virtual time (seconds), with the same
    /// number of products in each precision. If nothing had to leave the GPUs, the matrix is there
    /// at the beginning, as in the run.
    ///
    /// # Errors
    /// [`Error::Runtime`] for tasks without models in the platform.
    pub fn predicted(&self, run: &TiledRun, platform: &Platform) -> Result<f64, Error> {
        let mut platform = platform.clone();
        if run.evictions == 0 {
            let host = platform.nodes[0].name.clone();
            for link in platform.links.iter_mut().filter(|link| link.between.contains(&host)) {
                (link.gb_s, link.latency_us) = (AT_ONCE, 0.0);
            }
        }
        let policy: SharedPolicy = std::sync::Arc::new(run.chosen.clone());
        let submission = Submission::default().fuse_updates(self.fuse_updates);
        let graph = Graph::record(|g: &Recorder| {
            let a = SymmetricTiled::<f32>::planned(g, TileGrid::uniform(self.n, self.tile)?);
            cholesky_with(g, &a, &policy, &submission).map(drop)
        })?;
        Ok(Simulation::new(&graph, &platform).policy(POLICY).run()?.makespan.as_secs_f64())
    }
}
