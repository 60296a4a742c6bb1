//! Vector tasks: linear combinations and sums of products, fused.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use zellige_cuda::CUDA;
use zellige_kernels::cuda::VectorProgram;
use zellige_kernels::vectors::LANES;
use zellige_runtime::codelet::DeviceTable;
use zellige_runtime::data::Chunk;
use zellige_runtime::{
    Codelet, Cpu, Handle, Operands, Read, ReadList, Submit, TaskContext, TaskError, Update, reads, updates,
};

use crate::error::Error;
use crate::gpu;
use crate::method::grains::finish;
use crate::numbers::{Numbers, columns_of};
use crate::scalar::Scalar;
use crate::steps::Steps;
use crate::storage::Storage;
use crate::vector::MultiVector;

/// Factor of a term of a linear combination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coefficient<E = f64> {
    /// A constant.
    Constant(E),
    /// One of the method's scalars, by index.
    Number(usize),
    /// The negative of one of the method's scalars, by index.
    Negative(usize),
}

impl<E: Scalar> Coefficient<E> {
    fn of(self, own: impl Fn(usize) -> E) -> E {
        match self {
            Coefficient::Constant(constant) => constant,
            Coefficient::Number(at) => own(at),
            Coefficient::Negative(at) => -own(at),
        }
    }
}

/// Returns the term `scalars[at] * v`.
pub fn plus<E: Scalar>(at: usize, v: &MultiVector<E>) -> Term<E> {
    Term::new(Coefficient::Number(at), v)
}

/// Returns the term `-scalars[at] * v`.
pub fn minus<E: Scalar>(at: usize, v: &MultiVector<E>) -> Term<E> {
    Term::new(Coefficient::Negative(at), v)
}

/// Returns the term `constant * v`.
pub fn times<E: Scalar>(constant: f64, v: &MultiVector<E>) -> Term<E> {
    Term::new(Coefficient::Constant(E::from_real(constant)), v)
}

/// A term of a linear combination.
#[derive(Clone, Debug)]
pub struct Term<E: Scalar> {
    coefficient: Coefficient<E>,
    diagonal: Option<MultiVector<E>>,
    v: MultiVector<E>,
}

impl<E: Scalar> Term<E> {
    /// Creates the term `coefficient * v`.
    pub fn new(coefficient: Coefficient<E>, v: &MultiVector<E>) -> Self {
        Term { coefficient, diagonal: None, v: v.clone() }
    }

    /// Multiplies the term by a diagonal matrix, a vector of one column: `(coefficient *
    /// diagonal_i) * v_i`.
    #[must_use]
    pub fn scaled_by(self, diagonal: &MultiVector<E>) -> Self {
        Term { diagonal: Some(diagonal.clone()), ..self }
    }
}

/// Builder of a vector task; [`submit`](VectorTask::submit) records it for each part.
///
/// The task executes its operations in this order for some rows at a time, which stay in the
/// nearest cache.
#[must_use = "a task that is not submitted does nothing"]
pub struct VectorTask<'s, 'g, E: Scalar> {
    steps: &'s Steps<'g, E>,
    name: &'static str,
    assignments: Vec<(MultiVector<E>, Vec<Term<E>>)>,
    dots: Vec<(MultiVector<E>, MultiVector<E>, usize)>,
    changes: Vec<(MultiVector<E>, usize)>,
    unless: Option<usize>,
}

impl<'s, 'g, E: Scalar> VectorTask<'s, 'g, E> {
    pub(crate) fn new(steps: &'s Steps<'g, E>, name: &'static str) -> Self {
        let (assignments, dots, changes) = Default::default();
        VectorTask { steps, name, assignments, dots, changes, unless: None }
    }

    /// Skips also the columns for which one of the method's scalars, by index, is not zero.
    pub fn unless(self, at: usize) -> Self {
        VectorTask { unless: Some(at), ..self }
    }

    /// Adds `y = sum of the terms`, from left to right; `y` may be among them. No terms: `y = 0`.
    ///
    /// # Panics
    /// For more than three terms.
    pub fn assign<const N: usize>(mut self, y: &MultiVector<E>, terms: [Term<E>; N]) -> Self {
        assert!(N <= MOST_TERMS, "{N} terms: {MOST_TERMS} at most");
        self.assignments.push((y.clone(), terms.into()));
        self
    }

    /// Adds `y += term`.
    pub fn add(self, y: &MultiVector<E>, term: Term<E>) -> Self {
        self.assign(y, [times(1.0, y), term])
    }

    /// Adds `y = x`.
    pub fn copy(self, y: &MultiVector<E>, x: &MultiVector<E>) -> Self {
        self.assign(y, [times(1.0, x)])
    }

    /// Sets sum `at` to `conj(x) . y`, after the assignments.
    pub fn dot(mut self, x: &MultiVector<E>, y: &MultiVector<E>, at: usize) -> Self {
        self.dots.push((x.clone(), y.clone(), at));
        self
    }

    /// Sets sum `at` to `conj(y) . (y - y_old)` for a vector that is assigned to; `y_old` is its
    /// value before.
    pub fn dot_change(mut self, y: &MultiVector<E>, at: usize) -> Self {
        self.changes.push((y.clone(), at));
        self
    }

    /// Records the task.
    ///
    /// # Errors
    /// Those of submission.
    ///
    /// # Panics
    /// If a vector has another number of parts than the space or other columns than the method, and
    /// for sums if the steps have none.
    pub fn submit(self) -> Result<(), Error> {
        let VectorTask { steps, name, assignments, dots, changes, unless } = self;
        let columns = steps.columns();
        let mut vectors = Vectors { parts: steps.space().parts(), updated: Vec::new(), read: Vec::new() };
        // The updated vectors are known once all assignments are.
        assignments.iter().for_each(|(y, _)| add_once(&mut vectors.updated, y));
        let mut placed = Vec::with_capacity(assignments.len());
        for (y, terms) in &assignments {
            let term = |term: &Term<E>| PlacedTerm {
                coefficient: term.coefficient,
                diagonal: term.diagonal.as_ref().map(|diagonal| vectors.place(diagonal, 1)),
                v: vectors.place(&term.v, columns),
            };
            let terms = terms.iter().map(term).collect();
            let target = vectors.updated.iter().position(|one| one.is(y)).expect("it was added");
            placed.push(Assignment { target, terms });
        }
        let dot = |(x, y, at): &(MultiVector<E>, MultiVector<E>, usize)| Dot {
            x: vectors.place(x, columns),
            with: With::Vector(vectors.place(y, columns)),
            at: *at,
        };
        let mut dots: Vec<Dot> = dots.iter().map(dot).collect();
        dots.extend(changes.iter().enumerate().map(|(change, (y, at))| Dot {
            x: vectors.place(y, columns),
            with: With::Change(change),
            at: *at,
        }));
        let of_updated = |(y, _): &(MultiVector<E>, usize)| {
            vectors.updated.iter().position(|one| one.is(y)).expect("a vector that is assigned to")
        };
        let changes: Vec<usize> = changes.iter().map(of_updated).collect();
        let width = if dots.is_empty() { 0 } else { steps.sums().width() };
        let [read, updated] = [&vectors.read, &vectors.updated].map(|vectors| operands(vectors));
        let program = Program {
            columns,
            block_rows: (AT_ONCE / columns / steps.space().multiple()).max(1) * steps.space().multiple(),
            grain: steps.space().grain(),
            read,
            updated,
            assignments: placed,
            dots,
            changes,
            width,
            unless,
            of_kernel: None,
        };
        let program = Arc::new(Program { of_kernel: gpu::program_of(&program), ..program });
        let parts: Vec<usize> = steps.space().ranges().map(|range| range.len()).collect();
        let at_once = if program.goes_at_once(steps) { parts.len().max(1) } else { 1 };
        for (i, rows) in parts.chunks(at_once).enumerate() {
            let here = i * at_once..i * at_once + rows.len();
            let of = |vectors: &'_ [MultiVector<E>]| -> Vec<Handle<Chunk<f64>>> {
                here.clone().flat_map(|part| vectors.iter().map(move |v| v.parts()[part].clone())).collect()
            };
            let sums = here.clone().filter(|_| width > 0).map(|part| steps.sums().of(part));
            let operands = (
                steps.numbers().read(),
                reads(&of(&vectors.read)),
                updates(&of(&vectors.updated)),
                sums.collect::<Vec<_>>(),
            );
            let task = Task { name, rows: rows.into(), program: Arc::clone(&program) };
            steps.graph().codelet(task, operands).coords([i as u32]).submit()?;
        }
        Ok(())
    }
}

/// The vectors of a task, each once.
struct Vectors<E: Scalar> {
    /// Number of parts of each vector.
    parts: usize,
    updated: Vec<MultiVector<E>>,
    read: Vec<MultiVector<E>>,
}

impl<E: Scalar> Vectors<E> {
    /// Returns the place of a vector of `columns` columns among those that are updated or read.
    fn place(&mut self, v: &MultiVector<E>, columns: usize) -> Place {
        assert_eq!(v.parts().len(), self.parts, "a vector of another space");
        assert_eq!(v.columns(), columns, "a vector of other columns");
        if let Some(at) = self.updated.iter().position(|one| one.is(v)) {
            return Place::Updated(at);
        }
        add_once(&mut self.read, v);
        Place::Read(self.read.iter().position(|one| one.is(v)).expect("it was added"))
    }
}

fn add_once<E: Scalar>(vectors: &mut Vec<MultiVector<E>>, v: &MultiVector<E>) {
    if !vectors.iter().any(|one| one.is(v)) {
        vectors.push(v.clone());
    }
}

fn operands<E: Scalar>(vectors: &[MultiVector<E>]) -> Vec<Operand<E>> {
    vectors.iter().map(|v| Operand { columns: v.columns(), storage: Arc::clone(v.storage()) }).collect()
}

/// Place of an operand among those of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Read(usize),
    Updated(usize),
}

#[derive(Debug)]
pub(crate) struct PlacedTerm<E> {
    pub(crate) coefficient: Coefficient<E>,
    pub(crate) diagonal: Option<Place>,
    pub(crate) v: Place,
}

#[derive(Debug)]
pub(crate) struct Assignment<E> {
    pub(crate) target: usize,
    pub(crate) terms: Vec<PlacedTerm<E>>,
}

#[derive(Debug)]
pub(crate) struct Dot {
    pub(crate) x: Place,
    pub(crate) with: With,
    pub(crate) at: usize,
}

/// Second factor of a dot product.
#[derive(Clone, Copy, Debug)]
pub(crate) enum With {
    Vector(Place),
    /// The change of the vector, by its index among all changes.
    Change(usize),
}

#[derive(Debug)]
pub(crate) struct Operand<E: Scalar> {
    columns: usize,
    pub(crate) storage: Arc<dyn Storage<E>>,
}

impl<E: Scalar> Operand<E> {
    /// Returns numbers `at`, borrowed from plain storage or decoded into a buffer.
    fn decoded<'b>(&self, words: &'b [f64], at: Range<usize>, buffer: &'b mut [E]) -> &'b [E] {
        if self.storage.is_plain() {
            return &E::of_words(words)[at];
        }
        self.storage.decode(words, at.start, buffer);
        buffer
    }
}

/// Operations of a vector task on a part.
#[derive(Debug)]
pub(crate) struct Program<E: Scalar> {
    pub(crate) columns: usize,
    /// Rows of a block: whole groups of lanes, and of rows that are encoded as a group.
    block_rows: usize,
    /// Rows of a reduction block.
    pub(crate) grain: usize,
    pub(crate) read: Vec<Operand<E>>,
    pub(crate) updated: Vec<Operand<E>>,
    pub(crate) assignments: Vec<Assignment<E>>,
    pub(crate) dots: Vec<Dot>,
    /// Vectors whose change is needed, by their index among the updated ones.
    changes: Vec<usize>,
    /// Sums of a reduction block and column.
    pub(crate) width: usize,
    /// A scalar that is zero for the columns that are worked on.
    pub(crate) unless: Option<usize>,
    /// The program for GPUs, if they support it.
    pub(crate) of_kernel: Option<VectorProgram>,
}

/// A vector task for one part, or for several.
pub(crate) struct Task<E: Scalar> {
    name: &'static str,
    /// Rows of each part.
    pub(crate) rows: SmallVec<[usize; 1]>,
    pub(crate) program: Arc<Program<E>>,
}

impl<E: Scalar> Codelet for Task<E> {
    /// The method's numbers, vectors that are read, vectors that are updated, and the sums, if
    /// there are any: part after part.
    type Operands = (Read<Vec<f64>>, ReadList<Chunk<f64>>, Vec<Update<Chunk<f64>>>, Vec<Update<Vec<f64>>>);

    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu(
        &self,
        (numbers, read, updated, sums): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let program = &*self.program;
        let active = program.active(numbers);
        if !active.contains(&true) {
            return Ok(());
        }
        let read: SmallVec<[&[f64]; 8]> = read.iter().map(|part| part.slice()).collect();
        let (mut updated, mut sums) = (updated, sums.into_iter());
        let (of_read, of_updated) = (program.read.len(), program.updated.len());
        SCRATCH.with_borrow_mut(|scratch| {
            for (part, &rows) in self.rows.iter().enumerate() {
                let read = &read[part * of_read..][..of_read];
                let updated = &mut updated[part * of_updated..][..of_updated];
                program.run(rows, numbers, &active, read, updated, sums.next(), scratch);
            }
        });
        Ok(())
    }

    /// Reads nothing that is known at the ends of other tasks.
    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        if self.program.of_kernel.is_some() {
            table.add(*CUDA, Self::cuda);
        }
    }
}

thread_local! {
    /// Buffers of a worker's vector tasks, which are made once.
    static SCRATCH: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}

/// Numbers of a vector that are processed at a time: all vectors of a task stay in the nearest
/// cache.
const AT_ONCE: usize = 512;

/// Terms of an assignment at most, and buffers for it: one more, for the columns that stay as they
/// are.
const MOST_TERMS: usize = 3;
const TERM_BUFFERS: usize = MOST_TERMS + 1;

/// Buffers of a task.
struct Buffers<'s, E> {
    /// Buffer for decoded vectors: those that are read, then those that are updated.
    decoded: &'s mut [E],
    /// Buffer for terms that are not a vector in plain storage.
    terms: &'s mut [E],
    /// Buffer for the previous values of vectors.
    changes: &'s mut [E],
    /// For each assignment and term, the coefficient for each column; then the factor of its
    /// diagonal.
    coefficients: &'s mut [E],
    scales: &'s mut [E],
    /// For each dot product, the sums of the lanes.
    lanes: &'s mut [E],
    /// Length of a block.
    len: usize,
}

impl<E: Scalar> Program<E> {
    /// Returns true if a single task is to process all parts.
    fn goes_at_once(&self, steps: &Steps<'_, E>) -> bool {
        let of = |operands: &[Operand<E>]| operands.iter().map(|one| one.columns).sum::<usize>();
        let bytes = steps.space().bytes(of(&self.read) + of(&self.updated));
        self.of_kernel.is_some() && steps.executor().goes_at_once(bytes)
    }

    fn buffers<'s>(&self, scratch: &'s mut Vec<f64>) -> Buffers<'s, E> {
        let len = self.block_rows * self.columns;
        let coefficients = self.assignments.iter().map(|one| one.terms.len()).sum::<usize>() * self.columns;
        let sizes = [
            (self.read.len() + self.updated.len()) * len,
            TERM_BUFFERS * len,
            self.changes.len() * len,
            coefficients,
            coefficients,
            self.dots.len() * LANES * self.columns,
        ];
        let words = sizes.iter().sum::<usize>() * E::WORDS;
        if scratch.len() < words {
            scratch.resize(words, 0.0);
        }
        let mut rest = E::of_words_mut(&mut scratch[..words]);
        let [decoded, terms, changes, coefficients, scales, lanes] = sizes.map(|size| {
            let (one, others) = std::mem::take(&mut rest).split_at_mut(size);
            rest = others;
            one
        });
        Buffers { decoded, terms, changes, coefficients, scales, lanes, len }
    }

    fn run(
        &self,
        rows: usize,
        numbers: &[f64],
        active: &[bool],
        read: &[&[f64]],
        updated: &mut [&mut [f64]],
        sums: Option<&mut [f64]>,
        scratch: &mut Vec<f64>,
    ) {
        let mut buffers = self.buffers(scratch);
        self.resolve(numbers, &mut buffers);
        let mut sums = sums.map(E::of_words_mut);
        for (grain, start) in (0..rows).step_by(self.grain).enumerate() {
            let end = rows.min(start + self.grain);
            buffers.lanes.fill(E::default());
            for first in (start..end).step_by(self.block_rows) {
                let block = first..end.min(first + self.block_rows);
                let is_last = block.end == end;
                self.block(block, is_last, (read, &mut *updated), active, &mut buffers);
            }
            if let Some(sums) = &mut sums {
                self.store_sums(sums, grain, active, buffers.lanes);
            }
        }
    }

    /// Returns the columns that are processed.
    fn active(&self, numbers: &[f64]) -> SmallVec<[bool; 8]> {
        let is_open = |at: usize, numbers: &Numbers<E, &[f64]>| numbers[at] == E::default();
        columns_of::<E>(numbers, self.columns)
            .map(|one| !one.is_done() && self.unless.is_none_or(|at| is_open(at, &one)))
            .collect()
    }

    /// Computes the coefficients of all terms. The coefficient of a term with a diagonal is applied
    /// when the term is computed, so 1 remains.
    fn resolve(&self, numbers: &[f64], buffers: &mut Buffers<'_, E>) {
        let terms = self.assignments.iter().flat_map(|assignment| &assignment.terms);
        for (t, term) in terms.enumerate() {
            for (c, numbers) in columns_of::<E>(numbers, self.columns).enumerate() {
                let (at, coefficient) = (t * self.columns + c, term.coefficient.of(|at| numbers[at]));
                buffers.scales[at] = coefficient;
                let is_made = term.diagonal.is_some();
                buffers.coefficients[at] = if is_made { E::from_real(1.0) } else { coefficient };
            }
        }
    }

    fn store_sums(&self, sums: &mut [E], grain: usize, active: &[bool], lanes: &[E]) {
        let of_grain = &mut sums[grain * self.columns * self.width..][..self.columns * self.width];
        for (dot, lanes) in self.dots.iter().zip(lanes.chunks_exact(LANES * self.columns)) {
            for c in (0..self.columns).filter(|c| active[*c]) {
                of_grain[c * self.width + dot.at] = lanes[c];
            }
        }
    }

    /// Executes all operations for some rows, the last of a reduction block or not.
    fn block(
        &self,
        rows: Range<usize>,
        is_last: bool,
        (read, updated): (&[&[f64]], &mut [&mut [f64]]),
        active: &[bool],
        buffers: &mut Buffers<'_, E>,
    ) {
        let (of_read, of_updated) = buffers.decoded.split_at_mut(read.len() * buffers.len);
        let mut decoded: SmallVec<[&[E]; 8]> = SmallVec::new();
        let mut of_read = of_read.chunks_exact_mut(buffers.len);
        for (words, operand) in read.iter().zip(&self.read) {
            let at = rows.start * operand.columns..rows.end * operand.columns;
            let buffer = &mut of_read.next().expect("one for each vector")[..at.len()];
            decoded.push(operand.decoded(words, at, buffer));
        }
        let at = rows.start * self.columns..rows.end * self.columns;
        let mut of_updated = of_updated.chunks_exact_mut(buffers.len);
        let mut encoded: SmallVec<[Option<&mut [f64]>; 4]> = SmallVec::new();
        let mut targets: SmallVec<[&mut [E]; 4]> = SmallVec::new();
        for (words, operand) in updated.iter_mut().zip(&self.updated) {
            let buffer = &mut of_updated.next().expect("one for each vector")[..at.len()];
            if operand.storage.is_plain() {
                targets.push(&mut E::of_words_mut(words)[at.clone()]);
                encoded.push(None);
            } else {
                operand.storage.decode(words, at.start, buffer);
                targets.push(buffer);
                encoded.push(Some(words));
            }
        }
        for (buffer, target) in buffers.changes.chunks_exact_mut(buffers.len).zip(&self.changes) {
            buffer[..at.len()].copy_from_slice(targets[*target]);
        }
        let mut first = 0;
        for assignment in &self.assignments {
            let target = assignment.target;
            let y = std::mem::take(&mut targets[target]);
            let (coefficients, scales) = (&*buffers.coefficients, &*buffers.scales);
            let block = Block { read: &decoded, updated: &targets, coefficients, scales, active };
            self.assign(y, first, assignment, &block, buffers.terms);
            // Later assignments and sums use the stored, rounded values.
            if let Some(words) = &mut encoded[target] {
                let storage = &self.updated[target].storage;
                storage.encode(y, at.start, words);
                storage.decode(words, at.start, y);
            }
            targets[target] = y;
            first += assignment.terms.len() * self.columns;
        }
        let of = |place: Place| match place {
            Place::Read(at) => decoded[at],
            Place::Updated(at) => &*targets[at],
        };
        for (buffer, target) in buffers.changes.chunks_exact_mut(buffers.len).zip(&self.changes) {
            buffer.iter_mut().zip(&*targets[*target]).for_each(|(old, new)| *old = *new - *old);
        }
        let of_change = |change: usize| &buffers.changes[change * buffers.len..][..at.len()];
        for (dot, lanes) in self.dots.iter().zip(buffers.lanes.chunks_exact_mut(LANES * self.columns)) {
            let x = of(dot.x);
            let y = match dot.with {
                With::Vector(place) => of(place),
                With::Change(change) => of_change(change),
            };
            let whole = x.len() / lanes.len() * lanes.len();
            E::accumulate(&x[..whole], &y[..whole], lanes);
            if is_last {
                finish(lanes, &x[whole..], &y[whole..]);
            }
        }
    }

    /// Computes `y = sum of the terms`, for the active columns.
    fn assign(&self, y: &mut [E], at: usize, assignment: &Assignment<E>, of: &Block<'_, E>, terms: &mut [E]) {
        let columns = self.columns;
        let mut buffers = terms.chunks_exact_mut(terms.len() / TERM_BUFFERS);
        let kept = &mut buffers.next().expect("one for what stays")[..y.len()];
        let some_are_done = of.active.contains(&false);
        if some_are_done {
            kept.copy_from_slice(y);
        }
        let mut vectors: SmallVec<[Option<&[E]>; MOST_TERMS]> = SmallVec::new();
        for (t, term) in assignment.terms.iter().enumerate() {
            let is_target = term.v == Place::Updated(assignment.target);
            let Some(diagonal) = term.diagonal else {
                vectors.push((!is_target).then(|| of.get(term.v)));
                continue;
            };
            let buffer = &mut buffers.next().expect("one for each term")[..y.len()];
            let scales = &of.scales[at + t * columns..][..columns];
            E::scale_rows(buffer, scales, of.get(diagonal), if is_target { y } else { of.get(term.v) });
            vectors.push(Some(buffer));
        }
        match vectors.len() {
            0 => y.fill(E::default()),
            terms => E::combine(y, columns, &of.coefficients[at..at + terms * columns], &vectors),
        }
        if some_are_done {
            for (i, (y, kept)) in y.iter_mut().zip(kept).enumerate() {
                if !of.active[i % columns] {
                    *y = *kept;
                }
            }
        }
    }
}

/// Input of the assignments of a block.
struct Block<'b, E> {
    read: &'b [&'b [E]],
    updated: &'b [&'b mut [E]],
    /// For each term and column, its coefficient and the factor of its diagonal.
    coefficients: &'b [E],
    scales: &'b [E],
    /// The columns that are not done.
    active: &'b [bool],
}

impl<E> Block<'_, E> {
    fn get(&self, place: Place) -> &[E] {
        match place {
            Place::Read(at) => self.read[at],
            Place::Updated(at) => &*self.updated[at],
        }
    }
}
