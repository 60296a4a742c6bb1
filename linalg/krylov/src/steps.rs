//! Recording the graph of a method's step.

use std::ops::Range;

use zellige_runtime::codelet::Operand;
use zellige_runtime::{Cpu, Handle, Operands, Read, ReadList, Recorder, Submit, Update, reads, update};

use crate::error::Error;
use crate::executor::Executor;
use crate::formulas::{FormulaCodelet, Formulas};
use crate::numbers::{Numbers, NumbersHandle, columns_of, columns_of_mut};
use crate::reduction::total;
use crate::scalar::Scalar;
use crate::space::Space;
use crate::task_scope::TaskScope;

/// The graph of a step that is being recorded: tasks over the parts of vectors, and the scalars
/// that they share.
///
/// Every task reads the method's [`Numbers`]. It does nothing if all columns are done, and vector
/// tasks skip the columns that are done. So steps can be submitted ahead of the host's checks, and
/// bodies need no check of their own.
#[derive(Clone, Copy)]
pub struct Steps<'g, E: Scalar = f64> {
    rt: &'g dyn Executor,
    graph: &'g Recorder,
    space: &'g Space,
    numbers: &'g NumbersHandle<E>,
    sums: Option<&'g Sums<E>>,
}

impl<'g, E: Scalar> Steps<'g, E> {
    /// Records into a graph, without sums.
    pub fn new(
        rt: &'g dyn Executor,
        graph: &'g Recorder,
        space: &'g Space,
        numbers: &'g NumbersHandle<E>,
    ) -> Self {
        Steps { rt, graph, space, numbers, sums: None }
    }

    /// Returns these steps with sums of products.
    #[must_use]
    pub fn with_sums(self, sums: &'g Sums<E>) -> Self {
        Steps { sums: Some(sums), ..self }
    }

    /// Returns these steps over vectors of another space, without sums.
    pub fn on<'s>(&self, space: &'s Space) -> Steps<'s, E>
    where
        'g: 's,
    {
        Steps { space, sums: None, ..*self }
    }

    /// Returns these steps with other numbers, which decide whether tasks are active.
    pub fn by<'s>(&self, numbers: &'s NumbersHandle<E>) -> Steps<'s, E>
    where
        'g: 's,
    {
        Steps { numbers, ..*self }
    }

    /// Returns the executor of the graph; an operator registers its own vectors there.
    pub fn executor(&self) -> &'g dyn Executor {
        self.rt
    }

    /// Returns the recorder of the tasks.
    pub fn graph(&self) -> &'g Recorder {
        self.graph
    }

    /// Returns the partition of the vectors.
    pub fn space(&self) -> &'g Space {
        self.space
    }

    /// Returns the number of columns of the vectors.
    pub fn columns(&self) -> usize {
        self.numbers.columns()
    }

    /// Returns the method's numbers.
    pub fn numbers(&self) -> &'g NumbersHandle<E> {
        self.numbers
    }

    /// Returns the partial sums.
    ///
    /// # Panics
    /// If there are none.
    pub fn sums(&self) -> &'g Sums<E> {
        self.sums.expect("steps with sums")
    }

    /// Records a task per part: `operands(i)` are those of part `i`. It runs unless all columns are
    /// done.
    ///
    /// # Errors
    /// Those of [`Submit::submit`].
    pub fn each<O, F>(&self, name: &'static str, operands: impl Fn(usize) -> O, body: F) -> Result<(), Error>
    where
        O: Gated,
        F: for<'v> Fn(O::Views<'v, Cpu>) + Copy + Send + Sync + 'static,
    {
        (0..self.space.parts()).try_for_each(|i| self.one(name, i, operands(i), body))
    }

    /// Records a task for part `i`. It runs unless all columns are done.
    ///
    /// # Errors
    /// Those of [`Submit::submit`].
    pub fn one<O, F>(&self, name: &'static str, i: usize, operands: O, body: F) -> Result<(), Error>
    where
        O: Gated,
        F: for<'v> Fn(O::Views<'v, Cpu>) + Send + Sync + 'static,
    {
        let (columns, scope) = (self.columns(), TaskScope::new::<E>());
        let operands = operands.behind(self.numbers.read());
        self.graph
            .task(name)
            .operands(operands)
            .cpu(move |views| {
                let (numbers, views) = O::apart(views);
                if !are_done(numbers, columns) {
                    scope.run(|| body(views));
                }
            })
            .coords([i as u32])
            .submit()?;
        Ok(())
    }

    /// Records a task that adds up the partial sums of each column that is not done, and runs the
    /// formulas that `record` records; also on GPUs, unless there are too many formulas.
    ///
    /// # Errors
    /// Those of [`Submit::submit`].
    pub fn formulas(&self, name: &'static str, record: impl FnOnce(&Formulas<E>)) -> Result<(), Error> {
        let (sums, formulas) = (self.sums(), Formulas::new());
        record(&formulas);
        let task = FormulaCodelet::<E>::new(name, [self.columns(), sums.width], formulas);
        self.graph.codelet(task, (sums.read(self.graph)?, self.numbers.update())).submit()?;
        Ok(())
    }

    /// Records a task that adds up the partial sums of each column that is not done, and changes
    /// its numbers by them.
    ///
    /// # Errors
    /// Those of [`Submit::submit`].
    pub fn update_numbers<F>(&self, name: &'static str, body: F) -> Result<(), Error>
    where
        F: Fn(&[E], &mut Numbers<E, &mut [f64]>) + Send + Sync + 'static,
    {
        let sums = self.sums();
        let (columns, width, scope) = (self.columns(), sums.width, TaskScope::on_all_ranks::<E>());
        self.graph
            .task(name)
            .operands((sums.read(self.graph)?, self.numbers.update()))
            .cpu(move |(partial, words)| {
                let mut totals = vec![E::default(); width];
                for (c, mut numbers) in columns_of_mut(words, columns).enumerate() {
                    if !numbers.is_done() {
                        scope.run(|| {
                            total(partial.iter(), c, columns, &mut totals);
                            body(&totals, &mut numbers);
                        });
                    }
                }
            })
            .submit()?;
        Ok(())
    }

    /// Records a task that adds up the partial sums of each column and uses them to change the
    /// numbers `of` another method, which depends on the numbers here. It runs for columns that are
    /// done, too.
    ///
    /// # Errors
    /// Those of [`Submit::submit`].
    pub fn update_numbers_of<F>(
        &self,
        name: &'static str,
        of: &NumbersHandle<E>,
        body: F,
    ) -> Result<(), Error>
    where
        F: Fn(&[E], &Numbers<E, &[f64]>, &mut Numbers<E, &mut [f64]>) + Send + Sync + 'static,
    {
        let sums = self.sums();
        let (columns, width, scope) = (self.columns(), sums.width, TaskScope::on_all_ranks::<E>());
        self.graph
            .task(name)
            .operands((sums.read(self.graph)?, self.numbers.read(), of.update()))
            .cpu(move |(partial, own, others)| {
                let mut totals = vec![E::default(); width];
                let each = columns_of(own, columns).zip(columns_of_mut(others, columns));
                for (c, (own, mut other)) in each.enumerate() {
                    // The number of replays after the end depends on time.
                    let is_over = own.is_done() && other.is_done();
                    let mut run = || {
                        total(partial.iter(), c, columns, &mut totals);
                        body(&totals, &own, &mut other);
                    };
                    if is_over { run() } else { scope.run(run) }
                }
            })
            .submit()?;
        Ok(())
    }
}

/// Returns true if nothing is left to do for any column, by a method's numbers in the form that a
/// task reads.
pub fn are_done(numbers: &[f64], columns: usize) -> bool {
    columns_of::<f64>(numbers, columns).all(|numbers| numbers.is_done())
}

/// Partial sums of products of vectors: `width` of them for each [reduction
/// block](Space::reduction_rows) and each column.
#[derive(Debug)]
pub struct Sums<E> {
    /// For each part: `[block][column][sum]`.
    partial: Vec<Handle<Vec<f64>>>,
    /// With several ranks: the parts of each, and their concatenated sums, which fit one message.
    of_ranks: Vec<(Range<usize>, Handle<Vec<f64>>)>,
    width: usize,
    scalar: std::marker::PhantomData<E>,
}

impl<E: Scalar> Sums<E> {
    /// Allocates `width` sums over vectors of `columns` columns.
    pub fn new(rt: &dyn Executor, space: &Space, columns: usize, width: usize) -> Self {
        let lens: Vec<usize> = space
            .ranges()
            .map(|rows| rows.len().div_ceil(space.reduction_rows()) * columns * width * E::WORDS)
            .collect();
        let rank_of = |i: usize| space.rank_of(i, rt.ranks());
        let of = |(i, &len): (usize, &usize)| rt.words_on(rank_of(i), vec![0.0; len]);
        let partial = lens.iter().enumerate().map(of).collect();
        let mut of_ranks = Vec::new();
        let mut first = 0;
        while rt.ranks() > 1 && first < lens.len() {
            let len = (first..lens.len()).take_while(|&i| rank_of(i) == rank_of(first)).count();
            let parts = first..first + len;
            let words = vec![0.0; lens[parts.clone()].iter().sum()];
            of_ranks.push((parts, rt.words_on(rank_of(first), words)));
            first += len;
        }
        Sums { partial, of_ranks, width, scalar: std::marker::PhantomData }
    }

    /// Returns the number of sums.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the sums of part `i`, for a task that computes them: `[block][column][sum]`.
    pub fn of(&self, i: usize) -> Update<Vec<f64>> {
        update(&self.partial[i])
    }

    /// Returns the sums of all parts, in their order, for a task that is recorded next.
    pub(crate) fn read(&self, graph: &Recorder) -> Result<ReadList<Vec<f64>>, Error> {
        if self.of_ranks.is_empty() {
            return Ok(reads(&self.partial));
        }
        for (parts, of_rank) in &self.of_ranks {
            graph
                .task("sums.gather")
                .operands((reads(&self.partial[parts.clone()]), update(of_rank)))
                .cpu(|(partial, to)| {
                    let mut to = &mut to[..];
                    for part in partial.iter() {
                        to.split_off_mut(..part.len()).expect("room for all parts").copy_from_slice(part);
                    }
                })
                .submit()?;
        }
        Ok(reads(self.of_ranks.iter().map(|(_, of_rank)| of_rank)))
    }
}

/// Operands of a task that also reads a method's numbers.
pub trait Gated: Operands {
    /// These operands with the numbers in front of them.
    type Behind: Operands;

    /// Puts these operands after the numbers.
    fn behind(self, numbers: Read<Vec<f64>>) -> Self::Behind;

    /// Returns the numbers, and the views of these operands.
    fn apart<'v>(
        views: <Self::Behind as Operands>::Views<'v, Cpu>,
    ) -> (&'v [f64], <Self as Operands>::Views<'v, Cpu>);
}

macro_rules! gated {
    ($($name:ident $at:tt),+) => {
        impl<$($name: Operand),+> Gated for ($($name,)+) {
            type Behind = (Read<Vec<f64>>, $($name,)+);

            fn behind(self, numbers: Read<Vec<f64>>) -> Self::Behind {
                (numbers, $(self.$at,)+)
            }

            #[allow(non_snake_case)]
            fn apart<'v>(
                (numbers, $($name,)+): <Self::Behind as Operands>::Views<'v, Cpu>,
            ) -> (&'v [f64], <Self as Operands>::Views<'v, Cpu>) {
                (numbers, ($($name,)+))
            }
        }
    };
}

gated!(A 0);
gated!(A 0, B 1);
gated!(A 0, B 1, C 2);
gated!(A 0, B 1, C 2, D 3);
gated!(A 0, B 1, C 2, D 3, F 4);
gated!(A 0, B 1, C 2, D 3, F 4, G 5);
