//! Writing down the graph of a solver's step.

use zellige_runtime::data::Chunk;
use zellige_runtime::{Cpu, Handle, Operands, Read, Recorder, Submit, Update, read, reads, update};

use super::grains;
use super::scalars::Scalars;
use crate::error::Error;
use crate::space::{GRAIN, Space, Vector};

/// The numbers of a solver, in a handle; see [`Scalars`].
pub type ScalarsHandle = Handle<Vec<f64>>;

/// A graph that is being recorded: tasks over stretches of vectors, and what they share.
///
/// Every task of a step reads the solver's numbers, and does nothing where they say that the solver is done: steps can be submitted ahead of what
/// the host knows.
#[derive(Clone, Copy)]
pub struct Steps<'g> {
    graph: &'g Recorder,
    space: &'g Space,
    scalars: &'g ScalarsHandle,
}

impl<'g> Steps<'g> {
    /// Records into a graph.
    pub fn new(graph: &'g Recorder, space: &'g Space, scalars: &'g ScalarsHandle) -> Self {
        Steps { graph, space, scalars }
    }

    /// The same, over vectors of another space.
    pub fn on<'s>(&self, space: &'s Space) -> Steps<'s>
    where
        'g: 's,
    {
        Steps { space, ..*self }
    }

    /// What tasks are recorded into.
    pub fn graph(&self) -> &'g Recorder {
        self.graph
    }

    /// Where vectors are cut.
    pub fn space(&self) -> &'g Space {
        self.space
    }

    /// The solver's numbers.
    pub fn numbers(&self) -> &'g ScalarsHandle {
        self.scalars
    }

    /// The solver's numbers, for a task that reads them.
    pub fn scalars(&self) -> Read<Vec<f64>> {
        read(self.scalars)
    }

    /// Records a task per stretch: `operands(i)` are those of stretch `i`, the solver's numbers among them.
    ///
    /// # Errors
    /// Those of [`Submit::submit`].
    pub fn each<O, F>(&self, name: &'static str, operands: impl Fn(usize) -> O, body: F) -> Result<(), Error>
    where
        O: Operands,
        F: for<'v> Fn(O::Views<'v, Cpu>) + Copy + Send + Sync + 'static,
    {
        for i in 0..self.space.stretches() {
            self.graph.task(name).operands(operands(i)).cpu(body).coords([i as u32]).submit()?;
        }
        Ok(())
    }

    /// Records a task that adds up partial sums and changes the solver's numbers by them.
    ///
    /// # Errors
    /// Those of [`Submit::submit`].
    pub fn combine<F>(&self, name: &'static str, sums: &Sums, body: F) -> Result<(), Error>
    where
        F: Fn(&[f64], &mut Scalars<&mut [f64]>) + Send + Sync + 'static,
    {
        self.graph
            .task(name)
            .operands((reads(&sums.partial), update(&sums.totals), update(self.scalars)))
            .cpu(move |(partial, totals, scalars)| {
                let mut scalars = Scalars::new(scalars);
                if !scalars.is_done() {
                    grains::total(partial.iter(), totals);
                    body(totals, &mut scalars);
                }
            })
            .submit()?;
        Ok(())
    }

    /// Records a task that adds up partial sums and changes numbers of a part of the solver by them. It runs also where the solver is done.
    ///
    /// # Errors
    /// Those of [`Submit::submit`].
    pub fn decide<F>(
        &self,
        name: &'static str,
        sums: &Sums,
        part: &ScalarsHandle,
        body: F,
    ) -> Result<(), Error>
    where
        F: Fn(&[f64], &Scalars<&[f64]>, &mut Scalars<&mut [f64]>) + Send + Sync + 'static,
    {
        let operands = (reads(&sums.partial), update(&sums.totals), self.scalars(), update(part));
        self.graph
            .task(name)
            .operands(operands)
            .cpu(move |(partial, totals, solver, part)| {
                grains::total(partial.iter(), totals);
                body(totals, &Scalars::new(solver), &mut Scalars::new(part));
            })
            .submit()?;
        Ok(())
    }
}

/// Partial sums of products of vectors: `width` of them for each grain.
#[derive(Debug)]
pub struct Sums {
    partial: Vec<Handle<Vec<f64>>>,
    totals: Handle<Vec<f64>>,
}

impl Sums {
    /// Room for `width` sums over vectors of a space.
    pub fn new(target: &impl Submit, space: &Space, width: usize) -> Sums {
        let of_stretch = |range: std::ops::Range<usize>| vec![0.0; range.len().div_ceil(GRAIN) * width];
        Sums {
            partial: space.ranges().map(|range| target.register(of_stretch(range))).collect(),
            totals: target.register(vec![0.0; width]),
        }
    }

    /// Those of stretch `i`, for a task that makes them: `[grain][sum]`.
    pub fn of(&self, i: usize) -> Update<Vec<f64>> {
        update(&self.partial[i])
    }
}

/// Partial sums of several solvers, whose vectors lie in one: `[solver][grain][sum]` for each stretch.
pub(super) struct JointSums {
    partial: Vec<Handle<Vec<f64>>>,
    /// Of each solver.
    totals: Vec<Handle<Vec<f64>>>,
}

impl JointSums {
    /// Sums of a grain.
    pub(super) const WIDTH: usize = 2;

    /// For so many solvers with vectors of a space.
    pub(super) fn new(target: &impl Submit, space: &Space, count: usize) -> JointSums {
        let of_stretch =
            |range: std::ops::Range<usize>| vec![0.0; count * range.len().div_ceil(GRAIN) * Self::WIDTH];
        JointSums {
            partial: space.ranges().map(|range| target.register(of_stretch(range))).collect(),
            totals: (0..count).map(|_| target.register(vec![0.0; Self::WIDTH])).collect(),
        }
    }

    /// Those of stretch `i`, for a task that makes them.
    pub(super) fn of(&self, i: usize) -> Update<Vec<f64>> {
        update(&self.partial[i])
    }

    /// Records for each solver a task that adds up its sums and changes its numbers by them.
    pub(super) fn combine<F>(
        &self,
        graph: &Recorder,
        name: &'static str,
        scalars: &[ScalarsHandle],
        body: F,
    ) -> Result<(), Error>
    where
        F: Fn(&[f64], &mut Scalars<&mut [f64]>) + Copy + Send + Sync + 'static,
    {
        let count = scalars.len();
        for (k, (scalars, totals)) in scalars.iter().zip(&self.totals).enumerate() {
            graph
                .task(name)
                .operands((reads(&self.partial), update(totals), update(scalars)))
                .cpu(move |(partial, totals, scalars)| {
                    let mut scalars = Scalars::new(scalars);
                    if !scalars.is_done() {
                        let own = |sums: &'_ [f64]| sums.len() / count * k..sums.len() / count * (k + 1);
                        grains::total(partial.iter().map(|sums| &sums[own(sums)]), totals);
                        body(totals, &mut scalars);
                    }
                })
                .coords([k as u32])
                .submit()?;
        }
        Ok(())
    }
}

impl Vector {
    /// Chunk `i`, for a task that reads it.
    pub fn read(&self, i: usize) -> Read<Chunk<f64>> {
        read(&self.stretches()[i])
    }

    /// Chunk `i`, for a task that changes it.
    pub fn update(&self, i: usize) -> Update<Chunk<f64>> {
        update(&self.stretches()[i])
    }
}
