//! What no option can check alone, before any work: names that collide, files that cannot be read
//! or written, workers without cores.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{ArgMatches, Command};
use zellige_files::Destination;
use zellige_runtime::topology::Topology;

use super::VectorSource;
use super::paths::{Input, Output, OutputFile, OutputFolder};
use crate::exit::CommandError;
use crate::trace::TraceFile;

/// A name on the command line with its option.
struct Named {
    option: String,
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Input,
    Output,
    Folder,
}

/// Checks what no option can check alone: outputs can be written, no two are one, none is an input;
/// workers have cores.
///
/// # Errors
/// [`CommandError::Option`]; what the system says of outputs that cannot be written.
pub fn check(command: &Command, matches: &ArgMatches) -> anyhow::Result<()> {
    let mut named = Vec::new();
    collect(command, matches, &mut named)?;
    check_workers(matches)?;
    let inputs: Vec<_> = named.iter().filter(|named| named.kind == Kind::Input).collect();
    let outputs: Vec<_> = named.iter().filter(|named| named.kind != Kind::Input).collect();
    for (at, output) in outputs.iter().enumerate() {
        if let Some(input) = inputs.iter().find(|input| overwrites(output, &input.path)) {
            let problem = format!("{} is read, as {}: it would be lost", output.path.display(), input.option);
            return Err(CommandError::option(&output.option, problem).into());
        }
        if let Some(other) = outputs[..at].iter().find(|other| same(&other.path, &output.path)) {
            let problem = format!("{} is written by {}, too", output.path.display(), other.option);
            return Err(CommandError::option(&output.option, problem).into());
        }
    }
    Ok(())
}

/// Whether the chosen verb has an option of this long name.
pub fn has_option(mut command: &Command, mut matches: &ArgMatches, long: &str) -> bool {
    while let Some((name, inner)) = matches.subcommand() {
        let Some(verb) = command.find_subcommand(name) else { break };
        (command, matches) = (verb, inner);
    }
    command.get_arguments().any(|argument| argument.get_long() == Some(long))
}

/// The names that the options of the chosen verb have, and what could not be written of them.
fn collect(command: &Command, matches: &ArgMatches, named: &mut Vec<Named>) -> anyhow::Result<()> {
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let option = || match argument.get_long() {
            Some(long) => format!("--{long}"),
            None => {
                argument.get_value_names().map_or_else(|| id.to_owned(), |names| format!("<{}>", names[0]))
            }
        };
        let mut add = |path: &Path, kind| named.push(Named { option: option(), path: path.to_owned(), kind });
        let vectors = values::<VectorSource>(matches, id).filter_map(VectorSource::file);
        for input in values::<Input>(matches, id).map(|input| &**input).chain(vectors) {
            if input != Path::new("-") {
                let file = file_of(input);
                check_readable(file).map_err(|problem| CommandError::option(option(), problem))?;
                add(file, Kind::Input);
            }
        }
        let traces = values::<TraceFile>(matches, id).map(TraceFile::output);
        for output in values::<Output>(matches, id).chain(traces) {
            add(output, Kind::Output);
            if !output.is_stdout() {
                let checked = Destination::new(output).and_then(|to| to.check());
                checked.with_context(|| format!("{} {}", option(), output.display()))?;
            }
        }
        for output in values::<OutputFile>(matches, id) {
            add(output, Kind::Output);
            let cannot = || format!("{} {}", option(), output.display());
            let to = Destination::new(output).with_context(cannot)?;
            if !to.is_regular() {
                let problem =
                    format!("{}: this format needs a file, not a stream or a device", output.display());
                return Err(CommandError::option(option(), problem).into());
            }
            to.check().with_context(cannot)?;
        }
        for output in values::<OutputFolder>(matches, id) {
            add(output, Kind::Folder);
        }
    }
    match matches.subcommand() {
        Some((name, matches)) => {
            let command = command.find_subcommand(name).expect("clap found it");
            collect(command, matches, named)
        }
        None => Ok(()),
    }
}

/// More workers than this for each core are a slip of the keyboard, unless it is said that they are
/// not.
const MOST_WORKERS_PER_CORE: usize = 4;

fn check_workers(mut matches: &ArgMatches) -> Result<(), CommandError> {
    while let Some((_, verb)) = matches.subcommand() {
        matches = verb;
    }
    let Ok(Some(&workers)) = matches.try_get_one::<u16>("workers") else { return Ok(()) };
    if usize::from(workers) <= MOST_WORKERS_PER_CORE || matches.get_flag("oversubscribe") {
        return Ok(());
    }
    let cores = Topology::discover().cores.len();
    if usize::from(workers) <= MOST_WORKERS_PER_CORE * cores {
        return Ok(());
    }
    let problem = format!(
        "{workers} workers on {cores} core(s) would only wait for each other; --oversubscribe allows more than \
         {MOST_WORKERS_PER_CORE} for each"
    );
    Err(CommandError::option("--workers", problem))
}

/// `FILE.npz/NAME` is an array in a file.
fn file_of(input: &Path) -> &Path {
    match input.parent() {
        Some(archive) if archive.is_file() => archive,
        _ => input,
    }
}

/// Says what the system says of a file that cannot be read.
fn check_readable(file: &Path) -> Result<(), String> {
    let cannot = |error| format!("{} cannot be read: {error}", file.display());
    // To open a pipe would be to read it.
    match file.metadata().map_err(cannot)?.is_file() {
        true => std::fs::File::open(file).map(drop).map_err(cannot),
        false => Ok(()),
    }
}

/// The values of an argument, where it has this type.
fn values<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a ArgMatches,
    id: &str,
) -> impl Iterator<Item = &'a T> + use<'a, T> {
    matches.try_get_many::<T>(id).ok().flatten().into_iter().flatten()
}

/// Whether writing would change what is read: the same file, a folder and a file in it that is
/// there, or the same folder.
fn overwrites(output: &Named, input: &Path) -> bool {
    let is_in = |folder: &Path| {
        let file = output.path.canonicalize();
        let folder = folder.canonicalize();
        folder.is_ok_and(|folder| folder.is_dir() && file.is_ok_and(|file| file.starts_with(folder)))
    };
    same(&output.path, input) || (output.kind == Kind::Output && is_array(&output.path) && is_in(input))
}

/// Folders that are read hold arrays and parameters; reports may lie beside them.
fn is_array(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ["npy", "npz", "toml", "h5", "hdf5", "hdf", "lh5"].iter().any(|e| ending == *e))
}

/// Whether two names are of one file or folder, by device and inode, or would be. Writing to one
/// device twice loses nothing.
fn same(a: &Path, b: &Path) -> bool {
    let found = |path: &Path| path.metadata().ok();
    match (found(a), found(b)) {
        (Some(a), Some(b)) => {
            use std::os::unix::fs::{FileTypeExt, MetadataExt};
            (a.dev(), a.ino()) == (b.dev(), b.ino()) && !a.file_type().is_char_device()
        }
        (None, None) => place(a) == place(b),
        _ => false,
    }
}

/// Where a file that is not there yet would be.
fn place(path: &Path) -> PathBuf {
    let path = Destination::new(path).map_or_else(|_| path.to_owned(), |to| to.path().to_owned());
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    folder.join(path.file_name().unwrap_or_default())
}
