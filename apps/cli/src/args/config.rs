//! `--config FILE`: options from a TOML file. Keys are the long names of options. Keys at the top
//! level apply to every verb that has the option, keys in a table to the verb of that name:
//!
//! ```toml
//! workers = 4
//! [tor.run]
//! precision = ["fp32", "hp1:band=2"]
//! ```

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};
use toml::{Table, Value};

use crate::exit::CommandError;

/// Maximum size of a file of options, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Adds the options of the file that `--config` names to the words of the command line. Options on
/// the command line take precedence over those of the file.
///
/// # Errors
/// [`CommandError::Option`] for a file that cannot be read, and for options that no verb has.
pub fn expand(command: &Command, words: Vec<OsString>) -> Result<Vec<OsString>, CommandError> {
    let Some(path) = file(&words) else { return Ok(words) };
    let wrong = |problem: String| CommandError::option("--config", format!("{}: {problem}", path.display()));
    let text = zellige_files::read_text(&path, MOST_BYTES).map_err(|error| wrong(error.to_string()))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    check(command, &table, "").map_err(wrong)?;

    // The final parse, with the options of the file, finds out whether the line is complete.
    let parsed = command.clone().ignore_errors(true).try_get_matches_from(&words);
    let verb = parsed.map(|matches| verb(&matches)).unwrap_or_default();
    let mut options = Vec::new();
    let (mut at, mut within) = (command, Some(&table));
    let mut tables = vec![&table];
    for name in &verb {
        let Some(inner) = at.find_subcommand(name) else { break };
        at = inner;
        within = within.and_then(|table| table.get(name)).and_then(Value::as_table);
        tables.extend(within);
    }
    // An option in the table of a verb takes precedence over the same option at the top level.
    let mut known: Vec<&str> = Vec::new();
    for (name, value) in
        tables.iter().rev().flat_map(|table| table.iter()).filter(|(_, value)| !value.is_table())
    {
        let Some(argument) =
            at.get_arguments().chain(command.get_arguments()).find(|a| a.get_long() == Some(name))
        else {
            continue;
        };
        if known.contains(&&**name) || is_said(&words, name, argument.get_short()) {
            continue;
        }
        known.push(name);
        options.extend(option(name, value).map_err(wrong)?);
    }
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (before, after) = words.split_at(end);
    Ok(before.iter().cloned().chain(options).chain(after.iter().cloned()).collect())
}

/// Returns the value of `--config` among the words.
fn file(words: &[OsString]) -> Option<PathBuf> {
    let mut words = words.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|word| word.strip_prefix("--config=")) {
            return Some(Path::new(path).to_owned());
        }
    }
    None
}

/// Returns the names of the chosen verb and of the verbs within it.
fn verb(matches: &ArgMatches) -> Vec<String> {
    let mut names = Vec::new();
    let mut matches = matches;
    while let Some((name, inner)) = matches.subcommand() {
        names.push(name.to_owned());
        matches = inner;
    }
    names
}

/// Checks that every key is an option of its table's verb or of a verb within it, and that every
/// table is a verb.
fn check(command: &Command, table: &Table, place: &str) -> Result<(), String> {
    for (name, value) in table {
        let key = format!("{place}{name}");
        match value {
            Value::Table(inner) => {
                let verb =
                    command.find_subcommand(name).ok_or_else(|| format!("[{key}] is not a command"))?;
                check(verb, inner, &format!("{key}."))?;
            }
            _ if name == "config" => return Err("`config` cannot name another file".into()),
            _ if has(command, name) => {}
            _ => {
                return Err(format!(
                    "`{key}`: there is no option --{name}; `zellige help` lists them by verb"
                ));
            }
        }
    }
    Ok(())
}

/// Returns whether a verb, or one within it, has the option.
fn has(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(name))
        || command.get_subcommands().any(|inner| has(inner, name))
}

/// Returns whether the words contain the option already.
fn is_said(words: &[OsString], name: &str, short: Option<char>) -> bool {
    let long = format!("--{name}");
    let is_it = |word: &OsStr| {
        let Some(word) = word.to_str() else { return false };
        let is_short =
            short.is_some_and(|short| word.starts_with(&format!("-{short}")) && !word.starts_with("--"));
        word == long || word.starts_with(&format!("{long}=")) || is_short
    };
    words.iter().any(|word| is_it(word))
}

/// Returns the words of an option: one for each value of a list, the name alone for `true`, none
/// for `false`.
fn option(name: &str, value: &Value) -> Result<Vec<OsString>, String> {
    let word = |value: &dyn std::fmt::Display| OsString::from(format!("--{name}={value}"));
    Ok(match value {
        Value::Boolean(true) => vec![format!("--{name}").into()],
        Value::Boolean(false) => vec![],
        Value::String(text) => vec![word(text)],
        Value::Integer(number) => vec![word(number)],
        Value::Float(number) => vec![word(number)],
        Value::Array(all) => {
            all.iter().map(|value| option(name, value)).collect::<Result<Vec<_>, _>>()?.concat()
        }
        Value::Datetime(_) | Value::Table(_) => {
            return Err(format!("`{name}` is not a number, a text, true, false or a list of them"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    fn expanded(file: &str, line: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("z.toml");
        std::fs::write(&path, file).unwrap();
        let words = line.replace("FILE", path.to_str().unwrap());
        let words = words.split(' ').map(OsString::from).collect();
        let words = expand(&Cli::command(), words).map_err(|error| error.to_string())?;
        let words: Vec<_> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
        Ok(words.join(" ").replace(path.to_str().unwrap(), "FILE"))
    }

    #[test]
    fn options_of_the_verb_are_added() {
        let file = "workers = 3\nlog = \"info\"\n[solve]\ntol = 1e-6\nreorder = true\n[machine.show]\ncheck = true\n[tor.run]\nworkers = 1\nprecision = [\"fp32\", \"hp1\"]";
        let line = "zellige --config FILE solve a.mtx";
        assert_eq!(
            expanded(file, line).unwrap(),
            format!("{line} --reorder --tol=0.000001 --log=info --workers=3")
        );
        let line = "zellige tor run s.toml --config=FILE";
        assert_eq!(
            expanded(file, line).unwrap(),
            format!("{line} --precision=fp32 --precision=hp1 --workers=1 --log=info")
        );
        let line = "zellige matrix info a.mtx --config FILE";
        assert_eq!(expanded(file, line).unwrap(), format!("{line} --log=info"));
    }

    #[test]
    fn the_command_line_counts_first() {
        let file = "[solve]\ntol = 1e-6\noutput = \"x.npy\"\nworkers = 2";
        let line = "zellige solve a.mtx --tol=1e-3 -o y.npy --config FILE";
        assert_eq!(expanded(file, line).unwrap(), format!("{line} --workers=2"));
        assert_eq!(expanded("", "zellige solve -- a").unwrap(), "zellige solve -- a");
        let line = "zellige solve --config FILE -- a.mtx";
        assert_eq!(
            expanded("[solve]\ntol = 0.5", line).unwrap(),
            "zellige solve --config FILE --tol=0.5 -- a.mtx"
        );
    }

    #[test]
    fn slips_are_named() {
        for (file, said) in [
            ("[solve]\ntolerance = 1", "`solve.tolerance`: there is no option --tolerance"),
            ("[solv]\ntol = 1", "[solv] is not a command"),
            ("tol = ", "line 1"),
            ("tol = 2020-01-01", "`tol` is not a number"),
            ("config = \"x\"", "another file"),
        ] {
            let error = expanded(file, "zellige solve a.mtx --config FILE").unwrap_err();
            assert!(error.contains(said) && error.contains("z.toml"), "{file}: {error}");
        }
        assert!(expand(&Cli::command(), ["zellige", "--config", "/no"].map(OsString::from).into()).is_err());
    }
}
