//! Functions that run the command, and a small system as its input.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Folder of the performance models.
const CACHE: &str = ".cache";

/// Returns the command in `folder`, in an environment without settings that matter. Measurements of
/// runs are also stored in the folder.
pub fn zellige(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zellige"));
    command.current_dir(folder).stdin(Stdio::null()).env_remove("RUST_LOG").env_remove("NO_COLOR");
    command.env("XDG_CACHE_HOME", folder.join(CACHE));
    command
}

/// Exit code, standard output and standard error of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Splits a line into its words, such as the arguments of a command.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Runs the command with these arguments.
pub fn run(folder: &Path, arguments: &[&str]) -> Ran {
    finish(zellige(folder).args(arguments))
}

/// Returns the standard output of the command; fails the test if the exit code is not 0.
#[track_caller]
pub fn ok(folder: &Path, arguments: &[&str]) -> String {
    let ran = run(folder, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
    ran.stdout
}

/// Runs a command to its end.
pub fn finish(command: &mut Command) -> Ran {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    collect(child, Duration::from_secs(120))
}

/// Waits for a command, and kills it if it hangs.
pub fn collect(mut child: Child, limit: Duration) -> Ran {
    let (done, wait) = std::sync::mpsc::channel();
    let id = child.id();
    let begin = Instant::now();
    // Pipes must be read while waiting, or a talkative child would block.
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::spawn(move || {
        let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                if let Some(mut pipe) = pipe {
                    let _ = pipe.read_to_end(&mut text);
                }
                text
            })
        };
        let out = read(stdout.map(|p| Box::new(p) as _));
        let err = read(stderr.map(|p| Box::new(p) as _));
        let status = child.wait().expect("a child can be waited for");
        let output = Output { status, stdout: out.join().expect("read"), stderr: err.join().expect("read") };
        let _ = done.send(output);
    });
    match wait.recv_timeout(limit) {
        Ok(output) => Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        },
        Err(_) => {
            let pid = rustix::process::Pid::from_raw(id as i32).expect("a process number");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("the command was not done after {:.0} s", begin.elapsed().as_secs_f64());
        }
    }
}

/// Returns the results in the JSON of any verb, after a check of the file against the schema of the
/// envelope, and of each result against that of the verb.
#[track_caller]
pub fn results(text: &str) -> Value {
    let mut file: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let words: Vec<&str> = file["args"].as_array().expect("args").iter().filter_map(Value::as_str).collect();
    let verb = [3, 2, 1].map(|count| words[..count.min(words.len())].join("-"));
    let verb = verb.iter().find_map(|verb| validator(verb)).expect("a schema of the verb");
    let envelope = validator("envelope").expect("a schema of the envelope");
    let results = file["results"].as_array().expect("results");
    let problems: Vec<String> = envelope
        .iter_errors(&file)
        .chain(results.iter().flat_map(|result| verb.iter_errors(result)))
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(problems.is_empty(), "{words:?}: {problems:#?}");
    file["results"].take()
}

/// Returns the validator of a schema in the reference, if it is there.
fn validator(name: &str) -> Option<jsonschema::Validator> {
    let schemas = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/json"));
    let text = std::fs::read_to_string(schemas.join(format!("{name}.json"))).ok()?;
    let schema = serde_json::from_str(&text).expect("a schema");
    Some(jsonschema::validator_for(&schema).expect("a schema"))
}

/// Returns the single result in the JSON of any verb.
#[track_caller]
pub fn result(text: &str) -> Value {
    let mut results = results(text);
    assert_eq!(results.as_array().map(Vec::len), Some(1), "{results}");
    results[0].take()
}

/// Makes a folder with `small.toml`: the system of the demonstration with so many sub-apertures
/// across.
pub fn folder(nssp: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("small.toml"), system(nssp)).expect("a file");
    folder
}

/// Returns the text of `small.toml`.
pub fn system(nssp: usize) -> String {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../tor/systems/demo.toml");
    let text = std::fs::read_to_string(demo).expect("the demonstration's system");
    assert!(text.contains("nssp = 16 "), "the demonstration has changed");
    text.replace("nssp = 16 ", &format!("nssp = {nssp} "))
}

/// Lists a folder, with hidden files, but without `small.toml` and the measurements of runs.
pub fn left(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| PathBuf::from(entry.expect("an entry").file_name()))
        .filter(|name| name != Path::new("small.toml") && name != Path::new(CACHE))
        .collect();
    found.sort();
    found
}

impl Ran {
    /// Checks the exit code, and that nothing panicked.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }

    /// Checks that standard error contains this text.
    #[track_caller]
    pub fn says(self, part: &str) -> Ran {
        assert!(self.stderr.contains(part), "no {part:?} in {self:#?}");
        self
    }
}
