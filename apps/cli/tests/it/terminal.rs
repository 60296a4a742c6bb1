//! The progress bar on a terminal. It is on standard error only, on one line at any width, out of
//! the way of messages, and removed at the end.
#![cfg(target_os = "linux")]

use crate::common::{folder, left, zellige};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Opens a terminal of so many columns, and the end that programs write to. If the system has no
/// terminals, prints a line and returns `None`.
fn terminal(columns: u16) -> Option<(File, File)> {
    let open = || -> rustix::io::Result<_> {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&screen)?;
        unlockpt(&screen)?;
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen, size)?;
        let name = ptsname(&screen, Vec::new())?;
        Ok((File::from(screen), name))
    };
    let opened = open().map_err(std::io::Error::from).and_then(|(screen, name)| {
        let path = Path::new(name.to_str().expect("the name of a terminal"));
        Ok((screen, File::options().read(true).write(true).open(path)?))
    });
    opened.map_err(|e| eprintln!("skipped: this system has no terminals: {e}")).ok()
}

/// Contents of a terminal of so many columns: text, line ends, and the control sequences that the
/// bar needs.
struct Screen {
    columns: usize,
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// Everything that was written.
    raw: String,
    /// Maximum number of lines in use at once, from the top.
    most: usize,
}

impl Screen {
    fn new(columns: u16) -> Screen {
        Screen { columns: columns.into(), lines: Vec::new(), row: 0, column: 0, raw: String::new(), most: 0 }
    }

    fn write(&mut self, text: &str) {
        self.raw.push_str(text);
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\r' => self.column = 0,
                '\n' => self.row += 1,
                '\u{1b}' => {
                    assert_eq!(rest.next(), Some('['), "{text:?}");
                    let sequence: String = rest.by_ref().take_while_inclusive(char::is_ascii_alphabetic);
                    self.control(&sequence);
                }
                c => self.put(c),
            }
        }
    }

    fn put(&mut self, c: char) {
        if self.column == self.columns {
            (self.row, self.column) = (self.row + 1, 0);
        }
        self.lines.resize_with(self.lines.len().max(self.row + 1), Vec::new);
        let line = &mut self.lines[self.row];
        line.resize(line.len().max(self.column + 1), ' ');
        line[self.column] = c;
        self.column += 1;
        self.most = self.most.max(self.row + 1);
    }

    fn control(&mut self, sequence: &str) {
        let (number, letter) = sequence.split_at(sequence.len() - 1);
        let count = number.parse().unwrap_or(1);
        match letter {
            "m" => {}
            "A" => self.row = self.row.saturating_sub(count),
            "B" => self.row += count,
            "K" if number == "2" => {
                if let Some(line) = self.lines.get_mut(self.row) {
                    line.clear();
                }
            }
            other => panic!("the test's terminal does not know {number}{other}"),
        }
    }

    /// Returns the visible lines that are not empty.
    fn seen(&self) -> Vec<String> {
        let text = self.lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_string());
        text.filter(|line| !line.is_empty()).collect()
    }
}

trait TakeWhileInclusive: Iterator<Item = char> {
    /// Returns the characters up to the first that `last` accepts, including that one.
    fn take_while_inclusive(&mut self, last: impl Fn(&char) -> bool) -> String {
        let mut taken = String::new();
        for c in self {
            taken.push(c);
            if last(&c) {
                break;
            }
        }
        taken
    }
}

impl<I: Iterator<Item = char>> TakeWhileInclusive for I {}

/// Runs a command with standard error on a terminal; `watch` sees the screen after each write.
fn on_terminal(
    command: &mut Command,
    columns: u16,
    mut watch: impl FnMut(&Screen, &Child),
) -> Option<(Screen, String, ExitStatus)> {
    let (mut master, slave) = terminal(columns)?;
    let mut child =
        command.env("TERM", "xterm").stdout(Stdio::piped()).stderr(Stdio::from(slave)).spawn().unwrap();
    // The command holds the last copy of the writing end, so that the reader here ends with it.
    command.stderr(Stdio::null());
    let mut pipe = child.stdout.take().unwrap();
    let stdout = std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    });
    let mut screen = Screen::new(columns);
    let (mut buffer, mut held) = ([0; 4096], Vec::new());
    // Reading from a terminal that no process has open any more is an error.
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        held.extend_from_slice(&buffer[..read]);
        // The blocks of the bar have several bytes each, and a read may split them or a control
        // sequence. Complete draws end with neither.
        if let Ok(text) = std::str::from_utf8(&held)
            && text.rfind('\u{1b}').is_none_or(|at| text[at..].contains(|c: char| c.is_ascii_alphabetic()))
        {
            screen.write(text);
            held.clear();
            watch(&screen, &child);
        }
    }
    assert!(held.is_empty(), "an unfinished end: {held:?}");
    let status = child.wait().unwrap();
    Some((screen, stdout.join().unwrap(), status))
}

/// Repeats one rule so many times.
fn rules(command: &mut Command, repeats: usize) -> &mut Command {
    command.args(["tor", "run", "small.toml", "--tile", "48", "--workers", "2"]);
    for _ in 0..repeats {
        command.args(["--precision", "hp1:operand=1e-2,else=x3"]);
    }
    command
}

/// Runs a successful command that is long enough for a bar.
fn with_bar(columns: u16, arguments: &[&str]) -> Option<(Screen, String)> {
    let folder = folder(10);
    // Short work shows no bar, so faster machines get more work.
    for repeats in [4, 16, 64, 256, 1024] {
        let mut command = zellige(folder.path());
        command.args(arguments).env("NO_COLOR", "1");
        let (screen, stdout, status) = on_terminal(rules(&mut command, repeats), columns, |_, _| {})?;
        assert!(status.success(), "{:?}", screen.raw);
        if screen.raw.contains('%') {
            return Some((screen, stdout));
        }
    }
    panic!("no bar at {columns} columns");
}

#[test]
fn the_bar_keeps_to_its_line_and_goes() {
    // The figures need more than 20 columns and wrap.
    for (columns, lines) in [(40, 1), (20, 2)] {
        let Some((screen, stdout)) = with_bar(columns, &[]) else {
            return;
        };
        assert!(stdout.contains("backward error") && !stdout.contains('\u{1b}'), "{stdout}");
        assert_eq!(screen.most, lines, "{columns} columns: {:?}", screen.raw);
        assert!(screen.seen().is_empty(), "{columns} columns: left {:?}", screen.seen());
    }
}

#[test]
fn an_interrupt_finds_a_clean_line() {
    let folder = folder(32);
    let mut command = zellige(folder.path());
    let mut sent = false;
    let ran = on_terminal(rules(&mut command, 4), 100, |screen, child| {
        if !sent && screen.raw.contains('%') {
            sent = true;
            kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
        }
    });
    let Some((screen, stdout, status)) = ran else {
        return;
    };
    assert_eq!(status.code(), Some(130), "{:?}", screen.raw);
    let expected = [
        "zellige: interrupted, cancelling tasks (press Ctrl-C again to end at once)",
        "error: interrupted: tasks cancelled, incomplete files removed",
    ];
    assert_eq!(screen.seen(), expected, "{:?}", screen.raw);
    assert!(stdout.is_empty() && left(folder.path()).is_empty());
}

#[test]
fn logs_do_not_mix_with_the_bar() {
    let Some((screen, _)) = with_bar(100, &["--log", "info"]) else {
        return;
    };
    let lines = screen.seen();
    assert!(lines.len() > 12 && lines.iter().all(|line| line.starts_with(" INFO stage=")), "{lines:#?}");
}
