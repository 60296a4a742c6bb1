//! `zellige psa events`.

use std::sync::Arc;
use std::time::Instant;

use zellige_app::text::digits;
use zellige_psa::detector::Detector;
use zellige_psa::drift::Trapping;
use zellige_psa::events::{self, Spec};
use zellige_psa::files;
use zellige_psa::pipeline::results::SimulatedEvents;

use super::{electronics, fields};
use crate::args::PsaEvents;
use crate::results::page_of;
use crate::run::Run;

/// Simulates events and writes them.
///
/// # Errors
/// A basis that cannot be read, invalid options, an output that cannot be written, tasks that fail,
/// Ctrl-C.
pub fn run(args: &PsaEvents) -> anyhow::Result<()> {
    files::make_folder(&args.output)?;
    let (sampling, origin) = files::basis::origin(&args.basis)?;
    let electronics = electronics(args.electronics, origin.electronics);
    let spec = Spec {
        count: args.count as usize,
        seed: args.seed,
        energies: args.energy,
        hits: args.hits.into(),
        within: args.within,
        noise: args.noise,
        adc_step: args.adc_step,
        rate: args.rate,
        sampling,
        ..Spec::default()
    };
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let begin = Instant::now();
    let (detector, events) = run.work(|progress| -> anyhow::Result<_> {
        let fields = fields(&args.basis, run.runtime(), &origin, progress)?;
        let detector = Detector::new(&origin.crystal, Arc::new(fields), electronics, args.speed)?;
        let detector = Arc::new(detector.with_trapping(args.trapping.unwrap_or(Trapping::NONE))?);
        let events = events::simulate(run.runtime(), &detector, &spec, progress)?;
        Ok((detector, events))
    })?;
    files::events::write(&args.output, &events, &spec, &detector)?;
    let results = [SimulatedEvents {
        events: events.count(),
        hits: events.hits,
        seconds: begin.elapsed().as_secs_f64(),
        written: args.output.display().to_string(),
    }];
    let text = |_| {
        format!(
            "{} events with {} hit{} each, {} keV, noise {} keV, {} s\nwritten: {}\n",
            events.count(),
            events.hits,
            if events.hits == 1 { "" } else { "s" },
            spec.energies,
            spec.noise,
            digits(results[0].seconds),
            results[0].written
        )
    };
    let title = format!("Simulated events of {}", origin.crystal.name);
    run.write(&title, &results, || page_of(&title, &results), text)
}
