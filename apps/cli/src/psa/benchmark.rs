//! `zellige psa benchmark`.

use std::sync::Arc;

use zellige_app::table::{Side, Table};
use zellige_app::text::digits;
use zellige_measure::searches::{Range, Row, Sample, report, rows, survey, variants};
use zellige_psa::basis::Sampling;
use zellige_psa::detector::Detector;
use zellige_psa::events::{self, Spec};
use zellige_psa::files;
use zellige_runtime::Runtime;

use super::fields;
use crate::args::PsaBenchmark;
use crate::progress::Progress;
use crate::run::Run;

/// Compares all search methods.
///
/// # Errors
/// A basis that cannot be read, invalid options, tasks that fail, an output that cannot be written,
/// Ctrl-C.
pub fn run(args: &PsaBenchmark) -> anyhow::Result<()> {
    let (basis, origin) = files::basis::read(&args.basis)?;
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let variants = variants();
    let (runs, rows) = run.work(|progress| -> anyhow::Result<_> {
        let samples = samples(args, run.runtime(), &origin, basis.sampling(), progress)?;
        let runs = survey(run.runtime(), &basis, &samples, &variants, &args.channels, progress)?;
        let rows = rows(&runs, &samples, &variants);
        Ok((runs, rows))
    })?;
    let name = &origin.crystal.name;
    let page = || Ok(report::of_searches(name, &rows, &runs, &variants));
    run.write(name, &rows, page, |colours| text(&rows, colours))
}

/// Simulates the events for each noise level and seed.
fn samples(
    args: &PsaBenchmark,
    rt: &Runtime,
    origin: &files::basis::Origin,
    sampling: Sampling,
    progress: &Progress<'_>,
) -> anyhow::Result<Vec<Sample>> {
    let fields = fields(&args.basis, rt, origin, progress)?;
    let detector =
        Arc::new(Detector::new(&origin.crystal, Arc::new(fields), origin.electronics, args.speed)?);
    let mut samples = Vec::new();
    for &noise in &args.noise {
        for &seed in &args.seed {
            let spec = Spec {
                count: args.count as usize,
                seed,
                energies: args.energy,
                noise,
                sampling,
                ..Spec::default()
            };
            let events = events::simulate(rt, &detector, &spec, progress)?;
            samples.push(Sample { noise, seed, events });
        }
    }
    Ok(samples)
}

fn text(rows: &[Row], colours: bool) -> String {
    let mut groups: Vec<(String, f64)> = Vec::new();
    for row in rows {
        let group = (row.channels.clone(), row.noise);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let table = |(channels, noise): &(String, f64)| {
        let members = rows.iter().filter(|row| row.channels == *channels && row.noise == *noise);
        let events = members.clone().next().map_or(0, |row| row.events);
        format!("{channels}, noise {noise} keV, {events} events\n{}", of_group(members, colours))
    };
    let tables = groups.iter().map(table).collect::<Vec<_>>().join("\n");
    let published = "published: thesis, of other events. Hit segment and core: 5342 measured events (Tables 5.2 and 5.3). \
                     Neighbours: Table 5.1, which names neither its events nor its channels.";
    format!("{tables}\n{published}\n")
}

fn of_group<'a>(rows: impl Iterator<Item = &'a Row>, colours: bool) -> String {
    let mut table = Table::new(&[
        ("search", Side::Left),
        ("% same", Side::Right),
        ("published", Side::Right),
        ("% in 5 mm", Side::Right),
        ("published", Side::Right),
        ("% beyond 20 mm", Side::Right),
        ("published", Side::Right),
        ("mm to truth", Side::Right),
        ("p90", Side::Right),
        ("us/event", Side::Right),
    ]);
    for row in rows {
        let published =
            row.published.map(|percent| percent.map_or_else(String::new, |percent| percent.to_string()));
        let shares = [row.same, row.near, row.far].into_iter().zip(published);
        let shares = shares.flat_map(|(share, published)| [range(share), published]);
        let last = [row.truth.median, row.truth.p90, row.microseconds].map(digits);
        table.row([row.name.to_owned()].into_iter().chain(shares).chain(last));
    }
    table.render(colours)
}

fn range(Range { mean, least, most }: Range) -> String {
    match least == most {
        true => format!("{mean:.2}"),
        false => format!("{mean:.2} ({least:.2}-{most:.2})"),
    }
}
