//! Scheduling policies: they select the worker of a ready task, and the order.
//!
//! A [`Policy`] is a passive structure: the runtime pushes ready tasks into it and asks it for the
//! next task of a worker. It never blocks, starts no thread and reads no clock, so the same policy
//! serves real threads and virtual time.

mod central;
mod dm;
mod heteroprio;
mod kinds;
mod lws;
#[cfg(test)]
mod mock;
mod queue;
mod random;

#[cfg(test)]
use crate::engine::World;
pub use crate::engine::{PerNode, Policy, SchedView, Wake};
use crate::error::Error;
pub use crate::task::ReadyTask;
pub use central::CentralQueue;
use dm::{Dm, Flavour, Weights};
use heteroprio::Heteroprio;
pub use lws::Lws;
pub use queue::TaskQueue;
use random::Random;

/// Names and descriptions of the built-in policies.
pub const POLICIES: [(&str, &str); 9] = [
    (
        "lws",
        "locality work stealing: a queue per worker, by priority; idle workers steal from their nearest neighbour (default)",
    ),
    ("prio", "one queue for all workers, highest priority first"),
    ("eager", "one queue for all workers, first come first served"),
    ("dm", "the worker on which the task is expected to end first, by performance models"),
    ("dmda", "as dm, counting the transfer of operands; they are fetched ahead"),
    ("dmdar", "as dmda, and a worker takes first what misses the fewest bytes"),
    (
        "dmdas",
        "as dmda, and a worker takes first what has the highest priority, then what misses the fewest bytes",
    ),
    ("heteroprio", "each kind of device takes first what it accelerates most, then by priority"),
    ("random", "a worker at random, the faster the likelier"),
];

/// Returns true for the policies that use performance models: dm and its family, heteroprio,
/// random.
pub fn uses_performance_models(policy: &str) -> bool {
    let family = policy.split_once(':').map_or(policy, |(family, _)| family);
    Flavour::named(family).is_some() || matches!(family, "heteroprio" | "random")
}

#[doc(hidden)]
/// Creates the policy called `name`, for `workers` workers. The dmda family takes the weights of
/// its fitness: `dmda:alpha=1,beta=2`.
///
/// # Errors
/// [`Error::Config`] for an unknown name and for wrong weights.
pub fn by_name(name: &str, workers: usize) -> Result<Box<dyn Policy>, Error> {
    if let Some((family, weights)) = name.split_once(':')
        && let Some(flavour) = Flavour::named(family).filter(|&f| f != Flavour::Dm)
    {
        let weights = Weights::parse(weights)
            .map_err(|why| Error::Config(format!("the scheduling policy {name:?}: {why}")))?;
        return Ok(Box::new(Dm::new(flavour, weights, workers)));
    }
    if let Some(flavour) = Flavour::named(name) {
        return Ok(Box::new(Dm::new(flavour, Weights::default(), workers)));
    }
    match name {
        "lws" => Ok(Box::new(Lws::new(workers))),
        "prio" => Ok(Box::new(CentralQueue::by_priority())),
        "eager" => Ok(Box::new(CentralQueue::first_come())),
        "heteroprio" => Ok(Box::new(Heteroprio::default())),
        "random" => Ok(Box::new(Random::new(workers))),
        other => {
            let known: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
            Err(Error::Config(format!(
                "there is no scheduling policy {other:?}: take one of {}",
                known.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mock::Mock;
    use super::*;

    #[test]
    fn names_are_what_they_build() {
        for (name, _) in POLICIES {
            assert_eq!(by_name(name, 2).unwrap().name(), name);
        }
        assert_eq!(by_name("dmdas:beta=2", 2).unwrap().name(), "dmdas");
        assert!(
            uses_performance_models("dmdas:beta=2")
                && uses_performance_models("random")
                && !uses_performance_models("lws")
        );
    }

    #[test]
    fn wrong_names_and_weights_say_what_is_right() {
        let refused = |name| by_name(name, 2).err().expect(name).to_string();
        for name in ["fastest", "", "lws:beta=2", "dm:beta=2", "dmda2"] {
            assert!(refused(name).contains("take one of lws, prio, eager, dm, dmda,"), "{name}");
        }
        for name in ["dmda:", "dmda:gamma=1", "dmda:beta=1,"] {
            assert!(refused(name).contains("alpha and beta"), "{name}: {}", refused(name));
        }
        for name in ["dmda:beta", "dmda:beta=", "dmda:beta=-1", "dmda:beta=NaN", "dmda:beta=1e9"] {
            assert!(refused(name).contains("beta=2, from 0 to 1000"), "{name}: {}", refused(name));
        }
    }

    /// Every policy gives every task to a worker that can run it, wakes one that can, and drops
    /// tasks that nobody can run.
    #[test]
    fn nobody_gets_what_he_cannot_run() {
        let mut mock = Mock::new(&["cpu", "cpu", "gpu", "gpu"]);
        mock.takes("gemm", "cpu", 900);
        mock.takes("gemm", "gpu", 100);
        for (codelet, workers) in [("host", &[2, 3][..]), ("device", &[0, 1]), ("large", &[0, 1, 2])] {
            workers.iter().for_each(|&worker| mock.forbid(codelet, worker));
        }
        (0..4).for_each(|worker| mock.forbid("nowhere", worker));
        let able = |codelet| {
            (0..4).filter(|&w| mock.view().can_run(&mock::task(0, codelet, 0), w)).collect::<Vec<_>>()
        };
        let codelets = ["gemm", "host", "device", "large"];
        for (name, _) in POLICIES {
            let policy = by_name(name, 4).unwrap();
            for id in 0..400u64 {
                let codelet = codelets[id as usize % 4];
                let task = mock::task(id, codelet, (id % 3) as i32);
                match policy.push(&mock.view(), task, Some(id as usize % 3)) {
                    Wake::Any => assert_eq!(codelet, "gemm", "{name}"),
                    Wake::Worker(worker) => assert!(able(codelet).contains(&worker), "{name}: {codelet}"),
                }
            }
            mock.push(&*policy, 400, "nowhere", 0);
            let mut seen = vec![false; 400];
            let mut idle = 0;
            for worker in (0..4).cycle() {
                match mock.pop(&*policy, worker) {
                    None => idle += 1,
                    Some(id) => {
                        idle = 0;
                        let codelet = codelets[id as usize % 4];
                        assert!(able(codelet).contains(&worker), "{name}: {codelet} on {worker}");
                        assert!(!std::mem::replace(&mut seen[id as usize], true), "{name}: {id} twice");
                    }
                }
                if idle == 4 {
                    break;
                }
            }
            assert!(seen.iter().all(|&seen| seen), "{name}");
        }
    }

    /// The tasks that a policy returns for one batch are those that it would return one by one, up
    /// to the first unlike one; never more than requested, and not so many that another worker that
    /// can run them has none.
    #[test]
    fn what_runs_together_is_what_comes_next() {
        let mut mock = Mock::new(&["cpu", "cpu", "gpu"]);
        mock.takes("gemm", "cpu", 900);
        mock.takes("gemm", "gpu", 100);
        mock.forbid("host", 2);
        (0..600).for_each(|id| mock.misses(id, 2, id * 37 % 11, 1));
        let codelets = ["gemm", "gemm", "gemm", "gemm", "gemm", "gemm", "host", "gemm"];
        for (name, _) in POLICIES {
            let [together, alone] = [by_name(name, 3).unwrap(), by_name(name, 3).unwrap()];
            for policy in [&together, &alone] {
                for id in 0..600 {
                    let task = mock::task(id, codelets[id as usize / 16 % 8], (id / 64 % 3) as i32 - 1);
                    policy.push(&mock.view(), task, None);
                }
            }
            let (mut left, mut calls, mut idle) = (600, 0, 0);
            for worker in (0..3).cycle() {
                let Some(first) = together.pop(&mock.view(), worker) else {
                    idle += 1;
                    if idle == 3 {
                        break;
                    }
                    continue;
                };
                idle = 0;
                let like = together.pop_like(&mock.view(), worker, &first, 7);
                assert!(like.len() <= 7, "{name}");
                calls += 1;
                for task in std::iter::once(first).chain(like) {
                    assert_eq!(Some(mock::done(task)), mock.pop(&*alone, worker), "{name}");
                    left -= 1;
                }
            }
            assert_eq!(left, 0, "{name}");
            assert!(calls < 300, "{name}: {calls} calls");
            assert!((0..3).all(|worker| mock.pop(&*alone, worker).is_none()), "{name}");
        }
    }

    /// An exchange returns the same task as a push and a pop.
    #[test]
    fn an_exchange_is_a_push_and_a_pop() {
        let mock = Mock::new(&["cpu", "cpu"]);
        for (name, _) in POLICIES {
            let [at_once, apart] = [by_name(name, 2).unwrap(), by_name(name, 2).unwrap()];
            let mut exchanged = 0;
            for id in 0..600 {
                let worker = id as usize / 2 % 2;
                let task = || mock::task(id, "t", (id * 37 % 11) as i32 - 5);
                apart.push(&mock.view(), task(), Some(worker));
                if id % 3 == 0 {
                    at_once.push(&mock.view(), task(), Some(worker));
                    continue;
                }
                let got = match at_once.exchange(&mock.view(), worker, task()) {
                    Ok(next) => {
                        exchanged += 1;
                        Some(mock::done(next))
                    }
                    Err(task) => {
                        at_once.push(&mock.view(), task, Some(worker));
                        mock.pop(&*at_once, worker)
                    }
                };
                assert_eq!(got, mock.pop(&*apart, worker), "{name}");
            }
            for worker in (0..2).cycle().take(800) {
                assert_eq!(mock.pop(&*at_once, worker), mock.pop(&*apart, worker), "{name}");
            }
            assert_eq!(exchanged, if name == "lws" { 400 } else { 0 });
        }
    }

    /// If queues are open to all, a worker leaves the others their share.
    #[test]
    fn a_batch_leaves_others_their_share() {
        let mock = Mock::new(&["cpu", "cpu", "cpu"]);
        for name in ["lws", "prio", "eager", "heteroprio"] {
            let policy = by_name(name, 3).unwrap();
            for id in 0..10 {
                policy.push(&mock.view(), mock::task(id, "t", 0), Some(0));
            }
            let take = |worker| {
                let first = policy.pop(&mock.view(), worker).unwrap();
                let like = policy.pop_like(&mock.view(), worker, &first, 100);
                std::iter::once(first).chain(like).map(mock::done).count()
            };
            assert_eq!([take(0), take(1), take(2), take(0)], [4, 2, 2, 1], "{name}");
            assert_eq!(take(1), 1, "{name}");
        }
    }
}
