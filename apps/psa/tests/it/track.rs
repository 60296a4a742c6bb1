//! Tests of tracking against known results: analytic moments, an exhaustive search of orders, gamma
//! rays with known truth.

use std::path::Path;
use std::sync::Arc;

use crate::common::{example, runtime};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use zellige_psa::array::Array;
use zellige_psa::body::Vec3;
use zellige_psa::events::Energies;
use zellige_psa::observe::Silent;
use zellige_psa::params::{parse_array, read_array};
use zellige_psa::pipeline::hits;
use zellige_psa::pipeline::results::Results;
use zellige_psa::track::germanium::{Attenuation, scattered};
use zellige_psa::track::hits::Spectra;
use zellige_psa::track::montecarlo::{EmissionSpec, Target, scatter};
use zellige_psa::track::order::best_order;
use zellige_psa::track::survey::{Counting, survey};
use zellige_psa::track::{Kind, Motion, Point, Settings, track, track_all};
use zellige_tests::data;

/// Energy of an electron at rest (keV).
const ELECTRON: f64 = 510.999;

/// Returns mean and mean square of the cosine and the mean energy after scattering, by Simpson's
/// rule on the formula of Klein and Nishina.
fn moments(energy: f64) -> [f64; 3] {
    let (steps, mut sums) = (20_000, [0.0; 4]);
    for k in 0..=steps {
        let cosine = -1.0 + 2.0 * k as f64 / steps as f64;
        let ratio = 1.0 / (1.0 + energy / ELECTRON * (1.0 - cosine));
        let weight = if k == 0 || k == steps { 1.0 } else { f64::from(2 + 2 * (k % 2) as u8) };
        let density = weight * ratio * ratio * (ratio + 1.0 / ratio - 1.0 + cosine * cosine);
        for (sum, value) in sums.iter_mut().zip([1.0, cosine, cosine * cosine, ratio * energy]) {
            *sum += density * value;
        }
    }
    [1, 2, 3].map(|k| sums[k] / sums[0])
}

#[test]
fn scattering_follows_klein_and_nishina() {
    const COUNT: usize = 200_000;
    for energy in [20.0, 150.0, 511.0, 1332.0, 8000.0] {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let (mut sums, mut squares) = ([0.0; 3], [0.0; 3]);
        for _ in 0..COUNT {
            let (cosine, left) = scatter(energy, &mut random);
            // Compton's formula: wavelengths differ by (1 - cos) / m.
            assert!((1.0 / left - 1.0 / energy - (1.0 - cosine) / ELECTRON).abs() < 1e-5 / energy);
            for (k, value) in [cosine, cosine * cosine, left].into_iter().enumerate() {
                sums[k] += value;
                squares[k] += value * value;
            }
        }
        for (k, expected) in moments(energy).into_iter().enumerate() {
            let mean = sums[k] / COUNT as f64;
            let error = ((squares[k] / COUNT as f64 - mean * mean) / COUNT as f64).sqrt();
            assert!(
                (mean - expected).abs() < 4.0 * error,
                "{energy} keV, moment {k}: {mean} beside {expected}"
            );
        }
    }
}

fn shell(energies: Energies, multiplicity: usize) -> EmissionSpec {
    EmissionSpec {
        seed: 1,
        multiplicity,
        energies,
        source: [0.0; 3],
        motion: Motion::default(),
        target: Target::shell(235.0, 325.0).expect("a shell"),
        smearing: 0.0,
        energy_width: 0.0,
    }
}

/// Returns settings for points without errors.
fn sharp() -> Settings {
    Settings {
        packing: 0.0,
        threshold: 0.0,
        resolution: 0.5,
        energy_error: 0.1,
        most_points: 10,
        ..Settings::default()
    }
}

/// The depths of first interactions in a thick shell have the mean free path as their mean, and the
/// kinds of interactions occur in proportion to the cross sections.
#[test]
fn free_paths_follow_the_cross_sections() {
    let spec = EmissionSpec {
        target: Target::shell(100.0, 5000.0).expect("a shell"),
        ..shell(Energies::Line(3000.0), 1)
    };
    let attenuation = Attenuation::at(3000.0);
    let (mut depth, mut pairs) = (0.0, 0.0);
    const COUNT: u64 = 20_000;
    for number in 0..COUNT {
        let event = spec.event(number);
        let first = event.interactions[0];
        depth += first.place.iter().map(|x| x * x).sum::<f64>().sqrt() - 100.0;
        pairs += f64::from(u8::from((first.energy - 3000.0 + 2.0 * ELECTRON).abs() < 0.01));
        assert!(event.gammas[0].absorbed, "nothing leaves 5 m");
        let sum: f64 = event.interactions.iter().map(|at| at.energy).sum();
        assert!((sum - 3000.0).abs() < 1e-6, "{sum}");
    }
    let (count, mean) = (COUNT as f64, 1.0 / attenuation.total());
    assert!((depth / count - mean).abs() < 4.0 * mean / count.sqrt(), "{} beside {mean}", depth / count);
    // XCOM at 3 MeV: 0.5391 barn of 4.241.
    let share: f64 = 0.539_1 / 4.241_2;
    let error = (share * (1.0 - share) / count).sqrt();
    assert!((pairs / count - share).abs() < 4.0 * error, "{} beside {share}", pairs / count);
}

/// At least 95 % of the single, completely absorbed gamma rays are reconstructed with the right
/// energy.
#[test]
fn whole_gamma_rays_come_back() {
    for energies in [Energies::Line(1000.0), Energies::LogUniform { from: 300.0, to: 3000.0 }] {
        let (spec, settings) = (shell(energies, 1), sharp());
        let (mut whole, mut back) = (0, 0);
        for number in 0..3000 {
            let event = spec.event(number);
            if !event.gammas[0].absorbed {
                continue;
            }
            whole += 1;
            let gammas = track(&event.points, &settings).gammas;
            back += u32::from(gammas.len() == 1 && (gammas[0].energy - event.gammas[0].energy).abs() < 1e-6);
        }
        let share = 100.0 * f64::from(back) / f64::from(whole);
        eprintln!("{energies}: {back} of {whole} come back, {share:.1} %");
        assert!(whole > 1000 && share >= 95.0, "{energies}: {share}");
    }
}

/// Without errors the best order is the true one.
#[test]
fn orders_are_those_of_the_truth() {
    let (spec, settings) = (shell(Energies::Line(1000.0), 1), sharp());
    let (mut all, mut right) = (0, 0);
    for number in 0..2000 {
        let event = spec.event(number);
        if event.gammas[0].absorbed && (3..=6).contains(&event.points.len()) {
            // The order of the list is reversed, so that the search cannot profit from the true
            // order.
            let reversed: Vec<Point> = event.points.iter().rev().copied().collect();
            let order = best_order(&reversed, &settings).map(|order| order.points).unwrap_or_default();
            all += 1;
            right += u32::from(order == (0..reversed.len()).rev().collect::<Vec<_>>());
        }
    }
    let share = 100.0 * f64::from(right) / f64::from(all);
    eprintln!("{right} of {all} orders are right, {share:.1} %");
    assert!(all > 300 && share > 97.0, "{share}");
}

/// Pairs with two absorbed photons are classified as pairs, with all their energy and the position
/// of the pair.
#[test]
fn pairs_come_back_as_pairs() {
    let (spec, settings) = (shell(Energies::Line(3000.0), 1), sharp());
    let (mut pairs, mut back) = (0, 0);
    for number in 0..3000 {
        let event = spec.event(number);
        let Some(first) = event.interactions.first() else { continue };
        let is_pair = (first.energy - (3000.0 - 2.0 * ELECTRON)).abs() < 0.01;
        if !event.gammas[0].absorbed || !is_pair || event.points.len() > settings.most_points {
            continue;
        }
        pairs += 1;
        let gammas = track(&event.points, &settings).gammas;
        back +=
            u32::from(gammas.len() == 1 && gammas[0].kind == Kind::Pair && gammas[0].first == first.place);
    }
    eprintln!("{back} of {pairs} pairs come back");
    assert!(pairs > 100 && f64::from(back) > 0.97 * f64::from(pairs), "{back} of {pairs}");
}

/// Returns the figure of merit of an order, written from the formulas and not from the code.
fn figure(points: &[Point], order: &[usize], settings: &Settings) -> f64 {
    let place = |k: usize| if k == 0 { settings.source } else { points[order[k - 1]].place };
    let variance = |k: usize| match k {
        0 => 0.0,
        k => (settings.resolution / 2.354_82).powi(2) * 100.0 / points[order[k - 1]].energy,
    };
    let way = |a: Vec3, b: Vec3| [0, 1, 2].map(|x| b[x] - a[x]);
    let norm = |a: Vec3| (a[0] * a[0] + a[1] * a[1] + a[2] * a[2]).sqrt();
    let m = order.len();
    let mut product = 1.0;
    for k in 1..=m {
        let arrives: f64 = order[k - 1..].iter().map(|&at| points[at].energy).sum();
        let mu = Attenuation::at(arrives);
        let distance = norm(way(place(k - 1), place(k)));
        product *= if k == m { mu.photo } else { mu.compton } / mu.total() * (-mu.total() * distance).exp();
        if k == m {
            break;
        }
        let (u, v) = (way(place(k - 1), place(k)), way(place(k), place(k + 1)));
        let (a, b) = (norm(u), norm(v));
        let cosine = ((u[0] * v[0] + u[1] * v[1] + u[2] * v[2]) / (a * b)).clamp(-1.0, 1.0);
        let angle = (variance(k - 1) / a.powi(2)
            + variance(k + 1) / b.powi(2)
            + variance(k) * (1.0 / a.powi(2) + 1.0 / b.powi(2) + 2.0 * cosine / (a * b)))
            .min(1.0);
        let after = arrives - points[order[k - 1]].energy;
        let expected = scattered(arrives, cosine);
        let place =
            (expected.powi(2) / ELECTRON).powi(2) * (angle * (1.0 - cosine.powi(2)) + angle.powi(2) / 2.0);
        let slope = (expected / arrives).powi(2);
        let energy = settings.energy_error.powi(2) * ((m - k) as f64 * (1.0 - slope).powi(2) + slope.powi(2));
        let factor =
            (-(if k == 1 { 2.0 } else { 1.0 }) * (after - expected).powi(2) / (place + energy)).exp();
        product *= if factor < settings.cut { 0.0 } else { factor };
    }
    product
}

fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let insert = |order: Vec<usize>| {
        (0..count).map(move |at| {
            let mut order = order.clone();
            order.insert(at, count - 1);
            order
        })
    };
    orders(count - 1).into_iter().flat_map(insert).collect()
}

proptest! {
    #![proptest_config(zellige_tests::cases(64))]

    /// The search with pruning finds the same order as an exhaustive search.
    #[test]
    fn the_search_finds_the_best_of_all_orders(
        count in 1usize..6,
        numbers in prop::collection::vec((-30.0f64..30.0, -30.0f64..30.0, -30.0f64..30.0, 20.0f64..600.0), 6),
        resolution in 5.0f64..40.0,
    ) {
        let settings = Settings { resolution, inner_radius: 0.0, source: [0.0, 0.0, -50.0], ..Settings::default() };
        let point = |&(x, y, z, energy): &(f64, f64, f64, f64)| Point { place: [x, y, z], energy };
        let points: Vec<Point> = numbers[..count].iter().map(point).collect();
        let all = orders(count).into_iter().map(|order| figure(&points, &order, &settings));
        let best = all.fold(0.0, f64::max);
        match best_order(&points, &settings) {
            None => prop_assert_eq!(best, 0.0),
            Some(found) => {
                prop_assert!((found.product / best - 1.0).abs() < 1e-4, "{} beside {}", found.product, best);
                let same = figure(&points, &found.points, &settings);
                prop_assert!((same / best - 1.0).abs() < 1e-9);
            }
        }
    }

    /// Arbitrary points give gamma rays that share no point.
    #[test]
    fn no_point_is_used_twice(
        numbers in prop::collection::vec((-30.0f64..30.0, -30.0f64..30.0, 200.0f64..300.0, 0.0f64..2000.0), 0..25),
    ) {
        let point = |&(x, y, z, energy): &(f64, f64, f64, f64)| Point { place: [x, y, z], energy };
        let points: Vec<Point> = numbers.iter().map(point).collect();
        let tracked = track(&points, &Settings::default());
        let mut used: Vec<usize> = tracked.gammas.iter().flat_map(|gamma| gamma.points.clone()).collect();
        used.sort_unstable();
        let count = used.len();
        used.dedup();
        prop_assert_eq!(used.len(), count);
        for gamma in &tracked.gammas {
            let sum: f64 = gamma.points.iter().map(|&at| tracked.points[at].energy).sum();
            prop_assert!((gamma.energy - sum).abs() < 1e-9 && (0.0..=1.0).contains(&gamma.figure));
        }
    }
}

/// A source at a third of the speed of light: the corrected energies are the emitted ones.
#[test]
fn the_energy_of_a_moving_source_comes_back() {
    let motion = Motion { beta: 0.33, axis: [0.0, 2.0, 1.0] };
    let spec = EmissionSpec { motion, ..shell(Energies::Line(1000.0), 1) };
    let settings = Settings { motion, ..sharp() };
    let (mut least, mut most, mut count) = (f64::INFINITY, 0.0f64, 0);
    for number in 0..400 {
        let event = spec.event(number);
        let emitted = event.gammas[0];
        (least, most) = (least.min(emitted.seen), most.max(emitted.seen));
        let gammas = track(&event.points, &settings).gammas;
        if emitted.absorbed && gammas.len() == 1 && (gammas[0].energy - emitted.seen).abs() < 1e-6 {
            // A wrong order gives a wrong angle; most orders are right.
            count += u32::from((gammas[0].corrected - 1000.0).abs() < 1e-6);
        }
    }
    // The ratio sqrt((1 + beta) / (1 - beta)) is 1.409 straight ahead, and 1 / 1.409 backwards.
    assert!(most > 1380.0 && most <= 1409.1 && (709.7..730.0).contains(&least), "{least} to {most}");
    assert!(count > 100, "{count}");
}

#[test]
fn peak_to_total_falls_with_multiplicity() {
    let spec = EmissionSpec { smearing: 5.0, energy_width: 2.0, ..shell(Energies::Line(1000.0), 1) };
    let counting = Counting { events: 300, window: 5.0, step: 1.0, most: 2000.0 };
    let settings = Settings::default();
    let tallies = |workers| survey(&runtime(workers), &spec, &settings, &[1, 5, 20], &counting, &Silent);
    let one = tallies(1).expect("a survey");
    for tally in &one {
        let (p, e) = (tally.peak_to_total(), tally.efficiency());
        eprintln!("{} gamma rays: peak to total {p:.3}, efficiency {e:.3}", tally.multiplicity);
        assert!(e <= tally.absorbed_share() + 0.02);
        assert_eq!(tally.tracked, tally.energies.total());
        assert_eq!(tally.emitted, 300 * tally.multiplicity as u64);
    }
    assert!(one.windows(2).all(|pair| pair[0].peak_to_total() > pair[1].peak_to_total()));
    assert!(one.windows(2).all(|pair| pair[0].efficiency() > pair[1].efficiency()));
    assert_eq!(one, tallies(3).expect("a survey"));
}

#[test]
fn events_are_the_same_for_any_number_of_workers() {
    let spec = EmissionSpec { smearing: 5.0, ..shell(Energies::LogUniform { from: 100.0, to: 3000.0 }, 4) };
    let events: Arc<Vec<_>> = Arc::new((0..150).map(|number| spec.event(number).points).collect());
    let tracked = |workers| track_all(&runtime(workers), &events, &Settings::default(), &Silent);
    let one = tracked(1).expect("tracked");
    assert_eq!(one.len(), 150);
    assert_eq!(one, tracked(3).expect("tracked"));
    assert_eq!(one[3], track(&events[3], &Settings::default()));
    let wrong = Settings { accept: f64::NAN, ..Settings::default() };
    assert!(track_all(&runtime(1), &events, &wrong, &Silent).is_err());
}

#[test]
fn crystals_of_an_array_hold_the_points() {
    let array = Array::sphere(60, 235.0).expect("an array");
    let crystal = example();
    let spec = EmissionSpec { target: Target::crystals(&array, &crystal), ..shell(Energies::Line(500.0), 1) };
    let (mut inside, mut touched) = (0, 0);
    for number in 0..300 {
        let event = spec.event(number);
        touched += u32::from(!event.points.is_empty());
        for at in &event.interactions {
            let holds = |place: &zellige_psa::array::Placement| {
                zellige_psa::body::Body::contains(&crystal, place.back(at.place))
            };
            assert!(array.crystals().any(|(_, place)| holds(place)));
            inside += 1;
        }
    }
    // 60 fronts of about 3000 mm2 on a sphere of 694 000 mm2 cover a quarter of all directions, and
    // most gamma rays there interact.
    assert!((45..105).contains(&touched) && inside > touched, "{touched}");
}

/// Compares angles of clusters, and of crystals in a cluster, with a table of the same crystals
/// from another program.
#[test]
fn clusters_place_their_crystals_as_a_table_says() {
    let read = |name: &str| {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"));
        read_array(&folder.join(name)).expect("an array")
    };
    let (all, table) = (read("clusters.txt").of_clusters(&read("cluster.txt")), read("table.txt"));
    assert_eq!((all.crystals().count(), table.crystals().count()), (36, 36));
    for (number, _) in table.crystals() {
        for point in [[0.0; 3], [30.0, 0.0, 0.0], [0.0, 30.0, 90.0]] {
            let (a, b) = (all.place(number, point), table.place(number, point));
            let (a, b) = (a.expect("a crystal"), b.expect("a crystal"));
            // The table has six digits.
            assert!((0..3).all(|x| (a[x] - b[x]).abs() < 2e-4), "{number}: {a:?} beside {b:?}");
        }
    }
}

/// Compares AGATA's angles of clusters, and of crystals in a cluster, with its table of crystals.
/// All files are from others.
#[test]
fn agata_places_its_crystals_as_its_table_says() {
    let (Some(angles), Some(table)) =
        (data("psa/agata/aeuler"), data("psa/agata/CrystalPositionLookUpTable-A180-1P"))
    else {
        return;
    };
    const CLUSTER: &str = "\
        0 0 0 -179.728796 9.424198   -2.941715  34.927900  -1.628323 -44.096715\n\
        0 1 1  177.231534 9.424198  115.416685 -13.861478  32.994962 -44.227057\n\
        0 2 2 -178.705246 9.424198 -120.418975 -17.286848 -30.890029 -44.167278\n";
    let cluster = parse_array(Path::new("cluster"), CLUSTER).expect("a cluster");
    let all = read_array(&angles).expect("clusters").of_clusters(&cluster);
    let table = read_array(&table).expect("a table");
    assert_eq!((all.crystals().count(), table.crystals().count()), (180, 45));
    for (number, _) in table.crystals() {
        for point in [[0.0; 3], [30.0, 0.0, 0.0], [0.0, 30.0, 90.0]] {
            let (a, b) = (all.place(number, point), table.place(number, point));
            let (a, b) = (a.expect("a crystal"), b.expect("a crystal"));
            // The table has five digits.
            assert!((0..3).all(|x| (a[x] - b[x]).abs() < 2e-3), "{number}: {a:?} beside {b:?}");
        }
    }
    assert!((all.inner_radius() - 235.0).abs() < 0.5, "{}", all.inner_radius());
}

/// Converts hits of two crystals to events in the laboratory, and writes files.
#[test]
fn hits_become_events_and_files() {
    let text = r#"{"results": [{"events": [
        {"event": 4, "timestamp": 90, "crystal": 1, "index": 0, "fom": 0, "position": [0, 0, 10], "energy": 300.5},
        {"event": 2, "index": 0, "fom": 0, "position": [1, 2, 3], "energy": 50},
        {"event": 4, "timestamp": 80, "crystal": 1, "index": 0, "fom": 0, "position": [0, 5, 30], "energy": 200}]}]}"#;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("hits.json"), text).expect("written");
    let results = Results::read(&folder.path().join("hits.json")).expect("results");
    let array = Array::sphere(2, 100.0).expect("an array");
    let hits = hits::of_results(&results, &array).expect("hits");
    assert_eq!((&hits.numbers[..], &hits.timestamps[..]), (&[2, 4][..], &[0, 80][..]));
    assert_eq!(hits.points[1].len(), 2);
    // The point is 10 mm behind a front face that lies 100 mm from the target.
    let far = hits.points[1][0].place.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!((far - 110.0).abs() < 1e-9, "{far}");
    assert!(
        hits::of_results(&results, &Array::sphere(1, 100.0).expect("an array")).is_err(),
        "there is no crystal 1"
    );
    let tracked = track_all(&runtime(1), &hits.points, &Settings::default(), &Silent).expect("tracked");
    let spectra = Spectra::of(&hits, &tracked, 1.0, 1000.0).expect("spectra");
    assert_eq!((spectra.calorimetric.counts[50], spectra.calorimetric.counts[500]), (1, 1));
    assert!(Spectra::of(&hits, &tracked, 0.0, 1000.0).is_err());
    hits::write(&folder.path().join("out"), &hits, &tracked, &spectra).expect("written");
    let csv = std::fs::read_to_string(folder.path().join("out/spectra.csv")).expect("a file");
    assert_eq!(csv.lines().count(), 1001);
    assert!(csv.lines().nth(501).is_some_and(|line| line.starts_with("500.5,") && line.ends_with(",1")));
    let json = std::fs::read(folder.path().join("out/gammas.json")).expect("a file");
    let back: Vec<hits::EventGammas> = serde_json::from_slice(&json).expect("events");
    assert_eq!(back.iter().map(|event| event.event).collect::<Vec<_>>(), [2, 4]);
    assert!(back.iter().zip(&tracked).all(|(back, tracked)| back.tracked == *tracked));
}

/// The random numbers of an event are independent of other events.
#[test]
fn events_do_not_depend_on_each_other() {
    let spec = EmissionSpec { smearing: 5.0, energy_width: 2.0, ..shell(Energies::Line(1332.0), 3) };
    assert_eq!(spec.event(17), spec.event(17));
    assert_ne!(spec.event(17), spec.event(18));
    assert!(Target::shell(3.0, 2.0).is_err());
    assert!(
        EmissionSpec { energies: Energies::Line(3e4), ..spec.clone() }.check().is_err(),
        "no cross sections"
    );
    assert!(EmissionSpec { multiplicity: 0, ..spec }.check().is_err());
}
