//! Storage of 3 x 3 matrices, eight interleaved.

use std::fmt;
use std::str::FromStr;

use bytemuck::cast_slice_mut;

use super::hermitian::{self, EightReals};
use super::{Group, LANES, Real};

/// Real numbers of a matrix.
pub(super) const REALS: usize = 18;
/// Real numbers of a matrix in the two-row format, which also stores a phase.
const TWO_ROWS: usize = 13;

/// Returns the position of a real part among the real numbers: columns one after the other, in the
/// order in which products read them. The imaginary part follows it.
#[inline(always)]
pub(super) const fn place(row: usize, column: usize) -> usize {
    (3 * column + row) * 2
}

/// Returns the position of a real part if only two rows are stored.
#[inline(always)]
const fn place_of_two(row: usize, column: usize) -> usize {
    (2 * column + row) * 2
}

/// Number format of matrices. Integers are multiples of one step for a whole field: its largest
/// number divided by the largest integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixNumber {
    /// Float64.
    Fp64,
    /// Float32.
    Fp32,
    /// 32-bit integers.
    Fixed32,
    /// 24-bit integers, three bytes each, the lowest first.
    Fixed24,
    /// 16-bit integers.
    Fixed16,
}

impl MatrixNumber {
    /// All number formats.
    pub const ALL: [MatrixNumber; 5] = [
        MatrixNumber::Fp64,
        MatrixNumber::Fp32,
        MatrixNumber::Fixed32,
        MatrixNumber::Fixed24,
        MatrixNumber::Fixed16,
    ];

    /// Bytes of a number.
    pub const fn bytes(self) -> usize {
        match self {
            MatrixNumber::Fp64 => 8,
            MatrixNumber::Fp32 | MatrixNumber::Fixed32 => 4,
            MatrixNumber::Fixed24 => 3,
            MatrixNumber::Fixed16 => 2,
        }
    }

    /// Returns the name of the format.
    pub const fn name(self) -> &'static str {
        match self {
            MatrixNumber::Fp64 => "fp64",
            MatrixNumber::Fp32 => "fp32",
            MatrixNumber::Fixed32 => "fixed32",
            MatrixNumber::Fixed24 => "fixed24",
            MatrixNumber::Fixed16 => "fixed16",
        }
    }

    /// The largest integer; none for floating-point numbers.
    pub(super) const fn most(self) -> Option<f64> {
        match self {
            MatrixNumber::Fp64 | MatrixNumber::Fp32 => None,
            MatrixNumber::Fixed32 => Some(i32::MAX as f64),
            MatrixNumber::Fixed24 => Some(((1 << 23) - 1) as f64),
            MatrixNumber::Fixed16 => Some(i16::MAX as f64),
        }
    }

    /// Returns the largest error of a number relative to the largest number of the field.
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            MatrixNumber::Fp64 => f64::EPSILON / 2.0,
            MatrixNumber::Fp32 => f32::EPSILON as f64 / 2.0,
            MatrixNumber::Fixed32 => 0.5 / i32::MAX as f64,
            MatrixNumber::Fixed24 => 0.5 / ((1 << 23) - 1) as f64,
            MatrixNumber::Fixed16 => 0.5 / i16::MAX as f64,
        }
    }
}

/// Set of stored real numbers of a matrix. The compressed formats are for multiples `s V` of
/// unitary matrices, with the same `s > 0` for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixReals {
    /// All 18 real numbers.
    All,
    /// Two rows and a phase, 13. The third row is `conj(a x b) det V / s` for the first two rows
    /// `a` and `b`; the last number is `tan(phi / 4)` of `det V = e^(i phi)`, between -1 and 1:
    /// signs are phases.
    TwoRows,
    /// A Hermitian matrix `H`, 9: `V = ((1 + i H) (1 - i H)^-1)^2`, with numbers between -1 and 1.
    Hermitian,
}

impl MatrixReals {
    /// All sets.
    pub const ALL: [MatrixReals; 3] = [MatrixReals::All, MatrixReals::TwoRows, MatrixReals::Hermitian];

    /// Returns the number of stored real numbers.
    const fn count(self) -> usize {
        match self {
            MatrixReals::All => REALS,
            MatrixReals::TwoRows => TWO_ROWS,
            MatrixReals::Hermitian => hermitian::NUMBERS,
        }
    }

    /// Returns the suffix of the names of formats.
    const fn suffix(self) -> &'static str {
        match self {
            MatrixReals::All => "",
            MatrixReals::TwoRows => "-13",
            MatrixReals::Hermitian => "-9",
        }
    }
}

/// Storage format of matrices: the number format and the set of stored numbers.
///
/// The names are those of [`MatrixNumber`], and the same with `-13` and `-9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixFormat {
    /// Number format.
    pub number: MatrixNumber,
    /// Set of stored real numbers.
    pub reals: MatrixReals,
}

impl MatrixFormat {
    /// Creates the format with all 18 real numbers of each matrix.
    pub const fn full(number: MatrixNumber) -> MatrixFormat {
        MatrixFormat { number, reals: MatrixReals::All }
    }

    /// 64-bit words of eight matrices.
    pub const fn words(self) -> usize {
        self.number.bytes() * self.reals.count()
    }
}

impl fmt::Display for MatrixFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number.name(), self.reals.suffix())
    }
}

impl FromStr for MatrixFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<MatrixFormat, String> {
        let all = MatrixNumber::ALL
            .into_iter()
            .flat_map(|number| MatrixReals::ALL.map(|reals| MatrixFormat { number, reals }));
        let found = all.into_iter().find(|format| format.to_string() == text);
        found.ok_or_else(|| {
            "fp64, fp32, fixed32, fixed24 and fixed16 are possible, and each with -13 and -9".to_owned()
        })
    }
}

impl Group {
    /// Creates a group of matrices of this format, with `hops` of them summed for each site.
    /// `largest` is the largest magnitude of a real or imaginary part in the whole field. `unit` is
    /// the factor `s` of its multiples `s V` of unitary matrices.
    pub fn new(format: MatrixFormat, hops: usize, largest: f64, unit: f64) -> Group {
        let step = format.number.most().map_or(1.0, |most| if largest > 0.0 { largest / most } else { 1.0 });
        Group { format, hops, step, unit }
    }

    /// 64-bit words of the matrices of eight sites.
    pub fn words(&self) -> usize {
        self.hops * self.format.words()
    }

    /// Stores one matrix for each of eight sites: `[row][column][re, im]`.
    ///
    /// # Panics
    /// Unless `words` has exactly the length of eight matrices.
    pub fn encode(&self, matrices: &[[f64; REALS]; LANES], words: &mut [f64]) {
        assert_eq!(words.len(), self.format.words(), "the words of eight matrices");
        let mut put = |real: usize, lane: usize, x: f64, step: f64| {
            let at = real * LANES + lane;
            let code = || {
                let most = self.format.number.most().unwrap_or(0.0);
                (x / step).round_ties_even().clamp(-most, most) as i32
            };
            match self.format.number {
                MatrixNumber::Fp64 => words[at] = x,
                MatrixNumber::Fp32 => cast_slice_mut(words)[at] = x as f32,
                MatrixNumber::Fixed32 => cast_slice_mut(words)[at] = code(),
                MatrixNumber::Fixed16 => cast_slice_mut(words)[at] = code() as i16,
                MatrixNumber::Fixed24 => cast_slice_mut::<f64, u8>(words)[3 * at..3 * at + 3]
                    .copy_from_slice(&code().to_le_bytes()[..3]),
            }
        };
        // Step of numbers between -1 and 1.
        let unit_step = self.unit_step();
        for (lane, matrix) in matrices.iter().enumerate() {
            let rows = match self.format.reals {
                MatrixReals::All => 3,
                MatrixReals::TwoRows => 2,
                MatrixReals::Hermitian => 0,
            };
            for (row, column) in (0..rows).flat_map(|row| [(row, 0), (row, 1), (row, 2)]) {
                let to = if rows == 2 { place_of_two(row, column) } else { place(row, column) };
                let from = (3 * row + column) * 2;
                (0..2).for_each(|part| put(to + part, lane, matrix[from + part], self.step));
            }
            match self.format.reals {
                MatrixReals::All => {}
                MatrixReals::TwoRows => put(TWO_ROWS - 1, lane, (phase(matrix) / 4.0).tan(), unit_step),
                MatrixReals::Hermitian => {
                    let numbers = hermitian::numbers(matrix, self.unit);
                    numbers.into_iter().enumerate().for_each(|(real, x)| put(real, lane, x, unit_step));
                }
            }
        }
    }

    /// The step of numbers between -1 and 1.
    fn unit_step(&self) -> f64 {
        self.format.number.most().map_or(1.0, |most| 1.0 / most)
    }

    /// Decodes the matrices of eight sites, `[hop][real][site]`.
    #[inline(always)]
    pub(super) fn decode<R: Real>(&self, words: &[f64], into: &mut [R]) {
        let MatrixFormat { number, reals } = self.format;
        let each = words.chunks_exact(self.format.words()).zip(into.chunks_exact_mut(REALS * LANES));
        for (words, matrix) in each {
            match number {
                MatrixNumber::Fp64 => fill(words, matrix, R::from_f64),
                MatrixNumber::Fp32 => fill(bytemuck::cast_slice(words), matrix, R::from_f32),
                MatrixNumber::Fixed32 => fill(bytemuck::cast_slice(words), matrix, R::from_i32),
                MatrixNumber::Fixed16 => {
                    fill(bytemuck::cast_slice(words), matrix, |code: i16| R::from_i32(i32::from(code)));
                }
                MatrixNumber::Fixed24 => fill(bytemuck::cast_slice(words), matrix, |[a, b, c]: [u8; 3]| {
                    R::from_i32(i32::from_le_bytes([0, a, b, c]) >> 8)
                }),
            }
            match reals {
                MatrixReals::All => {}
                MatrixReals::TwoRows => self.complete(matrix),
                MatrixReals::Hermitian => self.multiples_of_unitary(matrix),
            }
        }
    }

    /// Returns the matrices of eight sites that [`Group::encode`] stored in these words.
    ///
    /// # Panics
    /// Unless `words` has exactly the length of eight matrices.
    pub fn matrices(&self, words: &[f64]) -> [[f64; REALS]; LANES] {
        assert_eq!(words.len(), self.format.words(), "the words of eight matrices");
        let mut rows = [0.0f64; REALS * LANES];
        self.decode(words, &mut rows);
        let step = self.step_of_decoded::<f64>();
        std::array::from_fn(|lane| {
            std::array::from_fn(|at| rows[(place(at / 6, at % 6 / 2) + at % 2) * LANES + lane] * step)
        })
    }

    /// Returns the factor of products with decoded matrices.
    pub(super) fn step_of_decoded<R: Real>(&self) -> R {
        R::from_f64(if self.format.reals == MatrixReals::All { self.step } else { 1.0 })
    }

    /// Makes the third row of the first two and the phase.
    #[inline(always)]
    fn complete<R: Real>(&self, matrix: &mut [R]) {
        let (step, minus) = (R::from_f64(self.step), R::from_f64(-1.0));
        let phase_step = R::from_f64(self.unit_step());
        let (one, inverse) = (R::from_f64(1.0), R::from_f64(1.0 / self.unit));
        for lane in 0..LANES {
            let at = |real: usize| real * LANES + lane;
            let t = matrix[at(TWO_ROWS - 1)] * phase_step;
            // e^(i phi / 2) by half the angle, and its square.
            let below = one / (one + t * t);
            let (c, s) = ((one + minus * t * t) * below, (t + t) * below);
            let (re, im) = ((c * c + minus * s * s) * inverse, (c * s + c * s) * inverse);
            let stored: [R; TWO_ROWS - 1] = std::array::from_fn(|real| matrix[at(real)] * step);
            let get = |row: usize, column: usize| {
                let real = place_of_two(row, column);
                (stored[real], stored[real + 1])
            };
            let mut third = [(R::default(), R::default()); 3];
            for (i, third) in third.iter_mut().enumerate() {
                let (j, k) = ((i + 1) % 3, (i + 2) % 3);
                let times =
                    |(ar, ai): (R, R), (br, bi): (R, R)| (ar * br + minus * ai * bi, ar * bi + ai * br);
                let (p, q) = (times(get(0, j), get(1, k)), times(get(0, k), get(1, j)));
                *third = times((p.0 + minus * q.0, minus * p.1 + q.1), (re, im));
            }
            for (column, third) in third.into_iter().enumerate() {
                for (row, (re, im)) in [get(0, column), get(1, column), third].into_iter().enumerate() {
                    let real = place(row, column);
                    (matrix[at(real)], matrix[at(real + 1)]) = (re, im);
                }
            }
        }
    }

    /// Makes matrices of the numbers of Hermitian ones.
    #[inline(always)]
    fn multiples_of_unitary<R: Real>(&self, matrix: &mut [R]) {
        let same = |x: f64| EightReals([R::from_f64(x); LANES]);
        let (step, unit) = (same(self.unit_step()), same(self.unit));
        let (matrix, _) = matrix.as_chunks_mut();
        let mut numbers = [step; hermitian::NUMBERS];
        for real in 0..hermitian::NUMBERS {
            numbers[real] = EightReals(matrix[real]) * step;
        }
        for (row, numbers) in hermitian::unitary(&numbers, same(1.0)).into_iter().enumerate() {
            for (column, (re, im)) in numbers.into_iter().enumerate() {
                let real = place(row, column);
                (matrix[real], matrix[real + 1]) = ((re * unit).0, (im * unit).0);
            }
        }
    }
}

/// Decodes numbers as far as there are codes.
#[inline(always)]
fn fill<C: Copy, R>(codes: &[C], numbers: &mut [R], decode: impl Fn(C) -> R) {
    numbers.iter_mut().zip(codes).for_each(|(number, code)| *number = decode(*code));
}

/// The phase of the determinant.
fn phase(matrix: &[f64; REALS]) -> f64 {
    let get =
        |row: usize, column: usize| (matrix[(3 * row + column) * 2], matrix[(3 * row + column) * 2 + 1]);
    let times = |(ar, ai): (f64, f64), (br, bi): (f64, f64)| (ar * br - ai * bi, ar * bi + ai * br);
    let (mut re, mut im) = (0.0, 0.0);
    for i in 0..3 {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        let (p, q) = (times(get(1, j), get(2, k)), times(get(1, k), get(2, j)));
        let (r, s) = times(get(0, i), (p.0 - q.0, p.1 - q.1));
        (re, im) = (re + r, im + s);
    }
    im.atan2(re)
}
