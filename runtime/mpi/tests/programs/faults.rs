use zellige_mpi::{Cluster, RemoteError};
use zellige_runtime::{Cause, Error, Failure, Handle, Slot, Submit, read, update, write};

#[derive(Debug, thiserror::Error)]
#[error("no pivot in row {0}")]
pub struct NoPivot(usize);

/// A chain of tasks on data of all ranks in turn, one of which fails.
pub fn chain(cluster: &Cluster, fails: usize) -> Result<Vec<Handle<u64>>, Error> {
    let data: Vec<Handle<u64>> = (0..cluster.ranks())
        .map(|rank| cluster.register_on(rank, || 1).map(|handle| handle.named(format!("x{rank}"))))
        .collect::<Result<_, _>>()?;
    for step in 0..2 * data.len() {
        let (from, to) = (&data[step % data.len()], &data[(step + 1) % data.len()]);
        let body = move |(from, to): (&u64, &mut u64)| {
            if step == fails {
                return Err(NoPivot(step));
            }
            *to += from;
            Ok(())
        };
        cluster.task("link").operands((read(from), update(to))).cpu(body).coords([step as u32]).submit()?;
    }
    Ok(data)
}

/// The failure of the second link.
fn check_failure(failure: &Failure, cluster: &Cluster) {
    let of = 2 % cluster.ranks();
    let operands = ["x1".to_string(), format!("x{of}")];
    assert_eq!((failure.task.as_str(), &failure.operands[..]), ("link[1]", &operands[..]));
    if cluster.rank() == of {
        assert!(matches!(failure.downcast_ref(), Some(NoPivot(1))), "{failure}");
    } else {
        let remote: &RemoteError = failure.downcast_ref().expect("of another rank");
        assert_eq!((remote.rank, remote.message.as_str()), (of, "no pivot in row 1"));
    }
}

pub fn a_failure_reaches_every_rank_that_needs_the_result(cluster: &Cluster) {
    let data = chain(cluster, 1).unwrap();
    // All later values are missing, on every rank.
    let Err(Error::Failed(failure)) = cluster.wait_all() else { panic!("a task has failed") };
    check_failure(&failure, cluster);
    for datum in &data {
        let Err(Error::Poisoned { failure, .. }) = cluster.read(datum).map(drop) else { panic!("poisoned") };
        check_failure(&failure, cluster);
    }
    // It was reported once.
    cluster.wait_all().unwrap();
    // A datum that is overwritten has a value again, on all ranks.
    for datum in &data {
        let anew = |(mut slot,): (Slot<'_, u64>,)| slot.put(7);
        cluster.task("anew").operands((write(datum),)).cpu(anew).submit().unwrap();
    }
    for datum in &data {
        assert_eq!(*cluster.read(datum).unwrap(), 7);
    }
}

pub fn a_panic_in_a_body_is_a_failure_too(cluster: &Cluster) {
    let (x, y) = (cluster.register(1u64), cluster.register_on(1, || 0u64).unwrap());
    cluster.task("bad").operands((update(&x),)).cpu(|(_,)| panic!("seven")).submit().unwrap();
    let add = |(x, y): (&u64, &mut u64)| *y += x;
    cluster.task("add").operands((read(&x), update(&y))).cpu(add).submit().unwrap();
    match cluster.read_on(1, &y).map(|value| value.map(|value| *value)) {
        Err(Error::Poisoned { failure, .. }) => assert_eq!(
            failure.to_string(),
            format!("task bad on ({}): panicked: seven (on rank 0)", failure.operands[0])
        ),
        other => assert!(cluster.rank() != 1 && matches!(other, Ok(None)), "{other:?}"),
    }
    // A rank that has ended would be named in its place.
    let Err(Error::Failed(_)) = cluster.wait_all() else { panic!("a task has failed") };
}

pub fn cancellation_is_everybodys(cluster: &Cluster) {
    let gate = cluster.register(0u64);
    // On rank 0 nothing begins until this is dropped.
    let held = (cluster.rank() == 0).then(|| cluster.runtime().write(&gate).unwrap());
    let data: Vec<_> = (0..cluster.ranks()).map(|rank| cluster.register_on(rank, || 0u64).unwrap()).collect();
    for datum in &data {
        let add = |(x, y): (&u64, &mut u64)| *y += x;
        cluster.task("add").operands((read(&gate), update(datum))).cpu(add).submit().unwrap();
    }
    if cluster.rank() == 0 {
        cluster.cancel_all();
    }
    drop(held);
    // A cancelled task is no failure, and nobody waits for it.
    cluster.wait_all().unwrap();
    let Err(Error::Poisoned { failure, .. }) = cluster.read(&data[0]).map(drop) else { panic!("cancelled") };
    assert!(matches!(failure.cause, Cause::Cancelled), "{failure}");
}

/// The rank in the middle submits another task than the others.
pub fn different_submissions_are_found_and_named(cluster: &Cluster) {
    let (ranks, odd) = (cluster.ranks(), cluster.ranks() / 2);
    let program = || {
        let data = chain(cluster, usize::MAX)?;
        let body = |(x,): (&mut u64,)| *x += 1;
        let at = if cluster.rank() == odd { ranks - 1 } else { 0 };
        cluster.task("odd").operands((update(&data[at]),)).cpu(body).coords([5]).submit()?;
        cluster.wait_all()
    };
    let error = program().unwrap_err().to_string();
    // Registrations, links, then this.
    let step = ranks + 2 * ranks;
    assert!(error.contains(&format!("differ from step {step} on")), "{error}");
    let words = ["odd[5] (datum 0)".into(), format!("odd[5] (datum {})", ranks - 1)];
    assert!(words.iter().all(|words| error.contains(words)), "{error}");
}

pub fn a_task_that_only_one_rank_submits_is_found(cluster: &Cluster) {
    let data = chain(cluster, usize::MAX).unwrap();
    if cluster.rank() == 1 {
        let body = |(x,): (&mut u64,)| *x += 1;
        cluster.task("extra").operands((update(&data[0]),)).cpu(body).submit().unwrap();
    }
    let error = cluster.wait_all().unwrap_err().to_string();
    assert!(error.contains("extra (datum 0)") && error.contains("wait_all"), "{error}");
}

/// Called well before the rank would be considered lost.
pub fn a_rank_that_ends_is_named(cluster: &Cluster) {
    let ends = cluster.ranks() - 1;
    if cluster.rank() == ends {
        return;
    }
    chain(cluster, usize::MAX).unwrap_or_default();
    let error = cluster.wait_all().unwrap_err().to_string();
    assert!(error.contains(&format!("rank {ends} has ended, after 0 steps")), "{error}");
}
