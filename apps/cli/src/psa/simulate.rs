//! `zellige psa simulate`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zellige_app::text::digits;
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::Segment;
use zellige_psa::crystal::Crystal;
use zellige_psa::detector::{self, Detector};
use zellige_psa::electronics::Electronics;
use zellige_psa::fields::Fields;
use zellige_psa::files;
use zellige_psa::params::EXAMPLE;
use zellige_psa::pipeline::results::BasisResult;
use zellige_psa::simulate::{Cylindrical, basis, lattice, unsettled};

use super::electronics;
use crate::args::{BasisValues, PsaSimulate};
use crate::results::page_of;
use crate::run::Run;

/// A signal is settled if it is this close to its final value (fraction of the whole charge).
const SETTLED: f32 = 0.01;

/// Simulates a crystal and writes its basis.
///
/// # Errors
/// A crystal that cannot be read or is impossible, an output that cannot be written, tasks that
/// fail, Ctrl-C.
pub fn run(args: &PsaSimulate) -> anyhow::Result<()> {
    if let Some(folder) = &args.output {
        files::make_folder(folder)?;
    }
    let crystal = crystal(args)?;
    let cylindrical = args.gretina.is_some().then(|| Cylindrical::new(&crystal, args.step)).transpose()?;
    let points = match &cylindrical {
        Some(cylindrical) => cylindrical.points().to_vec(),
        None => lattice(&crystal, args.step)?,
    };
    let electronics = electronics(args.electronics, Electronics::default());
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let begin = Instant::now();
    let (fields, basis, times) = run.work(|progress| -> anyhow::Result<_> {
        let fields = Arc::new(detector::fields(run.runtime(), &crystal, args.grid, progress)?);
        let solved = begin.elapsed();
        let detector = Arc::new(Detector::new(&crystal, Arc::clone(&fields), electronics, 1.0)?);
        let basis = basis(run.runtime(), &detector, &points, sampling(args), progress)?;
        Ok((fields, basis, [solved, begin.elapsed() - solved]))
    })?;
    let target = args.record.as_ref().or(args.gretina.as_ref());
    let written: &Path = {
        match (target, &args.output) {
            (Some(target), _) => {
                match &cylindrical {
                    Some(cylindrical) => {
                        let places = cylindrical.places(basis.segments())?;
                        files::gretina::write(target, &basis, &places)?;
                    }
                    None => files::record::write(target, &basis)?,
                }
                target
            }
            (None, Some(folder)) => {
                let origin = files::basis::Origin { crystal: crystal.clone(), electronics, grid: args.grid };
                let values = match args.values {
                    BasisValues::F32 => files::basis::Values::Float32,
                    BasisValues::I16 => files::basis::Values::Int16,
                };
                if !args.no_fields {
                    files::fields::write(folder, &fields)?;
                }
                files::basis::write(folder, &basis, &origin, values)?;
                folder
            }
            (None, None) => unreachable!("one of the two is required"),
        }
    };
    let results = [BasisResult {
        points: basis.positions().len(),
        samples: basis.sampling().samples,
        nodes: fields.grid().len(),
        seconds_fields: times[0].as_secs_f64(),
        seconds_signals: times[1].as_secs_f64(),
        unsettled: unsettled(&basis, SETTLED).len(),
        depleted: detector::is_depleted(&crystal, &fields),
        written: written.display().to_string(),
    }];
    let title = format!("Basis of {}", crystal.name);
    let text = |_| text(&crystal, &fields, &basis, times, written);
    run.write(&title, &results, || page_of(&title, &results), text)
}

fn crystal(args: &PsaSimulate) -> Result<Crystal, zellige_psa::Error> {
    let crystal = match &args.crystal {
        Some(path) => Crystal::read(path)?,
        None => Crystal::parse(Path::new("zellige psa crystal"), EXAMPLE)?,
    };
    match args.bias {
        // The crystal is parsed again, so that the option obeys the limits of the file.
        Some(bias) => Crystal::parse(Path::new("--bias"), &Crystal { bias, ..crystal }.to_toml()),
        None => Ok(crystal),
    }
}

fn sampling(args: &PsaSimulate) -> Sampling {
    match (&args.record, &args.gretina) {
        (Some(_), _) => files::record::SAMPLING,
        (None, Some(_)) => files::gretina::SAMPLING,
        (None, None) => {
            Sampling { samples: args.samples.into(), step: args.sample_step, before: args.before.into() }
        }
    }
}

fn text(crystal: &Crystal, fields: &Fields, basis: &Basis, times: [Duration; 2], written: &Path) -> String {
    let mut counts = vec![0usize; Segment::all().count()];
    basis.segments().iter().for_each(|segment| counts[segment.index()] += 1);
    let (least, most) =
        (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
    let points = basis.positions().len();
    let lines = [
        format!("{}: {points} points, {least} to {most} in a segment", crystal.name),
        format!(
            "fields: {} nodes, sum of weighting potentials 1 within {:.0e}, {} s",
            fields.grid().len(),
            fields.worst_sum(crystal),
            digits(times[0].as_secs_f64())
        ),
        format!("signals: {} s", digits(times[1].as_secs_f64())),
        settled(basis),
        depleted(crystal, fields),
        format!("written: {}", written.display()),
    ];
    lines.into_iter().filter(|line| !line.is_empty()).map(|line| line + "\n").collect()
}

/// Reports the points at which the charge has not settled, and names some of them.
fn settled(basis: &Basis) -> String {
    const NAMED: usize = 5;
    let points = unsettled(basis, SETTLED);
    if points.is_empty() {
        return format!("all charges are settled within {} % at the last sample", 100.0 * SETTLED);
    }
    let place = |&point: &usize| format!("{:?}", basis.positions()[point]);
    let named: Vec<String> = points.iter().take(NAMED).map(place).collect();
    format!(
        "warning: {} charges are not settled within {} % at the last sample (--samples): {}{}",
        points.len(),
        100.0 * SETTLED,
        named.join(", "),
        if points.len() > NAMED { ", ..." } else { "" }
    )
}

/// Returns a warning if the crystal is not depleted. A potential beyond those of the contacts would
/// be that of space charge that remains in a real crystal.
fn depleted(crystal: &Crystal, fields: &Fields) -> String {
    match detector::is_depleted(crystal, fields) {
        true => String::new(),
        false => format!(
            "warning: {} V do not deplete the crystal: the fields of its undepleted part are wrong (use a larger --bias)",
            crystal.bias
        ),
    }
}
