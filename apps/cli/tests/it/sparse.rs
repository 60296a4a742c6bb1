//! `zellige matrix` and `zellige spmv`.

use crate::common::{ok, result, results, run, words};

#[test]
fn a_matrix_is_made_described_converted_and_stored_narrowly() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let ok = |args: &[&str]| ok(here, args);
    let said = ok(&["matrix", "generate", "elasticity", "--size", "5x4x3", "--seed", "7", "-o", "a.mtx.gz"]);
    // The 6 x 5 x 3 free nodes have three unknowns each.
    assert!(said.contains("270 x 270"), "{said}");
    ok(&["matrix", "convert", "a.mtx.gz", "b.mtx"]);
    let text = std::fs::read_to_string(here.join("b.mtx")).unwrap();
    assert!(text.starts_with("%%MatrixMarket matrix coordinate real"), "{}", &text[..60]);

    let json = |args: &[&str]| results(&ok(args));
    let (a, b) = (
        result(&ok(&["matrix", "info", "a.mtx.gz", "--json", "-"])),
        result(&ok(&["matrix", "info", "b.mtx", "--json", "-"])),
    );
    assert_eq!(
        (&a["rows"], &a["norm_inf"], &a["magnitudes"]),
        (&b["rows"], &b["norm_inf"], &b["magnitudes"])
    );
    assert!(ok(&["matrix", "info", "b.mtx"]).contains("270 x 270"));

    let rows = json(&words("spmv b.mtx --sets ap2,ap7re --eps 2^-37,1e-6 --criterion nw --json -"));
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let eps = row["eps_log2"].as_f64().unwrap().exp2();
        assert!(row["error_nw"].as_f64().unwrap() < 12.0 * eps, "{row}");
        assert!(row["error_of_bound"].as_f64().unwrap() <= 1.0, "{row}");
        assert!(
            row["error_nw"].as_f64() <= row["bound_nw"].as_f64() && row["bound"].as_f64() > Some(0.0),
            "{row}"
        );
        assert!(row["percent"].as_f64().unwrap() < 101.0 && row["seconds"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(ok(&["spmv", "b.mtx", "--sets", "ap7", "--eps", "2^-24"]).contains("AP7"));
    ok(&["spmv", "b.mtx", "--sets", "ap2,ap7", "--eps", "2^-37,2^-24", "--report", "b.html"]);
    let page = std::fs::read_to_string(here.join("b.html")).unwrap();
    // There are two charts for storage, two for time, two for errors, and one of formats with a
    // line for each of eight formats.
    assert_eq!((page.matches("<svg").count(), page.matches("class=\"name\"").count()), (7, 8));
    // Formats are chosen for a vector from a file, on two workers.
    let mut column = "%%MatrixMarket matrix array real general\n270 1\n".to_owned();
    (0..270).for_each(|j| column += &format!("{}\n", 10f64.powi(-(j % 7))));
    std::fs::write(here.join("x.mtx"), column).unwrap();
    let line = words("spmv b.mtx --sets ap7 --eps 2^-37 --criterion cw-exact --workers 2 --json -");
    let (ones, other) = (json(&line), json(&[&line[..], &["--x-for", "x.mtx"]].concat()));
    assert!(
        other[0]["error_cw"].as_f64() <= other[0]["bound_cw"].as_f64()
            && ones[0]["counts"] != other[0]["counts"]
    );
    for layout in ["tiled", "auto"] {
        let text = ok(&["spmv", "b.mtx", "--layout", layout, "--sets", "auto,ap7", "--eps", "2^-24"]);
        assert!(text.contains("tiled") || text.contains("bsr"), "{text}");
    }
}

#[test]
fn what_is_wrong_has_a_code_and_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("cut.mtx"), "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n")
        .unwrap();
    std::fs::write(here.join("a.mtx"), "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n")
        .unwrap();
    std::fs::write(here.join("two.mtx"), "%%MatrixMarket matrix array real general\n2 2\n1\n1\n1\n1\n")
        .unwrap();
    for (args, code, says) in [
        (&["spmv", "cut.mtx"][..], 2, "cut.mtx:4: the file ends after 1 of 2 nonzeros"),
        (&["spmv", "none.mtx"], 2, "none.mtx"),
        (&["spmv", "a.mtx", "--eps", "2^-54"], 2, "2^-53"),
        (&["spmv", "a.mtx", "--eps", "1"], 2, "below 1"),
        (&["spmv", "a.mtx", "--sets", "ap5"], 2, "ap7reu"),
        (&["spmv", "a.mtx", "--criterion", "cw-exact"], 2, "AP7RE"),
        (&["spmv", "a.mtx", "--layout", "csr"], 2, "bsr"),
        (&["spmv", "a.mtx", "--x-for", "random:x"], 2, "seed"),
        (&["spmv", "a.mtx", "--x-for", "two.mtx"], 2, "one column"),
        (&["spmv", "a.mtx", "--sets", "auto", "--layout", "thesis"], 2, "tiled"),
        (&["matrix", "generate", "flow", "--size", "0x1x1", "-o", "b.mtx"], 2, "48x48x48"),
        (&["matrix", "generate", "flow", "--size", "9999x9999x9999", "-o", "b.mtx"], 2, "cells"),
        (&["matrix", "generate", "flow", "--step", "1", "-o", "b.mtx"], 2, "--step"),
        (&["matrix", "generate", "biot", "--size", "2", "--step", "-1", "-o", "b.mtx"], 2, "step"),
        (&["matrix", "convert", "a.mtx", "no/b.mtx"], 1, "no folder"),
    ] {
        let ran = run(here, args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{args:?}: {}", ran.stderr);
    }
    assert!(!here.join("b.mtx").exists());
}
