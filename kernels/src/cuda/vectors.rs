//! Vector tasks of Krylov methods.

use zellige_gpu::{Address, Arg};

use super::Launch;
use super::launch::LaunchError;
use super::sell::PARTS;

const KERNEL: &str = "zellige_vectors";
const OF_COMPLEX: &str = "zellige_vectors_complex";

/// Limits of the kernel's arguments.
const WORDS: usize = 64;
const CONSTANTS: usize = 8;
const VECTORS: usize = 16;
const TERMS: usize = 32;
const CHANGES: usize = 2;
const SUMS: usize = 32;
const POINTERS: usize = 384;
/// Code of an operand that is the change of the other one.
const CHANGE: u32 = 255;
/// Threads of a block, which handles a reduction block of one column. The number depends on the
/// rows. Complex numbers take half of the largest number.
const THREADS: [u32; 3] = [32, 128, 512];
/// Rows of a thread at a time.
const ROWS: usize = 4;

/// Factor of a term.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor {
    /// A constant.
    Constant(f64),
    /// A number of the method, by index.
    Number(usize),
    /// The negative of a number of the method, by index.
    Negative(usize),
}

/// Program of a vector task: assignments of linear combinations, then sums of products, in the
/// order in which they are added here. Vectors are named by their positions in the list that
/// [`vector_task`] takes.
#[derive(Clone, Debug, Default)]
pub struct VectorProgram {
    assignments: Vec<u32>,
    count: u32,
    terms: usize,
    constants: Vec<f64>,
    sums: Vec<u32>,
    changes: usize,
    /// True if numbers are complex, and if there are diagonals.
    is_complex: bool,
    has_diagonals: bool,
    /// The largest position of a vector plus one, and the largest index of a number or a sum plus
    /// one.
    vectors: usize,
    indices: usize,
}

impl VectorProgram {
    /// A program for complex numbers, each its real part and its imaginary part; so are the
    /// method's own numbers and the sums, and constants are real. There are no diagonals, and a sum
    /// conjugates its first vector.
    pub fn complex() -> Self {
        VectorProgram { is_complex: true, ..VectorProgram::default() }
    }

    /// `target = sum of factor * diagonal_i * v_i` over terms of a factor, a diagonal, if there is
    /// one, and a vector.
    pub fn assign(
        &mut self,
        target: usize,
        terms: impl ExactSizeIterator<Item = (Factor, Option<usize>, usize)>,
    ) {
        self.count += 1;
        self.terms += terms.len();
        let head = self.place(target) | (terms.len() as u32) << 8;
        self.assignments.push(head);
        for (factor, diagonal, vector) in terms {
            let (kind, which) = match factor {
                Factor::Constant(value) => (0, self.constant(value)),
                Factor::Number(at) => (1, at),
                Factor::Negative(at) => (2, at),
            };
            self.indices = self.indices.max(which + 1);
            self.has_diagonals |= diagonal.is_some();
            let diagonal = diagonal.map_or(0, |diagonal| self.place(diagonal) + 1);
            let word = self.place(vector) | diagonal << 8 | kind << 16 | (which as u32) << 18;
            self.assignments.push(word);
        }
    }

    /// Sum `at` is `x . y`.
    pub fn dot(&mut self, x: usize, y: usize, at: usize) {
        self.indices = self.indices.max(at + 1);
        let word = self.place(x) | self.place(y) << 8 | (at as u32) << 20;
        self.sums.push(word);
    }

    /// Sum `at` is `y . (y - y_old)` of a vector that is assigned to.
    pub fn dot_change(&mut self, y: usize, at: usize) {
        self.indices = self.indices.max(at + 1);
        let word = self.place(y) | CHANGE << 8 | (self.changes as u32) << 16 | (at as u32) << 20;
        self.sums.push(word);
        self.changes += 1;
    }

    /// Returns true if the program is within the limits of the kernel.
    pub fn fits(&self) -> bool {
        self.assignments.len() + self.sums.len() <= WORDS
            && self.constants.len() <= CONSTANTS
            && self.terms <= TERMS
            && self.changes <= CHANGES
            && self.sums.len() <= SUMS
            && self.vectors <= VECTORS
            && self.indices <= 1 << 12
            && !(self.is_complex && self.has_diagonals)
    }

    fn place(&mut self, vector: usize) -> u32 {
        self.vectors = self.vectors.max(vector + 1);
        vector as u32
    }

    fn constant(&mut self, value: f64) -> usize {
        let known = self.constants.iter().position(|known| known.to_bits() == value.to_bits());
        known.unwrap_or_else(|| {
            self.constants.push(value);
            self.constants.len() - 1
        })
    }
}

/// Data that a vector task operates on.
#[derive(Clone, Copy, Debug)]
pub struct VectorsAt<'a> {
    /// Number of columns of the vectors. The entries of a row are contiguous. A diagonal has one
    /// column.
    pub columns: usize,
    /// Rows of a reduction block, counted from the first row of a part.
    pub grain: usize,
    /// Address of the method's numbers, `stride` for each column. Columns whose first number is not
    /// 0 are done.
    pub numbers: Address,
    /// Number of the method's numbers for each column.
    pub stride: usize,
    /// The first of the method's own numbers.
    pub own: usize,
    /// A number of the method's own that has to be 0 for a column to be worked on.
    pub unless: Option<usize>,
    /// Number of sums of a reduction block and column.
    pub width: usize,
    /// Number of vectors that are read.
    pub read: usize,
    /// Number of vectors that are updated.
    pub updated: usize,
    /// The parts.
    pub parts: &'a [VectorPart<'a>],
}

/// A part of all vectors.
#[derive(Clone, Copy, Debug)]
pub struct VectorPart<'a> {
    /// Number of rows.
    pub rows: usize,
    /// Address and bytes of this part in each vector: first the vectors that are read, then those
    /// that are updated.
    pub vectors: &'a [(Address, u64)],
    /// Sums of this part, `[grain][column][width]`, and their bytes.
    pub sums: Option<(Address, u64)>,
}

impl VectorsAt<'_> {
    /// Parts that one launch takes.
    fn at_once(&self) -> usize {
        PARTS.min(POINTERS / (self.read + self.updated + 1))
    }
}

/// Returns the launches of a vector task: one for all parts, unless there are very many. The
/// results are bitwise equal to those of [`vectors`](crate::vectors).
///
/// # Errors
/// [`LaunchError`] for a program that does not [fit](VectorProgram::fits), for vectors that are
/// shorter than their part, and for sums that are too short.
pub fn vector_task(program: &VectorProgram, at: &VectorsAt<'_>) -> Result<Vec<Launch>, LaunchError> {
    let too_large = |what, got: usize, most: usize| {
        Err(LaunchError::TooLarge { kernel: KERNEL, what, got: got as u64, most: most as u64 })
    };
    if !program.fits() {
        let words = program.assignments.len() + program.sums.len();
        return too_large("the program (words, or constants, terms, vectors, sums of it)", words, WORDS);
    }
    let vectors = at.read + at.updated;
    if vectors > VECTORS {
        return too_large("the number of vectors", vectors, VECTORS);
    }
    if program.vectors > vectors {
        return too_small("the number of vectors", vectors as u64, program.vectors as u64);
    }
    at.parts.iter().try_for_each(|part| check(program, at, part))?;
    Ok(at.parts.chunks(at.at_once()).map(|parts| launch(program, at, parts)).collect())
}

fn too_small<T>(what: &'static str, got: u64, least: u64) -> Result<T, LaunchError> {
    Err(LaunchError::TooSmall { kernel: KERNEL, what, got, least })
}

/// Checks that the arrays of a part are as large as the kernel requires.
fn check(program: &VectorProgram, at: &VectorsAt<'_>, part: &VectorPart<'_>) -> Result<(), LaunchError> {
    let (vectors, got) = (at.read + at.updated, part.vectors.len());
    if got < vectors {
        return too_small("the number of vectors of a part", got as u64, vectors as u64);
    }
    let (read, updated) = part.vectors.split_at(at.read);
    let bytes_of_number = if program.is_complex { 16 } else { 8 };
    // A diagonal has one column.
    let least = bytes_of_number * part.rows as u64;
    if let Some(short) = read.iter().map(|at| at.1).find(|&bytes| bytes < least) {
        return too_small("a vector that is read (bytes)", short, least);
    }
    let least = least * at.columns as u64;
    if let Some(short) = updated.iter().map(|at| at.1).find(|&bytes| bytes < least) {
        return too_small("a vector that is updated (bytes)", short, least);
    }
    let sums_bytes = part.sums.map_or(0, |sums| sums.1);
    let grains = part.rows.div_ceil(at.grain);
    let least =
        if program.sums.is_empty() { 0 } else { bytes_of_number * (grains * at.columns * at.width) as u64 };
    if sums_bytes < least {
        return too_small("the sums (bytes)", sums_bytes, least);
    }
    Ok(())
}

/// The launch for some parts, which have been checked.
fn launch(program: &VectorProgram, at: &VectorsAt<'_>, parts: &[VectorPart<'_>]) -> Launch {
    let vectors = at.read + at.updated;
    let mut args: Vec<Arg> = [
        at.columns,
        at.grain,
        at.stride,
        at.own,
        at.unless.map_or(0, |at| at + 1),
        at.width,
        program.count as usize,
        program.sums.len(),
        program.assignments.len(),
        vectors,
    ]
    .iter()
    .map(|&size| Arg::U32(size as u32))
    .collect();
    args.push(Arg::Read(at.numbers, 8 * (at.columns * at.stride) as u64));
    let words = program.assignments.iter().chain(&program.sums).map(|&word| Arg::U32(word));
    args.extend(padded(words, WORDS, Arg::U32(0)));
    args.extend(padded(program.constants.iter().map(|&value| Arg::F64(value)), CONSTANTS, Arg::F64(0.0)));
    args.extend(padded(parts.iter().map(|part| Arg::U32(part.rows as u32)), PARTS, Arg::U32(0)));
    let pointers = parts.iter().flat_map(|part| {
        let (read, updated) = part.vectors[..vectors].split_at(at.read);
        let read = read.iter().map(|&(at, bytes)| Arg::Read(at, bytes));
        let updated = updated.iter().map(|&(at, bytes)| Arg::Update(at, bytes));
        let sums = part.sums.map_or(NOTHING, |(at, bytes)| Arg::Update(at, bytes));
        read.chain(updated).chain([sums])
    });
    args.extend(padded(pointers, POINTERS, NOTHING));
    let grains = parts.iter().map(|part| part.rows.div_ceil(at.grain)).max().unwrap_or(0);
    let grid = [grains.max(1), at.columns, parts.len()].map(|blocks| blocks as u32);
    let rows = parts.iter().map(|part| part.rows.min(at.grain)).max().unwrap_or(0);
    let all_have = |threads: &u32| rows <= ROWS * *threads as usize;
    let most = if program.is_complex { THREADS[2] / 2 } else { THREADS[2] };
    let threads = THREADS.into_iter().find(all_have).unwrap_or(most).min(most);
    let kernel = if program.is_complex { OF_COMPLEX } else { KERNEL };
    Launch { kernel, grid, block: [threads, 1, 1], args }
}

/// Extends the arguments to `count` with fillers.
fn padded(args: impl Iterator<Item = Arg>, count: usize, filler: Arg) -> impl Iterator<Item = Arg> {
    args.chain(std::iter::repeat(filler)).take(count)
}

/// An array that is not read.
const NOTHING: Arg = Arg::Read(Address(0), 0);
