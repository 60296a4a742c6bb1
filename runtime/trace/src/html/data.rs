//! The data that the page's scripts draw: tasks and transfers, merged if there are too many, and
//! curves of bounded length.

use std::collections::HashMap;

use serde::Serialize;

use crate::links::{Link, LinkSlice};
use crate::nodes::{Node, link_name, place};
use crate::report::{CodeletReport, Report};
use crate::tracks::{PALETTE, Slice, Track, extent, nanos, span};
use crate::{IdleState, TaskEvent, Trace, TransferEvent};

/// Maximum number of points of a curve, each with a smallest and a largest value.
const CURVE_POINTS: u64 = 6_000;
/// Maximum number of codelets with a histogram, those with the most time.
const HISTOGRAMS: usize = 24;
/// Bars of a histogram.
const BARS: usize = 48;
/// Longest critical path that is drawn as a line; a longer one is only marked on its tasks.
const PATH_LINE: usize = 20_000;
/// Largest integer that JavaScript's numbers represent exactly.
const EXACT: u64 = 1 << 53;

/// The page's data. Times are nanoseconds since the first record.
#[derive(Serialize)]
pub(super) struct PageData {
    extent: u64,
    /// The workers, then the links.
    tracks: Vec<GanttRow>,
    /// Number of workers among them.
    workers: usize,
    palette: [[u8; 3]; PALETTE.len()],
    /// The codelets, then the reasons of transfers.
    codelets: Vec<&'static str>,
    /// Number of codelets among them.
    ran: usize,
    labels: Vec<&'static str>,
    /// Pairs of codelet (or reason) and label (or format).
    kinds: Vec<(usize, usize)>,
    items: Vec<Item>,
    moves: Vec<Move>,
    blocks: Vec<Block>,
    /// The critical path: a task of `items`, or -1 - a block of `blocks`.
    path: Vec<i64>,
    /// The number of ready tasks, then the bytes that each memory node holds.
    curves: Vec<Curve>,
    histograms: Vec<Histogram>,
    /// Name, start and end of each phase of the program.
    phases: Vec<(String, u64, u64)>,
    bin: u64,
}

#[derive(Debug, Serialize)]
struct GanttRow {
    name: String,
    levels: usize,
    idle: f64,
    /// Shares of a worker's idle time, in the order of [`IdleState::ALL`].
    rests: [f64; IdleState::ALL.len()],
}

/// A task: worker row, level, start, duration, kind, number, coordinates, priority, flops, bytes,
/// ready, 1: failed + 2: on the critical path, predicted duration, implementation, size of the
/// batch. A tuple, because names in 50 000 records would be most of the page.
type Item =
    (usize, usize, u64, u64, usize, Number, Coords, i32, f64, Number, u32, u8, Number, &'static str, u32);

type Coords = Option<[Option<u32>; 3]>;

/// A transfer: link row, lane, start, duration, kind, number of the handle, bytes, 1: converted.
type Move = (usize, usize, u64, u64, usize, Number, Number, u8);

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

/// Short neighbours on one level of one row.
#[derive(Debug, Serialize)]
struct Block {
    row: usize,
    level: usize,
    start: u64,
    end: u64,
    /// Kind, number of tasks or transfers, their time.
    parts: Vec<(usize, u32, u64)>,
    /// Number of them on the critical path.
    critical: u32,
    failed: u32,
}

/// A value over time: the smallest and the largest of each bin, at the bin's last record.
#[derive(Debug, Serialize)]
struct Curve {
    name: String,
    limit: Option<u64>,
    points: Vec<(u64, u64, u64)>,
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

/// The contents of one row, by start.
struct Line {
    levels: usize,
    pieces: Vec<Piece>,
}

/// A body or a transfer.
#[derive(Clone, Copy)]
struct Piece {
    what: BarKind,
    level: usize,
    start: u64,
    end: u64,
}

#[derive(Clone, Copy)]
enum BarKind {
    /// Position of its record.
    Task(usize),
    Transfer(usize),
}

impl Line {
    fn of_track(track: &Track) -> Line {
        let piece = |slice: &Slice| Piece {
            what: BarKind::Task(slice.task),
            level: slice.depth,
            start: slice.start,
            end: slice.end,
        };
        Line { levels: track.levels(), pieces: track.slices.iter().map(piece).collect() }
    }

    fn of_link(link: &Link) -> Line {
        let piece = |slice: &LinkSlice| Piece {
            what: BarKind::Transfer(slice.transfer),
            level: slice.lane,
            start: slice.start,
            end: slice.end,
        };
        Line { levels: link.lanes, pieces: link.slices.iter().map(piece).collect() }
    }
}

impl PageData {
    /// Prepares at most `limit` tasks, transfers and blocks (but one block per level of each row).
    pub fn new(trace: &Trace, report: &Report, limit: usize) -> PageData {
        let (begin, end) = extent(trace);
        let (tracks, nodes, links) = (trace.tracks(), trace.memory_nodes(), trace.links());
        let lines: Vec<Line> =
            tracks.iter().map(Line::of_track).chain(links.iter().map(Line::of_link)).collect();
        let bin = bin_width(&lines, begin, end - begin, limit);
        let mut critical = vec![false; trace.tasks.len()];
        let tasks: HashMap<u64, usize> =
            trace.tasks.iter().enumerate().map(|(place, task)| (task.id, place)).collect();
        let path: Vec<usize> = report.critical_path.iter().filter_map(|id| tasks.get(id).copied()).collect();
        path.iter().for_each(|&task| critical[task] = true);

        let mut shapes = Shapes::new(trace, report, begin, bin);
        for (row, line) in lines.iter().enumerate() {
            shapes.add(row, line, &critical);
        }
        let mut path: Vec<i64> = path.into_iter().map(|task| shapes.drawn_as[task]).collect();
        path.dedup();
        if path.len() > PATH_LINE {
            path.clear();
        }
        let length = end - begin;
        let run = span(trace);
        let workers = trace.rests(&tracks, run);
        let workers = tracks.iter().zip(&report.idle).zip(workers).map(|((track, &idle), rests)| {
            let mut shares = [0.0; IdleState::ALL.len()];
            for rest in rests {
                shares[rest.state as usize] += (rest.end - rest.start) as f64 / (run.1 - run.0) as f64;
            }
            GanttRow { name: track.name.clone(), levels: track.levels(), idle, rests: shares }
        });
        let between = |link: &Link| {
            let idle = 1.0 - link.busy() as f64 / length.max(1) as f64;
            GanttRow {
                name: link_name(&nodes, link, "→"),
                levels: link.lanes,
                idle,
                rests: Default::default(),
            }
        };
        let phases = trace.phase_spans();
        PageData {
            extent: length,
            tracks: workers.chain(links.iter().map(between)).collect(),
            workers: tracks.len(),
            palette: PALETTE,
            codelets: shapes.kinds.codelets,
            ran: report.codelets.len(),
            labels: shapes.kinds.labels,
            kinds: shapes.kinds.pairs,
            items: shapes.items,
            moves: shapes.moves,
            blocks: shapes.blocks,
            path,
            curves: curves(trace, &nodes, begin, length),
            histograms: report
                .codelets
                .iter()
                .take(HISTOGRAMS)
                .map(|codelet| histogram(trace, codelet))
                .collect(),
            phases: phases
                .iter()
                .map(|phase| (phase.name.to_string(), phase.start - begin, phase.end - begin))
                .collect(),
            bin,
        }
    }

    /// Tasks and transfers that are drawn one by one.
    pub fn drawn(&self) -> (usize, usize) {
        (self.items.len(), self.moves.len())
    }

    /// Blocks of merged tasks or transfers.
    pub fn merged(&self) -> usize {
        self.blocks.len()
    }

    /// Duration below which a shape is merged (ns).
    pub fn bin(&self) -> u64 {
        self.bin
    }
}

/// The shapes drawn so far.
struct Shapes<'t> {
    trace: &'t Trace,
    begin: u64,
    bin: u64,
    kinds: Kinds,
    items: Vec<Item>,
    moves: Vec<Move>,
    blocks: Vec<Block>,
    /// Per task its item, or -1 - its block.
    drawn_as: Vec<i64>,
}

impl<'t> Shapes<'t> {
    fn new(trace: &'t Trace, report: &Report, begin: u64, bin: u64) -> Shapes<'t> {
        let drawn_as = vec![0; trace.tasks.len()];
        Shapes {
            trace,
            begin,
            bin,
            kinds: Kinds::new(report),
            items: vec![],
            moves: vec![],
            blocks: vec![],
            drawn_as,
        }
    }

    fn add(&mut self, row: usize, line: &Line, critical: &[bool]) {
        // The open block of each level.
        let mut open: Vec<Option<(u64, usize)>> = vec![None; line.levels];
        for piece in &line.pieces {
            let (start, duration) = (piece.start - self.begin, piece.end - piece.start);
            let (kind, failed, critical) = match piece.what {
                BarKind::Task(task) => {
                    let event = &self.trace.tasks[task];
                    (self.kinds.of(event.name, event.label), event.failed, critical[task])
                }
                BarKind::Transfer(transfer) => {
                    let event = &self.trace.transfers[transfer];
                    (self.kinds.of_transfer(event), false, false)
                }
            };
            if duration >= self.bin {
                self.alone(row, piece, kind, critical);
                continue;
            }
            let place = start / self.bin;
            let block = match open[piece.level] {
                Some((at, block)) if at == place => block,
                _ => {
                    let (level, parts) = (piece.level, vec![]);
                    self.blocks.push(Block { row, level, start, end: start, parts, critical: 0, failed: 0 });
                    self.blocks.len() - 1
                }
            };
            open[piece.level] = Some((place, block));
            if let BarKind::Task(task) = piece.what {
                self.drawn_as[task] = -1 - block as i64;
            }
            self.blocks[block].add(start + duration, duration, kind, failed, critical);
        }
    }

    fn alone(&mut self, row: usize, piece: &Piece, kind: usize, critical: bool) {
        let (level, start, duration) = (piece.level, piece.start - self.begin, piece.end - piece.start);
        match piece.what {
            BarKind::Task(task) => {
                self.drawn_as[task] = self.items.len() as i64;
                let task = &self.trace.tasks[task];
                let flags = u8::from(task.failed) + 2 * u8::from(critical);
                self.items.push(item(row, level, start, duration, kind, task, flags));
            }
            BarKind::Transfer(transfer) => {
                let event = &self.trace.transfers[transfer];
                let (data, bytes) = (event.data.into(), event.bytes.into());
                self.moves.push((row, level, start, duration, kind, data, bytes, u8::from(event.converted)));
            }
        }
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
    let predicted = task.predicted_ns.into();
    (
        row,
        level,
        start,
        duration,
        kind,
        id,
        coords,
        task.priority,
        task.flops,
        bytes,
        task.ready,
        flags,
        predicted,
        task.implementation,
        task.batch,
    )
}

/// Returns the width below which shapes are merged (ns): 0 if all can be drawn, otherwise the first
/// of a doubling series that stays within the limit.
fn bin_width(lines: &[Line], begin: u64, extent: u64, limit: usize) -> u64 {
    let pieces: usize = lines.iter().map(|line| line.pieces.len()).sum();
    if pieces <= limit {
        return 0;
    }
    let mut best = extent.saturating_add(1);
    let mut width = (extent / limit as u64).max(1);
    while width < best {
        let shapes: usize = lines.iter().map(|line| shapes(line, begin, width)).sum();
        if shapes <= limit {
            best = width;
        } else {
            width = width.saturating_mul(2);
        }
    }
    best
}

/// Single shapes and blocks of a row at a bin width.
fn shapes(line: &Line, begin: u64, width: u64) -> usize {
    let mut open = vec![u64::MAX; line.levels];
    let mut shapes = 0;
    for piece in &line.pieces {
        if piece.end - piece.start >= width {
            shapes += 1;
        } else {
            let place = (piece.start - begin) / width;
            shapes += usize::from(open[piece.level] != place);
            open[piece.level] = place;
        }
    }
    shapes
}

/// Codelets by decreasing time, then reasons and labels in order of appearance, and the pairs of
/// them that occur.
struct Kinds {
    codelets: Vec<&'static str>,
    ran: usize,
    labels: Vec<&'static str>,
    pairs: Vec<(usize, usize)>,
    known: HashMap<(usize, &'static str), usize>,
    places: HashMap<&'static str, usize>,
}

impl Kinds {
    fn new(report: &Report) -> Kinds {
        let codelets: Vec<&'static str> = report.codelets.iter().map(|codelet| codelet.name).collect();
        let places = codelets.iter().enumerate().map(|(place, &name)| (name, place)).collect();
        Kinds { ran: codelets.len(), codelets, labels: vec![], pairs: vec![], known: HashMap::new(), places }
    }

    fn of(&mut self, name: &'static str, label: &'static str) -> usize {
        let codelet = self.places.get(name).copied().unwrap_or(0);
        self.pair(codelet, label)
    }

    /// Returns the kind of a transfer. A reason has a position of its own, even if a codelet has
    /// the same name.
    fn of_transfer(&mut self, transfer: &TransferEvent) -> usize {
        let name = transfer.reason.name();
        let reason = self.codelets[self.ran..].iter().position(|&known| known == name).unwrap_or_else(|| {
            self.codelets.push(name);
            self.codelets.len() - 1 - self.ran
        });
        self.pair(self.ran + reason, transfer.label)
    }

    fn pair(&mut self, codelet: usize, label: &'static str) -> usize {
        if let Some(&kind) = self.known.get(&(codelet, label)) {
            return kind;
        }
        let place = self.labels.iter().position(|&known| known == label).unwrap_or_else(|| {
            self.labels.push(label);
            self.labels.len() - 1
        });
        self.pairs.push((codelet, place));
        self.known.insert((codelet, label), self.pairs.len() - 1);
        self.pairs.len() - 1
    }
}

fn curves(trace: &Trace, nodes: &[Node], begin: u64, extent: u64) -> Vec<Curve> {
    let ready =
        trace.tasks.iter().map(|task| (task.end_ns.max(task.start_ns) - begin, u64::from(task.ready)));
    let ready = Curve { name: "ready tasks".into(), limit: None, points: curve(ready.collect(), extent) };
    let mut used: Vec<Vec<(u64, u64)>> = vec![vec![]; nodes.len()];
    for event in &trace.memory {
        used[place(nodes, event.node)].push((event.at_ns - begin, event.used.min(EXACT)));
    }
    let memory =
        nodes.iter().zip(used).filter(|(_, points)| !points.is_empty()).map(|(node, points)| Curve {
            name: node.name.clone(),
            limit: node.capacity.map(|bytes| bytes.min(EXACT)),
            points: curve(points, extent),
        });
    std::iter::once(ready).chain(memory).collect()
}

/// The smallest and the largest value of each bin, at the bin's last record.
fn curve(mut points: Vec<(u64, u64)>, extent: u64) -> Vec<(u64, u64, u64)> {
    points.sort_by_key(|point| point.0);
    if points.len() as u64 <= CURVE_POINTS {
        return points.into_iter().map(|(time, value)| (time, value, value)).collect();
    }
    let width = extent / CURVE_POINTS + 1;
    let mut bins: Vec<(u64, u64, u64)> = Vec::new();
    for (time, value) in points {
        match bins.last_mut() {
            Some(bin) if bin.0 / width == time / width => {
                *bin = (time, bin.1.min(value), bin.2.max(value));
            }
            _ => bins.push((time, value, value)),
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
    // A body without measurable time has no logarithm: it counts as one nanosecond.
    let log = |time: u64| (time.max(1) as f64).ln();
    let width = (log(high) - log(low)) / BARS as f64;
    for &time in &times {
        let bar = if width > 0.0 { ((log(time) - log(low)) / width) as usize } else { BARS / 2 };
        bars[bar.min(BARS - 1)] += 1;
    }
    let median = codelet.median.as_nanos() as u64;
    Histogram { low, high, median, count: times.len(), bars }
}
