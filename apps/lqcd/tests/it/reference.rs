//! Comparison with values computed by MILC, for gauge fields that are not part of the project.

use serde_json::Value;
use tempfile::tempdir;
use zellige_files::observe::Silent;
use zellige_lqcd::files::{self, ByteOrder, Lattice};
use zellige_lqcd::observables::{link_trace, plaquettes};
use zellige_lqcd::pipeline::{Options, invert, results::InvertResult};
use zellige_lqcd::smear::smear;
use zellige_lqcd::{Action, Boundary, Error, Gauge};
use zellige_runtime::Runtime;
use zellige_tests::data;

use crate::written::{ildg, nersc};

/// Returns the published runs; `None` if the data are not available.
pub fn runs() -> Option<Value> {
    let path = data("lqcd/reference_small.json")?;
    let text = std::fs::read_to_string(path).expect("a file");
    let mut all: Value = serde_json::from_str(&text).expect("JSON");
    Some(all["runs"].take())
}

/// Reads a gauge field of the data.
pub fn lattice(name: &str) -> Option<Lattice> {
    Some(files::read(&data(&format!("lqcd/{name}"))?).expect("a gauge field"))
}

fn near(own: f64, published: &Value, relative: f64) {
    let published = published.as_f64().expect("a number");
    assert!((own - published).abs() <= relative * published.abs(), "{own}, not {published}");
}

#[test]
fn plaquettes_and_link_traces() {
    let Some(runs) = runs() else { return };
    for (run, order) in [("n8", ByteOrder::Little), ("n48", ByteOrder::Big)] {
        let run = &runs[run];
        let Some(read) = lattice(run["lattice"].as_str().expect("a name")) else { return };
        assert_eq!(read.byte_order, order);
        let of_field = plaquettes(&read.gauge);
        near(3.0 * of_field.ss, &run["check_plaq_ss_st_sum3"][0], 1e-10);
        near(3.0 * of_field.st, &run["check_plaq_ss_st_sum3"][1], 1e-10);
        near(of_field.mean(), &run["plaquette_avg_norm1"], 1e-10);
        near(link_trace(&read.gauge), &run["nersc_linktr"], 1e-10);
        let sums = &run["milc_sum29_sum31"];
        let named = format!("{} {}", sums[0].as_str().expect("text"), sums[1].as_str().expect("text"));
        assert_eq!(read.checksum, Some(named));
        // The same field as a NERSC file has the checksum that MILC writes.
        let folder = tempdir().expect("a folder");
        let path = folder.path().join("nersc");
        std::fs::write(&path, nersc(&read.gauge, 2, 32, ByteOrder::Big)).expect("written");
        let again = files::read(&path).expect("a gauge field");
        assert_eq!(again.checksum.as_deref(), run["nersc_cksum"].as_str());
        std::fs::write(&path, ildg(&read.gauge, 32)).expect("written");
        assert_eq!(files::read(&path).expect("a gauge field").gauge, read.gauge);
    }
}

#[test]
fn a_field_at_beta_5_7() {
    let Some(read) = lattice("own.b57.l8888.milc") else { return };
    assert!((plaquettes(&read.gauge).mean() - 0.547).abs() < 1e-3);
}

/// Smeared links of HISQ, published with 12 digits and 6.
#[test]
fn links_of_hisq() -> Result<(), Error> {
    let Some(read) = lattice("lat.sample.l8888") else { return Ok(()) };
    let (rt, mut u) = (Runtime::builder().workers(1).build()?, read.gauge);
    u.reunitarise();
    let smeared = smear(&rt, &u, Action::HISQ)?;
    assert_eq!(smeared.by_svd, 0);
    let w = plaquettes(&smeared.unitarised.expect("two levels"));
    near(3.0 * w.ss, &2.770864334484.into(), 1e-10);
    near(3.0 * w.st, &2.773943762032.into(), 1e-10);
    near(link_trace(&smeared.fat), &5.50298e-4.into(), 1e-5);
    near(link_trace(&smeared.long.expect("improved")), &(-1.78179e-5).into(), 1e-5);
    Ok(())
}

fn inverted(u: &Gauge, action: &str, boundary: Boundary, mass: f64) -> InvertResult {
    let rt = Runtime::builder().workers(1).build().expect("a runtime");
    let action = action.parse().expect("an action");
    let options = Options { action, mass, boundary, tolerance: 1e-12, ..Options::default() };
    let (result, _) = invert(&rt, u, &options, &Silent).expect("a propagator");
    assert!(result.converged && result.true_residual.iter().all(|&residual| residual <= 1e-12));
    result
}

/// Checks that iterations are within three of MILC's.
fn counts(result: &InvertResult, published: [usize; 3]) {
    let (action, mass, own) = (&result.action, result.mass, &result.iterations);
    let near = own.iter().zip(published).all(|(own, published)| own.abs_diff(published) <= 3);
    assert!(near, "{action}, mass {mass}: {own:?}, not {published:?}");
}

/// Compares correlators to seven digits, as they are printed, and iterations.
#[test]
fn correlators() {
    let Some(runs) = runs() else { return };
    for run in ["n8", "h8", "n48"] {
        let run = &runs[run];
        let Some(read) = lattice(run["lattice"].as_str().expect("a name")) else { return };
        let action = run["action"].as_str().expect("a name");
        for (mass, published) in run["masses"].as_object().expect("masses") {
            let result =
                inverted(&read.gauge, action, Boundary::Antiperiodic, mass.parse().expect("a number"));
            let steps =
                |i: usize| published["milc_cg_iters_per_color"][i].as_u64().expect("a number") as usize;
            counts(&result, [0, 2, 4].map(steps));
            for (own, published) in
                result.correlator.iter().zip(published["pion5_point_point"].as_array().expect("values"))
            {
                // The tolerance is one unit in the last of seven digits.
                near(*own, published, 5e-7);
            }
        }
    }
}

/// Compares iterations with MILC for other actions, masses and boundary conditions, and the
/// correlator of a light quark.
#[test]
fn iterations() {
    let (Some(large), Some(small)) = (lattice("lat.sample.l8888"), lattice("lat.sample.l4448")) else {
        return;
    };
    let light = inverted(&large.gauge, "hisq", Boundary::Antiperiodic, 0.01);
    counts(&light, [160, 161, 161]);
    let published = [2.793145824e-1, 6.301088645e-2, 1.830682933e-2, 1.090211347e-2, 3.832616878e-3];
    for (own, published) in light.correlator.iter().zip(published) {
        near(*own, &published.into(), 1e-9);
    }
    let asqtad = "asqtad:0.8776";
    for (action, boundary, mass, published) in [
        (asqtad, Boundary::Antiperiodic, 0.1, [189, 187, 188]),
        (asqtad, Boundary::Antiperiodic, 0.01, [231, 230, 230]),
        ("hisq", Boundary::Periodic, 0.1, [213, 216, 214]),
        ("hisq", Boundary::Periodic, 0.01, [259, 263, 262]),
    ] {
        counts(&inverted(&large.gauge, action, boundary, mass), published);
    }
    for (mass, published) in [(0.1, 166), (0.05, 179), (0.02, 186)] {
        counts(&inverted(&small.gauge, "hisq", Boundary::Antiperiodic, mass), [published; 3]);
    }
}
