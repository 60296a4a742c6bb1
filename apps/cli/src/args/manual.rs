//! Options of `zellige completions` and `zellige man`.

use clap::Args;
use clap_complete::Shell;

use super::paths::OutputFolder;

pub(super) const COMPLETIONS: &str = "\
Examples
  zellige completions bash > ~/.local/share/bash-completion/completions/zellige
  zellige completions zsh > \"${fpath[1]}/_zellige\"
  zellige completions fish > ~/.config/fish/completions/zellige.fish";

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that reads the script.
    pub shell: Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder for the pages of all verbs, e.g. ~/.local/share/man/man1.
    #[arg(long, short, value_name = "FOLDER")]
    pub output: Option<OutputFolder>,
}
