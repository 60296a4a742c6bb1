//! Bodies flush subnormal numbers to zero, or keep them, on all threads; threads of the caller keep
//! their mode.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zellige_runtime::{
    Batch, Bindings, Codelet, Emulated, Error, Format, Meta, Runtime, RuntimeBuilder, Submit, Subnormals,
    TaskContext, TaskError, TaskInfo, Update, read, reduce, update, write,
};

/// Returns half the smallest normal number: 0 if it is flushed.
fn half() -> f32 {
    black_box(f32::MIN_POSITIVE) / black_box(2.0)
}

/// Returns the current mode of this thread.
fn here() -> Subnormals {
    if half() == 0.0 { Subnormals::Flush } else { Subnormals::Keep }
}

/// Returns the effective mode on this processor for a requested one.
fn possible(mode: Subnormals) -> Subnormals {
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) { mode } else { Subnormals::Keep }
}

const MODES: [Subnormals; 2] = [Subnormals::Keep, Subnormals::Flush];

/// Records the mode of its body, alone or in a batch.
struct Look<const FLUSHES: bool>;

impl<const FLUSHES: bool> Codelet for Look<FLUSHES> {
    type Operands = (Update<Vec<f32>>,);
    const SUBNORMALS: Option<Subnormals> = if FLUSHES { Some(Subnormals::Flush) } else { None };

    fn name(&self) -> &'static str {
        "look"
    }

    fn info(&self) -> TaskInfo {
        TaskInfo { shape: [1, 0, 0], ..TaskInfo::default() }
    }

    fn cpu(&self, (x,): (&mut [f32],), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        x[0] = half();
        Ok(())
    }

    fn batch(&self) -> usize {
        8
    }

    fn cpu_batch(batch: Batch<'_, Self>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let all = batch.len() as f32;
        batch.into_iter().for_each(|(_, (x,))| (x[0], x[1]) = (half(), all));
        Ok(())
    }
}

fn is_as(mode: Subnormals, value: f32) -> bool {
    (value == 0.0) == (possible(mode) == Subnormals::Flush)
}

/// Runs tasks on every worker and returns the results of each.
fn seen_by_workers(rt: &Runtime, workers: usize) -> Result<Vec<f32>, Error> {
    let handles: Vec<_> = (0..workers).map(|_| rt.register(vec![1.0f32; 2])).collect();
    for (worker, x) in handles.iter().enumerate() {
        let task = rt.task("half").operands((write(x),)).cpu(|(mut x,)| x.put(vec![half(), 0.0]));
        task.on_worker(worker).submit()?;
    }
    handles.into_iter().map(|x| Ok(rt.take(x)?[0])).collect()
}

fn with_devices(workers: usize) -> RuntimeBuilder {
    Runtime::builder().workers(workers).device(Emulated::new(1 << 20)).device(Emulated::new(1 << 20))
}

#[test]
fn every_worker_and_device_computes_as_the_runtime_was_told() -> Result<(), Error> {
    for mode in MODES {
        let rt = with_devices(3).subnormals(mode).build()?;
        let seen = seen_by_workers(&rt, 5)?;
        assert!(seen.iter().all(|&value| is_as(mode, value)), "{mode:?}: {seen:?}");
        assert_eq!(here(), Subnormals::Keep, "the caller's thread is left alone");
    }
    Ok(())
}

#[test]
fn a_worker_does_not_inherit_the_mode_of_who_starts_it() -> Result<(), Error> {
    // A body flushes; threads that it starts would, too.
    let outer = Runtime::builder().workers(1).subnormals(Subnormals::Flush).build()?;
    let seen = outer.register(vec![0.5f32; 4]);
    outer
        .task("start")
        .operands((update(&seen),))
        .cpu(|(seen,)| -> Result<(), TaskError> {
            let inner = with_devices(2).build()?;
            seen.copy_from_slice(&seen_by_workers(&inner, 4)?);
            Ok(())
        })
        .submit()?;
    let seen = outer.take(seen)?;
    assert!(seen.iter().all(|&value| value < 0.5), "nobody ran: {seen:?}");
    assert!(seen.iter().all(|&value| is_as(Subnormals::Keep, value)), "{seen:?}");
    Ok(())
}

#[test]
fn batches_compute_as_one_task_does() -> Result<(), Error> {
    for mode in MODES {
        let rt = Runtime::builder().workers(1).subnormals(mode).build()?;
        let gate = rt.register(vec![0.0f32]);
        let handles: Vec<_> = (0..8).map(|_| rt.register(vec![1.0f32; 2])).collect();
        // They become ready together when the gate opens.
        {
            let _closed = rt.write(&gate)?;
            for x in &handles {
                rt.task("behind").operands((read(&gate), update(x))).cpu(|_| ()).submit()?;
                rt.submit(Look::<false>, (update(x),))?;
            }
        }
        let seen: Vec<Vec<f32>> = handles.into_iter().map(|x| rt.take(x)).collect::<Result<_, _>>()?;
        assert!(seen.iter().any(|x| x[1] > 1.0), "no batch: {seen:?}");
        assert!(seen.iter().all(|x| is_as(mode, x[0])), "{mode:?}: {seen:?}");
    }
    Ok(())
}

#[test]
fn replays_compute_as_submissions_do() -> Result<(), Error> {
    for mode in MODES {
        for rt in [Runtime::builder().workers(2), with_devices(1)] {
            let rt = rt.subnormals(mode).build()?;
            let handles: Vec<_> = (0..6).map(|_| rt.register(vec![1.0f32; 2])).collect();
            let graph = rt.record(|g| {
                handles.iter().try_for_each(|x| {
                    g.submit(Look::<false>, (update(x),))?;
                    g.task("more").operands((update(x),)).cpu(|(x,)| x[1] = half()).submit().map(drop)
                })
            })?;
            let replay = rt.replay(&Bindings::recorded(&graph))?;
            rt.wait(&replay)?;
            for x in handles {
                let x = rt.take(x)?;
                assert!(x.iter().all(|&value| is_as(mode, value)), "{mode:?}: {x:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_codelet_decides_where_the_runtime_was_told_nothing() -> Result<(), Error> {
    let cases = [
        (Runtime::builder().workers(2), Subnormals::Flush),
        (Runtime::builder().workers(2).subnormals(Subnormals::Keep), Subnormals::Keep),
        (with_devices(0), Subnormals::Flush),
    ];
    for (builder, mode) in cases {
        let rt = builder.build()?;
        let [x, y] = [(); 2].map(|()| rt.register(vec![1.0f32; 2]));
        rt.submit(Look::<true>, (update(&x),))?;
        // A later task on the same worker has the default mode.
        rt.task("after").operands((read(&x), update(&y))).cpu(|(_, y)| y[0] = half()).submit()?;
        let (x, y) = (rt.take(x)?, rt.take(y)?);
        assert!(is_as(mode, x[0]) && is_as(Subnormals::Keep, y[0]), "{mode:?}: {x:?} {y:?}");
    }
    Ok(())
}

#[test]
fn a_task_that_runs_while_a_body_waits_has_the_runtimes_mode() -> Result<(), Error> {
    struct Waits(Arc<Runtime>);

    impl Codelet for Waits {
        type Operands = (Update<Vec<f32>>,);
        const SUBNORMALS: Option<Subnormals> = Some(Subnormals::Flush);

        fn name(&self) -> &'static str {
            "waits"
        }

        fn cpu(&self, (x,): (&mut [f32],), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
            let inner = self.0.register(vec![1.0f32]);
            let task = self.0.task("inner").operands((update(&inner),)).cpu(|(v,)| v[0] = half()).submit()?;
            self.0.wait(&task)?;
            x[1] = half();
            x[0] = self.0.take(inner)?[0];
            Ok(())
        }
    }

    let rt = Arc::new(Runtime::builder().workers(1).build()?);
    let x = rt.register(vec![1.0f32; 2]);
    let task = rt.submit(Waits(Arc::clone(&rt)), (update(&x),))?;
    rt.wait(&task)?;
    let x = rt.take(x)?;
    assert!(is_as(Subnormals::Keep, x[0]) && is_as(Subnormals::Flush, x[1]), "{x:?}");
    Ok(())
}

/// A value that records the mode of the threads that convert it.
struct Noted(Arc<AtomicUsize>);

impl zellige_runtime::Data for Noted {
    type Ref<'a> = &'a Noted;
    type Mut<'a> = &'a mut Noted;

    fn view(&self) -> &Noted {
        self
    }

    fn view_mut(&mut self) -> &mut Noted {
        self
    }

    fn meta(&self) -> Meta {
        Meta { bytes: 4, ..Meta::default() }
    }

    fn convert(&self, _to: Format) -> Option<Self> {
        self.0.fetch_add(if here() == Subnormals::Flush { 1 } else { 1000 }, Ordering::Relaxed);
        Some(Noted(Arc::clone(&self.0)))
    }
}

#[test]
fn conversions_and_sums_compute_as_bodies_do() -> Result<(), Error> {
    for mode in MODES {
        let one = if possible(mode) == Subnormals::Flush { 1 } else { 1000 };
        let rt = Runtime::builder().workers(2).subnormals(mode).build()?;
        let noted = Arc::new(AtomicUsize::new(0));
        let x = rt.register(Noted(Arc::clone(&noted)));
        rt.task("converted").operands((read(&x).as_format(Format(7)),)).cpu(|_| ()).submit()?;
        rt.wait_all()?;
        assert_eq!(noted.load(Ordering::Relaxed), one);

        // The last participant adds the partial results: a worker, or the caller that requests the
        // sum.
        for ask_at_once in [true, false] {
            let modes = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&modes);
            let sum = rt.register(0.0f32).with_reduction(
                |_| 0.0,
                move |a, b| {
                    seen.fetch_add(if here() == Subnormals::Flush { 1 } else { 1000 }, Ordering::Relaxed);
                    *a += *b;
                },
            );
            rt.task("add").operands((reduce(&sum),)).cpu(|(sum,)| *sum += 1.0).submit()?;
            if !ask_at_once {
                rt.wait_all()?;
            }
            assert_eq!(*rt.read(&sum)?, 1.0);
            assert_eq!(modes.load(Ordering::Relaxed), one, "{mode:?}, at once: {ask_at_once}");
        }
        assert_eq!(here(), Subnormals::Keep);
    }
    Ok(())
}
