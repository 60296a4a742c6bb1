//! `zellige psa track`.

use crate::common::{result, results, run};
use serde_json::Value;

const HITS: &str = r#"{"results": [{"events": [
    {"event": 1, "timestamp": 5, "crystal": 3, "index": 0, "fom": 0, "position": [2, 1, 20], "energy": 250},
    {"event": 0, "timestamp": 2, "index": 0, "fom": 0, "position": [0, 0, 2], "energy": 80}]}]}"#;

#[test]
fn hits_are_put_together() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("hits.json"), HITS).unwrap();
    let track = ["psa", "track", "hits.json", "-o", "out"];
    let said =
        run(here, &[&track[..], &["--report", "r.html", "--json", "f.json"]].concat()).expect(0).stdout;
    assert!(said.starts_with("2 hits in 2 events") && said.contains("2 single points"), "{said}");
    let events: Value =
        serde_json::from_slice(&std::fs::read(here.join("out/gammas.json")).unwrap()).unwrap();
    assert_eq!((&events[0]["event"], &events[0]["gammas"][0]["energy"]), (&0.into(), &80.0.into()));
    assert_eq!(events[1]["timestamp"], 5);
    let figures = result(&std::fs::read_to_string(here.join("f.json")).unwrap());
    assert_eq!((&figures["gammas"], &figures["spectra"]["tracked"]["counts"][250]), (&2.into(), &1.into()));
    let page = std::fs::read_to_string(here.join("r.html")).unwrap();
    assert!(page.contains("<svg") && page.ends_with("</html>\n"));
    assert_eq!(std::fs::read_to_string(here.join("out/spectra.csv")).unwrap().lines().count(), 4001);

    // The array has crystal 0 only, 100 mm in front of a source that moves towards it at half the
    // speed of light.
    std::fs::write(here.join("array"), "0 0 0 0 0 0 0 100\n").unwrap();
    let with = |more: &[&str]| run(here, &[&track[..], &["--array", "array"], more].concat());
    with(&[]).expect(2).says("crystal 3");
    std::fs::write(here.join("hits.json"), HITS.replace("\"crystal\": 3,", "")).unwrap();
    with(&["--beta", "0.5", "--source", "0,0,-1"]).expect(0);
    let events: Value =
        serde_json::from_slice(&std::fs::read(here.join("out/gammas.json")).unwrap()).unwrap();
    // The Doppler factor sqrt((1 - beta) / (1 + beta)) applies to 80 keV.
    let corrected = events[0]["gammas"][0]["corrected"].as_f64().unwrap();
    assert!((corrected - 80.0 / 3f64.sqrt()).abs() < 1e-9, "{corrected}");
    std::fs::write(here.join("array"), "0 0 0 0 0 0 0\n").unwrap();
    with(&[]).expect(2).says("array:1: 7 numbers");
}

#[test]
fn gamma_rays_are_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let simulate = ["psa", "track", "--simulate", "200", "--multiplicity", "1,8"];
    let rows = |workers: &str| {
        let text =
            run(here, &[&simulate[..], &["--json", "-", "--workers", workers]].concat()).expect(0).stdout;
        results(&text)
    };
    let one = rows("1");
    assert_eq!(one, rows("3"));
    assert_eq!((&one[1]["multiplicity"], &one[1]["emitted"]), (&8.into(), &1600.into()));
    assert!(one[0]["peak_to_total"].as_f64().unwrap() > 0.4, "{}", one[0]["peak_to_total"]);
    let said = run(here, &[&simulate[..], &["--report", "r.html"]].concat()).expect(0).stdout;
    assert!(said.contains("% peak to total"), "{said}");
    let page = std::fs::read_to_string(here.join("r.html")).unwrap();
    assert!(page.matches("<svg").count() == 3, "shares and two spectra");
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("hits.json"), HITS).unwrap();
    for wrong in [
        &["psa", "track"][..],
        &["psa", "track", "hits.json"],
        &["psa", "track", "hits.json", "--simulate", "5"],
        &["psa", "track", "--simulate", "5", "--beta", "1"],
        &["psa", "track", "--simulate", "5", "--source", "1,2"],
        &["psa", "track", "--simulate", "5", "--beta", "0.8,0,0.7"],
        &["psa", "track", "--simulate", "5", "--sphere", "nan"],
        &["psa", "track", "--simulate", "5", "--step", "0"],
        &["psa", "track", "--simulate", "5", "--array", "hits.json"],
    ] {
        assert_eq!(run(here, wrong).code, Some(2), "{wrong:?}");
    }
    assert_eq!(run(here, &["psa", "track", "none.json", "-o", "x"]).code, Some(2));
}
