//! Conversion of digitiser traces to events of a crystal by a map, and refusal of frames that do
//! not match it.

use std::path::Path;

use zellige_psa::Error;
use zellige_psa::channels::{CHANNELS, ChannelMap};
use zellige_psa::files::geb::{Frame, mode3, write_frame};
use zellige_psa::files::{archives, gretina, read_basis, refuse_foreign};
use zellige_psa::params::parse_channel_map;
use zellige_psa::pipeline::traces::{EventFile, Needs};

use crate::common::of_gretina;

/// Returns a map of four boards with ten channels each. Contact `c` is channel `c % 10` of board `c
/// / 10`, odd ones are inverted, and the core is late by two and a half samples.
fn map() -> String {
    let mut text = "step = 10.0\nbaseline = 4\nbegin = 6\n".to_owned();
    for contact in 0..CHANNELS {
        let (board, channel) = (contact / 10, contact % 10);
        let segment = if contact == 36 { "\"core\"".to_owned() } else { contact.to_string() };
        let polarity = if contact % 2 == 1 { -1 } else { 1 };
        text += &format!(
            "[[channel]]\nboard = {board}\nmodule = 7\nchannel = {channel}\nsegment = {segment}\ngain = 0.5\npolarity = {polarity}\n"
        );
        if contact == 36 {
            text += "t0 = 25.0\n";
        }
    }
    text
}

/// Returns a trace of contact `c`: a baseline of 100 + c, then a ramp from sample 6 on.
fn trace(contact: usize) -> mode3::Trace {
    let sign = if contact % 2 == 1 { -1 } else { 1 };
    let ramp = |t: i16| (t - 5).max(0) * (contact as i16 + 1);
    let samples = (0..20).map(|t| 100 + contact as i16 + sign * ramp(t)).collect();
    mode3::Trace::new((contact / 10) as u16, 7, (contact % 10) as u16, samples).unwrap()
}

fn frame(contacts: impl Iterator<Item = usize>) -> Frame {
    let mut frame = Frame { kind: mode3::KIND, timestamp: 123, ..Frame::default() };
    contacts.for_each(|contact| trace(contact).put(&mut frame.payload));
    // A second core channel, which the map does not name.
    mode3::Trace::new(3, 7, 9, vec![5; 20]).unwrap().put(&mut frame.payload);
    frame
}

fn parsed(text: &str) -> Result<ChannelMap, Error> {
    parse_channel_map(Path::new("map.toml"), text)
}

fn says(error: Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text}: {parts:?}");
}

#[test]
fn traces_become_events() {
    let map = parsed(&map()).unwrap();
    let event = map.event(&frame((0..CHANNELS).rev()), 8).unwrap();
    assert_eq!((event.timestamp, event.hit), (1230, None));
    for contact in 0..36 {
        let own = &event.signals[contact * 8..][..8];
        let wanted: Vec<f32> = (1..=8).map(|t| 0.5 * t as f32 * (contact as f32 + 1.0)).collect();
        assert_eq!(own, wanted, "segment {contact}");
    }
    // The core is interpolated between two samples, two samples later.
    let core: Vec<f32> = (1..=8).map(|t| 0.5 * (t as f32 + 2.5) * 37.0).collect();
    assert_eq!(&event.signals[36 * 8..], core);
}

#[test]
fn what_is_no_whole_crystal_is_refused() {
    let map = parsed(&map()).unwrap();
    says(
        map.event(&frame((0..CHANNELS).filter(|c| *c != 14)), 8).unwrap_err(),
        &["no trace of segment 14", "37"],
    );
    says(map.event(&frame((0..CHANNELS).chain([3])), 8).unwrap_err(), &["two traces of segment 3"]);
    says(map.event(&frame(0..CHANNELS), 15).unwrap_err(), &["a trace of 20 samples", "begin"]);
    let other = Frame { kind: 1, ..frame(0..CHANNELS) };
    says(map.event(&other, 8).unwrap_err(), &["mode 3 is kind 2"]);
}

#[test]
fn mistakes_of_a_map_are_named() {
    let with = |from: &str, to: &str| parsed(&map().replacen(from, to, 1)).unwrap_err();
    says(with("segment = 14", "segment = 13"), &["channel 14 of the file", "segment 13 is named before"]);
    says(with("segment = 14", "segment = 36"), &["0 to 35"]);
    says(with("segment = 14", "segment = \"kern\""), &["core"]);
    says(with("gain = 0.5", "gain = 0.0"), &["gain = 0"]);
    says(with("polarity = 1", "polarity = 2"), &["polarity = 2"]);
    says(with("t0 = 25.0", "t0 = 1e300"), &["t0"]);
    says(with("step = 10.0", "step = 0.0"), &["step = 0"]);
    says(with("baseline = 4", "baseline = 0"), &["baseline = 0"]);
    says(with("begin = 6", "start = 6"), &["map.toml:3", "start"]);
    says(with("channel = 9\n", "channel = 8\n"), &["board 0, module 7, channel 8 is named before"]);
    let short: String = map().split_inclusive("[[channel]]").take(36).collect();
    says(parsed(short.trim_end_matches("[[channel]]")).unwrap_err(), &["no channel for", "the core"]);
}

#[test]
fn files_of_frames_say_what_they_need() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.geb");
    let mut bytes = Vec::new();
    write_frame(&mut bytes, 4, 1, b"scaler").unwrap();
    let of_digitisers = frame(0..CHANNELS);
    write_frame(&mut bytes, mode3::KIND, 123, &of_digitisers.payload).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(EventFile::needs(&path).unwrap(), Needs::Map);
    let map = parsed(&map()).unwrap();
    let mut file = EventFile::open(&path).unwrap();
    assert_eq!(file.next(Some(&map), 8).unwrap(), Some(map.event(&of_digitisers, 8).unwrap()));
    assert_eq!(file.next(Some(&map), 8).unwrap(), None);
    assert_eq!(file.progress(), [bytes.len() as u64; 2]);
    // The file is cut within the second frame; the error names the byte of the file.
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let mut file = EventFile::open(&path).unwrap();
    says(file.next(Some(&map), 8).unwrap_err(), &["run.geb, byte", "ends here"]);
    std::fs::write(&path, &bytes[..22]).unwrap();
    says(EventFile::needs(&path).unwrap_err(), &["no frame holds traces"]);
}

#[test]
fn bases_of_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("gretina.dat"), of_gretina()).unwrap();
    // The signals are not charges but numbers that encode their position.
    says(read_basis(&at("gretina.dat")).unwrap_err(), &["gretina.dat: the core's charges"]);
    let (basis, _) = gretina::read(&at("gretina.dat")).unwrap();
    assert_eq!(basis.positions().len(), 2);
    archives::write_basis(&at("basis.npz"), &basis).unwrap();
    let back = archives::read_basis(&at("basis.npz")).unwrap();
    assert_eq!((back.values(), back.sampling()), (basis.values(), basis.sampling()));
    for (name, content, parts) in [
        ("run.adf", &b"anything"[..], &["ADF file of AGATA", "numpy"][..]),
        ("run.ADF.0001", b"anything", &["ADF file of AGATA"]),
        ("event_mezzdata.cdat.0000", b"anything", &["mezzanine data of AGATA", "numpy"]),
        ("LibTrap_A001.root", b"root\0\0\0\0more", &["ROOT file", "agata-bases"]),
        ("odd.dat", b"odd", &["not a known format of a basis", "GRETINA"]),
        ("empty.dat", b"", &["not a known format of a basis"]),
        ("odd.npz", b"PK", &["odd.npz"]),
    ] {
        std::fs::write(at(name), content).unwrap();
        says(read_basis(&at(name)).unwrap_err(), parts);
    }
    assert!(refuse_foreign(&at("gretina.dat")).is_ok());
}
