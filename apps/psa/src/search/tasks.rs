//! Search task: a batch of events of one segment, on that segment's block.

use std::sync::Arc;

use zellige_cuda::CUDA;
use zellige_runtime::codelet::{DeviceTable, DeviceViews};
use zellige_runtime::{Codelet, Read, Slot, TaskContext, TaskError, TaskInfo, Write};

use super::block::Block;
use super::device;
use super::engine::{Engine, Map};
use super::found::Found;
use super::plan::{Method, Metrics, Plan};
use super::proof::Proof;
use crate::channels::Segment;

/// Task of a batch. Its operands are the block for the first stage, that for the last, the samples,
/// and the answers.
pub(super) struct SearchBatch {
    pub plan: Plan,
    pub metrics: Arc<Metrics>,
    pub map: Arc<Map>,
    pub proof: Option<Arc<Proof>>,
    pub coarse_only: Vec<bool>,
    pub segment: Segment,
    /// Numbers of events, points, and terms.
    pub size: [u32; 3],
}

impl Codelet for SearchBatch {
    type Operands = (Read<Block>, Read<Block>, Read<Vec<f64>>, Write<Vec<f64>>);

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
            Engine::new(&self.plan, &self.metrics, &self.map, [first, last], self.proof.as_deref());
        let found = engine.run(samples, &self.coarse_only);
        answers.put(found.into_iter().flat_map(Found::to_numbers).collect());
        Ok(())
    }

    /// Returns `false`: the task reads nothing that is known only when other tasks end.
    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        if device::has_kernels(&self.plan) {
            table.add(*CUDA, Self::cuda);
        }
    }
}

impl SearchBatch {
    fn cuda(&self, views: DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        device::search(&self.plan, views, cx)
    }
}
