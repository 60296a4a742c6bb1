//! Checks of descriptions that all drivers share: they reject the same calls with the same
//! messages.

use crate::call::{BatchedGemm, Compute, Element, Factors, Gemm, Matrix, Potrf, Side, Syrk, Transpose, Trsm};

/// Multiple of entries to which fp8 products are laid out (16-byte vectors).
const FP8_STEP: u32 = 16;

impl Matrix {
    /// Returns the bytes from the first to the last entry of `rows x columns`; 0 if there are no
    /// entries.
    pub(crate) fn span(&self, rows: u32, columns: u32) -> u64 {
        if rows == 0 || columns == 0 {
            return 0;
        }
        let entries = u64::from(columns - 1) * u64::from(self.ld) + u64::from(rows);
        entries.saturating_mul(self.element.bytes())
    }

    fn check(&self, name: &str, rows: u32, columns: u32) -> Result<(), String> {
        if rows > i32::MAX as u32 || columns > i32::MAX as u32 || self.ld > i32::MAX as u32 {
            return Err(format!(
                "{name} of {rows} x {columns}, ld {}: at most {} is possible",
                self.ld,
                i32::MAX
            ));
        }
        if self.ld < rows.max(1) {
            return Err(format!(
                "{name} has {rows} rows and ld {}: an ld of at least {rows} is needed",
                self.ld
            ));
        }
        if !self.at.0.is_multiple_of(self.element.bytes()) {
            return Err(format!("{name} at {:#x} is not aligned to its {:?}", self.at.0, self.element));
        }
        Ok(())
    }
}

/// Returns the rows and columns of an operand in memory.
fn as_it_lies(op: Transpose, rows: u32, columns: u32) -> (u32, u32) {
    match op {
        Transpose::No => (rows, columns),
        Transpose::Yes => (columns, rows),
    }
}

impl Gemm {
    /// Returns the rows and columns of A in memory.
    pub(crate) fn shape_a(&self) -> (u32, u32) {
        as_it_lies(self.op_a, self.m, self.k)
    }

    /// Returns the rows and columns of B in memory.
    pub(crate) fn shape_b(&self) -> (u32, u32) {
        as_it_lies(self.op_b, self.k, self.n)
    }

    /// Returns true for products of 8-bit operands.
    pub(crate) fn is_fp8(&self) -> bool {
        self.a.element == Element::F8E4M3
    }

    /// Checks the description. The error says what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (rows, columns) = self.shape_a();
        self.a.check("A", rows, columns)?;
        let (rows, columns) = self.shape_b();
        self.b.check("B", rows, columns)?;
        self.c.check("C", self.m, self.n)?;
        self.check_elements()?;
        self.check_factors()?;
        if self.is_fp8() { self.check_fp8() } else { Ok(()) }
    }

    fn check_elements(&self) -> Result<(), String> {
        use Element::{BF16, F8E4M3, F16, F32, F64};
        let (a, b, c) = (self.a.element, self.b.element, self.c.element);
        let possible = a == b
            && match self.compute {
                Compute::F64 => (a, c) == (F64, F64),
                Compute::Tf32 => (a, c) == (F32, F32),
                Compute::F16 => (a, c) == (F16, F16),
                Compute::F32 => matches!(
                    (a, c),
                    (F32 | F16 | BF16 | F8E4M3, F32) | (F16 | F8E4M3, F16) | (BF16 | F8E4M3, BF16)
                ),
            };
        if possible {
            return Ok(());
        }
        Err(format!("no product has A of {a:?}, B of {b:?}, C of {c:?} and sums in {:?}", self.compute))
    }

    fn check_factors(&self) -> Result<(), String> {
        let Factors::Device(at) = self.factors else {
            return Ok(());
        };
        if !matches!(self.compute, Compute::F32 | Compute::Tf32) {
            return Err(format!(
                "factors in device memory are two f32, and sums in {:?} take others: give them from the host",
                self.compute
            ));
        }
        if !at.0.is_multiple_of(4) {
            return Err(format!("factors at {:#x} are not aligned to an f32", at.0));
        }
        Ok(())
    }

    fn check_fp8(&self) -> Result<(), String> {
        if (self.op_a, self.op_b) != (Transpose::Yes, Transpose::No) {
            return Err("products of 8-bit operands take A transposed and B as it lies, nothing else".into());
        }
        let lengths = [self.m, self.n, self.k, self.a.ld, self.b.ld, self.c.ld];
        let places = [self.a.at, self.b.at, self.c.at];
        let fits = lengths.iter().all(|length| length.is_multiple_of(FP8_STEP))
            && places.iter().all(|at| at.0.is_multiple_of(u64::from(FP8_STEP)));
        if fits {
            return Ok(());
        }
        Err(format!(
            "products of 8-bit operands need m, n, k, every ld and every address in multiples of {FP8_STEP}"
        ))
    }
}

impl BatchedGemm<'_> {
    /// Checks the description. 8-bit operands are multiplied one product at a time.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.shape.is_fp8() {
            return Err("there is no batched product of 8-bit operands: call them one by one".into());
        }
        for at in self.at {
            self.product(*at).check()?;
        }
        i32::try_from(self.at.len()).map(drop).map_err(|_| format!("{} products are too many", self.at.len()))
    }

    /// Returns the product with operands at these addresses.
    pub(crate) fn product(&self, at: [crate::Address; 3]) -> Gemm {
        let mut gemm = self.shape;
        [gemm.a.at, gemm.b.at, gemm.c.at] = at;
        gemm
    }
}

/// Factorisations and solves are done in f32 or f64, both operands in the same.
fn check_real(elements: &[Element]) -> Result<(), String> {
    let first = elements[0];
    let real = matches!(first, Element::F32 | Element::F64) && elements.iter().all(|e| *e == first);
    if real { Ok(()) } else { Err(format!("operands of {elements:?}: all f32 or all f64 is needed")) }
}

impl Trsm {
    /// Order of L.
    pub(crate) fn order(&self) -> u32 {
        match self.side {
            Side::Left => self.m,
            Side::Right => self.n,
        }
    }

    /// Checks the description. The error says what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_real(&[self.l.element, self.b.element])?;
        self.l.check("L", self.order(), self.order())?;
        self.b.check("B", self.m, self.n)
    }
}

impl Syrk {
    /// Checks the description. The error says what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_real(&[self.a.element, self.c.element])?;
        self.a.check("A", self.n, self.k)?;
        self.c.check("C", self.n, self.n)
    }
}

impl Potrf {
    /// Checks the description against the `needed` bytes of working space.
    pub(crate) fn check(&self, needed: u64) -> Result<(), String> {
        check_real(&[self.a.element])?;
        self.a.check("A", self.n, self.n)?;
        if self.workspace_bytes < needed {
            return Err(format!(
                "{} bytes of working space: order {} needs {needed}, as potrf_workspace says",
                self.workspace_bytes, self.n
            ));
        }
        if !self.info.0.is_multiple_of(4) {
            return Err(format!("info at {:#x} is not aligned to an int", self.info.0));
        }
        Ok(())
    }
}

/// A launch that no GPU takes: CUDA's limits for all architectures.
pub(crate) fn check_launch(grid: [u32; 3], block: [u32; 3]) -> Result<(), String> {
    let threads = block.iter().map(|n| u64::from(*n)).product::<u64>();
    let limits = [i32::MAX as u32, 65_535, 65_535];
    if grid.contains(&0) || grid.iter().zip(limits).any(|(n, limit)| *n > limit) {
        return Err(format!("a grid of {grid:?} blocks: from 1 to {limits:?} are possible"));
    }
    if threads == 0 || threads > 1024 || block[2] > 64 {
        return Err(format!(
            "blocks of {block:?} threads: 1 to 1024 in all, at most 64 in the third, are possible"
        ));
    }
    Ok(())
}
