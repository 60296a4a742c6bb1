//! `zellige lqcd invert`.

use std::path::Path;

use zellige_kernels::sites::SiteFormat;
use zellige_lqcd::files::quarks::{self, QuarkFields};
use zellige_lqcd::pipeline::{Deflation, LinkField, Mixed, Options, Problem, Propagator, propagator};
use zellige_lqcd::report::{self, text};
use zellige_lqcd::smear::Smeared;
use zellige_lqcd::{Action, Gauge, Geometry, files};

use super::options as options_of_system;
use crate::args::{Deflate, Device, LqcdInvert};
use crate::devices::Needs;
use crate::exit::CommandError;
use crate::run::Setup;

/// Computes a propagator and writes its results.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options, a residual that stays above
/// the tolerance, an output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdInvert) -> anyhow::Result<()> {
    let files = &args.files;
    let options = options(args);
    if args.execution.device != Device::Cpu && options.solver.precision != Mixed::Double {
        let problem = "GPUs compute with vectors in float64 only: use double";
        return Err(CommandError::option("--precision", problem).into());
    }
    if args.execution.device != Device::Cpu && args.deflate.is_some() {
        let problem = "eigenvectors are for CPU workers: use --device cpu";
        return Err(CommandError::option("--deflate", problem).into());
    }
    if args.execution.device != Device::Cpu && options.action == Action::Wilson {
        let problem = "wilson: GPUs have kernels for staggered quarks: use --device cpu";
        return Err(CommandError::option("--action", problem).into());
    }
    let links = Links::read(&args.system.lattice, files.long.as_deref())?;
    let sources = files.source_fields.as_deref().map(quarks::read).transpose()?;
    let lattice = links.geometry();
    if let Some(sources) = sources.as_ref().filter(|sources| sources.geometry != lattice) {
        let problem =
            format!("{:?} sites, but the links have {:?}", sources.geometry.extents(), lattice.extents());
        return Err(CommandError::option("--source-fields", problem).into());
    }
    let deflation = args.deflate.as_ref().map(|deflate| match deflate {
        Deflate::Count(count) => Deflation::Compute(*count, SiteFormat::Fp32),
        Deflate::File(path) => Deflation::Read(path),
    });
    let of_file = files.source_fields.as_ref().map(|path| path.display().to_string());
    let sources = of_file.as_deref().zip(sources.as_ref().map(|sources| &sources.fields[..]));
    let problem = Problem { links: links.field(), sources, deflation };
    let run = Setup::new(&args.execution, &Needs::default(), &args.outputs)?.start()?;
    let found = run.work(|progress| propagator(run.runtime(), &problem, &options, progress))?;
    let Propagator { mut result, histories, fields } = found;
    if let Some(path) = &files.output {
        let titles = (0..fields.len()).map(|at| {
            format!("propagator {at} of {}, {}, mass {}", result.source, result.action, result.mass)
        });
        let titles = titles.collect();
        quarks::write(path, &QuarkFields { geometry: lattice, fields, format: files.vectors, titles })?;
        result.written = Some(path.display().to_string());
    }
    let name = args.system.lattice.display().to_string();
    let page = || Ok(report::of_inverted(&name, &result, &histories));
    run.write(&name, &[&result], page, |_| text::of_inverted(&result))?;
    match result.converged {
        true => Ok(()),
        false => Err(CommandError::NotConverged(text::advice(&result, &options)).into()),
    }
}

/// Links that were read.
enum Links {
    Gauge(Gauge),
    Smeared(Smeared),
}

impl Links {
    /// Reads a gauge field, or smeared links if there is a file of three-hop ones.
    fn read(lattice: &Path, long: Option<&Path>) -> Result<Links, zellige_lqcd::Error> {
        match long {
            None => Ok(Links::Gauge(files::read(lattice)?.gauge)),
            Some(long) => files::read_smeared(lattice, long).map(Links::Smeared),
        }
    }

    fn field(&self) -> LinkField<'_> {
        match self {
            Links::Gauge(links) => LinkField::Gauge(links),
            Links::Smeared(smeared) => LinkField::Smeared(smeared),
        }
    }

    fn geometry(&self) -> Geometry {
        match self {
            Links::Gauge(links) => links.geometry(),
            Links::Smeared(smeared) => smeared.fat.geometry(),
        }
    }
}

/// Converts the options of a propagator.
pub(crate) fn options(args: &LqcdInvert) -> Options {
    Options {
        solver: args.solver.solver(args.method),
        heavy_quark: args.heavy_quark_tol,
        ..options_of_system(&args.system, args.tol)
    }
}
