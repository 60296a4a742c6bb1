//! Batches in flight, and their answers as numbers.

use std::collections::VecDeque;

use zellige_runtime::{Handle, Runtime, TaskRef};

use crate::Error;

/// Numbers of a batch's hits, and the answers for all of them.
pub(super) type Answered = (Vec<usize>, Vec<f64>);

/// Batches in flight, the oldest first.
pub(super) struct Batches<'rt> {
    pub rt: &'rt Runtime,
    running: VecDeque<Running>,
}

struct Running {
    task: TaskRef,
    numbers: Vec<usize>,
    answers: Handle<Vec<f64>>,
}

impl<'rt> Batches<'rt> {
    pub fn new(rt: &'rt Runtime) -> Self {
        Batches { rt, running: VecDeque::new() }
    }

    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Adds a task that writes the answers for the hits with these numbers.
    pub fn add(&mut self, task: TaskRef, numbers: Vec<usize>, answers: Handle<Vec<f64>>) {
        self.running.push_back(Running { task, numbers, answers });
    }

    /// Waits for the oldest batch; `None` if no batch is in flight.
    pub fn oldest(&mut self) -> Result<Option<Answered>, Error> {
        self.running.pop_front().map(|running| self.answers(running)).transpose()
    }

    /// Returns the answers of the batches that are done, from the oldest on.
    pub fn done(&mut self) -> Result<Vec<Answered>, Error> {
        let mut done = Vec::new();
        while let Some(running) = self.running.pop_front_if(|running| running.task.is_done()) {
            done.push(self.answers(running)?);
        }
        Ok(done)
    }

    fn answers(&self, running: Running) -> Result<Answered, Error> {
        Ok((running.numbers, self.rt.take(running.answers)?))
    }
}
