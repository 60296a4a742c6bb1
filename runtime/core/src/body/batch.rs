//! Batches: several tasks in one call of their codelet.

use std::sync::Arc;
use std::time::Instant;

use super::typed::{acquire, call_of};
use super::{Codelet, TypedBody};
use crate::error::Cause;
use crate::operand::Operands;
use crate::task::{Body, Choice, Member, Notes, Ran, Site};

/// State of a member so far.
#[derive(Default)]
pub(super) struct Fate {
    pub(super) notes: Notes,
    pub(super) ended: Option<Ran>,
}

/// A batch with a known codelet type.
struct Typed<'b, C: Codelet> {
    members: &'b [Member<'b>],
    bodies: Vec<&'b TypedBody<C>>,
    fates: Vec<Fate>,
}

/// Runs the members, all of which have bodies of type `C`; returns the result of each, and whether
/// its body began.
pub(super) fn run<C: Codelet>(members: &[Member<'_>], site: &mut Site<'_>) -> Vec<(Ran, bool)> {
    let bodies = members.iter().map(typed).collect();
    let fates = members.iter().map(|_| Fate::default()).collect();
    let mut batch = Typed::<C> { members, bodies, fates };
    let mut left = batch.choose(site);
    while let Some(&(_, choice)) = left.first() {
        let (now, later) = left.into_iter().partition(|(_, other)| *other == choice);
        batch.run_alike(now, &choice, site);
        left = later;
    }
    let ended = |fate: Fate| (fate.ended.expect("every member ends"), fate.notes.began);
    batch.fates.into_iter().map(ended).collect()
}

pub(super) fn typed<'b, C: Codelet>(member: &'b Member<'_>) -> &'b TypedBody<C> {
    let body = member.body.as_any().and_then(|any| any.downcast_ref());
    body.expect("tasks that are alike have bodies of one type")
}

impl<'b, C: Codelet> Typed<'b, C> {
    /// Evaluates the deferred selection of each member.
    fn choose(&mut self, site: &mut Site<'_>) -> Vec<(usize, Choice)> {
        let mut chosen = Vec::with_capacity(self.members.len());
        for (at, body) in self.bodies.iter().enumerate() {
            let mut env = site.env(&self.members[at]);
            let (codelet, operands) = body.payload().expect("a task runs once");
            match TypedBody::choice(codelet, operands, &mut env) {
                Ok(choice) => chosen.push((at, choice)),
                Err(refusal) => self.fates[at].ended = Some((*body as &dyn Body).refused(&env, refusal)),
            }
            self.fates[at].notes = env.notes;
        }
        chosen
    }

    /// Runs members with the same choice in one call.
    fn run_alike(&mut self, alike: Vec<(usize, Choice)>, choice: &Choice, site: &mut Site<'_>) {
        let mut held = Vec::with_capacity(alike.len());
        for (at, _) in alike {
            if let Some(operands) = self.acquire(at, choice, site) {
                held.push((at, operands));
            }
        }
        if let Some(&(first, _)) = held.first() {
            let result = self.call(first, &mut held, choice, site);
            self.share_time(first, held.iter().map(|(at, _)| *at), held.len());
            for (at, operands) in held {
                self.end(at, operands, result.clone(), site);
            }
        }
    }

    fn acquire(
        &mut self,
        at: usize,
        choice: &Choice,
        site: &mut Site<'_>,
    ) -> Option<<C::Operands as Operands>::Held> {
        let mut env = site.env(&self.members[at]);
        env.notes = self.fates[at].notes;
        let (_, operands) = self.bodies[at].payload().expect("a task runs once");
        let held = match acquire(operands, &mut env, choice) {
            Ok(held) => Some(held),
            Err(refusal) => {
                self.fates[at].ended = Some((self.bodies[at] as &dyn Body).refused(&env, refusal));
                None
            }
        };
        self.fates[at].notes = env.notes;
        held
    }

    /// Calls the body for all members that hold their operands, in the environment of the first.
    fn call(
        &mut self,
        first: usize,
        held: &mut [(usize, <C::Operands as Operands>::Held)],
        choice: &Choice,
        site: &mut Site<'_>,
    ) -> Result<(), Cause> {
        let mut env = site.env(&self.members[first]);
        env.notes = self.fates[first].notes;
        let (codelet, operands) = self.bodies[first].payload().expect("a task runs once");
        let result = match TypedBody::implementation(codelet, operands, &mut env) {
            Err(error) => Err(Cause::Error(Arc::from(error))),
            Ok(implementation) => {
                let call = call_of::<C>(choice, implementation, held.len());
                match held {
                    [(_, alone)] => env.call(call, |cx| codelet.cpu(C::Operands::views(alone), cx)),
                    _ => {
                        let bodies = &self.bodies;
                        let codelet = |at: usize| &bodies[at].payload().expect("a task runs once").0;
                        let views =
                            held.iter_mut().map(|(at, held)| (codelet(*at), C::Operands::views(held)));
                        let views = views.collect();
                        env.call(call, |cx| C::cpu_batch(views, cx))
                    }
                }
            }
        };
        self.fates[first].notes = env.notes;
        result
    }

    /// Divides the call's time among the members, one after the other: bodies of one worker do not
    /// overlap in traces.
    fn share_time(&mut self, first: usize, all: impl Iterator<Item = usize>, count: usize) {
        let Notes { began, times, implementation, .. } = self.fates[first].notes;
        let share = |nth: usize, (start, end): (Instant, Instant)| {
            let part = end.duration_since(start) / count as u32;
            let from = start + part * nth as u32;
            (from, from + part)
        };
        for (nth, at) in all.enumerate() {
            let notes = &mut self.fates[at].notes;
            (notes.began, notes.implementation, notes.batch) = (began, implementation, count as u32);
            notes.times = times.map(|times| share(nth, times));
        }
    }

    fn end(
        &mut self,
        at: usize,
        held: <C::Operands as Operands>::Held,
        result: Result<(), Cause>,
        site: &mut Site<'_>,
    ) {
        let mut env = site.env(&self.members[at]);
        env.notes = self.fates[at].notes;
        let ran = self.bodies[at].end(&mut env, held, result);
        if env.runner.measures {
            env.runner.services.record(&env, matches!(ran, Ran::Failed(_)));
        }
        self.fates[at].ended = Some(ran);
    }
}
