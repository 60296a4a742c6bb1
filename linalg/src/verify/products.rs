//! Conversions, products and symmetric updates.

use std::marker::PhantomData;
use std::sync::Arc;

use zellige_kernels::precision::{PanelPrecision, scratch_len, syrk_scratch_len};
use zellige_kernels::{GemmPrecision, Op, StorageFormat};
use zellige_runtime::{Portable, Runtime, Submit, read, scratch, update};

use super::dense::Dense;
use super::probe::Probe;
use super::random::Random;
use super::roundoffs::{Product as Sizes, Roundoffs};
use super::{Extent, KernelCheck};
use crate::error::Error;
use crate::factor::codelets::{Syrk, subtract_square};
use crate::factor::product::{Place, Product, multiply};
use crate::factor::{GemmCounts, native_update};
use crate::format::format_of;
use crate::policy::{GemmQuery, Phase};
use crate::scalar::TileScalar;
use crate::tile::Tile;

/// Does nothing with a tile in whatever format it was asked for.
const TOUCH: Probe = Probe { name: "touch", on_host: |_| Ok(()), on_gpu: |_| Ok(()) };

/// To a narrow format and back: the CPU's bits.
pub(super) fn convert(
    rt: &Runtime,
    to: StorageFormat,
    random: &mut Random,
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
        // The device's alone from here on: otherwise the host would convert it on its way there.
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
    rt: &Runtime,
    precision: GemmPrecision,
    random: &mut Random,
    &Extent { tiles, largest, .. }: &Extent,
) -> Result<KernelCheck, Error> {
    let (operand, result) = (precision.operand_format(), precision.output_format());
    let roundoffs = Roundoffs::of(precision);
    let mut check = KernelCheck::new("gemm", precision.name());
    for _ in 0..tiles {
        let (m, n, k) = (random.length(largest), random.length(largest), random.length(largest));
        let op_b = if random.below(3) == 0 { Op::None } else { Op::Trans };
        let (rows, cols) = if op_b == Op::Trans { (n, k) } else { (k, n) };
        let (a, b) = (random.matrix(m, k).rounded::<T>(), random.matrix(rows, cols).rounded::<T>());
        let size = a.abs().times(&b.abs(), op_b);
        // Often much smaller than what is subtracted: then the scale of a narrow C has to be raised.
        let unit = size.largest() * 2f64.powi(-(random.below(30) as i32));
        let c = Dense::from_fn(m, n, |_, _| random.number() * unit).rounded::<T>();
        let place = || place((m, n, k), op_b);
        let mut by_cpu = stored(&c.tile::<T>()?, result)?;
        let mut space = vec![0.0; scratch_len(precision, m, n, k)];
        let (on_cpu_a, on_cpu_b) = (stored(&a.tile::<T>()?, operand)?, stored(&b.tile::<T>()?, operand)?);
        multiply(precision, &place(), &on_cpu_a, &on_cpu_b, &mut by_cpu, &mut space)?;
        let handles = [rt.register(a.tile::<T>()?), rt.register(b.tile::<T>()?), rt.register(c.tile::<T>()?)];
        let operands = (
            read(&handles[0]).as_format(format_of(operand)),
            read(&handles[1]).as_format(format_of(operand)),
            update(&handles[2]).as_format(format_of(result)),
            scratch(space.len()).on_host(),
        );
        rt.submit(Product::<T> { place: place(), precision, _element: PhantomData }, operands)?;
        let there = Dense::of(&*rt.read(&handles[2])?)?;
        let exact = c.minus(&a.times(&b, op_b));
        let sizes = Sizes { a: &a, b: &b, c: &c, size: &size, inner: k };
        let apart = there.minus(&Dense::of(&by_cpu)?).part_of(&roundoffs.apart(&sizes));
        check.add(there.minus(&exact).part_of(&roundoffs.error(&sizes)), apart);
    }
    Ok(check)
}

fn stored<T: TileScalar>(tile: &Tile<T>, to: StorageFormat) -> Result<Tile<T>, Error> {
    tile.to_storage(to).ok_or(Error::Format { got: tile.storage(), want: to })
}

fn place(shape: (usize, usize, usize), op_b: Op) -> Place {
    let query = GemmQuery::unmeasured(Phase::Factor, [0; 3], 1);
    Place { query, op_b, shape, counts: Arc::new(GemmCounts::new(1, 1)) }
}

/// `A -= L L^T` in the lower triangle.
pub(super) fn syrk<T: TileScalar>(
    rt: &Runtime,
    panel: PanelPrecision,
    random: &mut Random,
    tiles: usize,
    largest: usize,
) -> Result<KernelCheck, Error> {
    let precision = panel.gemm(T::FULL);
    let (operand, roundoffs) = (precision.operand_format(), Roundoffs::of(precision));
    let mut check = KernelCheck::new("syrk", precision.name());
    for _ in 0..tiles {
        let (n, k) = (random.length(largest), random.length(largest));
        let l = random.matrix(n, k).rounded::<T>();
        let size = l.abs().times(&l.abs(), Op::Trans);
        let a = Dense::from_fn(n, n, |_, _| random.number() * size.largest()).rounded::<T>();
        let mut by_cpu = a.tile::<T>()?;
        let mut space = vec![0.0; syrk_scratch_len(panel, n, k)];
        subtract_square(panel, &stored(&l.tile::<T>()?, operand)?, &mut by_cpu, &mut space)?;
        let (l_there, a_there) = (rt.register(l.tile::<T>()?), rt.register(a.tile::<T>()?));
        let syrk = Syrk::<T>::new(panel, 0, 0, (n, k));
        let space = syrk.scratch();
        let l_there = read(&l_there).as_format(format_of(operand));
        rt.submit(syrk, (l_there, native_update(&a_there), space))?;
        let there = Dense::of(&*rt.read(&a_there)?)?.lower();
        let exact = a.minus(&l.times(&l, Op::Trans)).lower();
        let sizes = Sizes { a: &l, b: &l, c: &a, size: &size, inner: k };
        let apart = there.minus(&Dense::of(&by_cpu)?.lower()).part_of(&roundoffs.apart(&sizes));
        check.add(there.minus(&exact).part_of(&roundoffs.error(&sizes)), apart);
    }
    Ok(check)
}
