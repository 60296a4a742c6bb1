//! Batches of several tasks in one call of their codelet: their formation, results and failures.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zellige_runtime::sched::{POLICIES, Policy, ReadyTask, SchedView, Wake};
use zellige_runtime::*;
use zellige_tests::every;

/// Returns a builder of a runtime that aborts with a message if it hangs.
fn builder(cpus: usize) -> RuntimeBuilder {
    Runtime::builder().workers(cpus).watchdog(Some(Duration::from_secs(20))).on_stall(|text| {
        eprintln!("stalled: {text}");
        std::process::abort();
    })
}

/// Sizes of all calls so far.
type Calls = Arc<Mutex<Vec<usize>>>;

/// Fault that a body injects.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Error,
    Panic,
}

/// `y = 0.5 x + 0.3 y + number / 7`, up to `batch` at a time.
#[derive(Clone)]
struct Mix {
    calls: Calls,
    batch: usize,
    number: u32,
    shape: u32,
    label: &'static str,
    fault: Fault,
}

impl Mix {
    fn new(batch: usize) -> Mix {
        Mix { calls: Calls::default(), batch, number: 0, shape: 1, label: "", fault: Fault::None }
    }

    fn number(&self, number: usize) -> Mix {
        Mix { number: number as u32, ..self.clone() }
    }

    fn sizes(&self) -> Vec<usize> {
        self.calls.lock().unwrap().clone()
    }

    fn work(&self, x: f64, y: &mut f64) {
        *y = 0.5 * x + 0.3 * *y + f64::from(self.number) / 7.0;
    }
}

impl Codelet for Mix {
    type Operands = (Read<f64>, Update<f64>);

    fn name(&self) -> &'static str {
        "mix"
    }

    fn info(&self) -> TaskInfo {
        let (coords, shape) = (Some([self.number, u32::MAX, u32::MAX]), [self.shape, 0, 0]);
        TaskInfo { coords, shape, label: self.label, ..TaskInfo::default() }
    }

    fn cpu(&self, (x, y): (&f64, &mut f64), _: &mut TaskContext<'_>) -> Result<(), TaskError> {
        self.calls.lock().unwrap().push(1);
        self.work(*x, y);
        if self.fault == Fault::Error { Err("on purpose".into()) } else { Ok(()) }
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn cpu_batch(batch: Batch<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let first = batch[0].0;
        assert!((2..=first.batch).contains(&batch.len()));
        assert!(batch.iter().all(|(mix, _)| (mix.shape, mix.label) == (first.shape, first.label)));
        first.calls.lock().unwrap().push(batch.len());
        let faults: Vec<Fault> = batch.iter().map(|(mix, _)| mix.fault).collect();
        for (mix, (x, y)) in batch.into_iter().rev() {
            mix.work(*x, y);
        }
        // A body of several tasks may submit more.
        cx.task("after").operands(()).cpu(|()| ()).submit()?;
        match faults {
            faults if faults.contains(&Fault::Error) => Err("on purpose".into()),
            faults if faults.contains(&Fault::Panic) => panic!("on purpose"),
            _ => Ok(()),
        }
    }
}

/// A handle whose readers are all released at once by one task.
struct Root(Handle<f64>);

impl Root {
    /// Submits one reading task for each of `ys`, and releases them together.
    fn release(rt: &Runtime, ys: &[Handle<f64>], mut task: impl FnMut(usize) -> Mix) -> Vec<TaskRef> {
        let root = Root(rt.register(1.0f64));
        let guard = rt.write(&root.0).unwrap();
        rt.task("root").operands((update(&root.0),)).cpu(|(x,)| *x = 2.0).submit().unwrap();
        let submit =
            |(at, y): (usize, &Handle<f64>)| rt.submit(task(at), (read(&root.0), update(y))).unwrap();
        let tasks = ys.iter().enumerate().map(submit).collect();
        drop(guard);
        tasks
    }
}

fn values(rt: &Runtime, count: usize) -> Vec<Handle<f64>> {
    (0..count).map(|i| rt.register(i as f64).named(format!("y{i}"))).collect()
}

fn expected(number: usize, y: usize) -> f64 {
    0.5 * 2.0 + 0.3 * y as f64 + f64::from(number as u32) / 7.0
}

#[test]
fn what_is_ready_is_run_in_one_call() {
    for (policy, _) in POLICIES {
        let rt = builder(1).policy(policy).build().unwrap();
        let (mix, ys) = (Mix::new(16), values(&rt, 70));
        Root::release(&rt, &ys, |i| mix.number(i));
        rt.wait_all().unwrap();
        assert_eq!(mix.sizes(), [16, 16, 16, 16, 6], "{policy}");
        for (i, y) in ys.into_iter().enumerate() {
            assert_eq!(rt.take(y).unwrap().to_bits(), expected(i, i).to_bits(), "{policy}");
        }
    }
}

#[test]
fn on_a_device_what_is_there_is_launched_as_one() {
    for (policy, _) in POLICIES {
        let rt = builder(0).policy(policy).device(Emulated::new(1 << 16)).build().unwrap();
        let (mix, ys) = (Mix::new(16), values(&rt, 64));
        for round in 0..2 {
            Root::release(&rt, &ys, |i| mix.number(i));
            rt.wait_all().unwrap();
            assert_eq!(mix.sizes().iter().sum::<usize>(), 64 * (round + 1), "{policy}");
        }
        // In the second round all operands but the root are on the device.
        assert!(mix.sizes().len() < 100, "{policy}: {:?}", mix.sizes());
        assert!(mix.sizes().iter().all(|&size| size <= 16), "{policy}");
        for (i, y) in ys.into_iter().enumerate() {
            let want = 0.5 * 2.0 + 0.3 * expected(i, i) + f64::from(i as u32) / 7.0;
            assert_eq!(rt.take(y).unwrap().to_bits(), want.to_bits(), "{policy}");
        }
    }
}

#[test]
fn replays_run_together_too() {
    for devices in [0, 1] {
        let build = if devices > 0 { builder(0).device(Emulated::new(1 << 16)) } else { builder(1) };
        let rt = build.build().unwrap();
        let (mix, ys) = (Mix::new(8), values(&rt, 40));
        let root = rt.register(0.0f64);
        let graph = rt
            .record(|g: &Recorder| {
                g.task("root").operands((update(&root),)).cpu(|(x,)| *x = 2.0).submit()?;
                let task = |(i, y)| g.submit(mix.number(i), (read(&root), update(y))).map(drop);
                ys.iter().enumerate().try_for_each(task)
            })
            .unwrap();
        for _ in 0..3 {
            rt.replay(&Bindings::recorded(&graph)).unwrap();
            rt.wait_all().unwrap();
        }
        assert_eq!(mix.sizes().iter().sum::<usize>(), 120);
        if devices == 0 {
            assert_eq!(mix.sizes(), [8; 15]);
        } else {
            assert!(mix.sizes().len() < 120, "{:?}", mix.sizes());
        }
        let want = (0..3).fold(5.0, |y, _| 0.5 * 2.0 + 0.3 * y + 5.0 / 7.0);
        assert_eq!(rt.read(&ys[5]).unwrap().to_bits(), f64::to_bits(want));
    }
}

/// Submits layers in which every value is mixed with one of the previous layer.
fn layers<S: Submit>(s: &S, mix: &Mix, a: &[Handle<f64>], b: &[Handle<f64>]) -> Result<(), Error> {
    for layer in 0..6 {
        let (from, to) = if layer % 2 == 0 { (a, b) } else { (b, a) };
        for (i, to) in to.iter().enumerate() {
            let mix = Mix { shape: 1 + (i % 2) as u32, ..mix.number(i) };
            s.codelet(mix, (read(&from[(7 * i + layer) % a.len()]), update(to)))
                .priority((i % 5 == 0).into())
                .submit()?;
        }
    }
    Ok(())
}

#[test]
fn results_are_the_same_bits_whoever_meets() {
    type Build = fn(&str) -> RuntimeBuilder;
    let machines: [Build; 3] = [
        |policy| builder(2).policy(policy),
        |policy| {
            let device = Emulated::new(400).late(1, Duration::from_micros(20));
            builder(1).policy(policy).device(device.clone()).device(device).peers(1e10)
        },
        |policy| builder(0).policy(policy).device(Emulated::new(96)),
    ];
    let run = |rt: Runtime, batch: usize| -> (Vec<u64>, Vec<usize>) {
        let mix = Mix::new(batch);
        let (a, b) = (values(&rt, 24), values(&rt, 24));
        layers(&rt, &mix, &a, &b).unwrap();
        let graph = rt.record(|g: &Recorder| layers(g, &mix, &a, &b)).unwrap();
        (0..2).for_each(|_| drop(rt.replay(&Bindings::recorded(&graph)).unwrap()));
        let bits = a.into_iter().chain(b).map(|handle| rt.take(handle).unwrap().to_bits()).collect();
        (bits, mix.sizes())
    };
    let (alone, sizes) = run(builder(1).build().unwrap(), 1);
    assert_eq!(sizes, [1; 3 * 144]);
    let mut together = 0;
    for (policy, _) in POLICIES {
        for machine in machines {
            let (bits, sizes) = run(machine(policy).build().unwrap(), 5);
            assert_eq!(bits, alone, "{policy}");
            assert_eq!(sizes.iter().sum::<usize>(), 3 * 144, "{policy}");
            together += sizes.iter().filter(|&&size| size > 1).count();
        }
    }
    assert!(together > 100, "{together}");
}

#[test]
fn a_failure_fails_all_of_its_call_each_by_its_name() {
    for (fault, cause) in [(Fault::Error, "on purpose"), (Fault::Panic, "panicked: on purpose")] {
        for devices in [0, 1] {
            let build = if devices > 0 { builder(0).device(Emulated::new(1 << 16)) } else { builder(1) };
            let rt = build.build().unwrap();
            let (mix, ys) = (Mix::new(4), values(&rt, 12));
            // The root's readers find all their operands on the device.
            Root::release(&rt, &ys, |i| mix.number(i));
            rt.wait_all().unwrap();
            mix.calls.lock().unwrap().clear();
            let faulty = |i| Mix { fault: if i == 5 { fault } else { Fault::None }, ..mix.number(i) };
            let tasks = Root::release(&rt, &ys, faulty);
            assert!(matches!(rt.wait_all(), Err(Error::Failed(_))));
            let failed: Vec<usize> = (0..12).filter(|&i| tasks[i].failure().is_some()).collect();
            assert!(failed.contains(&5) && failed.len() <= 4, "{failed:?}");
            if devices == 0 {
                assert_eq!(failed, [4, 5, 6, 7]);
            }
            for (i, y) in ys.iter().enumerate() {
                match rt.read(y) {
                    Ok(y) => {
                        let want = 0.5 * 2.0 + 0.3 * expected(i, i) + f64::from(i as u32) / 7.0;
                        assert!(!failed.contains(&i) && *y == want);
                    }
                    Err(error) => {
                        let error = error.to_string();
                        assert!(failed.contains(&i), "{i}: {error}");
                        assert!(
                            error.contains(&format!("task mix[{i}]")) && error.contains(cause),
                            "{error}"
                        );
                        let failure = tasks[i].failure().unwrap();
                        assert!(failure.operands.contains(&format!("y{i}")), "{failure:?}");
                    }
                }
            }
            // The runtime stays usable, and a pure write clears what was poisoned.
            rt.task("clear").operands((write(&ys[5]),)).cpu(|(mut y,)| y.put(3.0)).submit().unwrap();
            assert_eq!(*rt.read(&ys[5]).unwrap(), 3.0);
        }
    }
}

#[test]
fn the_cancelled_and_the_poisoned_drop_out() {
    let rt = builder(1).build().unwrap();
    let (mix, ys) = (Mix::new(64), values(&rt, 8));
    rt.task("breaks").operands((update(&ys[6]),)).cpu(|(_,)| Err::<(), _>("broken")).submit().unwrap();
    assert!(rt.wait_all().unwrap_err().to_string().contains("broken"));
    let root = rt.register(1.0f64);
    let guard = rt.write(&root).unwrap();
    rt.task("root").operands((update(&root),)).cpu(|(x,)| *x = 2.0).submit().unwrap();
    let submit = |(i, y)| rt.submit(mix.number(i), (read(&root), update(y))).unwrap();
    let tasks: Vec<TaskRef> = ys.iter().enumerate().map(submit).collect();
    tasks[3].cancel();
    drop(guard);
    rt.wait_all().unwrap();
    assert_eq!(mix.sizes(), [6]);
    for (i, y) in ys.into_iter().enumerate() {
        match rt.take(y) {
            Ok(y) => assert_eq!(y, expected(i, i)),
            Err(error) if i == 3 => assert!(error.to_string().contains("cancelled"), "{error}"),
            Err(error) => assert!(i == 6 && error.to_string().contains("breaks"), "{i}: {error}"),
        }
    }
}

#[test]
fn labels_and_shapes_do_not_mix() {
    let rt = builder(1).build().unwrap();
    let (mix, ys) = (Mix::new(8), values(&rt, 24));
    // Blocks of four of one shape, then of one label; the body checks that.
    let odd = |i: usize| {
        let label = if i < 12 { "" } else { ["a", "b"][i / 4 % 2] };
        Mix { shape: if i < 12 { (i / 4) as u32 } else { 1 }, label, ..mix.number(i) }
    };
    let tasks = Root::release(&rt, &ys, odd);
    rt.wait_all().unwrap();
    assert!(tasks.iter().all(|task| task.failure().is_none()));
    assert_eq!(mix.sizes(), [4; 6]);
}

/// Adds to one sum, in exclusive turns.
struct InTurns(Arc<AtomicUsize>);

impl Codelet for InTurns {
    type Operands = (Read<f64>, Commute<f64>);

    fn name(&self) -> &'static str {
        "in turns"
    }

    fn cpu(&self, (x, sum): (&f64, &mut f64), _: &mut TaskContext<'_>) -> Result<(), TaskError> {
        *sum += x;
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn batch(&self) -> usize {
        8
    }

    fn cpu_batch(_: Batch<'_, Self>, _: &mut TaskContext<'_>) -> Result<(), TaskError> {
        Err("tasks that commute run alone".into())
    }
}

#[test]
fn tasks_that_take_turns_run_alone() {
    for devices in [0, 1] {
        let build = if devices > 0 { builder(1).device(Emulated::new(1 << 12)) } else { builder(1) };
        let rt = build.build().unwrap();
        let (x, sum, ran) = (rt.register(0.5f64), rt.register(0.0f64), Arc::default());
        let guard = rt.write(&x).unwrap();
        for _ in 0..20 {
            rt.submit(InTurns(Arc::clone(&ran)), (read(&x), commute(&sum))).unwrap();
        }
        drop(guard);
        assert_eq!(rt.take(sum).unwrap(), 10.0);
        assert_eq!(ran.load(Ordering::SeqCst), 20);
    }
}

/// Waits in its body for a task that runs after one of its kind.
struct Waits {
    rt: std::sync::Weak<Runtime>,
    last: Arc<Mutex<Option<TaskRef>>>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Codelet for Waits {
    type Operands = (Read<f64>, Update<f64>);

    fn name(&self) -> &'static str {
        "waits"
    }

    fn cpu(&self, (_, y): (&f64, &mut f64), _: &mut TaskContext<'_>) -> Result<(), TaskError> {
        if let (Some(rt), Some(last)) = (self.rt.upgrade(), &*self.last.lock().unwrap()) {
            let error = rt.wait(last).unwrap_err();
            self.said.lock().unwrap().push(error.to_string());
        }
        *y += 1.0;
        Ok(())
    }

    fn batch(&self) -> usize {
        8
    }
}

#[test]
fn a_body_of_several_tasks_cannot_wait() {
    let rt = Arc::new(builder(1).build().unwrap());
    let (x, last, said) = (rt.register(0.0f64), Arc::new(Mutex::new(None)), Arc::default());
    let ys = values(&rt, 4);
    let guard = rt.write(&x).unwrap();
    rt.task("root").operands((update(&x),)).cpu(|(x,)| *x = 2.0).submit().unwrap();
    for y in &ys {
        let waits = Waits { rt: Arc::downgrade(&rt), last: Arc::clone(&last), said: Arc::clone(&said) };
        rt.submit(waits, (read(&x), update(y))).unwrap();
    }
    let after = rt.task("after").operands((read(&ys[3]),)).cpu(|(_,)| ()).submit().unwrap();
    *last.lock().unwrap() = Some(after);
    drop(guard);
    rt.wait_all().unwrap();
    let said: Vec<String> = said.lock().unwrap().clone();
    assert_eq!(said.len(), 4);
    assert!(said[0].contains("waiting in a body that runs several tasks"), "{said:?}");
}

/// A policy that returns all its tasks for one batch, alike or not.
#[derive(Default)]
struct Careless(Mutex<Vec<ReadyTask>>);

impl Policy for Careless {
    fn name(&self) -> &str {
        "careless"
    }

    fn push(&self, _: &SchedView<'_>, task: ReadyTask, _: Option<usize>) -> Wake {
        self.0.lock().unwrap().push(task);
        Wake::Any
    }

    fn pop(&self, _: &SchedView<'_>, _: usize) -> Option<ReadyTask> {
        self.0.lock().unwrap().pop()
    }

    fn pop_like(&self, _: &SchedView<'_>, _: usize, _: &ReadyTask, _: usize) -> Vec<ReadyTask> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[test]
fn what_a_policy_should_not_have_given_goes_back_to_it() {
    let rt = builder(1).policy_with(Careless::default()).build().unwrap();
    let (mix, ys) = (Mix::new(4), values(&rt, 40));
    let tasks = Root::release(&rt, &ys, |i| Mix { shape: (i % 3) as u32, ..mix.number(i) });
    rt.wait_all().unwrap();
    assert!(tasks.iter().all(|task| task.failure().is_none()));
    assert_eq!(mix.sizes().iter().sum::<usize>(), 40);
    assert!(mix.sizes().len() < 40 && mix.sizes().iter().all(|&size| size <= 4), "{:?}", mix.sizes());
}

/// A codelet that selects its variant late, by the size of the operand that it reads.
struct Late(Calls);

impl Codelet for Late {
    type Operands = (Read<Vec<f64>>, Read<f64>, Update<f64>);

    fn name(&self) -> &'static str {
        "late"
    }

    fn selects(&self) -> bool {
        true
    }

    fn select(&self, metas: &[Meta]) -> Choice {
        Choice { variant: (metas[0].bytes / 8) as u32, ..Choice::default() }
    }

    fn cpu(&self, (x, _, y): (&[f64], &f64, &mut f64), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        assert_eq!(cx.variant() as usize, x.len());
        *y = x.iter().sum();
        Ok(())
    }

    fn batch(&self) -> usize {
        100
    }

    fn cpu_batch(batch: Batch<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        batch[0].0.0.lock().unwrap().push(batch.len());
        batch.into_iter().try_for_each(|(late, views)| late.cpu(views, cx))
    }
}

#[test]
fn those_that_choose_alike_run_together() {
    for devices in [0, 1] {
        let build = if devices > 0 { builder(0).device(Emulated::new(1 << 16)) } else { builder(1) };
        let rt = build.build().unwrap();
        let (calls, ys, root) = (Calls::default(), values(&rt, 20), rt.register(1.0f64));
        let xs: Vec<_> = (0..20).map(|i| rt.register(vec![1.0; 1 + i % 2])).collect();
        let guard = rt.write(&root).unwrap();
        rt.task("root").operands((update(&root),)).cpu(|(x,)| *x = 2.0).submit().unwrap();
        for (x, y) in xs.iter().zip(&ys) {
            rt.submit(Late(Arc::clone(&calls)), (read(x), read(&root), update(y))).unwrap();
        }
        drop(guard);
        for (i, y) in ys.into_iter().enumerate() {
            assert_eq!(rt.take(y).unwrap(), (1 + i % 2) as f64);
        }
        if devices == 0 {
            assert_eq!(*calls.lock().unwrap(), [10, 10]);
        }
    }
}

#[test]
fn traces_share_the_time_of_a_call_out() {
    let models = Arc::new(model::Models::new());
    let rt = builder(1).trace(true).models(Arc::clone(&models)).build().unwrap();
    let (mix, ys) = (Mix::new(8), values(&rt, 20));
    Root::release(&rt, &ys, |i| mix.number(i));
    rt.wait_all().unwrap();
    let trace = rt.take_trace().unwrap();
    let tasks: Vec<&zellige_runtime::trace::TaskEvent> =
        trace.tasks.iter().filter(|task| task.name == "mix").collect();
    let mut batches: Vec<u32> = tasks.iter().map(|task| task.batch).collect();
    batches.sort_unstable();
    assert_eq!((&batches[..4], &batches[4..]), (&[4; 4][..], &[8; 16][..]));
    assert!(trace.tasks.iter().all(|task| (task.name == "mix") == (task.batch > 0)));
    // One after the other, like bodies of one worker.
    let mut spans: Vec<(u64, u64)> = tasks.iter().map(|task| (task.start_ns, task.end_ns)).collect();
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
    drop(rt);
    // A call is one sample of its footprint, and the first sample does not count.
    let row = models.rows().into_iter().find(|row| row.codelet == "mix").unwrap();
    assert_eq!((row.samples, row.shape), (2, [1, 0, 0]));
}

#[test]
fn a_dying_device_sends_every_task_of_a_call_back() {
    let (mut right, mut lost) = (0, 0);
    for (n, (policy, _)) in POLICIES.into_iter().enumerate() {
        let step = every(3);
        for at in (n as u64 % step as u64..40).step_by(step) {
            let dying = Emulated::new(4000).late(at, Duration::from_micros(20)).fails_at(at);
            let rt = builder(n % 2).policy(policy).device(dying).device(Emulated::new(4000)).build().unwrap();
            let (mix, ys) = (Mix::new(6), values(&rt, 12));
            for round in 0..4 {
                for i in 0..12 {
                    let (x, y) = (&ys[(i + round + 1) % 12], &ys[i]);
                    rt.submit(mix.number(i), (read(x), update(y))).unwrap();
                }
            }
            let mut want: Vec<f64> = (0..12).map(f64::from).collect();
            for round in 0..4 {
                for i in 0..12 {
                    let x = want[(i + round + 1) % 12];
                    mix.number(i).work(x, &mut want[i]);
                }
            }
            for (y, want) in ys.into_iter().zip(want) {
                match rt.take(y) {
                    Ok(y) => {
                        assert_eq!(y.to_bits(), want.to_bits(), "{policy}, operation {at}");
                        right += 1;
                    }
                    Err(error) => {
                        let text = error.to_string();
                        assert!(text.contains("emulated 0 failed"), "{policy}, operation {at}: {text}");
                        lost += 1;
                    }
                }
            }
        }
    }
    assert!(right > 150 && lost > 15, "{right} values were right, {lost} were lost");
}
