//! `zellige completions` and `zellige man`: completion scripts and manual pages, generated from the
//! definition of the command.

use std::io::Write;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::out;

/// Prints a completion script.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "zellige", &mut script);
    out::print_bytes(&script)
}

/// Prints the manual page, or writes the pages of all verbs.
///
/// # Errors
/// An output cannot be written.
pub fn man(args: &ManArgs) -> anyhow::Result<()> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages)?;
    let Some(folder) = &args.output else { return out::print_bytes(&pages[0].1) };
    zellige_files::make_folder(folder)?;
    for (name, page) in &pages {
        zellige_files::write_whole(&folder.join(name), |file| file.write_all(page))?;
    }
    out::print(&format!("{} pages\nwritten: {}\n", pages.len(), folder.display()))
}

/// Renders the page of a verb and the pages of all verbs within it.
fn collect(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let mut page = Vec::new();
    Man::new(command.clone()).title(name.clone()).render(&mut page)?;
    pages.push((format!("{name}.1"), page));
    command.get_subcommands().try_for_each(|inner| collect(inner, pages))
}
