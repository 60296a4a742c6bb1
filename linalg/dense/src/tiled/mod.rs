//! Matrices of tiles: one handle per tile, filled by tasks.

mod rect;
mod symmetric;

use std::ops::Range;
use std::sync::Arc;

use zellige_cuda::CUDA;
use zellige_kernels::MatRef;
use zellige_runtime::codelet::{DeviceTable, DeviceViews, MetaList, Outcome};
use zellige_runtime::{
    Codelet, Cpu, Data, Handle, Meta, Operands, Session, Slot, Submit, TaskContext, TaskError, TaskInfo,
    Write, metas, read, write,
};

pub use rect::RectTiled;
pub use symmetric::SymmetricTiled;

use crate::error::Error;
use crate::format::format_of;
use crate::gpu::{GenerateAnywhere, GpuGenerator};
use crate::scalar::TileScalar;
use crate::tile::{MatrixNorm, Tile, root_sum_squares};

/// Function that fills a block of a matrix. Its arguments are the rows, the columns, the slice for
/// its entries (column-major), and the leading dimension.
///
/// Every closure `Fn(Range<usize>, Range<usize>, &mut [T], usize)` that returns nothing or a
/// `Result` becomes one through [`generator`].
pub type Generator<T> =
    Arc<dyn Fn(Range<usize>, Range<usize>, &mut [T], usize) -> Result<(), TaskError> + Send + Sync>;

/// Creates a [`Generator`] from a closure that returns nothing or a `Result` with any error.
pub fn generator<T, F, R>(fill: F) -> Generator<T>
where
    T: TileScalar,
    R: Outcome,
    F: Fn(Range<usize>, Range<usize>, &mut [T], usize) -> R + Send + Sync + 'static,
{
    Arc::new(move |rows, cols, out, ld| fill(rows, cols, out, ld).into_result())
}

/// Creates a [`Generator`] that copies from a dense column-major matrix with leading dimension
/// `ld`.
///
/// # Errors
/// The generator fails for blocks outside of the matrix.
pub fn from_dense<T: TileScalar>(values: Vec<T>, ld: usize) -> Generator<T> {
    Arc::new(move |rows: Range<usize>, cols: Range<usize>, out: &mut [T], out_ld| {
        let source = MatRef::new(&values, rows.end.min(ld), cols.end, ld)?;
        if source.rows() < rows.end {
            return Err(format!("row {} of a matrix of {ld} rows", rows.end - 1).into());
        }
        for (j, column) in cols.enumerate() {
            out[j * out_ld..][..rows.len()].copy_from_slice(&source.col(column)[rows.clone()]);
        }
        Ok(())
    })
}

/// Returns the metadata of a native tile of this shape before it exists.
fn native_meta<T: TileScalar>(rows: usize, cols: usize) -> Meta {
    Meta { format: format_of(T::FORMAT), bytes: rows * cols * T::FORMAT.bytes(), ..Meta::default() }
}

/// Returns a handle for the norm of a matrix that does not exist, in a simulation.
fn planned_norm<S: Submit>(s: &S) -> Handle<MatrixNorm> {
    s.register_planned(MatrixNorm(f64::NAN).meta()).named("norm")
}

/// Generates one tile and its norm.
pub(crate) struct Generate<T: TileScalar> {
    pub(crate) fill: Generator<T>,
    pub(crate) rows: Range<usize>,
    pub(crate) cols: Range<usize>,
    /// Tile row and column.
    pub(crate) at: (usize, usize),
    /// A tile on the diagonal of a symmetric matrix: its lower triangle is mirrored.
    pub(crate) symmetric: bool,
}

impl<T: TileScalar> Codelet for Generate<T> {
    type Operands = (Write<Tile<T>>,);

    fn name(&self) -> &'static str {
        "generate"
    }

    fn info(&self) -> TaskInfo {
        let narrow = |x: usize| u32::try_from(x).unwrap_or(u32::MAX);
        TaskInfo {
            coords: Some([narrow(self.at.0), narrow(self.at.1), u32::MAX]),
            label: T::FULL.name(),
            shape: [narrow(self.rows.len()), narrow(self.cols.len()), 0],
            ..TaskInfo::default()
        }
    }

    fn cpu(&self, (mut slot,): (Slot<'_, Tile<T>>,), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let shape = (self.rows.len(), self.cols.len());
        let fresh = |tile: &Tile<T>| tile.storage() == T::FORMAT && tile.shape() == shape;
        if !slot.old().is_some_and(|tile| fresh(tile)) {
            slot.put(Tile::zeros(shape.0, shape.1));
        }
        let tile = slot.old().ok_or("a tile that was put is there")?;
        let out = tile.as_mut_slice()?;
        (self.fill)(self.rows.clone(), self.cols.clone(), out, shape.0)?;
        if self.symmetric {
            mirror(out, shape.0);
        }
        tile.measure()?;
        Ok(())
    }
}

/// Submits the generation of one tile, also for GPUs if there is a generator for them.
fn submit_generation<T: TileScalar, S: Submit>(
    s: &S,
    on_host: Generate<T>,
    tile: &Handle<Tile<T>>,
    gpu: Option<&GpuGenerator>,
    priority: i32,
) -> Result<(), Error> {
    let Some(GpuGenerator { model, source, describe }) = gpu else {
        s.codelet(on_host, (write(tile),)).priority(priority).submit()?;
        return Ok(());
    };
    let codelet = GenerateAnywhere { on_host, source, describe: Arc::clone(describe) };
    s.codelet(codelet, (read(model), write(tile))).priority(priority).submit()?;
    Ok(())
}

/// Copies the strict lower triangle to the upper one.
pub(crate) fn mirror<T: Copy>(values: &mut [T], n: usize) {
    for j in 0..n {
        for i in j + 1..n {
            values[j + i * n] = values[i + j * n];
        }
    }
}

/// The norm of a matrix from the norms of its tiles, added in their order.
struct Norm<T: TileScalar> {
    /// Weight of each tile: 2 for one that also stands for its mirror image.
    weights: Vec<f64>,
    _tiles: std::marker::PhantomData<fn() -> T>,
}

impl<T: TileScalar> Norm<T> {
    fn of(&self, tiles: &[Meta]) -> f64 {
        root_sum_squares(tiles.iter().zip(&self.weights).map(|(tile, w)| tile.norm * w.sqrt()))
    }
}

impl<T: TileScalar> Codelet for Norm<T> {
    type Operands = (MetaList<Tile<T>>, Write<MatrixNorm>);

    fn name(&self) -> &'static str {
        "norm"
    }

    fn cpu(
        &self,
        (tiles, mut norm): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        norm.put(MatrixNorm(self.of(tiles)));
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl<T: TileScalar> Norm<T> {
    fn cuda(&self, (tiles, norm): DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        norm.put(self.of(tiles), cx.device())?;
        Ok(())
    }
}

/// Submits the reduction of the tiles' norms; tiles without entries count nothing.
pub(crate) fn submit_norm<T: TileScalar, S: Submit>(
    s: &S,
    tiles: &[Handle<Tile<T>>],
    weights: Vec<f64>,
    priority: i32,
) -> Result<Handle<MatrixNorm>, Error> {
    let norm = s.register_empty().named("norm");
    let codelet = Norm { weights, _tiles: std::marker::PhantomData };
    s.codelet(codelet, (metas(tiles), write(&norm))).priority(priority).submit()?;
    Ok(norm)
}

/// Returns the bytes of this rank's tiles in their current storage formats, without replicas.
pub(crate) fn total_bytes<T: TileScalar, S: Session>(
    rt: &S,
    tiles: &[Handle<Tile<T>>],
) -> Result<usize, Error> {
    let mut sum = 0;
    for tile in tiles {
        if rt.owner_of(tile)? == Some(rt.rank()) {
            sum += rt.runtime().read(tile)?.meta().bytes;
        }
    }
    Ok(sum)
}
