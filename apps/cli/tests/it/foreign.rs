//! Exchange of files with other programs, in both directions, if Python has these programs.

use std::path::Path;
use std::process::Command;

use crate::common::{ok, result};

/// Runs a Python program in a folder. If a module that it needs is not installed, prints so and
/// returns false.
fn python(here: &Path, module: &str, program: &str, args: &[&str]) -> bool {
    let has = Command::new("python3").args(["-c", &format!("import {module}")]).output();
    if !has.is_ok_and(|has| has.status.success()) {
        zellige_tests::skipped(&format!("not installed: {module} for python3"));
        return false;
    }
    let ran = Command::new("python3").arg("-c").arg(program).args(args).current_dir(here).output().unwrap();
    assert!(
        ran.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    true
}

/// Astropy reads units, axes, tables and dates of a reconstructor and its covariances.
#[test]
fn astropy_opens_fits_files() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let system =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../tor/tests/fixtures/oblique.yaml"))
            .unwrap();
    std::fs::write(here.join("a.yaml"), system).unwrap();
    ok(here, &["tor", "build", "a.yaml", "-o", "R.fits", "--slope-order", "xyxy"]);
    ok(here, &["tor", "cov", "a.yaml", "-o", "C.fits"]);
    ok(here, &["tor", "build", "a.yaml", "-o", "six.fits", "--bits", "6"]);
    ok(here, &["tor", "build", "a.yaml", "-o", "six.npy", "--bits", "6"]);
    python(
        here,
        "astropy",
        r#"
import datetime, warnings
import numpy as np
from astropy.io import fits
from astropy.units import Unit
warnings.simplefilter("error")
with fits.open("R.fits") as f:
    f.verify("exception")
    assert [h.name for h in f] == ["R", "STARS", "GEOMETRY"], f.info()
    head = f["R"].header
    assert Unit(head["BUNIT"].strip()) == Unit("")
    assert head.comments["NAXIS1"] == "measurements" and head.comments["NAXIS2"] == "truth-sensor slopes"
    assert head["CREATOR"].startswith("zellige ") and head["ZENITH"] == 40.0 and head["WAVELEN"] == 1.65e-6
    assert datetime.datetime.fromisoformat(head["DATE"]).year >= 2024
    stars, cells = f["STARS"].data, f["GEOMETRY"].data
    assert list(stars["KIND"]) == ["LGS", "NGS"] and list(stars["X"]) == [14.0, -20.0]
    assert abs(stars["ALTITUDE"][0] - 85000 / np.cos(np.radians(40))) < 1e-6 and np.isinf(stars["ALTITUDE"][1])
    assert f["STARS"].columns["X"].unit == "arcsec" and f["GEOMETRY"].columns["X"].unit == "m"
    n, m = head["NMEAS"], head["NTS"]
    assert f["R"].data.shape == (m, n)
    for wfs, count in ((-1, m), (None, n)):
        of = cells["WFS"] == -1 if wfs == -1 else cells["WFS"] >= 0
        both = np.concatenate([cells["XSLOPE"][of], cells["YSLOPE"][of]])
        assert sorted(both) == list(range(count))
    assert list(cells["YSLOPE"] - cells["XSLOPE"]) == [1] * len(cells)
    assert np.hypot(cells["X"], cells["Y"]).max() < 3.6
with fits.open("six.fits") as f:
    f.verify("exception")
    assert [h.name for h in f] == ["CODES", "SCALES", "EDGES", "BITS", "STARS", "GEOMETRY"], f.info()
    assert f["CODES"].header["NMEAS"] == n and (f["BITS"].data == 6).all() and abs(f["CODES"].data).max() == 31
    entries = f["CODES"].data * np.repeat(f["SCALES"].data, np.diff(f["EDGES"].data), axis=1).astype(float)
    assert (entries == np.load("six.npy")).all()
with fits.open("C.fits") as f:
    assert [h.name for h in f] == ["CMM", "CTM", "CTT", "STARS", "GEOMETRY"]
    for name in ("CMM", "CTM", "CTT"):
        assert Unit(f[name].header["BUNIT"]) == Unit("arcsec2")
    assert np.allclose(f["CMM"].data, f["CMM"].data.T) and f["CTM"].data.shape == (m, n)
"#,
        &[],
    );
}

/// The program of the guide converts a ROOT tree of a zellige basis.
#[test]
fn root_trees_become_archives() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let guide = include_str!("../../../../docs/how-to/agata-bases.md");
    let program = guide.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let words = |line: &str| ok(here, &line.split(' ').collect::<Vec<_>>());
    words("psa simulate --grid 5 --step 12 --format record -o basis.dat");
    words("psa simulate --grid 5 --step 12 -o folder");
    words("psa events --basis folder -n 6 -o ev");
    let tree = r#"
import numpy as np, uproot
point = np.dtype([("place", "<f4", 3), ("rest", "<f4", 2), ("seg", "<i4"), ("pulse", "<f4", 4477)])
basis = np.fromfile("basis.dat", point)
core = basis["pulse"].reshape(-1, 37, 121)[:, 36]
core *= -1
with uproot.recreate("basis.root") as f:
    tree = f.mktree("tree", {"seg": "int32", "pos": np.dtype(("f4", (3,))), "spulse": np.dtype(("f4", (4477,)))})
    tree.extend({"seg": basis["seg"] + 1, "pos": basis["place"], "spulse": 250 * basis["pulse"]})
"#;
    if !python(here, "uproot", tree, &[]) || !python(here, "uproot", program, &["basis.root", "basis.npz"]) {
        return;
    }
    let search = "--window 40 --method fgs --json -";
    let converted = result(&words(&format!("psa run --basis basis.npz --events ev {search}")));
    assert!(converted["events"].as_array().unwrap().len() >= 6);
    let check = r#"
import numpy as np
point = np.dtype([("place", "<f4", 3), ("rest", "<f4", 2), ("seg", "<i4"), ("pulse", "<f4", 4477)])
basis, npz = np.fromfile("basis.dat", point), np.load("basis.npz")
pulses = basis["pulse"].reshape(-1, 37, 121)
assert (npz["positions"] == basis["place"]).all() and (npz["segments"] == basis["seg"]).all()
whole = pulses[np.arange(len(basis)), basis["seg"], -1]
wanted = (pulses / whole[:, None, None])[:, :, :120].reshape(-1, 37, 60, 2).mean(axis=3)
assert np.abs(npz["signals"] - wanted).max() < 1e-5
"#;
    assert!(python(here, "numpy", check, &[]));
    let refused = crate::common::run(here, &["psa", "run", "--basis", "basis.root", "--events", "ev"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("ROOT file"), "{}", refused.stderr);
}

/// SciPy's sparse matrices are read in every format, index type and number type.
#[test]
fn scipy_saves_matrices_that_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let has = python(
        here,
        "scipy",
        r#"
import numpy as np, scipy.sparse as sp
rng = np.random.default_rng(3)
kinds = [np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_]
for k, (form, index) in enumerate((f, i) for f in ["csr", "csc", "coo", "bsr", "dia"] for i in [np.int32, np.int64]):
    dense = (rng.integers(0, 5, (6, 4)) * (rng.random((6, 4)) < 0.5)).astype(kinds[k % len(kinds)])
    made = (sp.coo_array if hasattr(sp, "coo_array") and k % 3 else sp.coo_matrix)(dense)
    a = made.tobsr(blocksize=(3, 2)) if form == "bsr" else made.asformat(form)
    for name in ["indices", "indptr", "offsets", "row", "col"]:
        if hasattr(a, name):
            setattr(a, name, getattr(a, name).astype(index))
    sp.save_npz(f"{k}.npz", a, compressed=k % 2 == 0)
    rows = [f"{i + 1} {j + 1} {dense[i, j]:.0f}" for i, j in np.argwhere(dense).tolist()]
    open(f"{k}.txt", "w").write("\n".join([f"6 4 {len(rows)}"] + rows) + "\n")
    np.save("dense.npy", np.asfortranarray(dense))
"#,
        &[],
    );
    if !has {
        return;
    }
    std::fs::rename(here.join("dense.npy"), here.join("10.npz")).unwrap();
    std::fs::copy(here.join("9.txt"), here.join("10.txt")).unwrap();
    for k in 0..11 {
        ok(here, &["matrix", "convert", &format!("{k}.npz"), "b.mtx"]);
        let written = std::fs::read_to_string(here.join("b.mtx")).unwrap();
        let body = written.split_once('\n').unwrap().1.replace("e0\n", "\n");
        assert_eq!(body, std::fs::read_to_string(here.join(format!("{k}.txt"))).unwrap(), "{k}");
    }
}
