//! The two common orders of slopes.

use crate::geometry::Block;
use crate::{Error, Matrix};

/// Order of the slopes of one sensor.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum SlopeOrder {
    /// All x slopes, then all y slopes (this crate, MOAO, COMPASS).
    #[default]
    Xxyy,
    /// The x and y slope of each sub-aperture in turn (some real-time computers).
    Xyxy,
}

impl SlopeOrder {
    /// Returns the value of the FITS keyword `SLOPEORD`.
    pub fn name(self) -> &'static str {
        match self {
            SlopeOrder::Xxyy => "xxyy",
            SlopeOrder::Xyxy => "xyxy",
        }
    }

    /// Returns the order with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [SlopeOrder::Xxyy, SlopeOrder::Xyxy].into_iter().find(|o| o.name() == name)
    }
}

/// Returns the permutation from order xxyy to xyxy: slope `k` moves to `places[k]`.
fn places(blocks: &[Block]) -> Vec<usize> {
    let mut out = Vec::new();
    for pair in blocks.chunks(2) {
        let start = pair[0].start;
        for (axis, block) in pair.iter().enumerate() {
            out.extend((0..block.len).map(|i| start + 2 * i + axis));
        }
    }
    out
}

/// Returns the matrix with its columns (one per slope of `blocks`) converted from one order to
/// another.
///
/// # Errors
/// The number of columns differs from that of the blocks.
pub fn reorder_columns(
    matrix: &Matrix,
    blocks: &[Block],
    from: SlopeOrder,
    to: SlopeOrder,
) -> Result<Matrix, Error> {
    if from == to {
        return Ok(matrix.clone());
    }
    let place = places(blocks);
    if place.len() != matrix.cols() {
        return Err(Error::shape(
            "slope order",
            format!("{} columns, {} slopes", matrix.cols(), place.len()),
        ));
    }
    let mut out = Matrix::zeros(matrix.rows(), matrix.cols());
    for (grouped, &interleaved) in place.iter().enumerate() {
        let (source, target) =
            if to == SlopeOrder::Xyxy { (grouped, interleaved) } else { (interleaved, grouped) };
        out.col_mut(target).copy_from_slice(matrix.col(source));
    }
    Ok(out)
}

/// Returns the matrix with its rows (one per slope of `blocks`) converted from one order to
/// another.
///
/// # Errors
/// The number of rows differs from that of the blocks.
pub fn reorder_rows(
    matrix: &Matrix,
    blocks: &[Block],
    from: SlopeOrder,
    to: SlopeOrder,
) -> Result<Matrix, Error> {
    Ok(reorder_columns(&matrix.transposed(), blocks, from, to)?.transposed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Axis;

    #[test]
    fn there_and_back() {
        let block = |wfs, axis, start, len| Block { wfs, axis, start, len };
        let blocks = [
            block(0, Axis::X, 0, 2),
            block(0, Axis::Y, 2, 2),
            block(1, Axis::X, 4, 3),
            block(1, Axis::Y, 7, 3),
        ];
        let a = Matrix::from_fn(2, 10, |i, j| (10 * i + j) as f64);
        let b = reorder_columns(&a, &blocks, SlopeOrder::Xxyy, SlopeOrder::Xyxy).unwrap();
        let row: Vec<f64> = (0..10).map(|j| b[(0, j)]).collect();
        assert_eq!(row, [0.0, 2.0, 1.0, 3.0, 4.0, 7.0, 5.0, 8.0, 6.0, 9.0]);
        assert_eq!(reorder_columns(&b, &blocks, SlopeOrder::Xyxy, SlopeOrder::Xxyy).unwrap(), a);
        let t = reorder_rows(&a.transposed(), &blocks, SlopeOrder::Xxyy, SlopeOrder::Xyxy).unwrap();
        assert_eq!(t.transposed(), b);
        assert!(reorder_rows(&a, &blocks, SlopeOrder::Xxyy, SlopeOrder::Xyxy).is_err());
    }
}
