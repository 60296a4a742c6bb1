//! What the page's scripts draw: the tasks, merged where there are too many, and curves of bounded length.

use std::collections::HashMap;

use serde::Serialize;

use crate::trace::bounds::{CodeletReport, Report};
use crate::trace::tracks::{PALETTE, Track, nanos, span};
use crate::trace::{TaskEvent, Trace};

/// Points of the ready-task curve at most, each with a smallest and a largest value.
const READY_POINTS: u64 = 6_000;
/// Codelets with a histogram, those with the most time.
const HISTOGRAMS: usize = 24;
/// Bars of a histogram.
const BARS: usize = 48;
/// Longest critical path that is drawn as a line; a longer one is only marked on its tasks.
const PATH_LINE: usize = 20_000;
/// JavaScript's numbers are exact up to here.
const EXACT: u64 = 1 << 53;

/// Times are nanoseconds since the first start.
#[derive(Debug, Serialize)]
pub(super) struct PageData {
    makespan: u64,
    workers: Vec<Row>,
    palette: [[u8; 3]; PALETTE.len()],
    codelets: Vec<&'static str>,
    labels: Vec<&'static str>,
    /// Pairs of codelet and label.
    kinds: Vec<(usize, usize)>,
    items: Vec<Item>,
    blocks: Vec<Block>,
    /// The critical path: a task of `items`, or -1 - a block of `blocks`.
    path: Vec<i64>,
    /// Time, smallest and largest number of ready tasks.
    ready: Vec<(u64, u32, u32)>,
    histograms: Vec<Histogram>,
    bin: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    levels: usize,
    idle: f64,
}

/// Worker row, level, start, duration, kind, number, coordinates, priority, flops, bytes, ready, 1: failed + 2: on the
/// critical path. A tuple, because names in 50 000 records would be most of the page.
type Item = (usize, usize, u64, u64, usize, Number, Option<[Option<u32>; 3]>, i32, f64, Number, u32, u8);

/// A number that JavaScript reads without rounding.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Number {
    Exact(u64),
    Digits(String),
}

impl From<u64> for Number {
    fn from(value: u64) -> Number {
        if value <= EXACT { Number::Exact(value) } else { Number::Digits(value.to_string()) }
    }
}

/// Short neighbours on one level of one worker.
#[derive(Debug, Serialize)]
struct Block {
    row: usize,
    level: usize,
    start: u64,
    end: u64,
    /// Kind, number of tasks, their time.
    parts: Vec<(usize, u32, u64)>,
    /// How many are on the critical path.
    critical: u32,
    failed: u32,
}

/// Durations of one codelet: bars of equal width on a logarithmic axis from `low` to `high`.
#[derive(Debug, Serialize)]
struct Histogram {
    low: u64,
    high: u64,
    median: u64,
    count: usize,
    bars: Vec<u32>,
}

impl PageData {
    /// At most `limit` tasks and blocks (but one block per level of each worker).
    pub fn new(trace: &Trace, report: &Report, limit: usize) -> PageData {
        let (begin, end) = span(trace);
        let tracks = trace.tracks();
        let mut kinds = Kinds::new(report);
        let bin = bin_width(&tracks, begin, end - begin, limit);
        let mut critical = vec![false; trace.tasks.len()];
        let tasks: HashMap<u64, usize> =
            trace.tasks.iter().enumerate().map(|(place, task)| (task.id, place)).collect();
        let path: Vec<usize> = report.critical_path.iter().filter_map(|id| tasks.get(id).copied()).collect();
        path.iter().for_each(|&task| critical[task] = true);

        let mut items: Vec<Item> = Vec::new();
        let mut blocks: Vec<Block> = Vec::new();
        let mut drawn_as: Vec<i64> = vec![0; trace.tasks.len()];
        for (row, track) in tracks.iter().enumerate() {
            // The open block of each level.
            let mut open: Vec<Option<(u64, usize)>> = vec![None; track.levels()];
            for slice in &track.slices {
                let task = &trace.tasks[slice.task];
                let kind = kinds.of(task);
                let start = slice.start - begin;
                let duration = slice.end - slice.start;
                if duration >= bin {
                    drawn_as[slice.task] = items.len() as i64;
                    let flags = u8::from(task.failed) + 2 * u8::from(critical[slice.task]);
                    items.push(item(row, slice.depth, start, duration, kind, task, flags));
                    continue;
                }
                let place = start / bin;
                let block = match open[slice.depth] {
                    Some((at, block)) if at == place => block,
                    _ => {
                        blocks.push(Block {
                            row,
                            level: slice.depth,
                            start,
                            end: start,
                            parts: vec![],
                            critical: 0,
                            failed: 0,
                        });
                        blocks.len() - 1
                    }
                };
                open[slice.depth] = Some((place, block));
                drawn_as[slice.task] = -1 - block as i64;
                blocks[block].add(start + duration, duration, kind, task.failed, critical[slice.task]);
            }
        }
        let mut path: Vec<i64> = path.into_iter().map(|task| drawn_as[task]).collect();
        path.dedup();
        if path.len() > PATH_LINE {
            path.clear();
        }
        PageData {
            makespan: end - begin,
            workers: tracks
                .iter()
                .zip(&report.idle)
                .map(|(track, &idle)| Row { name: track.name.clone(), levels: track.levels(), idle })
                .collect(),
            palette: PALETTE,
            codelets: kinds.codelets,
            labels: kinds.labels,
            kinds: kinds.pairs,
            items,
            blocks,
            path,
            ready: ready(trace, begin, end - begin),
            histograms: report
                .codelets
                .iter()
                .take(HISTOGRAMS)
                .map(|codelet| histogram(trace, codelet))
                .collect(),
            bin,
        }
    }

    /// Tasks that are drawn one by one.
    pub fn drawn(&self) -> usize {
        self.items.len()
    }

    /// Blocks of merged tasks.
    pub fn merged(&self) -> usize {
        self.blocks.len()
    }

    /// Tasks below this duration are merged [ns].
    pub fn bin(&self) -> u64 {
        self.bin
    }
}

impl Block {
    fn add(&mut self, end: u64, duration: u64, kind: usize, failed: bool, critical: bool) {
        self.end = self.end.max(end);
        self.critical += u32::from(critical);
        self.failed += u32::from(failed);
        match self.parts.iter_mut().find(|part| part.0 == kind) {
            Some(part) => {
                part.1 += 1;
                part.2 += duration;
            }
            None => self.parts.push((kind, 1, duration)),
        }
    }
}

fn item(
    row: usize,
    level: usize,
    start: u64,
    duration: u64,
    kind: usize,
    task: &TaskEvent,
    flags: u8,
) -> Item {
    let coords = task.coords.map(|all| all.map(|value| (value != u32::MAX).then_some(value)));
    let (id, bytes) = (task.id.into(), task.bytes.into());
    (row, level, start, duration, kind, id, coords, task.priority, task.flops, bytes, task.ready, flags)
}

/// The width below which tasks are merged [ns]: 0 where all can be drawn, otherwise the first of a doubling series that
/// keeps within the limit.
fn bin_width(tracks: &[Track], begin: u64, makespan: u64, limit: usize) -> u64 {
    let tasks: usize = tracks.iter().map(|track| track.slices.len()).sum();
    if tasks <= limit {
        return 0;
    }
    let mut best = makespan.saturating_add(1);
    let mut width = (makespan / limit as u64).max(1);
    while width < best {
        let shapes: usize = tracks.iter().map(|track| shapes(track, begin, width)).sum();
        if shapes <= limit {
            best = width;
        } else {
            width = width.saturating_mul(2);
        }
    }
    best
}

/// Tasks and blocks of a track at a bin width.
fn shapes(track: &Track, begin: u64, width: u64) -> usize {
    let mut open = vec![u64::MAX; track.levels()];
    let mut shapes = 0;
    for slice in &track.slices {
        if slice.end - slice.start >= width {
            shapes += 1;
        } else {
            let place = (slice.start - begin) / width;
            shapes += usize::from(open[slice.depth] != place);
            open[slice.depth] = place;
        }
    }
    shapes
}

/// Codelets by falling time, labels as they come, and the pairs of them that occur.
struct Kinds {
    codelets: Vec<&'static str>,
    labels: Vec<&'static str>,
    pairs: Vec<(usize, usize)>,
    known: HashMap<(&'static str, &'static str), usize>,
}

impl Kinds {
    fn new(report: &Report) -> Kinds {
        let codelets = report.codelets.iter().map(|codelet| codelet.name).collect();
        Kinds { codelets, labels: vec![], pairs: vec![], known: HashMap::new() }
    }

    fn of(&mut self, task: &TaskEvent) -> usize {
        if let Some(&kind) = self.known.get(&(task.name, task.label)) {
            return kind;
        }
        let codelet = self.codelets.iter().position(|&name| name == task.name).unwrap_or(0);
        let label = self.labels.iter().position(|&label| label == task.label).unwrap_or_else(|| {
            self.labels.push(task.label);
            self.labels.len() - 1
        });
        self.pairs.push((codelet, label));
        self.known.insert((task.name, task.label), self.pairs.len() - 1);
        self.pairs.len() - 1
    }
}

/// The number of ready tasks over time: the smallest and the largest of each bin, at the bin's last record.
fn ready(trace: &Trace, begin: u64, makespan: u64) -> Vec<(u64, u32, u32)> {
    let mut points: Vec<(u64, u32)> =
        trace.tasks.iter().map(|task| (task.end_ns.max(task.start_ns) - begin, task.ready)).collect();
    points.sort_by_key(|point| point.0);
    if points.len() as u64 <= READY_POINTS {
        return points.into_iter().map(|(time, ready)| (time, ready, ready)).collect();
    }
    let width = makespan / READY_POINTS + 1;
    let mut bins: Vec<(u64, u32, u32)> = Vec::new();
    for (time, ready) in points {
        match bins.last_mut() {
            Some(bin) if bin.0 / width == time / width => {
                *bin = (time, bin.1.min(ready), bin.2.max(ready));
            }
            _ => bins.push((time, ready, ready)),
        }
    }
    bins
}

fn histogram(trace: &Trace, codelet: &CodeletReport) -> Histogram {
    let mut times: Vec<u64> =
        trace.tasks.iter().filter(|task| task.name == codelet.name).map(nanos).collect();
    times.sort_unstable();
    let (low, high) = (times.first().copied().unwrap_or(0), times.last().copied().unwrap_or(0));
    let mut bars = vec![0; BARS];
    // A body of no measurable time has no logarithm: it counts as one nanosecond.
    let log = |time: u64| (time.max(1) as f64).ln();
    let width = (log(high) - log(low)) / BARS as f64;
    for &time in &times {
        let bar = if width > 0.0 { ((log(time) - log(low)) / width) as usize } else { BARS / 2 };
        bars[bar.min(BARS - 1)] += 1;
    }
    let median = codelet.median.as_nanos() as u64;
    Histogram { low, high, median, count: times.len(), bars }
}
