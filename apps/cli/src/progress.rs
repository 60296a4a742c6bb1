//! A progress bar, on a terminal only, and only for work that takes a while.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use zellige_tor::pipeline::Observer;

use crate::interrupt;

/// Work that is done before this time shows no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows how far a run is, and lets Ctrl-C stop it.
pub struct Progress {
    begin: Instant,
    terminal: bool,
    state: Mutex<Stage>,
}

#[derive(Default)]
struct Stage {
    name: String,
    total: u64,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// For work that begins now.
    pub fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Progress { begin: Instant::now(), terminal, state: Mutex::default() }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = self.state.lock().bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Stage {
    fn show(&mut self) -> &ProgressBar {
        let (name, total) = (&self.name, self.total);
        self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            // The template is a constant: it parses, or the plain bar of the crate serves.
            if let Ok(style) = ProgressStyle::with_template("{msg:24} {bar:40} {percent:>3} %  {elapsed}") {
                bar.set_style(style);
            }
            bar.set_message(name.clone());
            bar
        })
    }
}

impl Observer for Progress {
    fn stage(&self, name: &str, total: u64) {
        tracing::info!(stage = name, steps = total);
        let mut state = self.state.lock();
        name.clone_into(&mut state.name);
        state.total = total;
        if let Some(bar) = &state.bar {
            bar.set_length(total);
            bar.set_position(0);
            bar.set_message(name.to_string());
        }
    }

    fn advance(&self, done: u64) {
        if self.terminal && self.begin.elapsed() >= PATIENCE {
            self.state.lock().show().set_position(done);
        }
    }

    fn warn(&self, text: &str) {
        match &self.state.lock().bar {
            Some(bar) => bar.suspend(|| eprintln!("warning: {text}")),
            None => eprintln!("warning: {text}"),
        }
    }

    fn cancelled(&self) -> bool {
        interrupt::seen()
    }
}
