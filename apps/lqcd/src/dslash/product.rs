//! The task that multiplies some slabs.
//!
//! The one place of this crate with `unsafe`: a launch on a GPU names the memory of its task's
//! operands and nothing else.
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

use super::slab::{Buffers, Slab, Stored};
use crate::geometry::{Parity, T};
use crate::precision::Compute;

/// `y = factor D x + diagonal z` on some slabs.
pub(super) struct Product {
    pub slab: Slab,
    pub slabs: Range<usize>,
    /// Of `x`, of `z`, and of `y`.
    pub formats: [SiteFormat; 3],
    pub compute: Compute,
}

/// Whether GPUs can multiply links that are stored so.
pub(super) fn has_kernels(groups: &[Group]) -> bool {
    has_dslash(groups)
}

thread_local! {
    /// Working space of a worker, which is made once.
    static SINGLE: RefCell<Buffers<f32>> = const { RefCell::new(Buffers::new()) };
    static DOUBLE: RefCell<Buffers<f64>> = const { RefCell::new(Buffers::new()) };
}

type Views<'v, K> = <<Product as Codelet>::Operands as Operands>::Views<'v, K>;

impl Codelet for Product {
    /// The method's numbers, links, `x` as far as it is needed, `z`, if there is one, and `y`.
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

    /// Reads neither norms nor anything else that is known at the ends of other tasks.
    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        if has_kernels(&self.slab.groups) {
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
        // The kernel looks at the numbers of one column: several are multiplied even where all are
        // done.
        let done = (columns == 1).then_some(numbers.part(0).0);
        for launch in dslash(&task, x, &links, z, SlabsAt { format: of_y, at: &y }, done)? {
            let source = source_with(SITE_SOURCES, launch.kernel);
            let kernels = Loaded::shared(gpu.driver(), gpu.gpu(), source)?;
            // SAFETY: all memory that the launch names is that of the body's operands, of which
            // those of `y` are written and its alone; `dslash` names no more of each than it has.
            unsafe { kernels.launch(&**gpu.driver(), gpu.stream(), &launch)? };
        }
        Ok(())
    }
}
