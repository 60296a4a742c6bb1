//! Simulation of a basis: the signals of the points of a lattice.

mod cylindrical;

use std::sync::Arc;

use zellige_runtime::{Runtime, Submit, write};

use crate::Error;
use crate::basis::{Basis, Sampling};
use crate::body::{Body, Vec3};
use crate::channels::{CHANNELS, Channel, Segment};
use crate::crystal::Crystal;
use crate::detector::Detector;
use crate::error::memory_plan;
use crate::observe::Observer;
pub use cylindrical::Cylindrical;

/// Returns the points of a crystal at odd multiples of half a step along each axis (mm), in the
/// order of z, y, x.
///
/// # Errors
/// [`Error::Parameter`] for a step that is not positive, or makes more than ten million points.
pub fn lattice(crystal: &Crystal, step: f64) -> Result<Vec<Vec3>, Error> {
    let bounds = crystal.bounds();
    let ends = bounds.map(|[from, to]| [(from / step - 0.5).ceil(), (to / step - 0.5).floor()]);
    let count: f64 = ends.iter().map(|[from, to]| (to - from + 1.0).max(0.0)).product();
    // NaN fails the comparison.
    if !(step > 0.0 && (1.0..=1e7).contains(&count)) {
        let problem = format!("{step} mm gives {count} points: take a distance that gives 1 to 10 million");
        return Err(Error::Parameter { name: "basis step", problem });
    }
    let along = |axis: usize| {
        let [from, to] = ends[axis];
        (from as i64..=to as i64).map(move |i| (i as f64 + 0.5) * step)
    };
    let points = along(2).flat_map(|z| along(1).flat_map(move |y| along(0).map(move |x| [x, y, z])));
    Ok(points.filter(|&point| crystal.contains(point)).collect())
}

/// Number of points of one task.
const BLOCK: usize = 128;

/// Simulates the signals of points (mm) of a crystal; each task simulates a block of points. Each
/// point belongs to the segment that collects its charge.
///
/// # Errors
/// [`Error::Parameter`] for a sampling without samples or with a step that is not positive; errors
/// of tasks.
pub fn basis(
    rt: &Runtime,
    detector: &Arc<Detector>,
    points: &[Vec3],
    sampling: Sampling,
    observer: &dyn Observer,
) -> Result<Basis, Error> {
    if sampling.samples == 0 || !(sampling.step > 0.0 && sampling.step.is_finite()) {
        let problem = format!("{sampling:?}: take samples, and a time above 0 between them");
        return Err(Error::Parameter { name: "sampling", problem });
    }
    let length = CHANNELS * sampling.samples;
    let mut plan = memory_plan();
    // Signals exist twice: in the blocks and gathered.
    plan.add(format!("signals of {} points", points.len()), 2 * 4 * (points.len() * length) as u64);
    plan.check("take fewer samples (--samples) or a larger distance of the points (--step)")?;
    observer.stage("signals", points.len() as u64);
    let mut tasks = Vec::new();
    for block in points.chunks(BLOCK) {
        let (detector, points) = (Arc::clone(detector), block.to_vec());
        let (values, losses) = (rt.register_empty::<Vec<f32>>(), rt.register_empty::<Vec<[f32; 2]>>());
        rt.task("signals")
            .operands((write(&values), write(&losses)))
            .cpu(move |(mut values, mut losses)| {
                let mut signals = vec![0.0; points.len() * length];
                let mut sensitivities = Vec::with_capacity(points.len());
                for (&point, samples) in points.iter().zip(signals.chunks_mut(length)) {
                    let pulse = detector.pulse(point);
                    detector.add(&pulse, 1.0, 0.0, sampling, samples);
                    sensitivities.push(detector.sensitivities(&pulse));
                }
                values.put(signals);
                losses.put(sensitivities);
            })
            .submit()?;
        tasks.push((values, losses));
    }
    let mut values = Vec::with_capacity(points.len() * length);
    let mut sensitivities = Vec::with_capacity(points.len());
    for (task, losses) in tasks {
        values.extend(rt.take(task)?);
        sensitivities.extend(rt.take(losses)?);
        observer.advance((values.len() / length) as u64);
    }
    let end = |signals: &[f32], segment: Segment| signals[(segment.index() + 1) * sampling.samples - 1];
    let collects = |signals: &[f32]| Segment::with_largest(|segment| end(signals, segment));
    let segments = values.chunks(length).map(collects).collect();
    let positions = points.iter().map(|point| point.map(|at| at as f32)).collect();
    Basis::new(sampling, positions, segments, values)?.with_sensitivities(sensitivities)
}

/// Returns the points whose charge is not settled at the end of their signals. The charge of their
/// segment or of the core differs from the whole charge by more than `tolerance`, or that of
/// another segment differs from 0.
pub fn unsettled(basis: &Basis, tolerance: f32) -> Vec<usize> {
    let is_settled = |point: usize| {
        Channel::all().all(|channel| {
            let collects = channel == Channel::CORE || channel == Channel::from(basis.segments()[point]);
            let end = basis.signal(point, channel).last().copied().unwrap_or(0.0);
            (end - f32::from(u8::from(collects))).abs() <= tolerance
        })
    };
    (0..basis.positions().len()).filter(|&point| !is_settled(point)).collect()
}
