//! Properties of the processor that the order of operations of the plain kernels depends on.

use pulp::{Simd, WithSimd};

/// Registers of the processor, for numbers of one type.
#[derive(Clone, Copy)]
pub(super) struct Machine {
    /// Numbers in a register.
    pub lanes: usize,
    /// Columns of a panel of the triangular kernels.
    pub panel: usize,
    /// Rows and columns of a block of the product.
    pub block: [usize; 2],
}

impl Machine {
    /// The processor, for numbers of `bytes` bytes.
    pub fn new(bytes: usize) -> Machine {
        let (register, many) = pulp::Arch::new().dispatch(Registers);
        let lanes = register / bytes;
        let heights = if many { 4 } else { 2 };
        Machine { lanes, panel: if many { 8 } else { 4 }, block: [heights * lanes, 6] }
    }
}

/// Bytes of a register, and whether there are at least 32.
struct Registers;

impl WithSimd for Registers {
    type Output = (usize, bool);
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (usize, bool) {
        (S::F64_LANES * size_of::<f64>(), S::REGISTER_COUNT >= 32)
    }
}
