//! Search of a batch of events on a GPU. Launches on one stream compute sums, select the points
//! that a screen keeps, compare these again, and write the answers.
//!
//! This is the only module of this crate with `unsafe`: a launch uses the memory of its task's
//! operands and working space, and no other memory.
#![allow(unsafe_code)]

use std::sync::Arc;

use zellige_cuda::{GpuContext, GpuTask};
use zellige_gpu::{Address, Gemm, Library, LibraryState};
use zellige_kernels::cuda::{
    Compared, DISTANCE_SOURCES, Launch, Loaded, PointsAt, Stored, distance_again, distance_answers,
    distance_best, distance_events, distance_matrix, distance_nearest, distance_products, distance_sums,
};
use zellige_kernels::distance::Metric;
use zellige_runtime::codelet::{DeviceRef, OnDevice};
use zellige_runtime::{Operands, Read, TaskContext, TaskError, Write};

use crate::search::matching::{Flags, Method, NEAR, NUMBERS, Plan, Stage};
use crate::search::segment::{Block, BlockHeader, SampleFormat, THOUSAND};

/// Operands of a batch: the block for the first stage, that for the last, the samples, and the
/// answers.
pub(super) type SearchOperands = (Read<Block>, Read<Block>, Read<Vec<f64>>, Write<Vec<f64>>);

/// Views of the operands of a batch on the device.
pub(super) type Views<'v> = <SearchOperands as Operands>::Views<'v, OnDevice>;

/// Submits the search of a batch to the task's stream; the answers are identical, to the bit, to
/// those of the CPU.
pub(super) fn search(
    plan: &Plan,
    (first, last, samples, answers): Views<'_>,
    cx: &mut TaskContext<'_>,
) -> Result<(), TaskError> {
    let gpu = cx.gpu();
    let work = StreamWork { gpu, kernels: Loaded::shared(gpu.driver(), gpu.gpu(), DISTANCE_SOURCES)? };
    let first = DeviceStage::new(plan, Stage::First, first)?;
    let (from, bytes): (Address, u64) = samples.part(0);
    let count = (bytes / 8) as usize / first.points.shape.terms();
    let stride = first.points.stride();
    let events = work.events(&first, from, count)?;
    let sums = work.room(4 * count * stride)?;
    let keep = match plan.method {
        Method::Screen { keep, .. } => Some(keep.min(first.points.points)),
        _ => None,
    };
    match keep {
        Some(keep) if plan.is_product(Stage::First) && work.multiplies() => {
            work.products(&first, events, (count, keep), sums)?;
        }
        _ => work.launch_some(distance_sums(&first.metric, &first.points, events, count, sums)?)?,
    }
    let compared = match keep {
        Some(keep) => {
            let last = DeviceStage::new(plan, Stage::Last, last)?;
            let (kept, again) = (work.room(4 * count * keep)?, work.room(4 * count * keep)?);
            work.launch(&distance_best(&first.points, sums, count, keep, kept)?)?;
            let events = work.events(&last, from, count)?;
            let of = (count, keep);
            work.launch_some(distance_again(&last.metric, &last.points, events, of, kept, again)?)?;
            Compared { sums: again, stride: keep, count: keep, kept: Some(kept), ..last.compared() }
        }
        None => Compared { sums, stride, count: first.points.points, ..first.compared() },
    };
    let answers = answers.put(NUMBERS * count, &gpu)?;
    let positions = (first.positions, first.points.points);
    work.launch(&distance_answers(&compared, positions, count, answers.part(0).0)?)?;
    Ok(())
}

/// Data of a stage.
struct DeviceStage {
    points: PointsAt,
    positions: Address,
    metric: Metric,
    /// Factor that converts a sum to a figure of merit.
    unit: f64,
    scale: f32,
}

impl DeviceStage {
    fn new(plan: &Plan, stage: Stage, block: DeviceRef<'_, Block>) -> Result<Self, TaskError> {
        let header: &BlockHeader = block.header();
        let stored = match header.format() {
            SampleFormat::F32 => Stored::F32,
            SampleFormat::I16 => Stored::I16,
            SampleFormat::F16 => Stored::F16,
            SampleFormat::Bf16 => Stored::Bf16,
        };
        let (shape, points) = (header.shape(), header.points());
        let (positions, bytes) = block.part(1);
        if bytes < 12 * points as u64 {
            return Err("the block has fewer positions than points".into());
        }
        let points = PointsAt { at: block.part(0), stored, shape, points };
        let metric = plan.metric(stage, header.scale());
        let unit = plan.unit(&metric, header.scale());
        Ok(DeviceStage { points, positions, metric, unit, scale: header.scale() })
    }

    /// Returns the parameters of the comparison without sums.
    fn compared(&self) -> Compared {
        let tie = Flags::TIE.number();
        Compared { sums: Address(0), stride: 0, count: 0, kept: None, unit: self.unit, near: NEAR, tie }
    }
}

/// Stream and working space of a task.
struct StreamWork<'c> {
    gpu: GpuContext<'c>,
    kernels: Arc<Loaded>,
}

impl StreamWork<'_> {
    fn room(&self, bytes: usize) -> Result<Address, TaskError> {
        Ok(self.gpu.scratch(bytes as u64)?.at)
    }

    fn launch(&self, launch: &Launch) -> Result<(), TaskError> {
        // SAFETY: all memory that the launch uses belongs to operands of the body or is working
        // space of the sizes that the launch's description states. Among the operands only the
        // answers are written, and they belong to the body alone.
        unsafe { self.kernels.launch(&**self.gpu.driver(), self.gpu.stream(), launch)? };
        Ok(())
    }

    fn launch_some(&self, launch: Option<Launch>) -> Result<(), TaskError> {
        self.launch(&launch.ok_or("there is no kernel for the figure of merit")?)
    }

    /// Returns whether the library for matrix products is available. Without it sums are direct,
    /// and the points that are kept are the same.
    fn multiplies(&self) -> bool {
        matches!(self.gpu.driver().library(Library::Cublas), LibraryState::There(_))
    }

    /// Computes sums of squares by a matrix product; the best `keep` of each event get direct sums.
    fn products(
        &self,
        stage: &DeviceStage,
        events: Address,
        (count, keep): (usize, usize),
        sums: Address,
    ) -> Result<(), TaskError> {
        let (points, stride) = (&stage.points, stage.points.stride());
        let (matrix, squares) = (self.room(4 * stride * points.shape.terms())?, self.room(4 * stride)?);
        self.launch(&distance_matrix(points, matrix, squares)?)?;
        self.multiply(&distance_products(points, matrix, events, count, sums)?)?;
        self.launch(&distance_nearest(points, events, (count, keep), squares, sums)?)
    }

    fn multiply(&self, gemm: &Gemm) -> Result<(), TaskError> {
        // SAFETY: all three matrices are working space of this body, of the sizes that the
        // description states.
        unsafe { self.gpu.driver().gemm(self.gpu.stream(), gemm)? };
        Ok(())
    }

    /// Converts the samples of `count` events to the unit of a stage.
    fn events(&self, stage: &DeviceStage, samples: Address, count: usize) -> Result<Address, TaskError> {
        let len = count * stage.points.shape.terms();
        let events = self.room(4 * len)?;
        self.launch(&distance_events(samples, f64::from(stage.scale) / THOUSAND, len, events))?;
        Ok(events)
    }
}
