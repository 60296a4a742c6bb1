//! Vectors of one length, cut into stretches that tasks work on side by side.

use std::borrow::Cow;
use std::ops::Range;

use zellige_runtime::data::{Chunk, ChunkRef};
use zellige_runtime::{Data, Handle, List, Runtime, Submit};

use crate::error::Error;

/// Elements of which products are summed by themselves: partial sums are combined in one order, whatever the stretches are and whoever
/// computes them, so that every sum has the same bits on any number of workers.
pub const GRAIN: usize = 4096;

/// Stretches begin at multiples of this: whole blocks of 1, 2, 3, 4 and 6, and whole lines of a cache.
const STEP: usize = 48;

/// A stretch has about so many bytes of a matrix at least, and so many rows: a task should take much longer than starting it.
const LEAST_BYTES: u64 = 3 << 18;
const LEAST_ROWS: usize = 768;

/// Stretches that are enough for any number of workers this is meant for.
pub(crate) const MOST: usize = 64;

/// Where vectors of one length are cut, and a matrix with as many rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The first element of each stretch, and the length.
    cuts: Vec<usize>,
}

impl Space {
    /// Stretches of one length, but for the last, for a matrix of this many rows and bytes: at least about 768 kB of it each, 63 at most. A small one is one
    /// stretch.
    pub fn new(rows: usize, bytes: u64) -> Space {
        let wanted = usize::try_from(bytes / LEAST_BYTES).unwrap_or(MOST).min(rows / LEAST_ROWS);
        // An odd number: one is in the middle, where what begins at both ends meets.
        let count = if wanted < 2 { 1 } else { (wanted | 1).min(MOST - 1) };
        // On a GPU all but the last are of one length.
        let step = rows.div_ceil(count).next_multiple_of(STEP).max(STEP);
        Space { cuts: (0..rows).step_by(step).chain([rows]).collect() }
    }

    /// That of vectors that hold `count` vectors of this one, stretch by stretch.
    pub(crate) fn times(&self, count: usize) -> Space {
        Space { cuts: self.cuts.iter().map(|cut| count * cut).collect() }
    }

    /// The length of its vectors.
    #[allow(clippy::len_without_is_empty)] // a space without elements is none
    pub fn len(&self) -> usize {
        self.cuts[self.cuts.len() - 1]
    }

    /// Bytes of so many of its vectors.
    pub fn bytes(&self, vectors: usize) -> u64 {
        (size_of::<f64>() * self.len() * vectors) as u64
    }

    /// How many stretches there are.
    pub fn stretches(&self) -> usize {
        self.cuts.len() - 1
    }

    /// The elements of stretch `i`.
    ///
    /// # Panics
    /// If `i >= stretches()`.
    pub fn range(&self, i: usize) -> Range<usize> {
        self.cuts[i]..self.cuts[i + 1]
    }

    /// The elements of each stretch.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> {
        self.cuts.windows(2).map(|ends| ends[0]..ends[1])
    }

    /// The stretches that have some of these elements.
    pub fn covering(&self, elements: Range<usize>) -> Range<usize> {
        if elements.is_empty() {
            return 0..0;
        }
        let of = |element: usize| self.cuts.partition_point(|&start| start <= element) - 1;
        of(elements.start)..of(elements.end - 1) + 1
    }

    /// The first element of some stretches; 0 if there are none.
    pub fn first_of(&self, stretches: &Range<usize>) -> usize {
        if stretches.is_empty() { 0 } else { self.cuts[stretches.start] }
    }

    /// A vector of zeros.
    pub fn zeros(&self, target: &impl Submit) -> Vector {
        self.vector(target, vec![0.0; self.len()])
    }

    /// Gives a vector's stretches handles.
    ///
    /// # Panics
    /// If it has another length.
    pub fn vector(&self, target: &impl Submit, elements: Vec<f64>) -> Vector {
        assert_eq!(elements.len(), self.len(), "a vector of another space");
        let inner = &self.cuts[1..self.stretches()];
        let stretches = Chunk::cut(elements, inner).into_iter().map(|stretch| target.register(stretch));
        Vector { stretches: stretches.collect() }
    }
}

/// A vector of a [`Space`]: one handle for each stretch.
#[derive(Debug)]
pub struct Vector {
    stretches: Vec<Handle<Chunk<f64>>>,
}

impl Vector {
    /// The handles.
    pub fn stretches(&self) -> &[Handle<Chunk<f64>>] {
        &self.stretches
    }

    /// Copies the elements out, after every task on them that has been submitted.
    ///
    /// # Errors
    /// What went wrong in those tasks.
    ///
    /// # Panics
    /// If `to` has another length.
    pub fn copy_to(&self, rt: &Runtime, to: &mut [f64]) -> Result<(), Error> {
        let mut rest = to;
        for handle in &self.stretches {
            let stretch = rt.read(handle)?;
            let stretch = stretch.view();
            let (here, behind) = rest.split_at_mut(stretch.len());
            here.copy_from_slice(&stretch);
            rest = behind;
        }
        assert!(rest.is_empty(), "a vector of another space");
        Ok(())
    }

    /// Overwrites the elements, after every task on them that has been submitted.
    ///
    /// # Errors
    /// What went wrong in those tasks.
    ///
    /// # Panics
    /// If `from` has another length.
    pub fn copy_from(&self, rt: &Runtime, from: &[f64]) -> Result<(), Error> {
        let mut rest = from;
        for handle in &self.stretches {
            let mut stretch = rt.write(handle)?;
            let stretch = stretch.view_mut();
            let (here, behind) = rest.split_at(stretch.len());
            stretch.copy_from_slice(here);
            rest = behind;
        }
        assert!(rest.is_empty(), "a vector of another space");
        Ok(())
    }
}

/// Neighbouring stretches as one slice: as they lie, or a copy where a device has them in memory of its own.
pub fn joined<'v>(stretches: List<'v, Chunk<f64>>) -> Cow<'v, [f64]> {
    match ChunkRef::joined(stretches.iter()) {
        Some(slice) => Cow::Borrowed(slice),
        None => stretches.iter().flat_map(ChunkRef::slice).copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_matrices_are_one_stretch() {
        for rows in [1, 100, 2 * LEAST_ROWS - 1] {
            assert_eq!(Space::new(rows, 1 << 30).stretches(), 1);
        }
        assert_eq!(Space::new(1_000_000, LEAST_BYTES).stretches(), 1);
    }

    #[test]
    fn stretches_cover_every_element_once() {
        let space = Space::new(3_179_000, 278 << 20);
        assert!(space.stretches() <= MOST && space.stretches() > MOST / 2);
        assert_eq!(space.ranges().map(|range| range.len()).sum::<usize>(), 3_179_000);
        assert!(space.ranges().all(|range| range.start % STEP == 0));
        let last = space.range(space.stretches() - 1).len();
        assert!(last <= space.range(0).len() && last > space.range(0).len() / 2);
        for range in [0..1, 40_000..90_000, 3_178_999..3_179_000] {
            let covering = space.covering(range.clone());
            assert!(space.range(covering.start).contains(&range.start));
            assert!(space.range(covering.end - 1).contains(&(range.end - 1)));
        }
        assert_eq!(space.covering(7..7), 0..0);
    }

    #[test]
    fn vectors_come_back_as_they_went() -> Result<(), Error> {
        let (rt, space) = (Runtime::new()?, Space::new(5 * LEAST_ROWS + 5, 100 << 20));
        let mut elements: Vec<f64> = (0..space.len()).map(|i| i as f64).collect();
        let vector = space.vector(&rt, elements.clone());
        assert_eq!(vector.stretches().len(), 5);
        let mut back = vec![0.0; space.len()];
        vector.copy_to(&rt, &mut back)?;
        assert_eq!(back, elements);
        elements.reverse();
        vector.copy_from(&rt, &elements)?;
        vector.copy_to(&rt, &mut back)?;
        assert_eq!(back, elements);
        Ok(())
    }
}
