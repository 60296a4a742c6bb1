//! `zellige psa track`.

use std::path::Path;
use std::time::Instant;

use zellige_app::text::digits;
use zellige_psa::array::Array;
use zellige_psa::files;
use zellige_psa::params::{EXAMPLE, parse_crystal, read_array};
use zellige_psa::pipeline::hits;
use zellige_psa::pipeline::results::{TallyResult, TrackResult};
use zellige_psa::report::{self, text};
use zellige_psa::track::hits::Spectra;
use zellige_psa::track::montecarlo::{EmissionSpec, Target as Germanium};
use zellige_psa::track::survey::{Counting, survey};
use zellige_psa::track::{Settings, track_all};

use crate::args::{PsaTrackArgs, TrackGeometry};
use crate::run::Run;

/// Number of crystals of the built-in array.
const CRYSTALS: usize = 180;

/// Thickness of the built-in shell (mm): the length of a crystal.
const THICKNESS: f64 = 90.0;

/// Upper end of spectra (keV).
const MOST: f64 = 4000.0;

/// Energy error of simulated points: FWHM (keV).
const ENERGY_WIDTH: f64 = 2.0;

/// Combines hits, read or simulated, into gamma rays.
///
/// # Errors
/// Files that hold no hits or no array, invalid options, outputs that cannot be written, Ctrl-C.
pub fn run(args: &PsaTrackArgs) -> anyhow::Result<()> {
    match (&args.hits, &args.output, args.simulation.simulate) {
        (Some(hits), Some(folder), _) => read(args, hits, folder),
        (_, _, Some(events)) => simulate(args, events as usize),
        _ => unreachable!("hits and a folder, or --simulate, are required"),
    }
}

fn array(geometry: &TrackGeometry) -> Result<Option<Array>, zellige_psa::Error> {
    let Some(path) = &geometry.array else { return Ok(None) };
    let array = read_array(path)?;
    Ok(Some(match &geometry.cluster {
        Some(path) => array.of_clusters(&read_array(path)?),
        None => array,
    }))
}

fn settings(args: &PsaTrackArgs, inner_radius: f64) -> Settings {
    Settings {
        source: args.geometry.source,
        motion: args.geometry.beta,
        inner_radius,
        threshold: args.tracking.threshold,
        resolution: args.tracking.resolution,
        ..Settings::default()
    }
}

fn read(args: &PsaTrackArgs, path: &Path, folder: &Path) -> anyhow::Result<()> {
    files::make_folder(folder)?;
    let array = match array(&args.geometry)? {
        Some(array) => array,
        None => Array::sphere(CRYSTALS, args.geometry.sphere)?,
    };
    let hits = hits::read(path, &array, args.coincidence_window)?;
    let settings = settings(args, array.inner_radius());
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let begin = Instant::now();
    let tracked = run.work(|progress| track_all(run.runtime(), &hits.points, &settings, progress))?;
    let seconds = begin.elapsed().as_secs_f64();
    let spectra = Spectra::of(&hits, &tracked, args.step, MOST)?;
    hits::write(folder, &hits, &tracked, &spectra)?;
    let result = TrackResult::new(&hits, &tracked, spectra, seconds);
    let name = path.display().to_string();
    let page = || Ok(report::of_hits(&name, &result));
    run.write(&name, &[&result], page, |_| text::of_hits(&result, folder))
}

fn simulate(args: &PsaTrackArgs, events: usize) -> anyhow::Result<()> {
    let simulation = &args.simulation;
    let (target, inner_radius) = match array(&args.geometry)? {
        Some(array) => {
            let crystal = parse_crystal(Path::new("zellige psa crystal"), EXAMPLE)?;
            (Germanium::crystals(&array, &crystal), array.inner_radius())
        }
        None => {
            let inner = args.geometry.sphere;
            (Germanium::shell(inner, inner + THICKNESS)?, inner)
        }
    };
    let settings = settings(args, inner_radius);
    let spec = EmissionSpec {
        seed: simulation.seed,
        multiplicity: 1,
        energies: simulation.energy,
        source: settings.source,
        motion: settings.motion,
        target,
        smearing: simulation.smearing,
        energy_width: ENERGY_WIDTH,
    };
    let counting = Counting { events, window: simulation.window, step: args.step, most: MOST };
    let multiplicities: Vec<usize> = simulation.multiplicity.iter().map(|&m| m.into()).collect();
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let begin = Instant::now();
    let tallies =
        run.work(|progress| survey(run.runtime(), &spec, &settings, &multiplicities, &counting, progress))?;
    let seconds = begin.elapsed().as_secs_f64();
    let rows: Vec<TallyResult> = tallies.into_iter().map(TallyResult::from).collect();
    let title = format!("{events} events of each multiplicity, {} keV", simulation.energy);
    let text = |colours| format!("{title}, {} s\n{}", digits(seconds), text::of_tallies(&rows, colours));
    let page = || Ok(report::of_simulation(&title, &rows));
    run.write(&title, &rows, page, text)
}
