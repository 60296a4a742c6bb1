//! `zellige bench memory`, on small matrices.

use crate::common::{result, run};

const SMALL: [&str; 8] = ["bench", "memory", "--n", "256", "--tile", "32", "--workers", "1"];

#[test]
fn figures_are_there_and_fit_together() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--sched", "eager,dmdas", "--precision", "hp1:band=2", "--json", "-"];
    let ran = run(folder.path(), &[&SMALL[..], &more].concat()).expect(0);
    let figures = result(&ran.stdout);
    // 36 tiles of 4096 bytes, 30 % of them on two devices.
    assert_eq!(figures["capacity"], 22_118);
    assert!(figures["reference"]["backward_error"].as_f64().unwrap() < 1e-3, "{figures}");
    let policies = figures["policies"].as_array().unwrap();
    let names: Vec<&str> = policies.iter().map(|policy| policy["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["eager", "dmdas"]);
    for policy in policies {
        let count = |key: &str| policy[key].as_u64().unwrap_or_else(|| panic!("{key} in {policy}"));
        let nodes = policy["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), 3);
        let sum = |key: &str| nodes[1..].iter().map(|node| node[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("bytes_in"), count("bytes_to_devices"), "{policy}");
        assert_eq!(sum("bytes_out"), count("bytes_to_host"), "{policy}");
        assert!(count("bytes_to_devices") >= count("compulsory_loads"), "{policy}");
        assert!(count("bytes_to_host") >= count("compulsory_stores"), "{policy}");
        for key in ["hits", "misses", "evictions", "written_back", "conversions", "peak"] {
            assert!(nodes[1][key].is_u64(), "{key} in {policy}");
        }
        assert!(policy["makespan_over_bound"].as_f64().unwrap() >= 1.0, "{policy}");
        for key in ["seconds", "load_bound_bytes", "loads_over_bound", "moved_over_compulsory"] {
            assert!(policy[key].is_number() || count("bytes_to_devices") == 0, "{key} in {policy}");
        }
    }
}

#[test]
fn tables_name_policies_and_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &[&SMALL[..], &["--policies", "lws", "--stats"]].concat()).expect(0);
    for part in
        ["x bound", "x loads", "lws", "every factor has the same bits", "emulated 1", "written back", "host"]
    {
        assert!(ran.stdout.contains(part), "no {part:?} in {}", ran.stdout);
    }
}

#[test]
fn a_disk_may_take_what_the_host_cannot_hold() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--devices", "0", "--sched", "lws", "--host-memory", "40%", "--swap", "."];
    let ran = run(folder.path(), &[&SMALL[..], &more, &["--json", "-"]].concat()).expect(0);
    let figures = result(&ran.stdout);
    assert_eq!(figures["host_capacity"], 58_982);
    let policy = &figures["policies"][0];
    assert_eq!(policy["bytes_to_disk"], policy["nodes"][1]["bytes_in"], "{policy}");
    assert!(
        policy["bytes_from_disk"].as_u64().unwrap() > 0 && policy["nodes"][1]["name"] == "disk",
        "{policy}"
    );
    let ran = run(folder.path(), &[&SMALL[..], &more].concat()).expect(0);
    for part in ["from disk", "lws", "host memory for tiles", "every factor has the same bits"] {
        assert!(ran.stdout.contains(part), "no {part:?} in {}", ran.stdout);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    let nowhere = ["--devices", "0", "--host-memory", "40%", "--swap", "missing"];
    run(folder.path(), &[&SMALL[..], &nowhere].concat()).expect(1).says("swap file in missing");
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (more, code, said) in [
        (["--sched", "fastest"], 2, "lws"),
        (["--device-memory", "0%"], 2, "percentage above 0"),
        (["--devices", "65"], 2, "0..=64"),
        (["--devices", "0"], 2, "--host-memory"),
        (["--swap", "."], 2, "--host-memory"),
        (["--precision", "hp9"], 2, "hp9"),
    ] {
        run(folder.path(), &[&SMALL[..], &more].concat()).expect(code).says(said);
    }
    // The memory is smaller than the operands of a product, and there is no other worker to run it.
    let little = ["bench", "memory", "--n", "96", "--tile", "32", "--workers", "0", "--device-memory", "20%"];
    run(folder.path(), &little).expect(1).says("at once").says("emulated");
    let host = ["bench", "memory", "--n", "96", "--tile", "32", "--devices", "0", "--host-memory", "20%"];
    run(folder.path(), &host)
        .expect(1)
        .says("needs 12288 bytes for its operands (3) at once, and")
        .says("host, has 4915");
}
