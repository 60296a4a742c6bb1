//! Cost of searches of one segment, and their agreement with a search in `f64`: `cargo run
//! --release -p zellige-bench --example search_bars -- FOLDER [repeats] [made events]`.
//!
//! The folder has a segment's basis and events as npy files (`seg14_basis_i16.npy`, ...). Times are
//! CPU time of one thread per event. All searches are timed in turn, repeatedly, and the figures
//! are medians. Made events are points of the basis with energies from 15 keV to 5 MeV
//! (log-uniform) and 2.5 keV of noise in each sample.

use std::path::Path;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use zellige_measure::{cpu_seconds, median};
use zellige_psa::Error;
use zellige_psa::basis::SegmentBasis;
use zellige_psa::channels::{ChannelSet, Segment};
use zellige_psa::pipeline::{Files, Input};
use zellige_psa::search::{
    Batching, Hit, Method, Plan, PowerTable, Precision, Prepared, Screen, Searcher, SegmentEvents,
};
use zellige_runtime::Runtime;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let missing = || Error::Parameter { name: "FOLDER", problem: "give a folder with segments".into() };
    let folder = args.first().ok_or_else(missing)?;
    let number = |at: usize, default: usize| args.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(default);
    for channels in [ChannelSet::HitCore, ChannelSet::All] {
        let (basis, events) = read(Path::new(folder), channels)?;
        println!(
            "\n{} points, {} channels, {} events",
            basis.positions().len(),
            basis.channels(),
            events.len()
        );
        table(&basis, &events, number(1, 9))?;
        agreement(&basis, number(2, 5000))?;
        workers(&basis, &events)?;
    }
    Ok(())
}

/// A segment's basis, and the events of both sets.
fn read(folder: &Path, channels: ChannelSet) -> Result<(SegmentBasis, SegmentEvents), Error> {
    let (mut basis, mut samples, mut energies) = (None, Vec::new(), Vec::new());
    for set in ["events0", "events1"] {
        let files = Files {
            basis: folder.join("seg14_basis_i16.npy"),
            positions: folder.join("seg14_pos_f32.npy"),
            events: folder.join(format!("seg14_{set}_keV_f32.npy")),
            energies: folder.join(format!("seg14_{set}_energy_keV_f64.npy")),
        };
        let input = Input::read(&files, Segment::from_index(14).expect("one of 36"), channels, None)?;
        for (event, &energy) in input.events.energies().iter().enumerate() {
            samples.extend(input.events.samples(event).iter().map(|v| (v * energy / 1000.0) as f32));
            energies.push(energy);
        }
        basis = Some(input.basis);
    }
    let basis = basis.expect("two sets");
    let events = SegmentEvents::new(basis.channels(), basis.samples(), &energies, &samples)?;
    Ok((basis, events))
}

/// The name of a way, and how it is gone.
fn plans() -> Vec<(&'static str, Plan)> {
    let full = Plan { method: Method::Full, ..Plan::default() };
    let screen = |by, keep| Plan { method: Method::Screen { by, keep }, ..Plan::default() };
    vec![
        ("fgs fp32 (polynomials, 3e-7)", full),
        ("fgs fp16, as pairs of f16", Plan { precision: Precision::Fp16, ..full }),
        ("fgs int16 samples", Plan { precision: Precision::Int16, ..full }),
        ("fgs bf16 samples", Plan { precision: Precision::Bf16, ..full }),
        ("fgs lut 2 MB, vectors", Plan { table: PowerTable::Whole, ..full }),
        ("fgs lut 16 KB, vectors", Plan { table: PowerTable::Log, ..full }),
        ("fgs p = 0.25", Plan { p: 0.25, ..full }),
        ("cfgs fp32", Plan { method: Method::CoarseFine { cells: 1 }, ..full }),
        ("cfgs fp32, 8 cells", Plan { method: Method::CoarseFine { cells: 8 }, ..full }),
        ("screen quarter, best 8", screen(Screen::Quarter, 8)),
        ("screen bits, best 8", screen(Screen::Bits, 8)),
        ("screen quarter int16, best 8", Plan { precision: Precision::Int16, ..screen(Screen::Quarter, 8) }),
        ("screen linear, best 64", screen(Screen::Linear, 64)),
        ("screen square, best 128", screen(Screen::Square, 128)),
        ("screen product, best 128", screen(Screen::Product, 128)),
        (
            "screen product int16, best 128",
            Plan { precision: Precision::Int16, ..screen(Screen::Product, 128) },
        ),
        ("exact (proven)", Plan { method: Method::Exact { cap: 1000 }, ..full }),
    ]
}

/// The scalar loops of production codes: a power from the C library, or a table of 2 MB at whole
/// thousandths.
fn scalar(basis: &SegmentBasis, events: &SegmentEvents, power: impl Fn(f32) -> f32) -> Vec<usize> {
    let best = |event: usize| {
        let v: Vec<f32> = events.samples(event).iter().map(|&v| v as f32).collect();
        let mut best = (f32::INFINITY, 0);
        for point in 0..basis.positions().len() {
            let terms = basis.point(point).iter().zip(&v);
            let fom: f32 = terms.map(|(b, v)| power((b * 1000.0 - v).abs())).sum();
            if fom < best.0 {
                best = (fom, point);
            }
        }
        best.1
    };
    (0..events.len()).map(best).collect()
}

fn same(found: &[usize], reference: &[usize]) -> f64 {
    let same = found.iter().zip(reference).filter(|(a, b)| a == b).count();
    100.0 * same as f64 / reference.len() as f64
}

fn indices(prepared: &Prepared, events: &SegmentEvents) -> Result<Vec<usize>, Error> {
    Ok(prepared.search(events, &[])?.into_iter().map(|found| found.index).collect())
}

fn table(basis: &SegmentBasis, events: &SegmentEvents, repeats: usize) -> Result<(), Error> {
    let double = Plan { method: Method::Full, precision: Precision::Fp64, ..Plan::default() };
    let reference = indices(&Prepared::new(&double, basis)?, events)?;
    let lut: Vec<f32> = (0..1 << 19).map(|i| (i as f32).powf(0.3)).collect();
    let look_up = |d: f32| lut[(d as usize).min(lut.len() - 1)];
    let ways: Vec<(&str, Prepared)> = plans()
        .into_iter()
        .map(|(name, plan)| Ok((name, Prepared::new(&plan, basis)?)))
        .collect::<Result<_, Error>>()?;
    let mut times = vec![Vec::new(); ways.len() + 2];
    let mut found = vec![Vec::new(); ways.len() + 2];
    for _ in 0..repeats {
        for (i, (_, way)) in ways.iter().enumerate() {
            let seconds = cpu_seconds(|| found[i] = indices(way, events).expect("events that fit"));
            times[i].push(seconds);
        }
    }
    // Slow, and no candidates: once in three is enough.
    for _ in 0..repeats.div_ceil(3) {
        let last = ways.len();
        times[last].push(cpu_seconds(|| found[last] = scalar(basis, events, |d| d.powf(0.3))));
        times[last + 1].push(cpu_seconds(|| found[last + 1] = scalar(basis, events, look_up)));
    }
    let names = ways
        .iter()
        .map(|(name, _)| *name)
        .chain(["scalar powf (the thesis' NOLUT)", "scalar lut 2 MB (the thesis' LUT)"]);
    let per_event = |times: &Vec<f64>| median(times.clone()) / events.len() as f64 * 1e6;
    let full = per_event(&times[0]);
    println!("{:34} {:>10} {:>10} {:>8} {:>8}", "way", "us/event", "events/s", "x fgs", "% same");
    for ((name, times), found) in names.zip(&times).zip(&found) {
        let us = per_event(times);
        let share = same(found, &reference);
        println!("{name:34} {us:10.1} {:10.0} {:8.2} {share:8.1}", 1e6 / us, full / us);
    }
    Ok(())
}

/// Prints how often screens agree with the full search in `f32`, and that with the one in `f64`, on
/// many events.
fn agreement(basis: &SegmentBasis, count: usize) -> Result<(), Error> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let noise = Normal::new(0.0, 2.5).expect("a deviation above 0");
    let (mut energies, mut samples) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let energy = 15.0 * (5000.0f64 / 15.0).powf(random.random_range(0.0..1.0));
        let point = basis.point(random.random_range(0..basis.positions().len()));
        samples.extend(point.iter().map(|&b| (f64::from(b) * energy + noise.sample(&mut random)) as f32));
        energies.push(energy);
    }
    let events = SegmentEvents::new(basis.channels(), basis.samples(), &energies, &samples)?;
    let full = Plan { method: Method::Full, ..Plan::default() };
    let exact = Plan { method: Method::Exact { cap: 1000 }, ..full };
    let double = indices(&Prepared::new(&exact, basis)?, &events)?;
    let single = indices(&Prepared::new(&full, basis)?, &events)?;
    println!("{count} made events: fgs fp32 is fgs fp64 in {:.2} %", same(&single, &double));
    for (name, plan) in plans().into_iter().filter(|(name, _)| name.starts_with("screen")) {
        let found = indices(&Prepared::new(&plan, basis)?, &events)?;
        println!("  {name}: fgs fp32 in {:.2} %", same(&found, &single));
    }
    Ok(())
}

/// Measures one worker and two, in turn: wall time of many batches.
fn workers(basis: &SegmentBasis, events: &SegmentEvents) -> Result<(), Error> {
    let plan = Plan { method: Method::Full, ..Plan::default() };
    let segment = Segment::from_index(14).expect("one of 36");
    let many = 20_000 / basis.channels() / events.len();
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let mut seconds = [0.0; 2];
        for (workers, seconds) in [1, 2].into_iter().zip(&mut seconds) {
            let rt = Runtime::builder().workers(workers).build()?;
            let batching = Batching { size: 64, patience: Duration::from_secs(60) };
            let mut searcher = Searcher::new(&rt, &plan, batching);
            searcher.host(segment, basis)?;
            let begin = Instant::now();
            for number in 0..many * events.len() {
                let event = number % events.len();
                let hit = Hit { ticket: number, segment, energy: 500.0, coarse_only: false };
                searcher.push(hit, events.samples(event), begin)?;
            }
            searcher.finish()?;
            *seconds = begin.elapsed().as_secs_f64();
        }
        ratios.push(seconds[0] / seconds[1]);
    }
    println!("two workers beside one: x {:.2} (median of {ratios:.2?})", median(ratios.clone()));
    Ok(())
}
