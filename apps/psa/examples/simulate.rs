//! Simulation of a small crystal from a text: its fields, and the signals of three points as a
//! table.
//!
//! `cargo run --release -p zellige-psa --example simulate`

use std::path::Path;
use std::sync::Arc;

use zellige_psa::basis::Sampling;
use zellige_psa::channels::{CHANNELS, Channel};
use zellige_psa::detector::{self, Detector};
use zellige_psa::electronics::Electronics;
use zellige_psa::observe::Silent;
use zellige_psa::params::parse_crystal;
use zellige_psa::simulate::{basis, lattice, unsettled};
use zellige_runtime::Runtime;

/// A cylinder of 24 mm with a bore; `zellige psa crystal` prints a crystal of a real size that
/// explains every key.
const CRYSTAL: &str = r#"
name = "a small cylinder"
length = 24.0
radius = 12.0
bore_radius = 2.0
bore_start = 6.0
rings = [4.0, 4.0, 4.0, 4.0, 4.0, 4.0]
front = "contact"
bias = 800.0
impurity = [1.0, 0.8]
temperature = 78.0
axis_angle = 45.0
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let crystal = parse_crystal(Path::new("example"), CRYSTAL)?;
    let rt = Runtime::new()?;

    // One potential for the bias and the space charge, one for each contact, on nodes 1 mm apart.
    let fields = Arc::new(detector::fields(&rt, &crystal, 1.0, &Silent)?);
    println!(
        "{} nodes, the weighting potentials add up to 1 within {:.0e}",
        fields.grid().len(),
        fields.worst_sum(&crystal)
    );

    // Points every 2 mm; a pair of charges drifts from each, and 37 contacts see it.
    let detector = Arc::new(Detector::new(&crystal, fields, Electronics::default(), 1.0)?);
    let sampling = Sampling { samples: 60, step: 10.0, before: 2 };
    let points = lattice(&crystal, 2.0)?;
    let basis = basis(&rt, &detector, &points, sampling, &Silent)?;
    println!("{} points, {} of them not settled\n", points.len(), unsettled(&basis, 0.01).len());

    println!(
        "point       x, y, z (mm)   segment   and its signal 30, 60, 120, 240 ns after the charge was made"
    );
    for point in [points.len() / 4, points.len() / 2, 3 * points.len() / 4] {
        let (place, segment) = (basis.positions()[point], basis.segments()[point]);
        let signal = basis.signal(point, Channel::from(segment));
        let [x, y, z] = place;
        print!("{point:>5}  {x:>4} {y:>4} {z:>4}   {:>7}  ", segment.index());
        for sample in [5, 8, 14, 26] {
            print!("{:>6.3} ", signal[sample]);
        }
        println!();
    }
    println!("\n{CHANNELS} channels a point, 1 is the whole charge");
    Ok(())
}
