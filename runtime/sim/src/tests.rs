//! Small machines whose schedules are known by hand.

use super::*;
use zellige_runtime::{
    Buffer, Format, Handle, Recorder, Runtime, Submit, commute, read, reduce, update, write,
};

fn machine(gpus: usize, capacity_gb: f64, peers: bool) -> Platform {
    let mut text = String::from("name = \"m\"\n[[nodes]]\nname = \"host\"\nconvert_gb_s = 1.0\n");
    for gpu in 0..gpus {
        text += &format!(
            "[[nodes]]\nname = \"g{gpu}\"\ncapacity_gb = {capacity_gb}\nconvert_gb_s = 1.0\n\
             [[devices]]\nkind = \"gpu\"\nnode = \"g{gpu}\"\n\
             [[links]]\nbetween = [\"host\", \"g{gpu}\"]\ngb_s = 1.0\nlatency_us = 0.0\n"
        );
        for peer in (0..gpu).filter(|_| peers) {
            text += &format!("[[links]]\nbetween = [\"g{peer}\", \"g{gpu}\"]\ngb_s = 2.0\n");
        }
    }
    text += "[kinds.gpu]\nmemory_gb_s = 1e9\npeak_tflops = { \"\" = 1.0 }\nefficiency = { \"*\" = [[1, 1.0]] }\noverhead_us = 5.0\n";
    Platform::parse(&text).unwrap()
}

/// `count` handles of 1000 bytes.
fn handles(rt: &Runtime, count: usize) -> Vec<Handle<Buffer<u8>>> {
    (0..count).map(|_| rt.register(Buffer::zeroed(1000))).collect()
}

#[test]
fn a_chain_pays_one_transfer_and_its_tasks() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let x = &handles(&rt, 1)[0];
    let graph = rt
        .record(|g: &Recorder| {
            (0..4).try_for_each(|_| g.task("step").operands((update(x),)).cpu(|(_,)| ()).submit().map(drop))
        })
        .unwrap();
    for policy in ["eager", "prio", "lws"] {
        let outcome =
            Simulation::new(&graph, &machine(1, 1.0, false)).policy(policy).collect([0]).run().unwrap();
        // 1 us in, four tasks of 5 us, 1 us out.
        assert_eq!(outcome.makespan.as_nanos(), 1000 + 4 * 5000 + 1000, "{policy}");
        assert_eq!(outcome.bytes_moved, BytesMoved { h2d: 1000, d2h: 1000, p2p: 0 });
        assert_eq!(outcome.trace.tasks.len(), 4);
    }
}

/// A [`machine`] with one GPU, for which the host learns of ends 2 us later.
fn late_machine() -> Platform {
    let mut platform = machine(1, 1.0, false);
    for kind in platform.kinds.values_mut() {
        if let platform::KindSpec::Rated(rates) = kind {
            rates.end_us = 2.0;
        }
    }
    platform
}

#[test]
fn tasks_are_launched_behind_others_where_ends_are_learnt_late() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let x = &handles(&rt, 1)[0];
    let graph = rt
        .record(|g: &Recorder| {
            (0..9).try_for_each(|_| g.task("step").operands((update(x),)).cpu(|(_,)| ()).submit().map(drop))
        })
        .unwrap();
    for policy in ["eager", "dmdas", "lws"] {
        let late = late_machine();
        let run = || Simulation::new(&graph, &late).policy(policy).collect([0]);
        // 1 us in, nine tasks of 5 us without a gap, 2 us until the host learns of the end, 1 us
        // out.
        let outcome = run().run().unwrap();
        assert_eq!(outcome.makespan.as_nanos(), 1000 + 9 * 5000 + 2000 + 1000, "{policy}");
        assert_eq!(outcome.trace.tasks.len(), 9);
        // The deferred work of a task has to end before the next one writes.
        let mut norms = Norms::default();
        (0..10).for_each(|version| norms.set(0, version, 1.0));
        let outcome = run().norms(norms).run().unwrap();
        assert_eq!(outcome.makespan.as_nanos(), 1000 + 9 * 7000 + 1000, "{policy}");
    }
    // Tasks that do not depend on each other wait for no end either.
    let all = handles(&rt, 8);
    let graph = rt
        .record(|g: &Recorder| {
            all.iter()
                .try_for_each(|x| g.task("one").operands((update(x),)).cpu(|(_,)| ()).submit().map(drop))
        })
        .unwrap();
    let outcome = Simulation::new(&graph, &late_machine()).policy("eager").run().unwrap();
    assert_eq!(outcome.makespan.as_nanos(), 1000 + 8 * 5000);
}

#[test]
fn transfers_overlap_with_tasks_and_two_devices_share_the_work() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let all = handles(&rt, 8);
    let graph = rt
        .record(|g: &Recorder| {
            all.iter()
                .try_for_each(|x| g.task("one").operands((update(x),)).cpu(|(_,)| ()).submit().map(drop))
        })
        .unwrap();
    let one = Simulation::new(&graph, &machine(1, 1.0, false)).policy("eager").run().unwrap();
    assert_eq!(one.makespan.as_nanos(), 1000 + 8 * 5000, "all but the first transfer are hidden");
    let two = Simulation::new(&graph, &machine(2, 1.0, true)).policy("eager").run().unwrap();
    assert_eq!(two.makespan.as_nanos(), 1000 + 4 * 5000);
}

#[test]
fn memory_for_one_working_set_is_enough_and_less_is_refused_with_the_arithmetic() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let all = handles(&rt, 6);
    let graph = rt
        .record(|g: &Recorder| {
            for i in 0..30 {
                let (a, b, c) = (&all[i % 6], &all[(i + 1) % 6], &all[(i + 3) % 6]);
                g.task("three").operands((read(a), read(b), update(c))).cpu(|_| ()).submit()?;
            }
            Ok::<_, zellige_runtime::Error>(())
        })
        .unwrap();
    let exact = Simulation::new(&graph, &machine(1, 3e-6, false)).policy("eager").run().unwrap();
    assert!(exact.trace.evictions.iter().any(|eviction| eviction.written_back));
    assert_eq!(
        exact.trace.memory.iter().filter(|event| event.node == 1).map(|event| event.used).max(),
        Some(3000)
    );
    let roomy = Simulation::new(&graph, &machine(1, 1.0, false)).policy("eager").run().unwrap();
    assert!(roomy.trace.evictions.is_empty());
    assert_eq!(roomy.bytes_moved.h2d, 6000);
    assert!(exact.makespan > roomy.makespan);
    let error =
        Simulation::new(&graph, &machine(1, 2.9e-6, false)).policy("eager").run().unwrap_err().to_string();
    assert!(error.contains("three") && error.contains("3 operands"), "{error}");
}

#[test]
fn a_simulation_repeats_itself() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let all = handles(&rt, 20);
    let graph = rt
        .record(|g: &Recorder| {
            for i in 0..300usize {
                let (a, b, c) = (&all[i * 7 % 20], &all[(i * 3 + 1) % 20], &all[(i * 11 + 2) % 20]);
                if [a.name(), b.name()].contains(&c.name()) {
                    g.task("fresh").operands((write(c),)).cpu(|(_,)| ()).submit()?;
                } else {
                    g.task("mix").operands((read(a), read(b), update(c))).cpu(|_| ()).submit()?;
                }
            }
            Ok::<_, zellige_runtime::Error>(())
        })
        .unwrap();
    for (policy, _) in zellige_runtime::sched::POLICIES {
        let run = || Simulation::new(&graph, &machine(3, 8e-6, true)).policy(policy).run().unwrap();
        let (a, b) = (run(), run());
        assert_eq!((a.makespan, &a.trace.tasks), (b.makespan, &b.trace.tasks), "{policy}");
        assert_eq!((&a.trace.transfers, &a.trace.memory), (&b.trace.transfers, &b.trace.memory), "{policy}");
        assert_eq!(a.trace.tasks.len(), 300);
    }
}

#[test]
fn a_format_that_a_type_does_not_have_is_an_error() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let x = &handles(&rt, 1)[0];
    let graph = rt
        .record(|g: &Recorder| {
            g.task("odd").operands((read(x).as_format(Format(9)),)).cpu(|(_,)| ()).submit().map(drop)
        })
        .unwrap();
    let error =
        Simulation::new(&graph, &machine(1, 1.0, false)).policy("eager").run().unwrap_err().to_string();
    assert!(error.contains("odd") && error.contains("Format(9)"), "{error}");
}

/// Two workers on a host run five tasks, the first of which is the longest.
#[test]
fn who_gathers_nothing_ahead_takes_a_task_when_it_is_free() {
    let host = "name = \"h\"\nnodes = [{ name = \"host\", convert_gb_s = 1.0 }]\n\
                devices = [{ kind = \"cpu\", node = \"host\", count = 2 }]\n\
                [kinds.cpu]\nmemory_gb_s = 1e9\npeak_tflops = { \"\" = 1.0 }\nefficiency = { \"*\" = [[1, 1.0]] }\n";
    let host = Platform::parse(host).unwrap();
    let graph = Graph::record(|g: &Recorder| {
        [4e9, 1e9, 1e9, 1e9, 1e9]
            .into_iter()
            .try_for_each(|flops| g.task("t").operands(()).cpu(|()| ()).flops(flops).submit().map(drop))
    })
    .unwrap();
    let run = |ahead| Simulation::new(&graph, &host).policy("eager").ahead(ahead).run().unwrap();
    assert_eq!(run(0).makespan.as_millis(), 4);
    assert!(run(2).makespan.as_millis() > 4, "tasks wait behind the long one");
}

/// Takes its label from the norm of its operand.
struct ByNorm;

impl zellige_runtime::Codelet for ByNorm {
    type Operands = (zellige_runtime::Update<Buffer<u8>>,);

    fn name(&self) -> &'static str {
        "by norm"
    }

    fn selects(&self) -> bool {
        true
    }

    fn select(&self, metas: &[zellige_runtime::Meta]) -> zellige_runtime::Choice {
        let label = match metas[0].norm {
            norm if norm.is_nan() => "unknown",
            norm if norm < 1.0 => "small",
            _ => "large",
        };
        zellige_runtime::Choice { label, ..zellige_runtime::Choice::default() }
    }

    fn cpu(
        &self,
        _views: <Self::Operands as zellige_runtime::Operands>::Views<'_, zellige_runtime::Cpu>,
        _cx: &mut zellige_runtime::TaskContext<'_>,
    ) -> Result<(), zellige_runtime::TaskError> {
        Ok(())
    }
}

#[test]
fn late_choices_see_the_norm_of_each_version() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let all = handles(&rt, 2);
    let graph = rt
        .record(|g: &Recorder| {
            // Slot 0 is `all[1]`: numbers follow first use.
            g.submit(ByNorm, (update(&all[1]),))?;
            (0..5).try_for_each(|_| g.submit(ByNorm, (update(&all[0]),)).map(drop))
        })
        .unwrap();
    let labels = |norms: Norms| -> Vec<&'static str> {
        let machine = machine(1, 1.0, false);
        let mut tasks = Simulation::new(&graph, &machine).norms(norms).run().unwrap().trace.tasks;
        tasks.sort_by_key(|task| task.id);
        tasks.iter().map(|task| task.label).collect()
    };
    assert_eq!(labels(Norms::default()), ["unknown"; 6]);
    let mut norms = Norms::default();
    [(0, 0.5), (2, 2.0), (4, 0.1)].into_iter().for_each(|(version, norm)| norms.set(1, version, norm));
    assert_eq!(labels(norms), ["unknown", "small", "small", "large", "large", "small"]);
}

/// Gives everything to the last worker.
struct Last(parking_lot::Mutex<zellige_runtime::sched::TaskQueue>);

impl Policy for Last {
    fn name(&self) -> &str {
        "last"
    }

    fn push(
        &self,
        view: &zellige_runtime::sched::SchedView<'_>,
        task: zellige_runtime::sched::ReadyTask,
        _from: Option<usize>,
    ) -> zellige_runtime::sched::Wake {
        self.0.lock().push(task);
        zellige_runtime::sched::Wake::Worker(view.workers() - 1)
    }

    fn pop(
        &self,
        view: &zellige_runtime::sched::SchedView<'_>,
        worker: usize,
    ) -> Option<zellige_runtime::sched::ReadyTask> {
        if worker + 1 == view.workers() { self.0.lock().pop() } else { None }
    }
}

#[test]
fn a_policy_of_ones_own_decides() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let all = handles(&rt, 4);
    let graph = rt
        .record(|g: &Recorder| {
            all.iter()
                .try_for_each(|x| g.task("one").operands((update(x),)).cpu(|(_,)| ()).submit().map(drop))
        })
        .unwrap();
    let machine = machine(3, 1.0, false);
    let simulation = Simulation::new(&graph, &machine).policy_with(Box::new(Last(Default::default())));
    let outcome = simulation.run().unwrap();
    assert_eq!(outcome.trace.policy, "last");
    assert_eq!(outcome.trace.tasks.iter().map(|task| task.worker).collect::<Vec<_>>(), [2; 4]);
}

/// A host with workers of these kinds, whose tasks take 5 us plus the time of their operations (1
/// Tflop/s); `more`: other nodes and links.
fn host(capacity: &str, kinds: &[(&str, usize)], more: &str) -> Platform {
    let mut text =
        format!("name = \"h\"\n[[nodes]]\nname = \"host\"\nconvert_gb_s = 1.0\n{capacity}\n{more}\n");
    for (kind, count) in kinds {
        text += &format!(
            "[[devices]]\nkind = \"{kind}\"\nnode = \"host\"\ncount = {count}\n[kinds.{kind}]\nmemory_gb_s = 1e9\n\
             peak_tflops = {{ \"\" = 1.0 }}\nefficiency = {{ t = [[1, 1.0]] }}\noverhead_us = 5.0\n"
        );
    }
    Platform::parse(&text).unwrap()
}

#[test]
fn commuting_tasks_exclude_each_other_on_all_devices() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let all = handles(&rt, 3);
    let graph = rt
        .record(|g: &Recorder| {
            for _ in 0..6 {
                g.task("sum").operands((commute(&all[0]),)).cpu(|_| ()).submit()?;
                g.task("else").operands((update(&all[1]),)).cpu(|_| ()).submit()?;
                g.task("else").operands((update(&all[2]),)).cpu(|_| ()).submit()?;
            }
            g.task("after").operands((read(&all[0]),)).cpu(|_| ()).submit().map(drop)
        })
        .unwrap();
    for (policy, _) in zellige_runtime::sched::POLICIES {
        let trace = Simulation::new(&graph, &machine(2, 1.0, true)).policy(policy).run().unwrap().trace;
        let mut sums: Vec<_> = trace.tasks.iter().filter(|task| task.name == "sum").collect();
        sums.sort_by_key(|task| task.start_ns);
        assert_eq!(sums.len(), 6);
        assert!(sums.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns), "{policy}");
        let after = trace.tasks.iter().find(|task| task.name == "after").unwrap();
        assert!(after.start_ns >= sums[5].end_ns, "{policy}");
    }
}

#[test]
fn partial_results_are_made_side_by_side_and_added_on_the_host() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let x = rt.register(Buffer::<u8>::zeroed(1000)).with_reduction(|x| x.clone(), |_, _| ());
    let graph = rt
        .record(|g: &Recorder| {
            (0..4).try_for_each(|_| g.task("t").operands((reduce(&x),)).cpu(|_| ()).submit().map(drop))?;
            g.task("t").operands((read(&x),)).cpu(|_| ()).submit().map(drop)
        })
        .unwrap();
    let outcome = Simulation::new(&graph, &host("", &[("cpu", 2)], "")).policy("eager").run().unwrap();
    // Two at a time, then 1000 bytes at 1 GB/s, then the reader.
    assert_eq!(outcome.makespan.as_nanos(), 2 * 5000 + 1000 + 5000);
    assert_eq!(outcome.trace.tasks.iter().filter(|task| task.name == "combine").count(), 1);
    let error = Simulation::new(&graph, &machine(1, 1.0, false)).policy("eager").run().unwrap_err();
    assert!(error.to_string().contains("host memory"), "{error}");
}

/// Up to four in one call.
struct Batched;

impl zellige_runtime::Codelet for Batched {
    type Operands = (zellige_runtime::Update<Buffer<u8>>,);

    fn name(&self) -> &'static str {
        "t"
    }

    fn batch(&self) -> usize {
        4
    }

    fn cpu(
        &self,
        _views: <Self::Operands as zellige_runtime::Operands>::Views<'_, zellige_runtime::Cpu>,
        _cx: &mut zellige_runtime::TaskContext<'_>,
    ) -> Result<(), zellige_runtime::TaskError> {
        Ok(())
    }
}

#[test]
fn tasks_of_one_call_start_once() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let all = handles(&rt, 8);
    let graph =
        rt.record(|g: &Recorder| all.iter().try_for_each(|x| g.submit(Batched, (update(x),)).map(drop)));
    let outcome =
        Simulation::new(&graph.unwrap(), &host("", &[("cpu", 1)], "")).policy("eager").run().unwrap();
    assert_eq!(outcome.makespan.as_nanos(), 2 * 5000);
    assert!(outcome.trace.tasks.iter().all(|task| task.batch == 4));
}

#[test]
fn a_host_that_is_too_small_has_a_disk() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let all = handles(&rt, 6);
    let graph = rt
        .record(|g: &Recorder| {
            (0..30).try_for_each(|i| {
                g.task("t").operands((update(&all[i * 5 % 6]),)).cpu(|_| ()).submit().map(drop)
            })
        })
        .unwrap();
    let disk =
        "[[nodes]]\nname = \"disk\"\ndisk = true\n[[links]]\nbetween = [\"host\", \"disk\"]\ngb_s = 1.0";
    let small = host("capacity_gb = 3e-6", &[("cpu", 1)], disk);
    let outcome = Simulation::new(&graph, &small).policy("eager").collect(0..6).run().unwrap();
    let written = outcome.trace.transfers.iter().filter(|transfer| transfer.to == 1).count();
    let read = outcome.trace.transfers.iter().filter(|transfer| transfer.from == 1).count();
    assert!(written >= 3 && read >= 3, "{written} {read}");
    let roomy = Simulation::new(&graph, &host("", &[("cpu", 1)], "")).policy("eager").run().unwrap();
    assert_eq!(roomy.makespan.as_nanos(), 30 * 5000);
    assert!(outcome.makespan > roomy.makespan);
    let two = host("", &[("cpu", 1)], &disk.replace("disk = true", "convert_gb_s = 1.0"));
    assert!(two.nodes.len() == 2, "without the word it is a node like others");
    let text = small
        .to_toml()
        .unwrap()
        .replace("[[links]]", "[[devices]]\nkind = \"cpu\"\nnode = \"disk\"\n[[links]]");
    assert!(Platform::parse(&text).unwrap_err().to_string().contains("disk"), "{text}");
}

#[test]
fn tasks_run_on_the_kinds_that_they_name() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let all = handles(&rt, 9);
    let record = |kinds: &'static [&'static str]| {
        rt.record(|g: &Recorder| {
            all.iter().try_for_each(|x| {
                g.task("t").operands((update(x),)).cpu(|_| ()).on_kinds(kinds).submit().map(drop)
            })
        })
        .unwrap()
    };
    let two = host("", &[("fast", 2), ("slow", 1)], "");
    for (policy, _) in zellige_runtime::sched::POLICIES {
        let outcome = Simulation::new(&record(&["slow"]), &two).policy(policy).run().unwrap();
        assert!(outcome.trace.tasks.iter().all(|task| task.worker == 2), "{policy}");
        assert_eq!(outcome.makespan.as_nanos(), 9 * 5000, "{policy}");
    }
    let error = Simulation::new(&record(&["other"]), &two).run().unwrap_err().to_string();
    assert!(error.contains("where it may run"), "{error}");
}

/// Action of a rank in a test of messages: a task of 5 us on a value of 1000 bytes, or a send or
/// receive of one. Over a network of 1 GB/s the value takes 1 us and arrives 2 us later.
enum Step {
    Work(usize),
    Send { message: u32, to: u32, of: usize },
    Receive { message: u32, from: u32, of: usize },
}

fn ranks(graphs: &[&[Step]]) -> Result<RanksOutcome, Error> {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let all = handles(&rt, 2);
    let graph = |steps: &&[Step]| {
        let add = |g: &Recorder, step: &Step| match *step {
            Step::Work(of) => g.task("t").operands((update(&all[of]),)).cpu(|_| ()).submit(),
            Step::Send { message, to, of } => {
                g.task("send").operands((read(&all[of]),)).cpu(|_| ()).coords([message, 0, to]).submit()
            }
            Step::Receive { message, from, of } => {
                g.task("receive").operands((write(&all[of]),)).cpu(|_| ()).coords([message, 0, from]).submit()
            }
        };
        rt.record(|g: &Recorder| steps.iter().try_for_each(|step| add(g, step).map(drop))).unwrap()
    };
    let graphs: Vec<Graph> = graphs.iter().map(graph).collect();
    let mut platform = host("", &[("cpu", 1)], "");
    platform.network = Some(platform::NetworkSpec { gb_s: 1.0, latency_us: 2.0 });
    RankSimulation::new(&graphs, &platform).policy("eager").run()
}

fn nanos(outcome: &SimOutcome) -> u128 {
    outcome.makespan.as_nanos()
}

#[test]
fn a_message_takes_its_bytes_and_the_latency() {
    use Step::{Receive, Send, Work};
    let first = [Work(0), Send { message: 0, to: 1, of: 0 }];
    let outcome = ranks(&[&first, &[Receive { message: 0, from: 0, of: 0 }, Work(0)]]).unwrap();
    assert_eq!(outcome.makespan.as_nanos(), 5000 + 1000 + 2000 + 5000);
    assert_eq!(nanos(&outcome.ranks[0]), 5000 + 1000);
    let one = Messages { sent: 1, sent_bytes: 1000, ..Messages::default() };
    let other = Messages { received: 1, received_bytes: 1000, ..Messages::default() };
    assert_eq!(outcome.messages, [one, other]);
    // The adapter is no device.
    assert!((outcome.ranks[0].idle_share - 1.0 / 6.0).abs() < 1e-9);
    assert_eq!(outcome.ranks[1].bounds.area.as_nanos(), 5000);
}

#[test]
fn adapters_take_one_message_at_a_time_and_direction() {
    use Step::{Receive, Send, Work};
    // Two from one rank: the second leaves after the first.
    let both = [Send { message: 0, to: 1, of: 0 }, Send { message: 1, to: 2, of: 1 }];
    let takes = |message: u32, from: u32, of: usize| [Receive { message, from, of }, Work(of)];
    let outcome = ranks(&[&both, &takes(0, 0, 0), &takes(1, 0, 1)]).unwrap();
    assert_eq!([1, 2].map(|rank: usize| nanos(&outcome.ranks[rank])), [3000 + 5000, 4000 + 5000]);
    // Two to one rank: the second arrives after the first.
    let one = |message| [Send { message, to: 2, of: 0 }];
    let [x, y] = [takes(0, 0, 0), takes(1, 1, 1)];
    let outcome = ranks(&[&one(0), &one(1), &x.into_iter().chain(y).collect::<Vec<_>>()]).unwrap();
    assert_eq!(nanos(&outcome.ranks[2]), 3000 + 2 * 5000);
    let receives = outcome.ranks[2].trace.tasks.iter().filter(|task| task.name == "receive");
    assert_eq!(receives.map(|task| task.end_ns).collect::<Vec<_>>(), [3000, 4000]);
    // Both directions at once.
    let each = |own: u32, other: u32| {
        [Send { message: own, to: other, of: 0 }, Receive { message: other, from: other, of: 1 }]
    };
    let outcome = ranks(&[&each(0, 1), &each(1, 0)]).unwrap();
    assert_eq!(outcome.makespan.as_nanos(), 3000);
    // A message that arrives before the value that it replaces has been read.
    let late = [Work(0), Receive { message: 0, from: 0, of: 0 }, Work(0)];
    let outcome = ranks(&[&[Send { message: 0, to: 1, of: 0 }], &late]).unwrap();
    assert_eq!(outcome.makespan.as_nanos(), 2 * 5000);
}

#[test]
fn what_is_never_sent_is_an_error_with_its_rank() {
    let waits = [Step::Receive { message: 7, from: 0, of: 0 }];
    let error = ranks(&[&[Step::Work(0)], &waits]).unwrap_err().to_string();
    assert!(error.contains("rank 1") && error.contains("1 tasks"), "{error}");
    let alone = host("", &[("cpu", 1)], "");
    let error = RankSimulation::new(&[], &alone).run().unwrap_err().to_string();
    assert!(error.contains("[network]") && error.contains("gb_s"), "{error}");
}
