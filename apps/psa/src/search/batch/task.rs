//! Search task: a batch of events of one segment, on that segment's block.

use std::sync::Arc;

use zellige_cuda::CUDA;
use zellige_runtime::codelet::{DeviceTable, DeviceViews};
use zellige_runtime::{Codelet, Slot, TaskContext, TaskError, TaskInfo};

use super::device;
use crate::channels::Segment;
use crate::search::matching::{Engine, Match, Method, Metrics, Plan};
use crate::search::proof::Proof;
use crate::search::segment::{Block, PointGrid};

/// Task of a batch.
pub(super) struct SearchBatch {
    pub plan: Plan,
    pub metrics: Arc<Metrics>,
    pub grid: Arc<PointGrid>,
    pub proof: Option<Arc<Proof>>,
    pub coarse_only: Vec<bool>,
    pub segment: Segment,
    /// Numbers of events, points, and terms.
    pub size: [u32; 3],
}

impl Codelet for SearchBatch {
    type Operands = device::SearchOperands;

    fn name(&self) -> &'static str {
        "search"
    }

    /// Describes the task. Three operations are counted for each sample of each point: a
    /// difference, its power and a sum.
    fn info(&self) -> TaskInfo {
        let label = match self.plan.method {
            Method::Full => "full",
            Method::CoarseFine { .. } => "coarse-fine",
            Method::Screen { .. } => "screen",
            Method::Exact { .. } => "exact",
        };
        TaskInfo {
            flops: 3.0 * self.size.iter().map(|&side| f64::from(side)).product::<f64>(),
            coords: Some([self.segment.index() as u32, 0, 0]),
            label,
            shape: self.size,
            ..TaskInfo::default()
        }
    }

    fn cpu(
        &self,
        (first, last, samples, mut answers): (&Block, &Block, &[f64], Slot<'_, Vec<f64>>),
        _: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let mut engine =
            Engine::new(&self.plan, &self.metrics, &self.grid, [first, last], self.proof.as_deref());
        let matches = engine.run(samples, &self.coarse_only);
        answers.put(matches.into_iter().flat_map(Match::to_numbers).collect());
        Ok(())
    }

    /// Returns `false`: the task reads nothing that is known only when other tasks end.
    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        if self.plan.runs_on_gpus() {
            table.add(*CUDA, Self::cuda);
        }
    }
}

impl SearchBatch {
    fn cuda(&self, views: DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        device::search(&self.plan, views, cx)
    }
}
