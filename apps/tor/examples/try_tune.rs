use std::path::Path;
use zellige_files::observe::Observer;
use zellige_tor::params::{Mode, read};
use zellige_tor::pipeline::tune::*;
use zellige_tor::pipeline::{Options, Silent, TileChoice};
struct Lines;
impl Observer for Lines {
    fn stage(&self, name: &str, total: u64) {
        eprintln!("{name}: {total}");
    }
    fn advance(&self, done: u64) {
        eprint!("{done} ");
    }
    fn warn(&self, text: &str) {
        eprintln!("warning: {text}");
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let atm = a.get(8).map(Path::new);
    let mut input = read(Path::new(&a[1]), atm, Mode::Lenient).unwrap();
    input.system.targets.truncate(1);
    let options = Options { tile: TileChoice::Uniform(a[2].parse().unwrap()), ..Options::default() };
    let platform =
        (a[4] != "bytes").then(|| Box::new(zellige_sim::platform::Platform::shipped(&a[4]).unwrap()));
    let tuning = Tuning {
        formats: a[3].split(',').map(|f| f.parse().unwrap()).collect(),
        panels: zellige_dense::PanelPrecision::ALL.to_vec(),
        items: if a[5] == "tiles" { Granularity::Tiles } else { Granularity::Classes },
        cost: platform.map_or(CostModel::Bytes, |platform| CostModel::Predicted { platform, ahead: 2 }),
        acceptance: zellige_tune::Acceptance::parse(ACCEPT).unwrap(),
        verification: Some(verification(&input)),
        rules: true,
        search: zellige_tune::Options {
            max_trials: Some(a[6].parse().unwrap()),
            log: Some((a[7].clone() + ".log").into()),
            ..Default::default()
        },
    };
    let rt = zellige_runtime::Runtime::builder().workers(2).bind(false).build().unwrap();
    eprintln!("{:?}", bounds(&input, &options, &tuning).unwrap());
    let start = std::time::Instant::now();
    let result = tune(&rt, &input, &options, &tuning, &Lines).unwrap();
    println!("{}", zellige_tor::report::tune::text(&result, false));
    println!("seconds {}", start.elapsed().as_secs_f64());
    std::fs::write(a[7].clone() + ".json", result.map.to_string()).unwrap();
    std::fs::write(a[7].clone() + ".html", zellige_tor::report::tune::page("try", &result).finish()).unwrap();
}
