//! Progress bar for long work, on a terminal only.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use zellige_files::observe::Observer;
use zellige_runtime::Runtime;

use crate::{bar, interrupt, out};

/// Time before a bar is shown; shorter work shows none.
const PATIENCE: Duration = Duration::from_secs(2);

/// Observer that shows the progress of a run, and stops it after Ctrl-C.
pub struct Progress<'r> {
    begin: Instant,
    terminal: bool,
    stage: Mutex<Stage>,
    /// Runtime whose trace gets the stages as phases.
    traced: Option<&'r Runtime>,
}

#[derive(Default)]
struct Stage {
    name: String,
    total: u64,
}

impl<'r> Progress<'r> {
    /// Starts the progress of work without a runtime.
    pub fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Progress { begin: Instant::now(), terminal, stage: Mutex::default(), traced: None }
    }

    /// Starts the progress of work on a runtime. Its trace gets the stages as phases.
    pub fn of(rt: &'r Runtime) -> Self {
        let mut progress = Progress::new();
        progress.traced = Some(rt);
        progress
    }

    fn bar(&self) -> ProgressBar {
        let stage = self.stage.lock();
        let bar = ProgressBar::with_draw_target(Some(stage.total), ProgressDrawTarget::stderr());
        // The template is a constant. If it did not parse, the default bar would be used. The
        // message comes last and takes the rest of the line, so that a narrow terminal cuts the
        // words and not the figures.
        if let Ok(style) = ProgressStyle::with_template("{bar:16} {percent:>3} %  {elapsed:>4}  {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_message(stage.name.clone());
        bar.with_elapsed(self.begin.elapsed())
    }

    /// Changes the name of the stage.
    pub fn say(&self, words: &str) {
        words.clone_into(&mut self.stage.lock().name);
        bar::change(|bar| bar.set_message(words.to_string()));
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        bar::clear();
    }
}

impl Observer for Progress<'_> {
    fn stage(&self, name: &str, total: u64) {
        tracing::info!(stage = name, steps = total);
        if let Some(rt) = self.traced {
            rt.phase(name);
        }
        {
            let mut stage = self.stage.lock();
            name.clone_into(&mut stage.name);
            stage.total = total;
        }
        bar::change(|bar| {
            bar.set_position(0);
            bar.set_length(total);
            bar.set_message(name.to_string());
        });
    }

    fn advance(&self, done: u64) {
        if self.terminal && self.begin.elapsed() >= PATIENCE {
            bar::show(|| self.bar(), done);
        }
    }

    fn warn(&self, text: &str) {
        out::note(&format!("warning: {text}"));
    }

    fn cancelled(&self) -> bool {
        interrupt::seen()
    }
}
