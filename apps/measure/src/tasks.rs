//! Cost of a task: the runtime measured on empty tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use zellige_runtime::model::Models;
use zellige_runtime::{Bindings, Error, Graph, Handle, Recorder, Runtime, Submit, read, update};

use crate::{cpu_of_process, median};

/// Process CPU time per task (us): submission, dependencies, scheduling, execution and completion,
/// all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TaskCosts {
    /// Tasks without operands.
    pub independent: f64,
    /// Tasks that all update one handle.
    pub chain: f64,
    /// Tasks with two read and one updated tile of a grid: the accesses of a product of tiles.
    pub graph3: f64,
    /// The 45 760 tasks of a Cholesky factorisation of 64 x 64 tiles.
    pub cholesky_empty: f64,
    /// A replay of the recorded `graph3`.
    pub replay: f64,
    /// A replay of the recorded `cholesky_empty` graph.
    pub replay_cholesky: f64,
}

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TaskBench {
    /// Workers; the submitting thread comes on top.
    pub workers: usize,
    /// Scheduling policy.
    pub policy: String,
    /// Tasks of the first three cases.
    pub tasks: usize,
    /// Repetitions; the median counts.
    pub repeats: usize,
}

/// Output of `bench tasks`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TaskFigures {
    /// Parameters of the measurement.
    #[serde(flatten)]
    pub bench: TaskBench,
    /// CPU time of the whole process.
    pub us_per_task: TaskCosts,
}

impl Default for TaskBench {
    fn default() -> Self {
        TaskBench { workers: 1, policy: "lws".into(), tasks: 100_000, repeats: 5 }
    }
}

impl TaskBench {
    /// Measures all cases in turn, and returns medians.
    ///
    /// # Errors
    /// Errors of building a runtime and of submissions.
    pub fn run(&self) -> Result<TaskCosts, Error> {
        let mut rounds = Vec::new();
        for _ in 0..self.repeats.max(1) {
            rounds.push(self.round()?);
        }
        let median = |case: fn(&TaskCosts) -> f64| median(rounds.iter().map(case));
        Ok(TaskCosts {
            independent: median(|r| r.independent),
            chain: median(|r| r.chain),
            graph3: median(|r| r.graph3),
            cholesky_empty: median(|r| r.cholesky_empty),
            replay: median(|r| r.replay),
            replay_cholesky: median(|r| r.replay_cholesky),
        })
    }

    fn round(&self) -> Result<TaskCosts, Error> {
        let rt = Runtime::builder().workers(self.workers).policy(&self.policy).build()?;
        let n = self.tasks;
        let time = |tasks: usize, body: &dyn Fn() -> Result<(), Error>| -> Result<f64, Error> {
            let start = cpu_of_process();
            body()?;
            rt.wait_all()?;
            Ok((cpu_of_process() - start) * 1e6 / tasks as f64)
        };
        let pool: Vec<Handle<f32>> = (0..1024).map(|_| rt.register(0.0)).collect();
        let empty = || rt.task("empty").operands(()).cpu(|()| ()).submit();
        let independent = time(n, &|| (0..n).try_for_each(|_| empty().map(drop)))?;
        let chain = time(n, &|| {
            (0..n).try_for_each(|_| {
                rt.task("link").operands((update(&pool[0]),)).cpu(|(_,)| ()).submit().map(drop)
            })
        })?;
        let graph3 = time(n, &|| empty_products(&rt, &pool, n))?;
        let replay = time_replay(&rt, rt.record(|g: &Recorder| empty_products(g, &pool, n))?)?;
        let tiles: Vec<Handle<f32>> = (0..TILES * (TILES + 1) / 2).map(|_| rt.register(0.0)).collect();
        let cholesky_empty = time(CHOLESKY_TASKS, &|| empty_cholesky(&rt, &tiles))?;
        let replay_cholesky = time_replay(&rt, rt.record(|g: &Recorder| empty_cholesky(g, &tiles))?)?;
        Ok(TaskCosts { independent, chain, graph3, cholesky_empty, replay, replay_cholesky })
    }
}

/// Measures a worker's time per task besides its body, `rounds` times: an empty Cholesky graph that
/// was submitted beforehand, on a runtime with models as calibrated runs have them; wall-clock time
/// x workers / tasks.
///
/// # Errors
/// Errors of building a runtime and of submissions.
pub fn task_overhead(workers: usize, policy: &str, rounds: usize) -> Result<Vec<Duration>, Error> {
    // The window takes the whole graph, so that only running it is timed.
    let builder = Runtime::builder().workers(workers).policy(policy).window(2 * CHOLESKY_TASKS);
    let rt = builder.models(Arc::new(Models::new())).build()?;
    let tiles: Vec<Handle<f32>> = (0..TILES * (TILES + 1) / 2).map(|_| rt.register(0.0)).collect();
    let round = || {
        let held = rt.write(&tiles[0])?;
        empty_cholesky(&rt, &tiles)?;
        let start = Instant::now();
        drop(held);
        rt.wait_all()?;
        Ok(start.elapsed() * workers as u32 / CHOLESKY_TASKS as u32)
    };
    (0..rounds).map(|_| round()).collect()
}

/// CPU time per task (us) of replays; the first, which makes the counters that the others use
/// again, does not count.
fn time_replay(rt: &Runtime, graph: Graph) -> Result<f64, Error> {
    const REPLAYS: usize = 4;
    let bind = Bindings::recorded(&graph);
    rt.replay(&bind)?;
    rt.wait_all()?;
    let start = cpu_of_process();
    for _ in 0..REPLAYS {
        rt.replay(&bind)?;
    }
    rt.wait_all()?;
    Ok((cpu_of_process() - start) * 1e6 / (REPLAYS * graph.len()) as f64)
}

/// Submits tasks that read two tiles and update one, on a grid: the graph of a product of tiled
/// matrices.
fn empty_products<S: Submit>(s: &S, pool: &[Handle<f32>], tasks: usize) -> Result<(), Error> {
    (0..tasks).try_for_each(|i| {
        let operands = (read(&pool[(i / 32) % 32]), read(&pool[32 + i % 32]), update(&pool[64 + i % 960]));
        s.task("tile").operands(operands).cpu(|(_, _, _)| ()).submit().map(drop)
    })
}

const TILES: usize = 64;
/// 64 potrf, 2016 trsm, 2016 syrk, 41 664 gemm.
const CHOLESKY_TASKS: usize = TILES + TILES * (TILES - 1) + TILES * (TILES - 1) * (TILES - 2) / 6;

/// The tasks and accesses of a tile Cholesky factorisation, with empty bodies.
fn empty_cholesky<S: Submit>(s: &S, tiles: &[Handle<f32>]) -> Result<(), Error> {
    let tile = |i: usize, j: usize| &tiles[i * (i + 1) / 2 + j];
    for k in 0..TILES {
        let left = (TILES - k) as i32;
        s.task("potrf").operands((update(tile(k, k)),)).cpu(|(_,)| ()).priority(3 * left).submit()?;
        for i in k + 1..TILES {
            let operands = (read(tile(k, k)), update(tile(i, k)));
            s.task("trsm").operands(operands).cpu(|(_, _)| ()).priority(3 * left - 1).submit()?;
        }
        // By rows: trsm of row i releases row i, so that a replay visits its tasks in the order of
        // their memory.
        for i in k + 1..TILES {
            for j in k + 1..i {
                let operands = (read(tile(i, k)), read(tile(j, k)), update(tile(i, j)));
                s.task("gemm").operands(operands).cpu(|(_, _, _)| ()).priority(3 * left - 2).submit()?;
            }
            let operands = (read(tile(i, k)), update(tile(i, i)));
            s.task("syrk").operands(operands).cpu(|(_, _)| ()).priority(3 * left - 2).submit()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_costs_something_and_less_than_a_millisecond() {
        for workers in [1, 2] {
            let rounds = task_overhead(workers, "lws", 2).unwrap();
            let plausible = Duration::from_nanos(10)..Duration::from_millis(1);
            assert!(rounds.len() == 2 && rounds.iter().all(|round| plausible.contains(round)), "{rounds:?}");
        }
        assert!(task_overhead(0, "lws", 1).is_err());
    }
}
