//! Tests of all measurements on mock GPUs.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use zellige_app::json::Provenance;
use zellige_files::observe::Silent;
use zellige_gpu::mock::MockBuilder;
use zellige_gpu::{Driver, Library};
use zellige_kernels::cuda::{SELL_SOURCES, SOURCES, SPARSE_SOURCES};
use zellige_sim::platform::Platform;
use zellige_tor::covariance::device::SOURCE;

use super::*;
use crate::tests::{NOBODY, run};

/// Returns a mock with every measured kernel.
fn twins() -> Option<MockBuilder> {
    zellige_twins::mock([SOURCES, SELL_SOURCES, SPARSE_SOURCES].into_iter().flatten().chain([&SOURCE]))
}

fn mock(memory: u64, without: Option<Library>) -> Option<Arc<dyn Driver>> {
    let builder = twins()?.memory(memory).measured_links();
    let builder = without.into_iter().fold(builder, |builder, library| builder.without(library));
    Some(Arc::new(builder.build()))
}

fn sizes(n: &[u32]) -> Sizes {
    let rules = ["fp32", "hp1:operand=1e-2,else=x3"].map(|rule| rule.parse().unwrap());
    Sizes {
        parts: Part::ALL.into(),
        tuning: Tuning { streams: 3, urgent: true, ..Tuning::default() },
        routines: vec![16, 32],
        n: n.to_vec(),
        tile: 16,
        rules: rules.into(),
        solve_rule: None,
        fuse_updates: 2,
        by_inverses: true,
        out_of_core: 192,
        workers: 2,
        sparse: SparseSizes { cells: [8, 7, 6], elements: [4; 3] },
        tor: vec![],
        tor_tile: Some(32),
        repeats: 1,
        budget: Duration::from_secs(1 << 30),
        spread: 4096,
        replays: 3,
        peak: 48,
        copy: 100_000,
        seconds: 0.0,
    }
}

fn listeners<'a>(run: &'a Provenance, save: &'a dyn Fn(&Figures)) -> Listeners<'a> {
    Listeners { progress: &Silent, save, watch: NOBODY, run }
}

/// Measures everything and checks that it is complete.
fn complete(driver: &Arc<dyn Driver>, sizes: &Sizes) -> Figures {
    let (figures, measured) = measure(driver, 0, sizes, listeners(&run(), &|_| ())).unwrap();
    measured.unwrap();
    assert!(figures.complete);
    figures
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The shares of a run add up to its time.
fn assert_split(row: &Value) {
    let shares = ["kernels_share", "transfers_share", "gaps_share", "host_share"]
        .map(|key| row[key].as_f64().unwrap());
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && shares[0] > 0.0, "{row}");
    assert!(row["idle_share"].as_f64().is_none_or(|share| (0.0..=1.0).contains(&share)), "{row}");
}

/// Collects every number of a value, by its last key.
fn numbers<'v>(value: &'v Value, key: &'v str, found: &mut Vec<(&'v str, f64)>) {
    match value {
        Value::Number(x) => found.push((key, x.as_f64().unwrap())),
        Value::Array(all) => all.iter().for_each(|value| numbers(value, key, found)),
        Value::Object(all) => all.iter().for_each(|(key, value)| numbers(value, key, found)),
        _ => {}
    }
}

#[test]
fn everything_is_measured_and_has_the_documented_keys() {
    let Some(driver) = mock(1 << 30, None) else { return };
    let tor = TorSize::all(&[4]);
    // Often enough for all kernels of a rule by position to be known.
    let figures = complete(&driver, &Sizes { tor, repeats: 3, ..sizes(&[48, 100]) });
    assert_eq!(figures.failed, [] as [String; 0]);
    let unknown = |line: &String| line.starts_with("prediction of n = ") && line.contains("operand");
    assert!(figures.left_out.iter().all(unknown), "{:?}", figures.left_out);
    assert_eq!(figures.failed, [] as [String; 0]);
    let json = serde_json::to_value(&figures).unwrap();
    let wanted = "complete gpu libraries tile fuse_updates by_inverses solve_precision streams urgent_stream depth parts repeats budget_seconds seconds products copies replays routines latencies cholesky memory with_cpu several sparse tor platform left_out failed";
    assert_eq!(keys(&json), wanted.split(' ').collect());
    let part = |key: &str| json[key].as_array().unwrap();
    let wanted = "precision products seconds tflops plain_tflops fraction peak peak_tflops fraction_of_peak sm_clock_mhz power_w energy_j watched_seconds";
    assert!(part("products").iter().all(|row| keys(row) == wanted.split(' ').collect()), "{json}");
    for row in part("products") {
        let wanted = "order seconds tflops sm_clock_mhz power_w energy_j watched_seconds";
        assert_eq!((keys(&row["peak"]), &row["peak"]["order"]), (wanted.split(' ').collect(), &48.into()));
        let [peak, large, plain] = [&row["peak_tflops"], &row["peak"]["tflops"], &row["plain_tflops"]]
            .map(|rate| rate.as_f64().unwrap());
        assert_eq!(peak, large.max(plain));
        let of_peak = row["fraction_of_peak"].as_f64().unwrap();
        assert!((of_peak * peak / row["tflops"].as_f64().unwrap() - 1.0).abs() < 1e-12, "{row}");
    }
    assert_eq!((part("products").len(), part("cholesky").len(), part("memory").len()), (9, 2, 4));
    for size in part("cholesky") {
        assert_eq!(keys(size), ["n", "cusolver_f32", "cusolver_f64", "tiled"].into());
        assert_eq!(size["tiled"].as_array().unwrap().len(), 2);
        assert!(size["tiled"][1]["x_cusolver_f32"].as_f64().unwrap() > 0.0, "{size}");
    }
    assert!(part("memory").iter().all(|row| row["same_bits"] == true), "{json}");
    for row in part("cholesky").iter().flat_map(|size| size["tiled"].as_array().unwrap()) {
        let tasks: u64 = row["codelets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|codelet| codelet["tasks"].as_u64().unwrap())
            .sum();
        assert!(tasks >= 9 && row["over_bound"].as_f64().unwrap() > 0.0, "{row}");
        assert!((0.0..=1.0).contains(&row["idle_share"].as_f64().unwrap()), "{row}");
        assert_split(row);
        if row["predicted_seconds"].is_null() && row["rule"] != "fp32" {
            continue;
        }
        let [predicted, seconds] = [&row["predicted_seconds"], &row["seconds"]].map(|x| x.as_f64().unwrap());
        let ratio = row["predicted_by_measured"].as_f64().unwrap();
        assert!(predicted > 0.0 && (ratio * seconds / predicted - 1.0).abs() < 1e-9, "{row}");
    }
    let platform = Platform::parse(json["platform"].as_str().unwrap()).unwrap();
    assert_eq!((platform.nodes.len(), platform.devices.len(), part("several").len()), (2, 1, 0));
    let fraction = |row: &Value| row["fraction_of_limit"].as_f64().unwrap();
    let limited =
        part("cholesky").iter().map(|size| &size["tiled"][1]).chain(part("memory")).chain(part("tor"));
    assert!(limited.into_iter().all(|row| fraction(row) > 0.0), "{json}");
    part("memory").iter().chain(part("with_cpu")).chain(part("tor")).for_each(assert_split);
    assert_eq!(part("routines").len(), 10);
    assert!(json["latencies"]["spinning_seconds"].as_f64().unwrap() > 0.0, "{json}");
    assert_eq!(part("with_cpu").len(), 2);
    assert!(part("with_cpu").iter().all(|row| row["ratio"].as_f64().unwrap() > 0.0), "{json}");
    assert!(part("memory")[1]["evictions"].as_u64().unwrap() > 0, "{json}");
    let mut found = Vec::new();
    numbers(&json, "", &mut found);
    let rates = ["seconds", "tflops", "plain_tflops", "fraction", "to_gpu", "to_host", "within"];
    let rates: Vec<_> = found.iter().filter(|(key, _)| rates.contains(key)).collect();
    assert!(rates.len() > 9 * 4 && rates.iter().all(|(_, x)| *x > 0.0), "{rates:?}");
    for rate in part("products").iter().chain([&json["copies"], &json["cholesky"][0]["cusolver_f32"]]) {
        assert_eq!((&rate["sm_clock_mhz"], &rate["power_w"]), (&1500.0.into(), &300.0.into()), "{rate}");
    }
    let tiled = part("cholesky").iter().map(|size| &size["tiled"][0]).chain(part("memory"));
    assert!(
        tiled.into_iter().all(|run| run["sm_clock_mhz"] == 1500.0 && run["energy_j"].is_number()),
        "{json}"
    );
    let wanted = "matrix rows nonzeros block_size set eps bytes seconds bytes_per_second of_copy x_fp64 sm_clock_mhz power_w energy_j watched_seconds";
    for (at, row) in part("sparse").iter().enumerate() {
        assert_eq!(keys(row), wanted.split(' ').collect(), "{row}");
        let figure = |key: &str| row[key].as_f64().unwrap();
        let moved = figure("bytes") + 16.0 * figure("rows");
        assert!((figure("bytes_per_second") * figure("seconds") / moved - 1.0).abs() < 1e-9, "{row}");
        let of_copy = figure("bytes_per_second") / json["copies"]["within"].as_f64().unwrap();
        assert!((figure("of_copy") / of_copy - 1.0).abs() < 1e-9, "{row}");
        assert_eq!(row["x_fp64"].is_null(), [0, 4].contains(&at), "{row}");
    }
    let stored =
        |row: &Value| format!("{} {} {} {}", row["matrix"], row["block_size"], row["set"], row["eps"]);
    let sparse: Vec<String> = part("sparse").iter().map(stored).collect();
    assert_eq!(sparse.len(), 7, "{sparse:?}");
    assert_eq!(
        (&sparse[3][..], &sparse[6][..]),
        (r#""flow" 1 "AP7" "2^-24""#, r#""elasticity" 3 "AP7" "2^-24""#)
    );
    let replays = &json["replays"];
    assert_eq!(keys(replays), ["tasks", "task_by_task_seconds", "one_launch_seconds"].into());
    assert!(replays["one_launch_seconds"].as_f64().unwrap() > 0.0, "{replays}");
    let text = figures.text(false);
    let summary: Vec<&str> = text.split("\nsummary").nth(1).unwrap().lines().skip(1).collect();
    let beginnings = [
        "products, of peak ",
        "Cholesky n = 48 ",
        "Cholesky n = 100 ",
        "predicted by measured ",
        "sparse products ",
        "reconstructor n = ",
        "reconstructor n = ",
        "time by that in memory ",
        "CPU and GPU ",
        "replay as one launch ",
    ];
    assert_eq!(summary.len(), beginnings.len(), "{text}");
    for (line, beginning) in summary.iter().zip(beginnings) {
        assert!(line.starts_with(beginning), "{beginning}: {text}");
    }
    assert!(summary[0].contains("fp64 ") && summary[1].contains("x cuSOLVER f32"), "{text}");
    assert!(summary[7].contains("on 2 parts of the GPU "), "{text}");
    assert!(text.contains("MHz") && text.contains(" 300"), "{text}");
    assert!(text.contains("cuSOLVER f64") && text.contains("in 30 %") && text.contains("bf1"), "{text}");
}

/// Tests a GPU that is lost halfway: earlier measurements stay, the rest are lines, and at each
/// moment there were valid figures.
#[test]
fn a_gpu_that_is_lost_halfway_takes_no_figures_along() {
    let Some(twins) = twins() else { return };
    let mock = Arc::new(twins.memory(1 << 30).build());
    let driver: Arc<dyn Driver> = mock.clone();
    let (saved, is_lost) = (std::cell::RefCell::new(Vec::new()), std::cell::Cell::new(false));
    let save = |figures: &Figures| {
        saved.borrow_mut().push(serde_json::to_value(figures).unwrap());
        if figures.replays.is_some() && !is_lost.replace(true) {
            mock.inject(0, zellige_gpu::mock::Fault::Launch(1)).unwrap();
        }
    };
    let sizes = Sizes { tor: TorSize::all(&[4]), ..sizes(&[48]) };
    let (figures, measured) = measure(&driver, 0, &sizes, listeners(&run(), &save)).unwrap();
    measured.unwrap();
    assert!(figures.complete && !figures.failed.is_empty());
    assert!(figures.products.len() == 9 && figures.copies.is_some() && figures.tor.is_empty());
    // cuSOLVER twice, two rules, little memory, two rules together, seven sparse matrices,
    // reconstructors.
    assert!(figures.failed.len() >= 15, "{:#?}", figures.failed);
    assert!(figures.failed.iter().any(|line| line.starts_with("tiled n = 48, fp32: ")));
    let saved = saved.into_inner();
    let rows = |json: &Value| json["products"].as_array().unwrap().len();
    let counts: Vec<usize> = saved.iter().map(rows).take(9).collect();
    assert_eq!(counts, (1..=9).collect::<Vec<usize>>());
    assert!(saved.iter().all(|json| json["complete"] == false && json["failed"].is_array()));
    assert_eq!(saved.last().unwrap()["cholesky"][0]["n"], 48);
}

/// Two GPUs and all three; without time nothing large begins, and lines say so.
#[test]
fn several_gpus_are_measured_together_as_long_as_there_is_time() {
    let Some(twins) = twins() else { return };
    let driver: Arc<dyn Driver> = Arc::new(twins.gpus(3).memory(1 << 30).build());
    let rules = vec!["fp32".parse().unwrap()];
    let few = Sizes { rules, ..sizes(&[96]) };
    let figures = complete(&driver, &few);
    assert_eq!(figures.failed, [] as [String; 0]);
    let json = serde_json::to_value(&figures).unwrap();
    let several = json["several"].as_array().unwrap();
    let counts: Vec<u64> = several.iter().map(|row| row["gpus"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 2, 3, 3], "{json}");
    // Of the other rule there is no row of one GPU.
    assert!(several[0]["x_one"].as_f64().unwrap() > 0.0 && several[1]["x_one"].is_null(), "{json}");
    assert!(figures.text(false).contains("several GPUs "), "{}", figures.text(false));
    let none = Sizes { budget: Duration::ZERO, tor: TorSize::all(&[4]), ..few };
    let figures = complete(&driver, &none);
    assert_eq!(figures.failed, [] as [String; 0]);
    assert!(figures.cholesky.iter().all(|size| size.tiled.is_empty() && size.cusolver_f32.is_none()));
    assert!(figures.products.is_empty() && figures.tor.is_empty() && figures.several.is_empty());
    let text = figures.text(false);
    let spent =
        |what: &str| text.contains(&format!("left out: {what}: the time budget is used up (--budget 0)"));
    let whats = [
        "tiled n = 96, fp32",
        "cuSOLVER n = 96, fp64",
        "fp8 products",
        "n = 96, fp32 on 3 GPUs",
        "sparse products, flow",
    ];
    for what in whats {
        assert!(spent(what), "{what}: {text}");
    }
}

#[test]
fn what_was_not_named_is_not_measured() {
    let Some(driver) = mock(1 << 30, None) else { return };
    let figures = complete(&driver, &Sizes { parts: vec![Part::Copies, Part::Routines], ..sizes(&[48]) });
    assert_eq!((figures.failed.len(), figures.left_out.len()), (0, 0));
    let json = serde_json::to_value(&figures).unwrap();
    assert_eq!(json["parts"], serde_json::json!(["copies", "routines"]));
    assert!(json["copies"].is_object() && json["replays"].is_null(), "{json}");
    let counts =
        ["routines", "products", "cholesky", "memory", "tor"].map(|key| json[key].as_array().unwrap().len());
    assert_eq!(counts, [10, 0, 0, 0, 0]);
}

#[test]
fn without_nvml_rates_are_measured_all_the_same() {
    let Some(driver) = mock(1 << 30, Some(Library::Nvml)) else { return };
    let few = Sizes { out_of_core: 64, ..sizes(&[]) };
    let figures = complete(&driver, &few);
    let text = figures.text(false);
    assert!(text.contains("left out: clock rates and power: NVML is not usable"), "{text}");
    let json = serde_json::to_value(&figures).unwrap();
    assert!(json["products"][0]["power_w"].is_null() && json["products"][0]["tflops"].is_number(), "{json}");
}

#[test]
fn what_has_no_room_and_what_fails_are_lines() {
    let Some(driver) = mock(200 << 20, Some(Library::CublasLt)) else { return };
    let figures = complete(&driver, &sizes(&[200_000]));
    let text = figures.text(false);
    assert!(text.contains("left out: fp8 products: cuBLASLt is missing"), "{text}");
    assert!(text.contains("left out: cuSOLVER n = 200000, fp64: needs"), "{text}");
    assert!(text.contains("left out: tiled n = 200000, fp32: needs"), "{text}");
    assert_eq!((figures.products.len(), figures.failed.len()), (8, 0));
    let few = Sizes { out_of_core: 32, n: vec![], ..sizes(&[]) };
    let figures = complete(&driver, &few);
    assert!(figures.failed.len() == 4 && figures.memory.is_empty(), "{:?}", figures.failed);
    assert!(figures.failed[1].contains("in 30 %") && figures.failed[1].contains("needs"));
    assert!(!figures.failed.is_empty() && figures.text(false).contains("FAILED: n = 32"));
}
