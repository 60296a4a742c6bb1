use zellige_mpi::{Cluster, run_local};
use zellige_runtime::{Error, Handle, Slot, Submit, commute, read, reduce, update, write};

/// A chain over two data on two ranks.
#[test]
fn values_go_where_tasks_read_them() {
    for ranks in 1..=4 {
        let program = |cluster: &Cluster| -> Result<(Vec<f64>, f64), Error> {
            let x = cluster.register_on(0, || vec![1.0f64; 100])?;
            let y = cluster.register_on(ranks - 1, || vec![2.0f64; 100])?;
            let sum = cluster.register_empty::<f64>();
            cluster.set_owner(&sum, ranks / 2)?;
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
        let answers = run_local(ranks, 2, |cluster| program(cluster).unwrap()).unwrap();
        let (mut x, mut y) = (1.0f64, 2.0f64);
        for step in 0..10 {
            y += x * step as f64;
            x = 0.5 * x + y;
        }
        for (vector, sum) in answers {
            assert_eq!((vector.len(), vector[99], sum), (100, y, (0..100).map(|_| x).sum()));
        }
    }
}

/// One value is sent once to each rank that reads it, until it is written again.
#[test]
fn replicas_are_kept_until_the_next_write() {
    let program = |cluster: &Cluster| {
        let x = cluster.register_on(0, || vec![1u64; 1000])?;
        let sums: Vec<_> = (0..cluster.ranks()).map(|_| cluster.register_empty::<u64>()).collect();
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
                let sum = cluster.read_on(round % 3, &sums[2])?;
                assert!(sum.is_none_or(|sum| *sum == 1000 * round as u64));
            }
            let next = |(x,): (&mut [u64],)| x.iter_mut().for_each(|x| *x += 1);
            cluster.task("next").operands((update(&x),)).cpu(next).submit()?;
        }
        cluster.wait_all()?;
        // Replicas of what was there before are gone.
        let left = cluster.runtime().read(&x).map(|x| x[0]);
        assert!(if cluster.rank() == 0 {
            matches!(left, Ok(4))
        } else {
            matches!(left, Err(Error::Gone { .. }))
        });
        Ok::<_, Error>(cluster.traffic())
    };
    let traffic = run_local(3, 1, |cluster| program(cluster).unwrap()).unwrap();
    let bytes: Vec<_> = traffic.iter().map(|t| (t.sent_bytes, t.received_bytes)).collect();
    assert_eq!(bytes, [(2 * 3 * 8000, 8), (0, 3 * 8000 + 8), (2 * 8, 3 * 8000)]);
    assert_eq!(traffic.iter().map(|t| t.sent).sum::<u64>(), 8);
}

/// Updates in any order, and reductions, run on the owner.
#[test]
fn commuting_tasks_and_reductions_run_on_the_owner() {
    let program = |cluster: &Cluster| {
        let parts: Vec<_> =
            (0..8u64).map(|i| cluster.register_on(i as usize % 2, || i)).collect::<Result<_, _>>()?;
        let total = cluster.register_empty::<u64>();
        cluster.set_owner(&total, 1)?;
        let body = |(mut total,): (Slot<'_, u64>,)| total.put(0);
        cluster.task("zero").operands((write(&total),)).cpu(body).submit()?;
        let sum = cluster.register(0u64).with_reduction(|_| 0, |sum, part| *sum += part);
        for part in &parts {
            let add = |(part, sum): (&u64, &mut u64)| *sum += part;
            cluster.task("add").operands((read(part), commute(&total))).cpu(add).submit()?;
            cluster.task("add").operands((read(part), reduce(&sum))).cpu(add).submit()?;
        }
        Ok::<_, Error>((cluster.take(total)?, cluster.take(sum)?))
    };
    assert_eq!(run_local(2, 2, |cluster| program(cluster).unwrap()).unwrap(), [(28, 28); 2]);
}

/// A task that writes data of several owners runs on the first one's; the newest version is where it was written.
#[test]
fn versions_move_with_their_writers() {
    let program = |cluster: &Cluster| {
        let (a, b) = (cluster.register_on(0, || 1u64)?, cluster.register_on(1, || 10u64)?);
        let both = |(a, b): (&mut u64, &mut u64)| {
            *a += *b;
            *b += *a;
        };
        for _ in 0..3 {
            cluster.task("both").operands((update(&a), update(&b))).cpu(both).submit()?;
            cluster.task("both").operands((update(&b), update(&a))).cpu(both).submit()?;
        }
        assert_eq!((cluster.owner_of(&a)?, cluster.runs_here(&b)?), (Some(0), cluster.rank() == 1));
        Ok::<_, Error>((cluster.take(a)?, cluster.take(b)?))
    };
    let (mut a, mut b) = (1, 10);
    for _ in 0..3 {
        a += b;
        b += a;
        b += a;
        a += b;
    }
    assert_eq!(run_local(2, 1, |cluster| program(cluster).unwrap()).unwrap(), [(a, b); 2]);
}

/// Parts are registered, read and written like anything else.
#[test]
fn vectors_are_split_and_joined() {
    let program = |cluster: &Cluster| {
        let v = cluster.register_sized::<Vec<f64>>(zellige_runtime::Meta { bytes: 80, ..Default::default() });
        cluster.set_owner(&v, 1)?;
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
        assert_eq!(cluster.owner_of(&views[0])?, Some(1));
        let seen = cluster.read(&views[0])?.to_vec();
        Ok::<_, Error>((cluster.take(v)?, seen))
    };
    for (v, seen) in run_local(2, 1, |cluster| program(cluster).unwrap()).unwrap() {
        assert_eq!(v, [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 3.0, 3.0, 3.0, 1.0]);
        assert_eq!(seen, [1.0; 5]);
    }
}

/// Wrong calls are refused on all ranks, and change nothing.
#[test]
fn wrong_calls_are_refused_everywhere() {
    let program = |cluster: &Cluster| {
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
        // A type that is more than bytes stays where it is.
        let stays = cluster.register(vec![(1u8, 2u32)]);
        assert!(cluster.ranks() == 1 || matches!(cluster.read(&stays), Err(Error::Config(_))));
        submit(&x)?;
        let copy = Handle::clone(&x);
        assert_eq!(cluster.take(x)?, 2);
        assert!(matches!(submit(&copy), Err(Error::Gone { .. })));
        cluster.wait_all()
    };
    for ranks in 1..=3 {
        run_local(ranks, 1, |cluster| program(cluster).unwrap()).unwrap();
    }
}
