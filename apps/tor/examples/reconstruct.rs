//! The whole pipeline in a few lines: `cargo run --release -p zellige-tor --example reconstruct --
//! SYSTEM [ATM|-] [TILE|auto] [RULE]...`
//!
//! It prints the results as JSON, and writes `report.html` to the path in the variable `REPORT`.

use std::path::Path;
use zellige_runtime::{Runtime, Subnormals};
use zellige_tor::params::{Mode, read};
use zellige_tor::pipeline::{self, Observer, Options, TileChoice, Xray};
use zellige_tor::report;

struct Lines;

impl Observer for Lines {
    fn stage(&self, name: &str, total: u64) {
        eprintln!("{name} ({total})");
    }
    fn advance(&self, _done: u64) {}
    fn warn(&self, text: &str) {
        eprintln!("warning: {text}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/systems/demo.toml");
    let system = args.first().map_or(default, String::as_str);
    let atmosphere = args.get(1).filter(|a| *a != "-");
    let tile = match args.get(2).map(String::as_str) {
        None | Some("auto") => TileChoice::Auto,
        Some(size) => TileChoice::Uniform(size.parse()?),
    };
    let mut rules: Vec<String> = args.iter().skip(3).cloned().collect();
    if rules.is_empty() {
        rules = ["fp64", "fp32", "hp1:band=2", "hp1:operand=1e-2", "x3"].map(String::from).into();
    }
    let input = read(Path::new(system), atmosphere.map(Path::new), Mode::Lenient)?;
    let report = std::env::var_os("REPORT");
    let rt = Runtime::builder().subnormals(Subnormals::Flush).build()?;
    let xray = if report.is_some() { Xray::Auto } else { Xray::Off };
    let options = Options { rules, tile, xray, ..Options::default() };
    println!("{}", pipeline::precheck(&input, &options)?);
    let outcome = pipeline::run(&rt, &input, &options, &Lines)?;
    print!("{}", zellige_app::json::text(&outcome.results)?);
    if let Some(path) = report {
        std::fs::write(&path, report::page(&outcome)?.finish())?;
        println!("report: {}", Path::new(&path).display());
    }
    Ok(())
}
