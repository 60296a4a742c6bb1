//! Summary of a trace, for scripts.

use schemars::JsonSchema;
use serde::Serialize;
use zellige_runtime::trace::{CodeletReport, IdleState, KindReport, LinkReport, Report};

/// Summary of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Summary {
    /// Number of tasks that ran.
    tasks: usize,
    /// Number of tasks that failed.
    failed: usize,
    /// Records that did not fit into the trace; the other figures do not include them.
    lost: u64,
    /// Time from the start of the first body to the end of the last.
    makespan_seconds: f64,
    /// Time in bodies, summed over the workers.
    busy_seconds: f64,
    /// Ratio of the time in bodies to workers x makespan, 0 to 1.
    kernels_share: f64,
    /// Area bound: the work of all tasks distributed over all workers, with each kind's own times.
    area_bound_seconds: f64,
    /// Length of the longest chain of dependencies.
    critical_path_bound_seconds: f64,
    /// Floating-point operations of all tasks, as reported by their codelets.
    flops: f64,
    /// Workers by kind.
    kinds: Vec<Kind>,
    /// Phases of the program, in order.
    phases: Vec<Phase>,
    /// Codelets, the one with the most time first.
    codelets: Vec<Codelet>,
    /// Links that transferred data.
    links: Vec<Link>,
}

/// The workers of one kind.
#[derive(Debug, Serialize, JsonSchema)]
struct Kind {
    kind: String,
    workers: usize,
    tasks: usize,
    busy_seconds: f64,
    sleeping_seconds: f64,
    searching_seconds: f64,
    waiting_for_data_seconds: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Phase {
    name: String,
    seconds: f64,
}

/// Statistics of one codelet.
#[derive(Debug, Serialize, JsonSchema)]
struct Codelet {
    name: String,
    count: usize,
    seconds: f64,
    mean_seconds: f64,
    median_seconds: f64,
    min_seconds: f64,
    max_seconds: f64,
    stdev_seconds: f64,
    flops: f64,
    /// Ratio of measured to predicted time, over the runs with a prediction.
    measured_over_predicted: Option<f64>,
}

/// Transfers of one link, or conversions within one memory node.
#[derive(Debug, Serialize, JsonSchema)]
struct Link {
    from: String,
    to: String,
    transfers: usize,
    converted: usize,
    bytes: u64,
    busy_seconds: f64,
}

impl From<&Report> for Summary {
    fn from(report: &Report) -> Summary {
        Summary {
            tasks: report.tasks,
            failed: report.failed,
            lost: report.lost,
            makespan_seconds: report.makespan.as_secs_f64(),
            busy_seconds: report.busy.as_secs_f64(),
            kernels_share: report.kernels_share(),
            area_bound_seconds: report.area_bound.as_secs_f64(),
            critical_path_bound_seconds: report.critical_path_bound.as_secs_f64(),
            flops: report.flops,
            kinds: report.kinds.iter().map(Kind::from).collect(),
            phases: report
                .phases
                .iter()
                .map(|(name, took)| Phase { name: name.clone(), seconds: took.as_secs_f64() })
                .collect(),
            codelets: report.codelets.iter().map(Codelet::from).collect(),
            links: report.links.iter().map(Link::from).collect(),
        }
    }
}

impl From<&KindReport> for Kind {
    fn from(report: &KindReport) -> Kind {
        let idle = |state: IdleState| report.idle[state as usize].as_secs_f64();
        Kind {
            kind: report.kind.clone(),
            workers: report.workers,
            tasks: report.tasks,
            busy_seconds: report.busy.as_secs_f64(),
            sleeping_seconds: idle(IdleState::Sleeping),
            searching_seconds: idle(IdleState::Searching),
            waiting_for_data_seconds: idle(IdleState::WaitingForData),
        }
    }
}

impl From<&CodeletReport> for Codelet {
    fn from(report: &CodeletReport) -> Codelet {
        Codelet {
            name: report.name.into(),
            count: report.count,
            seconds: report.total.as_secs_f64(),
            mean_seconds: report.mean.as_secs_f64(),
            median_seconds: report.median.as_secs_f64(),
            min_seconds: report.min.as_secs_f64(),
            max_seconds: report.max.as_secs_f64(),
            stdev_seconds: report.stdev.as_secs_f64(),
            flops: report.flops,
            measured_over_predicted: report.measured_over_predicted(),
        }
    }
}

impl From<&LinkReport> for Link {
    fn from(report: &LinkReport) -> Link {
        Link {
            from: report.from.clone(),
            to: report.to.clone(),
            transfers: report.transfers,
            converted: report.converted,
            bytes: report.bytes,
            busy_seconds: report.busy.as_secs_f64(),
        }
    }
}
