//! Plausibility checks of bases and events, with the likely cause of a failure: order of channels,
//! sign, scale, units, sampling.

use crate::basis::{Basis, Sampling};
use crate::channels::{CHANNELS, Channel, RINGS, SECTORS, SEGMENTS, Segment};

/// Charges that the channels have collected at the end.
type Ends = [f64; CHANNELS];

/// Returns the mean of the last tenth of each signal.
fn ends(signals: &[f32], samples: usize) -> Ends {
    let last = samples.div_ceil(10).max(1);
    std::array::from_fn(|channel| {
        let end = &signals[channel * samples..][samples - last..samples];
        end.iter().map(|&value| f64::from(value)).sum::<f64>() / last as f64
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Returns the segment with the largest charge of either sign.
fn collector(ends: &Ends) -> Segment {
    Segment::with_largest(|segment| ends[segment.index()].abs() as f32)
}

/// Refuses signals in which the core's charge mostly differs from the sum of the segments' charges.
/// The contacts enclose the crystal, so the two must be equal. `noise` is the total difference that
/// noise alone explains.
fn check_core(all: impl Iterator<Item = Ends>, noise: f64) -> Result<(), String> {
    let (mut apart, mut of_first, mut whole, mut product, mut square) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for ends in all {
        let (sum, core) = (ends[..SEGMENTS].iter().sum::<f64>(), ends[SEGMENTS]);
        let larger = core.abs().max(sum.abs());
        apart += (core - sum).abs();
        of_first += (ends[0] - (sum + core - ends[0])).abs();
        whole += larger;
        product += core * sum;
        square += larger * larger;
    }
    // Noise, cross-talk and charges that still drift make some percent.
    if apart <= 0.5 * whole || apart <= noise {
        return Ok(());
    }
    let remedy = match () {
        () if product < -0.5 * square => {
            "turn the sign of one of them: both rise for a positive energy, signals[:, 36] *= -1 if it is the core's"
        }
        () if of_first <= 0.1 * whole => {
            "the core comes first: move it after the segments, numpy.roll(signals, -1, axis=1); first the segments 0 to 35, then the core"
        }
        () => "channels are the segments 0 to 35 (6 sector + ring), then the core, in one unit",
    };
    let percent = 100.0 * apart / whole;
    Err(format!("the core's charges are {percent:.0} % off the sums of the segments': {remedy}"))
}

/// Refuses signals of events, by event, channel and sample, in which the core's charges are not the
/// sums of the segments' charges.
///
/// # Errors
/// A description of the problem and its likely cause.
pub fn check_events(signals: &[f32], samples: usize) -> Result<(), String> {
    let events = || signals.chunks_exact((CHANNELS * samples).max(1));
    // A difference before charges move is noise.
    let noise = |event: &[f32]| {
        let first = |channel: usize| f64::from(event[channel * samples]);
        ((0..SEGMENTS).map(first).sum::<f64>() - first(SEGMENTS)).abs()
    };
    check_core(events().map(|event| ends(event, samples)), 2.0 * events().map(noise).sum::<f64>())
}

/// Refuses signals of one segment's points in all channels of a crystal, by the rules of
/// [`check_basis`].
pub(crate) fn check_channels(signals: &[f32], samples: usize, segment: Segment) -> Result<(), String> {
    let points = signals.chunks_exact((CHANNELS * samples).max(1));
    let all: Vec<Ends> = points.map(|point| ends(point, samples)).collect();
    check_core(all.iter().copied(), 0.0)?;
    check_order(&all, &vec![segment; all.len()])
}

/// The most points of a basis that are examined.
const MOST_POINTS: usize = 4096;

/// Refuses a basis of a whole crystal that is implausible. The core's charge must be the sum of the
/// segments' charges. Charges must be collected by the segments in which the points are said to
/// lie, must end at 1, and must take a plausible time. Positions must be those of a crystal in mm.
///
/// # Errors
/// A description of the problem and its likely cause.
pub fn check_basis(basis: &Basis) -> Result<(), String> {
    let (points, Sampling { samples, step, .. }) = (basis.positions().len(), basis.sampling());
    if points == 0 || samples == 0 {
        return Ok(());
    }
    let chosen = || (0..points).step_by(points.div_ceil(MOST_POINTS));
    let length = CHANNELS * samples;
    let all: Vec<Ends> =
        chosen().map(|point| ends(&basis.values()[point * length..][..length], samples)).collect();
    check_core(all.iter().copied(), 0.0)?;
    let segments: Vec<Segment> = chosen().map(|point| basis.segments()[point]).collect();
    let of_hits = || chosen().zip(&segments).map(|(point, &segment)| basis.signal(point, segment.into()));
    let begin = median(of_hits().map(|signal| f64::from(signal[0])));
    let whole = median(all.iter().zip(&segments).map(|(ends, segment)| ends[segment.index()]));
    if begin.abs() > 0.5 && whole.abs() < 0.1 * begin.abs() {
        return Err(format!(
            "charges of hit segments begin at {begin:.3} and end at {whole:.3}: time runs backwards, use signals[:, :, ::-1]"
        ));
    }
    check_order(&all, &segments)?;
    check_scale(whole)?;
    let last = |signal: &[f32]| f64::from(signal[samples - 1] - signal[samples - 1 - samples / 8]);
    // Charges that still drift at the last sample allow weaker statements.
    let is_settled = median(of_hits().map(last)).abs() < 0.02 * whole;
    if is_settled && !(0.9..=1.1).contains(&whole) {
        return Err(scaled(whole));
    }
    if is_settled {
        let cores = chosen().map(|point| basis.signal(point, Channel::CORE));
        check_rise(median(cores.map(rise)) * step, step)?;
    }
    check_positions(basis)
}

/// Refuses charges that another segment collects than the one in which the points are said to lie.
fn check_order(all: &[Ends], segments: &[Segment]) -> Result<(), String> {
    let named = |name: &dyn Fn(Segment) -> Option<Segment>| {
        let right =
            all.iter().zip(segments).filter(|&(ends, &segment)| name(segment) == Some(collector(ends)));
        right.count() as f64 / all.len() as f64
    };
    if all.is_empty() || named(&Some) >= 0.5 {
        return Ok(());
    }
    let turned = |by: usize| move |s: Segment| Segment::new((s.sector() + by) % SECTORS, s.ring());
    let cause = if named(&|s| Segment::from_index(s.index().checked_sub(1)?)) > 0.5 {
        "segments are counted from 1: subtract 1".to_owned()
    } else if named(&|s| Segment::from_index(RINGS * s.ring() + s.sector())) > 0.5
        || named(&|s| Segment::new(s.index() % SECTORS, s.index() / SECTORS)) > 0.5
    {
        "either signals or segments are counted as 6 ring + sector: 6 sector + ring is needed".to_owned()
    } else if let Some(by) = (1..SECTORS).find(|&by| named(&turned(by)) > 0.5) {
        format!(
            "signals are rotated against segments by {by} of 6 sectors: numpy.roll them by {} channels",
            6 * by
        )
    } else {
        let segment = collector(&all[0]).index();
        let wrong = segments[0].index();
        format!("the first point is in segment {wrong}, but segment {segment} collects its charge")
    };
    Err(format!("signals are not in the order of the segments that points lie in: {cause}"))
}

/// Refuses a basis whose charges are far from 1.
fn check_scale(whole: f64) -> Result<(), String> {
    match whole {
        whole if whole < 0.0 => Err(format!(
            "charges of hit segments end at {whole:.4}: turn the sign of the signals, they rise where charge is collected"
        )),
        whole if (0.5..=1.5).contains(&whole) => Ok(()),
        whole if whole < 1e-9 => {
            Err("hit segments collect no charge: signals are those of other segments, or end too early"
                .into())
        }
        whole => Err(scaled(whole)),
    }
}

fn scaled(whole: f64) -> String {
    format!(
        "charges of hit segments end at {whole:.6} (median), 1 is the whole charge: divide the signals by {whole:.6} \
         (int16 is in steps of 1/16384 already)"
    )
}

/// Returns the rise time of a signal from 10 % to 90 % of its end value, in samples.
fn rise(signal: &[f32]) -> f64 {
    let end = signal.last().copied().unwrap_or(0.0);
    let crosses = |share: f32| {
        let at = signal.iter().position(|&x| x >= share * end)?;
        let before = at.checked_sub(1).map_or(0.0, |before| signal[before]);
        let step = signal[at] - before;
        Some(at as f64 - if step > 0.0 { f64::from((signal[at] - share * end) / step) } else { 0.0 })
    };
    crosses(0.1).zip(crosses(0.9)).map_or(0.0, |(from, to)| to - from)
}

/// Refuses rise times of less than 2 ns (electrons drift at 0.1 mm/ns) or more than 20 us.
fn check_rise(time: f64, step: f64) -> Result<(), String> {
    if (2.0..=2e4).contains(&time) || time == 0.0 {
        return Ok(());
    }
    let plausible = |factor: f64| (2.0..=2e4).contains(&(time * factor));
    let cause = [(1e3, "microseconds"), (1e9, "seconds"), (1e-3, "picoseconds")];
    let cause = cause
        .into_iter()
        .find(|&(factor, _)| plausible(factor))
        .map_or_else(String::new, |(_, unit)| format!(" It looks like {unit}."));
    Err(format!(
        "charges take {time:.3e} ns at a step of {step} ns between samples, which has to be in ns.{cause}"
    ))
}

/// Refuses positions of a whole crystal that are not in mm.
fn check_positions(basis: &Basis) -> Result<(), String> {
    let mut has_points = [false; SEGMENTS];
    basis.segments().iter().for_each(|segment| has_points[segment.index()] = true);
    if basis.positions().len() < 100 || has_points.iter().filter(|has| **has).count() < SEGMENTS / 2 {
        return Ok(());
    }
    let extent = extent(basis.positions());
    let cause = match extent {
        extent if extent < 1.0 => "it looks like metres, multiply by 1000",
        extent if extent < 12.0 => "it looks like centimetres, multiply by 10",
        extent if extent > 1000.0 => "it looks like micrometres, divide by 1000",
        extent if extent > 200.0 => "no crystal is as long",
        _ => return Ok(()),
    };
    Err(format!("positions extend over {extent:.4} mm: {cause}"))
}

/// Returns the largest extent of positions along an axis.
fn extent(positions: &[[f32; 3]]) -> f64 {
    let along = |axis: usize| {
        let all = || positions.iter().map(|position| f64::from(position[axis]));
        all().fold(f64::NEG_INFINITY, f64::max) - all().fold(f64::INFINITY, f64::min)
    };
    (0..3).map(along).fold(0.0, f64::max)
}

/// Refuses arrays of one segment that are implausible: a basis in which the charges of the hit
/// segment do not end near 1, or positions in metres.
///
/// # Errors
/// A description of the problem and its likely cause.
pub(crate) fn check_segment<'a>(
    hits: impl Iterator<Item = &'a [f32]>,
    positions: &[[f32; 3]],
) -> Result<(), String> {
    check_scale(median(hits.filter_map(|signal| signal.last()).map(|&x| x.into())))?;
    let extent = extent(positions);
    match extent > 0.0 && extent < 0.1 {
        true => Err(format!("positions extend over {extent:.5} mm: they look like metres, multiply by 1000")),
        false => Ok(()),
    }
}

/// Refuses energies that do not match the charges (keV), given charge and energy of each hit.
///
/// # Errors
/// A description of the problem and its likely cause.
pub(crate) fn check_energies(hits: impl Iterator<Item = (f64, f64)>) -> Result<(), String> {
    let ratio = median(hits.map(|(charge, energy)| charge / energy));
    let cause = match ratio {
        ratio if (0.2..=5.0).contains(&ratio) => return Ok(()),
        ratio if ratio < -0.2 => "turn the sign of the signals, they rise where charge is collected",
        ratio if (200.0..5000.0).contains(&ratio) => {
            "energies look like MeV and signals like keV: multiply the energies them by 1000"
        }
        ratio if (2e-4..5e-3).contains(&ratio) => {
            "signals look like MeV and energies like keV: multiply the signals them by 1000"
        }
        ratio if ratio > 5.0 => "signals and energies must both be in keV",
        // Charges that have not come to an end, or none at all.
        _ => return Ok(()),
    };
    Err(format!("charges of hit segments are {ratio:.4} times the energies (median): {cause}"))
}

/// Refuses events with another sampling than the basis. It also refuses events in which charges
/// move so much earlier or later that a search with `shifts` samples each way does not find them.
///
/// # Errors
/// A description of the difference and a remedy.
pub fn check_sampling(basis: Sampling, events: Sampling, shifts: usize) -> Result<(), String> {
    let ratio = events.step / basis.step;
    if (ratio - 1.0).abs() > 1e-6 {
        let is_thousand = [ratio, 1.0 / ratio].iter().any(|ratio| (ratio / 1000.0 - 1.0).abs() < 1e-6);
        let cause = match is_thousand {
            true => "one of them is in microseconds, but ns are needed".to_owned(),
            false => format!("a basis with this step is needed (psa simulate --sample-step {})", events.step),
        };
        return Err(format!(
            "samples every {} ns, those of the basis every {} ns: {cause}",
            events.step, basis.step
        ));
    }
    let late = events.before as i64 - basis.before as i64;
    if late.unsigned_abs() as usize <= shifts {
        return Ok(());
    }
    let remedy = match late {
        late if late > 0 => format!("cut the first {late} samples of each trace, or take --shifts {late}"),
        late => format!("take --shifts {}, or a basis with --before {} (psa simulate)", -late, events.before),
    };
    let [of_events, of_basis] = [events.before, basis.before];
    Err(format!("charges move after {of_events} samples, in the basis after {of_basis}: {remedy}"))
}

/// A transformation that the events may have undergone.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    /// Charges move this many samples later.
    Late(isize),
    /// The sampling step differs by this factor.
    Step(f64),
    /// Segments are numbered differently.
    SegmentOrder(SegmentOrder),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SegmentOrder {
    ByRing,
    SectorsBackwards,
    RingsBackwards,
    Turned(usize),
}

impl SegmentOrder {
    /// Returns the channel of an event that holds the signal of a segment of the basis.
    fn channel(self, segment: Segment) -> usize {
        let (sector, ring) = (segment.sector(), segment.ring());
        match self {
            SegmentOrder::ByRing => SECTORS * ring + sector,
            SegmentOrder::SectorsBackwards => RINGS * (SECTORS - 1 - sector) + ring,
            SegmentOrder::RingsBackwards => RINGS * sector + RINGS - 1 - ring,
            SegmentOrder::Turned(by) => RINGS * ((sector + by) % SECTORS) + ring,
        }
    }
}

impl Change {
    /// Returns all changes that are tried.
    fn all() -> impl Iterator<Item = Change> {
        const MOST_LATE: isize = 16;
        let late = (1..=MOST_LATE).flat_map(|by| [by, -by]).map(Change::Late);
        let steps = [0.1, 0.25, 0.4, 0.5, 2.0, 2.5, 4.0, 10.0].map(Change::Step);
        let orders = [SegmentOrder::ByRing, SegmentOrder::SectorsBackwards, SegmentOrder::RingsBackwards];
        let orders =
            orders.into_iter().chain((1..SECTORS).map(SegmentOrder::Turned)).map(Change::SegmentOrder);
        late.chain(steps).chain(orders)
    }

    /// Reverts the change of an event.
    fn undone(self, signals: &[f32], sampling: Sampling) -> Vec<f32> {
        let samples = sampling.samples;
        match self {
            Change::Nothing => signals.to_vec(),
            Change::SegmentOrder(order) => {
                let channel = |segment| order.channel(segment);
                let channels = Segment::all().map(channel).chain([SEGMENTS]);
                channels.flat_map(|channel| &signals[channel * samples..][..samples]).copied().collect()
            }
            Change::Late(_) | Change::Step(_) => {
                let last = (samples - 1) as f64;
                let before = sampling.before as f64;
                let from = |t: f64| match self {
                    Change::Late(by) => t + by as f64,
                    Change::Step(factor) => before + (t - before) / factor,
                    _ => t,
                };
                let moved = |signal: &[f32]| -> Vec<f32> {
                    let at = |t: usize| {
                        let from = from(t as f64).clamp(0.0, last);
                        let (whole, part) = (from as usize, from.fract() as f32);
                        signal[whole] * (1.0 - part) + signal[(whole + 1).min(samples - 1)] * part
                    };
                    (0..samples).map(at).collect()
                };
                signals.chunks_exact(samples).flat_map(moved).collect()
            }
        }
    }

    fn words(self, step: f64) -> String {
        match self {
            Change::Nothing => String::new(),
            Change::Late(by) if by > 0 => {
                format!(
                    "charges move {by} samples later than in the basis: remove as many from the beginning of each trace, or take --shifts {by}"
                )
            }
            Change::Late(by) => {
                let by = -by;
                format!(
                    "charges move {by} samples earlier than in the basis: cut traces {by} samples earlier, or take --shifts {by}"
                )
            }
            Change::Step(factor) => {
                format!(
                    "samples are {} ns apart, those of the basis {step} ns: a basis with this step is needed",
                    factor * step
                )
            }
            Change::SegmentOrder(SegmentOrder::ByRing) => {
                "segments are counted as 6 ring + sector, 6 sector + ring is needed".into()
            }
            Change::SegmentOrder(SegmentOrder::SectorsBackwards) => {
                "sectors are counted the other way round".into()
            }
            Change::SegmentOrder(SegmentOrder::RingsBackwards) => {
                "rings are counted from the back, the front face is the first".into()
            }
            Change::SegmentOrder(SegmentOrder::Turned(by)) => {
                format!("sectors are counted from another one, {by} of 6 on")
            }
        }
    }
}

/// Returns the L1 distance of two signals, summed in lanes.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += (a - b).abs();
        }
    }
    sums.iter().sum()
}

/// Comparison of the first events with one large hit with a basis, as they are and after reverting
/// each possible change.
#[derive(Debug)]
pub struct BasisComparison<'b> {
    basis: &'b Basis,
    /// Shift of events (samples) that is accepted without a warning.
    shifts: usize,
    events: Vec<Vec<f32>>,
    looked_at: usize,
}

/// The most events that are compared,
const EVENTS: usize = 16;
/// taken from this many events at the beginning,
const LOOKED_AT: usize = 4096;
/// each with this many points of its segment.
const POINTS: usize = 32;
/// A change is reported as likely if it reduces the distance from the basis by this factor,
const BETTER: f64 = 0.75;
/// and if the mean distance without it is at least this large (fraction of the charge).
const APART: f64 = 0.001;

impl<'b> BasisComparison<'b> {
    /// Creates a comparison with a basis, for a search that shifts events by up to `shifts`
    /// samples.
    pub fn new(basis: &'b Basis, shifts: usize) -> Self {
        BasisComparison { basis, shifts, events: Vec::new(), looked_at: 0 }
    }

    /// Adds the signals of a crystal, by channel and sample, if they are usable. Returns `true`
    /// when this completes the events of the comparison, `false` before and after.
    pub fn add(&mut self, signals: &[f32]) -> bool {
        let samples = self.basis.sampling().samples;
        if self.events.len() == EVENTS || self.looked_at == LOOKED_AT {
            return false;
        }
        self.looked_at += 1;
        // Signals of another length have another sampling.
        if signals.len() == CHANNELS * samples && samples > 1 {
            let ends = ends(signals, samples);
            let hit = collector(&ends);
            let others = Segment::all().filter(|&other| other != hit).map(|other| ends[other.index()].abs());
            let noise = median((0..CHANNELS).map(|channel| f64::from(signals[channel * samples]).abs()));
            let whole = ends[hit.index()];
            if whole > 50.0 * noise && whole > 0.0 && others.fold(0.0, f64::max) < 0.1 * whole {
                self.events.push(signals.iter().map(|&x| (f64::from(x) / whole) as f32).collect());
            }
        }
        self.events.len() == EVENTS || self.looked_at == LOOKED_AT
    }

    /// Returns a description of the change that the events seem to have undergone, if any.
    pub fn doubt(&self) -> Option<String> {
        const FEWEST: usize = 5;
        if self.events.len() < FEWEST {
            return None;
        }
        let as_they_are = self.apart(Change::Nothing);
        let changes = Change::all().map(|change| (self.apart(change), change));
        let (apart, change) = changes.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let is_found = matches!(change, Change::Late(by) if by.unsigned_abs() <= self.shifts);
        if is_found || as_they_are < APART || apart > BETTER * as_they_are {
            return None;
        }
        let percent = |apart: f64| format!("{:.2} %", 100.0 * apart);
        Some(format!(
            "events are {} of the charge from the basis on average, and {} if {}",
            percent(as_they_are),
            percent(apart),
            change.words(self.basis.sampling().step)
        ))
    }

    /// Returns the median over the events of the mean distance of a sample from the nearest
    /// point's.
    fn apart(&self, change: Change) -> f64 {
        let sampling = self.basis.sampling();
        median(self.events.iter().map(|event| {
            let event = change.undone(event, sampling);
            let hit = collector(&ends(&event, sampling.samples));
            let points: Vec<usize> = (0..self.basis.segments().len())
                .filter(|&point| self.basis.segments()[point] == hit)
                .collect();
            let points = points.iter().step_by(points.len().div_ceil(POINTS).max(1));
            let apart = |&point: &usize| {
                let known = &self.basis.values()[point * event.len()..][..event.len()];
                f64::from(distance(&event, known)) / event.len() as f64
            };
            points.map(apart).fold(f64::INFINITY, f64::min)
        }))
    }
}
