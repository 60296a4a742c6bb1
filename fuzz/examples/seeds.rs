//! Writes the first inputs of each target into `corpus/`, by the project's own writers: `cargo run
//! --release --example seeds` in this folder.

use std::fs;
use std::io::Write;
use std::path::Path;

use zellige_kernels::packed::{PackedFormat, Rounding};
use zellige_kernels::sell::{Bucket, Elements, PanelWriter};
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::{CHANNELS, Segment};
use zellige_psa::electronics::Electronics;
use zellige_psa::files::basis::{Origin, Values};
use zellige_psa::files::geb::{mode2, mode3, write_frame};
use zellige_psa::files::{archives, basis, gretina, record, write_array};
use zellige_psa::params::{EXAMPLE, parse_crystal};
use zellige_psa::pipeline::stream::record::{KIND as TRACES, Traces};
use zellige_psa::search::Event;
use zellige_runtime::trace::{IdleEvent, TaskEvent, Trace, TraceNode, TraceWorker, TransferEvent};
use zellige_sim::platform::Platform;
use zellige_tor::Matrix;
use zellige_tor::files::fits;

type Done = Result<(), Box<dyn std::error::Error>>;

fn put(target: &str, name: &str, bytes: impl AsRef<[u8]>) -> Done {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(name), bytes)?)
}

/// Writes an input that begins with a byte for the reader that is meant.
fn put_basis(kind: u8, name: &str, bytes: &[u8]) -> Done {
    put("basis", name, [&[kind], bytes].concat())
}

/// Gauge fields: what a target itself has for a valid file, and beginnings of raw ones.
fn lattices() -> Done {
    for target in ["milc", "nersc", "lime", "openqcd", "lattice_npy"] {
        put(target, "valid", b"\x01")?;
    }
    put("milc", "raw", b"\0\x87N\0\0")?;
    put("nersc", "raw", b"\0BEGIN_HEADER\nDATATYPE = 4D_SU3_GAUGE\nDIMENSION_1 = 4\nEND_HEADER\n")?;
    put("lime", "raw", b"\0\x45\x67\x89\xab\0\x01\0\0")?;
    put("openqcd", "raw", b"\0\x04\0\0\0\x04\0\0\0\x04\0\0\0\x04\0\0\0\0\0\0\0\0\0\x08\x40")?;
    put("lattice_npy", "raw", b"\0\x93NUMPY\x01\0")
}

fn texts() -> Done {
    let head = "%%MatrixMarket matrix coordinate";
    put(
        "market",
        "general",
        format!("{head} real general\n% a comment\n3 2 4\n1 1 1.5\n3 2 -2e-3\n2 1 0\n2 2 7\n"),
    )?;
    put("market", "symmetric", format!("{head} integer symmetric\n2 2 2\n1 1 4\n2 1 -1\n"))?;
    put("market", "pattern", format!("{head} pattern skew-symmetric\n3 3 1\n3 1\n"))?;
    put("market", "array", "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4e300\n")?;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(format!("{head} real general\n2 2 1\n1 2 3\n").as_bytes())?;
    put("market", "gzip", gzip.finish()?)?;
    put("market", "vector", "%%MatrixMarket vector coordinate real\n3 1\n2 1.5\n")?;
    let header = format!("{:72}key\n3 1 1 1\nRSA 2 2 2 0\n(3I2) (2I2) (2F5.1)\n", "title");
    put("market", "boeing", format!("{header} 1 2 3\n 1 2\n  4.0 -1.0\n"))?;
    let words = [1_211_216i32, 2, 2, 2, 1, 1, 0, 1].map(i32::to_be_bytes).concat();
    let numbers = [4.0f64, -1.0].map(f64::to_be_bytes).concat();
    put("market", "petsc", [&words[..], &numbers].concat())?;
    put("market", "columns", "b,c\n1,2\n3,4e5\n")?;

    let fixture = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apps");
        fs::read_to_string(folder.join(name))
    };
    let [sys, old, atm] = ["medium-sys", "older-short-sys", "medium-atm"]
        .map(|name| fixture(&format!("tor/tests/fixtures/{name}.txt")));
    let atm = atm?;
    put("moao", "current", format!("{}\n--\n{atm}", sys?))?;
    put("moao", "older", format!("{}\n--\n{atm}", old?))?;
    for name in ["check", "demo"] {
        put("system_toml", name, fixture(&format!("tor/systems/{name}.toml"))?)?;
    }
    for name in ["oblique", "circle"] {
        put("system_yaml", name, fixture(&format!("tor/tests/fixtures/{name}.yaml"))?)?;
    }
    put("compass", "ltao", fixture("tor/tests/fixtures/ltao.py")?)?;
    put(
        "compass",
        "small",
        "a = [1, -2.5e3] + [3] * 2\np_tel = conf.ParamTel()\np_tel.set_diam(a[-1] ** 2)\n",
    )?;
    let mut map = "step = 10\nbaseline = 2\nbegin = 3\n".to_owned();
    for contact in 0..CHANNELS {
        let segment = if contact == 36 { "\"core\"".to_owned() } else { contact.to_string() };
        let (board, channel) = (contact / 10, contact % 10);
        map += &format!(
            "[[channel]]\nboard = {board}\nmodule = 1\nchannel = {channel}\nsegment = {segment}\ngain = 1\npolarity = -1\n"
        );
    }
    put("channel_map", "whole", map + "\0")?;
    let rules = [
        "fp64",
        "hp1:band=2",
        "hp1:operand=1e-2",
        "fp8:operand=1e-5,else=hp1",
        "x3,panel=x3",
        "fp32,panel=tf32",
    ];
    for (k, rule) in rules.into_iter().enumerate() {
        put("rule", &k.to_string(), rule)?;
    }
    let precision = "fn precision(i, j, k, nt, norm_a_ij, norm_l_ik, norm_l_jk, norm_a)";
    put(
        "script",
        "choose",
        format!("{precision} {{\n  if i - j < 2 {{ return \"fp32\"; }}\n  \"hp1\"\n}}\n"),
    )?;
    put(
        "script",
        "loop",
        format!("{precision} {{ let x = 0; while x < nt {{ x += 1; }} [\"bf1\", `x3`][x % 2] }}"),
    )?;
    put("crystal", "example", EXAMPLE)?;
    for name in ["cluster", "clusters"] {
        put("crystal", name, fixture(&format!("psa/tests/fixtures/{name}.txt"))?)?;
    }
    put("crystal", "table", " 7 0 1 2 3\n 1 0 -1 0\n 2 1 0 0\n 3 0 0 1\n")?;
    let edges = r#"{"rule":"fp32","edges":[0,2,4],"row_edges":[0,3],"#;
    let norms = r#""a":[[1],[0.5,2]],"l":[[],[0.1]],"b":[[1,2]],"y":[[1,2e-3]],"x":[[0,1]]}"#;
    put("norms", "small", format!("{edges}{norms}"))?;
    for name in Platform::names().take(3) {
        put("platform", name, Platform::shipped(name)?.to_toml()?)?;
    }
    Ok(())
}

/// Panels with elements in each kind of format, and with blocks.
fn panels() -> Done {
    use PackedFormat::{Fp32, Fp64, Rp24, Rp40, Rpre16, Rpreu8};
    let scaled = |format, negative| Bucket { format, exponent: -9, negative };
    for (edge, buckets) in [
        (
            1,
            vec![scaled(Rpreu8, true), scaled(Rpre16, false), Bucket::unscaled(Fp32), Bucket::unscaled(Fp64)],
        ),
        (2, vec![Bucket::unscaled(Rp24), Bucket::unscaled(Rp40)]),
        (4, vec![Bucket::unscaled(Fp64)]),
    ] {
        for (spread, exponents) in [(1, false), (400, true)] {
            let mut writer = PanelWriter::new(edge, 8, 6000 * edge, 3, &buckets)?;
            for rows in [9usize, 3] {
                let elements = |bucket: usize| {
                    let mut elements = Elements::default();
                    for row in 0..rows as u32 {
                        for k in 0..1 + row % 3 {
                            let value = 1.0 + f64::from(row) + 0.1 * bucket as f64;
                            elements.push(row as u8, (row + k) * spread, &vec![value; edge * edge]);
                        }
                    }
                    elements
                };
                let all: Vec<Elements> = (0..buckets.len()).map(elements).collect();
                let powers = vec![-2i16; rows * edge];
                writer.tile(rows, exponents.then_some(&powers[..]), &all, Rounding::Nearest)?;
            }
            put("panel", &format!("edge{edge}-{spread}"), writer.finish()?.into_bytes())?;
        }
    }
    Ok(())
}

fn frames() -> Done {
    let segment = Segment::from_index(14).expect("a segment");
    let point = mode2::InteractionPoint {
        position: [1.0, -2.0, 30.0],
        energy: 500.0,
        segment,
        segment_energy: 510.0,
    };
    let event = mode2::Decomposed {
        crystal: 3,
        total_energy: 1000.0,
        core_energies: [1, 2, 3, 4],
        timestamp: 77,
        trigger_time: 70,
        t0: 1.5,
        cfd: 0.0,
        chi2: 2.0,
        reduced_chi2: 1.0,
        baseline: 0.0,
        before_step: 0.0,
        after_step: 1000.0,
        error: 0,
        points: vec![point, point],
    };
    let (mut stream, mut payload) = (Vec::new(), Vec::new());
    event.put(&mut payload)?;
    write_frame(&mut stream, 1, 77, &payload)?;
    put("geb", "mode2", &stream)?;
    payload.clear();
    for channel in 0..2 {
        mode3::Trace::new(1, 2, channel, vec![5, -5, 100, 7])?.put(&mut payload);
    }
    write_frame(&mut stream, 2, 78, &payload)?;
    put("geb", "mode3", &stream)?;
    let signals = (0..8).map(|k| k as f32).collect();
    let event = Event { timestamp: 780, hit: Some((segment, 8.0)), signals, saturated: Vec::new() };
    let traces = Traces { crystal: 1, event };
    traces.put(2, 0.5, &mut payload)?;
    stream.clear();
    write_frame(&mut stream, TRACES, 78, &payload)?;
    Ok(put("geb", "traces", &stream)?)
}

fn arrays() -> Done {
    let folder = std::env::temp_dir().join(format!("zellige-seeds-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let path = folder.join("a.npy");
    write_array(&path, &[2, 3, 2], (0..12).map(|k| k as i16))?;
    put("npy", "i2", fs::read(&path)?)?;
    write_array(&path, &[2, 3], (0..6).map(|k| k as f32))?;
    put("npy", "f4", fs::read(&path)?)?;
    let matrix = Matrix::from_fn(3, 2, |i, j| (i + 10 * j) as f64);
    zellige_tor::files::npy::write_f64(&path, &matrix)?;
    put("npy", "f8", fs::read(&path)?)?;
    let path = folder.join("a.fits");
    let hdus = ["A", "R"].map(|name| fits::Hdu {
        name: name.into(),
        pixels: fits::Pixels::Matrix(&matrix),
        axes: &[],
        cards: Vec::new(),
    });
    fits::write(&path, &hdus, &[])?;
    put("fits", "two", fs::read(&path)?)?;

    let sampling = Sampling { samples: 3, step: 10.0, before: 1 };
    let made = |sampling: Sampling| {
        let signals = (0..2 * CHANNELS * sampling.samples).map(|k| (k % 7) as f32 / 7.0).collect();
        let segments = [3, 14].map(|k| Segment::from_index(k).expect("a segment")).to_vec();
        Basis::new(sampling, vec![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], segments, signals)
    };
    archives::write_basis(&folder.join("a.npz"), &made(sampling)?)?;
    put("npy", "npz", fs::read(folder.join("a.npz"))?)?;
    record::write(&folder.join("a.bin"), &made(record::SAMPLING)?)?;
    put_basis(0, "record", &fs::read(folder.join("a.bin"))?)?;
    gretina::write(&folder.join("a.dat"), &made(gretina::SAMPLING)?, &[[0, 0, 0], [1, 0, 0]])?;
    put_basis(1, "gretina", &fs::read(folder.join("a.dat"))?)?;
    let crystal = parse_crystal(Path::new("example"), EXAMPLE)?;
    let origin = Origin { crystal, electronics: Electronics::default(), grid: 2.0 };
    basis::write(&folder.join("basis"), &made(sampling)?, &origin, Values::Float32)?;
    put_basis(2, "folder", &fs::read(folder.join("basis/basis.toml"))?)?;
    let result =
        r#"{"event": 4, "timestamp": 90, "crystal": 1, "index": 0, "fom": 0, "position": [0, 0, 10]}"#;
    put_basis(3, "results", format!("{{\"events\": [{result}]}}").as_bytes())?;
    Ok(fs::remove_dir_all(folder)?)
}

fn traces() -> Done {
    let mut trace = Trace { policy: "lws".into(), edges: vec![(1, 2), (1, 9), (9, 2)], ..Trace::default() };
    let native = |trace: &Trace| -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        trace.write_native(&mut bytes)?;
        Ok(bytes)
    };
    put("trace", "empty", native(&Trace::default())?)?;
    trace.workers.push(TraceWorker { name: "cpu 0".into(), kind: "cpu".into(), node: 0 });
    trace.nodes.push(TraceNode { name: "host".into(), capacity: Some(1 << 30), ..TraceNode::default() });
    for id in [1, 2] {
        let (name, coords) = ("gemm", Some([id as u32, 0, u32::MAX]));
        trace.tasks.push(TaskEvent {
            id,
            name,
            coords,
            start_ns: 1000 * id,
            end_ns: 1000 * id + 500,
            ..TaskEvent::default()
        });
    }
    trace.idle.push(IdleEvent { end_ns: 1000, ..IdleEvent::default() });
    trace.transfers.push(TransferEvent { label: "f16", bytes: 64, end_ns: 10, ..TransferEvent::default() });
    put("trace", "small", native(&trace)?)
}

fn main() -> Done {
    lattices()?;
    texts()?;
    traces()?;
    panels()?;
    frames()?;
    arrays()
}
