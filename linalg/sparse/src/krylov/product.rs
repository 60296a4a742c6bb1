//! The task that multiplies the rows of a stretch.
//!
//! The one place of this crate with `unsafe`: a launch on a GPU names the memory of its task's operands and nothing else.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use zellige_cuda::{CUDA, GpuTask};
use zellige_kernels::cuda::{Loaded, PanelAt, SPARSE_SOURCES, STRETCHES, Stretches, sell_product};
use zellige_kernels::sell::{Guide, Outline, Panel, Parcel};
use zellige_runtime::codelet::{DeviceTable, OnDevice};
use zellige_runtime::data::{Chunk, Portability, Portable};
use zellige_runtime::{
    Codelet, Cpu, Data, Meta, Operands, Read, ReadList, Scratch, TaskContext, TaskError, Update,
};

use super::grains::dots;
use super::scalars::Scalars;
use super::steps::JointSums;
use super::together::unweave;
use crate::space::{MOST, joined};

const _: () = assert!(MOST <= STRETCHES, "a vector's stretches are arguments of the kernel");

/// The rows of a stretch, as one value: opaque bytes that nobody converts. Where it travels, the panel's guide goes with it.
#[derive(Debug)]
pub(super) struct Rows {
    parcel: Parcel,
    /// Made for the first journey.
    guide: OnceLock<Guide>,
}

impl From<Panel> for Rows {
    fn from(panel: Panel) -> Rows {
        Rows { parcel: panel.into(), guide: OnceLock::new() }
    }
}

impl Rows {
    fn guide(&self) -> &Guide {
        // Rows that have arrived have a guide that has arrived with them.
        self.guide.get_or_init(|| Guide::of(self.parcel.panel().expect("rows are made of a panel")))
    }
}

impl Data for Rows {
    type Ref<'v> = &'v Parcel;
    type Mut<'v> = &'v mut Parcel;

    fn view(&self) -> &Parcel {
        &self.parcel
    }

    fn view_mut(&mut self) -> &mut Parcel {
        &mut self.parcel
    }

    fn meta(&self) -> Meta {
        Meta { bytes: self.parcel.bytes().len(), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

impl Portable for Rows {
    type Header = Outline;

    fn header(&self) -> Outline {
        self.guide().outline()
    }

    fn blank(&outline: &Outline) -> Self {
        Rows { parcel: Parcel::blank(outline.bytes()), guide: Guide::blank(outline).into() }
    }

    fn part_sizes(outline: &Outline) -> Vec<usize> {
        vec![outline.bytes(), size_of::<u32>() * outline.words()]
    }

    fn header_meta(outline: &Outline) -> Meta {
        Meta { bytes: outline.bytes(), ..Meta::default() }
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![self.parcel.bytes(), bytemuck::cast_slice(self.guide().words())]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        self.guide();
        let words = self.guide.get_mut().expect("it was made").words_mut();
        vec![self.parcel.bytes_mut(), bytemuck::cast_slice_mut(words)]
    }
}

/// `y = A x` for the rows of a stretch; nothing where the solver is done.
pub(super) struct Product {
    /// The first element of `x` that it is given.
    pub(super) first: usize,
    /// Nanoseconds that CPU workers were busy with products.
    pub(super) busy: Arc<AtomicU64>,
}

type Views<'v, K> = <<Product as Codelet>::Operands as Operands>::Views<'v, K>;

impl Codelet for Product {
    type Operands = (Read<Vec<f64>>, Read<Rows>, ReadList<Chunk<f64>>, Update<Chunk<f64>>);

    fn name(&self) -> &'static str {
        "spmv"
    }

    fn cpu(&self, (s, rows, x, y): Views<'_, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        if Scalars::new(s).is_done() {
            return Ok(());
        }
        let begin = Instant::now();
        rows.panel()?.multiply_part(1, self.first, &joined(x), y)?;
        self.busy.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Reads neither norms nor anything else that is known at the ends of other tasks.
    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Product {
    fn cuda(&self, (s, rows, x, y): Views<'_, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let gpu = cx.gpu();
        let kernels = Loaded::shared(gpu.driver(), gpu.gpu(), SPARSE_SOURCES)?;
        let outline = *rows.header();
        let panel = PanelAt { outline, bytes: rows.part(0).0, guide: rows.part(1).0 };
        let at: Vec<_> = x.iter().map(|stretch| stretch.part(0)).collect();
        let x = Stretches { first: self.first, at: &at };
        let (y_at, y_bytes) = y.part(0);
        if y_bytes < 8 * outline.rows() as u64 {
            return Err("the result has fewer rows than the matrix".into());
        }
        let launch = sell_product(&panel, 1, &x, y_at, Some(s.part(0).0))?;
        // SAFETY: all memory that the launch names is that of the body's operands, of which `y` is written and its alone; `sell_product` names
        // no more of each than it has.
        unsafe { kernels.launch(&**gpu.driver(), gpu.stream(), &launch)? };
        Ok(())
    }
}

/// `q_k = A p_k` for the rows of a stretch and several vectors, each for a solver of its own, and the sums `p_k . q_k` of each grain; nothing for solvers
/// that are done. On CPUs only.
pub(super) struct JointProduct {
    /// The first element of `x` that it is given.
    pub(super) first: usize,
    /// Vectors: 2, 4 or 8.
    pub(super) count: usize,
    /// Nanoseconds that CPU workers were busy with products.
    pub(super) busy: Arc<AtomicU64>,
}

type JointViews<'v> = <<JointProduct as Codelet>::Operands as Operands>::Views<'v, Cpu>;

impl Codelet for JointProduct {
    /// The solvers' numbers, the rows, `p` with the numbers of a row beside each other, `p` and `q` vector after vector, sums, working space.
    type Operands = (
        ReadList<Vec<f64>>,
        Read<Rows>,
        ReadList<Chunk<f64>>,
        Read<Chunk<f64>>,
        Update<Chunk<f64>>,
        Update<Vec<f64>>,
        Scratch<f64>,
    );

    fn name(&self) -> &'static str {
        "spmv.together"
    }

    fn cpu(
        &self,
        (s, rows, woven, p, q, sums, work): JointViews<'_>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        if s.iter().all(|s| Scalars::new(s).is_done()) {
            return Ok(());
        }
        let begin = Instant::now();
        rows.panel()?.multiply_part(self.count, self.first, &joined(woven), work)?;
        let is_wanted = |k: usize| !Scalars::new(s.get(k)).is_done();
        unweave(work, q, self.count, is_wanted);
        let (rows, grains) = (q.len() / self.count, sums.len() / self.count);
        let columns = q.chunks_exact(rows).zip(p.chunks_exact(rows)).zip(sums.chunks_exact_mut(grains));
        for (_, ((q, p), sums)) in columns.enumerate().filter(|(k, _)| is_wanted(*k)) {
            dots(p, q, sums, JointSums::WIDTH, 0);
        }
        self.busy.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }
}
