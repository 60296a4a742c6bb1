//! Source of the narrow forms of finished tiles for products: replicas, or a second copy of each
//! tile with tasks that make it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use zellige_kernels::{GemmPrecision, StorageFormat};
use zellige_runtime::{
    Codelet, Cpu, Format, Handle, Meta, Operands, Read, Submit, Subnormals, TaskContext, TaskError, TaskInfo,
    Write, read, write,
};

use super::codelets::info;
use crate::SUBNORMALS;
use crate::error::Error;
use crate::format::format_of;
use crate::policy::{SharedPolicy, When};
use crate::scalar::TileScalar;
use crate::tile::Tile;

/// Matrix that a product's operand is a tile of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// The factor.
    Factor,
    /// The solution of a solve.
    Solution,
}

/// A finished tile that products read.
pub(crate) struct Source<'a, T: TileScalar> {
    pub(crate) tile: &'a Handle<Tile<T>>,
    pub(crate) side: Side,
    pub(crate) at: (usize, usize),
    pub(crate) shape: (usize, usize),
}

/// The second copy of a tile.
struct Second<T: TileScalar> {
    handle: Handle<Tile<T>>,
    /// True if the copy is up to date once its last conversion has run.
    current: bool,
}

/// Second copies by matrix, tile row, tile column and format.
type Made<T> = HashMap<(Side, usize, usize, Format), Second<T>>;

/// Source of the narrow forms of finished tiles for products. Results are bitwise identical in both
/// cases.
///
/// Replicas belong to the tile: the runtime makes them where they are needed, and evicts them when
/// memory is short. With [`both`](Copies::both), as in Doucet et al., each tile that a product
/// reads in a narrow form has a second handle, written by a task `convert` as soon as the tile is
/// finished. It is a separate value that has to be kept, moved and written back. This mode exists
/// for comparison. Unlike theirs, tiles that no product reads in a narrow form are not converted,
/// and a solve reads the factor's second copies instead of converting its tiles again.
pub struct Copies<T: TileScalar>(Option<RefCell<Made<T>>>);

impl<T: TileScalar> Copies<T> {
    /// Replicas of one handle.
    pub fn replicas() -> Self {
        Copies(None)
    }

    /// Uses a second handle for each tile and narrow form. Pass the same `Copies` to the
    /// factorisation and to the solves with its factor.
    ///
    /// It supports precisions whose products leave their result in the element type (`fp32`, `hp1`,
    /// `bf1`, `x3`, `tf32`, `fp8`), from policies that decide at submission.
    pub fn both() -> Self {
        Copies(Some(RefCell::default()))
    }

    /// Refuses a policy whose decisions are unknown when conversions are submitted.
    pub(crate) fn check_policy(&self, policy: &SharedPolicy) -> Result<(), Error> {
        match (&self.0, policy.when()) {
            (Some(_), When::OperandsReady) => Err(Error::Copies {
                what: format!("rule {}", policy.describe()),
                why: "it decides when operands are finished, and conversion tasks are submitted before",
            }),
            _ => Ok(()),
        }
    }

    /// Marks the copies of a tile as outdated, after a task that writes the tile has been
    /// submitted.
    pub(crate) fn outdated(&self, side: Side, at: (usize, usize)) {
        if let Some(made) = &self.0 {
            let mut made = made.borrow_mut();
            for storage in StorageFormat::ALL {
                if let Some(second) = made.get_mut(&(side, at.0, at.1, format_of(storage))) {
                    second.current = false;
                }
            }
        }
    }

    /// Returns the handle from which a product in `precision` reads the tile.
    pub(crate) fn operand<S: Submit>(
        &self,
        s: &S,
        source: &Source<'_, T>,
        precision: GemmPrecision,
        priority: i32,
    ) -> Result<Handle<Tile<T>>, Error> {
        let storage = precision.operand_format();
        let Some(made) = self.0.as_ref().filter(|_| storage != T::FORMAT) else {
            return Ok(source.tile.clone());
        };
        if precision.output_format() != T::FORMAT {
            return Err(Error::Copies {
                what: format!("precision {precision}"),
                why: "its result is in 16 bits too, and would have to be converted to and fro around each product",
            });
        }
        let (rows, cols) = source.shape;
        let mut made = made.borrow_mut();
        let second = made
            .entry((source.side, source.at.0, source.at.1, format_of(storage)))
            .or_insert_with(|| second(s, source, storage));
        if !second.current {
            let codelet = Convert::<T> {
                at: [source.at.0, source.at.1, source.at.1],
                shape: [rows, cols, 0],
                to: storage,
                _element: std::marker::PhantomData,
            };
            let operands = (read(source.tile).as_format(format_of(T::FORMAT)), write(&second.handle));
            s.codelet(codelet, operands).priority(priority).submit()?;
            second.current = true;
        }
        Ok(second.handle.clone())
    }
}

fn second<T: TileScalar, S: Submit>(s: &S, source: &Source<'_, T>, storage: StorageFormat) -> Second<T> {
    let (rows, cols) = source.shape;
    let meta = Meta { format: format_of(storage), bytes: rows * cols * storage.bytes(), ..Meta::default() };
    let name = match source.side {
        Side::Factor => "H",
        Side::Solution => "Hb",
    };
    // A planned handle has a known size even if it never gets a value.
    let handle = s.register_planned(meta).named(format!("{name}[{},{}]", source.at.0, source.at.1));
    Second { handle, current: false }
}

impl<T: TileScalar> fmt::Debug for Copies<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Copies::replicas"),
            Some(made) => write!(f, "Copies::both({} made)", made.borrow().len()),
        }
    }
}

/// Writes the second copy of a tile.
struct Convert<T> {
    at: [usize; 3],
    shape: [usize; 3],
    to: StorageFormat,
    _element: std::marker::PhantomData<fn() -> T>,
}

impl<T: TileScalar> Codelet for Convert<T> {
    type Operands = (Read<Tile<T>>, Write<Tile<T>>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "convert"
    }

    fn info(&self) -> TaskInfo {
        info(0.0, self.shape, self.at, self.to.name())
    }

    fn cpu(
        &self,
        (tile, mut second): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let converted = tile.to_storage(self.to);
        second.put(converted.ok_or(Error::Format { got: T::FORMAT, want: self.to })?);
        Ok(())
    }
}
