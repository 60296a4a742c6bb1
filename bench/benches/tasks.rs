//! Wall time per empty task, compared with the least that the machine needs: a rayon scope without
//! data dependencies.
//!
//! `cargo bench -p zellige-bench --bench tasks`; the CPU time per task, all threads together, is
//! `zellige bench tasks`.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zellige_runtime::{Bindings, Error, Handle, Recorder, Runtime, Submit, read, update};

const TASKS: usize = 20_000;

fn products<S: Submit>(s: &S, pool: &[Handle<f32>]) -> Result<(), Error> {
    (0..TASKS).try_for_each(|i| {
        let operands = (read(&pool[(i / 32) % 32]), read(&pool[32 + i % 32]), update(&pool[64 + i % 960]));
        s.task("tile").operands(operands).cpu(|(_, _, _)| ()).submit().map(drop)
    })
}

fn tasks(c: &mut Criterion) {
    let mut group = c.benchmark_group("empty tasks, 2 workers");
    group
        .throughput(Throughput::Elements(TASKS as u64))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20);
    for policy in ["lws", "prio", "eager"] {
        let rt = Runtime::builder().workers(2).policy(policy).build().expect("two workers");
        let pool: Vec<Handle<f32>> = (0..1024).map(|_| rt.register(0.0)).collect();
        group.bench_function(format!("graph3, {policy}"), |b| {
            b.iter(|| {
                products(&rt, &pool).expect("valid tasks");
                rt.wait_all().expect("not inside a task");
            });
        });
        let graph = rt.record(|g: &Recorder| products(g, &pool)).expect("valid tasks");
        let bind = Bindings::recorded(&graph);
        group.bench_function(format!("replay, {policy}"), |b| {
            b.iter(|| {
                let replay = rt.replay(&bind).expect("the recorded handles");
                rt.wait(&replay).expect("empty tasks");
            });
        });
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    group.bench_function("limit: rayon scope, no data", |b| {
        b.iter(|| pool.scope(|s| (0..TASKS).for_each(|_| s.spawn(|_| ()))));
    });
    group.finish();
}

criterion_group!(benches, tasks);
criterion_main!(benches);
