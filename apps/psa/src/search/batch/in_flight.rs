//! Batches in flight, and their answers.

use std::collections::VecDeque;

use zellige_runtime::{Handle, Runtime, TaskRef};

use crate::Error;

/// Tickets of a batch's hits, and the answers for all of them.
pub(super) type Answered<T, A> = (Vec<T>, Vec<A>);

/// Batches in flight, the oldest first.
pub(super) struct Batches<'rt, T, A: Copy + Send + Sync + 'static> {
    pub rt: &'rt Runtime,
    running: VecDeque<Batch<T, A>>,
}

struct Batch<T, A: Copy + Send + Sync + 'static> {
    task: TaskRef,
    tickets: Vec<T>,
    answers: Handle<Vec<A>>,
}

impl<'rt, T, A: Copy + Send + Sync + 'static> Batches<'rt, T, A> {
    pub fn new(rt: &'rt Runtime) -> Self {
        Batches { rt, running: VecDeque::new() }
    }

    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Adds a task that writes the answers for the hits with these tickets.
    pub fn add(&mut self, task: TaskRef, tickets: Vec<T>, answers: Handle<Vec<A>>) {
        self.running.push_back(Batch { task, tickets, answers });
    }

    /// Waits for the oldest batch; `None` if no batch is in flight.
    pub fn oldest(&mut self) -> Result<Option<Answered<T, A>>, Error> {
        self.running.pop_front().map(|batch| self.answers(batch)).transpose()
    }

    /// Returns the answers of the batches that are done, from the oldest on.
    pub fn done(&mut self) -> Result<Vec<Answered<T, A>>, Error> {
        let mut done = Vec::new();
        while let Some(batch) = self.running.pop_front_if(|batch| batch.task.is_done()) {
            done.push(self.answers(batch)?);
        }
        Ok(done)
    }

    fn answers(&self, batch: Batch<T, A>) -> Result<Answered<T, A>, Error> {
        Ok((batch.tickets, self.rt.take(batch.answers)?))
    }
}
