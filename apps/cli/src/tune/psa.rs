//! `zellige tune psa`.

use zellige_measure::cpu_seconds;
use zellige_psa::search::Plan;
use zellige_psa::tune;
use zellige_tune::{Acceptance, Trials};

use super::{Tuning, check, has};
use crate::args::{PsaInput, TunePsa};
use crate::psa::searches;
use crate::run::Run;

/// Tunes the search for the hits of events.
///
/// # Errors
/// Files with other content or that do not fit each other, and the errors of [`super::run`].
pub fn run(args: &TunePsa) -> anyhow::Result<()> {
    check(&args.search, &args.cost, &tune::MEASURES)?;
    let plan = Plan { p: args.p, ..Plan::default() };
    let all = searches(&args.input, &args.rules, &plan)?;
    let verify = args.verify_events.clone().map(|events| {
        let input = PsaInput { events, ..args.input.clone() };
        searches(&input, &args.rules, &plan)
    });
    let verify = verify.transpose()?;
    let mut search = tune::Tuning::new(&all, verify.as_ref(), args.p, |run| cpu_seconds(run))?;
    drop((all, verify));
    let is_tracked = has(&args.search, &args.cost, &tune::TRACKING);
    if is_tracked {
        search = search.with_tracking()?;
    }
    let space = search.space().clone();
    let tuning = Tuning {
        space: &space,
        accept: &Acceptance::parse(tune::ACCEPT)?,
        unit: args.cost.text(),
        cost: &|_, measures| args.cost.value(measures),
        // Trials without tracking cannot be used again with it.
        subject: format!(
            "psa {:?} {:?} {} {:?}{}",
            args.input,
            args.verify_events,
            args.p,
            args.rules,
            if is_tracked { ", tracked" } else { "" }
        ),
        verify: true,
    };
    let run = Run::on_cpu(Some(1), &args.outputs)?;
    let trials = Trials::in_turn(|formats, data| search.trial(formats, data));
    let outcome = tuning.search(&run, &args.search, trials)?;
    let found = tune::options(&search.plan(&outcome.best().formats)?);
    let repeat = format!("zellige psa run {} {found}", inputs(args));
    let title = format!("zellige tune psa {}", args.input.events.display());
    tuning.write(run, &args.search, &title, outcome, Some(repeat))
}

/// Returns the options of `zellige psa run` that name the data.
fn inputs(args: &TunePsa) -> String {
    let (input, rules) = (&args.input, &args.rules);
    let mut text = format!("--basis {} --events {}", input.basis.display(), input.events.display());
    let files = [
        ("channel-map", &input.channel_map),
        ("positions", &input.positions),
        ("energies", &input.energies),
        ("cross-talk", &rules.cross_talk),
    ];
    for (option, file) in files {
        if let Some(file) = file {
            text += &format!(" --{option} {}", file.display());
        }
    }
    if input.positions.is_some() {
        text += &format!(" --segment {}", input.segment.index());
    }
    if let Some(window) = rules.window {
        text += &format!(" --window {window}");
    }
    format!("{text} --channels {} --threshold {}", rules.channels, rules.threshold)
}
