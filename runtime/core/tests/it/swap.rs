//! A host with less memory than the data, with a swap disk and without.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zellige_runtime::sched::POLICIES;
use zellige_runtime::{
    Bindings, Emulated, Error, Handle, NodeUse, Recorder, Runtime, RuntimeBuilder, Submit, commute, read,
    reads, reduce, update, write,
};

/// Size of one vector (bytes).
const EACH: u64 = 8 * 1000;

/// Returns a builder of a runtime that aborts with a message if it hangs.
fn builder(cpus: usize) -> RuntimeBuilder {
    Runtime::builder().workers(cpus).bind(false).watchdog(Some(Duration::from_secs(20))).on_stall(|text| {
        eprintln!("stalled: {text}");
        std::process::abort();
    })
}

fn vectors(rt: &Runtime, count: usize) -> Vec<Handle<Vec<f64>>> {
    (0..count).map(|i| rt.register(vec![i as f64; 1000])).collect()
}

/// Adds each vector to the one `round` positions after it.
fn add_around(rt: &Runtime, data: &[Handle<Vec<f64>>], round: usize) {
    for i in 0..data.len() {
        rt.task("add")
            .operands((read(&data[i]), update(&data[(i + round) % data.len()])))
            .cpu(|(from, to)| from.iter().zip(to).for_each(|(a, b)| *b += a))
            .submit()
            .unwrap();
    }
}

/// Returns the expected values after two rounds.
fn added(count: usize) -> Vec<f64> {
    let mut want: Vec<f64> = (0..count).map(|i| i as f64).collect();
    for round in 1..3 {
        for i in 0..count {
            want[(i + round) % count] += want[i];
        }
    }
    want
}

fn last(nodes: &[NodeUse]) -> &NodeUse {
    nodes.last().unwrap()
}

/// Waits until the host holds at most `bytes`: excess data leave it some time after the last task.
/// Returns false after a timeout.
fn holds_at_most(rt: &Runtime, bytes: u64) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while rt.memory()[0].used > bytes && Instant::now() < end {
        std::thread::yield_now();
    }
    rt.memory()[0].used <= bytes && rt.memory()[0].capacity == Some(bytes)
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn more_data_than_host_memory() {
    let folder = tempfile::tempdir().unwrap();
    for policy in POLICIES.iter().map(|(name, _)| *name) {
        let rt = builder(2).policy(policy).host_memory(5 * EACH).swap(folder.path()).build().unwrap();
        let data = vectors(&rt, 30);
        add_around(&rt, &data, 1);
        add_around(&rt, &data, 2);
        rt.wait_all().unwrap();
        let nodes = rt.memory();
        assert_eq!((nodes.len(), &*nodes[0].name, &*nodes[1].name), (2, "host", "disk"));
        assert!(nodes[1].bytes_in >= 25 * EACH, "{policy}: {nodes:?}");
        assert!(nodes[1].bytes_out >= 25 * EACH, "{policy}: {nodes:?}");
        assert_eq!((nodes[0].bytes_out, nodes[0].bytes_in), (nodes[1].bytes_in, nodes[1].bytes_out));
        assert!(holds_at_most(&rt, 5 * EACH), "{policy}: {:?}", rt.memory());
        for (handle, want) in data.into_iter().zip(added(30)) {
            assert_eq!(rt.take(handle).unwrap(), vec![want; 1000], "{policy}");
        }
        assert!(is_empty(folder.path()), "the file has no name");
    }
}

#[test]
fn devices_and_a_disk_share_what_the_host_cannot_hold() {
    let folder = tempfile::tempdir().unwrap();
    for peers in [true, false] {
        let device = Emulated::new(3 * EACH).late(3, Duration::from_micros(30));
        let mut builder =
            builder(1).host_memory(4 * EACH).swap(folder.path()).device(device.clone()).device(device);
        if peers {
            builder = builder.peers(5e9);
        }
        let rt = builder.build().unwrap();
        let data = vectors(&rt, 40);
        add_around(&rt, &data, 1);
        add_around(&rt, &data, 2);
        rt.wait_all().unwrap();
        let nodes = rt.memory();
        assert_eq!(
            nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(),
            ["host", "emulated 0", "emulated 1", "disk"]
        );
        assert!(last(&nodes).bytes_in > 0 && last(&nodes).used > 0, "{nodes:?}");
        for (handle, want) in data.into_iter().zip(added(40)) {
            assert_eq!(rt.take(handle).unwrap(), vec![want; 1000]);
        }
    }
}

#[test]
fn handles_outlive_their_runtime_whatever_it_could_hold() {
    let folder = tempfile::tempdir().unwrap();
    let data = {
        let rt = builder(2).host_memory(3 * EACH).swap(folder.path()).build().unwrap();
        let data = vectors(&rt, 20);
        add_around(&rt, &data, 1);
        add_around(&rt, &data, 2);
        data
    };
    let rt = builder(1).build().unwrap();
    for (handle, want) in data.into_iter().zip(added(20)) {
        assert_eq!(rt.take(handle).unwrap(), vec![want; 1000]);
    }
}

#[test]
fn callers_may_hold_more_than_the_host_does() {
    let folder = tempfile::tempdir().unwrap();
    for swap in [true, false] {
        let mut builder = builder(2).host_memory(3 * EACH);
        if swap {
            builder = builder.swap(folder.path());
        }
        let rt = builder.build().unwrap();
        let data = vectors(&rt, 10);
        add_around(&rt, &data[..5], 1);
        let held: Vec<_> = data[..5].iter().map(|handle| rt.read(handle).unwrap()).collect();
        assert!(rt.memory()[0].used >= 5 * EACH);
        // There is no room for these while the guards are held, and no other task that could end.
        let tasks: Vec<_> = data[5..]
            .iter()
            .map(|to| {
                let operands = (read(&data[0]), update(to));
                rt.task("copy")
                    .operands(operands)
                    .cpu(|(from, to)| to.copy_from_slice(from))
                    .submit()
                    .unwrap()
            })
            .collect();
        tasks.iter().for_each(|task| rt.wait(task).unwrap());
        assert_eq!(held[0][0], 10.0);
        drop(held);
        rt.write(&data[9]).unwrap()[0] = 7.0;
        assert_eq!((rt.take(data[9].clone()).unwrap()[0], rt.read(&data[8]).unwrap()[0]), (7.0, 10.0));
    }
}

#[test]
fn bodies_wait_for_tasks_that_need_the_memory_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    for swap in [true, false] {
        let mut builder = builder(2).window(8).host_memory(2 * EACH);
        if swap {
            builder = builder.swap(folder.path());
        }
        let rt = Arc::new(builder.build().unwrap());
        let data = vectors(&rt, 12);
        for i in 0..4 {
            let (inner, more, own) = (data[4 + i].clone(), data[8 + i].clone(), Arc::clone(&rt));
            rt.task("outer")
                .operands((update(&data[i]),))
                .cpu(move |(to,)| {
                    let operands = (read(&inner), update(&more));
                    let copy =
                        own.task("inner").operands(operands).cpu(|(from, to)| to.copy_from_slice(from));
                    own.wait(&copy.submit().unwrap()).unwrap();
                    to[0] = -1.0;
                })
                .submit()
                .unwrap();
        }
        rt.wait_all().unwrap();
        for i in 0..4 {
            assert_eq!(rt.read(&data[i]).unwrap()[..2], [-1.0, i as f64]);
            assert_eq!(rt.read(&data[8 + i]).unwrap()[0], (4 + i) as f64);
        }
    }
}

#[test]
fn reductions_commuting_tasks_lists_and_replays() {
    let folder = tempfile::tempdir().unwrap();
    let rt = builder(2).host_memory(6 * EACH).swap(folder.path()).build().unwrap();
    let data = vectors(&rt, 20);
    let sum = rt
        .register(vec![0.0f64; 1000])
        .with_reduction(|sum| vec![0.0; sum.len()], |a, b| a.iter_mut().zip(b).for_each(|(a, b)| *a += b));
    let total = rt.register(vec![0.0f64; 1000]);
    let graph = rt
        .record(|g: &Recorder| {
            for handle in &data {
                let add = |(from, to): (&[f64], &mut [f64])| from.iter().zip(to).for_each(|(a, b)| *b += a);
                g.task("reduce").operands((read(handle), reduce(&sum))).cpu(add).submit()?;
                g.task("commute").operands((read(handle), commute(&total))).cpu(add).submit()?;
            }
            Ok::<(), Error>(())
        })
        .unwrap();
    for round in 1..4 {
        rt.replay(&Bindings::recorded(&graph)).unwrap();
        rt.wait_all().unwrap();
        // Others take the memory: partial results are not on the disk when they are requested, the
        // rest may be.
        let others = vectors(&rt, 20);
        add_around(&rt, &others, round);
    }
    rt.wait_all().unwrap();
    assert_eq!(rt.take(total).unwrap()[0], 3.0 * 190.0);
    assert_eq!(rt.take(sum).unwrap()[0], 3.0 * 190.0);
    let five = rt.register_empty::<Vec<f64>>();
    rt.task("list")
        .operands((reads(&data[10..15]), write(&five)))
        .cpu(|(from, mut to)| to.put(from.iter().map(|vector| vector[0]).collect()))
        .submit()
        .unwrap();
    assert_eq!(rt.take(five).unwrap(), [10.0, 11.0, 12.0, 13.0, 14.0]);
}

#[test]
fn values_of_unknown_size_go_to_the_disk_too() {
    let folder = tempfile::tempdir().unwrap();
    let rt = builder(2).host_memory(4 * EACH).swap(folder.path()).build().unwrap();
    let data: Vec<_> = (0..100).map(|_| rt.register_empty::<Vec<f64>>()).collect();
    for (i, handle) in data.iter().enumerate() {
        let make = move |(mut to,): (zellige_runtime::Slot<'_, Vec<f64>>,)| to.put(vec![i as f64; 1000]);
        rt.task("make").operands((write(handle),)).cpu(make).submit().unwrap();
    }
    rt.wait_all().unwrap();
    let nodes = rt.memory();
    assert!(holds_at_most(&rt, 4 * EACH) && last(&rt.memory()).used >= 96 * EACH, "{:?}", rt.memory());
    // Two workers gather two tasks each, and run one.
    assert!(nodes[0].peak <= 12 * EACH, "{nodes:?}");
    for (i, handle) in data.into_iter().enumerate() {
        assert_eq!(rt.take(handle).unwrap()[999], i as f64);
    }
}

#[test]
fn what_can_never_fit_is_refused_and_what_cannot_leave_stays() {
    let rt = builder(2).host_memory(3 * EACH).build().unwrap();
    let data = vectors(&rt, 8);
    let error = rt.task("four").operands((reads(&data[..4]),)).cpu(|(_,)| ()).submit().unwrap_err();
    let Error::TooLarge { bytes, capacity, node, operands, .. } = &error else { panic!("{error}") };
    assert_eq!((*bytes, *capacity, &**node, *operands), (4 * EACH, 3 * EACH, "host", 4));
    // All data exceed the limit, and there is no swap: they are all there at the end.
    add_around(&rt, &data, 1);
    add_around(&rt, &data, 2);
    let stuck: Vec<_> = (0..8).map(|i| rt.register(vec![(i, i as u8)])).collect();
    for pair in &stuck {
        rt.task("pair")
            .operands((update(pair), read(&data[0])))
            .cpu(|(pair, _)| pair[0].1 += 1)
            .submit()
            .unwrap();
    }
    rt.wait_all().unwrap();
    assert_eq!(rt.memory().len(), 1);
    for (handle, want) in data.into_iter().zip(added(8)) {
        assert_eq!(rt.take(handle).unwrap(), vec![want; 1000]);
    }
    assert_eq!(rt.take(stuck[3].clone()).unwrap(), [(3, 4)]);
}

#[test]
fn slices_and_values_that_do_not_travel_stay_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let rt = builder(2).host_memory(4 * EACH).swap(folder.path()).build().unwrap();
    let data = vectors(&rt, 20);
    let pairs = rt.register(vec![(1u8, 2u32); 1000]);
    let mut mine = vec![1.0f64; 1000];
    rt.scope(|s| {
        let slice = s.slice(&mut mine, 1000, 1000)?;
        for handle in &data {
            rt.task("add")
                .operands((read(handle), update(&slice), update(&pairs)))
                .cpu(|(from, slice, pairs)| {
                    slice.data.iter_mut().zip(from).for_each(|(a, b)| *a += b);
                    pairs[0].1 += 1;
                })
                .submit()?;
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(mine, vec![191.0; 1000]);
    assert_eq!(rt.take(pairs).unwrap()[..2], [(1, 22), (1, 2)]);
}

#[test]
fn wrong_configurations_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = builder(1).swap(folder.path()).build().unwrap_err().to_string();
    assert!(error.contains("host_memory"), "{error}");
    let nowhere = folder.path().join("missing");
    let error = builder(1).host_memory(1 << 20).swap(&nowhere).build().unwrap_err().to_string();
    assert!(error.contains("making a swap file in") && error.contains("missing"), "{error}");
}

/// A killed process leaves nothing of its swap file, which was not empty.
#[test]
fn a_killed_process_leaves_no_file() {
    const FOLDER: &str = "ZELLIGE_TEST_SWAP_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let rt = builder(1).host_memory(3 * EACH).swap(Path::new(&folder)).build().unwrap();
        let data = vectors(&rt, 20);
        add_around(&rt, &data, 1);
        rt.wait_all().unwrap();
        assert!(last(&rt.memory()).used > 10 * EACH);
        println!("swapped");
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "swap::a_killed_process_leaves_no_file", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let swapped = lines.map_while(Result::ok).any(|line| line.contains("swapped"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(swapped, "the process wrote to its file before it was killed");
    assert!(is_empty(folder.path()), "something is left");
}
