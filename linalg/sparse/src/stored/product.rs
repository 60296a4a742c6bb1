//! The task that multiplies the rows of a part.
//!
//! This is the only module of the crate with `unsafe`: a launch on a GPU names the memory of its
//! task's operands and nothing else.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use zellige_cuda::{CUDA, GpuTask};
use zellige_kernels::RealNumber;
use zellige_kernels::cuda::{
    Loaded, PARTS, PanelAt, SELL_SOURCES, SPARSE_SOURCES, VectorParts, gather, sell_product, source_with,
};
use zellige_kernels::sell::{Outline, PackedPanel, Panel, PanelIndex};
use zellige_krylov::Scalar;
use zellige_krylov::method::{TaskScope, are_done, dots, joined};
use zellige_runtime::codelet::{DeviceTable, OnDevice};
use zellige_runtime::data::{Chunk, Portability, Portable};
use zellige_runtime::{Codelet, Cpu, Data, Meta, Operands, Read, ReadList, TaskContext, TaskError, Update};

/// The rows of a part, as one value of opaque bytes that is never converted. When it is
/// transferred, the panel's index goes with it.
#[derive(Debug)]
pub(super) struct PanelRows {
    packed: PackedPanel,
    /// Made for the first journey.
    index: OnceLock<PanelIndex>,
}

impl From<Panel> for PanelRows {
    fn from(panel: Panel) -> PanelRows {
        PanelRows { packed: panel.into(), index: OnceLock::new() }
    }
}

impl PanelRows {
    fn index(&self) -> &PanelIndex {
        // Transferred rows have a transferred index.
        self.index.get_or_init(|| PanelIndex::of(self.packed.panel().expect("rows are made of a panel")))
    }
}

impl Data for PanelRows {
    type Ref<'v> = &'v PackedPanel;
    type Mut<'v> = &'v mut PackedPanel;

    fn view(&self) -> &PackedPanel {
        &self.packed
    }

    fn view_mut(&mut self) -> &mut PackedPanel {
        &mut self.packed
    }

    fn meta(&self) -> Meta {
        Meta { bytes: self.packed.bytes().len(), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

impl Portable for PanelRows {
    type Header = Outline;

    fn header(&self) -> Outline {
        self.index().outline()
    }

    fn blank(&outline: &Outline) -> Self {
        PanelRows { packed: PackedPanel::blank(outline.bytes()), index: PanelIndex::blank(outline).into() }
    }

    fn part_sizes(outline: &Outline) -> Vec<usize> {
        vec![outline.bytes(), size_of::<u32>() * outline.words()]
    }

    fn header_meta(outline: &Outline) -> Meta {
        Meta { bytes: outline.bytes(), ..Meta::default() }
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![self.packed.bytes(), bytemuck::cast_slice(self.index().words())]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        self.index();
        let words = self.index.get_mut().expect("it was made").words_mut();
        vec![self.packed.bytes_mut(), bytemuck::cast_slice_mut(words)]
    }
}

/// Computes `y = A x` for the rows of some parts and one or several columns; does nothing if all
/// columns are done.
pub(super) struct Product<E> {
    /// The first row of `x` that it is given.
    first: usize,
    columns: usize,
    /// Nanoseconds that CPU workers were busy with products.
    busy: Arc<AtomicU64>,
    scope: TaskScope,
    scalar: PhantomData<E>,
}

type ProductOperands = (Read<Vec<f64>>, ReadList<PanelRows>, ReadList<Chunk<f64>>, Vec<Update<Chunk<f64>>>);
type Views<'v, K> = <ProductOperands as Operands>::Views<'v, K>;

impl<E: Scalar> Codelet for Product<E> {
    type Operands = ProductOperands;

    fn name(&self) -> &'static str {
        "spmv"
    }

    fn cpu(&self, (s, rows, x, y): Views<'_, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        if are_done(s, self.columns) {
            return Ok(());
        }
        let x = joined(x);
        let mut each = rows.iter().zip(y);
        self.scope.run(|| each.try_for_each(|(rows, y)| self.multiply(rows.panel()?, &x, y)))
    }

    /// Reads neither norms nor anything else that is known at the ends of other tasks.
    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        if E::HAS_KERNELS {
            table.add(*CUDA, Self::cuda);
        }
    }
}

impl<E: Scalar> Product<E> {
    pub(super) fn new(first: usize, columns: usize, busy: &Arc<AtomicU64>) -> Self {
        let (busy, scope) = (Arc::clone(busy), TaskScope::new::<E>());
        Product { first, columns, busy, scope, scalar: PhantomData }
    }

    /// Number of real vectors that are multiplied.
    fn count(&self) -> usize {
        self.columns * E::WORDS
    }

    fn multiply(&self, panel: &Panel, x: &[f64], y: &mut [f64]) -> Result<(), TaskError> {
        let begin = Instant::now();
        E::multiply(panel, self.columns, self.first, E::of_words(x), E::of_words_mut(y))?;
        self.busy.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn cuda(&self, (s, rows, x, y): Views<'_, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let gpu = cx.gpu();
        let load = |sources| Loaded::shared(gpu.driver(), gpu.gpu(), sources);
        let mut panels = Vec::with_capacity(y.len());
        for (rows, y) in rows.iter().zip(&y) {
            let (outline, (y, y_bytes)) = (*rows.header(), y.part(0));
            if y_bytes < 8 * (self.count() * outline.rows()) as u64 {
                return Err("the result has fewer rows than the matrix".into());
            }
            panels.push(PanelAt { outline, bytes: rows.part(0).0, index: rows.part(1).0, y });
        }
        let mut at: Vec<_> = x.iter().map(|part| part.part(0)).collect();
        let x = VectorParts { first: self.first, at: &at };
        if !panels.iter().all(|panel| x.fit(self.count(), &panel.outline)) {
            let bytes = at.iter().map(|part| part.1).sum();
            let whole = (gpu.scratch(bytes)?.at, bytes);
            for launch in gather(whole, &at)? {
                let kernels = load(source_with(SPARSE_SOURCES, launch.kernel))?;
                // SAFETY: the launch names memory of the body's operands, which it reads, and its
                // workspace.
                unsafe { kernels.launch(&**gpu.driver(), gpu.stream(), &launch)? };
            }
            at = vec![whole];
        }
        let x = VectorParts { first: self.first, at: &at };
        // The kernel checks the numbers of one column: several are multiplied even if all are done.
        let numbers = (self.columns == 1).then_some(s.part(0).0);
        for panels in panels.chunks(PARTS) {
            let launch = sell_product(panels, self.count(), &x, numbers)?;
            let kernels = load(source_with(SELL_SOURCES, launch.kernel))?;
            // SAFETY: the launch names only memory of the body's operands and of its workspace. Of
            // the operands only those of `y` are written, and the body has exclusive access to
            // them; `sell_product` accesses no more of each than its length.
            unsafe { kernels.launch(&**gpu.driver(), gpu.stream(), &launch)? };
        }
        Ok(())
    }
}

/// Computes `y = A x`, and the sums of `conj(x) . y` of each reduction block and column. Runs on
/// CPUs only.
pub(super) struct ProductDot<E> {
    product: Product<E>,
    /// Offset of the rows of `y` among the rows of `x` that the task reads.
    own: usize,
    /// Sums of a reduction block and column, and the index of the one that is computed.
    sums: [usize; 2],
}

impl<E: Scalar> ProductDot<E> {
    pub(super) fn new(product: Product<E>, own: usize, sums: [usize; 2]) -> Self {
        ProductDot { product, own, sums }
    }
}

type DotViews<'v, E> = <<ProductDot<E> as Codelet>::Operands as Operands>::Views<'v, Cpu>;

impl<E: Scalar> Codelet for ProductDot<E> {
    type Operands =
        (Read<Vec<f64>>, Read<PanelRows>, ReadList<Chunk<f64>>, Update<Chunk<f64>>, Update<Vec<f64>>);

    fn name(&self) -> &'static str {
        "spmv"
    }

    fn cpu(
        &self,
        (s, rows, x, y, sums): DotViews<'_, E>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let (columns, count) = (self.product.columns, self.product.count());
        if are_done(s, columns) {
            return Ok(());
        }
        let x = joined(x);
        self.product.scope.run(|| {
            self.product.multiply(rows.panel()?, &x, y)?;
            let (own, [width, at]) = (&x[count * self.own..][..y.len()], self.sums);
            // No number of rows is an element of the product.
            E::Real::begin(u64::MAX);
            dots::<E>(E::of_words(own), E::of_words(y), columns, sums, width, at);
            Ok(())
        })
    }
}
