//! Logs of trials: searches that go on after a process was killed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use zellige_tune::{Data, Error, Measures, Options, OtherTrials, Outcome, Search, Trials};

use crate::landscapes::{Landscape, all, levels};

/// A landscape with some hundred trials.
fn landscape() -> Landscape {
    all().swap_remove(9)
}

fn options(log: &Path) -> Options {
    Options { log: Some(log.to_owned()), subject: "a test".into(), ..Options::default() }
}

/// Runs a search; returns its outcome without times, and the number of trials that ran.
fn search(landscape: &Landscape, options: &Options) -> Result<(Outcome, usize), Error> {
    let mut ran = 0;
    let trials = Trials::in_turn(|formats, _| {
        ran += 1;
        Ok(landscape.measures(&levels(formats)))
    });
    let mut outcome = Search::new(&landscape.space, trials, &landscape.acceptance).run(options)?;
    for trial in &mut outcome.trials {
        trial.seconds = 0.0;
        trial.logged = false;
    }
    Ok((outcome, ran))
}

/// A log that is cut at any byte is gone on with, and every complete line saves a trial.
#[test]
fn a_search_goes_on_from_every_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trials.jsonl");
    let landscape = all().swap_remove(7); // few trials
    let (whole, trials) = search(&landscape, &options(&path)).expect("an outcome");
    assert_eq!(whole.trials.len(), trials);
    let bytes = std::fs::read(&path).expect("a log");
    assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), trials + 1);
    for cut in 0..=bytes.len() {
        std::fs::write(&path, &bytes[..cut]).expect("a log");
        let (outcome, ran) = search(&landscape, &options(&path)).expect("an outcome");
        assert_eq!(outcome, whole, "cut at {cut}");
        let lines = bytes[..cut].iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(ran, trials - lines.saturating_sub(1), "cut at {cut}");
        let parsed = std::fs::read_to_string(&path).expect("a log");
        assert_eq!(parsed.lines().count(), trials + 1, "cut at {cut}");
    }
}

/// Trials outside of the space are kept in the same log, by their names and data; errors are not.
#[test]
fn other_trials_run_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trials.jsonl");
    let landscape = all().swap_remove(7);
    let (whole, trials) = search(&landscape, &options(&path)).expect("an outcome");
    let mut ran = 0;
    let mut results = || {
        let mut others = OtherTrials::open(&landscape.space, &options(&path)).expect("a log");
        let mut run = |data, name: &str, result: Result<Measures, String>| {
            let trial = || {
                ran += 1;
                if name == "stop" { Err(Error::Cancelled) } else { Ok(result) }
            };
            others.run(data, name, trial)
        };
        let measures = Measures::from([("error", 0.1 + 0.2)]);
        assert!(matches!(run(Data::Search, "stop", Ok(measures.clone())), Err(Error::Cancelled)));
        let one = run(Data::Search, "one", Ok(measures.clone())).expect("a result");
        assert_eq!(one, Ok(measures));
        let lost = run(Data::Verify, "one", Err("not definite".into())).expect("a result");
        assert_eq!(lost, Err("not definite".into()));
        assert_eq!(run(Data::Search, "one", Err("again".into())).expect("a result"), one);
        let bytes = std::fs::read(&path).expect("a log");
        (ran, bytes)
    };
    let (first, bytes) = results();
    let (second, again) = results();
    // The trial that ended with an error runs again.
    assert_eq!((first, second), (3, 4));
    assert_eq!(bytes, again);
    let (outcome, ran) = search(&landscape, &options(&path)).expect("an outcome");
    assert_eq!((outcome, ran), (whole, 0));
    assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), trials + 3);
}

#[test]
fn logs_of_other_searches_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trials.jsonl");
    let landscape = landscape();
    search(&landscape, &options(&path)).expect("an outcome");
    let other = Options { subject: "another".into(), ..options(&path) };
    let error = search(&landscape, &other).expect_err("refused").to_string();
    assert!(error.contains("the trials of another search"), "{error}");
    std::fs::write(&path, "no log").expect("a file");
    let error = search(&landscape, &options(&path)).expect_err("refused").to_string();
    assert!(error.contains("not a log of trials"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "no log");
}

/// Name of the variable with the path of the log, for the process that is killed.
const LOG: &str = "ZELLIGE_TUNE_TEST_LOG";

/// The process that is killed: a slow search.
#[test]
fn slow_search_of_the_killed_process() {
    let Some(path) = std::env::var_os(LOG) else { return };
    let landscape = landscape();
    let trials = Trials::in_turn(|formats, _| {
        std::thread::sleep(Duration::from_millis(3));
        Ok(landscape.measures(&levels(formats)))
    });
    let search = Search::new(&landscape.space, trials, &landscape.acceptance);
    search.run(&options(Path::new(&path))).expect("an outcome");
}

/// A search in a process that is killed a few times ends as one that was not.
#[test]
fn a_search_survives_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trials.jsonl");
    let landscape = landscape();
    let (whole, trials) = search(&landscape, &Options::default()).expect("an outcome");
    let mut sizes = vec![0];
    for _ in 0..3 {
        let program = std::env::current_exe().expect("this test");
        let mut process = Command::new(program)
            .args(["--exact", "log::slow_search_of_the_killed_process"])
            .env(LOG, &path)
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        let begin = Instant::now();
        let size = || std::fs::metadata(&path).map_or(0, |file| file.len());
        let last = sizes[sizes.len() - 1];
        while size() < last + 800 && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        process.kill().expect("a process to kill");
        process.wait().expect("its end");
        sizes.push(size());
    }
    assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
    let (outcome, ran) = search(&landscape, &options(&path)).expect("an outcome");
    assert_eq!(outcome, whole);
    assert!(ran < trials, "{ran} of {trials}");
}
