//! Vector tasks of Krylov methods.

use zellige_gpu::{Address, Arg};

use super::Launch;
use super::launch::LaunchError;

const KERNEL: &str = "zellige_vectors";

/// What the kernel takes as arguments, at most.
const WORDS: usize = 64;
const CONSTANTS: usize = 8;
const VECTORS: usize = 16;
const TERMS: usize = 32;
const CHANGES: usize = 2;
/// In place of a vector: the change of the other one.
const CHANGE: u32 = 255;
/// Grains of a block of threads, and threads of a grain.
const GRAINS: u32 = 4;
const LANES: u32 = 32;

/// What a term is multiplied by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor {
    /// A constant.
    Constant(f64),
    /// One of the method's numbers, by index.
    Number(usize),
    /// Its negative.
    Negative(usize),
}

/// What a vector task does: assignments of linear combinations, then sums of products, in the order in which they are added here. Vectors are named by
/// their places in the list that [`vector_task`] is given.
#[derive(Clone, Debug, Default)]
pub struct VectorProgram {
    assignments: Vec<u32>,
    count: u32,
    terms: usize,
    constants: Vec<f64>,
    sums: Vec<u32>,
    changes: usize,
    /// One more than the largest place, and than the largest index of a number or a sum.
    vectors: usize,
    indices: usize,
}

impl VectorProgram {
    /// `target = sum of factor * diagonal_i * v_i` over terms of a factor, a diagonal, if there is one, and a vector.
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

    /// Whether the kernel has room for it.
    pub fn fits(&self) -> bool {
        self.assignments.len() + self.sums.len() <= WORDS
            && self.constants.len() <= CONSTANTS
            && self.terms <= TERMS
            && self.changes <= CHANGES
            && self.vectors <= VECTORS
            && self.indices <= 1 << 12
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

/// What a vector task works on.
#[derive(Clone, Copy, Debug)]
pub struct VectorPart<'a> {
    /// Rows of the part.
    pub rows: usize,
    /// Columns of the vectors; those of a row lie beside each other. A diagonal has one.
    pub columns: usize,
    /// Rows whose products are summed by themselves.
    pub grain: usize,
    /// The method's numbers: where they are, how many for each column, and the first of its own. Columns whose first number is not 0 are done.
    pub numbers: Address,
    /// How many numbers there are for each column.
    pub stride: usize,
    /// The first of the method's own numbers.
    pub own: usize,
    /// A number of the method's own that has to be 0 for a column to be worked on.
    pub unless: Option<usize>,
    /// The vectors' parts and their bytes: those that are read, then those that are updated.
    pub read: &'a [(Address, u64)],
    /// See `read`.
    pub updated: &'a [(Address, u64)],
    /// The sums, `[grain][column][width]`, and their bytes.
    pub sums: Option<(Address, u64)>,
    /// Sums of a grain and column.
    pub width: usize,
}

/// The launch of a vector task. Its bits are those of [`vectors`](crate::vectors).
///
/// # Errors
/// [`LaunchError`] for a program that does not [fit](VectorProgram::fits), for vectors that are shorter than the part, and without room for the sums.
pub fn vector_task(program: &VectorProgram, part: &VectorPart<'_>) -> Result<Launch, LaunchError> {
    let too_large = |what, got: usize, most: usize| {
        Err(LaunchError::TooLarge { kernel: KERNEL, what, got: got as u64, most: most as u64 })
    };
    let too_small =
        |what, got: u64, least: u64| Err(LaunchError::TooSmall { kernel: KERNEL, what, got, least });
    if !program.fits() {
        let words = program.assignments.len() + program.sums.len();
        return too_large("the program (words, or constants, terms, vectors of it)", words, WORDS);
    }
    let vectors = part.read.len() + part.updated.len();
    if vectors > VECTORS {
        return too_large("the number of vectors", vectors, VECTORS);
    }
    if program.vectors > vectors {
        return too_small("the number of vectors", vectors as u64, program.vectors as u64);
    }
    // A diagonal has one column.
    let least = 8 * part.rows as u64;
    if let Some(short) = part.read.iter().map(|at| at.1).find(|&bytes| bytes < least) {
        return too_small("a vector that is read (bytes)", short, least);
    }
    let least = least * part.columns as u64;
    if let Some(short) = part.updated.iter().map(|at| at.1).find(|&bytes| bytes < least) {
        return too_small("a vector that is updated (bytes)", short, least);
    }
    let grains = part.rows.div_ceil(part.grain);
    let sums_bytes = part.sums.map_or(0, |sums| sums.1);
    let least = if program.sums.is_empty() { 0 } else { 8 * (grains * part.columns * part.width) as u64 };
    if sums_bytes < least {
        return too_small("the sums (bytes)", sums_bytes, least);
    }
    let mut args = vec![
        Arg::U32(part.rows as u32),
        Arg::U32(part.columns as u32),
        Arg::U32(part.grain as u32),
        Arg::U32(part.stride as u32),
        Arg::U32(part.own as u32),
        Arg::U32(part.unless.map_or(0, |at| at as u32 + 1)),
        Arg::U32(part.width as u32),
        Arg::U32(program.count),
        Arg::U32(program.sums.len() as u32),
        Arg::U32(program.assignments.len() as u32),
        Arg::Read(part.numbers, 8 * (part.columns * part.stride) as u64),
        part.sums.map_or(NOTHING, |(at, bytes)| Arg::Update(at, bytes)),
    ];
    let padded = |len: usize, most: usize| most - len;
    let words = program.assignments.iter().chain(&program.sums);
    args.extend(words.clone().map(|&word| Arg::U32(word)));
    args.extend(std::iter::repeat_n(Arg::U32(0), padded(words.count(), WORDS)));
    args.extend(program.constants.iter().map(|&value| Arg::F64(value)));
    args.extend(std::iter::repeat_n(Arg::F64(0.0), padded(program.constants.len(), CONSTANTS)));
    args.extend(part.read.iter().map(|&(at, bytes)| Arg::Read(at, bytes)));
    args.extend(part.updated.iter().map(|&(at, bytes)| Arg::Update(at, bytes)));
    args.extend(std::iter::repeat_n(NOTHING, padded(vectors, VECTORS)));
    let grid = [(grains as u32).div_ceil(GRAINS).max(1), part.columns as u32, 1];
    Ok(Launch { kernel: KERNEL, grid, block: [GRAINS * LANES, 1, 1], args })
}

/// An array that nobody looks at.
const NOTHING: Arg = Arg::Read(Address(0), 0);
