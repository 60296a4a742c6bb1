//! `zellige tune command`: trials are runs of the user's program.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value;
use zellige_tune::{Assignment, Data, Item, Measures, Space, Trials};

use super::Tuning;
use crate::args::TuneCommand;
use crate::exit::CommandError;
use crate::interrupt;
use crate::run::Run;

/// Variable with the data of the trial: `search` or `verify`.
const DATA: &str = "ZELLIGE_TUNE_DATA";
/// Largest output of a command that is read, in bytes.
const OUTPUT: u64 = 16 << 20;
/// Longest time between two looks at a command.
const LOOK: Duration = Duration::from_millis(20);

/// File of items.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Items {
    /// Unit of the predicted costs.
    #[serde(default)]
    unit: Option<String>,
    items: Vec<Item>,
}

/// Tunes a program.
///
/// # Errors
/// Items that cannot be read, and the errors of [`super::run`].
pub fn run(args: &TuneCommand) -> anyhow::Result<()> {
    let items = read_items(args)?;
    let space = Space::new(items.items).map_err(|error| of_items(args, &error))?;
    let Some(accept) = &args.search.accept else {
        return Err(
            CommandError::option("--accept", "is needed, e.g. --accept 'error <= 2 * REF.error'").into()
        );
    };
    let cost = |formats: &Assignment, measures: &Measures| match &args.cost {
        Some(cost) => cost.value(measures),
        None => formats.cost(),
    };
    let unit = match &args.cost {
        Some(cost) => cost.text().to_owned(),
        None => items.unit.unwrap_or_else(|| "cost".into()),
    };
    let tuning = Tuning {
        space: &space,
        accept,
        unit: &unit,
        cost: &cost,
        subject: args.trial.clone(),
        verify: args.verify,
    };
    let run = Run::on_cpu(Some(args.at_once), &args.outputs)?;
    let program =
        Program { command: args.trial.clone(), timeout: args.trial_timeout.map(Duration::from_secs_f64) };
    let cost = args.cost.clone();
    let trial = move |formats: &Assignment, data: Data| {
        let measures = program.run(formats, data)?;
        // A wrong name is reported with the names that there are.
        cost.as_ref()
            .map_or(Ok(()), |cost| cost.check(&measures))
            .map_err(|error| format!("--cost: {error}"))?;
        Ok(measures)
    };
    let trials = match args.at_once {
        1 => Trials::in_turn(trial),
        count => Trials::in_tasks(run.runtime(), usize::from(count), trial),
    };
    let outcome = tuning.search(&run, &args.search, trials)?;
    let file = args.search.output.as_ref().filter(|output| !output.is_stdout());
    let repeat = file.map(|file| args.trial.replace("{}", &quoted(&file.display().to_string())));
    tuning.write(
        run,
        &args.search,
        &format!("zellige tune command {}", args.items.display()),
        outcome,
        repeat,
    )
}

fn read_items(args: &TuneCommand) -> anyhow::Result<Items> {
    let name = || args.items.display().to_string();
    let bytes = std::fs::read(&*args.items).with_context(name)?;
    serde_json::from_slice(&bytes).map_err(|error| of_items(args, &error))
}

fn of_items(args: &TuneCommand, error: &dyn std::error::Error) -> anyhow::Error {
    CommandError::Argument(format!("{}: {error}", args.items.display())).into()
}

/// A word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The user's program.
struct Program {
    command: String,
    timeout: Option<Duration>,
}

impl Program {
    /// Runs a trial; returns what it has measured, or why it failed.
    fn run(&self, formats: &Assignment, data: Data) -> Result<Measures, String> {
        let system = |error: std::io::Error| format!("the trial cannot run: {error}");
        let mut file = tempfile::Builder::new().suffix(".json").tempfile().map_err(system)?;
        let json = serde_json::to_vec(formats).map_err(|error| error.to_string())?;
        file.write_all(&json).and_then(|()| file.flush()).map_err(system)?;
        // Files, not pipes: a pipe stays open while a process that the command leaves behind runs.
        let (mut out, mut err) =
            (tempfile::tempfile().map_err(system)?, tempfile::tempfile().map_err(system)?);
        let begin = Instant::now();
        let child = Command::new("sh")
            .arg("-c")
            .arg(self.command.replace("{}", &quoted(&file.path().display().to_string())))
            .env(DATA, if data == Data::Search { "search" } else { "verify" })
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(system)?)
            .stderr(err.try_clone().map_err(system)?)
            .process_group(0)
            .spawn()
            .map_err(system)?;
        let status = self.wait(child, begin)?;
        let seconds = begin.elapsed().as_secs_f64();
        if !status.success() {
            let said = text(&mut err).trim_end().lines().last().map(|line| format!(": {line}"));
            return Err(format!("{status}{}", said.unwrap_or_default()));
        }
        let mut measures = measures(&text(&mut out))?;
        measures.insert("trial_seconds", seconds, 0.0);
        Ok(measures)
    }

    /// Waits for the command, and ends it with all that it has started after the time limit or
    /// Ctrl-C.
    fn wait(&self, mut child: Child, begin: Instant) -> Result<ExitStatus, String> {
        let group = Pid::from_raw(child.id() as i32);
        let mut pause = Duration::from_micros(200);
        loop {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => return Ok(status),
                Err(error) => return Err(format!("the trial cannot be waited for: {error}")),
            }
            let late = self.timeout.filter(|&timeout| begin.elapsed() > timeout);
            if late.is_some() || interrupt::seen() {
                // The group may have ended just now.
                let _ = killpg(group, Signal::SIGKILL);
                let _ = child.wait();
                return Err(match late {
                    Some(timeout) => format!("no result in {} s", timeout.as_secs_f64()),
                    None => "interrupted".into(),
                });
            }
            std::thread::sleep(pause);
            pause = LOOK.min(pause * 2);
        }
    }
}

/// Reads what a command has written.
fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // A text that cannot be read is empty, and no measures are found in it.
    let _ = file.rewind().and_then(|()| file.take(OUTPUT).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses the output of a command: one JSON object, or a last line that is one.
fn measures(text: &str) -> Result<Measures, String> {
    let object = |text: &str| serde_json::from_str(text).ok().filter(Value::is_object);
    let line = || text.trim_end().lines().last().and_then(object);
    match object(text).or_else(line) {
        Some(value) => Ok(Measures::from_json(&value)),
        None => {
            let begin: String = text.trim().chars().take(60).collect();
            Err(if begin.is_empty() {
                "it printed nothing".into()
            } else {
                format!("it printed no JSON object: {begin}")
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, timeout: Option<f64>) -> Result<Measures, String> {
        let space = Space::new(vec![Item::new("a b", "", [("low", 1.0)])]).expect("an item");
        let program = Program { command: command.into(), timeout: timeout.map(Duration::from_secs_f64) };
        program.run(&space.reference(), Data::Verify)
    }

    #[test]
    fn commands_get_formats_and_data() {
        let echo = r#"grep -q '"a b":"low"' {} && echo working && echo "{\"$ZELLIGE_TUNE_DATA\": 1, \"x\": {\"y\": [2]}}""#;
        let measures = run(echo, None).expect("measures");
        assert_eq!(measures.names(), ["trial_seconds", "verify", "x.y.0"]);
    }

    #[test]
    fn failures_have_a_reason() {
        for (command, said) in [
            (": {}; echo no memory >&2; exit 3", "exit status: 3: no memory"),
            (": {}", "it printed nothing"),
            ("echo hello {}", "it printed no JSON object: hello"),
            ("echo '[1]' {}", "it printed no JSON object: [1]"),
            ("kill -9 $$ {}", "signal: 9"),
            ("no-such-program {}", "exit status: 127"),
        ] {
            let reason = run(command, None).expect_err(command);
            assert!(reason.contains(said), "{command}: {reason}");
        }
    }

    /// A command that hangs is ended with what it has started.
    #[test]
    fn time_is_limited() {
        let begin = Instant::now();
        let reason = run(": {}; sleep 100 & sleep 100", Some(0.2)).expect_err("late");
        assert_eq!(reason, "no result in 0.2 s");
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
}
