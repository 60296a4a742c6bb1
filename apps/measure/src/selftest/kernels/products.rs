//! Conversions, products and symmetric updates.

use zellige_dense::format::format_of;
use zellige_dense::{Error, TileScalar, tasks};
use zellige_kernels::precision::PanelPrecision;
use zellige_kernels::{GemmPrecision, Op, StorageFormat};
use zellige_runtime::data::Portable;
use zellige_runtime::{Runtime, Submit, update};

use super::dense::Dense;
use super::random::Tiles;
use super::roundoffs::{Product as Sizes, Roundoffs};
use super::{Extent, KernelCheck, Pair};
use crate::selftest::probe::Probe;

/// Does nothing with a tile, in any requested format.
const TOUCH: Probe = Probe { name: "touch", on_host: |_| Ok(()), on_gpu: |_| Ok(()) };

/// Converts to a narrow format and back: the bits are the CPU's.
pub(super) fn convert(
    rt: &Runtime,
    to: StorageFormat,
    random: &mut Tiles,
    tiles: usize,
    largest: usize,
) -> Result<KernelCheck, Error> {
    let mut check = KernelCheck::new("convert", to.name());
    for _ in 0..tiles {
        let (rows, cols) = (random.length(largest), random.length(largest));
        let tile = random.matrix(rows, cols).tile::<f32>()?;
        let narrow = tile.to_storage(to).ok_or(Error::Format { got: StorageFormat::F32, want: to })?;
        let wide = narrow.to_storage(StorageFormat::F32);
        let handle = rt.register(tile);
        // From here on only the device has it: otherwise the host would convert it before the
        // transfer.
        rt.submit(TOUCH, (update(&handle).as_format(format_of(StorageFormat::F32)),))?;
        let mut differ = 0.0;
        for (format, want) in [(to, Some(&narrow)), (StorageFormat::F32, wide.as_ref())] {
            rt.submit(TOUCH, (update(&handle).as_format(format_of(format)),))?;
            let there = rt.read(&handle)?;
            let same = want.is_some_and(|want| want.parts() == there.parts());
            differ += if same { 0.0 } else { f64::INFINITY };
        }
        check.add(0.0, differ);
    }
    Ok(check)
}

/// `C -= A op(B)`.
pub(super) fn gemm<T: TileScalar>(
    rt: Pair<'_>,
    precision: GemmPrecision,
    random: &mut Tiles,
    &Extent { tiles, largest, .. }: &Extent,
) -> Result<KernelCheck, Error> {
    let roundoffs = Roundoffs::of(precision);
    let mut check = KernelCheck::new("gemm", precision.name());
    for _ in 0..tiles {
        let (m, n, k) = (random.length(largest), random.length(largest), random.length(largest));
        let op_b = if random.below(3) == 0 { Op::None } else { Op::Trans };
        let (rows, cols) = if op_b == Op::Trans { (n, k) } else { (k, n) };
        let (a, b) = (random.matrix(m, k).rounded::<T>(), random.matrix(rows, cols).rounded::<T>());
        let size = a.abs().times(&b.abs(), op_b);
        // Often much smaller than the product that is subtracted: then the scale of a narrow C has
        // to be raised.
        let unit = size.largest() * 2f64.powi(-(random.below(30) as i32));
        let c = Dense::from_fn(m, n, |_, _| random.number() * unit).rounded::<T>();
        let [there, here] = rt.run::<T>(&[&a, &b, &c], |rt, tiles| {
            tasks::gemm(rt, precision, op_b, (&tiles[0], &tiles[1]), &tiles[2], (m, n, k))
        })?;
        let exact = c.minus(&a.times(&b, op_b));
        let sizes = Sizes { a: &a, b: &b, c: &c, size: &size, inner: k };
        let apart = there.values.minus(&here.values).part_of(&roundoffs.apart(&sizes));
        check.add(there.values.minus(&exact).part_of(&roundoffs.error(&sizes)), apart);
    }
    Ok(check)
}

/// `A -= L L^T` in the lower triangle.
pub(super) fn syrk<T: TileScalar>(
    rt: Pair<'_>,
    panel: PanelPrecision,
    random: &mut Tiles,
    tiles: usize,
    largest: usize,
) -> Result<KernelCheck, Error> {
    let precision = panel.gemm(T::FULL);
    let roundoffs = Roundoffs::of(precision);
    let mut check = KernelCheck::new("syrk", precision.name());
    for _ in 0..tiles {
        let (n, k) = (random.length(largest), random.length(largest));
        let l = random.matrix(n, k).rounded::<T>();
        let size = l.abs().times(&l.abs(), Op::Trans);
        let a = Dense::from_fn(n, n, |_, _| random.number() * size.largest()).rounded::<T>();
        let outcomes =
            rt.run::<T>(&[&l, &a], |rt, tiles| tasks::syrk(rt, panel, &tiles[0], &tiles[1], (n, k)))?;
        let [there, here] = outcomes.map(|outcome| outcome.values.lower());
        let exact = a.minus(&l.times(&l, Op::Trans)).lower();
        let sizes = Sizes { a: &l, b: &l, c: &a, size: &size, inner: k };
        let apart = there.minus(&here).part_of(&roundoffs.apart(&sizes));
        check.add(there.minus(&exact).part_of(&roundoffs.error(&sizes)), apart);
    }
    Ok(check)
}
