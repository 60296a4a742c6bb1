//! Checks that involve several options, before any work: names that collide, files that cannot be
//! read or written, workers without cores.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{ArgMatches, Command};
use zellige_files::Destination;
use zellige_runtime::topology::Topology;

use super::paths::{Input, Output, OutputFile, OutputFolder};
use super::trace_file::TraceFile;
use super::trust::check_trust;
use super::{NearNullSource, VectorSource};
use crate::exit::CommandError;

/// A path on the command line, with its option; `None` for an argument without one.
struct Named {
    option: Option<String>,
    path: PathBuf,
    kind: PathKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PathKind {
    Input,
    Output,
    Folder,
}

/// Checks the combination of all options: outputs can be written, no two outputs are the same file,
/// no output is an input, and workers have cores.
///
/// # Errors
/// [`CommandError::Option`]; the system's error for outputs that cannot be written.
pub fn check(command: &Command, matches: &ArgMatches) -> anyhow::Result<()> {
    let mut named = Vec::new();
    collect(command, matches, &mut named)?;
    check_workers(matches)?;
    check_trust(command, matches)?;
    let inputs: Vec<_> = named.iter().filter(|named| named.kind == PathKind::Input).collect();
    let outputs: Vec<_> = named.iter().filter(|named| named.kind != PathKind::Input).collect();
    for (at, output) in outputs.iter().enumerate() {
        if let Some(input) = inputs.iter().find(|input| overwrites(output, &input.path)) {
            let of_option = input.option.as_ref().map_or(String::new(), |option| format!(" of {option}"));
            let problem = format!(
                "{} is the input{of_option} and would be lost: name another output",
                output.path.display()
            );
            return Err(wrong(output.option.as_deref(), problem).into());
        }
        if let Some(other) = outputs[..at].iter().find(|other| same(&other.path, &output.path)) {
            let by = other.option.as_deref().unwrap_or("another argument");
            let problem =
                format!("{} is written by {by} as well: name another output", output.path.display());
            return Err(wrong(output.option.as_deref(), problem).into());
        }
    }
    Ok(())
}

/// Returns whether the chosen verb has an option of this long name.
pub fn has_option(mut command: &Command, mut matches: &ArgMatches, long: &str) -> bool {
    while let Some((name, inner)) = matches.subcommand() {
        let Some(verb) = command.find_subcommand(name) else { break };
        (command, matches) = (verb, inner);
    }
    command.get_arguments().any(|argument| argument.get_long() == Some(long))
}

/// Collects the paths in the options of the chosen verb, and checks that outputs can be written.
fn collect(command: &Command, matches: &ArgMatches, named: &mut Vec<Named>) -> anyhow::Result<()> {
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let option = || argument.get_long().map(|long| format!("--{long}"));
        let cannot = |path: &Path| match option() {
            Some(option) => format!("{option} {}", path.display()),
            None => path.display().to_string(),
        };
        let mut add = |path: &Path, kind| named.push(Named { option: option(), path: path.to_owned(), kind });
        let vectors = values::<VectorSource>(matches, id).filter_map(VectorSource::file);
        let near_null = values::<NearNullSource>(matches, id).filter_map(NearNullSource::file);
        let files = vectors.chain(near_null);
        for input in values::<Input>(matches, id).map(|input| &**input).chain(files) {
            if input != Path::new("-") {
                let file = file_of(input);
                check_readable(file).map_err(|problem| wrong(option().as_deref(), problem))?;
                add(file, PathKind::Input);
            }
        }
        let traces = values::<TraceFile>(matches, id).map(TraceFile::output);
        for output in values::<Output>(matches, id).chain(traces) {
            add(output, PathKind::Output);
            if !output.is_stdout() {
                let checked = Destination::new(output).and_then(|to| to.check());
                checked.with_context(|| cannot(output))?;
            }
        }
        for output in values::<OutputFile>(matches, id) {
            add(output, PathKind::Output);
            let to = Destination::new(output).with_context(|| cannot(output))?;
            if !to.is_regular() {
                let problem =
                    format!("{}: this format needs a file, not a stream or a device", output.display());
                return Err(wrong(option().as_deref(), problem).into());
            }
            to.check().with_context(|| cannot(output))?;
        }
        for output in values::<OutputFolder>(matches, id) {
            add(output, PathKind::Folder);
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

/// Maximum number of workers for each core without --oversubscribe. More are taken for a typing
/// error.
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
        "{workers} workers on {cores} core(s) are more than {MOST_WORKERS_PER_CORE} per core: use fewer, or \
         --oversubscribe"
    );
    Err(CommandError::option("--workers", problem))
}

/// Returns the error of an option, or of an argument without one.
fn wrong(option: Option<&str>, problem: String) -> CommandError {
    match option {
        Some(option) => CommandError::option(option, problem),
        None => CommandError::Argument(problem),
    }
}

/// Returns the file that an input names: the archive of `FILE.npz/NAME`, or the path itself.
fn file_of(input: &Path) -> &Path {
    match input.parent() {
        Some(archive) if archive.is_file() => archive,
        _ => input,
    }
}

/// Checks that a file can be read, and otherwise returns the system's message.
fn check_readable(file: &Path) -> Result<(), String> {
    let cannot = |error| format!("{} cannot be read: {error}", file.display());
    // Opening a pipe would already consume its data.
    match file.metadata().map_err(cannot)?.is_file() {
        true => std::fs::File::open(file).map(drop).map_err(cannot),
        false => Ok(()),
    }
}

/// Returns the values of an argument, if it has this type.
fn values<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a ArgMatches,
    id: &str,
) -> impl Iterator<Item = &'a T> + use<'a, T> {
    matches.try_get_many::<T>(id).ok().flatten().into_iter().flatten()
}

/// Returns whether the output would overwrite the input: both are the same file or the same folder,
/// or the output is an existing array file inside an input folder.
fn overwrites(output: &Named, input: &Path) -> bool {
    let is_in = |folder: &Path| {
        let file = output.path.canonicalize();
        let folder = folder.canonicalize();
        folder.is_ok_and(|folder| folder.is_dir() && file.is_ok_and(|file| file.starts_with(folder)))
    };
    same(&output.path, input) || (output.kind == PathKind::Output && is_array(&output.path) && is_in(input))
}

/// Returns whether a file may be part of an input folder: these hold arrays and parameters. A
/// report in such a folder is no input.
fn is_array(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ["npy", "npz", "toml", "h5", "hdf5", "hdf", "lh5"].iter().any(|e| ending == *e))
}

/// Returns whether two names refer to the same file or folder, or would once they exist. Existing
/// files are compared by device and inode. Two outputs to the same character device lose nothing.
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

/// Returns the absolute path of a file that does not exist yet.
fn place(path: &Path) -> PathBuf {
    let path = Destination::new(path).map_or_else(|_| path.to_owned(), |to| to.path().to_owned());
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    folder.join(path.file_name().unwrap_or_default())
}
