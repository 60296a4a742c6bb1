//! Exact digits of a small reconstructor.

use std::path::Path;

use zellige_mpi::run_local;
use zellige_runtime::{Runtime, Session};
use zellige_stochastic::{Report, Trust, TrustOptions};
use zellige_tor::params::{Mode, parse};
use zellige_tor::trust;

/// The demo system with 6 x 6 sub-apertures, without the times.
fn judged<P: Session>(session: &P) -> Trust {
    let demo = include_str!("../../systems/demo.toml").replace("nssp = 16 ", "nssp = 6 ");
    let input = parse(Path::new("system.toml"), &demo, None, Mode::Strict).unwrap();
    let trust =
        trust::run(session, (&input.system, &input.atmosphere), 0, 100, &TrustOptions::default()).unwrap();
    Trust { seconds: 0.0, ..trust }
}

#[test]
fn digits_of_the_demo_are_the_same_on_any_number_of_workers_and_ranks() {
    let [one, two] = [1, 2].map(|workers| judged(&Runtime::builder().workers(workers).build().unwrap()));
    assert_eq!(one, two);
    for ranks in [2, 4] {
        let mut merged = Report::default();
        for found in run_local(ranks, 1, judged).unwrap() {
            merged.merge(&found.instabilities);
            assert_eq!(Trust { instabilities: one.instabilities.clone(), ..found }, one, "{ranks} ranks");
        }
        assert_eq!(merged, one.instabilities, "{ranks} ranks");
    }
    let names: Vec<&str> = one.maps.iter().map(|map| map.name.as_str()).collect();
    assert_eq!(names, ["Cmm", "Ctm", "L", "pivots", "R"]);
    let worst = one.maps.iter().map(|map| map.worst().unwrap().0).collect::<Vec<u8>>();
    assert!(worst[0] >= 6 && worst[3] >= 1 && worst[3] < 7, "{worst:?}");
    assert!(one.conclusions[0].contains("of 7 digits of R are exact"), "{:?}", one.conclusions);
}
