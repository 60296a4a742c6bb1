//! Matrices in device memory with their extent, the operands of operations.

use std::ops::Deref;

use zellige_gpu::{Address, Compute, Element, Factors, GpuError, Matrix, Transpose};

/// A matrix in device memory with its shape. It is within the memory that it was created from, an
/// operand's or workspace, and so are its blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct View {
    matrix: Matrix,
    shape: (u32, u32),
}

/// Descriptions of launches use the matrix alone.
impl Deref for View {
    type Target = Matrix;

    fn deref(&self) -> &Matrix {
        &self.matrix
    }
}

impl View {
    /// Creates a matrix of this shape at the beginning of `memory`, which has an address and a
    /// length in bytes.
    ///
    /// # Errors
    /// If it is not within `memory`, or its columns overlap.
    pub(super) fn new(
        memory: (Address, u64),
        shape: (u32, u32),
        ld: u32,
        element: Element,
    ) -> Result<Self, GpuError> {
        let view = View { matrix: Matrix { at: memory.0, ld, element }, shape };
        if ld < shape.0 || view.bytes() > memory.1 {
            let (rows, cols) = shape;
            return Err(refused(
                "describing a matrix",
                format!(
                    "{rows} x {cols} of {element:?} with a leading dimension of {ld} do not lie within {} bytes",
                    memory.1
                ),
            ));
        }
        Ok(view)
    }

    /// Rows and columns.
    pub(super) fn shape(&self) -> (u32, u32) {
        self.shape
    }

    /// Returns the bytes from the first entry to the last one.
    pub(super) fn bytes(&self) -> u64 {
        match self.shape {
            (0, _) | (_, 0) => 0,
            (rows, cols) => {
                (u64::from(cols - 1) * u64::from(self.ld) + u64::from(rows)) * self.element.bytes()
            }
        }
    }

    /// Returns the block of `rows` rows and `cols` columns from row `i` and column `j` on.
    ///
    /// # Panics
    /// If it is not within the matrix.
    pub(super) fn block(&self, (i, j): (u32, u32), (rows, cols): (u32, u32)) -> View {
        let is_within =
            |from: u32, count: u32, all: u32| from.checked_add(count).is_some_and(|end| end <= all);
        assert!(
            is_within(i, rows, self.shape.0) && is_within(j, cols, self.shape.1),
            "a block of {rows} x {cols} from ({i}, {j}) on is not within a matrix of {:?}",
            self.shape
        );
        let entries = u64::from(j) * u64::from(self.ld) + u64::from(i);
        let matrix = Matrix { at: self.at.offset(entries * self.element.bytes()), ..self.matrix };
        View { matrix, shape: (rows, cols) }
    }

    /// Returns the diagonal of a square matrix, as a row.
    pub(super) fn diagonal(&self) -> View {
        let n = self.shape.0.min(self.shape.1);
        View { matrix: Matrix { ld: self.ld + 1, ..self.matrix }, shape: (n.min(1), n) }
    }
}

/// `C = alpha op(A) op(B) + beta C`.
#[derive(Clone, Copy, Debug)]
pub(super) struct GemmArgs {
    pub(super) op_a: Transpose,
    pub(super) op_b: Transpose,
    pub(super) factors: Factors,
    pub(super) a: View,
    pub(super) b: View,
    pub(super) c: View,
    pub(super) compute: Compute,
}

impl GemmArgs {
    /// Rows and columns of C, and the inner length.
    ///
    /// # Errors
    /// If the operands' shapes do not suit each other.
    pub(super) fn lengths(&self) -> Result<[u32; 3], GpuError> {
        let ((m, k), (inner, n)) = (op(self.op_a, self.a), op(self.op_b, self.b));
        if inner == k && self.c.shape == (m, n) {
            return Ok([m, n, k]);
        }
        Err(refused("gemm", format!("{m} x {k} times {inner} x {n} is not a matrix of {:?}", self.c.shape)))
    }
}

fn op(op: Transpose, view: View) -> (u32, u32) {
    match (op, view.shape) {
        (Transpose::No, shape) => shape,
        (Transpose::Yes, (rows, cols)) => (cols, rows),
    }
}

/// Returns the error of an operation with unsuitable operands.
pub(super) fn refused(call: &'static str, reason: String) -> GpuError {
    GpuError::Failed { gpu: 0, call, reason, sticky: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(shape: (u32, u32), ld: u32, bytes: u64) -> Result<View, GpuError> {
        View::new((Address(4096), bytes), shape, ld, Element::F32)
    }

    #[test]
    fn a_matrix_lies_within_its_memory() {
        // 3 columns, 10 apart, of 7 entries of 4 bytes: the last one ends after 27 entries.
        assert_eq!(view((7, 3), 10, 108).unwrap().bytes(), 108);
        let error = view((7, 3), 10, 107).unwrap_err().to_string();
        assert!(error.contains("7 x 3") && error.contains("within 107 bytes"), "{error}");
        assert!(view((7, 3), 6, 1000).is_err(), "columns overlap");
        assert!(view((0, 3), 1, 0).is_ok() && view((3, 0), 3, 0).is_ok());
    }

    #[test]
    fn blocks_lie_within_their_matrix() {
        let whole = view((7, 3), 10, 108).unwrap();
        let block = whole.block((2, 1), (5, 2));
        assert_eq!((block.at, block.ld, block.shape()), (Address(4096 + 4 * 12), 10, (5, 2)));
        assert_eq!(whole.at.0 + whole.bytes(), block.at.0 + block.bytes(), "they end together");
        for (from, shape) in [((3, 0), (5, 1)), ((0, 2), (1, 2)), ((u32::MAX, 0), (2, 1)), ((8, 0), (0, 0))] {
            let outside = std::panic::catch_unwind(|| whole.block(from, shape));
            assert!(outside.is_err(), "{from:?} {shape:?}");
        }
        let square = view((7, 7), 7, 4 * 49).unwrap().diagonal();
        assert_eq!((square.ld, square.shape(), square.bytes()), (8, (1, 7), 4 * 49));
    }

    #[test]
    fn products_of_operands_that_do_not_suit_each_other_are_refused() {
        let of = |shape: (u32, u32)| view(shape, shape.0.max(1), 4 * u64::from(shape.0 * shape.1)).unwrap();
        let lengths = |op_b, a, b, c| {
            let (a, b, c) = (of(a), of(b), of(c));
            let factors = Factors::Host { alpha: 1.0, beta: 0.0 };
            GemmArgs { op_a: Transpose::No, op_b, factors, a, b, c, compute: Compute::F32 }.lengths()
        };
        assert_eq!(lengths(Transpose::No, (4, 3), (3, 2), (4, 2)).unwrap(), [4, 2, 3]);
        assert_eq!(lengths(Transpose::Yes, (4, 3), (2, 3), (4, 2)).unwrap(), [4, 2, 3]);
        for (a, b, c) in [((4, 3), (2, 2), (4, 2)), ((4, 3), (3, 2), (4, 3)), ((4, 3), (3, 2), (5, 2))] {
            let error = lengths(Transpose::No, a, b, c).unwrap_err().to_string();
            assert!(error.contains("is not a matrix of"), "{error}");
        }
    }
}
