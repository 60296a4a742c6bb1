//! `zellige psa simulate`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use zellige_files::Destination;
use zellige_psa::basis::Sampling;
use zellige_psa::detector::{self, Detector};
use zellige_psa::electronics::Electronics;
use zellige_psa::events::Spec;
use zellige_psa::files;
use zellige_psa::params::{EXAMPLE, parse_crystal, read_crystal};
use zellige_psa::pipeline::results::BasisResult;
use zellige_psa::report::text;
use zellige_psa::simulate::{Cylindrical, basis, lattice, unsettled};

use super::electronics;
use crate::args::{BasisFormat, PsaSimulate};
use crate::exit::CommandError;
use crate::results::page_of;
use crate::run::Run;

/// Simulates a crystal and writes its basis.
///
/// # Errors
/// A crystal that cannot be read or is impossible, an output that cannot be written, tasks that
/// fail, Ctrl-C.
pub fn run(args: &PsaSimulate) -> anyhow::Result<()> {
    let sampling = sampling(args)?;
    let output: &Path = &args.output;
    match args.format {
        BasisFormat::F32 | BasisFormat::I16 => files::make_folder(output)?,
        BasisFormat::Record | BasisFormat::Gretina => {
            let checked = Destination::new(output).and_then(|to| to.check());
            checked.with_context(|| format!("--output {}", output.display()))?;
        }
    }
    let crystal = match &args.crystal {
        Some(path) => read_crystal(path)?,
        None => parse_crystal(Path::new("zellige psa crystal"), EXAMPLE)?,
    };
    let is_cylindrical = args.format == BasisFormat::Gretina;
    let cylindrical = is_cylindrical.then(|| Cylindrical::new(&crystal, args.step)).transpose()?;
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
        let basis = basis(run.runtime(), &detector, &points, sampling, progress)?;
        Ok((fields, basis, [solved, begin.elapsed() - solved]))
    })?;
    let folder = |values| -> Result<(), zellige_psa::Error> {
        let origin = files::basis::Origin { crystal: crystal.clone(), electronics, grid: args.grid };
        files::fields::write(output, &fields)?;
        files::basis::write(output, &basis, &origin, values)
    };
    match (args.format, &cylindrical) {
        (BasisFormat::F32, _) => folder(files::basis::Values::Float32)?,
        (BasisFormat::I16, _) => folder(files::basis::Values::Int16)?,
        (BasisFormat::Gretina, Some(cylindrical)) => {
            files::gretina::write(output, &basis, &cylindrical.places(basis.segments())?)?;
        }
        (BasisFormat::Record | BasisFormat::Gretina, _) => files::record::write(output, &basis)?,
    }
    let results = [BasisResult {
        points: basis.positions().len(),
        samples: basis.sampling().samples,
        nodes: fields.grid().len(),
        seconds_fields: times[0].as_secs_f64(),
        seconds_signals: times[1].as_secs_f64(),
        unsettled: unsettled(&basis, text::SETTLED).len(),
        depleted: detector::is_depleted(&crystal, &fields),
        written: output.display().to_string(),
    }];
    let title = format!("Basis of {}", crystal.name);
    let text = |_| text::of_basis(&crystal, &fields, &basis, times, output);
    run.write(&title, &results, || page_of(&title, &results), text)
}

/// Returns the sampling of the requested format.
///
/// # Errors
/// Options of the sampling with a format that has its own.
fn sampling(args: &PsaSimulate) -> Result<Sampling, CommandError> {
    let own = match args.format {
        BasisFormat::F32 | BasisFormat::I16 => {
            let Sampling { samples, step, before } = Spec::default().sampling;
            return Ok(Sampling {
                samples: args.samples.map_or(samples, usize::from),
                step: args.sample_step.unwrap_or(step),
                before: args.before.map_or(before, usize::from),
            });
        }
        BasisFormat::Record => files::record::SAMPLING,
        BasisFormat::Gretina => files::gretina::SAMPLING,
    };
    let given = [
        ("--samples", args.samples.is_some()),
        ("--sample-step", args.sample_step.is_some()),
        ("--before", args.before.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(CommandError::option(option, "this --format has its own sampling")),
        None => Ok(own),
    }
}
