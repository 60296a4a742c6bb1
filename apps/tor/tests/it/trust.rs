//! Exact digits of a small reconstructor.

use std::path::Path;

use zellige_runtime::Runtime;
use zellige_stochastic::{Trust, TrustOptions};
use zellige_tor::params::{Mode, parse};
use zellige_tor::trust;

/// The demo system with 6 x 6 sub-apertures, without the times.
fn judged(workers: usize) -> Trust {
    let demo = include_str!("../../systems/demo.toml").replace("nssp = 16 ", "nssp = 6 ");
    let input = parse(Path::new("system.toml"), &demo, None, Mode::Strict).unwrap();
    let rt = Runtime::builder().workers(workers).build().unwrap();
    let trust =
        trust::run(&rt, (&input.system, &input.atmosphere), 0, 100, &TrustOptions::default()).unwrap();
    Trust { seconds: 0.0, ..trust }
}

#[test]
fn digits_of_the_demo_are_the_same_on_any_number_of_workers() {
    let (one, two) = (judged(1), judged(2));
    assert_eq!(one, two);
    let names: Vec<&str> = one.maps.iter().map(|map| map.name.as_str()).collect();
    assert_eq!(names, ["Cmm", "Ctm", "L", "pivots", "R"]);
    let worst = one.maps.iter().map(|map| map.worst().unwrap().0).collect::<Vec<u8>>();
    assert!(worst[0] >= 6 && worst[3] >= 1 && worst[3] < 7, "{worst:?}");
    assert!(one.conclusions[0].contains("of 7 digits of R are exact"), "{:?}", one.conclusions);
}
