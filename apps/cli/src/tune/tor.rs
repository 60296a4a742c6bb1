//! `zellige tune tor`.

use zellige_dense::Rule;
use zellige_files::observe::Observer;
use zellige_tor::params::{self, Input, Mode};
use zellige_tor::pipeline::Options;
use zellige_tor::pipeline::tune::{ACCEPT, CostModel, Tuning, bounds, tune, verification};
use zellige_tor::report::tune::{page, text};
use zellige_tune::Acceptance;

use super::limits;
use crate::args::{TuneCost, TuneTor};
use crate::devices::Needs;
use crate::run::Setup;
use crate::{out, simulate, tor};

/// Tunes the precision map of a reconstructor.
///
/// # Errors
/// Bad parameters, files that cannot be read or written, a reference that fails, tasks that fail,
/// Ctrl-C.
pub fn run(args: &TuneTor) -> anyhow::Result<()> {
    let mut input = tor::read(&args.system)?;
    if input.system.targets.len() > 1 {
        let [x, y] = input.system.targets[0];
        out::note(&format!("the map is tuned for the first target, ({x}, {y}); --target chooses another"));
        input.system.targets.truncate(1);
    }
    let rules: Vec<Rule> = args.formats.iter().map(|&format| Rule::uniform(format)).collect();
    let setup = Setup::new(&args.execution, &Needs::of_rules(&rules), &args.outputs)?;
    let options = Options {
        workers: args.execution.workers.map(usize::from),
        tile: tor::tile(args.tile, setup.devices.auto_tiles()),
        ..Options::default()
    };
    let tuning = tuning(args, &input)?;
    if let Some([cheapest, reference]) = bounds(&input, &options, &tuning)? {
        out::note(&format!(
            "bound: {cheapest:.4e} {} with the cheapest format everywhere, {:.1} % of the reference",
            tuning.cost.unit(),
            100.0 * cheapest / reference
        ));
    }
    let run = setup.start()?;
    let mut tuned =
        run.work(|progress| tune(run.runtime(), &input, &options, &tuning, progress as &dyn Observer))?;
    if let Some(output) = &args.search.output {
        output.write(|out| write!(out, "{}", tuned.map))?;
        let (system, file) = (args.system.system.display(), output.display());
        tuned.search.repeat = Some(format!("zellige tor run {system} --precision map:{file}"));
    }
    let title = format!("zellige tune tor {}", args.system.system.display());
    let text = |colour| match args.search.output.as_ref().is_some_and(|output| output.is_stdout()) {
        true => String::new(),
        false => text(&tuned, colour),
    };
    run.write(&title, &[&tuned], || Ok(page(&title, &tuned)), text)
}

fn tuning(args: &TuneTor, input: &Input) -> anyhow::Result<Tuning> {
    let cost = match (&args.machine, args.cost) {
        (Some(name), _) => {
            let (platform, ahead) = simulate::machine(name, args.execution.workers, "--machine")?;
            CostModel::Predicted { platform: Box::new(platform), ahead }
        }
        (None, TuneCost::Bytes) => CostModel::Bytes,
        (None, TuneCost::Seconds) => CostModel::Measured,
    };
    let acceptance = match &args.search.accept {
        Some(accept) => accept.clone(),
        None => Acceptance::parse(ACCEPT)?,
    };
    let other = if args.no_verify { None } else { Some(other_view(args, input)?) };
    let view = |input: &Input| {
        let (system, atmosphere) = (&input.system, &input.atmosphere);
        format!("target {:?}, {} layers, r0 {}", system.targets[0], atmosphere.layers.len(), atmosphere.r0())
    };
    let verified = other.as_ref().map_or(String::new(), |other| format!("; verification: {}", view(other)));
    let subject =
        format!("tor {}, tile {:?}, {}{verified}", args.system.system.display(), args.tile, view(input));
    Ok(Tuning {
        formats: args.formats.clone(),
        panels: args.panels.clone(),
        items: args.items.into(),
        cost,
        acceptance,
        rules: !args.no_rules,
        search: limits(&args.search, subject, other.is_some()),
        verification: other,
    })
}

/// Returns the system with the direction and the profile of the verification.
fn other_view(args: &TuneTor, input: &Input) -> anyhow::Result<Input> {
    let mut other = verification(input);
    if let Some(target) = args.verify_target {
        other.system.targets = vec![target];
    }
    if let Some(file) = &args.verify_atm {
        let mode = if args.system.strict { Mode::Strict } else { Mode::Lenient };
        other.atmosphere = params::read(&args.system.system, Some(file), mode)?.atmosphere;
    }
    Ok(other)
}
