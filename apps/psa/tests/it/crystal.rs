//! Properties of every crystal: sums, symmetry, counts, and identical results on any number of
//! workers.

use crate::common;
use std::sync::Arc;
use std::time::Instant;

use crate::common::{detector, example, fields, runtime, small};
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::body::{Body, Vec3};
use zellige_psa::channels::{CHANNELS, Channel, SEGMENTS, Segment};
use zellige_psa::crystal::Crystal;
use zellige_psa::detector::Detector;
use zellige_psa::drift::Trapping;
use zellige_psa::events::{self, Energies, Spec, Within};
use zellige_psa::observe::Silent;
use zellige_psa::params::read_crystal;
use zellige_psa::search::{Batching, Event, EventPipeline, Plan, Rules};
use zellige_psa::simulate::{basis, lattice, unsettled};
use zellige_tests::data;

/// Reads the first configuration of greta_siggen, with the files that it names.
#[test]
fn a_crystal_of_greta_is_read() {
    let Some(file) = data("psa/greta/A1.config") else { return };
    let crystal = read_crystal(&file).expect("a crystal");
    assert_eq!(
        (crystal.length, crystal.radius, crystal.bore_radius, crystal.bore_start),
        (90.0, 40.0, 6.0, 12.0)
    );
    assert_eq!((crystal.rings, crystal.bias), ([8.0, 14.0, 16.0, 17.0, 21.0, 14.0], 5000.0));
    assert!((crystal.impurity[1] - (1.26 - 0.091 * 9.0)).abs() < 1e-12);
    let table = crystal.drift.as_ref().expect("drift speeds");
    assert_eq!((table.field.len(), table.electrons_111[9], table.holes_100[10]), (20, 0.078, 0.089));
    // The crystals of GRETA and AGATA have 370 cm3.
    let volume = lattice(&crystal, 2.0).expect("points").len() as f64 * 0.008;
    assert!((340.0..400.0).contains(&volume), "{volume} cm3");
}

const SAMPLING: Sampling = Sampling { samples: 60, step: 10.0, before: 2 };

fn small_basis(workers: usize, detector: &Arc<Detector>) -> Basis {
    let points = lattice(detector.crystal(), 2.0).expect("points");
    basis(&runtime(workers), detector, &points, SAMPLING, &Silent).expect("a basis")
}

#[test]
fn weighting_potentials_add_up_to_one_everywhere() {
    let crystal = small();
    let fields = fields(&crystal, 0.8);
    assert!(fields.worst_sum(&crystal) < 2e-5, "{}", fields.worst_sum(&crystal));
    // The sum also holds between the last nodes and the contacts.
    for point in lattice(&crystal, 0.9).expect("points") {
        let mut seen = [0.0; CHANNELS];
        fields.weighting_at(point, &mut seen);
        let sum: f32 = seen.iter().sum();
        assert!((sum - 1.0).abs() < 2e-5, "{point:?}: {sum}");
    }
}

#[test]
fn segments_together_show_what_the_core_shows_and_every_charge_settles() {
    let detector = detector(&small(), 1.0);
    let basis = small_basis(1, &detector);
    let samples = SAMPLING.samples;
    for point in 0..basis.positions().len() {
        for sample in 0..samples {
            let at = |channel: usize| {
                basis.signal(point, Channel::from_index(channel).expect("a channel"))[sample]
            };
            let sum: f32 = (0..SEGMENTS).map(at).sum();
            assert!((sum - at(36)).abs() < 2e-4, "point {point} sample {sample}: {sum} {}", at(36));
        }
    }
    assert_eq!(unsettled(&basis, 0.01), Vec::<usize>::new());
    // Signals that end in the middle of the drift are detected.
    let points = lattice(detector.crystal(), 4.0).expect("points");
    let short = Sampling { samples: 6, ..SAMPLING };
    let cut = zellige_psa::simulate::basis(&runtime(1), &detector, &points, short, &Silent).expect("a basis");
    assert!(unsettled(&cut, 0.01).len() > points.len() / 2);
}

/// Acceptors and a negative core: electrons drift to the segments, and signals are positive again.
#[test]
fn p_type_crystals_have_signals_of_the_same_sign() {
    let n_type = common::coaxial(3.0, 12.0);
    let p_type = Crystal { bias: -n_type.bias, impurity: n_type.impurity.map(|n| -n), ..n_type };
    let detector = detector(&p_type, 1.0);
    let points: Vec<Vec3> = vec![[6.0, 1.0, 1.2], [-4.0, 5.0, 2.0]];
    let basis = basis(&runtime(1), &detector, &points, SAMPLING, &Silent).expect("a basis");
    assert_eq!(unsettled(&basis, 0.01), Vec::<usize>::new());
    for sampling in [Sampling { samples: 0, ..SAMPLING }, Sampling { step: f64::NAN, ..SAMPLING }] {
        assert!(zellige_psa::simulate::basis(&runtime(1), &detector, &points, sampling, &Silent).is_err());
    }
}

/// Returns the largest difference between the charges of a point and those of its image, with
/// sectors renumbered.
fn asymmetry(
    detector: &Detector,
    points: &[Vec3],
    image: impl Fn(Vec3) -> Vec3,
    sector: impl Fn(usize) -> usize,
) -> f32 {
    let mut worst = 0.0f32;
    for &point in points {
        let (one, other) = (detector.pulse(point), detector.pulse(image(point)));
        for time in 0..one.times().min(other.times()) {
            for channel in 0..CHANNELS {
                let imaged = match Segment::from_index(channel) {
                    Some(s) => Segment::new(sector(s.sector()), s.ring()).expect("a segment").index(),
                    None => channel,
                };
                let pair = [one.charges[time * CHANNELS + channel], other.charges[time * CHANNELS + imaged]];
                worst = worst.max((pair[0] - pair[1]).abs());
            }
        }
    }
    worst
}

/// A regular hexagon is invariant under a half turn and a reflection.
#[test]
fn a_symmetric_crystal_has_symmetric_signals() {
    let corner = |k: usize, radius: f64| {
        let angle = (60.0 * k as f64).to_radians();
        [radius * angle.cos(), radius * angle.sin()]
    };
    let face = |radius| std::array::from_fn(|k| corner(k, radius));
    let crystal = Crystal { corners: Some([face(11.0), face(15.5)]), ..small() };
    let detector = detector(&crystal, 1.0);
    let points = lattice(&crystal, 5.0).expect("points");
    assert!(points.len() > 40);
    let turned = asymmetry(&detector, &points, |[x, y, z]| [-x, -y, z], |sector| (sector + 3) % 6);
    let mirrored = asymmetry(&detector, &points, |[x, y, z]| [x, -y, z], |sector| (6 - sector) % 6);
    println!("charges differ by {turned:.1e} in a half turn, by {mirrored:.1e} in a mirror");
    assert!(turned < 1e-5, "{turned}");
    assert!(mirrored < 1e-5, "{mirrored}");
}

/// A simulation by others has 47 590 points at 2 mm, 714 to 1999 in a segment; a thesis has 47 292,
/// 700 to 2000.
#[test]
fn segments_have_the_points_that_others_count() {
    let crystal = example();
    let points = lattice(&crystal, 2.0).expect("points");
    assert!((points.len() as f64 / 47_590.0 - 1.0).abs() < 1e-3, "{}", points.len());
    // Every fifth point, on coarse fields, is assigned to the segment that collects it.
    let detector = detector(&crystal, 2.0);
    let mut counts = [0.0; SEGMENTS];
    for &point in points.iter().step_by(5) {
        counts[detector.collects(&detector.pulse(point)).index()] += 5.0;
    }
    let (least, most) = counts.iter().fold((f64::MAX, 0.0f64), |(low, high), &n| (low.min(n), high.max(n)));
    println!("points by segment, from every fifth: {counts:?}, {least} to {most}");
    assert!((counts[0] / 867.0 - 1.0).abs() < 0.1 && (counts[14] / 1157.0 - 1.0).abs() < 0.1);
    assert!((least / 714.0 - 1.0).abs() < 0.1 && (most / 1999.0 - 1.0).abs() < 0.05);
}

#[test]
fn signals_and_events_have_the_same_bits_on_any_number_of_workers() {
    let crystal = small();
    let fields = |workers| {
        Arc::new(zellige_psa::detector::fields(&runtime(workers), &crystal, 1.5, &Silent).expect("fields"))
    };
    let (one, three) = (fields(1), fields(3));
    assert_eq!(one, three);
    let detector = Arc::new(Detector::new(&crystal, one, Default::default(), 1.04).expect("a detector"));
    assert_eq!(small_basis(1, &detector).values(), small_basis(3, &detector).values());
    let spec = Spec { count: 70, hits: 2, within: Within::Segment, jitter: 3.0, ..Spec::default() };
    let simulate =
        |workers, spec: &Spec| events::simulate(&runtime(workers), &detector, spec, &Silent).expect("events");
    let events = simulate(1, &spec);
    assert_eq!(events, simulate(3, &spec));
    let fewer = simulate(2, &Spec { count: 20, ..spec.clone() });
    assert_eq!(fewer.signals, events.signals[..fewer.signals.len()]);
    assert_ne!(fewer.signals, simulate(2, &Spec { count: 20, seed: 2, ..spec }).signals);
}

#[test]
fn events_say_the_truth_about_themselves() {
    let detector = detector(&small(), 1.0);
    let quiet =
        Spec { count: 40, hits: 3, noise: 0.0, adc_step: 0.0, within: Within::Segments, ..Spec::default() };
    let events = events::simulate(&runtime(2), &detector, &quiet, &Silent).expect("events");
    for event in 0..events.count() {
        let hits = event * 3..event * 3 + 3;
        let end = |channel: usize| {
            f64::from(events.signals[(event * CHANNELS + channel + 1) * SAMPLING.samples - 1])
        };
        let energy: f64 = events.energies[hits.clone()].iter().sum();
        assert!((15.0..=5000.0).contains(&energy));
        assert!((end(36) / energy - 1.0).abs() < 0.01, "event {event}: {} {energy}", end(36));
        for hit in hits {
            let segment = events.segments[hit].index();
            assert!((end(segment) / events.energies[hit] - 1.0).abs() < 0.02, "event {event}");
            assert!(detector.crystal().contains(events.positions[hit].map(f64::from)));
        }
    }
    assert!(events.timestamps.is_sorted());
    let same = Spec { within: Within::Segment, ..quiet };
    let events = events::simulate(&runtime(2), &detector, &same, &Silent).expect("events");
    assert!(events.segments.chunks(3).all(|hits| hits.iter().all(|segment| *segment == hits[0])));
}

/// In a crystal that traps holes a spectral line is wide and low; the correction of energies at the
/// positions found restores it.
#[test]
fn what_is_caught_on_the_way_is_given_back() {
    let whole = detector(&small(), 1.0);
    let basis = small_basis(2, &whole);
    let trapping = Trapping { holes: 600.0, electrons: 4000.0 };
    let caught = Arc::new(Detector::clone(&whole).with_trapping(trapping).expect("ways that are long"));
    let spec = Spec { count: 150, energies: Energies::Line(1000.0), noise: 0.5, ..Spec::default() };
    let events = events::simulate(&runtime(2), &caught, &spec, &Silent).expect("events");
    let energies = |trapping| {
        let (rt, rules) = (runtime(2), Rules { trapping, ..Rules::DEFAULT });
        let mut pipeline =
            EventPipeline::new(&rt, &Plan::DEFAULT, Batching::default(), &basis, rules).expect("a pipeline");
        let (now, mut answers) = (Instant::now(), Vec::new());
        for signals in events.signals.chunks(CHANNELS * SAMPLING.samples) {
            let event = Event { timestamp: 0, hit: None, signals: signals.to_vec(), saturated: Vec::new() };
            pipeline.push(event, now).expect("an event");
        }
        pipeline.finish(now, &mut answers).expect("answers");
        let mut energies: Vec<f64> = answers.iter().map(|answer| answer.hits[0].energy).collect();
        energies.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| energies[(share * energies.len() as f64) as usize];
        (at(0.5), at(0.9) - at(0.1))
    };
    let (seen, corrected) = (energies(None), energies(Some(trapping)));
    println!("a line of 1000 keV: middle and width from 10 to 90 % {seen:?}, corrected {corrected:?}");
    assert!(seen.0 < 999.0 && (corrected.0 - 1000.0).abs() < 1.0, "{seen:?} {corrected:?}");
    assert!(corrected.1 < 0.3 * seen.1, "{seen:?} {corrected:?}");
    // A basis without sensitivities is refused.
    let old =
        Basis::new(SAMPLING, basis.positions().to_vec(), basis.segments().to_vec(), basis.values().to_vec());
    let (rt, old, rules) =
        (runtime(1), old.expect("a basis"), Rules { trapping: Some(trapping), ..Rules::DEFAULT });
    let refused = EventPipeline::new(&rt, &Plan::DEFAULT, Batching::default(), &old, rules).map(drop);
    assert!(refused.is_err_and(|error| error.to_string().contains("simulate it again")));
    // A basis with impossible sensitivities is refused, too.
    let points = basis.positions().len();
    let odd = basis.clone().with_sensitivities(vec![[0.0, 900.0]; points]).expect("one for each");
    let rules = Rules { trapping: Some(trapping), ..Rules::DEFAULT };
    let refused = EventPipeline::new(&rt, &Plan::DEFAULT, Batching::default(), &odd, rules).map(drop);
    assert!(refused.is_err_and(|error| error.to_string().contains("would lose 150 %")));
}
