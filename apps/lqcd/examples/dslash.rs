//! Rates of the staggered operator in its formats: `dslash NX NY NZ NT WORKERS REPEATS [PRECISION[:COLUMNS] ...]`.

use std::error::Error;

use zellige_lqcd::Geometry;
use zellige_lqcd::pipeline::dslash::{dslash, random_links};
use zellige_runtime::Runtime;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers = words.iter().take(6).map(|word| word.parse()).collect::<Result<Vec<usize>, _>>()?;
    let [nx, ny, nz, nt, workers, repeats] = numbers[..] else {
        return Err("dslash NX NY NZ NT WORKERS REPEATS [PRECISION[:COLUMNS] ...]".into());
    };
    let rt = Runtime::builder().workers(workers).build()?;
    let smeared = random_links(Geometry::new([nx, ny, nz, nt])?, true, 1);
    println!("precision columns ns/site bytes/site GB/s of GB/s Gflop/s");
    for word in &words[6..] {
        let (precision, columns) = word.split_once(':').unwrap_or((word, "1"));
        let result = dslash(&rt, &smeared, precision.parse()?, columns.parse()?, repeats)?;
        println!(
            "{} {} {:.1} {:.0} {:.2} of {:.2} {:.2}",
            result.precision,
            result.columns,
            result.nanoseconds,
            result.bytes,
            result.rate,
            result.bandwidth,
            result.gflops
        );
    }
    Ok(())
}
