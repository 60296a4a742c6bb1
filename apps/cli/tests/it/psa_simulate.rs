//! `zellige psa crystal`, `simulate` and `events`.

use std::path::Path;

use zellige_psa::files::geb::{self, Frame, FrameReader, mode3, write_frame};
use zellige_psa::pipeline::stream::record::Traces;

use crate::common::{ok, result, results, run, words};

/// Writes `mine.toml`, the printed crystal edited to a fifth of its size.
fn edit_crystal(here: &Path) {
    let printed = run(here, &["psa", "crystal"]).stdout;
    let tenths = [
        ("length = 90.0", "length = 18.0"),
        ("radius = 40.0", "radius = 9.0"),
        ("bore_radius = 5.0", "bore_radius = 2.0"),
        ("bore_start = 13.0", "bore_start = 4.0"),
        ("rings = [8.0, 13.0, 15.0, 18.0, 18.0, 18.0]", "rings = [3.0, 3.0, 3.0, 3.0, 3.0, 3.0]"),
        ("bias = 5000.0", "bias = 400.0"),
    ];
    let mut edited =
        printed.lines().filter(|line| !line.starts_with("corners")).collect::<Vec<_>>().join("\n");
    for (from, to) in tenths {
        assert!(edited.contains(from), "{from}");
        edited = edited.replacen(from, to, 1);
    }
    std::fs::write(here.join("mine.toml"), edited).unwrap();
}

#[test]
fn a_crystal_is_printed_edited_simulated_and_hit() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let ok = |args: &[&str]| ok(here, args);
    edit_crystal(here);
    let said = ok(&["psa", "simulate", "--crystal", "mine.toml", "-o", "basis", "--format", "i16"]);
    assert!(said.contains("all charges are settled") && !said.contains("warning"), "{said}");
    for file in
        ["basis.toml", "positions.npy", "segments.npy", "signals.npy", "potential.npy", "weighting.npy"]
    {
        assert!(here.join("basis").join(file).exists(), "{file}");
    }
    let events = ["psa", "events", "--basis", "basis", "-n", "50", "--seed", "3", "--hits", "2"];
    ok(&[&events[..], &["--workers", "1", "-o", "one"]].concat());
    ok(&[&events[..], &["--workers", "3", "-o", "three"]].concat());
    let signals = |folder: &str| std::fs::read(here.join(folder).join("signals.npy")).unwrap();
    assert_eq!(signals("one"), signals("three"));
    let said = ok(&words("psa simulate --crystal mine.toml --step 3 --format record -o basis.dat"));
    assert!(said.contains("basis.dat"));
    assert_eq!(std::fs::metadata(here.join("basis.dat")).unwrap().len() % 17_932, 0);
    ok(&words("psa simulate --crystal mine.toml --step 3 --format gretina -o gretina.dat"));
    assert!(
        std::fs::read(here.join("gretina.dat")).unwrap().starts_with(b"GRETA basis signals; Cylindrical")
    );
    // The voltage is too low to deplete the crystal.
    let weak = std::fs::read_to_string(here.join("mine.toml")).unwrap();
    let weak = weak.lines().map(|line| if line.starts_with("bias") { "bias = 10.0" } else { line });
    std::fs::write(here.join("weak.toml"), weak.collect::<Vec<_>>().join("\n")).unwrap();
    let said = ok(&["psa", "simulate", "--crystal", "weak.toml", "--step", "4", "-o", "weak"]);
    assert!(said.contains("do not deplete"), "{said}");

    let refused = |args: &[&str], code: i32, words: &str| {
        let ran = run(here, args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    };
    refused(&["psa", "simulate", "--crystal", "none.toml", "-o", "x"], 2, "none.toml");
    refused(&["psa", "simulate", "--grid", "0", "-o", "x"], 2, "grid");
    refused(&["psa", "events", "--basis", "one", "-o", "x"], 2, "has no basis");
    refused(&["psa", "events", "--basis", "basis", "--energy", "7:3", "-o", "x"], 2, "uniform:15:5000");
}

/// A GRETINA basis and digitiser traces give the same answers as frames of contacts of the same
/// events, for any assignment of contacts to digitisers.
#[test]
fn bases_and_traces_of_gretina_are_searched() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let ok = |line: &str| ok(here, &line.split(' ').collect::<Vec<_>>());
    ok("psa simulate --grid 5 --step 8 -o folder --samples 50 --before 0");
    ok("psa simulate --grid 5 --step 8 --format gretina -o gretina.dat");
    ok("psa simulate --grid 5 --step 8 --format record -o record.dat");
    ok("psa events --basis folder -n 12 --noise 0 --adc-step 0 -o ev");
    ok("psa frames ev --channels all --unit 0.25 -o contacts.geb");
    // The same traces in the form of digitisers: ten channels on each board, odd ones inverted,
    // with a baseline.
    let mut stream = Vec::new();
    let file = std::fs::File::open(here.join("contacts.geb")).unwrap();
    let (mut reader, mut frame) = (FrameReader::new(file), Frame::default());
    while reader.next(&mut frame).unwrap() {
        let signals = Traces::of(&frame).unwrap().event.signals;
        let samples = signals.len() / 37;
        let mut payload = Vec::new();
        for (contact, signal) in signals.chunks(samples).enumerate() {
            let sign = if contact % 2 == 1 { -4.0 } else { 4.0 };
            let level = 300 + contact as i16;
            let steps = signal.iter().map(|x| level + (sign * x).round() as i16);
            let steps: Vec<i16> = std::iter::repeat_n(level, 10).chain(steps).collect();
            mode3::Trace::new((contact / 10) as u16, 5, (contact % 10) as u16, steps)
                .unwrap()
                .put(&mut payload);
        }
        write_frame(&mut stream, mode3::KIND, frame.timestamp, &payload).unwrap();
    }
    std::fs::write(here.join("run.geb"), stream).unwrap();
    let mut map = "step = 10\nbaseline = 10\nbegin = 10\n".to_owned();
    for contact in 0..37 {
        let segment = if contact == 36 { "\"core\"".into() } else { contact.to_string() };
        let sign = if contact % 2 == 1 { "-1" } else { "1" };
        let (board, channel) = (contact / 10, contact % 10);
        map += &format!(
            "[[channel]]\nboard = {board}\nmodule = 5\nchannel = {channel}\nsegment = {segment}\ngain = 0.25\npolarity = {sign}\n"
        );
    }
    std::fs::write(here.join("map.toml"), map).unwrap();
    let search = "--window 40 --method fgs --precision fp64 --json -";
    for basis in ["folder", "gretina.dat"] {
        let contacts = ok(&format!("psa run --basis {basis} --events contacts.geb {search}"));
        let digitisers =
            ok(&format!("psa run --basis {basis} --events run.geb --channel-map map.toml {search}"));
        let events = |text: &str| result(text)["events"].clone();
        assert_eq!(events(&contacts), events(&digitisers), "{basis}");
        assert!(events(&contacts).as_array().unwrap().len() >= 12, "{basis}");
    }
    // Without noise the events are found at the nearest points, and a report shows them.
    ok("psa run --basis folder --events ev --report run.html --show 0,3");
    let page = std::fs::read_to_string(here.join("run.html")).unwrap();
    for part in ["Hits in the crystal", "Figures of merit", "event 3:", "segment"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(ok("psa run --basis folder --events ev").contains("no file was written: use --json FILE"));
    // The signals alone give the same answers, except for the times.
    let answers = |events: &str| {
        let mut found =
            result(&ok(&format!("psa run --basis folder --events {events} {search}")))["events"].clone();
        found.as_array_mut().unwrap().iter_mut().for_each(|hit| hit["timestamp"] = 0.into());
        found
    };
    assert_eq!(answers("ev"), answers("ev/signals.npy"));
    let refused = |line: &str, parts: &[&str]| {
        let ran = run(here, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, Some(2), "{line}: {}", ran.stderr);
        assert!(parts.iter().all(|part| ran.stderr.contains(part)), "{line}: {}", ran.stderr);
    };
    refused("psa run --basis folder --events ev/energies.npy", &["energies.npy", "three dimensions"]);
    refused("psa run --basis gretina.dat --events run.geb", &["--channel-map", "mode 3"]);
    refused(
        "psa run --basis record.dat --events run.geb --channel-map map.toml",
        &["every 10 ns", "every 5 ns"],
    );
    refused("psa run --basis folder --events ev --channel-map map.toml", &["--channel-map", "folder"]);
    std::fs::write(here.join("x.adf"), b"ADF").unwrap();
    refused("psa run --basis folder --events x.adf", &["ADF file of AGATA", "numpy"]);
    // Two identical runs give no chart.
    ok("psa run --basis folder --events ev --json a.json");
    ok("psa compare a.json a.json --report same.html");
    let page = std::fs::read_to_string(here.join("same.html")).unwrap();
    assert!(page.contains("Identical") && !page.contains("<svg"));
}

/// Events with three hits give the same hits by a run, a file of frames, a pipe and a socket.
#[test]
fn whole_crystals_are_searched_in_one_go_and_as_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let ok = |args: &[&str]| ok(here, args);
    edit_crystal(here);
    ok(&["psa", "simulate", "--crystal", "mine.toml", "-o", "basis"]);
    let events = ["psa", "events", "--basis", "basis", "--energy", "uniform:300:900", "--noise", "1"];
    ok(&[&events[..], &["-n", "60", "--hits", "3", "--within", "segments", "-o", "ev"]].concat());
    ok(&[&events[..], &["-n", "200", "-o", "single"]].concat());

    let said = ok(&["psa", "run", "--basis", "basis", "--events", "ev", "--json", "hits.json"]);
    assert!(said.starts_with("60 events, 180 hits"), "{said}");
    let rows = ["psa", "compare", "hits.json", "--truth", "ev", "--report", "c.html", "--json", "-"];
    let rows = ok(&rows);
    let page = std::fs::read_to_string(here.join("c.html")).unwrap();
    assert!(page.contains("180 hits that both runs have") && page.contains("mm to the truth"), "{page}");
    let rows = results(&rows);
    assert_eq!((rows[0]["hits"].as_u64(), rows[0]["same_percent"].as_f64()), (Some(180), Some(100.0)));
    let median = rows[0]["to_truth_mm"][0]["median"].as_f64().unwrap();
    assert!(median < 3.0, "{median} mm in a crystal of 18 mm");

    ok(&["psa", "frames", "ev", "--channels", "all", "--crystal", "7", "--unit", "0.05", "-o", "ev.geb"]);
    let stream = ["psa", "stream", "--basis", "basis"];
    let said = ok(&[&stream[..], &["ev.geb", "-o", "hits.geb"]].concat());
    assert!(said.starts_with("60 events, 180 hits"), "{said}");
    assert!(!here.join("hits.geb.part").exists() && !here.join("hits.geb.resume").exists());
    let bytes = std::fs::read(here.join("hits.geb")).unwrap();
    assert_eq!(bytes.len(), 60 * 480);
    let counted =
        ok(&[&stream[..], &["ev.geb", "-o", "other.geb", "--json", "-", "--workers", "1"]].concat());
    assert_eq!(result(&counted)["hits"], 180);
    assert_eq!(bytes, std::fs::read(here.join("other.geb")).unwrap(), "whoever computes them");

    // The frames are from crystal 7 of an array, and each event has all its hits.
    let said = ok(&["psa", "track", "hits.geb", "-o", "tracked", "--coincidence-window", "0"]);
    assert!(said.starts_with("180 hits in 60 events"), "{said}");
    let pairs = [&[
        "psa", "run", "--basis", "basis", "--events", "ev", "--pairs", "--align", "--json", "two.json",
    ][..]];
    std::fs::write(here.join("array"), "0 0 0 0 0 0 0 100\n").unwrap();
    ok(&[&pairs.concat()[..], &["--array", "array"]].concat());
    let two = result(&std::fs::read_to_string(here.join("two.json")).unwrap());
    let hit = &two["events"][0];
    let [here_z, there_z] = ["position", "in_array"].map(|frame| hit[frame][2].as_f64().unwrap());
    assert!((there_z - here_z - 100.0).abs() < 1e-3, "{hit}");

    // Trapped holes reduce the collected charge, and the correction restores it.
    ok(&[&events[..], &["-n", "20", "--trapping", "200", "-o", "caught"]].concat());
    let mut sums = [[].as_slice(), &["--trapping", "200"]].map(|more: &[&str]| {
        let run = ["psa", "run", "--basis", "basis", "--events", "caught", "--json", "-"];
        let found = result(&ok(&[&run[..], more].concat()));
        found["events"].as_array().unwrap().iter().map(|hit| hit["energy"].as_f64().unwrap()).sum::<f64>()
    });
    let energies = std::fs::read(here.join("caught").join("energies.npy")).unwrap();
    let energies = energies[energies.len() - 8 * 20..].as_chunks::<8>().0;
    let truth: f64 = energies.iter().map(|&bytes| f64::from_le_bytes(bytes)).sum();
    sums = sums.map(|sum| 100.0 * (sum / truth - 1.0));
    assert!(sums[0] < -0.2 && sums[1].abs() < 0.1, "{sums:?} % too much");

    ok(&["psa", "frames", "single", "-o", "single.geb"]);
    let tables =
        ["psa", "benchmark", "--basis", "basis", "-n", "40", "--channels", "hit-core", "--seed", "1,2"];
    let rows = ok(&[&tables[..], &["--report", "t.html", "--json", "-"]].concat());
    let rows = results(&rows);
    let row = |name: &str| rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    let screen = row("screen bits, 8");
    assert_eq!(screen["events"], 80);
    // In a cylindrical crystal, points have mirror images that rounding may prefer.
    assert!(
        screen["same"]["mean"].as_f64().unwrap() > 98.0
            && row("fgs p=2")["same"]["mean"].as_f64().unwrap() < 95.0
    );
    assert!(std::fs::read_to_string(here.join("t.html")).unwrap().contains("cfgs mixed"));

    let refused = |args: &[&str], code: i32, words: &str| {
        let ran = run(here, args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    };
    std::fs::write(here.join("cut.geb"), &std::fs::read(here.join("single.geb")).unwrap()[..1010]).unwrap();
    let cut = [&stream[..], &["cut.geb", "--channels", "hit-core", "-o", "cut.hits"]].concat();
    refused(&cut, 1, "byte 1010");
    refused(&[&stream[..], &["ev.geb", "-o", "cut.hits"]].concat(), 2, "cut.hits.resume");
    refused(&["psa", "run", "--basis", "basis", "--events", "basis"], 2, "has no events");
    refused(&["psa", "run", "--basis", "basis", "--events", "ev", "--window", "61"], 2, "61");
    refused(&["psa", "frames", "ev", "-o", "x.geb"], 2, "3 hits");
    refused(&["psa", "events", "--basis", "basis", "--adc-step", "1e-320", "-o", "x"], 2, "--adc-step");
    // The frames are traces of digitisers.
    let mut traces = Vec::new();
    for time in 0..3 {
        let mut frame = Frame { kind: mode3::KIND, ..Frame::default() };
        mode3::Trace::new(3, 17, 9, vec![0; 60]).unwrap().put(&mut frame.payload);
        geb::write_frame(&mut traces, frame.kind, time, &frame.payload).unwrap();
    }
    std::fs::write(here.join("traces.geb"), traces).unwrap();
    refused(&[&stream[..], &["traces.geb", "-o", "traces.hits"]].concat(), 2, "none of its 3 frames");
    refused(&["psa", "send", "ev.geb", "127.0.0.1:1", "--patience", "0"], 1, "127.0.0.1:1");
}
