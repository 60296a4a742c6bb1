//! Tiles between guards, and the numbers in them.

use bytemuck::Pod;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_gpu::{Address, Element, Matrix};
use zellige_kernels::cuda::{Measure, PARTIALS_BYTES, measure};
use zellige_kernels::{MatMut, MatRef};

/// Byte value of gaps and guards.
const GUARD: u8 = 0xc3;
/// Elements before and after a tile.
const MARGIN: usize = 16;

/// `rows x cols` numbers, column-major, with gaps between the columns and guards around.
#[derive(Clone)]
pub struct Tile<T> {
    pub rows: usize,
    pub cols: usize,
    pub ld: usize,
    element: Element,
    data: Vec<T>,
}

impl<T: Pod> Tile<T> {
    pub fn new(
        (rows, cols, ld): (usize, usize, usize),
        element: Element,
        mut f: impl FnMut(usize, usize) -> T,
    ) -> Self {
        assert_eq!(element.bytes() as usize, size_of::<T>());
        let guard: T = bytemuck::pod_read_unaligned(&vec![GUARD; size_of::<T>()]);
        let mut data = vec![guard; ld * cols + 2 * MARGIN];
        for j in 0..cols {
            for i in 0..rows {
                data[MARGIN + i + j * ld] = f(i, j);
            }
        }
        Tile { rows, cols, ld, element, data }
    }
    pub fn zeros(shape: (usize, usize, usize), element: Element) -> Self {
        Self::new(shape, element, |_, _| T::zeroed())
    }
    pub fn shape(&self) -> (u32, u32) {
        (self.rows as u32, self.cols as u32)
    }
    /// Returns the matrix for a launch. Its address may be written until the tile is next borrowed.
    pub fn matrix(&mut self) -> Matrix {
        let at = self.data[MARGIN..].as_mut_ptr().expose_provenance() as u64;
        Matrix { at: Address(at), ld: self.ld as u32, element: self.element }
    }
    pub fn view(&self) -> MatRef<'_, T> {
        MatRef::new(&self.data[MARGIN..], self.rows, self.cols, self.ld).unwrap()
    }
    pub fn view_mut(&mut self) -> MatMut<'_, T> {
        MatMut::new(&mut self.data[MARGIN..], self.rows, self.cols, self.ld).unwrap()
    }
    pub fn at(&self, i: usize, j: usize) -> T {
        self.data[MARGIN + i + j * self.ld]
    }
    /// Returns every entry, column by column. Panics if a guard or a gap has changed.
    pub fn entries(&self) -> Vec<T> {
        let end = MARGIN + self.ld * self.cols;
        for (k, x) in self.data.iter().enumerate() {
            let inside = (MARGIN..end).contains(&k) && (k - MARGIN) % self.ld.max(1) < self.rows;
            if !inside {
                assert!(
                    bytemuck::bytes_of(x).iter().all(|&b| b == GUARD),
                    "element {k} beside a tile was written"
                );
            }
        }
        (0..self.cols).flat_map(|j| self.view().col(j).to_vec()).collect()
    }
}

/// A value in "device" memory.
pub struct Cell<T>(Box<T>);

impl<T: Pod> Cell<T> {
    pub fn new(x: T) -> Self {
        Cell(Box::new(x))
    }
    pub fn at(&mut self) -> Address {
        Address((&raw mut *self.0).expose_provenance() as u64)
    }
    pub fn get(&self) -> T {
        *self.0
    }
}

/// A measure in "device" memory, aligned as there.
pub struct MeasureCell(Cell<[u64; 3]>);

impl MeasureCell {
    pub fn new(measure: Measure) -> Self {
        MeasureCell(Cell::new(bytemuck::cast(measure.to_bytes())))
    }
    pub fn at(&mut self) -> Address {
        self.0.at()
    }
    pub fn get(&self) -> Measure {
        Measure::from_bytes(bytemuck::cast(self.0.get()))
    }
}

/// Measures a tile; `None` without g++.
pub fn measured<T: Pod>(tile: &mut Tile<T>, seed: u64) -> Option<MeasureCell> {
    let mut partials = vec![0u64; PARTIALS_BYTES as usize / 8];
    let partials = Address(partials.as_mut_ptr().expose_provenance() as u64);
    let mut into = MeasureCell::new(Measure::default());
    let launches = measure(tile.shape(), tile.matrix(), partials, into.at()).unwrap();
    super::run_all(&launches, seed).then_some(into)
}

/// Shapes and leading dimensions: empty ones, single entries, less and more than a block of
/// threads.
pub const SHAPES: [(usize, usize, usize); 9] = [
    (0, 3, 2),
    (4, 0, 4),
    (1, 1, 1),
    (5, 7, 5),
    (3, 40, 8),
    (65, 3, 70),
    (64, 16, 64),
    (130, 17, 131),
    (300, 131, 301),
];

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Distribution of the random numbers of a test.
#[derive(Clone, Copy, Debug)]
pub enum Numbers {
    /// Any finite bits: every exponent, subnormals, zeros.
    Finite,
    /// Any bits at all.
    Any,
    /// Around `2^e`, some far smaller.
    Near(i32),
}

impl Numbers {
    /// All kinds, with the scales of tiles from the smallest to the largest.
    pub const ALL: [Numbers; 9] = [
        Numbers::Finite,
        Numbers::Any,
        Numbers::Near(0),
        Numbers::Near(-37),
        Numbers::Near(90),
        Numbers::Near(127),
        Numbers::Near(-126),
        Numbers::Near(-140),
        Numbers::Near(-149),
    ];

    pub fn draw(self, rng: &mut ChaCha8Rng) -> f32 {
        match self {
            Numbers::Any => match rng.random_range(0..12) {
                0 => f32::NAN,
                1 => f32::INFINITY,
                2 => f32::NEG_INFINITY,
                _ => f32::from_bits(rng.random()),
            },
            Numbers::Finite => match rng.random_range(0..8) {
                0 => 0.0,
                1 => -0.0,
                2 => f32::from_bits(rng.random_range(0..0x0080_0000)),
                _ => Some(f32::from_bits(rng.random())).filter(|x| x.is_finite()).unwrap_or(f32::MAX),
            },
            Numbers::Near(e) => {
                let small = if rng.random_range(0..3) == 0 { rng.random_range(-30..0) } else { 0 };
                let x: f64 = rng.random_range(-1.0..1.0);
                (x * 2.0f64.powi(e + 1 + small)).clamp(f32::MIN.into(), f32::MAX.into()) as f32
            }
        }
    }

    pub fn tile(self, shape: (usize, usize, usize), seed: u64) -> Tile<f32> {
        let mut rng = rng(seed);
        Tile::new(shape, Element::F32, |_, _| self.draw(&mut rng))
    }
}

/// Returns true for the same number, or if both are NaN: the bits of a NaN are not defined.
pub fn same_f32(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}
pub fn same_f64(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}
pub fn same_f16(a: u16, b: u16) -> bool {
    let nan = |h: u16| half::f16::from_bits(h).is_nan();
    a == b || (nan(a) && nan(b))
}
pub fn same_bf16(a: u16, b: u16) -> bool {
    let nan = |h: u16| half::bf16::from_bits(h).is_nan();
    a == b || (nan(a) && nan(b))
}

/// Panics at the first pair that is not the same.
pub fn assert_same<T: std::fmt::LowerExp + Copy>(
    got: &[T],
    want: &[T],
    same: impl Fn(T, T) -> bool,
    what: &str,
) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (k, (&g, &w)) in got.iter().zip(want).enumerate() {
        assert!(same(g, w), "{what}: entry {k} is {g:e}, {w:e} is wanted");
    }
}
