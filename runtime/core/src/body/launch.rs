//! Launches of several tasks in one call of their codelet's device function.

use std::sync::Arc;
use std::time::Instant;

use super::batch::{Fate, typed};
use super::typed::call_of;
use super::{Codelet, DeviceMember, TypedBody};
use crate::error::{Cause, TaskError, caught};
use crate::operand::Operands;
use crate::task::{Body, Ended, LaunchedBody, Member, Ran, Range, Site, TaskContext, TaskPlacement};
use crate::value::Pending;

/// A member that holds its operands.
struct Held<C: Codelet> {
    at: usize,
    operands: <C::Operands as Operands>::DeviceHeld,
}

/// Launches the members, which all have bodies of type `C` and the same deferred selection, on
/// their device's stream.
pub(super) fn run<C: Codelet>(members: &[Member<'_>], site: &mut Site<'_>) -> Vec<Ended> {
    let bodies: Vec<&TypedBody<C>> = members.iter().map(typed).collect();
    let mut fates: Vec<Fate> = members.iter().map(|_| Fate::default()).collect();
    let mut held = Vec::with_capacity(members.len());
    for (at, (member, body)) in members.iter().zip(&bodies).enumerate() {
        let mut env = site.env(member);
        let (codelet, operands) = body.payload().expect("a task runs once");
        let acquired =
            TypedBody::choice(codelet, operands, &mut env).and_then(|_| operands.acquire_on_device(&mut env));
        match acquired {
            Ok(operands) => held.push(Held::<C> { at, operands }),
            Err(refusal) => fates[at].ended = Some((*body as &dyn Body).refused_on_device(&env, refusal)),
        }
        fates[at].notes = env.notes;
    }
    // The times on the device replace these.
    let times = site.runner.measures.then(|| (Instant::now(), Instant::now()));
    let called = call::<C>(members, &bodies, &mut held, site);
    let count = held.len();
    let mut pendings: Vec<Pending> = members.iter().map(|_| Pending::default()).collect();
    for (Held { at, operands }, (result, pending)) in held.into_iter().zip(called) {
        let notes = &mut fates[at].notes;
        (notes.began, notes.batch, notes.times) = (true, count as u32, times);
        let mut env = site.env(&members[at]);
        env.notes = *notes;
        fates[at].ended = Some(bodies[at].launched(&mut env, operands, result));
        pendings[at] = pending;
    }
    fates.into_iter().zip(pendings).map(|(fate, pending)| ended(fate, pending)).collect()
}

/// Calls the function; returns the result of each member with operands, and its callbacks for the
/// end of its operations.
fn call<C: Codelet>(
    members: &[Member<'_>],
    bodies: &[&TypedBody<C>],
    held: &mut [Held<C>],
    site: &mut Site<'_>,
) -> Vec<(Result<(), Cause>, Pending)> {
    let Some(Member { header: first, placement: Some(placement), .. }) =
        held.first().map(|held| &members[held.at])
    else {
        return Vec::new();
    };
    let TaskPlacement { choice, stream, .. } = placement;
    let call = call_of::<C>(choice, 0, held.len());
    let context = |at: usize| {
        let Member { header, id, .. } = &members[at];
        TaskContext::new(site.runner.services, header, *id, site.worker, call, stream.as_deref())
    };
    let mut contexts: Vec<TaskContext<'_>> = held.iter().map(|held| context(held.at)).collect();
    let codelet = |at: usize| &bodies[at].payload().expect("a task runs once").0;
    let launched_on = stream.as_deref().expect("what is launched has a stream");
    let (one, together) = TypedBody::function(codelet(held[0].at), launched_on);
    let batch = held.iter_mut().zip(&mut contexts).map(|(held, cx)| DeviceMember {
        codelet: codelet(held.at),
        views: C::Operands::views_on_device(&mut held.operands),
        cx,
    });
    let batch = batch.collect();
    let range = Range::begin(launched_on, first, first.known_as(choice.label).label);
    let mode = site.runner.subnormals(call.subnormals).enter();
    let results = caught(|| match together {
        Some(together) => together(batch),
        // Another architecture has a function for several.
        None => {
            batch.into_iter().map(|DeviceMember { codelet, views, cx }| one(codelet, views, cx)).collect()
        }
    });
    drop((mode, range));
    let cause = |error: TaskError| Cause::Error(Arc::from(error));
    let mut results = results.map(Vec::into_iter);
    let result = |cx: TaskContext<'_>| {
        let result = match &mut results {
            Ok(results) => {
                results.next().unwrap_or_else(|| Err("its batch has no result for it".into())).map_err(cause)
            }
            Err(message) => Err(Cause::Panic(message.clone())),
        };
        (result, cx.into_pending())
    };
    contexts.into_iter().map(result).collect()
}

fn ended(Fate { notes, ended }: Fate, pending: Pending) -> Ended {
    let failure = match ended.expect("every member ends") {
        Ran::Done => None,
        Ran::Failed(failure) => Some(failure),
        Ran::Busy(_) => unreachable!("turns are taken and replicas made before a task is placed"),
    };
    Ended {
        began: notes.began,
        failure,
        launched: Some(Box::new(LaunchedBody { notes, pending })),
        ..Ended::default()
    }
}
