//! `zellige reproduce`: figures and tables of three papers, computed anew beside the published
//! numbers.
//!
//! | module | contents |
//! |---|---|
//! | [`published`] | the numbers of the papers, from one file |
//! | [`found`] | the numbers that an item computes, and what it says of the paper's statements |
//! | [`items`] | the list of figures and tables |
//! | [`result`] | an item with both, as JSON, CSV, text and page |
//! | [`thesis`], [`lattice`], [`tomography`] | the computations |

mod compare;
mod found;
mod items;
mod lattice;
mod published;
mod result;
#[cfg(test)]
mod rows;
mod thesis;
mod tomography;

use std::cell::RefCell;

use zellige_app::table::{Side, Table};
use zellige_files::observe::Observer;
use zellige_lqcd::pipeline::Options as LatticeOptions;
use zellige_lqcd::{Action, Gauge, files};
use zellige_runtime::Runtime;

pub(crate) use self::compare::curves;
pub(crate) use self::found::Series;
use crate::args::{Reproduce, ReproduceItems, ReproduceLattice, RunOutputs};
use crate::exit::CommandError;
use crate::out;
use crate::results::{is_stdout, write_json, write_page};
use crate::run::Run;
use items::{Item, Paper};
pub use result::ItemResult;

/// Setting of a computation.
pub struct Context<'a> {
    /// Runtime of tasks.
    pub runtime: &'a Runtime,
    /// Number of its workers.
    pub workers: u16,
    /// True for the sizes of the paper.
    pub full: bool,
    /// Observer of the progress.
    pub observer: &'a dyn Observer,
    /// Gauge field and options of the lattice items.
    pub lattice: Option<LatticeChoice>,
    /// Searches that several items share.
    pub searches: thesis::SharedSearches,
}

/// Gauge field, if one is given, and options of the lattice items.
pub struct LatticeChoice {
    /// Gauge field with its name.
    pub field: Option<(String, Gauge)>,
    /// Field that an earlier item has generated: its coupling, the command, and the links.
    pub made: RefCell<Option<(f64, String, Gauge)>>,
    /// Action, if one is given.
    pub action: Option<Action>,
    /// Mass, if one is given.
    pub mass: Option<f64>,
    /// Other options.
    pub options: LatticeOptions,
}

/// Computes the items of a paper, prints them and writes the requested files.
///
/// # Errors
/// An unknown item, the errors of the computations, an output that cannot be written, Ctrl-C.
pub fn run(verb: &Reproduce) -> anyhow::Result<()> {
    match verb {
        Reproduce::Thesis(args) => reproduce(Paper::Thesis, args, None),
        Reproduce::Tomography(args) => reproduce(Paper::Tomography, args, None),
        Reproduce::Lattice(args) => reproduce(Paper::Lattice, &args.common, Some(args)),
    }
}

fn reproduce(paper: Paper, args: &ReproduceItems, lattice: Option<&ReproduceLattice>) -> anyhow::Result<()> {
    let items = chosen(paper, &args.items)?;
    if args.list {
        return out::print(&list(&items, out::colours(&std::io::stdout())));
    }
    let lattice = lattice.map(choice).transpose()?;
    let outputs = RunOutputs { json: args.json.clone(), report: None, trace: None };
    let run = Run::on_cpu(args.workers, &outputs)?;
    let results = run.work(|observer| {
        let context = Context {
            runtime: run.runtime(),
            workers: crate::devices::workers(args.workers),
            full: args.full,
            observer,
            lattice,
            searches: thesis::SharedSearches::default(),
        };
        all(&items, &context)
    })?;
    drop(run.finish()?);
    write(paper, &results, args)
}

/// Returns the items of these names, or all items of the paper.
fn chosen(paper: Paper, names: &[String]) -> Result<Vec<&'static Item>, CommandError> {
    let own: Vec<&Item> = items::ALL.iter().filter(|item| item.paper == paper).collect();
    if names.is_empty() {
        return Ok(own);
    }
    let find = |name: &String| {
        let found = own.iter().find(|item| item.name.eq_ignore_ascii_case(name)).copied();
        found.ok_or_else(|| {
            let known: Vec<&str> = own.iter().map(|item| item.name).collect();
            CommandError::Argument(format!("{name}: {} has {}", paper.name(), known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

fn list(items: &[&Item], colour: bool) -> String {
    let mut table = Table::new(&[("item", Side::Left), ("place", Side::Left), ("what", Side::Left)]);
    for item in items {
        table.row([item.name, item.place, item.title].map(str::to_owned));
    }
    table.render(colour)
}

fn choice(args: &ReproduceLattice) -> anyhow::Result<LatticeChoice> {
    let read = |path: &crate::args::Input| -> anyhow::Result<_> {
        Ok((path.display().to_string(), files::read(path)?.gauge))
    };
    let field = args.lattice.as_ref().map(read).transpose()?;
    let options = LatticeOptions {
        boundary: args.bc,
        tolerance: args.tol,
        most_steps: args.max_steps,
        ..LatticeOptions::default()
    };
    Ok(LatticeChoice { field, made: RefCell::default(), action: args.action, mass: args.mass, options })
}

fn all(items: &[&'static Item], context: &Context<'_>) -> anyhow::Result<Vec<ItemResult>> {
    let published = published::all();
    let mut results = Vec::new();
    for item in items {
        context.observer.stage(item.name, 0);
        let found = (item.compute)(context)?;
        results.push(ItemResult::new(item, context.full, &published, found));
        if context.observer.cancelled() {
            break;
        }
    }
    Ok(results)
}

fn write(paper: Paper, results: &[ItemResult], args: &ReproduceItems) -> anyhow::Result<()> {
    if let Some(target) = &args.report {
        write_page(target, compare::page(paper, results))?;
    }
    if let Some(folder) = &args.output {
        compare::write_folder(folder, paper, results)?;
    }
    if let Some(target) = &args.csv {
        target.write(|to| to.write_all(compare::csv(results).as_bytes()))?;
    }
    write_json(args.json.as_ref(), results)?;
    match is_stdout(args.json.as_ref()) || is_stdout(args.csv.as_ref()) {
        true => Ok(()),
        false => out::print(&compare::text(results, out::colours(&std::io::stdout()))),
    }
}
