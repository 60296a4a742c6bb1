//! The task that multiplies slabs.
//!
//! This is the only module of this crate with `unsafe`: a launch on a GPU uses only the memory of
//! its task's operands.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::Range;

use zellige_cuda::{CUDA, GpuTask};
use zellige_kernels::cuda::{Loaded, SITE_SOURCES, SlabsAt, Staggered, dslash, has_dslash, source_with};
use zellige_kernels::sites::{Group, SiteFormat};
use zellige_krylov::method::are_done;
use zellige_runtime::codelet::{DeviceTable, OnDevice};
use zellige_runtime::data::Chunk;
use zellige_runtime::{Buffer, Codelet, Cpu, Operands, Read, ReadList, TaskContext, TaskError, Update};

use super::Hopping;
use super::slab::{Buffers, Slab, Stored};
use crate::geometry::{Parity, T};
use crate::precision::Compute;

/// The product `y = factor D x + diagonal z` on some slabs.
pub(super) struct Product {
    pub slab: Slab,
    pub slabs: Range<usize>,
    /// Formats of `x`, of `z`, and of `y`.
    pub formats: [SiteFormat; 3],
    pub compute: Compute,
}

/// Returns whether GPUs have kernels for hopping terms with links in this storage.
pub(super) fn has_kernels(hopping: Hopping, groups: &[Group]) -> bool {
    hopping == Hopping::Staggered && has_dslash(groups)
}

thread_local! {
    /// Working space of a worker, allocated once.
    static SINGLE: RefCell<Buffers<f32>> = const { RefCell::new(Buffers::new()) };
    static DOUBLE: RefCell<Buffers<f64>> = const { RefCell::new(Buffers::new()) };
}

type Views<'v, K> = <<Product as Codelet>::Operands as Operands>::Views<'v, K>;

impl Codelet for Product {
    /// The operands are the method's numbers, the links, the needed slabs of `x`, the optional `z`,
    /// and `y`.
    type Operands = (
        Read<Vec<f64>>,
        ReadList<Buffer<f64>>,
        ReadList<Chunk<f64>>,
        ReadList<Chunk<f64>>,
        Vec<Update<Chunk<f64>>>,
    );

    fn name(&self) -> &'static str {
        "dslash"
    }

    fn cpu(
        &self,
        (numbers, links, from, own, y): Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        if are_done(numbers, self.slab.columns) {
            return Ok(());
        }
        let [of_x, of_own, of_y] = self.formats;
        let from = Stored { format: of_x, parts: from.iter().map(|part| part.slice()).collect() };
        let mut own = own.iter().map(|own| Stored { format: of_own, parts: vec![own.slice()] });
        let each = self.slabs.clone().zip(links.iter()).zip(y);
        for ((i, links), y) in each {
            let slices = self.slab.geometry.slabs().nth(i).unwrap_or_default();
            let (own, y) = (own.next(), (of_y, y));
            match self.compute {
                Compute::Single => {
                    SINGLE.with_borrow_mut(|b| self.slab.multiply(slices, links, &from, own.as_ref(), y, b))
                }
                Compute::Double => {
                    DOUBLE.with_borrow_mut(|b| self.slab.multiply(slices, links, &from, own.as_ref(), y, b))
                }
            }
        }
        Ok(())
    }

    /// The task needs neither norms nor other results of completed tasks.
    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        let has_formats = self.formats.iter().all(|format| format.has_kernels());
        if has_formats && has_kernels(self.slab.hopping, &self.slab.groups) {
            table.add(*CUDA, Self::cuda);
        }
    }
}

impl Product {
    fn cuda(
        &self,
        (numbers, links, from, own, y): Views<'_, OnDevice>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let gpu = cx.gpu();
        let Slab { geometry, columns, factor, diagonal, .. } = self.slab;
        let (nt, slab) = (geometry.extents()[T], geometry.slab());
        let task = Staggered {
            extents: geometry.extents(),
            slab,
            slices: self.slabs.start * slab..nt.min(self.slabs.end * slab),
            odd: self.slab.to == Parity::Odd,
            groups: &self.slab.groups,
            double: self.compute == Compute::Double,
            columns,
            factor,
            diagonal,
        };
        let [of_x, of_own, of_y] = self.formats;
        let x: Vec<_> = from.iter().map(|part| part.part(0)).collect();
        let links: Vec<_> = links.iter().map(|part| part.part(0)).collect();
        let own: Vec<_> = own.iter().map(|part| part.part(0)).collect();
        let y: Vec<_> = y.iter().map(|part| part.part(0)).collect();
        let z = (!own.is_empty()).then_some(SlabsAt { format: of_own, at: &own });
        let x = (&self.slab.needed[..], SlabsAt { format: of_x, at: &x });
        // The kernel reads the numbers of one column only. Several columns are multiplied even if
        // all are done.
        let done = (columns == 1).then_some(numbers.part(0).0);
        for launch in dslash(&task, x, &links, z, SlabsAt { format: of_y, at: &y }, done)? {
            let source = source_with(SITE_SOURCES, launch.kernel);
            let kernels = Loaded::shared(gpu.driver(), gpu.gpu(), source)?;
            // SAFETY: all memory of the launch belongs to the operands of the body. Only those of
            // `y` are written, and the body has exclusive access to them. `dslash` uses no more
            // than the size of each operand.
            unsafe { kernels.launch(&**gpu.driver(), gpu.stream(), &launch)? };
        }
        Ok(())
    }
}
