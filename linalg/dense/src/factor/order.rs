//! The order in which the updates of one step are submitted.

use zellige_kernels::GemmPrecision;

use super::product::PolicyAnswer;
use crate::error::Error;
use crate::policy::SharedPolicy;

/// An update of the trailing matrix in step `k`.
pub(super) enum Update {
    /// `A_jj -= L_jk L_jk^T`.
    Square(usize),
    /// `A_ij -= L_ik L_jk^T`, `i > j`.
    Product(usize, usize, PolicyAnswer),
}

/// The order of updates. It matters to ranks alone: a rank derives narrow forms of a tile that it
/// has received, so that a form which its squares need has to come first. Where all updates read
/// one format, squares and products alternate, so that the owner of a diagonal tile is not always
/// the first receiver, which forwards the tile.
pub(super) struct UpdateOrder {
    squares: GemmPrecision,
    is_uniform: bool,
}

impl UpdateOrder {
    /// For squares in this precision and products in those of `policy`.
    pub(super) fn new(policy: &SharedPolicy, squares: GemmPrecision) -> Self {
        let mut order = UpdateOrder { squares, is_uniform: false };
        order.is_uniform =
            policy.precisions().is_some_and(|all| all.iter().all(|&p| order.reads_as_squares(p)));
        order
    }

    /// The updates of tile columns `columns`, with the answers of `ask` for the products.
    ///
    /// # Errors
    /// Those of `ask`.
    pub(super) fn of_step(
        &self,
        columns: std::ops::Range<usize>,
        ask: impl Fn(usize, usize) -> Result<PolicyAnswer, Error>,
    ) -> Result<Vec<Update>, Error> {
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        if !self.is_uniform {
            first.extend(columns.clone().map(Update::Square));
        }
        for j in columns.clone() {
            if self.is_uniform {
                first.push(Update::Square(j));
            }
            for i in j + 1..columns.end {
                let answer = ask(i, j)?;
                let is_first =
                    self.is_uniform || answer.precision().is_some_and(|p| self.reads_as_squares(p));
                if is_first { &mut first } else { &mut rest }.push(Update::Product(i, j, answer));
            }
        }
        first.append(&mut rest);
        Ok(first)
    }

    fn reads_as_squares(&self, precision: GemmPrecision) -> bool {
        precision.operand_format() == self.squares.operand_format()
    }
}
