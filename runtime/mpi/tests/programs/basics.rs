use zellige_mpi::Cluster;
use zellige_runtime::{Error, Handle, Slot, Submit, commute, read, reduce, update, write};

/// The rank with the highest number.
fn last(cluster: &Cluster) -> usize {
    cluster.ranks() - 1
}

/// A chain over two data on two ranks.
pub fn values_go_where_tasks_read_them(cluster: &Cluster) {
    let program = || -> Result<(Vec<f64>, f64), Error> {
        let x = cluster.register_on(0, || vec![1.0f64; 100])?;
        let y = cluster.register_on(last(cluster), || vec![2.0f64; 100])?;
        let sum = cluster.register_empty::<f64>();
        cluster.set_owner(&sum, cluster.ranks() / 2)?;
        for step in 0..10 {
            cluster
                .task("axpy")
                .operands((read(&x), update(&y)))
                .cpu(move |(x, y)| x.iter().zip(y).for_each(|(x, y)| *y += x * step as f64))
                .submit()?;
            cluster
                .task("scale")
                .operands((update(&x), read(&y)))
                .cpu(|(x, y)| x.iter_mut().zip(y).for_each(|(x, y)| *x = 0.5 * *x + y))
                .submit()?;
        }
        cluster
            .task("sum")
            .operands((read(&x), write(&sum)))
            .cpu(|(x, mut sum): (&[f64], Slot<'_, f64>)| sum.put(x.iter().sum()))
            .submit()?;
        cluster.wait_all()?;
        Ok((cluster.take(y)?, *cluster.read(&sum)?))
    };
    let (vector, sum) = program().unwrap();
    let (mut x, mut y) = (1.0f64, 2.0f64);
    for step in 0..10 {
        y += x * step as f64;
        x = 0.5 * x + y;
    }
    assert_eq!((vector.len(), vector[99], sum), (100, y, (0..100).map(|_| x).sum()));
}

/// One value is sent once to each rank that reads it, until it is written again.
pub fn replicas_are_kept_until_the_next_write(cluster: &Cluster) {
    let (rank, ranks, last) = (cluster.rank(), cluster.ranks(), last(cluster));
    let program = || -> Result<(), Error> {
        let x = cluster.register_on(0, || vec![1u64; 1000])?;
        let sums: Vec<_> = (0..ranks).map(|_| cluster.register_empty::<u64>()).collect();
        for (rank, sum) in sums.iter().enumerate() {
            cluster.set_owner(sum, rank)?;
        }
        for round in 1..=3 {
            for _ in 0..5 {
                for sum in &sums {
                    let body = |(x, mut sum): (&[u64], Slot<'_, u64>)| sum.put(x.iter().sum());
                    cluster.task("sum").operands((read(&x), write(sum))).cpu(body).submit()?;
                }
            }
            // Read twice on one rank, once on each.
            for _ in 0..2 {
                let sum = cluster.read_on(round % ranks, &sums[last])?;
                assert!(sum.is_none_or(|sum| *sum == 1000 * round as u64));
            }
            let next = |(x,): (&mut [u64],)| x.iter_mut().for_each(|x| *x += 1);
            cluster.task("next").operands((update(&x),)).cpu(next).submit()?;
        }
        cluster.wait_all()?;
        // Replicas of the previous version are gone.
        let left = cluster.runtime().read(&x).map(|x| x[0]);
        assert!(if rank == 0 { matches!(left, Ok(4)) } else { matches!(left, Err(Error::Gone { .. })) });
        Ok(())
    };
    program().unwrap();
    let readers = |reader: usize| (1..=3).filter(|round| round % ranks == reader && reader != last).count();
    let (mut sent, mut received) = (0, readers(rank));
    let mut bytes = (0, 8 * received);
    if rank == 0 {
        (sent, bytes.0) = (3 * last, 3 * 8000 * last);
    } else {
        (received, bytes.1) = (received + 3, bytes.1 + 3 * 8000);
    }
    if rank == last {
        let all: usize = (0..ranks).map(readers).sum();
        (sent, bytes.0) = (sent + all, bytes.0 + 8 * all);
    }
    let traffic = cluster.traffic();
    assert_eq!((traffic.sent, traffic.received), (sent as u64, received as u64), "rank {rank} of {ranks}");
    assert_eq!((traffic.sent_bytes, traffic.received_bytes), (bytes.0 as u64, bytes.1 as u64));
}

/// Updates in any order, and reductions, run on the owner.
pub fn commuting_tasks_and_reductions_run_on_the_owner(cluster: &Cluster) {
    let program = || -> Result<(u64, u64), Error> {
        let part = |i: u64| cluster.register_on(i as usize % cluster.ranks(), || i);
        let parts: Vec<_> = (0..8).map(part).collect::<Result<_, _>>()?;
        let total = cluster.register_empty::<u64>();
        cluster.set_owner(&total, last(cluster))?;
        let body = |(mut total,): (Slot<'_, u64>,)| total.put(0);
        cluster.task("zero").operands((write(&total),)).cpu(body).submit()?;
        let sum = cluster.register(0u64).with_reduction(|_| 0, |sum, part| *sum += part);
        for part in &parts {
            let add = |(part, sum): (&u64, &mut u64)| *sum += part;
            cluster.task("add").operands((read(part), commute(&total))).cpu(add).submit()?;
            cluster.task("add").operands((read(part), reduce(&sum))).cpu(add).submit()?;
        }
        Ok((cluster.take(total)?, cluster.take(sum)?))
    };
    assert_eq!(program().unwrap(), (28, 28));
}

/// A task that writes data of several owners runs on the rank of the first; the newest version
/// stays on the rank of the writer.
pub fn versions_move_with_their_writers(cluster: &Cluster) {
    let program = || -> Result<(u64, u64), Error> {
        let (a, b) = (cluster.register_on(0, || 1u64)?, cluster.register_on(last(cluster), || 10u64)?);
        let both = |(a, b): (&mut u64, &mut u64)| {
            *a += *b;
            *b += *a;
        };
        for _ in 0..3 {
            cluster.task("both").operands((update(&a), update(&b))).cpu(both).submit()?;
            cluster.task("both").operands((update(&b), update(&a))).cpu(both).submit()?;
        }
        let is_last = cluster.rank() == last(cluster);
        assert_eq!((cluster.owner_of(&a)?, cluster.runs_here(&b)?), (Some(0), is_last));
        Ok((cluster.take(a)?, cluster.take(b)?))
    };
    let (mut a, mut b) = (1, 10);
    for _ in 0..3 {
        a += b;
        b += a;
        b += a;
        a += b;
    }
    assert_eq!(program().unwrap(), (a, b));
}

/// Parts are registered, read and written like any other data.
pub fn vectors_are_split_and_joined(cluster: &Cluster) {
    let program = || -> Result<(Vec<f64>, Vec<f64>), Error> {
        let v = cluster.register_sized::<Vec<f64>>(zellige_runtime::Meta { bytes: 80, ..Default::default() });
        cluster.set_owner(&v, last(cluster))?;
        let make = |(mut v,): (Slot<'_, Vec<f64>>,)| v.put(vec![1.0; 10]);
        cluster.task("make").operands((write(&v),)).cpu(make).submit()?;
        let views = cluster.views(&v, [0..5, 3..4])?;
        let parts = cluster.split(&v, [2..4, 6..9])?;
        for (i, part) in parts.handles().iter().enumerate() {
            cluster
                .task("fill")
                .operands((update(part),))
                .cpu(move |(part,)| part.fill(i as f64 + 2.0))
                .submit()?;
        }
        parts.join()?;
        assert_eq!(cluster.owner_of(&views[0])?, Some(last(cluster)));
        let seen = cluster.read(&views[0])?.to_vec();
        Ok((cluster.take(v)?, seen))
    };
    let (v, seen) = program().unwrap();
    assert_eq!(v, [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 3.0, 3.0, 3.0, 1.0]);
    assert_eq!(seen, [1.0; 5]);
}

/// Wrong calls are refused on all ranks, and change nothing.
pub fn wrong_calls_are_refused_everywhere(cluster: &Cluster) {
    let program = || {
        let (x, empty) = (cluster.register(1u64), cluster.register_empty::<u64>());
        let inc = |(x,): (&mut u64,)| *x += 1;
        let submit = |handle: &Handle<u64>| cluster.task("inc").operands((update(handle),)).cpu(inc).submit();
        assert!(matches!(submit(&empty), Err(Error::Unwritten { .. })));
        let aliased = cluster.task("two").operands((read(&x), update(&x))).cpu(|(_, x)| *x += 1).submit();
        assert!(matches!(aliased, Err(Error::Aliased { .. })));
        let foreign = cluster.runtime().register(1u64);
        let error = submit(&foreign).unwrap_err();
        assert!(error.to_string().contains("not registered with this cluster"), "{error}");
        assert!(matches!(cluster.read(&empty), Err(Error::Unwritten { .. })));
        let error = cluster.set_owner(&x, 0).unwrap_err();
        assert!(error.to_string().contains("has a value"), "{error}");
        let error = cluster.set_owner(&empty, 7).unwrap_err();
        assert!(error.to_string().contains("no rank 7"), "{error}");
        // A value of a type that is more than bytes is not transferred.
        let stays = cluster.register(vec![(1u8, 2u32)]);
        assert!(cluster.ranks() == 1 || matches!(cluster.read(&stays), Err(Error::Config(_))));
        submit(&x)?;
        let copy = Handle::clone(&x);
        assert_eq!(cluster.take(x)?, 2);
        assert!(matches!(submit(&copy), Err(Error::Gone { .. })));
        cluster.wait_all()
    };
    program().unwrap();
}

/// A value of more bytes than a transport may move at once, and short ones after it that must not
/// overtake it.
pub fn long_values_arrive_whole(cluster: &Cluster) {
    let values = |length: usize| (0..length as u64).map(move |i| i * i + length as u64);
    let program = || -> Result<(), Error> {
        // MPI messages have at most 64 MiB.
        let lengths = [(1 << 23) + 3, 1, 1000];
        let make = |length: usize| cluster.register_on(0, || values(length).collect::<Vec<u64>>());
        let all: Vec<_> = lengths.iter().map(|&length| make(length)).collect::<Result<_, _>>()?;
        for (&length, made) in lengths.iter().zip(&all) {
            if let Some(seen) = cluster.read_on(last(cluster), made)? {
                assert!(seen.len() == length && seen.iter().copied().eq(values(length)), "{length}");
            }
        }
        cluster.wait_all()
    };
    program().unwrap();
}
