//! Summary of the figures in about ten lines.

use super::figures::{Figures, MemoryFigures, ProductFigures, SeveralFigures, SizeFigures, WithCpuFigures};
use super::reconstructors::TorFigures;
use super::sparse::SparseFigures;
use zellige_app::table::{Side, Table};
use zellige_app::text::{bytes, digits};

/// A line for each question that a GPU is measured for; `None` where nothing was measured.
pub(super) fn summary(figures: &Figures) -> Option<Table> {
    let mut rows = Vec::new();
    let mut say = |what: String, said: String| rows.push([what, said]);
    if !figures.products.is_empty() {
        let of_peak =
            |row: &ProductFigures| format!("{} {}", row.rate.precision, digits(row.fraction_of_peak));
        let all: Vec<String> = figures.products.iter().map(of_peak).collect();
        say("products, of peak".into(), all.join(", "));
    }
    for size in &figures.cholesky {
        if let Some(said) = fastest_factor(size) {
            say(format!("Cholesky n = {}", size.n), said);
        }
    }
    if let Some(said) = predicted(figures) {
        say("predicted by measured".into(), said);
    }
    if !figures.sparse.is_empty() {
        let all: Vec<String> = figures.sparse.iter().map(SparseFigures::in_short).collect();
        say("sparse products".into(), all.join(", "));
    }
    for row in fastest_of_each(&figures.tor) {
        let (n, layers) = row.system();
        say(format!("reconstructor n = {n}, {layers} layers"), row.in_short());
    }
    if let Some(said) = in_parts(figures) {
        say("time by that in memory".into(), said);
    }
    if !figures.with_cpu.is_empty() {
        let ratio = |row: &WithCpuFigures| format!("{} {}", row.rule, digits(row.ratio));
        let all: Vec<String> = figures.with_cpu.iter().map(ratio).collect();
        say("CPU and GPU".into(), format!("{} times as fast as the GPU alone", all.join(", ")));
    }
    if !figures.several.is_empty() {
        let all: Vec<String> = figures.several.iter().map(SeveralFigures::in_short).collect();
        say("several GPUs".into(), all.join(", "));
    }
    if let Some((by_task, one)) = figures
        .replays
        .as_ref()
        .and_then(|replays| Some((replays.task_by_task_seconds, replays.one_launch_seconds?)))
    {
        say(
            "replay as one launch".into(),
            format!("{} times as fast as task by task", digits(by_task / one)),
        );
    }
    let mut table = Table::new(&[("summary", Side::Left), ("", Side::Left)]);
    let is_empty = rows.is_empty();
    rows.into_iter().for_each(|row| table.row(row));
    (!is_empty).then_some(table)
}

/// The rule that took the least time.
fn fastest_factor(size: &SizeFigures) -> Option<String> {
    let best = size.tiled.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let beside = best.x_cusolver_f32.map_or_else(String::new, |x| format!(", {} x cuSOLVER f32", digits(x)));
    let limit = best.fraction_of_limit.map_or_else(String::new, |x| format!(", {} of limit", digits(x)));
    Some(format!("{}: {} s, {} Tflop/s{beside}{limit}", best.rule, digits(best.seconds), digits(best.tflops)))
}

/// Returns the range of predicted / measured times in virtual time.
fn predicted(figures: &Figures) -> Option<String> {
    let tiled = figures.cholesky.iter().flat_map(|size| &size.tiled);
    let mut all: Vec<f64> = tiled.filter_map(|row| row.predicted_by_measured).collect();
    all.sort_by(f64::total_cmp);
    let (least, most) = (all.first()?, all.last()?);
    Some(format!("{} to {} of {} factorisations in tiles", digits(*least), digits(*most), all.len()))
}

/// The fastest run of each telescope, in their order.
fn fastest_of_each(rows: &[TorFigures]) -> Vec<&TorFigures> {
    let mut fastest: Vec<&TorFigures> = Vec::new();
    for row in rows {
        match fastest.iter_mut().find(|known| known.system() == row.system()) {
            Some(known) if row.seconds() < known.seconds() => *known = row,
            Some(_) => {}
            None => fastest.push(row),
        }
    }
    fastest
}

/// Little memory and parts of the GPU compared with all of it.
fn in_parts(figures: &Figures) -> Option<String> {
    let whole = figures.memory.iter().find(|row| row.case == "in memory")?;
    let said = |row: &MemoryFigures| {
        let times = digits(row.seconds / whole.seconds);
        format!("{} {times} ({} moved)", row.case, bytes(row.bytes_moved))
    };
    let others: Vec<String> = figures.memory.iter().filter(|row| row.case != whole.case).map(said).collect();
    (!others.is_empty()).then(|| others.join(", "))
}
