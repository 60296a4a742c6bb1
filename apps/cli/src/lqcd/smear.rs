//! `zellige lqcd smear`.

use std::time::Instant;

use zellige_app::text::digits;
use zellige_lqcd::files;
use zellige_lqcd::pipeline::results::SmearResult;
use zellige_lqcd::smear::smear;

use super::failed;
use crate::args::LqcdSmear;
use crate::interrupt;
use crate::results::page_of;

/// Smears the links of a gauge field and prints their observables.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, links without a nearest unitary matrix, an
/// output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdSmear) -> anyhow::Result<()> {
    let gauge = files::read(&args.lattice)?.gauge;
    let rt = args.outputs.runtime(args.workers)?;
    let armed = interrupt::cancels(rt.canceller());
    let begin = Instant::now();
    let mut links = gauge.clone();
    links.reunitarise();
    let smeared = smear(&rt, &links, args.action).map_err(failed)?;
    drop(armed);
    let results = [SmearResult::of(args.action, &gauge, &smeared, begin.elapsed().as_secs_f64())];
    let title = format!("{}: {}", args.lattice.display(), args.action);
    let trace = args.outputs.recorded(&rt)?;
    let page = || page_of(&title, &results);
    args.outputs.write(&title, trace.as_ref(), &results, page, || text(&results[0]))
}

fn text(result: &SmearResult) -> String {
    let mut lines = vec![format!(
        "{}: mean Re tr / 3 of links of one hop {:.9} ({:.9} before)",
        result.action, result.fat_trace, result.field.link_trace
    )];
    lines.extend(result.long_trace.map(|trace| format!("of links of three hops {trace:.9e}")));
    lines.extend(result.unitarised_plaquette.map(|plaquette| {
        format!("plaquette of the unitary links {:.9} in space, {:.9} in time", plaquette.ss, plaquette.st)
    }));
    if result.links_by_svd > 0 {
        lines.push(format!("{} links were projected by singular values", result.links_by_svd));
    }
    lines.push(format!("{} s", digits(result.seconds)));
    lines.into_iter().map(|line| line + "\n").collect()
}
