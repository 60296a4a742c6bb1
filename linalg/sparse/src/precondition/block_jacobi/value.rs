//! The inverses of a part's blocks, as one value.

use libm::{frexp, ldexp};
use zellige_kernels::packed::{PackedFormat, Rounding, pack, unpack};
use zellige_runtime::data::{Portability, Portable};
use zellige_runtime::{Data, Meta};

use super::BlockJacobi;
use super::inverse::Inverse;

/// Consecutive inverses. Each is multiplied by a power of two that brings its largest entry below
/// 1, so that it fits every format.
#[derive(Debug, Default)]
pub struct Inverses {
    heads: Vec<[i16; 3]>,
    codes: Vec<u8>,
}

/// Fields of a header: rows, format as an index into [`PackedFormat::ALL`], exponent of the power
/// of two.
const ROWS: usize = 0;
const FORMAT: usize = 1;
const EXPONENT: usize = 2;

impl Inverses {
    /// Adds one.
    pub fn push(&mut self, inverse: &Inverse) {
        let exponent = frexp(inverse.elements.iter().fold(0.0, |most, x| x.abs().max(most))).1;
        let scaled: Vec<f64> = inverse.elements.iter().map(|&x| ldexp(x, -exponent)).collect();
        let format =
            PackedFormat::ALL.iter().position(|&format| format == inverse.format).expect("one of all");
        self.heads.push([inverse.rows as i16, format as i16, exponent as i16]);
        let start = self.codes.len();
        self.codes.resize(start + scaled.len() * inverse.format.bytes(), 0);
        pack(&scaled, inverse.format, Rounding::Nearest, &mut self.codes[start..]).expect("room for all");
    }

    /// Computes `z = M^-1 r` of these blocks, for each column.
    pub fn multiply(&self, columns: usize, r: &[f64], z: &mut [f64]) {
        let mut column = [0.0; BlockJacobi::MOST];
        let (mut codes, mut start) = (&self.codes[..], 0);
        for head in &self.heads {
            let (n, format) = (head[ROWS] as usize, PackedFormat::ALL[head[FORMAT] as usize]);
            let scale = ldexp(1.0, head[EXPONENT].into());
            let rows = start * columns..(start + n) * columns;
            let (r, z) = (&r[rows.clone()], &mut z[rows]);
            z.fill(0.0);
            for r in r.chunks_exact(columns) {
                let (here, rest) = codes.split_at(n * format.bytes());
                unpack(here, format, &mut column[..n]).expect("n codes");
                for (z, x) in z.chunks_exact_mut(columns).zip(&column) {
                    z.iter_mut().zip(r).for_each(|(z, r)| *z += x * (r * scale));
                }
                codes = rest;
            }
            start += n;
        }
    }
}

impl Data for Inverses {
    type Ref<'v> = &'v Inverses;
    type Mut<'v> = &'v mut Inverses;

    fn view(&self) -> &Inverses {
        self
    }

    fn view_mut(&mut self) -> &mut Inverses {
        self
    }

    fn meta(&self) -> Meta {
        Meta { bytes: self.parts().iter().map(|part| part.len()).sum(), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

impl Portable for Inverses {
    /// Blocks, and bytes of their codes.
    type Header = [usize; 2];

    fn header(&self) -> [usize; 2] {
        [self.heads.len(), self.codes.len()]
    }

    fn blank(&[blocks, bytes]: &[usize; 2]) -> Self {
        Inverses { heads: vec![[0; 3]; blocks], codes: vec![0; bytes] }
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![bytemuck::cast_slice(&self.heads), &self.codes]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![bytemuck::cast_slice_mut(&mut self.heads), &mut self.codes]
    }
}
