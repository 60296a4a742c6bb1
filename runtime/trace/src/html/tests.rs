//! The page contains the records, and no name in them can inject code.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::data::PageData;
use crate::samples::{ODD, diamond, event, gpu, phase, traces, transfer};
use crate::{MemoryEvent, Trace, tracks::nanos};

fn page(trace: &Trace, title: &str) -> String {
    let mut text = Vec::new();
    trace.write_html(title, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn embedded(page: &str) -> Value {
    let (_, after) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

/// Returns the number of tasks and their time, summed over the page's shapes.
fn drawn(data: &Value) -> (u64, u64) {
    summed(data, "items", |row| row < data["workers"].as_u64().unwrap())
}

/// Returns the number of transfers and their time.
fn moved(data: &Value) -> (u64, u64) {
    summed(data, "moves", |row| row >= data["workers"].as_u64().unwrap())
}

/// Returns number and time of single shapes, and of the parts of the blocks on some rows.
fn summed(data: &Value, single: &str, rows: impl Fn(u64) -> bool) -> (u64, u64) {
    let single = data[single].as_array().unwrap();
    let blocks =
        data["blocks"].as_array().unwrap().iter().filter(|block| rows(block["row"].as_u64().unwrap()));
    let parts = blocks.flat_map(|block| block["parts"].as_array().unwrap());
    let one = single.iter().map(|item| (1, item[3].as_u64().unwrap()));
    let many = parts.map(|part| (part[1].as_u64().unwrap(), part[2].as_u64().unwrap()));
    one.chain(many).fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
}

#[test]
fn the_diamonds_page_has_its_numbers_and_no_placeholder_left() {
    let page = page(&Trace { phases: vec![phase("solve", 45)], ..diamond() }, "A & B");
    assert!(!page.contains("@@"));
    assert_eq!(page.matches("A &amp; B").count(), 2);
    for text in ["50.0 µs", "35.0 µs", "70.0 %", "1.00 ×", "All 4 tasks drawn.", "2 potrf, 1 trsm"] {
        assert!(page.contains(text), "{text} is missing");
    }
    let data = embedded(&page);
    assert_eq!(data["extent"], 50_000);
    assert_eq!(data["path"], serde_json::json!([0, 3, 2]), "1, 3 and 4 in the order of workers");
    assert_eq!(data["items"][3][2], 10_000);
    assert_eq!(data["phases"], json!([["solve", 40_000, 50_000]]));
    assert_eq!(data["histograms"][0]["median"], 25_000);
}

#[test]
fn a_gpus_page_has_its_links_its_memory_and_its_predictions() {
    let page = page(&gpu(), "t");
    for text in
        ["All 4 tasks and 3 transfers drawn.", "host → gpu 0", "1.25 ×", "Memory nodes", "<td>1.200</td>"]
    {
        assert!(page.contains(text), "{text} is missing");
    }
    let data = embedded(&page);
    let tracks: Vec<&str> =
        data["tracks"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(tracks, ["cpu 0", "gpu 0", "host → gpu 0", "gpu 0 → host"]);
    assert_eq!((data["workers"].as_u64(), data["tracks"][2]["levels"].as_u64()), (Some(2), Some(2)));
    assert_eq!(data["codelets"], json!(["trsm", "potrf", "fetch", "prefetch", "write-back"]));
    // Row, lane, start, duration, kind, handle, bytes, converted.
    assert_eq!(data["moves"][1], json!([2, 1, 3000, 6000, 3, 8, 32, 1]));
    assert_eq!(data["kinds"][3], json!([3, 1]));
    assert_eq!(data["labels"], json!(["f32", "f16"]));
    assert_eq!(data["items"][3][12], 25_000);
    let used = &data["curves"][1];
    assert_eq!((&used["name"], &used["limit"]), (&"gpu 0".into(), &1000.into()));
    assert_eq!(used["points"], json!([[0, 64, 64], [3000, 96, 96], [45_000, 32, 32]]));
    assert_eq!(data["tracks"][1]["rests"], json!([0.2, 0.0, 0.2]));
    assert_eq!((data["curves"].as_array().unwrap().len(), data["ran"].as_u64()), (2, Some(2)));
    // A run on the host alone has no section on memory nodes.
    assert!(!super::tests::page(&diamond(), "t").contains("Memory nodes"));
}

#[test]
fn the_page_asks_for_nothing_from_outside() {
    let page = page(&diamond(), "t");
    for way in ["src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!page.contains(way), "{way}");
    }
    // The name of a vocabulary, which is never loaded.
    assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("://"));
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_long_run_is_merged_and_the_page_says_so() {
    let tasks = (0..120_000u64)
        .map(|id| {
            let start = 10 * (id / 4);
            let took = if id % 1000 == 0 { 9 } else { 1 + id % 5 };
            event((id % 4) as u32, id, if id % 3 == 0 { "gemm" } else { "syrk" }, start, start + took)
        })
        .collect();
    let transfers: Vec<_> = (0..100_000u64).map(|n| transfer(n as u32 % 2, 1, 3 * n, 3 * n + 4)).collect();
    let memory = (0..100_000).map(|n| MemoryEvent { node: 1, at_ns: 3000 * n, used: n % 977 }).collect();
    let trace = Trace { tasks, transfers, memory, ..diamond() };
    let page = page(&trace, "long");
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
    assert!(page.contains("of 120\u{202f}000 tasks and "));
    let data = embedded(&page);
    assert!(data["curves"].as_array().unwrap().iter().all(|c| c["points"].as_array().unwrap().len() <= 6001));
    let shapes =
        ["items", "moves", "blocks"].map(|name| data[name].as_array().unwrap().len()).iter().sum::<usize>();
    assert!((10_000..=50_000).contains(&shapes), "{shapes} shapes");
    assert_eq!(drawn(&data), (120_000, trace.tasks.iter().map(nanos).sum()));
    assert_eq!(moved(&data), (100_000, 100_000 * 4_000));
}

proptest! {
    #[test]
    fn no_text_of_the_user_is_markup(trace in traces(), title in prop::sample::select(&ODD[..])) {
        let page = page(&trace, title);
        prop_assert_eq!(page.matches("</script").count(), 2);
        prop_assert_eq!(page.matches("<script").count(), 2);
        for odd in ODD.iter().filter(|odd| odd.contains(['<', '"'])) {
            prop_assert!(!page.contains(odd), "{}", odd);
        }
        prop_assert!(!page.contains('\0'));
        let data = embedded(&page);
        prop_assert_eq!(drawn(&data).0, trace.tasks.len() as u64);
        prop_assert_eq!(moved(&data).0, trace.transfers.len() as u64);
        let names = data["codelets"].as_array().unwrap();
        prop_assert!(trace.tasks.iter().all(|task| names.contains(&task.name.into())));
    }

    #[test]
    fn merging_keeps_every_task_and_all_time(trace in traces(), limit in 1usize..30) {
        let report = trace.report();
        let whole = serde_json::to_value(PageData::new(&trace, &report, usize::MAX)).unwrap();
        let page = PageData::new(&trace, &report, limit);
        let merged = serde_json::to_value(&page).unwrap();
        prop_assert_eq!(drawn(&whole), drawn(&merged));
        prop_assert_eq!(moved(&whole), moved(&merged));
        let levels: u64 = merged["tracks"].as_array().unwrap().iter().map(|w| w["levels"].as_u64().unwrap()).sum();
        prop_assert!(page.drawn().0 + page.drawn().1 + page.merged() <= limit.max(levels as usize));
        for block in merged["blocks"].as_array().unwrap() {
            let busy: u64 = block["parts"].as_array().unwrap().iter().map(|p| p[2].as_u64().unwrap()).sum();
            prop_assert!(busy <= block["end"].as_u64().unwrap() - block["start"].as_u64().unwrap());
        }
    }
}
