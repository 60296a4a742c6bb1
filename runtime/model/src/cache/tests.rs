use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::{Row, Source, TaskInfo};

fn identity() -> Identity {
    Identity { devices: [("cpu".to_string(), "Fast 9000".to_string())].into(), build: "1.2.3".into() }
}

fn models() -> Models {
    let models = Models::new();
    let cpu = models.kind("cpu");
    for (codelet, shape, flops) in
        [("gemm", [64; 3], 524_288.0), ("gemm", [128; 3], 4_194_304.0), ("odd \"\n", [0; 3], 1e5 / 3.0)]
    {
        let info = TaskInfo { flops, shape, label: "f32", ..TaskInfo::default() };
        for i in 0..40 {
            models.record(
                models.id(codelet, &info),
                cpu,
                flops,
                4096,
                Duration::from_nanos(flops as u64 / 40 + i % 7),
            );
        }
    }
    let info = TaskInfo { flops: 524_288.0, shape: [64; 3], label: "f32", ..TaskInfo::default() };
    let packed = models.id_of("gemm", &info, "packed");
    (0..40).for_each(|i| models.record(packed, cpu, info.flops, 4096, Duration::from_nanos(7000 + i % 7)));
    models.set_link("host", "h200 0", LinkModel::new(55e9, 8e-6).unwrap());
    models
}

fn fresh(loaded: Loaded) -> Models {
    match loaded {
        Loaded::Fresh(models) => models,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_saved_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not/yet/there.json");
    let before = models();
    before.save(&path, &identity()).unwrap();
    let after = fresh(Models::load(&path, &identity()).unwrap());
    let known = |row: &Row| {
        (
            row.codelet.clone(),
            row.implementation.clone(),
            row.kind.clone(),
            row.label.clone(),
            row.shape,
            row.bytes,
            row.samples,
            row.median,
        )
    };
    assert_eq!(
        after.rows().iter().map(known).collect::<Vec<_>>(),
        before.rows().iter().map(known).collect::<Vec<_>>()
    );
    assert!(after.rows().iter().all(|row| row.estimate.unwrap().source == Source::History));
    assert_eq!(after.links(), before.links());
    // Saving again over the old file leaves one file.
    after.save(&path, &identity()).unwrap();
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn kinds_of_devices_can_be_kept_alone() {
    let models = models();
    let all = models.rows();
    assert_eq!(models.only(|kind| kind == "cpu").rows().len(), all.len());
    assert!(models.only(|kind| kind == "cpu").links().is_empty());
    let none = models.only(|name| name.starts_with("h200"));
    assert!(none.rows().is_empty());
    assert_eq!(none.links(), models.links());
}

/// One slow time in 64 is not one in 15 after a save: estimates are means.
#[test]
fn estimates_outlive_a_save() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("models.json");
    let before = Models::new();
    let (info, cpu) = (TaskInfo { shape: [64; 3], ..TaskInfo::default() }, before.kind("cpu"));
    let id = before.id("gemm", &info);
    for i in 0..65 {
        before.record(id, cpu, 1.0, 1, Duration::from_nanos(if i == 30 { 1900 } else { 990 + i % 20 }));
    }
    before.save(&path, &identity()).unwrap();
    let after = fresh(Models::load(&path, &identity()).unwrap());
    let expected = |models: &Models| models.rows()[0].estimate.unwrap().time.as_nanos() as f64;
    let change = expected(&after) / expected(&before) - 1.0;
    assert!(change.abs() < 0.02, "{change}");
}

#[test]
fn models_of_other_devices_or_builds_are_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("models.json");
    assert!(matches!(Models::load(&path, &identity()).unwrap(), Loaded::Absent));
    models().save(&path, &identity()).unwrap();
    let stale = |identity: &Identity| match Models::load(&path, identity).unwrap() {
        Loaded::Stale { why } => why,
        other => panic!("{other:?}"),
    };
    let build = stale(&Identity { build: "1.2.4".into(), ..identity() });
    assert!(build.contains("1.2.3") && build.contains("1.2.4"), "{build}");
    let device =
        stale(&Identity { devices: [("cpu".to_string(), "Slow 1".to_string())].into(), ..identity() });
    assert!(device.contains("Fast 9000") && device.contains("Slow 1"), "{device}");
    // A new device gives no information about the others, nor does an absent one.
    let mut more = identity();
    more.devices.insert("h200".into(), "H200".into());
    fresh(Models::load(&path, &more).unwrap());
    fresh(Models::load(&path, &Identity { devices: BTreeMap::new(), ..identity() }).unwrap());
    std::fs::write(&path, r#"{"format": 1, "something": "old"}"#).unwrap();
    assert!(stale(&identity()).contains("format 1"));
}

#[test]
fn files_that_are_not_understood_are_errors_with_their_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("models.json");
    let text = |content: &str| {
        std::fs::write(&path, content).unwrap();
        Models::load(&path, &identity()).unwrap_err().to_string()
    };
    let model = |times: &str, samples: u64| {
        format!(
            r#"{{"format":2,"build":"1.2.3","devices":{{}},"links":[],"models":[{{"codelet":"a","implementation":"","kind":"cpu","label":"",
            "shape":[1,1,1],"flops":1.0,"bytes":0,"samples":{samples},"times_ns":{times}}}]}}"#
        )
    };
    for bad in [
        "",
        "{}",
        "[1, 2",
        "\u{0}",
        &"[".repeat(100_000),
        &model("[]", 1),
        &model("[1,2]", 1),
        &model("[-1]", 1),
    ] {
        let message = text(bad);
        assert!(message.contains("models.json") && message.contains("calibrate again"), "{message}");
    }
    let link = r#"{"format":2,"build":"1.2.3","devices":{},"models":[],"links":[{"from":"a","to":"b","bytes_per_second":1.0,"latency_seconds":0.0}]}"#;
    assert!(text(link).contains("link from a to b"), "{}", text(link));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(Models::load(&path, &identity()), Err(CacheError::Io { what: "read", .. })));
    let failed = models().save(&path, &identity()).unwrap_err().to_string();
    assert!(failed.contains("models.json"), "{failed}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn the_path_follows_the_specification() {
    let os = |text: &str| Some(OsString::from(text));
    let path = |xdg, home| path_in(xdg, home, "a/b c.d").map(|p| p.to_str().unwrap().to_string());
    assert_eq!(path(os("/x"), os("/h")).unwrap(), "/x/zellige/models-a_b_c.d.json");
    assert_eq!(path(os("relative"), os("/h")).unwrap(), "/h/.cache/zellige/models-a_b_c.d.json");
    assert_eq!(path(None, os("/h")).unwrap(), "/h/.cache/zellige/models-a_b_c.d.json");
    assert!(matches!(path(None, None), Err(CacheError::NoFolder)));
    assert!(matches!(path(os(""), os("")), Err(CacheError::NoFolder)));
}

/// Any accepted file can be used.
fn use_all(models: &Models) {
    for row in models.rows() {
        assert!(row.estimate.is_none_or(|estimate| estimate.time > Duration::ZERO));
        assert!(row.gflops().is_none_or(f64::is_finite));
    }
    let cpu = models.kind("cpu");
    for flops in [0.0, 1e3, 1e30, f64::NAN] {
        let info = TaskInfo { flops, label: "f32", shape: [1; 3], ..TaskInfo::default() };
        let estimate = models.estimate(models.id("gemm", &info), cpu, &info, u64::MAX);
        assert!(estimate.is_none_or(|estimate| estimate.time > Duration::ZERO));
    }
    for (_, _, link) in models.links() {
        assert!(link.time(u64::MAX) >= link.time(0));
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_no_models(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(parse(&bytes, &identity()).is_err());
    }

    /// Some bytes of a valid file are replaced, removed or repeated.
    #[test]
    fn damaged_files_are_refused_or_usable(
        edits in prop::collection::vec((any::<Index>(), 0usize..6, prop_oneof![any::<u8>(), Just(b'9'), Just(b'e'), Just(b'-')], 0u8..3), 1..6),
    ) {
        let mut bytes = serde_json::to_vec(&models().content(&identity())).unwrap();
        for (at, count, byte, kind) in edits {
            let from = at.index(bytes.len());
            let to = (from + count).min(bytes.len());
            match kind {
                0 => bytes[from..to].fill(byte),
                1 => drop(bytes.drain(from..to)),
                _ => {
                    let part = bytes[from..to].to_vec();
                    bytes.splice(from..from, part);
                }
            }
        }
        if let Ok(Loaded::Fresh(models)) = parse(&bytes, &identity()) {
            use_all(&models);
        }
    }
}
