//! Scalars of Krylov methods.

use zellige_gpu::{Address, Arg};

use super::Launch;
use super::launch::LaunchError;
use super::sell::PARTS;
use crate::formulas::{Formulas, Op, word};

const KERNEL: &str = "zellige_formulas";

/// Limits of the kernel's arguments: operations, constants, sums of all columns, and indices of
/// values, words and sums.
const OPS: usize = 256;
const CONSTANTS: usize = 16;
const TOTALS: usize = 1024;
const INDICES: usize = 1 << 9;
const THREADS: u32 = 128;

/// A program as the kernel reads it.
#[derive(Clone, Debug)]
pub struct EncodedFormulas {
    ops: Vec<u32>,
    constants: Vec<f64>,
    /// The largest index of a word plus one, and the largest index of a sum plus one.
    words: usize,
    sums: usize,
}

impl EncodedFormulas {
    /// Encodes a program for `sums` sums of a reduction block in all columns. Returns `None` if the
    /// program exceeds the limits of the kernel.
    pub fn new(formulas: &Formulas, sums: usize) -> Option<EncodedFormulas> {
        if sums > TOTALS {
            return None;
        }
        let mut encoded =
            EncodedFormulas { ops: Vec::new(), constants: Vec::new(), words: word::OWN, sums: 0 };
        for op in formulas.ops() {
            let [kind, a, b, c] = match *op {
                Op::Constant(value) => [0, encoded.constant(value), 0, 0],
                Op::Word(word) => [1, encoded.word(word), 0, 0],
                Op::Sum(sum) => {
                    encoded.sums = encoded.sums.max(sum + 1);
                    [2, sum, 0, 0]
                }
                Op::Add(a, b) => [3, a, b, 0],
                Op::Subtract(a, b) => [4, a, b, 0],
                Op::Multiply(a, b) => [5, a, b, 0],
                Op::Divide(a, b) => [6, a, b, 0],
                Op::Negate(a) => [7, a, 0, 0],
                Op::Root(a) => [8, a, 0, 0],
                Op::Magnitude(a) => [9, a, 0, 0],
                Op::AtMost(a, b) => [10, a, b, 0],
                Op::Select(which, a, b) => [11, which, a, b],
                Op::Set(word, a) => [12, encoded.word(word), a, 0],
                Op::Begin(a) => [13, a, 0, 0],
                Op::Step(a) => [14, a, 0, 0],
                Op::EndUnlessPositive(a) => [15, a, 0, 0],
            };
            if [a, b, c].iter().any(|operand| *operand >= INDICES) {
                return None;
            }
            encoded.ops.push((kind | a << 5 | b << 14 | c << 23) as u32);
        }
        (encoded.ops.len() <= OPS && encoded.constants.len() <= CONSTANTS).then_some(encoded)
    }

    fn word(&mut self, word: usize) -> usize {
        self.words = self.words.max(word + 1);
        word
    }

    fn constant(&mut self, value: f64) -> usize {
        let known = self.constants.iter().position(|known| known.to_bits() == value.to_bits());
        known.unwrap_or_else(|| {
            self.constants.push(value);
            self.constants.len() - 1
        })
    }
}

/// Data that a program operates on.
#[derive(Clone, Copy, Debug)]
pub struct FormulasAt<'a> {
    /// Number of columns, each with words of its own.
    pub columns: usize,
    /// The words of all columns and their bytes.
    pub numbers: (Address, u64),
    /// Number of sums of a reduction block and column.
    pub width: usize,
    /// The sums of each part, `[grain][column][width]`, and their bytes. Contiguous parts may be
    /// passed as one part.
    pub sums: &'a [(Address, u64)],
}

/// Returns the launch of a program for each column that is not done. Its results are bitwise equal
/// to those of [`Formulas::run`].
///
/// # Errors
/// [`LaunchError`] for more parts or sums than the kernel takes, and for fewer words or sums than
/// the program reads.
pub fn formulas_task(program: &EncodedFormulas, at: &FormulasAt<'_>) -> Result<Launch, LaunchError> {
    let too_large = |what, got: usize, most: usize| {
        Err(LaunchError::TooLarge { kernel: KERNEL, what, got: got as u64, most: most as u64 })
    };
    let too_small = |what, got: usize, least: usize| {
        Err(LaunchError::TooSmall { kernel: KERNEL, what, got: got as u64, least: least as u64 })
    };
    let of_grain = at.columns * at.width;
    if at.sums.len() > PARTS {
        return too_large("the number of parts", at.sums.len(), PARTS);
    }
    if of_grain > TOTALS {
        return too_large("the number of sums", of_grain, TOTALS);
    }
    let (numbers, bytes) = at.numbers;
    let stride = (bytes as usize / size_of::<f64>()).checked_div(at.columns).unwrap_or(0);
    if stride < program.words {
        return too_small("the number of words of a column", stride, program.words);
    }
    if at.width < program.sums {
        return too_small("the number of sums", at.width, program.sums);
    }
    let padded = |len: usize, most: usize| most - len;
    let mut args: Vec<Arg> =
        [at.columns, stride, at.width, program.ops.len()].iter().map(|&size| Arg::U32(size as u32)).collect();
    args.push(Arg::Update(numbers, bytes));
    args.extend(program.ops.iter().map(|&word| Arg::U32(word)));
    args.extend(std::iter::repeat_n(Arg::U32(0), padded(program.ops.len(), OPS)));
    args.extend(program.constants.iter().map(|&value| Arg::F64(value)));
    args.extend(std::iter::repeat_n(Arg::F64(0.0), padded(program.constants.len(), CONSTANTS)));
    args.extend(at.sums.iter().map(|&(sums, bytes)| Arg::Read(sums, bytes)));
    args.extend(std::iter::repeat_n(Arg::Read(Address(0), 0), padded(at.sums.len(), PARTS)));
    let grains = |&(_, bytes): &(Address, u64)| bytes as usize / size_of::<f64>() / of_grain.max(1);
    args.extend(at.sums.iter().map(|part| Arg::U32(grains(part) as u32)));
    args.extend(std::iter::repeat_n(Arg::U32(0), padded(at.sums.len(), PARTS)));
    Ok(Launch { kernel: KERNEL, grid: [1; 3], block: [THREADS, 1, 1], args })
}
