//! Which implementation of a codelet a task runs, and with how many others.

use std::cmp::Reverse;
use std::time::Duration;

use super::{Body, Codelet, Header};
use crate::exec::Shared;
use crate::operand::{Accesses, Mode, Operands};

/// The ways in which a task can be run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ways {
    /// The names of the codelet's implementations; empty where there is one.
    pub(crate) implementations: &'static [&'static str],
    /// The most tasks that one call takes; 0 or 1: it runs alone.
    pub(crate) batch: u32,
    /// The same on GPUs, by a function of its own.
    pub(crate) batch_on_gpus: u32,
    /// It has an implementation for GPUs.
    pub(crate) cuda: bool,
    /// It counts on what tasks before it do at their ends.
    pub(crate) needs_ends: bool,
}

impl Ways {
    pub(crate) fn of<C: Codelet>(codelet: &C, operands: &C::Operands) -> Self {
        let several = C::IMPLEMENTATIONS.len() > 1;
        let implementations = if several { C::IMPLEMENTATIONS } else { &[] };
        let most = |most: usize, may: bool| match most {
            2.. if may && !runs_alone(codelet, operands) => u32::try_from(most).unwrap_or(u32::MAX),
            _ => 0,
        };
        let (batch, cuda) = (most(codelet.batch(), true), codelet.has_cuda());
        let batch_on_gpus = most(codelet.batch_on_gpus(), cuda && !several);
        Ways { implementations, batch, batch_on_gpus, cuda, needs_ends: codelet.needs_ends() }
    }

    /// The most tasks that are run as one on a worker.
    pub(crate) fn together(&self, on_gpu: bool) -> u32 {
        if on_gpu { self.batch.max(self.batch_on_gpus) } else { self.batch }
    }
}

/// True for operands that tasks have in turns, or that are their worker's own, and for codelets that say by device which of several
/// implementations can run: others of their like may differ.
fn runs_alone<C: Codelet>(codelet: &C, operands: &C::Operands) -> bool {
    let mut accesses = Accesses::new();
    operands.declare(&mut accesses);
    accesses.iter().any(|access| matches!(access.mode, Mode::Commute | Mode::Reduce))
        || (C::IMPLEMENTATIONS.len() > 1 && codelet.is_choosy())
}

impl Shared {
    /// How long a task is expected to take on a worker with one of its implementations (empty: its only one): what the models
    /// know, without models what the user says.
    pub(crate) fn expected_with(&self, header: &Header, name: &str, worker: usize) -> Option<Duration> {
        let Some(models) = &self.models else { return header.info.cost };
        let kind = self.workers[worker].model_kind;
        let id = models.id_of(header.name, &header.info, name);
        models.estimate(id, kind, &header.info, 0).map(|estimate| estimate.time)
    }

    /// How long a task is expected to take on a worker with the fastest implementation that can run there; `None` as long as one of
    /// them is unknown, so that policies which explore send it there.
    pub(crate) fn expected(&self, header: &Header, body: &dyn Body, worker: usize) -> Option<Duration> {
        let names = header.ways.implementations;
        if names.is_empty() || self.models.is_none() {
            return self.expected_with(header, "", worker);
        }
        let device = self.device(worker);
        let choosy = header.only.as_ref().is_some_and(|only| only.choosy);
        let able = (0..names.len()).filter(|&i| !choosy || body.can_execute_with(i, &device));
        let mut fastest = None;
        for implementation in able {
            let time = self.expected_with(header, names[implementation], worker)?;
            fastest = Some(fastest.map_or(time, |least: Duration| least.min(time)));
        }
        fastest
    }

    /// Which of several implementations is to run on a worker, among those that are `able`: the one with the fewest samples while one
    /// has too few, then the fastest; without models the first.
    pub(crate) fn pick(&self, header: &Header, worker: usize, able: impl Fn(usize) -> bool) -> Option<usize> {
        let names = header.ways.implementations;
        let mut able = (0..names.len()).filter(|&i| able(i));
        let Some(models) = &self.models else { return able.next() };
        let kind = self.workers[worker].model_kind;
        able.min_by_key(|&i| {
            let id = models.id_of(header.name, &header.info, names[i]);
            let time = models.known(id, kind).map_or(Duration::MAX, |known| known.time);
            (Reverse(models.needs_exploration(id, kind)), time)
        })
    }
}
