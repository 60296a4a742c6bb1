//! Several tasks in one call of their codelet's function for GPUs.

use std::sync::{Arc, Mutex};

use zellige_cuda::{CUDA, Gpu, GpuTask};
use zellige_gpu::mock::{Fault, Mock};
use zellige_runtime::codelet::{DeviceBatch, DeviceMember, DeviceTable, OnDevice};
use zellige_runtime::*;

/// Outcome of one task.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Fine,
    /// Its result is an error.
    Fails,
    /// Its deferred work is an error.
    FailsAtTheEnd,
    Panics,
    /// The batch has no result for it, nor for those after it.
    Missing,
}

/// Sets a vector to zero, and notes how many tasks each call has.
struct Clear {
    behaviour: Behaviour,
    calls: Arc<Mutex<Vec<usize>>>,
}

type Views<'v, K> = <(Read<f64>, Update<Vec<f64>>) as Operands>::Views<'v, K>;

fn clear(behaviour: Behaviour, (_, y): &Views<'_, OnDevice>, cx: &TaskContext<'_>) -> Result<(), TaskError> {
    let (gpu, (at, bytes)) = (cx.gpu(), y.part(0));
    // SAFETY: the bytes are the operand's.
    unsafe { gpu.driver().zero(gpu.stream(), at, bytes)? };
    match behaviour {
        Behaviour::Fails => Err("it fails".into()),
        Behaviour::FailsAtTheEnd => {
            gpu.at_end(|| Err("it fails at the end".into()));
            Ok(())
        }
        Behaviour::Panics => panic!("it panics"),
        Behaviour::Fine | Behaviour::Missing => Ok(()),
    }
}

impl Codelet for Clear {
    type Operands = (Read<f64>, Update<Vec<f64>>);

    fn name(&self) -> &'static str {
        "clear"
    }

    fn cpu(&self, (_, y): Views<'_, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y.fill(0.0);
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        let most = 8;
        table.add_batched(*CUDA, Self::cuda, most, Self::cuda_batch);
    }
}

impl Clear {
    fn cuda(&self, views: Views<'_, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        self.calls.lock().unwrap().push(1);
        clear(self.behaviour, &views, cx)
    }

    fn cuda_batch(batch: DeviceBatch<'_, '_, Self>) -> Vec<Result<(), TaskError>> {
        batch[0].codelet.calls.lock().unwrap().push(batch.len());
        let there = batch.into_iter().take_while(|member| member.codelet.behaviour != Behaviour::Missing);
        there.map(|DeviceMember { codelet, views, cx }| clear(codelet.behaviour, &views, cx)).collect()
    }
}

/// Submits tasks that become ready together. Returns the number of tasks of each call, and the
/// error of each task.
fn run(rt: &Runtime, behaviours: &[Behaviour]) -> (Vec<usize>, Vec<Option<String>>) {
    let calls = Arc::<Mutex<Vec<usize>>>::default();
    let gate = rt.register(1.0f64);
    let values: Vec<_> = behaviours.iter().map(|_| rt.register(vec![1.0; 5])).collect();
    let held = rt.write(&gate).unwrap();
    for (&behaviour, value) in behaviours.iter().zip(&values) {
        rt.submit(Clear { behaviour, calls: Arc::clone(&calls) }, (read(&gate), update(value))).unwrap();
    }
    drop(held);
    let end = |value| match rt.take::<Vec<f64>>(value) {
        Ok(value) => {
            assert_eq!(value, [0.0; 5]);
            None
        }
        Err(error) => Some(error.to_string()),
    };
    let ends = values.into_iter().map(end).collect();
    let calls = calls.lock().unwrap().clone();
    (calls, ends)
}

/// Repeats `run` until the result satisfies the condition: a quick worker takes tasks one by one as
/// they become ready.
fn run_until(
    rt: &Runtime,
    behaviours: &[Behaviour],
    is_wanted: impl Fn(&[usize], &[Option<String>]) -> bool,
) -> (Vec<usize>, Vec<Option<String>>) {
    let mut runs = (0..100).map(|_| run(rt, behaviours));
    runs.find(|(calls, ends)| is_wanted(calls, ends)).expect("one of many runs is so")
}

fn with(mock: &Arc<Mock>, gpus: u32) -> RuntimeBuilder {
    (0..gpus).fold(Runtime::builder().workers(0), |builder, at| builder.device(Gpu::new(mock.clone(), at)))
}

#[test]
fn tasks_that_are_ready_together_are_launched_together() {
    for gpus in [1, 2] {
        let attempt = |_| {
            let mock = Arc::new(Mock::builder().gpus(gpus).seed(gpus.into()).build());
            let rt = with(&mock, gpus).trace(true).build().unwrap();
            let (calls, ends) = run(&rt, &[Behaviour::Fine; 40]);
            assert!(ends.iter().all(Option::is_none), "{ends:?}");
            assert_eq!(calls.iter().sum::<usize>(), 40);
            assert!(calls.iter().all(|&tasks| tasks <= 8), "{calls:?}");
            (mock, rt, calls)
        };
        // As in `run_until`, and the trace is of this run alone.
        let mut attempts = (0..100).map(attempt);
        let (mock, rt, calls) = attempts
            .find(|(.., calls)| calls.iter().any(|&tasks| tasks > 2))
            .expect("one of many runs is so");
        // Traces contain the number of tasks that ran together; each has its part of the time.
        let trace = rt.take_trace().unwrap();
        let of_largest =
            trace.tasks.iter().filter(|task| task.batch as usize == *calls.iter().max().unwrap());
        assert!(of_largest.count() >= *calls.iter().max().unwrap());
        assert_eq!(trace.tasks.iter().filter(|task| task.name == "clear").count(), 40);
        drop(rt);
        assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
    }
}

#[test]
fn who_fails_fails_alone() {
    let mock = Arc::new(Mock::builder().build());
    let rt = with(&mock, 1).build().unwrap();
    let mut behaviours = [Behaviour::Fine; 24];
    (behaviours[3], behaviours[10], behaviours[20]) =
        (Behaviour::Fails, Behaviour::FailsAtTheEnd, Behaviour::Fails);
    let (_, ends) = run_until(&rt, &behaviours, |calls, _| calls.iter().any(|&tasks| tasks > 1));
    for (behaviour, end) in behaviours.iter().zip(&ends) {
        let wanted = match behaviour {
            Behaviour::Fails => Some("it fails"),
            Behaviour::FailsAtTheEnd => Some("it fails at the end"),
            _ => None,
        };
        let is = end.as_deref();
        assert!(
            is.is_some() == wanted.is_some() && is.unwrap_or("").contains(wanted.unwrap_or("")),
            "{end:?}"
        );
    }
    drop(rt);
    assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
}

#[test]
fn a_panic_and_a_missing_result_are_named() {
    let mock = Arc::new(Mock::builder().build());
    let rt = with(&mock, 1).build().unwrap();
    for (behaviour, text) in [(Behaviour::Panics, "it panics"), (Behaviour::Missing, "no result for it")] {
        let mut behaviours = [Behaviour::Fine; 12];
        behaviours[5] = behaviour;
        // A result is missing only if the task was launched with others.
        let (calls, ends) = run_until(&rt, &behaviours, |_, ends| ends[5].is_some());
        let failed: Vec<&String> = ends.iter().flatten().collect();
        assert!(failed.iter().all(|end| end.contains(text)), "{failed:?}");
        // It, and no more than its batch.
        let largest = *calls.iter().max().unwrap();
        assert!((1..=largest).contains(&failed.len()), "{calls:?} {failed:?}");
    }
    drop(rt);
    assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
}

#[test]
fn a_gpu_that_is_lost_takes_no_task_with_it() {
    for operation in 1..40 {
        let mock = Arc::new(Mock::builder().gpus(2).seed(operation).build());
        mock.inject(1, Fault::Operation(operation)).unwrap();
        let rt = with(&mock, 2).build().unwrap();
        let (_, ends) = run(&rt, &[Behaviour::Fine; 20]);
        // The error for a value that only the lost GPU had names that GPU.
        assert!(ends.iter().flatten().all(|error| error.contains("GPU 1")), "{ends:?}");
        drop(rt);
        assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
    }
}

#[test]
fn replays_launch_together_too_and_cpus_take_one_at_a_time() {
    let mock = Arc::new(Mock::builder().build());
    for gpus in [0, 1] {
        let builder = if gpus == 0 { Runtime::builder().workers(1) } else { with(&mock, 1) };
        let rt = builder.trace(true).build().unwrap();
        let calls = Arc::<Mutex<Vec<usize>>>::default();
        let gate = rt.register(1.0f64);
        let values: Vec<_> = (0..20).map(|_| rt.register(vec![1.0; 5])).collect();
        let submit = |g: &Recorder| {
            for value in &values {
                g.submit(
                    Clear { behaviour: Behaviour::Fine, calls: Arc::clone(&calls) },
                    (read(&gate), update(value)),
                )?;
            }
            Ok::<(), Error>(())
        };
        let graph = rt.record(submit).unwrap();
        for _ in 0..2 {
            let replay = rt.replay(&Bindings::recorded(&graph)).unwrap();
            rt.wait(&replay).unwrap();
        }
        let calls = calls.lock().unwrap().clone();
        assert_eq!(calls.iter().any(|&tasks| tasks > 1), gpus == 1, "{calls:?}");
        let trace = rt.take_trace().unwrap();
        assert_eq!(trace.tasks.iter().any(|task| task.batch > 1), gpus == 1);
        assert_eq!(rt.take(values.into_iter().next().unwrap()).unwrap(), [0.0; 5]);
    }
}
