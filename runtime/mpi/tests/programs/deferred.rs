//! Tasks that select formats when they run.

use std::time::Duration;

use zellige_mpi::Cluster;
use zellige_runtime::{
    Choice, Codelet, Handle, Meta, Read, Slot, Submit, TaskContext, TaskError, Update, metas, read, update,
    write,
};

use super::graphs::{NARROW, WIDE, Words};

const LENGTH: u32 = 10;

/// Adds up words: short ones if there are `LENGTH`, otherwise long ones.
struct Sum;

impl Codelet for Sum {
    type Operands = (Read<Words>, Update<u64>);

    fn name(&self) -> &'static str {
        "sum"
    }

    fn selects(&self) -> bool {
        true
    }

    fn select(&self, metas: &[Meta]) -> Choice {
        let format = if metas[0].bytes == 4 * LENGTH as usize { NARROW } else { WIDE };
        Choice { formats: [Some(format), None, None, None], ..Choice::default() }
    }

    fn cpu(&self, (x, sum): (&Words, &mut u64), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        *sum += x.words().map(u64::from).sum::<u64>();
        Ok(())
    }
}

/// Large words on rank 0.
fn words(cluster: &Cluster) -> Handle<Words> {
    let x = cluster.register_sized(Meta { format: WIDE, bytes: 4 * LENGTH as usize, ..Meta::default() });
    cluster.set_owner(&x, 0).unwrap();
    fill(cluster, &x, LENGTH);
    x
}

fn fill(target: &impl Submit, x: &Handle<Words>, length: u32) {
    let fill =
        move |(mut x,): (Slot<'_, Words>,)| x.put(Words::new(WIDE, (0..length).map(|i| (i << 20) + i)));
    target.task("fill").operands((write(x),)).cpu(fill).submit().unwrap();
}

pub fn tasks_that_choose_late_are_sent_what_they_choose(cluster: &Cluster) {
    let (x, last) = (words(cluster), cluster.ranks() - 1);
    let sums = [0; 3].map(|start| cluster.register_on(last, || start).unwrap());
    let bytes = cluster.register_on(last, || 0usize).unwrap();
    // A task that only reads the meta is sent no value.
    let look = |(metas, bytes): (&[Meta], &mut usize)| *bytes = metas[0].bytes;
    cluster.task("look").operands((metas([&x]), update(&bytes))).cpu(look).submit().unwrap();
    cluster.submit(Sum, (read(&x), update(&sums[0]))).unwrap();
    // The next version is written once the last rank has the forms that it needs of this one.
    fill(cluster, &x, LENGTH + 1);
    cluster.submit(Sum, (read(&x), update(&sums[1]))).unwrap();
    cluster.wait_all().unwrap();
    let (sent, elsewhere) = (cluster.traffic(), cluster.rank() == 0 && last > 0);
    let wanted = if elsewhere { (2, 2 * LENGTH + 4 * (LENGTH + 1)) } else { (0, 0) };
    assert_eq!((sent.sent, sent.sent_bytes), (wanted.0, wanted.1.into()));
    // A version written by another rank is requested from there.
    let more =
        |(x, from): (&mut Words, &u64)| *x = Words::new(WIDE, x.words().map(|word| word + *from as u32));
    cluster.task("more").operands((update(&x), read(&sums[0]))).cpu(more).submit().unwrap();
    cluster.submit(Sum, (read(&x), update(&sums[2]))).unwrap();
    let small: u64 = (0..u64::from(LENGTH)).sum::<u64>();
    let large = |length: u32| (0..u64::from(length)).map(|i| (i << 20) + i).sum::<u64>();
    let wanted = [small, large(LENGTH + 1), large(LENGTH + 1) + u64::from(LENGTH + 1) * small];
    for (sum, wanted) in sums.into_iter().zip(wanted) {
        assert_eq!(cluster.take(sum).unwrap(), wanted);
    }
    assert_eq!(cluster.take(bytes).unwrap(), 4 * LENGTH as usize);
}

/// A rank frees the replica that another is about to overwrite before it waits for that, in a
/// recording too.
pub fn recorded_writers_get_back_what_they_have_offered(cluster: &Cluster) {
    let (x, last) = (words(cluster), cluster.ranks() - 1);
    let [sum, other] = [last, 0].map(|rank| cluster.register_on(rank, || 0u64).unwrap());
    cluster.submit(Sum, (read(&x), update(&sum))).unwrap();
    let graph = cluster.record(|graph| {
        fill(graph, &x, LENGTH + 1);
        let count = |(x, count): (&Words, &mut u64)| *count = x.words().count() as u64;
        graph.task("count").operands((read(&x), update(&other))).cpu(count).submit()?;
        // The last rank overwrites a version of which it had a form, and needs data from the first
        // for that.
        let end = |(count, sum, mut x): (&u64, &mut u64, Slot<'_, Words>)| {
            *sum += count;
            x.put(Words::new(WIDE, [7]));
        };
        graph.task("end").operands((read(&other), update(&sum), write(&x))).cpu(end).submit().map(drop)
    });
    cluster.replay(&graph.unwrap()).unwrap();
    assert_eq!(cluster.take(x).unwrap(), Words::new(WIDE, [7]));
    let small: u64 = (0..u64::from(LENGTH)).sum();
    assert_eq!(cluster.take(sum).unwrap(), small + u64::from(LENGTH) + 1);
}

/// The first rank has no tasks left, and another, which comes later, needs a form of its version.
pub fn a_rank_that_has_ended_sends_what_is_requested(cluster: &Cluster) {
    let last = cluster.ranks() - 1;
    if cluster.rank() == last {
        std::thread::sleep(Duration::from_millis(50));
    }
    let x = words(cluster);
    let sum = cluster.register_on(last, || 0u64).unwrap();
    let sleep = |(_,): (&mut u64,)| std::thread::sleep(Duration::from_millis(50));
    cluster.task("sleep").operands((update(&sum),)).cpu(sleep).submit().unwrap();
    cluster.submit(Sum, (read(&x), update(&sum))).unwrap();
    if cluster.rank() == last {
        assert_eq!(*cluster.runtime().read(&sum).unwrap(), (0..u64::from(LENGTH)).sum::<u64>());
    }
}

/// The value whose form it was to select does not exist.
pub fn a_failure_reaches_tasks_that_choose_late(cluster: &Cluster) {
    let (x, last) = (words(cluster), cluster.ranks() - 1);
    cluster.task("bad").operands((update(&x),)).cpu(|_| Err("on purpose")).submit().unwrap();
    let sum = cluster.register_on(last, || 0u64).unwrap();
    cluster.submit(Sum, (read(&x), update(&sum))).unwrap();
    cluster.wait_all().unwrap_err();
    let error = cluster.read(&sum).map(drop).unwrap_err().to_string();
    assert!(error.contains("bad") && error.contains("on purpose"), "{error}");
    // An overwritten datum has a value again.
    fill(cluster, &x, LENGTH);
    let next = cluster.register_on(last, || 0u64).unwrap();
    cluster.submit(Sum, (read(&x), update(&next))).unwrap();
    assert_eq!(cluster.take(next).unwrap(), (0..u64::from(LENGTH)).sum::<u64>());
}
